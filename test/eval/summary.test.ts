import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { metricOf, metricsOf } from '../../eval/metrics.ts';
import { type RunSummary, readSummary, summaryMetrics, writeSummary } from '../../eval/summary.ts';
import { DataError } from '../../src/ground/errors.ts';
import { evalRecord, writeResponse } from '../helpers/eval-records.ts';

const trend = { intervals: [[100, 150]], class: 'trend' } as const;
const normal = { intervals: [], class: 'normal' } as const;
const greedy = [
  evalRecord('nano5/0', trend, writeResponse([[100, 150]], 'trend')),
  evalRecord('nano5/1', trend, writeResponse([[120, 180]], 'trend')),
  evalRecord('nano5/2', normal, writeResponse([], 'normal')),
];
const sampled = [
  evalRecord('nano5/0', trend, writeResponse([[100, 150]], 'trend')),
  evalRecord('nano5/1', trend, 'no answer'),
  evalRecord('nano5/2', normal, writeResponse([], 'trend')),
];

let directory = '';
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'summary-'));
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const metrics = summaryMetrics(metricsOf(greedy), metricOf(sampled, 'reward'));
const example = {
  install_s: 101.5,
  sft: { seconds: 118.2, samples: 30000, metrics },
  rl: { seconds: 54, steps: 60, metrics_before: metrics, metrics_after: metrics },
  classical: {
    detector: 'matrix profile',
    metrics: summaryMetrics(metricsOf(greedy), metricOf(greedy, 'reward')),
  },
  environment: { node: 'v20.19.0', threads: 2, libraries: { torch: '1.13.1' }, gpus: [] },
} satisfies RunSummary;

describe('the metrics of a summary', () => {
  test('are greedy ones, beside the reward of the samples', () => {
    expect(metrics.format.mean).toBe(1);
    expect(metrics.reward_greedy.mean).toBeCloseTo((1 + 0.83354 + 1) / 3, 6);
    expect(metrics.reward_sampled?.mean).toBeCloseTo((1 + 0 + 0.8) / 3, 6);
    expect(metrics.point_f1_anomalous?.n).toBe(2);
    expect(Object.keys(metrics.per_class ?? {})).toEqual(['trend', 'normal']);
    expect(metrics.per_task?.['nano5']?.class_accuracy).toEqual({ mean: 1, ci95: [1, 1], n: 3 });
  });

  test('of a deterministic detector repeat its reward', () => {
    expect(example.classical.metrics.reward_sampled).toEqual(example.classical.metrics.reward_greedy);
  });
});

describe('summary.json', () => {
  test('comes back as it was written', () => {
    const path = join(directory, 'summary.json');
    writeSummary(path, example);
    expect(readSummary(path)).toEqual(example);
  });

  test('has the documented keys', () => {
    const path = join(directory, 'keys.json');
    writeSummary(path, example);
    const raw = JSON.parse(readFileSync(path, 'utf8')) as RunSummary;
    expect(Object.keys(raw)).toEqual(['install_s', 'sft', 'rl', 'classical', 'environment']);
    for (const key of [
      'format',
      'class_accuracy',
      'point_f1',
      'affiliation_f1',
      'reward_greedy',
      'reward_sampled',
    ]) {
      expect(raw.sft?.metrics).toHaveProperty(key);
    }
    expect(Object.keys(raw.sft?.metrics.point_f1 ?? {})).toEqual(['mean', 'ci95', 'n']);
  });

  test('is not written when a number is not finite', () => {
    const path = join(directory, 'nan.json');
    const broken = { ...example, sft: { ...example.sft, seconds: Number.NaN } };
    expect(() => writeSummary(path, broken)).toThrow('"sft.seconds"');
    expect(() => readFileSync(path)).toThrow('ENOENT');
  });

  test.each([
    ['a missing file', null, 'no such file'],
    ['half a file', '{"install_s": 3,', 'not JSON'],
    ['a missing stage', '{"install_s": 3}', '"sft"'],
    ['an interval upside down', JSON.stringify(example).replace('"ci95":[1,1]', '"ci95":[1,0.5]'), 'lo ≤ hi'],
  ])('of %s is refused with the reason', (name, text, reason) => {
    const path = join(directory, `${name.replaceAll(' ', '-')}.json`);
    if (text !== null) writeFileSync(path, text);
    expect(() => readSummary(path)).toThrow(DataError);
    expect(() => readSummary(path)).toThrow(reason);
  });
});
