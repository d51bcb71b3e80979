/** JSON files of a checkpoint. */
import { existsSync, readFileSync } from 'node:fs';
import { CheckpointError } from '../errors.ts';

/** Parses a JSON file of a checkpoint. @throws CheckpointError when it is missing or not JSON. */
export function readJson(file: string): unknown {
  if (!existsSync(file)) throw new CheckpointError(`${file}: no such file; a checkpoint directory holds it`);
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch (cause) {
    throw new CheckpointError(`${file}: not JSON; the file is truncated or damaged, copy it again`, {
      cause,
    });
  }
}
