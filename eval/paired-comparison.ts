/** Two sets of answers to the same series: how much one is better, whether that may be chance, and which series it is about. */
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import type { ExampleAddress } from '../datasets/source.ts';
import { ConfigError, DataError } from '../src/ground/errors.ts';
import type { Estimate, EvalRecord, Gold } from '../src/ground/types.ts';
import { mcnemar, pairedPermutation } from '../src/measures/paired-tests.ts';
import { labelOf, taskKind } from '../src/tasks/kinds.ts';
import { pairedDifference } from './bootstrap.ts';
import { kindOf, valuesOf } from './metrics.ts';
import { type PredictionFiles, readPredictions } from './predictions.ts';
import { readJson, readRecords, sameGold } from './records.ts';
import { POLICIES, RunDirectory } from './run-directory.ts';
import {
  difference,
  type Interval,
  intervalOf,
  pValue,
  type Resampled,
  SeedBootstrap,
} from './seed-bootstrap.ts';

/** One side of a comparison. */
export interface Answers {
  /** As it was named. */
  readonly name: string;
  readonly records: readonly EvalRecord[];
  /** The examples that it answers, where that is on record. */
  readonly data: ExampleAddress | null;
}

/** Means of A and B over the series that both answer, and B − A. */
export interface Difference {
  readonly a: number;
  readonly b: number;
  readonly difference: Estimate;
}

export interface TestedDifference extends Difference {
  readonly metric: string;
  readonly label: string;
  /** Two-sided; of one comparison, not corrected for several. */
  readonly p: number;
  /** McNemar's exact test where every value is 0 or 1, else a paired permutation test. */
  readonly test: 'McNemar' | 'permutation';
  /** Series on which B is better, worse, and the same. */
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
  /** The first answer of each. */
  readonly answers: readonly [a: EvalRecord, b: EvalRecord];
}

export interface PairedComparison {
  readonly kind: Gold['kind'];
  readonly names: readonly [a: string, b: string];
  /** Series that both answer, and those that only one does, which are left out. */
  readonly series: number;
  readonly onlyA: number;
  readonly onlyB: number;
  /** The main metrics of the kind and the reward. */
  readonly metrics: readonly TestedDifference[];
  /** The metric that types and flips are of. */
  readonly metric: string;
  /** By gold class, of variates by how many are anomalous. */
  readonly byType: Readonly<Record<string, Difference>>;
  /** The series with another value, the largest differences first. */
  readonly flips: readonly Flip[];
}

interface Pair {
  readonly id: string;
  readonly a: EvalRecord;
  readonly b: EvalRecord;
  /** Means over the responses of each. */
  readonly valuesA: Readonly<Record<string, number>>;
  readonly valuesB: Readonly<Record<string, number>>;
}

const mean = (values: readonly number[]): number => values.reduce((sum, one) => sum + one, 0) / values.length;

function bySeries(records: readonly EvalRecord[]): Map<string, EvalRecord[]> {
  const groups = new Map<string, EvalRecord[]>();
  for (const record of records) {
    if (record.failure !== undefined) continue;
    const group = groups.get(record.seriesId);
    if (group === undefined) groups.set(record.seriesId, [record]);
    else group.push(record);
  }
  return groups;
}

function meansOf(records: readonly EvalRecord[]): Record<string, number> {
  const all = records.map(valuesOf);
  const names = Object.keys(all[0]!).filter((name) => all.every((values) => values[name] !== undefined));
  return Object.fromEntries(names.map((name) => [name, mean(all.map((values) => values[name]!))]));
}

/** @throws DataError where no series is answered by both, or its gold answers differ */
function pairsOf(a: Answers, b: Answers): { pairs: Pair[]; onlyA: number; onlyB: number } {
  const [first, second] = [bySeries(a.records), bySeries(b.records)];
  const pairs: Pair[] = [];
  for (const [id, own] of first) {
    const other = second.get(id);
    if (other === undefined) continue;
    if (!sameGold(own[0]!.gold, other[0]!.gold)) {
      throw new DataError(
        `${id}: ${a.name} and ${b.name} have other gold answers; evaluate both on the same data`,
      );
    }
    pairs.push({ id, a: own[0]!, b: other[0]!, valuesA: meansOf(own), valuesB: meansOf(other) });
  }
  if (pairs.length === 0) {
    throw new DataError(`${a.name} and ${b.name} answer no series in common; evaluate both on the same data`);
  }
  return { pairs, onlyA: first.size - pairs.length, onlyB: second.size - pairs.length };
}

