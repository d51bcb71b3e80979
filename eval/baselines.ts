/**
 * The classical baseline beside a policy: every detector answers the held-out examples, scored exactly as a policy is,
 * and one of them is named the best before its answers are looked at. Which detectors there are: detectors.ts.
 *
 * The best is the detector with the highest mean reward, the number that policies are compared by, on the validation
 * split: the same data set, other examples. Held-out examples have no part in the choice. A data set without a
 * validation split leaves nothing to choose on: `expcot-blind`, the blind expert reading, is taken unseen.
 */
import { setImmediate as breathe } from 'node:timers/promises';
import { z } from 'zod';
import { DataError } from '../src/errors.ts';
import { EXPCOT_BLIND } from '../src/expcot/detector.ts';
import { writeFileAtomic } from '../src/files.ts';
import type { EvalRecord, Example, Gold } from '../src/types.ts';
import { type Answerer, baselineRecord, classifiers, detectorsFor } from './detectors.ts';
import { jsonLines, readJson, readJsonLines } from './json-lines.ts';
import { sampleTraining } from './nearest.ts';
import { evalRecordShape } from './records.ts';

export { type Answerer, BASELINES, baselineRecord } from './detectors.ts';

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

export interface BaselineOptions {
  /** Draws the training examples where there are too many to keep. Default 0. */
  readonly seed?: number;
  readonly signal?: AbortSignal;
}

interface Prepared {
  readonly detectors: ReadonlyMap<string, Answerer>;
  readonly learned: Learned | null;
}

/** The detectors for some examples of one kind. */
async function prepare(
  examples: readonly Example[],
  training: Iterable<Example> | null,
  { seed = 0 }: BaselineOptions,
): Promise<Prepared> {
  const kind = oneKind(examples);
  if (kind !== 'classification') return { detectors: detectorsFor(kind, examples), learned: null };
  const sample = training === null ? null : await sampleTraining(training, seed, breathe);
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

/** Between examples at most, so that signals are seen: each takes some milliseconds. */
async function answers(
  detectors: ReadonlyMap<string, Answerer>,
  examples: readonly Example[],
  signal?: AbortSignal,
): Promise<Record<string, EvalRecord[]>> {
  const out = Object.fromEntries([...detectors.keys()].map((name): [string, EvalRecord[]] => [name, []]));
  for (const one of examples) {
    for (const [name, read] of detectors) out[name]!.push(baselineRecord(one, read(one)));
    await breathe();
    signal?.throwIfAborted();
  }
  return out;
}

/**
 * Answers of every detector to some examples of one kind, in their order; none is chosen. Classifiers learn from `training`,
 * and without it there are none.
 * @throws DataError for examples of several kinds, or training examples that nothing can be learned from; the signal's reason
 */
export async function classicalAnswers(
  examples: readonly Example[],
  training: Iterable<Example> | null,
  options: BaselineOptions = {},
): Promise<Record<string, EvalRecord[]>> {
  if (examples.length === 0) return {};
  const { detectors } = await prepare(examples, training, options);
  return answers(detectors, examples, options.signal);
}

function meanReward(records: readonly EvalRecord[]): number {
  return records.reduce((sum, record) => sum + record.score.total, 0) / records.length;
}

/**
 * Runs every detector over the validation examples, names the best, and runs every detector over the held-out examples.
 * About 10 ms a univariate series of 1000 points, all detectors together.
 *
 * @param training examples of the training split, which classifiers learn from; not looked at for other kinds
 * @throws DataError for no held-out example, examples of several kinds, values that are not finite (NaN excepted, where a
 * point is missing), or a classification without training examples to learn from
 */
export async function runBaselines(
  heldOut: readonly Example[],
  validation: readonly Example[],
  training: Iterable<Example> | null,
  options: BaselineOptions = {},
): Promise<Baselines> {
  if (heldOut.length === 0) throw new DataError('baselines: no held-out series; give at least one');
  const { detectors, learned } = await prepare([...heldOut, ...validation], training, options);
  if (detectors.size === 0) {
    throw new DataError('baselines: classifiers learn from training examples; give some');
  }
  const validationReward: Record<string, number> = {};
  if (validation.length > 0) {
    for (const [name, records] of Object.entries(await answers(detectors, validation, options.signal))) {
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
    records: await answers(detectors, heldOut, options.signal),
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
