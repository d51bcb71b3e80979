/** Text and JSON files of a checkpoint. */
import { existsSync } from 'node:fs';
import { CheckpointError, DataError, reasonOf } from '../errors.ts';
import { readBytes } from '../input-file.ts';

/** A text file of a checkpoint. @throws CheckpointError when it cannot be read, or is no text: it could not be carried over unchanged */
export function readText(file: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(readBytes(file));
  } catch (cause) {
    const why = cause instanceof DataError ? reasonOf(cause) : 'cannot be read as UTF-8 text; copy it again';
    throw new CheckpointError(`${file}: ${why}`, { cause });
  }
}

/** Parses a JSON file of a checkpoint. @throws CheckpointError when it is missing or not JSON. */
export function readJson(file: string): unknown {
  if (!existsSync(file)) throw new CheckpointError(`${file}: no such file; a checkpoint directory holds it`);
  const text = readText(file);
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new CheckpointError(`${file}: not JSON; the file is truncated or damaged, copy it again`, {
      cause,
    });
  }
}
