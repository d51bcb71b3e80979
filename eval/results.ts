/** The stages of a run as columns of its results, and what changed between them. */

import { isGenerator, openExamples } from '../datasets/source.ts';
import type { Recipe } from '../src/recipe.ts';
import type { EvalRecord, Example } from '../src/types.ts';
import { type Baselines, baselineRecord, detectorsFor } from './baselines.ts';
import type { BootstrapOptions } from './bootstrap.ts';
import {
  type MetricOptions,
  type MetricSet,
  type Metrics,
  metricOf,
  metricsOf,
  pairedGain,
} from './metrics.ts';
import { checkCoverage, reread, sameGold } from './records.ts';
import type { ReportFloor, ReportGain, ReportStage, ReportTransfer } from './report.ts';
import { type Answers, POLICIES, type PolicyName, type RunDirectory } from './run-directory.ts';
import type { Summary } from './summary.ts';

/** A paired change with its key in summaries. */
export type Gain = ReportGain & { readonly key: 'reward_sampled' | 'reward_greedy' };
export type AnswersByPolicy = Readonly<Partial<Record<PolicyName, Answers>>>;

/** Head of a policy's column. */
export function policyLabel(policy: PolicyName, method: string): string {
  return { initial: 'Before training', sft: 'After SFT', rl: `After ${method}` }[policy];
}

/**
 * Answers of every policy that was evaluated, as the run reads responses; `classes`: of a classification.
 * @throws DataError when some do not cover the held-out series
 */
export function readAnswers(
  run: RunDirectory,
  series: readonly Example[],
  classes: readonly string[],
): AnswersByPolicy {
  const channels = new Map(series.map((one) => [one.id, one.channels.length]));
  const read = (records: readonly EvalRecord[]): EvalRecord[] =>
    reread(records, ({ seriesId, gold, length }) => ({
      ...{ kind: gold.kind, length, classes, reading: run.recipe.answers },
      channels: channels.get(seriesId)!,
    }));
  const found: Partial<Record<PolicyName, Answers>> = {};
  for (const policy of POLICIES) {
    const answers = run.answers(policy);
    if (answers === null) continue;
    checkCoverage(run.answersFile(policy, 'greedy'), answers.greedy, series, 1);
    if (answers.sampled !== null) {
      checkCoverage(run.answersFile(policy, 'sampled'), answers.sampled, series);
    }
    found[policy] = {
      greedy: read(answers.greedy),
      sampled: answers.sampled === null ? null : read(answers.sampled),
    };
  }
  return found;
}

/** Columns of the results, in order: policies as they came about, then the best classical detector. */
export function stagesOf(
  answers: AnswersByPolicy,
  baselines: Baselines | null,
  method: string,
  options: MetricOptions,
): ReportStage[] {
  const policies = POLICIES.flatMap((policy): ReportStage[] => {
    const found = answers[policy];
    if (found === undefined) return [];
    return [
      {
        key: policy,
        label: policyLabel(policy, method),
        kind: 'policy',
        metrics: metricsOf(found.greedy, options),
        rewardSampled: found.sampled === null ? null : metricOf(found.sampled, 'reward', options),
      },
    ];
  });
  if (baselines === null) return policies;
  const metrics = metricsOf(baselines.records[baselines.best]!, options);
  return [
    ...policies,
    {
      key: 'classical',
      // A hyphen that does not break keeps the name in one piece in the head of a column.
      label: `Classical: ${baselines.best.replaceAll('-', '\u2011')}`,
      kind: 'detector',
      metrics,
      rewardSampled: null,
    },
  ];
}

/**
 * Paired changes between the policy that reinforcement started from and the one it made; `held`: they are required to
 * reach something; `temperature`: of the sampled answers.
 */
export function gainsOf(
  answers: AnswersByPolicy,
  held: boolean,
  temperature: number,
  options: BootstrapOptions,
): Gain[] {
  const before = answers.sft ?? answers.initial;
  const after = answers.rl;
  if (before === undefined || after === undefined) return [];
  const sampled: Gain[] =
    before.sampled === null || after.sampled === null
      ? []
      : [
          {
            key: 'reward_sampled',
            label: `Reward sampled at temperature ${temperature}`,
            estimate: pairedGain(before.sampled, after.sampled, 'reward', options),
            lowerAbove: held ? SAMPLED_GAIN_ABOVE : null,
          },
        ];
  return [
    ...sampled,
    {
      key: 'reward_greedy',
      label: 'Greedy reward',
      estimate: pairedGain(before.greedy, after.greedy, 'reward', options),
      lowerAbove: held ? GREEDY_GAIN_ABOVE : null,
    },
  ];
}

// ==== What a run must reach, and whether it does.

export type Requirement = NonNullable<Summary['requirements']>[number];

/** After the supervised stage, means over the held-out series of nano5. */
export const SFT_FLOORS: readonly ReportFloor[] = [
  { stage: 'sft', metric: 'format', atLeast: 0.98 },
  { stage: 'sft', metric: 'class_accuracy', atLeast: 0.95 },
  { stage: 'sft', metric: 'point_f1', atLeast: 0.75 },
  { stage: 'sft', metric: 'affiliation_f1', atLeast: 0.93 },
];

/** Reinforcement must raise the sampled reward, and may cost at most this much of the greedy one. */
export const SAMPLED_GAIN_ABOVE = 0;
export const GREEDY_GAIN_ABOVE = -0.02;

/** Fewer series than this say too little about a mean to hold a run to it. */
export const FEWEST_SERIES = 100;

/** Requirements are set for nano5 as it is; runs on other data, or on a handful of series, have none. */
export function isHeldTo({ data, eval: evaluation }: Recipe): boolean {
  return data.name === 'nano5' && data.length === 1000 && evaluation.series >= FEWEST_SERIES;
}

/** Whether the last policy of a run answers the AnomLLM tasks too: one that learned from generated anomalies. */
export function hasTransfer({ data, eval: evaluation }: Recipe): boolean {
  return isGenerator(data.name) && evaluation.transfer > 0;
}

/** Each requirement with its measured value, in the order of the report. */
export function requirementsOf(
  stages: readonly ReportStage[],
  floors: readonly ReportFloor[],
  gains: readonly (ReportGain & { readonly key: string })[],
): Requirement[] {
  return [
    ...floors.flatMap(({ stage, metric, atLeast }): Requirement[] => {
      const measured = stages.find(({ key }) => key === stage)?.metrics.overall[metric]?.mean;
      return measured === undefined
        ? []
        : [{ name: `${stage}.${metric}`, at_least: atLeast, measured, met: measured >= atLeast }];
    }),
    ...gains.flatMap(({ key, estimate, lowerAbove }): Requirement[] => {
      const measured = estimate.ci95[0];
      return lowerAbove === null
        ? []
        : [{ name: `rl.gain.${key}`, at_least: lowerAbove, measured, met: measured > lowerAbove }];
    }),
  ];
}

// ==== Answers to the AnomLLM tasks as a table, beside what costs nothing: always "normal", and a classical detector.

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
