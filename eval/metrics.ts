/** From evaluated responses to metrics: means over series with bootstrap intervals, overall and per type. */
import { localisation } from '../rewards/localisation.ts';
import { DataError } from '../src/errors.ts';
import { ANOMALY_CLASSES, type Estimate, type EvalRecord } from '../src/types.ts';
import { type BootstrapOptions, estimate, estimates, pairedDifference } from './bootstrap.ts';

/** What each metric means, per series; every one is in [0, 1] and larger is better except `unparsable`. */
export const METRIC_DEFINITIONS = {
  format: 'Share of responses that are exactly the three tagged parts, each well formed.',
  unparsable: 'Share of responses whose intervals or class could not be read; they count as 0 elsewhere.',
  class_accuracy: 'Share of responses whose class is the gold class.',
  point_precision: 'Share of the predicted points that are anomalous.',
  point_recall: 'Share of the anomalous points that are predicted.',
  point_f1:
    'Harmonic mean of point precision and recall, per series; 1 when a normal series gets no interval, 0 when only one of the two is empty.',
  affiliation_precision: 'How close predictions are to the true intervals, against a random position.',
  affiliation_recall: 'How close the true intervals are to predictions, against a random position.',
  affiliation_f1:
    'Harmonic mean of affiliation precision and recall (Huet et al. 2022), per series; empty answers as for point F1.',
  reward: '0.7 · mean of six localisation metrics + 0.2 · class + 0.1 · format.',
} as const;

export type MetricName = keyof typeof METRIC_DEFINITIONS;
export const METRIC_NAMES = Object.keys(METRIC_DEFINITIONS) as MetricName[];

export type MetricSet = Readonly<Record<MetricName, Estimate>>;

/** Counts of responses by gold class (rows) and predicted class (columns). */
export interface Confusion {
  readonly rows: readonly string[];
  /** The known classes, then `other label` and `unreadable`, those that occur. */
  readonly columns: readonly string[];
  readonly counts: readonly (readonly number[])[]; // [rows][columns]
}

export interface Metrics {
  readonly overall: MetricSet;
  /** Series with at least one gold interval; null when there is none. */
  readonly anomalous: MetricSet | null;
  /** By gold class, in the order of ANOMALY_CLASSES, classes that occur. */
  readonly byClass: Readonly<Record<string, MetricSet>>;
  /** By task (generator preset or data set), in order of appearance. */
  readonly byTask: Readonly<Record<string, MetricSet>>;
  readonly confusion: Confusion;
}

const OTHER = 'other label';
const UNREADABLE = 'unreadable';

/** Metric values of one response. */
export function metricValues(record: EvalRecord): Record<MetricName, number> {
  const { answer } = record;
  const found = localisation(answer.intervals, record.goldIntervals, record.length);
  return {
    format: answer.wellFormed ? 1 : 0,
    unparsable: answer.intervals === null || answer.class === null ? 1 : 0,
    class_accuracy: answer.class === record.goldClass ? 1 : 0,
    point_precision: found.precision,
    point_recall: found.recall,
    point_f1: found.f1,
    affiliation_precision: found.affiliationPrecision,
    affiliation_recall: found.affiliationRecall,
    affiliation_f1: found.affiliationF1,
    reward: record.score.total,
  };
}

/** One series with the mean of its responses' values. */
interface SeriesValues {
  readonly record: EvalRecord;
  readonly values: Record<MetricName, number>;
}

/** Means over the responses to each series, in order of first appearance. */
function bySeries(records: readonly EvalRecord[]): SeriesValues[] {
  const groups = new Map<string, EvalRecord[]>();
  for (const record of records) {
    const group = groups.get(record.seriesId);
    if (group === undefined) groups.set(record.seriesId, [record]);
    else group.push(record);
  }
  return [...groups.values()].map((group) => {
    const all = group.map(metricValues);
    const values = Object.fromEntries(
      METRIC_NAMES.map((name) => [name, all.reduce((sum, v) => sum + v[name], 0) / all.length]),
    ) as Record<MetricName, number>;
    return { record: group[0]!, values };
  });
}

