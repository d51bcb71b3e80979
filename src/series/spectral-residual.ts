/**
 * Spectral residual saliency (Hou & Zhang 2007; for time series Ren et al. 2019): the log-amplitude spectrum minus its
 * own moving average, put back to the time axis with the original phases, lights up where the series surprises.
 */
import { spectrum, synthesise } from './spectrum.ts';
import { moments } from './stats.ts';

/** Bins of the moving average over the log-amplitude spectrum. */
const SPECTRUM_WINDOW = 3;
/** Preceding samples over which the saliency is averaged. */
const SALIENCY_WINDOW = 21;

/**
 * Score of each sample of a series [N]: how far its saliency exceeds the average of the 21 samples before it, in units of that
 * average, at least 0. All 0 for fewer than 8 samples or a constant series; the first 21 samples score 0.
 */
export function spectralResidual(values: Float64Array): Float64Array {
  const n = values.length;
  const score = new Float64Array(n); // [N]
  const first = values[0];
  if (n < 8 || values.every((value) => value === first)) return score;
  const { re, im } = spectrum(values, moments(values).mean);
  const bins = re.length;
  const amplitude = new Float64Array(bins);
  let largest = 0;
  for (let k = 0; k < bins; k++) {
    amplitude[k] = Math.hypot(re[k]!, im[k]!);
    largest = Math.max(largest, amplitude[k]!);
  }
  // Rounding leaves empty bins at 1e-16 of the largest; their logarithm would dominate the residual.
  const floor = 1e-8 * largest;
  const logs = amplitude.map((a) => Math.log(Math.max(a, floor)));
  const side = (SPECTRUM_WINDOW - 1) / 2;
  for (let k = 0; k < bins; k++) {
    let sum = 0;
    let count = 0;
    for (let j = Math.max(0, k - side); j <= Math.min(bins - 1, k + side); j++) {
      sum += logs[j]!;
      count++;
    }
    const gain = amplitude[k]! === 0 ? 0 : Math.exp(logs[k]! - sum / count) / amplitude[k]!;
    re[k] = re[k]! * gain;
    im[k] = im[k]! * gain;
  }
  re[0] = 0;
  im[0] = 0;
  const saliency = synthesise({ n, re, im }).map(Math.abs);
  let running = 0;
  for (let i = 0; i < n; i++) {
    if (i >= SALIENCY_WINDOW) {
      const average = running / SALIENCY_WINDOW;
      score[i] = average === 0 ? 0 : Math.max(0, (saliency[i]! - average) / average);
      running -= saliency[i - SALIENCY_WINDOW]!;
    }
    running += saliency[i]!;
  }
  return score;
}
