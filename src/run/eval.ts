/** Evaluation: answers of a policy to held-out examples on a group of Workers, their metrics, and classical detectors beside them. */
import { existsSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import {
  type ExampleAddress,
  type ExampleSource,
  isGenerator,
  openExamples,
  trainingSplit,
} from '../../datasets/source.ts';
import { classicalAnswers } from '../../eval/baselines.ts';
import { type Metrics, metricsOf, overallOf } from '../../eval/metrics.ts';
import { writeRecords } from '../../eval/records.ts';
import { RunDirectory } from '../../eval/run-directory.ts';
import { ConfigError, DataError } from '../errors.ts';
import { tidyUp, writeFileAtomic } from '../files.ts';
import { Progress } from '../progress.ts';
import { type NumbersFormat, readCard } from '../tasks/card.ts';
import type { MetricSet } from '../tasks/evaluation.ts';
import type { Reading } from '../tasks/response.ts';
import { say } from '../terminal.ts';
import type { EvalRecord } from '../types.ts';
import { type PromptTokens, promptTokens } from './prompt-length.ts';
import { checkSameData } from './run-data.ts';
import { findPolicy } from './run-policy.ts';
import { type EvalMode, type Likelihood, runStage, type StageResult } from './stage.ts';
import { evaluationCard, mismatches } from './task.ts';

export interface EvalRequest {
  readonly policy: string;
  readonly data: string | undefined;
  readonly split: 'train' | 'validation' | 'test';
  readonly seed: number | undefined;
  readonly count: number | undefined;
  readonly length: number | undefined;
  readonly input: 'picture' | 'numbers' | undefined;
  readonly digits: number | undefined;
  readonly points: number | undefined;
  /** One temperature, or several between commas. */
  readonly temperature: string;
  readonly samples: number;
  readonly answers: Reading | undefined;
  readonly maxTokens: number | undefined;
  readonly workers: number;
  readonly device: string;
  readonly out: string | undefined;
  readonly classical: boolean;
  readonly quiet: boolean;
}

export interface EvalStageOptions {
  /** Policy directory. */
  readonly from: string;
  readonly label: string;
  readonly examples: ExampleAddress;
  /** Numbers instead of pictures, or pictures (null); as the policy was taught where absent. */
  readonly numbers?: NumbersFormat | null;
  readonly modes: readonly EvalMode[];
  readonly maxTokens: number;
  readonly seed: number;
  /** How answers are read. */
  readonly answers: Reading;
  readonly device: string;
  readonly workers: number;
  readonly silent: boolean;
}

/** Answers in one mode, in the order of the examples, the samples of an example together. */
export interface ModeAnswers {
  readonly records: EvalRecord[];
  /** Of each record; empty without a reference. */
  readonly likelihoods: Likelihood[];
}

/** Per mode, the records in the order of the examples, the samples of an example together. */
export async function runEvalStage(options: EvalStageOptions): Promise<EvalRecord[][]> {
  return (await answerExamples(options)).map(({ records }) => records);
}

/** As `runEvalStage`, with what references say of the answers. @throws Interrupted when stopped */
export async function answerExamples(options: EvalStageOptions): Promise<ModeAnswers[]> {
  const { from, label, examples, modes, numbers, maxTokens, seed, answers, device, silent } = options;
  const count = openExamples(examples).count;
  const workers = Math.max(1, Math.min(options.workers, count));
  const progress = new Progress({ label, total: count * modes.length, unit: 'examples', silent });
  const done = new Array<number>(workers).fill(0);
  const { results, stopped } = await runStage(
    {
      ...{ stage: 'eval', from, examples, device, modes, maxTokens, seed, answers },
      ...(numbers === undefined ? {} : { numbers }),
    },
    workers,
    (note, rank) => {
      if (note.kind !== 'eval') return;
      done[rank] = note.done;
      progress.update(done.reduce((sum, value) => sum + value, 0));
    },
  ).finally(() => progress.stop());
  // Asked for after the last token, it holds for what would come after the answers.
  if (stopped !== null) throw stopped;
  return modes.map((mode, m) => {
    const samples = mode.temperature === 0 ? 1 : mode.samples;
    const ordered = <T>(of: (result: StageResult) => readonly T[]): T[] =>
      Array.from({ length: count }, (_, i) => {
        const place = Math.floor(i / workers) * samples;
        return of(results[i % workers]!).slice(place, place + samples);
      }).flat();
    return {
      records: ordered(({ records }) => records[m]!),
      likelihoods: ordered(({ likelihoods }) => likelihoods[m]!),
    };
  });
}

/** Points of a generator's series, and how numbers are written, unless asked otherwise. */
const USUAL_LENGTH = 1000;
const USUAL_NUMBERS: NumbersFormat = { digits: 3, points: 250 };
/** What a policy that is in no run is asked about. */
const USUAL_DATA = 'nano5';
/** Examples of a generator unless asked otherwise; of a data set, all. */
const GENERATED = 400;
/** Longest response unless asked otherwise, by the style that the policy answers in. */
const MOST_TOKENS = { nano: 96, full: 1024 } as const;

function check(given: EvalRequest): void {
  // The bounds of a recipe.
  for (const [name, value, least, most] of [
    ['count', given.count ?? 1, 1, 1e7],
    ['samples', given.samples, 1, 1024],
    ['max-tokens', given.maxTokens ?? 1, 1, 1 << 17],
    ['workers', given.workers, 1, 256],
    ['digits', given.digits ?? 1, 1, 17],
    ['points', given.points ?? 2, 2, 1e6],
    ['seed', given.seed ?? 0, 0, Number.MAX_SAFE_INTEGER],
    ['length', given.length ?? 2, 2, 1e6],
  ] as const) {
    if (!Number.isInteger(value) || value < least) {
      throw new ConfigError(`--${name}: got ${value}, expected an integer ≥ ${least}`);
    }
    if (value > most) throw new ConfigError(`--${name}: got ${value}, expected at most ${most}`);
  }
}

/** Different temperatures, in the order given. @throws ConfigError */
/** What an evaluation writes. */
const RESULT = /^(?:records(?:\..+)?\.jsonl|metrics\.json)$/;

function temperaturesOf(text: string): readonly number[] {
  const found = String(text)
    .split(',')
    .map((part) => (part.trim() === '' ? Number.NaN : Number(part)));
  if (found.some((one) => !(one >= 0 && one <= 10))) {
    throw new ConfigError(
      `--temperature: got ${text}, expected a number from 0 to 10, or several between commas`,
    );
  }
  if (new Set(found).size < found.length)
    throw new ConfigError(`--temperature: ${text} has one of them twice`);
  return found;
}

/** The directory of the run that a policy lies in. */
function runOf(policy: string): string | undefined {
  const above = dirname(resolve(policy));
  return [policy, above, dirname(above)].find((path) => existsSync(join(path, 'recipe.json')));
}

/** The data of the run that a policy lies in; those of the quickstart where it is in none. */
function dataOf(policy: string): string {
  const run = runOf(policy);
  return run === undefined ? USUAL_DATA : new RunDirectory(run).recipe.data.name;
}

/** How the run that a policy lies in reads answers; leniently where it is in none. */
function readingOf(policy: string): Reading {
  const run = runOf(policy);
  return run === undefined ? 'lenient' : new RunDirectory(run).recipe.answers;
}

/** Says when a policy's own data are not those that it was trained on: what is held out now may have been trained on. */
function warnOfChange(policy: string, name: string): void {
  const run = runOf(policy);
  if (run === undefined) return;
  try {
    checkSameData(run, name);
  } catch (error) {
    if (!(error instanceof DataError)) throw error;
    say(`warning: ${error.message}`);
  }
}

/** Every detector on the same examples. None is chosen here: a choice needs a validation split. */
async function classicalMetrics(
  source: ExampleSource,
  classes: readonly string[],
  name: string,
): Promise<Record<string, MetricSet>> {
  const answers = await classicalAnswers([...source], trainingSplit(name));
  return Object.fromEntries(
    Object.entries(answers).map(([detector, list]) => [detector, overallOf(list, { classes })]),
  );
}

/** The temperature of the highest mean reward, the lower one of equals. */
export function bestOf(sets: readonly (readonly [temperature: number, set: Metrics])[]): number {
  const ranked = sets.toSorted(
    ([a, one], [b, other]) => other.overall.reward.mean - one.overall.reward.mean || a - b,
  );
  return ranked[0]![0];
}

export interface Evaluation {
  /** As metrics.json has it. */
  readonly result: object;
  /** By temperature, in the order asked for. */
  readonly sets: readonly (readonly [temperature: number, metrics: Metrics])[];
  /** By detector; empty where several temperatures were compared. */
  readonly classical: Readonly<Record<string, MetricSet>>;
  readonly input: 'picture' | 'numbers';
  readonly tokens: PromptTokens;
  /** What a person calls the data set, and what is to be said of its split. */
  readonly title: string;
  readonly statement: string | null;
}

/** Evaluates one policy on one data set, and writes records and metrics where `out` is given. */
export async function runEval(given: EvalRequest): Promise<Evaluation> {
  check(given);
  const temperatures = temperaturesOf(given.temperature);
  if (given.out !== undefined && existsSync(given.out) && !statSync(given.out).isDirectory()) {
    throw new ConfigError(`${given.out}: is a file; give a directory with --out`);
  }
  if (given.out !== undefined) tidyUp(given.out, (name) => RESULT.test(name));
  const from = findPolicy(given.policy);
  const seed = given.seed ?? 42;
  const { split } = given;
  const name = given.data ?? dataOf(given.policy);
  const generated = isGenerator(name);
  if (given.data === undefined) warnOfChange(given.policy, name);
  if (given.length !== undefined && !generated) {
    throw new ConfigError(`--length: ${name} has its own lengths; only a generator's can be chosen`);
  }
  const { length = USUAL_LENGTH } = given;
  const count = given.count ?? (generated ? GENERATED : undefined);
  const examples: ExampleAddress = { name, split, seed, length, ...(count === undefined ? {} : { count }) };
  const source = openExamples(examples);
  const known = readCard(from).numbers ?? USUAL_NUMBERS;
  const format: NumbersFormat = {
    digits: given.digits ?? known.digits,
    points: given.points ?? known.points,
  };
  const read = given.input === undefined ? readCard(from).numbers !== null : given.input === 'numbers';
  const wanted = read ? format : null;
  const card = evaluationCard(from, source.facts, wanted);
  const input = read ? 'numbers' : 'picture';
  for (const text of mismatches(from, card, source.facts)) say(`warning: ${text}`);
  const tokens = await promptTokens(from, card, source, format);
  const answers = given.answers ?? readingOf(given.policy);
  const all = await runEvalStage({
    ...given,
    from,
    label: 'eval',
    examples,
    numbers: wanted,
    modes: temperatures.map((temperature) => ({ temperature, samples: given.samples })),
    maxTokens: given.maxTokens ?? MOST_TOKENS[card.style],
    seed,
    answers,
    silent: given.quiet,
  });
  const { classes, statement, title } = source.facts;
  const sets = temperatures.map((temperature, m) => [temperature, metricsOf(all[m]!, { classes })] as const);
  const several = sets.length > 1;
  const [[temperature, metrics]] = sets as [(typeof sets)[number]];
  const classical = given.classical && !several ? await classicalMetrics(source, classes, name) : {};
  const data = { ...examples, title, ...(statement === null ? {} : { statement }) };
  const asked = { policy: from, data, answers, input, prompt: tokens };
  const result = several
    ? {
        ...asked,
        best: bestOf(sets),
        temperatures: sets.map(([at, found]) => ({ temperature: at, metrics: found })),
      }
    : { ...asked, temperature, metrics, classical };
  if (given.out !== undefined) {
    for (const [m, records] of all.entries()) {
      const file = several ? `records.${temperatures[m]}.jsonl` : 'records.jsonl';
      writeRecords(join(given.out, file), records);
    }
    writeFileAtomic(join(given.out, 'metrics.json'), `${JSON.stringify(result, null, 2)}\n`);
  }
  return { result, sets, classical, input, tokens, title, statement };
}
