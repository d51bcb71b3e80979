/**
 * Report and summary of a run, made from the files of the run directory alone, so that both can be rebuilt at any time. Parts without
 * their files are left out and listed; damaged files are errors.
 *
 *   run-directory.ts   reads what a run holds                 summary.ts         the same numbers for programs
 *   results.ts         stages, changes, requirements          report-page.ts     the page, with tables (report-tables.ts),
 *   run-facts.ts       what was run, caveats, what is missing                    curves and examples
 */

import { join } from 'node:path';
import { isExampleSet } from '../datasets/example-manifest.ts';
import type { DataFacts } from '../datasets/source.ts';
import { sampleTraining } from '../src/answer/classifiers.ts';
import { type ClassProfile, learnClasses } from '../src/expcot/class-profile.ts';
import { DataError } from '../src/ground/errors.ts';
import { writeFileAtomic } from '../src/ground/files.ts';
import type { Estimate, Gold, Json, ParsedAnswer, ReasoningCheck, Score } from '../src/ground/types.ts';
import { advantageLabel, type Recipe } from '../src/recipe/recipe.ts';
import { taskKind } from '../src/tasks/kinds.ts';
import { runBaselines, writeBaselines } from './baselines.ts';
import { openHeldOut, trainingOf, validationOf } from './harness.ts';
import type { MetricOptions, Metrics } from './metrics.ts';
import { checkCoverage } from './records.ts';
import { rlPanels, sftPanels, validationPanels } from './report-curves.ts';
import { buildExamples, type DrawExample, exampleRule, plainDrawing } from './report-examples.ts';
import { runReportPage } from './report-page.ts';
import {
  detectorsTable,
  floorsOf,
  gainsOf,
  policyLabel,
  readAnswers,
  reportStages,
  transferOf,
  uncheckedReason,
} from './results.ts';
import { POLICIES, RunDirectory } from './run-directory.ts';
import { caveatsOf, describeRun, gapsOf } from './run-facts.ts';
import { type RunSummary, summariseRun, writeSummary } from './summary.ts';

export interface ReportRun {
  readonly name: string;
  /** The command line, as the user typed it. */
  readonly command: string;
  readonly recipe: string;
  /** The resolved recipe, YAML or JSON text. */
  readonly recipeText: string;
  /** Time when the run ended, ISO 8601. */
  readonly finished: string;
  readonly policy: {
    readonly name: string;
    /** Number of parameters; null when no checkpoint of the run is left. */
    readonly parameters: number | null;
    readonly description: string;
  };
  /** Name of the reinforcement method; TimerPO when absent. */
  readonly method?: string;
  readonly seeds: Readonly<Record<string, number>>;
  /** Wall-clock seconds of each stage, in order. */
  readonly seconds: Readonly<Record<string, number>>;
  /** Number of supervised samples; 0 if the stage was skipped. */
  readonly samples: number;
  /** Number of reinforcement steps; 0 if the stage was skipped. */
  readonly steps: number;
  /** Number of training series with an expert trace; absent if all have one. */
  readonly traces?: number;
  readonly trainingData: string;
  readonly heldOutData: string;
  /** Temperature of the sampled responses; absent in older pages. */
  readonly temperature?: number;
}

/** One column of the results: a policy at one point of its training, or a classical detector. */
export interface ReportStage {
  /** Short and unique: `before`, `sft`, `rl`, `classical`. */
  readonly key: string;
  /** Column header, e.g. `After SFT`. */
  readonly label: string;
  readonly kind: 'policy' | 'detector';
  /** Metrics of greedy responses. */
  readonly metrics: Metrics;
  /** Mean reward of sampled responses; null where nothing is sampled. */
  readonly rewardSampled: Estimate | null;
}

/** Requirement: the mean of a metric of one stage must be at least `atLeast`. */
export interface ReportFloor {
  readonly stage: string;
  readonly metric: string;
  readonly atLeast: number;
}

/** A paired change between two stages over the same series. */
export interface ReportGain {
  /** Name in summaries: `reward_sampled`, `reward_greedy`, or a metric of greedy answers. */
  readonly key: string;
  readonly label: string;
  readonly estimate: Estimate;
  /** Requirement: the lower bound of the interval must exceed this value; null: no requirement. */
  readonly lowerAbove: number | null;
  /** Requirement: the mean must not decrease. */
  readonly notLower: boolean;
}

