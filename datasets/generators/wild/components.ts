/** Components of a series: cycles and seasons, calendars, trends and walks, machine-made waves, noise, and loads of machines. */
import { extent } from '../../../src/ground/numbers.ts';
import { type Random, standardNormal } from '../../../src/ground/random.ts';
import { chance, DAY, type Draft, logBetween, samplesOf, sign } from './draft.ts';

/** A curve over the phase in [0, 1). */
type Profile = (phase: number) => number;

/** Entries of a tabulated curve; a power of two, so that phases wrap by a mask. */
const PLACES = 128;
const TAU = 2 * Math.PI;

/** Tabulates a periodic curve and rescales it to [0, 1]. */
function tabulated(curve: Profile): Profile {
  const table = Float64Array.from({ length: PLACES }, (_, i) => curve(i / PLACES));
  const [low, high] = extent(table);
  const scale = high > low ? 1 / (high - low) : 0;
  for (let i = 0; i < PLACES; i++) table[i] = (table[i]! - low) * scale;
  return (phase) => {
    const place = (phase - Math.floor(phase)) * PLACES;
    const i = Math.floor(place);
    const left = table[i & (PLACES - 1)]!;
    return left + (table[(i + 1) & (PLACES - 1)]! - left) * (place - i);
  };
}

/** Distance of two phases around the cycle, in [0, 0.5]. */
const around = (a: number, b: number): number => {
  const distance = Math.abs(a - b) % 1;
  return distance > 0.5 ? 1 - distance : distance;
};

/** A sine with one to four overtones that fall off. */
function harmonics(random: Random): Profile {
  const terms = Array.from({ length: random.integer(1, 5) }, (_, k) => ({
    size: k === 0 ? 1 : random.normal() / (k + 1) ** 1.2,
    at: random.uniform(),
  }));
  return (phase) =>
    terms.reduce((sum, { size, at }, k) => sum + size * Math.sin(TAU * ((k + 1) * phase + at)), 0);
}

/** One to three peaks of different widths over a quiet floor. */
function peaks(random: Random): Profile {
  const bumps = Array.from({ length: random.integer(1, 3) }, (_, k) => ({
    at: random.uniform(),
    width: random.between(0.03, 0.16),
    size: k === 0 ? 1 : random.between(0.25, 0.9),
  }));
  return (phase) =>
    bumps.reduce((sum, { at, width, size }) => sum + size * Math.exp(-((around(phase, at) / width) ** 2)), 0);
}

/** A plateau with slopes, and often a dent in it, like office hours. */
function plateau(random: Random): Profile {
  const [from, to] = [random.between(0.2, 0.4), random.between(0.6, 0.9)];
  const [rise, fall] = [random.between(0.01, 0.12), random.between(0.01, 0.15)];
  const dent = chance(random, 0.5) ? random.between(0.1, 0.4) : 0;
  const noon = (from + to) / 2;
  const step = (x: number): number => 1 / (1 + Math.exp(-x));
  return (phase) =>
    step((phase - from) / (rise / 3)) *
    step((to - phase) / (fall / 3)) *
    (1 - dent * Math.exp(-(((phase - noon) / 0.05) ** 2)));
}

/** A smooth random curve without a formula, bent so that it is low, or high, most of the time. */
function wandering(random: Random): Profile {
  const terms = Array.from({ length: 7 }, (_, k) => ({
    size: random.normal() * Math.exp(-k / 3),
    at: random.uniform(),
  }));
  const bend = random.between(-1.2, 1.2);
  return (phase) => {
    const sum = terms.reduce(
      (all, { size, at }, k) => all + size * Math.sin(TAU * ((k + 1) * phase + at)),
      0,
    );
    return Math.exp(bend * sum) * Math.sign(bend);
  };
}

const KINDS = [harmonics, peaks, plateau, wandering] as const;

export const anyProfile = (random: Random): Profile => tabulated(random.pick(KINDS)(random));

const dayProfile = (random: Random): Profile =>
  tabulated(random.pick([plateau, plateau, peaks, wandering, harmonics] as const)(random));

