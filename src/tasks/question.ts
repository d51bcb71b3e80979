/** Questions about series: `<think>…</think><answer>B</answer>`, the letter of an option, or a free answer where there are none. */

import { answersQuestion, question as questionReward } from '../../rewards/question.ts';
import { analyseChannels, channelRecords } from '../expcot/anomaly.ts';
import { ConfigError, DataError } from '../ground/errors.ts';
import { listField, type Place, show, stringField } from '../ground/json-record.ts';
import { grouped, percent } from '../ground/numbers.ts';
import type { ParsedAnswer, QuestionGold } from '../ground/types.ts';
import { html } from '../html/html.ts';
import {
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
import { type Asked, shownSeries, type TaskKind } from './kind.ts';
import { folded, MISSING, RESERVED, readLabel, readTagged, tagFormat, thinkProblem } from './response.ts';

const FORMAT = tagFormat('think', 'answer');

/** Most options of a question: each has a letter. */
export const MOST_OPTIONS = 26;
/** Characters of a question, and of an option or an answer. */
const LONGEST_QUESTION = 20_000;
const LONGEST_OPTION = 2000;
/** Maximum characters of a category name. */
const LONGEST_CATEGORY = 100;

/** A, B, C, … */
export const letterOf = (option: number): string => String.fromCharCode(65 + option);

/** The letter of an option that a text names, by its text or its letter; null where it names none, or two. */
export function optionNamed(text: string, options: readonly string[]): string | null {
  const same = options.flatMap((option, i) => (folded(option) === folded(text) ? [letterOf(i)] : []));
  if (same.length === 1) return same[0]!;
  const [, letter, rest = ''] = /^\s*\(?([A-Za-z])(?:\s*$|[).:](.*)$)/s.exec(text) ?? [];
  if (letter === undefined) return null;
  const place = letter.toUpperCase().charCodeAt(0) - 65;
  const option = options[place];
  if (option === undefined) return null;
  return folded(rest) === '' || folded(rest) === folded(option) ? letterOf(place) : null;
}

/**
 * Reads a response to a question. Strict: the letter of an option, or without options one line of at most 200
 * characters; lenient: also "(b)", "B) text" and the text of one option.
 *
 * Example: `parseQuestion('<think>it rises</think><answer>b</answer>', { options: ['falls', 'rises'] })` →
 * class `B`.
 */
export function parseQuestion(
  response: string,
  { options = [], reading = 'lenient' }: Pick<Partial<Asked>, 'options' | 'reading'> = {},
): ParsedAnswer {
  const { parts, part, problem: formProblem } = readTagged(response, FORMAT, reading);
  const { answer = null, think = null } = parts;
  const letters = options.map((_, i) => letterOf(i));
  const exact = readLabel(answer);
  const fits = exact !== null && (letters.length === 0 || letters.includes(exact));
  const problem =
    formProblem ??
    (answer === null
      ? MISSING
      : fits
        ? null
        : letters.length === 0
          ? 'the answer is blank, too long or more than one line'
          : `the answer is none of the letters A to ${letters.at(-1)}`) ??
    thinkProblem(think);
  const loose = reading === 'strict' || fits ? null : part('answer', -1);
  const read =
    loose === null
      ? null
      : letters.length === 0
        ? readLabel(loose.replace(/\s+/g, ' '))
        : optionNamed(loose, options);
  return {
    think: part('think'),
    intervals: null,
    class: fits ? exact : read,
    wellFormed: problem === null,
    problem,
  };
}

/** The answer in words: "B (it rises)". */
function answerText(said: string | null, { options }: QuestionGold): string {
  if (said === null) return 'unreadable';
  const option = options[said.charCodeAt(0) - 65];
  return option === undefined || said.length > 1 ? said : `${said} (${option})`;
}

const METRICS: Metrics = {
  format: FORMAT_METRIC,
  unparsable: unreadable('answer'),
  answer_accuracy: {
    label: 'Accuracy',
    definition:
      'Share of responses that answer the question: the letter of the right option; without options the same text, or a number within 1 % of the right one.',
    percent: true,
  },
  chance: {
    label: 'Chance',
    definition:
      'Accuracy of guessing one of the options at random: the mean over questions of one divided by their number, 0 without any.',
    percent: true,
  },
  reward: reward('0.9 · accuracy + 0.1 · format.'),
};
const MAIN = ['answer_accuracy', 'chance'] as const;

const evaluation: Evaluation<QuestionGold> = {
  metrics: METRICS,
  details: { success_rate: SUCCESS_RATE, ...REASONING_METRICS },
  groupMetrics: { answer_accuracy: METRICS['answer_accuracy']!, chance: METRICS['chance']! },
  main: MAIN,
  summary: MAIN,
  columns: [
    ['answer_accuracy', 'accuracy'],
    ['chance', 'chance'],
  ],
  rows: MAIN.map((metric) => ({ metric })),
  classColumns: null,
  reads: (answer) => answer.class !== null,
  values: (answer, gold) => ({
    answer_accuracy: share(answersQuestion(answer.class, gold)),
    chance: gold.options.length === 0 ? 0 : 1 / gold.options.length,
  }),
  solves: (answer, gold) => answersQuestion(answer.class, gold),
  anomalous: () => false,
  right: (answer, gold) => (answer.class === null ? null : answersQuestion(answer.class, gold)),
  answerParts: ['class'],
  said: (gold) => ({ intervals: null, class: gold?.answer ?? null }),
  detector: 'classifier',

  subject: 'questions',
  groups: { title: 'By category', head: 'Category' },
  headline({ overall }) {
    const { answer_accuracy: accuracy, chance } = overall;
    if (accuracy === undefined) return [];
    const by = chance === undefined ? '' : `, ${percent(chance.mean)} by guessing`;
    return [
      `answers ${percent(accuracy.mean)} of ${grouped(overall.reward.n)} held-out questions rightly (${withInterval(accuracy)}${by})`,
    ];
  },
  examples: { each: 'of each category', of: '', one: (label) => `of ${label}` },
  concluded: (answer) => answer.answer,
  comparison(gold, answer, _, mark) {
    const right = answerText(gold.answer, gold);
    const answered = answerText(answer.class, gold);
    return {
      shown: html`<bdi>${gold.question}</bdi> Right is <strong><bdi>${right}</bdi></strong>; the policy says <strong><bdi>${answered}</bdi></strong>: ${mark}.`,
      spoken: `Question: ${gold.question} Right answer: ${right}. Answer: ${answered}.`,
    };
  },
  caveats: [
    'Read accuracy beside chance: with two options guessing is right half of the time.',
    `The reward is what reinforcement maximises, and accuracy is nine tenths of it. ${NO_MEASURE_OF_TEXT}`,
  ],
  detectorCaveats: () => ['The baselines read neither question nor series.'],
};

/** Text that a prompt may show. @throws DataError for one that is none, is blank, or is too long */
function checkText(name: string, text: string, most: number, at: Place): void {
  if (text.trim() === '') throw new DataError(`${name}: blank`, at);
  if (text.length > most) {
    throw new DataError(`${name}: ${text.length} characters; expected at most ${most}`, at);
  }
  const token = RESERVED.exec(text)?.[0];
  if (token !== undefined) {
    throw new DataError(
      `${name}: holds ${show(token)}, a tag of the answer or a special token; leave it out`,
      at,
    );
  }
}

/** The letter of the right option, or the free answer; what is neither text nor number is left to the reader of fields. */
function answerFrom(answer: unknown, options: unknown, at: Place): unknown {
  if (typeof answer === 'number' && !Number.isFinite(answer)) {
    throw new DataError(`answer: got ${answer}, expected text or a finite number`, at);
  }
  const text = typeof answer === 'number' ? String(answer) : answer;
  if (typeof text !== 'string' || !Array.isArray(options) || options.length === 0) return text;
  if (!options.every((option) => typeof option === 'string')) return text;
  const letter = optionNamed(text, options);
  if (letter !== null) return letter;
  throw new DataError(`answer: ${show(text)} is none of the options ${show(options)}`, at);
}

const textOrNull = (record: Record<string, unknown>, name: string, at: Place): string | null =>
  record[name] === null ? null : stringField(record, name, at);

export const question: TaskKind<QuestionGold> = {
  answers: 'answers to questions',
  column: 'answers',
  classes: [],
  countsPoints: true,
  countsChannels: true,
  nanoFigure: 'nano-variates',
  readsWords: true,

  fields: ['kind', 'question', 'options', 'answer', 'category'],
  fieldsFrom: ({ question: text, options = [], answer, category = null }, at) => ({
    question: text,
    options,
    answer: answerFrom(answer, options, at),
    category,
  }),
  asks: ({ question: text, options }) => ({ text, options }),
  read(record, at) {
    return {
      kind: 'question',
      question: stringField(record, 'question', at),
      options: listField(record, 'options', at).map((option, i) => {
        if (typeof option === 'string') return option;
        throw new DataError(`options[${i}]: got ${show(option)}, expected text`, at);
      }),
      answer: stringField(record, 'answer', at),
      category: textOrNull(record, 'category', at),
    };
  },
  check({ question: text, options, answer, category }, _, at) {
    checkText('question', text, LONGEST_QUESTION, at);
    if (options.length === 1 || options.length > MOST_OPTIONS) {
      throw new DataError(`options: ${options.length} of them; expected none, or 2 to ${MOST_OPTIONS}`, at);
    }
    for (const [i, option] of options.entries()) checkText(`options[${i}]`, option, LONGEST_OPTION, at);
    const twice = options.findIndex((option, i) =>
      options.some((earlier, j) => j < i && folded(earlier) === folded(option)),
    );
    if (twice >= 0) throw new DataError(`options[${twice}]: ${show(options[twice])} is there twice`, at);
    checkText('answer', answer, LONGEST_OPTION, at);
    const letters = options.map((__, i) => letterOf(i));
    if (options.length > 0 && !letters.includes(answer)) {
      throw new DataError(
        `answer: got ${show(answer)}, expected a letter of the options, A to ${letters.at(-1)}`,
        at,
      );
    }
    if (options.length === 0 && readLabel(answer) === null) {
      throw new DataError('answer: expected one line of at most 200 characters', at);
    }
    if (category !== null) checkText('category', category, LONGEST_CATEGORY, at);
  },
  className: () => null,
  label: (gold) => gold.category ?? 'questions',
  parts: (gold) => `<answer>${gold.answer}</answer>`,
  marks: () => null,

  phrase: 'Answer the question.',
  question: 'Answer the question.',
  hints: {},
  shown(request) {
    const { length, channels, axes, numbers } = request;
    if (channels.length === 1) return shownSeries(request, true);
    const names = channels.join(', ');
    return numbers === undefined
      ? `The plot shows ${channels.length} time series of ${length} points, ${names}; ${axes ?? `the x axis is the index, 0 to ${length - 1}`}.`
      : `The numbers below are ${channels.length} time series of ${length} points, ${names}, one line each, in order; their index runs from 0 to ${length - 1}.`;
  },
  form: (_, { question: asked }) =>
    (asked?.options.length ?? 0) > 0
      ? 'Then give the letter of the right option between <answer> and </answer>, for example <answer>A</answer>.'
      : 'Then give the answer alone, a number or a few words, between <answer> and </answer>.',

  parse: parseQuestion,
  reward: questionReward,

  expert({ channels, names }) {
    const evidence = analyseChannels(channels, names);
    return {
      evidence: () => channelRecords(evidence, names),
      blind() {
        throw new ConfigError('questions are read by no analysis: there is no blind answer to them');
      },
      teacher() {
        throw new ConfigError(
          'the question has no thought, which supervised training and TimerPO learn from; GRPO needs none (timeseer train --set rl.advantage=grpo)',
        );
      },
    };
  },
  nanoTrace() {
    throw new ConfigError(
      'a small policy has no words for questions; begin with the directory of a checkpoint (policy.init)',
    );
  },
  generic: {
    nano: 'question',
    full:
      'Observation: The question is read first, then what the series shows of what it asks about: level, spread, trend, rhythm and what stands out.\n' +
      'Reasoning & Validation: Each possible answer is held against the series, and what contradicts it is looked for.\n' +
      'Conclusion: The answer that nothing contradicts is given.',
  },
  answerOf: (said) => ({
    ...{ kind: 'question', question: '', options: [], category: null },
    answer: said.class ?? '',
  }),
  says: (said) => said.class ?? 'unreadable',
  agreement: (answer, gold) => ({ class: answersQuestion(answer.answer, gold), f1: null }),
  evaluation,
};
