/**
 * From evaluated responses to metrics: means over series with bootstrap intervals, overall and by group. Which metrics
 * there are depends on the kind of answer (src/tasks).
 */

import { DataError } from '../src/ground/errors.ts';
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
import type { MetricSet, MetricValues } from '../src/tasks/evaluation.ts';
import { labelOf, taskKind } from '../src/tasks/kinds.ts';
import { consensusOf } from './consensus.ts';

export interface MetricOptions extends BootstrapOptions {
  /** Classes that the answers may name, in order; absent or empty: of a classification those that are gold, sorted, else the kind's own. */
  readonly classes?: readonly string[];
  /** Computes the further metrics of the kind too (`Evaluation.details`). Default: true. */
  readonly details?: boolean;
}

/** Metrics of several responses to each series, over the series with at least two. */
interface SampleMetrics {
  /** Smallest number of responses to any of them. */
  readonly samples: number;
  /** Chance that one of k responses solves the example, by k = 1, 2, 4, … and `samples`. */
  readonly passAtK: Readonly<Record<string, Estimate>>;
  /** Metrics of one answer made of all: the class of the majority, the intervals or variates closest to the others. */
  readonly consensus: MetricSet;
}

export interface Metrics {
  readonly kind: Gold['kind'];
  readonly overall: MetricSet;
  /** Series with at least one anomaly; null when there is none, and for classification. */
  readonly anomalous: MetricSet | null;
  /** Sets by gold class, in the order of the classes, those that occur; of variates by the number of anomalous ones. */
  readonly byClass: Readonly<Record<string, MetricSet>>;
  /** Sets by task (generator preset, data set, or a part of one), sorted by name. */
  readonly byTask: Readonly<Record<string, MetricSet>>;
  /** Sets by length of the series, from one power of two to the next (`513–1024`), ascending. */
  readonly byLength: Readonly<Record<string, MetricSet>>;
  /** Absent (null) where no series has several responses. */
  readonly samples: SampleMetrics | null;
  /** Rewards that were asked for beside the task's own, by name: means over the series to which each applies. */
  readonly rewards: Readonly<Record<string, Estimate>>;
  /** Per response: tokens of `prompt` and `completion`, `seconds`, `cost`; those that are known. */
  readonly usage: Readonly<Record<string, Estimate>>;
  /** Number of responses that failed, as from an endpoint that is down: no metric counts them. */
  readonly failed: number;
  /** Absent (null) for variates, which have no class. */
  readonly confusion: Confusion | null;
}

/** Metrics of a kind in the order of reports, the further ones last unless they are left out. */
function metricNames(
  kind: Gold['kind'],
  { details: further = true }: Pick<MetricOptions, 'details'>,
): string[] {
  const { metrics, details } = taskKind(kind).evaluation;
  return Object.keys(further ? { ...metrics, ...details } : metrics);
}

/** Estimates of columns of n series; a column that only some series have is a mean over those, drawn by itself. */
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

/** Metrics of some series: means of what every response has, and statistics of the set. */
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

/** Groups series by a key, in the order given, then of appearance. */
function groupedBy(
  series: readonly AnsweredSeries[],
  keyOf: (series: AnsweredSeries) => string,
  order: readonly string[],
): [key: string, group: AnsweredSeries[]][] {
  const groups = new Map<string, AnsweredSeries[]>(order.map((key) => [key, []]));
  for (const each of series) {
    const key = keyOf(each);
    groups.set(key, groups.get(key) ?? []);
    groups.get(key)!.push(each);
  }
  return [...groups].filter(([, group]) => group.length > 0);
}

/**
 * Metrics of each class of a classified set. Precision and F1 need the whole set, which is resampled; their n is that of the class.
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

/** Labels that occur: those that answers may name, in order, then the others. */
function labelOrder(series: readonly AnsweredSeries[], kind: Gold['kind'], options: MetricOptions): string[] {
  const labels = series.map(({ gold }) => labelOf(gold));
  return occurring(labels, knownClasses(kind, options));
}

/**
 * All metrics of a list of responses. Several responses to one series (samples) are averaged first, so n counts
 * series; the confusion matrix counts responses. An unreadable answer scores 0 and is counted in `unparsable`. A metric
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
  const most = 2 ** Math.ceil(Math.log2(records[0]!.length));
  return most === 1 ? '1' : `${most / 2 + 1}–${most}`;
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

/** Mean over the series that have a value, each the mean over its responses that have one. Null where none has. */
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

