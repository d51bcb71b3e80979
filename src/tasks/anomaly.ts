/** Anomaly detection (AnomSeer): `<think>…</think><answer>[[start, end], …]</answer><class>…</class>`. */

import { anomseer, localisationOf } from '../../rewards/anomseer.ts';
import {
  analyseChannels,
  analyseWithGaps,
  blindAnomaly,
  channelRecords,
  EXPCOT_BLIND,
  expcotBlind,
  teacherAnomaly,
} from '../expcot/anomaly.ts';
import { analyse } from '../expcot/evidence.ts';
import { nanoFactsTeacher, nanoTeacher } from '../expcot/nano.ts';
import { formatIntervals } from '../expcot/trace.ts';
import { ConfigError, DataError } from '../ground/errors.ts';
import { listField, type Place, show, stringField } from '../ground/json-record.ts';
import { fixed, grouped, percent } from '../ground/numbers.ts';
import {
  ANOMALY_CLASSES,
  type AnomalyClass,
  type AnomalyGold,
  type Interval,
  type ParsedAnswer,
} from '../ground/types.ts';
import { html } from '../html/html.ts';
import { intervalVus } from '../measures/curves.ts';
import { eventBased, pointAdjusted, rangeBased } from '../measures/range-based.ts';
import { DETECTORS } from '../series/detectors.ts';
import { clipAndMerge, intervalText, pointF1Of } from '../series/intervals.ts';
import {
  CLASS_ACCURACY,
  type Evaluation,
  FORMAT_METRIC,
  type Metrics,
  NO_MEASURE_OF_TEXT,
  pick,
  REASONING_METRICS,
  reward,
  SUCCESS_RATE,
  share,
  unreadable,
  withInterval,
} from './evaluation.ts';
import { chooseOne, shownSeries, type TaskKind } from './kind.ts';
import {
  checkCount,
  GAP,
  INTEGER,
  JSON_NUMBER,
  labelProblem,
  MISSING,
  nameClass,
  type Reading,
  readLabel,
  readList,
  readTagged,
  tagFormat,
  thinkProblem,
} from './response.ts';

/** Maximum number of intervals in one answer. */
export const MAX_INTERVALS = 1000;

const FORMAT = tagFormat('think', 'answer', 'class');
const pairOf = (number: string): RegExp =>
  new RegExp(`\\[${GAP}${number}${GAP},${GAP}${number}${GAP}\\]`, 'y');
const PAIR = pairOf(INTEGER);
const LOOSE_PAIR = pairOf(JSON_NUMBER);

/** Short class names that AnomSeer's release also accepts. */
const SHORT_CLASSES = { contextual: 'contextual point', global: 'global point' } as const;
/** Class stated in a gold response where the data name none; the class is not graded there. */
const PLACEHOLDER_CLASS = 'contextual point';

const INTERVALS = {
  most: MAX_INTERVALS,
  list: '[start, end] pairs',
  itemName: '[start, end] with integers',
  itemsName: 'intervals',
} as const;

/** Returns true if a value is one of AnomSeer's classes. */
export const isAnomalyClass = (value: unknown): value is AnomalyClass =>
  (ANOMALY_CLASSES as readonly unknown[]).includes(value);

/**
 * Parses a JSON list of integer pairs for a series of `length` points. Returns sorted intervals, with overlapping and touching ones merged
 * and clipped to the series, as in the reference implementation of the reward. Returns the reason as a string if the syntax is wrong, an
 * interval is empty or starts outside the series, or there are too many.
 */
