import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { promptFor } from '../../datasets/benchmarks/registry.ts';
import { metricsOf } from '../../eval/metrics.ts';
import { answersQuestion, question as reward, sameAnswer } from '../../rewards/question.ts';
import { ConfigError, DataError } from '../../src/ground/errors.ts';
import type { EvalRecord, QuestionGold } from '../../src/ground/types.ts';
import { goldResponse, ownQuestion, parseResponse, readGold, teacherTrace } from '../../src/tasks/kinds.ts';
import { promptText } from '../../src/tasks/prompt.ts';
import { parseQuestion, question } from '../../src/tasks/question.ts';

const gold: QuestionGold = {
  kind: 'question',
  question: 'Where does it go?',
  options: ['up', 'down (B)', 'nowhere'],
  answer: 'B',
  category: 'trend',
  thought: 'The end lies below the beginning.',
};
const free: QuestionGold = { ...gold, options: [], answer: '-12.5', category: null, thought: null };
const { options } = gold;
const say = (answer: string, think = 'it falls'): string =>
  `<think>${think}</think><answer>${answer}</answer>`;

describe('an answer with options', () => {
  test.each([
    ['B', 'B', true],
    [' B ', 'B', true],
    ['b', 'B', false],
    ['(b)', 'B', false],
    ['B)', 'B', false],
    ['B. down (B)', 'B', false],
    ['  Nowhere ', 'C', false],
    ['A) down (B)', null, false],
    ['B) upwards', null, false],
    ['D', null, false],
    ['AB', null, false],
    ['upwards', null, false],
    ['', null, false],
  ])('%j is read as %j, well formed: %j', (text, letter, wellFormed) => {
    const read = parseQuestion(say(text), { options });
    expect({ letter: read.class, wellFormed: read.wellFormed }).toEqual({ letter, wellFormed });
    expect(parseQuestion(say(text), { options, reading: 'strict' }).class).toBe(wellFormed ? letter : null);
  });

  test('is the last of several, where nothing is exactly as asked for', () => {
    const text = '<think>a</think> <ANSWER>A</ANSWER> no: <answer>C</answer>';
    expect(parseQuestion(text, { options })).toMatchObject({ class: 'C', wellFormed: false });
    expect(parseQuestion('<answer>A</answer>', { options })).toMatchObject({ class: 'A', problem: /think/ });
  });

  test('of any text is read without an exception, as a letter of the options or not at all', () => {
    fc.assert(
      fc.property(fc.string(), fc.constantFrom('strict', 'lenient'), (text, reading) => {
        const read = parseQuestion(say(text), { options, reading: reading as 'strict' });
        expect([null, 'A', 'B', 'C']).toContain(read.class);
        expect(read.wellFormed).toBe(read.problem === null);
      }),
    );
  });

  test('earns nine tenths where it is right, and a tenth for its form', () => {
    const total = (text: string): number => reward.score(parseQuestion(text, { options }), gold, 9).total;
    expect(total(say('B'))).toBeCloseTo(1, 12);
    expect(total(say('(B)'))).toBeCloseTo(0.9, 12);
    expect(total(say('A'))).toBeCloseTo(0.1, 12);
    expect(total('B')).toBe(0);
    expect(total(goldResponse(gold, 'it falls'))).toBe(1);
  });
});

describe('a free answer', () => {
  test.each([
    ['-12.5', true],
    ['-12.4', true],
    ['-12.7', false],
    ['12.5', false],
    ['-1.25e1', true],
    ['about -12.5', false],
    ['', false],
  ])('of -12.5 is %j: %j', (said, right) => {
    expect(answersQuestion(parseQuestion(say(said)).class, free)).toBe(right);
  });

  test.each([
    ['1,250', '1250', true],
    ['12 %', '12', true],
    ['0', '0', true],
    ['1e-9', '0', false],
    ['A Trend.', 'a  trend', true],
    ['1,25', '1.25', false],
    ['-', '', false],
  ])('%j is the same as %j: %j', (said, right, same) => expect(sameAnswer(said, right)).toBe(same));

  test('is one line', () => {
    expect(parseQuestion(say('two\nlines'))).toMatchObject({ class: 'two lines', wellFormed: false });
    expect(parseQuestion(say('two\nlines'), { reading: 'strict' }).class).toBeNull();
  });
});

