/** One answer made of several responses to the same series. */
import { DataError } from '../src/ground/errors.ts';
import type { EvalRecord, Interval } from '../src/ground/types.ts';
import { majority, minimumBayesRisk } from '../src/measures/samples.ts';
import { pointF1 } from '../src/series/intervals.ts';
import { scoreAnswer } from '../src/tasks/kinds.ts';

/** The list with the highest mean similarity to the others; null where none could be read. */
function closest<T>(
  lists: readonly (readonly T[] | null)[],
  similarity: (candidate: readonly T[], other: readonly T[]) => number,
): readonly T[] | null {
  const readable = lists.filter((list) => list !== null);
  return readable[minimumBayesRisk(readable, similarity)] ?? null;
}

/** 2·|A ∩ B| / (|A| + |B|); two empty sets agree. */
function setF1(a: readonly number[], b: readonly number[]): number {
  const total = a.length + b.length;
  return total === 0 ? 1 : (2 * a.filter((id) => b.includes(id)).length) / total;
}

/**
 * The first record with the answer of all: the class that most responses name (the first of equals), and of the intervals, or variates,
 * those with the highest mean F1 to the others (minimum Bayes risk). What could not be read has no vote. There is no text behind it:
 * it is well formed where something was read.
 * @throws DataError for no record
 */
export function consensusOf(records: readonly EvalRecord[]): EvalRecord {
  const [first] = records;
  if (first === undefined) throw new DataError('consensus: no response');
  const answers = records.map(({ answer }) => answer);
  const intervals = closest<Interval>(
    answers.map((one) => one.intervals),
    pointF1,
  );
  const label = majority(answers.map((one) => one.class));
  const variates = closest(
    answers.map((one) => one.variates ?? null),
    setF1,
  );
  const problem = answers.every((one) => one.problem !== null) ? first.answer.problem : null;
  const answer = {
    ...first.answer,
    intervals,
    class: label,
    ...(first.answer.variates === undefined ? {} : { variates }),
    wellFormed: problem === null,
    problem,
  };
  return { ...first, response: '', answer, score: scoreAnswer(answer, first.gold, first.length) };
}
