/** What malformed completions earn, read leniently (as the papers' releases read them, the default) and strictly. */

import { describe, expect, test } from 'vitest';
import type { Gold } from '../../src/ground/types.ts';
import type { Asked } from '../../src/tasks/kind.ts';
import { parseResponse, scoreAnswer } from '../../src/tasks/kinds.ts';
import { MAX_RESPONSE_LENGTH, READINGS, type Reading } from '../../src/tasks/response.ts';

interface Question {
  readonly gold: Gold;
  readonly asked: Asked;
}

type Row = readonly [what: string, response: string, lenient: number, strict: number];

/** Rewards of a response in both readings, and what its format earns, which is the same in both. */
function rewards(response: string, { gold, asked }: Question): Record<Reading | 'format', number> {
  const of = (reading: Reading) =>
    scoreAnswer(parseResponse(response, { ...asked, reading }), gold, asked.length);
  const [lenient, strict] = READINGS.map(of);
  expect(lenient!.parts['format']).toBe(strict!.parts['format']);
  // Lenient is the default.
  expect(scoreAnswer(parseResponse(response, asked), gold, asked.length)).toEqual(lenient);
  return { lenient: lenient!.total, strict: strict!.total, format: strict!.parts['format']! };
}

describe('a completion about anomalies, of which [100, 150) of 1000 points is seasonal', () => {
  const question: Question = {
    gold: { kind: 'anomaly', class: 'seasonal', intervals: [[100, 150]] },
    asked: { kind: 'anomaly', length: 1000, channels: 1, classes: [] },
  };
  const say = (list: string, label = 'seasonal', think = 'waves') =>
    `<think>${think}</think><answer>${list}</answer><class>${label}</class>`;
  const right = say('[[100, 150]]');
  const LOCATED = 0.7;
  const NAMED = 0.2;
  const FORMAT = 0.1;

  test.each<Row>([
    ['nothing wrong', right, 1, 1],
    ['another case of the class', say('[[100, 150]]', 'Seasonal'), 1, LOCATED + FORMAT],
    ['white space around the class', say('[[100, 150]]', '\n SEASONAL\t'), 1, LOCATED + FORMAT],
    ['another class', say('[[100, 150]]', 'seasonal trend'), LOCATED + FORMAT, LOCATED + FORMAT],
    ['numbers with a fraction of nothing', say('[[100.0, 150.0]]'), LOCATED + NAMED, NAMED],
    ['numbers with an exponent', say('[[1e2, 1.5e2]]'), LOCATED + NAMED, NAMED],
    ['fractions, which are cut off', say('[[100.7, 150.2]]'), LOCATED + NAMED, NAMED],
    ['a reversed interval beside the right one', say('[[100, 150], [400, 300]]'), LOCATED + NAMED, NAMED],
    ['an empty interval beside it', say('[[100, 150], [7, 7]]'), LOCATED + NAMED, NAMED],
    ['one past the end beside it', say('[[100, 150], [1000, 1200]]'), LOCATED + NAMED, NAMED],
    ['one before the beginning beside it', say('[[-20, -5], [100, 150]]'), LOCATED + NAMED, NAMED],
    ['a number without end beside it', say('[[100, 150], [200, 1e999]]'), LOCATED + NAMED, NAMED],
    ['a reversed interval alone', say('[[150, 100]]'), NAMED, NAMED],
    ['an interval past the end alone', say('[[1500, 1600]]'), NAMED, NAMED],
    ['text before the parts', `Sure! ${right}`, LOCATED + NAMED, LOCATED + NAMED],
    ['text after the parts', `${right} Done.`, LOCATED + NAMED, LOCATED + NAMED],
    ['no reasoning', right.replace(/<think>.*<\/think>/, ''), LOCATED + NAMED, LOCATED + NAMED],
    ['no class', right.replace(/<class>.*/, ''), LOCATED, LOCATED],
    ['tags in another case', right.replaceAll('answer', 'Answer'), LOCATED + NAMED, NAMED],
    ['two answers, of which the last counts', `<answer>[[3, 9]]</answer>${right}`, LOCATED + NAMED, NAMED],
    ['two answers, the right one first', `${right}<answer>[]</answer>`, NAMED, NAMED],
    ['two classes, of which the first counts', `${right}<class>trend</class>`, LOCATED + NAMED, LOCATED],
    ['an answer in the reasoning too', say('[[100, 150]]', 'seasonal', 'so <answer>[]</answer>'), 0.9, NAMED],
    ['a cut-off answer', '<think>waves</think><answer>[[100, 1', 0, 0],
    ['a single pair', say('[100, 150]'), NAMED, NAMED],
    ['a triple', say('[[100, 150, 1]]'), NAMED, NAMED],
    ['strings', say('[["100", "150"]]'), NAMED, NAMED],
    ['tuples', say('[(100, 150)]'), NAMED, NAMED],
    ['NaN', say('[[NaN, 150]]'), NAMED, NAMED],
    ['a leading zero', say('[[0100, 150]]'), NAMED, NAMED],
    ['text in the answer', say('It is [[100, 150]]'), NAMED, NAMED],
    ['code', say('[[100, 150]] if __import__("os") else 1'), NAMED, NAMED],
    ['more than any answer has', say('x'.repeat(MAX_RESPONSE_LENGTH)), 0, 0],
    ['nothing', '', 0, 0],
  ])('with %s', (_, response, lenient, strict) => {
    const earned = rewards(response, question);
    expect([earned.lenient, earned.strict]).toEqual([
      expect.closeTo(lenient, 12),
      expect.closeTo(strict, 12),
    ]);
  });

  test('keeps what of an interval lies in the series', () => {
    const read = (list: string) => parseResponse(say(list), question.asked).intervals;
    expect(read('[[950.0, 1200.0]]')).toEqual([[950, 1000]]);
    expect(read('[[-5, 20], [990.9, 2e300]]')).toEqual([
      [0, 20],
      [990, 1000],
    ]);
    expect(read('[[30, 40.0], [35, 50], [60, 10]]')).toEqual([[30, 50]]);
    expect(parseResponse(say('[[950, 1200]]'), { ...question.asked, reading: 'strict' }).intervals).toEqual([
      [950, 1000],
    ]);
  });

  test('takes the short names of the points, as the release does', () => {
    const named = (label: string, reading: Reading) =>
      parseResponse(say('[]', label), { ...question.asked, reading }).class;
    expect(named('Contextual', 'lenient')).toBe('contextual point');
    expect(named('global', 'lenient')).toBe('global point');
    expect(named('contextual\n  point', 'lenient')).toBe('contextual point');
    expect(named('global', 'strict')).toBe('global');
    expect(named('constructor', 'lenient')).toBe('constructor');
  });
});

