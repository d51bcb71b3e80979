/**
 * Dynamic time warping (Sakoe & Chiba 1978) as the UCR archive has it: the least sum of squared differences along a path that aligns two
 * series, without a root, of the values as they are given. Several channels are warped together ("dependent"): the cost of two samples is
 * the sum over their channels. Lower bounds and early abandoning never change a result.
 */

import { ConfigError } from '../ground/errors.ts';
import { requireFinite, requireOption } from './checks.ts';

/** A series of C channels of N samples each, one channel after the other: [C·N]. */
export interface Channels {
  readonly values: Float64Array;
  readonly length: number;
}

/** Channels [C][N] as one array. @throws DataError for values that are not finite, ConfigError for no or unequal channels */
export function joinChannels(channels: readonly Float64Array[]): Channels {
  const length = channels[0]?.length ?? 0;
  requireOption(
    length > 0,
    'time warping',
    `${channels.length} channels of ${length} samples`,
    'at least one sample',
  );
  const values = new Float64Array(channels.length * length);
  for (const [c, channel] of channels.entries()) {
    if (channel.length !== length) {
      throw new ConfigError(
        `time warping: channel 0 has ${length} samples, channel ${c} has ${channel.length}`,
      );
    }
    requireFinite(channel, 'time warping');
    values.set(channel, c * length);
  }
  return { values, length };
}

export interface WarpingOptions {
  /**
   * Most samples that aligned indices may be apart (Sakoe–Chiba band), ≥ 0; default unlimited. Series of unequal length need at least the
   * difference of their lengths: a narrower window is widened to it.
   */
  readonly window?: number;
  /** Distances beyond this one need not be known: Infinity is returned; default unlimited. */
  readonly bound?: number;
}

/**
 * Distance of two series [C][N] and [C][M]: Σ over the path of Σ over channels of squared differences. O(N·M), far less with a bound.
 * @throws ConfigError for empty series, unequal numbers of channels or options out of range, DataError for values that are not finite
 */
export function dtw(
  a: readonly Float64Array[],
  b: readonly Float64Array[],
  { window = Number.POSITIVE_INFINITY, bound = Number.POSITIVE_INFINITY }: WarpingOptions = {},
): number {
  requireOption(window >= 0, 'time warping window', window, 'a number of samples ≥ 0');
  requireOption(!Number.isNaN(bound), 'time warping bound', bound, 'a number');
  if (a.length !== b.length) {
    throw new ConfigError(`time warping: one series has ${a.length} channels, the other ${b.length}`);
  }
  const [first, other] = [joinChannels(a), joinChannels(b)];
  return warp(first, other, widened(window, first.length, other.length), bound, null, new WarpingRows());
}

/** The window that two lengths need at least, in whole samples. */
export function widened(window: number, n: number, m: number): number {
  return Math.min(Math.max(n, m), Math.max(Math.floor(window), Math.abs(n - m)));
}

/** Two rows of cumulated costs, kept from one pair to the next. */
export class WarpingRows {
  #rows: [Float64Array, Float64Array] = [new Float64Array(0), new Float64Array(0)];

