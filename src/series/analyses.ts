/**
 * The four classical tests of the expert chain of thought (AnomSeer, ExpCoT), each a pure function from a series to its
 * numbers and intervals. All but the matrix profile flag what lies beyond three population standard deviations of their own mean.
 * Every test returns null for a series that is too short for it.
 *
 * Behaviour of the public reference, followed to the number: the slope is the central difference of the smoothed
 * series, not the filter's own derivative; the frequency test leaves out the very last window; a flagged window
 * counts with all its samples; the matrix profile reports its one strongest discord.
 */
import type { Interval } from '../ground/types.ts';
import { mergeIntervals, runs } from './intervals.ts';
import { type MatrixProfile, matrixProfile } from './matrix-profile.ts';
import { savgol } from './savgol.ts';
import { slidingPeriods } from './spectrum.ts';
import {
  furthest,
  GAUSSIAN_MAD,
  largestMagnitude,
  type Moments,
  median,
  quantileInPlace,
  ROUNDING,
  spread,
} from './stats.ts';

/** Deviations from the mean, in population standard deviations, beyond which a value is flagged. */
export const SIGMAS = 3;
export const TREND_WINDOW = 21;
const TREND_ORDER = 2;
export const FREQUENCY_WINDOW = 100;
/** Sliding periods whose standard deviation is below this many samples are called stable. */
export const STABLE_PERIOD_STD = 1;
export const PROFILE_WINDOW = 50;
/** z-score of the largest profile value above which its window is a discord. */
export const DISCORD_Z = 3.5;

/** Band of 3σ around a mean. */
interface Band {
  readonly mean: number;
  readonly std: number;
  readonly sigmas: number;
  /** mean + 3σ and mean − 3σ. */
  readonly upper: number;
  readonly lower: number;
  /** Largest |value − mean| / σ over all values; 0 for a constant series. */
  readonly maxAbsZ: number;
}

export interface RangeTest extends Band {
  /** Sample with the largest |z|. */
  readonly maxIndex: number;
  /** Runs of samples outside [lower, upper]. */
  readonly intervals: readonly Interval[];
}

export interface TrendTest {
  readonly window: number;
  readonly order: number;
  readonly sigmas: number;
  /** Mean and standard deviation of the smoothed slope, per sample. */
  readonly mean: number;
  readonly std: number;
  /** 3σ: the deviation from the mean slope that is flagged. */
  readonly threshold: number;
  /** Largest deviation from the mean slope, unsigned, and where. */
  readonly peak: number;
  readonly peakIndex: number;
  readonly intervals: readonly Interval[];
}

export interface FrequencyTest {
  readonly window: number;
  readonly sigmas: number;
  /** Mean and standard deviation of the dominant period over the windows, in samples. */
  readonly mean: number;
  readonly std: number;
  /** 3σ: the deviation from the mean period that is flagged. */
  readonly threshold: number;
  /** Standard deviation below `stableBelow`: nothing is flagged then. */
  readonly stable: boolean;
  readonly stableBelow: number;
  /** The period that departs most from the mean, and the start of its window. */
  readonly extreme: number;
  readonly extremeIndex: number;
  /** Union of the flagged windows. */
  readonly intervals: readonly Interval[];
}

export interface ProfileTest {
  readonly window: number;
  /** The window least like any other: its start, distance, and that distance's z-score in the profile. */
  readonly discord: number;
  readonly distance: number;
  readonly z: number;
  readonly threshold: number;
  readonly mean: number;
  readonly std: number;
  /** True if every pair of windows was compared; `share` is the share that was. */
  readonly exact: boolean;
  readonly share: number;
  /** The discord window if z exceeds the threshold, else nothing. */
  readonly intervals: readonly Interval[];
  /**
   * All that is unlike the rest, if z exceeds the threshold: runs of windows whose distance is more than a quarter of the
   * way from the median to the discord's, each cut back to the samples that a window must share with an anomaly
   * to stand out (15 of 50, measured on the synthetic training series). An extension of the reference.
   */
  readonly regions: readonly Interval[];
}

/** Makes the band of a mean and a standard deviation; `outside` holds the runs of samples beyond it. */
function bandOf(
  values: Float64Array,
  { mean, std }: Moments,
): { band: Band; maxIndex: number; outside: Interval[] } {
  const [upper, lower] = [mean + SIGMAS * std, mean - SIGMAS * std];
  const { index, size } = furthest(values, mean);
  const outside = runs(values.length, (i) => values[i]! > upper || values[i]! < lower);
  const maxAbsZ = std === 0 ? 0 : size / std;
  return { band: { mean, std, sigmas: SIGMAS, upper, lower, maxAbsZ }, maxIndex: index, outside };
}

