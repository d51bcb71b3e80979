/** Changes to a resumed run: keys of its recipe, or its data set, each allowed with --allow-change. */

import { z } from 'zod';
import { readJson } from '../../eval/json-files.ts';
import type { RecipeChange } from '../../eval/run-directory.ts';
import { ConfigError } from '../ground/errors.ts';
import { writeFileAtomic } from '../ground/files.ts';
import { changedKeys, checkKey, settingOf } from '../recipe/config.ts';
import type { Recipe } from '../recipe/recipe.ts';
import type { DataRecord } from './run-data.ts';

const OPTION = '--allow-change';
/** Key for the files of the data set. */
export const DATA_KEY = 'data';

/** Whether a key, or the block that contains it, is allowed to change. */
export const isAllowed = (key: string, allowed: readonly string[]): boolean =>
  allowed.some((one) => key === one || key.startsWith(`${one}.`));

/** @throws ConfigError for an unknown key, or one that can never change in a run */
export function checkAllowed(allowed: readonly string[]): void {
  for (const key of allowed) {
    checkKey(OPTION, key);
    if (key !== 'policy' && !key.startsWith('policy.')) continue;
    throw new ConfigError(
      `${OPTION} ${key}: the weights in a checkpoint belong to the policy that its run started with; start a new run`,
    );
  }
}

/** Keys whose values differ from those of the run. @throws ConfigError naming those that are not allowed to differ */
export function checkChanges(
  path: string,
  before: Recipe,
  now: Recipe,
  allowed: readonly string[],
): string[] {
  const changed = changedKeys(before, now);
  const refused = changed.filter((key) => !isAllowed(key, allowed));
  if (refused.length === 0) return changed;
  throw new ConfigError(
    `${path}: this run was started with other values of ${refused.join(', ')}; choose a new --out, ` +
      `leave these settings out, or resume with ${refused.map((key) => `${OPTION} ${key}`).join(' ')}`,
  );
}

/** Lists the changes of some keys between two recipes. */
export const changesOf = (
  keys: readonly string[],
  before: Recipe,
  now: Recipe,
  at: Pick<RecipeChange, 'stage' | 'step'>,
): RecipeChange[] =>
  keys.map((key) => ({
    key,
    from: settingOf(before, key) as RecipeChange['from'],
    to: settingOf(now, key) as RecipeChange['to'],
    ...at,
  }));

/** Formats a change as one line. */
export function told({ key, from, to, stage, step }: RecipeChange): string {
  const values = key === DATA_KEY ? '' : ` from ${JSON.stringify(from)} to ${JSON.stringify(to)}`;
  return `changed: ${key}${values}, after step ${step} of ${stage}`;
}

/** Writes the changes and the new recipe into recipe.json of a run. */
export function recordChanges(
  file: string,
  now: { readonly recipe: Recipe; readonly data: DataRecord },
  changes: readonly RecipeChange[],
): void {
  const header = readJson(file, z.looseObject({ changes: z.array(z.json()).optional() }), 'begin a new run');
  const all = [...(header.changes ?? []), ...changes];
  writeFileAtomic(file, `${JSON.stringify({ ...header, ...now, changes: all }, null, 2)}\n`);
}
