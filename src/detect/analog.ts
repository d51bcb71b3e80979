/**
 * Expectation from similar stretches of a series: each window is laid over its nearest neighbours elsewhere, as in forecasting by
 * analogues (Lorenz 1969) and in the matrix profile, but with the amplitude kept and with a residual for every sample.
 */
import { sortedMedian } from '../series/deviation.ts';
import { Simd } from '../series/kernels/kernels.ts';
import { cumulative, quantileInPlace } from '../series/stats.ts';
import { pooled } from './season.ts';
import { rareEvents } from './usual.ts';

/** Number of windows whose least distance is kept; also in the kernel. */
const BLOCK = 16;
/** Number of piece means by which windows are compared. */
const PIECES = 16;
/** Number of neighbours whose median is taken. */
const NEIGHBOURS = 3;
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

/** Predicts [N] values from windows of `window` samples; null if fewer than four windows fit, or nothing has a shape. */
export function analogues(given: Float64Array, window: number): Analogues | null {
  if (rareEvents(given) !== null) return null;
  const pool = Math.ceil(given.length / LONGEST);
  const values = pooled(given, pool);
  const n = values.length;
  const m = Math.max(4, Math.round(window / pool));
  if (n < 4 * m) return null;
  const pieces = Math.min(PIECES, m);
  const count = n - m + 1;
  const sums = cumulative(values);
  const means = Float64Array.from({ length: count }, (_, i) => (sums[i + m]! - sums[i]!) / m);
  const bounds = Int32Array.from({ length: pieces + 1 }, (_, k) => Math.round((k * m) / pieces));
  const search = searchOf(count, pieces);
  const { features, distances, least } = search;
  for (let k = 0; k < pieces; k++) {
    const [from, to] = [bounds[k]!, bounds[k + 1]!];
    const root = Math.sqrt(to - from);
    for (let i = 0; i < count; i++)
      features[placeOf(pieces, i) + k * BLOCK] =
        ((sums[i + to]! - sums[i + from]!) / (to - from) - means[i]!) * root;
  }
  const step = Math.max(1, Math.round(m / COVER));
  const expected = new Float64Array(n);
  const middle = new Float64Array(n);
  const best = new Float64Array(n).fill(Number.POSITIVE_INFINITY);
  const nearest = new Int32Array(NEIGHBOURS);
  const offsets = new Float64Array(NEIGHBOURS);
  const near = new Float64Array(NEIGHBOURS);
  const scratch = new Float64Array(m);
  const off = new Float64Array(n); // distance to the mean of the window
  const left = new Float64Array(n); // to the middle of the neighbours
  // Neighbours of different places, not of one shifted by a sample.
  const reach = Math.max(1, m >> 1);
  for (let start = 0; ; start = Math.min(start + step, count - 1)) {
    measure(search, start);
    exclude(search, start - m + 1, start + m - 1);
    let kept = 0;
    let total = 0;
    while (kept < NEIGHBOURS) {
      let block = 0;
      for (let b = 1; b < least.length; b++) if (least[b]! < least[block]!) block = b;
      if (least[block] === Number.POSITIVE_INFINITY) break;
      let place = block * BLOCK;
      while (distances[place] !== least[block]) place++;
      total += distances[place]!;
      nearest[kept++] = aligned(values, means, start, place, m, Math.ceil(m / pieces));
      exclude(search, place - reach, place + reach);
    }
    for (let i = 0; i < kept; i++) offsets[i] = offsetOf(values, start, nearest[i]!, m, scratch);
    if (kept > 0) {
      const distance = total / kept;
      for (let k = 0; k < m; k++) {
        const t = start + k;
        if (distance >= best[t]!) continue;
        best[t] = distance;
        for (let i = 0; i < kept; i++) near[i] = values[nearest[i]! + k]! + offsets[i]!;
        middle[t] = sortedMedian(near, kept);
        left[t] = Math.abs(values[t]! - middle[t]!);
        off[t] = Math.abs(values[t]! - means[start]!);
        expected[t] = Math.min(near[kept - 1]!, Math.max(near[0]!, values[t]!));
      }
    }
    if (start === count - 1) break;
  }
  search.simd?.close();
  const rest = quantileInPlace(left, n, 0.5) / Math.max(1e-300, quantileInPlace(off, n, 0.5));
  if (pool === 1) return { expected, middle, window: m, rest };
  const spread = (means: Float64Array): Float64Array =>
    given.map((_, i) => means[Math.min(n - 1, Math.floor(i / pool))]!);
  return { expected: spread(expected), middle: spread(middle), window: m * pool, rest };
}

/** Windows by their pieces, and their squared distances from one of them. */
interface Search {
  readonly simd: Simd | null;
  readonly count: number;
  readonly pieces: number;
  /** Piece means without the window's own mean [blocks, pieces, BLOCK], and those of one window [pieces]. */
  readonly features: Float64Array;
  readonly own: Float64Array;
  readonly distances: Float64Array; // [blocks, BLOCK]
  /** Least distance of each block. */
  readonly least: Float64Array; // [blocks]
}

function searchOf(count: number, pieces: number): Search {
  const blocks = Math.ceil(count / BLOCK);
  const sizes = [blocks * pieces * BLOCK, pieces, blocks * BLOCK, blocks] as const;
  const simd = Simd.open(8 * (sizes[0] + sizes[1] + sizes[2] + sizes[3]), 4);
  const arrays = sizes.map((size) => simd?.floats(size) ?? new Float64Array(size));
  const [features, own, distances, least] = arrays as [
    Float64Array,
    Float64Array,
    Float64Array,
    Float64Array,
  ];
  return { simd, count, pieces, features, own, distances, least };
}

/** Index of the first piece of a window in `features`; the next piece is BLOCK further. */
const placeOf = (pieces: number, i: number): number => (i - (i % BLOCK)) * pieces + (i % BLOCK);

/** Computes the distances of all windows from the one at `start`. */
function measure(search: Search, start: number): void {
  const { simd, count, pieces, features, own, distances, least } = search;
  const from = placeOf(pieces, start);
  for (let k = 0; k < pieces; k++) own[k] = features[from + k * BLOCK]!;
  if (simd !== null) {
    const [out, blocks] = [distances.byteOffset, least.byteOffset];
    simd.run.distances(features.byteOffset, least.length, pieces, own.byteOffset, out, blocks);
  } else {
    for (let j = 0; j < count; j++) {
      const at = placeOf(pieces, j);
      let sum = 0;
      for (let k = 0; k < pieces; k++) sum += (features[at + k * BLOCK]! - own[k]!) ** 2;
      distances[j] = sum;
    }
    for (let block = 0; block < least.length; block++) least[block] = leastOf(distances, block);
  }
  exclude(search, count, distances.length - 1);
}

/** Takes the windows from `first` to `last` out of the search. */
function exclude({ distances, least }: Search, first: number, last: number): void {
  const from = Math.max(0, first);
  const to = Math.min(last, distances.length - 1);
  if (to < from) return;
  distances.fill(Number.POSITIVE_INFINITY, from, to + 1);
  for (let block = Math.floor(from / BLOCK); block * BLOCK <= to; block++)
    least[block] = leastOf(distances, block);
}

function leastOf(distances: Float64Array, block: number): number {
  let least = Number.POSITIVE_INFINITY;
  for (let j = block * BLOCK; j < (block + 1) * BLOCK; j++) if (distances[j]! < least) least = distances[j]!;
  return least;
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
