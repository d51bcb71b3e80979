/**
 * The cycle test: every point of a periodic series against the same phase of the other cycles. It sees what is too short for the
 * other tests: single points out of place, and stretches of less than a cycle. Computed from values and a period alone.
 */

import type { AnomalyClass, Interval } from '../ground/types.ts';
import { coverage, mergeIntervals, overlap, runs } from '../series/intervals.ts';
import { runningMedians } from '../series/robust.ts';
import { cycleMeans, GAUSSIAN_MAD, largestMagnitude, median, quantileInPlace } from '../series/stats.ts';
import { recurrence } from './false-alarms.ts';
import { localEvidence } from './shape.ts';

/** Cycles that must fit into the series: fewer give no typical cycle. */
const FEWEST_WHOLE_CYCLES = 6;
/** Shortest period, in samples, of which a part can be told from a point. */
const SHORTEST_PERIOD = 8;
/** Departure, in standard deviations of the usual departures, that is flagged. */
export const FLAG_FROM = 5;
/** Least departure as a part of half the height of the cycle: smaller ones are ripples of a clean series. */
const LEAST_PART = 0.15;
/** Departures this close are one stretch, as a part of the period: a wave of another shape crosses the cycle in between. */
const JOIN_PART = 0.16;
/** Weaker departure, in standard deviations, that counts beside a flagged one. */
const WEAK_FROM = 2.5;
/** Mean length of stretches, as a part of the period, from which they are not points. */
const STRETCH_PART = 0.18;
/** Steps inside stretches, over usual ones, from which they move faster than the cycle. */
const FAST_FROM = 1.5;
/**
 * Median whiteness of fast stretches from which they are noise, not a faster wave. Measured where this test decides, on training and
 * validation series: waves up to 0.39, for their ends are torn; noise from 0.52 (one of 64 below).
 */
const NOISE_FROM = 0.45;
/** Part of the period by which beats come early or late. */
const EARLY_PART = 0.02;
/** More flagged points than this part of the series mean that there is no typical cycle. */
const MOST_FLAGGED = 0.25;
/** Lasting change of the level, as a part of half the height of the cycle, that makes a trend. */
const LEVEL_PART = 0.6;
/** Cycles on each side that a point is compared with, and samples of a window that its median is taken of: cost stays linear. */
const NEAREST_CYCLES = 32;
const MOST_SAMPLED = 64;
/** Part of such a change that must be exceeded at its beginning, and be left at its end. */
const EDGE_PART = 0.15;

export interface CycleTest {
  readonly period: number;
  /** Lowest and highest value of the typical cycle. */
  readonly low: number;
  readonly high: number;
  /** Standard deviation of the usual departures from the cycle (1.4826 · MAD), and the departure that is flagged. */
  readonly sigma: number;
  readonly threshold: number;
  /** Largest departure from cycle and level, unsigned, and where. */
  readonly peak: number;
  readonly peakIndex: number;
  readonly intervals: readonly Interval[];
  readonly class: AnomalyClass;
  /** Basis of the class: part of the flagged points outside of [low, high]; steps inside the stretches over usual ones; median whiteness of fast stretches (`LocalEvidence`); largest lasting change of the level. */
  readonly outside: number;
  readonly speed: number;
  readonly whiteness: number;
  readonly levelChange: number;
  /** Samples, in whole periods, at which all departures recur, which are a longer pattern then and no intervals; null elsewhere. */
  readonly recurs: number | null;
}

/** Every how many samples a window's median takes one. */
const strideOf = (length: number): number => Math.max(1, Math.ceil(length / MOST_SAMPLED));

/** Median of values[start, end); of a long window, of at most MOST_SAMPLED evenly spaced samples. Reorders `scratch` [MOST_SAMPLED]. */
function windowMedian(values: Float64Array, start: number, end: number, scratch: Float64Array): number {
  const stride = strideOf(end - start);
  let count = 0;
  for (let i = start; i < end; i += stride) scratch[count++] = values[i]!;
  return quantileInPlace(scratch, count, 0.5);
}

/** Running median over `window` samples around each, cut at the ends: [N]. */
function movingMedian(values: Float64Array, window: number): Float64Array {
  const n = values.length;
  const half = window >> 1;
  const whole = runningMedians(values, 2 * half + 1, strideOf(2 * half + 1));
  const out = new Float64Array(n);
  out.set(whole, half);
  const scratch = new Float64Array(MOST_SAMPLED);
  for (let i = 0; i < n; i++) {
    if (i < half || i >= n - half) {
      out[i] = windowMedian(values, Math.max(0, i - half), Math.min(n, i + half + 1), scratch);
    }
  }
  return out;
}

