/** `manifest.json` of a prepared data set: what it holds, where it came from, how it was split, how it is drawn. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { DataError } from '../src/ground/errors.ts';
import { fileInside, readUtf8 } from '../src/ground/files.ts';
import { readJson } from '../src/ground/json-files.ts';
import { issueText } from '../src/ground/json-record.ts';
import { CLASS, CLASS_RULE } from '../src/tasks/classification.ts';
import { KIND_NAMES } from '../src/tasks/kinds.ts';
import { SPLITS, type Split } from './split.ts';

export const materialFile = (split: Split): string => `${split}.prompts.jsonl`;
/** File of the class profiles, learned from the training split alone. */
export const CLASSES_FILE = 'classes.json';

export const figureFolder = (split: Split): string => `figures/${split}`;
/** Figure of example number `index` (0-based), relative to the data set; with '/' on every system. */
export const figureFile = (split: Split, index: number): string =>
  `${figureFolder(split)}/${String(index).padStart(6, '0')}.png`;

const count = z.number().int().nonnegative();
const share = z.number().min(0).max(1);
const sha256 = z.string().regex(/^[0-9a-f]{64}$/, 'expected 64 hexadecimal digits');
const file = { bytes: count, sha256 };

const splitMaterials = z.strictObject({
  prompts: z.strictObject({ file: z.enum(SPLITS.map(materialFile)), ...file }),
  /** Number of figures; bytes and SHA-256 of their concatenation. Null where none were drawn. */
  figures: z.strictObject({ folder: z.enum(SPLITS.map(figureFolder)), count, ...file }).nullable(),
  /** Examples with a trace that concludes the right answer: none of the test split. */
  teacher: count,
  /** Examples with a trace from values alone. */
  blind: count,
  /**
   * Score of the blind expert; null without traces, and for the split that it learned the classes from. Unreadable examples count as wrong.
   */
  score: z
    .strictObject({
      count: count.min(1),
      /** Share of right classes; null where there is no class. */
      accuracy: share.nullable(),
      /** Accuracy of always naming the most frequent class. */
      chance: share.nullable(),
      /** Mean F1 of the points in the intervals, or of the variates; null where there are none. */
      f1: share.nullable(),
    })
    .nullable(),
});

const materialFacts = z.strictObject({
  /** Version of the words of the prompts. */
  prompt: z.string().min(1),
  /** Version of the words of the traces; null where there are none. */
  traces: count.nullable(),
  /** Class profiles: their file, and their cross-validated accuracy on the training split. */
  classes: z.strictObject({ file: z.literal(CLASSES_FILE), ...file, heldOut: share.nullable() }).nullable(),
  splits: z.partialRecord(z.enum(SPLITS), splitMaterials),
  /** Parts that could not be drawn or traced, with reasons. */
  notes: z.array(z.string()),
});

export type MaterialFacts = z.infer<typeof materialFacts>;
export type SplitMaterials = z.infer<typeof splitMaterials>;

export const EXAMPLES_FORMAT = 'timeseer-examples';
export const EXAMPLES_VERSION = 1;
/** Format name of directories written before this format. */
const FORMER_FORMAT = 'timeseer-series';
export const EXAMPLES_MANIFEST = 'manifest.json';

export const splitFile = (split: Split): string => `${split}.jsonl`;

const text = z.string().min(1);

const part = z.strictObject({
  file: z.enum(SPLITS.map(splitFile)),
  count: count.min(1),
  bytes: count,
  sha256,
  /** Points of every example; null when they differ. */
  length: count.min(2).nullable(),
  /** Examples of each class; classes that do not occur are left out. */
  classes: z.record(z.string(), count),
  /** Different recordings; null where the examples name none. */
  recordings: count.nullable(),
});

/** The user's words, which prompts contain. */
const promptFacts = z.strictObject({
  /** Description of the measurement: quantity, method, rate; may be empty. */
  description: z.string(),
  /** Appearance of each class, by name. */
  hints: z.record(z.string(), text),
  /** Request for the extension; null where there can be none. */
  advice: text.nullable(),
});

