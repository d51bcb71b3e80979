/**
 * Ridge regression on class indicators, its penalty chosen by leave-one-out (scikit-learn's `RidgeClassifierCV`): each class is +1 against
 * −1 for the others, and the largest prediction wins. Solved in the space of the examples, of which there are fewer than features here.
 */

import { setImmediate as breathe } from 'node:timers/promises';
import { ConfigError } from '../ground/errors.ts';

export interface RidgeOptions {
  /** Penalties to choose from; default 10 from 1e-3 to 1e3, evenly in the exponent. */
  readonly penalties?: readonly number[];
  readonly signal?: AbortSignal | undefined;
}

export interface Ridge {
  /** Classes in the order of the targets; of two classes only the second has a target. */
  readonly classes: readonly string[];
  /** The penalty of the least mean squared leave-one-out error, and those errors in the order of the penalties. */
  readonly penalty: number;
  readonly errors: readonly number[];
  /** Targets: F weights of the features as given, and a constant. */
  readonly targets: readonly { readonly weights: Float64Array; readonly constant: number }[];
}

const PENALTIES = Array.from({ length: 10 }, (_, k) => 10 ** (-3 + (6 * k) / 9));
/** Rows between two turns of the event loop. */
const ROWS = 16;

/**
 * Learns from rows of features [N][F] and their classes. Features are divided by their standard deviation first, as in aeon's classifiers;
 * constant ones have no weight. Lets other work through. O(N²·F + penalties · N³).
 * @throws ConfigError for fewer than two rows or classes, or rows of unequal length
 */
export async function fitRidge(
  rows: readonly Float32Array[],
  labels: readonly string[],
  { penalties = PENALTIES, signal }: RidgeOptions = {},
): Promise<Ridge> {
  const n = rows.length;
  const width = rows[0]?.length ?? 0;
  const classes = [...new Set(labels)].sort();
  if (n < 2 || labels.length !== n || classes.length < 2) {
    throw new ConfigError(
      `ridge: got ${n} examples, ${labels.length} labels and ${classes.length} classes, expected at least two`,
    );
  }
  const other = rows.find((row) => row.length !== width);
  if (other !== undefined) throw new ConfigError(`ridge: rows of ${width} and of ${other.length} features`);
  const { mean, scale } = moments(rows, width);
  const scaled = rows.map((row) => Float64Array.from(row, (value, f) => (value - mean[f]!) / scale[f]!));
  const turn = async (row: number): Promise<void> => {
    if (row % ROWS !== 0) return;
    await breathe();
    signal?.throwIfAborted();
  };
  const gram = new Float64Array(n * n);
  for (let i = 0; i < n; i++) {
    await turn(i);
    for (let k = 0; k <= i; k++) {
      gram[i * n + k] = dot(scaled[i]!, 0, scaled[k]!, 0, width);
      gram[k * n + i] = gram[i * n + k]!;
    }
  }
  const targets = (classes.length === 2 ? classes.slice(1) : classes).map((target) => {
    const signs = Float64Array.from(labels, (label) => (label === target ? 1 : -1));
    const constant = signs.reduce((sum, sign) => sum + sign, 0) / n;
    return { constant, centred: signs.map((sign) => sign - constant) };
  });
  let best: { readonly error: number; readonly penalty: number; readonly duals: Float64Array[] } | null =
    null;
  const errors: number[] = [];
  for (const penalty of penalties) {
    const factor = gram.slice();
    for (let i = 0; i < n; i++) factor[i * n + i]! += penalty;
    await cholesky(factor, n, turn);
    const inverse = await inverseDiagonal(factor, n, turn);
    const duals = targets.map(({ centred }) => solve(factor, n, centred));
    let squares = 0;
    // The constant is not penalised: the direction in which all examples are equal is none of the inverse.
    for (const dual of duals) {
      for (let i = 0; i < n; i++) squares += (dual[i]! / (inverse[i]! - 1 / (penalty * n))) ** 2;
    }
    const error = squares / (n * targets.length);
    errors.push(error);
    if (best === null || error < best.error) best = { error, penalty, duals };
  }
  if (best === null) throw new ConfigError('ridge: got no penalties, expected at least one');
  const { penalty, duals } = best;
  return {
    classes,
    penalty,
    errors,
    targets: duals.map((dual, t) => {
      const weights = new Float64Array(width);
      for (let i = 0; i < n; i++) {
        const row = scaled[i]!;
        for (let f = 0; f < width; f++) weights[f]! += dual[i]! * row[f]!;
      }
      let { constant } = targets[t]!;
      for (let f = 0; f < width; f++) {
        weights[f]! /= scale[f]!;
        constant -= weights[f]! * mean[f]!;
      }
      return { weights, constant };
    }),
  };
}

