/**
 * Computes metrics of evaluated responses: means over series with bootstrap intervals, overall and by group. The kind of
 * answer defines the metrics (src/tasks).
 */

import { DataError } from '../src/ground/errors.ts';
import { getOrMake } from '../src/ground/maps.ts';
import { mean, sum } from '../src/ground/numbers.ts';
import type { Estimate, EvalRecord, Gold, ReasoningCheck } from '../src/ground/types.ts';
import {
  type BootstrapOptions,
  estimate,
  estimates,
  type SetMeasure,
  setEstimates,
} from '../src/measures/bootstrap.ts';
import { passAtK } from '../src/measures/samples.ts';
import { type MetricSet, type MetricValues, share } from '../src/tasks/evaluation.ts';
import { labelOf, taskKind } from '../src/tasks/kinds.ts';
import { consensusOf } from './consensus.ts';

export interface MetricOptions extends BootstrapOptions {
  /** Classes that answers may name, in order. Default: for classification the sorted gold classes, else the kind's own. */
  readonly classes?: readonly string[];
  /** Also computes the additional metrics of the kind (`Evaluation.details`). Default: true. */
  readonly details?: boolean;
}

/** Metrics of several responses to each series, over the series with at least two. */
interface SampleMetrics {
  /** Smallest number of responses to one of these series. */
  readonly samples: number;
  /** Chance that one of k responses solves the example, by k = 1, 2, 4, … and `samples`. */
  readonly passAtK: Readonly<Record<string, Estimate>>;
  /** Metrics of one consensus answer per series: the majority class; the intervals or variates closest to the others. */
  readonly consensus: MetricSet;
}

export interface Metrics {
  readonly kind: Gold['kind'];
  readonly overall: MetricSet;
  /** Metrics over the series with an anomaly; null without any, and for classification. */
  readonly anomalous: MetricSet | null;
  /** Metrics by gold class that occurs, in the order of the classes; for variates, by the number of anomalous variates. */
  readonly byClass: Readonly<Record<string, MetricSet>>;
  /** Metrics by task (generator preset, data set, or a part of one), sorted by name. */
  readonly byTask: Readonly<Record<string, MetricSet>>;
  /** Metrics by length range, from one power of two to the next (`513–1024`), ascending. */
  readonly byLength: Readonly<Record<string, MetricSet>>;
  /** Absent (null) where no series has several responses. */
  readonly samples: SampleMetrics | null;
  /** Additional rewards by name: means over the series that each applies to. */
  readonly rewards: Readonly<Record<string, Estimate>>;
  /** Means per response, as far as known: `prompt` and `completion` tokens, `seconds`, `cost`. */
  readonly usage: Readonly<Record<string, Estimate>>;
  /** Number of failed responses, e.g. from an endpoint that is down; no metric counts them. */
  readonly failed: number;
  /** Absent (null) for variates, which have no class. */
  readonly confusion: Confusion | null;
}

/** Returns the names of a kind's metrics in report order; with `details`, the additional ones follow. */
function metricNames(
  kind: Gold['kind'],
  { details: withDetails = true }: Pick<MetricOptions, 'details'>,
): string[] {
  const { metrics, details } = taskKind(kind).evaluation;
  return Object.keys(withDetails ? { ...metrics, ...details } : metrics);
}

/** Estimates column means over n series; a column that only some series have is resampled over those alone. */
function columnEstimates(
  columns: readonly (readonly [name: string, values: ArrayLike<number>])[],
  n: number,
  options: MetricOptions,
): Record<string, Estimate> {
  const whole = columns.filter(([, values]) => values.length === n);
  const partial = columns.filter(([, values]) => values.length > 0 && values.length < n);
  return {
    ...estimates(Object.fromEntries(whole), options),
    ...Object.fromEntries(partial.map(([name, values]) => [name, estimate(values, options)])),
  };
}

/** Entries of these names, in their order. */
const inOrder = (names: readonly string[], entries: Readonly<Record<string, Estimate>>) =>
  Object.fromEntries(names.flatMap((name) => (name in entries ? [[name, entries[name]!]] : [])));

