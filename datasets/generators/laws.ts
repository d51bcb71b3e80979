/**
 * laws: classification tasks, each made by a law of its own, with two to six classes. 16 consecutive examples share a law. The classes have made
 * names, and the prompt describes each in the words of the law, which are also the thought that leads to the class:
 *
 *     zavo: ramp up early        →        <think>ramp up early</think><class>zavo</class>
 *     keli: ramp up late
 *
 * Two in three laws choose one or two aspects and give each class its own values of them:
 *
 *  event   shape of a single event (plateau, ramp, hump, spike, step, dip, two humps)    order  signs of two steps in noise
 *  place   early, middle or late, of the event                                           wave   sine, square, saw, pulses
 *  width   narrow or wide, of the event                                                  speed  slow (2–4 cycles), medium (6–9), quick (13–18)
 *  trend   up, down, flat, arch or valley                                                noise  white, smooth, wandering, growing, shrinking
 *  bursts  number of noisy bursts
 *
 * All else is drawn anew for each example. The others are curves: each class has a smooth curve of its own (of a common one, with one part changed,
 * in half of them), described by its level in ten parts of the series, 0 to 9. Every series is changed a little by warped time and magnitude,
 * with noise of a size that is the law's, and has 80 to 560 points before it is stretched to its length.
 */

import { extent } from '../../src/ground/numbers.ts';
import { Random } from '../../src/ground/random.ts';
import type { Example } from '../../src/ground/types.ts';
import { augment, valueAt } from '../../src/series/augment.ts';
import { VALUE_CHANNEL } from '../example.ts';
import { checkAddress, type Split } from '../split.ts';

export const LAWS_LENGTH = 560;
export const LAWS_MINIMUM_LENGTH = 80;

/** Made names of classes, of which a task draws some. */
export const LAW_NAMES: readonly string[] = ['b', 'd', 'f', 'k', 'l', 'm', 'n', 'p'].flatMap((first) =>
  ['va', 'zo', 'ri', 'tu'].map((second) => `${first}${'aeio'['vzrt'.indexOf(second[0]!)]}${second}`),
);

/** Values of the aspects, as descriptions name them; recorded in the manifest of a data set. */
export const LAWS_PARAMETERS = {
  examples_of_a_law: 16,
  classes: [2, 6],
  share_of_curves: 1 / 3,
  noise: [0.02, 0.25],
  aspects: {
    event: ['plateau', 'ramp up', 'ramp down', 'hump', 'spike', 'step up', 'step down', 'dip', 'two humps'],
    place: ['early', 'middle', 'late'],
    width: ['narrow', 'wide'],
    wave: ['sine', 'square', 'saw', 'pulses'],
    speed: ['slow', 'medium', 'quick'],
    trend: ['rising', 'falling', 'flat', 'arch', 'valley'],
    noise: ['white', 'smooth', 'wandering', 'growing', 'shrinking'],
    bursts: ['no burst', 'one burst', 'two bursts', 'three bursts'],
    order: ['up up', 'up down', 'down up', 'down down'],
  },
} as const;

const P = LAWS_PARAMETERS;
const TAU = 2 * Math.PI;
type Aspect = keyof typeof P.aspects;
type Look = Readonly<Partial<Record<Aspect, string>>>;

/** Aspects of a series that belong together; those of the first in a group always show. */
const GROUPS: readonly (readonly Aspect[])[] = [
  ['event', 'place', 'width'],
  ['wave', 'speed'],
  ['trend'],
  ['noise'],
  ['bursts'],
  ['order'],
  ['trend', 'wave'],
];

interface LawClass {
  readonly name: string;
  readonly words: string;
  /** Values of the aspects that the class has; the others are drawn for each example. */
  readonly look: Look;
  /** Levels of a curve at even places; null for looks. */
  readonly curve: Float64Array | null;
}

interface Law {
  readonly classes: readonly LawClass[];
  readonly aspects: readonly Aspect[];
  readonly noise: number;
  /** Points before stretching. */
  readonly points: number;
}

/** Draws `count` different entries, in random order. */
const drawn = <T>(random: Random, list: readonly T[], count: number): T[] =>
  Array.from(random.permutation(list.length).slice(0, count), (i) => list[i]!);

