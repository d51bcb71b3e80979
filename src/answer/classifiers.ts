/** Classifiers that learn from training examples: nearest neighbours by distance and by time warping, MiniRocket with ridge, the majority. */

import { setImmediate as breathe } from 'node:timers/promises';
import { ConfigError, DataError } from '../ground/errors.ts';
import { Random } from '../ground/random.ts';
import type { Example } from '../ground/types.ts';
import { type Channels, joinChannels } from '../series/dtw.ts';
import { fitMiniRocket, MiniRocketTransform } from '../series/mini-rocket.ts';
import { bridge } from '../series/missing.ts';
import { learnWindow, NearestPool } from '../series/nearest.ts';
import { fitRidge, ridgeClass } from '../series/ridge.ts';
import { labelOf } from '../tasks/kinds.ts';
import type { BaselineData, PreparedBaseline } from './baselines.ts';

const kind = 'classification';

/** Joins channels as they are, like the published errors of the UCR archive; missing points are bridged by straight lines. */
function channelsOf(channels: readonly Float64Array[]): Channels | string {
  const bad = channels.findIndex((channel) => channel.every(Number.isNaN));
  if (bad >= 0) return `channel ${bad} has no point`;
  return joinChannels(
    channels.map((channel) => (channel.some(Number.isNaN) ? bridge(channel).values : channel)),
  );
}

/** Values that the kept training examples may hold in all, were all of the first one's size. */
export const MOST_VALUES = 1.6e7;

/** Training examples that a baseline learns from, out of all there were. */
export interface TrainingSample {
  /** Kept examples, in the order of the data. */
  readonly examples: readonly Example[];
  /** Number of training examples, those left out included. */
  readonly count: number;
  /** Examples by class, over all of them. */
  readonly classes: ReadonlyMap<string, number>;
}

/**
 * Reads the training examples once and keeps as many as `mostValues` allow, at least one, each with the same chance (reservoir
 * sampling, Vitter's algorithm R); equal seeds keep the same ones. Lets other work through now and then.
 */
export async function sampleTraining(
  training: Iterable<Example>,
  seed: number,
  mostValues = MOST_VALUES,
): Promise<TrainingSample> {
  const random = new Random(seed, 'training sample');
  const classes = new Map<string, number>();
  const kept: { readonly place: number; readonly example: Example }[] = [];
  let [count, most] = [0, 1];
  for (const example of training) {
    const { gold, channels } = example;
    const name = labelOf(gold);
    classes.set(name, (classes.get(name) ?? 0) + 1);
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

/** Returns the most frequent class; of equally frequent ones the first by name. */
export function majorityOf(classes: ReadonlyMap<string, number>): string {
  const sorted = [...classes].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1));
  return sorted[0]![0];
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
 * Returns the class of the training example at the least Euclidean distance over all channels, each standardised (1NN-ED of the UCR
 * archive), the first of equals. Null where the training examples are not all of one length.
 */
export function nearestNeighbour(
  sample: readonly Example[],
): ((channels: readonly Float64Array[]) => string | null) | null {
  const rows = sample.map(({ channels }) => standardised(channels));
  const size = rows[0]?.length ?? 0;
  if (size === 0 || rows.some((row) => row.length !== size)) return null;
  return (channels) => {
    const query = standardised(channels);
    if (query.length !== size) return null;
    let [best, least] = [-1, Number.POSITIVE_INFINITY];
    for (let r = 0; r < rows.length; r++) {
      const row = rows[r]!;
      let sum = 0;
      // In blocks: most rows are too far after a few, and a test at every value costs more than it saves.
      for (let from = 0; from < size && sum < least; from += 64) {
        const to = Math.min(size, from + 64);
        for (let i = from; i < to; i++) sum += (query[i]! - row[i]!) ** 2;
      }
      if (sum < least) {
        least = sum;
        best = r;
      }
    }
    return labelOf(sample[best]!.gold);
  };
}

interface LearningSet {
  readonly series: readonly Channels[];
  readonly labels: readonly string[];
}

function learningSet(examples: readonly Example[]): LearningSet {
  const series: Channels[] = [];
  for (const { id, channels } of examples) {
    const joined = channelsOf(channels);
    if (typeof joined === 'string') throw new DataError(`baselines: training example ${id}: ${joined}`);
    series.push(joined);
  }
  return { series, labels: examples.map(({ gold }) => labelOf(gold)) };
}

type Given = Pick<BaselineData, 'seed' | 'threads' | 'signal' | 'onProgress'>;

/**
 * Answers with the class of the nearest training example by dynamic time warping, several channels together.
 * @param window `learned`: the one of the least leave-one-out error on the training examples; `full`: unlimited
 */
export async function warpingClassifier(
  examples: readonly Example[],
  window: 'learned' | 'full',
  { threads, signal, onProgress }: Given,
): Promise<PreparedBaseline> {
  const { series, labels } = learningSet(examples);
  const pool = new NearestPool(series, threads);
  const count = series[0]!.values.length / series[0]!.length;
  try {
    const learned =
      window === 'full'
        ? null
        : await learnWindow(pool, labels, {
            signal,
            onProgress: (done) => onProgress?.('window of time warping', done / series.length),
          });
    const samples = learned?.samples ?? pool.longest;
    return {
      settings: {
        window: samples,
        percent: learned?.percent ?? 100,
        chosen: learned === null ? 'unlimited' : 'least leave-one-out error on the training split',
      },
      async answer({ channels }) {
        const query = channelsOf(channels);
        if (typeof query === 'string') return query;
        if (channels.length !== count) {
          return `of ${channels.length} channels, the training examples of ${count}`;
        }
        const { index } = await pool.nearest(query, samples, signal);
        return { kind, class: labels[index]! };
      },
      parallel: pool.capacity,
      close: () => pool.close(),
    };
  } catch (error) {
    await pool.close();
    throw error;
  }
}

/** Answers by MiniRocket's features and a ridge classifier whose penalty is chosen by leave-one-out on the training examples. */
export async function miniRocketClassifier(
  examples: readonly Example[],
  { seed, signal, onProgress }: Given,
): Promise<PreparedBaseline> {
  const { series, labels } = learningSet(examples);
  const odd = series.findIndex(({ length }) => length !== series[0]!.length);
  if (odd >= 0) {
    throw new DataError(
      `minirocket: needs training examples of one length, ${examples[0]!.id} has ${series[0]!.length} samples and ${examples[odd]!.id} has ${series[odd]!.length}; ` +
        '1nn-dtw compares series of any length',
    );
  }
  const transform = new MiniRocketTransform(fitMiniRocket(series, { seed }));
  const rows: Float32Array[] = [];
  for (const values of series) {
    rows.push(transform.features(values));
    onProgress?.('features of MiniRocket', rows.length / series.length);
    await breathe();
    signal?.throwIfAborted();
  }
  const ridge = await fitRidge(rows, labels, { signal });
  return {
    settings: { penalty: ridge.penalty, features: rows[0]!.length, seed },
    async answer({ channels }) {
      await breathe();
      signal?.throwIfAborted();
      const joined = channelsOf(channels);
      if (typeof joined === 'string') return joined;
      try {
        return { kind, class: ridgeClass(ridge, transform.features(joined)) };
      } catch (error) {
        if (error instanceof ConfigError) return error.message;
        throw error;
      }
    },
    parallel: 1,
    close: async () => {},
  };
}
