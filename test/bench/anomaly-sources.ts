/**
 * Sources to adapt a policy to: twelve laws with seasons, noise and habits of their own, two weeks each at five minutes. The first ten days are
 * without anomalies; the last four, which `adapt` is never given, have up to six, drawn sixteen times. Everything is a function of the seed.
 * Real series are cut and drawn in the same way.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { mean } from '../../src/ground/numbers.ts';
import { Random } from '../../src/ground/random.ts';
import type { Interval } from '../../src/ground/types.ts';
import { type Real, smoothWave } from './anomaly-recordings.ts';
import {
  ANOMALIES,
  bump,
  type Case,
  changed,
  compose,
  gauss,
  phase,
  poisson,
  type Wave,
} from './anomaly-shapes.ts';

const [HOUR, DAY] = [12, 288];
const SAMPLES = 14 * DAY;
const TRAINING = 10 * DAY;
const STEP = 300_000;
const MONDAY = Date.UTC(2026, 0, 5);
/** Kinds that six are drawn from, where they fit, and sizes in parts of those in anomaly-shapes. */
const KINDS = ['spike', 'dip', 'dropout', 'flat', 'level-shift', 'variance', 'drift', 'contextual'] as const;
const EACH = 6;
const DRAWS = 16;
/** Range of the longest anomaly of a draw; and least mean change, in parts of the mean noise there: smaller anomalies are left out. */
const LONGEST = [2 * HOUR, 5 * HOUR] as const;
const LEAST = 1.5;
const SIZES = [1, 0.6, 0.35] as const;

const hours = (t: number): number => (t % DAY) / HOUR;
const isWorkday = (t: number): boolean => Math.floor(t / DAY) % 7 < 5;
const array = (value: (t: number) => number): Float64Array =>
  Float64Array.from({ length: SAMPLES }, (_, t) => value(t));

interface Law {
  /** Usual values and noise, both [SAMPLES], in units of their own. */
  readonly make: (random: Random) => { readonly usual: Float64Array; readonly noise: Float64Array };
  readonly scale: number;
  readonly offset: number;
  readonly whole?: boolean;
  /** True if usual values depend on the time of the day. */
  readonly isDaily?: boolean;
}

const still = (random: Random, std: number): Float64Array => gauss(random, SAMPLES, std);

const LAWS: Readonly<Record<string, Law>> = {
  requests: {
    make: (random) => {
      const usual = array(
        (t) => (isWorkday(t) ? 1 : 0.6) * (bump(hours(t), 13, 4) + 0.5 * bump(hours(t), 20, 1.5)),
      );
      return { usual, noise: usual.map((value) => (0.02 + 0.06 * value) * random.normal()) };
    },
    ...{ scale: 900, offset: 400, isDaily: true },
  },
  'nightly-backup': {
    make: (random) => {
      const heights = Array.from({ length: 14 }, () => random.between(0.8, 1.2));
      const usual = array((t) => (t % DAY >= 24 && t % DAY < 33 ? heights[Math.floor(t / DAY)]! : 0));
      return { usual, noise: still(random, 0.05) };
    },
    ...{ scale: 60, offset: 12 },
  },
  'hourly-job': {
    make: (random) => ({
      usual: array((t) => (t % HOUR === 0 ? random.between(0.5, 1) : 0.15 * bump(hours(t), 14, 5))),
      noise: still(random, 0.04),
    }),
    ...{ scale: 70, offset: 8 },
  },
  'memory-collected': {
    make: (random) => {
      let [level, top, rate] = [0, 1, 0.012];
      const usual = array(() => {
        level += rate;
        if (level > top) [level, top, rate] = [0, random.between(0.9, 1.1), random.between(0.01, 0.014)];
        return level;
      });
      return { usual, noise: still(random, 0.015) };
    },
    ...{ scale: 3e9, offset: 2e9 },
  },
  compressor: {
    make: (random) => {
      let [level, isCooling, rate] = [0.5, false, 0.05];
      const usual = array(() => {
        level += isCooling ? -3 * rate : rate;
        if (level > 1 || level < 0) {
          isCooling = level > 1;
          rate = random.between(0.04, 0.06);
        }
        return level;
      });
      return { usual, noise: still(random, 0.02) };
    },
    ...{ scale: 4, offset: 3 },
  },
  office: {
    make: (random) => {
      const usual = array((t) => {
        const hour = hours(t);
        if (!isWorkday(t) || hour < 8 || hour > 18) return 0;
        return hour > 12 && hour < 13 ? 0.6 : 1;
      });
      return { usual, noise: usual.map((value) => (0.03 + 0.03 * value) * random.normal()) };
    },
    ...{ scale: 25, offset: 4, isDaily: true },
  },
  orders: {
    make: (random) => {
      const usual = array((t) => 4 + 12 * bump(hours(t), 19, 3) + 5 * bump(hours(t), 11, 2));
      return { usual, noise: usual.map((rate) => poisson(random, rate) - rate) };
    },
    ...{ scale: 1, offset: 0, whole: true, isDaily: true },
  },
  bursts: {
    make: (random) => {
      let height = 0;
      const usual = array(() => {
        if (random.uniform() < 1 / 50) height += random.between(0.3, 1);
        height *= 0.75;
        return height;
      });
      return { usual, noise: still(random, 0.03) };
    },
    ...{ scale: 500, offset: 60 },
  },
  'room-temperature': {
    make: (random) => {
      let wander = 0;
      const usual = array((t) => {
        wander = 0.995 * wander + 0.03 * random.normal();
        return Math.sin((2 * Math.PI * (hours(t) - 9)) / 24) + wander;
      });
      return { usual, noise: still(random, 0.03) };
    },
    ...{ scale: 2, offset: 21, isDaily: true },
  },
  'percent-used': {
    make: (random) => {
      let near = 0;
      const usual = array((t) => {
        near = 0.9 * near + random.normal(0, 0.8);
        return 4 * bump(hours(t), 15, 4) + near;
      });
      return { usual, noise: still(random, 0.6) };
    },
    ...{ scale: 1, offset: 40, whole: true, isDaily: true },
  },
  'two-regimes': {
    make: (random) => {
      let [isHigh, left] = [false, 0];
      const usual = array(() => {
        if (left-- <= 0) [isHigh, left] = [!isHigh, random.integer(3 * HOUR, 8 * HOUR)];
        return isHigh ? 1 : 0;
      });
      return { usual, noise: usual.map((value) => (0.05 + 0.08 * value) * random.normal()) };
    },
    ...{ scale: 40, offset: 110 },
  },
  pump: {
    make: (random) => ({
      usual: array((t) => {
        const x = phase(t, 40);
        return (1 + 0.3 * bump(hours(t), 14, 5)) * (bump(x, 0.3, 0.06) - 0.3 * bump(x, 0.42, 0.04));
      }),
      noise: still(random, 0.03),
    }),
    ...{ scale: 15, offset: 30 },
  },
};

