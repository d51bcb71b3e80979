/**
 * Textbook anomalies with exact truth, and clean series of many kinds. Everything is a function of the seed. Waveforms and laws of one half
 * are those that rules may be chosen on, those of the other half are kept for reporting; kinds of anomaly stand in both.
 */
import { Random } from '../../src/ground/random.ts';
import type { Interval } from '../../src/ground/types.ts';

export type Half = 'choose' | 'report';

export interface Case {
  /** group/base/kind/… */
  readonly name: string;
  /** Waveform or recording. */
  readonly base: string;
  /** Kind of anomaly; 'clean' without one. */
  readonly kind: string;
  readonly half: Half;
  /** [N], finite. */
  readonly values: Float64Array;
  /** Sorted, disjoint; where the values are others than without the anomalies. */
  readonly truth: readonly Interval[];
  /** Samples of an hour, a day and a week, where known. */
  readonly calendar: readonly number[];
}

/** What a series is made of: values are scale · (signal(t) + noise[t]) + offset. */
export interface Wave {
  readonly signal: (t: number) => number;
  readonly noise: Float64Array; // [N]
  /** Samples of a cycle; null without one. */
  readonly period: number | null;
  /** A cycle backwards is another one. */
  readonly asymmetric: boolean;
  readonly scale: number;
  readonly offset: number;
  /** Whole numbers only. */
  readonly whole?: boolean;
}

interface WaveKind {
  readonly half: Half;
  readonly length: number;
  readonly make: (random: Random, n: number) => Wave;
}

const TAU = 2 * Math.PI;
const array = (n: number, value: (t: number) => number): Float64Array =>
  Float64Array.from({ length: n }, (_, t) => value(t));
export const gauss = (random: Random, n: number, std: number): Float64Array =>
  array(n, () => random.normal(0, std));
const none = (n: number): Float64Array => new Float64Array(n);
const laplace = (random: Random): number =>
  (random.uniform() < 0.5 ? -1 : 1) * -Math.log(1 - random.uniform());
/** Student's t with 4 degrees of freedom. */
function student(random: Random): number {
  let squares = 0;
  for (let i = 0; i < 4; i++) squares += random.normal() ** 2;
  return random.normal() / Math.sqrt(squares / 4);
}
function autoregressive(random: Random, n: number, memory: number): Float64Array {
  let level = 0;
  return array(n, () => {
    level = memory * level + random.normal();
    return level;
  });
}
export const poisson = (random: Random, rate: number): number => {
  const least = Math.exp(-rate);
  let count = -1;
  for (let product = 1; product > least; count++) product *= random.uniform();
  return count;
};
export const bump = (x: number, at: number, width: number): number => Math.exp(-(((x - at) / width) ** 2));
export const phase = (t: number, period: number): number => (((t / period) % 1) + 1) % 1;

/** A day of traffic: a broad noon, a narrow evening, quiet nights. */
const day = (x: number): number => bump(x, 0.52, 0.15) + 0.5 * bump(x, 0.82, 0.05);
/** A heartbeat: small wave, spike with a dip behind it, middling wave. */
const heartbeat = (x: number): number =>
  0.15 * bump(x, 0.2, 0.03) + bump(x, 0.38, 0.012) - 0.25 * bump(x, 0.41, 0.012) + 0.3 * bump(x, 0.65, 0.05);
const sawtooth = (x: number): number => (x < 0.85 ? x / 0.85 : (1 - x) / 0.15);

