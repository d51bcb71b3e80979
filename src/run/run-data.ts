import { join } from 'node:path';
import { z } from 'zod';
import { generatorOf } from '../../datasets/benchmarks/registry.ts';
import { lengthOf } from '../../datasets/example.ts';
import {
  EXAMPLES_MANIFEST,
  type ExampleManifest,
  readExampleManifest,
  splitFile,
  splitsOf,
} from '../../datasets/example-manifest.ts';
import { ExampleSet } from '../../datasets/example-set.ts';
import { checkTraces, storedClasses } from '../../datasets/materials.ts';
import { type DataFacts, hasSplits, isGenerator } from '../../datasets/source.ts';
import type { Split } from '../../datasets/split.ts';
import { DataError, TimeseerError } from '../ground/errors.ts';
import { readJson } from '../ground/json-files.ts';
import type { Place } from '../ground/json-record.ts';
import type { Example } from '../ground/types.ts';
import { LARGEST_DRAWABLE } from '../plot/data.ts';
import { figure } from '../plot/figure.ts';
import type { PolicyCard } from '../tasks/card.ts';
import { drawingOf } from '../tasks/drawing.ts';
import { taskKind } from '../tasks/kinds.ts';
import { exampleTask } from './policy-task.ts';
import { type PromptReader, PromptRoom } from './prompt-length.ts';

export const dataRecordSchema = z.strictObject({
  /** `series` in runs on a format that is not read any more. */
  source: z.enum(['generator', 'prepared', 'series']),
  /** SHA-256 of each file as the manifest of the data set has it; none of a generator. */
  files: z.record(z.string(), z.string()),
  /** Further facts that training depends on: parameters of a generator, or questions, classes and figure of a manifest. */
  about: z.record(z.string(), z.json()),
});
export type DataRecord = z.infer<typeof dataRecordSchema>;

/** Returns the value as JSON reads it back. */
const plain = (value: object): DataRecord['about'] =>
  z.record(z.string(), z.json()).parse(JSON.parse(JSON.stringify(value)));

function preparedRecord(manifest: ExampleManifest): DataRecord {
  // Origin and notes do not affect training.
  const { format: _, version, source, parameters, split, notes, splits, materials, ...about } = manifest;
  const files: [string, string][] = [];
  for (const split of splitsOf(manifest)) {
    const { file, sha256 } = splits[split]!;
    files.push([file, sha256]);
    const prompts = split === 'train' ? materials?.splits.train?.prompts : undefined;
    if (prompts !== undefined) files.push([prompts.file, prompts.sha256]);
  }
  const classes = materials?.classes ?? null;
  if (classes !== null) files.push([classes.file, classes.sha256]);
  return { source: 'prepared', files: Object.fromEntries(files), about: plain(about) };
}

/**
 * Returns the record of a data set, from its manifest or its generator's parameters; reads no example.
 * @throws ConfigError for an unknown name; DataError for a manifest that is wrong
 */
export function dataRecord(name: string): DataRecord {
  const parameters = generatorOf(name)?.generator.parameters;
  if (parameters !== undefined) return { source: 'generator', files: {}, about: plain({ name, parameters }) };
  return preparedRecord(readExampleManifest(name));
}

const headerShape = z.object({ data: dataRecordSchema.optional() });

const short = (sha256: string | undefined): string =>
  sha256 === undefined ? 'none' : `${sha256.slice(0, 12)}…`;

/** Lists the names whose values differ between two records. */
export function changedNames(
  before: Readonly<Record<string, unknown>>,
  now: Readonly<Record<string, unknown>>,
) {
  const names = [...new Set([...Object.keys(before), ...Object.keys(now)])];
  return names.filter((name) => JSON.stringify(before[name]) !== JSON.stringify(now[name]));
}

/** Lists the files and keys in which two records differ. */
export function changedParts(before: DataRecord, now: DataRecord): string[] {
  const source = before.source === now.source ? [] : ['source'];
  return [...source, ...changedNames(before.files, now.files), ...changedNames(before.about, now.about)];
}

/** Reads the data record of the run in `path`; undefined in a run without one. */
const recordOf = (path: string): DataRecord | undefined =>
  readJson(join(path, 'recipe.json'), headerShape, 'begin a new run').data;

/** Returns the files of the run in `path` and those of a data set where they are not the same data, else null. */
export function changedData(
  path: string,
  name: string,
): { readonly from: DataRecord['files']; readonly to: DataRecord['files'] } | null {
  const before = recordOf(path);
  const now = dataRecord(name);
  if (before !== undefined && changedParts(before, now).length === 0) return null;
  return { from: before?.files ?? {}, to: now.files };
}

/**
 * Compares the data set with that of the run in `path`. A run without a record is left alone.
 * @throws DataError naming the files that changed and what to do; as `dataRecord`
 */
