/** Robust statistics: summaries that a few wild values do not move, rules that name such values, Hampel's filter, running medians. */

import { ConfigError } from '../ground/errors.ts';
import { requireFinite, requireOption, requireWhole } from './checks.ts';
import { GAUSSIAN_MAD, moments, quantileInPlace, summarise } from './stats.ts';

export interface RobustSummary {
  readonly median: number;
  /** 1.4826·MAD: estimates σ where the bulk is normal. */
  readonly scaledMad: number;
  /** Third less first quartile. */
  readonly iqr: number;
  /** Mean without the lowest and the highest tenth. */
  readonly trimmedMean: number;
  /** Mean with those tenths drawn in to the nearest value that stays. */
  readonly winsorizedMean: number;
}

/** Mean of [N], N ≥ 1, without ⌊part·N⌋ values at each end, part in [0, 0.5) (scipy's `trim_mean`). */
export function trimmedMean(values: Float64Array, part: number): number {
  return trimmed(tails(values, part));
}

/** Mean of [N], N ≥ 1, with ⌊part·N⌋ values at each end set to the nearest that stays, part in [0, 0.5). */
export function winsorizedMean(values: Float64Array, part: number): number {
  return winsorized(tails(values, part));
}

interface Tails {
  readonly sorted: Float64Array; // [N]
  /** Values at each end. */
  readonly cut: number;
}

function tails(values: Float64Array, part: number): Tails {
  requireFinite(values, 'robust mean');
  requireOption(part >= 0 && part < 0.5, 'robust mean part', part, '[0, 0.5)');
  if (values.length === 0) throw new ConfigError('robust mean: got no values, expected at least one');
  return { sorted: values.slice().sort(), cut: Math.floor(part * values.length) };
}

function trimmed({ sorted, cut }: Tails): number {
  return moments(sorted, cut, sorted.length - cut).mean;
}

/** Overwrites the tails. */
function winsorized({ sorted, cut }: Tails): number {
  sorted.fill(sorted[cut]!, 0, cut);
  sorted.fill(sorted[sorted.length - 1 - cut]!, sorted.length - cut);
  return moments(sorted).mean;
}

/** Robust summary of [N], N ≥ 1. Throws a DataError for values that are not finite. O(N log N). */
export function summariseRobustly(values: Float64Array): RobustSummary {
  const both = tails(values, 0.1);
  const { median, mad, q1, q3 } = summarise(values);
  return {
    median,
    scaledMad: GAUSSIAN_MAD * mad,
    iqr: q3 - q1,
    trimmedMean: trimmed(both),
    winsorizedMean: winsorized(both),
  };
}

/** Factor of the modified z-score: Φ⁻¹(¾), rounded as published. */
const MODIFIED = 0.6745;

export interface Outliers {
  /** |x − mean| > 3σ. */
  readonly byZ: readonly number[];
  /** More than 1.5 interquartile ranges outside the quartiles (Tukey 1977). */
  readonly byFence: readonly number[];
  /** 0.6745·|x − median| / MAD > 3.5 (Iglewicz & Hoaglin 1993); none where the MAD is 0. */
  readonly byModifiedZ: readonly number[];
}

/** Indices of the outliers of [N], N ≥ 1, by three common rules. Throws a DataError for values that are not finite. O(N). */
export function outlierIndices(values: Float64Array): Outliers {
  requireFinite(values, 'outliers');
  const { mean, std, median, mad, q1, q3 } = summarise(values);
  const fence = 1.5 * (q3 - q1);
  const where = (is: (value: number) => boolean): number[] => {
    const indices: number[] = [];
    for (let i = 0; i < values.length; i++) if (is(values[i]!)) indices.push(i);
    return indices;
  };
  return {
    byZ: where((value) => Math.abs(value - mean) > 3 * std),
    byFence: where((value) => value < q1 - fence || value > q3 + fence),
    byModifiedZ: where((value) => mad > 0 && MODIFIED * Math.abs(value - median) > 3.5 * mad),
  };
}

export interface HampelOptions {
  /** Neighbours on each side, ≥ 1; default 5. At the ends the window is cut off. */
  readonly half?: number;
  /** Deviations beyond this many scaled MADs are outliers, ≥ 0; default 3. */
  readonly sigmas?: number;
}

export interface HampelFilter {
  /** The series with each outlier replaced by the median of its window. */
  readonly filtered: Float64Array; // [N]
  /** Indices of the outliers, ascending. */
  readonly outliers: Int32Array;
}