export const WAVES: Readonly<Record<string, WaveKind>> = {
  noise: {
    half: 'choose',
    length: 1400,
    make: (random, n) => ({
      ...{ signal: () => 0, noise: gauss(random, n, 1), period: null, asymmetric: false },
      ...{ scale: 5, offset: 50 },
    }),
  },
  sine: {
    half: 'choose',
    length: 1700,
    make: (random, n) => {
      const [period, shift] = [random.between(25, 80), random.between(0, 80)];
      return {
        ...{ signal: (t) => Math.sin((TAU * (t + shift)) / period), noise: none(n) },
        ...{ period, asymmetric: false, scale: 10, offset: 100 },
      };
    },
  },
  'noisy-sine': {
    half: 'choose',
    length: 2300,
    make: (random, n) => {
      const [period, shift] = [random.between(30, 120), random.between(0, 80)];
      return {
        ...{ signal: (t) => Math.sin((TAU * (t + shift)) / period), noise: gauss(random, n, 0.1) },
        ...{ period, asymmetric: false, scale: 0.004, offset: 0.01 },
      };
    },
  },
  daily: {
    half: 'choose',
    length: 2500,
    make: (random, n) => ({
      signal: (t) => day(phase(t, 96)),
      noise: array(n, (t) => (0.03 + 0.06 * day(phase(t, 96))) * random.normal()),
      ...{ period: 96, asymmetric: true, scale: 300, offset: 480 },
    }),
  },
  autoregressive: {
    half: 'choose',
    length: 1900,
    make: (random, n) => ({
      ...{ signal: () => 0, noise: autoregressive(random, n, 0.8), period: null, asymmetric: false },
      ...{ scale: 1, offset: -20 },
    }),
  },
  sawtooth: {
    half: 'choose',
    length: 1600,
    make: (random, n) => {
      const period = random.integer(35, 70);
      return {
        ...{ signal: (t) => sawtooth(phase(t, period)), noise: gauss(random, n, 0.02) },
        ...{ period, asymmetric: true, scale: 4, offset: 12 },
      };
    },
  },
  'two-seasons': {
    half: 'report',
    length: 2600,
    make: (random, n) => {
      const period = random.integer(20, 30);
      const slow = 7 * period;
      return {
        signal: (t) => Math.sin((TAU * t) / period) + 0.6 * Math.cos((TAU * t) / slow),
        ...{ noise: gauss(random, n, 0.08), period: slow, asymmetric: true, scale: 1e4, offset: 1e6 },
      };
    },
  },
  'heavy-tailed': {
    half: 'report',
    length: 1500,
    make: (random, n) => ({
      ...{ signal: () => 0, noise: array(n, () => laplace(random)), period: null, asymmetric: false },
      ...{ scale: 0.3, offset: 20 },
    }),
  },
  heartbeat: {
    half: 'report',
    length: 2200,
    make: (random, n) => {
      const period = random.between(70, 110);
      return {
        ...{ signal: (t) => heartbeat(phase(t, period)), noise: gauss(random, n, 0.015) },
        ...{ period, asymmetric: true, scale: 1.2, offset: 0.4 },
      };
    },
  },
  triangle: {
    half: 'report',
    length: 1300,
    make: (random, n) => {
      const period = random.between(40, 64);
      return {
        ...{ signal: (t) => Math.abs(2 * phase(t, period) - 1), noise: gauss(random, n, 0.03) },
        ...{ period, asymmetric: false, scale: 25, offset: -60 },
      };
    },
  },
  load: {
    half: 'report',
    length: 2000,
    make: (random, n) => {
      const period = random.integer(48, 90);
      return {
        signal: (t) => (phase(t, period) < 0.35 ? 1 : phase(t, period) < 0.6 ? 0.45 : 0),
        ...{ noise: gauss(random, n, 0.03), period, asymmetric: true, scale: 700, offset: 130 },
      };
    },
  },
  counts: {
    half: 'report',
    length: 2400,
    make: (random, n) => ({
      signal: (t) => 14 + 10 * Math.sin((TAU * t) / 144) + 4 * Math.sin((2 * TAU * t) / 144 + 1),
      noise: array(n, (t) => {
        const rate = 14 + 10 * Math.sin((TAU * t) / 144) + 4 * Math.sin((2 * TAU * t) / 144 + 1);
        return poisson(random, Math.max(0.2, rate)) - rate;
      }),
      ...{ period: 144, asymmetric: true, scale: 1, offset: 6, whole: true },
    }),
  },
  wander: {
    half: 'report',
    length: 2100,
    make: (random, n) => ({
      ...{ signal: () => 0, noise: autoregressive(random, n, 0.95), period: null, asymmetric: false },
      ...{ scale: 0.02, offset: 3 },
    }),
  },
};

/** A wave that is being changed over [start, end). */
interface Change {
  readonly wave: Wave;
  readonly start: number;
  readonly end: number;
  /** Of the values without an anomaly, in the wave's own units: what is usual at least, at most, and the distance of these. */
  readonly low: number;
  readonly high: number;
  readonly range: number;
  /** [N], the wave's own units. */
  readonly before: Float64Array;
}

interface AnomalyKind {
  /** Samples, from the wave. */
  readonly length: (random: Random, wave: Wave) => number;
  /** Sample t of [start, end) instead of before[t]. */
  readonly value: (change: Change, draw: number) => (t: number) => number;
  readonly fits?: (wave: Wave) => boolean;
  /** Mean size of the change, in parts of the range; a place where it is smaller is not taken. */
  readonly least?: number;
}

const cyclic = ({ period }: Wave): boolean => period !== null;
const between =
  (least: number, most: number) =>
  (random: Random): number =>
    random.integer(least, most);
