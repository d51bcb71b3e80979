/** The right answer in the parts that a program gives, whatever its kind. */
import { show } from '../json-record.ts';
import type { Gold, Interval } from '../types.ts';
import { optionNamed } from './question.ts';

/** Those of one kind are needed, the others are left alone. */
export interface GoldParts {
  /** Of a classification; of an anomaly its kind, where it is known. */
  readonly class?: string | null;
  /** Of anomalies: half-open [start, end), sorted and disjoint; none where nothing is anomalous. */
  readonly intervals?: readonly Interval[];
  /** Of variates: the numbers of the odd ones, ascending. */
  readonly variates?: readonly number[];
  /** Of a question: what is asked; the options, if there are any; the letter or the text of the right one, or the answer. */
  readonly question?: string;
  readonly options?: readonly string[];
  readonly answer?: string | number;
  readonly category?: string | null;
  readonly thought?: string | null;
}

/**
 * The gold answer of a kind from its parts.
 * @param fail throws what is wrong with a part, by its name
 */
export function goldFrom(kind: Gold['kind'], given: GoldParts, fail: (message: string) => never): Gold {
  const { class: name = null, intervals, variates, question, options = [], answer } = given;
  if (kind === 'classification') {
    return typeof name === 'string'
      ? { kind, class: name }
      : fail(`class: got ${show(name)}, expected a name`);
  }
  if (kind === 'variates') {
    return Array.isArray(variates)
      ? { kind, variates }
      : fail(`variates: got ${show(variates)}, expected a list of numbers`);
  }
  if (kind === 'anomaly') {
    if (!Array.isArray(intervals))
      return fail(`intervals: got ${show(intervals)}, expected a list of [start, end]`);
    const own = intervals.length === 0 ? 'normal' : name;
    return { kind, class: own as never, intervals };
  }
  if (typeof question !== 'string') return fail(`question: got ${show(question)}, expected text`);
  if (typeof answer !== 'string' && typeof answer !== 'number') {
    return fail(`answer: got ${show(answer)}, expected text or a number`);
  }
  if (!Array.isArray(options) || !options.every((one) => typeof one === 'string')) {
    return fail(`options: got ${show(options)}, expected a list of texts`);
  }
  const said = String(answer);
  const letter = options.length === 0 ? said : optionNamed(said, options);
  if (letter === null) return fail(`answer: ${show(said)} is none of the options ${show(options)}`);
  return {
    kind,
    question,
    options,
    answer: letter,
    category: given.category ?? null,
    thought: given.thought ?? null,
  };
}
