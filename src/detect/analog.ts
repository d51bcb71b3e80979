/**
 * Expectation from similar stretches of a series: each window is laid over its nearest neighbours elsewhere, as in forecasting by
 * analogues (Lorenz 1969) and in the matrix profile, but with the amplitude kept and with a residual for every sample.
 */
import { cumulative, quantileInPlace } from '../series/stats.ts';
import { pooled } from './season.ts';

/** Number of windows after which the bounding ones are searched again. */
const REFRESH = 4;
/** Number of piece means by which windows are compared. */
const PIECES = 16;
/** Number of neighbours whose median is taken. */
const NEIGHBOURS = 3;
/** Number of windows that bound the distance of the last neighbour: each neighbour taken before it excludes at most two of them. */
const BOUNDING = 2 * NEIGHBOURS - 1;
/** Number of windows that hold each sample. */
const COVER = 8;
/** Longest series that is compared in full; longer ones are averaged in groups first. */
const LONGEST = 8192;

interface Analogues {
  /** Nearest value to each sample within the range of the neighbours [N]. */
  readonly expected: Float64Array;
  /** Median of the neighbours [N]. */
  readonly middle: Float64Array;
  readonly window: number;
  /** Median distance to `middle`, over that to the mean of the window. */
  readonly rest: number;
}

/** Predicts [N] values from windows of `window` samples; null if fewer than four windows fit. */
export function analogues(given: Float64Array, window: number): Analogues | null {
  const pool = Math.ceil(given.length / LONGEST);
  const values = pooled(given, pool);
  const n = values.length;
  const m = Math.max(4, Math.round(window / pool));
  if (n < 4 * m) return null;
  const pieces = Math.min(PIECES, m);
  const count = n - m + 1;
  const sums = cumulative(values);
  const means = Float64Array.from({ length: count }, (_, i) => (sums[i + m]! - sums[i]!) / m);
  // Piece means without the window's own mean [count, pieces].
  const bounds = Int32Array.from({ length: pieces + 1 }, (_, k) => Math.round((k * m) / pieces));
  const features = new Float64Array(count * pieces);
  for (let i = 0; i < count; i++) {
    for (let k = 0; k < pieces; k++) {
      const [from, to] = [bounds[k]!, bounds[k + 1]!];
      features[i * pieces + k] =
        ((sums[i + to]! - sums[i + from]!) / (to - from) - means[i]!) * Math.sqrt(to - from);
    }
  }
  const step = Math.max(1, Math.round(m / COVER));
  const expected = new Float64Array(n);
  const middle = new Float64Array(n);
  const best = new Float64Array(n).fill(Number.POSITIVE_INFINITY);
  const distances = new Float64Array(count);
  const nearest = new Int32Array(NEIGHBOURS);
  const offsets = new Float64Array(NEIGHBOURS);
  const scratch = new Float64Array(m);
  const off = new Float64Array(n); // distance to the mean of the window
  const left = new Float64Array(n); // to the middle of the neighbours
  const quarter = pieces >> 2;
  let bounding: number[] = [];
  let since = 0;
  for (let start = 0, before = 0; ; before = start, start = Math.min(start + step, count - 1)) {
    const row = start * pieces;
    // Windows near the one before are near this one: none farther than all of these is a neighbour.
    bounding = bounding.map((j) => j + start - before);
    let bound = bounding.length < BOUNDING ? Number.POSITIVE_INFINITY : 0;
    for (const j of bounding) {
      const valid = j < count && Math.abs(j - start) >= m;
      bound = valid
        ? Math.max(bound, squared(features, row, j * pieces, 0, pieces, 0))
        : Number.POSITIVE_INFINITY;
    }
    for (let j = 0; j < count; j++) {
      distances[j] = Number.POSITIVE_INFINITY;
      if (Math.abs(j - start) < m) continue;
      const part = squared(features, row, j * pieces, 0, quarter, 0);
      if (part <= bound) distances[j] = squared(features, row, j * pieces, quarter, pieces, part);
    }
    let kept = 0;
    let total = 0;
    const near: number[] = [];
    const most = bound === Number.POSITIVE_INFINITY || ++since === REFRESH ? BOUNDING : NEIGHBOURS;
    while (near.length < most) {
      let least = -1;
      for (let j = 0; j < count; j++) {
        if (distances[j]! < Number.POSITIVE_INFINITY && (least < 0 || distances[j]! < distances[least]!))
          least = j;
      }
      if (least < 0) break;
      near.push(least);
      if (kept < NEIGHBOURS) {
        total += distances[least]!;
        nearest[kept++] = aligned(values, means, start, least, m, Math.ceil(m / pieces));
      }
      // Neighbours of different places, not of one shifted by a sample.
      const reach = Math.max(1, m >> 1);
      for (let j = Math.max(0, least - reach); j <= Math.min(count - 1, least + reach); j++) {
        distances[j] = Number.POSITIVE_INFINITY;
      }
    }
    if (near.length === BOUNDING) [bounding, since] = [near, 0];
    else if (most === BOUNDING) since = 0;
    for (let i = 0; i < kept; i++) offsets[i] = offsetOf(values, start, nearest[i]!, m, scratch);
    if (kept > 0) {
      const distance = total / kept;
      for (let k = 0; k < m; k++) {
        const t = start + k;
        if (distance >= best[t]!) continue;
        best[t] = distance;
        middle[t] = middleOf(values, offsets, nearest, kept, k);
        left[t] = Math.abs(values[t]! - middle[t]!);
        off[t] = Math.abs(values[t]! - means[start]!);
        expected[t] = nearestExpected(values[t]!, values, offsets, nearest, kept, k);
      }
    }
    if (start === count - 1) break;
  }
  const rest = quantileInPlace(left, n, 0.5) / Math.max(1e-300, quantileInPlace(off, n, 0.5));
  if (pool === 1) return { expected, middle, window: m, rest };
  return {
    expected: Float64Array.from(given, (_, i) => expected[Math.min(n - 1, Math.floor(i / pool))]!),
    middle: Float64Array.from(given, (_, i) => middle[Math.min(n - 1, Math.floor(i / pool))]!),
    window: m * pool,
    rest,
  };
}