const cycles =
  (least: number, most: number) =>
  (random: Random, { period }: Wave): number =>
    Math.round(random.integer(least, most) * period!);
const noisy = ({ noise }: Wave): boolean => noise.some((one) => one !== 0);

export const ANOMALIES: Readonly<Record<string, AnomalyKind>> = {
  spike: {
    length: () => 1,
    value:
      ({ high, range }, draw) =>
      () =>
        high + range * (0.6 + 0.6 * draw),
  },
  dip: {
    length: between(2, 5),
    value:
      ({ before, range }, draw) =>
      (t) =>
        before[t]! - range * (0.8 + 0.4 * draw),
  },
  dropout: {
    length: between(10, 40),
    // To zero in the units of the series, which lies below or above of all that is usual.
    value:
      ({ wave }) =>
      () =>
        -wave.offset / wave.scale,
    fits: ({ offset, scale, whole }) => whole !== true && Math.abs(offset / scale) >= 1.5,
  },
  flat: {
    length: (random, { period }) => Math.round((period ?? 60) * random.between(0.6, 1.3)),
    value:
      ({ before, start }) =>
      () =>
        before[start - 1]!,
    fits: noisy,
  },
  cutoff: {
    length: cycles(2, 3),
    value:
      ({ before, low, range }, draw) =>
      (t) =>
        Math.min(before[t]!, low + range * (0.5 + 0.2 * draw)),
    fits: cyclic,
  },
  'level-shift': {
    length: between(60, 200),
    value:
      ({ before, range }, draw) =>
      (t) =>
        before[t]! + (draw < 0.5 ? -1 : 1) * range * (0.5 + 0.4 * Math.abs(2 * draw - 1)),
  },
  variance: {
    length: between(50, 140),
    value:
      ({ wave }) =>
      (t) =>
        wave.signal(t) + 4 * wave.noise[t]!,
    fits: noisy,
  },
  amplitude: {
    length: cycles(2, 3),
    value:
      ({ wave, before, start, end }, draw) =>
      (t) => {
        let mean = 0;
        for (let i = start; i < end; i++) mean += wave.signal(i) / (end - start);
        return before[t]! + (draw < 0.5 ? 1 : -0.65) * (wave.signal(t) - mean);
      },
    fits: cyclic,
  },
  frequency: {
    length: cycles(2, 3),
    // Twice as fast; a whole number of cycles, so that it ends where it would have been.
    value:
      ({ wave, start, end }) =>
      (t) => {
        const span = end - start;
        const ahead = Math.round(span / wave.period!) * wave.period! * ((t - start) / span);
        return wave.signal(t + ahead) + wave.noise[t]!;
      },
    fits: cyclic,
  },
  'missing-cycle': {
    length: cycles(1, 1),
    value:
      ({ wave, low }) =>
      (t) =>
        low + wave.noise[t]!,
    fits: cyclic,
  },
  shape: {
    length: cycles(1, 2),
    // A rectangle of the same height and period.
    value:
      ({ wave, low, high }, draw) =>
      (t) =>
        (phase(t, wave.period!) < 0.4 + 0.2 * draw ? high : low) + wave.noise[t]!,
    fits: cyclic,
  },
  drift: {
    length: between(100, 240),
    value:
      ({ before, range, start, end }, draw) =>
      (t) =>
        before[t]! + (draw < 0.5 ? -1 : 1) * range * 1.1 * ((t - start + 1) / (end - start)),
  },
  reversed: {
    length: cycles(1, 2),
    value:
      ({ before, start, end }) =>
      (t) =>
        before[start + end - 1 - t]!,
    fits: ({ asymmetric }) => asymmetric,
  },
  contextual: {
    length: (_, { period }) => Math.max(3, Math.round(period! / 12)),
    // What is usual half a cycle later.
    value:
      ({ before, wave }) =>
      (t) =>
        before[Math.min(before.length - 1, t + Math.round(wave.period! / 2))]!,
    fits: cyclic,
    least: 0.4,
  },
};

/** Values of the wave, in its own units, so that they are whole numbers where it counts. */
function valuesOf(wave: Wave, n: number): Float64Array {
  return array(n, (t) => wave.signal(t) + wave.noise[t]!);
}

/** The hull of what differs inside of [start, end); null where nothing does. */
export function changed(
  before: Float64Array,
  after: Float64Array,
  start: number,
  end: number,
): Interval | null {
  let [from, to] = [end, start];
  for (let i = start; i < end; i++) {
    if (before[i] === after[i]) continue;
    from = Math.min(from, i);
    to = i + 1;
  }
  return from < to ? [from, to] : null;
}