function parseIntervals(text: string, length: number): Interval[] | string {
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

/** Reads the list leniently (see the head of response.ts); null if nothing can be read. */
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
 * Reads an anomaly-detection response about a series of `length` points.
 *
 * Example: `parseAnswer('<think>spike</think><answer>[[140, 220]]</answer><class>seasonal</class>', 1000)`.
 * @throws DataError when `length` is not a positive integer
 */
export function parseAnswer(response: string, length: number, reading: Reading = 'lenient'): ParsedAnswer {
  checkCount('parseAnswer', 'series length', length);
  const { parts, part, problem: formProblem } = readTagged(response, FORMAT, reading);
  const { answer = null, class: named = null, think = null } = parts;
  const intervals = answer === null ? MISSING : parseIntervals(answer, length);
  const label = readLabel(named);
  const problem =
    formProblem ??
    (typeof intervals === 'string' ? intervals : null) ??
    labelProblem(label) ??
    thinkProblem(think);
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
 * Checks that intervals are half-open integer pairs inside [0, length), sorted and disjoint. @throws
 * DataError naming the interval
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

/** Returns a list from a file as pairs; `checkIntervals` checks their values. @throws DataError */
export function intervalsOf(list: readonly unknown[], at: Place = {}): Interval[] {
  return list.map((pair, k): Interval => {
    if (Array.isArray(pair) && pair.length === 2) return [pair[0], pair[1]];
    throw new DataError(`intervals[${k}]: got ${show(pair)}, expected [start, end], two integers`, at);
  });
}

/** Parses the intervals of --intervals; unlike those of a model, they are not clipped or merged. @throws ConfigError */
function statedIntervals(text: string, length: number): readonly Interval[] {
  const parsed = parseIntervals(text, length);
  if (typeof parsed === 'string') throw new ConfigError(`--intervals: ${parsed}`);
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
      `--intervals: [${given[second - 1]!.join(', ')}] and [${given[second]!.join(', ')}] overlap; merge them into one`,
    );
  }
  return parsed;
}

/** Class that a classical detector assigns to every anomaly. */
const DETECTOR_CLASSES: Readonly<Record<string, AnomalyClass>> = {
  zscore: 'global point',
  'clipped-zscore': 'global point',
  iqr: 'global point',
  gradient: 'trend',
  'sliding-period': 'seasonal',
  discord: 'contextual point',
  discords: 'contextual point',
};

/**
 * Classical detectors of one channel. They locate anomalies without classifying them, so each always answers the class that it is designed
 * for (AnomSeer's assignment of analyses to classes), or `normal` without a finding. `expcot-blind`, the blind expert, derives the class
 * from its evidence.
 *
 *  zscore, clipped-zscore, iqr   extreme values              global point
 *  gradient                      a steep stretch             trend
 *  sliding-period                another dominant period     seasonal
 *  discord, discords             a shape unlike any other    contextual point
 */
const detectors: ReadonlyMap<string, (values: Float64Array) => AnomalyGold> = new Map([
  ...Object.entries(DETECTORS).map(([name, detector]): [string, (values: Float64Array) => AnomalyGold] => {
    const label = DETECTOR_CLASSES[name];
    if (label === undefined) throw new DataError(`detector ${name}: has no class in DETECTOR_CLASSES`);
    return [
      name,
      (values) => {
        const { intervals } = detector(values);
        return { kind: 'anomaly', intervals, class: intervals.length === 0 ? 'normal' : label };
      },
    ];
  }),
  [
    EXPCOT_BLIND,
    (values) => {
      const { intervals, class: label } = expcotBlind(values);
      return { kind: 'anomaly', intervals, class: label };
    },
  ],
]);

const METRICS: Metrics = {
  format: FORMAT_METRIC,
  unparsable: unreadable('intervals or class'),
  class_accuracy: CLASS_ACCURACY,
  point_precision: {
    label: 'Point precision',
    definition: 'Share of the predicted points that are anomalous.',
  },
  point_recall: { label: 'Point recall', definition: 'Share of the anomalous points that are predicted.' },
  point_f1: {
    label: 'Point F1',
    definition:
      'Harmonic mean of point precision and recall, per series; 1 if gold and prediction are both empty, 0 if only one is.',
  },
  affiliation_precision: {
    label: 'Affiliation precision',
    definition: 'Closeness of predictions to the true intervals, relative to a random position.',
  },
  affiliation_recall: {
    label: 'Affiliation recall',
    definition: 'Closeness of the true intervals to predictions, relative to a random position.',
  },
  affiliation_f1: {
    label: 'Affiliation F1',
    definition:
      'Harmonic mean of affiliation precision and recall (Huet et al. 2022), per series; empty answers as for point F1.',
  },
  reward: reward('0.7 · mean of six localisation metrics + 0.2 · class + 0.1 · format.'),
};
const MAIN = ['class_accuracy', 'point_f1', 'affiliation_f1'] as const;

