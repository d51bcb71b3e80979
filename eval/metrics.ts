/**
 * From evaluated responses to metrics: means over series with bootstrap intervals, overall and by group. Which metrics
 * there are depends on the kind of answer (metric-names.ts).
 */
import { classOf } from '../datasets/example.ts';
import { DataError } from '../src/errors.ts';
import { ANOMALY_CLASSES, type Estimate, type EvalRecord, type Gold } from '../src/types.ts';
import { type BootstrapOptions, estimate, estimates, pairedDifference, setEstimates } from './bootstrap.ts';
import {
  CLASS_METRICS,
  type ClassStatistics,
  type Confusion,
  classKey,
  classStatistics,
  confusionOf,
  goldClasses,
} from './class-statistics.ts';
import { type CommonMetric, METRICS_OF, type MetricName } from './metric-names.ts';
import { type Answered, bySeries, kindOf } from './metric-values.ts';

export type { Confusion } from './class-statistics.ts';
export { METRIC_DEFINITIONS, METRICS_OF, type MetricName } from './metric-names.ts';

/** Format, readability and reward always; of the others those that the kind of answer has. */
export type MetricSet = Readonly<
  Record<CommonMetric, Estimate> & Partial<Record<Exclude<MetricName, CommonMetric>, Estimate>>
>;

export interface MetricOptions extends BootstrapOptions {
  /** Classes that the answers may name, in order; when absent, of a classification those that are gold, sorted. */
  readonly classes?: readonly string[];
}

export interface Metrics {
  readonly kind: Gold['kind'];
  readonly overall: MetricSet;
  /** Series with at least one anomaly; null when there is none, and for classification. */
  readonly anomalous: MetricSet | null;
  /** By gold class, in the order of the classes, those that occur; of variates by how many are anomalous. */
  readonly byClass: Readonly<Record<string, MetricSet>>;
  /** By task (generator preset, data set, or a part of one), sorted by name. */
  readonly byTask: Readonly<Record<string, MetricSet>>;
  /** Null for variates, which have no class. */
  readonly confusion: Confusion | null;
}

/** Statistics of a whole classified set; none for other kinds. */
function wholeStatistics(series: readonly Answered[], options: MetricOptions): ClassStatistics | null {
  if (series[0]?.gold.kind !== 'classification') return null;
  return classStatistics(
    series,
    goldClasses(
      series.map(({ gold }) => classOf(gold)),
      options.classes ?? [],
    ),
  );
}

/** The metrics of some series: means of what every response has, and statistics of the set. */
function metricSet(series: readonly Answered[], kind: Gold['kind'], options: MetricOptions): MetricSet {
  const statistics = wholeStatistics(series, options);
  const names = METRICS_OF[kind] as readonly MetricName[];
  const column = (name: MetricName): number[] => series.flatMap(({ values }) => values[name] ?? []);
  const columns = names.map((name) => [name, column(name)] as const);
  const full = columns.filter(([, values]) => values.length === series.length);
  // What only some series have is a mean over those, drawn by itself.
  const partial = columns.filter(([, values]) => values.length > 0 && values.length < series.length);
  const found: Partial<Record<MetricName, Estimate>> = {
    ...estimates(Object.fromEntries(full), options),
    ...(statistics === null ? {} : setEstimates(series.length, statistics.means, options)),
    ...Object.assign({}, ...partial.map(([name, values]) => estimates({ [name]: values }, options))),
  };
  return Object.fromEntries(
    names.flatMap((name) => (name in found ? [[name, found[name]]] : [])),
  ) as MetricSet;
}

/** Series by a key, in the order given, then of appearance. */
function grouped(
  series: readonly Answered[],
  keyOf: (one: Answered) => string,
  order: readonly string[],
): [key: string, group: Answered[]][] {
  const groups = new Map<string, Answered[]>(order.map((key) => [key, []]));
  for (const one of series) {
    const key = keyOf(one);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [one]);
    else group.push(one);
  }
  return [...groups].filter(([, group]) => group.length > 0);
}

/**
 * The metrics of each class of a classified set. Precision and F1 need the whole set, so all are drawn from it; their n is
 * that of the class.
 */
function classSets(
  series: readonly Answered[],
  classes: readonly string[],
  options: MetricOptions,
): Record<string, MetricSet> {
  const own = setEstimates(series.length, classStatistics(series, classes).byClass, options);
  const groups = grouped(series, ({ gold }) => classOf(gold), classes);
  const sets = groups.map(([name, group], k): [string, MetricSet] => {
    const column = (metric: CommonMetric): number[] => group.map(({ values }) => values[metric]);
    const common = { format: column('format'), unparsable: column('unparsable'), reward: column('reward') };
    const { format, unparsable, reward } = estimates(common, options);
    const n = group.length;
    const ofClass = CLASS_METRICS.map((metric) => [metric, { ...own[classKey(metric, k)]!, n }] as const);
    return [name, { format, unparsable, ...Object.fromEntries(ofClass), reward }];
  });
  return Object.fromEntries(sets);
}

