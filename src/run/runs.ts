/** Runs in some directories, with the progress and results of each. */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { RunDirectory } from '../../eval/run-directory.ts';
import { readSummary } from '../../eval/summary.ts';
import { DataError, TimeseerError } from '../ground/errors.ts';
import { leavesOf } from '../ground/json-record.ts';
import { isClaimed } from '../ground/lock.ts';
import { meanOrNull } from '../ground/numbers.ts';
import { isDirectory } from '../ground/paths.ts';
import type { Json } from '../ground/types.ts';
import { changedKeys, defaultRecipe } from '../recipe/config.ts';
import { advantageName } from '../recipe/recipe.ts';
import { stageSteps } from '../train/sft.ts';

/** Depth to which directories are searched. */
const DEPTH = 4;
/** Number of last reinforcement steps whose mean reward is listed. */
const REWARD_STEPS = 10;

/** `running`: a process works on it; `stopped`: incomplete; `sft done`: reinforcement has not begun; `trained`: not evaluated yet. */
export type RunState = 'running' | 'stopped' | 'sft done' | 'trained' | 'finished';

export interface RunFacts {
  readonly path: string;
  readonly problem: null;
  readonly name: string;
  readonly data: string;
  /** Advantage estimator of the reinforcement; null without that stage. */
  readonly method: string | null;
  readonly state: RunState;
  /** Current stage, with its finished and total steps; null before the first step. */
  readonly at: { readonly stage: 'sft' | 'rl'; readonly step: number; readonly steps: number } | null;
  /** Mean reward of the responses of the last steps; null without reinforcement. */
  readonly reward: number | null;
  /** Mean rewards of the last policy on the held-out series; null before the report. */
  readonly greedy: number | null;
  readonly sampled: number | null;
  /** Wall-clock seconds of all stages. */
  readonly seconds: number;
  /** Recipe keys that differ from the defaults, without `data.name` and requirements. */
  readonly changed: Readonly<Record<string, Json>>;
}

/** A run whose files are damaged. */
export interface DamagedRun {
  readonly path: string;
  readonly problem: string;
}

/** Finds directories with a recipe.json at or below `path`, sorted by name; does not follow links or enter runs. */
export function findRuns(path: string, depth = DEPTH): string[] {
  if (existsSync(join(path, 'recipe.json'))) return [path];
  if (depth === 0) return [];
  return readdirSync(path, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && entry.name !== 'node_modules' && !entry.name.startsWith('.'))
    .map((entry) => entry.name)
    .sort((a, b) => a.localeCompare(b, 'en', { numeric: true }))
    .flatMap((name) => findRuns(join(path, name), depth - 1));
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
      ? stage === 'sft' && costs.sft?.complete === true
        ? 'sft done'
        : 'stopped'
      : metrics === null
        ? 'trained'
        : 'finished';
  const values = new Map(leavesOf(recipe));
  const changed = changedKeys(recipe, defaultRecipe()).filter(
    (key) => key !== 'data.name' && !key.startsWith('requirements.'),
  );
  const rewards = run
    .rlLines()
    .slice(-REWARD_STEPS)
    .flatMap(({ reward }) => reward ?? []);
  return {
    ...{ path, problem: null, name, state },
    data: recipe.data.name,
    method: recipe.rl.steps > 0 ? advantageName(recipe.rl) : null,
    at: stage === null ? null : { stage, step: last[stage], steps: stageSteps(recipe, stage) },
    reward: meanOrNull(rewards),
    greedy: metrics?.reward_greedy.mean ?? null,
    sampled: metrics?.reward_sampled?.mean ?? null,
    seconds: (costs.sft?.seconds ?? 0) + (costs.rl?.seconds ?? 0),
    changed: Object.fromEntries(changed.map((key) => [key, values.get(key) as Json])),
  };
}

/**
 * Lists the runs at or below some directories; a damaged run is listed with its problem.
 * @throws DataError for a directory that does not exist
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