/** Value of the typical cycle at every point: the median over the nearest cycles of what stands at its phase, level removed: [N]. */
function typicalCycle(values: Float64Array, period: number): Float64Array {
  const n = values.length;
  const level = cycleMeans(values, period);
  const around = new Float64Array(n);
  for (let i = 0; i < n; i++) around[i] = values[i]! - level[i]!;
  const cycles = Math.min(NEAREST_CYCLES, Math.ceil(n / period));
  const sameSpot = new Float64Array(2 * cycles);
  const out = new Float64Array(n);
  for (let i = 0; i < n; i++) {
    let count = 0;
    for (let k = Math.max(-cycles, -Math.floor(i / period) - 1); k <= cycles; k++) {
      const at = i + k * period;
      const left = Math.floor(at);
      if (left + 1 >= n) break;
      if (k === 0 || left < 0) continue;
      sameSpot[count++] = around[left]! * (1 - (at - left)) + around[left + 1]! * (at - left);
    }
    out[i] = quantileInPlace(sameSpot, count, 0.5);
  }
  return out;
}

/**
 * Departure at every point that its phase often shows: 1.4826 · median over the nearest cycles of what stands at the phase, the largest
 * within a fiftieth of the period: beats that come early or are of another height are no departures where most are so. [N]
 */
function usualAtPhase(departure: Float64Array, period: number): Float64Array {
  const n = departure.length;
  const cycles = Math.min(NEAREST_CYCLES, Math.ceil(n / period));
  const sizes = new Float64Array(2 * cycles);
  const usual = new Float64Array(n);
  for (let i = 0; i < n; i++) {
    let count = 0;
    for (let k = -cycles; k <= cycles; k++) {
      const at = Math.round(i + k * period);
      if (k !== 0 && at >= 0 && at < n) sizes[count++] = Math.abs(departure[at]!);
    }
    usual[i] = count === 0 ? 0 : GAUSSIAN_MAD * quantileInPlace(sizes, count, 0.5);
  }
  const reach = Math.max(1, Math.round(EARLY_PART * period));
  return usual.map((_, i) => {
    let most = 0;
    for (let j = Math.max(0, i - reach); j <= Math.min(n - 1, i + reach); j++)
      most = Math.max(most, usual[j]!);
    return most;
  });
}

/**
 * Stretches over which the level changes for good: the median of one period after a point and that of one period before it differ by
 * more than `least`. Each is the way between the two levels around the point where they differ most.
 */
function levelChanges(
  rest: Float64Array,
  period: number,
  least: number,
): { interval: Interval; change: number }[] {
  const n = rest.length;
  const reach = Math.round(period);
  const whole = runningMedians(rest, reach, strideOf(reach)); // by the first sample
  const scratch = new Float64Array(MOST_SAMPLED);
  const before = (i: number): number => (i < reach ? windowMedian(rest, 0, i, scratch) : whole[i - reach]!);
  const after = (i: number): number => (i + reach > n ? windowMedian(rest, i, n, scratch) : whole[i]!);
  const margin = Math.max(2, Math.round(period / 4));
  const differences = new Float64Array(n);
  for (let i = margin; i < n - margin; i++) differences[i] = after(i) - before(i);
  // On a steep line the level always changes: only what changes more counts.
  const drift = median(differences.slice(margin, n - margin));
  if (Math.abs(drift) > least / 2) {
    for (let i = margin; i < n - margin; i++) differences[i]! -= drift;
  }
  const changing = runs(n, (i) => Math.abs(differences[i]!) > least);
  if (changing.length === 0) return [];
  const smooth = movingMedian(rest, 3);
  const stretches: { interval: Interval; change: number }[] = [];
  for (const [from, to] of changing) {
    let at = from;
    for (let i = from; i < to; i++) if (Math.abs(differences[i]!) > Math.abs(differences[at]!)) at = i;
    const half = Math.round(period / 2);
    const [first, last] = [Math.max(0, at - half), Math.min(n, at + half)];
    const [low, high] = [before(Math.max(1, at - (half >> 1))), after(Math.min(n - 1, at + (half >> 1)))];
    const edge = EDGE_PART * Math.abs(high - low);
    let start = first;
    while (start < at && Math.abs(smooth[start]! - low) < edge) start++;
    let end = last;
    while (end > at + 1 && Math.abs(smooth[end - 1]! - high) < edge) end--;
    if (end > start) stretches.push({ interval: [start, end], change: high - low });
  }
  return stretches;
}

