/**
 * Generators of VisualTimeAnomaly (Xu et al. 2025, "Can multimodal LLMs perform time series anomaly
 * detection?"), whole and irregular. The base is 1.5·(sin(2π·0.04·t) + 0.05·N(0, 1)); 400 points in the publication,
 * 5 % of them anomalous:
 *
 *  global      points: value · 3.5 · local deviation, pushed out to the extent of the base where it lies inside
 *  contextual  points: value · 2.5 · local deviation, pulled to min(0.95, |N(0, 0.5)|) of the extent where outside
 *  seasonal    segments of 10 points at three times the frequency
 *  trend       segments of 10 points that climb or fall by 0.5 a step; what they gained stays
 *  shapelet    segments of 10 points of a square wave: 20 terms of its Fourier series
 *
 * Local deviation: standard deviation of the base over the 10 points from 5 before. Counts of points and segments grow with
 * the length, durations and the period do not.
 *
 * Departures from the published generator: frequencies are the stated ones (there, the seasonal factor also reaches
 * the base of every series); positions do not coincide, so the share of anomalous points is exact; segments lie whole
 * inside the series and do not touch; the second trend segment starts from the level that the first one left.
 */
import { ConfigError } from '../../src/ground/errors.ts';
import { extent } from '../../src/ground/numbers.ts';
import { Random, standardNormal } from '../../src/ground/random.ts';
import type { AnomalyClass, Example, Gold, Interval } from '../../src/ground/types.ts';
import { mergeIntervals } from '../../src/series/intervals.ts';
import { anomalyExample } from '../example.ts';
import { checkAddress, type Split } from '../split.ts';

export const VTA_TYPES = ['global', 'contextual', 'seasonal', 'trend', 'shapelet'] as const;
export type VtaType = (typeof VTA_TYPES)[number];

export const VTA_LENGTH = 400;
/** Room for one segment and its surroundings. */
export const VTA_MINIMUM_LENGTH = 20;

/** Waveforms that replace a variate of a multivariate series. */
export const VTA_WAVES = ['triangle', 'square', 'sawtooth', 'random walk'] as const;
export type VtaWave = (typeof VTA_WAVES)[number];

export const VTA_MISSING = [0.05, 0.1, 0.15, 0.2, 0.25] as const;

/** @throws ConfigError for a share outside [0, 0.5]: above it, too little is left to see */
function checkMissing(missing: number): void {
  if (!(missing >= 0 && missing <= 0.5)) {
    throw new ConfigError(`missing: got ${missing}, expected a share of points from 0 to 0.5`);
  }
}

/** ⌊share · length⌋ different positions; those of a smaller share are the first of a larger one's. */
function missingPositions(random: Random, share: number, length: number): Int32Array {
  // 0.15 · 200 is a little above 30, 0.29 · 100 a little below 29: whole counts must not depend on that.
  return random.permutation(length).subarray(0, Math.floor(share * length + 1e-9));
}

/** The published numbers; lengths in samples. */
const P = {
  amplitude: 1.5,
  frequency: 0.04,
  noise: 0.05,
  ratio: 0.05,
  radius: 5,
} as const;

type Kind = {
  readonly class: AnomalyClass;
  readonly parameters: Readonly<Record<string, unknown>>;
};
const KINDS = {
  global: { class: 'global point', parameters: { factor: 3.5 } },
  contextual: { class: 'contextual point', parameters: { factor: 2.5, clip: 0.95, clip_std: 0.5 } },
  seasonal: { class: 'seasonal', parameters: { factor: 3 } },
  trend: { class: 'trend', parameters: { step: 0.5 } },
  shapelet: { class: 'shapelet', parameters: { terms: 20, noise: 0.03 } },
} as const satisfies Record<VtaType, Kind>;

export function vtaClass(type: VtaType): AnomalyClass {
  return KINDS[type].class;
}