interface Season {
  /** Samples. */
  readonly period: number;
  /** Phase of the first sample, in [0, 1). */
  readonly phase: number;
  readonly amplitude: number;
  readonly profile: Profile;
  /** Standard deviation of the size of cycles, relative to their mean; unpredictable. */
  readonly jitter: number;
}

export function addSeason(draft: Draft, { period, phase, amplitude, profile, jitter }: Season): void {
  const { random, n, pattern, events } = draft;
  let cycle = Number.NaN;
  let extra = 0;
  for (let t = 0; t < n; t++) {
    const place = t / period + phase;
    const value = amplitude * profile(place);
    pattern[t] = pattern[t]! + value;
    if (jitter === 0) continue;
    if (Math.floor(place) !== cycle) {
      cycle = Math.floor(place);
      extra = jitter * random.normal();
    }
    events[t] = events[t]! + extra * value;
  }
  draft.periods.add(period);
}

/** Varies the amplitude of the pattern slowly: up or down over the whole, or back and forth. */
export function changeAmplitude(draft: Draft): void {
  const { random, n, pattern } = draft;
  const size = random.between(0.25, 0.6) * (chance(random, 0.5) ? -1 : 1);
  const cycles = chance(random, 0.5) ? 0.5 : random.between(0.5, 1.5);
  const at = random.uniform();
  let mean = 0;
  for (let t = 0; t < n; t++) mean += pattern[t]! / n;
  for (let t = 0; t < n; t++) {
    const factor = 1 + size * Math.cos(Math.PI * (2 * cycles * (t / n) + at));
    pattern[t] = mean + factor * (pattern[t]! - mean);
  }
  draft.components.add('changing amplitude');
}

/**
 * Adds days by the clock to the pattern: a profile of working days, another size (and half the time another shape) for the weekend, where
 * the series has whole days. Holidays are days like Sundays: at least three of them, so that none is the only one of its kind.
 */
export function addCalendar(draft: Draft, amplitude: number, jitter: number): void {
  const { random, n, clock, pattern, events } = draft;
  const day = samplesOf(clock, DAY);
  const first = Math.floor(clock.start / DAY);
  const days = Math.ceil(n / day) + 1;
  const work = dayProfile(random);
  const weekly = chance(random, 0.65);
  // A weekend that comes only once is like the other days, and hardly quieter: none who sees the series could tell that it is one.
  const several = days > 11;
  const rest = weekly && several && chance(random, 0.5) ? dayProfile(random) : work;
  const quiet = weekly ? random.between(several ? 0.05 : 0.75, 0.9) : 1;
  const sunday = weekly && chance(random, 0.5) ? quiet * random.between(0.6, 1) : quiet;
  const busiest = weekly && several && chance(random, 0.3) ? random.integer(0, 4) : -1;
  const free = new Uint8Array(days);
  if (weekly && days >= 28 && chance(random, 0.4)) {
    const workdays = Array.from({ length: days - 1 }, (_, k) => k).filter((k) => (first + k) % 7 < 5);
    const count = random.integer(3, Math.max(3, Math.floor(workdays.length / 7)));
    for (const at of random.permutation(workdays.length).subarray(0, count)) free[workdays[at]!] = 1;
    draft.components.add('holidays');
  }
  let today = -1;
  let [size, extra, profile] = [1, 0, work];
  for (let t = 0; t < n; t++) {
    const place = (clock.start + t * clock.step) / DAY;
    const k = Math.floor(place) - first;
    if (k !== today) {
      today = k;
      const weekday = free[k] === 1 ? 6 : (first + k) % 7;
      size = weekday < 5 ? (weekday === busiest ? 1.2 : 1) : weekday === 5 ? quiet : sunday;
      profile = weekday < 5 ? work : rest;
      extra = jitter === 0 ? 0 : jitter * random.normal();
    }
    // One sample a day has no hours: only the days differ.
    const value = amplitude * size * (day < 2 ? 1 : profile(place));
    pattern[t] = pattern[t]! + value;
    events[t] = events[t]! + extra * value;
  }
  draft.components.add('calendar');
  if (day >= 4) draft.periods.add(day);
  if (weekly && 2 * 7 * day <= n) draft.periods.add(7 * day);
}

