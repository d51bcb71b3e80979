/** Files of a benchmark: their places below a folder, the meaning of labels, and windows of long series. */
import { readdirSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { ConfigError, DataError, reasonOf } from '../../src/ground/errors.ts';
import type { Interval } from '../../src/ground/types.ts';
import type { RawRecord } from '../readers/record.ts';
import type { Benchmark, Loaded } from './benchmark.ts';

/** Maximum depth of the folders that are searched. */
const DEPTH = 5;

/**
 * Paths of all files below a folder, those higher up first, then by name. Links are not followed.
 * @throws DataError for a folder that cannot be read
 */
export function filesBelow(directory: string): string[] {
  const files: string[] = [];
  let level = [directory];
  for (let depth = 0; depth <= DEPTH && level.length > 0; depth++) {
    const next: string[] = [];
    for (const folder of level) {
      let entries: ReturnType<typeof list>;
      try {
        entries = list(folder);
      } catch (cause) {
        const why = reasonOf(cause);
        throw new DataError(`cannot be read (${why}); name a folder that is there`, { file: folder, cause });
      }
      for (const entry of entries) {
        if (entry.name.startsWith('.') || entry.name === '__MACOSX') continue;
        if (entry.isDirectory()) next.push(join(folder, entry.name));
        else if (entry.isFile()) files.push(join(folder, entry.name));
      }
    }
    level = next;
  }
  return files;
}

const list = (folder: string) =>
  readdirSync(folder, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1));

/** The folder of a task that reads files. @throws ConfigError when none is named; DataError when it is not there */
export function folderOf(spec: Pick<Benchmark, 'name' | 'layout'>, directory: string | null): string {
  if (directory === null) {
    throw new ConfigError(`${spec.name}: needs files (${spec.layout}); name their folder with --from DIR`);
  }
  let isFolder: boolean;
  try {
    isFolder = statSync(directory).isDirectory();
  } catch (cause) {
    throw new DataError(`no such folder; ${spec.name} needs ${spec.layout}`, { file: directory, cause });
  }
  if (!isFolder) throw new DataError(`is a file; name the folder that holds it`, { file: directory });
  return directory;
}

/** First of `names` that occurs among `files`, in any case; undefined without one. */
export function pick(files: readonly string[], names: readonly string[]): string | undefined {
  for (const name of names) {
    const wanted = name.toLowerCase();
    const match = files.find((file) => basename(file).toLowerCase() === wanted);
    if (match !== undefined) return match;
  }
  return undefined;
}

/** Finds a required file with `pick`. @throws DataError naming the missing file and the folder */
export function need(
  files: readonly string[],
  names: readonly string[],
  directory: string,
  spec: Pick<Benchmark, 'name' | 'layout'>,
): string {
  const file = pick(files, names);
  if (file !== undefined) return file;
  throw new DataError(`holds no ${names.join(' or ')}; ${spec.name} needs ${spec.layout}`, {
    file: directory,
  });
}

/** Normal form of a label: `2`, `2.0` and ` 2` are equal; case, blanks, `-` and `_` do not count. */
function plain(label: string): string {
  const number = Number(label);
  return label.trim() !== '' && Number.isFinite(number)
    ? String(number)
    : label.toLowerCase().replaceAll(/[\s_-]+/g, '');
}

/**
 * Makes a reader of class labels.
 * @param classes class by label, in the order of prompts; a class is a label of itself
 * @returns a function that throws DataError for a record without a label, or with another one
 */
export function labelReader(
  classes: Readonly<Record<string, string>>,
): (label: string | null, record: Pick<RawRecord, 'id' | 'path'>) => string {
  const known = new Map<string, string>();
  for (const [label, name] of Object.entries(classes)) {
    known.set(plain(label), name);
    known.set(plain(name), name);
  }
  return (label, { id, path }) => {
    const name = label === null ? undefined : known.get(plain(label));
    if (name !== undefined) return name;
    const what = label === null ? 'no label' : `the unknown label ${JSON.stringify(label.slice(0, 40))}`;
    const expected = Object.entries(classes).map(([key, value]) =>
      key === value ? key : `${key} (${value})`,
    );
    throw new DataError(`${id}: ${what}; known labels: ${expected.join(', ')}`, { file: path });
  };
}

/** Classes in the order of the labels, each once. */
export function classesOf(labels: Readonly<Record<string, string>>): string[] {
  return [...new Set(Object.values(labels))];
}

const MINIMUM_WINDOW = 16;

/** @throws ConfigError unless it is a whole number of at least `MINIMUM_WINDOW`, or null */
export function checkWindow(window: number | null): void {
  if (window === null || (Number.isInteger(window) && window >= MINIMUM_WINDOW)) return;
  throw new ConfigError(
    `--window: got ${window}, expected a whole number of at least ${MINIMUM_WINDOW} points, or 0 for whole series`,
  );
}

/** Window length of a benchmark with the default `usual`. @throws ConfigError unless it is a whole number of at least 100 */
export function fixedWindow(window: number | null | undefined, usual: number): number {
  const size = window === undefined ? usual : window;
  if (size !== null && Number.isInteger(size) && size >= 100) return size;
  throw new ConfigError(`--window: got ${size}, expected at least 100 points; the task has ${usual}`);
}

/** @throws ConfigError where a task of whole series is asked for windows */
export function refuseWindow(task: string, window: number | null | undefined): void {
  if (window == null) return;
  throw new ConfigError(`${task}: its series are examples as they are; leave --window out`);
}

/**
 * Cuts [0, length) into the fewest windows of at most `most` points, of lengths that differ by at most one: no point is
 * left out, none is in two windows. Null: one window.
 */
export function evenWindows(length: number, most: number | null): Interval[] {
  const count = most === null ? 1 : Math.max(1, Math.ceil(length / most));
  return Array.from(
    { length: count },
    (_, k): Interval => [Math.floor((k * length) / count), Math.floor(((k + 1) * length) / count)],
  );
}

/** Windows of exactly `size` points from the start on; what is left at the end is not used. */
export function wholeWindows(length: number, size: number): Interval[] {
  return Array.from({ length: Math.floor(length / size) }, (_, k): Interval => [k * size, (k + 1) * size]);
}

/** Classified examples of one channel, cut from a recording into windows of `size` points; the rest is not used. */
export function* windowExamples(
  { task, recording, channel, label }: Record<'task' | 'recording' | 'channel' | 'label', string>,
  values: Float64Array,
  size: number,
): Generator<Loaded> {
  for (const [index, [start, end]] of wholeWindows(values.length, size).entries()) {
    const gold = { kind: 'classification', class: label } as const;
    const channels = [values.slice(start, end)];
    const id = `${task}/${recording}/${index}`;
    yield { split: null, example: { id, task, channels, names: [channel], times: null, gold, recording } };
  }
}