/** Settings of a type, for the manifest of a data set. */
export function vtaParameters(type: VtaType): Readonly<Record<string, unknown>> {
  return { ...P, ...KINDS[type].parameters };
}

const TAU = 2 * Math.PI;

/** `count` different positions in [0, length), evenly drawn, ascending. */
function drawPositions(random: Random, count: number, length: number): Int32Array {
  return random.permutation(length).subarray(0, count).sort();
}

const pointIntervals = (positions: ArrayLike<number>): Interval[] =>
  mergeIntervals(Array.from(positions, (at): Interval => [at, at + 1]));

/** Segments of 2·radius points, evenly drawn over all arrangements that leave a point between two. */
function drawSegments(random: Random, length: number): Interval[] {
  const size = 2 * P.radius;
  const count = Math.max(1, Math.round((P.ratio * length) / size));
  const free = length - count * size - (count - 1);
  const cuts = Array.from({ length: count }, () => random.integer(0, free)).sort((a, b) => a - b);
  return cuts.map((cut, i): Interval => {
    const start = cut + i * (size + 1);
    return [start, start + size];
  });
}

/** Population standard deviation of base[i − radius … i + radius), cut at the ends. */
function localDeviation(base: Float64Array, i: number): number {
  const cut = base.subarray(Math.max(0, i - P.radius), Math.min(base.length, i + P.radius));
  let mean = 0;
  for (const value of cut) mean += value / cut.length;
  let square = 0;
  for (const value of cut) square += (value - mean) ** 2;
  return Math.sqrt(square / cut.length);
}

type Change = (random: Random, values: Float64Array, base: Float64Array) => Interval[];

function changePoints(
  place: (value: number, lo: number, hi: number, random: Random) => number,
  factor: number,
): Change {
  return (random, values, base) => {
    const positions = drawPositions(random, Math.max(1, Math.round(P.ratio * base.length)), base.length);
    const [lo, hi] = extent(base);
    for (const i of positions) values[i] = place(base[i]! * factor * localDeviation(base, i), lo, hi, random);
    return pointIntervals(positions);
  };
}

function changeSegments(value: (t: number, random: Random) => number): Change {
  return (random, values) => {
    const segments = drawSegments(random, values.length);
    for (const [start, end] of segments) for (let t = start; t < end; t++) values[t] = value(t, random);
    return segments;
  };
}

const changeTrend: Change = (random, values, base) => {
  const segments = drawSegments(random, values.length);
  let level = 0;
  let t = 0;
  for (const [start, end] of segments) {
    for (; t < start; t++) values[t] = base[t]! + level;
    const step = (random.uniform() < 0.5 ? -1 : 1) * KINDS.trend.parameters.step;
    for (; t < end; t++) values[t] = base[t]! + level + step * (t - start);
    level += step * (end - start - 1);
  }
  for (; t < values.length; t++) values[t] = base[t]! + level;
  return segments;
};

/** The published square wave: terms 1/k · sin of the odd multiples k; its noise adds up over the terms. */
function squareTerms(t: number, random: Random): number {
  const { terms, noise } = KINDS.shapelet.parameters;
  let sum = 0;
  let power = 0;
  for (let k = 1; k < 2 * terms; k += 2) {
    sum += Math.sin(TAU * P.frequency * k * t) / k;
    power += 1 / (k * k);
  }
  return P.amplitude * (sum + noise * Math.sqrt(power) * standardNormal(random));
}

const sine = (t: number, factor: number, random: Random): number =>
  P.amplitude * (Math.sin(TAU * P.frequency * factor * t) + P.noise * standardNormal(random));

const CHANGES: Readonly<Record<VtaType, Change>> = {
  global: changePoints(
    (value, lo, hi) => (value >= 0 ? Math.max(value, hi) : Math.min(value, lo)),
    KINDS.global.parameters.factor,
  ),
  contextual: changePoints((value, lo, hi, random) => {
    if (value >= lo && value <= hi) return value;
    const { clip, clip_std } = KINDS.contextual.parameters;
    return (value > hi ? hi : lo) * Math.min(clip, Math.abs(clip_std * standardNormal(random)));
  }, KINDS.contextual.parameters.factor),
  seasonal: changeSegments((t, random) => sine(t, KINDS.seasonal.parameters.factor, random)),
  trend: changeTrend,
  shapelet: changeSegments(squareTerms),
};