const DETAILS: Metrics = {
  success_rate: SUCCESS_RATE,
  range_precision: {
    label: 'Range-based precision',
    definition:
      'Mean over the predicted intervals of their anomalous share, divided by the number of anomalies that they overlap.',
  },
  range_recall: {
    label: 'Range-based recall',
    definition:
      'Mean over the anomalies of 0.2 if any point is predicted, plus 0.8 · their predicted share / number of overlapping predictions.',
  },
  range_f1: {
    label: 'Range-based F1',
    definition:
      'Harmonic mean of range-based precision and recall (Tatbul et al. 2018), with the options of TSB-AD.',
  },
  event_recall: {
    label: 'Event recall',
    definition: 'Share of the anomalies that a predicted interval touches.',
  },
  event_f1: {
    label: 'Event F1',
    definition: 'Harmonic mean of event recall and point precision, as in TSB-AD.',
  },
  vus_precision: {
    label: 'VUS precision',
    definition:
      'Point precision with partial credit for near misses, averaged over buffers of up to 50 points (VUS).',
  },
  vus_recall: {
    label: 'VUS recall',
    definition:
      'Point recall with partial credit for near misses, averaged over buffers of up to 50 points (VUS).',
  },
  vus_f1: {
    label: 'VUS F1',
    definition:
      'Harmonic mean of VUS precision and recall, averaged over the buffers (Paparrizos et al. 2022; VUS-F of TSB-AD).',
  },
  pa_f1: {
    label: 'Adjusted F1 (inflated)',
    definition:
      'Point F1 after point adjustment: one predicted point counts as finding the whole anomaly. Inflated; only for comparison with papers that report it.',
  },
  auc_pr: {
    label: 'AUC-PR',
    definition: 'Average precision of point scores, over anomalous series with scores.',
  },
  auc_roc: {
    label: 'AUC-ROC',
    definition: 'Area under the receiver operating characteristic of point scores.',
  },
  vus_pr: {
    label: 'VUS-PR',
    definition: 'Volume under the precision-recall surface of point scores, as in TSB-AD.',
  },
  vus_roc: {
    label: 'VUS-ROC',
    definition: 'Volume under the receiver operating surface of point scores, as in TSB-AD.',
  },
};

/** Minimum point F1 for an example to count as solved. */
const SOLVED = 0.5;

