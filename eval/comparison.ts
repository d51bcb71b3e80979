/**
 * Answers of several contenders to the same series: how much one is better, whether that may be chance, and which series it is about.
 * Contenders are policies, files of predictions, runs, or runs of several seeds; differences are always paired by series.
 */
import { existsSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { z } from 'zod';
import type { ExampleAddress } from '../datasets/source.ts';
import { ConfigError, DataError } from '../src/ground/errors.ts';
import { readJson } from '../src/ground/json-files.ts';
import { leavesOf } from '../src/ground/json-record.ts';
import { mean } from '../src/ground/numbers.ts';
import type { Estimate, EvalRecord, Gold, Json } from '../src/ground/types.ts';
import {
  intervalOf,
  type MeanInterval,
  mcnemar,
  pairedDifference,
  pairedPermutation,
  resampledDifference,
  SeedBootstrap,
} from '../src/measures/bootstrap.ts';
import { labelOf, metricNamed, taskKind } from '../src/tasks/kinds.ts';
import { type AnsweredSeries, answeredSeries, kindOf, metricOf, overallOf, pairedGains } from './metrics.ts';
import { type PredictionFiles, readPredictions } from './predictions.ts';
import { readRecords, sameGold } from './records.ts';
import { POLICIES, type PolicyName, type RlLine, RunDirectory, type SftLine } from './run-directory.ts';

export interface ComparedAnswers {
  /** Path, as given. */
  readonly name: string;
  readonly records: readonly EvalRecord[];
  /** The examples that it answers, where that is recorded. */
  readonly data: ExampleAddress | null;
  /** Series without an answer that `records` count as unreadable answers: gold answers without a prediction. */
  readonly missing?: readonly string[];
}

// ---- two sets of answers -------------------------------------------------------------------------------------------

/** Means of A and B over the series of both, and B − A. */
export interface Difference {
  readonly a: number;
  readonly b: number;
  readonly difference: Estimate;
}

interface TestedDifference extends Difference {
  readonly metric: string;
  readonly label: string;
  /** Two-sided p of this comparison alone, not corrected for several. */
  readonly p: number;
  /** McNemar's exact test where every value is 0 or 1, else a paired permutation test. */
  readonly test: 'McNemar' | 'permutation';
  /** Series on which B is better, worse, and equal. */
  readonly won: number;
  readonly lost: number;
  readonly same: number;
}

/** A series on which A and B differ. */
export interface Flip {
  readonly id: string;
  readonly task: string;
  readonly label: string;
  readonly outcome: 'won' | 'lost';
  readonly a: number;
  readonly b: number;
  /** First answer of each. */
  readonly answers: readonly [a: EvalRecord, b: EvalRecord];
}

export interface PairedComparison {
  readonly kind: Gold['kind'];
  readonly names: readonly [a: string, b: string];
  /** Series that are compared: those in both sets. */
  readonly series: number;
  /** Series of these that A and B answer; the others count as unreadable answers. */
  readonly answered: readonly [a: number, b: number];
  /** Series in one set only, which are left out. */
  readonly onlyA: number;
  readonly onlyB: number;
  /** The main metrics of the kind and the reward. */
  readonly metrics: readonly TestedDifference[];
  readonly metric: string;
  /** Differences by gold class; of variates by the number of anomalous ones. */
  readonly byType: Readonly<Record<string, Difference>>;
  /** Series whose values differ, the largest difference first. */
  readonly flips: readonly Flip[];
}

type Pair = readonly [a: AnsweredSeries, b: AnsweredSeries];

/** Series that all contenders have, in the order of the first. @throws DataError where there is none, or gold answers differ */
function sharedSeries(all: readonly ComparedAnswers[]): AnsweredSeries[][] {
  const [first, ...others] = all.map(({ records }) => answeredSeries(records, { details: true }));
  const byId = others.map((list) => new Map(list.map((series) => [series.id, series])));
  const shared = first!.flatMap((series) => {
    const partners = byId.flatMap((group) => group.get(series.id) ?? []);
    return partners.length < byId.length ? [] : [[series, ...partners]];
  });
  const names = all.length === 2 ? `${all[0]!.name} and ${all[1]!.name}` : `the ${all.length} runs`;
  if (shared.length === 0) {
    throw new DataError(`${names} answer no series in common; evaluate all on the same data`);
  }
  for (const [series, ...partners] of shared) {
    const odd = partners.findIndex(({ gold }) => !sameGold(gold, series!.gold));
    if (odd >= 0) {
      throw new DataError(
        `${series!.id}: the gold answers of ${all[0]!.name} and ${all[odd + 1]!.name} differ; evaluate both on the same data`,
      );
    }
  }
  return shared;
}

/** Values of a metric where both sides have it. */
function columns(pairs: readonly Pair[], metric: string): readonly [a: number[], b: number[]] {
  const both = pairs.filter(([a, b]) => metric in a.values && metric in b.values);
  return [both.map(([a]) => a.values[metric]!), both.map(([, b]) => b.values[metric]!)];
}

const differenceOf = ([a, b]: readonly [number[], number[]]): Difference => ({
  a: mean(a),
  b: mean(b),
  difference: pairedDifference(b, a),
});

function tested(pairs: readonly Pair[], metric: string, label: string): TestedDifference | null {
  const [a, b] = columns(pairs, metric);
  if (a.length === 0) return null;
  const changes = b.map((value, i) => value - a[i]!);
  const won = changes.filter((change) => change > 0).length;
  const lost = changes.filter((change) => change < 0).length;
  const binary = [...a, ...b].every((value) => value === 0 || value === 1);
  return {
    ...{ metric, label, ...differenceOf([a, b]), won, lost, same: a.length - won - lost },
    test: binary ? 'McNemar' : 'permutation',
    p: binary ? mcnemar(lost, won) : pairedPermutation(changes),
  };
}

/** Number of some series that a contender answers. */
function answeredOf({ missing = [] }: ComparedAnswers, ids: readonly string[]): number {
  const without = new Set(missing);
  return ids.filter((id) => !without.has(id)).length;
}

/**
 * Compares answers, B − A, over the series in both sets.
 * @param wanted metric of types and flips; default: the first main metric that every series has
 * @throws DataError where nothing can be paired; ConfigError for a metric that the answers do not have
 */
export function compareAnswers(a: ComparedAnswers, b: ComparedAnswers, wanted?: string): PairedComparison {
  const kind = kindOf([...a.records, ...b.records]);
  const pairs = sharedSeries([a, b]) as unknown as Pair[];
  const { metrics, details, main } = taskKind(kind).evaluation;
  const has = (name: string): boolean => pairs.every((pair) => pair.every(({ values }) => name in values));
  const known = Object.keys({ ...metrics, ...details }).filter((name) => columns(pairs, name)[0].length > 0);
  if (wanted !== undefined && !known.includes(wanted)) {
    throw new ConfigError(`--metric ${wanted}: expected one of ${known.join(', ')}`);
  }
  const metric = wanted ?? main.find(has) ?? 'reward';
  const shown = [...new Set([...main, 'reward', metric])];
  const labels = [...new Set(pairs.map(([{ gold }]) => labelOf(gold)))].sort();
  const types = labels.flatMap((label): [string, Difference][] => {
    const group = pairs.filter(([{ gold }]) => labelOf(gold) === label);
    const values = columns(group, metric);
    return values[0].length === 0 ? [] : [[label, differenceOf(values)]];
  });
  const flips = pairs.flatMap(([first, second]): Flip[] => {
    const [before, after] = [first.values[metric], second.values[metric]];
    if (before === undefined || after === undefined || before === after) return [];
    const outcome = after > before !== (metric === 'unparsable') ? 'won' : 'lost';
    const { id, task, gold } = first;
    const answers = [first.records[0]!, second.records[0]!] as const;
    return [{ id, task, label: labelOf(gold), outcome, a: before, b: after, answers }];
  });
  const ids = pairs.map(([{ id }]) => id);
  const only = ({ records }: ComparedAnswers): number =>
    new Set(records.flatMap(({ seriesId, failure }) => (failure === undefined ? [seriesId] : []))).size -
    ids.length;
  return {
    ...{ kind, names: [a.name, b.name], series: ids.length, onlyA: only(a), onlyB: only(b), metric },
    answered: [answeredOf(a, ids), answeredOf(b, ids)],
    metrics: shown.flatMap((name) => tested(pairs, name, metricNamed(kind, name).label) ?? []),
    byType: Object.fromEntries(types),
    // Sorting is stable: of equal differences the earlier series comes first.
    flips: flips.sort((first, second) => Math.abs(second.b - second.a) - Math.abs(first.b - first.a)),
  };
}

// ---- several seeds a side ------------------------------------------------------------------------------------------

/** A metric of two sides with several runs each. */
interface SeedDifference {
  readonly metric: string;
  readonly label: string;
  readonly a: MeanInterval;
  readonly b: MeanInterval;
  /** B − A; seeds and series are resampled together. */
  readonly difference: MeanInterval;
  /** Two-sided, from the same resamples. */
  readonly p: number;
}

export interface SeedComparison {
  readonly kind: Gold['kind'];
  /** Runs of each side. */
  readonly names: readonly [a: readonly string[], b: readonly string[]];
  /** Series in the sets of all runs. */
  readonly series: number;
  /** Smallest number of these that a run of each side answers; the others count as unreadable answers. */
  readonly answered: readonly [a: number, b: number];
  readonly metrics: readonly SeedDifference[];
}

/**
 * Compares runs of several seeds, B − A: both seeds and series are resampled. Runs need not be paired.
 * @throws DataError where the runs have no series in common, or their gold answers differ
 */
export function compareSeeds(a: readonly ComparedAnswers[], b: readonly ComparedAnswers[]): SeedComparison {
  const all = [...a, ...b];
  const kind = kindOf(all.flatMap(({ records }) => records));
  const shared = sharedSeries(all);
  const { metrics, main } = taskKind(kind).evaluation;
  const bootstrap = new SeedBootstrap(shared.length);
  const ids = shared.map(([series]) => series!.id);
  const fewest = (side: readonly ComparedAnswers[]): number =>
    Math.min(...side.map((run) => answeredOf(run, ids)));
  return {
    ...{ kind, names: [a.map(({ name }) => name), b.map(({ name }) => name)], series: ids.length },
    answered: [fewest(a), fewest(b)],
    metrics: [...main, 'reward'].flatMap((metric): SeedDifference[] => {
      const values = all.map((_, run) => shared.map((group) => group[run]!.values[metric] ?? null));
      if (values.some((column) => column.every((value) => value === null))) return [];
      const first = bootstrap.overSeeds(values.slice(0, a.length));
      const second = bootstrap.overSeeds(values.slice(a.length));
      const { p, ...difference } = resampledDifference(second, first);
      return [
        { metric, label: metrics[metric]!.label, p, a: intervalOf(first), b: intervalOf(second), difference },
      ];
    }),
  };
}

/** States how many series are compared, and which side lacks answers to some. */
export function seriesText({
  series,
  answered: [a, b],
}: Pick<PairedComparison, 'series' | 'answered'>): string {
  if (a === series && b === series) return `${series} series, answered by both sides`;
  return `${series} series: A answers ${a} of them, B ${b}; a missing answer counts as unreadable`;
}

// ---- runs ----------------------------------------------------------------------------------------------------------

/** A run of a comparison. */
export interface ComparedRun {
  /** Path, as given. */
  readonly path: string;
  /** Its last evaluated policy; null when none was evaluated. */
  readonly policy: PolicyName | null;
  readonly series: number;
  readonly sft: readonly SftLine[];
  readonly rl: readonly RlLine[];
}

/** A metric of the runs' last policies. */
interface ComparedMetric {
  readonly metric: string;
  readonly label: string;
  /** Values by run; null where it has none. */
  readonly values: readonly (Estimate | null)[];
  /** Paired differences from the first run, by run; null for the first, and where the two cannot be paired. */
  readonly differences: readonly (Estimate | null)[];
}

export interface RunComparison {
  readonly runs: readonly ComparedRun[];
  /** Keys whose values differ between the recipes, with the value of each run; without requirements, which change nothing. */
  readonly keys: readonly { readonly key: string; readonly values: readonly Json[] }[];
  readonly metrics: readonly ComparedMetric[];
  /** Reasons for missing differences, one line each. */
  readonly notes: readonly string[];
}

type Records = readonly EvalRecord[] | null;

/** Reason why answers cannot be paired by series; null where they can. */
function unpaired(a: readonly EvalRecord[], b: readonly EvalRecord[]): string | null {
  const gold = new Map(a.map((record) => [record.seriesId, record.gold]));
  const ids = new Set(b.map(({ seriesId }) => seriesId));
  const shared = [...ids].filter((id) => gold.has(id)).length;
  if (shared !== gold.size || shared !== ids.size) {
    return `they answer other series (${gold.size} and ${ids.size}, ${shared} of them the same)`;
  }
  return b.every((record) => sameGold(record.gold, gold.get(record.seriesId)!))
    ? null
    : 'their gold answers differ';
}

/** Metrics over all answers of each run, and the paired differences from the first: of greedy answers, then the sampled reward. */
function runMetrics(greedy: readonly Records[], sampled: readonly Records[]): ComparedMetric[] {
  const kinds = new Set(greedy.flatMap((records) => records?.[0]?.gold.kind ?? []));
  const labels = Object.assign({}, ...[...kinds].map((kind) => taskKind(kind).evaluation.metrics));
  const options = { details: false };
  const paired = (answers: readonly Records[], names?: readonly string[]) =>
    answers.map((records, i) => {
      const first = answers[0]!;
      if (i === 0 || records === null || first === null || unpaired(first, records) !== null) return null;
      return pairedGains(first, records, options, names);
    });
  const sets = greedy.map((records) => (records === null ? null : overallOf(records, options)));
  const changes = paired(greedy);
  const row = (metric: string): ComparedMetric => ({
    metric,
    label: metric === 'reward' ? 'Reward, greedy' : labels[metric].label,
    values: sets.map((set) => set?.[metric] ?? null),
    differences: changes.map((change) => change?.[metric] ?? null),
  });
  const rewards: ComparedMetric = {
    ...{ metric: 'reward_sampled', label: 'Reward, sampled' },
    values: sampled.map((records) => (records === null ? null : metricOf(records, 'reward', options))),
    differences: paired(sampled, ['reward']).map((change) => change?.['reward'] ?? null),
  };
  return [...Object.keys(labels).map(row), rewards].filter(({ values }) =>
    values.some((value) => value !== null),
  );
}

/**
 * Compares runs; differences are of the last evaluated policy of each from that of the first.
 * @throws ConfigError for fewer than two runs or the same twice; DataError for one that is damaged
 */
export function compareRuns(paths: readonly string[]): RunComparison {
  if (paths.length < 2) throw new ConfigError('--compare: name at least two runs');
  const twice = paths.find((path, i) => paths.findIndex((other) => resolve(other) === resolve(path)) !== i);
  if (twice !== undefined) throw new ConfigError(`--compare: ${twice} is named twice`);
  const runs = paths.map((path) => new RunDirectory(path));
  const answers = runs.map(lastAnswers);
  const greedy = answers.map((last) => last?.greedy ?? null);
  const leaves = runs.map(({ recipe }) => new Map(leavesOf(recipe)));
  const names = new Set(leaves.flatMap((values) => [...values.keys()]));
  const keys = [...names].flatMap((key) => {
    const values = leaves.map((recipe) => (recipe.get(key) ?? null) as Json);
    const same = values.every((value) => JSON.stringify(value) === JSON.stringify(values[0]));
    return same || key.startsWith('requirements.') ? [] : [{ key, values }];
  });
  const notes = greedy.flatMap((records, i) => {
    if (records === null) return [`${paths[i]}: no policy of this run was evaluated`];
    const why = i === 0 || greedy[0] == null ? null : unpaired(greedy[0], records);
    return why === null ? [] : [`${paths[i]}: no differences from ${paths[0]}: ${why}`];
  });
  return {
    runs: runs.map((run, i) => ({
      path: paths[i]!,
      policy: answers[i]?.policy ?? null,
      series: new Set((greedy[i] ?? []).map(({ seriesId }) => seriesId)).size,
      sft: run.sftLines(),
      rl: run.rlLines(),
    })),
    ...{ keys, notes },
    metrics: runMetrics(
      greedy,
      answers.map((last) => last?.sampled ?? null),
    ),
  };
}

// ---- where answers lie ---------------------------------------------------------------------------------------------

/** Answers of the last policy of a run that was evaluated; null where none was. */
function lastAnswers(run: RunDirectory) {
  for (const policy of POLICIES.toReversed()) {
    const answers = run.answers(policy);
    if (answers !== null) return { policy, ...answers };
  }
  return null;
}

const metricsFile = z.object({
  data: z.optional(
    z.object({
      name: z.string(),
      split: z.enum(['train', 'validation', 'test']),
      seed: z.number(),
      // Absent for series of a data set with several lengths, which do not depend on it.
      length: z.number().default(0),
      count: z.exactOptional(z.number()),
    }),
  ),
});

/** Data set that an evaluation records; null where it records none. */
function dataOf(directory: string): ExampleAddress | null {
  const file = join(directory, 'metrics.json');
  return existsSync(file) ? (readJson(file, metricsFile, 'evaluate the policy again').data ?? null) : null;
}

/** Reads the answers of a file or a directory. @throws ConfigError where there are none; DataError where they are damaged */
export function openAnswers(path: string): ComparedAnswers {
  if (!existsSync(path)) throw new ConfigError(`${path}: no such file or directory`);
  if (statSync(path).isFile()) return { name: path, records: readRecords(path), data: null };
  const file = join(path, 'records.jsonl');
  if (existsSync(file)) return { name: path, records: readRecords(file), data: dataOf(path) };
  if (!existsSync(join(path, 'recipe.json'))) {
    throw new ConfigError(
      `${path}: holds neither records.jsonl nor a run; name the directory of one policy on one task (eval --out), a file of records, or a run`,
    );
  }
  const last = lastAnswers(new RunDirectory(path));
  if (last === null) throw new ConfigError(`${path}: no policy of this run was evaluated`);
  return { name: path, records: last.greedy, data: null };
}

/** Reads a file of predictions against gold answers. @throws DataError as `readPredictions` */
export function openPredictions(files: PredictionFiles): ComparedAnswers {
  const { records, missing } = readPredictions(files);
  return { name: files.pred, records, missing, data: null };
}
