/** Readings from the sum of the parts: units, counts, rounding, limits, and missing points. */
import { extent } from '../../../src/ground/numbers.ts';
import { type Random, standardNormal } from '../../../src/ground/random.ts';
import type { Interval } from '../../../src/ground/types.ts';
import { chance, type Draft, logBetween, sumOf } from './draft.ts';

interface SensorOptions {
  /** Makes sizes multiply instead of add: exp(gain · x). */
  readonly gain?: number;
  /** Makes readings counts with the sum as their rate; overdispersed where `clumped`. */
  readonly counts?: { readonly rate: number; readonly clumped: boolean };
  /** Makes readings percentages that end at 100. */
  readonly percent?: boolean;
  readonly positive?: boolean;
  /** Probability that readings are visibly rounded. Default: 0.25. */
  readonly coarse?: number;
}

export interface Sensor {
  /** Readings of latent values [N] → [N]; the same latent value at the same sample is always the same reading. */
  readonly read: (latent: Float64Array) => Float64Array;
  /** Mean and standard deviation of a reading, given its latent value and the deviation of the latent noise. */
  readonly expected: (latent: number) => number;
  readonly spread: (latent: number, deviation: number) => number;
  /** Rounds a value and clips it to the device's limits. */
  readonly given: (value: number) => number;
  /** Distance between neighbouring readings; 0 where they are not rounded. */
  readonly quantum: number;
}

/** Count at a quantile: inverse Poisson distribution below 40, rounded normal above. */
function poisson(rate: number, uniform: number, normal: number): number {
  if (!(rate > 0)) return 0;
  if (rate >= 40) return Math.max(0, Math.round(rate + Math.sqrt(rate) * normal));
  let share = Math.exp(-rate);
  let sum = share;
  let count = 0;
  while (uniform > sum && count < 400) {
    count++;
    share *= rate / count;
    sum += share;
  }
  return count;
}

/** Gamma with mean 1 and this shape ≥ 1 (Marsaglia and Tsang 2000b). */
function gamma(random: Random, shape: number): number {
  const d = shape - 1 / 3;
  const c = 1 / Math.sqrt(9 * d);
  for (;;) {
    const x = standardNormal(random);
    const v = (1 + c * x) ** 3;
    if (v > 0 && Math.log(1 - random.uniform()) < 0.5 * x * x + d - d * v + d * Math.log(v))
      return (d * v) / shape;
  }
}

/** Powers of ten of units; everyday ones are more frequent. */
const POWERS = [-6, -4, -3, -2, -1, 0, 0, 0, 0, 1, 1, 1, 2, 2, 3, 4, 6, 8] as const;

function countSensor(draft: Draft, { rate, clumped }: NonNullable<SensorOptions['counts']>): Sensor {
  const { random, n, components } = draft;
  const [low, high] = extent(sumOf(draft));
  const floor = random.pick([0, 0.02, 0.1, 0.5]);
  const scale = rate / (high - low || 1);
  const rateOf = (x: number): number => Math.max(0, scale * (x - low) + floor * rate);
  const shape = clumped ? logBetween(random, 2, 30) : Number.POSITIVE_INFINITY;
  const uniform = new Float64Array(n);
  const normal = new Float64Array(n);
  const size = new Float64Array(n).fill(1);
  for (let t = 0; t < n; t++) {
    uniform[t] = random.uniform();
    normal[t] = standardNormal(random);
    if (clumped) size[t] = gamma(random, shape);
  }
  components.add('counts');
  return {
    read(latent) {
      const readings = new Float64Array(n);
      for (let t = 0; t < n; t++)
        readings[t] = poisson(rateOf(latent[t]!) * size[t]!, uniform[t]!, normal[t]!);
      return readings;
    },
    expected: rateOf,
    spread(x, deviation) {
      const mean = rateOf(x);
      return Math.sqrt(mean + (clumped ? (mean * mean) / shape : 0) + (scale * deviation) ** 2);
    },
    given: (value) => Math.max(0, Math.round(value)),
    quantum: 1,
  };
}