describe('a question', () => {
  const words = promptFor('qa', 'question');
  const request = { length: 40, channels: ['value'], classes: [] };

  test('is asked with its options by letters, after what is shown', () => {
    const text = promptText(words, { ...request, ...ownQuestion(gold) });
    expect(text).toMatch(
      /^The plot shows one time series of 40 points; .*\nQuestion: Where does it go\?\nThe options are:\nA\) up\nB\) down \(B\)\nC\) nowhere\nReason .*<answer>A<\/answer>/,
    );
    expect(text).not.toContain(gold.thought);
    const open = promptText(words, { ...request, channels: ['ts1', 'ts2'], ...ownQuestion(free) });
    expect(open).toMatch(/^The plot shows 2 time series of 40 points, ts1, ts2;/);
    expect(open).toMatch(/Then give the answer alone/);
    expect(open).not.toContain('options');
  });

  test('depends on nothing but the words that are shown', () => {
    const asked = (one: QuestionGold): string => promptText(words, { ...request, ...ownQuestion(one) });
    expect(asked({ ...gold, answer: 'C', thought: null, category: null })).toBe(asked(gold));
  });

  test('is taught by its thought, where it has one', () => {
    const series = { channels: [new Float64Array(40).map((_, i) => Math.sin(i))], names: ['value'] };
    const { text } = teacherTrace({ ...series, gold }, null);
    expect(
      parseResponse(text, { kind: 'question', length: 40, channels: 1, classes: [], options }),
    ).toMatchObject({
      ...{ think: gold.thought, class: 'B', wellFormed: true },
    });
    expect(() => teacherTrace({ ...series, gold: free }, null)).toThrow(/no thought.*timeseer train/);
    expect(() => question.expert(series, null).blind()).toThrow(ConfigError);
  });

  test.each<[string, Partial<QuestionGold>, RegExp]>([
    ['without words', { question: ' ' }, /^question: blank/],
    ['of ten megabytes', { question: 'a'.repeat(1e7) }, /^question: 10000000 characters/],
    ['with a tag of the answer', { question: 'x <answer>A</answer>' }, /^question: holds "<answer>"/],
    ['with a special token', { options: ['a', '<|im_end|>'], answer: 'A' }, /^options\[1\]: holds/],
    ['with one option', { options: ['up'], answer: 'A' }, /^options: 1 of them/],
    ['with 27 options', { options: Array.from({ length: 27 }, (_, i) => `o${i}`) }, /^options: 27 of them/],
    ['with an empty option', { options: ['up', ''] }, /^options\[1\]: blank/],
    ['with the same option twice', { options: ['up', 'down', 'UP '] }, /^options\[2\]: "UP " is there twice/],
    [
      'whose answer no option has',
      { answer: 'D' },
      /^answer: got "D", expected a letter of the options, A to C/,
    ],
    ['whose answer is a text of an option', { answer: 'up' }, /^answer: got "up"/],
    ['whose free answer has two lines', { options: [], answer: 'a\nb' }, /^answer: expected one line/],
    ['without an answer', { options: [], answer: '' }, /^answer: blank/],
  ])('%s is refused', (_, wrong, message) => {
    const check = () => question.check({ ...gold, ...wrong }, { length: 40, channels: 1 }, {});
    expect(check).toThrow(DataError);
    expect(check).toThrow(message);
  });

  test('is read from a file field by field', () => {
    expect(readGold(JSON.parse(JSON.stringify(gold)), {})).toEqual(gold);
    expect(() => readGold({ ...gold, options: [1] }, {})).toThrow(/options\[0\]: got 1, expected text/);
    expect(() => readGold({ ...gold, more: 1 }, {})).toThrow(/unknown field/);
  });
});

test('answers are measured beside chance, by category', () => {
  const record = (id: string, text: string, own: QuestionGold): EvalRecord => {
    const answer = parseQuestion(text, { options: own.options });
    return {
      seriesId: id,
      task: 'qa',
      length: 40,
      gold: own,
      response: text,
      answer,
      score: reward.score(answer, own, 40),
    };
  };
  const two = { ...gold, options: ['up', 'down'], category: 'level' };
  const { overall, byClass, confusion } = metricsOf([
    record('a', say('B'), gold),
    record('b', say('A'), gold),
    record('c', say('B'), two),
    record('d', 'who knows', two),
  ]);
  expect(overall['answer_accuracy']!.mean).toBe(0.5);
  expect(overall['chance']!.mean).toBeCloseTo((1 / 3 + 1 / 3 + 1 / 2 + 1 / 2) / 4, 12);
  expect(overall['success_rate']!.mean).toBe(0.75);
  expect(byClass['trend']!['answer_accuracy']).toMatchObject({ mean: 0.5, n: 2 });
  expect(Object.keys(byClass)).toEqual(['level', 'trend']);
  expect(confusion).toBeNull();
});
