/** What a whole series looks like, anomalies aside: flat, periodic, slow, noise or irregular, with or without a trend. */
import { dominantIndex, refineFrequency, spectrum } from '../series/spectrum.ts';
import { fitLine, largestMagnitude, noiseSigma } from '../series/stats.ts';

/**
 * A base is periodic when one spectral line (±2 bins, at least 4 cycles in the series) holds this part of the
 * power of its frequencies; `NOISE_FROM` is the part of noise in the spread from which even a strong line of less
 * than `CLEAR_LINE` is taken for chance. Measured: periodic tasks 0.29–1.0 at a noise part below 0.3, or above 0.76;
 * noise with level shifts below 0.59 at 0.35 and more.
 */
const LINE_FROM = 0.25;
const CLEAR_LINE = 0.65;
const NOISE_FROM = 0.3;
/** Cycles that must fit into the series before something is called a period. */
export const FEWEST_CYCLES = 4;
/** Part of the power that is slower, from which a curve that is neither periodic nor noise is a slow one: hardly anything in it comes again. */
const SLOW_FROM = 0.5;
/** Rise of the fitted line over the series, in residual standard deviations, that is called a trend. */
const RISE_FROM = 0.5;
/** The same for noise and irregular curves, where a level shift alone reaches 1.6. */
const RISE_FROM_APERIODIC = 2;

/** What the whole series looks like, anomalies aside. */
export interface Base {
  readonly kind: 'flat' | 'sine' | 'slow' | 'noise' | 'irregular';
  /** Period in samples, refined between the spectral bins; null unless the base is a sine. */
  readonly period: number | null;
  /** Part of the power from 4 cycles up that the strongest line ± 2 bins holds, in [0, 1]. */
  readonly lineShare: number;
  /** Part of the power of all frequencies that lies below 4 cycles, in [0, 1]. */
  readonly slowShare: number;
  /** Rise of the fitted line from the first sample to the last, in the unit of the values. */
  readonly rise: number;
  /** |rise| in standard deviations of what the line leaves. */
  readonly riseInStd: number;
  readonly trending: boolean;
  /** Standard deviation of what the line leaves, in the unit of the values. */
  readonly spread: number;
}

export interface Noise {
  /** Estimated standard deviation of white noise (third differences). */
  readonly sigma: number;
  /** sigma over the standard deviation around the fitted line, about 0 … 1; 0 for a flat series. */
  readonly share: number;
}

/** What a series [N], N ≥ 1 of finite values, looks like as a whole. */
export function describeBase(values: Float64Array): { noise: Noise; base: Base } {
  const n = values.length;
  const line = fitLine(values);
  const sigma = noiseSigma(values);
  const rise = line.slope * (n - 1);
  const largest = largestMagnitude(values);
  // What a straight line leaves of itself is rounding, not a spread.
  const straight = line.residualStd <= 1e-9 * largest;
  const share = straight ? 0 : sigma / line.residualStd;
  const riseInStd = straight ? 0 : Math.abs(rise) / line.residualStd;
  const { lineShare, slowShare, period } = strongestLine(values, line.slope, line.intercept);
  const periodic = !straight && lineShare >= LINE_FROM && (share < NOISE_FROM || lineShare >= CLEAR_LINE);
  const kind = straight
    ? 'flat'
    : periodic
      ? 'sine'
      : share >= NOISE_FROM
        ? 'noise'
        : slowShare >= SLOW_FROM
          ? 'slow'
          : 'irregular';
  const trending = straight
    ? Math.abs(rise) > 1e-9 * largest
    : riseInStd > (periodic ? RISE_FROM : RISE_FROM_APERIODIC);
  return {
    noise: { sigma, share },
    base: {
      kind,
      period: kind === 'sine' ? period : null,
      lineShare,
      slowShare,
      rise,
      riseInStd,
      trending,
      spread: line.residualStd,
    },
  };
}

/** The strongest line of at least 4 cycles in what the fitted line leaves, its share of that power, its period; the part of slower power. */
function strongestLine(
  values: Float64Array,
  slope: number,
  intercept: number,
): { lineShare: number; slowShare: number; period: number } {
  const n = values.length;
  if (n < 2 * FEWEST_CYCLES) return { lineShare: 0, slowShare: 0, period: Number.NaN };
  const level = new Float64Array(n); // [N]
  for (let i = 0; i < n; i++) level[i] = values[i]! - intercept - slope * i;
  const transformed = spectrum(level);
  const { re, im } = transformed;
  const power = (k: number): number => re[k]! * re[k]! + im[k]! * im[k]!;
  let total = 0;
  for (let k = FEWEST_CYCLES; k < re.length; k++) total += power(k);
  let slow = 0;
  for (let k = 1; k < FEWEST_CYCLES; k++) slow += power(k);
  const slowShare = slow + total === 0 ? 0 : slow / (slow + total);
  // Power that falls from below is what a slower wave, of too few cycles, leaks up to here: no line of its own.
  let from = FEWEST_CYCLES;
  while (from < re.length && power(from) <= power(from - 1)) from++;
  if (from === re.length) return { lineShare: 0, slowShare, period: Number.NaN };
  const peak = dominantIndex(transformed, from);
  let near = 0;
  for (let k = Math.max(from, peak - 2); k <= Math.min(peak + 2, re.length - 1); k++) near += power(k);
  const period = n / refineFrequency(transformed, peak);
  return { lineShare: total === 0 ? 0 : near / total, slowShare, period };
}
