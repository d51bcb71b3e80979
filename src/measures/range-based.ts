/**
 * Range-based precision and recall (Tatbul et al. 2018, "Precision and recall for time series"): every interval earns for being touched
 * at all, for how much of it is covered, where, and by how many pieces. Beside them, the measures that count anomalies as events, as
 * TSB-AD computes them.
 */

import type { Interval } from '../ground/types.ts';
import { clipAndMerge, coverage, overlap } from '../series/intervals.ts';

/** Share of the recall that being touched at all earns, as in TSB-AD; precision has none. */
const TOUCHED = 0.2;

/** Precision, recall and F1, each in [0, 1]. */
export interface PrecisionRecall {
  readonly precision: number;
  readonly recall: number;
  readonly f1: number;
}

export const NOTHING_RIGHT: PrecisionRecall = { precision: 0, recall: 0, f1: 0 };
const ALL_RIGHT: PrecisionRecall = { precision: 1, recall: 1, f1: 1 };

/** 2·P·R / (P + R); 0 where both are 0. */
export const harmonicMean = (precision: number, recall: number): number =>
  precision + recall === 0 ? 0 : (2 * precision * recall) / (precision + recall);

/**
 * Cases decided without looking at the intervals: an unreadable answer (null) scores 0, two empty lists agree, and of one
 * empty list and one that is not nothing is right. Null: there is something to compare.
 */
export function trivially(
  predicted: readonly Interval[] | null,
  gold: readonly Interval[],
): PrecisionRecall | null {
  if (predicted === null) return NOTHING_RIGHT;
  if (predicted.length === 0 && gold.length === 0) return ALL_RIGHT;
  return predicted.length === 0 || gold.length === 0 ? NOTHING_RIGHT : null;
}

/** Mean reward of the `intervals` by those of `others`; both sorted and disjoint, `intervals` not empty. */
function meanReward(intervals: readonly Interval[], others: readonly Interval[], alpha: number): number {
  let sum = 0;
  let first = 0; // the ones before it end before the current interval
  for (const [start, end] of intervals) {
    while (first < others.length && others[first]![1] <= start) first++;
    let covered = 0;
    let count = 0;
    for (let i = first; i < others.length && others[i]![0] < end; i++) {
      covered += Math.min(end, others[i]![1]) - Math.max(start, others[i]![0]);
      count++;
    }
    if (count > 0) sum += alpha + ((1 - alpha) * (1 / count) * covered) / (end - start);
  }
  return sum / intervals.length;
}

/**
 * Formula: recall = mean over the gold intervals of α·[touched] + (1 − α)·ω/x, with x the number of predicted intervals that touch it, ω
 * its covered share, and α = 0.2. Precision = the same mean over the predicted intervals with α = 0. F1 their harmonic mean.
 * Range: [0, 1]. Edge cases: intervals are clipped to [0, length) and merged first; null (unreadable) is 0; two empty lists are 1, one
 * empty list 0. Time and memory do not depend on the length of the intervals.
 * Example: predicted [[4, 8], [9, 20]], gold [[5, 15]], length 30 → precision .602, recall .56.
 * Source: Tatbul et al. 2018, with reciprocal cardinality and flat bias; agrees with `prts` and with TSB-AD's R-based-F1.
 */
export function rangeBased(
  predicted: readonly Interval[] | null,
  gold: readonly Interval[],
  length: number,
): PrecisionRecall {
  const flagged = predicted === null ? null : clipAndMerge(predicted, length);
  if (flagged?.length === 0 && predicted!.length > 0) return NOTHING_RIGHT;
  const truth = clipAndMerge(gold, length);
  const decided = trivially(flagged, truth);
  if (decided !== null) return decided;
  const precision = meanReward(flagged!, truth, 0);
  const recall = meanReward(truth, flagged!, TOUCHED);
  return { precision, recall, f1: harmonicMean(precision, recall) };
}

/** Counts of points and events from which the measures below are computed. */
interface Counted {
  readonly events: number;
  readonly touched: number;
  /** Points of all gold events, and of those that a prediction touches. */
  readonly gold: number;
  readonly adjusted: number;
  /** Points predicted, and those of them that are anomalous. */
  readonly predicted: number;
  readonly right: number;
}

/** Decides the trivial cases, and computes precision and recall of the others from counts. */
function eventMeasure(measure: (counted: Counted) => readonly [precision: number, recall: number]) {
  return (
    predictions: readonly Interval[] | null,
    gold: readonly Interval[],
    length: number,
  ): PrecisionRecall => {
    const decided = trivially(predictions, gold);
    if (decided !== null) return decided;
    const predicted = clipAndMerge(predictions!, length);
    if (predicted.length === 0) return NOTHING_RIGHT;
    const events = clipAndMerge(gold, length);
    const touched: Interval[] = [];
    let first = 0;
    for (const event of events) {
      while (first < predicted.length && predicted[first]![1] <= event[0]) first++;
      if (first < predicted.length && predicted[first]![0] < event[1]) touched.push(event);
    }
    const [precision, recall] = measure({
      events: events.length,
      touched: touched.length,
      gold: coverage(events),
      adjusted: coverage(touched),
      predicted: coverage(predicted),
      right: overlap(predicted, events),
    });
    return { precision, recall, f1: harmonicMean(precision, recall) };
  };
}

/**
 * Formula: recall = share of the gold intervals that a prediction touches; precision = share of the predicted points that are anomalous;
 * F1 their harmonic mean.
 * Range: [0, 1]. Edge cases: as `rangeBased`.
 * Example: predicted [[4, 8], [9, 20]], gold [[5, 15], [25, 27]], length 30 → precision .6, recall .5, F1 .545.
 * Source: TSB-AD's Event-based-F1 (`metric_EventF1PA`).
 */
export const eventBased = eventMeasure(({ right, predicted, touched, events }) => [
  right / predicted,
  touched / events,
]);

/**
 * Point F1 after point adjustment: a gold interval that one predicted point touches counts as found whole. Inflated: predictions at
 * random reach high values where anomalies are long, so it is only to be read beside papers that report it.
 *
 * Formula: point precision, recall and F1 of the predictions with every touched gold interval added.
 * Range: [0, 1]. Edge cases: as `rangeBased`.
 * Example: predicted [[14, 16]], gold [[5, 15]], length 30 → precision .909, recall 1, F1 .952; point F1 is .167.
 * Source: Xu et al. 2018; TSB-AD's PA-F1, which however never adjusts the first point of a series.
 */
export const pointAdjusted = eventMeasure(({ adjusted, predicted, right, gold }) => [
  adjusted / (adjusted + predicted - right),
  adjusted / gold,
]);
