/** One answer made of several responses to the same series. */
import { variateMetrics } from '../rewards/variates.ts';
import { DataError } from '../src/ground/errors.ts';
import type { EvalRecord, Interval } from '../src/ground/types.ts';
import { majority, minimumBayesRisk } from '../src/measures/samples.ts';
import { pointF1Of } from '../src/series/intervals.ts';
import { scoreAnswer } from '../src/tasks/kinds.ts';

/** Returns the list with the highest mean similarity to the others; null where none is readable. */
function closest<T>(
  lists: readonly (readonly T[] | null)[],
  similarity: (candidate: readonly T[], other: readonly T[]) => number,
): readonly T[] | null {
  const readable = lists.filter((list) => list !== null);
  return readable[minimumBayesRisk(readable, similarity)] ?? null;
}

/**
 * Merges responses to one series into a record: the class of the majority (the first of equals), and the intervals or variates with the
 * highest mean F1 to the others (minimum Bayes risk). Unreadable answers have no vote. The result is well formed where any answer is.
 * @throws DataError for no record
 */
export function consensusOf(records: readonly EvalRecord[]): EvalRecord {
  const [first] = records;
  if (first === undefined) throw new DataError('consensus: no response');
  const answers = records.map(({ answer }) => answer);
  const intervals = closest<Interval>(
    answers.map(({ intervals: list }) => list),
    pointF1Of,
  );
  const label = majority(answers.map((answer) => answer.class));
  const variates = closest(
    answers.map(({ variates: list = null }) => list),
    (a, b) => variateMetrics(a, b).f1,
  );
  const problem = answers.every(({ problem: unreadable }) => unreadable !== null)
    ? first.answer.problem
    : null;
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
