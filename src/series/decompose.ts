/** Seasonal decomposition: classical, by moving averages, and by local regression (STL). */

import { DataError } from '../ground/errors.ts';
import { requireFinite, requireOdd, requireOption, requireWhole, requireWithin } from './checks.ts';
import { Smoother } from './loess.ts';
import { moments, quantileInPlace } from './stats.ts';

export interface Decomposition {
  readonly trend: Float64Array; // [N]
  readonly seasonal: Float64Array; // [N]
  readonly residual: Float64Array; // [N]
}

/**
 * Classical decomposition (Kendall & Stuart 1983, ch. 46) of [N] into trend, season and residual. The trend is the centred moving average over one period (half weights at the ends of
 * an even one), NaN within half a period of the ends, as is the residual; the season is the mean of each phase of
 * what is left, shifted to mean 0 (`additive`, x = t + s + r) or scaled to mean 1 (`multiplicative`, x = t·s·r).
 * Equals statsmodels' `seasonal_decompose`. Needs N ≥ 2·period, period ≥ 2 (ConfigError), finite values and, for
 * `multiplicative`, positive ones (DataError). Cost O(N·period).
 */
export function decompose(
  values: Float64Array,
  period: number,
  model: 'additive' | 'multiplicative' = 'additive',
): Decomposition {
  requireFinite(values, 'decomposition');
  const n = values.length;
  requireWithin('decomposition period', period, 2, n >> 1, ` for ${n} samples (two whole periods)`);
  const multiplicative = model === 'multiplicative';
  if (multiplicative) {
    const at = values.findIndex((value) => value <= 0);
    if (at >= 0) {
      throw new DataError(
        `multiplicative decomposition: value ${at} is ${values[at]}, expected positive values; use additive`,
      );
    }
  }
  const half = period >> 1;
  const even = period % 2 === 0;
  const trend = new Float64Array(n).fill(Number.NaN);
  const detrended = new Float64Array(n).fill(Number.NaN);
  for (let i = half; i < n - half; i++) {
    let sum = even ? (values[i - half]! + values[i + half]!) / 2 : values[i - half]! + values[i + half]!;
    for (let k = i - half + 1; k < i + half; k++) sum += values[k]!;
    trend[i] = sum / period;
    detrended[i] = multiplicative ? values[i]! / trend[i]! : values[i]! - trend[i]!;
  }
  const phases = Float64Array.from({ length: period }, (_, phase) => {
    let sum = 0;
    let count = 0;
    for (let i = phase; i < n; i += period) {
      if (i < half || i >= n - half) continue;
      sum += detrended[i]!;
      count++;
    }
    return sum / count;
  });
  const centre = phases.reduce((sum, phase) => sum + phase, 0) / period;
  const seasonal = values.map((_, i) =>
    multiplicative ? phases[i % period]! / centre : phases[i % period]! - centre,
  );
  const residual = detrended.map((value, i) =>
    multiplicative ? value / seasonal[i]! : value - seasonal[i]!,
  );
  return { trend, seasonal, residual };
}

export interface StlOptions {
  /** Samples per season, ≥ 2. */
  readonly period: number;
  /** Odd number of seasons that the seasonal smoother sees, ≥ 3; default 7. */
  readonly seasonal?: number;
  /** Odd number of samples of the trend smoother, > period; default the first odd one from 1.5·period / (1 − 1.5/seasonal). */
  readonly trend?: number;
  /** Odd number of samples of the low-pass smoother, > period; default the first odd one above the period. */
  readonly lowPass?: number;
  /** Degrees of the local polynomials; default 1. */
  readonly seasonalDegree?: 0 | 1;
  readonly trendDegree?: 0 | 1;
  readonly lowPassDegree?: 0 | 1;
  /** Points between two local fits, the rest interpolated; default 1: every point is fitted. */
  readonly seasonalJump?: number;
  readonly trendJump?: number;
  readonly lowPassJump?: number;
  /** Weigh outliers down; default false. */
  readonly robust?: boolean;
  /** Passes inside; default 5, or 2 when robust. */
  readonly inner?: number;
  /** Updates of the robustness weights; default 0, or 15 when robust. */
  readonly outer?: number;
}

