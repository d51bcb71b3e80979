import { describe, expect, test } from 'vitest';
import { metricsOf, pairedGain } from '../../eval/metrics.ts';
import { DataError } from '../../src/ground/errors.ts';
import { anomaly } from '../../src/tasks/anomaly.ts';
import { evalRecord, writeResponse } from '../helpers/eval-records.ts';

const trend = { intervals: [[100, 150]], class: 'trend' } as const;
const seasonal = { intervals: [[300, 340]], class: 'seasonal' } as const;
const normal = { intervals: [], class: 'normal' } as const;

// Asymmetric on purpose: an exact hit, a half hit of another class, a missed one, an unreadable one, two normals.
const records = [
  evalRecord('nano5/test/0', trend, writeResponse([[100, 150]], 'trend')),
  evalRecord('nano5/test/1', trend, writeResponse([[120, 180]], 'seasonal')),
  evalRecord('nano5/test/2', seasonal, writeResponse([], 'normal')),
  evalRecord('freq/test/0', seasonal, 'The answer is [[300, 340]]'),
  evalRecord('freq/test/1', normal, writeResponse([], 'normal')),
  evalRecord('freq/test/2', normal, writeResponse([[10, 20]], 'a spike')),
];

describe('metrics of evaluated responses', () => {
  const metrics = metricsOf(records);

  test('are means over all series', () => {
    const { overall } = metrics;
    expect(overall.format).toMatchObject({ mean: 5 / 6, n: 6 });
    expect(overall.unparsable.mean).toBeCloseTo(1 / 6, 12);
    expect(overall.class_accuracy?.mean).toBeCloseTo(2 / 6, 12);
    expect(overall.point_precision?.mean).toBeCloseTo((1 + 0.5 + 0 + 0 + 1 + 0) / 6, 12);
    expect(overall.point_recall?.mean).toBeCloseTo((1 + 0.6 + 0 + 0 + 1 + 0) / 6, 12);
    expect(overall.point_f1?.mean).toBeCloseTo((1 + 6 / 11 + 0 + 0 + 1 + 0) / 6, 12);
    expect(overall.affiliation_precision?.mean).toBeCloseTo((1 + 0.96 + 0 + 0 + 1 + 0) / 6, 4);
    expect(overall.affiliation_recall?.mean).toBeCloseTo((1 + 0.992 + 0 + 0 + 1 + 0) / 6, 4);
    expect(overall.affiliation_f1?.mean).toBeCloseTo((1 + 0.9757 + 0 + 0 + 1 + 0) / 6, 4);
    expect(overall.reward.mean).toBeCloseTo((1 + (0.7 * 0.7622 + 0.1) + 0.1 + 0 + 1 + 0.1) / 6, 6);
  });

  test('are given for the anomalous series alone', () => {
    expect(metrics.anomalous?.point_f1).toMatchObject({ n: 4 });
    expect(metrics.anomalous?.point_f1?.mean).toBeCloseTo((1 + 6 / 11) / 4, 12);
  });

  test('are given by gold class and by task', () => {
    expect(Object.keys(metrics.byClass)).toEqual(['seasonal', 'trend', 'normal']);
    expect(metrics.byClass['trend']?.class_accuracy).toMatchObject({ mean: 0.5, n: 2 });
    expect(Object.keys(metrics.byTask)).toEqual(['freq', 'nano5']);
    expect(metrics.byTask['freq']?.unparsable.mean).toBeCloseTo(1 / 3, 12);
  });

  test('are given by task in the order of names, with numbers by size', () => {
    const names = ['b/10', 'a', 'b/9', 'B/9', 'A2', 'b/10-x'];
    const tasks = (order: readonly string[]) =>
      Object.keys(metricsOf(order.map((task, i) => ({ ...records[0]!, seriesId: `s/${i}`, task }))).byTask);
    expect(tasks(names)).toEqual(['a', 'A2', 'b/9', 'B/9', 'b/10', 'b/10-x']);
    expect(tasks([...names].reverse())).toEqual(tasks(names));
  });

  test('hold a confusion matrix with columns for labels that are no class and for unreadable ones', () => {
    expect(metrics.confusion).toEqual({
      rows: ['seasonal', 'trend', 'normal'],
      columns: ['seasonal', 'trend', 'normal', 'other label', 'unreadable'],
      counts: [
        [0, 0, 1, 0, 1],
        [1, 1, 0, 0, 0],
        [0, 0, 1, 1, 0],
      ],
    });
  });

  test('have an interval around every mean, within [0, 1]', () => {
    for (const name of Object.keys(anomaly.evaluation.metrics)) {
      const { mean, ci95 } = metrics.overall[name]!;
      expect(ci95[0]).toBeLessThanOrEqual(mean);
      expect(ci95[1]).toBeGreaterThanOrEqual(mean);
      expect(ci95[0]).toBeGreaterThanOrEqual(0);
      expect(ci95[1]).toBeLessThanOrEqual(1);
    }
  });

  test('do not depend on the order of a class beyond resampling', () => {
    const reversed = metricsOf([...records].reverse());
    expect(reversed.overall.reward.mean).toBeCloseTo(metrics.overall.reward.mean, 12);
    expect(reversed.confusion).toEqual(metrics.confusion);
  });

  test('average several responses to one series before anything else', () => {
    const sampled = metricsOf([
      evalRecord('a/test/0', trend, writeResponse([[100, 150]], 'trend')),
      evalRecord('a/test/0', trend, 'nothing'),
      evalRecord('a/test/0', trend, 'nothing'),
      evalRecord('a/test/1', trend, writeResponse([[100, 150]], 'trend')),
    ]);
    expect(sampled.overall.reward.n).toBe(2);
    expect(sampled.overall.reward.mean).toBeCloseTo((1 / 3 + 1) / 2, 12);
  });

  test('of normal series alone have no anomalous part', () => {
    expect(metricsOf([evalRecord('a/0', normal, writeResponse([], 'normal'))]).anomalous).toBeNull();
  });

  test('of nothing are refused', () => {
    expect(() => metricsOf([])).toThrow(DataError);
  });
});

describe('a paired gain', () => {
  const before = [
    evalRecord('a/0', trend, writeResponse([], 'trend')),
    evalRecord('a/1', normal, writeResponse([], 'normal')),
  ];
  const after = [
    evalRecord('a/1', normal, writeResponse([], 'normal')),
    evalRecord('a/0', trend, writeResponse([[100, 150]], 'trend')),
  ];

  test('pairs by series whatever the order of the lists', () => {
    expect(pairedGain(before, after, 'reward').mean).toBeCloseTo(0.35, 12);
    expect(pairedGain(before, after, 'point_f1')).toMatchObject({ mean: 0.5, n: 2 });
  });

  test('refuses lists over different series, naming one', () => {
    const other = [evalRecord('a/7', trend, writeResponse([], 'trend')), after[0]!];
    expect(() => pairedGain(before, other, 'reward')).toThrow('a/7 only after');
    expect(() => pairedGain(before, [after[0]!], 'reward')).toThrow(DataError);
  });
});
