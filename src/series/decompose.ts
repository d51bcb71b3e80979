/** Seasonal decomposition: classical, by moving averages, and by local regression (STL). */
import { DataError } from '../ground/errors.ts';
import { getOrMake } from '../ground/maps.ts';
import { requireFinite, requireOdd, requireOption, requireWhole, requireWithin } from './checks.ts';
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
  readonly samples: Float64Array; // [length]
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
    samples: new Float64Array(length),
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
    const { length, smoother, samples, trust, smooth } = cycles[phase]!;
    for (let k = 0; k < length; k++) samples[k] = values[k * period + phase]!;
    if (robustness !== null) {
      for (let k = 0; k < length; k++) trust[k] = robustness[k * period + phase]!;
      smoother.weigh(trust);
    }
    smoother.smooth(samples, smooth);
    const before = smoother.fit(samples, -1, 0, Math.min(window, length) - 1);
    const after = smoother.fit(samples, length, Math.max(0, length - window), length - 1);
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

/**
 * Local regression at equally spaced points (Cleveland 1979), as seasonal-trend decomposition uses it: tricube weights over a
 * fixed number of neighbours, a constant or a line fitted at each point, robustness weights if given.
 */

export interface Loess {
  /** Odd number of neighbours, ≥ 3; more than there are points widens the bandwidth. */
  readonly window: number;
  readonly degree: 0 | 1;
  /** Points between two fits, ≥ 1; those between are interpolated linearly. */
  readonly jump: number;
}

/**
 * Value at `at` of the line (or constant) fitted to the neighbours from … to; NaN where every weight is 0. Moments of distance and value
 * are summed in one pass, values against one of them, so that an offset does not cancel digits. Where the neighbours lie
 * within `narrow` of one place, the fit is a constant.
 */
function weightedFit(
  values: Float64Array,
  trust: Float64Array,
  at: number,
  from: number,
  to: number,
  { reach, weights, leans, squares }: Kernel,
  degree: 0 | 1,
  narrow: number,
): number {
  const near = values[Math.min(to, Math.max(from, at))]!;
  let w0 = 0;
  let w1 = 0;
  let w2 = 0;
  let y0 = 0;
  let y1 = 0;
  for (let j = from, k = from - at + reach; j <= to; j++, k++) {
    const pointTrust = trust[j]!;
    const value = values[j]! - near;
    const weight = pointTrust * weights[k]!;
    const lean = pointTrust * leans[k]!;
    w0 += weight;
    w1 += lean;
    w2 += pointTrust * squares[k]!;
    y0 += weight * value;
    y1 += lean * value;
  }
  if (!(w0 > 0)) return Number.NaN;
  const mean = y0 / w0;
  if (degree === 0) return near + mean;
  const centre = w1 / w0;
  const spread = w2 / w0 - centre * centre;
  if (!(Math.sqrt(spread) > narrow)) return near + mean;
  return near + mean - (centre * (y1 / w0 - centre * mean)) / spread;
}

/** Smoother for series of one length with one set of options: it keeps the weights of each bandwidth. */
export class Smoother {
  readonly #n: number;
  readonly #options: Loess;
  readonly #narrow: number;
  readonly #kernels = new Map<number, Kernel>();
  /** Points from … to whose window lies inside of the series. */
  readonly #from: number;
  readonly #to: number;
  #robust = false;
  readonly #trust: Float64Array; // [N]

  constructor(n: number, options: Loess) {
    this.#n = n;
    this.#options = options;
    this.#narrow = 0.001 * (n - 1);
    const half = (options.window - 1) >> 1;
    this.#from = Math.min(half, n);
    this.#to = Math.max(this.#from, n - half);
    this.#trust = new Float64Array(n).fill(1);
  }

  #kernelOf(h: number): Kernel {
    return getOrMake(this.#kernels, h, () => tricube(h));
  }

