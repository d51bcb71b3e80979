/**
 * Classical anomaly scores with a value for every sample, and the stretches that stand out of a score: what a detector with thresholds of
 * its own is compared with at an equal number of alarms. A series too short for a method scores 0.
 */

import type { Interval } from '../ground/types.ts';
import { requireFinite, requireOdd, requireOption, requireWhole } from './checks.ts';
import { stl } from './decompose.ts';
import { spreadOverWindows } from './detectors.ts';
import { isolationScores, windowRows } from './isolation-forest.ts';
import { matrixProfile } from './matrix-profile.ts';
import { runningMedians } from './robust.ts';
import { seriesOfSpectrum, spectrum } from './spectrum.ts';
import { cumulative, moments, quantileInPlace } from './stats.ts';

/** Scores of windows go to every sample of them, the largest counts, or to the sample in the middle. */
export type Placement = 'spread' | 'centre';

/** Scores of the windows [N − window + 1] of a series of N samples as scores of its samples [N]; 0 without a window. */
export function onSamples(
  scores: Float64Array,
  window: number,
  n: number,
  placement: Placement,
): Float64Array {
  if (scores.length === 0) return new Float64Array(n);
  if (placement === 'spread') return spreadOverWindows(scores, window, n);
  const before = (window - 1) >> 1;
  return Float64Array.from(
    { length: n },
    (_, i) => scores[Math.min(scores.length - 1, Math.max(0, i - before))]!,
  );
}

/** |value − mean| in standard deviations [N]; 0 for a constant series. */
export function deviationScore(values: Float64Array): Float64Array {
  const { mean, std } = moments(values);
  return values.map((value) => (std === 0 ? 0 : Math.abs(value - mean) / std));
}

/** Samples of the running median that is the trend of a series without season. */
const TREND = 33;

/** |residual| of an STL decomposition [N]; without a season (null), or with less than two of them, of a running median of 33 samples. */
export function stlScore(values: Float64Array, period: number | null, robust: boolean): Float64Array {
  const n = values.length;
  const whole = period === null ? 0 : Math.round(period);
  if (whole >= 2 && n >= 2 * whole) return stl(values, { period: whole, robust }).residual.map(Math.abs);
  if (n < TREND) return new Float64Array(n);
  const medians = runningMedians(values, TREND);
  const half = TREND >> 1;
  return values.map((value, i) =>
    Math.abs(value - medians[Math.min(medians.length - 1, Math.max(0, i - half))]!),
  );
}

/** Isolation scores of the windows [N − window + 1]. */
export function windowIsolation(values: Float64Array, window: number): Float64Array {
  const rows = windowRows(values, window);
  const count = rows.length / window;
  return count < 2 ? new Float64Array(count) : isolationScores(rows, window);
}

/** Distance of each window to the nearest other one, both z-normalised [N − window + 1]; 0 where there is none to compare with. */
export function windowDiscords(values: Float64Array, window: number): Float64Array {
  return matrixProfile(values, { window }).distances.map((distance) =>
    Number.isFinite(distance) ? distance : 0,
  );
}

/** Spectral residual [N], at least 0; `average` frequencies, odd. */
export function spectralScore(values: Float64Array, average: number): Float64Array {
  return spectralResidual(values, { average }).score.map((score) => Math.max(0, score));
}

/** Mean of the samples within half a window of each, fewer at the ends [N]. */
export function smoothed(values: Float64Array, window: number): Float64Array {
  if (window <= 1) return values;
  const n = values.length;
  const half = window >> 1;
  const sums = cumulative(values);
  return values.map((_, i) => {
    const [from, to] = [Math.max(0, i - half), Math.min(n, i + half + 1)];
    return (sums[to]! - sums[from]!) / (to - from);
  });
}

export interface Peak {
  readonly interval: Interval;
  /** The highest score inside, above the median of all, in mean absolute deviations from it. */
  readonly height: number;
}

