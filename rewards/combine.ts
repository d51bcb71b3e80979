/** Several rewards as one. */
import { ConfigError } from '../src/ground/errors.ts';
import type { Score } from '../src/ground/types.ts';

/** One of the rewards that are combined. */
export interface CombinedReward {
  readonly name: string;
  /** 0: it is logged and does not count. */
  readonly weight: number;
  /** Weights of its parts within it, where the parts stand for it in the logs; null: it stands there by its own name. */
  readonly weights: Readonly<Record<string, number>> | null;
}

/**
 * Weights of what a combined score has in its parts: of a reward of the user its total, of one of ours its parts.
 * @throws ConfigError where two rewards have a part of the same name
 */
export function combinedWeights(rewards: readonly CombinedReward[]): Record<string, number> {
  const out: Record<string, number> = {};
  for (const { name, weight, weights } of rewards) {
    for (const [part, share] of Object.entries(weights ?? { [name]: 1 })) {
      if (Object.hasOwn(out, part)) {
        throw new ConfigError(
          `reward: two rewards have a part called ${part}, the second is ${name}; take one of them out, or rename a reward of your own`,
        );
      }
      out[part] = weight * share;
    }
  }
  return out;
}

/**
 * Formula: Σ wᵢ·sᵢ / Σ wᵢ over the rewards i that apply to the response, sᵢ their totals.
 * Range: that of the totals, [0, 1] where all are. Parts: of ours theirs; of a reward of the user its total under its name, and its
 * parts as `name.part`, which are logged and count nowhere.
 * Edge cases: a reward that does not apply (null) is left out with its weight, it is not 0; where none applies that has a weight above 0
 * the response has no reward (null). A single reward of weight 1 is itself, to the last bit.
 * Example: scores .8 and .5 with weights 1 and .2 → .9 / 1.2 = .75; the second null → .8.
 * Source: ours; AnomSeer and TimeMaster have fixed weights, TRL's weighted sum (`reward_weights`) leaves out what is None, too, but does not divide.
 */
export function combine(rewards: readonly CombinedReward[], scores: readonly (Score | null)[]): Score | null {
  let sum = 0;
  let divisor = 0;
  const parts: Record<string, number> = {};
  const notes: string[] = [];
  rewards.forEach(({ name, weight, weights }, i) => {
    const score = scores[i] ?? null;
    if (score === null) return;
    sum += weight * score.total;
    divisor += weight;
    if (weights === null) {
      parts[name] = score.total;
      for (const [part, value] of Object.entries(score.parts)) parts[`${name}.${part}`] = value;
    } else Object.assign(parts, score.parts);
    if (score.notes !== undefined) notes.push(`${name}: ${score.notes}`);
  });
  if (divisor === 0) return null;
  return { total: sum / divisor, parts, ...(notes.length === 0 ? {} : { notes: notes.join('\n') }) };
}
