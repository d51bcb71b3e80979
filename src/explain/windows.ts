/**
 * Windows of a series of any length for a policy trained on one length: they overlap, each is resampled to that length, and the answers
 * are mapped back and merged.
 */

import { ConfigError } from '../ground/errors.ts';
import type { Interval } from '../ground/types.ts';
import { valueAt } from '../series/augment.ts';
import { runs } from '../series/intervals.ts';
import type { Reader } from './reader.ts';

/** Maximum number of windows: a million samples in overlapping windows of 1000. Windows of longer series are longer. */
export const MOST_WINDOWS = 2048;
/** Longest window of a policy without a trained length: two samples per pixel of its figure. */
export const LONGEST_UNTRAINED = 2000;

interface WindowOptions {
  /** Samples per window, ≥ 2. */
  readonly size: number;
  /** Minimum overlap with the next window, in [0, 0.9]. */
  readonly overlap: number;
  /** Maximum number of windows; all of them grow to keep it. */
  readonly limit: number;
}

/**
 * Cuts [0, length) into windows of equal length, evenly spaced; a single one if the series is not longer than `size`. If `limit` windows of
 * `size` samples do not cover the series, they are longer.
 * @throws ConfigError for an option out of range
 */
export function cutWindows(length: number, options: WindowOptions): Interval[] {
  const { overlap, limit } = options;
  if (!(Number.isInteger(options.size) && options.size >= 2)) {
    throw new ConfigError(`window: expected a whole number of at least 2 samples, got ${options.size}`);
  }
  if (!(overlap >= 0 && overlap <= 0.9)) {
    throw new ConfigError(`overlap: expected a share from 0 to 0.9, got ${overlap}`);
  }
  if (!(Number.isInteger(limit) && limit >= 2)) {
    throw new ConfigError(`limit: expected a whole number of at least 2 windows, got ${limit}`);
  }
  if (length <= options.size) return [[0, length]];
  // `limit` windows that overlap by the given share reach over 1 + (limit − 1)(1 − overlap) of their length.
  const size = Math.max(options.size, Math.ceil(length / (1 + (limit - 1) * (1 - overlap))));
  if (size >= length) return [[0, length]];
  const count = Math.min(limit, 1 + Math.ceil((length - size) / Math.max(1, size * (1 - overlap)) - 1e-9));
  return Array.from({ length: count }, (_, i): Interval => {
    const start = Math.round((i * (length - size)) / (count - 1));
    return [start, start + size];
  });
}

/** Factor between neighbouring scales. */
const COARSER = 4;

/**
 * Cuts windows of `size` samples, of 4 times as many, of 16 times and so on, up to one window: an anomaly longer than a window lies within a
 * coarser one. All scales together have 4/3 of the windows of the finest, and at most `limit`.
 * @throws ConfigError for an option out of range
 */
export function cutScales(length: number, { size, overlap, limit }: WindowOptions): Interval[][] {
  const scales = [
    cutWindows(length, { size, overlap, limit: Math.max(2, Math.floor(limit * (1 - 1 / COARSER)) - 16) }),
  ];
  while (scales.at(-1)!.length > 1) {
    const [[start, end]] = scales.at(-1)! as [Interval];
    scales.push(cutWindows(length, { size: COARSER * (end - start), overlap, limit }));
  }
  return scales;
}

/** Shortest and longest period in the training data, as shares of the trained length; see `windowSize`. */
const KNOWN_PERIODS = [1 / 36, 1 / 13] as const;
/** Periods per window otherwise. */
const PERIODS = 22;
/** Smallest window in samples. */
const SMALLEST = 100;

/**
 * Samples per window for a policy trained on series of `trained` points: that many, unless the period of the series (in samples; null:
 * none) is unlike those in the training data. Then 22 periods, at least 100 samples, so that a series sampled ten times finer looks the
 * same.
 *
 * The synthetic presets have 14 to 33 periods in a series. Measured with a nano policy (point F1 .635 at its own scale): nano5 stretched
 * to 2000 points .389 → .666, 4000 .239 → .649, 8000 .200 → .617, squeezed to 400 .572 → .597; at its own scale unchanged.
 * 16 or 30 periods, or a wider known range, were no better. A coarse view of the whole series beside
 * windows was worse in every case (at the trained scale .632 → .395; anomalies eight times longer .513 → .501), so there is none.
 */
export function windowSize(trained: number, period: number | null): number {
  if (period === null || (period >= trained * KNOWN_PERIODS[0] && period <= trained * KNOWN_PERIODS[1]))
    return trained;
  return Math.max(SMALLEST, Math.round(PERIODS * period));
}

/**
 * Resamples `values` [W] to `length` points: sample i owns the cell [i, i + 1) of W, point k the cell [k, k + 1)·W/length. More points are
 * interpolated linearly between the middles of samples; of fewer, each is the mean over its cell (point F1 .657 on stretched nano5,
 * against .649 for interpolation and .578 for a picture of all samples).
 */
export function resample(values: Float64Array, length: number): Float64Array {
  const width = values.length;
  if (width === length) return values;
  const out = new Float64Array(length); // [length]
  for (let k = 0; k < length; k++) {
    out[k] =
      width < length
        ? valueAt(values, ((k + 0.5) * width) / length - 0.5)
        : meanOver(values, (k * width) / length, ((k + 1) * width) / length);
  }
  return out;
}

/** Mean of the step function of the samples over [from, to). */
function meanOver(values: Float64Array, from: number, to: number): number {
  let sum = 0;
  for (let i = Math.floor(from); i < to && i < values.length; i++) {
    sum += values[i]! * (Math.min(to, i + 1) - Math.max(from, i));
  }
  return sum / (to - from);
}

/** Resamples a window to the length that the reader is asked about. */
export function shownOf(values: Float64Array, reader: Reader, [start, end]: Interval): Float64Array {
  return resample(values.subarray(start, end), reader.length ?? Math.min(end - start, LONGEST_UNTRAINED));
}

/** Least share of the votes at which a sample is anomalous. */
const MAJORITY = 0.5;

/**
 * Merges the answers over the series [0, length): a sample is anomalous if at least half of the readable windows over it flag it. With
 * neighbours that overlap by half, one of two is enough.
 *
 * Measured with a nano policy on series of 5000 points (60 of nano5's kind, 80 of AnomLLM), mean point / affiliation F1: no overlap
 * .297 / .577, a quarter .311 / .624, half .323 / .654, three quarters .335 / .594 at twice the cost. Asking for
 * more than half of the votes: .262 / .437. Not letting windows vote near their edges: .319 / .622 for a quarter
 * of the overlap, .310 / .558 for all of it (each sample answered by the window in whose middle it lies).
 */
export function mergeWindows(
  length: number,
  answers: readonly {
    readonly start: number;
    readonly end: number;
    readonly intervals: readonly Interval[] | null;
  }[],
): Interval[] {
  // Votes and windows, as differences along the series.
  const votes = new Int32Array(length + 1);
  const windows = new Int32Array(length + 1);
  const add = (into: Int32Array, [start, end]: Interval): void => {
    into[start]! += 1;
    into[end]! -= 1;
  };
  for (const { start, end, intervals } of answers) {
    if (intervals === null) continue;
    add(windows, [start, end]);
    for (const interval of intervals) add(votes, interval);
  }
  let flagged = 0;
  let readable = 0;
  return runs(length, (t) => {
    flagged += votes[t]!;
    readable += windows[t]!;
    return flagged > 0 && flagged >= MAJORITY * readable;
  });
}