/** Computes the metrics of a group of series: means of per-response values, and set metrics such as macro F1. */
function metricSet(series: readonly AnsweredSeries[], kind: Gold['kind'], options: MetricOptions): MetricSet {
  const names = metricNames(kind, options);
  const columns = names.map((name) => [name, series.flatMap(({ values }) => values[name] ?? [])] as const);
  const entries = columnEstimates(columns, series.length, options);
  if (taskKind(kind).evaluation.classColumns !== null) {
    const { means } = classStatistics(series, labelOrder(series, kind, options));
    Object.assign(entries, setEstimates(series.length, means, options));
  }
  return inOrder(names, entries) as MetricSet;
}

/** Groups series by key: the keys of `order` first, then the others in order of appearance. */
function groupedBy(
  series: readonly AnsweredSeries[],
  keyOf: (series: AnsweredSeries) => string,
  order: readonly string[],
): [key: string, group: AnsweredSeries[]][] {
  const groups = new Map<string, AnsweredSeries[]>(order.map((key) => [key, []]));
  for (const each of series) getOrMake(groups, keyOf(each), () => []).push(each);
  return [...groups].filter(([, group]) => group.length > 0);
}

/**
 * Computes the metrics of each class. Precision and F1 depend on the other classes' answers, so the whole set is resampled;
 * their n is the number of series of the class.
 */
function classSets(
  series: readonly AnsweredSeries[],
  classes: readonly string[],
  options: MetricOptions,
): Record<string, MetricSet> {
  const byClass = setEstimates(series.length, classStatistics(series, classes).byClass, options);
  const groups = groupedBy(series, ({ gold }) => labelOf(gold), classes);
  const sets = groups.map(([name, group], k): [string, MetricSet] => {
    const column = (metric: string): number[] => group.map(({ values }) => values[metric]!);
    const common = { format: column('format'), unparsable: column('unparsable'), reward: column('reward') };
    const { format, unparsable, reward } = estimates(common, options);
    const n = group.length;
    const ofClass = CLASS_METRICS.map((metric) => [metric, { ...byClass[classKey(metric, k)]!, n }] as const);
    return [name, { format, unparsable, ...Object.fromEntries(ofClass), reward }];
  });
  return Object.fromEntries(sets);
}

/** Classes that answers may name, in order: those of the options, else the kind's own. */
function knownClasses(kind: Gold['kind'], { classes: given = [] }: MetricOptions): readonly string[] {
  const { classes } = taskKind(kind);
  return classes === 'data' || (classes.length > 0 && given.length > 0) ? given : classes;
}

/** Returns the gold labels that occur: those that answers may name first, in order, then the others. */
function labelOrder(series: readonly AnsweredSeries[], kind: Gold['kind'], options: MetricOptions): string[] {
  const labels = series.map(({ gold }) => labelOf(gold));
  return occurring(labels, knownClasses(kind, options));
}

/**
 * All metrics of a list of responses. Several responses to one series (samples) are averaged first, so n counts
 * series; the confusion matrix counts responses. A part that cannot be read scores 0, and its answer is counted in `unparsable`. A metric
 * that only some series have (the class of an anomaly, where the data name it) is a mean over those, and absent where
 * none has it. Responses that failed count nowhere but in `failed`.
 * @throws DataError when there is no record, for records of several kinds, or when a gold answer is none of its series.
 */
export function metricsOf(records: readonly EvalRecord[], options: MetricOptions = {}): Metrics {
  const kind = kindOf(records);
  const answered = records.filter(({ failure }) => failure === undefined);
  const series = answeredSeries(records, options);
  const anomalous = series.filter(({ gold }) => isAnomalous(gold));
  const order = labelOrder(series, kind, options);
  const known = knownClasses(kind, options);
  const { classes: ofKind, evaluation } = taskKind(kind);
  const classes = ofKind === 'data' ? [...new Set([...known, ...order])] : known;
  const tasks = series.map(({ task }) => task);
  const setOf = (group: readonly AnsweredSeries[]): MetricSet => metricSet(group, kind, options);
  const overall = setOf(series);
  // A group that is the whole set has the very same numbers.
  const sets = (groups: [string, AnsweredSeries[]][]): Record<string, MetricSet> =>
    Object.fromEntries(groups.map(([key, group]) => [key, groups.length === 1 ? overall : setOf(group)]));
  return {
    kind,
    overall,
    anomalous: anomalous.length === 0 ? null : setOf(anomalous),
    byClass:
      evaluation.classColumns === null
        ? sets(groupedBy(series, ({ gold }) => labelOf(gold), order))
        : classSets(series, order, options),
    byTask: sets(groupedBy(series, ({ task }) => task, occurring(tasks, []))),
    byLength: sets(groupedBy(series, lengthRange, occurring(series.map(lengthRange), []))),
    samples: sampleMetrics(series, kind, options),
    rewards: rewardsOf(series, options),
    usage: usageOf(series, options),
    failed: records.length - answered.length,
    confusion: classes.length === 0 ? null : confusionOf(answered, classes),
  };
}