/** Returns true where anything is anomalous; no class of a classification is. */
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
 * Computes paired changes, after − before, over the series of both lists, in the order of reports. A metric of whole sets (macro F1)
 * changes on the same resamples.
 * @param wanted metrics; default: all that some series has on both sides
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
    const [old, now] = [partners, second].map((side) => classStatistics(side, classes).means);
    const change: SetMeasure<string> = (indices) => {
      const [a, b] = [old!(indices), now!(indices)];
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

/** Metric values of one response, each in [0, 1]; of an anomaly whose kind the data do not name, no class accuracy. */
function metricValues(record: EvalRecord, details = false): MetricValues {
  const { answer, gold, length, score, measures, judged } = record;
  const extension = judged?.score == null ? {} : { extension: judged.score };
  const { values, detailValues } = taskKind(gold.kind).evaluation;
  return {
    format: answer.wellFormed ? 1 : 0,
    ...values(answer, gold, length),
    ...(details
      ? {
          ...detailValues(answer, gold, length),
          ...measures,
          ...extension,
          ...reasoningValues(record.reasoning),
        }
      : {}),
    reward: score.total,
  };
}

/** Metrics of a reasoning; parts that could not be checked are left out. */
function reasoningValues(reasoning: ReasoningCheck | undefined): MetricValues {
  if (reasoning === undefined) return {};
  const { truth, facts, recalled, f1, coverage, agreement, contradictions } = reasoning;
  return {
    ...(truth === null ? {} : { claim_precision: truth }),
    ...(facts === undefined || recalled === undefined ? {} : { claim_recall: recalled / facts }),
    ...(f1 === undefined ? {} : { claim_f1: f1 }),
    ...(coverage === null ? {} : { claim_coverage: coverage }),
    ...(agreement === null ? {} : { reasoning_agreement: agreement ? 1 : 0 }),
    reasoning_consistency: contradictions === 0 ? 1 : 0,
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
    if (record.failure !== undefined) continue;
    groups.set(record.seriesId, groups.get(record.seriesId) ?? []);
    groups.get(record.seriesId)!.push(record);
  }
  if (groups.size === 0) {
    throw new DataError(
      `metrics: all responses failed (${records[0]?.failure ?? 'there is none'}); mend that and evaluate again`,
    );
  }
  return [...groups].map(([id, group]) => {
    const { task, gold } = group[0]!;
    const values = meanValues(group.map((record) => metricValues(record, details)));
    return { records: group, id, task, gold, values };
  });
}

/**
 * Values of the metrics that a single response has, by series in the order of first appearance.
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
 * Metrics of classification that no single response has: recall, precision and F1 by class, their means, and the
 * confusion of classes. A series that was answered several times counts once, shared evenly among its answers.
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

/** Distinct names: those in `order` first, in that order, then the others by name, numbers in them by their size. */
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

/** Numbers of classified series. */
interface ClassStatistics {
  readonly means: SetMeasure<'balanced_accuracy' | 'macro_f1' | 'weighted_f1'>;
  /** Recall, precision and F1 of each class: [K · 3], under `classKey(metric, k)`. */
  readonly byClass: SetMeasure<string>;
}

/** Metrics of whole sets of series. */
export const SET_METRICS: ReadonlySet<string> = new Set(['balanced_accuracy', 'macro_f1', 'weighted_f1']);
const CLASS_METRICS = ['class_recall', 'class_precision', 'class_f1'] as const;

/** Name of a number of class k. */
const classKey = (metric: (typeof CLASS_METRICS)[number], k: number): string => `${metric} ${k}`;

/**
 * Formulas, over the K classes that are gold for some series of the set, in the order of `classes`: balanced accuracy =
 * mean of recall_k; macro F1 = mean of F1_k = 2·right_k / (gold_k + predicted_k); weighted F1 = Σ gold_k · F1_k / Σ gold_k. Precision of a class that is never answered is 0.
 * Classes that are gold for none of the series (which a resample may lack) have no part in a mean; their own recall and F1
 * are not defined (NaN). An answer with a class that is gold for no series counts against recall, and for no class's
 * precision.
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
  const precision = ({ right, predicted }: Counts, k: number): number =>
    predicted[k] === 0 ? 0 : right[k]! / predicted[k]!;
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
  // Counted by place: a class of the data may have the name of one of the last two columns.
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
