/**
 * Study: runs of a grid, one after the other in one process, each an ordinary run directory; then table, curves and page.
 *
 *   study.yaml                       the study file, as it was last given
 *   SETTING/start/seed-N/            the run that the arms of a setting begin with
 *   SETTING/ARM/seed-N/              a cell; finished, it keeps its recipe, metrics, policy and answers
 *     eval/POLICY.study.T.jsonl      answers at temperature T
 *     eval/POLICY.study.json         what the table needs of them; written last: the cell is finished
 *   study.json study.md study.html study.png   the results
 */
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { heldOutExamples, openExamples, validationExamples } from '../../datasets/source.ts';
import { writeRecords } from '../../eval/records.ts';
import { interventionsOn, openingsOf, reliedOn } from '../../eval/reliance.ts';
import { POLICIES, type PolicyName } from '../../eval/run-directory.ts';
import { studyMarkdown, studyPage } from '../../eval/study-page.ts';
import { studyPicture } from '../../eval/study-picture.ts';
import {
  answersOf,
  CURVES,
  cellResultSchema,
  type FinishedCell,
  GATES,
  STUDY_VERSION,
  type StepLine,
  type StudyCellResult,
  type StudyResults,
  settingResult,
} from '../../eval/study-results.ts';
import { openEngine, prepareEngine } from '../answer/local.ts';
import { findPolicy } from '../answer/reference.ts';
import { ConfigError, TimeseerError } from '../ground/errors.ts';
import { SystemError, tidyUp, WriteError, writeFileAtomic } from '../ground/files.ts';
import { Interrupted, withInterrupt } from '../ground/interrupt.ts';
import { readJson } from '../ground/json-files.ts';
import { inClaimed } from '../ground/lock.ts';
import { getOrMake } from '../ground/maps.ts';
import { mean, sum } from '../ground/numbers.ts';
import { fits } from '../ground/paths.ts';
import { timerText } from '../ground/progress.ts';
import { say, shellWord } from '../ground/terminal.ts';
import type { EvalRecord } from '../ground/types.ts';
import { changedKeys, loadRecipe } from '../recipe/config.ts';
import { armTitle, type Cell, loadStudy, START, type Study } from '../recipe/study.ts';
import { readLog } from '../train/metrics.ts';
import { answerExamples, answerInWorkers } from './eval-stage.ts';
import { Run, runSession, writeEnvironment } from './run.ts';
import { prepareInitial } from './run-policy.ts';
import type { Likelihood } from './stage.ts';
import { runTrainingStage } from './stage.ts';

export interface StudyRequest {
  /** Study by name or path. */
  readonly study: string;
  readonly out: string;
  /** Patterns over `SETTING/ARM/seed-N` of the cells to run; all cells when empty. */
  readonly only: readonly string[];
  /** Minutes after which no further cell is started. */
  readonly budget: number | undefined;
  readonly resume: boolean;
  /** Rebuilds the results without training. */
  readonly report: boolean;
  readonly device: string;
  readonly quiet: boolean;
}

interface StudyOutcome {
  readonly out: string;
  readonly files: Readonly<Record<'json' | 'markdown' | 'page' | 'picture', string>>;
  readonly results: StudyResults;
  /** Reason for unfinished cells: the time budget; null otherwise. */
  readonly stopped: 'budget' | null;
  /** Command that resumes the study. */
  readonly resume: string;
}

/** Returns true where a pattern matches the first parts of `SETTING/ARM/seed-N`; `*` matches any text within a part. */
export function matches(path: string, pattern: string): boolean {
  const parts = path.split('/');
  const wanted = pattern.split('/');
  return wanted.length <= parts.length && wanted.every((part, i) => fits(parts[i]!, part));
}

/** The chosen cells in order, and before them the starts that they need. @throws ConfigError for a pattern without a cell */
function chosenCells(cells: readonly Cell[], only: readonly string[]): readonly Cell[] {
  if (only.length === 0) return cells;
  const useless = only.find((pattern) => !cells.some(({ path }) => matches(path, pattern)));
  if (useless !== undefined) {
    const known = [...new Set(cells.map(({ setting, arm }) => `${setting}/${arm}`))];
    throw new ConfigError(`--only ${useless}: no such cell; cells: ${known.join(', ')}, each with /seed-N`);
  }
  const chosen = cells.filter(({ path }) => only.some((pattern) => matches(path, pattern)));
  return cells.filter((cell) =>
    chosen.some((kept) => kept === cell || kept.start === cell.path || kept.run === cell.path),
  );
}

