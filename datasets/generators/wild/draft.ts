/**
 * A series while it is put together. Its parts stand apart until the end, so that an anomaly can change one of them alone and what is usual
 * for the series stays known. One unit is about the size of the series' main movement; `sensor.ts` turns the sum into readings.
 */
import type { Random } from '../../../src/ground/random.ts';
import { type Clock, samplesOf } from './clock.ts';

/** Names of the parts that a series may have. */
export const COMPONENTS = [
  'season',
  'second season',
  'calendar',
  'holidays',
  'trend',
  'drift',
  'changing amplitude',
  'white noise',
  'autoregressive noise',
  'heavy-tailed noise',
  'heteroscedastic noise',
  'walk',
  'wave',
  'pulses',
  'jobs',
  'rare jobs',
  'on-off',
  'regimes',
  'bursts',
  'outliers',
  'counts',
  'quantised',
  'saturated',
  'gaps',
] as const;
export type Component = (typeof COMPONENTS)[number];

export interface Draft {
  readonly random: Random;
  /** Points, N. */
  readonly n: number;
  readonly clock: Clock;
  /** What moves slowly: trend, drift [N]. */
  readonly level: Float64Array;
  /** What repeats and can be foretold: seasons, waves, regular jobs [N]. */
  readonly pattern: Float64Array;
  /** Usual, but not to be foretold: switches, bursts, outliers, walks, cycles that differ [N]. */
  readonly events: Float64Array;
  /** The grain of the series [N]. */
  readonly noise: Float64Array;
  /** Standard deviation of the noise at each sample, known beforehand [N]. */
  readonly deviation: Float64Array;
  readonly components: Set<Component>;
  /** Samples of the cycles of the pattern. */
  readonly periods: Set<number>;
}

export function emptyDraft(random: Random, n: number, clock: Clock): Draft {
  const zeros = (): Float64Array => new Float64Array(n);
  return {
    ...{ random, n, clock },
    ...{ level: zeros(), pattern: zeros(), events: zeros(), noise: zeros(), deviation: zeros() },
    components: new Set(),
    periods: new Set(),
  };
}

/** One draw whose logarithm is evenly distributed over [low, high]. */
export const logBetween = (random: Random, low: number, high: number): number =>
  low * (high / low) ** random.uniform();

/** True with this probability. */
export const chance = (random: Random, share: number): boolean => random.uniform() < share;

/** −1 or 1. */
export const sign = (random: Random): number => (chance(random, 0.5) ? -1 : 1);

/** Samples of a cycle that a series of n points holds at least four times; half of them whole numbers. */
export function anyPeriod(random: Random, n: number): number {
  const period = logBetween(random, Math.min(8, n / 12), n / 4);
  return chance(random, 0.5) ? Math.max(4, Math.round(period)) : Math.max(4, period);
}

/** Samples of a day and of a week, where the series holds at least two of them. */
export function calendarPeriods({ clock, n }: Pick<Draft, 'clock' | 'n'>): number[] {
  return [samplesOf(clock, 86_400), samplesOf(clock, 7 * 86_400)].filter(
    (period) => period >= 4 && 2 * period <= n,
  );
}
