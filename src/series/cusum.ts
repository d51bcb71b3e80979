/** Cumulative sums: a test of one change in the mean, and Page's chart of lasting shifts. */
import { ConfigError } from '../errors.ts';
import { kolmogorovTail } from './distributions.ts';
import { requireFinite } from './finite.ts';
import { GAUSSIAN_MAD, median, moments, quantileInPlace, spread } from './stats.ts';

export interface CusumTest {
  /** max |Σ_{i<t} (x − mean)| / (σ√N) over t. */
  readonly statistic: number;
  /** Of the supremum of a Brownian bridge: exact for long series of independent values. */
  readonly pValue: number;
  /** First sample after the change: where the sum is furthest from 0. */
  readonly change: number;
}

/**
 * CUSUM test of a change in the mean (Ploberger & Krämer 1992, residuals of a constant) of [N], N ≥ 3; null for fewer, or for a
 * constant series. Equals statsmodels' `breaks_cusumolsresid` on the centred series. Autocorrelation makes it reject too
 * often. Throws a DataError for values that are not finite. O(N).
 */
export function cusumTest(values: Float64Array): CusumTest | null {
  requireFinite(values, 'CUSUM test');
  const n = values.length;
  const { mean, std } = n === 0 ? { mean: 0, std: 0 } : spread(values);
  if (n < 3 || std === 0) return null;
  let sum = 0;
  let largest = 0;
  let change = 1;
  for (let i = 0; i < n - 1; i++) {
    sum += values[i]! - mean;
    if (Math.abs(sum) > largest) {
      largest = Math.abs(sum);
      change = i + 1;
    }
  }
  const statistic = largest / (std * Math.sqrt(n));
  return { statistic, pValue: kolmogorovTail(statistic), change };
}

/** One excursion of a sum from 0 that crossed the threshold. */
export interface Shift {
  readonly direction: 'up' | 'down';
  /** First sample of the excursion: the estimate of when the shift began. */
  readonly onset: number;
  /** Sample at which the sum crossed the threshold. */
  readonly alarm: number;
  /** After the sample at which the sum was largest: the estimate of when the shift ended. */
  readonly end: number;
  /** That largest sum, in standard deviations. */
  readonly height: number;
}

export interface CusumOptions {
  /** Level in control; default the median. */
  readonly target?: number;
  /** Standard deviation in control, > 0; default 1.4826·MAD, or the standard deviation where that is 0. */
  readonly sigma?: number;
  /** Deviation that is let pass, in σ, ≥ 0; half of the shift that shall be found. Default 0.5. */
  readonly drift?: number;
  /** Sum that raises the alarm, in σ, > 0. Default 5: about one false alarm in 465 samples of noise. */
  readonly threshold?: number;
}

/**
 * Two-sided tabular CUSUM chart (Page 1954; Montgomery 2013, §9.1): C⁺ = max(0, C⁺ + z − drift), C⁻ likewise of −z, z = (x −
 * target)/σ. A sum is not reset at its alarm, so one lasting shift is one excursion. Sorted by onset, then up before down; a
 * constant series has none. Throws a ConfigError for options out of range and a DataError for values that are not
 * finite. O(N).
 */
export function cusumShifts(values: Float64Array, options: CusumOptions = {}): Shift[] {
  requireFinite(values, 'CUSUM chart');
  if (values.length === 0) return [];
  const { target = median(values), drift = 0.5, threshold = 5 } = options;
  const sigma = options.sigma ?? robustSigma(values, target);
  if (options.sigma === undefined && sigma === 0) return [];
  if (!(sigma > 0)) throw new ConfigError(`CUSUM sigma: got ${sigma}, expected a number > 0`);
  if (!(drift >= 0)) throw new ConfigError(`CUSUM drift: got ${drift}, expected a number ≥ 0`);
  if (!(threshold > 0)) throw new ConfigError(`CUSUM threshold: got ${threshold}, expected a number > 0`);
  const found: Shift[] = [];
  for (const direction of ['up', 'down'] as const) {
    const sign = direction === 'up' ? 1 : -1;
    let sum = 0;
    let onset = 0;
    let alarm = -1;
    let end = 0;
    let height = 0;
    const close = (): void => {
      if (alarm >= 0) found.push({ direction, onset, alarm, end, height });
    };
    for (let i = 0; i < values.length; i++) {
      const next = sum + (sign * (values[i]! - target)) / sigma - drift;
      if (next <= 0) {
        if (sum > 0) close();
        sum = 0;
        continue;
      }
      if (sum === 0) {
        onset = i;
        alarm = -1;
        height = 0;
      }
      sum = next;
      if (alarm < 0 && sum > threshold) alarm = i;
      if (sum > height) {
        height = sum;
        end = i + 1;
      }
    }
    if (sum > 0) close();
  }
  return found.sort((a, b) => a.onset - b.onset || a.direction.length - b.direction.length);
}

function robustSigma(values: Float64Array, centre: number): number {
  const deviations = values.map((value) => Math.abs(value - centre));
  const scaled = GAUSSIAN_MAD * quantileInPlace(deviations, values.length, 0.5);
  if (scaled > 0) return scaled;
  return values.every((value) => value === values[0]) ? 0 : moments(values).std;
}
