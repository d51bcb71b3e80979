/** Classical seasonal decomposition by moving averages (Kendall & Stuart 1983, ch. 46). */
import { ConfigError, DataError } from '../errors.ts';
import { requireFinite } from './finite.ts';

export interface Decomposition {
  readonly trend: Float64Array; // [N]
  readonly seasonal: Float64Array; // [N]
  readonly residual: Float64Array; // [N]
}

/**
 * Splits [N] into trend, season and residual. The trend is the centred moving average over one period (half weights at the ends of
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
  if (!Number.isInteger(period) || period < 2 || 2 * period > n) {
    throw new ConfigError(
      `decomposition period: got ${period}, expected 2 … ${n >> 1} for ${n} samples (two whole periods)`,
    );
  }
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
