/** Series by name: a generator, or a data set directory by its path. */
import { existsSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { ConfigError, suggestion } from '../src/errors.ts';

import { ANOMALY_CLASSES, type AnomalyClass, type LabeledSeries } from '../src/types.ts';
import { BENCHMARK_PROMPTS } from './benchmarks/registry.ts';
import { Dataset } from './dataset.ts';
import { seriesOf } from './example.ts';
import { isExampleSet } from './example-manifest.ts';
import { ExampleSet } from './example-set.ts';
import {
  ANOMLLM_LENGTH,
  ANOMLLM_TASKS,
  anomllm,
  anomllmClass,
  anomllmMixed,
  anomllmParameters,
} from './generators/anomllm.ts';
import {
  NANO5_CLASSES,
  NANO5_LENGTH,
  NANO5_MINIMUM_LENGTH,
  NANO5_PARAMETERS,
  nano5,
} from './generators/nano5.ts';
import { VTA_LENGTH, VTA_MINIMUM_LENGTH, VTA_TYPES, vta, vtaClass, vtaParameters } from './generators/vta.ts';
import { checkAddress, DEFAULT_SEED, MAXIMUM_INDEX, type Split } from './split.ts';

interface Generator {
  readonly summary: string;
  readonly classes: readonly AnomalyClass[];
  readonly length: number;
  readonly minimumLength: number;
  readonly parameters: Readonly<Record<string, unknown>>;
  at(seed: number, split: Split, index: number, length: number): LabeledSeries;
}

const GENERATORS: ReadonlyMap<string, Generator> = new Map<string, Generator>([
  [
    'nano5',
    {
      summary: 'five equally frequent classes, made for small pictures',
      classes: NANO5_CLASSES,
      length: NANO5_LENGTH,
      minimumLength: NANO5_MINIMUM_LENGTH,
      parameters: NANO5_PARAMETERS,
      at: nano5,
    },
  ],
  [
    'anomllm',
    {
      summary: 'the eight AnomLLM tasks, evenly mixed',
      classes: ANOMALY_CLASSES.filter((c) => c !== 'shapelet'),
      length: ANOMLLM_LENGTH,
      minimumLength: 2,
      parameters: Object.fromEntries(ANOMLLM_TASKS.map((task) => [task, anomllmParameters(task)])),
      at: anomllmMixed,
    },
  ],
  ...ANOMLLM_TASKS.map((task): [string, Generator] => [
    `anomllm/${task}`,
    {
      summary: `AnomLLM, anomalies of class '${anomllmClass(task)}'`,
      classes: [anomllmClass(task), 'normal'],
      length: ANOMLLM_LENGTH,
      minimumLength: 2,
      parameters: anomllmParameters(task),
      at: (seed, split, index, length) => anomllm(task, seed, split, index, length),
    },
  ]),
  ...VTA_TYPES.map((type): [string, Generator] => [
    `vta/${type}`,
    {
      summary: `VisualTimeAnomaly, class '${vtaClass(type)}'`,
      classes: [vtaClass(type)],
      length: VTA_LENGTH,
      minimumLength: VTA_MINIMUM_LENGTH,
      parameters: vtaParameters(type),
      at: (seed, split, index, length) => vta(type, seed, split, index, length),
    },
  ]),
]);

/** Names of the generators, each with a line about it. */
export function generators(): readonly { readonly name: string; readonly summary: string }[] {
  return [...GENERATORS].map(([name, { summary }]) => ({ name, summary }));
}

export interface OpenOptions {
  /** Default: 'train' for a generator; a directory has the one it was written with. */
  readonly split?: Split;
  /** Default: 3407 for train and validation, 42 for test. */
  readonly seed?: number;
  /** Number of series; default: all that follow `offset` (a generator has 2³² a split). */
  readonly count?: number;
  /** Points per series; default: the generator's. */
  readonly length?: number;
  /** Index of the first series, 0-based. */
  readonly offset?: number;
}

/** Series that can be walked through again and again, or asked for one by one. */
export interface SeriesSource extends Iterable<LabeledSeries> {
  /** Name of the generator, or the name in the manifest of a directory. */
  readonly name: string;
  readonly kind: 'generator' | 'directory';
  /** Null where a directory does not know. */
  readonly split: Split | null;
  readonly seed: number | null;
  readonly offset: number;
  readonly count: number;
  /** Points of every series; null when they differ. */
  readonly length: number | null;
  /** Classes that may occur. */
  readonly classes: readonly AnomalyClass[];
  /** Numbers of the generator, for the record. */
  readonly parameters: Readonly<Record<string, unknown>>;
  /**
   * Series number `index` of this source, in [0, count).
   * @throws RangeError outside
   */
  at(index: number): LabeledSeries;
}

function checkWindow(offset: number, count: number, available: number): void {
  if (!Number.isInteger(offset) || offset < 0 || offset >= available) {
    throw new ConfigError(`offset: got ${offset}, expected an integer from 0 to ${available - 1}`);
  }
  if (!Number.isInteger(count) || count < 1 || count > available - offset) {
    throw new ConfigError(`count: got ${count}, expected an integer from 1 to ${available - offset}`);
  }
}

function openGenerator(name: string, generator: Generator, options: OpenOptions): SeriesSource {
  const split = options.split ?? 'train';
  const seed = options.seed ?? DEFAULT_SEED[split];
  const length = options.length ?? generator.length;
  const offset = options.offset ?? 0;
  const count = options.count ?? MAXIMUM_INDEX + 1 - offset;
  checkWindow(offset, count, MAXIMUM_INDEX + 1);
  checkAddress(seed, offset, length, generator.minimumLength);
  const at = (index: number): LabeledSeries => {
    if (!Number.isInteger(index) || index < 0 || index >= count) {
      throw new RangeError(`series ${index} of ${name} with ${count} series`);
    }
    return generator.at(seed, split, offset + index, length);
  };
  const { classes, parameters } = generator;
  return {
    ...{ name, kind: 'generator', split, seed, offset, count, length, classes, parameters, at },
    *[Symbol.iterator]() {
      for (let i = 0; i < count; i++) yield at(i);
    },
  };
}

function openDirectory(path: string, options: OpenOptions): SeriesSource {
  const dataset = new Dataset(path);
  const { manifest } = dataset;
  for (const key of ['split', 'seed', 'length'] as const) {
    const wanted = options[key];
    if (wanted !== undefined && manifest[key] !== wanted) {
      throw new ConfigError(`${key}: asked for ${wanted}, but the data set ${path} has ${manifest[key]}`);
    }
  }
  const offset = options.offset ?? 0;
  const count = options.count ?? dataset.count - offset;
  checkWindow(offset, count, dataset.count);
  const { name, split, seed, length, parameters } = manifest;
  const classes = ANOMALY_CLASSES.filter((c) => (manifest.classes[c] ?? 0) > 0);
  return {
    ...{ name, kind: 'directory', split, seed, offset, count, length, classes, parameters },
    at(index) {
      if (!Number.isInteger(index) || index < 0 || index >= count) {
        throw new RangeError(`series ${index} of ${path} with ${count} series`);
      }
      return dataset.at(offset + index);
    },
    [Symbol.iterator]: () => dataset.read(offset, count),
  };
}

/** One split of a prepared data set whose examples are univariate anomaly series. */
function openExamples(path: string, options: OpenOptions): SeriesSource {
  const set = new ExampleSet(path);
  const { manifest } = set;
  if (manifest.kind !== 'anomaly') {
    throw new ConfigError(
      `${path}: holds examples of ${manifest.task}, whose answers are of kind '${manifest.kind}'; expected univariate series with anomalies`,
    );
  }
  for (const key of ['seed', 'length'] as const) {
    if (options[key] !== undefined)
      throw new ConfigError(`${key}: ${path} is prepared already; leave it out`);
  }
  const split = options.split ?? 'train';
  const facts = manifest.splits[split];
  if (facts === undefined) {
    throw new ConfigError(
      `split: ${path} has ${set.splits.join(', ')}, but no ${split}; prepare it with one`,
    );
  }
  const offset = options.offset ?? 0;
  const count = options.count ?? facts.count - offset;
  checkWindow(offset, count, facts.count);
  const { task: name, parameters } = manifest;
  const classes = ANOMALY_CLASSES.filter((c) => (facts.classes[c] ?? 0) > 0);
  return {
    ...{
      name,
      kind: 'directory',
      split,
      seed: null,
      offset,
      count,
      length: facts.length,
      classes,
      parameters,
    },
    at(index) {
      if (!Number.isInteger(index) || index < 0 || index >= count) {
        throw new RangeError(`series ${index} of ${path} with ${count} series`);
      }
      return seriesOf(set.at(split, offset + index));
    },
    *[Symbol.iterator]() {
      for (const example of set.read(split, offset, count)) yield seriesOf(example);
    },
  };
}

/**
 * Opens series by name: `nano5`, `anomllm/point` …, `anomllm` (all eight, evenly mixed), or the path of a directory that
 * `writeDataset` or `timeseer data prepare` made; of the latter, one split (default: train).
 *
 * @throws ConfigError for an unknown name (with the known ones and the closest) or an option out of range;
 * DataError for a directory that is not whole
 */
export function open(name: string, options: OpenOptions = {}): SeriesSource {
  const generator = GENERATORS.get(name);
  if (generator !== undefined) return openGenerator(name, generator, options);
  if (isExampleSet(name)) return openExamples(name, options);
  if (existsSync(name) && statSync(name).isDirectory()) return openDirectory(name, options);
  if (existsSync(name)) {
    throw new ConfigError(
      `${name}: is a file, not a data set; timeseer data prepare custom --from ${name} --out DIR makes one of it`,
    );
  }
  const known = [...GENERATORS.keys()];
  const task = BENCHMARK_PROMPTS.map((prompt) => prompt.name).find(
    (one) => one === name || one === basename(name),
  );
  if (task !== undefined) {
    throw new ConfigError(
      `no data set in '${name}': timeseer data prepare ${task} --out ${task === name ? join('data', ...task.split('/')) : name} makes it`,
    );
  }
  throw new ConfigError(
    `no data set named '${name}'.${suggestion(name, known)} Known: ${known.join(', ')}, or the path of a data set directory (timeseer data prepare writes one of any task: timeseer data list)`,
  );
}
