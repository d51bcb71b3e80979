/** Anomalous variates (VisualTimeAnomaly): `<think>…</think><answer>[id, …]</answer>`. */

import { variateMetrics, variates as variatesReward } from '../../rewards/variates.ts';
import { nanoVariatesTeacher } from '../expcot/nano.ts';
import { analyseVariates, blindVariates, teacherVariates } from '../expcot/variates.ts';
import { DataError } from '../ground/errors.ts';
import { listField, show } from '../ground/json-record.ts';
import { grouped, percent } from '../ground/numbers.ts';
import type { ParsedAnswer, VariatesGold } from '../ground/types.ts';
import { html } from '../html/html.ts';
import {
  type Evaluation,
  FORMAT_METRIC,
  type Metrics,
  NO_MEASURE_OF_TEXT,
  REASONING_METRICS,
  reward,
  SUCCESS_RATE,
  unreadable,
  withInterval,
} from './evaluation.ts';
import type { TaskKind } from './kind.ts';
import {
  checkCount,
  INTEGER,
  JSON_NUMBER,
  MISSING,
  type Reading,
  readList,
  readTagged,
  tagFormat,
  thinkProblem,
} from './response.ts';

const FORMAT = tagFormat('think', 'answer');
const NUMBER = new RegExp(`${INTEGER}(?!\\d)`, 'y');
const LOOSE_NUMBER = new RegExp(JSON_NUMBER, 'y');

const IDS = {
  list: 'numbers of variates',
  itemName: 'the number of a variate, an integer,',
  itemsName: 'variates',
} as const;

/**
 * Parses a JSON list of variate ids, 0 to `channels` − 1, as a set: ascending, without repetition. Returns
 * the reason if it is no such list, an id does not exist, or there are more than `channels` entries (a loop
 * of one number is no answer).
 */
