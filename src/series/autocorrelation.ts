/** Autocorrelation of a series, and the band in which that of noise stays. */
import { ConfigError } from '../errors.ts';
import { normalQuantile } from './distributions.ts';
import { requireFinite } from './finite.ts';
import { spread } from './stats.ts';

export interface AutocorrelationOptions {
  /** Largest lag, 0 … N − 1; default ⌊10·log₁₀N⌋. */
  readonly lags?: number;
  /** Divide the covariance at lag k by N − k instead of N; default false. */
  readonly adjusted?: boolean;
}

/**
 * Autocorrelation r[k] = Σ (x[t] − μ)(x[t+k] − μ) / Σ (x[t] − μ)², k = 0 … lags: [N] → [lags + 1]. NaN throughout for a
 * constant series, where it is undefined. Equals statsmodels' `acf`. Throws a DataError for values that are not
 * finite, a ConfigError for lags out of range. Cost O(N·lags).
 */
export function autocorrelation(values: Float64Array, options: AutocorrelationOptions = {}): Float64Array {
  requireFinite(values, 'autocorrelation');
  const n = values.length;
  const lags = options.lags ?? Math.max(0, Math.min(n - 1, Math.floor(10 * Math.log10(n))));
  if (!Number.isInteger(lags) || lags < 0 || lags >= n) {
    throw new ConfigError(`autocorrelation lags: got ${lags}, expected 0 … ${n - 1} for ${n} samples`);
  }
  const { mean, std } = spread(values);
  const out = new Float64Array(lags + 1); // [lags + 1]
  if (std === 0) return out.fill(Number.NaN);
  const centred = values.map((value) => value - mean);
  for (let k = 0; k <= lags; k += 4) fourProducts(centred, k, out);
  for (let k = 0; k <= lags; k++) out[k]! /= options.adjusted === true ? n - k : n;
  const own = out[0]!;
  for (let k = 0; k <= lags; k++) out[k]! /= own;
  return out;
}

/** Σ x[i]·x[i − lag] at the lags k … k + 3, as far as `out` reaches: together, so that none waits for its own additions. */
function fourProducts(x: Float64Array, k: number, out: Float64Array): void {
  const n = x.length;
  const all = Math.min(n, k + 3);
  const sums = [0, 0, 0, 0];
  for (let i = k; i < all; i++) for (let d = 0; d <= i - k; d++) sums[d]! += x[i]! * x[i - k - d]!;
  let [sum0, sum1, sum2, sum3] = sums as [number, number, number, number];
  for (let i = all; i < n; i++) {
    const value = x[i]!;
    sum0 += value * x[i - k]!;
    sum1 += value * x[i - k - 1]!;
    sum2 += value * x[i - k - 2]!;
    sum3 += value * x[i - k - 3]!;
  }
  const last = Math.min(4, out.length - k);
  const done = [sum0, sum1, sum2, sum3];
  for (let d = 0; d < last; d++) out[k + d] = done[d]!;
}

/**
 * Half-widths of the confidence bands around an autocorrelation [lags + 1] of N samples, by Bartlett's formula:
 * z·√((1 + 2·Σ_{0<i<k} r[i]²) / N) at lag k, 0 at lag 0 (Brockwell & Davis 1991, §7.2). `alpha` in (0, 1).
 */
export function bartlettBands(correlations: Float64Array, n: number, alpha = 0.05): Float64Array {
  if (!(alpha > 0 && alpha < 1)) throw new ConfigError(`Bartlett bands alpha: got ${alpha}, expected (0, 1)`);
  const z = normalQuantile(1 - alpha / 2);
  const bands = new Float64Array(correlations.length);
  let sum = 0;
  for (let k = 1; k < correlations.length; k++) {
    if (k > 1) sum += correlations[k - 1]! ** 2;
    bands[k] = z * Math.sqrt((1 + 2 * sum) / n);
  }
  return bands;
}
