import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import yargs from 'yargs';
import { benchmarkNamed } from '../../datasets/benchmarks/registry.ts';
import { anomalyExample } from '../../datasets/example.ts';
import { remedyFor } from '../../src/answer/answerer.ts';
import {
  BASELINES,
  type BaselineData,
  baselineNamed,
  baselineRecord,
  baselinesOf,
  quickBaselines,
} from '../../src/answer/baselines.ts';
import { openPolicy } from '../../src/answer/open.ts';
import { answerAbove, comparable, POINT_SCORES, THRESHOLDS } from '../../src/answer/point-scores.ts';
import { evaluation } from '../../src/commands/eval.ts';
import { ConfigError, DataError } from '../../src/ground/errors.ts';
import { Random } from '../../src/ground/random.ts';
import type { AnomalyGold, Example } from '../../src/ground/types.ts';
import { pointF1, runs } from '../../src/series/intervals.ts';

const WAVE = 20;

/** A noisy wave; from `at` on 6 samples are lifted by `lift`. */
function waveWithBump(id: string, at: number, lift: number): Example {
  const random = new Random(1, id);
  const values = Float64Array.from(
    { length: 200 },
    (_, t) =>
      Math.sin((2 * Math.PI * t) / WAVE) + random.normal(0, 0.05) + (t >= at && t < at + 6 ? lift : 0),
  );
  return anomalyExample(id, 'bump', values, 'contextual point', [[at, at + 6]]);
}

/** Two classes of two channels: a fast and a slow wave in noise, of any phase. */
function classified(id: string, index: number): Example {
  const random = new Random(2, id, index);
  const name = index % 2 === 0 ? 'fast' : 'slow';
  const phase = random.between(0, 1);
  const channel = (rate: number) =>
    Float64Array.from(
      { length: 60 },
      (_, t) => Math.sin((t / rate) * (index % 2 === 0 ? 2 : 1) + phase) + random.normal(0, 0.2),
    );
  return {
    ...{ id: `${id}/${index}`, task: 'waves', names: ['a', 'b'], times: null, recording: null },
    channels: [channel(4), channel(7)],
    gold: { kind: 'classification', class: name },
  };
}
const training = Array.from({ length: 16 }, (_, i) => classified('train', i));
const fresh = Array.from({ length: 12 }, (_, i) => classified('test', i));
const classes: BaselineData = { kind: 'classification', training, validation: [], seed: 3, threads: 1 };
const anomalies: BaselineData = { kind: 'anomaly', training: null, validation: [], seed: 3 };

describe('the list of baselines', () => {
  test('names those that the field compares with, by kind', () => {
    expect(baselinesOf('classification')).toEqual(
      expect.arrayContaining([
        '1nn-euclid',
        '1nn-dtw',
        '1nn-dtw-full',
        'minirocket',
        'majority',
        'expcot-blind',
      ]),
    );
    expect(baselinesOf('anomaly')).toEqual(expect.arrayContaining(Object.keys(POINT_SCORES)));
    expect(baselinesOf('variates')).toEqual(['expcot-blind']);
    for (const name of BASELINES.keys()) expect(name).toMatch(/^[a-z0-9-]+$/);
  });

  test('finds a name, or says which was meant', () => {
    expect(baselineNamed('minirocket', 'classification', 'data/ctu')).toBe(BASELINES.get('minirocket'));
    expect(() => baselineNamed('mini-rocket', 'classification', 'data/ctu')).toThrow(
      "no baseline named 'mini-rocket' for data/ctu. Did you mean minirocket? Known: ",
    );
    expect(() => baselineNamed('hampel', 'classification', 'data/ctu')).toThrow(
      'baseline hampel answers with anomaly, data/ctu asks for classification',
    );
    expect(() => baselineNamed('toString', 'anomaly', 'nano5')).toThrow(ConfigError);
  });
});

