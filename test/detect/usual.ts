/** Series in which nothing is unusual, many of each kind, and in how many of them the detector may find something. */
import { expect, test } from 'vitest';
import { detect } from '../../src/detect/detect.ts';
import { type Finding, LEVELS } from '../../src/detect/finding.ts';
import { Random } from '../../src/ground/random.ts';

/** Independent standard normal numbers. */
export function noise(seed: number, n: number): Float64Array {
  const draw = new Random(seed, 'detect');
  return Float64Array.from({ length: n }, () => draw.normal());
}

export const withStretch = (
  values: Float64Array,
  start: number,
  end: number,
  change: (value: number, i: number) => number,
) => values.map((value, i) => (i >= start && i < end ? change(value, i) : value));

/** Level that falls for 150 to 300 samples, and is charged to the top about five times as fast. */
export function battery(seed: number): Float64Array {
  const draw = new Random(seed, 'battery');
  let [level, falling] = [90, draw.integer(150, 300)];
  return Float64Array.from({ length: 2500 }, () => {
    if (falling-- > 0) level = Math.max(5, level - Math.abs(draw.normal(0.25, 0.1)));
    else if (level < 98) level = Math.min(100, level + draw.normal(1.2, 0.1));
    else falling = draw.integer(150, 300);
    return Math.round(10 * level) / 10;
  });
}

/** A disk that fills up to 85 and is emptied, after about `fill` samples with noise; stays full in [start, end). */
export function disk(seed: number, fill: number, stuck: readonly [number, number] = [0, 0]): Float64Array {
  const draw = new Random(seed, 'disk');
  let level = 20;
  return Float64Array.from({ length: 2500 }, (_, i) => {
    level += Math.abs(draw.normal(65 / fill, 32 / fill));
    if (level > 85) level = i < stuck[1] && i >= stuck[0] ? 100 : draw.normal(20, 2);
    return level;
  });
}

/** Jobs of 15 to 25 samples at random times. */
export function jobs(seed: number): Float64Array {
  const draw = new Random(seed, 'jobs');
  const values = Float64Array.from({ length: 3000 }, () => draw.normal(10, 1));
  for (let k = 0; k < 30; k++) {
    const at = draw.integer(0, 2950);
    for (let i = at; i < at + draw.integer(15, 25); i++) values[i] = draw.normal(45, 3);
  }
  return values;
}

/** A load that is on for about `on` samples and off for about `off`. */
export function switching(seed: number, on: number, off: number): Float64Array {
  const draw = new Random(seed, 'switching');
  let [state, left] = [0, 0];
  return Float64Array.from({ length: 2500 }, () => {
    if (left-- <= 0) {
      state = 1 - state;
      left = Math.round(draw.normal(state === 1 ? on : off, 0.15 * (state === 1 ? on : off)));
    }
    return state;
  });
}

/** Counts whose rate has a peak each day of 288 samples. */
export function hourlyCounts(seed: number): Float64Array {
  const draw = new Random(seed, 'hours');
  return Float64Array.from({ length: 3000 }, (_, i) => {
    const rate = 0.4 + 5 * Math.exp(-0.5 * (((i % 288) - 156) / 48) ** 2);
    let [count, product] = [0, draw.uniform()];
    for (; product > Math.exp(-rate); count++) product *= draw.uniform();
    return count;
  });
}

/** Counts of 0.2 on average. */
function rareCounts(seed: number): Float64Array {
  const draw = new Random(seed, 'rare');
  return Float64Array.from({ length: 1500 }, () => {
    let count = -1;
    for (let product = 1; product > Math.exp(-0.2); count++) product *= draw.uniform();
    return count;
  });
}

function walk(seed: number, n: number): Float64Array {
  let at = 0;
  return noise(seed, n).map((step) => (at += step));
}

/** Noise of Student's law with 4 degrees of freedom, whose tail is that of a power: a value now and then is 30 standard deviations off. */
function student(seed: number): Float64Array {
  const parts = [1, 2, 3, 4].map((k) => noise(1000 * k + seed, 800));
  return noise(seed, 800).map(
    (value, i) => value / Math.sqrt(parts.reduce((sum, part) => sum + part[i]! ** 2, 0) / 4),
  );
}

