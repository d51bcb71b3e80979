/**
 * Areas under curves of a score for every point against intervals of truth, and the volume under the surface (Paparrizos et al. 2022,
 * "Volume under the surface: a new accuracy evaluation measure for time-series anomaly detection"), as TSB-AD computes it: the area under
 * a curve, averaged over buffers around the anomalies in which a near miss counts in part. With a window w a point at distance d ≤ ⌊w/2⌋
 * of an anomaly has the label √(1 − d/w), those of several anomalies added up to 1.
 */
import { DataError } from '../ground/errors.ts';
import type { Interval } from '../ground/types.ts';
import { clipAndMerge, coverage, overlap } from '../series/intervals.ts';
import { harmonicMean, NOTHING_RIGHT, type PrecisionRecall, trivially } from './range-based.ts';

/** @throws DataError for a score that is not finite */
export function checkScores(scores: ArrayLike<number>): void {
  for (let i = 0; i < scores.length; i++) {
    if (!Number.isFinite(scores[i]!)) {
      throw new DataError(`scores[${i}]: got ${scores[i]}, expected a finite number for every point`);
    }
  }
}

/** Anomalous and normal points with each distinct score, from the highest score down. */
interface Steps {
  readonly hits: readonly number[];
  readonly misses: readonly number[];
  readonly positives: number;
  readonly negatives: number;
}

function stepsOf(scores: Float64Array, truth: readonly Interval[]): Steps {
  checkScores(scores);
  const n = scores.length;
  const inside: number[] = [];
  for (const [start, end] of clipAndMerge(truth, n)) {
    for (let i = start; i < end; i++) inside.push(scores[i]!);
  }
  const anomalous = Float64Array.from(inside).sort();
  const all = Float64Array.from(scores).sort();
  const [hits, misses]: [number[], number[]] = [[], []];
  let a = anomalous.length - 1;
  for (let i = n - 1; i >= 0; ) {
    const value = all[i]!;
    let [here, of] = [0, 0];
    while (i >= 0 && all[i] === value) {
      i--;
      here++;
    }
    while (a >= 0 && anomalous[a] === value) {
      a--;
      of++;
    }
    hits.push(of);
    misses.push(here - of);
  }
  return { hits, misses, positives: anomalous.length, negatives: n - anomalous.length };
}

/**
 * Formula: average precision, Σ (Rₙ − Rₙ₋₁)·Pₙ over the thresholds from the highest down, equal scores together.
 * Range: [0, 1]; the share of anomalous points for a score without information. Edge cases: NaN without an anomalous point.
 * Example: scores [.9, .2, .8, .1], truth [[0, 1], [3, 4]] → .75.
 * Source: `average_precision_score` of scikit-learn; TSB-AD's AUC-PR.
 * @throws DataError for a score that is not finite
 */
export function averagePrecision(scores: Float64Array, truth: readonly Interval[]): number {
  const { hits, misses, positives } = stepsOf(scores, truth);
  let [right, predicted, area] = [0, 0, 0];
  for (const [i, of] of hits.entries()) {
    right += of;
    predicted += of + misses[i]!;
    area += (of / positives) * (right / predicted);
  }
  return positives === 0 ? Number.NaN : area;
}

/**
 * Formula: the share of pairs of an anomalous and a normal point in which the anomalous one has the higher score, equal scores half.
 * Range: [0, 1]; .5 for a score without information. Edge cases: NaN unless there are points of both kinds.
 * Example: scores [.9, .2, .8, .1], truth [[0, 1], [3, 4]] → .5.
 * Source: `roc_auc_score` of scikit-learn; TSB-AD's AUC-ROC.
 * @throws DataError for a score that is not finite
 */
export function rocArea(scores: Float64Array, truth: readonly Interval[]): number {
  const { hits, misses, positives, negatives } = stepsOf(scores, truth);
  let [right, area] = [0, 0];
  for (const [i, of] of hits.entries()) {
    area += misses[i]! * (right + of / 2);
    right += of;
  }
  return area / positives / negatives;
}

/** Default of the largest window, as in TSB-AD. */
export const VUS_WINDOW = 100;

interface VusOptions {
  /** The largest window, in points; the mean is over 0, 1, … window. Default 100. */
  readonly window?: number;
  /**
   * Scores that serve as thresholds: so many, evenly spaced by rank, or every one (`all`). Default 250, as in TSB-AD; between the two
   * the values differ in the third decimal.
   */
  readonly thresholds?: number | 'all';
}

interface Vus {
  readonly pr: number;
  readonly roc: number;
}

function checkWindow(window: number): void {
  if (Number.isInteger(window) && window >= 0 && window <= 100_000) return;
  throw new DataError(`VUS: a window of ${window} points, expected an integer from 0 to 100000`);
}