/** Values of a metric where both sides have it. */
function columns(pairs: readonly Pair[], metric: string): readonly [a: number[], b: number[]] {
  const both = pairs.filter(({ valuesA, valuesB }) => metric in valuesA && metric in valuesB);
  return [both.map(({ valuesA }) => valuesA[metric]!), both.map(({ valuesB }) => valuesB[metric]!)];
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
  const won = changes.filter((one) => one > 0).length;
  const lost = changes.filter((one) => one < 0).length;
  const binary = [...a, ...b].every((value) => value === 0 || value === 1);
  return {
    ...{ metric, label, ...differenceOf([a, b]), won, lost, same: a.length - won - lost },
    test: binary ? 'McNemar' : 'permutation',
    p: binary ? mcnemar(lost, won) : pairedPermutation(changes),
  };
}

/**
 * Compares answers, B − A, over the series that both answer; several responses to a series are averaged first.
 * @param wanted the metric of types and flips; default: the first main metric that every series has
 * @throws DataError where nothing can be paired; ConfigError for a metric that the answers do not have
 */
export function compareAnswers(a: Answers, b: Answers, wanted?: string): PairedComparison {
  const kind = kindOf([...a.records, ...b.records]);
  const { pairs, onlyA, onlyB } = pairsOf(a, b);
  const { metrics, details, main } = taskKind(kind).evaluation;
  const has = (name: string): boolean =>
    pairs.every(({ valuesA, valuesB }) => name in valuesA && name in valuesB);
  const known = Object.keys({ ...metrics, ...details }).filter((name) => columns(pairs, name)[0].length > 0);
  if (wanted !== undefined && !known.includes(wanted)) {
    throw new ConfigError(`--metric ${wanted}: expected one of ${known.join(', ')}`);
  }
  const metric = wanted ?? main.find(has) ?? 'reward';
  const shown = [...new Set([...main, 'reward', metric])];
  const labels = [...new Set(pairs.map((pair) => labelOf(pair.a.gold)))].sort();
  const types = labels.flatMap((label): [string, Difference][] => {
    const own = columns(
      pairs.filter((pair) => labelOf(pair.a.gold) === label),
      metric,
    );
    return own[0].length === 0 ? [] : [[label, differenceOf(own)]];
  });
  const flips = pairs.flatMap((pair): Flip[] => {
    const [before, after] = [pair.valuesA[metric], pair.valuesB[metric]];
    if (before === undefined || after === undefined || before === after) return [];
    const outcome = after > before !== (metric === 'unparsable') ? 'won' : 'lost';
    const { task, gold } = pair.a;
    return [
      { id: pair.id, task, label: labelOf(gold), outcome, a: before, b: after, answers: [pair.a, pair.b] },
    ];
  });
  return {
    ...{ kind, names: [a.name, b.name], series: pairs.length, onlyA, onlyB, metric },
    metrics: shown.flatMap((name) => tested(pairs, name, (metrics[name] ?? details[name])!.label) ?? []),
    byType: Object.fromEntries(types),
    // Sorting is stable: of equals the earlier one comes first.
    flips: flips.sort((one, other) => Math.abs(other.b - other.a) - Math.abs(one.b - one.a)),
  };
}

/** A metric of two sides with several runs each. */
export interface SeedDifference {
  readonly metric: string;
  readonly label: string;
  readonly a: Interval;
  readonly b: Interval;
  /** B − A over seeds and series, drawn together. */
  readonly difference: Interval;
  /** Two-sided, of the same resamples. */
  readonly p: number;
}

