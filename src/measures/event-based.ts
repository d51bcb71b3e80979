/** Measures of intervals that count anomalies as events, as TSB-AD computes them for predicted labels. */

import type { Interval } from '../ground/types.ts';
import { clipAndMerge, coverage, overlap } from '../series/intervals.ts';
import { harmonicMean, NOTHING_RIGHT, type PrecisionRecall, trivially } from './range-based.ts';

interface Counted {
  /** Gold events, sorted and disjoint. */
  readonly events: readonly Interval[];
  /** Those that a prediction touches. */
  readonly hit: readonly Interval[];
  /** Points predicted, and those of them that are anomalous. */
  readonly predicted: number;
  readonly right: number;
}

function count(predicted: readonly Interval[], gold: readonly Interval[], length: number): Counted | null {
  const found = clipAndMerge(predicted, length);
  if (found.length === 0) return null;
  const events = clipAndMerge(gold, length);
  const hit: Interval[] = [];
  let first = 0;
  for (const event of events) {
    while (first < found.length && found[first]![1] <= event[0]) first++;
    if (first < found.length && found[first]![0] < event[1]) hit.push(event);
  }
  return { events, hit, predicted: coverage(found), right: overlap(found, events) };
}

/**
 * Formula: recall = share of the gold intervals that a prediction touches; precision = share of the predicted points that are anomalous;
 * F1 their harmonic mean.
 * Range: [0, 1]. Edge cases: as `rangeBased`.
 * Example: predicted [[4, 8], [9, 20]], gold [[5, 15], [25, 27]], length 30 → precision .6, recall .5, F1 .545.
 * Source: TSB-AD's Event-based-F1 (`metric_EventF1PA`).
 */
export function eventBased(
  predicted: readonly Interval[] | null,
  gold: readonly Interval[],
  length: number,
): PrecisionRecall {
  const known = trivially(predicted, gold);
  if (known !== null) return known;
  const counted = count(predicted!, gold, length);
  if (counted === null) return NOTHING_RIGHT;
  const precision = counted.right / counted.predicted;
  const recall = counted.hit.length / counted.events.length;
  return { precision, recall, f1: harmonicMean(precision, recall) };
}

/**
 * Point F1 after point adjustment: a gold interval that one predicted point touches counts as found whole. Inflated: predictions at
 * random reach high values where anomalies are long, so it is only to be read beside papers that report it.
 *
 * Formula: point precision, recall and F1 of the predictions with every touched gold interval added.
 * Range: [0, 1]. Edge cases: as `rangeBased`.
 * Example: predicted [[14, 16]], gold [[5, 15]], length 30 → precision .909, recall 1, F1 .952; point F1 is .167.
 * Source: Xu et al. 2018; TSB-AD's PA-F1, which however never adjusts the first point of a series.
 */
export function pointAdjusted(
  predicted: readonly Interval[] | null,
  gold: readonly Interval[],
  length: number,
): PrecisionRecall {
  const known = trivially(predicted, gold);
  if (known !== null) return known;
  const counted = count(predicted!, gold, length);
  if (counted === null) return NOTHING_RIGHT;
  const right = coverage(counted.hit);
  const precision = right / (right + counted.predicted - counted.right);
  const recall = right / coverage(counted.events);
  return { precision, recall, f1: harmonicMean(precision, recall) };
}