/** Places that are tried for an anomaly. */
const MOST_TRIES = 50;

/** A wave with anomalies of these kinds, in this order of time, of at most `longest` samples. */
export function compose(
  random: Random,
  wave: Wave,
  n: number,
  kinds: readonly string[],
  longest = Number.POSITIVE_INFINITY,
): { values: Float64Array; clean: Float64Array; truth: Interval[] } {
  const inUnits = (own: Float64Array): Float64Array =>
    own.map((value) => {
      const out = wave.scale * value + wave.offset;
      return wave.whole === true ? Math.max(0, Math.round(out)) : out;
    });
  const before = valuesOf(wave, n);
  const sorted = before.slice().sort();
  const [low, high] = [sorted[Math.floor(0.005 * n)]!, sorted[Math.floor(0.995 * n)]!];
  const after = before.slice();
  const clean = inUnits(before);
  // Never in the first or the last tenth, and one in each part of the rest.
  const part = (0.8 * n) / kinds.length;
  const places = kinds.map((name, i): Interval => {
    const { length, value, least = 0 } = ANOMALIES[name]!;
    const span = Math.min(length(random, wave), Math.floor(0.9 * part), longest);
    for (let tries = 0; ; tries++) {
      const start = Math.floor(0.1 * n + i * part + random.between(0.03, 0.97) * (part - span));
      const at = value(
        { wave, start, end: start + span, low, high, range: high - low, before },
        random.uniform(),
      );
      let size = 0;
      for (let t = start; t < start + span; t++) {
        after[t] = at(t);
        size += Math.abs(after[t]! - before[t]!) / span / (high - low);
      }
      if (size >= least || tries === MOST_TRIES) return [start, start + span];
      after.set(before.subarray(start, start + span), start);
    }
  });
  const values = inUnits(after);
  // What was not touched is exactly what it was.
  const truth = places.flatMap(([start, end]): Interval[] => {
    const extent = changed(clean, values, start, end);
    return extent === null ? [] : [extent];
  });
  return { values, clean, truth };
}

/** Kinds in a series of several anomalies. */
const SEVERAL = ['spike', 'level-shift', 'dip'] as const;

/** Every kind on every wave that it makes sense on, one each, and several short ones on one series. */
export function shapeCases(seed: number): Case[] {
  const cases: Case[] = [];
  for (const [base, { half, length, make }] of Object.entries(WAVES)) {
    for (const kind of [...Object.keys(ANOMALIES), 'several']) {
      const random = new Random(seed, `shapes/${base}/${kind}`);
      const n = length + random.integer(-200, 400);
      const wave = make(random, n);
      if (kind !== 'several' && ANOMALIES[kind]!.fits?.(wave) === false) continue;
      const { values, truth } = compose(random, wave, n, kind === 'several' ? SEVERAL : [kind]);
      if (truth.length === 0) continue;
      cases.push({ name: `shapes/${base}/${kind}`, base, kind, half, values, truth, calendar: [] });
    }
  }
  return cases;
}

interface CleanKind {
  readonly half: Half;
  readonly make: (random: Random, n: number) => Float64Array;
}

const fromWave =
  (name: string) =>
  (random: Random, n: number): Float64Array =>
    compose(random, WAVES[name]!.make(random, n), n, []).clean;