/** Light of 40 days, even at night and on clear days, and not under clouds. */
function light(seed: number): Float64Array {
  const draw = new Random(seed, 'light');
  let clear = 1;
  return Float64Array.from({ length: 48 * 40 }, (_, i) => {
    if (i % 48 === 0) clear = [1, 1, 0.9, 0.8, 0.5, 0.3][draw.integer(0, 5)]!;
    const height = Math.max(0, Math.sin((2 * Math.PI * ((i % 48) - 12)) / 48));
    return Math.round(5000 * height * clear * (clear > 0.8 ? 1 : draw.between(0.6, 1.2)));
  });
}

/** A level that takes a step now and then. */
function gauge(seed: number): Float64Array {
  const draw = new Random(seed, 'gauge');
  let level = 5;
  return Float64Array.from({ length: 2500 }, () => {
    if (draw.uniform() < 0.03) level = Math.min(12, Math.max(3, level + (draw.uniform() < 0.5 ? 1 : -1)));
    return level;
  });
}

const standsStill = ({ kind, evidence }: Finding): boolean =>
  kind === 'flat' || /keeps one/.test(evidence.for.join());

interface Usual {
  readonly make: (seed: number) => Float64Array;
  /** Seeds: `count` from the first on. */
  readonly first: number;
  readonly count: number;
  /** Series with a finding at most. */
  readonly most: number;
  readonly calendar?: readonly number[];
  /** Findings that count; default all. */
  readonly counts?: (finding: Finding) => boolean;
  /** No finding is as severe as that. */
  readonly below?: number;
}

const CALENDAR = [48, 336];
const USUAL: readonly (readonly [string, Usual])[] = [
  ['noise', { make: (seed) => noise(seed, 800), first: 100, count: 30, most: 1 }],
  [
    'noise that is never negative',
    {
      make: (seed) => noise(seed, 800).map((value) => Math.exp(0.6 * value)),
      ...{ first: 100, count: 30, most: 2 },
    },
  ],
  ['a random walk', { make: (seed) => walk(seed, 800), first: 100, count: 30, most: 4 }],
  ['noise with far values', { make: student, first: 100, count: 30, most: 2 }],
  ['a battery that is charged at any level', { make: battery, first: 100, count: 20, most: 1 }],
  [
    'light that is even but under clouds',
    { make: light, first: 100, count: 20, most: 1, calendar: CALENDAR },
  ],
  ['a small count of rare events', { make: rareCounts, first: 0, count: 24, most: 2, below: LEVELS.high }],
  [
    'a count that is equal by chance at the pace of an hour',
    { make: hourlyCounts, first: 100, count: 30, most: 1 },
  ],
  [
    'a gauge that takes a step now and then, of a value that stands still',
    { make: gauge, first: 100, count: 30, most: 1, counts: standsStill },
  ],
  [
    'a random walk of days, of a trend',
    {
      make: (seed) => walk(seed, 600),
      ...{ first: 1, count: 60, most: 0, calendar: CALENDAR, counts: ({ kind }) => kind === 'trend' },
    },
  ],
  [
    'a disk that is emptied when it is full',
    { make: (seed) => disk(seed, seed % 2 === 0 ? 600 : 150), first: 0, count: 20, most: 1 },
  ],
  ['jobs at random times', { make: jobs, first: 0, count: 20, most: 1 }],
  [
    'a load that is on as long as off',
    { make: (seed) => switching(seed, 60, 60), first: 0, count: 20, most: 1 },
  ],
  ['a load that is on for short', { make: (seed) => switching(seed, 12, 35), first: 0, count: 20, most: 1 }],
];

/** Declares a test for each kind, over a share of its series. */
export function testUsual(share: number): void {
  test.each(USUAL)('hardly any series has a finding: %s', (_, usual) => {
    const { make, first, count, most, calendar, counts = () => true, below = Infinity } = usual;
    const all = Array.from({ length: Math.ceil(share * count) }, (_, i) =>
      detect(make(first + i), calendar === undefined ? {} : { calendar }).findings.filter(counts),
    );
    expect(all.filter((findings) => findings.length > 0).length).toBeLessThanOrEqual(Math.ceil(share * most));
    expect(Math.max(0, ...all.flat().map(({ severity }) => severity))).toBeLessThan(below);
  });
}
