/**
 * Whether outliers are more than the tail of the series' own distribution: values of heavy-tailed noise lie beyond five standard
 * deviations as a matter of course. Peaks over a threshold with exponential excesses, as in SPOT (Siffer et al. 2017, "Anomaly
 * detection in streams with extreme value theory", with shape 0); fitted to the body of the tail, so that the outliers do not raise
 * their own limit.
 */

import { OUTLIER_GAP } from '../series/analyses.ts';
import { runs } from '../series/intervals.ts';
import { quantileInPlace } from '../series/stats.ts';
import type { Interval } from '../types.ts';

/** Excesses are taken from the first of these quantiles on, and cut off at the second: one sample in a hundred may be an outlier. */
const BODY = [0.95, 0.99] as const;
/** Below this many samples too few excesses tell what the tail is like. */
const FEWEST_SAMPLES = 200;
/** Samples beyond the limit that the tail is expected to give in a series by chance. */
const EXPECTED_BY_CHANCE = 0.05;
/** Runs outside of the band this short are single outliers. */
const SHORT_RUN = 2;
/** Expected number of stretches as dense with outliers, were they strewn at random, below which a stretch is no chance. */
const DENSE_BY_CHANCE = 0.01;

export interface TailTest {
  /** Distance from the centre that the tail does not reach by chance; 0 where there are too few samples to say. */
  readonly limit: number;
  /** The stretches that are more than the tail: dense with outliers, or with a sample beyond the limit. */
  readonly beyond: readonly Interval[];
}

/**
 * Tests stretches of outliers of [N].
 * @param band values outside of it are outliers
 */
export function tailTest(
  values: Float64Array,
  { mean, lower, upper }: { readonly mean: number; readonly lower: number; readonly upper: number },
  stretches: readonly Interval[],
): TailTest {
  const n = values.length;
  const outside = (i: number): boolean => values[i]! > upper || values[i]! < lower;
  let single = 0;
  for (const [start, end] of runs(n, outside)) if (end - start <= SHORT_RUN) single += end - start;
  const share = Math.max(1, single) / n;
  const near = 1 - (1 - share) ** (OUTLIER_GAP + 1);
  const dense = stretches.filter(([start, end]) => {
    let count = 0;
    for (let i = start; i < end; i++) if (outside(i)) count++;
    return n * share * near ** (count - 1) < DENSE_BY_CHANCE;
  });
  const rest: number[] = [];
  let from = 0;
  for (const [start, end] of [...dense, [n, n] as const]) {
    for (let i = from; i < start; i++) rest.push(Math.abs(values[i]! - mean));
    from = end;
  }
  const limit = rest.length < FEWEST_SAMPLES ? 0 : tailLimit(Float64Array.from(rest));
  const beyond = stretches.filter((stretch) => {
    if (dense.includes(stretch)) return true;
    for (let i = stretch[0]; i < stretch[1]; i++) if (Math.abs(values[i]! - mean) > limit) return true;
    return false;
  });
  return { limit, beyond };
}

/** Distance that an exponential tail with the body of these distances [M] exceeds EXPECTED_BY_CHANCE times in M. Reorders them. */
function tailLimit(distances: Float64Array): number {
  const count = distances.length;
  const [from, cut] = BODY.map((q) => quantileInPlace(distances, count, q)) as [number, number];
  let excess = 0;
  let whole = 0;
  let above = 0;
  for (const distance of distances) {
    if (distance <= from) continue;
    above++;
    excess += Math.min(distance, cut) - from;
    if (distance <= cut) whole++;
  }
  // Maximum likelihood of a right-censored exponential.
  return whole === 0 ? from : from + (excess / whole) * Math.log(above / EXPECTED_BY_CHANCE);
}
