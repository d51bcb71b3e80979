/** Classifiers that learn from training examples and take their time: nearest neighbours by time warping, and MiniRocket with ridge. */

import { setImmediate as breathe } from 'node:timers/promises';
import { ConfigError, DataError } from '../src/ground/errors.ts';
import type { Example } from '../src/ground/types.ts';
import { type Channels, joinChannels } from '../src/series/dtw.ts';
import { fitMiniRocket, MiniRocketTransform } from '../src/series/mini-rocket.ts';
import { bridge } from '../src/series/missing.ts';
import { learnWindow, NearestPool } from '../src/series/nearest-pool.ts';
import { fitRidge, ridgeClass } from '../src/series/ridge.ts';
import { labelOf } from '../src/tasks/kinds.ts';
import type { BaselineData, PreparedBaseline } from './baseline.ts';

const kind = 'classification';

/** The channels as they are given, as the errors of the UCR archive are taken; missing points bridged by straight lines. */
function channelsOf(channels: readonly Float64Array[]): Channels | string {
  const bad = channels.findIndex((channel) => channel.every(Number.isNaN));
  if (bad >= 0) return `channel ${bad} has no point`;
  return joinChannels(
    channels.map((channel) => (channel.some(Number.isNaN) ? bridge(channel).values : channel)),
  );
}

interface LearningSet {
  readonly series: readonly Channels[];
  readonly labels: readonly string[];
}

function learningSet(examples: readonly Example[]): LearningSet {
  const series: Channels[] = [];
  for (const { id, channels } of examples) {
    const own = channelsOf(channels);
    if (typeof own === 'string') throw new DataError(`baselines: training example ${id}: ${own}`);
    series.push(own);
  }
  return { series, labels: examples.map(({ gold }) => labelOf(gold)) };
}

type Given = Pick<BaselineData, 'seed' | 'threads' | 'signal' | 'onProgress'>;

/**
 * The class of the nearest training example by dynamic time warping, several channels together.
 * @param window `learned`: the one of the least leave-one-out error on the training examples; `full`: unlimited
 */
export async function warpingClassifier(
  examples: readonly Example[],
  window: 'learned' | 'full',
  { threads, signal, onProgress }: Given,
): Promise<PreparedBaseline> {
  const { series, labels } = learningSet(examples);
  const pool = new NearestPool(series, threads);
  const own = series[0]!.values.length / series[0]!.length;
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
        if (channels.length !== own) return `of ${channels.length} channels, the training examples of ${own}`;
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

/** Features of MiniRocket, and a ridge classifier whose penalty is chosen by leave-one-out on the training examples. */
export async function miniRocketClassifier(
  examples: readonly Example[],
  { seed, signal, onProgress }: Given,
): Promise<PreparedBaseline> {
  const { series, labels } = learningSet(examples);
  const transform = new MiniRocketTransform(fitMiniRocket(series, { seed }));
  const rows: Float32Array[] = [];
  for (const one of series) {
    rows.push(transform.features(one));
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
      const own = channelsOf(channels);
      if (typeof own === 'string') return own;
      try {
        return { kind, class: ridgeClass(ridge, transform.features(own)) };
      } catch (error) {
        if (error instanceof ConfigError) return error.message;
        throw error;
      }
    },
    parallel: 1,
    close: async () => {},
  };
}
