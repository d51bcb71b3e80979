/** What data a run began with, as its recipe.json records it, and whether they are still the same. */
import { join } from 'node:path';
import { z } from 'zod';
import { generatorOf } from '../../datasets/benchmarks/registry.ts';
import {
  EXAMPLES_MANIFEST,
  type ExampleManifest,
  readExampleManifest,
  splitsOf,
} from '../../datasets/example-manifest.ts';
import { readJson } from '../../eval/records.ts';
import { DataError } from '../errors.ts';

export const dataRecordSchema = z.strictObject({
  /** `series` in runs on a format that is not read any more. */
  source: z.enum(['generator', 'prepared', 'series']),
  /** SHA-256 of each file as the manifest of the data set has it; none of a generator. */
  files: z.record(z.string(), z.string()),
  /** What else training depends on: a generator's parameters, or what the manifest says of questions, classes and figure. */
  about: z.record(z.string(), z.json()),
});
export type DataRecord = z.infer<typeof dataRecordSchema>;

/** As it is after a way through a file. */
const plain = (value: object): DataRecord['about'] =>
  z.record(z.string(), z.json()).parse(JSON.parse(JSON.stringify(value)));

function preparedRecord(manifest: ExampleManifest): DataRecord {
  // Where the data came from and what is said of them changes no training.
  const { format: _, version, source, parameters, split, notes, splits, materials, ...about } = manifest;
  const files: [string, string][] = [];
  for (const one of splitsOf(manifest)) {
    const { file, sha256 } = splits[one]!;
    files.push([file, sha256]);
    const prompts = one === 'train' ? materials?.splits.train?.prompts : undefined;
    if (prompts !== undefined) files.push([prompts.file, prompts.sha256]);
  }
  const classes = materials?.classes ?? null;
  if (classes !== null) files.push([classes.file, classes.sha256]);
  return { source: 'prepared', files: Object.fromEntries(files), about: plain(about) };
}

/**
 * The record of a data set by its name, from its manifest or its generator's parameters; no example is read.
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

function changedNames(before: Readonly<Record<string, unknown>>, now: Readonly<Record<string, unknown>>) {
  const names = [...new Set([...Object.keys(before), ...Object.keys(now)])];
  return names.filter((name) => JSON.stringify(before[name]) !== JSON.stringify(now[name]));
}

/** Files and keys in which two records differ. */
export function changedParts(before: DataRecord, now: DataRecord): string[] {
  const source = before.source === now.source ? [] : ['source'];
  return [...source, ...changedNames(before.files, now.files), ...changedNames(before.about, now.about)];
}

/**
 * Compares the data set with the one that the run in `path` began with. A run without a record is left alone.
 * @throws DataError naming the files that changed and what to do; as `dataRecord`
 */
export function checkSameData(path: string, name: string): void {
  const header = readJson(join(path, 'recipe.json'), headerShape, 'begin a new run');
  const before = header.data;
  if (before === undefined) return;
  const now = dataRecord(name);
  const files = changedNames(before.files, now.files);
  const about = changedNames(before.about, now.about);
  if (before.source === now.source && files.length === 0 && about.length === 0) return;
  const other = 'or begin a new run with another --out';
  if (before.source === 'generator' || now.source === 'generator') {
    throw new DataError(
      `${path}: this run began with another ${name} (${before.source === now.source ? about.join(', ') : before.source}); ` +
        `go on with the version of timeseer that it began with, ${other}`,
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
    `not what the run ${path} began with; changed since then: ${changes.join('; ')}. Put the former data back, ${other}`,
    { file: join(name, about.length > 0 && files.length === 0 ? EXAMPLES_MANIFEST : first) },
  );
}
