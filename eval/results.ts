/** The stages of a run as columns of its results, and what changed between them. */

import { isGenerator, openExamples } from '../datasets/source.ts';
import { BASELINES, baselineRecord } from '../src/answer/baselines.ts';
import { DataError } from '../src/ground/errors.ts';
import { fixed, lowerFirst, mean, signed, upperFirst } from '../src/ground/numbers.ts';
import type { Estimate, EvalRecord, Example } from '../src/ground/types.ts';
import type { BootstrapOptions } from '../src/measures/bootstrap.ts';
import type { Recipe } from '../src/recipe/recipe.ts';
import { metricNamed, taskKind } from '../src/tasks/kinds.ts';
import type { Baselines } from './baselines.ts';
import { transferExamples } from './harness.ts';
import {
  isAnomalous,
  type MetricOptions,
  type Metrics,
  metricOf,
  metricsOf,
  overallOf,
  pairedGain,
  pairedGains,
} from './metrics.ts';
import { checkCoverage, reread, sameGold } from './records.ts';
import type { ReportFloor, ReportGain, ReportInput, ReportStage, ReportTransfer } from './report.ts';
import { type Answers, POLICIES, type PolicyName, type RunDirectory } from './run-directory.ts';

type AnswersByPolicy = Readonly<Partial<Record<PolicyName, Answers>>>;

/** Head of a policy's column. */
export function policyLabel(policy: PolicyName, method: string): string {
  return { initial: 'Before training', sft: 'After SFT', rl: `After ${method}` }[policy];
}

/**
 * Reads the answers of every policy that was evaluated. @param classes of a classification
 * @throws DataError when some do not cover the held-out series
 */
export function readAnswers(
  run: RunDirectory,
  series: readonly Example[],
  classes: readonly string[],
): AnswersByPolicy {
  const channels = new Map(series.map(({ id, channels: all }) => [id, all.length]));
  const read = (records: readonly EvalRecord[]): EvalRecord[] =>
    reread(records, ({ seriesId, gold, length }) => ({
      ...{ kind: gold.kind, length, classes, reading: run.recipe.answers },
      extension: run.recipe.extension.ask,
      channels: channels.get(seriesId)!,
    }));
  const byPolicy: Partial<Record<PolicyName, Answers>> = {};
  for (const policy of POLICIES) {
    const answers = run.answers(policy);
    if (answers === null) continue;
    checkCoverage(run.answersFile(policy, 'greedy'), answers.greedy, series, 1);
    if (answers.sampled !== null) {
      checkCoverage(run.answersFile(policy, 'sampled'), answers.sampled, series);
    }
    byPolicy[policy] = {
      greedy: read(answers.greedy),
      sampled: answers.sampled === null ? null : read(answers.sampled),
    };
  }
  return byPolicy;
}

