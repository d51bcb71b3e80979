/** Files as they are opened for reading. */
import { closeSync, fstatSync, openSync } from 'node:fs';
import { DataError, reasonOf } from '../../src/errors.ts';

/** Opens a regular file for reading. @throws DataError */
export function openFile(path: string): { handle: number; size: number } {
  try {
    const handle = openSync(path, 'r');
    const stat = fstatSync(handle);
    if (stat.isFile()) return { handle, size: stat.size };
    closeSync(handle);
  } catch (cause) {
    throw new DataError(`cannot be read (${reasonOf(cause)})`, { file: path, cause });
  }
  throw new DataError('not a regular file', { file: path });
}