const schema = z.strictObject({
  format: z.literal(EXAMPLES_FORMAT),
  version: z.literal(EXAMPLES_VERSION),
  task: text,
  title: text,
  kind: z.enum(KIND_NAMES),
  source: z.strictObject({
    description: text,
    licence: text,
    citation: z.string().nullable(),
    addresses: z.array(z.string()),
    /** Files that it was made from, with paths relative to the folder that was read; none for generated series. */
    files: z.array(z.strictObject({ path: text, bytes: count, sha256 })),
  }),
  parameters: z.record(z.string(), z.unknown()),
  split: z.strictObject({
    /** Origin of the split and its meaning for results; shown beside every result. */
    statement: text,
    /** True if each recording is in one split only; null where recordings are not known. */
    recordingsApart: z.boolean().nullable(),
  }),
  /** Classes of the answers in the order in which prompts list them; empty for variates. */
  classes: z
    .array(
      z
        .string()
        .regex(CLASS, { error: ({ input }) => `got ${JSON.stringify(input)}, expected ${CLASS_RULE}` }),
    )
    .refine((names) => new Set(names).size === names.length, { error: 'a class is listed twice' }),
  /** User's description of the data, for prompts; absent without one, and for tasks with a built-in prompt. */
  prompt: promptFacts.optional(),
  /** Samples per second; null where it is not known or has no meaning. */
  rate: z.number().positive().nullable(),
  figure: z.strictObject({
    preset: text,
    /** Missing points: the line breaks, or joins their neighbours. */
    missing: z.enum(['break', 'join']),
  }),
  /** Notes of the readers: faults tolerated, parts left out. */
  notes: z.array(z.string()),
  splits: z.partialRecord(z.enum(SPLITS), part),
  /** Figures, prompts and expert traces; absent where only the examples were written. */
  materials: materialFacts.optional(),
});

export type PromptFacts = z.infer<typeof promptFacts>;
export type ExampleManifest = z.infer<typeof schema>;
export type SplitFacts = z.infer<typeof part>;

/** Splits that a data set has, in their order. */
export function splitsOf(manifest: ExampleManifest): Split[] {
  return SPLITS.filter((split) => manifest.splits[split] !== undefined);
}

/** Returns true if the manifest of a directory names the format of prepared data sets. */
export function isExampleSet(directory: string): boolean {
  const file = join(directory, EXAMPLES_MANIFEST);
  if (!existsSync(file)) return false;
  try {
    return (JSON.parse(readUtf8(file)) as { format?: unknown } | null)?.format === EXAMPLES_FORMAT;
  } catch {
    return false;
  }
}

/**
 * Reads and checks the manifest of a prepared data set.
 * @throws DataError when it is missing, not JSON, of another format or version, or a field is wrong
 */
export function readExampleManifest(directory: string): ExampleManifest {
  const file = fileInside(directory, EXAMPLES_MANIFEST);
  const content = readJson(file, z.unknown(), 'make a data set with timeseer data prepare');
  const header = z.looseObject({ format: z.unknown(), version: z.unknown() }).safeParse(content);
  if (header.success && header.data.format === FORMER_FORMAT) {
    const { generator, split, seed, count: series, length } = header.data;
    const options = Object.entries({ split, seed, count: series, length }).filter(
      ([, value]) => typeof value === 'string' || typeof value === 'number',
    );
    throw new DataError(
      `format: ${FORMER_FORMAT} is not read any more; make the data set anew: timeseer data generate ${generator ?? 'NAME'} ${options.map(([key, value]) => `--${key} ${value} `).join('')}--out DIR`,
      { file },
    );
  }
  if (!header.success || header.data.format !== EXAMPLES_FORMAT) {
    throw new DataError(`format: not a ${EXAMPLES_FORMAT} manifest; timeseer data prepare writes one`, {
      file,
    });
  }
  if (header.data.version !== EXAMPLES_VERSION) {
    throw new DataError(
      `version: got ${JSON.stringify(header.data.version)}, this program reads ${EXAMPLES_VERSION}; prepare the data set again`,
      { file },
    );
  }
  const result = schema.safeParse(content);
  if (!result.success) {
    throw new DataError(issueText(result.error.issues[0]!, content, 'manifest'), { file });
  }
  const manifest = result.data;
  if (splitsOf(manifest).length === 0) throw new DataError('splits: none', { file });
  for (const split of splitsOf(manifest)) {
    const { classes, count: examples, file: name } = manifest.splits[split]!;
    const total = Object.values(classes).reduce((sum, n) => sum + n, 0);
    if (total !== examples) {
      throw new DataError(`splits.${split}.classes: add up to ${total}, count says ${examples}`, { file });
    }
    if (name !== splitFile(split)) throw new DataError(`splits.${split}.file: got ${name}`, { file });
    const stated = manifest.materials?.splits[split];
    if (manifest.materials !== undefined && stated === undefined) {
      throw new DataError(`materials.splits.${split}: missing`, { file });
    }
    if (stated !== undefined && stated.prompts.file !== materialFile(split)) {
      throw new DataError(`materials.splits.${split}.prompts.file: got ${stated.prompts.file}`, { file });
    }
  }
  return manifest;
}
