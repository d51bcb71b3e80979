import { describe, expect, test } from 'vitest';
import { consensusOf } from '../../eval/consensus.ts';
import { metricsOf } from '../../eval/metrics.ts';
import type { AnomalyClass, EvalRecord, Interval } from '../../src/ground/types.ts';
import {
  classResponse,
  evalRecord,
  recordOf,
  variatesResponse,
  writeResponse,
} from '../helpers/eval-records.ts';

const OPTIONS = { resamples: 100 };
const spike = { intervals: [[100, 150]] as Interval[], class: 'global point' as AnomalyClass };

/** Answers to one series with a spike at [100, 150): right class and place, right place alone, neither, unreadable. */
const answers = [
  evalRecord('a/0', spike, writeResponse([[100, 160]], 'global point')),
  evalRecord('a/0', spike, writeResponse([[98, 150]], 'trend')),
  evalRecord('a/0', spike, writeResponse([[700, 720]], 'trend')),
  evalRecord('a/0', spike, 'nothing to read'),
];

describe('several answers to a series', () => {
  test('pass@k counts answers that name the class and mark the place', () => {
    const { samples } = metricsOf(answers, OPTIONS);
    expect(samples?.samples).toBe(4);
    expect(Object.keys(samples!.passAtK)).toEqual(['1', '2', '4']);
    expect(samples!.passAtK['1']?.mean).toBeCloseTo(1 / 4, 12);
    expect(samples!.passAtK['2']?.mean).toBeCloseTo(1 / 2, 12);
    expect(samples!.passAtK['4']?.mean).toBe(1);
  });

  test('the consensus has the class of the majority and the intervals closest to the others', () => {
    const { answer, score } = consensusOf(answers);
    expect(answer.class).toBe('trend');
    // [100, 160) and [98, 150) are equally close to each other; the first of equals.
    expect(answer.intervals).toEqual([[100, 160]]);
    expect(score.parts['class']).toBe(0);
    expect(metricsOf(answers, OPTIONS).samples?.consensus.point_f1?.mean).toBeCloseTo(100 / 110, 12);
  });

  test('the consensus of variates is the set closest to the others', () => {
    const gold = { kind: 'variates', variates: [1, 4] } as const;
    const said = [[1], [1, 4], [1, 4, 5], [7]].map((ids) => recordOf('v/0', gold, variatesResponse(ids)));
    expect(consensusOf(said).answer.variates).toEqual([1, 4]);
  });

  test('a series with one answer has no sample metrics', () => {
    expect(metricsOf(answers.slice(0, 1), OPTIONS).samples).toBeNull();
  });
});

test('a success rate stands beside every accuracy', () => {
  const gold = { kind: 'classification', class: 'a' } as const;
  const records = ['a', 'b', '', 'a'].map((said, i) =>
    recordOf(`c/${i}`, gold, said === '' ? 'no tags' : classResponse(said), 100),
  );
  const { overall } = metricsOf(records, OPTIONS);
  expect(overall.success_rate?.mean).toBe(0.75);
  expect(overall.class_accuracy?.mean).toBe(0.5);
});

test('metrics come by length, between powers of two', () => {
  const lengths = [250, 720, 512, 600];
  const records = lengths.map((length, i) =>
    evalRecord(`a/${i}`, spike, writeResponse([[100, 150]], 'global point'), length),
  );
  const { byLength } = metricsOf(records, OPTIONS);
  expect(Object.entries(byLength).map(([range, { reward }]) => [range, reward.n])).toEqual([
    ['129–256', 1],
    ['257–512', 1],
    ['513–1024', 2],
  ]);
});

test('tokens, seconds and cost are means over the responses that have them', () => {
  const records: EvalRecord[] = answers.map((one, i) => ({
    ...one,
    seriesId: `a/${i}`,
    ...(i === 3 ? {} : { usage: { prompt: 100 + i, completion: 10 * i }, seconds: 0.5 }),
  }));
  const { usage } = metricsOf(records, OPTIONS);
  expect(usage['prompt']).toMatchObject({ mean: 101, n: 3 });
  expect(usage['completion']?.mean).toBe(10);
  expect(usage['seconds']?.mean).toBe(0.5);
  expect(usage).not.toHaveProperty('cost');
});

test('a response that failed is in no metric but is counted', () => {
  const failed: EvalRecord = { ...evalRecord('a/9', spike, ''), failure: 'status 500' };
  const { overall, failed: count } = metricsOf([...answers, failed], OPTIONS);
  expect(count).toBe(1);
  expect(overall.reward.n).toBe(1);
  expect(() => metricsOf([failed])).toThrow('all responses failed (status 500)');
});

test('measures of scores are means over the series that have them', () => {
  const [first, second] = [answers[0]!, { ...answers[1]!, seriesId: 'a/1' }];
  const { overall } = metricsOf([{ ...first, measures: { vus_pr: 0.75 } }, second], OPTIONS);
  expect(overall.vus_pr).toEqual({ mean: 0.75, ci95: [0.75, 0.75], n: 1 });
  expect(overall.vus_f1?.n).toBe(2);
});
