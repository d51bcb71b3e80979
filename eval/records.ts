/** Evaluated responses on disk: one `EvalRecord` a line, written whole or not at all. */

import { z } from 'zod';
import { DataError } from '../src/ground/errors.ts';
import { writeFileAtomic } from '../src/ground/files.ts';
import { jsonLines, readJsonLines } from '../src/ground/json-files.ts';
import type { EvalRecord, Example, Gold, Interval } from '../src/ground/types.ts';
import type { Asked } from '../src/tasks/kind.ts';
import { goldParts, parseResponse, readGold, scoreAnswer, taskKind } from '../src/tasks/kinds.ts';

const ADVICE = 'evaluate the policy again';

const interval = z.tuple([z.int().nonnegative(), z.int().positive()]).readonly();
const intervals = z.array(interval).readonly();
const ids = z
  .array(z.int().nonnegative())
  .readonly()
  .refine((list) => list.every((id, i) => id > (list[i - 1] ?? -1)), 'must be ascending, each once');

/** A gold answer as its kind reads it. */
const gold = z.unknown().transform((value, context): Gold => {
  try {
    return readGold(value, {});
  } catch (error) {
    context.addIssue({ code: 'custom', message: (error as Error).message });
    return z.NEVER;
  }
});

const answer = z
  .strictObject({
    think: z.string().nullable(),
    intervals: intervals.nullable(),
    variates: z.exactOptional(ids.nullable()),
    class: z.string().nullable(),
    extension: z.exactOptional(z.string().nullable()),
    wellFormed: z.boolean(),
    problem: z.string().nullable(),
  })
  .readonly()
  .refine(({ wellFormed, problem }) => wellFormed === (problem === null), {
    path: ['problem'],
    message: 'must be null exactly when the answer is well formed',
  });

const count = z.int().nonnegative();
const part = z.number().min(0).max(1).nullable();
const reasoning = z
  .strictObject({
    ...{ claims: count, true: count, false: count, unchecked: count, truth: part, coverage: part },
    ...{ facts: z.exactOptional(count), recalled: z.exactOptional(count) },
    f1: z.exactOptional(z.number().min(0).max(1)),
    agreement: z.boolean().nullable(),
    contradictions: count,
    wrong: z
      .array(z.strictObject({ text: z.string(), quantity: z.string(), why: z.string() }).readonly())
      .readonly(),
  })
  .readonly();

function ordered(list: readonly Interval[], length: number): boolean {
  return list.every(([start, end], i) => start >= (list[i - 1]?.[1] ?? 0) && start < end && end <= length);
}

/** The first part of an answer that its kind does not have, or lacks; null when it is an answer of that kind. */
function foreignPart(kind: Gold['kind'], one: z.infer<typeof answer>): string | null {
  const parts: readonly string[] = taskKind(kind).evaluation.answerParts;
  if (one.intervals !== null && !parts.includes('intervals')) return 'intervals';
  if (parts.includes('variates') !== (one.variates !== undefined)) return 'variates';
  if (one.class !== null && !parts.includes('class')) return 'class';
  if (one.extension !== undefined && !parts.includes('extension')) return 'extension';
  return null;
}

