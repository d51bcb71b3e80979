/** `summary.json` of a run: the numbers of its report, for programs. */

import { z } from 'zod';
import { writeJson } from '../src/ground/files.ts';
import { checked, readJson } from '../src/ground/json-files.ts';
import { columns } from '../src/ground/terminal.ts';
import type { Estimate } from '../src/ground/types.ts';
import type { MetricSet } from '../src/tasks/evaluation.ts';
import { taskKind } from '../src/tasks/kinds.ts';
import type { Baselines } from './baselines.ts';
import type { Metrics } from './metrics.ts';
import type { ReportInput } from './report.ts';
import { requirementsOf } from './results.ts';
import type { RunDirectory } from './run-directory.ts';
import { recorded } from './run-facts.ts';

const estimate = z
  .strictObject({
    mean: z.number(),
    ci95: z.tuple([z.number(), z.number()]).readonly(),
    n: z.int().positive(),
  })
  .refine((e) => e.ci95[0] <= e.ci95[1], 'ci95 must be [lo, hi] with lo ≤ hi');

const some = z.exactOptional(estimate);

/** Metrics that sum up every kind of answer. */
const MAIN_METRICS = [
  ...(['class_accuracy', 'balanced_accuracy', 'macro_f1', 'point_f1', 'affiliation_f1'] as const),
  ...([
    'variate_precision',
    'variate_recall',
    'variate_f1',
    'variate_exact',
    'answer_accuracy',
    'chance',
  ] as const),
] as const;

const REASONING = ['claim_precision', 'claim_recall', 'claim_f1', 'reasoning_agreement'] as const;

/** Shape with optional estimates of these names. */
const optional = <Name extends string>(...names: readonly Name[]) =>
  Object.fromEntries(names.map((name) => [name, some])) as Record<Name, typeof some>;

/** Metrics of a group of series that sum up its kind of answer. */
const typeMetrics = z.object(optional(...MAIN_METRICS, 'class_recall', 'class_precision', 'class_f1'));

/**
 * All but `reward_sampled`, the mean over the samples of each series, are measured on greedy responses. Each kind of answer has its own
 * metrics; `class_accuracy` of anomalies is over those whose kind is known.
 */
const metrics = z.object({
  format: estimate,
  reward_greedy: estimate,
  /** Absent when no response was sampled. */
  reward_sampled: some,
  ...optional(...MAIN_METRICS, ...REASONING, 'unparsable', 'point_f1_anomalous', 'affiliation_f1_anomalous'),
  per_class: z.exactOptional(z.record(z.string(), typeMetrics)),
  per_task: z.exactOptional(z.record(z.string(), typeMetrics)),
});

/** Names in a block of metrics. */
export const SUMMARY_METRICS: readonly string[] = Object.keys(metrics.shape);

const seconds = z.number().nonnegative();

const summary = z.object({
  /** Seconds that set-up took on this machine; null when it was not part of the run. */
  install_s: seconds.nullable(),
  /** Supervised stage; null when it was not run, or its policy not evaluated. */
  sft: z
    .object({
      seconds,
      samples: z.int().nonnegative(),
      metrics,
      /** Metrics of the policy before any training. */
      metrics_before: z.exactOptional(metrics),
    })
    .nullable(),
  /** Reinforcement; null as `sft`. */
  rl: z
    .object({
      seconds,
      steps: z.int().nonnegative(),
      /** Metrics of the policy that the stage started from; null when it was not evaluated. */
      metrics_before: metrics.nullable(),
      metrics_after: metrics,
      /** Paired change over the same series, after − before. */
      gain: z.exactOptional(
        z.object({ reward_greedy: estimate, reward_sampled: z.exactOptional(estimate) }).catchall(estimate),
      ),
    })
    .nullable(),
  /** Best classical detector on the same series, deterministic: both rewards are equal. Null when none was run. */
  classical: z.object({ detector: z.string(), metrics }).nullable(),
  /** Greedy responses of the last policy to further tasks, by task in `per_task`. */
  transfer: z.exactOptional(metrics),
  /** Temperature and number of samples per series behind every `reward_sampled`. */
  sampled: z.exactOptional(z.object({ temperature: z.number().positive(), samples: z.int().positive() })),
  /** Requirements of the run, in the order of the report. */
  requirements: z.exactOptional(
    z.array(
      z.object({
        /** `sft.point_f1`, `rl.gain.reward_sampled` for the lower end of an interval, `rl.not_lower.point_f1` for a mean change. */
        name: z.string(),
        at_least: z.number(),
        /** Null, as `met`, where it is not checked. */
        measured: z.number().nullable(),
        met: z.boolean().nullable(),
        not_checked: z.exactOptional(z.string()),
      }),
    ),
  ),
  environment: z.record(z.string(), z.json()),
});

type TypeMetrics = z.infer<typeof typeMetrics>;
export type SummaryMetrics = z.infer<typeof metrics>;
export type RunSummary = z.infer<typeof summary>;

/** Picks the metrics of a set by name. */
function only(set: MetricSet, names: readonly string[]): TypeMetrics {
  return Object.fromEntries(names.flatMap((name) => (set[name] === undefined ? [] : [[name, set[name]]])));
}

function byType(
  sets: Readonly<Record<string, MetricSet>>,
  names: readonly string[],
): Record<string, TypeMetrics> {
  return Object.fromEntries(Object.entries(sets).map(([key, set]) => [key, only(set, names)]));
}

