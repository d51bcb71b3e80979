/** A leak: a level that begins to drift steadily and has not stopped, slower than any expectation of the neighbourhood can tell. */
import { quantileInPlace } from '../series/stats.ts';
import type { Candidate } from './scan.ts';
import { tempered } from './tail.ts';

/** Parts of the series whose medians are looked at, and the fewest before and after the bend. */
const PARTS = 64;
const FEWEST_PARTS = 5;
/** Samples of a part, at least. */
const SHORTEST_PART = 4;
/** What is left around the bent line is at most so many times the noise between neighbouring parts: a random walk wanders farther. */
const MOST_LEFT = 1.4;
/** A bent line must leave at most this part of what a parabola leaves: steady growth bends everywhere. */
const BENT = 0.6;
/** The slope before it is at most this part of the change of slope. */
const SLOPE_BEFORE = 0.3;
/** The drift ends so many standard deviations of single samples away, at least. */
const FARTHEST = 3;
/** Normal noise: a standard deviation over the median size of a second difference. */
const OF_SECOND_DIFFERENCES = 1 / (0.6745 * Math.sqrt(6));

/** Least squares of y on columns [k][n] by the normal equations: coefficients, and the sum of squares that is left. */
function fitted(
  y: Float64Array,
  columns: readonly Float64Array[],
): { coefficients: Float64Array; left: number } {
  const k = columns.length;
  const a = columns.map((one) =>
    Float64Array.from({ length: k + 1 }, (_, j) => dot(one, j < k ? columns[j]! : y)),
  );
  for (let i = 0; i < k; i++) {
    const pivot = a[i]![i]!;
    for (let r = 0; r < k; r++) {
      if (r === i) continue;
      const factor = a[r]![i]! / pivot;
      for (let c = i; c <= k; c++) a[r]![c]! -= factor * a[i]![c]!;
    }
  }
  const coefficients = Float64Array.from(a, (row, i) => row[k]! / row[i]!);
  let left = 0;
  for (let t = 0; t < y.length; t++) {
    left += (y[t]! - columns.reduce((sum, one, j) => sum + coefficients[j]! * one[t]!, 0)) ** 2;
  }
  return { coefficients, left };
}

function dot(a: Float64Array, b: Float64Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i]! * b[i]!;
  return sum;
}

const median = (values: Float64Array): number => quantileInPlace(values, values.length, 0.5);

/**
 * The drift that a series [N] without its season ends with, or null: medians of 64 parts lie on a line that bends once, better than on a
 * parabola, and no farther from it than neighbouring parts are from each other.
 */
export function drift(values: Float64Array, floor: number, least: number, looks: number): Candidate | null {
  const n = values.length;
  const size = Math.floor(n / PARTS);
  if (size < SHORTEST_PART) return null;
  const first = n - size * PARTS;
  const medians = Float64Array.from({ length: PARTS }, (_, p) =>
    median(values.slice(first + p * size, first + (p + 1) * size)),
  );
  const bends = Float64Array.from({ length: PARTS - 2 }, (_, i) =>
    Math.abs(medians[i]! - 2 * medians[i + 1]! + medians[i + 2]!),
  );
  const spread = median(
    Float64Array.from({ length: size * PARTS }, (_, i) =>
      Math.abs(values[first + i]! - medians[Math.floor(i / size)]!),
    ),
  );
  const single = Math.max(floor / 2, 1.4826 * spread);
  const noise = Math.max(median(bends) * OF_SECOND_DIFFERENCES, single / Math.sqrt(size) / 4);
  const time = Float64Array.from({ length: PARTS }, (_, p) => p / PARTS);
  const ones = new Float64Array(PARTS).fill(1);
  const straight = fitted(medians, [ones, time]);
  const parabola = fitted(medians, [ones, time, time.map((t) => t * t)]);
  let best: { at: number; coefficients: Float64Array; left: number } | null = null;
  for (let at = FEWEST_PARTS; at <= PARTS - FEWEST_PARTS; at++) {
    const after = time.map((t) => Math.max(0, t - at / PARTS));
    const found = fitted(medians, [ones, time, after]);
    if (best === null || found.left < best.left) best = { at, ...found };
  }
  const { at, coefficients, left } = best!;
  const [, before, change] = coefficients as unknown as [number, number, number];
  const freedom = PARTS - 4;
  const far = Math.abs(change) * (1 - at / PARTS);
  if (Math.sqrt(left / freedom) > MOST_LEFT * noise || left > BENT * parabola.left) return null;
  if (Math.abs(before) > SLOPE_BEFORE * Math.abs(change) || far < FARTHEST * single) return null;
  const surprise = (straight.left - left) / (2 * noise ** 2) / Math.LN10;
  const severity = tempered(surprise - Math.log10(PARTS * looks));
  if (!(severity >= least)) return null;
  const start = first + at * size;
  return {
    start,
    end: n,
    sign: change > 0 ? 1 : -1,
    severity,
    peak: n - 1,
    track: 'step',
    lasting: true,
    drifts: true,
  };
}