/** One line of a training curve; `null` marks a step without a value. */
export interface Curve {
  readonly name: string;
  readonly x: readonly number[];
  readonly y: readonly (number | null)[];
  /** Drawn as a band around the curve. */
  readonly band?: { readonly low: readonly (number | null)[]; readonly high: readonly (number | null)[] };
}

export interface CurvePanel {
  readonly title: string;
  /** One line: what is drawn, and whether higher or lower is better. */
  readonly definition: string;
  readonly xLabel: string;
  readonly curves: readonly Curve[];
  /** Width in steps of a centred moving mean, drawn over the faint raw curve; absent or 1: none. */
  readonly smooth?: number;
  readonly log?: boolean;
}

/** Held-out series with the response, its score and the expert trace. */
export interface ReportExample {
  readonly seriesId: string;
  readonly length: number;
  readonly gold: Gold;
  /** Names of the channels; absent where there is one. */
  readonly channels?: readonly string[];
  /**
   * SVG of the series with gold and predicted intervals, one per channel (only the first of many); checked to hold no
   * active content before it is inlined. Empty where `seen` shows everything.
   */
  readonly figure: string | readonly string[];
  /** data:image/png;base64 of exactly what the policy saw; optional. */
  readonly seen?: string;
  /** True: `seen` is a figure with axes or panels, shown in its own size. Absent: a strip without axes. */
  readonly seenWhole?: boolean;
  /** Policy and sampling behind the answer: `After TimerPO, greedy`. */
  readonly by: string;
  /** Why this series is shown: `first of its class`. */
  readonly chosen?: string;
  /** Verbatim. */
  readonly response: string;
  readonly answer: ParsedAnswer;
  readonly score: Score;
  /** Check of the claims of its reasoning; absent without reasoning. */
  readonly reasoning?: ReasoningCheck;
  /** The expert trace of the same series. */
  readonly expcot: string;
  /** Heading of the trace. Default: `ExpCoT of the same series`. */
  readonly expcotLabel?: string;
}

/** Results on further tasks, or of further answerers, without requirements. */
export interface ReportTransfer {
  readonly title: string;
  readonly note: string;
  /** Header of the first column. Default: `Task`. */
  readonly head?: string;
  /** Columns after the number of series. Default: format, the main metrics of the answer kind, reward. */
  readonly columns?: readonly string[];
  /** One row each, in this order. */
  readonly metrics: Pick<Metrics, 'kind' | 'byTask'>;
  /** Reference accuracy by row: share of series without an anomaly, i.e. the score of always answering "normal". */
  readonly normalShare?: Readonly<Record<string, number>>;
  /** Rows of detectors; their columns about text stay empty, because they write none. */
  readonly detectors?: readonly string[];
}

export interface ReportInput {
  readonly title: string;
  readonly run: ReportRun;
  readonly stages: readonly ReportStage[];
  readonly floors: readonly ReportFloor[];
  readonly gains: readonly ReportGain[];
  /** Reason why no requirement is checked; absent where they are. */
  readonly unchecked?: string;
  readonly curves: readonly CurvePanel[];
  readonly examples: readonly ReportExample[];
  readonly exampleRule?: string;
  readonly transfer?: readonly ReportTransfer[];
  readonly environment: Readonly<Record<string, Json>>;
  /** Shell commands that repeat the run. */
  readonly reproduce: readonly string[];
  readonly caveats: readonly string[];
}

export interface AssembleOptions {
  /** Draws the figure that the policy saw; returns null if it read numbers. Default: the recipe's figure. */
  readonly draw?: DrawExample;
}

export interface AssembledReport {
  readonly input: ReportInput;
  readonly summary: RunSummary;
  /** Missing files and the parts of the report left out for them, one line each. */
  readonly gaps: readonly string[];
}

function titleOf({ input, data }: Recipe, facts: DataFacts): string {
  const { subject } = taskKind(facts.kind).evaluation;
  const title = `Reasoning about ${subject} from ${input === 'numbers' ? 'numbers' : 'a plot'}`;
  return isExampleSet(data.name) ? `${title}: ${facts.title}` : title;
}

/** Learns the profile of the classes; null for other kinds. */
async function profileOf(recipe: Recipe): Promise<ClassProfile | null> {
  const training = trainingOf(recipe);
  if (training === null) return null;
  return learnClasses((await sampleTraining(training, recipe.seed)).examples);
}

/** Returns the drawing function for the recipe's figure; `task` stands for the figure of the data set. */
function drawingOf({ figure, input }: Recipe, facts: DataFacts): DrawExample {
  if (input === 'numbers') return () => null;
  return plainDrawing(figure === 'task' ? (facts.figure?.preset ?? 'line') : figure);
}