/**
 * Hampel filter of [N] (Hampel 1974; Pearson et al. 2016): x[i] is an outlier if |x[i] − median| > sigmas · 1.4826 · MAD of the window
 * i − half … i + half. Where more than half of a window is equal, its MAD is 0 and any other value an outlier. Throws a
 * ConfigError for options out of range and a DataError for values that are not finite. Expected cost O(N · half).
 */
export function hampel(values: Float64Array, options: HampelOptions = {}): HampelFilter {
  requireFinite(values, 'Hampel filter');
  const { half = 5, sigmas = 3 } = options;
  requireWhole('Hampel half', half, 1);
  requireOption(sigmas >= 0, 'Hampel sigmas', sigmas, 'a number ≥ 0');
  const filtered = values.slice();
  const outliers: number[] = [];
  deviateFromWindows(values, half, (i, deviation, scale, middle) => {
    if (deviation <= sigmas * scale) return;
    filtered[i] = middle;
    outliers.push(i);
  });
  return { filtered, outliers: Int32Array.from(outliers) };
}

/** Visits each value that differs from the median of its window, with that deviation and the window's scaled MAD. */
function deviateFromWindows(
  values: Float64Array,
  half: number,
  visit: (index: number, deviation: number, scale: number, median: number) => void,
): void {
  const n = values.length;
  const window = new Float64Array(Math.min(n, 2 * half + 1));
  for (let i = 0; i < n; i++) {
    const first = Math.max(0, i - half);
    const size = Math.min(n, i + half + 1) - first;
    for (let k = 0; k < size; k++) window[k] = values[first + k]!;
    const middle = quantileInPlace(window, size, 0.5);
    const deviation = Math.abs(values[i]! - middle);
    if (deviation === 0) continue;
    for (let k = 0; k < size; k++) window[k] = Math.abs(values[first + k]! - middle);
    visit(i, deviation, GAUSSIAN_MAD * quantileInPlace(window, size, 0.5), middle);
  }
}

/**
 * |x[i] − median| in scaled MADs of the window i − half … i + half, as `hampel` compares it [N]; at most 1e6, which stands for any deviation
 * where the MAD is 0.
 */
export function hampelScore(values: Float64Array, half = 5): Float64Array {
  requireFinite(values, 'Hampel score');
  requireWhole('Hampel half', half, 1);
  const scores = new Float64Array(values.length);
  deviateFromWindows(values, half, (i, deviation, scale) => {
    scores[i] = Math.min(1e6, deviation / scale);
  });
  return scores;
}

// Running medians: each window is kept sorted, and one value of it replaced at a time.

/** Median of the first `count` values, which are sorted; interpolated between the middle two, as in `quantileInPlace`. */
function middleOf(sorted: Float64Array, count: number): number {
  const below = (count - 1) >> 1;
  const low = sorted[below]!;
  return count % 2 === 1 ? low : low + 0.5 * (sorted[below + 1]! - low);
}

/** Puts a value at its place among the first `count`, which are sorted. */
function insert(sorted: Float64Array, count: number, value: number): void {
  let place = count;
  for (; place > 0 && sorted[place - 1]! > value; place--) sorted[place] = sorted[place - 1]!;
  sorted[place] = value;
}

/** Replaces one of the first `count` values, which are sorted and stay so. */
function replace(sorted: Float64Array, count: number, leaving: number, entering: number): void {
  let place = 0;
  for (let high = count - 1; place < high; ) {
    const middle = (place + high) >> 1;
    if (sorted[middle]! < leaving) place = middle + 1;
    else high = middle;
  }
  for (; place + 1 < count && sorted[place + 1]! < entering; place++) sorted[place] = sorted[place + 1]!;
  for (; place > 0 && sorted[place - 1]! > entering; place--) sorted[place] = sorted[place - 1]!;
  sorted[place] = entering;
}

/**
 * Median of every window of `window` samples of [N], of which every `stride`-th is taken, the first one of the window always: [N − window
 * + 1], empty for a shorter series. Values must be finite. O(N·window/stride) at most, far less where neighbours are alike.
 */
export function runningMedians(values: Float64Array, window: number, stride = 1): Float64Array {
  const starts = Math.max(0, values.length - window + 1);
  const medians = new Float64Array(starts);
  const count = Math.ceil(window / stride);
  const sorted = new Float64Array(count);
  // Windows a stride apart differ in one value; those in between share none with them.
  for (let first = 0; first < Math.min(stride, starts); first++) {
    for (let k = 0; k < count; k++) insert(sorted, k, values[first + k * stride]!);
    medians[first] = middleOf(sorted, count);
    for (let start = first + stride; start < starts; start += stride) {
      replace(sorted, count, values[start - stride]!, values[start + (count - 1) * stride]!);
      medians[start] = middleOf(sorted, count);
    }
  }
  return medians;
}