export interface SeedComparison {
  readonly kind: Gold['kind'];
  /** The runs of each side. */
  readonly names: readonly [a: readonly string[], b: readonly string[]];
  /** Series that all runs answer. */
  readonly series: number;
  readonly metrics: readonly SeedDifference[];
}

/**
 * Compares runs of several seeds, B − A: seeds and series are both drawn (`SeedBootstrap`). Runs need not be paired.
 * @throws DataError where the runs have no series in common, or other gold answers
 */
export function compareSeeds(a: readonly Answers[], b: readonly Answers[]): SeedComparison {
  const all = [...a, ...b];
  const kind = kindOf(all.flatMap(({ records }) => records));
  const groups = all.map(({ records }) => bySeries(records));
  const ids = [...groups[0]!.keys()].filter((id) => groups.every((group) => group.has(id)));
  if (ids.length === 0) {
    throw new DataError(`the ${all.length} runs answer no series in common; evaluate all on the same data`);
  }
  for (const id of ids) {
    const golds = groups.map((group) => group.get(id)![0]!.gold);
    const odd = golds.findIndex((gold) => !sameGold(gold, golds[0]!));
    if (odd > 0) {
      throw new DataError(
        `${id}: ${all[0]!.name} and ${all[odd]!.name} have other gold answers; evaluate both on the same data`,
      );
    }
  }
  const values = groups.map((group) => ids.map((id) => meansOf(group.get(id)!)));
  const { metrics, main } = taskKind(kind).evaluation;
  const bootstrap = new SeedBootstrap(ids.length);
  return {
    ...{ kind, names: [a.map(({ name }) => name), b.map(({ name }) => name)], series: ids.length },
    metrics: [...main, 'reward'].flatMap((metric): SeedDifference[] => {
      const columns = values.map((own) => own.map((one) => one[metric] ?? null));
      if (columns.some((column) => column.every((value) => value === null))) return [];
      const resampled = columns.map((column) => bootstrap.ofSeries(column));
      const [first, second] = [resampled.slice(0, a.length), resampled.slice(a.length)].map((side) =>
        bootstrap.overSeeds(side),
      ) as [Resampled, Resampled];
      const change = difference(second, first);
      return [
        {
          ...{ metric, label: metrics[metric]!.label, p: pValue(change) },
          ...{ a: intervalOf(first), b: intervalOf(second), difference: intervalOf(change) },
        },
      ];
    }),
  };
}

const metricsFile = z.object({
  data: z.optional(
    z.object({
      name: z.string(),
      split: z.enum(['train', 'validation', 'test']),
      seed: z.number(),
      length: z.number(),
      count: z.exactOptional(z.number()),
    }),
  ),
});

/** What an evaluation says of its data; null where it does not. */
function dataOf(directory: string): ExampleAddress | null {
  const file = join(directory, 'metrics.json');
  return existsSync(file) ? (readJson(file, metricsFile, 'evaluate the policy again').data ?? null) : null;
}

/** Answers of a file or a directory. @throws ConfigError where there are none; DataError where they are damaged */
export function openAnswers(path: string): Answers {
  if (!existsSync(path)) throw new ConfigError(`${path}: no such file or directory`);
  if (statSync(path).isFile()) return { name: path, records: readRecords(path), data: null };
  const file = join(path, 'records.jsonl');
  if (existsSync(file)) return { name: path, records: readRecords(file), data: dataOf(path) };
  if (!existsSync(join(path, 'recipe.json'))) {
    throw new ConfigError(
      `${path}: holds neither records.jsonl nor a run; name the directory of one policy on one task (eval --out), a file of records, or a run`,
    );
  }
  const run = new RunDirectory(path);
  const policy = POLICIES.toReversed().find((name) => run.answers(name) !== null);
  if (policy === undefined) throw new ConfigError(`${path}: no policy of this run was evaluated`);
  return { name: path, records: run.answers(policy)!.greedy, data: null };
}

/** Predictions of a file against gold answers. @throws DataError as `readPredictions` */
export function openPredictions(files: PredictionFiles): Answers {
  return { name: files.pred, records: readPredictions(files).records, data: null };
}
