import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { benchmarkNamed } from '../../datasets/benchmarks/registry.ts';
import { anomalyExample } from '../../datasets/example.ts';
import { nano5 } from '../../datasets/generators/nano5.ts';
import { classicalAnswers, readBaselines, runBaselines, writeBaselines } from '../../eval/baselines.ts';
import { openHeldOut, validationOf } from '../../eval/harness.ts';
import { metricsOf, overallOf } from '../../eval/metrics.ts';
import { anomalyReward } from '../../rewards/anomseer.ts';
import {
  BASELINES,
  type BaselineData,
  baselineRecord,
  baselinesOf,
  quickBaselines,
} from '../../src/answer/baselines.ts';
import { EXPCOT_BLIND, expcotBlind } from '../../src/expcot/anomaly.ts';
import { DataError } from '../../src/ground/errors.ts';
import type { AnomalyClass, Example } from '../../src/ground/types.ts';
import { recipeSchema } from '../../src/recipe/recipe.ts';
import { DETECTORS } from '../../src/series/detectors.ts';
import { anomaly } from '../../src/tasks/anomaly.ts';

const DETECTORS_OF_ANOMALIES = anomaly.evaluation.detectors!;
const recipe = recipeSchema.parse({ seed: 5, data: { heldOut: 20 }, eval: { series: 20, validation: 15 } });
const heldOut = openHeldOut(recipe).series;
const validation = validationOf(recipe);
const learning: BaselineData = { kind: 'anomaly', training: null, validation, seed: 0 };

/** A level of zero with one block of large values: found by any range test. */
function blockSeries(id: string, label: AnomalyClass): Example {
  const values = Float64Array.from({ length: 400 }, (_, i) => Math.sin(i * 1.7) * 0.01);
  values.fill(9, 120, 124);
  return anomalyExample(id, 'block', values, label, [[120, 124]]);
}

describe('detectors as answerers', () => {
  test('are all detectors and the blind expert reading', () => {
    expect([...DETECTORS_OF_ANOMALIES.keys()]).toEqual([...Object.keys(DETECTORS), EXPCOT_BLIND]);
  });

  test('say the class that they are made for where they find something, and normal elsewhere', () => {
    const [values] = blockSeries('b/0', 'global point').channels;
    const flat = new Float64Array(400).fill(3);
    expect(DETECTORS_OF_ANOMALIES.get('zscore')!(values!)).toEqual({
      ...{ kind: 'anomaly', intervals: [[120, 124]], class: 'global point' },
    });
    for (const read of DETECTORS_OF_ANOMALIES.values())
      expect(read(flat)).toMatchObject({ intervals: [], class: 'normal' });
    for (const one of heldOut) {
      for (const name of Object.keys(DETECTORS)) {
        const { intervals, class: said } = DETECTORS_OF_ANOMALIES.get(name)!(one.channels[0]!);
        expect(said === 'normal').toBe(intervals.length === 0);
      }
      expect(DETECTORS_OF_ANOMALIES.get(EXPCOT_BLIND)!(one.channels[0]!).class).toBe(
        expcotBlind(one.channels[0]!).class,
      );
    }
  });

  test('bridge missing points, and read of several channels those that have some', async () => {
    const series = blockSeries('b/0', 'trend');
    const gapped = { ...series, channels: [Float64Array.from(series.channels[0]!)] };
    gapped.channels[0]!.fill(Number.NaN, 20, 25);
    const absent = new Float64Array(400).fill(Number.NaN);
    const beside = { ...series, channels: [absent, gapped.channels[0]!], names: ['dead', 'value'] };
    for (const name of baselinesOf('anomaly')) {
      // Thresholds are chosen on gapped series too, and not on one without a point.
      const empty = { ...series, channels: [absent] };
      const prepared = await BASELINES.get(name)!.prepare({
        ...learning,
        validation: [gapped, empty, beside],
      });
      const answer = await prepared.answer(gapped);
      expect(answer).toMatchObject({ kind: 'anomaly' });
      expect(await prepared.answer(beside)).toEqual(answer);
      expect(await prepared.answer(empty)).toBe('all 400 points of the series are missing');
      await prepared.close();
    }
    const zscore = await BASELINES.get('zscore')!.prepare(learning);
    expect(await zscore.answer(gapped)).toMatchObject({ intervals: [[120, 124]] });
  });

  test('are scored as a policy would be for the same answer', () => {
    const series = blockSeries('b/0', 'trend');
    const record = baselineRecord(series, { kind: 'anomaly', intervals: [[118, 124]], class: 'trend' });
    expect(record.answer).toMatchObject({ wellFormed: true, problem: null, class: 'trend' });
    expect(record.response).toBe('');
    const gold = { intervals: [[120, 124]], class: 'trend' } as const;
    expect(record.score).toEqual(anomalyReward(record.answer, gold, 400));
    expect(record.score.parts['localisation']).toBeLessThan(1);
  });

  test('do not look at labels: other annotations, same answers', async () => {
    const series = heldOut.slice(0, 8);
    const relabeled = series.map((one, i) => ({
      ...one,
      gold: {
        kind: 'anomaly' as const,
        class: (['trend', 'seasonal'] as const)[i % 2]!,
        intervals: [[i, i + 40]] as const,
      },
      task: 'other',
    }));
    const [a, b] = [await runBaselines(series, [], null), await runBaselines(relabeled, [], null)];
    for (const name of DETECTORS_OF_ANOMALIES.keys()) {
      expect(b.records[name]!.map((record) => record.answer)).toEqual(
        a.records[name]!.map((record) => record.answer),
      );
    }
  });
});

