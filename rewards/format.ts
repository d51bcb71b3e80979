/** Format reward. */

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