export interface SourceCase extends Case {
  /** Values before those of the case. */
  readonly training: Float64Array;
}

interface Source extends Omit<Law, 'make'> {
  readonly base: string;
  /** Usual values and noise, both [N], in units of their own. */
  readonly usual: Float64Array;
  readonly noise: Float64Array;
  /** Samples to learn from; anomalies are put into the others. */
  readonly training: number;
  /** Number of anomalies of a draw, at most. */
  readonly each: number;
  readonly calendar: readonly number[];
}

const lawSources = (seed: number): Source[] =>
  Object.entries(LAWS).map(([base, law]) => ({
    ...{ ...law, ...law.make(new Random(seed, `sources/${base}`)), base },
    ...{ training: TRAINING, each: EACH, calendar: [HOUR, DAY, 7 * DAY] },
  }));

/** Samples of a real series that `adapt` is given, the fewest that it takes, and samples after them. */
const [LEARNED, LATER] = [1820, 680];

const realSources = (series: readonly Real[]): Source[] =>
  series
    .filter(({ values }) => values.length >= LEARNED + LATER)
    .map(({ name: base, values, calendar }) => {
      const { signal, noise } = smoothWave(values);
      const units = { scale: 1, offset: 0, isDaily: calendar[1] === DAY };
      const counts = { training: LEARNED, each: Math.ceil((EACH * LATER) / (SAMPLES - TRAINING)) };
      return { ...{ base, noise, calendar }, ...units, ...counts, usual: values.map((_, t) => signal(t)) };
    });

/** Cases of a source: the values after its training, with each of several draws of anomalies. */
function drawsOf(source: Source, seed: number): SourceCase[] {
  const { base, usual, noise, scale, offset, whole = false, isDaily = false, calendar } = source;
  const from = (start: number): Wave => ({
    ...{ signal: (t) => usual[start + t]!, noise: noise.subarray(start) },
    ...{ period: DAY, asymmetric: true, scale, offset, whole },
  });
  const last = from(source.training);
  const training = compose(new Random(seed, base), from(0), source.training, []).clean;
  const fitting = KINDS.filter(
    (kind) => ANOMALIES[kind]!.fits?.(last) !== false && (isDaily || kind !== 'contextual'),
  );
  return Array.from({ length: DRAWS }, (_, draw): SourceCase => {
    const random = new Random(seed, `sources/${base}/${draw}`);
    const order = random.permutation(fitting.length).subarray(0, source.each);
    const kinds = Array.from(order, (i) => fitting[i]!);
    const longest = random.integer(LONGEST[0], LONGEST[1]);
    const { values, clean, truth } = compose(random, last, last.noise.length, kinds, longest);
    const seen: Interval[] = [];
    for (const [start, end] of truth) {
      const size = random.pick(SIZES);
      for (let t = start; t < end; t++) {
        const value = clean[t]! + size * (values[t]! - clean[t]!);
        values[t] = whole ? Math.round(value) : value;
      }
      const extent = changed(clean, values, start, end);
      const sizes = values.subarray(start, end).map((value, i) => Math.abs(value - clean[start + i]!));
      const noises = mean(last.noise.subarray(start, end).map(Math.abs)) * scale;
      if (extent !== null && mean(sizes) > LEAST * noises) seen.push(extent);
      else values.set(clean.subarray(start, end), start);
    }
    return {
      ...{ name: `sources/${base}/${draw}`, base, kind: 'source', half: 'report', values, training },
      ...{ calendar, truth: seen },
    };
  });
}

/** Draws of the laws, or of real series. */
export const sourceCases = (seed: number, real: readonly Real[] | null): SourceCase[] =>
  (real === null ? lawSources(seed) : realSources(real)).flatMap((source) => drawsOf(source, seed));

const csv = (values: Float64Array, from: number): string =>
  `time,value\n${Array.from(values, (value, t) => `${new Date(MONDAY + (from + t) * STEP).toISOString()},${value}\n`).join('')}`;

/** Writes what `adapt` is given, NAME.csv, and a draw of what it never sees, NAME.last.csv. */
export function writeSources(directory: string, cases: readonly SourceCase[]): void {
  mkdirSync(directory, { recursive: true });
  for (const { name, base, training, values } of cases) {
    if (name !== `sources/${base}/0`) continue;
    writeFileSync(join(directory, `${base}.csv`), csv(training, 0));
    writeFileSync(join(directory, `${base}.last.csv`), csv(values, training.length));
  }
}
