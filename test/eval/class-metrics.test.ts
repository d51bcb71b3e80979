import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { metricsOf, overallOf, pairedGain } from '../../eval/metrics.ts';
import { metricsTable } from '../../eval/metrics-table.ts';
import { nearestNeighbour } from '../../src/answer/classifiers.ts';
import { DataError } from '../../src/ground/errors.ts';
import type { EvalRecord, Example } from '../../src/ground/types.ts';
import { labelOf } from '../../src/tasks/kinds.ts';
import { classResponse, recordOf, variatesResponse, writeResponse } from '../helpers/eval-records.ts';

interface GoldenCase {
  readonly name: string;
  readonly gold: readonly string[];
  readonly said: readonly (readonly string[])[];
  readonly labels: readonly string[];
  readonly accuracy: number;
  readonly balanced_accuracy: number;
  readonly balanced_accuracy_score: number;
  readonly macro_f1: number;
  readonly weighted_f1: number;
  readonly precision: readonly number[];
  readonly recall: readonly number[];
  readonly f1: readonly number[];
  readonly confusion: readonly (readonly number[])[];
}

const golden = JSON.parse(
  readFileSync(join(import.meta.dirname, '../golden/eval/classification.json'), 'utf8'),
) as {
  readonly cases: readonly GoldenCase[];
  readonly nearest: {
    readonly train: readonly (readonly (readonly number[])[])[];
    readonly train_class: readonly number[];
    readonly test: readonly (readonly (readonly number[])[])[];
    readonly nearest: readonly number[];
  };
};

const classified = (id: string, gold: string, said: string): EvalRecord =>
  recordOf(id, { kind: 'classification', class: gold }, said === '' ? 'no tags' : classResponse(said), 100);

