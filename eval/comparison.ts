/** Runs side by side: where their recipes differ, what their policies reach, and how much that differs on the same series. */
import { resolve } from 'node:path';
import { ConfigError, DataError } from '../src/ground/errors.ts';
import type { Estimate, EvalRecord, Json } from '../src/ground/types.ts';
import { recipeLeaves } from '../src/recipe/config.ts';
import { taskKind } from '../src/tasks/kinds.ts';
import { metricsOf, pairedGain } from './metrics.ts';
import { sameGold } from './records.ts';
import { POLICIES, type PolicyName, type RlLine, RunDirectory, type SftLine } from './run-directory.ts';

/** A run of a comparison. */
export interface ComparedRun {
  /** As it was named. */
  readonly path: string;
  /** Its last policy that was evaluated; null where none was. */
  readonly policy: PolicyName | null;
  readonly series: number;
  readonly sft: readonly SftLine[];
  readonly rl: readonly RlLine[];
}

/** A metric of the runs' last policies. */
export interface ComparedMetric {
  readonly metric: string;
  readonly label: string;
  /** By run; null where it has none. */
  readonly values: readonly (Estimate | null)[];
  /** By run, its paired difference from the first one; null for the first, and where the two cannot be paired. */
  readonly differences: readonly (Estimate | null)[];
}

export interface Comparison {
  readonly runs: readonly ComparedRun[];
  /** Keys whose values are not the same in all recipes, with the value of each run; requirements, which change nothing, aside. */
  readonly keys: readonly { readonly key: string; readonly values: readonly Json[] }[];
  readonly metrics: readonly ComparedMetric[];
  /** Why differences are missing, one line each. */
  readonly notes: readonly string[];
}

interface Opened {
  readonly run: RunDirectory;
  readonly policy: PolicyName | null;
  readonly greedy: readonly EvalRecord[] | null;
  readonly sampled: readonly EvalRecord[] | null;
}

function open(path: string): Opened {
  const run = new RunDirectory(path);
  for (const policy of POLICIES.toReversed()) {
    const answers = run.answers(policy);
    if (answers !== null) return { run, policy, ...answers };
  }
  return { run, policy: null, greedy: null, sampled: null };
}

/** Why answers cannot be paired by series; null where they can. */
function unpaired(a: readonly EvalRecord[], b: readonly EvalRecord[]): string | null {
  const gold = new Map(a.map((one) => [one.seriesId, one.gold]));
  const ids = new Set(b.map((one) => one.seriesId));
  const shared = [...ids].filter((id) => gold.has(id)).length;
  if (shared !== gold.size || shared !== ids.size) {
    return `they answer other series (${gold.size} and ${ids.size}, ${shared} of them the same)`;
  }
  return b.every((one) => sameGold(one.gold, gold.get(one.seriesId)!)) ? null : 'their gold answers differ';
}

/** A metric over all answers of each run, and its paired differences from the first. */
function compared(
  answers: readonly (readonly EvalRecord[] | null)[],
  metric: string,
  label: string,
): ComparedMetric | null {
  const values = answers.map((records) =>
    records === null ? null : (metricsOf(records).overall[metric] ?? null),
  );
  if (values.every((value) => value === null)) return null;
  const [first] = answers;
  const differences = answers.map((records, i) => {
    if (i === 0 || records === null || first == null || unpaired(first, records) !== null) return null;
    try {
      return pairedGain(first, records, metric);
    } catch (error) {
      // A statistic of the whole set, which a single response does not have.
      if (error instanceof DataError) return null;
      throw error;
    }
  });
  return { metric, label, values, differences };
}

/**
 * Compares runs; differences are of the last evaluated policy of each from that of the first.
 * @throws ConfigError for fewer than two runs or the same twice; DataError for one that is damaged
 */
export function compareRuns(paths: readonly string[]): Comparison {
  if (paths.length < 2) throw new ConfigError('--compare: name at least two runs');
  const twice = paths.find((path, i) => paths.findIndex((one) => resolve(one) === resolve(path)) !== i);
  if (twice !== undefined) throw new ConfigError(`--compare: ${twice} is named twice`);
  const opened = paths.map(open);
  const leaves = opened.map(({ run }) => new Map(recipeLeaves(run.recipe)));
  const names = [...new Set(leaves.flatMap((one) => [...one.keys()]))].filter(
    (key) => !key.startsWith('requirements.'),
  );
  const keys = names.flatMap((key) => {
    const values = leaves.map((one) => (one.get(key) ?? null) as Json);
    return values.every((value) => JSON.stringify(value) === JSON.stringify(values[0]))
      ? []
      : [{ key, values }];
  });
  const notes = opened.flatMap(({ greedy }, i) => {
    if (greedy === null) return [`${paths[i]}: no policy of this run was evaluated`];
    const why = i === 0 || opened[0]!.greedy === null ? null : unpaired(opened[0]!.greedy, greedy);
    return why === null ? [] : [`${paths[i]}: no differences from ${paths[0]}: ${why}`];
  });
  const greedy = opened.map((one) => one.greedy);
  const labels = new Map(
    greedy.flatMap((records) =>
      records === null
        ? []
        : Object.entries(taskKind(records[0]!.gold.kind).evaluation.metrics).map(
            ([metric, { label }]) => [metric, label] as const,
          ),
    ),
  );
  const sampled = compared(
    opened.map((one) => one.sampled),
    'reward',
    'Reward, sampled',
  );
  const metrics = [...labels].map(([metric, label]) =>
    compared(greedy, metric, metric === 'reward' ? 'Reward, greedy' : label),
  );
  return {
    runs: opened.map(({ run, policy, greedy: records }, i) => ({
      path: paths[i]!,
      policy,
      series: new Set((records ?? []).map((one) => one.seriesId)).size,
      sft: run.sftLines(),
      rl: run.rlLines(),
    })),
    keys,
    metrics: [...metrics, sampled === null ? null : { ...sampled, metric: 'reward_sampled' }].filter(
      (one) => one !== null,
    ),
    notes,
  };
}
