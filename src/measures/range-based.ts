/**
 * Range-based precision and recall (Tatbul et al. 2018, "Precision and recall for time series"): every interval earns for being touched
 * at all, for how much of it is covered, where, and by how many pieces. Beside them, the measures that count anomalies as events, as
 * TSB-AD computes them.
 */

import { DataError } from '../ground/errors.ts';
import type { Interval } from '../ground/types.ts';
import { clipAndMerge, coverage, overlap } from '../series/intervals.ts';

const POSITIONAL_BIASES = ['flat', 'front', 'middle', 'back'] as const;
/** Positional bias within an interval: flat, front, middle or back. */
export type PositionalBias = (typeof POSITIONAL_BIASES)[number];

/**
 * Share of its overlap that an interval keeps when several others overlap it: all (`one`), 1 / count (`reciprocal`), or what a function of the
 * count says, in [0, 1] (the `udf_gamma` of the reference implementation).
 */
type Cardinality = 'one' | 'reciprocal' | ((count: number) => number);

interface RangeBasedOptions {
  /** Share of the recall that being touched at all earns, in [0, 1]; precision has none. Default 0.2, as in TSB-AD. */
  readonly alpha?: number;
  /** Default `reciprocal`. */
  readonly cardinality?: Cardinality;
  /** Default `flat`. */
  readonly bias?: PositionalBias;
}

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

/** Σ of the weights of the first t points of an interval of `size` points. */
function weightOfFirst(t: number, size: number, bias: PositionalBias): number {
  switch (bias) {
    case 'flat':
      return t;
    case 'back':
      return (t * (t + 1)) / 2;
    case 'front':
      return t * size - (t * (t - 1)) / 2;
    case 'middle': {
      const half = Math.floor(size / 2);
      if (t <= half) return (t * (t + 1)) / 2;
      return (half * (half + 1)) / 2 + weightOfFirst(t, size, 'front') - weightOfFirst(half, size, 'front');
    }
  }
}

/** Mean reward of the `intervals` by those of `other`; both sorted and disjoint, `intervals` not empty. */
function meanReward(
  intervals: readonly Interval[],
  other: readonly Interval[],
  alpha: number,
  cardinality: Cardinality,
  bias: PositionalBias,
): number {
  let sum = 0;
  let first = 0; // those before it end before the current interval
  for (const [start, end] of intervals) {
    while (first < other.length && other[first]![1] <= start) first++;
    const size = end - start;
    const upTo = (index: number): number => weightOfFirst(index - start, size, bias);
    let covered = 0;
    let count = 0;
    for (let i = first; i < other.length && other[i]![0] < end; i++) {
      covered += upTo(Math.min(end, other[i]![1])) - upTo(Math.max(start, other[i]![0]));
      count++;
    }
    if (count === 0) continue;
    const kept =
      count === 1 || cardinality === 'one'
        ? 1
        : cardinality === 'reciprocal'
          ? 1 / count
          : cardinality(count);
    if (!(kept >= 0 && kept <= 1)) {
      throw new DataError(`cardinality: got ${kept} for ${count} intervals, expected a number from 0 to 1`);
    }
    sum += alpha + ((1 - alpha) * kept * covered) / upTo(end);
  }
  return sum / intervals.length;
}

/**
 * Formula: recall = mean over the gold intervals of α·[touched] + (1 − α)·γ(x)·ω, with x the number of predicted intervals that touch
 * it and ω its covered share, points weighed by `bias`; γ(1) = 1. Precision = the same mean over the predicted intervals with α = 0. F1
 * their harmonic mean.
 * Range: [0, 1]. Edge cases: intervals are clipped to [0, length) and merged first; null (unreadable) is 0; two empty lists are 1, one
 * empty list 0. Time and memory do not depend on the length of the intervals.
 * Example: predicted [[4, 8], [9, 20]], gold [[5, 15]], length 30, defaults → precision .602, recall .56.
 * Source: Tatbul et al. 2018; agrees with `prts` and, with the defaults, with TSB-AD's R-based-F1.
 * @throws DataError for an α outside [0, 1] and for a cardinality function that leaves it
 */
export function rangeBased(
  predicted: readonly Interval[] | null,
  gold: readonly Interval[],
  length: number,
  options: RangeBasedOptions = {},
): PrecisionRecall {
  const { alpha = 0.2, cardinality = 'reciprocal', bias = 'flat' } = options;
  if (!(alpha >= 0 && alpha <= 1)) {
    throw new DataError(`rangeBased: alpha is ${alpha}, expected a number from 0 to 1`);
  }
  const flagged = predicted === null ? null : clipAndMerge(predicted, length);
  if (flagged?.length === 0 && predicted!.length > 0) return NOTHING_RIGHT;
  const truth = clipAndMerge(gold, length);
  const known = trivially(flagged, truth);
  if (known !== null) return known;
  const precision = meanReward(flagged!, truth, 0, cardinality, bias);
  const recall = meanReward(truth, flagged!, alpha, cardinality, bias);
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
function eventMeasure(
  predictions: readonly Interval[] | null,
  gold: readonly Interval[],
  length: number,
  measure: (counted: Counted) => readonly [precision: number, recall: number],
): PrecisionRecall {
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
  return eventMeasure(predicted, gold, length, (counted) => [
    counted.right / counted.predicted,
    counted.touched / counted.events,
  ]);
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
  return eventMeasure(predicted, gold, length, ({ adjusted, predicted: points, right, gold: all }) => [
    adjusted / (adjusted + points - right),
    adjusted / all,
  ]);
}
