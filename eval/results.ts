/** The stages of a run as columns of its results, and what changed between them. */

import { isGenerator, openExamples } from '../datasets/source.ts';
import { BASELINES, baselineRecord } from '../src/answer/baselines.ts';
import { DataError } from '../src/ground/errors.ts';
import { fixed, lowerFirst, signed, upperFirst } from '../src/ground/numbers.ts';
import type { Estimate, EvalRecord, Example } from '../src/ground/types.ts';
import type { BootstrapOptions } from '../src/measures/bootstrap.ts';
import type { Recipe } from '../src/recipe/recipe.ts';
import { taskKind } from '../src/tasks/kinds.ts';
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
      extension: run.recipe.extension.ask,
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
export function reportStages(
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

/** Metrics that repeat another one of the list of changes. */
const REPEATED: ReadonlySet<string> = new Set(['reward', 'unparsable']);

/**
 * Paired changes from the policy that reinforcement started from to the one it made, of every metric that is measured.
 * @param held whether the run is held to the requirements of its recipe
 */
export function gainsOf(
  answers: AnswersByPolicy,
  { requirements, eval: { temperature } }: Recipe,
  held: boolean,
  options: MetricOptions,
): ReportGain[] {
  const before = answers.sft ?? answers.initial;
  const after = answers.rl;
  if (before === undefined || after === undefined) return [];
  const { metrics, details } = taskKind(before.greedy[0]!.gold.kind).evaluation;
  const wanted = held ? requirements : { gain: {}, notLower: [] };
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
      gain(metric, `${upperFirst((metrics[metric] ?? details[metric])!.label)}, greedy`, greedy[metric]!),
    ),
  ];
}

/** Fewer series than this say too little about a mean to hold a run to it. */
const FEWEST_SERIES = 100;

/** Whether a run is held to the requirements of its recipe. */
export const isHeld = ({ eval: { series } }: Recipe): boolean => series >= FEWEST_SERIES;

/** The means that the policies that were evaluated are required to reach: after the supervised stage, and at the end. */
export function floorsOf({ requirements }: Recipe, answers: AnswersByPolicy): ReportFloor[] {
  const last = (['rl', 'sft'] as const).find((policy) => answers[policy] !== undefined);
  const floors = (stage: 'sft' | 'rl', means: Readonly<Record<string, number>>): ReportFloor[] =>
    Object.entries(means).map(([metric, atLeast]) => ({ stage, metric, atLeast }));
  return [
    ...(answers.sft === undefined ? [] : floors('sft', requirements.sft)),
    ...(last === undefined ? [] : floors(last, requirements.final)),
  ];
}

/** Something that a run is required to reach. */
export interface Requirement {
  /** `sft.point_f1`, `rl.gain.reward_sampled` for the lower end of an interval, `rl.not_lower.point_f1` for a mean change. */
  readonly name: string;
  readonly text: string;
  /** As pages print it. */
  readonly limit: string;
  readonly atLeast: number;
  readonly measured: number;
  readonly met: boolean;
}

/**
 * Every requirement with its measured value, in the order of the report.
 * @throws DataError for a floor of a stage, or of a metric, that the report does not have
 */