/** Last policy of a cell's training. */
function lastPolicy({ recipe, set }: Cell): PolicyName {
  const { sft, rl } = loadRecipe(recipe, set);
  return rl.steps > 0 ? 'rl' : sft.samples > 0 ? 'sft' : 'initial';
}

/** Evaluation settings of a cell, as its result records them. */
const askedOf = ({
  evaluation: { intervene, ...evaluation },
  data,
}: Cell): StudyCellResult['evaluation'] => ({
  ...evaluation,
  ...(intervene ? { intervene } : {}),
  temperatures: [...evaluation.temperatures],
  data: { ...data },
});

const resultFile = (out: string, cell: Cell): string =>
  join(out, cell.path, 'eval', `${lastPolicy(cell)}.study.json`);

/**
 * Reads the result of a finished cell; null where it is unfinished, or was evaluated under other settings.
 * @throws ConfigError where it was run with another recipe than the study has now; DataError when it is damaged
 */
function resultOf(out: string, cell: Cell): StudyCellResult | null {
  const directory = join(out, cell.run);
  if (!Run.begun(directory)) return null;
  checkSameRecipe(new Run(directory), cell);
  const file = resultFile(out, cell);
  if (!existsSync(file)) return null;
  const result = readJson(file, cellResultSchema, 'remove it to evaluate the cell again');
  return JSON.stringify(result.evaluation) === JSON.stringify(askedOf(cell)) ? result : null;
}

/** @throws ConfigError naming the keys that differ; the path of the start does not count */
function checkSameRecipe(run: Run, cell: Cell): void {
  const now = loadRecipe(cell.recipe, cell.set);
  const moved = (key: string): boolean => cell.continues && key === 'policy.init';
  const changed = changedKeys(run.recipe, now).filter((key) => !moved(key));
  if (changed.length === 0) return;
  throw new ConfigError(
    `${run.path}: this cell was started with other values of ${changed.join(', ')} than the study has now; ` +
      'remove its directory to run it again, or choose another --out',
  );
}

const sameVocabulary = (a: string, b: string): boolean =>
  readFileSync(join(a, 'tokenizer.json')).equals(readFileSync(join(b, 'tokenizer.json')));

/** Trains and evaluates a cell, or resumes it. @throws Interrupted when stopped */
async function runCell(cell: Cell, given: StudyRequest): Promise<void> {
  const { device } = given;
  const out = join(given.out, cell.run);
  const splits = ['train', cell.evaluation.split] as const;
  const open = (): Run => {
    const begun = Run.begun(out);
    const run = Run.open(out, { recipe: begun ? null : cell.recipe, set: begun ? [] : cell.set, splits });
    checkSameRecipe(run, cell);
    return run;
  };
  await runSession(null, { out, device }, open, async (run) => {
    const { sft, rl } = run.recipe;
    // Off a terminal, progress of single stages would fill thousands of lines.
    const silent = given.quiet || !process.stderr.isTTY;
    const stage = { device, resume: true, force: false, silent };
    writeEnvironment(run, device, { workers: Math.max(sft.workers, rl.workers) });
    // A finished cell keeps only its last policy: further settings evaluate it, and nothing before it is trained again.
    const reinforced = rl.steps > 0 && run.stageFinished('rl');
    if (sft.samples > 0 && !reinforced && !run.stageFinished('sft'))
      await runTrainingStage(run, 'sft', stage);
    if (rl.steps > 0 && !reinforced) await runTrainingStage(run, 'rl', stage);
    const last = lastPolicy(cell);
    if (last === 'initial') prepareInitial(run);
    const result = await evaluateCell(run, cell, last, { device, silent, out: given.out });
    prune(run, last);
    const text = JSON.stringify(result, (_, value) =>
      typeof value === 'number' && !Number.isInteger(value) ? Number(value.toFixed(6)) : value,
    );
    writeFileAtomic(resultFile(given.out, cell), `${text}\n`);
  });
}

