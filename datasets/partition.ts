/**
 * Which series a run trains on and which it keeps for evaluation: never the same. A generator and a prepared data set
 * have splits; any other data set on disk keeps its last `heldOut` series back.
 */
import { DataError } from '../src/errors.ts';
import { isExampleSet } from './example-manifest.ts';
import { ExampleSet } from './example-set.ts';
import { generators, open, type SeriesSource } from './registry.ts';
import type { Split } from './split.ts';

/** What a recipe says of its data. */
export interface DataRecipe {
  /** Generator preset or data set directory. */
  readonly name: string;
  readonly length: number;
  /** Series kept for evaluation. */
  readonly heldOut: number;
}

/** A range of series, as plain data: what a Worker needs to open them itself. */
export interface SeriesAddress {
  readonly name: string;
  readonly split: Split;
  readonly seed: number;
  readonly length: number;
  /** Index of the first series. */
  readonly offset?: number;
  readonly count?: number;
}

/** Reinforcement starts this far into a generator's training split: no supervised stage gets there. */
const REINFORCEMENT_OFFSET = 2 ** 31;

/** Whether a data set says itself which series are for what. */
const hasSplits = (name: string): boolean => isGenerator(name) || isExampleSet(name);

/** Whether a data set is made on the fly, with splits that share no series; otherwise it is a directory. */
export function isGenerator(name: string): boolean {
  return generators().some((generator) => generator.name === name);
}

/**
 * Opens an address. A directory has its own split, seed and length, and gives as many series as it has.
 * @throws ConfigError, DataError as `open`
 */
export function openSeries({ name, split, seed, length, offset = 0, count }: SeriesAddress): SeriesSource {
  if (isGenerator(name)) {
    return open(name, { split, seed, length, offset, ...(count === undefined ? {} : { count }) });
  }
  const own = isExampleSet(name) ? { split } : {};
  const available = open(name, own).count - offset;
  return open(name, { ...own, offset, count: Math.min(count ?? available, available) });
}

/** Series of the supervised stage. @throws DataError when a directory has none left beside the held-out ones. */
export function trainingSeries({ name, length, heldOut }: DataRecipe, seed: number): SeriesAddress {
  const address = { name, split: 'train' as const, seed, length };
  return hasSplits(name) ? address : { ...address, count: directorySplit(name, heldOut).training };
}

/** Series of the reinforcement stage: of a generator, others than those of the supervised stage. */
export function reinforcementSeries(data: DataRecipe, seed: number): SeriesAddress {
  const address = trainingSeries(data, seed);
  return isGenerator(data.name) ? { ...address, offset: REINFORCEMENT_OFFSET } : address;
}

/** The first `count` held-out series. */
export function heldOutSeries(
  { name, length, heldOut }: DataRecipe,
  seed: number,
  count: number,
): SeriesAddress {
  const address = { name, split: 'test' as const, seed, length, count: Math.min(count, heldOut) };
  return hasSplits(name) ? address : { ...address, offset: directorySplit(name, heldOut).training };
}

/** Series on which choices may be made, or null: a data set without a validation split has none to spare. */
export function validationSeries(
  { name, length }: DataRecipe,
  seed: number,
  count: number,
): SeriesAddress | null {
  const spare = isGenerator(name) || (isExampleSet(name) && new ExampleSet(name).count('validation') > 0);
  return spare ? { name, split: 'validation', seed, length, count } : null;
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
