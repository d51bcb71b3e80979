/**
 * Isolation forest (Liu, Ting & Zhou 2008): random trees cut the points of a sample apart, and what needs few cuts is unlike the
 * rest. Seeded: the same rows and seed give the same scores everywhere.
 */

import { DataError } from '../ground/errors.ts';
import { Random } from '../ground/random.ts';
import { requireOption, requireWhole } from './checks.ts';
import { spreadOverWindows } from './detectors.ts';

export interface ForestOptions {
  /** Number of trees, ≥ 1; default 100. */
  readonly trees?: number;
  /** Rows per tree, ≥ 2; default 256, at most all. */
  readonly sample?: number;
  /** Default 0. */
  readonly seed?: number;
}

/**
 * Nodes of a tree, the two children of a node side by side. A leaf leads to itself: its split is Infinity, so that a walk of `limit`
 * steps ends in the right leaf without asking whether it has arrived.
 */
interface Tree {
  readonly feature: Int32Array;
  readonly split: Float64Array;
  /** Left child; the right one follows it. */
  readonly child: Int32Array;
  /** Expected depth that a leaf stands for. */
  readonly depth: Float64Array;
  /** Most cuts from the root to a leaf. */
  readonly limit: number;
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
  const divides = Number.isInteger(width) && width >= 1 && rows.length % width === 0;
  requireOption(
    divides,
    'isolation forest width',
    width,
    `a divisor of ${rows.length}, the number of values`,
  );
  const n = rows.length / width;
  const sample = Math.min(n, options.sample ?? 256);
  requireWhole('isolation forest trees', trees, 1);
  if (n > 1) requireWhole('isolation forest sample', sample, 2);
  const bad = rows.findIndex((value) => !Number.isFinite(value));
  if (bad >= 0) {
    throw new DataError(
      `isolation forest: row ${Math.floor(bad / width)}, column ${bad % width} is ${rows[bad]}`,
    );
  }
  if (n < 2) return new Float64Array(n).fill(0.5);
  const depths = new Float64Array(n);
  const tree = emptyTree(sample);
  for (let t = 0; t < trees; t++) {
    grow(tree, rows, width, sample, new Random(seed, 'isolation-forest', t));
    addDepths(tree, rows, width, depths);
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
  if (values.length <= width) return new Float64Array(values.length).fill(0.5);
  return spreadOverWindows(isolationScores(windowRows(values, width), width, options), width, values.length);
}

/** Table of the windows of `width` samples of [N]: [N − width + 1, width]. */
export function windowRows(values: Float64Array, width: number): Float64Array {
  const count = Math.max(0, values.length - width + 1);
  const rows = new Float64Array(count * width);
  for (let i = 0; i < count; i++) rows.set(values.subarray(i, i + width), i * width);
  return rows;
}

function emptyTree(sample: number): Tree {
  const most = 2 * sample - 1;
  return {
    feature: new Int32Array(most),
    split: new Float64Array(most),
    child: new Int32Array(most),
    depth: new Float64Array(most),
    limit: Math.ceil(Math.log2(sample)),
  };
}

/** Grows a tree over a random sample of the rows, in place of the one before. */
function grow(tree: Tree, rows: Float64Array, width: number, sample: number, random: Random): void {
  const { feature, split, child, depth, limit } = tree;
  const chosen = drawWithout(rows.length / width, sample, random);
  const varying = new Int32Array(width);
  let nodes = 1;
  const make = (node: number, start: number, end: number, cuts: number): void => {
    feature[node] = 0;
    split[node] = Number.POSITIVE_INFINITY;
    child[node] = node;
    depth[node] = cuts + expectedDepth(end - start);
    if (cuts >= limit || end - start < 2) return;
    // Cuts fall on a feature that varies: the others cannot part anything.
    let count = 0;
    for (let f = 0; f < width; f++) {
      const first = rows[chosen[start]! * width + f]!;
      let k = start + 1;
      while (k < end && rows[chosen[k]! * width + f] === first) k++;
      if (k < end) varying[count++] = f;
    }
    if (count === 0) return;
    const f = varying[random.integer(0, count - 1)]!;
    let low = Number.POSITIVE_INFINITY;
    let high = Number.NEGATIVE_INFINITY;
    for (let k = start; k < end; k++) {
      const value = rows[chosen[k]! * width + f]!;
      if (value < low) low = value;
      if (value > high) high = value;
    }
    const at = random.between(low, high);
    let middle = start;
    for (let k = start; k < end; k++) {
      // From the middle on all lie above, so that a change of places without need does no harm: no processor foresees the need.
      const own = chosen[k]!;
      chosen[k] = chosen[middle]!;
      chosen[middle] = own;
      middle += Number(rows[own * width + f]! <= at);
    }
    const left = nodes;
    nodes += 2;
    feature[node] = f;
    split[node] = at;
    child[node] = left;
    make(left, start, middle, cuts + 1);
    make(left + 1, middle, end, cuts + 1);
  };
  make(0, 0, sample, 0);
}

/** `count` of the numbers 0 … n − 1, each at most once (Floyd's algorithm). */
function drawWithout(n: number, count: number, random: Random): Int32Array {
  const drawn = new Uint8Array(n);
  const numbers = new Int32Array(count);
  for (let top = n - count; top < n; top++) {
    const number = random.integer(0, top);
    const own = drawn[number] === 1 ? top : number;
    drawn[own] = 1;
    numbers[top - (n - count)] = own;
  }
  return numbers;
}

/** Adds the depth of every row [N] in a tree. */
function addDepths(tree: Tree, rows: Float64Array, width: number, depths: Float64Array): void {
  const { feature, split, child, depth, limit } = tree;
  for (let i = 0; i < depths.length; i++) {
    let node = 0;
    for (let step = 0; step < limit; step++) {
      node = child[node]! + Number(rows[i * width + feature[node]!]! > split[node]!);
    }
    depths[i]! += depth[node]!;
  }
}