/** `513–1024` for a series of 720 points. */
function lengthRange({ records }: AnsweredSeries): string {
  const upper = 2 ** Math.ceil(Math.log2(records[0]!.length));
  return upper === 1 ? '1' : `${upper / 2 + 1}–${upper}`;
}

function sampleMetrics(
  series: readonly AnsweredSeries[],
  kind: Gold['kind'],
  options: MetricOptions,
): SampleMetrics | null {
  const several = series.filter(({ records }) => records.length > 1);
  if (several.length === 0) return null;
  const samples = Math.min(...several.map(({ records }) => records.length));
  const { solves } = taskKind(kind).evaluation;
  const solved = several.map(
    ({ records }) => records.filter(({ answer, gold, length }) => solves(answer, gold, length)).length,
  );
  const ks = [...new Set([1, 2, 4, 8, 16, 32, 64, 128, 256, 512].filter((k) => k < samples).concat(samples))];
  const passed = ks.map((k): [string, number[]] => [
    String(k),
    several.map(({ records }, i) => passAtK(records.length, solved[i]!, k)),
  ]);
  const merged = several.map(({ records }) => consensusOf(records));
  return {
    samples,
    passAtK: estimates(Object.fromEntries(passed), options),
    consensus: metricSet(answeredSeries(merged, options), kind, options),
  };
}

/** Averages a value over the responses to each series, then over series; missing values are skipped. Null if all are missing. */
function meanOf(
  series: readonly AnsweredSeries[],
  measure: (record: EvalRecord) => number | undefined,
  options: MetricOptions,
): Estimate | null {
  const means = series.flatMap(({ records }) => {
    const known = records.flatMap((record) => measure(record) ?? []);
    return known.length === 0 ? [] : mean(known);
  });
  return means.length === 0 ? null : estimate(means, options);
}

function rewardsOf(series: readonly AnsweredSeries[], options: MetricOptions): Record<string, Estimate> {
  const names = series.flatMap(({ records }) => records.flatMap(({ rewards = {} }) => Object.keys(rewards)));
  return Object.fromEntries(
    [...new Set(names)].map((name) => [name, meanOf(series, ({ rewards }) => rewards?.[name], options)!]),
  );
}

/** Mean usage per response, over the series where it is known. */
function usageOf(series: readonly AnsweredSeries[], options: MetricOptions): Record<string, Estimate> {
  const columns: Readonly<Record<string, (record: EvalRecord) => number | undefined>> = {
    prompt: ({ usage }) => usage?.prompt,
    completion: ({ usage }) => usage?.completion,
    turns: ({ usage }) => usage?.turns,
    seconds: ({ seconds }) => seconds,
    cost: ({ cost }) => cost,
  };
  return Object.fromEntries(
    Object.entries(columns).flatMap(([name, measure]) => {
      const usage = meanOf(series, measure, options);
      return usage === null ? [] : [[name, usage]];
    }),
  );
}

/** Returns true if the gold answer has an anomaly; always false for classification. */
export const isAnomalous = (gold: Gold): boolean => taskKind(gold.kind).evaluation.anomalous(gold);

/** Computes the metrics over all series alone: `metricsOf(records, options).overall`. @throws DataError as `metricsOf`. */
export function overallOf(records: readonly EvalRecord[], options: MetricOptions = {}): MetricSet {
  const kind = kindOf(records);
  return metricSet(answeredSeries(records, options), kind, options);
}

/** Computes one metric of `overallOf`. @throws DataError as `metricsOf`, and for a metric that the answers do not have */
export function metricOf(
  records: readonly EvalRecord[],
  metric: string,
  options: MetricOptions = {},
): Estimate {
  const kind = kindOf(records);
  const series = answeredSeries(records);
  const values = series.flatMap((each) => each.values[metric] ?? []);
  const value = values.length > 0 ? estimate(values, options) : metricSet(series, kind, options)[metric];
  if (value !== undefined) return value;
  throw new DataError(`metrics: answers of kind ${kind} have no ${metric}`);
}

