/**
 * MiniRocket (Dempster, Schmidt & Webb 2021, "MiniRocket: a very fast (almost) deterministic transform for time series classification"):
 * the share of positive values of 84 fixed convolutions at many dilations above biases that are quantiles of training series. Its numbers
 * are those of aeon's `MiniRocket` but for rounding; which training series gives a bias, and of several channels which
 * of them a kernel sees, is drawn by our own random numbers.
 */
import { ConfigError } from '../ground/errors.ts';
import { Random } from '../ground/random.ts';
import { requireWhole } from './checks.ts';
import type { Channels } from './dtw.ts';

/** The three of nine weights that are 2; the other six are −1. */
export const KERNELS: readonly (readonly [number, number, number])[] = Array.from({ length: 9 }, (_, a) =>
  Array.from({ length: 9 }, (_, b) => Array.from({ length: 9 }, (_, c) => [a, b, c] as const)),
)
  .flat(2)
  .filter(([a, b, c]) => a < b && b < c);

const MOST_DILATIONS = 32;
/** Shortest series: the length of a kernel. */
export const SHORTEST = 9;
/** Channels that a kernel sees at most. */
const MOST_CHANNELS = 9;

/** Fitted model. */
export interface MiniRocket {
  readonly length: number;
  readonly channels: number;
  /** Ascending; feature blocks are ordered by dilation, then kernel, then bias. */
  readonly dilations: Int32Array; // [D]
  /** Biases of each kernel at each dilation. */
  readonly biasesPerKernel: Int32Array; // [D]
  /** Channels that are summed, for each dilation and kernel: [84·D]. */
  readonly seen: readonly Int32Array[];
  readonly biases: Float64Array; // [F]
}

export interface MiniRocketOptions {
  /** About as many features, rounded down to a multiple of 84; default 10 000, as in the paper. */
  readonly features?: number;
  /** Default 0. */
  readonly seed?: number;
}

/** Dilations from 1 to where a kernel spans the series, evenly in the exponent, and how many biases each has. */
export function dilationsFor(
  length: number,
  features: number,
): { readonly dilations: Int32Array; readonly biasesPerKernel: Int32Array } {
  const perKernel = Math.max(1, Math.floor(features / KERNELS.length));
  const steps = Math.min(perKernel, MOST_DILATIONS);
  const most = Math.log2((length - 1) / (SHORTEST - 1));
  const counts = new Map<number, number>();
  for (let k = 0; k < steps; k++) {
    // A spacing that ends exactly at the largest exponent, as numpy's does.
    const exponent = k === steps - 1 && steps > 1 ? most : (k * most) / Math.max(1, steps - 1);
    const dilation = Math.trunc(2 ** exponent);
    counts.set(dilation, (counts.get(dilation) ?? 0) + 1);
  }
  const biasesPerKernel = Int32Array.from(counts.values(), (count) =>
    Math.trunc((count * perKernel) / steps),
  );
  const given = biasesPerKernel.reduce((sum, count) => sum + count, 0);
  for (let i = 0; i < perKernel - given; i++) biasesPerKernel[i % biasesPerKernel.length]!++;
  return { dilations: Int32Array.from(counts.keys()), biasesPerKernel };
}

/**
 * Chooses dilations, channels and biases for training series of one length and number of channels.
 * @throws ConfigError for no series, unequal shapes, or series shorter than 9 samples
 */
export function fitMiniRocket(
  training: readonly Channels[],
  { features = 10_000, seed = 0 }: MiniRocketOptions = {},
): MiniRocket {
  requireWhole('MiniRocket features', features, 1);
  const [first] = training;
  if (first === undefined) throw new ConfigError('MiniRocket: got no training series');
  const { length } = first;
  const channels = first.values.length / length;
  if (length < SHORTEST) {
    throw new ConfigError(`MiniRocket: series of ${length} samples, expected at least ${SHORTEST}`);
  }
  for (const series of training) checkShape(series, length, channels);
  const { dilations, biasesPerKernel } = dilationsFor(length, features);
  const random = new Random(seed, 'mini-rocket');
  const most = Math.log2(Math.min(channels, MOST_CHANNELS) + 1);
  const seen = Array.from({ length: KERNELS.length * dilations.length }, () => {
    const count = channels === 1 ? 1 : Math.trunc(2 ** random.between(0, most));
    return random.permutation(channels).slice(0, count);
  });
  const draws = Int32Array.from(seen, () => random.integer(0, training.length - 1));
  const shape = { length, channels, dilations, biasesPerKernel, seen };
  return { ...shape, biases: biasesOf(shape, (k) => training[draws[k]!]!) };
}

function checkShape(series: Channels, length: number, channels: number): void {
  const ownChannels = series.values.length / series.length;
  if (series.length === length && ownChannels === channels) return;
  throw new ConfigError(
    `MiniRocket: a series of ${series.length} samples and ${ownChannels} channels, expected ${length} and ${channels} as in training`,
  );
}

