/** The rewards that a recipe can name; `define.ts` makes others. */
import { ConfigError, suggestion } from '../src/ground/errors.ts';
import type { Gold, ParsedAnswer, Score } from '../src/ground/types.ts';
import { localisation, localisationReward } from './localisation.ts';
import { accuracyReward, formatReward, type Reward, type RewardOptions } from './reward.ts';

/** A reward of one part, which may not apply to a gold answer. */
type PartReward = (
  answer: ParsedAnswer,
  gold: Gold,
  length: number,
  options?: RewardOptions,
) => number | null;

/** The kind's own reward, whatever its name. */
export const OWN_REWARD = 'task';

const PARTS: Readonly<Record<string, PartReward>> = {
  /** `formatReward`; applies always. */
  format: (answer) => formatReward(answer),
  /** `accuracyReward`; does not apply where the gold answer has no class. */
  accuracy: (answer, gold) =>
    'class' in gold && gold.class !== null ? accuracyReward(answer.class, gold.class) : null,
  /** `localisationReward`; does not apply where the gold answer has no intervals. */
  localisation: (answer, gold, length, options) => {
    if (!('intervals' in gold)) return null;
    const falseAlarms = gold.intervals.length > 0 ? null : (answer.intervals?.length ?? null);
    return localisationReward(localisation(answer.intervals, gold.intervals, length), options, falseAlarms);
  },
};

/** A reward by name, for answers of one kind. */
export interface NamedReward {
  readonly name: string;
  readonly weights: Readonly<Record<string, number>>;
  /** Null: it does not apply. */
  score(answer: ParsedAnswer, gold: Gold, length: number, options?: RewardOptions): Score | null;
}

/**
 * The reward of a name for answers whose own reward is `own`: `task` or its name, or a part alone: `format`, `accuracy`, `localisation`.
 * @throws ConfigError for any other name
 */
export function namedReward(name: string, own: Reward): NamedReward {
  if (name === OWN_REWARD || name === own.name) return own;
  const part = Object.hasOwn(PARTS, name) ? PARTS[name] : undefined;
  if (part !== undefined) {
    return {
      name,
      weights: { [name]: 1 },
      score: (answer, gold, length, options) => {
        const total = part(answer, gold, length, options);
        return total === null ? null : { total, parts: { [name]: total } };
      },
    };
  }
  const known = [OWN_REWARD, own.name, ...Object.keys(PARTS)];
  throw new ConfigError(
    `reward: no reward called ${name} for this data; known are ${known.join(', ')}, and files such as ./${name}.ts.${suggestion(name, known)}`,
  );
}