export interface PeakOptions {
  readonly count: number;
  /** A stretch goes on while the score keeps to this part of its height above the median, in (0, 1]. */
  readonly share: number;
  /** Samples below that do not end a stretch, ≥ 0. */
  readonly gap: number;
  /** Samples that are no part of any. */
  readonly taken?: readonly Interval[];
}

/**
 * The stretches of [N] that stand out most, by falling height: the highest sample and what is around it, then the highest of the rest.
 * `count` of them, fewer only where no sample is left. They are disjoint and more than `gap` samples apart.
 */
export function peaks(score: Float64Array, { count, share, gap, taken = [] }: PeakOptions): Peak[] {
  const n = score.length;
  const middle = quantileInPlace(score.slice(), n, 0.5);
  let spread = 0;
  for (const height of score) spread += Math.abs(height - middle) / n;
  const used = new Uint8Array(n);
  for (const [start, end] of taken) used.fill(1, Math.max(0, start - gap), end + gap);
  const chosen: Peak[] = [];
  while (chosen.length < count) {
    let top = -1;
    for (let i = 0; i < n; i++) if (used[i] === 0 && (top < 0 || score[i]! > score[top]!)) top = i;
    if (top < 0) break;
    const level = middle + share * (score[top]! - middle);
    const reach = (step: 1 | -1): number => {
      let last = top;
      for (let i = top + step; i >= 0 && i < n && used[i] === 0 && Math.abs(i - last) <= gap + 1; i += step) {
        if (score[i]! >= level) last = i;
      }
      return last;
    };
    const interval = [reach(-1), reach(1) + 1] as const;
    chosen.push({ interval, height: spread === 0 ? 0 : (score[top]! - middle) / spread });
    used.fill(1, Math.max(0, interval[0] - gap), interval[1] + gap);
  }
  return chosen;
}

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
  const gains = logs.map((level, k) => {
    if (amplitudes[k]! <= floor) return 0;
    let sum = 0;
    for (let d = k - half; d <= k + half; d++) {
      const wrapped = ((d % length) + length) % length;
      sum += logs[Math.min(wrapped, length - wrapped)]!;
    }
    return Math.exp(level - sum / average) / amplitudes[k]!;
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

export interface SubPcaOptions {
  /** Window length in samples, ≥ 2. */
  readonly window: number;
  /** Part of the variance that the components that are kept explain at least, in (0, 1); default 0.9. */
  readonly explained?: number;
}

/** Values by which a window is described at most; longer ones are averaged in pieces. */
const MOST_PIECES = 48;
/** Sweeps of rotations; symmetric matrices of this size need fewer than ten. */
const MOST_SWEEPS = 50;

/** Eigenvalues [m], falling, and eigenvectors [m, m], one a row, of a symmetric matrix [m, m], by cyclic Jacobi rotations. */
function eigen(matrix: Float64Array, m: number): { values: Float64Array; vectors: Float64Array } {
  const a = matrix.slice();
  const v = new Float64Array(m * m);
  for (let i = 0; i < m; i++) v[i * m + i] = 1;
  let size = 0;
  for (const entry of a) size += entry * entry;
  for (let sweep = 0; sweep < MOST_SWEEPS; sweep++) {
    let off = 0;
    for (let p = 0; p < m; p++) for (let q = p + 1; q < m; q++) off += a[p * m + q]! ** 2;
    if (off <= 1e-30 * size) break;
    for (let p = 0; p < m; p++) {
      for (let q = p + 1; q < m; q++) {
        const apq = a[p * m + q]!;
        if (apq === 0) continue;
        const theta = (a[q * m + q]! - a[p * m + p]!) / (2 * apq);
        const t = (theta < 0 ? -1 : 1) / (Math.abs(theta) + Math.hypot(1, theta));
        const c = 1 / Math.hypot(1, t);
        const s = t * c;
        for (let k = 0; k < m; k++) {
          const [x, y] = [a[k * m + p]!, a[k * m + q]!];
          a[k * m + p] = c * x - s * y;
          a[k * m + q] = s * x + c * y;
        }
        for (let k = 0; k < m; k++) {
          const [x, y] = [a[p * m + k]!, a[q * m + k]!];
          a[p * m + k] = c * x - s * y;
          a[q * m + k] = s * x + c * y;
          const [u, w] = [v[p * m + k]!, v[q * m + k]!];
          v[p * m + k] = c * u - s * w;
          v[q * m + k] = s * u + c * w;
        }
      }
    }
  }
  const order = Array.from({ length: m }, (_, i) => i).sort((i, j) => a[j * m + j]! - a[i * m + i]!);
  const vectors = new Float64Array(m * m);
  order.forEach((from, to) => {
    vectors.set(v.subarray(from * m, (from + 1) * m), to * m);
  });
  return { values: Float64Array.from(order, (i) => a[i * m + i]!), vectors };
}

/**
 * Root mean square of what the kept components leave of each window of [N]: [N − window + 1]; empty for a series shorter than the
 * window, 0 for a constant one. Windows are compared with their level, less the mean of all windows. Throws a ConfigError for options
 * out of range and a DataError for values that are not finite. O(N · min(window, 48)²).
 */
export function subPca(values: Float64Array, options: SubPcaOptions): Float64Array {
  const { window, explained = 0.9 } = options;
  requireFinite(values, 'sub-PCA');
  requireWhole('sub-PCA window', window, 2);
  requireOption(explained > 0 && explained < 1, 'sub-PCA explained', explained, 'between 0 and 1');
  const count = Math.max(0, values.length - window + 1);
  const scores = new Float64Array(count);
  if (count === 0) return scores;
  const m = Math.min(window, MOST_PIECES);
  // A large offset would take the digits of the sums.
  const sums = cumulative(values.map((value) => value - values[0]!));
  const bounds = Int32Array.from({ length: m + 1 }, (_, k) => Math.round((k * window) / m));
  const row = new Float64Array(m);
  const mean = new Float64Array(m);
  const read = (i: number): void => {
    for (let k = 0; k < m; k++) {
      const [from, to] = [bounds[k]!, bounds[k + 1]!];
      row[k] = (sums[i + to]! - sums[i + from]!) / (to - from) - mean[k]!;
    }
  };
  const total = new Float64Array(m);
  for (let i = 0; i < count; i++) {
    read(i);
    for (let k = 0; k < m; k++) total[k]! += row[k]!;
  }
  for (let k = 0; k < m; k++) mean[k] = total[k]! / count;
  const covariance = new Float64Array(m * m);
  for (let i = 0; i < count; i++) {
    read(i);
    for (let p = 0; p < m; p++) for (let q = p; q < m; q++) covariance[p * m + q]! += row[p]! * row[q]!;
  }
  for (let p = 0; p < m; p++) {
    for (let q = p; q < m; q++) {
      covariance[p * m + q]! /= count;
      covariance[q * m + p] = covariance[p * m + q]!;
    }
  }
  const { values: variances, vectors } = eigen(covariance, m);
  const variance = variances.reduce((sum, share) => sum + Math.max(0, share), 0);
  let kept = 0;
  for (let sum = 0; kept < m && sum < explained * variance; kept++) sum += Math.max(0, variances[kept]!);
  for (let i = 0; i < count; i++) {
    read(i);
    for (let r = 0; r < kept; r++) {
      let along = 0;
      for (let k = 0; k < m; k++) along += row[k]! * vectors[r * m + k]!;
      for (let k = 0; k < m; k++) row[k]! -= along * vectors[r * m + k]!;
    }
    let squares = 0;
    for (let k = 0; k < m; k++) squares += row[k]! ** 2;
    scores[i] = Math.sqrt(squares / m);
  }
  return scores;
}
