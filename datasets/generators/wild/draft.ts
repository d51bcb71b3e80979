/**
 * Series under construction and their clock. Components stay apart until the end, so that an anomaly can change one of them alone and the usual
 * values stay known. One unit is about the size of the series' main movement; `sensor.ts` turns the sum into readings.
 */
import type { Random } from '../../../src/ground/random.ts';

export interface Clock {
  /** Seconds between two samples. */
  readonly step: number;
  /** Seconds from Monday 0:00 to the first sample. */
  readonly start: number;
}

export const DAY = 86_400;

const STEPS = [1, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 86_400] as const;

export const samplesOf = ({ step }: Clock, seconds: number): number => seconds / step;

const startOf = (random: Random, step: number): number =>
  step * random.integer(0, Math.ceil((7 * DAY) / step) - 1);

export function anyClock(random: Random): Clock {
  const step = random.pick(STEPS);
  return { step, start: startOf(random, step) };
}

/** Draws a step at which n points cover at least three days of at least eight samples each; a day for short series. */
export function calendarClock(random: Random, n: number): Clock {
  const fitting = STEPS.filter((step) => {
    const samples = DAY / step;
    return samples >= 8 && n / samples >= 3 && n / samples <= 150;
  });
  const step = fitting.length === 0 ? DAY : random.pick(fitting);
  return { step, start: startOf(random, step) };
}

/** Parts that a series may have. */
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
  /** Slow part: trend, drift [N]. */
  readonly level: Float64Array;
  /** Predictable part: seasons, waves, regular jobs [N]. */
  readonly pattern: Float64Array;
  /** Usual but unpredictable part: switches, bursts, outliers, walks, cycles that differ [N]. */
  readonly events: Float64Array;
  readonly noise: Float64Array;
  /** Known standard deviation of the noise at each sample [N]. */
  readonly deviation: Float64Array;
  readonly components: Set<Component>;
  /** Samples per cycle of the pattern. */
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

/** Draws a number whose logarithm is uniform over [low, high]. */
export const logBetween = (random: Random, low: number, high: number): number =>
  low * (high / low) ** random.uniform();

export const chance = (random: Random, share: number): boolean => random.uniform() < share;

export const sign = (random: Random): number => (chance(random, 0.5) ? -1 : 1);

/** Draws a cycle in samples that fits at least four times into n points; half of the draws are whole numbers. */
export function anyPeriod(random: Random, n: number): number {
  const period = logBetween(random, Math.min(8, n / 12), n / 4);
  return chance(random, 0.5) ? Math.max(4, Math.round(period)) : Math.max(4, period);
}

/** Samples per day and per week, where the series holds at least two of them. */
export function calendarPeriods({ clock, n }: Pick<Draft, 'clock' | 'n'>): number[] {
  return [samplesOf(clock, 86_400), samplesOf(clock, 7 * 86_400)].filter(
    (period) => period >= 4 && 2 * period <= n,
  );
}

/** Sum of the parts [N]. */
export function sumOf({ n, level, pattern, events, noise }: Draft): Float64Array {
  const latent = new Float64Array(n);
  for (let t = 0; t < n; t++) latent[t] = level[t]! + pattern[t]! + events[t]! + noise[t]!;
  return latent;
}