/** Combinations of values of some aspects. */
const combinations = (aspects: readonly Aspect[]): Look[] =>
  aspects.reduce<Look[]>(
    (looks, aspect) =>
      looks.flatMap((look) => P.aspects[aspect].map((value) => ({ ...look, [aspect]: value }))),
    [{}],
  );

const KNOTS = 12;
const CELLS = 10;

/** Description of a curve: its levels in ten parts, 0 (lowest) to 9. */
function levels(curve: Float64Array): string {
  const cells = Array.from({ length: CELLS }, (_, c) => valueAt(curve, ((c + 0.5) * (KNOTS - 1)) / CELLS));
  const [low, high] = [Math.min(...cells), Math.max(...cells)];
  return cells.map((level) => Math.round((9 * (level - low)) / (high - low || 1))).join('');
}

function curves(random: Random, count: number): Pick<LawClass, 'words' | 'look' | 'curve'>[] {
  const one = (): Float64Array => {
    let level = random.normal();
    return Float64Array.from({ length: KNOTS }, () => {
      level = 0.5 * level + random.normal();
      return level;
    });
  };
  const common = random.uniform() < 0.5 ? one() : null;
  const made = new Map<string, Float64Array>();
  while (made.size < count) {
    const curve = common?.slice() ?? one();
    const start = random.integer(0, KNOTS - 4);
    if (common !== null) for (let k = start; k < start + 4; k++) curve[k] = curve[k]! + 1.5 * random.normal();
    made.set(levels(curve), curve);
  }
  return [...made].map(([words, curve]) => ({ words, look: {}, curve }));
}

function lawOf(seed: number, split: Split, number: number): Law {
  const random = new Random(seed, `laws/${split}/law`, number);
  const count = random.integer(...P.classes);
  const names = drawn(random, LAW_NAMES, count);
  const shared = {
    noise: random.between(...P.noise),
    points: random.integer(LAWS_MINIMUM_LENGTH, LAWS_LENGTH),
  };
  if (random.uniform() < P.share_of_curves) {
    const classes = curves(random, count).map((one, c) => ({ name: names[c]!, ...one }));
    return { classes, aspects: [], ...shared };
  }
  const aspects = random.pick(GROUPS);
  const varied = drawn(random, aspects, Math.min(aspects.length, random.integer(1, 2)));
  const looks = drawn(random, combinations(varied), count);
  const classes = looks.map((look, c) => {
    const words = aspects.flatMap((aspect) => look[aspect] ?? []).join(' ');
    return { name: names[c]!, words, look, curve: null };
  });
  return { classes, aspects, ...shared };
}

/** Values of a shape at a place from 0 to 1 inside the event; before it 0, behind it `after`. */
const EVENTS: Readonly<Record<string, { readonly at: (x: number) => number; readonly after?: number }>> = {
  plateau: { at: () => 1 },
  'ramp up': { at: (x) => x },
  'ramp down': { at: (x) => 1 - x },
  hump: { at: (x) => Math.sin(Math.PI * x) },
  spike: { at: (x) => Math.max(0, 1 - 6 * Math.abs(x - 0.5)) },
  'step up': { at: (x) => (x < 0.5 ? 0 : 1), after: 1 },
  'step down': { at: (x) => (x < 0.5 ? 0 : -1), after: -1 },
  dip: { at: (x) => -Math.sin(Math.PI * x) },
  'two humps': { at: (x) => Math.abs(Math.sin(TAU * x)) },
};
const WAVES: Readonly<Record<string, (phase: number) => number>> = {
  sine: (phase) => Math.sin(TAU * phase),
  square: (phase) => (phase % 1 < 0.5 ? 1 : -1),
  saw: (phase) => 2 * (phase % 1) - 1,
  pulses: (phase) => (phase % 1 < 0.15 ? 1.5 : -0.2),
};
const TRENDS: Readonly<Record<string, (x: number) => number>> = {
  rising: (x) => 2 * x,
  falling: (x) => -2 * x,
  flat: () => 0,
  arch: (x) => 8 * x * (1 - x),
  valley: (x) => -8 * x * (1 - x),
};
const CYCLES: Readonly<Record<string, readonly [number, number]>> = {
  slow: [2, 4],
  medium: [6, 9],
  quick: [13, 18],
};
const AR: Readonly<Record<string, number>> = {
  white: 0,
  smooth: 0.9,
  wandering: 1,
  growing: 0,
  shrinking: 0,
};

