/**
 * Classical anomaly scores with a value for every sample, and the stretches that stand out of a score: what a detector with thresholds of
 * its own is compared with at an equal number of alarms. A series too short for a method scores 0.
 */
import type { Interval } from '../ground/types.ts';
import { stl } from './decompose.ts';
import { spreadOverWindows } from './detectors.ts';
import { isolationScores } from './isolation-forest.ts';
import { matrixProfile } from './matrix-profile.ts';
import { runningMedians } from './robust.ts';
import { spectralResidual } from './spectral-residual.ts';
import { moments, quantileInPlace } from './stats.ts';

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
  const count = Math.max(0, values.length - window + 1);
  const rows = new Float64Array(count * window);
  for (let i = 0; i < count; i++) rows.set(values.subarray(i, i + window), i * window);
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
  const sums = new Float64Array(n + 1);
  for (let i = 0; i < n; i++) sums[i + 1] = sums[i]! + values[i]!;
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
  for (const one of score) spread += Math.abs(one - middle) / n;
  const used = new Uint8Array(n);
  for (const [start, end] of taken) used.fill(1, Math.max(0, start - gap), end + gap);
  const found: Peak[] = [];
  while (found.length < count) {
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
    found.push({ interval, height: spread === 0 ? 0 : (score[top]! - middle) / spread });
    used.fill(1, Math.max(0, interval[0] - gap), interval[1] + gap);
  }
  return found;
}