  of(size: number): [Float64Array, Float64Array] {
    if (this.#rows[0].length < size) this.#rows = [new Float64Array(size), new Float64Array(size)];
    return this.#rows;
  }
}

/** The lesser of two finite numbers; `Math.min` also minds NaN and −0, and takes twice the time. */
function lesser(a: number, b: number): number {
  // biome-ignore lint/complexity/useMathMinMax: see above
  return a < b ? a : b;
}

/** Squared differences of two samples, summed over the channels. */
function cost(a: Float64Array, i: number, n: number, b: Float64Array, j: number, m: number): number {
  const step = a[i]! - b[j]!;
  let sum = step * step;
  for (let p = i + n, q = j + m; p < a.length; p += n, q += m) {
    const other = a[p]! - b[q]!;
    sum += other * other;
  }
  return sum;
}

/**
 * The distance within a band, or Infinity where it exceeds the bound: cells from which the bound cannot be kept are left out on both sides
 * of each row (EAPruned; Herrmann & Webb 2021, "Early abandoning and pruning for elastic distances including dynamic time warping").
 *
 * @param window of `widened`
 * @param rest [N + 1] what samples from each index on cost at least, rounding allowed for; null: nothing
 */
export function warp(
  { values: a, length: n }: Channels,
  { values: b, length: m }: Channels,
  window: number,
  bound: number,
  rest: Float64Array | null,
  scratch: WarpingRows,
): number {
  // Column j of the series is place j + 1 of a row.
  let [before, row] = scratch.of(m + 2);
  row.fill(Number.POSITIVE_INFINITY, 0, m + 2);
  before.fill(Number.POSITIVE_INFINITY, 0, m + 2);
  row[0] = 0;
  let left = 0;
  // Cells of the row before from this one on are out of reach.
  let right = 1;
  for (let i = 0; i < n; i++) {
    const swapped = before;
    before = row;
    row = swapped;
    const limit = rest === null ? bound : bound - rest[i + 1]!;
    const last = Math.min(m, i + window + 1);
    let j = Math.max(left, i - window);
    let start = j;
    let end = 0;
    row[j] = Number.POSITIVE_INFINITY;
    // Nothing has been reached in this row yet: no step along it.
    for (; j === start && j + 1 < right; j++) {
      const value = cost(a, i, n, b, j, m) + lesser(before[j]!, before[j + 1]!);
      row[j + 1] = value;
      if (value <= limit) end = j + 2;
      else start++;
    }
    let along = row[j]!;
    let diagonal = before[j]!;
    for (; j + 1 < right; j++) {
      const above = before[j + 1]!;
      const least = lesser(diagonal, above);
      along = cost(a, i, n, b, j, m) + lesser(along, least);
      row[j + 1] = along;
      if (along <= limit) end = j + 2;
      diagonal = above;
    }
    // The first column that the row before did not reach.
    if (j < last) {
      const least = j !== start && row[j]! < before[j]! ? row[j]! : before[j]!;
      const value = cost(a, i, n, b, j, m) + least;
      row[j + 1] = value;
      if (value <= limit) end = j + 2;
      else if (j === start) return Number.POSITIVE_INFINITY;
      j++;
    } else if (j === start) return Number.POSITIVE_INFINITY;
    for (; j + 1 === end && j < last; j++) {
      const value = cost(a, i, n, b, j, m) + row[j]!;
      row[j + 1] = value;
      if (value <= limit) end = j + 2;
    }
    left = start;
    right = end;
  }
  return right > m ? row[m]! : Number.POSITIVE_INFINITY;
}

/** Lower bounds are sums of their own: this part of them is safely below the distance, whatever rounding did to either. */
const SAFE = 1 - 1e-9;

/** Least cost of the first and of the last samples, which every path aligns (LB_Kim as the UCR suite has it): at most the distance. */
export function lbKim(a: Channels, b: Channels): number {
  const [n, m] = [a.length, b.length];
  let sum = 0;
  for (let p = 0, q = 0; p < a.values.length; p += n, q += m) {
    sum += (a.values[p]! - b.values[q]!) ** 2;
    if (n > 1 || m > 1) sum += (a.values[p + n - 1]! - b.values[q + m - 1]!) ** 2;
  }
  return SAFE * sum;
}

/** The lowest and the highest value of each channel within a window of each sample: [C·N]. */
export interface Envelope {
  readonly lower: Float64Array;
  readonly upper: Float64Array;
}

/** Envelope of a series within `window` samples on both sides, ≥ 0 (Lemire 2009). O(C·N). */
export function envelope({ values, length: n }: Channels, window: number): Envelope {
  const reach = Math.min(window, n - 1);
  const lower = new Float64Array(values.length);
  const upper = new Float64Array(values.length);
  const queue = new Int32Array(n);
  const fill = (from: number, out: Float64Array, sign: 1 | -1): void => {
    let [head, tail] = [0, 0];
    for (let i = 0; i < n + reach; i++) {
      if (i < n) {
        const value = sign * values[from + i]!;
        while (tail > head && sign * values[from + queue[tail - 1]!]! <= value) tail--;
        queue[tail++] = i;
      }
      const place = i - reach;
      if (place < 0) continue;
      while (queue[head]! < place - reach) head++;
      out[from + place] = values[from + queue[head]!]!;
    }
  };
  for (let from = 0; from < values.length; from += n) {
    fill(from, upper, 1);
    fill(from, lower, -1);
  }
  return { lower, upper };
}

/**
 * Distance of a series from the envelope of another one of equal length (LB_Keogh; Keogh & Ratanamahatana 2005): at most the
 * distance of the two within the window of the envelope.
 *
 * @param rest [N + 1] receives what the samples from each index on contribute
 */
export function lbKeogh(
  { values, length: n }: Channels,
  { lower, upper }: Envelope,
  rest?: Float64Array,
): number {
  let sum = 0;
  if (rest !== undefined) rest[n] = 0;
  for (let i = n - 1; i >= 0; i--) {
    for (let k = i; k < values.length; k += n) {
      const value = values[k]!;
      const beyond = value > upper[k]! ? value - upper[k]! : value < lower[k]! ? lower[k]! - value : 0;
      sum += beyond * beyond;
    }
    if (rest !== undefined) rest[i] = SAFE * sum;
  }
  return SAFE * sum;
}