/** Writes the answers of a cell's policy and computes its result. */
async function evaluateCell(
  run: Run,
  cell: Cell,
  last: PolicyName,
  { device, silent, out }: { readonly device: string; readonly silent: boolean; readonly out: string },
): Promise<StudyCellResult> {
  const { eval: asked, answers, inspect, sft, rl } = run.recipe;
  const { data } = cell;
  const { split, series, seed, samples, temperatures, intervene } = cell.evaluation;
  const examples =
    split === 'test' ? heldOutExamples(data, seed, series) : validationExamples(data, seed, series);
  if (examples === null) {
    throw new ConfigError(
      `${cell.setting}: evaluation.split is validation, but ${data.name} has no such split`,
    );
  }
  const from = run.policy(last);
  const start = cell.start === null ? null : findPolicy(join(out, cell.start));
  const comparable = start !== null && sameVocabulary(start, from);
  const hottest = Math.max(...temperatures);
  const began = performance.now();
  const job = {
    ...{ from, label: 'eval', examples, maxTokens: asked.maxTokens, seed, reading: answers, device, silent },
    workers: Math.max(sft.workers, rl.workers),
    // An arm that is not trained has the card of its start.
    ...(inspect.tour > 0 ? { inspect } : {}),
  };
  const modes = await answerExamples({
    ...job,
    modes: temperatures.map((temperature) => ({
      ...{ temperature, samples: temperature === 0 ? 1 : samples },
      ...(temperature === hottest && hottest > 0 ? { reference: comparable ? start : from } : {}),
    })),
  });
  const measured = modes.map(({ records }, m) => {
    writeRecords(join(out, cell.path, 'eval', `${last}.study.${temperatures[m]}.jsonl`), records);
    return answersOf(temperatures[m]!, records);
  });
  const sampled = modes[temperatures.indexOf(hottest)]!;
  const greedy = modes[temperatures.indexOf(0)];
  const reliance = intervene && greedy !== undefined ? await relianceColumns(greedy.records) : null;
  const [trained, reinforced] = [run.stageRecord('sft'), run.stageRecord('rl')];
  return {
    version: STUDY_VERSION,
    evaluation: askedOf(cell),
    kind: openExamples(examples).facts.kind,
    series: measured[0]!.ids,
    answers: measured.map((mode) => mode.answers),
    tokens: hottest === 0 ? null : { temperature: hottest, ...tokensOf(sampled, comparable) },
    reliance,
    training: { samples: trained?.samples ?? 0, steps: reinforced?.steps ?? 0 },
    seconds: {
      training: (trained?.seconds ?? 0) + (reinforced?.seconds ?? 0),
      evaluation: (performance.now() - began) / 1000,
    },
  };

  /** Continues from changed reasonings of greedy records; null where none has reasoning. */
  async function relianceColumns(records: readonly EvalRecord[]): Promise<StudyCellResult['reliance']> {
    if (records.every(({ answer }) => !answer.think?.trim())) return null;
    const planned = interventionsOn(records, openExamples(examples!));
    const requests = planned.flatMap((each) =>
      Object.entries(openingsOf(each)).map(([sample, opening]) => ({
        ...{ number: each.number, sample: Number(sample), temperature: 0, opening },
      })),
    );
    const continued: EvalRecord[] = [];
    await withInterrupt((signal) =>
      answerInWorkers(job, job.workers, requests, (record) => continued.push(record), signal),
    );
    return reliedOn(planned, continued, measured[0]!.ids);
  }
}

/** Means per token by series, in the order of the records. */
function tokensOf(
  {
    records,
    likelihoods,
  }: { readonly records: readonly EvalRecord[]; readonly likelihoods: readonly Likelihood[] },
  comparable: boolean,
): { readonly entropy: number[]; readonly kl: number[] | null } {
  const sums = new Map<string, { tokens: number; entropy: number; kl: number }>();
  for (const [i, { seriesId }] of records.entries()) {
    const { tokens, logProb, reference } = likelihoods[i]!;
    const sum = getOrMake(sums, seriesId, () => ({ tokens: 0, entropy: 0, kl: 0 }));
    sum.tokens += tokens;
    sum.entropy -= logProb;
    sum.kl += logProb - reference;
  }
  const all = [...sums.values()];
  return {
    entropy: all.map(({ entropy, tokens }) => entropy / tokens),
    kl: comparable ? all.map(({ kl, tokens }) => kl / tokens) : null,
  };
}

/** Files of a stage that a finished cell keeps. */
const KEPT = new Set(['metrics.jsonl', 'validation.jsonl', 'tensorboard', 'stage.json', 'policy']);

