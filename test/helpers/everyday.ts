/** Everyday series without anomalies, for tests and for the benchmark of the blind expert. */
import { Random } from '../../src/ground/random.ts';

const T = 2 * Math.PI;
export type Value = (i: number, random: Random, seed: number) => number;

/** A series [length] of a seed. */
export function series(length: number, value: Value, seed: number): Float64Array {
  const random = new Random(seed, 'everyday');
  return Float64Array.from({ length }, (_, i) => value(i, random, seed));
}

export const weekday = (day: number): boolean => day % 7 < 5;
/** Load at an hour since Monday's midnight, of a day of the week. */
export const load = (hour: number, day: number): number =>
  100 + (weekday(day) ? 60 : 20) * Math.max(0, Math.sin((T * ((hour % 24) - 6)) / 24));
const beat = (i: number, period: number): number => 2 * Math.exp(-(((i % period) - 30) ** 2) / 8);

/**
 * Series without anomalies: what they are, how long, their period in samples (null: nothing repeats four times), and how many of six may
 * be flagged: drift much larger than the wave is taken for changes of its level.
 */
export const NORMAL: [string, number, number | null, Value, number?][] = [
  [
    'ten days of a daily wave on a slow one',
    1440,
    144,
    (i, r) => 3 * Math.sin((T * i) / 144) + 6 * Math.sin((T * i * 1.67) / 1440) + 0.1 * r.normal(),
    6,
  ],
  [
    'five days of a daily wave with drift',
    720,
    144,
    (i, r) => 3 * Math.sin((T * i) / 144) + 8 * ((i - 360) / 360) ** 2 + 0.1 * r.normal(),
  ],
  [
    'a wave and its fifth multiple, equally strong',
    1000,
    200,
    (i) => Math.cos((T * i) / 1000) + Math.sin((5 * T * i) / 1000),
  ],
  [
    'a fine wave on a drift thirty times as high',
    1000,
    20,
    (i, r) => Math.sin((T * i) / 20) + 30 * Math.sin((1.4 * T * i) / 1000) + 0.02 * r.normal(),
    6,
  ],
  ['an S-shaped rise', 1000, null, (i, r) => 1 / (1 + Math.exp((500 - i) / 60)) + 0.005 * r.normal()],
  ['growth', 1000, null, (i, r) => Math.exp((3 * i) / 1000) + 0.02 * r.normal()],
  ['a parabola', 1000, null, (i) => (i - 300) ** 2],
  ['edges of three cycles', 1000, null, (i, r) => (Math.floor(i / 166) % 2) + 0.03 * r.normal()],
  ['hourly load with weekends', 840, 24, (i, r) => load(i, Math.floor(i / 24)) + 3 * r.normal()],
  [
    'hourly working hours',
    24 * 7 * 6,
    168,
    (i, r) => (weekday(Math.floor(i / 24)) && i % 24 >= 8 && i % 24 < 18 ? 50 : 5) + r.normal(),
  ],
  [
    'daily counts with weekends',
    730,
    7,
    (i, r) => Math.round(1000 + (weekday(i) ? 300 : 0) + 30 * r.normal()),
  ],
  ['a job every night', 288 * 8, 288, (i, r) => (i % 288 < 9 ? 60 : 10) + r.normal()],
  [
    'beats of a tenth more or less',
    1000,
    90,
    (i, r, seed) =>
      beat(i, 90) * (1 + 0.1 * new Random(seed, 'height', Math.floor(i / 90)).normal()) + 0.02 * r.normal(),
    1,
  ],
  [
    'beats whose line is at another period',
    1000,
    70.3,
    (i, r) => beat(i, 70.3) + 0.3 * Math.exp(-(((i % 70.3) - 60) ** 2) / 80) + 0.05 * r.normal(),
  ],
  [
    'beats on a wandering base line',
    1000,
    120,
    (i, r) => beat(i, 120) + Math.sin((1.4 * T * i) / 1000) + 0.02 * r.normal(),
    6,
  ],
  ['monthly sales on a line', 120, 12, (i, r) => 100 + i + 20 * Math.sin((T * i) / 12) + 3 * r.normal()],
  ['a cycle of twelve numbers', 600, 12, (i) => Math.sin(3.7 * (i % 12) ** 2)],
];
