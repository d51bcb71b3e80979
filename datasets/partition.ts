/**
 * Which examples a run trains on and which it keeps for evaluation: never the same. A generator and a prepared data set
 * have splits; any other data set on disk keeps its last `heldOut` series back.
 */
import { DataError } from '../src/errors.ts';
import type { Example } from '../src/types.ts';
import { isExampleSet } from './example-manifest.ts';
import { ExampleSet } from './example-set.ts';
import { open } from './registry.ts';
import { type ExampleAddress, hasSplits, isGenerator } from './source.ts';

/** What a recipe says of its data. */
export interface DataRecipe {
  /** Generator preset or data set directory. */
  readonly name: string;
  /** Points of a generator's series. */
  readonly length: number;
  /** Series kept for evaluation where the data set has no splits. */
  readonly heldOut: number;
}

/** Reinforcement starts this far into a generator's training split: no supervised stage gets there. */
const REINFORCEMENT_OFFSET = 2 ** 31;

/** Examples of the supervised stage. @throws DataError when a directory has none left beside the held-out ones. */
export function trainingExamples({ name, length, heldOut }: DataRecipe, seed: number): ExampleAddress {
  const address = { name, split: 'train' as const, seed, length };
  return hasSplits(name) ? address : { ...address, count: directorySplit(name, heldOut).training };
}

/** Examples of the reinforcement stage: of a generator, others than those of the supervised stage. */
export function reinforcementExamples(data: DataRecipe, seed: number): ExampleAddress {
  const address = trainingExamples(data, seed);
  return isGenerator(data.name) ? { ...address, offset: REINFORCEMENT_OFFSET } : address;
}

/** `count` held-out examples: the first ones, of a prepared data set a draw from its test split. */
export function heldOutExamples(
  { name, length, heldOut }: DataRecipe,
  seed: number,
  count: number,
): ExampleAddress {
  const address = { name, split: 'test' as const, seed, length, count };
  if (hasSplits(name)) return address;
  return { ...address, count: Math.min(count, heldOut), offset: directorySplit(name, heldOut).training };
}

/** Examples on which choices may be made, or null: a data set without a validation split has none to spare. */
export function validationExamples(
  { name, length }: DataRecipe,
  seed: number,
  count: number,
): ExampleAddress | null {
  const spare = isGenerator(name) || (isExampleSet(name) && new ExampleSet(name).count('validation') > 0);
  return spare ? { name, split: 'validation', seed, length, count } : null;
}

/** The training split of a prepared data set, from front to back; null where there is none to learn classes from. */
export function trainingSplit(name: string): Iterable<Example> | null {
  if (!isExampleSet(name)) return null;
  const set = new ExampleSet(name);
  return set.count('train') === 0 ? null : { [Symbol.iterator]: () => set.read('train') };
}

function directorySplit(name: string, heldOut: number): { readonly training: number } {
  const { count } = open(name);
  if (count <= heldOut) {
    throw new DataError(
      `${name} has ${count} series and data.heldOut keeps ${heldOut} of them for evaluation, which leaves none to train on; ` +
        'lower data.heldOut, or give a larger data set',
    );
  }
  return { training: count - heldOut };
}
