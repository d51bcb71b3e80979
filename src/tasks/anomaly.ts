/** Anomaly detection (AnomSeer): `<think>…</think><answer>[[start, end], …]</answer><class>…</class>`. */
import { anomseer } from '../../rewards/anomseer.ts';
import { ConfigError, DataError } from '../errors.ts';
import { analyseChannels, analyseWithGaps, blindOf, teacherAnomaly, teacherOf } from '../expcot/anomaly.ts';
import { analyse } from '../expcot/evidence.ts';
import { nanoTeacher } from '../expcot/nano.ts';
import { listField, type Place, show, stringField } from '../json-record.ts';
import { clipAndMerge, pointF1 } from '../series/intervals.ts';
import {
  ANOMALY_CLASSES,
  type AnomalyClass,
  type AnomalyGold,
  type Interval,
  type ParsedAnswer,
} from '../types.ts';
import { chooseOne, shownSeries, type TaskKind } from './kind.ts';
import {
  checkCount,
  GAP,
  INTEGER,
  JSON_NUMBER,
  labelProblem,
  MISSING,
  nameClass,
  partOf,
  type Reading,
  readLabel,
  readList,
  readTagged,
  tagFormat,
  thinkProblem,
} from './response.ts';

/** Most intervals that one answer may list. */
export const MAX_INTERVALS = 1000;

const FORMAT = tagFormat('think', 'answer', 'class');
const pairOf = (number: string): RegExp =>
  new RegExp(`\\[${GAP}${number}${GAP},${GAP}${number}${GAP}\\]`, 'y');
const PAIR = pairOf(INTEGER);
const LOOSE_PAIR = pairOf(JSON_NUMBER);

/** Short names that AnomSeer's release takes too. */
const SHORT_CLASSES = { contextual: 'contextual point', global: 'global point' } as const;
/** Stands for the class of an anomaly whose kind is not named: any answer is as good. */
const UNNAMED = 'contextual point';

const INTERVALS = {
  most: MAX_INTERVALS,
  list: '[start, end] pairs',
  one: '[start, end] with integers',
  many: 'intervals',
} as const;

/** Whether a value is one of the classes of AnomSeer. */
export const isAnomalyClass = (value: unknown): value is AnomalyClass =>
  (ANOMALY_CLASSES as readonly unknown[]).includes(value);

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
 * Reads an anomaly-detection response about a series of `length` points; its list as in `parseIntervals`, or leniently.
 *
 * Example: `parseAnswer('<think>spike</think><answer>[[140, 220]]</answer><class>seasonal</class>', 1000)`.
 * @throws DataError when `length` is not a positive integer.
 */
