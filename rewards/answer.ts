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
 *
 * Readings. `lenient`, the default, takes what both papers' releases take: a class in any case and white space (`contextual` and
 * `global` for the points); numbers such as 100.0, cut to integers; intervals cut to the series, those that are empty, reversed
 * or outside of it left out while the others count; tags in any case; of several answers the last, of several classes the
 * first. A list of which nothing is left is unreadable, so that it is not taken for "nothing is anomalous". `strict` reads a part
 * only where it is valid. `wellFormed`, which the format reward is, is strict in both; the releases' is not: TimeMaster's asks
 * for a known class alone, AnomSeer's for the three parts anywhere. Not taken over: Python literals, which they evaluate as code,
 * and objects in place of pairs. An interval that begins before the series is cut; AnomSeer's drops it.
 */
import { DataError } from '../src/errors.ts';
import { ANOMALY_CLASSES, type Interval, type ParsedAnswer } from '../src/types.ts';
import { clipAndMerge } from './intervals.ts';
import { GAP, INTEGER, JSON_NUMBER, readList } from './list.ts';
import { nameClass, offered, readLabel, readTagged, type TaggedParts, tagFormat } from './tagged.ts';

/** How much is overlooked in an answer; the format reward overlooks nothing. */
export const READINGS = ['lenient', 'strict'] as const;
export type Reading = (typeof READINGS)[number];

/** Most intervals that one answer may list. */
export const MAX_INTERVALS = 1000;

const ANOMALY = tagFormat('think', 'answer', 'class');
const CLASSIFICATION = tagFormat('think', 'class');
const WITH_EXTENSION = tagFormat('think', 'class', 'extension');
const VARIATES = tagFormat('think', 'answer');

const pairOf = (number: string): RegExp =>
  new RegExp(`\\[${GAP}${number}${GAP},${GAP}${number}${GAP}\\]`, 'y');
const PAIR = pairOf(INTEGER);
const LOOSE_PAIR = pairOf(JSON_NUMBER);
const NUMBER = new RegExp(`${INTEGER}(?!\\d)`, 'y');
const LOOSE_NUMBER = new RegExp(JSON_NUMBER, 'y');

/** Short names that AnomSeer's release takes too. */
const SHORT_CLASSES = { contextual: 'contextual point', global: 'global point' } as const;

const INTERVALS = {
  most: MAX_INTERVALS,
  list: '[start, end] pairs',
  one: '[start, end] with integers',
  many: 'intervals',
} as const;
const IDS = {
  list: 'numbers of variates',
  one: 'the number of a variate, an integer,',
  many: 'variates',
} as const;

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
    ...INTERVALS,
  });
  return typeof intervals === 'string' ? intervals : clipAndMerge(intervals, length);
}

/** The same list read leniently (see the head of this file); null where nothing can be read. */
function looseIntervals(text: string, length: number): Interval[] | null {
  const intervals = readList<Interval>(text.trim(), {
    item: LOOSE_PAIR,
    read: (pair) => {
      const [start, end] = [Number(pair[1]), Number(pair[2])];
      if (!Number.isFinite(start) || !Number.isFinite(end)) return null;
      const [from, to] = [Math.max(0, Math.trunc(start)), Math.min(length, Math.trunc(end))];
      return from < to ? [from, to] : null;
    },
    ...INTERVALS,
  });
  return typeof intervals === 'string' ? null : clipAndMerge(intervals, length);
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
    ...IDS,
  });
  return typeof ids === 'string' ? ids : asSet(ids);
}

const asSet = (ids: readonly number[]): number[] => [...new Set(ids)].sort((a, b) => a - b);

/** The same list read leniently: ids that no channel has are left out; null where nothing can be read. */
function looseIds(text: string, channels: number): number[] | null {
  const ids = readList<number>(text.trim(), {
    item: LOOSE_NUMBER,
    read: ([written]) => {
      const id = Number(written);
      return Number.isInteger(id) && id >= 0 && id < channels ? id : null;
    },
    most: channels,
    ...IDS,
  });
  return typeof ids === 'string' ? null : asSet(ids);
}

function checkCount(caller: string, what: string, count: number): void {
  if (Number.isInteger(count) && count >= 1) return;
  throw new DataError(`${caller}: ${what} ${count} is not a positive integer`);
}

const thinkProblem = (think: string | null): string | null =>
  think?.trim() === '' ? 'the think part is blank' : null;

const labelProblem = (label: string | null): string | null =>
  label === null ? 'the class is blank, too long or more than one line' : null;

