/**
 * Savitzky–Golay smoothing and differentiation: a polynomial is fitted by least squares in a window around each
 * sample (Savitzky & Golay 1964). Coefficients come from Gram polynomials (Gorry 1990), which stay well
 * conditioned at any odd window; the output equals scipy.signal.savgol_filter.
 */

import { ConfigError } from '../ground/errors.ts';
import { requireOdd, requireWhole, requireWithin } from './checks.ts';

export interface SavgolOptions {
  /** Odd number of samples, greater than `order`. */
  readonly window: number;
  /** Degree of the polynomial, ≥ 0. */
  readonly order: number;
  /** Derivative to take, per sample; default 0. */
  readonly derivative?: number;
  /**
   * Treatment of the first and last half window: `interp` (default) evaluates the polynomial of the outermost
   * full window; `nearest` repeats the end value; `mirror` reflects about the end sample.
   */
  readonly edges?: 'interp' | 'nearest' | 'mirror';
}

const tables = new Map<string, Float64Array>();

/**
 * Weights [W, W]: row r holds the weights that give the derivative at window position r (0 … W−1); the middle row
 * is the interior filter, the others serve the ends.
 */
export function savgolWeights(window: number, order: number, derivative: number): Float64Array {
  const key = `${window}/${order}/${derivative}`;
  const known = tables.get(key);
  if (known !== undefined) return known;
  const half = (window - 1) / 2;
  const scale = Math.max(1, half);
  const table = new Float64Array(window * window); // [W, W]
  // values[d][i]: d-th derivative of the current Gram polynomial at t = (i − half) / half.
  const row = () => Array.from({ length: derivative + 1 }, () => new Float64Array(window));
  let previous = row();
  let current = row();
  current[0]!.fill(1);
  let previousNorm = 1;
  for (let k = 0; k <= order; k++) {
    let norm = 0;
    for (const value of current[0]!) norm += value * value;
    for (let r = 0; r < window; r++) {
      const atRow = current[derivative]![r]! / norm / scale ** derivative;
      for (let i = 0; i < window; i++) table[r * window + i]! += atRow * current[0]![i]!;
    }
    const ratio = k === 0 ? 0 : norm / previousNorm;
    const next = row();
    for (let d = 0; d <= derivative; d++) {
      for (let i = 0; i < window; i++) {
        const t = (i - half) / scale;
        const lower = d === 0 ? 0 : d * current[d - 1]![i]!;
        next[d]![i] = t * current[d]![i]! + lower - ratio * previous[d]![i]!;
      }
    }
    previous = current;
    current = next;
    previousNorm = norm;
  }
  if (tables.size > 64) tables.clear();
  tables.set(key, table);
  return table;
}

/**
 * Filters a series [N] → [N]. Throws a ConfigError for an even window, an order that the window cannot hold, or,
 * with `interp` edges, a series shorter than the window.
 */
export function savgol(values: Float64Array, options: SavgolOptions): Float64Array {
  const { window, order, derivative = 0, edges = 'interp' } = options;
  requireOdd('Savitzky–Golay window', window, 1);
  requireWithin('Savitzky–Golay order', order, 0, window - 1, ` for window ${window}`);
  requireWhole('Savitzky–Golay derivative', derivative, 0);
  const n = values.length;
  if (edges === 'interp' && n < window) {
    throw new ConfigError(
      `Savitzky–Golay window: got ${window} for a series of ${n} samples; use a window of at most ${n}`,
    );
  }
  const out = new Float64Array(n); // [N]
  if (n === 0) return out;
  const table = savgolWeights(window, order, derivative);
  const half = (window - 1) / 2;
  const middle = table.subarray(half * window, (half + 1) * window); // [W]
  for (let i = half; i < n - half; i++) {
    let sum = 0;
    const first = i - half;
    for (let j = 0; j < window; j++) sum += middle[j]! * values[first + j]!;
    out[i] = sum;
  }
  if (edges === 'interp') {
    const lastStart = n - window;
    for (let r = 0; r < half; r++) {
      let head = 0;
      let tail = 0;
      const tailRow = half + 1 + r;
      for (let j = 0; j < window; j++) {
        head += table[r * window + j]! * values[j]!;
        tail += table[tailRow * window + j]! * values[lastStart + j]!;
      }
      out[r] = head;
      out[lastStart + tailRow] = tail;
    }
    return out;
  }
  for (let i = 0; i < n; i++) {
    if (i >= half && i < n - half) continue;
    let sum = 0;
    for (let j = 0; j < window; j++) {
      const at = i - half + j;
      sum += middle[j]! * values[edges === 'nearest' ? Math.min(n - 1, Math.max(0, at)) : mirror(at, n)]!;
    }
    out[i] = sum;
  }
  return out;
}

/** Index reflected about the first and last sample, any distance outside. */
function mirror(index: number, n: number): number {
  if (n === 1) return 0;
  const period = 2 * (n - 1);
  const wrapped = ((index % period) + period) % period;
  return wrapped < n ? wrapped : period - wrapped;
}
