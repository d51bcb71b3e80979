/** Opens the examples of a generator or prepared data set by name, and selects those for training and evaluation. */
import { existsSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { ConfigError, DataError, suggestion } from '../src/ground/errors.ts';
import { Random } from '../src/ground/random.ts';
import type { Example, Gold } from '../src/ground/types.ts';
import { isModuleSpecifier } from '../src/ground/user-module.ts';
import { labelOf, taskKind } from '../src/tasks/kinds.ts';
import type { BenchmarkFigure } from './benchmarks/benchmark.ts';
import { BENCHMARKS, generatorOf } from './benchmarks/registry.ts';
import { VALUE_CHANNEL } from './example.ts';
import { isExampleSet, type PromptFacts, readExampleManifest, splitsOf } from './example-manifest.ts';
import { ExampleSet } from './example-set.ts';
import { checkAddress, MAXIMUM_INDEX, type Split, stratifiedSubset } from './split.ts';

/** Address of a range of examples, as plain data that can be sent to a Worker. */
export interface ExampleAddress {
  /** Generator preset or data set directory. */
  readonly name: string;
  readonly split: Split;
  /** Seed of generated series, or of the random subset of a prepared data set. */
  readonly seed: number;
  /** Points of a generator's series. */
  readonly length: number;
  /** Index of the first example; `count` examples follow in order. */
  readonly offset?: number;
  /** Maximum number of examples; a larger prepared data set is sampled at random. */
  readonly count?: number;
  /** Restricts a prepared data set to the examples that have an expert trace, or to the others. */
  readonly traced?: { readonly count: number; readonly part: 'with' | 'without' };
}

/** Metadata of a data set. */
export interface DataFacts {
  /** Name of the task; it determines the prompt. */
  readonly task: string;
  /** Title for people. */
  readonly title: string;
  readonly kind: Gold['kind'];
  /** Classes of the answers in the order of prompts; empty for variates. */
  readonly classes: readonly string[];
  /** Names of the channels of the first example. */
  readonly channels: readonly string[];
  /** Points of every example; null where they differ. */
  readonly length: number | null;
  /** Samples per second; null if unknown or not the same for all examples. */
  readonly rate: number | null;
  /** Figure of its examples; null where the data set does not state one. */
  readonly figure: BenchmarkFigure | null;
  /** Statement about the origin of the split, shown with every result; null for generators. */
  readonly statement: string | null;
  /** User's description of the data, for prompts; absent without one. */
  readonly prompt?: PromptFacts;
}

/** Examples with repeatable iteration and random access. */
export interface ExampleSource extends Iterable<Example> {
  readonly facts: DataFacts;
  readonly count: number;
  readonly set: ExampleSet | null;
  /** Returns the example at `index`, in [0, count). @throws RangeError otherwise */
  at(index: number): Example;
}

/** Returns true if a data set is generated on the fly, with splits that share no series; otherwise it is a directory. */
export const isGenerator = (name: string): boolean => generatorOf(name) !== null;

/** Returns the split of generated series that have only one (`timeseer data generate`); null for all other data. */
function onlySplit(name: string): Split | null {
  if (!isExampleSet(name)) return null;
  const manifest = readExampleManifest(name);
  const [split, ...others] = splitsOf(manifest);
  return others.length === 0 && manifest.source.files.length === 0 ? split! : null;
}

/** Returns false for generated series with a single split, of which the last series are held out; true for all other data. */
export const hasSplits = (name: string): boolean => onlySplit(name) === null;

function source(
  facts: DataFacts,
  count: number,
  set: ExampleSet | null,
  at: (index: number) => Example,
): ExampleSource {
  const checked = (index: number): Example => {
    if (Number.isInteger(index) && index >= 0 && index < count) return at(index);
    throw new RangeError(`example ${index} of ${facts.task} with ${count}`);
  };
  return {
    ...{ facts, count, set },
    at: checked,
    *[Symbol.iterator]() {
      for (let i = 0; i < count; i++) yield at(i);
    },
  };
}

/** @throws ConfigError unless [offset, offset + count) lies in [0, available) */
function checkRange(offset: number, count: number, available: number): void {
  if (!Number.isInteger(offset) || offset < 0 || offset >= available) {
    throw new ConfigError(`offset: got ${offset}, expected an integer from 0 to ${available - 1}`);
  }
  if (!Number.isInteger(count) || count < 1 || count > available - offset) {
    throw new ConfigError(`count: got ${count}, expected an integer from 1 to ${available - offset}`);
  }
}

/**
 * Selects the training examples that have an expert trace, stratified by class, or the remaining ones.
 * @throws ConfigError if none would remain
 */
function traced(all: ExampleSource, { name, seed, traced }: ExampleAddress): ExampleSource {
  if (traced === undefined) return all;
  if (traced.count >= all.count) {
    throw new ConfigError(
      `data.traces: got ${traced.count}, but ${name} has ${all.count} examples to train on, which leaves none without a trace; ` +
        'lower it, or leave it out to train both stages on all of them',
    );
  }
  const chosen = stratifiedSubset(
    Array.from(all, ({ gold }) => labelOf(gold)),
    traced.count,
    seed,
  );
  const chosenIndices = new Set(chosen);
  const indices =
    traced.part === 'with'
      ? chosen
      : Array.from({ length: all.count }, (_, i) => i).filter((i) => !chosenIndices.has(i));
  return source(all.facts, indices.length, all.set, (index) => all.at(indices[index]!));
}

function openSet({ name, split, seed, offset, count: maximum }: ExampleAddress): ExampleSource {
  const set = new ExampleSet(name);
  const { manifest } = set;
  const part = manifest.splits[split];
  if (part === undefined) {
    throw new ConfigError(
      `${name}: has the splits ${set.splits.join(', ')}, but no ${split}; prepare it again with one (--shares, --validation or --split)`,
    );
  }
  const { task, title, kind, classes, rate, figure, prompt } = manifest;
  const facts: DataFacts = {
    ...{ task, title, kind, classes, rate, figure },
    channels: set.at(split, 0).names,
    length: part.length,
    statement: hasSplits(name) ? manifest.split.statement : null,
    ...(prompt === undefined ? {} : { prompt }),
  };
  if (offset !== undefined) {
    const count = Math.min(maximum ?? part.count, part.count - offset);
    checkRange(offset, count, part.count);
    return source(facts, count, set, (index) => set.at(split, offset + index));
  }
  if (maximum === undefined || maximum >= part.count) {
    return source(facts, part.count, set, (index) => set.at(split, index));
  }
  // Sorted, so that files are read from front to back.
  const drawn = new Random(seed, `subset of ${split}`).permutation(part.count).slice(0, maximum).sort();
  return source(facts, maximum, set, (index) => set.at(split, drawn[index]!));
}

function openGenerator(
  { name, kind, classes, generator }: NonNullable<ReturnType<typeof generatorOf>>,
  { split, seed, length, offset = 0, count = MAXIMUM_INDEX + 1 - offset }: ExampleAddress,
): ExampleSource {
  checkRange(offset, count, MAXIMUM_INDEX + 1);
  checkAddress(seed, offset, length, generator.minimumLength);
  const facts: DataFacts = {
    task: name,
    title: `series of the generator ${name}`,
    kind,
    classes: classes ?? [],
    channels: [VALUE_CHANNEL],
    length,
    rate: null,
    figure: null,
    statement: null,
  };
  return source(facts, count, null, (index) => generator.at(seed, split, offset + index, length));
}

/**
 * Opens the examples at an address. A prepared data set with more than `count` examples is sampled at random with `seed`, unless
 * `offset` is given.
 * @throws ConfigError for an unknown name, a missing split or a number out of range; DataError for an incomplete directory
 */
export function openExamples(address: ExampleAddress): ExampleSource {
  const { name } = address;
  const generator = generatorOf(name);
  if (generator !== null) return openGenerator(generator, address);
  if (existsSync(name) && statSync(name).isDirectory()) return traced(openSet(address), address);
  if (existsSync(name) || isModuleSpecifier(name)) {
    const argument = isModuleSpecifier(name) ? name : `custom --from ${name}`;
    throw new ConfigError(
      `${name}: is a file, not a data set; convert it with timeseer data prepare ${argument} --out DIR`,
    );
  }
  const task = BENCHMARKS.map((benchmark) => benchmark.name).find(
    (known) => known === name || known === basename(name),
  );
  if (task !== undefined && task !== 'custom') {
    throw new ConfigError(
      `no data set in '${name}'; create it with timeseer data prepare ${task} --out ${task === name ? join('data', ...task.split('/')) : name}`,
    );
  }
  const known = BENCHMARKS.map((benchmark) => benchmark.name).filter(isGenerator);
  throw new ConfigError(
    `no data set named '${name}'.${suggestion(name, known)} Known: ${known.join(', ')}, or the path of a data set directory (timeseer data prepare creates one; timeseer data list shows the tasks)`,
  );
}

/**
 * Wraps examples of one task in memory as a source. If their kind has no fixed classes, the classes are those that occur.
 * @throws DataError for no example, or examples of several tasks or kinds
 */
export function exampleValues(examples: readonly Example[]): ExampleSource {
  const [first] = examples;
  if (first === undefined) throw new DataError('examples: got none, expected at least one');
  const { task, names, gold } = first;
  const stray = examples.find((example) => example.task !== task || example.gold.kind !== gold.kind);
  if (stray !== undefined) {
    throw new DataError(
      `examples: ${stray.id} is of ${stray.task} (${stray.gold.kind}), the first of ${task} (${gold.kind}); give those of one task`,
    );
  }
  const { classes, className } = taskKind(gold.kind);
  const seen = new Set(examples.map((example) => className(example.gold)));
  const named = [...seen].filter((name) => name !== null);
  const lengths = new Set(examples.map(({ channels }) => channels[0]!.length));
  const facts: DataFacts = {
    ...{ task, title: task, kind: gold.kind, channels: names },
    classes: classes === 'data' ? named.sort() : classes.filter((name) => seen.has(name) || seen.has(null)),
    length: lengths.size === 1 ? [...lengths][0]! : null,
    ...{ rate: null, figure: null, statement: null },
  };
  return source(facts, examples.length, null, (index) => examples[index]!);
}

interface DataRecipe {
  readonly name: string;
  readonly length: number;
  /** Series kept for evaluation where the data set has no splits. */
  readonly heldOut: number;
  /** Training series that have an expert trace; null: all. */
  readonly traces: number | null;
}

/** Index of the first series for reinforcement in a generator's training split; supervised stages stay below it. */
const REINFORCEMENT_OFFSET = 2 ** 31;

/** Addresses the training examples of a recipe. @throws DataError if a data set with one split has only held-out ones */
function trainable({ name, length, heldOut }: DataRecipe, seed: number): ExampleAddress {
  const split = onlySplit(name);
  if (split === null) return { name, split: 'train', seed, length };
  return { name, split, seed, length, offset: 0, count: trainingCount(name, split, heldOut) };
}

/** Addresses the examples of the supervised stage, which have an expert trace. @throws DataError as `trainable` */
export function trainingExamples(data: DataRecipe, seed: number): ExampleAddress {
  const all = trainable(data, seed);
  const { name, traces } = data;
  if (traces === null) return all;
  if (isGenerator(name)) return { ...all, offset: 0, count: traces };
  return { ...all, traced: { count: traces, part: 'with' } };
}

/**
 * Addresses the examples of the reinforcement stage. For a generator, and where only some examples have a trace, they differ from
 * those of the supervised stage.
 */
export function reinforcementExamples(data: DataRecipe, seed: number): ExampleAddress {
  const all = trainable(data, seed);
  const { name, traces } = data;
  if (isGenerator(name)) return { ...all, offset: REINFORCEMENT_OFFSET };
  return traces === null ? all : { ...all, traced: { count: traces, part: 'without' } };
}

/**
 * Addresses `count` held-out examples: the first of a generator's test split, a random sample of a data set's test split, or the
 * last series of a data set with a single split.
 */
export function heldOutExamples(
  { name, length, heldOut }: Omit<DataRecipe, 'traces'>,
  seed: number,
  count: number,
): ExampleAddress {
  const split = onlySplit(name);
  if (split === null) return { name, split: 'test', seed, length, count };
  const offset = trainingCount(name, split, heldOut);
  return { name, split, seed, length, offset, count: Math.min(count, heldOut) };
}

/** Examples for choosing settings; null for a data set without a validation split. */
export function validationExamples(
  { name, length }: Pick<DataRecipe, 'name' | 'length'>,
  seed: number,
  count: number,
): ExampleAddress | null {
  const hasValidation =
    isGenerator(name) ||
    (isExampleSet(name) && hasSplits(name) && new ExampleSet(name).count('validation') > 0);
  return hasValidation ? { name, split: 'validation', seed, length, count } : null;
}

/** Training split of a prepared data set in order; null where there is none to learn classes from. */
export function trainingSplit(name: string): Iterable<Example> | null {
  if (!isExampleSet(name) || !hasSplits(name)) return null;
  const set = new ExampleSet(name);
  return set.count('train') === 0 ? null : { [Symbol.iterator]: () => set.read('train') };
}

function trainingCount(name: string, split: Split, heldOut: number): number {
  const { count } = readExampleManifest(name).splits[split]!;
  if (count <= heldOut) {
    throw new DataError(
      `${name} has ${count} series and data.heldOut keeps ${heldOut} of them for evaluation, which leaves none to train on; ` +
        'lower data.heldOut, or give a larger data set',
    );
  }
  return count - heldOut;
}

/**
 * Shuffled order of `count` examples: each epoch is a new permutation of all. The result of a draw depends only on its number and
 * the constructor's arguments, not on earlier draws, so that a resumed run sees the same order.
 */
export class EpochOrder {
  readonly #count: number;
  readonly #seed: number;
  readonly #name: string;
  #epoch = -1;
  #order: Int32Array = new Int32Array(0);

  /** @param name seeds the shuffles too, so that the stages of a run see different orders */
  constructor(count: number, seed: number, name: string) {
    this.#count = count;
    this.#seed = seed;
    this.#name = name;
  }

  /** Returns the index of an example, in [0, count), for draw number `index` ≥ 0. */
  place(index: number): number {
    const epoch = Math.floor(index / this.#count);
    if (epoch !== this.#epoch) {
      // Do not rename this key (`passes of`): the order of every data set depends on it.
      this.#order = new Random(this.#seed, `passes of ${this.#name}`, epoch).permutation(this.#count);
      this.#epoch = epoch;
    }
    return this.#order[index % this.#count]!;
  }
}
