/**
 * Files as they are opened for reading: regular files only, and not without end. A pipe or a device, which a name inside of
 * somebody's data may lead to, would block for ever or fill the memory.
 */
import {
  closeSync,
  constants,
  fstatSync,
  openSync,
  readFileSync,
  readSync,
  realpathSync,
  statSync,
} from 'node:fs';
import { isAbsolute, join, relative, sep } from 'node:path';
import { DataError, reasonOf } from './errors.ts';

/** Largest file that is read as a whole, in bytes: what a JavaScript string holds. */
export const MAXIMUM_BYTES = 500_000_000;

const NOT_REGULAR =
  'not a regular file, but a pipe, a device or a folder; save what it gives to a file, and name that';

/** Opens a regular file for reading, without waiting for a pipe. @throws what `fs` throws; DataError */
export function openRegular(path: string): { handle: number; size: number } {
  // Looked at before it is opened, which alone may block or mean something to a device; and after, when it cannot change.
  if (!statSync(path).isFile()) throw new DataError(NOT_REGULAR, { file: path });
  const handle = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  const stat = fstatSync(handle);
  if (stat.isFile()) return { handle, size: stat.size };
  closeSync(handle);
  throw new DataError(NOT_REGULAR, { file: path });
}

/** As `openRegular`. @throws DataError */
export function openFile(path: string): { handle: number; size: number } {
  try {
    return openRegular(path);
  } catch (cause) {
    if (cause instanceof DataError) throw cause;
    throw new DataError(`cannot be read (${reasonOf(cause)})`, { file: path, cause });
  }
}

/** What a shell passes on to a command: its standard input, and `<(…)`. Such a pipe has a writer, which ends. */
const PASSED_ON = /^\/dev\/(?:stdin|fd\/\d+)$/;

/**
 * The whole content of a regular file, or of a pipe that the shell passes on.
 * @throws what `fs` throws; DataError, also for more than `maximum` bytes
 */
export function readBytes(path: string, maximum = MAXIMUM_BYTES): Buffer {
  const tooMuch = (size: string): DataError =>
    new DataError(`${size} bytes, more than the ${maximum} that can be read`, { file: path });
  const piped = PASSED_ON.test(path) && statSync(path).isFIFO();
  const { handle, size } = piped ? { handle: openSync(path, 'r'), size: 0 } : openRegular(path);
  try {
    if (size > maximum) throw tooMuch(String(size));
    if (!piped) return readFileSync(handle);
    const chunks: Buffer[] = [];
    for (let held = 0; ; ) {
      const chunk = Buffer.allocUnsafe(1 << 16);
      const got = readSync(handle, chunk);
      if (got === 0) return Buffer.concat(chunks);
      held += got;
      if (held > maximum) throw tooMuch(String(held));
      chunks.push(chunk.subarray(0, got));
    }
  } finally {
    closeSync(handle);
  }
}

/** As `readBytes`, as text in UTF-8. */
export function readUtf8(path: string, maximum = MAXIMUM_BYTES): string {
  return readBytes(path, maximum).toString('utf8');
}

/**
 * The path of a file that is named by what lies in `folder`, or expected there: one that is reached without leaving it.
 *
 * @throws DataError where a name or a link leads out, so that nothing outside is read, copied or quoted
 */
export function fileInside(folder: string, name: string): string {
  const path = join(folder, name);
  let way: string;
  try {
    way = relative(realpathSync(folder), realpathSync(path));
  } catch {
    return path; // whoever opens it is told why it cannot be
  }
  if (way !== '' && way !== '..' && !way.startsWith(`..${sep}`) && !isAbsolute(way)) return path;
  throw new DataError(`leads out of ${folder}; put the file itself there, not a link to it`, { file: path });
}