/**
 * One whole series, a pure function of its arguments.
 * @param index integer in [0, 2³²)
 * @param length number of points, N ≥ 20
 * @returns one channel [N]; intervals half-open, sorted, disjoint, inside [0, N): runs of the anomalous points
 * @throws ConfigError for a seed, index or length out of range
 */
export function vta(
  type: VtaType,
  seed: number,
  split: Split,
  index: number,
  length: number = VTA_LENGTH,
): Example {
  checkAddress(seed, index, length, VTA_MINIMUM_LENGTH);
  const task = `vta/${type}`;
  const random = new Random(seed, `${task}/${split}`, index);
  const base = Float64Array.from({ length }, (_, t) => sine(t, 1, random)); // [N]
  const values = base.slice();
  const intervals = CHANGES[type](random, values, base);
  return anomalyExample(`${task}/${split}/${index}`, task, values, KINDS[type].class, intervals);
}

type AnomalyGold = Extract<Gold, { kind: 'anomaly' }>;

/** Parts of the intervals between present points: unseen ends are cut off, unseen intervals left out. */
function seenIntervals(values: Float64Array, intervals: readonly Interval[]): Interval[] {
  return intervals.flatMap(([from, to]): Interval[] => {
    let [start, end] = [from, to];
    while (start < end && Number.isNaN(values[start])) start++;
    while (end > start && Number.isNaN(values[end - 1])) end--;
    return start < end ? [[start, end]] : [];
  });
}

/**
 * The series of `vta` at the same address with ⌊missing · N⌋ points missing, evenly drawn. More missing points include
 * the fewer ones, so that shares can be compared on the same series. The publication uses 0.05, 0.1 … 0.25.
 * @param missing share of points, in [0, 0.5]
 * @returns one channel; intervals end at present points, and anomalies of which no point is left are not among them.
 * An anomalous point type names present points only.
 * @throws ConfigError as `vta`, and for a share out of range
 */
export function vtaIrregular(
  type: VtaType,
  missing: number,
  seed: number,
  split: Split,
  index: number,
  length: number = VTA_LENGTH,
): Example {
  checkMissing(missing);
  const whole = vta(type, seed, split, index, length);
  const values = whole.channels[0]!.slice();
  const random = new Random(seed, `${whole.task}/${split}/missing`, index);
  for (const t of missingPositions(random, missing, length)) values[t] = Number.NaN;
  const all = (whole.gold as AnomalyGold).intervals;
  const isPoint = type === 'global' || type === 'contextual';
  const intervals = isPoint
    ? pointIntervals(all.flatMap(([a, b]) => range(a, b)).filter((t) => !Number.isNaN(values[t])))
    : seenIntervals(values, all);
  const task = `${whole.task}/missing-${missing}`;
  const label = intervals.length === 0 ? 'normal' : KINDS[type].class;
  return anomalyExample(`${task}/${split}/${index}`, task, values, label, intervals);
}

const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, i) => from + i);

/*
 * Multivariate: every variate is a sine or a cosine (even odds) with a frequency of its own; 1 … ⌊√d⌋ − 1 of them, one kind a series, are
 * replaced by another wave. The answer names these: ids count from 0, row by row through the grid of the picture.
 *
 * Each wave w(f·t) is scaled to a·(w + noise·N(0, 1)) + offset with f in U(0.03, 0.05), a in U(0.5, 2), offset in U(−1, 1) and noise in
 * U(0.05, 0.2); the random walk sums steps of N(0, noise) instead. The triangle spans [−1, 0] as in the published generator, the other
 * waves [−1, 1].
 */