/** Squared distance of two rows of features over their pieces [from, to), added to `sum`. */
function squared(
  features: Float64Array,
  a: number,
  b: number,
  from: number,
  to: number,
  sum: number,
): number {
  for (let k = from; k < to; k++) sum += (features[a + k]! - features[b + k]!) ** 2;
  return sum;
}

/** Returns the window within `reach` samples of `other` that is nearest to the one at `start`, sample by sample. */
function aligned(
  values: Float64Array,
  means: Float64Array,
  start: number,
  other: number,
  m: number,
  reach: number,
): number {
  let best = other;
  let least = Number.POSITIVE_INFINITY;
  for (let at = Math.max(0, other - reach); at <= Math.min(means.length - 1, other + reach); at++) {
    if (Math.abs(at - start) < m) continue;
    const offset = means[start]! - means[at]!;
    let sum = 0;
    for (let k = 0; k < m && sum < least; k++) sum += (values[start + k]! - values[at + k]! - offset) ** 2;
    if (sum < least) {
      least = sum;
      best = at;
    }
  }
  return best;
}

/** Median difference of two windows, which a spike in one does not move. */
function offsetOf(
  values: Float64Array,
  start: number,
  other: number,
  m: number,
  scratch: Float64Array,
): number {
  for (let k = 0; k < m; k++) scratch[k] = values[start + k]! - values[other + k]!;
  return quantileInPlace(scratch, m, 0.5);
}

/** Returns the nearest value within the range of the neighbours at offset k. */
function nearestExpected(
  value: number,
  values: Float64Array,
  offsets: Float64Array,
  nearest: Int32Array,
  kept: number,
  k: number,
): number {
  let low = Number.POSITIVE_INFINITY;
  let high = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < kept; i++) {
    const other = values[nearest[i]! + k]! + offsets[i]!;
    low = Math.min(low, other);
    high = Math.max(high, other);
  }
  return Math.min(high, Math.max(low, value));
}

/** Median of the neighbours at offset k. */
function middleOf(
  values: Float64Array,
  offsets: Float64Array,
  nearest: Int32Array,
  kept: number,
  k: number,
): number {
  const at = (i: number): number => values[nearest[i]! + k]! + offsets[i]!;
  if (kept === 1) return at(0);
  if (kept === 2) return (at(0) + at(1)) / 2;
  const [a, b, c] = [at(0), at(1), at(2)];
  return Math.max(Math.min(a, b), Math.min(Math.max(a, b), c));
}