test('a list of impossible intervals does not pass for "nothing is anomalous" on a normal series', () => {
  const normal: Question = {
    gold: { kind: 'anomaly', class: 'normal', intervals: [] },
    asked: { kind: 'anomaly', length: 1000, channels: 1, classes: [] },
  };
  const say = (list: string) => `<think>flat</think><answer>${list}</answer><class>Normal</class>`;
  expect(rewards(say('[]'), normal).lenient).toBe(1);
  for (const list of ['[[5, 5]]', '[[9, 3]]', '[[1000, 1200]]', '[[-9, -3], [7, 2]]']) {
    expect(rewards(say(list), normal).lenient).toBeCloseTo(0.2, 12);
  }
});

describe('a completion that names the class Desktop', () => {
  const question: Question = {
    gold: { kind: 'classification', class: 'Desktop' },
    asked: { kind: 'classification', length: 720, channels: 1, classes: ['Desktop', 'Laptop'] },
  };
  const say = (label: string) => `<think>steady</think><class>${label}</class>`;

  test.each<Row>([
    ['as it is written', say('Desktop'), 1, 1],
    ['in another case', say('desktop'), 1, 0.1],
    ['in white space and capitals', say('\n DESKTOP \n'), 1, 0.1],
    ['with more words', say('Desktop computer'), 0.1, 0.1],
    ['after an introduction', `Let me see. ${say('desktop')}`, 0.9, 0],
    ['without reasoning, which the release would call well formed', '<class>Desktop</class>', 0.9, 0.9],
    ['before an extension that was not asked for', `${say('Desktop')}<extension>e</extension>`, 0.9, 0.9],
    ['first of two', say('Desktop</class><class>Laptop'), 0.9, 0],
    ['second of two', say('Laptop</class><class>Desktop'), 0, 0],
    ['in capital tags', say('Desktop').toUpperCase(), 0.9, 0],
    ['but never ends', '<think>steady</think><class>Desktop', 0, 0],
  ])('%s', (_, response, lenient, strict) => {
    const earned = rewards(response, question);
    expect([earned.lenient, earned.strict]).toEqual([
      expect.closeTo(lenient, 12),
      expect.closeTo(strict, 12),
    ]);
  });

  test('does not confuse classes that differ in their case alone', () => {
    const asked = { ...question.asked, classes: ['a b', 'A  b', 'C'] };
    const read = (label: string) => parseResponse(say(label), asked).class;
    expect(read('a b')).toBe('a b');
    expect(read('A  b')).toBe('A  b');
    expect(read('A B')).toBe('A B'); // none of them, or both
    expect(read('c')).toBe('C');
  });
});

