/**
 * Reads what a response says. Model output is data: a fixed grammar over bounded text, nothing is evaluated.
 *
 * Anomaly detection (AnomSeer): `<think>…</think><answer>[[start, end], …]</answer><class>…</class>`.
 * Classification (TimeMaster): `<think>…</think><class>…</class>`, then `<extension>…</extension>` where the task
 * asks for one.
 */
import { DataError } from '../src/errors.ts';
import type { Interval, ParsedAnswer } from '../src/types.ts';
import { clipAndMerge } from './intervals.ts';
import { readLabel, readTagged, tagFormat } from './tagged.ts';

/** Most intervals that one answer may list. */
export const MAX_INTERVALS = 1000;

const ANOMALY = tagFormat('think', 'answer', 'class');
const CLASSIFICATION = tagFormat('think', 'class');
const WITH_EXTENSION = tagFormat('think', 'class', 'extension');

/** A JSON integer without sign, at most nine digits, no leading zero. */
const PAIR = /\[[ \t\n\r]*(0|[1-9]\d{0,8})[ \t\n\r]*,[ \t\n\r]*(0|[1-9]\d{0,8})[ \t\n\r]*\]/y;
const SPACE = /[ \t\n\r]*/y;

function skip(text: string, at: number): number {
  SPACE.lastIndex = at;
  SPACE.test(text);
  return SPACE.lastIndex;
}

/**
 * Parses a JSON list of integer pairs for a series of `length` points. The result is sorted and disjoint:
 * order does not matter, overlapping and touching intervals are merged, and an end beyond the series is cut
 * at its end, as in the reference implementation of the reward. Refused, with the reason: anything but such
 * a list, start ≥ end, a start outside the series, more than MAX_INTERVALS pairs.
 */
export function parseIntervals(text: string, length: number): Interval[] | string {
  let at = skip(text, 0);
  if (text[at] !== '[') return 'the answer is not a list of [start, end] pairs';
  at = skip(text, at + 1);
  const intervals: Interval[] = [];
  if (text[at] !== ']') {
    for (;;) {
      PAIR.lastIndex = at;
      const pair = PAIR.exec(text);
      if (pair === null) return `expected [start, end] with integers at character ${at} of the answer`;
      const start = Number(pair[1]);
      const end = Number(pair[2]);
      if (start >= end) return `interval [${start}, ${end}] is empty: the start must be below the end`;
      if (start >= length) return `interval [${start}, ${end}] is outside the series of ${length} points`;
      if (intervals.length === MAX_INTERVALS) return `more than ${MAX_INTERVALS} intervals`;
      intervals.push([start, end]);
      at = skip(text, PAIR.lastIndex);
      if (text[at] === ']') break;
      if (text[at] !== ',') return `expected "," or "]" at character ${at} of the answer`;
      at = skip(text, at + 1);
    }
  }
  if (skip(text, at + 1) !== text.length) return 'text after the list of the answer';
  return clipAndMerge(intervals, length);
}

/**
 * Reads an anomaly-detection response about a series of `length` points. Each part is read on its own, so a
 * response with a format fault can still earn its localisation and class; `wellFormed` demands exactly the three
 * parts in order with only white space around them, a think and a class that are not blank, and a valid list.
 *
 * Example: `parseAnswer('<think>spike</think><answer>[[140, 220]]</answer><class>seasonal</class>', 1000)`.
 * @throws DataError when `length` is not a positive integer.
 */
export function parseAnswer(response: string, length: number): ParsedAnswer {
  if (!Number.isInteger(length) || length < 1) {
    throw new DataError(`parseAnswer: series length ${length} is not a positive integer`);
  }
  const { parts, problem: layout } = readTagged(response, ANOMALY);
  const think = parts['think'] ?? null;
  const label = readLabel(parts['class'] ?? null);
  const list = parts['answer'] ?? null;
  const intervals = list === null ? 'the answer is missing' : parseIntervals(list, length);
  const problem =
    layout ??
    (typeof intervals === 'string' ? intervals : null) ??
    (label === null ? 'the class is blank, too long or more than one line' : null) ??
    (think?.trim() === '' ? 'the think part is blank' : null);
  return {
    think,
    intervals: typeof intervals === 'string' ? null : intervals,
    class: label,
    wellFormed: problem === null,
    problem,
  };
}

/** What a classification response says; `null` marks a part that is absent, unparsable or not asked for. */
export interface ParsedClassification {
  readonly think: string | null;
  readonly class: string | null;
  readonly extension: string | null;
  readonly wellFormed: boolean;
  readonly problem: string | null;
}

/** Reads a classification response, with an extension part when the task asks for one. */
export function parseClassification(response: string, extension = false): ParsedClassification {
  const { parts, problem: layout } = readTagged(response, extension ? WITH_EXTENSION : CLASSIFICATION);
  const think = parts['think'] ?? null;
  const label = readLabel(parts['class'] ?? null);
  const advice = parts['extension']?.trim() || null;
  const problem =
    layout ??
    (label === null ? 'the class is blank, too long or more than one line' : null) ??
    (think?.trim() === '' ? 'the think part is blank' : null) ??
    (extension && advice === null ? 'the extension is blank' : null);
  return { think, class: label, extension: advice, wellFormed: problem === null, problem };
}
