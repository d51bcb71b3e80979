/**
 * Reads what a response says. Model output is data: a fixed grammar over bounded text, nothing is evaluated.
 *
 * Anomaly detection (AnomSeer): `<think>…</think><answer>[[start, end], …]</answer><class>…</class>`.
 * Classification (TimeMaster): `<think>…</think><class>…</class>`, then `<extension>…</extension>` where the task
 * asks for one.
 * Anomalous variates (VisualTimeAnomaly): `<think>…</think><answer>[id, …]</answer>`.
 *
 * Each part is read on its own, so a response with a format fault can still earn the rest; `wellFormed` demands exactly
 * the parts of the kind, in order, with only white space around them, none of them blank, each valid.
 */
import { DataError } from '../src/errors.ts';
import type { Interval, ParsedAnswer } from '../src/types.ts';
import { clipAndMerge } from './intervals.ts';
import { GAP, INTEGER, readList } from './list.ts';
import { readLabel, readTagged, tagFormat } from './tagged.ts';

/** Most intervals that one answer may list. */
export const MAX_INTERVALS = 1000;

const ANOMALY = tagFormat('think', 'answer', 'class');
const CLASSIFICATION = tagFormat('think', 'class');
const WITH_EXTENSION = tagFormat('think', 'class', 'extension');
const VARIATES = tagFormat('think', 'answer');

const PAIR = new RegExp(`\\[${GAP}${INTEGER}${GAP},${GAP}${INTEGER}${GAP}\\]`, 'y');
const NUMBER = new RegExp(`${INTEGER}(?!\\d)`, 'y');

/**
 * Parses a JSON list of integer pairs for a series of `length` points. The result is sorted and disjoint:
 * order does not matter, overlapping and touching intervals are merged, and an end beyond the series is cut
 * at its end, as in the reference implementation of the reward. Refused, with the reason: anything but such
 * a list, start ≥ end, a start outside the series, more than MAX_INTERVALS pairs.
 */
export function parseIntervals(text: string, length: number): Interval[] | string {
  const intervals = readList<Interval>(text, {
    item: PAIR,
    read: (pair) => {
      const start = Number(pair[1]);
      const end = Number(pair[2]);
      if (start >= end) return `interval [${start}, ${end}] is empty: the start must be below the end`;
      if (start >= length) return `interval [${start}, ${end}] is outside the series of ${length} points`;
      return [start, end];
    },
    most: MAX_INTERVALS,
    list: '[start, end] pairs',
    one: '[start, end] with integers',
    many: 'intervals',
  });
  return typeof intervals === 'string' ? intervals : clipAndMerge(intervals, length);
}

/**
 * Parses a JSON list of ids of variates, 0 to `channels` − 1. The result is ascending, each id once: order does not
 * matter, and an id given twice counts once, as an interval given twice does, because the answer is a set. Refused, with
 * the reason: anything but such a list, an id that no channel has, more than `channels` entries (repeated ones included,
 * so that a loop of one number is no answer).
 */
export function parseIds(text: string, channels: number): number[] | string {
  const ids = readList<number>(text, {
    item: NUMBER,
    read: ([written]) => {
      const id = Number(written);
      return id < channels ? id : `variate ${id} is none of the ${channels}, numbered from 0`;
    },
    most: channels,
    list: 'numbers of variates',
    one: 'the number of a variate, an integer,',
    many: 'variates',
  });
  return typeof ids === 'string' ? ids : [...new Set(ids)].sort((a, b) => a - b);
}

function checkCount(caller: string, what: string, count: number): void {
  if (Number.isInteger(count) && count >= 1) return;
  throw new DataError(`${caller}: ${what} ${count} is not a positive integer`);
}

const thinkProblem = (think: string | null): string | null =>
  think?.trim() === '' ? 'the think part is blank' : null;

const labelProblem = (label: string | null): string | null =>
  label === null ? 'the class is blank, too long or more than one line' : null;

/**
 * Reads an anomaly-detection response about a series of `length` points; its list as in `parseIntervals`.
 *
 * Example: `parseAnswer('<think>spike</think><answer>[[140, 220]]</answer><class>seasonal</class>', 1000)`.
 * @throws DataError when `length` is not a positive integer.
 */
export function parseAnswer(response: string, length: number): ParsedAnswer {
  checkCount('parseAnswer', 'series length', length);
  const { parts, problem: layout } = readTagged(response, ANOMALY);
  const think = parts['think'] ?? null;
  const label = readLabel(parts['class'] ?? null);
  const list = parts['answer'] ?? null;
  const intervals = list === null ? 'the answer is missing' : parseIntervals(list, length);
  const problem =
    layout ??
    (typeof intervals === 'string' ? intervals : null) ??
    labelProblem(label) ??
    thinkProblem(think);
  return {
    think,
    intervals: typeof intervals === 'string' ? null : intervals,
    class: label,
    wellFormed: problem === null,
    problem,
  };
}

/**
 * Reads a classification response, with an extension part exactly when the task asks for one; only then the result has
 * an `extension`, trimmed.
 *
 * Example: `parseClassification('<think>two levels</think><class>Laptop</class>')`.
 */
export function parseClassification(response: string, extension = false): ParsedAnswer {
  const { parts, problem: layout } = readTagged(response, extension ? WITH_EXTENSION : CLASSIFICATION);
  const think = parts['think'] ?? null;
  const label = readLabel(parts['class'] ?? null);
  const advice = parts['extension']?.trim() || null;
  const problem =
    layout ??
    labelProblem(label) ??
    thinkProblem(think) ??
    (extension && advice === null ? 'the extension is blank' : null);
  return {
    think,
    intervals: null,
    class: label,
    ...(extension ? { extension: advice } : {}),
    wellFormed: problem === null,
    problem,
  };
}

/**
 * Reads a response that names the anomalous ones of `channels` variates; its list as in `parseIds`.
 *
 * Example: `parseVariates('<think>two are square waves</think><answer>[7, 2]</answer>', 9)` → variates [2, 7].
 * @throws DataError when `channels` is not a positive integer.
 */
export function parseVariates(response: string, channels: number): ParsedAnswer {
  checkCount('parseVariates', 'number of channels', channels);
  const { parts, problem: layout } = readTagged(response, VARIATES);
  const think = parts['think'] ?? null;
  const list = parts['answer'] ?? null;
  const variates = list === null ? 'the answer is missing' : parseIds(list, channels);
  const problem = layout ?? (typeof variates === 'string' ? variates : null) ?? thinkProblem(think);
  return {
    think,
    intervals: null,
    variates: typeof variates === 'string' ? null : variates,
    class: null,
    wellFormed: problem === null,
    problem,
  };
}
