/** Interface of rewards, the parts that several share, and their combination. */
import { ConfigError } from '../src/ground/errors.ts';
import type { Gold, ParsedAnswer, Score } from '../src/ground/types.ts';

/** Grades of intervals and of false alarms in reinforcement, by name (`anomseer.ts`); evaluation grades as AnomSeer does. */
export interface RewardOptions {
  readonly localisation: 'mean_of_six' | 'point_f1' | 'f05_affiliation';
  readonly normal: 'exact' | 'graded';
}

/** Grades answers of one kind against gold answers of that kind. */
export interface Reward<G extends Gold = Gold> {
  readonly name: string;
  /** Weights of the parts that scores may have; a part that a gold answer does not define is absent from its score. */
  readonly weights: Readonly<Record<string, number>>;
  /**
   * Computes the weighted sum of the parts, in [0, 1]: the gold answer, well formed, earns 1.
   * @param length points of the series, N
   * @param options grades of intervals; those of the paper when absent
   * @param judged score of the extension of a classification; null where there is none
   * @throws DataError for a gold answer that does not fit a series of `length` points
   */
  score(
    answer: ParsedAnswer,
    gold: G,
    length: number,
    options?: RewardOptions,
    judged?: number | null,
  ): Score;
}

/**
 * Formula: 1 if the predicted class is the gold class, otherwise 0.
 * Range: {0, 1}. Edge cases: a missing class is 0. Case and white space are the reader's business: a lenient reading has made
 * 'Trend' to 'trend' before, a strict one has not. Does not depend on the format of the rest of the response.
 * Example: predicted 'trend', gold 'trend' → 1; predicted 'seasonal' → 0.
 * Source: AnomSeer (weight 0.2), TimeMaster (weight 0.9).
 */
export function accuracyReward(predicted: string | null, gold: string): number {
  return predicted === gold ? 1 : 0;
}

/**
 * Formula: 1 if the response is exactly the tagged parts, in order, each well formed; otherwise 0.
 * Range: {0, 1}. Edge cases: white space between parts is allowed, any other text outside them is not. Strict in every reading
 * of answers.
 * Example: `<think>t</think><answer>[]</answer><class>normal</class>` → 1; the same followed by "!" → 0.
 * Source: AnomSeer (weight 0.1), TimeMaster (weight 0.1).
 */
export function formatReward(answer: { readonly wellFormed: boolean }): number {
  return answer.wellFormed ? 1 : 0;
}

/** One reward of a combination. */
export interface CombinedReward {
  readonly name: string;
  /** 0: it is logged and does not count. */
  readonly weight: number;
  /** Weights of its parts, which are logged in its place; null: it is logged under its own name. */
  readonly weights: Readonly<Record<string, number>> | null;
}

/**
 * Weights of the parts of a combined score: of a user's reward its total, of a built-in one its parts.
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
