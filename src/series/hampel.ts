/** Hampel's filter: outliers against the median of their neighbourhood. */
import { ConfigError } from '../errors.ts';
import { requireFinite } from './finite.ts';
import { GAUSSIAN_MAD, quantileInPlace } from './stats.ts';

export interface HampelOptions {
  /** Neighbours on each side, ≥ 1; default 5. At the ends the window is cut off. */
  readonly half?: number;
  /** Deviations beyond this many scaled MADs are outliers, ≥ 0; default 3. */
  readonly sigmas?: number;
}

export interface HampelFilter {
  /** The series with each outlier replaced by the median of its window. */
  readonly filtered: Float64Array; // [N]
  /** Indices of the outliers, ascending. */
  readonly outliers: Int32Array;
}

/**
 * Hampel filter of [N] (Hampel 1974; Pearson et al. 2016): x[i] is an outlier if |x[i] − median| > sigmas · 1.4826 · MAD of the window
 * i − half … i + half. Where more than half of a window is equal, its MAD is 0 and any other value an outlier. Throws a
 * ConfigError for options out of range and a DataError for values that are not finite. Expected cost O(N · half).
 */
export function hampel(values: Float64Array, options: HampelOptions = {}): HampelFilter {
  requireFinite(values, 'Hampel filter');
  const { half = 5, sigmas = 3 } = options;
  if (!Number.isInteger(half) || half < 1) {
    throw new ConfigError(`Hampel half: got ${half}, expected a whole number ≥ 1`);
  }
  if (!(sigmas >= 0)) throw new ConfigError(`Hampel sigmas: got ${sigmas}, expected a number ≥ 0`);
  const n = values.length;
  const filtered = values.slice();
  const outliers: number[] = [];
  const window = new Float64Array(Math.min(n, 2 * half + 1));
  for (let i = 0; i < n; i++) {
    const first = Math.max(0, i - half);
    const size = Math.min(n, i + half + 1) - first;
    for (let k = 0; k < size; k++) window[k] = values[first + k]!;
    const middle = quantileInPlace(window, size, 0.5);
    const deviation = Math.abs(values[i]! - middle);
    if (deviation === 0) continue;
    for (let k = 0; k < size; k++) window[k] = Math.abs(values[first + k]! - middle);
    if (deviation > sigmas * GAUSSIAN_MAD * quantileInPlace(window, size, 0.5)) {
      filtered[i] = middle;
      outliers.push(i);
    }
  }
  return { filtered, outliers: Int32Array.from(outliers) };
}