describe('the best detector', () => {
  test('has the highest mean reward on validation series', async () => {
    const run = await runBaselines(heldOut.slice(0, 4), validation, null);
    const { best, validationReward, validationSeries: n } = run;
    expect(n).toBe(15);
    const names = await quickBaselines(learning, true);
    expect(names).toEqual([...DETECTORS_OF_ANOMALIES.keys(), 'timeseer-detect']);
    for (const name of names) {
      const detector = await BASELINES.get(name)!.prepare(learning);
      const records = await Promise.all(
        validation.map(async (one) => baselineRecord(one, await detector.answer(one))),
      );
      expect(validationReward[name]).toBeCloseTo(metricsOf(records).overall.reward.mean, 12);
    }
    expect(validationReward[best]).toBe(Math.max(...Object.values(validationReward)));
  });

  test('is chosen on validation series even where another is better on held-out ones', async () => {
    const blocks = Array.from({ length: 4 }, (_, i) => blockSeries(`b/${i}`, 'global point'));
    const { best, validationReward, records } = await runBaselines(heldOut, blocks, null);
    // On these every range test is perfect; the first of equals is named.
    expect(validationReward['zscore']).toBeCloseTo(1, 12);
    expect(best).toBe('zscore');
    const mean = (name: string) => metricsOf(records[name]!).overall.reward.mean;
    expect(mean(EXPCOT_BLIND)).toBeGreaterThan(mean('zscore'));
  });

  test('is the blind expert reading where there is nothing to choose on', async () => {
    const found = await runBaselines(heldOut.slice(0, 2), [], null);
    expect(found).toMatchObject({ best: EXPCOT_BLIND, validationSeries: 0, validationReward: {} });
  });

  test('validation series are of the same generator and never held-out ones', () => {
    const ids = new Set(heldOut.map(({ id }) => id));
    expect(validation.every(({ id, task }) => task === 'nano5' && !ids.has(id))).toBe(true);
    const held = heldOut.map(({ channels }) => channels.join());
    expect(validation.some(({ channels }) => held.includes(channels.join()))).toBe(false);
    expect(heldOut).toEqual(Array.from({ length: 20 }, (_, i) => nano5(5, 'test', i, 1000)));
  });

  test('needs held-out series', async () => {
    await expect(runBaselines([], validation, null)).rejects.toThrow(DataError);
  });
});

describe('files of the baselines', () => {
  let directory = '';
  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), 'baselines-'));
  });
  afterAll(() => rmSync(directory, { recursive: true, force: true }));
  const files = () => ({ choice: join(directory, 'c.json'), answers: join(directory, 'c.jsonl') });

  test('come back as they were written', async () => {
    const made = await runBaselines(heldOut.slice(0, 3), validation.slice(0, 2), null);
    writeBaselines(files(), made);
    expect(readBaselines(files())).toEqual(made);
  });

  test('that are damaged are named', async () => {
    writeBaselines(files(), await runBaselines(heldOut.slice(0, 2), validation.slice(0, 1), null));
    const { choice, answers } = files();
    const whole = readFileSync(choice, 'utf8');
    writeFileSync(choice, '{"best": "zsc');
    expect(() => readBaselines(files())).toThrow(`${choice}: not JSON`);
    writeFileSync(choice, whole.replace(/"best": "[^"]*"/, '"best": "nobody"'));
    expect(() => readBaselines(files())).toThrow(`${answers}: holds no answer of nobody`);
    writeFileSync(choice, whole.replace('"gradient"', '"gradients"'));
    expect(() => readBaselines(files())).toThrow('nothing about gradient');
    writeFileSync(choice, whole);
    writeFileSync(answers, readFileSync(answers, 'utf8').slice(0, -20));
    expect(() => readBaselines(files())).toThrow(/c\.jsonl:18:\d+: not a JSON line/);
    rmSync(answers);
    expect(() => readBaselines(files())).toThrow(`${answers}: no such file`);
  });
});

const DATA = join(import.meta.dirname, '../../../shared/data/timerbed');

describe.skipIf(!existsSync(DATA))('1nn-euclid (skipped where the files are absent)', () => {
  test.each([
    ['ctu', 'Computers', 0.424],
    ['tee', 'Lightning7', 0.4247],
  ])('errs on %s as the archive lists it for %s: %d', async (name, _, error) => {
    const loaded = [
      ...benchmarkNamed(name)
        .open({ directory: join(DATA, name) })
        .load(),
    ];
    const of = (split: string) => loaded.flatMap((one) => (one.split === split ? [one.example] : []));
    const { '1nn-euclid': records } = await classicalAnswers(of('test'), {
      training: of('train'),
      validation: [],
      seed: 0,
    });
    const { class_accuracy } = overallOf(records!, { resamples: 100 });
    expect(1 - class_accuracy!.mean).toBeCloseTo(error, 4);
  });
});