describe('classifiers', () => {
  test('the Euclidean neighbour of series of several lengths is refused, with what compares them', async () => {
    const shorter = fresh.map((one) => ({ ...one, channels: one.channels.map((c) => c.slice(5)) }));
    await expect(
      BASELINES.get('1nn-euclid')!.prepare({ ...classes, training: [...training, ...shorter] }),
    ).rejects.toThrow('1nn-dtw compares series of any length');
    expect(remedyFor('baseline:1nn-euclid')).toBe('name another baseline');
    expect(remedyFor('openai:gpt-4o')).toBe('check the endpoint');
  });

  test.each(['1nn-dtw', '1nn-dtw-full', 'minirocket'])(
    '%s learns waves of any phase, several channels together',
    async (name) => {
      const prepared = await BASELINES.get(name)!.prepare(classes);
      try {
        const answers = await Promise.all(fresh.map((one) => prepared.answer(one)));
        const right = answers.filter(
          (own, i) =>
            typeof own !== 'string' &&
            own.kind === 'classification' &&
            own.class === (fresh[i]!.gold as { class: string }).class,
        );
        expect(right.length).toBeGreaterThanOrEqual(11);
        const [a, b] = fresh[0]!.channels as [Float64Array, Float64Array];
        const gaps = a.slice();
        gaps.fill(Number.NaN, 3, 6);
        expect(await prepared.answer({ channels: [gaps, b], names: ['a', 'b'] })).toEqual(answers[0]);
        expect(await prepared.answer({ channels: [a.slice().fill(Number.NaN), b], names: [] })).toBe(
          'channel 0 has no point',
        );
        expect(await prepared.answer({ channels: [a], names: [] })).toMatch(/of 1 channels|and 1 channels/);
      } finally {
        await prepared.close();
      }
    },
  );

  test('say what they chose and on what', async () => {
    const prepared = await BASELINES.get('1nn-dtw')!.prepare(classes);
    await prepared.close();
    expect(prepared.settings).toMatchObject({ chosen: 'least leave-one-out error on the training split' });
    expect(prepared.settings['window']).toBe(Math.ceil((Number(prepared.settings['percent']) * 60) / 100));
  });

  test('need training examples, and stop when asked to', async () => {
    for (const name of ['1nn-dtw', 'minirocket', 'majority', 'expcot-blind']) {
      await expect(BASELINES.get(name)!.prepare({ ...classes, training: null })).rejects.toThrow(DataError);
    }
    const signal = AbortSignal.abort(new Error('enough'));
    for (const name of ['1nn-dtw', 'minirocket']) {
      await expect(BASELINES.get(name)!.prepare({ ...classes, signal })).rejects.toThrow('enough');
    }
  });
});