/** Adds a line, a bent line, growth that slows down, or growth that speeds up; `size` is the total rise or fall. */
export function addTrend(draft: Draft, size: number): void {
  const { random, n, level } = draft;
  const rise = sign(random) * size;
  const bend = random.between(0.25, 0.75);
  const after = random.between(-0.5, 1.5);
  const speed = random.between(1.5, 4);
  const curve = random.pick<(x: number) => number>([
    (x) => x,
    (x) => (x < bend ? x : bend + after * (x - bend)),
    (x) => (1 - Math.exp(-speed * x)) / (1 - Math.exp(-speed)),
    (x) => (Math.exp(speed * x) - 1) / (Math.exp(speed) - 1),
  ]);
  for (let t = 0; t < n; t++) level[t] = level[t]! + rise * curve(t / n);
  draft.components.add('trend');
}

/** Adds slow swings without a period, each longer than a third of the series. */
export function addDrift(draft: Draft, size: number): void {
  const { random, n, level } = draft;
  for (let k = 0; k < 3; k++) {
    const cycles = random.between(0.3, 3);
    const at = random.uniform();
    const height = (size * random.between(0.3, 1)) / (1 + cycles);
    const step = (2 * Math.PI * cycles) / n;
    for (let t = 0; t < n; t++) level[t] = level[t]! + height * Math.sin(step * t + 2 * Math.PI * at);
  }
  draft.components.add('drift');
}

/**
 * Adds a random walk, or one that is drawn back to where it began; `size` is the standard deviation of where it gets to.
 * Steps are normal, or now and then ten times as large.
 */
export function addWalk(draft: Draft, size: number): void {
  const { random, n, events } = draft;
  const memory = chance(random, 0.4) ? 1 : 1 - 1 / (n * random.between(0.01, 0.2));
  const jumps = chance(random, 0.25) ? random.between(0.002, 0.02) : 0;
  const reach = memory === 1 ? Math.sqrt(n / 2) : Math.sqrt(1 / (1 - memory * memory));
  const step = size / (reach * Math.sqrt(1 + 24 * jumps));
  let at = memory === 1 ? 0 : step * reach * standardNormal(random);
  for (let t = 0; t < n; t++) {
    const size = jumps > 0 && chance(random, jumps) ? 5 * step : step;
    at = memory * at + size * standardNormal(random);
    events[t] = events[t]! + at;
  }
  draft.components.add('walk');
}

const bump = (x: number, at: number, width: number): number => Math.exp(-(((x - at) / width) ** 2));

/** Waves by name, each from 0 to 1, with random proportions. */
const WAVES: Readonly<Record<string, (random: Random) => Profile>> = {
  square(random) {
    const duty = random.between(0.15, 0.85);
    return (x) => (x < duty ? 1 : 0);
  },
  sawtooth(random) {
    const rise = chance(random, 0.5) ? random.between(0.75, 0.98) : random.between(0.02, 0.25);
    return (x) => (x < rise ? x / rise : (1 - x) / (1 - rise));
  },
  triangle: () => (x) => 1 - Math.abs(2 * x - 1),
  sine: () => (x) => 0.5 + 0.5 * Math.sin(2 * Math.PI * x),
  steps(random) {
    const heights = Array.from({ length: random.integer(3, 6) }, () => random.uniform());
    return (x) => heights[Math.floor(x * heights.length)]!;
  },
  charge(random) {
    const [duty, speed] = [random.between(0.3, 0.7), random.between(3, 8)];
    return (x) =>
      x < duty
        ? 1 - Math.exp((-speed * x) / duty)
        : (1 - Math.exp(-speed)) * Math.exp((-speed * (x - duty)) / (1 - duty));
  },
  heartbeat(random) {
    const width = random.between(0.012, 0.03);
    return (x) =>
      0.3 +
      0.12 * bump(x, 0.2, 0.035) +
      0.7 * bump(x, 0.38, width) -
      0.25 * bump(x, 0.38 + 2.2 * width, width) +
      0.22 * bump(x, 0.65, 0.05);
  },
};