/** Quantiles of the convolution of one series for each kernel at each dilation. @param drawn the series of a dilation and kernel */
export function biasesOf(
  shape: Omit<MiniRocket, 'biases'>,
  drawn: (combination: number) => Channels,
): Float64Array {
  const { length, dilations, biasesPerKernel, seen } = shape;
  const perKernel = biasesPerKernel.reduce((sum, count) => sum + count, 0);
  const biases = new Float64Array(KERNELS.length * perKernel);
  const work = new Convolution(shape);
  let feature = 0;
  for (const [d, dilation] of dilations.entries()) {
    for (let kernel = 0; kernel < KERNELS.length; kernel++) {
      const combination = d * KERNELS.length + kernel;
      work.load(drawn(combination), dilation);
      const sorted = work.of(kernel, seen[combination]!).slice().sort();
      for (let f = 0; f < biasesPerKernel[d]!; f++, feature++) {
        // A low-discrepancy sequence: multiples of the golden ratio, less their whole part.
        const place = Math.fround(((feature + 1) * GOLDEN) % 1) * (length - 1);
        const below = Math.floor(place);
        const low = sorted[below]!;
        const high = sorted[Math.min(length - 1, below + 1)]!;
        biases[feature] = low + (place - below) * (high - low);
      }
    }
  }
  return biases;
}

const GOLDEN = (Math.sqrt(5) + 1) / 2;

/**
 * Convolutions of a series with the kernels at one dilation. Values are rounded to single precision and summed in double, which is exact
 * unless they differ by many orders: where a series is constant a kernel gives 0, not noise whose sign would be a feature.
 */
class Convolution {
  readonly #length: number;
  readonly #channels: number;
  /** −1 times the nine shifted series, added up; 3 times each: [C, N] and [9, C, N]. */
  readonly #alpha: Float64Array;
  readonly #gamma: Float64Array;
  readonly #out: Float64Array;

  constructor({ length, channels }: Pick<MiniRocket, 'length' | 'channels'>) {
    this.#length = length;
    this.#channels = channels;
    this.#alpha = new Float64Array(channels * length);
    this.#gamma = new Float64Array(9 * channels * length);
    this.#out = new Float64Array(length);
  }

  load({ values }: Channels, dilation: number): void {
    const n = this.#length;
    const size = this.#channels * n;
    const [alpha, gamma] = [this.#alpha, this.#gamma];
    gamma.fill(0);
    for (let c = 0; c < size; c += n) {
      for (let t = 0; t < n; t++) {
        const value = Math.fround(values[c + t]!);
        alpha[c + t] = -value;
        gamma[4 * size + c + t] = 3 * value;
      }
      for (const weight of [0, 1, 2, 3, 5, 6, 7, 8]) {
        const shift = (weight - 4) * dilation;
        const to = Math.min(n, n - shift);
        for (let t = Math.max(0, -shift); t < to; t++) {
          const value = Math.fround(values[c + t + shift]!);
          alpha[c + t]! -= value;
          gamma[weight * size + c + t] = 3 * value;
        }
      }
    }
  }

  /** The sum over some channels [N], overwritten by the next. */
  of(kernel: number, seen: Int32Array): Float64Array {
    const n = this.#length;
    const size = this.#channels * n;
    const out = this.#out;
    const [alpha, gamma] = [this.#alpha, this.#gamma];
    const [i, j, k] = KERNELS[kernel]!;
    for (let s = 0; s < seen.length; s++) {
      const from = seen[s]! * n;
      const [a, b, c] = [i * size + from, j * size + from, k * size + from];
      for (let t = 0; t < n; t++) {
        const value = alpha[from + t]! + gamma[a + t]! + gamma[b + t]! + gamma[c + t]!;
        out[t] = s === 0 ? value : out[t]! + value;
      }
    }
    return out;
  }
}

/**
 * Features of series one after another, each in [0, 1]: the share of the samples at which a convolution is above a bias; every other kernel
 * without the samples where it reaches beyond an end.
 */
export class MiniRocketTransform {
  readonly #model: MiniRocket;
  readonly #work: Convolution;

  constructor(model: MiniRocket) {
    this.#model = model;
    this.#work = new Convolution(model);
  }

  /** [F]. @throws ConfigError for a series of another shape than in training */
  features(series: Channels): Float32Array {
    const { length, channels, dilations, biasesPerKernel, seen, biases } = this.#model;
    checkShape(series, length, channels);
    const out = new Float32Array(biases.length);
    let feature = 0;
    for (let d = 0; d < dilations.length; d++) {
      const dilation = dilations[d]!;
      this.#work.load(series, dilation);
      for (let kernel = 0; kernel < KERNELS.length; kernel++) {
        const values = this.#work.of(kernel, seen[d * KERNELS.length + kernel]!);
        const margin = (d + kernel) % 2 === 0 ? 0 : 4 * dilation;
        const last = feature + biasesPerKernel[d]!;
        for (; feature < last; feature++) {
          out[feature] = countAbove(values, biases[feature]!, margin) / (length - 2 * margin);
        }
      }
    }
    return out;
  }
}

function countAbove(values: Float64Array, bias: number, margin: number): number {
  let count = 0;
  for (let t = margin; t < values.length - margin; t++) count += Number(values[t]! > bias);
  return count;
}