function parseIds(text: string, channels: number): number[] | string {
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

/** Reads the list leniently: unknown ids are left out; null where nothing can be read. */
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

/**
 * Reads a response that names the anomalous ones of `channels` variates.
 *
 * Example: `parseVariates('<think>two are square waves</think><answer>[7, 2]</answer>', 9)` → variates [2,
 * 7].
 * @throws DataError when `channels` is not a positive integer
 */
export function parseVariates(
  response: string,
  channels: number,
  reading: Reading = 'lenient',
): ParsedAnswer {
  checkCount('parseVariates', 'number of channels', channels);
  const { parts, part, problem: formProblem } = readTagged(response, FORMAT, reading);
  const { answer = null, think = null } = parts;
  const variates = answer === null ? MISSING : parseIds(answer, channels);
  const problem = formProblem ?? (typeof variates === 'string' ? variates : null) ?? thinkProblem(think);
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

/** Numbers of variates with their names, where they have any of their own. */
function variateText(ids: readonly number[] | null, names: readonly string[] = []): string {
  if (ids === null) return 'unreadable';
  if (ids.length === 0) return 'none';
  return ids
    .map((id) => (names[id] === undefined || names[id] === String(id) ? id : `${id} (${names[id]})`))
    .join(', ');
}

const OWN_METRICS: Metrics = {
  variate_precision: {
    label: 'Variate precision',
    definition: 'Share of the variates named that are anomalous.',
  },
  variate_recall: {
    label: 'Variate recall',
    definition: 'Share of the anomalous variates that are named.',
  },
  variate_f1: {
    label: 'Variate F1',
    definition:
      'Harmonic mean of the two, per series; 1 when nothing is named where nothing is anomalous, 0 when only one of the two is empty.',
  },
  variate_exact: {
    label: 'Exact set of variates',
    definition: 'Share of responses that name exactly the anomalous variates.',
    percent: true,
  },
};

const evaluation: Evaluation<VariatesGold> = {
  metrics: {
    format: FORMAT_METRIC,
    unparsable: unreadable('list of variates'),
    ...OWN_METRICS,
    reward: reward('0.9 · F1 of the variates + 0.1 · format.'),
  },
  details: { success_rate: SUCCESS_RATE, ...REASONING_METRICS },
  groupMetrics: OWN_METRICS,
  main: ['variate_f1', 'variate_exact'],
  summary: Object.keys(OWN_METRICS),
  columns: [
    ['variate_precision', 'precision'],
    ['variate_recall', 'recall'],
    ['variate_f1', 'F1'],
    ['variate_exact', 'exact set'],
  ],
  classColumns: null,
  rows: Object.keys(OWN_METRICS).map((metric) => ({ metric })),
  reads: ({ variates: named = null }) => named !== null,
  values(answer, gold) {
    const scores = variateMetrics(answer.variates ?? null, gold.variates);
    return {
      variate_precision: scores.precision,
      variate_recall: scores.recall,
      variate_f1: scores.f1,
      variate_exact: scores.exact,
    };
  },
  solves: (answer, gold) => String(answer.variates ?? null) === String(gold.variates),
  anomalous: (gold) => gold.variates.length > 0,
  right: (answer, gold) =>
    (answer.variates ?? null) === null ? null : String(answer.variates) === String(gold.variates),
  answerParts: ['variates'],
  said: (gold) => ({ intervals: null, class: null, variates: gold?.variates ?? null }),
  detector: 'detector',

  subject: 'anomalous variates',
  groups: { title: 'By number of anomalous variates', head: 'Variates' },
  headline({ overall }) {
    const { variate_f1: f1, variate_exact: exact } = overall;
    const n = `${grouped(overall.reward.n)} held-out series`;
    const parts: string[] = [];
    if (exact !== undefined)
      parts.push(`names exactly the anomalous variates of ${percent(exact.mean)} of ${n}`);
    if (f1 !== undefined) parts.push(`the F1 of the variates named is ${withInterval(f1)}`);
    return parts;
  },
  examples: {
    each: 'with as many anomalous variates',
    of: 'for each number that occurs, ',
    one: (label) => `with ${label}`,
  },
  concluded: (answer) => (answer.variates.length === 0 ? 'none' : answer.variates.join(', ')),
  comparison(gold, answer, names, mark) {
    const truth = variateText(gold.variates, names);
    const predicted = variateText(answer.variates ?? null, names);
    return {
      shown: html`Anomalous variates <strong>${truth}</strong>; the policy names <strong>${predicted}</strong>: ${mark}.`,
      spoken: `Anomalous variates: ${truth}. Named: ${predicted}.`,
    };
  },
  caveats: [
    `The reward is what reinforcement maximises, and F1 of the variates is nine tenths of it. ${NO_MEASURE_OF_TEXT}`,
  ],
  detectorCaveats: () => ['Its thresholds are fixed.'],
};

export const variates: TaskKind<VariatesGold> = {
  answers: 'numbers of variates',
  column: 'which variates',
  classes: [],
  countsPoints: true,
  countsChannels: true,
  nanoFigure: 'nano-variates',
  augments: ['jitter', 'warp', 'crop', 'flip'],
  measuresF1: true,

  fields: ['kind', 'variates'],
  read: (record, at) => ({ kind: 'variates', variates: listField(record, 'variates', at) as number[] }),
  check(gold, { channels }, at) {
    let last = -1;
    for (const [k, id] of gold.variates.entries()) {
      if (!Number.isInteger(id) || id <= last || id >= channels) {
        throw new DataError(
          `variates[${k}]: got ${show(id)}, expected ascending integers below the ${channels} channels`,
          at,
        );
      }
      last = id;
    }
  },
  className: () => null,
  label: (gold) => `${gold.variates.length} anomalous`,
  parts: (gold) => `<answer>[${gold.variates.join(', ')}]</answer>`,
  marks: (gold, length) =>
    gold.variates.length === 0 ? null : { intervals: [[0, length]], channels: gold.variates },

  phrase: 'Find the odd variates.',
  question: 'Find the variates that behave unlike the others.',
  hints: {},
  /** Variates are told by number in a grid; channels by name. */
  shown({ length, channels, numbers }) {
    const count = channels.length;
    const ids = `numbered 0 to ${count - 1}`;
    return numbers === undefined
      ? `The picture shows ${count} variates of one time series of ${length} points in a grid of small plots, ${ids} row by row from the upper left.`
      : `The numbers below are ${count} variates of one time series of ${length} points, one line each, ${ids}.`;
  },
  form: () =>
    'Then give the numbers of the variates as a list between <answer> and </answer>, for example <answer>[2, 7]</answer>.',

  parse: (response, { channels, reading }) => parseVariates(response, channels, reading),
  reward: variatesReward,

  expert({ channels }) {
    const evidence = analyseVariates(channels);
    return {
      evidence: () => evidence,
      blind() {
        const { text, think, variates: ids } = blindVariates(evidence);
        return { text, think, answer: { kind: 'variates', variates: ids } };
      },
      teacher(gold) {
        const { text, think } = teacherVariates(evidence, gold.variates);
        return { text, think, answer: gold };
      },
    };
  },
  nanoTrace: ({ channels }, gold) => nanoVariatesTeacher(analyseVariates(channels), gold.variates),
  generic: {
    nano: 'variates; scan .x',
    full:
      'Observation: The variates are looked at one after the other, and what most of them have in common is noted: level, spread, trend and rhythm.\n' +
      'Reasoning & Validation: Each variate is held against the others. One that departs from what they share, in shape or in size, stands out; one that differs as much as they do among themselves does not.\n' +
      'Conclusion: The variates that stand out are named by their numbers.',
  },
  answerOf: (said) => ({ kind: 'variates', variates: said.variates ?? [] }),
  says(said, names) {
    const ids = said.variates ?? null;
    return `${ids?.length === 1 ? 'variate' : 'variates'} ${variateText(ids, names)}`;
  },
  agreement: (answer, gold) => ({ class: null, f1: variateMetrics(answer.variates, gold.variates).f1 }),
  evaluation,
};
