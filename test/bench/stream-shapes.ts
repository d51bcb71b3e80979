/** Made series every 5 minutes for the benchmark of the stream: ten quiet kinds, and ten incidents that are plain to the eye. */
import { Random } from '../../src/ground/random.ts';

export const STEP_MS = 300_000;
export const DAY = 288;
const HOUR = 12;
export const SAMPLES = 18 * DAY;

type Base = (draw: Random, n: number) => Float64Array;

const round = (value: number, step: number): number => Math.round(value / step) * step;

/** Poisson number of a mean, by multiplication. */
function poisson(draw: Random, mean: number): number {
  const limit = Math.exp(-mean);
  let [count, product] = [0, draw.uniform()];
  while (product > limit) {
    count++;
    product *= draw.uniform();
  }
  return count;
}

/** Autoregressive noise of unit variance. */
function wander(draw: Random, keep: number): () => number {
  let state = draw.normal();
  return () => {
    state = keep * state + Math.sqrt(1 - keep * keep) * draw.normal();
    return state;
  };
}

/** Student t with 3 degrees of freedom. */
const heavy = (draw: Random): number =>
  draw.normal() / Math.sqrt((draw.normal() ** 2 + draw.normal() ** 2 + draw.normal() ** 2) / 3);

const hourOf = (i: number): number => (i % DAY) / HOUR;
/** Smooth bump of the day around an hour, 0 to 1. */
const bump = (hour: number, at: number, width: number): number => {
  const apart = Math.abs(((hour - at + 36) % 24) - 12);
  return Math.exp(-0.5 * (apart / width) ** 2);
};

/** Quiet kinds. The first sample is on a Monday at midnight. */
export const BASES: Readonly<Record<string, Base>> = {
  'weekly traffic': (draw, n) => {
    const noise = wander(draw, 0.9);
    return Float64Array.from({ length: n }, (_, i) => {
      const weekend = Math.floor(i / DAY) % 7 >= 5 ? 0.55 : 1;
      const mean = 80 + 420 * weekend * (bump(hourOf(i), 11, 2.5) + 0.8 * bump(hourOf(i), 19, 2));
      return Math.round(mean * (1 + 0.05 * noise()) + Math.sqrt(mean) * draw.normal());
    });
  },
  'disk emptied nightly': (draw, n) => {
    let [used, next] = [72 + 3 * draw.uniform(), 2 * HOUR];
    return Float64Array.from({ length: n }, (_, i) => {
      used += 0.13 * (1 + 0.3 * bump(hourOf(i), 14, 4)) * (0.6 + 0.8 * draw.uniform());
      if (i === next) {
        used = 33 + 3 * draw.uniform();
        next = (Math.floor(i / DAY) + 1) * DAY + 2 * HOUR + Math.round(4 * draw.normal());
      }
      return round(used, 0.1);
    });
  },
  'counts by hour of day': (draw, n) =>
    Float64Array.from({ length: n }, (_, i) => poisson(draw, 0.4 + 5 * bump(hourOf(i), 13, 4))),
  'random walk': (draw, n) => {
    let at = 1000;
    return Float64Array.from({ length: n }, () => {
      at += draw.normal();
      return at;
    });
  },
  'log-normal latency': (draw, n) => {
    const noise = wander(draw, 0.7);
    return Float64Array.from({ length: n }, () => round(120 * Math.exp(0.45 * noise()), 0.1));
  },
  'sawtooth of seven hours': (draw, n) => {
    let [level, rise] = [20, 0.9];
    return Float64Array.from({ length: n }, () => {
      level += rise;
      if (level > 95 + 2 * draw.normal())
        [level, rise] = [20 + draw.normal(), 0.9 * (1 + 0.05 * draw.normal())];
      return level + 0.8 * draw.normal();
    });
  },
  'compressor on and off': (draw, n) => {
    let [on, until] = [false, 0];
    return Float64Array.from({ length: n }, (_, i) => {
      if (i >= until) {
        on = !on;
        until = i + Math.round((on ? 11 : 17) * (1 + 0.12 * draw.normal()));
      }
      return round((on ? 6.4 : 0.9) + 0.12 * draw.normal(), 0.01);
    });
  },
  'outdoor temperature': (draw, n) => {
    const [weather, swing] = [wander(draw, 0.998), wander(draw, 0.99)];
    return Float64Array.from({ length: n }, (_, i) => {
      const day = 5 + 0.8 * swing();
      return round(
        12 + 3 * weather() + day * Math.sin((2 * Math.PI * (hourOf(i) - 9)) / 24) + 0.15 * draw.normal(),
        0.1,
      );
    });
  },
  'nightly job over heavy noise': (draw, n) => {
    let [from, to] = [0, 0];
    return Float64Array.from({ length: n }, (_, i) => {
      if (i % DAY === 0) {
        from = i + 3 * HOUR + Math.round(2 * draw.normal());
        to = from + Math.max(9, Math.round(18 + 3 * draw.normal()));
      }
      return (i >= from && i < to ? 70 : 12) + 1.2 * heavy(draw);
    });
  },
  'sessions that grow slowly': (draw, n) => {
    const noise = wander(draw, 0.95);
    return Float64Array.from({ length: n }, (_, i) => {
      const day =
        1 +
        0.5 * Math.sin((2 * Math.PI * (hourOf(i) - 8)) / 24) +
        0.15 * Math.sin((4 * Math.PI * hourOf(i)) / 24);
      return Math.round(300 * (1 + 0.012 * (i / DAY)) * day + 12 * noise() + 5 * draw.normal());
    });
  },
};

