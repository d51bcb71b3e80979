/** Class reward. */

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