export const VTA_VARIATE_LENGTH = 200;
export const VTA_VARIATES = [4, 9, 16, 25, 36] as const;

/** Ranges of the parameters of the waves, for the record. */
export const VTA_WAVE_PARAMETERS = {
  frequency: [0.03, 0.05],
  amplitude: [0.5, 2],
  offset: [-1, 1],
  noise: [0.05, 0.2],
} as const;

/** One period of each wave over a phase in [0, 1). */
const SHAPES: Readonly<
  Record<Exclude<VtaWave, 'random walk'> | 'sine' | 'cosine', (phase: number) => number>
> = {
  sine: (phase) => Math.sin(2 * Math.PI * phase),
  cosine: (phase) => Math.cos(2 * Math.PI * phase),
  triangle: (phase) => 2 * Math.abs(phase - 0.5) - 1,
  square: (phase) => (phase < 0.5 ? 1 : -1),
  sawtooth: (phase) => 2 * phase - 1,
};

function drawWave(random: Random, wave: VtaWave | 'sine' | 'cosine', length: number): Float64Array {
  const frequency = random.between(...VTA_WAVE_PARAMETERS.frequency);
  const amplitude = random.between(...VTA_WAVE_PARAMETERS.amplitude);
  const offset = random.between(...VTA_WAVE_PARAMETERS.offset);
  const noise = random.between(...VTA_WAVE_PARAMETERS.noise);
  const values = new Float64Array(length); // [N]
  let walk = 0;
  for (let t = 0; t < length; t++) {
    const draw = noise * standardNormal(random);
    walk += draw;
    values[t] =
      offset + amplitude * (wave === 'random walk' ? walk : SHAPES[wave]((frequency * t) % 1) + draw);
  }
  return values;
}

interface VariateOptions {
  /** Number of variates, 4 … 36; default 9. */
  readonly variates?: number;
  /** Share of points missing in each variate, drawn for each on its own, in [0, 0.5]; default 0. */
  readonly missing?: number;
  /** Points, N ≥ 20; default 200. */
  readonly length?: number;
}

/**
 * One multivariate series, a pure function of its arguments. At one address, series with missing points are the whole
 * one with ⌊missing · N⌋ points of each variate left out.
 * @returns gold: ids of the replaced variates, ascending
 * @throws ConfigError for a seed, index, length, number of variates or share out of range
 */
export function vtaMultivariate(
  wave: VtaWave,
  seed: number,
  split: Split,
  index: number,
  options: VariateOptions = {},
): Example {
  const { variates: count = 9, missing = 0, length = VTA_VARIATE_LENGTH } = options;
  checkAddress(seed, index, length, VTA_MINIMUM_LENGTH);
  checkMissing(missing);
  if (!Number.isInteger(count) || count < 4 || count > 36) {
    throw new ConfigError(`variates: got ${count}, expected an integer from 4 to 36`);
  }
  const name = `vta/${wave.replace(' ', '-')}/${count}`;
  const random = new Random(seed, `${name}/${split}`, index);
  const most = Math.floor(Math.sqrt(count)) - 1;
  const replaced = random.permutation(count).subarray(0, random.integer(1, most)).sort();
  const gaps = new Random(seed, `${name}/${split}/missing`, index);
  const channels = Array.from({ length: count }, (_, id) => {
    const normal = random.uniform() < 0.5 ? 'sine' : 'cosine';
    const values = drawWave(random, replaced.includes(id) ? wave : normal, length);
    for (const t of missingPositions(gaps, missing, length)) values[t] = Number.NaN;
    return values;
  });
  const task = missing === 0 ? name : `${name}/missing-${missing}`;
  return {
    id: `${task}/${split}/${index}`,
    task,
    channels,
    names: channels.map((_, id) => String(id)),
    times: null, // the points that are there stand at whole indices
    gold: { kind: 'variates', variates: [...replaced] },
    recording: null,
  };
}
