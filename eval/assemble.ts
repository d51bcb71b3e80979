/**
 * From the files of a run to its report and summary: everything that they say is read from the run directory, so that
 * both can be rebuilt at any time. What the run has not reached or has lost is left out and said to be; what is damaged
 * is an error.
 */
import { join } from 'node:path';
import { DataError } from '../src/errors.ts';
import type { EvalRecord, LabeledSeries } from '../src/types.ts';
import { type Baselines, runBaselines, writeBaselines } from './baselines.ts';
import type { BootstrapOptions } from './bootstrap.ts';
import { caveatsOf } from './caveats.ts';
import { rlPanels, sftPanels } from './curves.ts';
import { buildExamples, EXAMPLE_RULE } from './examples.ts';
import { gapsOf } from './gaps.ts';
import { heldOutSeries, validationSeries } from './held-out.ts';
import { type MetricSet, overallOf } from './metrics.ts';
import { checkCoverage } from './records.ts';
import { writeReport, writeReportInput } from './report.ts';
import type { ReportInput, ReportTransfer } from './report-input.ts';
import { isHeldTo, SFT_FLOORS } from './requirements.ts';
import { POLICIES, type PolicyName, RunDirectory } from './run-directory.ts';
import { describeRun } from './run-facts.ts';
import { type AnswersByPolicy, gainsOf, policyLabel, readAnswers, stagesOf } from './run-stages.ts';
import { summarise } from './run-summary.ts';
import { type Summary, writeSummary } from './summary.ts';
import { transferOf } from './transfer.ts';

export interface AssembleOptions {
  /** Figure preset that the policy saw; the recipe's when absent. */
  readonly figure?: string;
}

export interface AssembledReport {
  readonly input: ReportInput;
  readonly summary: Summary;
  /** What the run lacks and the report leaves out for it, one line each. */
  readonly gaps: readonly string[];
}

const METHODS = { timerpo: 'TimerPO', grpo: 'GRPO', dr_grpo: 'Dr. GRPO' } as const;

/** All detectors side by side; `overall` of the best is known already. */
function detectorsTable(baselines: Baselines, best: MetricSet, options: BootstrapOptions): ReportTransfer {
  const names = Object.keys(baselines.records).sort(
    (a, b) => (baselines.validationReward[b] ?? 0) - (baselines.validationReward[a] ?? 0),
  );
  const byTask = Object.fromEntries(
    names.map((name) => [
      name,
      name === baselines.best ? best : overallOf(baselines.records[name]!, options),
    ]),
  );
  const chosen =
    baselines.validationSeries === 0
      ? `${baselines.best} stands in the main table.`
      : `${baselines.best} stands in the main table: it has the highest mean reward on ${baselines.validationSeries} series of the validation split (${names
          .map((name) => `${name} ${baselines.validationReward[name]!.toFixed(3)}`)
          .join(', ')}), which also orders the rows.`;
  return {
    title: 'Classical detectors',
    note: `Every detector on the same held-out series. ${chosen}`,
    head: 'Detector',
    columns: ['class_accuracy', 'point_f1', 'affiliation_f1', 'reward'],
    metrics: { byTask },
  };
}

/** Greedy answers of the last policy, in the order of the held-out series. */
function lastAnswers(
  answers: AnswersByPolicy,
  series: readonly LabeledSeries[],
): { readonly policy: PolicyName; readonly records: readonly EvalRecord[] } | null {
  const policy = POLICIES.toReversed().find((name) => answers[name] !== undefined);
  if (policy === undefined) return null;
  const byId = new Map(answers[policy]!.greedy.map((record) => [record.seriesId, record]));
  return { policy, records: series.map(({ id }) => byId.get(id)!) };
}

/**
 * Reads a run directory and makes its report and summary; writes nothing.
 * @throws DataError naming the file that is missing or damaged, or when no policy was evaluated; ConfigError for an
 * unknown figure or data set.
 */
