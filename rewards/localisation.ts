/** Localisation reward: the six metrics of AnomSeer on the anomaly intervals of one series. */
import { DataError } from '../src/ground/errors.ts';
import type { Interval } from '../src/ground/types.ts';
import { clipAndMerge, coverage, overlap } from '../src/series/intervals.ts';
import { affiliationOf } from './affiliation.ts';
import type { RewardOptions } from './reward.ts';

/** Point-wise and affiliation metrics of one series, each in [0, 1]. */
export interface Localisation {
  readonly precision: number;
  readonly recall: number;
  readonly f1: number;
  readonly affiliationPrecision: number;
  readonly affiliationRecall: number;
  readonly affiliationF1: number;
}

const NONE: Localisation = {
  precision: 0,
  recall: 0,
  f1: 0,
  affiliationPrecision: 0,
  affiliationRecall: 0,
  affiliationF1: 0,
};
const ALL: Localisation = {
  precision: 1,
  recall: 1,
  f1: 1,
  affiliationPrecision: 1,
  affiliationRecall: 1,
  affiliationF1: 1,
};

/**
 * The six metrics, not rounded.
 *
 * Formula: over indices, precision = |P ∩ G| / |P|, recall = |P ∩ G| / |G|, F1 their harmonic mean; affiliation
 * metrics as in `affiliation` over the range [0, length].
 * Range: [0, 1] each. Edge cases: predictions are clipped to the series and merged first; nothing predicted
 * and nothing there: all 1; only one of the two, or an answer that could not be read (null): all 0. A prediction
 * that lies wholly outside the series predicts something, hence all 0 on a normal series too.
 * Example: predicted [[120, 180]], gold [[100, 150]], length 1000 → precision .5, recall .6, affiliation F1 .9757.
 * Source: AnomSeer's reward; Huet et al. 2022.
 * @throws DataError when a gold interval is empty or leaves the series.
 */
export function localisation(
  predicted: readonly Interval[] | null,
  gold: readonly Interval[],
  length: number,
): Localisation {
  for (const [start, end] of gold) {
    if (!(start >= 0 && start < end && end <= length)) {
      throw new DataError(
        `gold interval [${start}, ${end}] is not inside a series of ${length} points: correct the data set`,
      );
    }
  }
  if (predicted === null) return NONE;
  if (predicted.length === 0 && gold.length === 0) return ALL;
  const found = clipAndMerge(predicted, length);
  if (found.length === 0 || gold.length === 0) return NONE;
  const truth = clipAndMerge(gold, length);
  const shared = overlap(found, truth);
  const precision = shared / coverage(found);
  const recall = shared / coverage(truth);
  const affiliated = affiliationOf(found, truth, [0, length]);
  return {
    precision,
    recall,
    f1: shared === 0 ? 0 : (2 * precision * recall) / (precision + recall),
    affiliationPrecision: affiliated.precision,
    affiliationRecall: affiliated.recall,
    affiliationF1: affiliated.f1,
  };
}

/** Four decimals, exact ties to the even digit. */
function round4(value: number): number {
  const scaled = value * 10_000;
  const below = Math.floor(scaled);
  const rest = scaled - below;
  return (below + (rest > 0.5 || (rest === 0.5 && below % 2 === 1) ? 1 : 0)) / 10_000;
}

/** The reward as AnomSeer has it. */
export const PAPER: RewardOptions = { localisation: 'mean_of_six', normal: 'exact' };

/**
 * Formula: `mean_of_six`: mean of the six metrics of `localisation`, each rounded to four decimals; `point_f1`: their F1 over
 * indices, not rounded; `f05_affiliation`: mean of the point F0.5 = 1.25·P·R / (0.25·P + R), which counts precision more than recall, and the affiliation F1. With `normal: graded`, 1 / (1 + falseAlarms) on a normal series instead.
 * Range: [0, 1]. Edge cases: see `localisation`; an unreadable answer earns 0 on a normal series too, however it is graded.
 * Example: predicted [[120, 180]], gold [[100, 150]], length 1000 → (.5 + .6 + .5455 + .96 + .992 + .9757) / 6 = .7622, by point F1
 * .5455, by `f05_affiliation` (.5172 + .9757) / 2 = .7465; predicted [[120, 180], [400, 420]], gold none → 0, graded 1/3.
 * Source: `mean_of_six` and `exact` AnomSeer (weight 0.7). The mean of six is flat around the optimum: an answer twice as wide as a
 * gold interval of 50 points, which it covers, earns .849, by point F1 .667. `point_f1`, `f05_affiliation` and `graded` are ours.
 * @param falseAlarms intervals predicted on a normal series; null where the series has anomalies or the answer is unreadable
 */
export function localisationReward(
  metrics: Localisation,
  options: RewardOptions = PAPER,
  falseAlarms: number | null = null,
): number {
  if (options.normal === 'graded' && falseAlarms !== null) return 1 / (1 + falseAlarms);
  if (options.localisation === 'point_f1') return metrics.f1;
  if (options.localisation === 'f05_affiliation') {
    const { precision, recall, affiliationF1 } = metrics;
    const f05 = precision * recall === 0 ? 0 : (1.25 * precision * recall) / (0.25 * precision + recall);
    return (f05 + affiliationF1) / 2;
  }
  const sum =
    round4(metrics.precision) +
    round4(metrics.recall) +
    round4(metrics.f1) +
    round4(metrics.affiliationPrecision) +
    round4(metrics.affiliationRecall) +
    round4(metrics.affiliationF1);
  return sum / 6;
}
