/** What a whole series looks like, anomalies aside: flat, a wave, cycles of another shape, slow, noise or irregular, with or without a trend. */
import { fitLine, largestMagnitude, noiseSigma } from '../series/stats.ts';
import { SLOW_FROM, strongestLine, withoutSlow } from './line.ts';
import { repetition } from './repetition.ts';

/**
 * A base is a wave when one prominent spectral line (±2 bins, at least 4 cycles in the series) holds this part of the
 * power of its frequencies; `NOISE_FROM` is the part of noise in the spread from which even a strong line of less
 * than `CLEAR_LINE` is taken for chance. Measured: periodic tasks 0.29–1.0 at a noise part below 0.3, or above 0.76;
 * noise with level shifts below 0.59 at 0.35 and more.
 */
const LINE_FROM = 0.25;
const CLEAR_LINE = 0.65;
const NOISE_FROM = 0.3;
/** Correlation with the next cycle from which a series repeats although it is as rough as noise, has a line at another period, or rides on slower waves. */
const CLEAR_REPETITION = 0.9;
/**
 * Prominence of the line from which it is more than the strongest of many chance frequencies. Measured on 100 to 400 series each: periodic
 * tasks from 10.8 (nano5), 56 (AnomLLM), 106 (VisualTimeAnomaly), 99 of 100 from 21; random walks and smoothed ones up to 6 and
 * autoregressions up to 8 in 95 of 100; recordings of NAB below 1.
 */
const PROMINENT_FROM = 10;
/**
 * The same where less than this part of the power is slower: no slope of a walk makes a line there, and waves that run three times as fast
 * for a while (nano5) go down to 3.3.
 */
const LITTLE_SLOW = 0.05;
const PROMINENT_FROM_THERE = 3;
/** Rise of the fitted line over the series, in residual standard deviations, that is called a trend. */
const RISE_FROM = 0.5;
/** The same for noise and irregular curves, where a level shift alone reaches 1.6. */
const RISE_FROM_APERIODIC = 2;

/** What the whole series looks like, anomalies aside. */
export interface Base {
  readonly kind: 'flat' | 'sine' | 'cycle' | 'slow' | 'noise' | 'irregular';
  /** Period in samples, refined between the spectral bins; of cycles the lag at which they repeat; null for the other kinds. */
  readonly period: number | null;
  /** Correlation of cycles with themselves one period later; null for the other kinds. */
  readonly repetition: number | null;
  /** Part of the power from 4 cycles up that the strongest line ± 2 bins holds, in [0, 1]. */
  readonly lineShare: number;
  /** How far that line stands out from a power law through the other frequencies, ≥ 0 and finite. */
  readonly prominence: number;
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
  const level = values.map((value, i) => value - line.intercept - line.slope * i); // [N]
  const { share: lineShare, prominence, period, slowShare } = strongestLine(level);
  const periodic =
    !straight &&
    prominence >= (slowShare < LITTLE_SLOW ? PROMINENT_FROM_THERE : PROMINENT_FROM) &&
    lineShare >= LINE_FROM &&
    (share < NOISE_FROM || lineShare >= CLEAR_LINE);
  const candidate =
    straight || (periodic && lineShare >= CLEAR_LINE)
      ? null
      : repetition(slowShare >= SLOW_FROM ? withoutSlow(level) : level);
  const doubtful = share >= NOISE_FROM || periodic || slowShare >= SLOW_FROM;
  const clear = candidate !== null && (!doubtful || candidate.correlation >= CLEAR_REPETITION);
  // Beats and pulses may have their strongest line at a multiple of their frequency.
  const repeated = !clear || (periodic && candidate.period < 1.5 * period) ? null : candidate;
  const kind = straight
    ? 'flat'
    : repeated !== null
      ? 'cycle'
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
      period: kind === 'sine' ? period : (repeated?.period ?? null),
      repetition: repeated?.correlation ?? null,
      lineShare,
      prominence: Math.min(prominence, Number.MAX_VALUE),
      slowShare,
      rise,
      riseInStd,
      trending,
      spread: line.residualStd,
    },
  };
}
