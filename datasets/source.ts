/** Examples by name, of a generator or a prepared data set: facts, and the subsets that a run trains and is evaluated on. */
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

/** A range of examples as plain data, from which a Worker can open them itself. */
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

/** Facts about a data set that need none of its examples. */
export interface DataFacts {
  /** Name of the task, which has its prompt. */
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
  /** Samples per second; null where that is not known, or differs. */
  readonly rate: number | null;
  /** Figure of its examples; null where the data set does not state one. */
  readonly figure: BenchmarkFigure | null;
  /** Statement about its split, shown beside every result; null for generators, which make their splits. */
  readonly statement: string | null;
  /** User's description of the data, for prompts; absent without one. */
  readonly prompt?: PromptFacts;
}

/** Examples that can be walked through again and again, or asked for one by one. */
export interface ExampleSource extends Iterable<Example> {
  readonly facts: DataFacts;
  readonly count: number;
  readonly set: ExampleSet | null;
  /** Example number `index` of this source, in [0, count). @throws RangeError outside */
  at(index: number): Example;
}

/** Returns true if a data set is generated on the fly, with splits that share no series; otherwise it is a directory. */
export const isGenerator = (name: string): boolean => generatorOf(name) !== null;

/** The split of a data set with a single split of generated series (`timeseer data generate`); null for all other data. */
function onlySplit(name: string): Split | null {
  if (!isExampleSet(name)) return null;
  const manifest = readExampleManifest(name);
  const [split, ...others] = splitsOf(manifest);
  return others.length === 0 && manifest.source.files.length === 0 ? split! : null;
}

/** True if the data set states its splits; for one split of generated series, the last ones are held out. */
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
 * Selects the training examples with an expert trace, stratified by class, or those without.
 * @throws ConfigError where the ones without would be none
 */
function traced(all: ExampleSource, { name, seed, traced }: ExampleAddress): ExampleSource {
  if (traced === undefined) return all;
  if (traced.count >= all.count) {
    throw new ConfigError(
      `data.traces: got ${traced.count}, but ${name} has ${all.count} examples to train on, which leaves none without a trace; ` +
        'lower it, or leave it out: then both stages see all of them',
    );
  }
  const chosen = stratifiedSubset(
    Array.from(all, ({ gold }) => labelOf(gold)),
    traced.count,
    seed,
  );
  const among = new Set(chosen);
  const places =
    traced.part === 'with'
      ? chosen
      : Array.from({ length: all.count }, (_, i) => i).filter((i) => !among.has(i));
  return source(all.facts, places.length, all.set, (index) => all.at(places[index]!));
}

function openSet({ name, split, seed, offset, count: most }: ExampleAddress): ExampleSource {
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
    const count = Math.min(most ?? part.count, part.count - offset);
    checkRange(offset, count, part.count);
    return source(facts, count, set, (index) => set.at(split, offset + index));
  }
  if (most === undefined || most >= part.count) {
    return source(facts, part.count, set, (index) => set.at(split, index));
  }
  // Sorted, so that files are read from front to back.
  const drawn = new Random(seed, `subset of ${split}`).permutation(part.count).slice(0, most).sort();
  return source(facts, most, set, (index) => set.at(split, drawn[index]!));
}