describe('a completion about 9 variates, of which 2 and 7 are anomalous', () => {
  const question: Question = {
    gold: { kind: 'variates', variates: [2, 7] },
    asked: { kind: 'variates', length: 200, channels: 9, classes: [] },
  };
  const say = (list: string) => `<think>squares</think><answer>${list}</answer>`;

  test.each<Row>([
    ['as they are', say('[2, 7]'), 1, 1],
    ['with a fraction of nothing', say('[2.0, 7.0]'), 0.9, 0],
    ['beside one that no channel has', say('[2, 7, 9]'), 0.9, 0],
    ['beside a negative one and a half', say('[2, -1, 7, 3.5]'), 0.9, 0],
    ['as none that there is', say('[9, 10]'), 0, 0],
    ['the last time', `${say('[1]')}<answer>[7, 2]</answer>`, 0.9, 0],
    ['more often than there are channels', say('[2, 7, 2, 7, 2, 7, 2, 7, 2, 7]'), 0, 0],
  ])('%s', (_, response, lenient, strict) => {
    const earned = rewards(response, question);
    expect([earned.lenient, earned.strict]).toEqual([
      expect.closeTo(lenient, 12),
      expect.closeTo(strict, 12),
    ]);
  });
});

test('long and hostile completions are read in linear time', () => {
  const many = MAX_RESPONSE_LENGTH;
  const asked = { kind: 'anomaly', length: 1000, channels: 1, classes: [] } as const;
  const began = performance.now();
  for (const text of [
    '<answer>'.repeat(many / 8),
    `${'<class>'.repeat(many / 8)}</class>`,
    `<answer>[[${'9'.repeat(many - 40)}, 3]]</answer>`,
    `<answer>[[1.${'0'.repeat(many - 40)}x]]</answer>`,
    `<answer>[${'[1.0,2.0],'.repeat(many / 11)}]</answer>`,
    `<class>${' '.repeat(many - 40)}x</class>`,
    `<answer>${' '.repeat(many - 40)}x</answer>`,
    '<'.repeat(many),
  ]) {
    parseResponse(text, asked);
    parseResponse(text, { ...asked, kind: 'variates' });
    parseResponse(text, { ...asked, kind: 'classification', classes: ['x'] });
  }
  expect(performance.now() - began).toBeLessThan(10_000);
});
