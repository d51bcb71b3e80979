/** Anomaly kinds: each changes one part of a series, or its readings, over an interval. */
import { extent } from '../../../src/ground/numbers.ts';
import type { Random } from '../../../src/ground/random.ts';
import type { DepartureKind, Interval } from '../../../src/ground/types.ts';
import { anyWave } from './components.ts';
import { type Component, chance, type Draft, logBetween, sign } from './draft.ts';
import type { Judged } from './visibility.ts';

/** Sizes of the unmodified series, in the units of its parts. */
export interface Sizes {
  /** Root mean square of the noise. */
  readonly grain: number;
  /** Distance between the least and the largest sum of the parts. */
  readonly reach: number;
  /** Standard deviation of the pattern alone, and its lowest and highest value. */
  readonly swing: number;
  readonly low: number;
  readonly high: number;
}

/** An anomaly to be made. */
interface Change extends Sizes {
  readonly random: Random;
  readonly draft: Draft;
  readonly start: number;
  readonly end: number;
  /** Samples per cycle to change; 0 for none. */
  readonly period: number;
}

export interface AnomalyKind {
  /** Draws a length in samples, between 1 and `most`; null where the series lacks the part to change. */
  readonly length: (draft: Draft, sizes: Sizes, most: number, period: number) => number | null;
  /** Changes the sum of the parts in [start, end). */
  readonly parts?: (change: Change, latent: Float64Array) => void;
  /** Changes the readings in [start, end); `given` rounds and clips as the device does. */
  readonly readings?: (change: Change, readings: Float64Array, given: (value: number) => number) => void;
  /** Components that make the change a usual one. */
  readonly usualWith: readonly Component[];
  /** Criterion of visibility. */
  readonly judgedBy: Judged;
}

const spanned = (random: Random, low: number, most: number): number | null =>
  low > most ? null : Math.round(logBetween(random, low, most));

/** Draws a size, from hardly above the noise to well beyond the range. */
const sizeOf = ({ random, grain, reach }: Change, low: number, high: number): number =>
  logBetween(random, Math.max(low * grain, 0.05 * reach), Math.max(3 * low * grain, high * reach));

/** Draws the samples of a spike: one, or at most N/80 or three. */
const spikeLength = ({ random, n }: Draft): number =>
  chance(random, 0.5) ? 1 : Math.round(logBetween(random, 2, Math.max(3, n / 80)));

function spike(direction: 1 | -1): AnomalyKind {
  return {
    length: spikeLength,
    parts(change, latent) {
      const { random, start, end } = change;
      const size = direction * sizeOf(change, 4, 2);
      const form = random.integer(0, 2);
      const length = end - start;
      for (let t = start; t < end; t++) {
        const k = t - start;
        const part =
          form === 0
            ? 1
            : form === 1
              ? Math.exp((-2 * k) / length)
              : 1 - Math.abs((2 * k + 1) / length - 1) ** 1.5;
        latent[t] = latent[t]! + size * part;
      }
    },
    usualWith: [],
    judgedBy: 'spike',
  };
}

const shift: AnomalyKind = {
  // Longer than bursts are, where there are some.
  length: ({ random, n, components }, _, most) =>
    spanned(random, Math.max(8, n / (components.has('bursts') ? 20 : 100)), most),
  parts(change, latent) {
    const { random, start, end } = change;
    const size = sign(random) * sizeOf(change, 1, 1.2);
    const edge = chance(random, 0.6) ? 1 : Math.max(1, (end - start) * random.between(0.02, 0.15));
    for (let t = start; t < end; t++) latent[t] = latent[t]! + size * Math.min(1, (t - start + 1) / edge);
  },
  usualWith: ['regimes', 'on-off'],
  judgedBy: 'values',
};

const ramp: AnomalyKind = {
  length: ({ random, n }, _, most) => spanned(random, Math.max(20, n / 40), most),
  parts(change, latent) {
    const { random, start, end } = change;
    const size = sign(random) * sizeOf(change, 2, 1.5);
    // Up until something resets it, or up and down again.
    const turn = chance(random, 0.6) ? 1 : random.between(0.4, 0.8);
    for (let t = start; t < end; t++) {
      const x = (t - start + 1) / (end - start);
      latent[t] = latent[t]! + size * (x <= turn ? x / turn : (1 - x) / (1 - turn));
    }
  },
  usualWith: [],
  judgedBy: 'values',
};

const variance: AnomalyKind = {
  length: ({ random, n }, { grain }, most) =>
    grain === 0 ? null : spanned(random, Math.max(15, n / 50), most),
  parts({ random, draft, start, end, grain, reach }, latent) {
    const least = 0.02 * reach;
    const factor = chance(random, 0.75)
      ? logBetween(random, 1.4, 7) * Math.max(1, least / grain)
      : random.between(0.02, 0.25);
    for (let t = start; t < end; t++) latent[t] = latent[t]! + (factor - 1) * draft.noise[t]!;
  },
  usualWith: ['heteroscedastic noise', 'bursts', 'outliers', 'counts'],
  judgedBy: 'noise',
};