describe('metrics of classification', () => {
  test.each(golden.cases)('are those of scikit-learn: $name', (one) => {
    const records = one.gold.flatMap((gold, i) =>
      one.said[i]!.map((said) => classified(`g/${i}`, gold, said)),
    );
    const { overall, byClass, confusion } = metricsOf(records, { resamples: 100, classes: one.labels });
    expect(overall.class_accuracy?.mean).toBeCloseTo(one.accuracy, 12);
    expect(overall.balanced_accuracy?.mean).toBeCloseTo(one.balanced_accuracy, 12);
    expect(overall.balanced_accuracy?.mean).toBeCloseTo(one.balanced_accuracy_score, 12);
    expect(overall.macro_f1?.mean).toBeCloseTo(one.macro_f1, 12);
    expect(overall.weighted_f1?.mean).toBeCloseTo(one.weighted_f1, 12);
    expect(Object.keys(byClass)).toEqual(one.labels);
    one.labels.forEach((label, k) => {
      expect(byClass[label]?.class_precision?.mean).toBeCloseTo(one.precision[k]!, 12);
      expect(byClass[label]?.class_recall?.mean).toBeCloseTo(one.recall[k]!, 12);
      expect(byClass[label]?.class_f1?.mean).toBeCloseTo(one.f1[k]!, 12);
      expect(byClass[label]?.class_f1?.n).toBe(one.gold.filter((gold) => gold === label).length);
    });
    expect(confusion?.counts).toEqual(one.confusion);
    expect(confusion?.columns.slice(one.labels.length)).toEqual(['other label']);
  });

  // a: 4 series, 3 right, one unreadable; b: 1 series, taken for a; c is never gold.
  const few = [
    ...['a', 'a', '', 'a'].map((said, i) => classified(`h/${i}`, 'a', said)),
    classified('h/4', 'b', 'a'),
  ];

  test('of a rare class that is always missed, by hand', () => {
    const { overall, byClass, anomalous } = metricsOf(few, { classes: ['c', 'b', 'a'], resamples: 400 });
    expect(overall.class_accuracy?.mean).toBeCloseTo(3 / 5, 12);
    expect(overall.balanced_accuracy?.mean).toBeCloseTo((3 / 4 + 0) / 2, 12);
    // a: precision 3/4, recall 3/4; b: never answered.
    expect(overall.macro_f1?.mean).toBeCloseTo((3 / 4 + 0) / 2, 12);
    expect(overall.unparsable.mean).toBeCloseTo(1 / 5, 12);
    expect(overall.reward.mean).toBeCloseTo((3 * 1 + 0 + 0.1) / 5, 12);
    expect(Object.keys(byClass)).toEqual(['b', 'a']);
    expect(byClass['b']?.class_precision).toEqual({ mean: 0, ci95: [0, 0], n: 1 });
    expect(anomalous).toBeNull();
    // Resamples without b have the recall of a alone, those with it at most half of it.
    const [lo, hi] = overall.balanced_accuracy!.ci95;
    expect(lo).toBeLessThanOrEqual(0.375);
    expect(hi).toBe(1);
  });

  test('leave resamples without a class out of the interval of its precision', () => {
    const right = ['a', 'a', 'b', 'b'].map((gold, i) => classified(`p/${i}`, gold, gold));
    const { byClass } = metricsOf(right);
    for (const label of ['a', 'b']) {
      expect(byClass[label]?.class_precision).toEqual({ mean: 1, ci95: [1, 1], n: 2 });
      expect(byClass[label]?.class_f1).toEqual(byClass[label]?.class_recall);
    }
  });

  test('show labels that are no class and unreadable answers in their own columns, whatever a class is called', () => {
    const records = [
      classified('n/0', 'unreadable', ''),
      classified('n/1', 'unreadable', 'unreadable'),
      classified('n/2', 'noise', 'other label'),
    ];
    expect(metricsOf(records, { resamples: 100 }).confusion).toEqual({
      rows: ['noise', 'unreadable'],
      columns: ['noise', 'unreadable', 'other label', 'unreadable'],
      counts: [
        [0, 0, 1, 0],
        [0, 1, 0, 1],
      ],
    });
  });

  test('do not depend on the order of the records beyond resampling', () => {
    const a = overallOf(few);
    const b = overallOf([...few].reverse());
    expect(b.macro_f1?.mean).toBeCloseTo(a.macro_f1!.mean, 12);
    expect(b.balanced_accuracy?.mean).toBeCloseTo(a.balanced_accuracy!.mean, 12);
  });

  test('of a whole set change as they differ, and not where the answers are the same', () => {
    const right = few.map((record) =>
      recordOf(record.seriesId, record.gold, classResponse(labelOf(record.gold)), 100),
    );
    const gain = pairedGain(few, right, 'macro_f1');
    const before = overallOf(few).macro_f1!;
    expect(gain.mean).toBeCloseTo(1 - before.mean, 12);
    expect(gain.n).toBe(before.n);
    expect(pairedGain(few, few, 'macro_f1')).toEqual({ mean: 0, ci95: [0, 0], n: before.n });
    expect(pairedGain(few, few, 'class_accuracy').mean).toBe(0);
    expect(() => pairedGain(few, few, 'point_f1')).toThrow(DataError);
  });

  test('stand in a table of the whole set and one of the classes', () => {
    const metrics = metricsOf(few, { resamples: 100 });
    const text = metricsTable(metrics, { majority: metrics.overall });
    const [head, first] = text.split('\n');
    expect(head).toMatch(/format +readable +accuracy +balanced acc\. +macro F1 +reward +n$/);
    expect(first).toMatch(/^all series +0\.800 \[.*0\.600 \[.*0\.375 \[.*0\.375 \[.* 5$/);
    expect(text).toMatch(/\nclassical: majority +0\.800/);
    expect(text).toMatch(/\n +format +recall +precision +F1 +reward +n\n {2}a .*0\.750/);
  });
});

describe('metrics of variates', () => {
  const variates = (id: string, gold: readonly number[], response: string): EvalRecord =>
    recordOf(id, { kind: 'variates', variates: gold }, response, 200);
  const records = [
    variates('v/0', [2, 7, 8], variatesResponse([1, 2, 7, 0])),
    variates('v/1', [4], variatesResponse([4])),
    variates('v/2', [], variatesResponse([3])),
    variates('v/3', [0, 5], '<think>odd</think><answer>all of them</answer>'),
  ];
  const metrics = metricsOf(records, { resamples: 100 });

  test('are means over series, by hand', () => {
    const { overall } = metrics;
    expect(overall.variate_precision?.mean).toBeCloseTo((1 / 2 + 1 + 0 + 0) / 4, 12);
    expect(overall.variate_recall?.mean).toBeCloseTo((2 / 3 + 1 + 0 + 0) / 4, 12);
    expect(overall.variate_f1?.mean).toBeCloseTo((4 / 7 + 1 + 0 + 0) / 4, 12);
    expect(overall.variate_exact?.mean).toBeCloseTo(1 / 4, 12);
    expect(overall.unparsable.mean).toBe(1 / 4);
    expect(overall.reward.mean).toBeCloseTo((0.9 * (4 / 7) + 0.1 + 1 + 0.1 + 0) / 4, 12);
    expect(overall).not.toHaveProperty('class_accuracy');
  });

  test('are given by how many are anomalous, and for the anomalous series alone; there is no confusion', () => {
    expect(Object.keys(metrics.byClass)).toEqual([
      '0 anomalous',
      '1 anomalous',
      '2 anomalous',
      '3 anomalous',
    ]);
    expect(metrics.anomalous?.variate_f1?.n).toBe(3);
    expect(metrics.confusion).toBeNull();
    expect(metricsTable(metrics, {})).toMatch(
      /^ +format +readable +precision +recall +F1 +exact set +reward +n\nall series/,
    );
  });
});

describe('metrics of anomalies whose kind is not named', () => {
  const unnamed = (id: string, response: string): EvalRecord =>
    recordOf(id, { kind: 'anomaly', class: null, intervals: [[100, 150]] }, response);
  const normal = recordOf(
    'u/9',
    { kind: 'anomaly', class: 'normal', intervals: [] },
    writeResponse([], 'trend'),
  );

  test('have a class accuracy over the others alone', () => {
    const records = [unnamed('u/0', writeResponse([[100, 150]], 'trend')), unnamed('u/1', ''), normal];
    const { overall, confusion, byClass } = metricsOf(records);
    expect(overall.class_accuracy).toEqual({ mean: 0, ci95: [0, 0], n: 1 });
    expect(overall.point_f1).toMatchObject({ mean: 2 / 3, n: 3 });
    expect(Object.keys(byClass)).toEqual(['normal', 'unnamed anomaly']);
    expect(confusion?.rows).toEqual(['normal', 'unnamed anomaly']);
    expect(confusion?.columns).toEqual(['trend', 'normal', 'unreadable']);
    expect(confusion?.counts).toEqual([
      [1, 0, 0],
      [1, 0, 1],
    ]);
  });

  test('have none where no kind is named', () => {
    const { overall, byClass } = metricsOf([unnamed('u/0', writeResponse([[100, 150]], 'trend'))]);
    expect(overall).not.toHaveProperty('class_accuracy');
    expect(byClass['unnamed anomaly']?.reward.mean).toBe(1);
    expect(metricsTable(metricsOf([unnamed('u/0', '')]), {})).not.toContain('class');
  });
});

describe('the table of tasks', () => {
  const right = writeResponse([[100, 150]], 'trend');
  const gold = { kind: 'anomaly', class: 'trend', intervals: [[100, 150]] } as const;
  /** As many series of a task, of which the first `good` are answered right. */
  const task = (name: string, series: number, good: number): EvalRecord[] =>
    Array.from({ length: series }, (_, i) => ({
      ...recordOf(`${name}/${i}`, gold, i < good ? right : ''),
      task: name,
    }));

  test('sorts them, and tells those of fewer than five series together', () => {
    const records = [...task('web', 1, 1), ...task('iot', 6, 3), ...task('ads', 4, 1), ...task('eeg', 5, 5)];
    const metrics = metricsOf(records, { resamples: 100 });
    expect(Object.keys(metrics.byTask)).toEqual(['ads', 'eeg', 'iot', 'web']);
    const rows = metricsTable(metrics, {})
      .split('\n')
      .filter((line) => /^ {2}(eeg|iot|ads|web|others)/.test(line));
    expect(rows).toEqual([
      expect.stringMatching(/^ {2}eeg +1\.000 \[.* 5$/),
      expect.stringMatching(/^ {2}iot +0\.500 \[.* 6$/),
      expect.stringMatching(
        /^ {2}others \(2 of fewer than 5\) +0\.400 +0\.400 +0\.400 +0\.400 +0\.400 +0\.400 +5$/,
      ),
    ]);
  });

  test('names a single one of few series', () => {
    const text = metricsTable(
      metricsOf([...task('web', 2, 1), ...task('iot', 6, 3)], { resamples: 100 }),
      {},
    );
    expect(text).toMatch(/\n {2}iot .*\n {2}web +0\.500 \[/);
    expect(text).not.toContain('others');
  });
});

test('records of two kinds are refused by name', () => {
  const records = [
    classified('a/0', 'x', 'x'),
    recordOf('b/0', { kind: 'variates', variates: [] }, variatesResponse([])),
  ];
  expect(() => metricsOf(records)).toThrow(DataError);
  expect(() => overallOf(records)).toThrow('a/0 asks for an answer of kind classification, b/0');
});

describe('the nearest training series', () => {
  const channelsOf = (values: readonly (readonly number[])[]) =>
    values.map((list) => Float64Array.from(list));
  const example = (channels: readonly Float64Array[], label: string): Example => ({
    id: 'n/train/0',
    task: 'n',
    channels,
    names: channels.map((_, c) => String(c)),
    times: null,
    gold: { kind: 'classification', class: label },
    recording: null,
  });

  test('is that of scikit-learn, over several channels', () => {
    const { train, train_class, test: tests, nearest } = golden.nearest;
    const find = nearestNeighbour(train.map((one, i) => example(channelsOf(one), String(train_class[i]))))!;
    expect(tests.map((one) => find(channelsOf(one)))).toEqual(nearest.map(String));
    expect(new Set(nearest).size).toBe(3);
  });

  test('is found in spite of missing points, offsets and scales; flat channels say nothing', () => {
    const rise = Float64Array.from({ length: 40 }, (_, i) => i);
    const fall = rise.map((value) => -value);
    const flat = new Float64Array(40).fill(1 / 3);
    const find = nearestNeighbour([example([rise, flat], 'rise'), example([fall, flat], 'fall')])!;
    const gaps = rise.map((value, i) => (i % 3 === 0 ? Number.NaN : -5 * value + 700));
    expect(find([gaps, flat.map((value) => value * 7)])).toBe('fall');
    expect(find([rise.slice(0, 20), flat.slice(0, 20)])).toBeNull();
  });

  test('needs training series of one length', () => {
    const short = example([new Float64Array(3)], 'a');
    expect(nearestNeighbour([short, example([new Float64Array(4)], 'b')])).toBeNull();
  });
});