function isAnomalous({ gold }: Answered): boolean {
  if (gold.kind === 'anomaly') return gold.intervals.length > 0;
  return gold.kind === 'variates' && gold.variates.length > 0;
}

/** Order of the groups by gold class. */
function classOrder(
  series: readonly Answered[],
  kind: Gold['kind'],
  options: MetricOptions,
): readonly string[] {
  if (kind === 'anomaly') return ANOMALY_CLASSES;
  const keys = series.map(({ gold }) => classOf(gold));
  if (kind === 'classification') return goldClasses(keys, options.classes ?? []);
  return [...new Set(keys)].sort((a, b) => Number.parseInt(a, 10) - Number.parseInt(b, 10));
}

/** By name, numbers in it by their size, whatever the order in which series were drawn. */
function taskOrder(series: readonly Answered[]): string[] {
  const { compare } = new Intl.Collator('en', { numeric: true });
  return [...new Set(series.map(({ task }) => task))].sort((a, b) => compare(a, b) || (a < b ? -1 : 1));
}

/**
 * All metrics of a list of responses. Several responses to one series (samples) are averaged first, so n counts
 * series; the confusion matrix counts responses. An unreadable answer scores 0 and is counted in `unparsable`. A metric
 * that only some series have (the class of an anomaly, where the data name it) is a mean over those, and absent where
 * none has it.
 * @throws DataError when there is no record, for records of several kinds, or when a gold answer is none of its series.
 */
export function metricsOf(records: readonly EvalRecord[], options: MetricOptions = {}): Metrics {
  const kind = kindOf(records);
  const series = bySeries(records);
  const anomalous = series.filter(isAnomalous);
  const order = classOrder(series, kind, options);
  const setOf = (group: readonly Answered[]): MetricSet => metricSet(group, kind, options);
  const overall = setOf(series);
  // A group that is the whole set has the very same numbers.
  const sets = (groups: [string, Answered[]][]): Record<string, MetricSet> =>
    Object.fromEntries(groups.map(([key, group]) => [key, groups.length === 1 ? overall : setOf(group)]));
  return {
    kind,
    overall,
    anomalous: anomalous.length === 0 ? null : setOf(anomalous),
    byClass:
      kind === 'classification'
        ? classSets(series, order, options)
        : sets(grouped(series, ({ gold }) => classOf(gold), order)),
    byTask: sets(grouped(series, ({ task }) => task, taskOrder(series))),
    confusion:
      kind === 'variates'
        ? null
        : confusionOf(
            records,
            kind === 'anomaly' ? ANOMALY_CLASSES : [...new Set([...(options.classes ?? []), ...order])],
            ({ gold }) => classOf(gold),
          ),
  };
}

/** The metrics over all series alone: `metricsOf(records, options).overall`. @throws DataError as `metricsOf`. */
export function overallOf(records: readonly EvalRecord[], options: MetricOptions = {}): MetricSet {
  const kind = kindOf(records);
  return metricSet(bySeries(records), kind, options);
}

/** One metric over all series: the same number as in `overallOf`. @throws DataError as `metricsOf`, and where there is none. */
export function metricOf(
  records: readonly EvalRecord[],
  metric: MetricName,
  options: MetricOptions = {},
): Estimate {
  const kind = kindOf(records);
  const series = bySeries(records);
  const values = series.flatMap((one) => one.values[metric] ?? []);
  const found = values.length > 0 ? estimate(values, options) : metricSet(series, kind, options)[metric];
  if (found !== undefined) return found;
  throw new DataError(`metrics: answers of kind ${kind} have no ${metric}`);
}

/**
 * Mean change of a metric over the series that both lists answer, after − before, with its paired bootstrap interval.
 * @throws DataError when the two lists do not cover the same series, or a response alone has no such metric.
 */
export function pairedGain(
  before: readonly EvalRecord[],
  after: readonly EvalRecord[],
  metric: MetricName,
  options: BootstrapOptions = {},
): Estimate {
  const first = new Map(bySeries(before).map((one) => [one.id, one]));
  const second = bySeries(after);
  const missing = second.find((one) => !first.has(one.id));
  if (missing !== undefined || first.size !== second.length) {
    throw new DataError(
      `pairedGain: ${first.size} series before, ${second.length} after` +
        `${missing === undefined ? '' : `, ${missing.id} only after`}; evaluate both on the same series`,
    );
  }
  const pairs = second.flatMap((one): [number, number][] => {
    const [a, b] = [one.values[metric], first.get(one.id)!.values[metric]];
    return a === undefined || b === undefined ? [] : [[a, b]];
  });
  if (pairs.length === 0) throw new DataError(`pairedGain: no response has a ${metric} of its own`);
  return pairedDifference(
    pairs.map(([a]) => a),
    pairs.map(([, b]) => b),
    options,
  );
}
