/** Examples by name: of a generator, of a prepared data set, or of a directory of series; what is known of them as a whole. */
import { ConfigError } from '../src/errors.ts';
import { Random } from '../src/random.ts';
import type { Example, Gold } from '../src/types.ts';
import type { BenchmarkFigure } from './benchmarks/benchmark.ts';
import { exampleOf, VALUE_CHANNEL } from './example.ts';
import { isExampleSet, type PromptFacts } from './example-manifest.ts';
import { ExampleSet } from './example-set.ts';
import { generators, open } from './registry.ts';
import type { Split } from './split.ts';

/** A range of examples, as plain data: what a Worker needs to open them itself. */
export interface ExampleAddress {
  /** Generator preset or data set directory. */
  readonly name: string;
  readonly split: Split;
  /** Of a generator's series; of a prepared data set, which of its examples are taken where not all are. */
  readonly seed: number;
  /** Points of a generator's series. */
  readonly length: number;
  /** Index of the first series; not of a prepared data set. */
  readonly offset?: number;
  /** Most examples. Of a prepared data set with more, as many are drawn at random. */
  readonly count?: number;
}

/** What is known of a data set before any of its examples is looked at. */
export interface DataFacts {
  /** Name of the task, which has its prompt; a directory of series has the name in its manifest. */
  readonly task: string;
  /** What a person calls it. */
  readonly title: string;
  readonly kind: Gold['kind'];
  /** Classes of the answers in the order of prompts; empty for variates. */
  readonly classes: readonly string[];
  /** Names of the channels, those of the first example. */
  readonly channels: readonly string[];
  /** Points of every example; null where they differ. */
  readonly length: number | null;
  /** Samples per second; null where that is not known, or differs. */
  readonly rate: number | null;
  /** What its examples are drawn as; null where the data set does not say. */
  readonly figure: BenchmarkFigure | null;
  /** What is to be said of its split beside every result; null where splits are a generator's own. */
  readonly statement: string | null;
  /** What the user says of the data, for prompts; absent where nothing was said. */
  readonly prompt?: PromptFacts;
}

/** Examples that can be walked through again and again, or asked for one by one. */
export interface ExampleSource extends Iterable<Example> {
  readonly facts: DataFacts;
  readonly count: number;
  /** The prepared data set behind it, or null. */
  readonly set: ExampleSet | null;
  /**
   * Example number `index` of this source, in [0, count).
   * @throws RangeError outside
   */
  at(index: number): Example;
}

/** Whether a data set is made on the fly, with splits that share no series; otherwise it is a directory. */
export function isGenerator(name: string): boolean {
  return generators().some((generator) => generator.name === name);
}

/** Whether a data set says itself which examples are for what. */
export const hasSplits = (name: string): boolean => isGenerator(name) || isExampleSet(name);

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

function openSet({ name, split, seed, count: most }: ExampleAddress): ExampleSource {
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
    statement: manifest.split.statement,
    ...(prompt === undefined ? {} : { prompt }),
  };
  if (most === undefined || most >= part.count) {
    return source(facts, part.count, set, (index) => set.at(split, index));
  }
  // In their own order, so that files are read from front to back.
  const drawn = new Random(seed, `subset of ${split}`).permutation(part.count).slice(0, most).sort();
  return source(facts, most, set, (index) => set.at(split, drawn[index]!));
}

/**
 * Opens an address. A directory of series has its own split, seed and length, and gives as many series as it has; of a
 * prepared data set with more examples than `count`, as many are drawn with `seed`.
 *
 * @throws ConfigError for an unknown name or a split that is not there; DataError for a directory that is not whole
 */
export function openExamples(address: ExampleAddress): ExampleSource {
  const { name, split, seed, length, offset = 0, count } = address;
  if (isExampleSet(name)) return openSet(address);
  const generated = isGenerator(name);
  const options = generated ? { split, seed, length, offset } : { offset };
  const all = open(name, options);
  const series = count === undefined ? all : open(name, { ...options, count: Math.min(count, all.count) });
  const facts: DataFacts = {
    task: series.name,
    title: generated ? `series of the generator ${series.name}` : `series of ${series.name}`,
    kind: 'anomaly',
    classes: series.classes,
    channels: [VALUE_CHANNEL],
    length: series.length,
    rate: null,
    figure: null,
    statement: null,
  };
  return source(facts, series.count, null, (index) => exampleOf(series.at(index)));
}