/** Range test of a series [N], N ≥ 1: values more than 3σ from the mean. */
export function rangeTest(values: Float64Array): RangeTest {
  const { band, maxIndex, outside } = bandOf(values, spread(values));
  return { ...band, maxIndex, intervals: outside };
}

/** Slope per sample of the smoothed series (Savitzky–Golay 21, 2; central differences): [N] → [N], N ≥ 21. */
export function smoothedSlope(values: Float64Array): Float64Array {
  const smooth = savgol(values, { window: TREND_WINDOW, order: TREND_ORDER });
  const n = smooth.length;
  const slope = new Float64Array(n); // [N]
  for (let i = 1; i < n - 1; i++) slope[i] = (smooth[i + 1]! - smooth[i - 1]!) / 2;
  slope[0] = smooth[1]! - smooth[0]!;
  slope[n - 1] = smooth[n - 1]! - smooth[n - 2]!;
  return slope;
}

/** Trend test of a series [N]: slopes more than 3σ from the mean slope. Null for N < 21. */
export function trendTest(values: Float64Array): TrendTest | null {
  if (values.length < TREND_WINDOW) return null;
  const slope = smoothedSlope(values);
  const rounding = ROUNDING * largestMagnitude(values);
  const measured = spread(slope);
  // The slopes of a straight line differ by rounding errors, which are no departure from it.
  const straight = measured.std <= rounding;
  const mean = Math.abs(measured.mean) <= rounding ? 0 : measured.mean;
  const std = straight ? 0 : measured.std;
  const threshold = SIGMAS * std;
  const { index, size } = furthest(slope, mean);
  return {
    window: TREND_WINDOW,
    order: TREND_ORDER,
    sigmas: SIGMAS,
    mean,
    std,
    threshold,
    peak: straight ? 0 : size,
    peakIndex: index,
    intervals: straight ? [] : runs(slope.length, (i) => Math.abs(slope[i]! - mean) > threshold),
  };
}

/** Dominant periods of the windows that the frequency test looks at: [N] → [N − 100]; null for N ≤ 100. */
export function testedPeriods(values: Float64Array): Float64Array | null {
  if (values.length <= FREQUENCY_WINDOW) return null;
  return slidingPeriods(values, FREQUENCY_WINDOW).subarray(0, -1);
}

/** Frequency test of a series [N]: windows whose dominant period is more than 3σ from the mean. Null for N ≤ 100. */
export function frequencyTest(values: Float64Array): FrequencyTest | null {
  const periods = testedPeriods(values);
  if (periods === null) return null;
  const { mean, std } = spread(periods);
  const threshold = SIGMAS * std;
  const stable = std < STABLE_PERIOD_STD;
  const { index } = furthest(periods, mean);
  const flagged = stable ? [] : runs(periods.length, (i) => Math.abs(periods[i]! - mean) > threshold);
  return {
    window: FREQUENCY_WINDOW,
    sigmas: SIGMAS,
    mean,
    std,
    threshold,
    stable,
    stableBelow: STABLE_PERIOD_STD,
    extreme: periods[index]!,
    extremeIndex: index,
    intervals: mergeIntervals(flagged.map(([start, end]): Interval => [start, end - 1 + FREQUENCY_WINDOW])),
  };
}

/**
 * Matrix-profile test of a series [N]: is the strongest discord's distance more than 3.5σ above the profile's mean?
 * Null for N < 100, where some windows would have nothing to be compared with. Above about 20 000 samples the
 * profile is an upper bound over a part of the pairs (see `matrixProfile`).
 *
 * @param margin samples at each end that the discord may not touch, at most a quarter of the profile: smoothing with `interp` edges bends
 *   them, and the bend is like nothing else in a series. Mean and standard deviation are over the whole profile.
 */
export function profileTest(values: Float64Array, margin = 0): ProfileTest | null {
  const profile = testedProfile(values);
  return profile === null ? null : readProfile(profile, margin);
}

/** The matrix profile that the test looks at; null for N < 100. */
export function testedProfile(values: Float64Array): MatrixProfile | null {
  return values.length < 2 * PROFILE_WINDOW ? null : matrixProfile(values, { window: PROFILE_WINDOW });
}