/**
 * Tests a series [N] with a period in samples; null for a period below 8 samples, fewer than 6 cycles, or a cycle without height.
 * @param byPhase whether the departures that are usual at a phase raise its threshold, for beats and pulses; waves have the same at all
 *
 * The typical cycle is the median of the nearest 64; what is left is taken against its running median over a period. Intervals are runs of
 * departures beyond `threshold`, with weaker ones beside them where they make stretches. The class follows from all of them together: a lasting change of
 * the level is a trend; single points beyond the cycle's range are global, others contextual; stretches that move faster than
 * the cycle are seasonal, or contextual points where they are as rough as noise; others are shapelets. Cost O(N) with a large constant (about half a millisecond for 1000 samples).
 */
export function cycleTest(values: Float64Array, period: number, byPhase = false): CycleTest | null {
  const n = values.length;
  if (period < SHORTEST_PERIOD || n < FEWEST_WHOLE_CYCLES * period) return null;
  const cycle = typicalCycle(values, period);
  const half = largestMagnitude(cycle);
  const rest = values.map((value, i) => value - cycle[i]!); // [N]
  const level = movingMedian(rest, Math.round(period));
  const departure = rest.map((value, i) => value - level[i]!);
  const sigma = GAUSSIAN_MAD * median(departure.map(Math.abs));
  if (!(half > 1e-9 * largestMagnitude(values))) return null;
  const threshold = Math.max(FLAG_FROM * sigma, LEAST_PART * half);
  const peak = largestMagnitude(departure);
  const usual = byPhase ? usualAtPhase(departure, period) : null;
  const limit = (i: number): number =>
    usual === null ? threshold : Math.max(threshold, FLAG_FROM * usual[i]!);
  const flagged = runs(n, (i) => Math.abs(departure[i]!) > limit(i));
  const middle = median(level);
  const [low, high] = [middle - half, middle + half];
  const none: CycleTest = {
    ...{ period, low, high, sigma, threshold, peak },
    peakIndex: departure.findIndex((value) => Math.abs(value) === peak),
    intervals: [],
    class: 'normal',
    ...{ outside: 0, speed: 0, whiteness: 0, levelChange: 0, recurs: null },
  };
  const changes = levelChanges(rest, period, LEVEL_PART * half);
  if (changes.length > 0) {
    const levelChange = Math.max(...changes.map(({ change }) => Math.abs(change)));
    return {
      ...none,
      intervals: mergeIntervals(changes.map(({ interval }) => interval)),
      class: 'trend',
      levelChange,
    };
  }
  const count = coverage(flagged);
  if (count === 0 || count > MOST_FLAGGED * n) return none;
  let beyond = 0;
  for (const [start, end] of flagged) {
    for (let i = start; i < end; i++) if (Math.abs(values[i]! - level[i]!) > half) beyond++;
  }
  const outside = beyond / count;
  const weak = runs(n, (i) => Math.abs(departure[i]!) > (WEAK_FROM / FLAG_FROM) * limit(i));
  const intervals = mergeIntervals(weak, Math.round(JOIN_PART * period)).filter(
    (stretch) => overlap([stretch], flagged) > 0,
  );
  if (byPhase && coverage(intervals) > MOST_FLAGGED * n) return none;
  if (coverage(intervals) < STRETCH_PART * period * intervals.length) {
    return {
      ...none,
      intervals: flagged,
      class: outside > 0.5 ? 'global point' : 'contextual point',
      outside,
    };
  }
  // Days off recur with the week: where all stretches do, they are a longer pattern.
  const { rest: single, lag } = recurrence(departure, intervals);
  if (single.length === 0 && lag !== null) {
    return { ...none, recurs: Math.round(Math.max(1, Math.round(lag / period)) * period) };
  }
  const steps = (from: number, to: number): number[] => {
    const size = Math.max(0, to - from - 1);
    return Array.from({ length: size }, (_, i) => Math.abs(values[from + i + 1]! - values[from + i]!));
  };
  const pace = median(Float64Array.from(steps(0, n)));
  const inside = intervals.flatMap(([start, end]) => steps(start, end));
  const speed = pace === 0 || inside.length === 0 ? 0 : median(Float64Array.from(inside)) / pace;
  if (speed <= FAST_FROM) return { ...none, intervals, class: 'shapelet', outside, speed };
  const roughness = intervals.map((interval) => localEvidence(values, interval, 1, 1).whiteness);
  const whiteness = median(Float64Array.from(roughness));
  const label = whiteness > NOISE_FROM ? 'contextual point' : 'seasonal';
  return { ...none, intervals, class: label, outside, speed, whiteness };
}
