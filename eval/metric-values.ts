/** Metric values of single responses, and of series that were answered several times. */
import { localisation } from '../rewards/localisation.ts';
import { variateMetrics } from '../rewards/variates.ts';
import { DataError } from '../src/errors.ts';
import type { EvalRecord, Gold } from '../src/types.ts';
import type { CommonMetric, MetricName } from './metric-names.ts';

/** Values of the metrics that a single response has; of the others, nothing. */
export type MetricValues = Readonly<
  Record<CommonMetric, number> & Partial<Record<Exclude<MetricName, CommonMetric>, number>>
>;

const share = (holds: boolean): 0 | 1 => (holds ? 1 : 0);

/** Metric values of one response, each in [0, 1]; of an anomaly whose kind the data do not name, no class accuracy. */
export function metricValues({ answer, gold, length, score }: EvalRecord): MetricValues {
  const format = share(answer.wellFormed);
  const reward = score.total;
  if (gold.kind === 'classification') {
    const unparsable = share(answer.class === null);
    return { format, unparsable, class_accuracy: share(answer.class === gold.class), reward };
  }
  if (gold.kind === 'variates') {
    const named = answer.variates ?? null;
    const found = variateMetrics(named, gold.variates);
    return {
      format,
      unparsable: share(named === null),
      variate_precision: found.precision,
      variate_recall: found.recall,
      variate_f1: found.f1,
      variate_exact: found.exact,
      reward,
    };
  }
  const found = localisation(answer.intervals, gold.intervals, length);
  return {
    format,
    unparsable: share(answer.intervals === null || answer.class === null),
    ...(gold.class === null ? {} : { class_accuracy: share(answer.class === gold.class) }),
    point_precision: found.precision,
    point_recall: found.recall,
    point_f1: found.f1,
    affiliation_precision: found.affiliationPrecision,
    affiliation_recall: found.affiliationRecall,
    affiliation_f1: found.affiliationF1,
    reward,
  };
}

/** One series with all responses to it. */
export interface Answered {
  /** At least one. */
  readonly records: readonly EvalRecord[];
  readonly id: string;
  readonly task: string;
  readonly gold: Gold;
  /** Means over the responses. */
  readonly values: MetricValues;
}

function meanValues(all: readonly MetricValues[]): MetricValues {
  const names = Object.keys(all[0]!) as MetricName[];
  const means = names.map((name) => [name, all.reduce((sum, v) => sum + v[name]!, 0) / all.length]);
  return Object.fromEntries(means) as MetricValues;
}

/** The series that records answer, in order of first appearance. */
export function bySeries(records: readonly EvalRecord[]): Answered[] {
  const groups = new Map<string, EvalRecord[]>();
  for (const record of records) {
    const group = groups.get(record.seriesId);
    if (group === undefined) groups.set(record.seriesId, [record]);
    else group.push(record);
  }
  return [...groups].map(([id, group]) => {
    const { task, gold } = group[0]!;
    return { records: group, id, task, gold, values: meanValues(group.map(metricValues)) };
  });
}

/** The one kind of answer of a list. @throws DataError for no record, or for several kinds */
export function kindOf(records: readonly EvalRecord[]): Gold['kind'] {
  const [first] = records;
  if (first === undefined) {
    throw new DataError('metrics: no evaluated response; evaluate at least one series');
  }
  const other = records.find(({ gold }) => gold.kind !== first.gold.kind);
  if (other === undefined) return first.gold.kind;
  throw new DataError(
    `metrics: ${first.seriesId} asks for an answer of kind ${first.gold.kind}, ${other.seriesId} for one of kind ` +
      `${other.gold.kind}; evaluate one data set at a time`,
  );
}
