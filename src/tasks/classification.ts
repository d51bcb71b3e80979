/**
 * Classification (TimeMaster): `<think>…</think><class>…</class>`, then `<extension>…</extension>` where the task asks for one.
 */

import { timemaster } from '../../rewards/timemaster.ts';
import type { ClassProfile } from '../expcot/class-profile.ts';
import { blindClass, ClassEvidence, teacherClass } from '../expcot/class-trace.ts';
import { nanoClassTeacher } from '../expcot/nano.ts';
import { ConfigError, DataError } from '../ground/errors.ts';
import { type Place, show, stringField } from '../ground/json-record.ts';
import { grouped, interval, percent } from '../ground/numbers.ts';
import type { ClassificationGold, ParsedAnswer } from '../ground/types.ts';
import { html } from '../html/html.ts';
import {
  CLASS_ACCURACY,
  type Evaluation,
  FORMAT_METRIC,
  type Metrics,
  NO_MEASURE_OF_TEXT,
  REASONING_METRICS,
  reward,
  SUCCESS_RATE,
  share,
  unreadable,
  withInterval,
} from './evaluation.ts';
import { type Asked, chooseOne, shownSeries, type TaskKind } from './kind.ts';
import {
  labelProblem,
  nameClass,
  RESERVED,
  readLabel,
  readTagged,
  tagFormat,
  thinkProblem,
} from './response.ts';

const FORMAT = tagFormat('think', 'class');
const WITH_EXTENSION = tagFormat('think', 'class', 'extension');

/** Valid class names: one line that a response can carry between tags. */
export const CLASS = /^[^\s<>](?:[^\n\r<>]{0,198}[^\s<>])?$/u;
/** Description of valid class names. */
export const CLASS_RULE = 'one line of 1 to 200 characters without < and >, and without blanks around it';

/** More classes than these are told apart by more features. */
const FEW_CLASSES = 3;

/** @throws DataError unless a response can carry this class between tags */
export function checkClass(name: string, at: Place = {}): void {
  if (CLASS.test(name)) return;
  throw new DataError(`class: got ${show(name)}, expected ${CLASS_RULE}`, at);
}

/** @throws DataError unless there are texts by class, two at least, that a prompt may show */
function readAmong(value: unknown, at: Place): Readonly<Record<string, string>> {
  const texts = typeof value === 'object' && value !== null ? Object.values(value) : [];
  const isText = (text: unknown): boolean =>
    typeof text === 'string' && !/[\n\r]/.test(text) && !RESERVED.test(text);
  if (!Array.isArray(value) && texts.length >= 2 && texts.every(isText))
    return value as Record<string, string>;
  throw new DataError(
    `among: got ${show(value)}, expected descriptions by class: one line each, without tags of the answer and special tokens`,
    at,
  );
}

/** @throws ConfigError where there is none */
function needProfile(profile: ClassProfile | null): ClassProfile {
  if (profile !== null) return profile;
  throw new ConfigError(
    'a trace of a classification needs a profile of classes, learned from the training split',
  );
}

/**
 * Reads a classification response; with an extension part if the task asks for one.
 *
 * Example: `parseClassification('<think>two levels</think><class>laptop</class>', { classes: ['Desktop',
 * 'Laptop'] })`.
 */