export interface SeasonalTrend extends Decomposition {
  /** Robustness weights in [0, 1]; 1 throughout without outer passes. */
  readonly weights: Float64Array; // [N]
}

/** Data shared by phases of one length. */
interface Cycle {
  readonly length: number;
  readonly smoother: Smoother;
  readonly own: Float64Array; // [length]
  readonly trust: Float64Array; // [length]
  readonly smooth: Float64Array; // [length]
}

const oddFrom = (x: number): number => {
  const whole = Math.ceil(x);
  return whole % 2 === 1 ? whole : whole + 1;
};

/**
 * Seasonal-trend decomposition by local regression (STL; Cleveland, Cleveland, McRae & Terpenning 1990), with the defaults of
 * statsmodels' `STL`, whose numbers it gives: trend + seasonal + residual = [N]. Needs N ≥ 2·period (ConfigError) and finite values
 * (DataError). Cost per inner pass O(N·(seasonal + trend + lowPass)).
 */
export function stl(values: Float64Array, options: StlOptions): SeasonalTrend {
  requireFinite(values, 'STL');
  const n = values.length;
  const { period, seasonal = 7, robust = false } = options;
  const { inner = robust ? 2 : 5, outer = robust ? 15 : 0 } = options;
  requireWhole('STL period', period, 2);
  requireOption(n >= 2 * period, 'STL period', period, `at most ${n >> 1} for ${n} samples`);
  requireOdd('STL seasonal', seasonal, 3);
  requireWhole('STL inner', inner, 1);
  requireWhole('STL outer', outer, 0);
  const smoother = (
    name: string,
    length: number,
    window: number,
    least: number,
    degree: 0 | 1 = 1,
    jump = 1,
  ): Smoother => {
    requireOdd(`STL ${name}`, window, least);
    requireWhole(`STL ${name}Jump`, jump, 1);
    return new Smoother(length, { window, degree, jump });
  };
  const { seasonalDegree, trendDegree, lowPassDegree, seasonalJump, trendJump, lowPassJump } = options;
  const trendWindow = options.trend ?? oddFrom((1.5 * period) / (1 - 1.5 / seasonal));
  const smoothTrend = smoother('trend', n, trendWindow, period + 1, trendDegree, trendJump);
  const lowPassWindow = options.lowPass ?? oddFrom(period + 1);
  const smoothLow = smoother('lowPass', n, lowPassWindow, period + 1, lowPassDegree, lowPassJump);
  const cycleOf = (length: number): Cycle => ({
    length,
    smoother: smoother('seasonal', length, seasonal, 3, seasonalDegree, seasonalJump),
    own: new Float64Array(length),
    trust: new Float64Array(length),
    smooth: new Float64Array(length),
  });
  // The first phases may have one sample more than the others.
  const [longer, shorter] = [cycleOf(Math.ceil(n / period)), cycleOf(Math.floor(n / period))];
  const cycles = Array.from({ length: period }, (_, phase) => (phase < n % period ? longer : shorter));

  const trend = new Float64Array(n);
  const season = new Float64Array(n);
  const weights = new Float64Array(n).fill(1);
  const extended = new Float64Array(n + 2 * period); // one season more at each end
  const averaged = new Float64Array(n + 2 * period);
  const low = new Float64Array(n);
  const work = new Float64Array(n);
  for (let round = 0; round <= outer; round++) {
    const robustness = round === 0 ? null : weights;
    smoothTrend.weigh(robustness);
    for (let pass = 0; pass < inner; pass++) {
      for (let i = 0; i < n; i++) work[i] = values[i]! - trend[i]!;
      smoothCycles(work, period, cycles, seasonal, robustness, extended);
      // Three moving averages take off what the extended season holds of the trend.
      movingAverage(extended, n + 2 * period, period, averaged);
      movingAverage(averaged, n + period + 1, period, averaged);
      movingAverage(averaged, n + 2, 3, averaged);
      smoothLow.smooth(averaged, low);
      for (let i = 0; i < n; i++) {
        season[i] = extended[i + period]! - low[i]!;
        work[i] = values[i]! - season[i]!;
      }
      smoothTrend.smooth(work, trend);
    }
    if (round < outer) updateWeights(values, trend, season, work, weights);
  }
  const residual = values.map((value, i) => value - season[i]! - trend[i]!);
  return { trend, seasonal: season, residual, weights };
}