/**
 * Computes paired changes, after − before, over the series of both lists, in report order. Set metrics such as macro F1 use the
 * same resamples on both sides.
 * @param wanted names of metrics; default: all that at least one series has on both sides
 * @throws DataError when the two lists do not answer the same series
 */
export function pairedGains(
  before: readonly EvalRecord[],
  after: readonly EvalRecord[],
  options: MetricOptions = {},
  wanted?: readonly string[],
): Record<string, Estimate> {
  const kind = kindOf([...before, ...after]);
  const names = wanted ?? metricNames(kind, options);
  const { metrics, classColumns } = taskKind(kind).evaluation;
  const details = names.some((name) => !(name in metrics));
  const first = new Map(answeredSeries(before, { details }).map((series) => [series.id, series]));
  const second = answeredSeries(after, { details });
  const extra = second.find(({ id }) => !first.has(id));
  if (extra !== undefined || first.size !== second.length) {
    throw new DataError(
      `paired change: ${first.size} series before, ${second.length} after` +
        `${extra === undefined ? '' : `, ${extra.id} only after`}; evaluate both on the same series`,
    );
  }
  const partners = second.map(({ id }) => first.get(id)!);
  const changes = names.map((name) => {
    const values = second.flatMap((series, i) => {
      const [a, b] = [series.values[name], partners[i]!.values[name]];
      return a === undefined || b === undefined ? [] : [a - b];
    });
    return [name, values] as const;
  });
  const gains = columnEstimates(changes, second.length, options);
  if (classColumns !== null && names.some((name) => SET_METRICS.has(name))) {
    const classes = labelOrder(second, kind, options);
    const [setBefore, setAfter] = [partners, second].map((side) => classStatistics(side, classes).means);
    const change: SetMeasure<string> = (indices) => {
      const [a, b] = [setBefore!(indices), setAfter!(indices)];
      return Object.fromEntries(
        Object.entries(b).map(([name, value]) => [name, value - a[name as keyof typeof a]]),
      );
    };
    Object.assign(gains, setEstimates(second.length, change, options));
  }
  return inOrder(names, gains);
}

/** Computes one of `pairedGains`. @throws DataError also where no series has the metric on both sides */
export function pairedGain(
  before: readonly EvalRecord[],
  after: readonly EvalRecord[],
  metric: string,
  options: MetricOptions = {},
): Estimate {
  const gain = pairedGains(before, after, options, [metric])[metric];
  if (gain !== undefined) return gain;
  throw new DataError(`paired change: no series has ${metric} on both sides`);
}

/** Computes the metrics of one response, each in [0, 1]; no class accuracy where the data do not name the kind of anomaly. */
function metricValues(record: EvalRecord, details = false): MetricValues {
  const { answer, gold, length, score, measures, judged } = record;
  const extension = judged?.score == null ? {} : { extension: judged.score };
  const { reads, values, detailValues } = taskKind(gold.kind).evaluation;
  const isRead = reads(answer, gold);
  return {
    format: share(answer.wellFormed),
    unparsable: share(!isRead),
    ...values(answer, gold, length),
    ...(details
      ? { success_rate: share(isRead), ...detailValues?.(answer, gold, length), ...measures, ...extension }
      : {}),
    ...reasoningValues(record.reasoning),
    reward: score.total,
  };
}

/** Computes the metrics of the reasoning; those that could not be checked are left out. */
function reasoningValues(reasoning: ReasoningCheck | undefined): MetricValues {
  if (reasoning === undefined) return {};
  const { truth, facts, recalled, f1, coverage, agreement, contradictions } = reasoning;
  return {
    ...(truth === null ? {} : { claim_precision: truth }),
    ...(facts === undefined || recalled === undefined ? {} : { claim_recall: recalled / facts }),
    ...(f1 === undefined ? {} : { claim_f1: f1 }),
    ...(coverage === null ? {} : { claim_coverage: coverage }),
    ...(agreement === null ? {} : { reasoning_agreement: share(agreement) }),
    reasoning_consistency: share(contradictions === 0),
  };
}

/** Computes all metric values of one response by name, the further ones included. */
export const valuesOf = (record: EvalRecord): MetricValues => metricValues(record, true);

/** One series with all responses to it. */
export interface AnsweredSeries {
  readonly records: readonly EvalRecord[]; // at least one
  readonly id: string;
  readonly task: string;
  readonly gold: Gold;
  /** Means over the responses. */
  readonly values: MetricValues;
}