export function parseAnswer(response: string, length: number, reading: Reading = 'lenient'): ParsedAnswer {
  checkCount('parseAnswer', 'series length', length);
  const tagged = readTagged(response, FORMAT);
  const { answer = null, class: named = null, think = null } = tagged.parts;
  const intervals = answer === null ? MISSING : parseIntervals(answer, length);
  const label = readLabel(named);
  const problem =
    tagged.problem ??
    (typeof intervals === 'string' ? intervals : null) ??
    labelProblem(label) ??
    thinkProblem(think);
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

/**
 * Checks that intervals are half-open pairs of integers, inside [0, length), sorted and disjoint (they may touch).
 *
 * @throws DataError naming the interval
 */
export function checkIntervals(intervals: readonly Interval[], length: number, at: Place = {}): void {
  let previous = 0;
  for (const [k, interval] of intervals.entries()) {
    const field = `intervals[${k}]`;
    const [start, end] = interval;
    if (interval.length !== 2 || !Number.isInteger(start) || !Number.isInteger(end)) {
      throw new DataError(`${field}: got ${show(interval)}, expected [start, end], two integers`, at);
    }
    if (start >= end) {
      throw new DataError(`${field}: ${show(interval)} is empty; start must be before end (half-open)`, at);
    }
    if (start < 0 || end > length) {
      throw new DataError(`${field}: ${show(interval)} leaves the series, which covers [0, ${length})`, at);
    }
    if (start < previous) {
      throw new DataError(
        `${field}: ${show(interval)} overlaps or precedes ${show(intervals[k - 1])}; sort and merge the intervals`,
        at,
      );
    }
    previous = end;
  }
}

/** The list of a file as intervals, each a pair; what the pairs hold is left to `checkIntervals`. @throws DataError */
export function intervalsOf(list: readonly unknown[], at: Place = {}): Interval[] {
  return list.map((pair, k): Interval => {
    if (Array.isArray(pair) && pair.length === 2) return [pair[0], pair[1]];
    throw new DataError(`intervals[${k}]: got ${show(pair)}, expected [start, end], two integers`, at);
  });
}

/** Intervals as a user states them: unlike those of a model, nothing is cut or merged. @throws ConfigError */
function statedIntervals(text: string, length: number): readonly Interval[] {
  const read = parseIntervals(text, length);
  if (typeof read === 'string') throw new ConfigError(`--intervals: ${read}`);
  const given = (JSON.parse(text) as Interval[]).toSorted(([a], [b]) => a - b);
  const beyond = given.find(([, end]) => end > length);
  if (beyond !== undefined) {
    throw new ConfigError(
      `--intervals: [${beyond.join(', ')}] ends beyond the series of ${length} points; indices count from 0, and the end is not in the interval`,
    );
  }
  const second = given.findIndex(([start], i) => i > 0 && start < given[i - 1]![1]);
  if (second > 0) {
    throw new ConfigError(
      `--intervals: [${given[second - 1]!.join(', ')}] and [${given[second]!.join(', ')}] overlap; give one for both`,
    );
  }
  return read;
}

/** Intervals for a reader; null: unreadable. */
export function intervalText(intervals: readonly Interval[] | null): string {
  if (intervals === null) return 'unreadable';
  if (intervals.length === 0) return 'none';
  const shown = intervals.slice(0, 20).map(([start, end]) => `[${start},\u00a0${end})`);
  return shown.join(' ') + (intervals.length > 20 ? ` and ${intervals.length - 20} more` : '');
}

export const anomaly: TaskKind<AnomalyGold> = {
  name: 'anomaly',
  answers: 'intervals of anomalies',
  column: 'intervals',
  classes: ANOMALY_CLASSES,
  learnsClasses: false,
  countsPoints: true,
  countsChannels: false,
  nanoFigure: 'nano-channels',
  localises: true,
  measuresF1: true,

  fields: ['kind', 'class', 'intervals'],
  read(record, at) {
    const name = record['class'] === null ? null : stringField(record, 'class', at);
    if (name !== null && !isAnomalyClass(name)) {
      throw new DataError(`class: unknown ${show(name)}; known: ${ANOMALY_CLASSES.join(', ')}`, at);
    }
    return { kind: 'anomaly', class: name, intervals: intervalsOf(listField(record, 'intervals', at), at) };
  },
  check(gold, { length }, at) {
    checkIntervals(gold.intervals, length, at);
    if (gold.class !== null && !isAnomalyClass(gold.class)) {
      throw new DataError(`class: unknown ${show(gold.class)}; known: ${ANOMALY_CLASSES.join(', ')}`, at);
    }
    if ((gold.class === 'normal') !== (gold.intervals.length === 0)) {
      throw new DataError(
        `class: ${show(gold.class)} with ${gold.intervals.length} intervals; "normal" goes with none, every other with some`,
        at,
      );
    }
  },
  className: (gold) => gold.class,
  label: (gold) => gold.class ?? 'unnamed anomaly',
  parts(gold, whole) {
    const pairs = gold.intervals.map(([start, end]) => `[${start}, ${end}]`);
    const name = gold.class ?? (whole ? UNNAMED : null);
    return `<answer>[${pairs.join(', ')}]</answer>${name === null ? '' : `<class>${name}</class>`}`;
  },
  marks: ({ intervals }) => (intervals.length === 0 ? null : { intervals }),
  state(stated, found, length, missing) {
    const given = stated.intervals === undefined ? null : statedIntervals(stated.intervals, length);
    const intervals = given ?? found?.intervals ?? missing('--intervals "[[120, 180]]"');
    const own = stated.class ?? found?.class ?? null;
    const label = own ?? (intervals.length === 0 ? 'normal' : null);
    if (label !== null && !isAnomalyClass(label)) {
      throw new ConfigError(`--class ${label}: expected one of ${ANOMALY_CLASSES.join(', ')}`);
    }
    if (label !== null && (label === 'normal') !== (intervals.length === 0)) {
      throw new ConfigError(
        label === 'normal'
          ? `--class normal: there are anomalies at ${JSON.stringify(intervals)}; leave one of the two out`
          : `--class ${label}: a series without intervals is normal; say where with --intervals "[[120, 180]]"`,
      );
    }
    return { kind: 'anomaly', class: label, intervals };
  },

  phrase: 'Find the anomalies.',
  question:
    'Find the intervals in which it behaves anomalously, if there are any, and name the kind of anomaly.',
  hints: {
    'contextual point':
      'single values or short stretches that do not fit their place in the pattern, though the level is usual',
    'global point': 'values far outside of the range of all others',
    seasonal: 'stretches in which the pattern repeats faster, slower or differently than elsewhere',
    trend: 'stretches in which the level drifts or shifts in a way that the rest does not',
    shapelet: 'stretches in which the basic shape of a cycle is another one',
    normal: 'nothing departs from the pattern',
  },
  // Answers count points, whatever the axis does.
  shown: (request) => shownSeries(request, true),
  form: (_, { classes }) =>
    `Then give the intervals as half-open index ranges between <answer> and </answer>, for example <answer>[[120, 180], [400, 420]]</answer>, or <answer>[]</answer> when nothing is anomalous. ${chooseOne(classes)}`,

  parse: (response, { length, reading }) => parseAnswer(response, length, reading),
  reward: anomseer,

  expert({ channels, names }) {
    const evidence = analyseChannels(channels, names);
    return {
      evidence: () =>
        evidence.map(({ evidence: own, cycle }, c) => ({ channel: names[c], ...own.toJSON(), cycle })),
      blind() {
        const { text, think, intervals, class: own } = blindOf(evidence, names);
        return { text, think, answer: { kind: 'anomaly', class: own, intervals } };
      },
      teacher(gold) {
        const { text, think } = teacherOf(evidence, names, gold.intervals, gold.class);
        return { text, think, answer: gold };
      },
    };
  },
  /** Where the data do not name the kind, or there are several channels, kind and channel are those of the full trace. */
  nanoTrace({ channels, names }, { class: named, intervals }, _, options) {
    const [only] = channels;
    if (named !== null && channels.length === 1) {
      const whole = !only!.some(Number.isNaN);
      const evidence = whole ? analyse(only!) : analyseWithGaps(only!).evidence;
      return nanoTeacher(evidence, { intervals, class: named }, options);
    }
    const { evidence, class: kind } = teacherAnomaly(channels, names, intervals, named);
    return nanoTeacher(evidence, { intervals, class: kind }, options);
  },
  answerOf: (said) => ({
    kind: 'anomaly',
    class: isAnomalyClass(said.class) ? said.class : null,
    intervals: said.intervals ?? [],
  }),
  says: (said) => `${said.class ?? 'unreadable'}, ${intervalText(said.intervals)}`,
  agreement: (answer, gold) => ({
    class: gold.class === null ? null : answer.class === gold.class,
    f1: pointF1(answer.intervals, gold.intervals),
  }),
};
