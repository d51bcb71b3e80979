/** The policy that a run begins with, copied into the run: what becomes of the original is then no matter. */
import { constants, cpSync, mkdirSync, statSync } from 'node:fs';
import { basename, isAbsolute, relative, resolve } from 'node:path';
import { DryEngine } from '../engine/dry/dry.ts';
import { ConfigError } from '../errors.ts';
import { MANIFEST_FILE, TRAINING_FILES, writeManifestedDirectory } from '../manifest.ts';
import { Policy } from '../policy/policy.ts';

function isInside(path: string, directory: string): boolean {
  const inside = relative(resolve(directory), resolve(path));
  return !inside.startsWith('..') && !isAbsolute(inside);
}

/** @throws ConfigError when the run's directory is inside the policy's, which could not be copied there */
export function checkPlace(out: string, from: string): void {
  if (!isInside(out, from)) return;
  throw new ConfigError(`--out ${out}: lies in ${from}, the policy that the run begins with; choose another`);
}

/** @throws ConfigError when the policy is part of the run that is removed before it is copied */
export function checkKept(out: string, from: string): void {
  if (!isInside(from, out)) return;
  throw new ConfigError(
    `policy.init: ${from} is part of the run in ${out}, which would be removed; choose another --out`,
  );
}

/**
 * Whether a file beside a policy's config.json is copied with it: not where its own training stood and not its manifest (the copy
 * gets its own), not the same weights in other formats, nothing hidden (a clone's `.git` holds everything again) and no directories.
 */
function isOfPolicy(path: string): boolean {
  const name = basename(path);
  const other = name.startsWith('.') || /\.(bin|pt|pth|gguf|h5|msgpack|onnx)$/.test(name);
  return !other && ![...TRAINING_FILES, MANIFEST_FILE].includes(name) && statSync(path).isFile();
}

/**
 * Copies a policy, whole or not at all, once its files are found to belong together: a copy of a damaged checkpoint would
 * stay when the checkpoint is repaired. The values of foreign weights are not looked at.
 * @throws CheckpointError naming the file of the original that is missing or damaged; WriteError
 */
export function copyPolicy(from: string, to: string): void {
  Policy.load(new DryEngine({ device: 'cpu', version: '2.0' }), from, { tuning: 'none' }).dispose();
  writeManifestedDirectory(to, (temporary) => {
    mkdirSync(temporary, { recursive: true });
    // Shares the blocks of large files where the file system can; files that are links (a hub cache) become files.
    cpSync(from, temporary, {
      recursive: true,
      dereference: true,
      filter: (source) => source === from || isOfPolicy(source),
      mode: constants.COPYFILE_FICLONE,
    });
  });
}
