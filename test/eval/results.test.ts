import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { openExamples } from '../../datasets/source.ts';
import type { Baselines } from '../../eval/baselines.ts';
import { metricsOf } from '../../eval/metrics.ts';
import { writeRecords } from '../../eval/records.ts';
import { transferTable } from '../../eval/report-tables.ts';
import { transferOf } from '../../eval/results.ts';
import { RunDirectory } from '../../eval/run-directory.ts';
import { BASELINES, baselineRecord } from '../../src/answer/baselines.ts';
import { writeRun } from '../helpers/run-directory.ts';
import { temporary } from '../helpers/temporary.ts';

const root = temporary('transfer');

const options = { seed: 7, resamples: 100 };
const baselines: Baselines = { best: 'iqr', validationSeries: 0, validationReward: {}, records: {} };

/** A run whose policy answers every series of the AnomLLM tasks with "normal". */
function lazyRun(name: string, seed: number) {
  const path = join(root, name);
  writeRun(path, { series: 4 });
  const series = [...openExamples({ name: 'anomllm', split: 'test', seed, length: 1000, count: 24 })];
  const records = series.map((one) => ({
    ...baselineRecord(one, { kind: 'anomaly', intervals: [], class: 'normal' }),
    response: '<think>sine wave</think><answer>[]</answer><class>normal</class>',
  }));
  writeRecords(join(path, 'eval/rl.anomllm.greedy.jsonl'), records);
  return { run: new RunDirectory(path), series };
}

describe('answers to the AnomLLM tasks', () => {
  test('always "normal" scores the share of normal series, which stands beside it', async () => {
    const { run } = lazyRun('lazy', 7);
    const { table } = (await transferOf(run, null, 'TimerPO', options))!;
    const shares = table.normalShare!;
    expect(Object.keys(shares)).toEqual(Object.keys(table.metrics.byTask));
    expect(new Set(Object.values(shares)).size).toBeGreaterThan(1);
    for (const [task, set] of Object.entries(table.metrics.byTask)) {
      for (const name of ['class_accuracy', 'point_f1', 'affiliation_f1'] as const) {
        expect(set[name]?.mean).toBeCloseTo(shares[task]!, 12);
      }
      expect(String(transferTable(table))).toContain(`<td class="count">${shares[task]!.toFixed(3)}</td>`);
    }
  });

  test('stand above those of the chosen detector to the same series', async () => {
    const { run, series } = lazyRun('compared', 7);
    const { table, metrics } = (await transferOf(run, baselines, 'TimerPO', options))!;
    const learning = { kind: 'anomaly', training: null, validation: [], seed: 7 } as const;
    const iqr = await BASELINES.get('iqr')!.prepare(learning);
    const own = metricsOf(
      await Promise.all(series.map(async (one) => baselineRecord(one, await iqr.answer(one)))),
      options,
    ).byTask;
    for (const [task, set] of Object.entries(own)) expect(table.metrics.byTask[`${task}, iqr`]).toEqual(set);
    expect(Object.keys(table.metrics.byTask)).toHaveLength(2 * Object.keys(own).length);
    expect(Object.keys(metrics.byTask)).toEqual(Object.keys(own));
    // A detector writes no text: its format would be 1 by construction.
    expect(String(transferTable(table)).match(/<td class="none">/g)).toHaveLength(Object.keys(own).length);
  });

  test('to series that the generator does not give are shown without a detector', async () => {
    const { run } = lazyRun('foreign', 8);
    const { table } = (await transferOf(run, baselines, 'TimerPO', options))!;
    expect(Object.keys(table.metrics.byTask).some((row) => row.includes('iqr'))).toBe(false);
    expect(table.note).not.toContain('iqr');
  });
});
