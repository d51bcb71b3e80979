/**
 * Classical anomaly detectors: the baseline beside a policy. Each is a pure function from values to intervals and a
 * score per sample; thresholds are fixed here, once, and no label has a way in. A series too short for a detector
 * has no anomalies and scores 0. Values must be finite.
 */
import type { Interval } from '../ground/types.ts';
import {
  FREQUENCY_WINDOW,
  outlierTest,
  PROFILE_WINDOW,
  rangeTest,
  readProfile,
  SIGMAS,
  STABLE_PERIOD_STD,
  smoothedSlope,
  testedPeriods,
  testedProfile,
  trendTest,
} from './analyses.ts';
import { runs } from './intervals.ts';
import { moments, summarise } from './stats.ts';

/** Intervals that a detector found, with the score of each sample. */
export interface ScoredIntervals {
  /** Sorted, disjoint, inside [0, N). */
  readonly intervals: readonly Interval[];
  /** Higher is more anomalous; ≥ 0, finite. */
  readonly score: Float64Array; // [N]
}

export type Detector = (values: Float64Array) => ScoredIntervals;

function nothing(n: number): ScoredIntervals {
  return { intervals: [], score: new Float64Array(n) };
}

function above(score: Float64Array, threshold: number): ScoredIntervals {
  return { score, intervals: runs(score.length, (i) => score[i]! > threshold) };
}

/** |value − centre| / scale; 0 everywhere for a scale of 0. */
function deviations(values: Float64Array, centre: number, scale: number): Float64Array {
  return scale === 0
    ? new Float64Array(values.length)
    : values.map((value) => Math.abs(value - centre) / scale);
}

/** Largest of the window scores [K] over the windows that hold each sample: [K + window − 1] (monotonic queue). */
export function spreadOverWindows(scores: Float64Array, window: number, length: number): Float64Array {
  const out = new Float64Array(length); // [N]
  const queue = new Int32Array(scores.length);
  let head = 0;
  let tail = 0;
  for (let i = 0; i < length; i++) {
    if (i < scores.length) {
      while (tail > head && scores[queue[tail - 1]!]! <= scores[i]!) tail--;
      queue[tail++] = i;
    }
    while (head < tail && queue[head]! <= i - window) head++;
    out[i] = head < tail ? scores[queue[head]!]! : 0;
  }
  return out;
}

/** Range: |z| above 3. */
export const zscore: Detector = (values) => {
  if (values.length === 0) return nothing(0);
  const { mean, std } = rangeTest(values);
  return above(deviations(values, mean, std), SIGMAS);
};

/** Range with clipped moments and joined runs (`outlierTest`); the score is |z| against those moments. */
const clippedZscore: Detector = (values) => {
  if (values.length === 0) return nothing(0);
  const { mean, std, intervals } = outlierTest(values);
  return { intervals, score: deviations(values, mean, std) };
};

/** Tukey's outer fence: more than 3 interquartile ranges outside the quartiles; the score counts ranges. */
export const interquartile: Detector = (values) => {
  if (values.length === 0) return nothing(0);
  const { q1, q3 } = summarise(values);
  const range = q3 - q1;
  if (range === 0) return nothing(values.length);
  return above(
    values.map((value) => Math.max(0, q1 - value, value - q3) / range),
    3,
  );
};

/** Slope of the smoothed series (Savitzky–Golay 21, 2) more than 3σ from its mean. */
export const gradient: Detector = (values) => {
  const test = trendTest(values);
  if (test === null || test.std === 0) return nothing(values.length);
  return { intervals: test.intervals, score: deviations(smoothedSlope(values), test.mean, test.std) };
};

/** Dominant period in windows of 100 samples more than 3σ from its mean, unless stable (σ below 1 sample). */
const slidingPeriod: Detector = (values) => {
  const periods = testedPeriods(values);
  if (periods === null) return nothing(values.length);
  const { mean, std } = moments(periods);
  if (std < STABLE_PERIOD_STD) return nothing(values.length);
  return above(spreadOverWindows(deviations(periods, mean, std), FREQUENCY_WINDOW, values.length), SIGMAS);
};

/** The strongest discord of the matrix profile (window 50), if its z-score exceeds 3.5. */
export const discord: Detector = (values) => byProfile(values, 'intervals');

/** Every region that is unlike the rest, if the strongest discord's z-score exceeds 3.5. */
export const discords: Detector = (values) => byProfile(values, 'regions');

/** The score is the largest z-score in the profile over the windows that hold a sample, at least 0. */
function byProfile(values: Float64Array, which: 'intervals' | 'regions'): ScoredIntervals {
  const profile = testedProfile(values);
  if (profile === null) return nothing(values.length);
  const test = readProfile(profile);
  const { mean, std } = test;
  const z = profile.distances.map((distance) => (std === 0 ? 0 : Math.max(0, (distance - mean) / std)));
  return { intervals: test[which], score: spreadOverWindows(z, PROFILE_WINDOW, values.length) };
}

/** Detectors by the name in reports. */
export const DETECTORS: Readonly<Record<string, Detector>> = {
  zscore,
  'clipped-zscore': clippedZscore,
  iqr: interquartile,
  gradient,
  'sliding-period': slidingPeriod,
  discord,
  discords,
};