  /** Sets the robustness weights [N] that multiply those of distance, until they are set again; null, as at first: none. */
  weigh(robust: Float64Array | null): void {
    this.#robust = robust !== null;
    if (robust === null) this.#trust.fill(1);
    else this.#trust.set(robust);
  }

  /**
   * Fit at position `at` (0-based, may lie outside the series) from neighbours first … last: the value, or NaN where every
   * weight is 0.
   */
  fit(values: Float64Array, at: number, first: number, last: number): number {
    const { window, degree } = this.#options;
    let h = Math.max(at - first, last - at);
    if (window > this.#n) h += (window - this.#n) >> 1;
    const kernel = this.#kernelOf(h);
    // Neighbours beyond the kernel have weight 0.
    const from = Math.max(first, at - kernel.reach);
    const to = Math.min(last, at + kernel.reach);
    return weightedFit(values, this.#trust, at, from, to, kernel, degree, this.#narrow);
  }

  /** Smooths `values` [N] into `out` [N]. A point whose neighbours all have weight 0 keeps its value. */
  smooth(values: Float64Array, out: Float64Array): void {
    const n = this.#n;
    if (n < 2) {
      out[0] = values[0]!;
      return;
    }
    const jump = Math.min(this.#options.jump, n - 1);
    let previous = 0;
    for (let i = 0; ; ) {
      out[i] = this.#fitAt(values, i);
      if (Number.isNaN(out[i])) out[i] = values[i]!;
      if (i - previous > 1) {
        const step = (out[i]! - out[previous]!) / (i - previous);
        for (let k = previous + 1; k < i; k++) out[k] = out[previous]! + step * (k - previous);
      }
      if (i === n - 1) return;
      previous = i;
      i = Math.min(n - 1, i + jump);
    }
  }

  /** Fit at a point from the window around it, which near an end is moved inwards. */
  #fitAt(values: Float64Array, i: number): number {
    const n = this.#n;
    const { window } = this.#options;
    const half = (window - 1) >> 1;
    const inside = i >= this.#from && i < this.#to;
    // A line's value in the middle of its window is the mean.
    if (inside && !this.#robust) return middleMean(this.#kernelOf(half), values, i);
    if (inside) return this.fit(values, i, i - half, i + half);
    if (window >= n) return this.fit(values, i, 0, n - 1);
    const first = i < this.#from ? 0 : n - window;
    return this.fit(values, i, first, first + window - 1);
  }
}

/** Weighted mean of the values around i, all inside of the series; pairs first, which are equally far. */
function middleMean({ reach, weights, total }: Kernel, values: Float64Array, i: number): number {
  let sum = weights[reach]! * values[i]!;
  for (let d = 1; d <= reach; d++) sum += weights[reach + d]! * (values[i - d]! + values[i + d]!);
  return sum / total;
}

/** Tricube weights for bandwidth h at distances −R … R, R = ⌊0.999·h⌋, the same times distance and distance², and their sum. */
export interface Kernel {
  readonly reach: number;
  readonly weights: Float64Array; // [2R + 1]
  readonly leans: Float64Array; // [2R + 1]
  readonly squares: Float64Array; // [2R + 1]
  readonly total: number;
}

export function tricube(h: number): Kernel {
  const reach = Math.floor(0.999 * h);
  const weights = new Float64Array(2 * reach + 1);
  const leans = new Float64Array(2 * reach + 1);
  const squares = new Float64Array(2 * reach + 1);
  let total = 0;
  for (let k = 0; k < weights.length; k++) {
    const distance = k - reach;
    const part = Math.abs(distance) / h;
    const rest = 1 - part * part * part;
    const weight = Math.abs(distance) <= 0.001 * h ? 1 : rest * rest * rest;
    weights[k] = weight;
    leans[k] = weight * distance;
    squares[k] = weight * distance * distance;
    total += weight;
  }
  return { reach, weights, leans, squares, total };
}