/** Series without anything unusual. */
export const CLEAN: Readonly<Record<string, CleanKind>> = {
  ...Object.fromEntries(
    Object.entries(WAVES).map(([name, { half }]): [string, CleanKind] => [
      name,
      { half, make: fromWave(name) },
    ]),
  ),
  constant: { half: 'choose', make: (_, n) => array(n, () => 7) },
  line: { half: 'choose', make: (_, n) => array(n, (t) => 3 + 0.01 * t) },
  trend: { half: 'choose', make: (random, n) => array(n, (t) => 10 + 0.03 * t + random.normal()) },
  walk: {
    half: 'choose',
    make: (random, n) => {
      let level = 0;
      return array(n, () => {
        level += random.normal();
        return level;
      });
    },
  },
  uniform: { half: 'choose', make: (random, n) => array(n, () => random.uniform()) },
  lognormal: { half: 'choose', make: (random, n) => array(n, () => Math.exp(0.6 * random.normal())) },
  square: {
    half: 'choose',
    make: (random, n) => {
      const period = random.between(30, 80);
      return array(n, (t) => (phase(t, period) < 0.3 ? 5 : 1));
    },
  },
  weekly: {
    half: 'choose',
    make: (random, n) =>
      array(n, (t) => {
        const weekday = Math.floor(t / 24) % 7 < 5;
        return 100 + (weekday ? 60 : 20) * Math.sin(Math.PI * phase(t, 24)) + 4 * random.normal();
      }),
  },
  quantised: {
    half: 'choose',
    make: (random, n) => array(n, (t) => Math.round(20 + 3 * Math.sin(t / 30) + 0.5 * random.normal())),
  },
  'on-off': {
    half: 'choose',
    make: (random, n) => {
      let [on, left] = [false, 0];
      return array(n, () => {
        if (left-- <= 0) {
          on = !on;
          left = random.integer(10, 60);
        }
        return (on ? 100 : 0) + random.normal();
      });
    },
  },
  'growing-amplitude': {
    half: 'choose',
    make: (random, n) => array(n, (t) => (0.5 + t / n) * Math.sin(t / 7) + 0.05 * random.normal()),
  },
  student: { half: 'report', make: (random, n) => array(n, () => 5 + student(random)) },
  exponential: { half: 'report', make: (random, n) => array(n, () => -Math.log(1 - random.uniform())) },
  bimodal: {
    half: 'report',
    make: (random, n) => array(n, () => (random.uniform() < 0.5 ? 2 : 9) + 0.4 * random.normal()),
  },
  'rare-events': { half: 'report', make: (random, n) => array(n, () => poisson(random, 0.15)) },
  'moving-average': {
    half: 'report',
    make: (random, n) => {
      const noise = gauss(random, n + 12, 1);
      return array(n, (t) => {
        let sum = 0;
        for (let k = 0; k < 12; k++) sum += noise[t + k]!;
        return 40 + sum;
      });
    },
  },
  'drifting-walk': {
    half: 'report',
    make: (random, n) => {
      let level = 1000;
      return array(n, () => {
        level += 0.3 + 4 * laplace(random);
        return level;
      });
    },
  },
  'calendar-month': {
    half: 'report',
    // Days: weekends are low, the first of each month is high.
    make: (random, n) =>
      array(n, (t) => 500 + (t % 7 < 5 ? 200 : 0) + (t % 30 === 0 ? 250 : 0) + 15 * random.normal()),
  },
  'weekly-busy-hour': {
    half: 'report',
    make: (random, n) =>
      array(n, (t) => {
        const night = t % 168 === 26 ? 180 : 0;
        return 60 + 30 * day(phase(t, 24)) + night + 3 * random.normal();
      }),
  },
  bursts: {
    half: 'report',
    make: (random, n) => {
      const period = random.integer(50, 90);
      return array(n, (t) => (t % period < 4 ? 12 : 0) + 0.5 * random.normal());
    },
  },
  chirp: {
    half: 'report',
    make: (random, n) => array(n, (t) => Math.sin(t / 12 + (t * t) / (25 * n)) + 0.05 * random.normal()),
  },
  'growing-level': {
    half: 'report',
    make: (random, n) =>
      array(n, (t) => Math.exp((1.5 * t) / n) * (10 + Math.sin(t / 10) + 0.1 * random.normal())),
  },
  'exact-sawtooth': {
    half: 'report',
    make: (random, n) => {
      const period = random.between(30, 80);
      return array(n, (t) => phase(t, period));
    },
  },
  'duty-cycle': {
    half: 'report',
    // A compressor: switches between two temperatures, heats and cools at rates that vary a little.
    make: (random, n) => {
      let [level, cooling, rate] = [6, false, 0.05];
      return array(n, () => {
        level += cooling ? -3 * rate : rate;
        if (level > 8 || level < 4) {
          cooling = level > 8;
          rate = random.between(0.045, 0.055);
        }
        return level + 0.03 * random.normal();
      });
    },
  },
  'volatile-hours': {
    half: 'report',
    make: (random, n) => array(n, (t) => 50 + (phase(t, 96) < 0.4 ? 6 : 1) * random.normal()),
  },
};

const CLEAN_LENGTH = 2000;

/** As many series of each kind as there are seeds. */
export function cleanCases(seeds: readonly number[]): Case[] {
  return Object.entries(CLEAN).flatMap(([base, { half, make }]) =>
    seeds.map((seed): Case => {
      const random = new Random(seed, `clean/${base}`);
      const values = make(random, CLEAN_LENGTH + random.integer(-600, 600));
      return { name: `clean/${base}/${seed}`, base, kind: 'clean', half, values, truth: [], calendar: [] };
    }),
  );
}
