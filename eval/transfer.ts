/** Answers to the AnomLLM tasks as a table, beside what costs nothing: always "normal", and a classical detector. */
import { isGenerator, openExamples } from '../datasets/source.ts';
import type { EvalRecord, Example } from '../src/types.ts';
import type { Baselines } from './baselines.ts';
import type { BootstrapOptions } from './bootstrap.ts';
import { baselineRecord, detectorsFor } from './detectors.ts';
import { type MetricSet, type Metrics, metricsOf } from './metrics.ts';
import { reread, sameGold } from './records.ts';
import type { ReportTransfer } from './report-input.ts';
import type { RunDirectory } from './run-directory.ts';
import { policyLabel } from './run-stages.ts';

const TRANSFER_LENGTH = 1000;

/** The series that the answers are to; null when the generator does not give them any more. */
function seriesOf(run: RunDirectory, records: readonly EvalRecord[]): Example[] | null {
  const { seed } = run.recipe;
  const source = openExamples({
    name: 'anomllm',
    split: 'test',
    seed,
    length: TRANSFER_LENGTH,
    count: records.length,
  });
  const series = [...source];
  const same = series.every((one, i) => {
    const record = records[i];
    return record?.seriesId === one.id && record.task === one.task && sameGold(record.gold, one.gold);
  });
  return same ? series : null;
}

/** By task, the share of series without an anomaly. */
export function normalShares(records: readonly EvalRecord[]): Record<string, number> {
  const counts = new Map<string, { all: number; normal: number }>();
  for (const { task, gold } of records) {
    const count = counts.get(task) ?? { all: 0, normal: 0 };
    count.all++;
    if (gold.kind === 'anomaly' && gold.intervals.length === 0) count.normal++;
    counts.set(task, count);
  }
  return Object.fromEntries([...counts].map(([task, { all, normal }]) => [task, normal / all]));
}

/**
 * Greedy answers to the AnomLLM tasks; null when none were asked for, or the run is about other data than generated
 * anomalies. `metrics` are of the policy alone.
 */
export function transferOf(
  run: RunDirectory,
  baselines: Baselines | null,
  method: string,
  options: BootstrapOptions,
): { readonly table: ReportTransfer; readonly metrics: Metrics } | null {
  const stored = isGenerator(run.recipe.data.name) ? run.transfer() : null;
  if (stored === null) return null;
  const reading = run.recipe.answers;
  const records = reread(stored.records, ({ gold, length }) => ({
    ...{ kind: gold.kind, length, channels: 1, classes: [], reading },
  }));
  const found = { by: stored.by, records };
  const metrics = metricsOf(found.records, options);
  const shares = normalShares(found.records);
  const detector = baselines?.best;
  const series = detector === undefined ? null : seriesOf(run, found.records);
  const read = series === null ? undefined : detectorsFor('anomaly', series).get(detector ?? '');
  const beside =
    read === undefined || series === null
      ? null
      : metricsOf(
          series.map((one) => baselineRecord(one, read(one))),
          options,
        ).byTask;
  const rows = Object.entries(metrics.byTask).flatMap(([task, set]): [string, MetricSet, number][] => {
    const share = shares[task]!;
    const other = beside?.[task];
    return [
      [task, set, share],
      ...(other === undefined ? [] : [[`${task}, ${detector}`, other, share] as [string, MetricSet, number]]),
    ];
  });
  const compared =
    beside === null
      ? ''
      : ` The rows of ${detector} are the classical detector of the main table on the same series.`;
  return {
    metrics,
    table: {
      title: 'AnomLLM tasks',
      note:
        `${policyLabel(found.by, method)}, greedy, on series of the AnomLLM generator. Trained on ${run.recipe.data.name}; nothing is required here. ` +
        'Whoever always answers “normal” has the share of normal series as class accuracy, point F1 and affiliation F1: ' +
        `a task whose numbers equal that share was in effect answered “normal” throughout, and a number below it is worse than that answer.${compared}`,
      metrics: { kind: metrics.kind, byTask: Object.fromEntries(rows.map(([name, set]) => [name, set])) },
      detectors: beside === null ? [] : Object.keys(beside).map((task) => `${task}, ${detector}`),
      normalShare: Object.fromEntries(rows.map(([name, , share]) => [name, share])),
    },
  };
}