describe('point scores', () => {
  const validation = [40, 90, 130].map((at, i) => waveWithBump(`v/${i}`, at, 1.6));
  const held = waveWithBump('h', 111, 1.6);

  test.each(Object.keys(POINT_SCORES))(
    '%s scores every sample, at the published threshold without validation examples',
    async (name) => {
      const score = POINT_SCORES[name]!;
      const prepared = await BASELINES.get(name)!.prepare(anomalies);
      expect(prepared.settings['threshold']).toBe(score.threshold);
      expect(prepared.settings['chosen']).toContain('published default');
      const values = held.channels[0]!;
      const scores = score.scores(values);
      expect(scores.length).toBe(200);
      expect(scores.every((one) => one >= 0 && Number.isFinite(one))).toBe(true);
      const own = await prepared.answer(held);
      expect(own).toEqual(answerAbove(score, comparable(score, values), score.threshold));
      for (const empty of [new Float64Array(200).fill(2), new Float64Array(5).fill(1)]) {
        expect(await prepared.answer({ channels: [empty], names: ['value'] })).toEqual({
          kind: 'anomaly',
          intervals: [],
          class: 'normal',
        });
      }
    },
  );

  /** Eight channels of other rates and levels; `lifted` gives the channels of a bump and where it begins. One is constant, one absent. */
  function eightChannels(lifted: Readonly<Record<number, number>>): Example {
    const channels = Array.from({ length: 8 }, (_, c) => {
      const random = new Random(6, 'channels', c);
      const values = Float64Array.from({ length: 240 }, (_, t) => {
        const bump = t >= lifted[c]! && t < lifted[c]! + 6 ? 9 : 0;
        return 10 ** (c - 4) * (c + Math.sin((2 * Math.PI * t) / (12 + c)) + random.normal(0, 0.05) + bump);
      });
      return c === 3 ? values.fill(5) : c === 6 ? values.fill(Number.NaN) : values;
    });
    return { ...anomalyExample('m', 'bump', channels[0]!, 'normal', []), channels, names: [...'abcdefgh'] };
  }

  test.each(baselinesOf('anomaly').filter((name) => name !== 'expcot-blind'))(
    '%s answers the union of what it finds in each channel',
    async (name) => {
      const one = eightChannels({ 5: 100 });
      const all = eightChannels(Object.fromEntries([0, 1, 2, 4, 5, 7].map((c) => [c, 40 + 20 * c])));
      const prepared = await BASELINES.get(name)!.prepare({ ...anomalies, threads: 1 });
      for (const series of [one, all, eightChannels({})]) {
        const points = new Set<number>();
        for (const values of series.channels) {
          const alone = await prepared.answer({ channels: [values], names: ['value'] });
          if (typeof alone === 'string' || alone.kind !== 'anomaly') continue;
          for (const [start, end] of alone.intervals) for (let t = start; t < end; t++) points.add(t);
        }
        const answer = (await prepared.answer(series)) as AnomalyGold;
        expect(answer.intervals).toEqual(runs(240, (t) => points.has(t)));
        expect(answer.class === 'normal').toBe(points.size === 0);
        const turned = { channels: series.channels.toReversed(), names: series.names.toReversed() };
        expect(await prepared.answer(turned)).toEqual(answer);
      }
      await prepared.close();
    },
  );

  test('find a bump in one of eight channels, one in each of six, and none', async () => {
    for (const name of ['zscore', 'iqr', 'three-sigma', 'timeseer-detect']) {
      const prepared = await BASELINES.get(name)!.prepare({ ...anomalies, threads: 1 });
      const found = async (lifted: Readonly<Record<number, number>>) =>
        ((await prepared.answer(eightChannels(lifted))) as AnomalyGold).intervals;
      expect(await found({})).toEqual([]);
      expect(pointF1(await found({ 5: 100 }), [[100, 106]])).toBeGreaterThan(0.9);
      const six = Object.fromEntries([0, 1, 2, 4, 5, 7].map((c) => [c, 40 + 20 * c]));
      const gold = Object.values(six).map((at): [number, number] => [at, at + 6]);
      expect(pointF1(await found(six), gold)).toBeGreaterThan(0.75);
      await prepared.close();
    }
  });

  test('choose the threshold on validation examples of several channels too', async () => {
    const { settings } = await BASELINES.get('three-sigma')!.prepare({
      ...anomalies,
      validation: [
        { ...eightChannels({ 5: 100 }), gold: { kind: 'anomaly', class: null, intervals: [[100, 106]] } },
      ],
    });
    expect(settings).toMatchObject({ threshold: 3, chosen: 'highest mean reward on 1 validation examples' });
  });

  test('take the threshold of the highest mean reward on validation examples', async () => {
    for (const name of ['three-sigma', 'matrix-profile', 'seasonal-residual']) {
      const score = POINT_SCORES[name]!;
      const { settings } = await BASELINES.get(name)!.prepare({ ...anomalies, validation });
      const rewardAt = (threshold: number): number =>
        validation.reduce((sum, one) => {
          const answer = answerAbove(score, comparable(score, one.channels[0]!), threshold);
          return sum + baselineRecord(one, answer).score.total / validation.length;
        }, 0);
      const best = Math.max(...THRESHOLDS.map(rewardAt));
      expect(rewardAt(settings['threshold'] as number)).toBeCloseTo(best, 12);
      expect(settings['chosen']).toBe('highest mean reward on 3 validation examples');
    }
  });

  test('answer alike on one thread and in Workers, and end those when closed', async () => {
    const series = Array.from({ length: 40 }, (_, i) => waveWithBump(`w/${i}`, 30 + 3 * i, 1.6));
    const answered = async (threads: number): Promise<unknown[]> => {
      const prepared = await BASELINES.get('timeseer-detect')!.prepare({ ...anomalies, threads });
      const answers = await Promise.all(series.map((one) => prepared.answer(one)));
      await prepared.close();
      if (threads > 1) await expect(prepared.answer(waveWithBump('new', 50, 2))).rejects.toThrow(/closed/);
      return answers;
    };
    const alone = await answered(1);
    expect(alone.some((answer) => (answer as AnomalyGold).intervals.length > 0)).toBe(true);
    expect(await answered(2)).toEqual(alone);
  });

  test('find a bump that stands out of the season', async () => {
    for (const name of [
      'seasonal-residual',
      'isolation-forest',
      'sub-pca',
      'matrix-profile',
      'timeseer-detect',
    ]) {
      const scores = POINT_SCORES[name]!.scores(held.channels[0]!);
      const top = scores.indexOf(Math.max(...scores));
      expect(top).toBeGreaterThan(111 - WAVE);
      expect(top).toBeLessThan(117 + WAVE);
    }
  });
});