/** Columns of the results, in order: policies as they came about, then the best classical detector. */
export function reportStages(
  answers: AnswersByPolicy,
  baselines: Baselines | null,
  method: string,
  options: MetricOptions,
): ReportStage[] {
  const policies = POLICIES.flatMap((policy): ReportStage[] => {
    const given = answers[policy];
    if (given === undefined) return [];
    return [
      {
        key: policy,
        label: policyLabel(policy, method),
        kind: 'policy',
        metrics: metricsOf(given.greedy, options),
        rewardSampled: given.sampled === null ? null : metricOf(given.sampled, 'reward', options),
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

/** Metrics left out of the list of changes, which have others of the same content. */
const REPEATED: ReadonlySet<string> = new Set(['reward', 'unparsable']);

/**
 * Paired changes from the policy that reinforcement started from to the one it made, of every metric that is measured.
 */
export function gainsOf(
  answers: AnswersByPolicy,
  { requirements: wanted, eval: { temperature } }: Recipe,
  options: MetricOptions,
): ReportGain[] {
  const before = answers.sft ?? answers.initial;
  const after = answers.rl;
  if (before === undefined || after === undefined) return [];
  const { kind } = before.greedy[0]!.gold;
  const gain = (key: string, label: string, estimate: Estimate): ReportGain => ({
    ...{ key, label, estimate },
    lowerAbove: (wanted.gain as Readonly<Record<string, number>>)[key] ?? null,
    notLower: (wanted.notLower as readonly string[]).includes(key),
  });
  const { reward, ...greedy } = pairedGains(before.greedy, after.greedy, options);
  const names = Object.keys(greedy).filter((metric) => !REPEATED.has(metric));
  return [
    ...(before.sampled === null || after.sampled === null
      ? []
      : [
          gain(
            'reward_sampled',
            `Reward sampled at temperature ${temperature}`,
            pairedGain(before.sampled, after.sampled, 'reward', options),
          ),
        ]),
    gain('reward_greedy', 'Greedy reward', reward!),
    ...names.map((metric) =>
      gain(metric, `${upperFirst(metricNamed(kind, metric).label)}, greedy`, greedy[metric]!),
    ),
  ];
}

/** Smallest number of series on which requirements are checked. */
const FEWEST_SERIES = 100;

/** Returns the reason why the requirements of a recipe are not checked; undefined where there are enough series. */
export const uncheckedReason = ({ eval: { series } }: Recipe): string | undefined =>
  series >= FEWEST_SERIES ? undefined : `needs eval.series \u2265 ${FEWEST_SERIES}`;

/** Required means of the evaluated policies: after the supervised stage, and at the end. */
export function floorsOf({ requirements }: Recipe, answers: AnswersByPolicy): ReportFloor[] {
  const last = (['rl', 'sft'] as const).find((policy) => answers[policy] !== undefined);
  const floors = (stage: 'sft' | 'rl', means: Readonly<Record<string, number>>): ReportFloor[] =>
    Object.entries(means).map(([metric, atLeast]) => ({ stage, metric, atLeast }));
  return [
    ...(answers.sft === undefined ? [] : floors('sft', requirements.sft)),
    ...(last === undefined ? [] : floors(last, requirements.final)),
  ];
}

/** A requirement of a run with its measured value. */
export interface Requirement {
  /** `sft.point_f1`, `rl.gain.reward_sampled` for the lower end of an interval, `rl.not_lower.point_f1` for a mean change. */
  readonly name: string;
  readonly text: string;
  /** Limit as text. */
  readonly limit: string;
  readonly atLeast: number;
  /** Null, as `met`, where it is not checked. */
  readonly measured: number | null;
  readonly met: boolean | null;
}

/**
 * Lists every requirement with its measured value, in the order of the report. @param unchecked reason to measure none
 * @throws DataError for a floor of a stage, or of a metric, that the report does not have
 */
export function requirementsOf({
  stages,
  floors,
  gains,
  unchecked,
}: Pick<ReportInput, 'stages' | 'floors' | 'gains' | 'unchecked'>): Requirement[] {
  const ofStages = floors.map(({ stage: key, metric, atLeast }): Requirement => {
    const stage = stages.find((candidate) => candidate.key === key);
    if (stage === undefined) {
      throw new DataError(`report: a floor names the stage "${key}", which is not in the report`);
    }
    const name = `${key}.${metric}`;
    const limit = fixed(atLeast, 2);
    const asked = `${taskKind(stage.metrics.kind).evaluation.metrics[metric]?.label ?? metric} ${lowerFirst(stage.label)} \u2265 ${limit}`;
    if (unchecked !== undefined) return { name, text: asked, limit, atLeast, measured: null, met: null };
    const measured = stage.metrics.overall[metric]?.mean;
    if (measured === undefined) {
      throw new DataError(`report: a floor is set for ${metric}, which stage "${key}" does not have`);
    }
    const text = `${asked} (measured ${fixed(measured)})`;
    return { name, text, limit, atLeast, measured, met: measured >= atLeast };
  });
  const ofGains = gains.flatMap(({ key, label, estimate, lowerAbove, notLower }): Requirement[] => {
    const { mean: change, ci95: ends } = estimate;
    const measuredAs = (value: number): string =>
      unchecked === undefined ? ` (measured ${signed(value, 4)})` : '';
    const required: Requirement[] = [];
    if (lowerAbove !== null) {
      const limit = fixed(lowerAbove, lowerAbove === 0 ? 0 : 2);
      required.push({
        ...{ name: `rl.gain.${key}`, limit, atLeast: lowerAbove, measured: ends[0] },
        text: `${label}: lower end above ${limit}${measuredAs(ends[0])}`,
        // An interval that lies below 0 is a loss, however small.
        met: ends[0] > lowerAbove && ends[1] >= 0,
      });
    }
    if (notLower) {
      required.push({
        ...{ name: `rl.not_lower.${key}`, limit: '0', atLeast: 0, measured: change, met: change >= 0 },
        text: `${label}: not lower than before${measuredAs(change)}`,
      });
    }
    return required;
  });
  const open = { measured: null, met: null };
  return [
    ...ofStages,
    ...(unchecked === undefined ? ofGains : ofGains.map((gain) => ({ ...gain, ...open }))),
  ];
}

/** Generates the AnomLLM series of the answers; null where the generator no longer gives the same. */
function transferSeries({ recipe }: RunDirectory, records: readonly EvalRecord[]): Example[] | null {
  const series = [...openExamples(transferExamples(recipe.seed, records.length))];
  const same = series.every(({ id, task, gold }, i) => {
    const record = records[i];
    return record?.seriesId === id && record.task === task && sameGold(record.gold, gold);
  });
  return same ? series : null;
}

/** Share of a task's series without an anomaly. */
function normalShare(records: readonly EvalRecord[], name: string): number {
  const normal = records.filter(({ task }) => task === name).map(({ gold }) => (isAnomalous(gold) ? 0 : 1));
  return mean(normal);
}

/**
 * Greedy answers to the AnomLLM tasks, beside what costs nothing: always "normal", and the chosen detector. Null when none were
 * asked for, or the run is about other data than generated anomalies. `metrics` are of the policy alone.
 */
export async function transferOf(
  run: RunDirectory,
  baselines: Baselines | null,
  method: string,
  options: BootstrapOptions,
): Promise<{ readonly table: ReportTransfer; readonly metrics: Metrics } | null> {
  const { data, answers: reading } = run.recipe;
  const stored = isGenerator(data.name) ? run.transfer() : null;
  if (stored === null) return null;
  const records = reread(stored.records, ({ gold, length }) => ({
    ...{ kind: gold.kind, length, channels: 1, classes: [], reading },
  }));
  const metrics = metricsOf(records, options);
  const detector = baselines?.best ?? '';
  const series = baselines === null ? null : transferSeries(run, records);
  const learning = { kind: metrics.kind, training: null, validation: [], seed: run.recipe.seed };
  const baseline = await BASELINES.get(detector)?.prepare({ ...learning, settings: baselines?.settings });
  const beside =
    series === null || baseline === undefined
      ? {}
      : metricsOf(
          await Promise.all(
            series.map(async (example) => baselineRecord(example, await baseline.answer(example))),
          ),
          options,
        ).byTask;
  await baseline?.close();
  const rows = Object.entries(metrics.byTask).flatMap(([task, set]) => {
    const share = normalShare(records, task);
    const row = { name: task, set, share, detector: false };
    const detected = beside[task];
    return detected === undefined
      ? [row]
      : [row, { name: `${task}, ${detector}`, set: detected, share, detector: true }];
  });
  const compared =
    series === null || baseline === undefined
      ? ''
      : ` Rows of ${detector}: the classical detector of the main table on the same series.`;
  return {
    metrics,
    table: {
      title: 'AnomLLM tasks',
      note:
        `${policyLabel(stored.by, method)}, greedy, on series of the AnomLLM generator. Trained on ${data.name}; nothing is required here. ` +
        'A policy that always answers “normal” scores the share of normal series in class accuracy, point F1 and affiliation F1. ' +
        `Scores equal to that share mean that the policy in effect always answered “normal”; lower scores are worse than that.${compared}`,
      metrics: { kind: metrics.kind, byTask: Object.fromEntries(rows.map(({ name, set }) => [name, set])) },
      detectors: rows.flatMap((row) => (row.detector ? [row.name] : [])),
      normalShare: Object.fromEntries(rows.map(({ name, share }) => [name, share])),
    },
  };
}

/** Table of all detectors. @param best metrics of the chosen one, known already */
export function detectorsTable(baselines: Baselines, best: Metrics, options: MetricOptions): ReportTransfer {
  const names = Object.keys(baselines.records).sort(
    (a, b) => (baselines.validationReward[b] ?? 0) - (baselines.validationReward[a] ?? 0),
  );
  const byTask = Object.fromEntries(
    names.map((name) => [
      name,
      name === baselines.best ? best.overall : overallOf(baselines.records[name]!, options),
    ]),
  );
  const chosen =
    baselines.validationSeries === 0
      ? `${baselines.best} is the one in the main table.`
      : `${baselines.best} is the one in the main table: it has the highest mean reward on ${baselines.validationSeries} series of the validation split (${names
          .map((name) => `${name} ${baselines.validationReward[name]!.toFixed(3)}`)
          .join(', ')}), which also orders the rows.`;
  const { detector, main } = taskKind(best.kind).evaluation;
  const columns = [...main, 'reward'];
  return {
    title: `Classical ${detector}s`,
    note: `Every ${detector} on the same held-out series. ${chosen}`,
    head: upperFirst(detector),
    columns: columns.filter((name) => best.overall[name] !== undefined),
    metrics: { kind: best.kind, byTask },
  };
}