const evaluation: Evaluation<AnomalyGold> = {
  metrics: METRICS,
  details: { ...DETAILS, ...REASONING_METRICS },
  groupMetrics: pick(METRICS, ...MAIN),
  main: MAIN,
  summary: MAIN,
  columns: [
    ['class_accuracy', 'class'],
    ['point_f1', 'point F1'],
    ['affiliation_f1', 'affil. F1'],
  ],
  rows: [
    { metric: 'class_accuracy' },
    { metric: 'point_f1' },
    { metric: 'point_f1', anomalous: true },
    { metric: 'point_precision' },
    { metric: 'point_recall' },
    { metric: 'affiliation_f1' },
    { metric: 'affiliation_f1', anomalous: true },
    { metric: 'affiliation_precision' },
    { metric: 'affiliation_recall' },
    ...['range_f1', 'event_f1', 'vus_f1', 'pa_f1'].map((metric) => ({ metric })),
  ],
  classColumns: null,
  reads: (answer, gold) => answer.intervals !== null && (gold.class === null || answer.class !== null),
  values(answer, gold, length) {
    const scores = localisationOf(answer.intervals, gold.intervals, length);
    return {
      ...(gold.class === null ? {} : { class_accuracy: share(answer.class === gold.class) }),
      point_precision: scores.precision,
      point_recall: scores.recall,
      point_f1: scores.f1,
      affiliation_precision: scores.affiliationPrecision,
      affiliation_recall: scores.affiliationRecall,
      affiliation_f1: scores.affiliationF1,
    };
  },
  detailValues(answer, gold, length) {
    const [range, event] = [rangeBased, eventBased].map((of) => of(answer.intervals, gold.intervals, length));
    const vus = intervalVus(answer.intervals, gold.intervals, length);
    return {
      range_precision: range!.precision,
      range_recall: range!.recall,
      range_f1: range!.f1,
      event_recall: event!.recall,
      event_f1: event!.f1,
      vus_precision: vus.precision,
      vus_recall: vus.recall,
      vus_f1: vus.f1,
      pa_f1: pointAdjusted(answer.intervals, gold.intervals, length).f1,
    };
  },
  solves: (answer, gold) =>
    answer.intervals !== null &&
    (gold.class === null || answer.class === gold.class) &&
    pointF1Of(answer.intervals, gold.intervals) >= SOLVED,
  anomalous: (gold) => gold.intervals.length > 0,
  right: (answer, gold) => (answer.class === null ? null : answer.class === gold.class),
  answerParts: ['intervals', 'class'],
  said: (gold) => ({ intervals: gold?.intervals ?? null, class: gold?.class ?? null }),
  detectors,
  detector: 'detector',

  subject: 'anomalies',
  groups: { title: 'By anomaly type', head: 'Gold class' },
  headline({ overall, anomalous }) {
    const n = `${grouped(overall.reward.n)} held-out series`;
    const { class_accuracy: accuracy, point_f1: f1, affiliation_f1: affiliation } = overall;
    const alone = anomalous?.['point_f1'];
    const anomalousF1 = alone === undefined ? '' : `, ${fixed(alone.mean)} on the anomalous series alone`;
    const parts: string[] = [];
    if (f1 !== undefined) {
      parts.push(
        accuracy?.n === overall.reward.n
          ? `names the class of ${percent(accuracy.mean)} of ${n} correctly and marks their anomalous points with F1 ${withInterval(f1)}${anomalousF1}`
          : `marks the anomalous points of ${n} with F1 ${withInterval(f1)}${anomalousF1}`,
      );
    }
    if (affiliation !== undefined) parts.push(`affiliation F1 is ${withInterval(affiliation)}`);
    return parts;
  },
  examples: { each: 'of each class', of: '', one: () => 'of its class' },
  concluded: (answer) => `${formatIntervals(answer.intervals)}, ${answer.class}`,
  comparison(gold, answer, _, mark) {
    const truth = intervalText(gold.intervals);
    const predicted = intervalText(answer.intervals);
    const answered = html`<strong><bdi>${answer.class ?? 'nothing readable'}</bdi></strong>`;
    const named =
      gold.class === null
        ? html`The data have no gold class; the policy says ${answered}.`
        : html`Gold class <strong>${gold.class}</strong>; the policy says ${answered}: ${mark}.`;
    return {
      shown: html`${named} True intervals ${truth}; predicted ${predicted}.`,
      spoken: `True intervals: ${truth}. Predicted intervals: ${predicted}.`,
    };
  },
  caveats: [
    'A normal series without predicted intervals has point F1 1, so also read the rows of the anomalous series.',
    `Reinforcement maximises the reward, of which F1 and class accuracy are parts. ${NO_MEASURE_OF_TEXT}`,
  ],
  imitation: (input) => [
    `The scan in the reasoning is learned from privileged traces, written with access to the true intervals of the training series. On held-out series the policy sees only ${input} and the task prompt.`,
    'Answered intervals are rounded to fixed steps, so point F1 stays below 1 even when every anomaly is found.',
  ],
  detectorCaveats: ({ generated, several }) => [
    generated
      ? 'Thresholds of the classical detectors are fixed. Those of expcot-blind were chosen on these synthetic generators, which favours it here. Detectors that cannot classify always answer the class they are designed for.'
      : `Thresholds of the classical detectors are fixed; those of expcot-blind were chosen on synthetic generators, which may favour it on generated series${several ? '. Detectors that cannot classify always answer the class they are designed for' : ''}.`,
  ],
};

