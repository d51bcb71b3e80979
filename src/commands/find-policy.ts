/** Where the policy is, given the directory of a run or of a policy. */
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { CheckpointError } from '../errors.ts';

/** What a run directory may hold, the furthest trained first. */
export const RUN_POLICIES = [
  'rl/policy',
  'rl/checkpoint',
  'sft/policy',
  'sft/checkpoint',
  'initial',
] as const;

const isPolicy = (directory: string): boolean => existsSync(join(directory, 'config.json'));

/**
 * The directory of a policy: `path` itself when it is one (a Hugging Face directory, with `config.json`), else the
 * furthest trained policy of the run directory `path`, in the order of RUN_POLICIES.
 * @throws CheckpointError that names what was looked for, and how to make one
 */
export function findPolicy(path: string): string {
  const found = ['', ...RUN_POLICIES].map((name) => join(path, name)).find(isPolicy);
  if (found !== undefined) return found;
  const fix = '`npx timeseer quickstart` makes one in runs/quickstart';
  const there = statSync(path, { throwIfNoEntry: false });
  if (there === undefined) throw new CheckpointError(`${path}: no such directory; ${fix}`);
  if (!there.isDirectory()) {
    throw new CheckpointError(`${path}: is a file; give the directory of a policy or of a run; ${fix}`);
  }
  throw new CheckpointError(
    `${path}: no policy there (looked for config.json in it and in ${RUN_POLICIES.join(', ')}); ${fix}`,
  );
}
