/**
 * The classical baseline beside a policy: every detector answers the held-out examples, scored exactly as a policy is,
 * and one of them is named the best before its answers are looked at.
 *
 * The best is the detector with the highest mean reward, the number that policies are compared by, on the validation
 * split: the same data set, other examples. Held-out examples have no part in the choice. A data set without a
 * validation split leaves nothing to choose on: `expcot-blind`, the blind expert reading, is taken unseen.
 */

import { setImmediate as breathe } from 'node:timers/promises';
import { z } from 'zod';
import { EXPCOT_BLIND } from '../src/expcot/anomaly.ts';
import { type ClassProfile, learnClasses } from '../src/expcot/class-profile.ts';
import { DataError } from '../src/ground/errors.ts';
import { writeFileAtomic } from '../src/ground/files.ts';
import { Random } from '../src/ground/random.ts';
import type { EvalRecord, Example, Gold, ParsedAnswer } from '../src/ground/types.ts';
import type { Unlabelled } from '../src/tasks/kind.ts';
import { blindTrace, labelOf, scoreAnswer, taskKind } from '../src/tasks/kinds.ts';
import { evalRecordShape, jsonLines, readJson, readJsonLines } from './records.ts';

/** What classifiers learned from. */
export interface Learned {
  /** Examples of the training split. */
  readonly examples: number;
  /** Of these, those that were kept to learn from. */
  readonly used: number;
}

export interface Baselines {
  /** Name of the best detector. */
  readonly best: string;
  /** Examples of the validation split that the choice rests on; 0: nothing was chosen. */
  readonly validationSeries: number;
  /** Mean reward on them by detector; empty when there were none. */
  readonly validationReward: Readonly<Record<string, number>>;
  /** Of classifiers alone. */
  readonly learned?: Learned;
  /** Answers to the held-out examples, in their order, by detector. */
  readonly records: Readonly<Record<string, readonly EvalRecord[]>>;
}

interface Prepared {
  readonly detectors: ReadonlyMap<string, Answerer>;
  readonly learned: Learned | null;
}

/** The detectors for some examples of one kind. */
async function prepare(
  examples: readonly Example[],
  training: Iterable<Example> | null,
  seed: number,
): Promise<Prepared> {
  const kind = oneKind(examples);
  if (taskKind(kind).readsWords) {
    const sample = training === null ? null : await sampleTraining(training, seed);
    return { detectors: guessers(kind, sample?.examples ?? []), learned: null };
  }
  if (!taskKind(kind).learnsClasses) return { detectors: detectorsFor(kind, examples), learned: null };
  const sample = training === null ? null : await sampleTraining(training, seed);
  if (sample === null || sample.count === 0) return { detectors: new Map(), learned: null };
  return {
    detectors: classifiers(sample),
    learned: { examples: sample.count, used: sample.examples.length },
  };
}

function oneKind(examples: readonly Example[]): Gold['kind'] {
  const { kind } = examples[0]!.gold;
  const other = examples.find(({ gold }) => gold.kind !== kind);
  if (other === undefined) return kind;
  throw new DataError(
    `baselines: ${examples[0]!.id} asks for an answer of kind ${kind}, ${other.id} for one of kind ${other.gold.kind}`,
  );
}

/** Lets other work through between examples, which take some milliseconds each. */
async function answers(
  detectors: ReadonlyMap<string, Answerer>,
  examples: readonly Example[],
): Promise<Record<string, EvalRecord[]>> {
  const out = Object.fromEntries([...detectors.keys()].map((name): [string, EvalRecord[]] => [name, []]));
  for (const one of examples) {
    for (const [name, read] of detectors) out[name]!.push(baselineRecord(one, read(one)));
    await breathe();
  }
  return out;
}

/**
 * Answers of every detector to some examples of one kind, in their order; none is chosen. Classifiers learn from `training`,
 * and without it there are none.
 * @throws DataError for examples of several kinds, or training examples that nothing can be learned from
 */
export async function classicalAnswers(
  examples: readonly Example[],
  training: Iterable<Example> | null,
  seed = 0,
): Promise<Record<string, EvalRecord[]>> {
  if (examples.length === 0) return {};
  const { detectors } = await prepare(examples, training, seed);
  return answers(detectors, examples);
}

