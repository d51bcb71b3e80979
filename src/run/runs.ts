/** The runs below some directories, and what each has come to. */
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { RunDirectory } from '../../eval/run-directory.ts';
import { readSummary } from '../../eval/summary.ts';
import { DataError, TimeseerError } from '../ground/errors.ts';
import { isClaimed } from '../ground/lock.ts';
import type { Json } from '../ground/types.ts';
import { changedKeys, defaultRecipe, recipeLeaves } from '../recipe/config.ts';
import { advantageName } from '../recipe/recipe.ts';
import { stepsOf } from './stage.ts';

/** Directories below one that is searched. */
const DEPTH = 4;
/** Steps of reinforcement whose mean reward is told. */
const REWARD_STEPS = 10;

/** `running`: a process works on it; `stopped`: one that is not at its end; `trained`: not evaluated yet. */
export type RunState = 'running' | 'stopped' | 'trained' | 'finished';

export interface RunFacts {
  readonly path: string;
  readonly problem: null;
  readonly name: string;
  readonly data: string;
  /** Advantage estimator of the reinforcement; null without that stage. */
  readonly method: string | null;
  readonly state: RunState;
  /** The stage that it has come to, with steps done and all; null before the first step. */
  readonly at: { readonly stage: 'sft' | 'rl'; readonly step: number; readonly steps: number } | null;
  /** Mean reward of the responses of the last steps; null without reinforcement. */
  readonly reward: number | null;
  /** Mean rewards of the last policy on the held-out series; null before the report. */
  readonly greedy: number | null;
  readonly sampled: number | null;
  /** Of the stages. */
  readonly seconds: number;
  /** Keys of its recipe that are not at their defaults, `data.name` and requirements aside. */
  readonly changed: Readonly<Record<string, Json>>;
}

/** A run whose files are damaged. */
export interface DamagedRun {
  readonly path: string;
  readonly problem: string;
}

function isDirectory(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

/** Directories with a recipe.json at or below `path`, in order of their names; links are not followed, runs not entered. */
export function findRuns(path: string, depth = DEPTH): string[] {
  if (existsSync(join(path, 'recipe.json'))) return [path];
  if (depth === 0) return [];
  return readdirSync(path, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && entry.name !== 'node_modules' && !entry.name.startsWith('.'))
    .map((entry) => entry.name)
    .sort((a, b) => a.localeCompare(b, 'en', { numeric: true }))
    .flatMap((name) => findRuns(join(path, name), depth - 1));
}

function mean(values: readonly number[]): number | null {
  return values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** @throws TimeseerError for damaged files */
function factsOf(path: string): RunFacts {
  const run = new RunDirectory(path);
  const { recipe, name } = run;
  const last = { sft: run.sftLines().at(-1)?.step ?? 0, rl: run.rlLines().at(-1)?.step ?? 0 };
  const costs = { sft: run.cost('sft'), rl: run.cost('rl') };
  const stage = last.rl > 0 ? 'rl' : last.sft > 0 ? 'sft' : null;
  const wanted = recipe.rl.steps > 0 ? 'rl' : 'sft';
  const trained = costs[wanted]?.complete === true;
  const file = run.file('summary.json');
  const summary = existsSync(file) ? readSummary(file) : null;
  const metrics = summary?.rl?.metrics_after ?? summary?.sft?.metrics ?? null;
  const state = isClaimed(path)
    ? 'running'
    : !trained
      ? 'stopped'
      : metrics === null
        ? 'trained'
        : 'finished';
  const values = new Map(recipeLeaves(recipe));
  const changed = changedKeys(recipe, defaultRecipe()).filter(
    (key) => key !== 'data.name' && !key.startsWith('requirements.'),
  );
  const rewards = run.rlLines().slice(-REWARD_STEPS);
  return {
    ...{ path, problem: null, name, state },
    data: recipe.data.name,
    method: recipe.rl.steps > 0 ? advantageName(recipe.rl) : null,
    at: stage === null ? null : { stage, step: last[stage], steps: stepsOf(recipe, stage) },
    reward: mean(rewards.flatMap(({ reward }) => reward ?? [])),
    greedy: metrics?.reward_greedy.mean ?? null,
    sampled: metrics?.reward_sampled?.mean ?? null,
    seconds: (costs.sft?.seconds ?? 0) + (costs.rl?.seconds ?? 0),
    changed: Object.fromEntries(changed.map((key) => [key, values.get(key) as Json])),
  };
}

/**
 * The runs at or below some directories; a damaged one is told with what is wrong, and the others all the same.
 * @throws DataError for a directory that is not there
 */
export function listRuns(directories: readonly string[]): (RunFacts | DamagedRun)[] {
  const paths = directories.flatMap((directory) => {
    if (!isDirectory(directory)) throw new DataError(`${directory}: no such directory`);
    return findRuns(directory);
  });
  return [...new Set(paths)].map((path) => {
    try {
      return factsOf(path);
    } catch (error) {
      if (!(error instanceof TimeseerError)) throw error;
      return { path, problem: error.message };
    }
  });
}
