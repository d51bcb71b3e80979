/**
 * Metrics of classification that no single response has: recall, precision and F1 by class, their means, and the
 * confusion of classes. A series that was answered several times counts once, shared evenly among its answers.
 */
import type { EvalRecord } from '../src/types.ts';
import type { SetMeasure } from './bootstrap.ts';
import type { Answered } from './metric-values.ts';

/** Counts of responses by gold class (rows) and predicted class (columns). */
export interface Confusion {
  readonly rows: readonly string[];
  /** The known classes, then `other label` and `unreadable`, those that occur. */
  readonly columns: readonly string[];
  readonly counts: readonly (readonly number[])[]; // [rows][columns]
}

const OTHER = 'other label';
/** Column of answers without a class that can be read. */
export const UNREADABLE = 'unreadable';

/** What one series adds to the counts of a set. */
interface Vote {
  /** Index of its gold class. */
  readonly gold: number;
  /** Share of its answers that are right. */
  readonly right: number;
  /** Indices of the classes that it was answered with, those of the set alone, and the share of answers of each. */
  readonly said: readonly (readonly [index: number, share: number])[];
}

interface Counts {
  /** Series by gold class. */
  readonly gold: Float64Array; // [K]
  /** Of these, those answered with it. */
  readonly right: Float64Array; // [K]
  /** Answers by class. */
  readonly said: Float64Array; // [K]
}

/** Classes in their order, those that are gold for some series. */
export function goldClasses(golds: Iterable<string>, order: readonly string[]): string[] {
  const occurring = new Set(golds);
  const known = order.filter((name) => occurring.has(name));
  return [...known, ...[...occurring].filter((name) => !known.includes(name)).sort()];
}

function voteOf({ records, values }: Answered, gold: string, classes: readonly string[]): Vote {
  const said = new Map<number, number>();
  for (const { answer } of records) {
    const index = answer.class === null ? -1 : classes.indexOf(answer.class);
    if (index >= 0) said.set(index, (said.get(index) ?? 0) + 1);
  }
  return {
    gold: classes.indexOf(gold),
    right: values.class_accuracy ?? 0,
    said: [...said].map(([index, count]) => [index, count / records.length]),
  };
}

/** Numbers of classified series. */
export interface ClassStatistics {
  readonly means: SetMeasure<'balanced_accuracy' | 'macro_f1'>;
  /** Recall, precision and F1 of each class: [K · 3], under `classKey(metric, k)`. */
  readonly byClass: SetMeasure<string>;
}

export const CLASS_METRICS = ['class_recall', 'class_precision', 'class_f1'] as const;

/** Name of a number of class k. */
export const classKey = (metric: (typeof CLASS_METRICS)[number], k: number): string => `${metric} ${k}`;

/**
 * Formulas, over the K classes that are gold for some series of the set, in the order of `classes`: balanced accuracy =
 * mean of recall_k; macro F1 = mean of 2·right_k / (gold_k + said_k). Precision of a class that is never answered is 0.
 * Classes that are gold for none of the series (which a resample may lack) have no part in a mean; their own recall and F1
 * are not defined (NaN). An answer with a class that is gold for no series counts against recall, and for no class's
 * precision.
 * As in scikit-learn: `balanced_accuracy_score`, and `f1_score(labels=gold classes, average='macro', zero_division=0)`.
 */
export function classStatistics(series: readonly Answered[], classes: readonly string[]): ClassStatistics {
  const votes = series.map((one) => {
    const gold = one.gold.kind === 'classification' ? one.gold.class : '';
    return voteOf(one, gold, classes);
  });
  const counts = (indices: ArrayLike<number>): Counts => {
    const empty = (): Float64Array => new Float64Array(classes.length);
    const { gold, right, said } = { gold: empty(), right: empty(), said: empty() };
    for (let i = 0; i < indices.length; i++) {
      const vote = votes[indices[i]!]!;
      gold[vote.gold]!++;
      right[vote.gold]! += vote.right;
      for (const [index, part] of vote.said) said[index]! += part;
    }
    return { gold, right, said };
  };
  const recall = ({ gold, right }: Counts, k: number): number => right[k]! / gold[k]!;
  const f1 = ({ gold, right, said }: Counts, k: number): number =>
    gold[k] === 0 ? Number.NaN : (2 * right[k]!) / (gold[k]! + said[k]!);
  const precision = ({ right, said }: Counts, k: number): number =>
    said[k] === 0 ? 0 : right[k]! / said[k]!;
  const mean = (counted: Counts, of: (counted: Counts, k: number) => number): number => {
    const present = [...classes.keys()].filter((k) => counted.gold[k]! > 0);
    return present.reduce((sum, k) => sum + of(counted, k), 0) / present.length;
  };
  return {
    means: (indices) => {
      const counted = counts(indices);
      return { balanced_accuracy: mean(counted, recall), macro_f1: mean(counted, f1) };
    },
    byClass: (indices) => {
      const counted = counts(indices);
      const values: Record<string, number> = {};
      for (let k = 0; k < classes.length; k++) {
        values[classKey('class_recall', k)] = recall(counted, k);
        values[classKey('class_precision', k)] = precision(counted, k);
        values[classKey('class_f1', k)] = f1(counted, k);
      }
      return values;
    },
  };
}

/**
 * Counts of responses. `classes`: those that answers may name, in order; `goldOf`: the row of a response, which is one of
 * them or a further one.
 */
export function confusionOf(
  records: readonly EvalRecord[],
  classes: readonly string[],
  goldOf: (record: EvalRecord) => string,
): Confusion {
  const rows = goldClasses(records.map(goldOf), classes);
  // By place, since a class of the data may be called as the last two columns are.
  const [other, unreadable] = [classes.length, classes.length + 1];
  const place = ({ answer }: EvalRecord): number => {
    if (answer.class === null) return unreadable;
    const index = classes.indexOf(answer.class);
    return index < 0 ? other : index;
  };
  const places = records.map(place);
  const said = new Set(places);
  const shown = [...classes.keys(), other, unreadable].filter(
    (column) => said.has(column) || (column < other && rows.includes(classes[column]!)),
  );
  const counts = rows.map(() => shown.map(() => 0));
  records.forEach((record, i) => {
    counts[rows.indexOf(goldOf(record))]![shown.indexOf(places[i]!)]!++;
  });
  return { rows, columns: shown.map((column) => [...classes, OTHER, UNREADABLE][column]!), counts };
}
