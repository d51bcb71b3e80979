/** What may be changed of a run that is resumed: keys of its recipe and its data set, named one by one with --allow-change. */

import { z } from 'zod';
import { readJson } from '../../eval/records.ts';
import type { RecipeChange } from '../../eval/run-directory.ts';
import { ConfigError } from '../ground/errors.ts';
import { writeFileAtomic } from '../ground/files.ts';
import { changedKeys, checkKey, settingOf } from '../recipe/config.ts';
import type { Recipe } from '../recipe/recipe.ts';
import type { DataRecord } from './run-data.ts';

const OPTION = '--allow-change';
/** The data set itself: its files, or what its manifest says. */
export const DATA_KEY = 'data';

/** Whether one of the keys, or a block that it lies in, is allowed to change. */
export const isAllowed = (key: string, allowed: readonly string[]): boolean =>
  allowed.some((one) => key === one || key.startsWith(`${one}.`));

/** @throws ConfigError for what is no key, or can never change in a run */
export function checkAllowed(allowed: readonly string[]): void {
  for (const key of allowed) {
    checkKey(OPTION, key);
    if (key !== 'policy' && !key.startsWith('policy.')) continue;
    throw new ConfigError(
      `${OPTION} ${key}: a checkpoint holds the weights of the policy that its run began with; begin a new run`,
    );
  }
}

/** Keys in which a recipe differs from the one of a run. @throws ConfigError naming those that are not allowed to */
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
    `${path}: this run began with other values of ${refused.join(', ')}; choose a new --out, ` +
      `leave the settings out to use its own, or resume with ${refused.map((key) => `${OPTION} ${key}`).join(' ')}`,
  );
}

/** Changes of some keys between two recipes. */
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

/** A line of each, for whoever changed it. */
export function told({ key, from, to, stage, step }: RecipeChange): string {
  const values = key === DATA_KEY ? '' : ` from ${JSON.stringify(from)} to ${JSON.stringify(to)}`;
  return `changed: ${key}${values}, after step ${step} of ${stage}`;
}

/** Writes the changes, and what holds from now on, into the recipe.json of a run. */
export function recordChanges(
  file: string,
  now: { readonly recipe: Recipe; readonly data: DataRecord },
  changes: readonly RecipeChange[],
): void {
  const header = readJson(file, z.looseObject({ changes: z.array(z.json()).optional() }), 'begin a new run');
  const all = [...(header.changes ?? []), ...changes];
  writeFileAtomic(file, `${JSON.stringify({ ...header, ...now, changes: all }, null, 2)}\n`);
}
