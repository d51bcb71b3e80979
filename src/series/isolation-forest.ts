/**
 * Isolation forest (Liu, Ting & Zhou 2008): random trees cut the points of a sample apart, and what needs few cuts is unlike the
 * rest. Seeded: the same rows and seed give the same scores everywhere.
 */
import { ConfigError, DataError } from '../errors.ts';
import { Random } from '../random.ts';

export interface ForestOptions {
  /** Number of trees, ≥ 1; default 100. */
  readonly trees?: number;
  /** Rows per tree, ≥ 2; default 256, at most all. */
  readonly sample?: number;
  /** Default 0. */
  readonly seed?: number;
}

/** Nodes of a tree in order of their making: `left` < 0 marks a leaf, whose `split` is the expected depth that it stands for. */
interface Tree {
  readonly feature: Int32Array;
  readonly split: Float64Array;
  readonly left: Int32Array;
  readonly right: Int32Array;
}

/** Expected number of cuts that isolate one of n points: 2·H(n − 1) − 2(n − 1)/n (eq. 1), H(k) ≈ ln k + γ. */
export function expectedDepth(n: number): number {
  if (n <= 1) return 0;
  if (n === 2) return 1;
  return 2 * (Math.log(n - 1) + 0.5772156649015329) - (2 * (n - 1)) / n;
}

/**
 * Anomaly score of each row of a table [N, D] (row-major): 2^(−mean depth / expected depth), in (0, 1); about 0.5 and less for the
 * ordinary, near 1 for the isolated. Equal rows have equal scores; where all rows are equal every score is 0.5. Throws a
 * ConfigError for sizes out of range and a DataError for values that are not finite. O(trees · (sample + N) · log sample).
 */
export function isolationScores(
  rows: Float64Array,
  width: number,
  options: ForestOptions = {},
): Float64Array {
  const { trees = 100, seed = 0 } = options;
  if (!Number.isInteger(width) || width < 1 || rows.length % width !== 0) {
    throw new ConfigError(
      `isolation forest width: got ${width} for ${rows.length} values, expected a divisor`,
    );
  }
  const n = rows.length / width;
  const sample = Math.min(n, options.sample ?? 256);
  if (!Number.isInteger(trees) || trees < 1) {
    throw new ConfigError(`isolation forest trees: got ${trees}, expected a whole number ≥ 1`);
  }
  if (n > 1 && (!Number.isInteger(sample) || sample < 2)) {
    throw new ConfigError(`isolation forest sample: got ${options.sample}, expected a whole number ≥ 2`);
  }
  const bad = rows.findIndex((value) => !Number.isFinite(value));
  if (bad >= 0) {
    throw new DataError(
      `isolation forest: row ${Math.floor(bad / width)}, column ${bad % width} is ${rows[bad]}`,
    );
  }
  if (n < 2) return new Float64Array(n).fill(0.5);
  const depths = new Float64Array(n);
  for (let t = 0; t < trees; t++) {
    const tree = grow(rows, width, sample, new Random(seed, 'isolation-forest', t));
    for (let i = 0; i < n; i++) depths[i]! += depthOf(tree, rows, i * width);
  }
  const expected = trees * expectedDepth(sample);
  return depths.map((depth) => 2 ** (-depth / expected));
}

/**
 * Scores of the samples of a series [N] by the forest over its windows of `width` samples: each sample has the largest score of the
 * windows that hold it. A series shorter than the window scores 0.5 throughout.
 */
export function isolationOfWindows(
  values: Float64Array,
  width: number,
  options: ForestOptions = {},
): Float64Array {
  const count = values.length - width + 1;
  if (count < 2) return new Float64Array(values.length).fill(0.5);
  const rows = new Float64Array(count * width);
  for (let i = 0; i < count; i++) rows.set(values.subarray(i, i + width), i * width);
  const scores = isolationScores(rows, width, options);
  const out = new Float64Array(values.length);
  for (let i = 0; i < count; i++) {
    for (let k = i; k < i + width; k++) out[k] = Math.max(out[k]!, scores[i]!);
  }
  return out;
}

function grow(rows: Float64Array, width: number, sample: number, random: Random): Tree {
  const n = rows.length / width;
  const chosen = drawWithout(n, sample, random);
  const limit = Math.ceil(Math.log2(sample));
  const feature: number[] = [];
  const split: number[] = [];
  const left: number[] = [];
  const right: number[] = [];
  const make = (start: number, end: number, depth: number): number => {
    const node = feature.length;
    feature.push(-1);
    left.push(-1);
    right.push(-1);
    split.push(depth + expectedDepth(end - start));
    if (depth >= limit || end - start < 2) return node;
    // Cuts fall on a feature that varies: the others cannot part anything.
    const varying: [number, number, number][] = [];
    for (let f = 0; f < width; f++) {
      let low = Number.POSITIVE_INFINITY;
      let high = Number.NEGATIVE_INFINITY;
      for (let k = start; k < end; k++) {
        const value = rows[chosen[k]! * width + f]!;
        low = Math.min(low, value);
        high = Math.max(high, value);
      }
      if (low < high) varying.push([f, low, high]);
    }
    if (varying.length === 0) return node;
    const [f, low, high] = random.pick(varying);
    const at = random.between(low, high);
    let middle = start;
    for (let k = start; k < end; k++) {
      if (rows[chosen[k]! * width + f]! > at) continue;
      const kept = chosen[middle]!;
      chosen[middle++] = chosen[k]!;
      chosen[k] = kept;
    }
    feature[node] = f;
    split[node] = at;
    left[node] = make(start, middle, depth + 1);
    right[node] = make(middle, end, depth + 1);
    return node;
  };
  make(0, sample, 0);
  return {
    feature: Int32Array.from(feature),
    split: Float64Array.from(split),
    left: Int32Array.from(left),
    right: Int32Array.from(right),
  };
}

/** `count` of the numbers 0 … n − 1, each at most once (Floyd's algorithm). */
function drawWithout(n: number, count: number, random: Random): Int32Array {
  const drawn = new Set<number>();
  for (let top = n - count; top < n; top++) {
    const number = random.integer(0, top);
    drawn.add(drawn.has(number) ? top : number);
  }
  return Int32Array.from(drawn);
}

function depthOf({ feature, split, left, right }: Tree, rows: Float64Array, row: number): number {
  let node = 0;
  while (left[node]! >= 0) node = rows[row + feature[node]!]! <= split[node]! ? left[node]! : right[node]!;
  return split[node]!;
}