export function makeSensor(draft: Draft, options: SensorOptions = {}): Sensor {
  if (options.counts !== undefined) return countSensor(draft, options.counts);
  const { random, components } = draft;
  const { percent = false, positive = false, coarse = 0.25 } = options;
  const [low, high] = extent(sumOf(draft));
  // The largest reading is at most some hundred times the usual one, as of the busiest networks.
  const gain =
    options.gain === undefined
      ? undefined
      : Math.min(options.gain, random.between(2, 6.5) / (high - low || 1));
  // Beyond all usual values sizes add up again: what a change adds there does not multiply.
  const edge = gain === undefined ? 0 : Math.exp(gain * (high - low));
  const link = (x: number): number => {
    if (gain === undefined) return x - low;
    return x <= high ? Math.exp(gain * (x - low)) : edge * (1 + gain * (x - high));
  };
  const slope = (x: number): number => {
    if (gain === undefined) return 1;
    return gain * (x <= high ? Math.exp(gain * (x - low)) : edge);
  };
  const span = link(high) - link(low) || 1;
  // Lowest value above zero, as a share of the range; machines often read zero at rest.
  const offset =
    percent || positive || gain !== undefined
      ? random.pick([0, 0, 0.02, 0.1, 0.5])
      : chance(random, 0.2)
        ? -random.between(0.2, 1)
        : logBetween(random, 0.05, 30);
  const top = percent ? random.between(8, 115) : random.between(1, 10) * 10 ** random.pick(POWERS);
  const scale = percent ? top / (1 + offset) / span : top / span;
  const zero = scale * offset * span - scale * link(low);
  const values = scale * span;
  let quantum = 0;
  if (chance(random, coarse)) {
    quantum = 10 ** Math.floor(Math.log10(values / logBetween(random, 4, 60)));
    if (chance(random, 0.3)) quantum *= random.pick([2, 5]);
    components.add('quantised');
  } else if (chance(random, 0.6))
    quantum = 10 ** Math.floor(Math.log10(values / logBetween(random, 200, 2e5)));
  // Dividing by a whole number keeps 0.1 + 0.2 out of the readings.
  const parts = quantum > 0 && quantum < 1 ? Math.round(1 / quantum) : 0;
  const round =
    quantum === 0
      ? (value: number): number => value
      : parts > 0
        ? (value: number): number => Math.round(value * parts) / parts
        : (value: number): number => Math.round(value / quantum) * quantum;
  let [least, most] = [
    percent || positive || gain !== undefined ? 0 : Number.NEGATIVE_INFINITY,
    percent ? 100 : Number.POSITIVE_INFINITY,
  ];
  const bottom = scale * offset * span;
  if (percent && bottom + values > 100) components.add('saturated');
  else if (!percent && gain === undefined && chance(random, 0.07)) {
    most = round(bottom + values * random.between(0.55, 0.85));
    components.add('saturated');
  } else if (positive && chance(random, 0.12)) {
    least = round(bottom + values * random.between(0.1, 0.3));
    components.add('saturated');
  }
  const given = (value: number): number => {
    const rounded = round(value);
    // −0 is no reading.
    return Math.min(most, Math.max(least, rounded)) + 0;
  };
  const expected = (x: number): number => {
    const value = scale * link(x) + zero;
    return Math.min(most, Math.max(least, value));
  };
  return {
    read(latent) {
      const readings = new Float64Array(latent.length);
      for (let t = 0; t < latent.length; t++) readings[t] = given(scale * link(latent[t]!) + zero);
      return readings;
    },
    expected,
    spread: (x, deviation) => scale * slope(x) * deviation,
    given,
    quantum,
  };
}

/** Draws missing points: a few stretches, or scattered single points. At least nine of ten points are left. */
export function drawGaps({ random, n, components }: Draft): Interval[] {
  const sizes = chance(random, 0.5)
    ? Array.from({ length: random.integer(1, 4) }, () =>
        Math.round(logBetween(random, 1, Math.max(2, n / 45))),
      )
    : Array.from({ length: Math.max(1, Math.round(n * random.between(0.002, 0.05))) }, () => 1);
  components.add('gaps');
  return sizes.map((size): Interval => {
    const start = random.integer(1, n - size - 1);
    return [start, start + size];
  });
}
