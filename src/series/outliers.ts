/** Outliers against the moments of what is not one: the range test that long anomalies cannot blind. */
import type { Interval } from '../types.ts';
import { SIGMAS } from './analyses.ts';
import { mergeIntervals, runs } from './intervals.ts';
import { furthest, GAUSSIAN_MAD, quantileInPlace, spread } from './stats.ts';

/** Largest |z| from which a series holds outliers (AnomSeer's routing to the range test). */
export const EXTREME_Z = 5;
/** Runs of outliers this close are one: a shifted stretch of noise dips back into the band now and then. */
export const OUTLIER_GAP = 5;

/** Below this many values no |z| can exceed 5 (the largest is √(N − 1)): there is nothing to clip. */
export const FEWEST_VALUES = 27;
/**
 * Part of the values that may lie outside; with more, what is left is a narrow cluster that does not describe the series.
 * Smaller where the plain moments show extremes already: by Chebyshev, at most 1 in 25 values has |z| > 5.
 */
export const LARGEST_SHARE = 1 / 3;
export const LARGEST_SHARE_OF_EXTREME = 1 / 10;

export interface OutlierTest {
  /** Mean and standard deviation of what stays inside 3σ of itself. */
  readonly mean: number;
  readonly std: number;
  readonly sigmas: number;
  readonly upper: number;
  readonly lower: number;
  /** Largest |value − mean| / std over all values; 0 for a constant series. */
  readonly maxAbsZ: number;
  /** Values beyond this |z| make outliers. */
  readonly extreme: number;
  /** Runs outside [lower, upper], joined over gaps of up to 5 samples, that hold a value of |z| > `extreme`. */
  readonly intervals: readonly Interval[];
}

/**
 * Range test with clipped moments: from median and scaled MAD on (mean and σ where the MAD is 0), values beyond 3σ are
 * left out of mean and σ until these settle (at most 20 rounds), so that long stretches of outliers cannot hide themselves by widening σ. Where more than a third of the values ends up outside (a
 * tenth, if the plain moments show an extreme), the plain mean and σ stand. Series [N], N ≥ 1; below 27 values nothing is an outlier.
 */
export function outlierTest(values: Float64Array): OutlierTest {
  const scratch = values.slice(); // [N]
  let mean = quantileInPlace(scratch, values.length, 0.5);
  for (let i = 0; i < values.length; i++) scratch[i] = Math.abs(values[i]! - mean);
  let std = GAUSSIAN_MAD * quantileInPlace(scratch, values.length, 0.5);
  if (std === 0) ({ mean, std } = spread(values));
  for (let round = 0; round < 20; round++) {
    const inside = values.filter((value) => Math.abs(value - mean) <= SIGMAS * std);
    const next = spread(inside);
    if (next.std === std) break;
    ({ mean, std } = next);
  }
  let outside = 0;
  for (const value of values) if (Math.abs(value - mean) > SIGMAS * std) outside++;
  const plain = spread(values);
  const extreme = furthest(values, plain.mean).size > EXTREME_Z * plain.std;
  const share = extreme ? LARGEST_SHARE_OF_EXTREME : LARGEST_SHARE;
  if (outside > share * values.length) ({ mean, std } = plain);
  const upper = mean + SIGMAS * std;
  const lower = mean - SIGMAS * std;
  const beyond = runs(values.length, (i) => values[i]! > upper || values[i]! < lower);
  const joined = values.length < FEWEST_VALUES ? [] : mergeIntervals(beyond, OUTLIER_GAP);
  const intervals = joined.filter(([start, end]) => {
    for (let i = start; i < end; i++) if (Math.abs(values[i]! - mean) > EXTREME_Z * std) return true;
    return false;
  });
  return {
    mean,
    std,
    sigmas: SIGMAS,
    upper,
    lower,
    maxAbsZ: std === 0 ? 0 : furthest(values, mean).size / std,
    extreme: EXTREME_Z,
    intervals,
  };
}