export const anomaly: TaskKind<AnomalyGold> = {
  answers: 'intervals of anomalies',
  column: 'intervals',
  classes: ANOMALY_CLASSES,
  countsPoints: true,
  nanoFigure: 'nano-channels',
  augments: ['jitter', 'flip'],
  localises: true,
  measuresF1: true,

  fields: ['kind', 'class', 'intervals'],
  fieldsFrom({ class: name, intervals }) {
    const normal = Array.isArray(intervals) && intervals.length === 0;
    return { class: name ?? (normal ? 'normal' : null), intervals };
  },
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
        `class: ${show(gold.class)} with ${gold.intervals.length} intervals; "normal" needs none, every other class at least one`,
        at,
      );
    }
  },
  className: (gold) => gold.class,
  label: (gold) => gold.class ?? (gold.intervals.length === 0 ? 'normal' : 'unnamed anomaly'),
  parts(gold, whole) {
    const pairs = gold.intervals.map(([start, end]) => `[${start}, ${end}]`);
    const name = gold.class ?? (whole ? PLACEHOLDER_CLASS : null);
    return `<answer>[${pairs.join(', ')}]</answer>${name === null ? '' : `<class>${name}</class>`}`;
  },
  marks: ({ intervals }) => (intervals.length === 0 ? null : { intervals }),
  state(stated, fromData, length, missing) {
    const given = stated.intervals === undefined ? null : statedIntervals(stated.intervals, length);
    const intervals = given ?? fromData?.intervals ?? missing('--intervals "[[120, 180]]"');
    const label = stated.class ?? fromData?.class ?? (intervals.length === 0 ? 'normal' : null);
    if (label !== null && !isAnomalyClass(label)) {
      throw new ConfigError(`--class ${label}: expected one of ${ANOMALY_CLASSES.join(', ')}`);
    }
    if (label !== null && (label === 'normal') !== (intervals.length === 0)) {
      throw new ConfigError(
        label === 'normal'
          ? `--class normal: contradicts the intervals ${JSON.stringify(intervals)}; leave one of the two out`
          : `--class ${label}: needs intervals; add --intervals "[[120, 180]]"`,
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
      evidence: () => channelRecords(evidence, names),
      blind() {
        const { text, think, intervals, class: label } = blindAnomaly(evidence, names);
        return { text, think, answer: { kind: 'anomaly', class: label, intervals } };
      },
      teacher(gold) {
        const { text, think } = teacherAnomaly(evidence, names, gold.intervals, gold.class);
        return { text, think, answer: gold };
      },
    };
  },
  /**
   * Writes the trace from the generator's facts if there are any. Without a gold class, or with several channels, class and channel come
   * from the full trace.
   */
  nanoTrace({ channels, names, facts, plotted = channels }, { class: named, intervals }, _, options) {
    const [only] = channels;
    if (named !== null && channels.length === 1) {
      const [shown] = plotted as [Float64Array];
      const evidence = shown.some(Number.isNaN) ? analyseWithGaps(shown).evidence : analyse(shown);
      const answer = { intervals, class: named };
      return facts === undefined
        ? nanoTeacher(evidence, answer, options)
        : nanoFactsTeacher(facts, evidence, only!, answer, options);
    }
    const { evidence, class: kind } = teacherAnomaly(
      analyseChannels(channels, names),
      names,
      intervals,
      named,
    );
    return nanoTeacher(evidence, { intervals, class: kind }, options);
  },
  generic: {
    nano: 'scan; step up; shift down; swings faster; inside; sine wave; sine with trend; period; spread; rough',
    full:
      'Observation: The level of the series, its spread, its trend and whether it repeats are looked at first, for the series as a whole.\n' +
      'Reasoning & Validation: Values far from all others, a slope unlike the usual one, a change of the period and a shape unlike any other would each stand out. Each is held against what is usual for the series, and a test that finds nothing speaks for a normal series.\n' +
      'Conclusion: Where tests and picture agree, the stretch is given by its start and its end, and the kind of anomaly by the test that found it.',
  },
  answerOf: (said) => ({
    kind: 'anomaly',
    class: isAnomalyClass(said.class) ? said.class : null,
    intervals: said.intervals ?? [],
  }),
  says: (said) => `${said.class ?? 'unreadable'}, ${intervalText(said.intervals)}`,
  agreement: (answer, gold) => ({
    class: gold.class === null ? null : answer.class === gold.class,
    f1: pointF1Of(answer.intervals, gold.intervals),
  }),
  evaluation,
};