/**
 * Every detector for examples of one kind, by name; classifiers learn from `training`, and without it there are none.
 * @throws DataError as `classicalAnswers`
 */
export async function answerersFor(
  examples: readonly Example[],
  training: Iterable<Example> | null,
  seed = 0,
): Promise<ReadonlyMap<string, Answerer>> {
  return (await prepare(examples, training, seed)).detectors;
}

function meanReward(records: readonly EvalRecord[]): number {
  return records.reduce((sum, record) => sum + record.score.total, 0) / records.length;
}

/**
 * Runs every detector over the validation examples, names the best, and runs every detector over the held-out examples.
 * About 10 ms a univariate series of 1000 points, all detectors together.
 *
 * @param training examples of the training split, which classifiers learn from; not looked at for other kinds
 * @param seed draws the training examples where there are too many to keep
 * @throws DataError for no held-out example, examples of several kinds, values that are not finite (NaN excepted, where a
 * point is missing), or a classification without training examples to learn from
 */
export async function runBaselines(
  heldOut: readonly Example[],
  validation: readonly Example[],
  training: Iterable<Example> | null,
  seed = 0,
): Promise<Baselines> {
  if (heldOut.length === 0) throw new DataError('baselines: no held-out series; give at least one');
  const { detectors, learned } = await prepare([...heldOut, ...validation], training, seed);
  if (detectors.size === 0) {
    throw new DataError('baselines: classifiers learn from training examples; give some');
  }
  const validationReward: Record<string, number> = {};
  if (validation.length > 0) {
    for (const [name, records] of Object.entries(await answers(detectors, validation))) {
      validationReward[name] = meanReward(records);
    }
  }
  // Ties go to the first in the list.
  const best = Object.entries(validationReward).reduce(
    (leader, [name, reward]) => (reward > (validationReward[leader] ?? -1) ? name : leader),
    Object.keys(validationReward)[0] ?? EXPCOT_BLIND,
  );
  return {
    best,
    validationSeries: validation.length,
    validationReward,
    ...(learned === null ? {} : { learned }),
    records: await answers(detectors, heldOut),
  };
}

const ADVICE = 'remove it and rebuild the report';

const choiceShape = z.strictObject({
  best: z.string().min(1),
  validationSeries: z.int().nonnegative(),
  validationReward: z.record(z.string(), z.number()),
  learned: z.exactOptional(z.strictObject({ examples: z.int().positive(), used: z.int().positive() })),
});

const lineShape = z.strictObject({ detector: z.string().min(1), record: evalRecordShape });

/** Files of the baselines in an `eval` directory. */
export interface BaselineFiles {
  /** The choice: detector and mean validation rewards. */
  readonly choice: string;
  /** `{"detector", "record"}` a line: all answers of all detectors to the held-out examples. */
  readonly answers: string;
}

/** Writes both files, the choice last: where it stands, the answers are whole. */
export function writeBaselines(files: BaselineFiles, { records, ...choice }: Baselines): void {
  const lines = Object.entries(records).flatMap(([detector, list]) =>
    list.map((record) => ({ detector, record })),
  );
  writeFileAtomic(files.answers, jsonLines(lines));
  writeFileAtomic(files.choice, `${JSON.stringify(choice, null, 2)}\n`);
}

/** Reads both files. @throws DataError naming the one that is missing or damaged. */
export function readBaselines(files: BaselineFiles): Baselines {
  const choice = readJson(files.choice, choiceShape, ADVICE);
  const records: Record<string, EvalRecord[]> = {};
  for (const { detector, record } of readJsonLines(files.answers, lineShape, { advice: ADVICE })) {
    records[detector] ??= [];
    records[detector].push(record);
  }
  if (records[choice.best] === undefined) {
    throw new DataError(`holds no answer of ${choice.best}, which was chosen; ${ADVICE}`, {
      file: files.answers,
    });
  }
  if (choice.validationSeries > 0) {
    const unknown = Object.keys(records).find((name) => choice.validationReward[name] === undefined);
    if (unknown !== undefined) {
      throw new DataError(`"validationReward": nothing about ${unknown}; ${ADVICE}`, { file: files.choice });
    }
  }
  return { ...choice, records };
}