function metricSet(series: readonly SeriesValues[], options: BootstrapOptions): MetricSet {
  const columns = METRIC_NAMES.map((name) => [name, series.map((one) => one.values[name])] as const);
  return estimates(Object.fromEntries(columns) as Record<MetricName, number[]>, options);
}

function confusionOf(records: readonly EvalRecord[]): Confusion {
  const known: readonly string[] = ANOMALY_CLASSES;
  const column = (record: EvalRecord): string => {
    const label = record.answer.class;
    return label === null ? UNREADABLE : known.includes(label) ? label : OTHER;
  };
  const golds = new Set<string>(records.map((record) => record.goldClass));
  const rows = known.filter((name) => golds.has(name));
  const said = new Set(records.map(column));
  const columns = [...known, OTHER, UNREADABLE].filter((name) => golds.has(name) || said.has(name));
  const counts = rows.map(() => columns.map(() => 0));
  for (const record of records) {
    counts[rows.indexOf(record.goldClass)]![columns.indexOf(column(record))]!++;
  }
  return { rows, columns, counts };
}

function grouped(
  series: readonly SeriesValues[],
  keyOf: (record: EvalRecord) => string,
  order: readonly string[],
  options: BootstrapOptions,
): Record<string, MetricSet> {
  const groups = new Map<string, SeriesValues[]>(order.map((key) => [key, []]));
  for (const one of series) {
    const key = keyOf(one.record);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [one]);
    else group.push(one);
  }
  return Object.fromEntries(
    [...groups]
      .filter(([, group]) => group.length > 0)
      .map(([key, group]) => [key, metricSet(group, options)]),
  );
}

/**
 * All metrics of a list of responses. Several responses to one series (samples) are averaged first, so n counts
 * series; the confusion matrix counts responses. An unreadable answer scores 0 and is counted in `unparsable`.
 * @throws DataError when there is no record or a gold interval leaves its series.
 */
export function metricsOf(records: readonly EvalRecord[], options: BootstrapOptions = {}): Metrics {
  if (records.length === 0)
    throw new DataError('metrics: no evaluated response; evaluate at least one series');
  const series = bySeries(records);
  const anomalous = series.filter((one) => one.record.goldIntervals.length > 0);
  return {
    overall: metricSet(series, options),
    anomalous: anomalous.length === 0 ? null : metricSet(anomalous, options),
    byClass: grouped(series, (record) => record.goldClass, ANOMALY_CLASSES, options),
    byTask: grouped(series, (record) => record.task, [], options),
    confusion: confusionOf(records),
  };
}

/** The metrics over all series alone: `metricsOf(records, options).overall`. @throws DataError as `metricsOf`. */
export function overallOf(records: readonly EvalRecord[], options: BootstrapOptions = {}): MetricSet {
  if (records.length === 0)
    throw new DataError('metrics: no evaluated response; evaluate at least one series');
  return metricSet(bySeries(records), options);
}

/** One metric over all series: the same number as in `overallOf`. @throws DataError as `metricsOf`. */
export function metricOf(
  records: readonly EvalRecord[],
  metric: MetricName,
  options: BootstrapOptions = {},
): Estimate {
  return estimate(
    bySeries(records).map((one) => one.values[metric]),
    options,
  );
}

/**
 * Mean change of a metric over the series that both lists answer, after − before, with its paired bootstrap interval.
 * @throws DataError when the two lists do not cover the same series.
 */
export function pairedGain(
  before: readonly EvalRecord[],
  after: readonly EvalRecord[],
  metric: MetricName,
  options: BootstrapOptions = {},
): Estimate {
  const first = new Map(bySeries(before).map((one) => [one.record.seriesId, one.values[metric]]));
  const second = bySeries(after);
  const missing = second.find((one) => !first.has(one.record.seriesId));
  if (missing !== undefined || first.size !== second.length) {
    throw new DataError(
      `pairedGain: ${first.size} series before, ${second.length} after` +
        `${missing === undefined ? '' : `, ${missing.record.seriesId} only after`}; evaluate both on the same series`,
    );
  }
  return pairedDifference(
    second.map((one) => one.values[metric]),
    second.map((one) => first.get(one.record.seriesId)!),
    options,
  );
}