function openGenerator(
  { name, classes, generator }: NonNullable<ReturnType<typeof generatorOf>>,
  { split, seed, length, offset = 0, count = MAXIMUM_INDEX + 1 - offset }: ExampleAddress,
): ExampleSource {
  checkRange(offset, count, MAXIMUM_INDEX + 1);
  checkAddress(seed, offset, length, generator.minimumLength);
  const facts: DataFacts = {
    task: name,
    title: `series of the generator ${name}`,
    kind: 'anomaly',
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
 * Opens an address. Of a prepared data set with more examples than `count`, as many are drawn with `seed`, unless an `offset` says
 * which.
 * @throws ConfigError for an unknown name, a split that is not there or a number out of range; DataError for a directory that is not whole
 */
export function openExamples(address: ExampleAddress): ExampleSource {
  const { name } = address;
  const generator = generatorOf(name);
  if (generator !== null) return openGenerator(generator, address);
  if (existsSync(name) && statSync(name).isDirectory()) return traced(openSet(address), address);
  if (existsSync(name) || isModuleSpecifier(name)) {
    const makes = isModuleSpecifier(name) ? name : `custom --from ${name}`;
    throw new ConfigError(
      `${name}: is a file, not a data set; timeseer data prepare ${makes} --out DIR makes one of it`,
    );
  }
  const task = BENCHMARKS.map((benchmark) => benchmark.name).find(
    (known) => known === name || known === basename(name),
  );
  if (task !== undefined && task !== 'custom') {
    throw new ConfigError(
      `no data set in '${name}': timeseer data prepare ${task} --out ${task === name ? join('data', ...task.split('/')) : name} makes it`,
    );
  }
  const known = BENCHMARKS.map((benchmark) => benchmark.name).filter(isGenerator);
  throw new ConfigError(
    `no data set named '${name}'.${suggestion(name, known)} Known: ${known.join(', ')}, or the path of a data set directory (timeseer data prepare writes one of any task: timeseer data list)`,
  );
}

/**
 * Examples in memory as a source: of one task, with the classes that occur where the kind does not list them.
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

export interface DataRecipe {
  readonly name: string;
  readonly length: number;
  /** Series kept for evaluation where the data set has no splits. */
  readonly heldOut: number;
  /** Training series that have an expert trace; null: all. */
  readonly traces: number | null;
}

/** Offset of reinforcement in a generator's training split, beyond the reach of any supervised stage. */
const REINFORCEMENT_OFFSET = 2 ** 31;

/** Training split of a recipe's data. @throws DataError when a data set of one split has none left beside the held-out ones */
function trainable({ name, length, heldOut }: DataRecipe, seed: number): ExampleAddress {
  const split = onlySplit(name);
  if (split === null) return { name, split: 'train', seed, length };
  return { name, split, seed, length, offset: 0, count: trainingCount(name, split, heldOut) };
}

/** Examples of the supervised stage: those that have an expert trace. @throws DataError as `trainable` */
export function trainingExamples(data: DataRecipe, seed: number): ExampleAddress {
  const all = trainable(data, seed);
  const { name, traces } = data;
  if (traces === null) return all;
  if (isGenerator(name)) return { ...all, offset: 0, count: traces };
  return { ...all, traced: { count: traces, part: 'with' } };
}

/** Examples of the reinforcement stage; other ones than the supervised stage's for a generator, and where not all have a trace. */
export function reinforcementExamples(data: DataRecipe, seed: number): ExampleAddress {
  const all = trainable(data, seed);
  const { name, traces } = data;
  if (isGenerator(name)) return { ...all, offset: REINFORCEMENT_OFFSET };
  return traces === null ? all : { ...all, traced: { count: traces, part: 'without' } };
}

/** Addresses `count` held-out examples: a generator's first ones; a draw from a data set's test split, or its last ones. */
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
  const spare =
    isGenerator(name) ||
    (isExampleSet(name) && hasSplits(name) && new ExampleSet(name).count('validation') > 0);
  return spare ? { name, split: 'validation', seed, length, count } : null;
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
 * Places in a data set of `count` examples by the number of the draw: each epoch is a permutation of the whole, so that no
 * example is seen twice before all are seen once. A pure function of its arguments, whatever was asked for before.
 */
export class EpochOrder {
  readonly #count: number;
  readonly #seed: number;
  readonly #name: string;
  #epoch = -1;
  #order: Int32Array = new Int32Array(0);

  /** `name` keys the shuffles: stages of one run go through the data in different orders. */
  constructor(count: number, seed: number, name: string) {
    this.#count = count;
    this.#seed = seed;
    this.#name = name;
  }

  /** Place, in [0, count), of draw number `index` ≥ 0. */
  place(index: number): number {
    const epoch = Math.floor(index / this.#count);
    if (epoch !== this.#epoch) {
      // The key of the random stream keeps its name: the order of every data set hangs on it.
      this.#order = new Random(this.#seed, `passes of ${this.#name}`, epoch).permutation(this.#count);
      this.#epoch = epoch;
    }
    return this.#order[index % this.#count]!;
  }
}