/** Writes a metrics block of `summary.json`. @param all metrics of greedy responses @param rewardSampled null: nothing was sampled */
export function summaryMetrics(all: Metrics, rewardSampled: Estimate | null): SummaryMetrics {
  const { kind, overall, anomalous } = all;
  const { summary: names, groupMetrics, main } = taskKind(kind).evaluation;
  const [point_f1, affiliation_f1] = [anomalous?.['point_f1'], anomalous?.['affiliation_f1']];
  return {
    format: overall.format,
    ...only(overall, names),
    reward_greedy: overall.reward,
    ...(rewardSampled === null ? {} : { reward_sampled: rewardSampled }),
    unparsable: overall.unparsable,
    ...only(overall, REASONING),
    ...(point_f1 === undefined ? {} : { point_f1_anomalous: point_f1 }),
    ...(affiliation_f1 === undefined ? {} : { affiliation_f1_anomalous: affiliation_f1 }),
    per_class: byType(all.byClass, Object.keys(groupMetrics)),
    per_task: byType(all.byTask, main),
  };
}

const ADVICE = 'run the evaluation again';

/** Writes `summary.json`, whole or not at all. @throws DataError when a number is missing or not finite. */
export function writeSummary(path: string, value: RunSummary): void {
  writeJson(path, checked(value, summary, path, ADVICE));
}

/** Reads and checks `summary.json`. @throws DataError when it is missing, not JSON, or of another shape. */
export function readSummary(path: string): RunSummary {
  return readJson(path, summary, ADVICE);
}

type Gain = NonNullable<NonNullable<RunSummary['rl']>['gain']>;
const gainOf = (gains: ReportInput['gains']): Gain =>
  Object.fromEntries(gains.map((gain) => [gain.key, gain.estimate])) as Gain;

/** Builds the summary of a run from its report. @param transfer metrics of the last policy on further tasks */
export function summariseRun(
  run: RunDirectory,
  report: ReportInput,
  baselines: Baselines | null,
  transfer: Metrics | null,
): RunSummary {
  const { stages, gains } = report;
  const metricsBy = (key: string): SummaryMetrics | null => {
    const stage = stages.find((candidate) => candidate.key === key);
    if (stage === undefined) return null;
    // A detector is deterministic: sampling it would change nothing.
    return summaryMetrics(
      stage.metrics,
      stage.kind === 'detector' ? stage.metrics.overall.reward : stage.rewardSampled,
    );
  };
  const [initial, afterSft, afterRl] = [metricsBy('initial'), metricsBy('sft'), metricsBy('rl')];
  const classical = metricsBy('classical');
  const [sft, rl, environment] = [run.cost('sft'), run.cost('rl'), run.environment];
  return {
    install_s: recorded(environment, 'install_s'),
    sft:
      sft === null || afterSft === null
        ? null
        : {
            seconds: sft.seconds,
            samples: sft.samples,
            metrics: afterSft,
            ...(initial === null ? {} : { metrics_before: initial }),
          },
    rl:
      rl === null || afterRl === null
        ? null
        : {
            seconds: rl.seconds,
            steps: rl.steps,
            metrics_before: afterSft ?? initial,
            metrics_after: afterRl,
            ...(gains.length === 0 ? {} : { gain: gainOf(gains) }),
          },
    classical:
      classical === null || baselines === null ? null : { detector: baselines.best, metrics: classical },
    ...(transfer === null ? {} : { transfer: summaryMetrics(transfer, null) }),
    sampled: { temperature: run.recipe.eval.temperature, samples: run.recipe.eval.samples },
    requirements: requirementsOf(report).map(({ name, atLeast, measured, met }) => ({
      ...{ name, at_least: atLeast, measured, met },
      ...(report.unchecked === undefined ? {} : { not_checked: report.unchecked }),
    })),
    environment,
  };
}

const RESULTS = [
  ['format', 'format'],
  ['class', 'class_accuracy'],
  ['balanced', 'balanced_accuracy'],
  ['macro F1', 'macro_f1'],
  ['point F1', 'point_f1'],
  ['anomalous', 'point_f1_anomalous'],
  ['affil. F1', 'affiliation_f1'],
  ['answer', 'answer_accuracy'],
  ['F1', 'variate_f1'],
  ['exact set', 'variate_exact'],
  ['greedy', 'reward_greedy'],
  ['sampled', 'reward_sampled'],
  ['claim F1', 'claim_f1'],
  ['agreement', 'reasoning_agreement'],
] as const satisfies readonly (readonly [string, keyof SummaryMetrics])[];

/** Writes the results of a run as lines of a table: its policies and the best classical detector, by the metrics of their kind. */
export function summaryTable(summary: RunSummary): string[] {
  const all: [string, SummaryMetrics | null | undefined][] = [
    ['before training', summary.sft?.metrics_before],
    ['after SFT', summary.sft?.metrics ?? summary.rl?.metrics_before],
    ['after reinforcement', summary.rl?.metrics_after],
    [summary.classical?.detector ?? '', summary.classical?.metrics],
  ];
  const rows = all.flatMap(([name, block]) =>
    block === null || block === undefined ? [] : [[name, block] as const],
  );
  const shown = RESULTS.filter(([, key]) => rows.some(([, block]) => block[key] !== undefined));
  const cells = rows.map(([name, block]) => [
    name,
    ...shown.map(([, key]) => block[key]?.mean.toFixed(3) ?? '–'),
  ]);
  const lines = columns([['', ...shown.map(([name]) => name)], ...cells]).split('\n');
  const { sampled } = summary;
  if (sampled === undefined || shown.every(([, key]) => key !== 'reward_sampled')) return lines;
  return [
    ...lines,
    `greedy, sampled: mean reward; sampled at temperature ${sampled.temperature}, all others from greedy answers`,
  ];
}