export function requirementsOf({
  stages,
  floors,
  gains,
}: Pick<ReportInput, 'stages' | 'floors' | 'gains'>): Requirement[] {
  const ofStages = floors.map(({ stage: key, metric, atLeast }): Requirement => {
    const stage = stages.find((one) => one.key === key);
    if (stage === undefined) {
      throw new DataError(`report: a floor names the stage "${key}", which is not in the report`);
    }
    const measured = stage.metrics.overall[metric]?.mean;
    if (measured === undefined) {
      throw new DataError(`report: a floor is set for ${metric}, which stage "${key}" does not have`);
    }
    const limit = fixed(atLeast, 2);
    const text = `${taskKind(stage.metrics.kind).evaluation.metrics[metric]?.label ?? metric} ${lowerFirst(stage.label)} \u2265 ${limit} (measured ${fixed(measured)})`;
    return { name: `${key}.${metric}`, text, limit, atLeast, measured, met: measured >= atLeast };
  });
  const ofGains = gains.flatMap(({ key, label, estimate, lowerAbove, notLower }): Requirement[] => {
    const { mean, ci95: ends } = estimate;
    const required: Requirement[] = [];
    if (lowerAbove !== null) {
      const limit = fixed(lowerAbove, lowerAbove === 0 ? 0 : 2);
      required.push({
        ...{ name: `rl.gain.${key}`, limit, atLeast: lowerAbove, measured: ends[0] },
        text: `${label}: lower end above ${limit} (measured ${signed(ends[0], 4)})`,
        // An interval that lies below 0 is a loss, however small.
        met: ends[0] > lowerAbove && ends[1] >= 0,
      });
    }
    if (notLower) {
      required.push({
        ...{ name: `rl.not_lower.${key}`, limit: '0', atLeast: 0, measured: mean, met: mean >= 0 },
        text: `${label}: not lower than before (measured ${signed(mean, 4)})`,
      });
    }
    return required;
  });
  return [...ofStages, ...ofGains];
}

/** The AnomLLM series that answers are to; null when the generator does not give them any more. */
function transferSeries({ recipe }: RunDirectory, records: readonly EvalRecord[]): Example[] | null {
  const series = [...openExamples(transferExamples(recipe.seed, records.length))];
  const same = series.every((one, i) => {
    const record = records[i];
    return record?.seriesId === one.id && record.task === one.task && sameGold(record.gold, one.gold);
  });
  return same ? series : null;
}

/** By task, the share of series without an anomaly. */
function normalShares(records: readonly EvalRecord[]): Map<string, number> {
  const tasks = [...new Set(records.map(({ task }) => task))];
  return new Map(
    tasks.map((task) => {
      const all = records.filter((record) => record.task === task);
      return [task, all.filter(({ gold }) => !isAnomalous(gold)).length / all.length];
    }),
  );
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
  const shares = normalShares(records);
  const detector = baselines?.best ?? '';
  const series = baselines === null ? null : transferSeries(run, records);
  const learning = { kind: metrics.kind, training: null, validation: [], seed: run.recipe.seed };
  const baseline = await BASELINES.get(detector)?.prepare({ ...learning, settings: baselines?.settings });
  const beside =
    series === null || baseline === undefined
      ? {}
      : metricsOf(
          await Promise.all(series.map(async (one) => baselineRecord(one, await baseline.answer(one)))),
          options,
        ).byTask;
  await baseline?.close();
  const rows = Object.entries(metrics.byTask).flatMap(([task, set]) => {
    const share = shares.get(task)!;
    const own = { name: task, set, share, detector: false };
    const other = beside[task];
    return other === undefined
      ? [own]
      : [own, { name: `${task}, ${detector}`, set: other, share, detector: true }];
  });
  const compared =
    series === null || baseline === undefined
      ? ''
      : ` The rows of ${detector} are the classical detector of the main table on the same series.`;
  return {
    metrics,
    table: {
      title: 'AnomLLM tasks',
      note:
        `${policyLabel(stored.by, method)}, greedy, on series of the AnomLLM generator. Trained on ${data.name}; nothing is required here. ` +
        'Whoever always answers “normal” has the share of normal series as class accuracy, point F1 and affiliation F1: ' +
        `a task whose numbers equal that share was in effect answered “normal” throughout, and a number below it is worse than that answer.${compared}`,
      metrics: { kind: metrics.kind, byTask: Object.fromEntries(rows.map(({ name, set }) => [name, set])) },
      detectors: rows.flatMap((row) => (row.detector ? [row.name] : [])),
      normalShare: Object.fromEntries(rows.map(({ name, share }) => [name, share])),
    },
  };
}

/** All detectors side by side; the metrics of the best are known already. */
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
      ? `${baselines.best} stands in the main table.`
      : `${baselines.best} stands in the main table: it has the highest mean reward on ${baselines.validationSeries} series of the validation split (${names
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