export async function assembleReport(
  runDirectory: string,
  options: AssembleOptions = {},
): Promise<AssembledReport> {
  const run = new RunDirectory(runDirectory);
  const { recipe } = run;
  const method = METHODS[recipe.rl.advantage];
  const bootstrap: BootstrapOptions = { seed: recipe.seed, resamples: recipe.eval.bootstrap };
  const series = heldOutSeries(recipe);
  const answers = readAnswers(run, series);
  const last = lastAnswers(answers, series);
  if (last === null) {
    throw new DataError(
      `no policy was evaluated in this run; \`npx timeseer quickstart --resume --out ${runDirectory}\` does what is left of it`,
      {
        file: run.file('eval'),
      },
    );
  }
  const baselines = run.baselines();
  if (baselines !== null) {
    for (const records of Object.values(baselines.records)) {
      checkCoverage(run.baselineFiles.answers, records, series, 1);
    }
  }
  const held = isHeldTo(recipe);
  const stages = stagesOf(answers, baselines, method, bootstrap);
  const gains = gainsOf(answers, held, bootstrap);
  const floors = held && answers.sft !== undefined ? SFT_FLOORS : [];
  const transfer = transferOf(run, baselines, method, bootstrap);
  const detectors =
    baselines === null ? null : detectorsTable(baselines, stages.at(-1)!.metrics.overall, bootstrap);
  const environment = run.environment;
  const gaps = gapsOf(run);
  const facts = describeRun(run, series.length, method);
  const input: ReportInput = {
    title: 'Reasoning about anomalies from a plot',
    run: facts,
    stages,
    floors,
    gains,
    curves: [...sftPanels(run.sftLines()), ...rlPanels(run.rlLines(), method)],
    examples: await buildExamples(last.records, series, {
      by: `${policyLabel(last.policy, method)}, greedy`,
      figure: options.figure ?? recipe.figure,
    }),
    exampleRule: EXAMPLE_RULE,
    transfer: [transfer?.table ?? null, detectors].filter((table) => table !== null),
    environment: Object.keys(environment).length === 0 ? { recorded: 'nothing' } : environment,
    reproduce: ['npm ci', facts.command],
    caveats: [...gaps.map((gap) => `Not whole: ${gap}.`), ...caveatsOf(run, baselines)],
  };
  const summary = summarise(run, stages, gains, floors, transfer?.metrics ?? null, baselines);
  return { input, summary, gaps };
}

/** Runs the classical detectors over the run's series, unless their answers are there already. Errors as `open`. */
export async function ensureBaselines(runDirectory: string): Promise<void> {
  const run = new RunDirectory(runDirectory);
  if (run.baselines() !== null) return;
  const baselines = await runBaselines(heldOutSeries(run.recipe), validationSeries(run.recipe));
  writeBaselines(run.baselineFiles, baselines);
}

export interface ReportFiles {
  /** The page. */
  readonly report: string;
  /** What the page is made of, to rebuild it without the run. */
  readonly records: string;
  readonly summary: string;
}

/** Paths of what `writeRunReport` writes. */
export function reportFiles(runDirectory: string): ReportFiles {
  return {
    report: join(runDirectory, 'report.html'),
    records: join(runDirectory, 'report.json'),
    summary: join(runDirectory, 'summary.json'),
  };
}

/**
 * Writes report.html, report.json and summary.json of a run, each whole or not at all, after running the classical
 * detectors where that has not been done. Errors as `assembleReport`; WriteError when the disk refuses.
 */
export async function writeRunReport(
  runDirectory: string,
  options: AssembleOptions = {},
): Promise<AssembledReport> {
  await ensureBaselines(runDirectory);
  const report = await assembleReport(runDirectory, options);
  const files = reportFiles(runDirectory);
  writeReportInput(files.records, report.input);
  writeSummary(files.summary, report.summary);
  writeReport(files.report, report.input);
  return report;
}
