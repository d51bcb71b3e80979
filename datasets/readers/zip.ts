/**
 * Entries of a zip archive (stored or deflated, zip64), and archives as folders. Sizes in headers are checked before memory is allocated;
 * no name leads out of the folder.
 */

import { closeSync, mkdirSync, openSync, writeSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { crc32, inflateRawSync } from 'node:zlib';
import { DataError } from '../../src/ground/errors.ts';
import { type ByteSource, inMemory, MAXIMUM_HELD, partOf, reading } from './byte-source.ts';

export interface ZipEntry {
  readonly name: string;
  /** Content, unpacked. @throws DataError for damaged content, encryption, another compression */
  readonly open: () => ByteSource;
}

const END_RECORD = 0x06054b50;
const END_RECORD_64 = 0x06064b50;
const LOCATOR_64 = 0x07064b50;
const CENTRAL = 0x02014b50;
const LOCAL = 0x04034b50;
const STORED = 0;
const DEFLATED = 8;
const SATURATED_16 = 0xffff;
const SATURATED_32 = 0xffffffff;
/** Maximum compression ratio of Deflate. */
const MOST_PACKED = 1032;
const CHUNK = 1 << 20;

interface Directory {
  readonly entries: number;
  readonly offset: number;
  readonly size: number;
}

interface Sizes {
  packed: number;
  unpacked: number;
  offset: number;
}

function readDirectory(source: ByteSource): Directory {
  const fail = (message: string): DataError => new DataError(message, { file: source.path });
  const tailSize = Math.min(source.size, 22 + 0xffff);
  const tail = source.read(source.size - tailSize, tailSize);
  let at = tail.length - 22;
  while (at >= 0 && tail.readUInt32LE(at) !== END_RECORD) at--;
  if (at < 0) throw fail('not a zip archive, or cut off: no end record');
  const entries = tail.readUInt16LE(at + 10);
  const size = tail.readUInt32LE(at + 12);
  const offset = tail.readUInt32LE(at + 16);
  if (entries !== SATURATED_16 && size !== SATURATED_32 && offset !== SATURATED_32)
    return { entries, size, offset };
  const locator = source.size - tailSize + at - 20;
  if (locator < 0) throw fail('a zip64 archive without its locator');
  const pointer = source.read(locator, 20);
  if (pointer.readUInt32LE(0) !== LOCATOR_64) {
    return { entries, size, offset }; // just that many entries
  }
  const record = source.read(Number(pointer.readBigUInt64LE(8)), 56);
  if (record.readUInt32LE(0) !== END_RECORD_64) throw fail('a zip64 archive without its end record');
  return {
    entries: Number(record.readBigUInt64LE(32)),
    size: Number(record.readBigUInt64LE(40)),
    offset: Number(record.readBigUInt64LE(48)),
  };
}

/** Replaces saturated 32-bit sizes by those of the zip64 extra field, which holds only the saturated ones. */
function widen(sizes: Sizes, extra: Buffer): void {
  for (let at = 0; at + 4 <= extra.length; ) {
    const id = extra.readUInt16LE(at);
    const end = Math.min(at + 4 + extra.readUInt16LE(at + 2), extra.length);
    if (id === 1) {
      let field = at + 4;
      for (const key of ['unpacked', 'packed', 'offset'] as const) {
        if (sizes[key] !== SATURATED_32 || field + 8 > end) continue;
        sizes[key] = Number(extra.readBigUInt64LE(field));
        field += 8;
      }
    }
    at = end;
  }
}

function checksum(content: ByteSource): number {
  let crc = 0;
  for (let at = 0; at < content.size; at += CHUNK) {
    crc = crc32(content.read(at, Math.min(CHUNK, content.size - at)), crc);
  }
  return crc;
}

function openEntry(
  source: ByteSource,
  name: string,
  method: number,
  flags: number,
  crc: number,
  { packed, unpacked, offset }: Sizes,
): ByteSource {
  const fail = (message: string, cause?: unknown): DataError =>
    new DataError(`entry ${JSON.stringify(name)}: ${message}`, { file: source.path, cause });
  if ((flags & 1) === 1) throw fail('encrypted');
  const local = source.read(offset, 30);
  if (local.readUInt32LE(0) !== LOCAL) throw fail('no entry where the directory says');
  const start = offset + 30 + local.readUInt16LE(26) + local.readUInt16LE(28);
  const label = `${source.path}!${name}`;
  let content: ByteSource;
  if (method === STORED) {
    if (packed !== unpacked || start + packed > source.size) throw fail(`${packed} bytes lie beyond the end`);
    content = { ...partOf(source, start, packed), path: label };
  } else if (method === DEFLATED) {
    if (unpacked > packed * MOST_PACKED + MOST_PACKED) throw fail(`${packed} bytes cannot hold ${unpacked}`);
    if (unpacked > MAXIMUM_HELD) {
      throw fail(`${unpacked} bytes unpacked, more than ${MAXIMUM_HELD}; save it uncompressed (numpy.savez)`);
    }
    const bytes = source.read(start, packed);
    try {
      content = inMemory(label, inflateRawSync(bytes, { maxOutputLength: Math.max(unpacked, 1) }));
    } catch (cause) {
      throw fail(`damaged (${(cause as Error).message})`, cause);
    }
    if (content.size !== unpacked)
      throw fail(`${content.size} bytes unpacked, the directory says ${unpacked}`);
  } else throw fail(`compression method ${method}; stored and deflated entries are read`);
  if (checksum(content) !== crc) throw fail('damaged: its checksum is another');
  return content;
}

/**
 * Lists a zip archive from its central directory.
 * @throws DataError for a file that is no zip archive, is cut off, or has a directory that is not where it says
 */
export function readZip(source: ByteSource): ZipEntry[] {
  const { entries, offset, size } = readDirectory(source);
  const directory = source.read(offset, size);
  const list: ZipEntry[] = [];
  let at = 0;
  while (list.length < entries) {
    if (at + 46 > directory.length || directory.readUInt32LE(at) !== CENTRAL) {
      throw new DataError(`${entries} entries announced, ${list.length} found`, { file: source.path });
    }
    const flags = directory.readUInt16LE(at + 8);
    const method = directory.readUInt16LE(at + 10);
    const crc = directory.readUInt32LE(at + 16);
    const sizes: Sizes = {
      packed: directory.readUInt32LE(at + 20),
      unpacked: directory.readUInt32LE(at + 24),
      offset: directory.readUInt32LE(at + 42),
    };
    const nameEnd = at + 46 + directory.readUInt16LE(at + 28);
    const extraEnd = nameEnd + directory.readUInt16LE(at + 30);
    const name = directory.toString('utf8', at + 46, Math.min(nameEnd, directory.length));
    widen(sizes, directory.subarray(nameEnd, extraEnd));
    list.push({ name, open: () => openEntry(source, name, method, flags, crc, sizes) });
    at = extraEnd + directory.readUInt16LE(at + 32);
  }
  return list;
}

const MOST = 200e9;

interface UnpackOptions {
  readonly signal?: AbortSignal;
  /** Maximum bytes unpacked. Default: 200 GB. */
  readonly maximum?: number;
}

/**
 * Splits a name in an archive into its parts; null for folders and for files that macOS adds.
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
 * Unpacks a zip archive into a folder of its own, and archives inside it in their place.
 * @returns number of files
 * @throws DataError for a damaged archive, entries above 1 GiB, unsafe or repeated names, and more than `maximum` bytes
 */
export async function unpack(
  archive: string,
  directory: string,
  options: UnpackOptions = {},
): Promise<number> {
  const { signal, maximum = MOST } = options;
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
    }
  };
  await walk(reading(archive, entriesOf), archive, directory, false);
  if (files === 0) throw new DataError('holds no files', { file: archive });
  return files;
}