const missing = 'the answer is missing';
const complaint = (value: unknown): string | null => (typeof value === 'string' ? value : null);

/** A part that stands where it should; where it does not, and the reading is lenient, what the response offers in its place. */
function partOf(
  { parts }: TaggedParts,
  name: string,
  response: string,
  reading: Reading,
  which: 0 | -1 = 0,
): string | null {
  return parts[name] ?? (reading === 'strict' ? null : (offered(response, name).at(which) ?? null));
}

/**
 * Reads an anomaly-detection response about a series of `length` points; its list as in `parseIntervals`, or leniently.
 *
 * Example: `parseAnswer('<think>spike</think><answer>[[140, 220]]</answer><class>seasonal</class>', 1000)`.
 * @throws DataError when `length` is not a positive integer.
 */
export function parseAnswer(response: string, length: number, reading: Reading = 'lenient'): ParsedAnswer {
  checkCount('parseAnswer', 'series length', length);
  const tagged = readTagged(response, ANOMALY);
  const { answer = null, class: named = null, think = null } = tagged.parts;
  const intervals = answer === null ? missing : parseIntervals(answer, length);
  const label = readLabel(named);
  const problem = tagged.problem ?? complaint(intervals) ?? labelProblem(label) ?? thinkProblem(think);
  const part = (name: string, which: 0 | -1 = 0) => partOf(tagged, name, response, reading, which);
  const list = typeof intervals === 'string' && reading === 'lenient' ? part('answer', -1) : null;
  return {
    think: part('think'),
    intervals:
      typeof intervals !== 'string' ? intervals : list === null ? null : looseIntervals(list, length),
    class: reading === 'strict' ? label : nameClass(part('class'), ANOMALY_CLASSES, SHORT_CLASSES),
    wellFormed: problem === null,
    problem,
  };
}

export interface ClassificationReading {
  /** Whether the task asks for an extension; default false. */
  readonly extension?: boolean;
  /** Classes that a lenient reading recognises in any case and white space; default none. */
  readonly classes?: readonly string[];
  /** Default lenient. */
  readonly reading?: Reading;
}

/**
 * Reads a classification response, with an extension part exactly when the task asks for one; only then the result has
 * an `extension`, trimmed.
 *
 * Example: `parseClassification('<think>two levels</think><class>laptop</class>', { classes: ['Desktop', 'Laptop'] })`.
 */
export function parseClassification(
  response: string,
  { extension = false, classes = [], reading = 'lenient' }: ClassificationReading = {},
): ParsedAnswer {
  const tagged = readTagged(response, extension ? WITH_EXTENSION : CLASSIFICATION);
  const { class: named = null, think = null } = tagged.parts;
  const label = readLabel(named);
  const part = (name: string) => partOf(tagged, name, response, reading);
  const advice = tagged.parts['extension']?.trim() || null;
  const problem =
    tagged.problem ??
    labelProblem(label) ??
    thinkProblem(think) ??
    (extension && advice === null ? 'the extension is blank' : null);
  return {
    think: part('think'),
    intervals: null,
    class: reading === 'strict' ? label : nameClass(part('class'), classes),
    ...(extension ? { extension: part('extension')?.trim() || null } : {}),
    wellFormed: problem === null,
    problem,
  };
}

/**
 * Reads a response that names the anomalous ones of `channels` variates; its list as in `parseIds`, or leniently.
 *
 * Example: `parseVariates('<think>two are square waves</think><answer>[7, 2]</answer>', 9)` → variates [2, 7].
 * @throws DataError when `channels` is not a positive integer.
 */
export function parseVariates(
  response: string,
  channels: number,
  reading: Reading = 'lenient',
): ParsedAnswer {
  checkCount('parseVariates', 'number of channels', channels);
  const tagged = readTagged(response, VARIATES);
  const { answer = null, think = null } = tagged.parts;
  const variates = answer === null ? missing : parseIds(answer, channels);
  const problem = tagged.problem ?? complaint(variates) ?? thinkProblem(think);
  const part = (name: string, which: 0 | -1 = 0) => partOf(tagged, name, response, reading, which);
  const list = typeof variates === 'string' && reading === 'lenient' ? part('answer', -1) : null;
  return {
    think: part('think'),
    intervals: null,
    variates: typeof variates !== 'string' ? variates : list === null ? null : looseIds(list, channels),
    class: null,
    wellFormed: problem === null,
    problem,
  };
}