const WAVE_KINDS = Object.values(WAVES);

export const anyWave = (random: Random): Profile => random.pick(WAVE_KINDS)(random);

/** Adds one pulse per period to the pattern, all of one height, that end at once or decay. */
export function addPulses(draft: Draft, period: number, height: number): void {
  const { random, n, pattern } = draft;
  const width = Math.max(1, Math.round(period * random.between(0.01, 0.12)));
  const fades = chance(random, 0.5);
  const phase = random.uniform();
  for (let t = 0; t < n; t++) {
    const since = Math.floor((t / period + phase - Math.floor(t / period + phase)) * period);
    if (fades ? since < 5 * width : since < width) {
      pattern[t] = pattern[t]! + height * (fades ? Math.exp(-since / width) : 1);
    }
  }
  draft.periods.add(period);
  draft.components.add('pulses');
}

type Draw = (random: Random) => number;

const exponential: Draw = (random) => -Math.log(1 - random.uniform());
const laplace: Draw = (random) => (chance(random, 0.5) ? -1 : 1) * exponential(random) * Math.SQRT1_2;
/** Student's t with three degrees of freedom over its standard deviation: outliers are usual. */
const student: Draw = (random) => {
  let squares = 0;
  for (let i = 0; i < 3; i++) squares += standardNormal(random) ** 2;
  return standardNormal(random) / Math.sqrt(squares);
};
/** Exponential with mean 0: a sharp lower edge, a long upper tail. */
const skewed: Draw = (random) => exponential(random) - 1;

/** Factor on the noise over time, by the pattern or by a slow cycle. */
function loudness({ random, n, pattern, components }: Draft): (t: number) => number {
  components.add('heteroscedastic noise');
  const [low, high] = extent(pattern);
  const least = random.between(0.15, 0.5);
  if (high > low && chance(random, 0.7)) {
    const scale = (1.3 - least) / (high - low);
    return (t) => least + scale * (pattern[t]! - low);
  }
  const cycles = random.between(0.5, 3);
  const at = random.uniform();
  return (t) => least + (1.3 - least) * (0.5 + 0.5 * Math.sin(2 * Math.PI * (cycles * (t / n) + at)));
}

/** Adds noise of about this standard deviation. */
export function addNoise(draft: Draft, std: number, { even = false, light = false } = {}): void {
  const { random, n, noise, deviation, components } = draft;
  const draw = light || chance(random, 0.7) ? standardNormal : random.pick([laplace, student, skewed]);
  if (draw !== standardNormal) components.add('heavy-tailed noise');
  const loud = even || !chance(random, 0.25) ? () => 1 : loudness(draft);
  const kind = random.uniform();
  const memory = kind < 0.4 ? random.between(0.2, 0.95) : kind < 0.5 ? -random.between(0.1, 0.5) : 0;
  // A second memory, of the sample before the last, lets the noise swing.
  const second = memory > 0.5 && chance(random, 0.3) ? -random.between(0.1, 0.5) : 0;
  components.add(memory !== 0 ? 'autoregressive noise' : 'white noise');
  const variance = (1 - second) / ((1 + second) * ((1 - second) ** 2 - memory ** 2));
  const scale = std / Math.sqrt(variance > 0 ? variance : 1);
  let [last, before] = [0, 0];
  for (let t = 0; t < n; t++) {
    const value = memory * last + second * before + scale * draw(random);
    before = last;
    last = value;
    const factor = loud(t);
    noise[t] = noise[t]! + factor * value;
    deviation[t] = factor * std;
  }
}

/** Adds a job of `width` samples every `period` samples, of about the same height each time. */
export function addJobs(
  draft: Draft,
  { period, width, height }: { readonly period: number; readonly width: number; readonly height: number },
): void {
  const { random, n, pattern, events } = draft;
  const jitter = chance(random, 0.5) ? 0.08 : 0;
  const fades = chance(random, 0.3);
  for (let start = Math.floor(period * random.between(-0.5, 0.5)); start < n; start += period) {
    const extra = jitter * random.normal();
    for (let k = 0; k < width; k++) {
      const t = Math.round(start) + k;
      if (t < 0 || t >= n) continue;
      const value = height * (fades ? 1 - k / width : 1);
      pattern[t] = pattern[t]! + value;
      events[t] = events[t]! + extra * value;
    }
  }
  draft.periods.add(period);
  draft.components.add('jobs');
}

