/** The nearest training series as a classifier: what a learned policy must beat on classification. */
import { Random } from '../src/random.ts';
import type { Example } from '../src/types.ts';

/** Values that training examples of the first one's size may hold in all; of more examples, as many are drawn at random as fit. */
export const MOST_VALUES = 1.6e7;

/** Training examples that a baseline learns from, and how many there were. */
export interface TrainingSample {
  /** In the order of the data. */
  readonly examples: readonly Example[];
  /** All training examples, those left out included. */
  readonly count: number;
  /** Examples by class, over all of them. */
  readonly classes: ReadonlyMap<string, number>;
}

/**
 * Goes through the training examples once and keeps as many as `mostValues` allow, at least one, every one with the same
 * chance (reservoir sampling, Vitter's algorithm R), the same ones for the same seed. Lets other work through now and then.
 */
export async function sampleTraining(
  training: Iterable<Example>,
  seed: number,
  breathe: () => Promise<unknown>,
  mostValues = MOST_VALUES,
): Promise<TrainingSample> {
  const random = new Random(seed, 'training sample');
  const classes = new Map<string, number>();
  const kept: { readonly place: number; readonly example: Example }[] = [];
  let [count, most] = [0, 1];
  for (const example of training) {
    const { gold, channels } = example;
    if (gold.kind === 'classification') classes.set(gold.class, (classes.get(gold.class) ?? 0) + 1);
    if (count === 0) most = Math.max(1, Math.floor(mostValues / (channels.length * channels[0]!.length)));
    if (count < most) kept.push({ place: count, example });
    else {
      const slot = random.integer(0, count);
      if (slot < most) kept[slot] = { place: count, example };
    }
    count++;
    if (count % 256 === 0) await breathe();
  }
  kept.sort((a, b) => a.place - b.place);
  return { examples: kept.map(({ example }) => example), count, classes };
}

/** [C·N]: each channel with mean 0 and standard deviation 1 over its known points; missing ones and flat channels are 0. */
export function standardised(channels: readonly Float64Array[]): Float64Array {
  const out = new Float64Array(channels.reduce((sum, channel) => sum + channel.length, 0));
  let offset = 0;
  for (const channel of channels) {
    let [known, sum, squares] = [0, 0, 0];
    for (const value of channel) {
      if (Number.isNaN(value)) continue;
      known++;
      sum += value;
    }
    const mean = sum / known;
    for (const value of channel) if (!Number.isNaN(value)) squares += (value - mean) ** 2;
    const std = Math.sqrt(squares / known);
    // A constant keeps rounding errors of its own size alone.
    const flat = !(std > 1e-12 * Math.abs(mean));
    for (let i = 0; i < channel.length; i++) {
      out[offset + i] = flat || Number.isNaN(channel[i]!) ? 0 : (channel[i]! - mean) / std;
    }
    offset += channel.length;
  }
  return out;
}

/**
 * Class of the training example at the least Euclidean distance over all channels, each standardised (1NN-ED of the UCR archive);
 * of equals the first. Null where there is nothing to compare with: the examples are not all of one length.
 */
export function nearestNeighbour(
  sample: readonly Example[],
): ((channels: readonly Float64Array[]) => string | null) | null {
  const rows = sample.map(({ channels }) => standardised(channels));
  const size = rows[0]?.length ?? 0;
  if (size === 0 || rows.some((row) => row.length !== size)) return null;
  return (channels) => {
    const own = standardised(channels);
    if (own.length !== size) return null;
    let [best, least] = [-1, Number.POSITIVE_INFINITY];
    for (let r = 0; r < rows.length; r++) {
      const row = rows[r]!;
      let sum = 0;
      // In blocks: most rows are too far after a few, and a test at every value costs more than it saves.
      for (let from = 0; from < size && sum < least; from += 64) {
        const to = Math.min(size, from + 64);
        for (let i = from; i < to; i++) sum += (own[i]! - row[i]!) ** 2;
      }
      if (sum < least) {
        least = sum;
        best = r;
      }
    }
    const { gold } = sample[best]!;
    return gold.kind === 'classification' ? gold.class : null;
  };
}
