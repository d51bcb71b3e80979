/**
 * From the files of a run to its report and summary: everything that they say is read from the run directory, so that
 * both can be rebuilt at any time. What the run has not reached or has lost is left out and said to be; what is damaged
 * is an error.
 */
import { join } from 'node:path';
import { setImmediate as breathe } from 'node:timers/promises';
import { isExampleSet } from '../datasets/example-manifest.ts';
import { heldOutExamples } from '../datasets/partition.ts';
import { type DataFacts, openExamples } from '../datasets/source.ts';
import { DataError } from '../src/errors.ts';
import { type ClassProfile, learnClasses } from '../src/expcot/profile-of-classes.ts';
import type { Recipe } from '../src/recipe.ts';
import type { EvalRecord, Example } from '../src/types.ts';
import { type Baselines, runBaselines, writeBaselines } from './baselines.ts';
import { caveatsOf } from './caveats.ts';
import { rlPanels, sftPanels } from './curves.ts';
import { buildExamples, type DrawExample, exampleRule, plainDrawing } from './examples.ts';
import { gapsOf } from './gaps.ts';
import { heldOutOf, validationOf } from './held-out.ts';
import { MAIN_METRICS } from './metric-names.ts';
import { type MetricName, type MetricOptions, type Metrics, overallOf } from './metrics.ts';
import { sampleTraining } from './nearest.ts';
import { checkCoverage } from './records.ts';
import { writeReport, writeReportInput } from './report.ts';
import type { ReportInput, ReportTransfer } from './report-input.ts';
import { isHeldTo, SFT_FLOORS } from './requirements.ts';
import { POLICIES, type PolicyName, RunDirectory } from './run-directory.ts';
import { describeRun } from './run-facts.ts';
import { type AnswersByPolicy, gainsOf, policyLabel, readAnswers, stagesOf } from './run-stages.ts';
import { summarise } from './run-summary.ts';
import { type Summary, writeSummary } from './summary.ts';
import { trainingOf } from './training.ts';
import { transferOf } from './transfer.ts';

export interface AssembleOptions {
  /** Figure preset that the policy saw; the recipe's when absent. Only whole univariate series are drawn by it. */
  readonly figure?: string;
  /** Draws what the policy saw of an example, or null where it read numbers; replaces `figure`. */
  readonly draw?: DrawExample;
}

export interface AssembledReport {
  readonly input: ReportInput;
  readonly summary: Summary;
  /** What the run lacks and the report leaves out for it, one line each. */
  readonly gaps: readonly string[];
}

const METHODS = { timerpo: 'TimerPO', grpo: 'GRPO', dr_grpo: 'Dr. GRPO' } as const;

const TITLES = {
  anomaly: 'Reasoning about anomalies from',
  classification: 'Reasoning about classes from',
  variates: 'Reasoning about anomalous variates from',
} as const satisfies Readonly<Record<DataFacts['kind'], string>>;

function titleOf({ input, data }: Recipe, facts: DataFacts): string {
  const title = `${TITLES[facts.kind]} ${input === 'numbers' ? 'numbers' : 'a plot'}`;
  return isExampleSet(data.name) ? `${title}: ${facts.title}` : title;
}

/** All detectors side by side; the metrics of the best are known already. */
function detectorsTable(baselines: Baselines, best: Metrics, options: MetricOptions): ReportTransfer {
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
  const [title, head] =
    best.kind === 'classification'
      ? ['Classical classifiers', 'Classifier']
      : ['Classical detectors', 'Detector'];
  const columns: readonly MetricName[] = [...MAIN_METRICS[best.kind], 'reward'];
  return {
    title,
    note: `Every ${head.toLowerCase()} on the same held-out series. ${chosen}`,
    head,
    columns: columns.filter((name) => best.overall[name] !== undefined),
    metrics: { kind: best.kind, byTask },
  };
}