/** Removes checkpoints, completions and the policies before the last one. */
function prune(run: Run, last: PolicyName): void {
  for (const stage of ['sft', 'rl'] as const) {
    const directory = run.file(stage);
    for (const name of existsSync(directory) ? readdirSync(directory) : []) {
      if (!KEPT.has(name)) rmSync(join(directory, name), { recursive: true, force: true });
    }
  }
  for (const policy of POLICIES) {
    if (policy !== last) rmSync(run.policy(policy), { recursive: true, force: true });
  }
}

/** Logged numbers of a run's reinforcement that are drawn as curves. */
function stepLines(run: Run): StepLine[] {
  const evaluated = new Map(readLog(run.file('rl', 'validation.jsonl')).map((line) => [line.step, line]));
  return readLog(run.file('rl', 'metrics.jsonl')).map((line) => {
    const tree = { ...line, validation: evaluated.get(line.step) };
    const value = (path: string): number | null => {
      const number = path
        .split('.')
        .reduce<unknown>((part, key) => (part as Record<string, unknown> | null | undefined)?.[key], tree);
      return typeof number === 'number' ? number : null;
    };
    const names = [...CURVES, ...GATES].map(({ name }) => name);
    return { step: line.step, ...Object.fromEntries(names.map((name) => [name, value(name)])) };
  });
}

/** Computes the results of the finished cells and writes them. @throws DataError, ConfigError as `resultOf` */
async function buildResults(
  study: Study,
  out: string,
  failed: StudyResults['failed'] = [],
): Promise<Pick<StudyOutcome, 'results' | 'files'>> {
  const { file, name, given } = study;
  const cells = study.cells(out);
  const finished = cells.flatMap((cell): FinishedCell[] => {
    const result = resultOf(out, cell);
    if (result === null) return [];
    const { setting, arm, seed } = cell;
    return [{ setting, arm, seed, result, steps: stepLines(new Run(join(out, cell.run))) }];
  });
  const settings = Object.entries(file.settings).flatMap(([setting, { title, policies = setting }]) => {
    const { start } = file.settings[policies]!;
    const inSetting = cells.filter((cell) => cell.setting === setting);
    const arms = [...new Set(inSetting.map(({ arm }) => arm))].map((arm) => ({
      arm,
      title: armTitle(file, arm),
    }));
    const { split, samples } = inSetting[0]!.evaluation;
    const result = settingResult(
      {
        ...{ setting, title: title ?? setting, split, samples, arms, base: file.base },
        start: start === undefined ? null : START,
        named: [...(file.primary === null ? [] : [file.primary]), ...Object.keys(file.margins)],
        cells: finished.filter((cell) => cell.setting === setting),
      },
      file.bootstrap,
    );
    return result === null ? [] : [result];
  });
  const results: StudyResults = {
    ...{ version: STUDY_VERSION, name, title: file.title ?? name },
    command: `timeseer study ${shellWord(given)} --out DIR`,
    ...{
      base: file.base,
      baseTitle: armTitle(file, file.base),
      primary: file.primary,
      margins: file.margins,
      seeds: file.seeds,
      bootstrap: file.bootstrap,
    },
    ...{ finished: finished.length, cells: cells.length, failed, settings },
  };
  const files = {
    json: join(out, 'study.json'),
    markdown: join(out, 'study.md'),
    page: join(out, 'study.html'),
    picture: join(out, 'study.png'),
  };
  writeFileAtomic(files.json, `${JSON.stringify(results, rounded, 1)}\n`);
  writeFileAtomic(files.markdown, studyMarkdown(results));
  writeFileAtomic(files.page, studyPage(results, study.text));
  const picture = await studyPicture(results);
  if (picture !== null) writeFileAtomic(files.picture, picture);
  return { results, files };
}

const rounded = (_: string, value: unknown): unknown =>
  typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(6)) : value;

/** Estimates the remaining time from finished cells: of the same arm and setting, else of the setting, else of any. */
class Pace {
  readonly #taken: { readonly cell: Cell; readonly seconds: number }[] = [];

  add(cell: Cell, { seconds }: StudyCellResult): void {
    this.#taken.push({ cell, seconds: seconds.training + seconds.evaluation });
  }

