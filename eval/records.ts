/** Evaluated responses on disk: one `EvalRecord` a line, written whole or not at all, read strictly. */
import { z } from 'zod';
import { DataError } from '../src/errors.ts';
import { writeFileAtomic } from '../src/files.ts';
import { ANOMALY_CLASSES, type EvalRecord, type Interval, type LabeledSeries } from '../src/types.ts';
import { jsonLines, readJsonLines } from './json-lines.ts';

const ADVICE = 'evaluate the policy again';

const interval = z.tuple([z.int().nonnegative(), z.int().positive()]).readonly();
const intervals = z.array(interval).readonly();

function ordered(list: readonly Interval[], length: number): boolean {
  return list.every(([start, end], i) => start >= (list[i - 1]?.[1] ?? 0) && start < end && end <= length);
}

export const evalRecordShape = z
  .strictObject({
    seriesId: z.string().min(1),
    task: z.string().min(1),
    length: z.int().positive(),
    goldIntervals: intervals,
    goldClass: z.enum(ANOMALY_CLASSES),
    response: z.string(),
    answer: z
      .strictObject({
        think: z.string().nullable(),
        intervals: intervals.nullable(),
        class: z.string().nullable(),
        wellFormed: z.boolean(),
        problem: z.string().nullable(),
      })
      .readonly()
      .refine((answer) => answer.wellFormed === (answer.problem === null), {
        path: ['problem'],
        message: 'must be null exactly when the answer is well formed',
      }),
    score: z
      .strictObject({
        total: z.number().nonnegative(),
        parts: z.record(z.string(), z.number().min(0).max(1)).readonly(),
      })
      .readonly(),
  })
  .readonly()
  .refine((record) => ordered(record.goldIntervals, record.length), {
    path: ['goldIntervals'],
    message: 'must be sorted, disjoint and inside the series',
  })
  .refine((record) => record.answer.intervals === null || ordered(record.answer.intervals, record.length), {
    path: ['answer', 'intervals'],
    message: 'must be sorted, disjoint and inside the series',
  });

/** Writes records, one a line. WriteError when the disk refuses; what was there before is then unchanged. */
export function writeRecords(file: string, records: readonly EvalRecord[]): void {
  writeFileAtomic(file, jsonLines(records));
}

/**
 * Reads records.
 * @throws DataError naming file, line and key when one is damaged or of another shape; also for no record at all.
 */
export function readRecords(file: string): EvalRecord[] {
  const records = readJsonLines(file, evalRecordShape, { advice: ADVICE });
  if (records.length === 0) throw new DataError(`holds no record; ${ADVICE}`, { file });
  return records;
}

function sameGold(record: EvalRecord, series: LabeledSeries): boolean {
  return (
    record.length === series.values.length &&
    record.goldClass === series.class &&
    record.goldIntervals.join(' ') === series.intervals.join(' ')
  );
}

/**
 * Checks that records answer exactly these series, each equally often (`perSeries` times where it is given), beside
 * their true annotation: numbers over other series, or over some of them, must not pass for those of the held-out set.
 * @throws DataError naming the file and the first series that is foreign, annotated differently, or answered too seldom.
 */
export function checkCoverage(
  file: string,
  records: readonly EvalRecord[],
  series: readonly LabeledSeries[],
  perSeries?: number,
): void {
  const counts = new Map(series.map((one) => [one.id, 0]));
  const byId = new Map(series.map((one) => [one.id, one]));
  for (const record of records) {
    const { seriesId } = record;
    const one = byId.get(seriesId);
    if (one === undefined) {
      throw new DataError(`answers ${seriesId}, which is no held-out series of the recipe; ${ADVICE}`, {
        file,
      });
    }
    if (!sameGold(record, one)) {
      throw new DataError(
        `the annotation of ${seriesId} is not that of the held-out series; the generator has changed, ${ADVICE}`,
        { file },
      );
    }
    counts.set(seriesId, counts.get(seriesId)! + 1);
  }
  const expected = perSeries ?? counts.get(series[0]?.id ?? '') ?? 0;
  for (const [id, count] of counts) {
    if (count !== expected || count === 0) {
      throw new DataError(
        `${id} has ${count} answers, expected ${Math.max(1, expected)}; the evaluation is not complete, ${ADVICE}`,
        { file },
      );
    }
  }
}
