/** `timeseer eval`: records, metrics and a table for one policy and one data set. */
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { openSeries, type SeriesAddress } from '../../datasets/partition.ts';
import { BASELINES, baselineRecord } from '../../eval/baselines.ts';
import { type MetricName, type MetricSet, type Metrics, metricsOf } from '../../eval/metrics.ts';
import { writeRecords } from '../../eval/records.ts';
import { ConfigError } from '../errors.ts';
import { writeFileAtomic } from '../files.ts';
import { withInterrupt } from '../interrupt.ts';
import type { Estimate, EvalRecord } from '../types.ts';
import { runEvalStage } from './eval-stage.ts';
import { findPolicy } from './find-policy.ts';

export interface EvalRequest {
  readonly policy: string;
  readonly data: string;
  readonly split: 'train' | 'validation' | 'test';
  readonly seed: number | undefined;
  readonly count: number;
  readonly length: number;
  readonly temperature: number;
  readonly samples: number;
  readonly maxTokens: number;
  readonly workers: number;
  readonly device: string;
  readonly out: string | undefined;
  readonly classical: boolean;
  readonly quiet: boolean;
  readonly json: boolean;
}

const SHOWN: readonly [MetricName, string][] = [
  ['format', 'format'],
  ['class_accuracy', 'class'],
  ['point_f1', 'point F1'],
  ['affiliation_f1', 'affil. F1'],
  ['reward', 'reward'],
];

function check(given: EvalRequest): void {
  for (const [name, value] of [
    ['count', given.count],
    ['samples', given.samples],
    ['max-tokens', given.maxTokens],
    ['workers', given.workers],
  ] as const) {
    if (!Number.isInteger(value) || value < 1) {
      throw new ConfigError(`--${name}: got ${value}, expected an integer ≥ 1`);
    }
  }
  if (!(given.temperature >= 0 && given.temperature <= 10)) {
    throw new ConfigError(`--temperature: got ${given.temperature}, expected a number from 0 to 10`);
  }
}

export async function runEval(given: EvalRequest): Promise<void> {
  check(given);
  if (given.out !== undefined && existsSync(given.out) && !statSync(given.out).isDirectory()) {
    throw new ConfigError(`${given.out}: is a file; give a directory with --out`);
  }
  const from = findPolicy(given.policy);
  const seed = given.seed ?? 42;
  const { data: name, split, length, count } = given;
  const series: SeriesAddress = { name, split, seed, length, count };
  const [records] = await withInterrupt((signal) =>
    runEvalStage({
      ...given,
      from,
      label: 'eval',
      series,
      modes: [{ temperature: given.temperature, samples: given.samples }],
      seed,
      silent: given.quiet,
      signal,
    }),
  );
  const metrics = metricsOf(records!);
  const classical = given.classical ? classicalMetrics(series) : {};
  const result = { policy: from, data: { ...series }, temperature: given.temperature, metrics, classical };
  if (given.out !== undefined) {
    writeRecords(join(given.out, 'records.jsonl'), records!);
    writeFileAtomic(join(given.out, 'metrics.json'), `${JSON.stringify(result, null, 2)}\n`);
  }
  process.stdout.write(given.json ? `${JSON.stringify(result)}\n` : table(metrics, classical));
}

/** Every detector on the same series. None is chosen here: a choice needs a validation split. */
function classicalMetrics(address: SeriesAddress): Record<string, MetricSet> {
  const records: Record<string, EvalRecord[]> = {};
  const source = openSeries(address);
  for (const one of source) {
    for (const [name, read] of BASELINES) {
      records[name] ??= [];
      records[name].push(baselineRecord(one, read(one.values)));
    }
  }
  return Object.fromEntries(Object.entries(records).map(([name, list]) => [name, metricsOf(list).overall]));
}

function table(metrics: Metrics, classical: Readonly<Record<string, MetricSet>>): string {
  const groups: [string, MetricSet][] = [
    ['all series', metrics.overall],
    ...(metrics.anomalous === null ? [] : [['anomalous alone', metrics.anomalous] as [string, MetricSet]]),
    ...Object.entries(metrics.byClass).map(([name, set]): [string, MetricSet] => [`  ${name}`, set]),
    ...(Object.keys(metrics.byTask).length > 1
      ? Object.entries(metrics.byTask).map(([name, set]): [string, MetricSet] => [`  ${name}`, set])
      : []),
    ...Object.entries(classical).map(([name, set]): [string, MetricSet] => [`classical: ${name}`, set]),
  ];
  const width = Math.max(...groups.map(([name]) => name.length)) + 2;
  const cell = ({ mean, ci95 }: Estimate): string =>
    `${mean.toFixed(3)} [${ci95[0].toFixed(3)}, ${ci95[1].toFixed(3)}]`.padEnd(23);
  const head = `${''.padEnd(width)}${SHOWN.map(([, label]) => label.padEnd(23)).join('')}n\n`;
  const lines = groups.map(
    ([name, set]) =>
      `${name.padEnd(width)}${SHOWN.map(([metric]) => cell(set[metric])).join('')}${set.reward.n}\n`,
  );
  return `${head}${lines.join('')}means over series with bootstrap 95 % intervals; an unparsable answer counts as 0\n`;
}