/** A record as it is stored. Its score is not taken from the file: it follows from the answer, which the metrics are of. */
export const evalRecordShape = z
  .strictObject({
    seriesId: z.string().min(1),
    task: z.string().min(1),
    length: z.int().positive(),
    gold,
    response: z.string(),
    frame: z.exactOptional(z.int().positive()),
    answer,
    score: z
      .strictObject({
        total: z.number().nonnegative(),
        parts: z.record(z.string(), z.number().min(0).max(1)).readonly(),
      })
      .readonly(),
    sample: z.exactOptional(z.int().nonnegative()),
    temperature: z.exactOptional(z.number().nonnegative()),
    usage: z.exactOptional(
      z
        .strictObject({
          prompt: z.int().nonnegative(),
          completion: z.int().nonnegative(),
          turns: z.exactOptional(z.int().nonnegative()),
        })
        .readonly(),
    ),
    seconds: z.exactOptional(z.number().nonnegative()),
    cost: z.exactOptional(z.number().nonnegative()),
    measures: z.exactOptional(z.record(z.string(), z.number())),
    judged: z.exactOptional(
      z
        .strictObject({
          by: z.string().min(1),
          score: z.number().min(0).max(1).nullable(),
          notes: z.string().nullable(),
        })
        .readonly(),
    ),
    rewards: z.exactOptional(z.record(z.string(), z.number()).readonly()),
    reasoning: z.exactOptional(reasoning),
    failure: z.exactOptional(z.string().min(1)),
  })
  .readonly()
  .refine(({ failure, response }) => failure === undefined || response === '', {
    path: ['failure'],
    message: 'must stand beside an empty response alone',
  })
  .superRefine((record, context) => {
    const complain = (path: string[], message: string): void =>
      context.addIssue({ code: 'custom', path, message });
    try {
      taskKind(record.gold.kind).check(
        record.gold,
        { length: record.length, channels: Number.POSITIVE_INFINITY },
        {},
      );
    } catch (error) {
      complain(['gold'], (error as Error).message);
    }
    if (record.answer.intervals !== null && !ordered(record.answer.intervals, record.length)) {
      complain(['answer', 'intervals'], 'must be sorted, disjoint and inside the series');
    }
    const foreign = foreignPart(record.gold.kind, record.answer);
    if (foreign !== null) complain(['answer', foreign], `must fit an answer of kind ${record.gold.kind}`);
  })
  .transform((record) => ({
    ...record,
    score: scoreAnswer(record.answer, record.gold, record.length, undefined, record.judged?.score ?? null),
  }));

/** Writes records, one a line. WriteError when the disk refuses; what was there before is then unchanged. */
export function writeRecords(file: string, records: readonly EvalRecord[]): void {
  writeFileAtomic(file, jsonLines(records));
}

/**
 * Reads records; their scores are computed again from their answers.
 * @throws DataError naming file, line and key when one is damaged or of another shape; also for no record at all.
 */
export function readRecords(file: string): EvalRecord[] {
  const records = readJsonLines(file, evalRecordShape, { advice: ADVICE });
  if (records.length === 0) throw new DataError(`holds no record; ${ADVICE}`, { file });
  return records;
}

/** Parses and scores responses again: the answers and scores in a file may have been changed. */
export function reread(records: readonly EvalRecord[], asked: (record: EvalRecord) => Asked): EvalRecord[] {
  return records.map((record) => {
    const answer = parseResponse(record.response, asked(record));
    const judged = record.judged?.score ?? null;
    return { ...record, answer, score: scoreAnswer(answer, record.gold, record.length, undefined, judged) };
  });
}

/** Returns true where two gold answers are equal. */
export function sameGold(a: Gold, b: Gold): boolean {
  return a.kind === b.kind && goldParts(a) === goldParts(b);
}

/**
 * Checks that records answer exactly these examples, each equally often (`perSeries` times where it is given) and with the same gold
 * answer: numbers over other examples, or some of them, must not pass for those of the held-out set.
 * @throws DataError naming the file and the first example that is foreign, annotated differently, or answered too seldom.
 */
export function checkCoverage(
  file: string,
  records: readonly EvalRecord[],
  examples: readonly Pick<Example, 'id' | 'channels' | 'gold'>[],
  perSeries?: number,
): void {
  const fail: (problem: string) => never = (problem) => {
    throw new DataError(`${problem}; ${ADVICE}`, { file });
  };
  const counts = new Map(examples.map(({ id }) => [id, 0]));
  const byId = new Map(examples.map((example) => [example.id, example]));
  for (const record of records) {
    const { seriesId } = record;
    const example = byId.get(seriesId);
    if (example === undefined) fail(`answers ${seriesId}, which is no held-out series of the recipe`);
    if (record.length !== example.channels[0]!.length || !sameGold(record.gold, example.gold)) {
      fail(`the annotation of ${seriesId} is not that of the held-out series; the data have changed`);
    }
    counts.set(seriesId, counts.get(seriesId)! + 1);
  }
  const expected = perSeries ?? counts.get(examples[0]?.id ?? '') ?? 0;
  for (const [id, count] of counts) {
    if (count !== expected || count === 0) {
      fail(`${id} has ${count} answers, expected ${Math.max(1, expected)}; the evaluation is not complete`);
    }
  }
}
