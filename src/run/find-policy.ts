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

const QUICKSTART = '`npx timeseer quickstart` makes one in runs/quickstart';

const isPolicy = (directory: string): boolean => existsSync(join(directory, 'config.json'));

/** What to do about a path where nothing is: it may be meant as a repository of a hub, or as a download of one. */
function advice(path: string): string {
  const [, owner, name] = /^([\w.-]*\w)\/(\w[\w.-]*)\/?$/.exec(path) ?? [];
  if (owner === undefined || name === undefined || owner === 'runs' || owner.startsWith('.'))
    return QUICKSTART;
  if (owner === 'models') return `\`npx timeseer pull OWNER/${name}\` downloads it from the Hugging Face hub`;
  if (existsSync(owner)) return QUICKSTART;
  const download = join('models', name);
  return isPolicy(download)
    ? `the download of that name is ${download}`
    : `if it is a repository of the Hugging Face hub, \`npx timeseer pull ${owner}/${name}\` downloads it into ${download}`;
}

/**
 * The directory of a policy: `path` itself when it is one (a Hugging Face directory, with `config.json`), else the
 * furthest trained policy of the run directory `path`, in the order of RUN_POLICIES.
 * @throws CheckpointError that names what was looked for, and how to make one
 */
export function findPolicy(path: string): string {
  const found = ['', ...RUN_POLICIES].map((name) => join(path, name)).find(isPolicy);
  if (found !== undefined) return found;
  const there = statSync(path, { throwIfNoEntry: false });
  if (there === undefined) throw new CheckpointError(`${path}: no such directory; ${advice(path)}`);
  if (!there.isDirectory()) {
    throw new CheckpointError(
      `${path}: is a file; give the directory of a policy or of a run; ${QUICKSTART}`,
    );
  }
  if (existsSync(join(path, 'adapter_config.json'))) {
    throw new CheckpointError(
      `${path}: is an adapter; give its base checkpoint with --policy, and it to \`generate\` or \`merge\` with --adapter`,
    );
  }
  throw new CheckpointError(
    `${path}: no policy there (looked for config.json in it and in ${RUN_POLICIES.join(', ')}); ${QUICKSTART}`,
  );
}