/** Answers a series from its values; a text says why it cannot. */
export type Answerer = (series: Unlabelled) => Gold | string;

/** Whether a series is one channel without missing points. */
export function isPlain({ channels }: Unlabelled): boolean {
  return channels.length === 1 && !channels[0]!.some(Number.isNaN);
}

/** The blind expert as an answerer: a series that it cannot analyse (a channel without any point) goes unanswered. */
function blindExpert(kind: Gold['kind'], profile: ClassProfile | null): Answerer {
  return (series) => {
    try {
      return blindTrace(series, kind, profile).answer;
    } catch (error) {
      if (error instanceof DataError) return error.message;
      throw error;
    }
  };
}

/**
 * Detectors of a kind that needs no learning, for examples like these: those of the kind need one channel without missing points;
 * where any series is otherwise, `expcot-blind` answers alone.
 */
export function detectorsFor(
  kind: Gold['kind'],
  examples: readonly Unlabelled[],
): ReadonlyMap<string, Answerer> {
  const { detectors } = taskKind(kind).evaluation;
  if (detectors.size === 0 || !examples.every(isPlain))
    return new Map([[EXPCOT_BLIND, blindExpert(kind, null)]]);
  return new Map(
    [...detectors].map(([name, read]): [string, Answerer] => [name, ({ channels }) => read(channels[0]!)]),
  );
}

/** The most frequent class; of equally frequent ones the first by name. */
function majorityOf(classes: ReadonlyMap<string, number>): string {
  const sorted = [...classes].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1));
  return sorted[0]![0];
}

/**
 * Classifiers that learned from training examples, at least one: `expcot-blind` (statistics of features by class), `1nn-euclid` (the
 * nearest training series) where all series have one length, `majority` (the most frequent class).
 * @throws DataError as `learnClasses`
 */
export function classifiers(sample: TrainingSample): ReadonlyMap<string, Answerer> {
  const kind = 'classification';
  const profile = learnClasses(sample.examples);
  const nearest = nearestNeighbour(sample.examples);
  const majority = majorityOf(sample.classes);
  const all: [string, Answerer][] = [[EXPCOT_BLIND, blindExpert(kind, profile)]];
  if (nearest !== null) {
    all.push([
      '1nn-euclid',
      ({ channels }) => {
        const found = nearest(channels);
        return found === null ? 'of another length than the training examples' : { kind, class: found };
      },
    ]);
  }
  all.push(['majority', () => ({ kind, class: majority })]);
  return new Map(all);
}

/**
 * Answers to questions that read neither question nor series: `first-option`, and the answer that training examples have most often
 * (`majority`), where there are some.
 */
export function guessers(kind: Gold['kind'], training: readonly Example[]): ReadonlyMap<string, Answerer> {
  const { answerOf, evaluation } = taskKind(kind);
  const always = (answer: string): Answerer => {
    const own = answerOf({ think: null, intervals: null, class: answer, wellFormed: true, problem: null });
    return () => own;
  };
  const counts = new Map<string, number>();
  for (const { gold } of training) {
    const { class: answer } = evaluation.said(gold);
    if (answer !== null) counts.set(answer, (counts.get(answer) ?? 0) + 1);
  }
  return new Map([
    ['first-option', always('A')],
    ...(counts.size === 0 ? [] : [['majority', always(majorityOf(counts))] as const]),
  ]);
}

/** The parts of an answer without text. */
function answerOf(own: Gold | string, kind: Gold['kind']): ParsedAnswer {
  const { said } = taskKind(kind).evaluation;
  return typeof own === 'string'
    ? { think: null, wellFormed: false, problem: own, ...said(null) }
    : { think: null, wellFormed: true, problem: null, ...said(own) };
}