export function parseClassification(
  response: string,
  { extension = false, classes = [], reading = 'lenient' }: Partial<Asked> = {},
): ParsedAnswer {
  const format = extension ? WITH_EXTENSION : FORMAT;
  const { parts, part, problem: formProblem } = readTagged(response, format, reading);
  const { class: named = null, think = null } = parts;
  const label = readLabel(named);
  const advice = parts['extension']?.trim() || null;
  const problem =
    formProblem ??
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

const METRICS: Metrics = {
  format: FORMAT_METRIC,
  unparsable: unreadable('class'),
  class_accuracy: CLASS_ACCURACY,
  balanced_accuracy: {
    label: 'Balanced accuracy',
    definition:
      'Mean over the gold classes of their recall: every class counts the same, however rare it is.',
  },
  macro_f1: {
    label: 'Macro F1',
    definition:
      'Mean over the gold classes of their F1; an unreadable or unknown class is an answer for none of them.',
  },
  weighted_f1: {
    label: 'Weighted F1',
    definition: 'Mean over the gold classes of their F1, weighed by how many series have the class.',
  },
  reward: reward('0.9 · class + 0.1 · format; where an extension is judged, + 0.5 · its score.'),
};
const MAIN = ['class_accuracy', 'balanced_accuracy', 'macro_f1'] as const;

const evaluation: Evaluation<ClassificationGold> = {
  metrics: METRICS,
  details: {
    success_rate: SUCCESS_RATE,
    ...REASONING_METRICS,
    extension: {
      label: 'Extension',
      definition:
        'Mean score of the advice after the answer, by the judge that the records name: specificity, appropriateness, relevance and depth, at most 0.4 where it is generic; 0 where the answer is wrong or ill-formed. Missing scores are left out.',
    },
  },
  groupMetrics: {
    class_recall: {
      label: 'Recall',
      definition: 'Share of the series of this class that are answered with it.',
    },
    class_precision: {
      label: 'Precision',
      definition: 'Share of the answers with this class that are right; 0 where it is never answered.',
    },
    class_f1: { label: 'F1', definition: 'Harmonic mean of precision and recall of this class.' },
  },
  main: MAIN,
  summary: MAIN,
  columns: [
    ['class_accuracy', 'accuracy'],
    ['balanced_accuracy', 'balanced acc.'],
    ['macro_f1', 'macro F1'],
  ],
  classColumns: [
    ['class_recall', 'recall'],
    ['class_precision', 'precision'],
    ['class_f1', 'F1'],
  ],
  rows: [...MAIN, 'weighted_f1', 'extension'].map((metric) => ({ metric })),
  reads: (answer) => answer.class !== null,
  values: (answer, gold) => ({ class_accuracy: share(answer.class === gold.class) }),
  solves: (answer, gold) => answer.class === gold.class,
  anomalous: () => false,
  right: (answer, gold) => (answer.class === null ? null : answer.class === gold.class),
  answerParts: ['class', 'extension'],
  said: (gold) => ({ intervals: null, class: gold?.class ?? null }),
  detector: 'classifier',

  subject: 'classes',
  groups: { title: 'By class', head: 'Gold class' },
  headline({ overall }) {
    const n = `${grouped(overall.reward.n)} held-out series`;
    const { class_accuracy: accuracy, balanced_accuracy: balanced, macro_f1: f1 } = overall;
    const parts: string[] = [];
    if (accuracy !== undefined) {
      parts.push(
        `names the class of ${percent(accuracy.mean)} ${interval(accuracy, (value) => (100 * value).toFixed(1))} of ${n} correctly`,
      );
    }
    if (balanced !== undefined && f1 !== undefined) {
      parts.push(`balanced accuracy is ${withInterval(balanced)}, macro F1 ${withInterval(f1)}`);
    }
    return parts;
  },
  examples: { each: 'of each class', of: '', one: () => 'of its class' },
  concluded: (answer) => answer.class,
  comparison: (gold, answer, _, mark) => ({
    shown: html`Gold class <strong><bdi>${gold.class}</bdi></strong>; the policy says <strong><bdi>${answer.class ?? 'nothing readable'}</bdi></strong>: ${mark}.`,
    spoken: `Gold class: ${gold.class}.`,
  }),
  caveats: [
    'Where classes are not equally frequent, accuracy flatters whoever names the frequent ones: read balanced accuracy, macro F1 and the classifier `majority` beside it.',
    'Resamples that lack a rare class average over the others: where a class has few held-out series, the intervals of balanced accuracy and macro F1 are wide.',
    `The reward is what reinforcement maximises, and class accuracy is nine tenths of it. ${NO_MEASURE_OF_TEXT}`,
  ],
  detectorCaveats({ learned }) {
    const from =
      learned === undefined || learned.used === learned.examples
        ? 'all examples of the training split'
        : `${learned.used} of the ${learned.examples} examples of the training split, drawn at random`;
    return [`Classical classifiers learned from ${from}; none was tuned.`];
  },
};

export const classification: TaskKind<ClassificationGold> = {
  answers: 'classes',
  column: 'classes',
  classes: 'data',
  learnsClasses: true,
  nanoFigure: 'nano-channels',
  augments: ['jitter', 'scale', 'warp', 'crop', 'flip'],

  fields: ['kind', 'class'],
  optional: ['among'],
  read(record, at) {
    const named = { kind: 'classification', class: stringField(record, 'class', at) } as const;
    return record['among'] === undefined ? named : { ...named, among: readAmong(record['among'], at) };
  },
  among: ({ among }) => among,
  check({ class: name, among }, _, at) {
    for (const known of Object.keys(among ?? {})) checkClass(known, at);
    checkClass(name, at);
    if (among !== undefined && !Object.hasOwn(among, name))
      throw new DataError(
        `class: got ${show(name)}, expected one of among: ${Object.keys(among).join(', ')}`,
        at,
      );
  },
  className: (gold) => gold.class,
  label: (gold) => gold.class,
  parts: (gold) => `<class>${gold.class}</class>`,
  marks: () => null,
  state: (stated, found, _, missing) => ({
    kind: 'classification',
    class: stated.class ?? found?.class ?? missing('--class'),
  }),

  phrase: 'Name the class.',
  question: 'Decide which class it belongs to.',
  hints: {},
  shown: (request) => shownSeries(request, false),
  form(prompt, { classes, extension }) {
    const more = extension
      ? ` Finally, between <extension> and </extension>, ${prompt.advice}. Be specific to what this series shows.`
      : '';
    return `${chooseOne(classes)}${more}`;
  },

  parse: parseClassification,
  reward: timemaster,

  expert({ channels }, profile) {
    const evidence = new ClassEvidence(needProfile(profile), channels);
    return {
      evidence: () => evidence,
      blind() {
        const { text, think, class: label } = blindClass(evidence);
        return { text, think, answer: { kind: 'classification', class: label } };
      },
      teacher(gold) {
        const { text, think } = teacherClass(evidence, gold.class);
        return { text, think, answer: gold };
      },
    };
  },
  nanoTrace({ channels }, gold, profile, options) {
    const known = needProfile(profile);
    const features = known.classes.length <= FEW_CLASSES ? 3 : 6;
    return nanoClassTeacher(new ClassEvidence(known, channels), gold.class, { ...options, features });
  },
  generic: {
    nano: 'activity; scan .o#; very low, low, typical, high, very high',
    full:
      'Observation: The level of the series, its spread, its rhythm and how restless it is are looked at first, for each channel.\n' +
      'Reasoning & Validation: Each feature is held against what is usual for the classes. A feature that lies near one class and far from the others speaks for it; one that lies between them says little.\n' +
      'Conclusion: The class for which most features speak is named.',
  },
  answerOf: (said) => ({ kind: 'classification', class: said.class ?? '' }),
  says: (said) => said.class ?? 'unreadable',
  agreement: (answer, gold) => ({ class: answer.class === gold.class, f1: null }),
  evaluation,
};