/** √(1 − d/w) for d = 0 … ⌊W/2⌋: [w][d]. */
function slopes(window: number): Float64Array[] {
  return Array.from({ length: window + 1 }, (_, w) =>
    Float64Array.from({ length: Math.floor(w / 2) + 1 }, (__, d) => (d === 0 ? 1 : Math.sqrt(1 - d / w))),
  );
}

/** Points outside of all events but within `reach` of some: by their distance to the nearest event, the nearest first. */
interface Buffer {
  readonly points: Float64Array; // [M]
  /** Distances of point m to the events within reach: `distances[offsets[m]]` … `distances[offsets[m + 1] − 1]`. */
  readonly offsets: Uint32Array; // [M + 1]
  readonly distances: Uint32Array;
  /** The least of them. */
  readonly nearest: Uint32Array; // [M]
}

function bufferOf(events: readonly Interval[], length: number, reach: number): Buffer {
  const points: number[] = [];
  const all: number[][] = [];
  /** Distances of a point between event j − 1 and event j. */
  const distancesAt = (point: number, j: number): number[] => {
    const nearby: number[] = [];
    for (let i = j - 1; i >= 0 && point - events[i]![1] + 1 <= reach; i--) {
      nearby.push(point - events[i]![1] + 1);
    }
    for (let i = j; i < events.length && events[i]![0] - point <= reach; i++) {
      nearby.push(events[i]![0] - point);
    }
    return nearby;
  };
  const add = (from: number, to: number, j: number): void => {
    for (let point = from; point < to; point++) {
      points.push(point);
      all.push(distancesAt(point, j));
    }
  };
  for (let j = 0; j <= events.length; j++) {
    const from = j === 0 ? 0 : events[j - 1]![1];
    const to = j === events.length ? length : events[j]![0];
    const afterLast = j === 0 ? from : Math.min(to, from + reach);
    const beforeNext = j === events.length ? to : Math.max(afterLast, to - reach);
    add(from, afterLast, j);
    add(beforeNext, to, j);
  }
  const least = all.map((distances) => Math.min(...distances));
  const order = Array.from(points, (_, m) => m).sort((a, b) => least[a]! - least[b]!);
  const offsets = new Uint32Array(points.length + 1);
  order.forEach((m, i) => {
    offsets[i + 1] = offsets[i]! + all[m]!.length;
  });
  const distances = new Uint32Array(offsets[points.length]!);
  order.forEach((m, i) => {
    distances.set(all[m]!, offsets[i]!);
  });
  return {
    points: Float64Array.from(order, (m) => points[m]!),
    offsets,
    distances,
    nearest: Uint32Array.from(order, (m) => least[m]!),
  };
}

/** Label of point m of a buffer. */
function labelAt({ offsets, distances }: Buffer, m: number, slope: Float64Array): number {
  let label = 0;
  for (let i = offsets[m]!; i < offsets[m + 1]!; i++) {
    const d = distances[i]!;
    if (d < slope.length) label += slope[d]!;
  }
  return Math.min(1, label);
}

/** Thresholds from the highest down. */
function thresholdsOf(sorted: Float64Array, count: number | 'all'): Float64Array {
  const n = sorted.length;
  if (count === 'all') return sorted.filter((value, i) => value !== sorted[i + 1]).reverse();
  const step = (n - 1) / (count - 1);
  return Float64Array.from({ length: count }, (_, k) => {
    const rank = k === count - 1 ? n - 1 : Math.floor(k * step);
    return sorted[n - 1 - rank]!;
  });
}