/** Least and largest of [N] values, and their range from 1 % to 99 %. */
function rangeOf(values: Float64Array): { least: number; largest: number; range: number } {
  const sorted = values.slice().sort();
  const at = (share: number): number => sorted[Math.floor(share * (sorted.length - 1))]!;
  return { least: at(0), largest: at(1), range: at(0.99) - at(0.01) };
}

interface Put {
  readonly values: Float64Array;
  /** Half-open, in samples. */
  readonly from: number;
  readonly to: number;
}

type Incident = (values: Float64Array, draw: Random, at: number) => Put;

/** Replaces the values of a stretch. */
function changed(values: Float64Array, from: number, to: number, value: (i: number) => number): Put {
  const out = values.slice();
  for (let i = from; i < to; i++) out[i] = value(i);
  return { values: out, from, to };
}

const DAILY = ['weekly traffic', 'outdoor temperature', 'sessions that grow slowly'];
const SMOOTH = [...DAILY, 'sawtooth of seven hours', 'disk emptied nightly', 'log-normal latency'];

/** Incidents, the kinds of series that they are plain to see in, and sizes. `at` is the first sample. */
export const INCIDENTS: Readonly<
  Record<string, { readonly bases: readonly string[]; readonly put: Incident }>
> = {
  spike: {
    bases: Object.keys(BASES).filter((name) => name !== 'random walk'),
    put: (values, draw, at) => {
      const { least, largest } = rangeOf(values);
      return changed(
        values,
        at,
        at + draw.integer(1, 4),
        () => largest + draw.between(0.8, 2) * (largest - least),
      );
    },
  },
  dip: {
    bases: [
      'outdoor temperature',
      'nightly job over heavy noise',
      'sawtooth of seven hours',
      'compressor on and off',
      'sessions that grow slowly',
    ],
    put: (values, draw, at) => {
      const { least, largest } = rangeOf(values);
      return changed(
        values,
        at,
        at + draw.integer(1, 4),
        () => least - draw.between(0.8, 2) * (largest - least),
      );
    },
  },
  'level shift': {
    bases: Object.keys(BASES).filter((name) => name !== 'random walk'),
    put: (values, draw, at) => {
      const { range } = rangeOf(values);
      const size = (0.9 + 0.5 * draw.uniform()) * range;
      return changed(values, at, at + draw.integer(3, 8) * HOUR, (i) => values[i]! + size);
    },
  },
  outage: {
    bases: [
      'weekly traffic',
      'disk emptied nightly',
      'random walk',
      'log-normal latency',
      'sessions that grow slowly',
      'nightly job over heavy noise',
    ],
    put: (values, draw, at) => changed(values, at, at + draw.integer(1, 4) * HOUR, () => 0),
  },
  stuck: {
    bases: [...SMOOTH, 'random walk'],
    put: (values, draw, at) => changed(values, at, at + draw.integer(6, 10) * HOUR, () => values[at]!),
  },
  'more variance': {
    bases: [...DAILY, 'sawtooth of seven hours', 'disk emptied nightly'],
    put: (values, draw, at) => {
      const size = (0.25 + 0.2 * draw.uniform()) * rangeOf(values).range;
      return changed(values, at, at + draw.integer(4, 8) * HOUR, (i) => values[i]! + size * draw.normal());
    },
  },
  'missing peak': {
    bases: [...DAILY, 'counts by hour of day'],
    put: (values, draw, at) => {
      // One day stays at the level of its night.
      const day = Math.floor(at / DAY) * DAY;
      return changed(
        values,
        day + 6 * HOUR,
        day + 22 * HOUR,
        () => values[day + draw.integer(2 * HOUR, 4 * HOUR)]!,
      );
    },
  },
  drift: {
    bases: [...DAILY, 'nightly job over heavy noise', 'log-normal latency', 'counts by hour of day'],
    put: (values, draw, at) => {
      const length = draw.integer(12, 24) * HOUR;
      const size = (1.3 + 0.5 * draw.uniform()) * rangeOf(values).range;
      return changed(values, at, at + length, (i) => values[i]! + (size * (i - at)) / length);
    },
  },
  'phase shift': {
    bases: [
      'weekly traffic',
      'sessions that grow slowly',
      'nightly job over heavy noise',
      'disk emptied nightly',
    ],
    put: (values, draw, at) => {
      const from = Math.floor(at / DAY) * DAY;
      const shift = draw.integer(5, 7) * HOUR;
      return changed(values, from, from + DAY, (i) => values[i + shift]!);
    },
  },
  'other frequency': {
    bases: [
      'sawtooth of seven hours',
      'compressor on and off',
      'outdoor temperature',
      'sessions that grow slowly',
    ],
    put: (values, draw, at) => {
      const length = draw.integer(24, 36) * HOUR;
      const pace = draw.integer(3, 4);
      // The stretch that would come is run through faster, again and again.
      return changed(
        values,
        at,
        at + length,
        (i) => values[at + (((i - at) * pace) % Math.min(length, 2 * DAY))]!,
      );
    },
  },
};

export interface Stream {
  readonly base: string;
  readonly incident: string | null;
  readonly values: Float64Array;
  readonly truth: { readonly from: number; readonly to: number } | null;
}

export const quietStreams = (seed: number): Stream[] =>
  Object.entries(BASES).map(([base, make]) => ({
    ...{ base, incident: null, truth: null },
    values: make(new Random(seed, `stream/${base}`), SAMPLES),
  }));

/** One stream for each incident and `count` of its kinds of series in turn; incidents begin on the tenth to the thirteenth day. */
export const incidentStreams = (seed: number, count: number): Stream[] =>
  Object.entries(INCIDENTS).flatMap(([incident, { bases, put }], k) =>
    Array.from({ length: count }, (_, j): Stream => {
      const base = bases[(seed + k + j) % bases.length]!;
      const draw = new Random(seed, `stream/${incident}/${j}`);
      const quiet = BASES[base]!(draw, SAMPLES);
      const { values, from, to } = put(quiet, draw, 9 * DAY + draw.integer(0, 4 * DAY - 1));
      return { base, incident, values, truth: { from, to } };
    }),
  );
