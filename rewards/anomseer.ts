/** AnomSeer's reward: where the anomalies are, of which kind, and the form of the response. */
import type { AnomalyGold, Interval, ParsedAnswer, Score } from '../src/ground/types.ts';
import { localisation, localisationReward, PAPER } from './localisation.ts';
import { accuracyReward, formatReward, type Reward, type RewardOptions } from './reward.ts';

/** Weights of AnomSeer's reward; they sum to 1. */
export const ANOMALY_WEIGHTS = { localisation: 0.7, class: 0.2, format: 0.1 } as const;

/**
 * Formula: 0.7 · localisation + 0.2 · class + 0.1 · format; where the class is not known,
 * (0.7 · localisation + 0.1 · format) / 0.8, so that the right answer is worth 1 on every series.
 * Range: [0, 1]; parts `localisation`, `class` (only where it is known), `format`, each in [0, 1].
 * Edge cases: each part is earned on its own: an unreadable interval list loses localisation and format, the class
 * can still count; an empty list on a normal series earns the full localisation. A class that is not graded is still
 * part of the format: the prompt asks for one.
 * Example: predicted [[120, 180]] and the right class, gold [[100, 150]], length 1000, well formed → .83354; without a
 * known class → .79193.
 * `options` change what the localisation is, not its weight (`localisationReward`).
 * Source: AnomSeer's reward; leaving the class out is ours, for data sets that do not name it.
 * @throws DataError when a gold interval is empty or leaves the series of `length` points.
 */
export function anomalyReward(
  answer: ParsedAnswer,
  gold: { readonly intervals: readonly Interval[]; readonly class: string | null },
  length: number,
  options: RewardOptions = PAPER,
): Score {
  const weights = ANOMALY_WEIGHTS;
  const metrics = localisation(answer.intervals, gold.intervals, length);
  const falseAlarms = gold.intervals.length > 0 ? null : (answer.intervals?.length ?? null);
  const placed = localisationReward(metrics, options, falseAlarms);
  const format = formatReward(answer);
  if (gold.class === null) {
    // Divided by the sum as it is computed, not by 0.8: then the right answer is exactly 1.
    const total =
      (weights.format * format + weights.localisation * placed) / (weights.format + weights.localisation);
    return { total, parts: { localisation: placed, format } };
  }
  const named = accuracyReward(answer.class, gold.class);
  // Smallest weight first: in this order 0.1 + 0.2 + 0.7 is exactly 1 in floating point.
  const total = weights.format * format + weights.class * named + weights.localisation * placed;
  return { total, parts: { localisation: placed, class: named, format } };
}

export const anomseer: Reward<AnomalyGold> = {
  name: 'anomseer',
  weights: ANOMALY_WEIGHTS,
  score: anomalyReward,
};