/** Means of the metrics that all responses have. */
function meanValues(all: readonly MetricValues[]): MetricValues {
  if (all.length === 1) return all[0]!;
  const names = Object.keys(all[0]!).filter((name) => all.every((values) => values[name] !== undefined));
  return Object.fromEntries(
    names.map((name) => [name, mean(all.map((values) => values[name]!))]),
  ) as MetricValues;
}

/**
 * Groups records by their series, in order of first appearance.
 * @throws DataError where all responses failed
 */
export function answeredSeries(
  records: readonly EvalRecord[],
  { details = true }: Pick<MetricOptions, 'details'> = { details: false },
): AnsweredSeries[] {
  const groups = new Map<string, EvalRecord[]>();
  for (const record of records) {
    if (record.failure === undefined) getOrMake(groups, record.seriesId, () => []).push(record);
  }
  if (groups.size === 0) {
    throw new DataError(
      `metrics: all responses failed (${records[0]?.failure ?? 'there are none'}); fix the cause and evaluate again`,
    );
  }
  return [...groups].map(([id, group]) => {
    const { task, gold } = group[0]!;
    const values = meanValues(group.map((record) => metricValues(record, details)));
    return { records: group, id, task, gold, values };
  });
}

/**
 * Returns the per-response metrics (no set metrics) by series, in order of first appearance.
 * @throws DataError for no record, or for several kinds of answers
 */
export function seriesValues(records: readonly EvalRecord[]): {
  readonly ids: readonly string[];
  /** Means over the responses to each series, by metric, null where there is none: [ids]. */
  readonly values: Readonly<Record<string, readonly (number | null)[]>>;
} {
  kindOf(records);
  const series = answeredSeries(records);
  const names = [...new Set(series.flatMap(({ values }) => Object.keys(values)))];
  const column = (name: string) => series.map(({ values }) => values[name] ?? null);
  return {
    ids: series.map(({ id }) => id),
    values: Object.fromEntries(names.map((name) => [name, column(name)])),
  };
}

/** Returns the one kind of answer of a list. @throws DataError for no record, or for several kinds */
export function kindOf(records: readonly EvalRecord[]): Gold['kind'] {
  const [first] = records;
  if (first === undefined) {
    throw new DataError('metrics: no evaluated response; evaluate at least one series');
  }
  const odd = records.find(({ gold }) => gold.kind !== first.gold.kind);
  if (odd === undefined) return first.gold.kind;
  throw new DataError(
    `metrics: ${first.seriesId} asks for an answer of kind ${first.gold.kind}, ${odd.seriesId} for one of kind ` +
      `${odd.gold.kind}; evaluate one data set at a time`,
  );
}

/*
 * Set metrics of classification: recall, precision and F1 by class, their means, and the confusion matrix. A series with
 * several answers counts once; each answer has an equal share of it.
 */

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

/** Contribution of one series to the counts of a set. */
interface Vote {
  /** Index of its gold class. */
  readonly gold: number;
  /** Share of its answers that are right. */
  readonly right: number;
  /** Share of its answers by index of the predicted class, for the classes of the set. */
  readonly predicted: readonly (readonly [index: number, share: number])[];
}

interface Counts {
  /** Series by gold class. */
  readonly gold: Float64Array; // [K]
  /** Right answers by gold class. */
  readonly right: Float64Array; // [K]
  /** Answers by predicted class. */
  readonly predicted: Float64Array; // [K]
}

const BY_NAME = new Intl.Collator('en', { numeric: true });

/** Returns the distinct names: those of `order` first, in that order, then the others in natural order (`a2` before `a10`). */
function occurring(names: Iterable<string>, order: readonly string[]): string[] {
  const distinct = new Set(names);
  const known = order.filter((name) => distinct.has(name));
  const others = [...distinct].filter((name) => !known.includes(name));
  return [...known, ...others.sort((a, b) => BY_NAME.compare(a, b) || (a < b ? -1 : 1))];
}

function voteOf({ records, values }: AnsweredSeries, gold: string, classes: readonly string[]): Vote {
  const counts = new Map<number, number>();
  for (const { answer } of records) {
    const index = answer.class === null ? -1 : classes.indexOf(answer.class);
    if (index >= 0) counts.set(index, (counts.get(index) ?? 0) + 1);
  }
  return {
    gold: classes.indexOf(gold),
    right: values.class_accuracy ?? 0,
    predicted: [...counts].map(([index, count]) => [index, count / records.length]),
  };
}