/** First place in [0, size) where a condition holds, which then holds for all later ones; `size` where there is none. */
function firstWhere(size: number, holds: (i: number) => boolean): number {
  let [low, high] = [0, size];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

/**
 * Formula: for every window w ≤ W and threshold, with labels as above, TP = Σ labels of the predicted points, P = anomalous points + half
 * of the labels of predicted points outside, recall = min(1, TP / P) · share of the buffered anomalies (those whose buffers meet are one)
 * that a prediction touches, precision = TP / predicted points, false positive rate = (predicted points − TP) / (N − P). PR = mean over w
 * of Σ ΔRecall · Precision, ROC = mean over w of the trapezoids, to (1, 1).
 * Range: [0, 1]. Edge cases: NaN unless there are anomalous and normal points.
 * Method: a point enters at one threshold and stays, so each window is one histogram over thresholds of the labels of the points near
 * anomalies: O(N log N + W·(labels + thresholds)) in place of O(W·thresholds·N).
 * Example: scores that are 1 inside of the truth and 0 elsewhere → 1 and 1.
 * Source: Paparrizos et al. 2022; agrees with TSB-AD 1.5 (`RangeAUC_volume_opt`).
 * @throws DataError for a score that is not finite, a window that is no integer ≥ 0, fewer than 2 thresholds
 */
export function volumeUnderSurface(
  scores: Float64Array,
  truth: readonly Interval[],
  options: VusOptions = {},
): Vus {
  const { window = VUS_WINDOW, thresholds: count = 250 } = options;
  checkWindow(window);
  checkScores(scores);
  if (count !== 'all' && !(Number.isInteger(count) && count >= 2)) {
    throw new DataError(`VUS: ${count} thresholds, expected an integer ≥ 2 or all`);
  }
  const n = scores.length;
  const events = clipAndMerge(truth, n);
  const positives = coverage(events);
  if (positives === 0 || positives === n) return { pr: Number.NaN, roc: Number.NaN };
  const sorted = Float64Array.from(scores).sort();
  const thresholds = thresholdsOf(sorted, count);
  const size = thresholds.length;
  const predicted = Float64Array.from(
    thresholds,
    (threshold) => n - firstWhere(n, (i) => sorted[i]! >= threshold),
  ); // [T]
  // First threshold at which each point near an anomaly is predicted.
  const reach = Math.floor(window / 2);
  const step = new Int32Array(n);
  const inside = new Float64Array(size); // anomalous points predicted at a threshold, [T]
  for (const [start, end] of events) {
    for (let i = Math.max(0, start - reach); i < Math.min(n, end + reach); i++) {
      step[i] = firstWhere(size, (k) => thresholds[k]! <= scores[i]!);
      if (i >= start && i < end) inside[step[i]!]!++;
    }
  }
  for (let k = 1; k < size; k++) inside[k]! += inside[k - 1]!;
  const buffer = bufferOf(events, n, reach);
  const steps = Int32Array.from(buffer.points, (point) => step[point]!);
  /** The first step that touches each event with its buffer so far. */
  const touched = events.map(([start, end]) => step.subarray(start, end).reduce((a, b) => Math.min(a, b)));
  const labels = new Float64Array(size);
  const existence = new Float64Array(size);
  let buffered = 0;
  let [pr, roc] = [0, 0];
  const slopeOf = slopes(window);
  for (let w = 0; w <= window; w++) {
    const half = Math.floor(w / 2);
    if (w === 0 || half > buffered) {
      buffered = half;
      existence.fill(0);
      let groups = 0;
      for (let j = 0; j < events.length; j++) {
        const [start, end] = events[j]!;
        if (half > 0) {
          if (start - half >= 0) touched[j] = Math.min(touched[j]!, step[start - half]!);
          if (end - 1 + half < n) touched[j] = Math.min(touched[j]!, step[end - 1 + half]!);
        }
      }
      for (let j = 0; j < events.length; ) {
        let least = touched[j]!;
        // Buffers that meet are one.
        while (j + 1 < events.length && events[j]![1] - 1 + half >= events[j + 1]![0] - half) {
          least = Math.min(least, touched[++j]!);
        }
        j++;
        existence[least]!++;
        groups++;
      }
      for (let k = 0, sum = 0; k < size; k++) {
        sum += existence[k]!;
        existence[k] = sum / groups;
      }
    }
    labels.fill(0);
    const slope = slopeOf[w]!;
    for (let m = 0; m < steps.length && buffer.nearest[m]! <= half; m++) {
      labels[steps[m]!]! += labelAt(buffer, m, slope);
    }
    let [near, recall, falseRate] = [0, 0, 0];
    for (let k = 0; k < size; k++) {
      near += labels[k]!;
      const right = inside[k]! + near;
      const all = positives + near / 2;
      const nextRecall = Math.min(1, right / all) * existence[k]!;
      const nextRate = (predicted[k]! - right) / (n - all);
      pr += (nextRecall - recall) * (right / predicted[k]!);
      roc += ((nextRate - falseRate) * (nextRecall + recall)) / 2;
      recall = nextRecall;
      falseRate = nextRate;
    }
    roc += ((1 - falseRate) * (1 + recall)) / 2;
  }
  return { pr: pr / (window + 1), roc: roc / (window + 1) };
}

/** Σ of the slopes of the first d distances: [w][d]; kept for the last window, since a set asks for one. */
let sums: { readonly window: number; readonly of: readonly Float64Array[] } | undefined;

function slopeSums(window: number): readonly Float64Array[] {
  if (sums?.window !== window) {
    const of = slopes(window).map((slope) => {
      const sum = new Float64Array(slope.length);
      for (let d = 1; d < slope.length; d++) sum[d] = sum[d - 1]! + slope[d]!;
      return sum;
    });
    sums = { window, of };
  }
  return sums.of;
}

/** Place of the first interval that ends after an index. */
const firstAfter = (index: number, intervals: readonly Interval[]): number =>
  firstWhere(intervals.length, (i) => intervals[i]![1] > index);

/** Sum of the labels of the predicted points outside of the events, whose buffers do not meet, by window: [W + 1]. */
function labelsApart(
  predicted: readonly Interval[],
  events: readonly Interval[],
  reach: number,
  window: number,
): Float64Array {
  const ranges: (readonly [from: number, to: number])[] = []; // distances that are predicted, both inclusive
  for (const [start, end] of events) {
    for (
      let i = firstAfter(start - reach, predicted);
      i < predicted.length && predicted[i]![0] < end + reach;
      i++
    ) {
      const [a, b] = predicted[i]!;
      const left = [Math.max(a, start - reach), Math.min(b, start)] as const;
      if (left[0] < left[1]) ranges.push([start - left[1] + 1, start - left[0]]);
      const right = [Math.max(a, end), Math.min(b, end + reach)] as const;
      if (right[0] < right[1]) ranges.push([right[0] - end + 1, right[1] - end]);
    }
  }
  const sum = slopeSums(window);
  const labels = new Float64Array(window + 1);
  if (ranges.length === 0) return labels;
  for (let w = 2; w <= window; w++) {
    const half = Math.floor(w / 2);
    const upTo = sum[w]!;
    for (const [from, to] of ranges) {
      if (from <= half) labels[w]! += upTo[Math.min(to, half)]! - upTo[from - 1]!;
    }
  }
  return labels;
}

/** Sum of the labels by window where buffers overlap: [W + 1]. */
function labelsTogether(
  predicted: readonly Interval[],
  events: readonly Interval[],
  length: number,
  reach: number,
  window: number,
): Float64Array {
  const buffer = bufferOf(events, length, reach);
  const inside = Uint8Array.from(buffer.points, (point) => {
    const next = predicted[firstAfter(point, predicted)];
    return next !== undefined && next[0] <= point ? 1 : 0;
  });
  const slopeOf = slopes(window);
  return Float64Array.from(slopeOf, (slope, w) => {
    let sum = 0;
    for (let m = 0; m < inside.length && buffer.nearest[m]! <= Math.floor(w / 2); m++) {
      if (inside[m] === 1) sum += labelAt(buffer, m, slope);
    }
    return sum;
  });
}

/**
 * VUS of predicted intervals instead of scores: precision and recall with the labels of `volumeUnderSurface`, averaged over the
 * windows 0, 1, … `window`.
 *
 * Formula: by window, precision = TP / predicted points, recall = min(1, TP / P), F1 their harmonic mean; then the mean of each.
 * Range: [0, 1]. Edge cases: as `rangeBased`. Time and memory do not depend on the length of series or intervals.
 * Example: predicted [[110, 120]], gold [[100, 110]], length 500 → F1 .636, though no point is right.
 * Source: TSB-AD's VUS-F (`metric_VUS_pred`), except that every window starts from the true labels: TSB-AD 1.5 keeps those of the
 * windows before, by which a near miss soon counts in full.
 * @throws DataError for a window that is no integer ≥ 0
 */
export function intervalVus(
  predicted: readonly Interval[] | null,
  gold: readonly Interval[],
  length: number,
  window: number = VUS_WINDOW,
): PrecisionRecall {
  checkWindow(window);
  const known = trivially(predicted, gold);
  if (known !== null) return known;
  const flagged = clipAndMerge(predicted!, length);
  if (flagged.length === 0) return NOTHING_RIGHT;
  const events = clipAndMerge(gold, length);
  const reach = Math.floor(window / 2);
  const disjoint = events.every(([start], j) => j === 0 || start - events[j - 1]![1] >= 2 * reach);
  const labels = disjoint
    ? labelsApart(flagged, events, reach, window)
    : labelsTogether(flagged, events, length, reach, window);
  const [positives, inside, all] = [coverage(events), overlap(flagged, events), coverage(flagged)];
  let [precision, recall, f1] = [0, 0, 0];
  for (let w = 0; w <= window; w++) {
    const right = inside + labels[w]!;
    const ofPredicted = right / all;
    const ofTruth = Math.min(1, right / (positives + labels[w]! / 2));
    precision += ofPredicted;
    recall += ofTruth;
    f1 += harmonicMean(ofPredicted, ofTruth);
  }
  return { precision: precision / (window + 1), recall: recall / (window + 1), f1: f1 / (window + 1) };
}