const flat: AnomalyKind = {
  length: ({ random, n }, _, most) => spanned(random, Math.max(6, n / 100), most),
  readings({ random, start, end }, readings) {
    const [low, high] = extent(readings);
    const stuck = readings[Math.max(0, start - 1)]!;
    const level = [stuck, low, Math.min(0, low), high][random.weighted([0.68, 0.1, 0.14, 0.08])]!;
    readings.fill(level, start, end);
  },
  usualWith: [],
  judgedBy: 'still',
};

const cutoff: AnomalyKind = {
  length: ({ random, n }, _, most, period) => spanned(random, Math.max(10, n / 60, period), most),
  readings({ random, start, end }, readings, given) {
    const [low, high] = extent(readings.subarray(start, end));
    const above = chance(random, 0.7);
    const depth = random.between(0.15, 0.7) * (high - low);
    const bound = given(above ? high - depth : low + depth);
    for (let t = start; t < end; t++) {
      readings[t] = above ? Math.min(readings[t]!, bound) : Math.max(readings[t]!, bound);
    }
  },
  usualWith: ['saturated'],
  judgedBy: 'values',
};

/** Draws one to three whole cycles that fit. */
function cycles({ random }: Draft, { swing, grain }: Sizes, most: number, period: number): number | null {
  if (period === 0 || period > most || swing < 2 * grain) return null;
  return Math.round(period * random.integer(1, Math.min(3, Math.floor(most / period))));
}

const missingCycle: AnomalyKind = {
  length: cycles,
  parts({ random, draft: { pattern }, start, end, low, high }, latent) {
    let mean = 0;
    for (let t = start; t < end; t++) mean += pattern[t]! / (end - start);
    const rest = [low, mean, high][random.weighted([0.75, 0.15, 0.1])]!;
    for (let t = start; t < end; t++) latent[t] = latent[t]! + rest - pattern[t]!;
  },
  usualWith: ['holidays', 'rare jobs'],
  judgedBy: 'values',
};

const shape: AnomalyKind = {
  length: cycles,
  parts({ random, draft: { pattern, n }, start, end, period }, latent) {
    const [low, high] = extent(pattern.subarray(start, end));
    let mean = 0;
    for (let t = start; t < end; t++) mean += pattern[t]! / (end - start);
    const wave = anyWave(random);
    const factor = chance(random, 0.5) ? random.between(0.15, 0.6) : random.between(1.5, 2.5);
    const half = Math.round(period / 2);
    const become = random.pick<(t: number) => number>([
      (t) => pattern[start + end - 1 - t]!,
      (t) => low + (high - low) * wave(((t - start) / period) % 1),
      (t) => mean + factor * (pattern[t]! - mean),
      (t) => low + high - pattern[t]!,
      (t) => pattern[t + half < n ? t + half : t - half]!,
    ]);
    for (let t = start; t < end; t++) latent[t] = latent[t]! + become(t) - pattern[t]!;
  },
  usualWith: [],
  judgedBy: 'values',
};

const FASTER = [1.5, 2, 3] as const;
const SLOWER = [0.5, 2 / 3] as const;

const frequency: AnomalyKind = {
  // So long that the changed cycles end where the usual ones do: 2 cycles become 3, 1 or 4, 3 become 2.
  length({ random }, { swing, grain }, most, period) {
    if (period < 6 || swing < 2 * grain) return null;
    const usual = [2, 2, 3, 4, 6].filter((count) => count * period <= most);
    return usual.length === 0 ? null : Math.round(random.pick(usual) * period);
  },
  parts({ random, draft: { pattern, n }, start, end, period }, latent) {
    const count = Math.round((end - start) / period);
    const fitting = [...FASTER, ...SLOWER].filter(
      (factor) => Math.abs(factor * count - Math.round(factor * count)) < 1e-9,
    );
    const factor = random.pick(fitting);
    for (let t = start; t < end; t++) {
      let place = start + factor * (t - start);
      while (place > n - 2) place -= Math.ceil(period);
      const left = Math.floor(place);
      const value = pattern[left]! + (pattern[left + 1]! - pattern[left]!) * (place - left);
      latent[t] = latent[t]! + value - pattern[t]!;
    }
  },
  usualWith: [],
  judgedBy: 'values',
};

export const ANOMALIES: Readonly<Record<DepartureKind, AnomalyKind>> = {
  spike: spike(1),
  dip: spike(-1),
  'level shift': shift,
  'trend change': ramp,
  'variance change': variance,
  'flat line': flat,
  cutoff,
  'missing cycle': missingCycle,
  'changed shape': shape,
  'frequency change': frequency,
};

/** Sizes of a draft whose parts sum to `latent` [N]. */
export function sizesOf({ n, pattern, noise }: Draft, latent: Float64Array): Sizes {
  const [least, most] = extent(latent);
  const [low, high] = extent(pattern);
  let square = 0;
  for (let t = 0; t < n; t++) square += noise[t]! ** 2;
  return { grain: Math.sqrt(square / n), reach: most - least, swing: high - low, low, high };
}

/** Hull of the differing samples in [start, end), missing points aside; null where none differs. */
export function changedHull(
  before: Float64Array,
  after: Float64Array,
  start: number,
  end: number,
): Interval | null {
  let [from, to] = [end, start];
  for (let t = start; t < end; t++) {
    const same = before[t] === after[t] || Number.isNaN(after[t]);
    if (same) continue;
    if (t < from) from = t;
    to = t + 1;
  }
  return from < to ? [from, to] : null;
}