/**
 * Builds the report and summary of a run directory; writes nothing.
 * @throws DataError naming the file that is missing or damaged, or when no policy was evaluated; ConfigError for an
 * unknown figure or data set.
 */
export async function assembleReport(
  runDirectory: string,
  options: AssembleOptions = {},
): Promise<AssembledReport> {
  const run = new RunDirectory(runDirectory);
  const { recipe } = run;
  const method = advantageLabel(recipe.rl);
  const { facts, set, series } = openHeldOut(recipe);
  const bootstrap: MetricOptions = {
    ...{ seed: recipe.seed, resamples: recipe.eval.bootstrap, classes: facts.classes },
  };
  const answers = readAnswers(run, series, facts.classes);
  const lastPolicy = POLICIES.toReversed().find((name) => answers[name] !== undefined);
  if (lastPolicy === undefined) {
    throw new DataError(
      `no policy was evaluated in this run; \`npx timeseer quickstart --resume --out ${runDirectory}\` completes it`,
      { file: run.file('eval') },
    );
  }
  const baselines = run.baselines();
  for (const records of Object.values(baselines?.records ?? {})) {
    checkCoverage(run.baselineFiles.answers, records, series, 1);
  }
  const unchecked = uncheckedReason(recipe);
  const stages = reportStages(answers, baselines, method, bootstrap);
  const gains = gainsOf(answers, recipe, bootstrap);
  const floors = floorsOf(recipe, answers);
  const transfer = await transferOf(run, baselines, method, bootstrap);
  // A single detector has its column in the main table.
  const hasTable = baselines !== null && Object.keys(baselines.records).length > 1;
  const detectors = hasTable ? detectorsTable(baselines, stages.at(-1)!.metrics, bootstrap) : null;
  const { environment } = run;
  const gaps = gapsOf(run);
  const data = { facts, series, available: facts.statement === null ? null : set!.count('test') };
  const described = describeRun(run, data, method);
  const classes = Object.keys(stages[0]!.metrics.byClass);
  const input: ReportInput = {
    title: titleOf(recipe, facts),
    run: described,
    stages,
    floors,
    gains,
    ...(unchecked === undefined ? {} : { unchecked }),
    curves: [
      ...sftPanels(run.sftLines()),
      ...validationPanels(run.validationLines('sft'), 'SFT'),
      ...validationPanels(run.validationLines('rl'), method),
      ...rlPanels(run.rlLines(), method),
    ],
    examples: await buildExamples(answers[lastPolicy]!.greedy, series, {
      by: `${policyLabel(lastPolicy, method)}, greedy`,
      draw: options.draw ?? drawingOf(recipe, facts),
      classes,
      profile: await profileOf(recipe),
    }),
    exampleRule: exampleRule(facts.kind, classes.length),
    transfer: [transfer?.table ?? null, detectors].filter((table) => table !== null),
    environment: Object.keys(environment).length === 0 ? { recorded: 'nothing' } : environment,
    reproduce: ['npm ci', described.command],
    caveats: [...gaps.map((gap) => `Incomplete: ${gap}.`), ...caveatsOf(run, baselines, data)],
  };
  return { input, summary: summariseRun(run, input, baselines, transfer?.metrics ?? null), gaps };
}

/**
 * Runs the classical detectors over the run's examples, unless their answers are there already; classifiers only where there is a
 * training split. Errors as `openExamples`.
 */
export async function ensureBaselines(runDirectory: string): Promise<void> {
  const run = new RunDirectory(runDirectory);
  if (run.baselines() !== null) return;
  const { recipe } = run;
  const [heldOut, training] = [openHeldOut(recipe).series, trainingOf(recipe)];
  if (training === null && heldOut[0] !== undefined && taskKind(heldOut[0].gold.kind).learnsClasses) return;
  const baselines = await runBaselines(heldOut, validationOf(recipe), training, recipe.seed);
  writeBaselines(run.baselineFiles, baselines);
}

export interface ReportFiles {
  readonly report: string;
  /** Content of the page as JSON. */
  readonly records: string;
  readonly summary: string;
}

/** Paths of the files that `writeRunReport` writes. */
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
  writeFileAtomic(files.records, `${JSON.stringify(report.input)}\n`);
  writeSummary(files.summary, report.summary);
  writeFileAtomic(files.report, runReportPage(report.input));
  return report;
}
