/** The clock of a series: seconds between samples, and where in the week it begins. */
import type { Random } from '../../../src/ground/random.ts';

export interface Clock {
  /** Seconds between two samples. */
  readonly step: number;
  /** Seconds from Monday 0:00 to the first sample. */
  readonly start: number;
}

export const DAY = 86_400;

/** Steps of recordings, in seconds. */
const STEPS = [1, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 86_400] as const;

/** Samples in so many seconds. */
export const samplesOf = ({ step }: Clock, seconds: number): number => seconds / step;

const startOf = (random: Random, step: number): number =>
  step * random.integer(0, Math.ceil((7 * DAY) / step) - 1);

/** Any step. */
export function anyClock(random: Random): Clock {
  const step = random.pick(STEPS);
  return { step, start: startOf(random, step) };
}

/** A step by which n points cover at least three days of at least eight samples; of a short series days are samples. */
export function calendarClock(random: Random, n: number): Clock {
  const fitting = STEPS.filter((step) => {
    const samples = DAY / step;
    return samples >= 8 && n / samples >= 3 && n / samples <= 150;
  });
  const step = fitting.length === 0 ? DAY : random.pick(fitting);
  return { step, start: startOf(random, step) };
}