  /** Seconds left; null before the first finished cell. */
  left(cells: readonly Cell[]): number | null {
    const likely = cells.map(({ setting, arm }) => {
      const inSetting = this.#taken.filter(({ cell }) => cell.setting === setting);
      const known = [inSetting.filter(({ cell }) => cell.arm === arm), inSetting, this.#taken].find(
        (some) => some.length > 0,
      );
      return known === undefined ? 0 : mean(known.map(({ seconds }) => seconds));
    });
    return this.#taken.length === 0 ? null : sum(likely);
  }
}

/** Returns true for an error of a single cell, after which the others continue: not the disk, the settings or an interrupt. */
const isOfCell = (error: unknown): error is TimeseerError =>
  error instanceof TimeseerError &&
  ![Interrupted, WriteError, SystemError, ConfigError].some((type) => error instanceof type);

const GREEDY = 0;

/** `reward .724 greedy, .640 at T 1`. */
function rewardsOf({ answers }: StudyCellResult): string {
  const shown = answers.filter(({ temperature }, i) => temperature === GREEDY || i === answers.length - 1);
  const means = shown.map(({ temperature, values }) => {
    const rewards = values['reward']!.flatMap((value) => value ?? []);
    return `${mean(rewards).toFixed(3)} ${temperature === GREEDY ? 'greedy' : `at T ${temperature}`}`;
  });
  return `reward ${means.join(', ')}`;
}

/**
 * Runs the unfinished cells in order, and writes the results after every seed and at the end.
 * @throws ConfigError for the study, a pattern, a cell of another recipe, and a directory that holds a study already without `resume`;
 *   Interrupted when stopped, after printing the command that resumes on stderr
 */
export async function runStudy(given: StudyRequest): Promise<StudyOutcome> {
  const study = loadStudy(given.study);
  const { out } = given;
  const log = given.quiet ? () => {} : say;
  const copy = join(out, 'study.yaml');
  const again = resumeCommand(given);
  if (given.report) {
    if (!existsSync(copy)) throw new ConfigError(`${out}: holds no study (no study.yaml) to report`);
    return { out, ...(await buildResults(study, out)), stopped: null, resume: again };
  }
  const cells = chosenCells(study.cells(out), given.only);
  if (existsSync(copy) && !given.resume) {
    throw new ConfigError(`${out} holds a study: add --resume to continue it, or choose another --out`);
  }
  await prepareEngine(given.device);
  openEngine(given.device);
  return inClaimed(out, async (held) => {
    tidyUp(out, () => true);
    writeFileAtomic(copy, study.text);
    const pace = new Pace();
    const todo = cells.filter((cell) => {
      const result = resultOf(out, cell);
      if (result !== null) pace.add(cell, result);
      return result === null;
    });
    const failed: { cell: string; reason: string }[] = [];
    const end = performance.now() + 60_000 * (given.budget ?? Number.POSITIVE_INFINITY);
    let stopped: StudyOutcome['stopped'] = null;
    for (const [i, cell] of todo.entries()) {
      if (performance.now() >= end) {
        stopped = 'budget';
        break;
      }
      const left = pace.left(todo.slice(i));
      const number = cells.length - todo.length + i + 1;
      log(`${number}/${cells.length}  ${cell.path}${left === null ? '' : `  ${timerText(left)} left`}`);
      const began = performance.now();
      try {
        await runCell(cell, given);
        const result = resultOf(out, cell)!;
        pace.add(cell, result);
        log(`  ${rewardsOf(result)}, in ${timerText((performance.now() - began) / 1000)}`);
      } catch (error) {
        if (!isOfCell(error) || !held()) throw error;
        failed.push({ cell: cell.path, reason: error.message });
        say(`${cell.path}: failed: ${error.message}`);
      }
      if (i + 1 < todo.length && todo[i + 1]!.seed !== cell.seed) await buildResults(study, out, failed);
    }
    return { out, ...(await buildResults(study, out, failed)), stopped, resume: again };
  }).catch((error: unknown) => {
    if (error instanceof Interrupted) say(`resume with: ${again}`);
    throw error;
  });
}

function resumeCommand({ study, out, only, budget, device }: StudyRequest): string {
  const words = ['timeseer', 'study', study, '--out', out];
  for (const pattern of only) words.push('--only', pattern);
  if (budget !== undefined) words.push('--budget', String(budget));
  if (device !== 'cpu') words.push('--device', device);
  return [...words, '--resume'].map(shellWord).join(' ');
}
