/** Change points in the mean: exact segmentation (PELT), the CUSUM test of one change, and the CUSUM chart of lasting shifts. */
import { requireFinite, requireOption, requireWhole } from './checks.ts';
import { GAUSSIAN_MAD, kolmogorovTail, median, moments, quantileInPlace, spread } from './stats.ts';

export interface PeltOptions {
  /** Fewest samples of a segment, ≥ 1; default 2. */
  readonly minSize?: number;
  /** Reduction of Σ (x − segment mean)² that one more change must bring. Default: `changePenalty`. */
  readonly penalty?: number;
}

export interface Segmentation {
  /** First samples of the segments but the first, ascending. */
  readonly changes: readonly number[];
  /** Means of the segments. */
  readonly means: readonly number[];
  /** Σ (x − segment mean)². */
  readonly cost: number;
  readonly penalty: number;
}

/**
 * Default penalty 2σ²·ln N: the Bayesian information criterion for a change, which adds a mean and a place (Yao 1988). σ is
 * that of the noise, 1.4826·MAD of the first differences over √2, so that the changes themselves do not widen it; where
 * more than half of the differences are equal, the standard deviation of the series instead.
 */
export function changePenalty(values: Float64Array): number {
  const n = values.length;
  if (n < 2) return 0;
  const steps = Float64Array.from({ length: n - 1 }, (_, i) => values[i + 1]! - values[i]!);
  const middle = quantileInPlace(steps, n - 1, 0.5);
  for (let i = 0; i < n - 1; i++) steps[i] = Math.abs(steps[i]! - middle);
  const sigma = (GAUSSIAN_MAD * quantileInPlace(steps, n - 1, 0.5)) / Math.SQRT2 || spread(values).std;
  return 2 * sigma * sigma * Math.log(n);
}

/**
 * PELT (Killick, Fearnhead & Eckley 2012): the segmentation of [N] that minimises cost + penalty · changes among all with segments of at least `minSize` samples; among equal
 * ones the last segment starts as early as possible. Fewer than 2·minSize samples are one segment. Throws a ConfigError for options
 * out of range and a DataError for values that are not finite. Expected cost O(N) where changes keep coming, at most
 * O(N²) (no change in 10 000 samples: about a tenth of a second).
 */
export function pelt(values: Float64Array, options: PeltOptions = {}): Segmentation {
  requireFinite(values, 'change points');
  const { minSize = 2, penalty = changePenalty(values) } = options;
  requireWhole('change points minSize', minSize, 1);
  requireOption(penalty >= 0, 'change points penalty', penalty, 'a number ≥ 0');
  const n = values.length;
  if (n === 0) return { changes: [], means: [], cost: 0, penalty };
  // Sums of deviations from the mean: a large offset would take the digits of the squares.
  const { mean } = spread(values);
  const sums = new Float64Array(n + 1);
  const squares = new Float64Array(n + 1);
  for (let i = 0; i < n; i++) {
    const centred = values[i]! - mean;
    sums[i + 1] = sums[i]! + centred;
    squares[i + 1] = squares[i]! + centred * centred;
  }
  // total[t]: least cost + penalties of the first t samples, one penalty per segment; from[t]: start of the last segment.
  const total = new Float64Array(n + 1).fill(Number.POSITIVE_INFINITY);
  const from = new Int32Array(n + 1);
  total[0] = 0;
  const starts = new Int32Array(n + 1); // candidates for the last segment's start, ascending
  const until = new Int32Array(n + 1); // end from which a candidate can be left out
  const whole = new Float64Array(n + 1); // cost of all up to t, if the last segment starts at the candidate
  let kept = 0;
  for (let t = minSize; t <= n; t++) {
    const newest = t - minSize;
    if (Number.isFinite(total[newest]!)) {
      starts[kept] = newest;
      until[kept++] = n + 1;
    }
    let best = Number.POSITIVE_INFINITY;
    let bestStart = 0;
    let alive = 0;
    for (let c = 0; c < kept; c++) {
      if (until[c]! <= t) continue;
      const s = starts[c]!;
      const sum = sums[t]! - sums[s]!;
      const cost = total[s]! + (squares[t]! - squares[s]! - (sum * sum) / (t - s));
      if (cost < best) {
        best = cost;
        bestStart = s;
      }
      whole[alive] = cost;
      starts[alive] = s;
      until[alive++] = until[c]!;
    }
    kept = alive;
    total[t] = best + penalty;
    from[t] = bestStart;
    // A start that loses at t against a segment that begins at t loses at every later end at which t may be a start.
    const bound = best + penalty;
    for (let c = 0; c < kept; c++) {
      if (whole[c]! > bound && until[c]! > t + minSize) until[c] = t + minSize;
    }
  }
  const changes: number[] = [];
  if (n >= 2 * minSize) for (let t = n; from[t]! > 0; t = from[t]!) changes.unshift(from[t]!);
  const bounds = [0, ...changes, n];
  const means = bounds.slice(1).map((end, k) => mean + (sums[end]! - sums[bounds[k]!]!) / (end - bounds[k]!));
  let cost = 0;
  for (const [k, level] of means.entries()) {
    for (let i = bounds[k]!; i < bounds[k + 1]!; i++) cost += (values[i]! - level) ** 2;
  }
  return { changes, means, cost, penalty };
}

export interface CusumTest {
  /** max |Σ_{i<t} (x − mean)| / (σ√N) over t. */
  readonly statistic: number;
  /** Tail probability of the supremum of a Brownian bridge: exact for long series of independent values. */
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
  requireOption(sigma > 0, 'CUSUM sigma', sigma, 'a number > 0');
  requireOption(drift >= 0, 'CUSUM drift', drift, 'a number ≥ 0');
  requireOption(threshold > 0, 'CUSUM threshold', threshold, 'a number > 0');
  const shifts: Shift[] = [];
  for (const direction of ['up', 'down'] as const) {
    const sign = direction === 'up' ? 1 : -1;
    let sum = 0;
    let onset = 0;
    let alarm = -1;
    let end = 0;
    let height = 0;
    const close = (): void => {
      if (alarm >= 0) shifts.push({ direction, onset, alarm, end, height });
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
  return shifts.sort((a, b) => a.onset - b.onset || a.direction.length - b.direction.length);
}

function robustSigma(values: Float64Array, centre: number): number {
  const deviations = values.map((value) => Math.abs(value - centre));
  const scaled = GAUSSIAN_MAD * quantileInPlace(deviations, values.length, 0.5);
  if (scaled > 0) return scaled;
  return values.every((value) => value === values[0]) ? 0 : moments(values).std;
}
