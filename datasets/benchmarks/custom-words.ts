/**
 * `task.yaml` beside a user's own files: what the data are, in the user's words. Prompts contain the description and the hints; the
 * rest goes into the manifest.
 */

import { existsSync } from 'node:fs';
import { basename, join } from 'node:path';
import { z } from 'zod';
import { DataError, suggestion } from '../../src/errors.ts';
import { fileInside } from '../../src/files.ts';
import { RESERVED } from '../../src/tasks/prompt.ts';
import { issueText, MOST_YAML_BYTES, readYaml } from '../../src/yaml.ts';
import { readText } from '../csv.ts';

/** Names of the file, of which a folder may have one. */
export const TASK_FILES = ['task.yaml', 'task.yml', 'task.json'] as const;

const words = z
  .string()
  .trim()
  .min(1)
  .refine((value) => !RESERVED.test(value), {
    error: 'holds a tag of the answer or a special token; leave it out',
  });

const schema = z.strictObject({
  /** What a person calls the data: one line. */
  title: words.regex(/^[^\n\r]{1,100}$/, 'expected one line of at most 100 characters').optional(),
  /** What was measured, how, and how often. */
  description: words.optional(),
  kind: z.enum(['classification', 'anomaly', 'variates']).optional(),
  /** Samples per second. */
  rate: z.number().positive().optional(),
  /** What a class looks like, by its name. */
  hints: z.record(z.string().min(1), words).optional(),
  /** What an extension would be asked for: refused, because nothing judges one yet. */
  advice: z
    .unknown()
    .refine(() => false, {
      error: 'asks for an extension of the answer, which nothing can judge or reward yet; leave it out',
    })
    .optional(),
  /** Name of a figure preset. */
  figure: z.string().min(1).optional(),
  licence: z.string().min(1).optional(),
  citation: z.string().min(1).optional(),
});

/** An example, for help. */
export const TASK_FILE_EXAMPLE = `title: Pumps of one plant
description: Vibration of a pump bearing in g, two seconds at 100 Hz.
kind: classification        # or anomaly, variates: checked against the labels
rate: 100                   # samples per second
hints:                      # what the classes look like
  worn: a rough hum that grows with every turn
  new: an even, quiet hum
figure: line                # a preset, as of --figure
licence: internal           # citation: where the data were published`;

const FIELDS = Object.keys(schema.shape).filter((name) => name !== 'advice');

/** Words of a user, and where they stand. */
export interface CustomWords extends Omit<z.infer<typeof schema>, 'advice'> {
  readonly file: string;
  /** Where a field, such as `hints.worn`, stands. */
  readonly place: (...path: readonly string[]) => { readonly file: string; readonly line?: number };
}

/**
 * Reads the file of a folder, strictly; null where it has none.
 *
 * @throws DataError with file and line for a field that is unknown or wrong, and for text that is not YAML (or JSON)
 */
export function readWords(folder: string): CustomWords | null {
  const [file, other] = TASK_FILES.map((name) => join(folder, name)).filter((path) => existsSync(path));
  if (file === undefined) return null;
  if (other !== undefined) throw new DataError(`stands beside ${other}; keep one of them`, { file });
  const text = readText(fileInside(folder, basename(file)), MOST_YAML_BYTES);
  const yaml = readYaml(text, (complaint, line = 1, column = 1) => {
    return new DataError(`not YAML: ${complaint}`, { file, line, column });
  });
  const tree = yaml.content;
  /** Of the field itself, or of the nearest above it. */
  const place = (...path: readonly PropertyKey[]): { file: string; line?: number } => ({
    file,
    line: yaml.line(path) ?? 1,
  });
  const result = schema.safeParse(tree);
  if (!result.success) {
    const issue = result.error.issues[0]!;
    const unknown = issue.code === 'unrecognized_keys' ? issue.keys[0]! : undefined;
    const near = unknown === undefined ? '' : `.${suggestion(unknown, FIELDS)}`;
    const known = unknown === undefined ? '' : `${near === '.' ? '.' : near} Known: ${FIELDS.join(', ')}`;
    throw new DataError(
      `${issueText(issue, tree, 'task')}${known}`,
      place(...issue.path, ...(unknown === undefined ? [] : [unknown])),
    );
  }
  return { ...result.data, file, place };
}

/** @throws DataError for a hint to a class that the data do not have */
export function checkHints({ hints = {}, place }: CustomWords, classes: readonly string[]): void {
  const odd = Object.keys(hints).find((name) => !classes.includes(name));
  if (odd === undefined) return;
  throw new DataError(
    `hints.${odd}: the data have no such class.${suggestion(odd, classes)} Classes: ${classes.slice(0, 20).join(', ')}`,
    place('hints', odd),
  );
}
