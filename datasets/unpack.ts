/** Zip archives of data sets as folders. Names in an archive are data: none leads out of the folder. */
import { closeSync, mkdirSync, openSync, writeSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { DataError } from '../src/ground/errors.ts';
import { type ByteSource, inMemory, reading } from './readers/byte-source.ts';
import { readZip, type ZipEntry } from './readers/zip.ts';

const CHUNK = 1 << 20;
/** Most bytes that an archive may unpack to. */
const MOST = 200e9;

export interface UnpackOptions {
  readonly signal?: AbortSignal;
  /** Files written so far. */
  readonly onFile?: (files: number) => void;
  /** Most bytes that may come out; default 200 GB. */
  readonly maximum?: number;
}

/**
 * The parts of a name in an archive; null for folders and what macOS adds.
 *
 * @throws DataError for names that are absolute or lead out of the folder
 */
function partsOf(name: string, archive: string): string[] | null {
  const parts = name.replaceAll('\\', '/').split('/');
  const file = parts.at(-1)!;
  const unsafe =
    name.includes('\0') ||
    parts[0] === '' ||
    /^[a-z]:/i.test(name) ||
    parts.some((part) => part === '..' || part === '.' || part.length > 255);
  if (unsafe) {
    throw new DataError(`entry ${JSON.stringify(name.slice(0, 80))} leads out of the folder; not unpacked`, {
      file: archive,
    });
  }
  if (file === '' || parts[0] === '__MACOSX' || file === '.DS_Store') return null;
  if (parts.includes(''))
    throw new DataError(`entry ${JSON.stringify(name)}: an empty name`, { file: archive });
  return parts;
}

async function write(content: ByteSource, path: string, signal: AbortSignal | undefined): Promise<void> {
  mkdirSync(dirname(path), { recursive: true });
  let handle: number;
  try {
    handle = openSync(path, 'wx');
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'EEXIST') throw cause;
    throw new DataError('is in the archive twice', { file: content.path, cause });
  }
  try {
    for (let at = 0; at < content.size; at += CHUNK) {
      const bytes = content.read(at, Math.min(CHUNK, content.size - at));
      for (let done = 0; done < bytes.length; ) done += writeSync(handle, bytes, done, bytes.length - done);
      await setImmediate();
      signal?.throwIfAborted();
    }
  } finally {
    closeSync(handle);
  }
}

function* entriesOf(source: ByteSource): Generator<ZipEntry> {
  yield* readZip(source);
}

/**
 * Unpacks a zip archive into a folder that is its own, and archives inside it where they stand.
 *
 * @returns number of files
 * @throws DataError for a damaged or encrypted archive, entries of more than 1 GiB, names that lead out, names that occur
 * twice, and more bytes than `maximum`; what `fs` throws when the disk refuses; the signal's reason
 */
export async function unpack(
  archive: string,
  directory: string,
  options: UnpackOptions = {},
): Promise<number> {
  const { signal, onFile, maximum = MOST } = options;
  let files = 0;
  let bytes = 0;
  const walk = async (
    entries: Generator<ZipEntry>,
    label: string,
    folder: string,
    nested: boolean,
  ): Promise<void> => {
    for (const entry of entries) {
      const parts = partsOf(entry.name, label);
      if (parts === null) continue;
      const content = entry.open();
      bytes += content.size;
      if (bytes > maximum) {
        throw new DataError(`unpacks to more than ${maximum} bytes; unpack it by hand, and name the folder`, {
          file: archive,
        });
      }
      const path = join(folder, ...parts);
      if (!nested && /\.zip$/i.test(entry.name)) {
        const inner = inMemory(content.path, content.read(0, content.size));
        await walk(entriesOf(inner), inner.path, path.replace(/\.zip$/i, ''), true);
        continue;
      }
      await write(content, path, signal);
      files++;
      onFile?.(files);
    }
  };
  await walk(reading(archive, entriesOf), archive, directory, false);
  if (files === 0) throw new DataError('holds no files', { file: archive });
  return files;
}