/** A series of a look. [points] */
function drawLook(random: Random, law: Law, look: Look): Float64Array {
  const { points, aspects } = law;
  const value = (aspect: Aspect): string => look[aspect] ?? random.pick(P.aspects[aspect]);
  const values = new Float64Array(points);
  const add = (at: (x: number, t: number) => number): void => {
    for (let t = 0; t < points; t++) values[t] = values[t]! + at(t / (points - 1), t);
  };
  let noise = law.noise;
  if (aspects.includes('event')) {
    const { at, after = 0 } = EVENTS[value('event')]!;
    const third = P.aspects.place.indexOf(value('place') as 'early');
    const width = value('width') === 'narrow' ? random.between(0.08, 0.15) : random.between(0.25, 0.32);
    const start = (third + random.uniform()) / 3 - width / 2;
    add((x) => (x < start ? 0 : x > start + width ? after : at((x - start) / width)));
  }
  if (aspects.includes('wave')) {
    const wave = WAVES[value('wave')]!;
    const cycles = random.between(...CYCLES[aspects.includes('speed') ? value('speed') : 'medium']!);
    const phase = random.uniform();
    add((x) => wave(phase + cycles * x));
  }
  if (aspects.includes('trend')) add(TRENDS[value('trend')]!);
  if (aspects.includes('noise')) {
    const law = value('noise');
    let level = 0;
    add((x) => {
      level = AR[law]! * level + random.normal();
      return level * (law === 'growing' ? 0.2 + 1.8 * x : law === 'shrinking' ? 2 - 1.8 * x : 1);
    });
    noise = 0;
  }
  if (aspects.includes('bursts')) {
    const count = P.aspects.bursts.indexOf(value('bursts') as 'no burst');
    const slots = drawn(random, [0, 1, 2, 3, 4], count).map(
      (slot) => 0.2 * slot + random.between(0.02, 0.06),
    );
    add((x) => (slots.some((start) => x >= start && x < start + 0.1) ? 1 : 0.15) * random.normal());
  }
  if (aspects.includes('order')) {
    const [first, second] = [random.between(0.05, 0.3), random.between(0.5, 0.75)];
    const width = random.between(0.08, 0.18);
    for (const [i, sign] of value('order').split(' ').entries()) {
      const start = i === 0 ? first : second;
      add((x) => {
        const place = (x - start) / width;
        if (place < 0 || place >= 1) return 0;
        return (place < 0.5 ? -1 : 1) * (sign === 'up' ? 1 : -1);
      });
    }
  }
  const [low, high] = extent(values);
  const size = noise * (high - low || 1);
  add(() => size * random.normal());
  return values;
}

const CHANGE = { jitter: 0, scale: 0.15, warp: 0.15, crop: 0.05, flip: 0 };

/**
 * One series, a pure function of its arguments.
 * @param index integer in [0, 2³²); 16 in a row are of one task
 * @throws ConfigError for a seed, index or length out of range
 */
export function laws(seed: number, split: Split, index: number, length: number = LAWS_LENGTH): Example {
  checkAddress(seed, index, length, LAWS_MINIMUM_LENGTH);
  const law = lawOf(seed, split, Math.floor(index / P.examples_of_a_law));
  const random = new Random(seed, `laws/${split}`, index);
  const { name, words, look, curve } = random.pick(law.classes);
  const { points } = law;
  const plain =
    curve === null
      ? drawLook(random, law, look)
      : Float64Array.from(
          { length: points },
          (_, t) => valueAt(curve, (t * (KNOTS - 1)) / (points - 1)) + 2 * law.noise * random.normal(),
        );
  const [changed] = augment([plain], CHANGE, random);
  const values = Float64Array.from({ length }, (_, t) =>
    valueAt(changed!, (t * (points - 1)) / (length - 1)),
  );
  return {
    ...{
      id: `laws/${split}/${index}`,
      task: 'laws',
      channels: [values],
      names: [VALUE_CHANNEL],
      times: null,
    },
    gold: {
      ...{ kind: 'classification', class: name, thought: words },
      among: Object.fromEntries(law.classes.map((known) => [known.name, known.words])),
    },
    recording: null,
  };
}