/** Set metrics of classification as functions of the (resampled) indices of series. */
interface ClassStatistics {
  readonly means: SetMeasure<'balanced_accuracy' | 'macro_f1' | 'weighted_f1'>;
  /** Recall, precision and F1 of each class: [K · 3], under `classKey(metric, k)`. */
  readonly byClass: SetMeasure<string>;
}

/** Names of the set metrics: defined for a set of series, not for a single response. */
export const SET_METRICS: ReadonlySet<string> = new Set(['balanced_accuracy', 'macro_f1', 'weighted_f1']);
const CLASS_METRICS = ['class_recall', 'class_precision', 'class_f1'] as const;

/** Key of a metric of class k. */
const classKey = (metric: (typeof CLASS_METRICS)[number], k: number): string => `${metric} ${k}`;

/**
 * Computes set metrics over the K classes that are gold for some series of the set, in the order of `classes`:
 *   balanced accuracy = mean of recall_k
 *   macro F1 = mean of F1_k, F1_k = 2·right_k / (gold_k + predicted_k)
 *   weighted F1 = Σ gold_k · F1_k / Σ gold_k
 * The precision of a class that is never predicted is 0. A class that is gold for no series (possible in a resample) is left
 * out of the means; its recall and F1 are NaN, and so is its precision where it is not predicted either. An
 * answer with such a class lowers the recall of the gold class, but no precision.
 * As in scikit-learn: `balanced_accuracy_score`, and `f1_score(labels=gold classes, average='macro', zero_division=0)` or 'weighted'.
 */
function classStatistics(series: readonly AnsweredSeries[], classes: readonly string[]): ClassStatistics {
  const votes = series.map((each) => voteOf(each, labelOf(each.gold), classes));
  const counts = (indices: ArrayLike<number>): Counts => {
    const empty = (): Float64Array => new Float64Array(classes.length);
    const { gold, right, predicted } = { gold: empty(), right: empty(), predicted: empty() };
    for (let i = 0; i < indices.length; i++) {
      const vote = votes[indices[i]!]!;
      gold[vote.gold]!++;
      right[vote.gold]! += vote.right;
      for (const [index, share] of vote.predicted) predicted[index]! += share;
    }
    return { gold, right, predicted };
  };
  const recall = ({ gold, right }: Counts, k: number): number => right[k]! / gold[k]!;
  const f1 = ({ gold, right, predicted }: Counts, k: number): number =>
    gold[k] === 0 ? Number.NaN : (2 * right[k]!) / (gold[k]! + predicted[k]!);
  const precision = ({ gold, right, predicted }: Counts, k: number): number =>
    predicted[k] === 0 && gold[k]! > 0 ? 0 : right[k]! / predicted[k]!;
  const macro = (counted: Counts, measure: (counted: Counts, k: number) => number): number =>
    mean([...classes.keys()].filter((k) => counted.gold[k]! > 0).map((k) => measure(counted, k)));
  return {
    means: (indices) => {
      const counted = counts(indices);
      const weighted = classes.map((_, k) => (counted.gold[k] === 0 ? 0 : counted.gold[k]! * f1(counted, k)));
      return {
        balanced_accuracy: macro(counted, recall),
        macro_f1: macro(counted, f1),
        weighted_f1: sum(weighted) / sum(counted.gold),
      };
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

/** Counts responses. @param classes that answers may name, in order; gold labels may be further ones */
function confusionOf(records: readonly EvalRecord[], classes: readonly string[]): Confusion {
  const golds = records.map(({ gold }) => labelOf(gold));
  const rows = occurring(golds, classes);
  // Counted by column index, not name: a class of the data may be called `other label` or `unreadable`.
  const [other, unreadable] = [classes.length, classes.length + 1];
  const place = ({ answer }: EvalRecord): number => {
    if (answer.class === null) return unreadable;
    const index = classes.indexOf(answer.class);
    return index < 0 ? other : index;
  };
  const places = records.map(place);
  const used = new Set(places);
  const shown = [...classes.keys(), other, unreadable].filter(
    (column) => used.has(column) || (column < other && rows.includes(classes[column]!)),
  );
  const counts = rows.map(() => shown.map(() => 0));
  places.forEach((column, i) => {
    counts[rows.indexOf(golds[i]!)]![shown.indexOf(column)]!++;
  });
  return { rows, columns: shown.map((column) => [...classes, OTHER, UNREADABLE][column]!), counts };
}
