/** What a reward is, and the parts that several rewards share. */
import type { Gold, ParsedAnswer, Score } from '../src/ground/types.ts';

/** How intervals are graded in reinforcement where it is not AnomSeer's way; evaluation grades as the paper does. */
export interface RewardOptions {
  /** `mean_of_six`: mean of six localisation metrics (the paper); `point_f1`: point F1 alone; `f05_affiliation`: point F0.5 with affiliation F1. */
  readonly localisation: 'mean_of_six' | 'point_f1' | 'f05_affiliation';
  /**
   * Localisation on a normal series. `exact`: 1 without intervals, else 0 (the paper); `graded`: 1 / (1 + intervals predicted), so
   * that among wrong answers one with fewer false alarms earns more.
   */
  readonly normal: 'exact' | 'graded';
}

/** Grades answers of one kind against gold answers of that kind. */
export interface Reward<G extends Gold = Gold> {
  readonly name: string;
  /** Weights of the parts that scores may have; a part that a gold answer does not define is absent from its score. */
  readonly weights: Readonly<Record<string, number>>;
  /**
   * The weighted sum of the parts, in [0, 1]: the gold answer, well formed, earns 1.
   * @param length points of the series, N
   * @param options of intervals alone; the paper's way when absent
   * @param judged score of the extension, of classes alone; null: there is none
   * @throws DataError for a gold answer that is none of a series of `length` points
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