/** Predictions of the targets for one row of features. */
export function ridgeValues({ targets }: Ridge, row: Float32Array): number[] {
  return targets.map(({ weights, constant }) => {
    let sum = constant;
    for (let f = 0; f < row.length; f++) sum += weights[f]! * row[f]!;
    return sum;
  });
}

/** The class of one row of features; of equals the first by name. */
export function ridgeClass(ridge: Ridge, row: Float32Array): string {
  const values = ridgeValues(ridge, row);
  if (ridge.classes.length === 2) return ridge.classes[values[0]! > 0 ? 1 : 0]!;
  return ridge.classes[values.indexOf(Math.max(...values))]!;
}

function moments(rows: readonly Float32Array[], width: number): { mean: Float64Array; scale: Float64Array } {
  const mean = new Float64Array(width);
  const scale = new Float64Array(width);
  for (const row of rows) for (let f = 0; f < width; f++) mean[f]! += row[f]! / rows.length;
  for (const row of rows)
    for (let f = 0; f < width; f++) scale[f]! += (row[f]! - mean[f]!) ** 2 / rows.length;
  // A constant keeps rounding errors of its own size alone.
  return {
    mean,
    scale: scale.map((variance, f) => (variance > 1e-20 * mean[f]! ** 2 ? Math.sqrt(variance) : 1)),
  };
}

/** Σ a[i + k]·b[j + k] over `count` k; four sums at a time, since each addition waits for the one before. */
function dot(a: Float64Array, i: number, b: Float64Array, j: number, count: number): number {
  let [s0, s1, s2, s3] = [0, 0, 0, 0];
  let k = 0;
  for (; k + 3 < count; k += 4) {
    s0 += a[i + k]! * b[j + k]!;
    s1 += a[i + k + 1]! * b[j + k + 1]!;
    s2 += a[i + k + 2]! * b[j + k + 2]!;
    s3 += a[i + k + 3]! * b[j + k + 3]!;
  }
  for (; k < count; k++) s0 += a[i + k]! * b[j + k]!;
  return s0 + s1 + (s2 + s3);
}

type Turn = (row: number) => Promise<void>;

/** The lower triangle L of L·Lᵀ, in place of a positive definite matrix [n, n]; above it nothing is changed. */
async function cholesky(matrix: Float64Array, n: number, turn: Turn): Promise<void> {
  for (let i = 0; i < n; i++) {
    await turn(i);
    for (let j = 0; j < i; j++) {
      matrix[i * n + j] = (matrix[i * n + j]! - dot(matrix, i * n, matrix, j * n, j)) / matrix[j * n + j]!;
    }
    matrix[i * n + i] = Math.sqrt(matrix[i * n + i]! - dot(matrix, i * n, matrix, i * n, i));
  }
}

/** Diagonal of the inverse of L·Lᵀ: squared lengths of the columns of the inverse of L. */
async function inverseDiagonal(factor: Float64Array, n: number, turn: Turn): Promise<Float64Array> {
  const diagonal = new Float64Array(n);
  const column = new Float64Array(n);
  for (let c = 0; c < n; c++) {
    await turn(c);
    column[c] = 1 / factor[c * n + c]!;
    for (let i = c + 1; i < n; i++) {
      column[i] = -dot(factor, i * n + c, column, c, i - c) / factor[i * n + i]!;
    }
    diagonal[c] = dot(column, c, column, c, n - c);
  }
  return diagonal;
}

/** The solution x of L·Lᵀ·x = b. */
function solve(factor: Float64Array, n: number, b: Float64Array): Float64Array {
  const x = b.slice();
  for (let i = 0; i < n; i++) x[i] = (x[i]! - dot(factor, i * n, x, 0, i)) / factor[i * n + i]!;
  for (let i = n - 1; i >= 0; i--) {
    x[i]! /= factor[i * n + i]!;
    for (let k = 0; k < i; k++) x[k]! -= factor[i * n + k]! * x[i]!;
  }
  return x;
}
