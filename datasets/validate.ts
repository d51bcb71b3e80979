/** What a labelled series must be, checked where it enters (a line of a file) and where it leaves (the writer). */
import { DataError } from '../src/errors.ts';
import { listField, type Place, parseRecord, show, stringField } from '../src/json-record.ts';
import { checkIntervals, intervalsOf, isAnomalyClass } from '../src/tasks/anomaly.ts';
import { ANOMALY_CLASSES, type AnomalyClass, type LabeledSeries } from '../src/types.ts';

export type { Place } from '../src/json-record.ts';

const FIELDS = ['id', 'task', 'class', 'intervals', 'values'] as const;

/**
 * Checks a whole record: id and task not empty, at least two finite values, intervals as in `checkIntervals`, a known
 * class, and 'normal' exactly when there is no interval.
 *
 * @throws DataError naming the field
 */
export function checkSeries(series: LabeledSeries, at: Place = {}): void {
  if (series.id === '') throw new DataError('id: empty; every series needs an id', at);
  if (series.task === '') throw new DataError('task: empty; every series needs the name of its task', at);
  const { values, intervals } = series;
  if (values.length < 2) {
    throw new DataError(`values: ${values.length} points; a series needs at least 2`, at);
  }
  for (let t = 0; t < values.length; t++) {
    if (!Number.isFinite(values[t])) {
      throw new DataError(`values[${t}]: ${values[t]} is not a finite number`, at);
    }
  }
  checkIntervals(intervals, values.length, at);
  if (!isAnomalyClass(series.class)) {
    throw new DataError(`class: unknown ${show(series.class)}; known: ${ANOMALY_CLASSES.join(', ')}`, at);
  }
  if ((series.class === 'normal') !== (intervals.length === 0)) {
    throw new DataError(
      `class: '${series.class}' with ${intervals.length} intervals; 'normal' goes with none, every other with some`,
      at,
    );
  }
}

/**
 * Reads one line of `series.jsonl`, strictly: exactly the known fields, each of its type, then `checkSeries`.
 *
 * @throws DataError with file, line, and column (syntax) or field (content)
 */
export function parseSeries(text: string, at: Place = {}): LabeledSeries {
  const fields = parseRecord(text, FIELDS, at);
  const list = listField(fields, 'values', at);
  const values = new Float64Array(list.length); // [N]
  for (let t = 0; t < list.length; t++) {
    const value = list[t];
    if (typeof value !== 'number') {
      throw new DataError(`values[${t}]: ${show(value)} is not a finite number`, at);
    }
    values[t] = value;
  }
  const intervals = intervalsOf(listField(fields, 'intervals', at), at);
  const series: LabeledSeries = {
    id: stringField(fields, 'id', at),
    task: stringField(fields, 'task', at),
    values,
    intervals,
    class: stringField(fields, 'class', at) as AnomalyClass,
  };
  checkSeries(series, at);
  return series;
}
