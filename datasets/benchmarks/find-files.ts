/** Files of a data set, wherever below a folder its archive has put them. */
import { readdirSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { ConfigError, DataError, reasonOf } from '../../src/errors.ts';
import type { Benchmark } from './benchmark.ts';

/** Folders below the given one that are looked into. */
const DEPTH = 5;

/**
 * Paths of all files below a folder, those higher up first, then by name. Links are not followed.
 *
 * @throws DataError for a folder that cannot be read
 */
export function filesBelow(directory: string): string[] {
  const found: string[] = [];
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
        else if (entry.isFile()) found.push(join(folder, entry.name));
      }
    }
    level = next;
  }
  return found;
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

/** The first of `names` that occurs among `files`, in any case; undefined without one. */
export function pick(files: readonly string[], names: readonly string[]): string | undefined {
  for (const name of names) {
    const wanted = name.toLowerCase();
    const found = files.find((file) => basename(file).toLowerCase() === wanted);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** As `pick`. @throws DataError with what was looked for, and where */
export function need(
  files: readonly string[],
  names: readonly string[],
  directory: string,
  spec: Pick<Benchmark, 'name' | 'layout'>,
): string {
  const found = pick(files, names);
  if (found !== undefined) return found;
  throw new DataError(`holds no ${names.join(' or ')}; ${spec.name} needs ${spec.layout}`, {
    file: directory,
  });
}