/** Adds a rare but regular job: three to six times in the series. */
export function addRareJobs(draft: Draft, height: number): void {
  const { random, n } = draft;
  const period = Math.floor(n / random.between(3.2, 6.5));
  addJobs(draft, { period, width: Math.max(1, Math.round(n * random.between(0.001, 0.02))), height });
  draft.components.add('rare jobs');
}

/** Adds a device that switches on and off at varying times; at least six switches are likely. */
export function addSwitching(draft: Draft, height: number): void {
  const { random, n, events } = draft;
  const [on, off] = [logBetween(random, 3, n / 10), logBetween(random, 3, n / 10)];
  const stages = chance(random, 0.25) ? 3 : 1;
  let state = chance(random, on / (on + off)) ? 1 : 0;
  let until = 0;
  let value = 0;
  for (let t = 0; t < n; t++) {
    if (t >= until) {
      state = 1 - state;
      until = t + Math.max(2, (state === 1 ? on : off) * (0.4 + 0.6 * random.exponential(1)));
      value = state === 0 ? 0 : (height * random.integer(1, stages)) / stages;
    }
    events[t] = events[t]! + value;
  }
  draft.components.add('on-off');
}

/** Switches the level between two or three recurring ones: four to nine stretches. */
export function addRegimes(draft: Draft, height: number): void {
  const { random, n, events } = draft;
  const levels = chance(random, 0.7) ? [0, 1] : [0, 0.5, 1];
  const count = random.integer(Math.max(4, 2 * levels.length), 9);
  const parts = Array.from({ length: count }, () => random.between(0.4, 1.6));
  const total = parts.reduce((sum, part) => sum + part, 0);
  const ramp = Math.max(1, Math.round(n * random.between(0, 0.008)));
  const first = random.integer(0, levels.length - 1);
  let begin = 0;
  let before = height * levels[first]!;
  for (const [k, part] of parts.entries()) {
    const end = k === count - 1 ? n : begin + Math.round((n * part) / total);
    const value = height * levels[(first + k) % levels.length]!;
    for (let t = begin; t < Math.min(n, end); t++) {
      events[t] = events[t]! + before + (value - before) * Math.min(1, (t - begin + 1) / ramp);
    }
    begin = end;
    before = value;
  }
  draft.components.add('regimes');
}

/**
 * Adds bursts at random times: each begins at once and dies away. They are usual in this series: there are many, and the highest is not the
 * only one of its height.
 */
export function addBursts(draft: Draft, height: number): void {
  const { random, n, events } = draft;
  const every = logBetween(random, Math.max(8, n / 80), n / 16);
  const fade = chance(random, 0.5) ? 0.5 : logBetween(random, 1, Math.max(2, n / 150));
  for (let at = every * random.exponential(1); at < n; at += every * random.exponential(1)) {
    const size = height * Math.min(1.5, 0.5 * (1 - random.uniform()) ** -0.5);
    for (let t = Math.floor(at), k = 0; t < n && k < 6 * fade + 1; t++, k++) {
      events[t] = events[t]! + size * Math.exp(-k / fade);
    }
  }
  draft.components.add('bursts');
}

/** Adds single outliers at random times, one in 12 to 150 samples: where they are usual, one more is no anomaly. */
export function addOutliers(draft: Draft, height: number): void {
  const { random, n, events } = draft;
  const share = Math.max(8 / n, logBetween(random, 0.007, 0.08));
  const direction = random.pick([1, 1, 1, -1, 0]);
  for (let t = random.exponential(1 / share); t < n; t += 1 + random.exponential(1 / share)) {
    const side = direction === 0 ? (chance(random, 0.5) ? 1 : -1) : direction;
    const i = Math.floor(t);
    events[i] = events[i]! + side * height * (1 - 0.7 * random.uniform() ** 2);
  }
  draft.components.add('outliers');
}
