/** Saliency of a series by its spectral residual (Ren et al. 2019, "Time-series anomaly detection service at Microsoft"). */
import { requireFinite, requireOdd, requireWhole } from './checks.ts';
import { seriesOfSpectrum, spectrum } from './spectrum.ts';

export interface SpectralResidualOptions {
  /** Odd number of frequencies over which the log amplitude is averaged (q), ≥ 3; default 3. */
  readonly average?: number;
  /** Samples before each one that its saliency is compared with (z), ≥ 1; default 21. */
  readonly before?: number;
  /** Estimated samples put behind the last one (κ), ≥ 0, so that it does not stand at an edge; default 5. */
  readonly extend?: number;
}

export interface SpectralResidual {
  /** |inverse transform of exp(residual + i·phase)|. */
  readonly saliency: Float64Array; // [N]
  /** Saliency over the mean of the `before` samples before it, less 1; 0 for the first sample and in a constant series. */
  readonly score: Float64Array; // [N]
}

/** Points whose slopes extend the series (m). */
const SLOPES = 5;
/** Amplitudes below this part of the largest are rounding: they have no phase, and no say in the saliency. */
const FLOOR = 1e-8;

/**
 * Spectral residual of [N]: log amplitude spectrum less its centred average over `average` neighbouring frequencies (circular:
 * the spectrum is periodic), with the phases kept, transformed back. A point that the rest of the series does not foretell is
 * salient; the paper's threshold for the score is 3. Throws a ConfigError for options out of range and a DataError for values
 * that are not finite. O(N log N).
 */
export function spectralResidual(
  values: Float64Array,
  options: SpectralResidualOptions = {},
): SpectralResidual {
  requireFinite(values, 'spectral residual');
  const { average = 3, before = 21, extend = 5 } = options;
  requireOdd('spectral residual average', average, 3);
  requireWhole('spectral residual before', before, 1);
  requireWhole('spectral residual extend', extend, 0);
  const n = values.length;
  const score = new Float64Array(n);
  if (n === 0) return { saliency: new Float64Array(0), score };
  const extended = new Float64Array(n + extend);
  extended.set(values);
  extended.fill(nextValue(values), n);
  const { n: length, re, im } = spectrum(extended);
  const amplitudes = re.map((value, k) => Math.hypot(value, im[k]!));
  const floor = FLOOR * amplitudes.reduce((top, amplitude) => Math.max(top, amplitude), 0);
  const logs = amplitudes.map((amplitude) => Math.log(Math.max(amplitude, floor)));
  const half = (average - 1) / 2;
  const gains = logs.map((own, k) => {
    if (amplitudes[k]! <= floor) return 0;
    let sum = 0;
    for (let d = k - half; d <= k + half; d++) {
      const wrapped = ((d % length) + length) % length;
      sum += logs[Math.min(wrapped, length - wrapped)]!;
    }
    return Math.exp(own - sum / average) / amplitudes[k]!;
  });
  const back = seriesOfSpectrum({
    n: length,
    re: re.map((value, k) => value * gains[k]!),
    im: im.map((value, k) => value * gains[k]!),
  });
  const saliency = back.slice(0, n).map(Math.abs);
  let sum = 0;
  for (let i = 1; i < n; i++) {
    sum += saliency[i - 1]!;
    if (i > before) sum -= saliency[i - 1 - before]!;
    const mean = sum / Math.min(i, before);
    score[i] = mean > 0 ? saliency[i]! / mean - 1 : 0;
  }
  return { saliency, score };
}

/**
 * Extrapolates by the mean slope from each of m points to the one after them, counted from the second of these (eq. 9). The last
 * sample is left out, as in the authors' code: it is the one on trial.
 */
function nextValue(values: Float64Array): number {
  const last = values.length - 2;
  const m = Math.min(SLOPES, last);
  if (m < 1) return values[0]!;
  let slopes = 0;
  for (let i = 1; i <= m; i++) slopes += (values[last]! - values[last - i]!) / i;
  return values[last - m + 1]! + slopes;
}