/** The test on a computed profile; `margin` as in `profileTest`. */
export function readProfile({ distances, exact, share }: MatrixProfile, margin = 0): ProfileTest {
  const { mean, std } = spread(distances);
  const kept = Math.min(margin, Math.floor(distances.length / 4));
  let discord = kept;
  for (let i = kept; i < distances.length - kept; i++) if (distances[i]! > distances[discord]!) discord = i;
  const distance = distances[discord]!;
  const z = std === 0 ? 0 : (distance - mean) / std;
  return {
    window: PROFILE_WINDOW,
    discord,
    distance,
    z,
    threshold: DISCORD_Z,
    mean,
    std,
    exact,
    share,
    intervals: z > DISCORD_Z ? [[discord, discord + PROFILE_WINDOW]] : [],
    regions: z > DISCORD_Z ? regionsOf(distances, distance, kept) : [],
  };
}

/** Part of the way from the median distance to the discord's above which a window is unlike the rest. */
const REGION_LEVEL = 0.25;
/** Samples that such a window shares at least with what makes it so. */
const REGION_OVERLAP = 15;

function regionsOf(distances: Float64Array, discord: number, margin: number): Interval[] {
  const middle = median(distances);
  const level = middle + REGION_LEVEL * (discord - middle);
  const last = distances.length - 1;
  const intervals: Interval[] = [];
  for (const [start, end] of runs(distances.length, (i) => distances[i]! > level)) {
    if (end <= margin || start > last - margin) continue;
    // Windows start … end − 1 stand out: the anomaly reaches from the first one's end to the last one's start.
    const from = start === 0 ? 0 : start + PROFILE_WINDOW - REGION_OVERLAP;
    const to = end > last ? end - 1 + PROFILE_WINDOW : end - 1 + REGION_OVERLAP;
    const centre = (from + to) >> 1;
    intervals.push(to > from ? [from, to] : [centre, centre + 1]);
  }
  return mergeIntervals(intervals);
}

/** Largest |z| from which a series holds outliers (AnomSeer's routing to the range test). */
export const EXTREME_Z = 5;
/** Runs of outliers this close are one: a shifted stretch of noise dips back into the band now and then. */
export const OUTLIER_GAP = 5;

/** Below this many values no |z| can exceed 5 (the largest is √(N − 1)): there is nothing to clip. */
const FEWEST_VALUES = 27;
/**
 * Part of the values that may lie outside; with more, what is left is a narrow cluster that does not describe the series.
 * Smaller where the plain moments show extremes already: by Chebyshev, at most 1 in 25 values has |z| > 5.
 */
const LARGEST_SHARE = 1 / 3;
const LARGEST_SHARE_OF_EXTREME = 1 / 10;

/** Band of the values inside 3σ of their own mean, and what lies outside. */
export interface OutlierTest extends Band {
  /** Values beyond this |z| make outliers. */
  readonly extreme: number;
  /** Runs outside [lower, upper], joined over gaps of up to 5 samples, that hold a value of |z| > `extreme`. */
  readonly intervals: readonly Interval[];
}

/**
 * Range test with clipped moments: from median and scaled MAD on (mean and σ where the MAD is 0), values beyond 3σ are
 * left out of mean and σ until these settle (at most 20 rounds), so that long stretches of outliers cannot hide themselves by widening σ. Where more than a third of the values ends up outside (a
 * tenth, if the plain moments show an extreme), the plain mean and σ stand. Series [N], N ≥ 1; below 27 values nothing is an outlier.
 */
export function outlierTest(values: Float64Array): OutlierTest {
  const scratch = values.slice(); // [N]
  let mean = quantileInPlace(scratch, values.length, 0.5);
  for (let i = 0; i < values.length; i++) scratch[i] = Math.abs(values[i]! - mean);
  let std = GAUSSIAN_MAD * quantileInPlace(scratch, values.length, 0.5);
  if (std === 0) ({ mean, std } = spread(values));
  for (let round = 0; round < 20; round++) {
    const inside = values.filter((value) => Math.abs(value - mean) <= SIGMAS * std);
    const next = spread(inside);
    if (next.std === std) break;
    ({ mean, std } = next);
  }
  let outside = 0;
  for (const value of values) if (Math.abs(value - mean) > SIGMAS * std) outside++;
  const plain = spread(values);
  const extreme = furthest(values, plain.mean).size > EXTREME_Z * plain.std;
  const share = extreme ? LARGEST_SHARE_OF_EXTREME : LARGEST_SHARE;
  if (outside > share * values.length) ({ mean, std } = plain);
  const { band, outside: beyond } = bandOf(values, { mean, std });
  const joined = values.length < FEWEST_VALUES ? [] : mergeIntervals(beyond, OUTLIER_GAP);
  const intervals = joined.filter(([start, end]) => {
    for (let i = start; i < end; i++) if (Math.abs(values[i]! - mean) > EXTREME_Z * std) return true;
    return false;
  });
  return { ...band, extreme: EXTREME_Z, intervals };
}
