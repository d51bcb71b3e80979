/** Bytes with random access: a file, a part of one, or memory. */
import { closeSync, readSync } from 'node:fs';
import { DataError, reasonOf } from '../../src/ground/errors.ts';
import { openFile } from '../../src/ground/files.ts';
import { fromHalf } from '../../src/ground/half.ts';

/** Reads one element; 64-bit integers are rounded to the nearest float64. */
type Element = (view: DataView, offset: number, little: boolean) => number;

/** Element types of arrays in files, by their NumPy names: kind and bytes. */
export const ELEMENTS: Readonly<Record<string, Element>> = {
  b1: (view, at) => (view.getUint8(at) === 0 ? 0 : 1),
  i1: (view, at) => view.getInt8(at),
  u1: (view, at) => view.getUint8(at),
  i2: (view, at, little) => view.getInt16(at, little),
  u2: (view, at, little) => view.getUint16(at, little),
  i4: (view, at, little) => view.getInt32(at, little),
  u4: (view, at, little) => view.getUint32(at, little),
  i8: (view, at, little) =>
    view.getInt32(little ? at + 4 : at, little) * 2 ** 32 + view.getUint32(little ? at : at + 4, little),
  u8: (view, at, little) =>
    view.getUint32(little ? at + 4 : at, little) * 2 ** 32 + view.getUint32(little ? at : at + 4, little),
  f2: (view, at, little) => fromHalf(view.getUint16(at, little)),
  f4: (view, at, little) => view.getFloat32(at, little),
  f8: (view, at, little) => view.getFloat64(at, little),
};

/** Maximum bytes held at once; larger arrays are read only in parts. */
export const MAXIMUM_HELD = 1 << 30;

export interface ByteSource {
  readonly path: string;
  readonly size: number;
  /** `length` bytes from `offset`, in memory of their own or shared. @throws DataError beyond the end */
  read(offset: number, length: number): Buffer;
}

/** @throws DataError when the bytes do not lie inside the source, or are too many to be held */
function check(source: ByteSource, offset: number, length: number): void {
  if (!(offset >= 0 && length >= 0 && offset + length <= source.size)) {
    throw new DataError(`ends after ${source.size} bytes; expected ${length} bytes from byte ${offset}`, {
      file: source.path,
    });
  }
  if (length > MAXIMUM_HELD) {
    throw new DataError(`${length} bytes at once, more than ${MAXIMUM_HELD}; store the series one by one`, {
      file: source.path,
    });
  }
}

/** Makes a source of a read function, which is called with ranges inside the source alone. */
function checkedSource(path: string, size: number, read: ByteSource['read']): ByteSource {
  const source: ByteSource = {
    path,
    size,
    read: (offset, length) => {
      check(source, offset, length);
      return read(offset, length);
    },
  };
  return source;
}

export const partOf = (source: ByteSource, start: number, size: number): ByteSource =>
  checkedSource(source.path, size, (offset, length) => source.read(start + offset, length));

export const inMemory = (path: string, bytes: Buffer): ByteSource =>
  checkedSource(path, bytes.length, (offset, length) => bytes.subarray(offset, offset + length));

/** Runs `read` over the bytes of a file and closes it, also when the caller stops early. @throws DataError */
export function* reading<T>(path: string, read: (source: ByteSource) => Generator<T>): Generator<T> {
  const { handle, size } = openFile(path);
  const source = checkedSource(path, size, (offset, length) => {
    const bytes = Buffer.allocUnsafeSlow(length);
    for (let done = 0; done < length; ) {
      let count: number;
      try {
        count = readSync(handle, bytes, done, length - done, offset + done);
      } catch (cause) {
        throw new DataError(`cannot be read (${reasonOf(cause)})`, { file: path, cause });
      }
      if (count === 0) throw new DataError('ends earlier than when it was opened', { file: path });
      done += count;
    }
    return bytes;
  });
  try {
    yield* read(source);
  } finally {
    closeSync(handle);
  }
}