/** Greedy answers of the last policy, in the order of the held-out series. */
function lastAnswers(
  answers: AnswersByPolicy,
  series: readonly Example[],
): { readonly policy: PolicyName; readonly records: readonly EvalRecord[] } | null {
  const policy = POLICIES.toReversed().find((name) => answers[name] !== undefined);
  if (policy === undefined) return null;
  const byId = new Map(answers[policy]!.greedy.map((record) => [record.seriesId, record]));
  return { policy, records: series.map(({ id }) => byId.get(id)!) };
}

/** What the classical classifiers know of the classes; null for other kinds. */
async function profileOf(recipe: Recipe): Promise<ClassProfile | null> {
  const training = trainingOf(recipe);
  if (training === null) return null;
  return learnClasses((await sampleTraining(training, recipe.seed, breathe)).examples);
}

/** Draws what the policy saw where the caller does not say how. */
function usualDrawing({ figure, input }: Recipe, facts: DataFacts, wanted: string | undefined): DrawExample {
  if (wanted === undefined && input === 'numbers') return () => null;
  // A recipe's figure 'task' is the one that the data set names.
  return plainDrawing(wanted ?? (figure === 'task' ? (facts.figure?.preset ?? 'line') : figure));
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
  const series = heldOutOf(recipe);
  const { facts, set } = openExamples(heldOutExamples(recipe.data, recipe.seed, recipe.eval.series));
  const bootstrap: MetricOptions = {
    ...{ seed: recipe.seed, resamples: recipe.eval.bootstrap },
    ...(facts.kind === 'classification' ? { classes: facts.classes } : {}),
  };
  const answers = readAnswers(run, series, facts.classes);
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
  const gains = gainsOf(answers, held, recipe.eval.temperature, bootstrap);
  const floors = held && answers.sft !== undefined ? SFT_FLOORS : [];
  const transfer = transferOf(run, baselines, method, bootstrap);
  // A single detector has its column in the main table.
  const several = baselines !== null && Object.keys(baselines.records).length > 1;
  const detectors = several ? detectorsTable(baselines, stages.at(-1)!.metrics, bootstrap) : null;
  const environment = run.environment;
  const gaps = gapsOf(run);
  const described = describeRun(
    run,
    { facts, count: series.length, available: set === null ? null : set.count('test') },
    method,
  );
  const classes = Object.keys(stages[0]!.metrics.byClass);
  const unnamed = series.filter(({ gold }) => gold.kind === 'anomaly' && gold.class === null).length;
  const caveatData = { facts, count: series.length, unnamed };
  const input: ReportInput = {
    title: titleOf(recipe, facts),
    run: described,
    stages,
    floors,
    gains,
    curves: [...sftPanels(run.sftLines()), ...rlPanels(run.rlLines(), method)],
    examples: await buildExamples(last.records, series, {
      by: `${policyLabel(last.policy, method)}, greedy`,
      draw: options.draw ?? usualDrawing(recipe, facts, options.figure),
      classes,
      profile: await profileOf(recipe),
    }),
    exampleRule: exampleRule(facts.kind, classes.length),
    transfer: [transfer?.table ?? null, detectors].filter((table) => table !== null),
    environment: Object.keys(environment).length === 0 ? { recorded: 'nothing' } : environment,
    reproduce: ['npm ci', described.command],
    caveats: [...gaps.map((gap) => `Not whole: ${gap}.`), ...caveatsOf(run, baselines, caveatData)],
  };
  const summary = summarise(run, stages, gains, floors, transfer?.metrics ?? null, baselines);
  return { input, summary, gaps };
}

/**
 * Runs the classical detectors over the run's examples, unless their answers are there already; classifiers only where there is a
 * training split. Errors as `openExamples`.
 */
export async function ensureBaselines(runDirectory: string): Promise<void> {
  const run = new RunDirectory(runDirectory);
  if (run.baselines() !== null) return;
  const { recipe } = run;
  const [heldOut, training] = [heldOutOf(recipe), trainingOf(recipe)];
  if (training === null && heldOut[0]?.gold.kind === 'classification') return;
  const baselines = await runBaselines(heldOut, validationOf(recipe), training, { seed: recipe.seed });
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