const LIGHTNING = join(import.meta.dirname, '../../../shared/data/timerbed/tee');

describe.skipIf(!existsSync(LIGHTNING))('published errors (skipped where the files are absent)', () => {
  const all = existsSync(LIGHTNING) ? [...benchmarkNamed('tee').open({ directory: LIGHTNING }).load()] : [];
  const of = (split: string): Example[] => all.flatMap((one) => (one.split === split ? [one.example] : []));

  test.each([
    ['1nn-dtw-full', 0.274, 100],
    ['1nn-dtw', 0.2877, 5],
  ])('%s errs on Lightning7 as the UCR archive lists it: %d, window %d %%', async (name, error, percent) => {
    const prepared = await BASELINES.get(name)!.prepare({ ...classes, training: of('train'), threads: 2 });
    const held = of('test');
    const answers = await Promise.all(held.map((one) => prepared.answer(one)));
    await prepared.close();
    const wrong = held.filter((one, i) => JSON.stringify(answers[i]) !== JSON.stringify(one.gold));
    expect(wrong.length / held.length).toBeCloseTo(error, 4);
    expect(prepared.settings['percent']).toBe(percent);
  });
});

test('the help of eval names those that answer beside any policy', async () => {
  const cli = yargs([]).wrap(null);
  (evaluation.builder as (cli: unknown) => unknown)(cli);
  const help = await cli.getHelp();
  const line = help.split('\n').find((one) => one.includes('--classical'))!;
  const [detectors, learned] = [await quickBaselines(anomalies), await quickBaselines(classes)];
  expect(detectors).not.toContain('timeseer-detect');
  for (const name of [...detectors, ...learned]) expect(line).toContain(name);
});

test('a baseline answers a series outside of any data set at its published default', async () => {
  const series = waveWithBump('h', 111, 4);
  const baseline = await openPolicy('baseline:three-sigma');
  const answers: unknown[] = [];
  const request = { key: 0, samples: [0], prompt: () => Promise.reject(new Error('not read')) };
  const options = { temperature: 0, maxTokens: 1, seed: 0, data: null };
  await baseline.answer([{ ...request, series: () => series }], options, ({ answer }) =>
    answers.push(answer),
  );
  const score = POINT_SCORES['three-sigma']!;
  expect(answers).toEqual([answerAbove(score, comparable(score, series.channels[0]!), 3)]);
  await expect(baseline.answer([{ ...request, series: () => null }], options, () => {})).rejects.toThrow(
    /baseline:three-sigma: reads values/,
  );
  await baseline.dispose();
});
