/** The right answer in the parts that a program gives, whatever its kind. */
import { DataError } from '../ground/errors.ts';
import { type Place, show } from '../ground/json-record.ts';
import type { AnomalyClass, Gold, Interval } from '../ground/types.ts';
import { readGold } from './kinds.ts';
import { optionNamed } from './question.ts';

/** Fields of the gold answer by kind; null counts as absent. */
export interface GoldPartsOf {
  readonly classification: { readonly class: string };
  readonly anomaly: {
    /** Half-open [start, end), sorted and disjoint; none where nothing is anomalous. */
    readonly intervals: readonly Interval[];
    /** Their kind, where it is known; `normal`, or absent, where there are none. */
    readonly class?: AnomalyClass | null;
  };
  readonly variates: {
    /** Numbers of the odd channels, ascending. */
    readonly variates: readonly number[];
  };
  readonly question: {
    readonly question: string;
    /** Texts to choose from; none where the answer is free. */
    readonly options?: readonly string[];
    /** The letter or the text of the right option; without options a text of one line, or a number. */
    readonly answer: string | number;
    /** Category for metrics. */
    readonly category?: string | null;
    /** Expert reasoning towards the gold answer; the SFT target. */
    readonly thought?: string | null;
  };
}

/** Schema of one kind, or of any. */
export type GoldParts<K extends Gold['kind'] = Gold['kind']> = GoldPartsOf[K];

/** The letter of the right option, or the free answer; what is neither text nor number is left to the reader of fields. */
function answerFrom(answer: unknown, options: unknown, at: Place): unknown {
  if (typeof answer === 'number' && !Number.isFinite(answer)) {
    throw new DataError(`answer: got ${answer}, expected text or a finite number`, at);
  }
  const said = typeof answer === 'number' ? String(answer) : answer;
  if (typeof said !== 'string' || !Array.isArray(options) || options.length === 0) return said;
  if (!options.every((one) => typeof one === 'string')) return said;
  const letter = optionNamed(said, options);
  if (letter !== null) return letter;
  throw new DataError(`answer: ${show(said)} is none of the options ${show(options)}`, at);
}

/**
 * The gold answer of a kind from its parts, each of its type; whether it fits a series is not looked at.
 * @throws DataError naming the part that is missing or wrong
 */
export function goldFrom<K extends Gold['kind']>(kind: K, parts: GoldParts<K>, at: Place = {}): Gold {
  const given = parts as Readonly<Record<string, unknown>>;
  const { intervals, variates, question, options = [], category = null, thought = null } = given;
  const normal = Array.isArray(intervals) && intervals.length === 0;
  const fields: Readonly<Record<Gold['kind'], Readonly<Record<string, unknown>>>> = {
    classification: { class: given['class'] },
    anomaly: { class: given['class'] ?? (normal ? 'normal' : null), intervals },
    variates: { variates },
    question: { question, options, answer: answerFrom(given['answer'], options, at), category, thought },
  };
  return readGold({ kind, ...fields[kind] }, at);
}
