/** Files that a command line names, by path, pattern or directory, and their recordings: side by side where they share their times. */
import { existsSync, readdirSync, realpathSync } from 'node:fs';
import { basename, dirname, extname, join, relative, resolve } from 'node:path';
import type { Recording } from '../../datasets/readers/recording.ts';
import { MOST_COLUMNS } from '../../datasets/readers/recording-columns.ts';
import { joinRecordings, shareTimes, withFileName } from '../../datasets/readers/side-by-side.ts';
import { isWritten } from '../explain/formats.ts';
import { isOurs } from '../explain/report-page.ts';
import { ConfigError, TimeseerError } from '../ground/errors.ts';
import { STANDARD_INPUT } from '../ground/files.ts';
import { fits, isDirectory } from '../ground/paths.ts';
import { firstNames, onOneLine, say } from '../ground/terminal.ts';

/** Endings of the files that are read of a directory. */
const ENDINGS = ['.csv', '.tsv', '.jsonl', '.ndjson', '.log', '.lp', '.influx'];
/** Values that are kept until all files have shown whether they share their times: 160 MB. */
const MOST_VALUES = 20_000_000;
/** Paths in a directory without hidden ones, sorted; none for what is no directory. */
const pathsIn = (directory: string): string[] =>
  isDirectory(directory)
    ? readdirSync(directory)
        .filter((name) => !name.startsWith('.'))
        .sort()
        .map((name) => join(directory, name))
    : [];

/** Lists the files of a path, a directory or a pattern, with the directory below which they are. @throws ConfigError for none, if `isOnly` */
async function filesAt(named: string, isOnly: boolean) {
  const folder = isDirectory(named);
  if (!folder && (existsSync(named) || !/[*?]/.test(named)))
    return { files: [named], base: dirname(named), several: false };
  let places = folder ? pathsIn(named) : [named.startsWith('/') ? '/' : '.'];
  for (const part of folder ? [] : named.split('/').filter((name) => name !== ''))
    places = places.flatMap((place) =>
      /[*?]/.test(part) ? pathsIn(place).filter((path) => fits(basename(path), part)) : [join(place, part)],
    );
  const isWanted = (path: string): boolean =>
    folder ? ENDINGS.includes(extname(path).toLowerCase()) : existsSync(path);
  const wanted = places.filter((path) => isWanted(path) && !isDirectory(path));
  const written = wanted.filter((path) => isWritten(path) || (path.endsWith('.html') && isOurs(path)));
  if (written.length > 0) say(`note: written by timeseer, and left out: ${firstNames(written, 5)}`);
  const files = wanted.filter((path) => !written.includes(path));
  const base = folder ? named : named.slice(0, named.search(/[^/]*[*?]/));
  if (files.length > 0 || !isOnly) return { files: files.length > 0 ? files : [named], base, several: true };
  if (!folder) throw new ConfigError(`${named}: no file matches; write a pattern such as 'metrics/*.csv'`);
  const names = places.map((path) => basename(path));
  const skipped = names.length === 0 ? 'it is empty' : `skipped: ${firstNames(names, 5)}`;
  throw new ConfigError(
    `${named}: no recordings in this directory (${skipped}); they end in ${ENDINGS.join(', ')}. Name other files with a pattern such as '${join(named, '*')}'`,
  );
}

/** Names of files in reports by their paths; `several`: true where the arguments may name several, whatever is there. */
export type Files = Awaited<ReturnType<typeof filesOf>>;

/**
 * Lists the files that arguments name: paths, patterns such as `metrics/*.csv`, and directories. Each is named by its path from the directory
 * on that all arguments have in common, so that states and alerts do not change with the files that are there.
 * @throws ConfigError for a single pattern or directory without files, and for standard input beside others
 */
export async function filesOf(named: readonly string[]) {
  if (named.length > 1 && named.includes(STANDARD_INPUT))
    throw new ConfigError('-: standard input is read alone; leave the other files out');
  const all = await Promise.all(named.map((argument) => filesAt(argument, named.length === 1)));
  const several = all.length > 1 || all.some((argument) => argument.several);
  let common = resolve(all[0]?.base ?? '');
  for (const { base } of all) while (/^\.\.(?:\/|$)/.test(relative(common, base))) common = dirname(common);
  const files = new Map<string, string>();
  const seen = new Map<string, string>();
  for (const file of all.flatMap((argument) => argument.files)) {
    const real = several && existsSync(file) ? realpathSync(file) : file;
    const other = seen.get(real);
    if (other === undefined) files.set(file, relative(common, resolve(file)));
    else if (other !== file) say(`note: ${file} is the same file as ${other}, and is read once`);
    seen.set(real, other ?? file);
  }
  return { files, several };
}

/** Recording of one file, or of several side by side, and its name in reports. */
export interface Input {
  readonly name: string;
  readonly recording: Recording;
}

/** Joins the recordings of each group, the largest first. */
function* joined(groups: readonly (readonly Input[])[]): Generator<Input> {
  for (const parts of groups.toSorted((a, b) => b.length - a.length)) {
    const name = `${parts[0]!.name} and ${parts.length - 1} more`;
    const recordings = parts.map(({ recording }) => recording);
    const recording = parts.length === 1 ? null : joinRecordings(name, recordings);
    if (recording !== null) yield { name, recording: { ...recording, name: recordings[0]!.name } };
    else if (parts.length === 1) yield parts[0]!;
    else yield* joined([parts.slice(0, -1), parts.slice(-1)]);
  }
}

/**
 * Reads several files, whose names their columns bear: one recording for those that share their times.
 * @param onBroken hears of each file that cannot be read; the others are read all the same
 */
export async function* readInputs(
  { files }: Files,
  read: (file: string) => Promise<Recording>,
  onBroken: (error: TimeseerError, file: string) => void,
): AsyncGenerator<Input> {
  const byName = new Map<string, string>();
  let groups: Input[][] = [];
  let values = 0;
  for (const [file, path] of files) {
    try {
      const name = path.slice(0, path.length - extname(path).length);
      const other = byName.get(name);
      byName.set(name, other ?? file);
      if (other !== undefined)
        throw new ConfigError(`${file}: its columns would have the names of those of ${other}; rename one`);
      const recording = withFileName(await read(file), onOneLine(name));
      values += recording.columns.length * recording.rows.length;
      const group = groups.find(
        (parts) =>
          parts.reduce((sum, part) => sum + part.recording.columns.length, 0) < MOST_COLUMNS &&
          shareTimes(parts[0]!.recording, recording),
      );
      (group ?? groups[groups.push([]) - 1]!).push({ name: path, recording });
    } catch (error) {
      if (!(error instanceof TimeseerError)) throw error;
      onBroken(error, path);
    }
    if (values <= MOST_VALUES) continue;
    yield* joined(groups);
    [groups, values] = [[], 0];
  }
  yield* joined(groups);
}