export function checkSameData(path: string, name: string): void {
  const before = recordOf(path);
  if (before === undefined) return;
  const now = dataRecord(name);
  if (changedParts(before, now).length === 0) return;
  const files = changedNames(before.files, now.files);
  const about = changedNames(before.about, now.about);
  const fresh = 'or begin a new run with another --out';
  if (before.source === 'generator' || now.source === 'generator') {
    throw new DataError(
      `${path}: this run began with another ${name} (${before.source === now.source ? about.join(', ') : before.source}); ` +
        `resume it with the version of timeseer that it began with, ${fresh}`,
    );
  }
  const changes = files.map(
    (file) => `${file} (${short(before.files[file])}, now ${short(now.files[file])})`,
  );
  if (about.length > 0 || before.source !== now.source) {
    changes.push(`${EXAMPLES_MANIFEST} (${about.join(', ') || 'another format'})`);
  }
  const [first = EXAMPLES_MANIFEST] = files;
  throw new DataError(
    `not what the run ${path} began with; changed since then: ${changes.join('; ')}. Put the former data back, ${fresh}; ` +
      '--allow-change data resumes with these',
    { file: join(name, about.length > 0 && files.length === 0 ? EXAMPLES_MANIFEST : first) },
  );
}

export interface DataCheck {
  /** Generator, or directory of a data set. */
  readonly name: string;
  readonly facts: DataFacts;
  /** Splits to check; those that the data set lacks are skipped. */
  readonly splits: readonly Split[];
  readonly card: PolicyCard;
  /** Opens the reader of prompts; called only for prompts with numbers. */
  readonly reader: () => PromptReader;
}

/** Checks examples beyond their schema. */
class ExampleCheck {
  readonly #facts: DataFacts;
  readonly #card: PolicyCard;
  readonly #ids = new Set<string>();
  readonly #shapes = new Set<string>();
  readonly #room: PromptRoom | null;
  readonly #task: ReturnType<typeof exampleTask>;
  #names: string | null = null;

  constructor({ facts, card, reader }: DataCheck) {
    this.#facts = facts;
    this.#card = card;
    this.#task = exampleTask(card, { facts });
    this.#room = card.numbers === null ? null : new PromptRoom(reader(), card.numbers.points);
  }

  /** @throws DataError with the example's place and id */
  add(example: Example, at: Place): void {
    const { id, channels, names, gold } = example;
    const fail = (why: string): DataError => new DataError(`${id}: ${why}`, at);
    if (this.#ids.has(id)) throw fail('this id occurs twice');
    this.#ids.add(id);
    for (const [c, channel] of channels.entries()) {
      for (let t = 0; t < channel.length; t++) {
        if (Math.abs(channel[t]!) > LARGEST_DRAWABLE) {
          throw fail(
            `channels[${c}][${t}]: ${channel[t]} is beyond ±${LARGEST_DRAWABLE}; rescale the series`,
          );
        }
      }
    }
    // Prompts list the manifest's classes; an anomaly of unnamed kind is not graded by its class.
    const { classes } = this.#facts;
    const kind = taskKind(gold.kind);
    const name = kind.className(gold);
    if (name !== null && !classes.includes(name)) {
      throw fail(`class ${JSON.stringify(name)} is none of the manifest's: ${classes.join(', ')}`);
    }
    if (kind.learnsClasses) {
      // Features of classes are compared channel by channel; other tasks may have as many as they like.
      this.#names ??= names.join(', ');
      if (names.join(', ') !== this.#names) {
        throw fail(`channels ${names.join(', ')}, but the first example has ${this.#names}`);
      }
    }
    let instruction: string | null;
    try {
      instruction = this.#look(example);
    } catch (error) {
      if (!(error instanceof TimeseerError)) throw error;
      throw new DataError(`${id}: ${error.message}`, { ...at, cause: error });
    }
    if (instruction !== null) this.#room?.add(id, at, instruction);
  }

  /** Figures of one shape are alike; prompts with numbers are all different, and given back. */
  #look(example: Example): string | null {
    if (this.#room !== null) return this.#task.instruction(example);
    const shape = `${example.channels.length} × ${lengthOf(example)}`;
    if (this.#shapes.has(shape)) return null;
    this.#shapes.add(shape);
    const preset = this.#card.figure;
    drawingOf(example, { preset, missing: this.#facts.figure?.missing ?? figure(preset).missing });
    return null;
  }

  /** Checks the longest prompt. @throws DataError as `PromptRoom.check` */
  finish(): void {
    this.#room?.check();
  }
}

/** Checks the classes and traces that training reads beside the examples. */
function checkBeside(set: ExampleSet, { style }: PolicyCard): void {
  const { kind, splits } = set.manifest;
  if (splits.train === undefined) return;
  const classes = Object.keys(splits.train.classes);
  if (taskKind(kind).learnsClasses && classes.length < 2) {
    throw new DataError(
      `the training split has one class only (${classes.join('')}), and there is nothing to tell apart; prepare the data set again`,
      { file: join(set.directory, splits.train.file) },
    );
  }
  storedClasses(set);
  if (style === 'full') checkTraces(set);
}

/**
 * Checks that a stage, or an evaluation, can go through the examples: every line is one, with an id of its own, values that can be
 * drawn, a class of the manifest and, in a classification, the channels of the first; files are those of the manifest (SHA-256);
 * figures of each shape exist; prompts with numbers fit the context; learned classes and stored traces are whole.
 *
 * @throws DataError with file, line and id
 */
export function checkData(options: DataCheck): void {
  const { name, splits, card } = options;
  if (isGenerator(name)) return;
  const check = new ExampleCheck(options);
  const set = new ExampleSet(name);
  checkBeside(set, card);
  for (const split of hasSplits(name) ? splits : set.splits) {
    if (set.count(split) === 0) continue;
    for (const { line, value, problem } of set.check(split)) {
      if (value === null) throw problem;
      check.add(value, { file: join(name, splitFile(split)), line });
    }
  }
  check.finish();
}
