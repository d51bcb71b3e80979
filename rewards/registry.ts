/** The table of rewards that a recipe can name. A reward is its file and one line here; `define.ts` makes users' own. */
import type { ReasoningGrader } from '../src/claims/reasoning.ts';
import { type Choice, choiceNames } from '../src/ground/choice.ts';
import { ConfigError, suggestion } from '../src/ground/errors.ts';
import type { Gold, ParsedAnswer, Score } from '../src/ground/types.ts';
import { anomseer, intervalReward } from './anomseer.ts';
import { question } from './question.ts';
import { accuracyReward, formatReward, type Reward, type RewardOptions } from './reward.ts';
import { timemaster } from './timemaster.ts';
import { truthReward } from './truth.ts';
import { variates } from './variates.ts';

/** Options of the answer kinds' rewards, and the grader of reasonings about the example, where it has facts. */
type RewardContext = RewardOptions & { readonly reasoning?: () => ReasoningGrader };

/** Computes a reward of one part; null where it does not apply. */
type PartReward = (
  answer: ParsedAnswer,
  gold: Gold,
  length: number,
  options?: RewardContext,
) => number | null;

/** One row: the reward of an answer kind, a part that applies to any kind, or neither, for the kind's own. */
interface RewardChoice extends Choice {
  readonly whole?: Pick<Reward, 'name'>;
  readonly part?: PartReward;
}

const TASK = 'task';

export const REWARDS = {
  task: { label: 'Reward of the task', summary: "the answer kind's own reward, one of the next four" },
  anomseer: {
    label: 'AnomSeer',
    summary: 'anomalies: 0.7 localisation + 0.2 class + 0.1 format',
    paper: 'AnomSeer',
    whole: anomseer,
  },
  timemaster: {
    label: 'TimeMaster',
    summary: 'classification: 0.9 accuracy + 0.1 format, + 0.5 judged advice where it is asked for',
    paper: 'TimeMaster',
    whole: timemaster,
  },
  variates: {
    label: 'Anomalous variates',
    summary: 'variates: 0.9 F1 over the set of channels + 0.1 format',
    paper: 'answers as in VisualTimeAnomaly, weights ours',
    whole: variates,
  },
  question: {
    label: 'Questions',
    summary: 'questions: 0.9 accuracy + 0.1 format',
    paper: "weights as TimeMaster's",
    whole: question,
  },
  format: {
    label: 'Format',
    summary: '1 where the response is well formed, else 0',
    paper: 'AnomSeer, TimeMaster',
    part: (answer) => formatReward(answer),
  },
  accuracy: {
    label: 'Accuracy',
    summary: '1 for the right class, else 0; does not apply without a gold class',
    paper: 'AnomSeer, TimeMaster',
    part: (answer, gold) =>
      'class' in gold && gold.class !== null ? accuracyReward(answer.class, gold.class) : null,
  },
  truth: {
    label: 'Truth',
    summary:
      'F1 of the facts that the reasoning states, against those of the expert trace; does not apply without such facts',
    part: (answer, _gold, _length, options) =>
      options?.reasoning === undefined ? null : truthReward(answer, options.reasoning()),
  },
  localisation: {
    label: 'Localisation',
    summary: 'agreement of intervals (rl.reward.localisation); does not apply without gold intervals',
    paper: 'AnomSeer',
    part: (answer, gold, length, options) =>
      'intervals' in gold ? intervalReward(answer, gold.intervals, length, options) : null,
  },
} as const satisfies Readonly<Record<string, RewardChoice>>;

const rows: Readonly<Record<string, RewardChoice>> = REWARDS;

/** Names that apply to data of any kind. */
export const COMMON_REWARDS = choiceNames(REWARDS).filter((name) => rows[name]!.whole === undefined);

/** A reward by name, for answers of one kind. */
export interface NamedReward {
  readonly name: string;
  readonly weights: Readonly<Record<string, number>>;
  /** Null where it does not apply. */
  score(answer: ParsedAnswer, gold: Gold, length: number, options?: RewardContext): Score | null;
}

/**
 * Returns the reward of a name for answers whose own reward is `own`.
 * @throws ConfigError for an unknown name, and for the reward of another answer kind
 */
export function namedReward(name: string, own: Reward): NamedReward {
  if (name === TASK || name === own.name) return own;
  const row = Object.hasOwn(rows, name) ? rows[name]! : undefined;
  if (row?.part !== undefined) {
    const { part } = row;
    return {
      name,
      weights: { [name]: 1 },
      score: (answer, gold, length, options) => {
        const total = part(answer, gold, length, options);
        return total === null ? null : { total, parts: { [name]: total } };
      },
    };
  }
  const known = [TASK, own.name, ...COMMON_REWARDS.filter((common) => common !== TASK)];
  const file = /^[\w-]+$/.test(name) ? name : 'my-reward';
  throw new ConfigError(
    `reward: no reward called ${name} for this data; known are ${known.join(', ')}, and files such as ./${file}.ts.${suggestion(name, known)}`,
  );
}
