/** Trend without a distribution: the Mann–Kendall test, and the Theil–Sen line. */
import { ConfigError } from '../errors.ts';
import { normalQuantile, twoSided } from './distributions.ts';
import { requireFinite } from './finite.ts';
import { sortCountingInversions } from './inversions.ts';
import { slopesOfRank } from './slopes.ts';
import { median } from './stats.ts';

export interface MannKendall {
  /** Rising minus falling pairs. */
  readonly s: number;
  /** Variance of s under no trend, corrected for ties. */
  readonly variance: number;
  /** (s − sign s) / √variance; 0 where the variance is. */
  readonly z: number;
  /** Two-sided, normal approximation. */
  readonly pValue: number;
  /** s over all pairs, in [−1, 1]. */
  readonly tau: number;
  /** Kendall's τ_b, which leaves tied pairs out; NaN for a constant series. */
  readonly tauB: number;
}

/**
 * Mann–Kendall test of a monotonic trend (Mann 1945, Kendall 1975; ties: Gilbert 1987, eq. 16.4.3) of [N], N ≥ 2; null for fewer.
 * s is found by counting inversions in a merge sort: O(N log N). Throws a DataError for values that are not finite.
 */
export function mannKendall(values: Float64Array): MannKendall | null {
  requireFinite(values, 'Mann–Kendall test');
  const n = values.length;
  if (n < 2) return null;
  const sorted = values.slice();
  const falling = sortCountingInversions(sorted, new Int32Array(n));
  let tiedPairs = 0;
  let tiedVariance = 0;
  for (let i = 0; i < n; ) {
    let end = i + 1;
    while (end < n && sorted[end] === sorted[i]) end++;
    const t = end - i;
    tiedPairs += (t * (t - 1)) / 2;
    tiedVariance += t * (t - 1) * (2 * t + 5);
    i = end;
  }
  const pairs = (n * (n - 1)) / 2;
  const s = pairs - tiedPairs - 2 * falling;
  const variance = (n * (n - 1) * (2 * n + 5) - tiedVariance) / 18;
  const z = variance <= 0 ? 0 : (s - Math.sign(s)) / Math.sqrt(variance);
  return {
    s,
    variance,
    z,
    pValue: twoSided(z),
    tau: s / pairs,
    tauB: tiedPairs === pairs ? Number.NaN : s / Math.sqrt(pairs * (pairs - tiedPairs)),
  };
}

export interface TheilSen {
  /** Median of the slopes of all pairs, per sample. */
  readonly slope: number;
  /** Median of the values minus slope times median index. */
  readonly intercept: number;
  /** Confidence interval of the slope (Sen 1968). */
  readonly low: number;
  readonly high: number;
}

/**
 * Theil–Sen line of [N], N ≥ 2, over the index; null for fewer. `confidence` in (0, 1) is that of the slope's interval, default
 * 0.95. Equals scipy's `theilslopes`, intercept `separate`. Exact, without looking at most of the slopes (`slopesOfRank`).
 * Throws a DataError for values that are not finite.
 */
export function theilSen(values: Float64Array, confidence = 0.95): TheilSen | null {
  requireFinite(values, 'Theil–Sen line');
  if (!(confidence > 0 && confidence < 1)) {
    throw new ConfigError(`Theil–Sen confidence: got ${confidence}, expected (0, 1)`);
  }
  const n = values.length;
  if (n < 2) return null;
  const pairs = (n * (n - 1)) / 2;
  const { variance } = mannKendall(values)!;
  const reach = normalQuantile(0.5 + confidence / 2) * Math.sqrt(variance);
  const upper = Math.min(pairs - 1, roundHalfEven((pairs + reach) / 2));
  const lower = Math.max(0, roundHalfEven((pairs - reach) / 2) - 1);
  const below = Math.floor((pairs - 1) / 2);
  const ranks = [lower, below, Math.floor(pairs / 2), upper];
  const [low, belowSlope, aboveSlope, high] = slopesOfRank(values, ranks) as [number, number, number, number];
  const slope = (belowSlope + aboveSlope) / 2;
  return { slope, intercept: median(values) - slope * ((n - 1) / 2), low, high };
}

function roundHalfEven(x: number): number {
  const floor = Math.floor(x);
  const rest = x - floor;
  if (rest !== 0.5) return Math.round(x);
  return floor % 2 === 0 ? floor : floor + 1;
}
