/** Files that a command line names, by path, pattern or directory, and their recordings: side by side where they share their times. */
import { existsSync, readdirSync, statSync } from 'node:fs';
import { basename, extname, join } from 'node:path';
import { stem } from '../../datasets/readers/record.ts';
import type { Recording } from '../../datasets/readers/recording.ts';
import { MOST_COLUMNS } from '../../datasets/readers/recording-columns.ts';
import { joinRecordings, mayShareTimes, withFileName } from '../../datasets/readers/side-by-side.ts';
import { ConfigError, TimeseerError } from '../ground/errors.ts';
import { STANDARD_INPUT } from '../ground/files.ts';
import { firstNames } from '../ground/terminal.ts';

/** Endings of the files that are read of a directory. */
const ENDINGS = ['.csv', '.tsv', '.jsonl', '.ndjson', '.log', '.lp', '.influx'];
/** Values that are kept until all files have shown whether they share their times: 160 MB. */
const MOST_VALUES = 20_000_000;

const isDirectory = (path: string): boolean =>
  statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;

/** Paths in a directory without hidden ones, sorted; none for what is no directory. */
const pathsIn = (directory: string): string[] =>
  isDirectory(directory)
    ? readdirSync(directory)
        .filter((name) => !name.startsWith('.'))
        .sort()
        .map((name) => join(directory, name))
    : [];

/** Lists the files of a path, a directory, or a pattern with `*` and `?` in any part. @throws ConfigError for none */
async function filesAt(named: string): Promise<string[]> {
  const folder = isDirectory(named);
  if (!folder && (existsSync(named) || !/[*?]/.test(named))) return [named];
  const { fits } = await import('../hub/pull.ts');
  let places = folder ? pathsIn(named) : [named.startsWith('/') ? '/' : '.'];
  for (const part of folder ? [] : named.split('/').filter((name) => name !== ''))
    places = places.flatMap((place) =>
      /[*?]/.test(part) ? pathsIn(place).filter((path) => fits(basename(path), part)) : [join(place, part)],
    );
  const isWanted = (path: string): boolean =>
    folder ? ENDINGS.includes(extname(path).toLowerCase()) : existsSync(path);
  const files = places.filter((path) => isWanted(path) && !isDirectory(path));
  if (files.length > 0) return files;
  if (!folder) throw new ConfigError(`${named}: no file matches; write a pattern such as 'metrics/*.csv'`);
  const names = places.map((path) => basename(path));
  const skipped = names.length === 0 ? 'it is empty' : `skipped: ${firstNames(names, 5)}`;
  throw new ConfigError(
    `${named}: no recordings in this directory (${skipped}); they end in ${ENDINGS.join(', ')}. Name other files with a pattern such as '${join(named, '*')}'`,
  );
}

/**
 * Lists the files that arguments name: paths, patterns such as `metrics/*.csv`, and directories.
 * @throws ConfigError for a pattern or directory without files, for two files of one name, and for standard input beside others
 */
export async function filesOf(named: readonly string[]): Promise<string[]> {
  const files = new Set<string>();
  for (const name of named) for (const file of await filesAt(name)) files.add(file);
  if (files.size > 1 && files.has(STANDARD_INPUT))
    throw new ConfigError('-: standard input is read alone; leave the other files out');
  const byName = new Map<string, string>();
  for (const file of files.size > 1 ? files : []) {
    const other = byName.get(stem(file));
    if (other !== undefined)
      throw new ConfigError(
        `${other} and ${file} have the same name, by which columns are told apart; rename one, or run the command once for each`,
      );
    byName.set(stem(file), file);
  }
  return [...files];
}

/** Recording of one file, or of several side by side, and its name in reports. */
export interface Input {
  readonly name: string;
  readonly recording: Recording;
  /** True for one file of several that do not share their times. */
  readonly alone: boolean;
}

/**
 * Reads several files, whose names their columns bear: one recording where they share their times, else one after the other.
 * @param onBroken hears of each file that cannot be read; the others are read all the same
 */
export async function* readInputs(
  files: readonly string[],
  read: (file: string) => Promise<Recording>,
  onBroken: (error: TimeseerError, file: string) => void,
): AsyncGenerator<Input> {
  const inputs: Input[] = [];
  let [columns, values, apart] = [0, 0, false];
  for (const file of files) {
    let recording: Recording;
    try {
      recording = withFileName(await read(file));
    } catch (error) {
      if (!(error instanceof TimeseerError)) throw error;
      onBroken(error, file);
      continue;
    }
    inputs.push({ name: basename(file), recording, alone: true });
    columns += recording.columns.length;
    values += recording.columns.length * recording.rows.length;
    apart ||=
      columns > MOST_COLUMNS || values > MOST_VALUES || !mayShareTimes(inputs[0]!.recording, recording);
    // Recordings that stand alone are not kept: there may be thousands.
    if (apart) yield* inputs.splice(0);
  }
  if (inputs.length > 1) {
    const name = `${inputs[0]!.name} and ${inputs.length - 1} more`;
    const joined = joinRecordings(
      name,
      inputs.map(({ recording }) => recording),
    );
    if (joined !== null) return yield { name, recording: joined, alone: false };
  }
  yield* inputs;
}
