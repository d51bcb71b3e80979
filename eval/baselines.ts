/**
 * Classical baselines of a run: every quick baseline and the product's own detector (src/answer/baselines.ts) answer the held-out
 * examples, scored like a policy, and the best of them is chosen before its answers are looked at.
 *
 * The best has the highest mean reward, the number that policies are compared by, on the validation split: the same data set, other
 * examples. Held-out examples have no part in the choice. Without a validation split there is nothing to choose on: `expcot-blind`, the
 * blind expert, is taken unseen.
 */

import { setImmediate as breathe } from 'node:timers/promises';
import { z } from 'zod';
import {
  BASELINES,
  type BaselineData,
  baselineRecord,
  learnedFrom,
  type PreparedBaseline,
  quickBaselines,
} from '../src/answer/baselines.ts';
import { EXPCOT_BLIND } from '../src/expcot/anomaly.ts';
import { DataError } from '../src/ground/errors.ts';
import { writeFileAtomic, writeJson } from '../src/ground/files.ts';
import { jsonLines, readJson, readJsonLines } from '../src/ground/json-files.ts';
import { mean } from '../src/ground/numbers.ts';
import type { EvalRecord, Example, Gold } from '../src/ground/types.ts';
import { mapAhead } from '../src/ground/worker-pool.ts';
import { evalRecordShape } from './records.ts';

const choiceShape = z.strictObject({
  best: z.string().min(1),
  /** Settings that it chose on the validation split; absent from runs before they were kept. */
  settings: z.exactOptional(z.record(z.string(), z.union([z.string(), z.number()]))),
  /** Number of validation examples that the choice rests on; 0: nothing was chosen. */
  validationSeries: z.int().nonnegative(),
  /** Mean reward on them by detector; empty when there were none. */
  validationReward: z.record(z.string(), z.number()),
  /** Number of training examples, and of those that were kept to learn from; absent where nothing was learned. */
  learned: z.exactOptional(z.strictObject({ examples: z.int().positive(), used: z.int().positive() })),
});

export interface Baselines extends Readonly<z.infer<typeof choiceShape>> {
  /** Answers to the held-out examples, in their order, by detector. */
  readonly records: Readonly<Record<string, readonly EvalRecord[]>>;
}

/** Prepares baselines by name; whoever calls it closes them. */
async function prepareAll(
  names: readonly string[],
  data: BaselineData,
): Promise<ReadonlyMap<string, PreparedBaseline>> {
  const prepared = new Map<string, PreparedBaseline>();
  for (const name of names) prepared.set(name, await BASELINES.get(name)!.prepare(data));
  return prepared;
}

/** Answers examples by all baselines, several at once where they have Workers, letting other work through in between. */
async function answers(
  baselines: ReadonlyMap<string, PreparedBaseline>,
  examples: readonly Example[],
): Promise<Record<string, EvalRecord[]>> {
  const all = [...baselines];
  const ahead = Math.max(1, ...all.map(([, { parallel }]) => parallel));
  const rows = await mapAhead(examples, ahead, async (example) => {
    const row = await Promise.all(
      all.map(async ([, baseline]) => baselineRecord(example, await baseline.answer(example))),
    );
    await breathe();
    return row;
  });
  return Object.fromEntries(all.map(([name], i) => [name, rows.map((row) => row[i]!)]));
}

async function closeAll(baselines: ReadonlyMap<string, PreparedBaseline>): Promise<void> {
  await Promise.all([...baselines.values()].map((baseline) => baseline.close()));
}

/**
 * Answers examples by every quick baseline, in their order; none is chosen as the best. Classifiers learn from `training`, and without it
 * there are none.
 * @throws DataError for examples of several kinds, or training examples that nothing can be learned from
 */
export async function classicalAnswers(
  examples: readonly Example[],
  data: Omit<BaselineData, 'kind'>,
): Promise<Record<string, EvalRecord[]>> {
  if (examples.length === 0) return {};
  const kind = kindOf(examples);
  const learning: BaselineData = { ...data, kind };
  const baselines = await prepareAll(await quickBaselines(learning), learning);
  return answers(baselines, examples).finally(() => closeAll(baselines));
}

/** Returns the kind of answer that all examples ask for. @throws DataError where they ask for several */
function kindOf(examples: readonly Example[]): Gold['kind'] {
  const { kind } = examples[0]!.gold;
  const odd = examples.find(({ gold }) => gold.kind !== kind);
  if (odd === undefined) return kind;
  throw new DataError(
    `baselines: ${examples[0]!.id} asks for an answer of kind ${kind}, ${odd.id} for one of kind ${odd.gold.kind}`,
  );
}

/**
 * Runs every detector over the validation examples, names the best, and runs every detector over the held-out examples.
 * All detectors take 46 ms of CPU time a univariate series of 1000 points, 33 ms of it `timeseer-detect`, which scores in Workers.
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
  const examples = [...heldOut, ...validation];
  const data: BaselineData = { kind: kindOf(examples), training, validation, seed };
  const baselines = await prepareAll(await quickBaselines(data, true), data);
  if (baselines.size === 0) {
    throw new DataError('baselines: classifiers learn from training examples; give some');
  }
  const validationReward: Record<string, number> = {};
  let records: Record<string, EvalRecord[]>;
  try {
    for (const [name, list] of Object.entries(await answers(baselines, validation))) {
      if (list.length > 0) validationReward[name] = mean(list.map(({ score }) => score.total));
    }
    records = await answers(baselines, heldOut);
  } finally {
    await closeAll(baselines);
  }
  // Ties go to the first in the list.
  const best = Object.entries(validationReward).reduce(
    (leader, [name, reward]) => (reward > (validationReward[leader] ?? -1) ? name : leader),
    Object.keys(validationReward)[0] ?? EXPCOT_BLIND,
  );
  const learned = await learnedFrom(data);
  return {
    best,
    settings: baselines.get(best)!.settings,
    validationSeries: validation.length,
    validationReward,
    ...(learned === null ? {} : { learned }),
    records,
  };
}

const ADVICE = 'remove it and rebuild the report';

const lineShape = z.strictObject({ detector: z.string().min(1), record: evalRecordShape });

/** Files of the baselines in an `eval` directory. */
export interface BaselineFiles {
  /** The choice: detector and mean validation rewards. */
  readonly choice: string;
  /** `{"detector", "record"}` a line: all answers of all detectors to the held-out examples. */
  readonly answers: string;
}

/** Writes both files, the choice last: where it exists, the answers are complete. */
export function writeBaselines(files: BaselineFiles, { records, ...choice }: Baselines): void {
  const lines = Object.entries(records).flatMap(([detector, list]) =>
    list.map((record) => ({ detector, record })),
  );
  writeFileAtomic(files.answers, jsonLines(lines));
  writeJson(files.choice, choice);
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