/** Smooths every phase on its own and extends it by one season at each end: [N] → [N + 2·period]. */
function smoothCycles(
  values: Float64Array,
  period: number,
  cycles: readonly Cycle[],
  window: number,
  robustness: Float64Array | null,
  extended: Float64Array,
): void {
  for (let phase = 0; phase < period; phase++) {
    const { length, smoother, own, trust, smooth } = cycles[phase]!;
    for (let k = 0; k < length; k++) own[k] = values[k * period + phase]!;
    if (robustness !== null) {
      for (let k = 0; k < length; k++) trust[k] = robustness[k * period + phase]!;
      smoother.weigh(trust);
    }
    smoother.smooth(own, smooth);
    const before = smoother.fit(own, -1, 0, Math.min(window, length) - 1);
    const after = smoother.fit(own, length, Math.max(0, length - window), length - 1);
    extended[phase] = Number.isNaN(before) ? smooth[0]! : before;
    for (let k = 0; k < length; k++) extended[(k + 1) * period + phase] = smooth[k]!;
    extended[(length + 1) * period + phase] = Number.isNaN(after) ? smooth[length - 1]! : after;
  }
}

/** Means of `window` samples of values[0, n) into out[0, n − window + 1), which may be the same array. */
function movingAverage(values: Float64Array, n: number, window: number, out: Float64Array): void {
  let sum = 0;
  for (let i = 0; i < window; i++) sum += values[i]!;
  for (let i = 0; i + window <= n; i++) {
    const leaving = values[i]!;
    out[i] = sum / window;
    if (i + window < n) sum += values[i + window]! - leaving;
  }
}

/** Bisquare weights of the residuals at six times their median size. */
function updateWeights(
  values: Float64Array,
  trend: Float64Array,
  season: Float64Array,
  scratch: Float64Array,
  weights: Float64Array,
): void {
  const n = values.length;
  for (let i = 0; i < n; i++) {
    weights[i] = Math.abs(values[i]! - trend[i]! - season[i]!);
    scratch[i] = weights[i]!;
  }
  const limit = 6 * quantileInPlace(scratch, n, 0.5);
  for (let i = 0; i < n; i++) {
    const size = weights[i]!;
    if (limit === 0 || size <= 0.001 * limit) weights[i] = 1;
    else weights[i] = size <= 0.999 * limit ? (1 - (size / limit) ** 2) ** 2 : 0;
  }
}

/** Share of the variance beside the other part that season and trend hold, in [0, 1] (Wang, Smith & Hyndman 2006). */
export function strengths({ trend, seasonal, residual }: Decomposition): { trend: number; seasonal: number } {
  const known = residual.map((_, i) => i).filter((i) => !Number.isNaN(residual[i]!));
  const variance = (at: (i: number) => number): number => moments(Float64Array.from(known, at)).std ** 2;
  const left = variance((i) => residual[i]!);
  const share = (part: Float64Array): number => {
    const with_ = variance((i) => residual[i]! + part[i]!);
    return with_ === 0 ? 0 : Math.max(0, 1 - left / with_);
  };
  return { trend: share(trend), seasonal: share(seasonal) };
}