/** The record of a detector's answer: no text, well formed unless there is none, the reward of a policy. */
export function baselineRecord(example: Example, own: Gold | string): EvalRecord {
  const { id, task, gold } = example;
  const length = example.channels[0]!.length;
  const answer = answerOf(own, gold.kind);
  return { seriesId: id, task, length, gold, response: '', answer, score: scoreAnswer(answer, gold, length) };
}

/** Values that training examples of the first one's size may hold in all; of more examples, as many are drawn at random as fit. */
export const MOST_VALUES = 1.6e7;

/** Training examples that a baseline learns from, and how many there were. */
export interface TrainingSample {
  /** In the order of the data. */
  readonly examples: readonly Example[];
  /** All training examples, those left out included. */
  readonly count: number;
  /** Examples by class, over all of them. */
  readonly classes: ReadonlyMap<string, number>;
}

/**
 * Goes through the training examples once and keeps as many as `mostValues` allow, at least one, every one with the same
 * chance (reservoir sampling, Vitter's algorithm R), the same ones for the same seed. Lets other work through now and then.
 */
export async function sampleTraining(
  training: Iterable<Example>,
  seed: number,
  mostValues = MOST_VALUES,
): Promise<TrainingSample> {
  const random = new Random(seed, 'training sample');
  const classes = new Map<string, number>();
  const kept: { readonly place: number; readonly example: Example }[] = [];
  let [count, most] = [0, 1];
  for (const example of training) {
    const { gold, channels } = example;
    const name = labelOf(gold);
    classes.set(name, (classes.get(name) ?? 0) + 1);
    if (count === 0) most = Math.max(1, Math.floor(mostValues / (channels.length * channels[0]!.length)));
    if (count < most) kept.push({ place: count, example });
    else {
      const slot = random.integer(0, count);
      if (slot < most) kept[slot] = { place: count, example };
    }
    count++;
    if (count % 256 === 0) await breathe();
  }
  kept.sort((a, b) => a.place - b.place);
  return { examples: kept.map(({ example }) => example), count, classes };
}

/** [C·N]: each channel with mean 0 and standard deviation 1 over its known points; missing ones and flat channels are 0. */
export function standardised(channels: readonly Float64Array[]): Float64Array {
  const out = new Float64Array(channels.reduce((sum, channel) => sum + channel.length, 0));
  let offset = 0;
  for (const channel of channels) {
    let [known, sum, squares] = [0, 0, 0];
    for (const value of channel) {
      if (Number.isNaN(value)) continue;
      known++;
      sum += value;
    }
    const mean = sum / known;
    for (const value of channel) if (!Number.isNaN(value)) squares += (value - mean) ** 2;
    const std = Math.sqrt(squares / known);
    // A constant keeps rounding errors of its own size alone.
    const flat = !(std > 1e-12 * Math.abs(mean));
    for (let i = 0; i < channel.length; i++) {
      out[offset + i] = flat || Number.isNaN(channel[i]!) ? 0 : (channel[i]! - mean) / std;
    }
    offset += channel.length;
  }
  return out;
}

/**
 * Class of the training example at the least Euclidean distance over all channels, each standardised (1NN-ED of the UCR archive);
 * of equals the first. Null where there is nothing to compare with: the examples are not all of one length.
 */
export function nearestNeighbour(
  sample: readonly Example[],
): ((channels: readonly Float64Array[]) => string | null) | null {
  const rows = sample.map(({ channels }) => standardised(channels));
  const size = rows[0]?.length ?? 0;
  if (size === 0 || rows.some((row) => row.length !== size)) return null;
  return (channels) => {
    const own = standardised(channels);
    if (own.length !== size) return null;
    let [best, least] = [-1, Number.POSITIVE_INFINITY];
    for (let r = 0; r < rows.length; r++) {
      const row = rows[r]!;
      let sum = 0;
      // In blocks: most rows are too far after a few, and a test at every value costs more than it saves.
      for (let from = 0; from < size && sum < least; from += 64) {
        const to = Math.min(size, from + 64);
        for (let i = from; i < to; i++) sum += (own[i]! - row[i]!) ** 2;
      }
      if (sum < least) {
        least = sum;
        best = r;
      }
    }
    return labelOf(sample[best]!.gold);
  };
}
