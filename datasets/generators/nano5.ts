/**
 * nano5, the preset of the quickstart: five equally frequent classes of synthetic series whose anomalies can be seen in
 * a small picture.
 *
 *  contextual point  sine; 40–120 points replaced by N(0, U(0.2, 0.5))
 *  global point      N(0, 0.1); 20–90 points shifted by U(0.5, 0.8) each, one sign per interval
 *  seasonal          sine; 60–150 points at 3 or ⅓ times the frequency, phase continuous
 *  trend             sine on a line of slope ±U(0.5, 3)/N; over 50–120 points it rises by another U(2, 4), and stays
 *  normal            the base of one of the four, evenly drawn, so that the base alone says nothing about an anomaly
 *
 * Every sine has amplitude 1, a period of U(30, 70) samples, a random phase and noise of std U(0.03, 0.08). Anomalous
 * series have 1, 2 or 3 intervals (0.5, 0.3, 0.2), evenly placed over all arrangements that keep at least 30 normal
 * points between two of them and before the first and after the last.
 *
 * These counts of points are for N = 1000; at another length periods, durations, gaps and margins scale by N/1000,
 * so that a series looks the same sampled coarser or finer. Below 200 points the tripled frequency would alias.
 *
 * Each block of five consecutive indices holds each class once, in random order: any part of a split is balanced, and
 * no stride over the indices meets one class only.
 */
import { addNoise, balanced, Random, standardNormal } from '../../src/ground/random.ts';
import type { AnomalyClass, Example, Interval } from '../../src/ground/types.ts';
import { anomalyExample } from '../example.ts';
import { checkAddress, type Split } from '../split.ts';
import { fillShifted } from './anomllm.ts';

export const NANO5_CLASSES = [
  'contextual point',
  'global point',
  'seasonal',
  'trend',
  'normal',
] as const satisfies readonly AnomalyClass[];
type AnomalousClass = Exclude<(typeof NANO5_CLASSES)[number], 'normal'>;

export const NANO5_LENGTH = 1000;
export const NANO5_MINIMUM_LENGTH = 200;

type Range = readonly [low: number, high: number];

/** Settings of the preset, durations in samples at N = 1000; recorded in the manifest of a data set. */
export const NANO5_PARAMETERS = {
  interval_weights: [0.5, 0.3, 0.2],
  gap: 30,
  margin: 30,
  period: [30, 70],
  noise: [0.03, 0.08],
  duration: {
    'contextual point': [40, 120],
    'global point': [20, 90],
    seasonal: [60, 150],
    trend: [50, 120],
  },
  contextual_std: [0.2, 0.5],
  global_std: 0.1,
  global_shift: [0.5, 0.8],
  seasonal_factor: 3,
  trend_slope: [0.5, 3],
  trend_rise: [2, 4],
} as const satisfies { duration: Record<AnomalousClass, Range> } & Record<string, unknown>;

const P = NANO5_PARAMETERS;
const TAU = 2 * Math.PI;
const BASES = NANO5_CLASSES.slice(0, 4) as readonly AnomalousClass[];

const scaled = (samples: number, length: number): number => Math.round((samples * length) / NANO5_LENGTH);

/** 1–3 sorted intervals, evenly distributed over all arrangements that keep gaps and margins. */
function placeIntervals(random: Random, [low, high]: Range, length: number): Interval[] {
  const gap = scaled(P.gap, length);
  const margin = scaled(P.margin, length);
  const lengths = Array.from({ length: 1 + random.weighted(P.interval_weights) }, () =>
    random.integer(scaled(low, length), scaled(high, length)),
  );
  const used = lengths.reduce((sum, duration) => sum + duration, (lengths.length - 1) * gap + 2 * margin);
  const cuts = lengths.map(() => random.integer(0, length - used)).sort((a, b) => a - b);
  const intervals: Interval[] = [];
  let taken = margin;
  for (const [i, duration] of lengths.entries()) {
    const start = taken + cuts[i]!;
    intervals.push([start, start + duration]);
    taken += duration + gap;
  }
  return intervals;
}

const fillGlobalPoint = fillShifted(P.global_std, ...P.global_shift);

/** Sine, on a line for class trend, with the changes of its class in the intervals. */
function fillSine(
  random: Random,
  base: Exclude<AnomalousClass, 'global point'>,
  values: Float64Array,
  intervals: readonly Interval[],
): void {
  const length = values.length;
  const frequency = NANO5_LENGTH / (length * random.between(...P.period)); // cycles per sample
  const noise = random.between(...P.noise);
  const slope =
    base === 'trend' ? ((random.uniform() < 0.5 ? -1 : 1) * random.between(...P.trend_slope)) / length : 0;
  let phase = TAU * random.uniform();
  let level = 0;
  let t = 0;
  const run = (end: number, step: number, rise: number): void => {
    for (; t < end; t++) {
      values[t] = Math.sin(phase) + level;
      phase += TAU * step;
      level += rise;
    }
  };
  for (const [start, end] of intervals) {
    run(start, frequency, slope);
    if (base === 'seasonal') {
      run(end, random.uniform() < 0.5 ? frequency * P.seasonal_factor : frequency / P.seasonal_factor, 0);
    } else if (base === 'trend') {
      run(end, frequency, slope + random.between(...P.trend_rise) / (end - start));
    } else {
      run(end, frequency, 0);
    }
  }
  run(length, frequency, slope);
  addNoise(random, values, noise, 0, length);
  if (base === 'contextual point') {
    for (const [start, end] of intervals) {
      const std = random.between(...P.contextual_std);
      for (let i = start; i < end; i++) values[i] = std * standardNormal(random);
    }
  }
}

/** Class at an index: each block of five indices is a permutation of the classes. */
export const nano5Class = (seed: number, split: Split, index: number): (typeof NANO5_CLASSES)[number] =>
  balanced(NANO5_CLASSES, seed, `nano5/${split}/classes`, index);

/**
 * One series, a pure function of its arguments.
 * @param index integer in [0, 2³²)
 * @param length number of points, N ≥ 200
 * @returns one channel [N]; intervals half-open, sorted, disjoint, inside [0, N), none for class 'normal'
 * @throws ConfigError for a seed, index or length out of range
 */
export function nano5(seed: number, split: Split, index: number, length: number = NANO5_LENGTH): Example {
  checkAddress(seed, index, length, NANO5_MINIMUM_LENGTH);
  const label = nano5Class(seed, split, index);
  const random = new Random(seed, `nano5/${split}`, index);
  const base = label === 'normal' ? random.pick(BASES) : label;
  const intervals = label === 'normal' ? [] : placeIntervals(random, P.duration[base], length);
  const values = new Float64Array(length); // [N]
  if (base === 'global point') fillGlobalPoint(random, values, intervals);
  else fillSine(random, base, values, intervals);
  return anomalyExample(`nano5/${split}/${index}`, 'nano5', values, label, intervals);
}
