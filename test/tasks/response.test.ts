import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { DataError } from '../../src/ground/errors.ts';
import { MAX_INTERVALS, parseAnswer } from '../../src/tasks/anomaly.ts';
import { parseClassification } from '../../src/tasks/classification.ts';
import { MAX_RESPONSE_LENGTH, reasoningRange } from '../../src/tasks/response.ts';
import { parseVariates } from '../../src/tasks/variates.ts';

const respond = (list: string, label = 'seasonal', think = 'sine wave; period 62') =>
  `<think>${think}</think><answer>${list}</answer><class>${label}</class>`;

describe('a well-formed response', () => {
  test('is read into its three parts', () => {
    expect(parseAnswer(respond('[[140, 220], [400, 460]]'), 1000)).toEqual({
      think: 'sine wave; period 62',
      intervals: [
        [140, 220],
        [400, 460],
      ],
      class: 'seasonal',
      wellFormed: true,
      problem: null,
    });
  });

  test('may hold white space between parts and inside the list', () => {
    const text =
      '\n <think>a\nb</think>\n\n<answer>\n[ [ 1 ,2 ]\t,[5,9]\r\n]</answer> <class> normal </class>\n';
    const answer = parseAnswer(text, 10);
    expect(answer.wellFormed).toBe(true);
    expect(answer.think).toBe('a\nb');
    expect(answer.class).toBe('normal');
    expect(answer.intervals).toEqual([
      [1, 2],
      [5, 9],
    ]);
  });

  test('with an empty list says that nothing is anomalous', () => {
    expect(parseAnswer(respond('[]', 'normal'), 50)).toMatchObject({ intervals: [], wellFormed: true });
  });

  test('may list intervals in any order; overlapping and touching ones are merged', () => {
    const { intervals, wellFormed } = parseAnswer(
      respond('[[300, 310], [20, 40], [90, 120], [110, 160], [160, 170]]'),
      1000,
    );
    expect(wellFormed).toBe(true);
    expect(intervals).toEqual([
      [20, 40],
      [90, 170],
      [300, 310],
    ]);
  });

  test('an end beyond the series is cut at its end', () => {
    expect(parseAnswer(respond('[[950, 1200]]'), 1000)).toMatchObject({
      intervals: [[950, 1000]],
      wellFormed: true,
    });
  });
});

describe('read strictly, an interval list is refused', () => {
  test.each([
    ['a leading zero', '[[007, 20]]'],
    ['a fraction', '[[1.5, 20]]'],
    ['an exponent', '[[1e1, 20]]'],
    ['a negative number', '[[-5, 20]]'],
    ['an explicit plus', '[[+5, 20]]'],
    ['a string', '[["5", 20]]'],
    ['null', 'null'],
    ['nothing', ''],
    ['a single pair without the outer list', '[5, 20]'],
    ['a triple', '[[5, 20, 30]]'],
    ['a lone number', '[[5]]'],
    ['a trailing comma', '[[5, 20],]'],
    ['a missing comma', '[[5, 20] [30, 40]]'],
    ['an unclosed list', '[[5, 20]'],
    ['text after the list', '[[5, 20]] or so'],
    ['tuples', '[(5, 20)]'],
    ['code', '__import__("os").system("true") or [[5, 20]]'],
    ['start = end', '[[5, 5]]'],
    ['start > end', '[[20, 5]]'],
    ['a start at the end of the series', '[[100, 120]]'],
    ['a number of ten digits', '[[5, 1000000000]]'],
    ['full-width digits', '[[５, 20]]'],
    ['a no-break space', '[[5,\u00a020]]'],
  ])('for %s', (_, list) => {
    const answer = parseAnswer(respond(list), 100, 'strict');
    expect(answer.intervals).toBeNull();
    expect(answer.wellFormed).toBe(false);
    expect(answer.problem).toMatch(/\w/);
    expect(answer.class).toBe('seasonal'); // the class can still count
  });

  test(`above ${MAX_INTERVALS} pairs, not at ${MAX_INTERVALS}`, () => {
    const list = (n: number) =>
      `[${Array.from({ length: n }, (_, i) => `[${2 * i}, ${2 * i + 1}]`).join(',')}]`;
    expect(parseAnswer(respond(list(MAX_INTERVALS)), 5000).intervals).toHaveLength(MAX_INTERVALS);
    expect(parseAnswer(respond(list(MAX_INTERVALS + 1)), 5000)).toMatchObject({
      intervals: null,
      problem: 'more than 1000 intervals',
    });
  });
});

describe('a response is not well formed', () => {
  const good = respond('[[5, 20]]', 'trend', 'slope 3');
  test.each([
    ['text before the parts', `Sure! ${good}`, 'text before <think>'],
    ['text after the parts', `${good}.`, 'text after </class>'],
    ['text between the parts', good.replace('</think>', '</think>so'), 'text before <answer>'],
    ['a part that is missing', '<think>a</think><class>trend</class>', 'expected <answer>, found <class>'],
    [
      'the wrong order',
      '<answer>[]</answer><think>a</think><class>x</class>',
      'expected <think>, found <answer>',
    ],
    ['a part that is repeated', `${good}<class>trend</class>`, '<class> appears again'],
    ['a cut-off response', good.slice(0, -4), '</class> is missing'],
    ['an empty response', '', '<think> is missing'],
    [
      'an answer inside the think part',
      respond('[[5, 20]]', 'trend', '<answer>[]</answer>'),
      'expected </think>, found <answer>',
    ],
    ['a blank think part', respond('[[5, 20]]', 'trend', ' \n'), 'the think part is blank'],
    ['a blank class', respond('[[5, 20]]', ' '), 'the class is blank, too long or more than one line'],
    [
      'a class of two lines',
      respond('[[5, 20]]', 'trend\nnormal'),
      'the class is blank, too long or more than one line',
    ],
    ['upper-case tags', good.toUpperCase(), '<think> is missing'],
    [
      'a tag with an attribute',
      good.replace('<class>', '<class id="1">'),
      'expected <class>, found </class>',
    ],
  ])('with %s', (_, text, problem) => {
    expect(parseAnswer(text, 100)).toMatchObject({ wellFormed: false, problem });
  });

  test('when it is longer than any real one, without being searched', () => {
    const answer = parseAnswer(respond('[]', 'normal', 'x'.repeat(MAX_RESPONSE_LENGTH)), 100);
    expect(answer).toMatchObject({ think: null, intervals: null, class: null, wellFormed: false });
  });

  test('but keeps each part that stands on its own', () => {
    const answer = parseAnswer(`Well: ${good} That is all.`, 100);
    expect(answer).toMatchObject({
      think: 'slope 3',
      intervals: [[5, 20]],
      class: 'trend',
      wellFormed: false,
    });
  });

  test('and a repeated part, read strictly, counts as neither of its versions', () => {
    const answer = parseAnswer(`${good}<answer>[]</answer><class>normal</class>`, 100, 'strict');
    expect(answer).toMatchObject({ think: 'slope 3', intervals: null, class: null });
  });
});

test('any text at all is read without an error, into intervals inside the series', () => {
  const piece = fc.oneof(
    fc.constantFrom(
      '<think>',
      '</think>',
      '<answer>',
      '</answer>',
      '<class>',
      '</class>',
      '[[',
      ']]',
      '[',
      ',',
      '7',
    ),
    fc.string({ maxLength: 6 }),
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 24 }), fc.integer({ min: 1, max: 50 }), (pieces, length) => {
      const answer = parseAnswer(pieces.join(''), length);
      const strict = parseAnswer(pieces.join(''), length, 'strict');
      // What a strict reading takes, a lenient one takes as it is; both judge the format alike.
      expect(answer.problem).toBe(strict.problem);
      if (strict.think !== null) expect(answer.think).toBe(strict.think);
      if (strict.intervals !== null) expect(answer.intervals).toEqual(strict.intervals);
      if (strict.class !== null) expect(answer.class).not.toBeNull();
      expect(answer.wellFormed).toBe(answer.problem === null);
      if (answer.wellFormed) expect([answer.think, answer.intervals, answer.class]).not.toContain(null);
      let last = -1;
      for (const [start, end] of answer.intervals ?? []) {
        expect(start).toBeGreaterThan(last);
        expect(end).toBeGreaterThan(start);
        expect(end).toBeLessThanOrEqual(length);
        last = end;
      }
    }),
    { numRuns: 500 },
  );
});

test.each([0, -3, 2.5, Number.NaN])('a series length of %s is a caller error', (length) => {
  expect(() => parseAnswer('', length)).toThrow(DataError);
});

describe('a classification response', () => {
  const text = '<think>burst</think><class>Myopathy</class>';
  test('is read with and without an extension', () => {
    expect(Object.entries(parseClassification(text))).toEqual([
      ['think', 'burst'],
      ['intervals', null],
      ['class', 'Myopathy'],
      ['wellFormed', true],
      ['problem', null],
    ]);
    expect(
      parseClassification(`${text}<extension>see a doctor</extension>`, { extension: true }),
    ).toMatchObject({
      extension: 'see a doctor',
      wellFormed: true,
    });
  });

  test('must have the extension exactly when the task asks for one', () => {
    expect(parseClassification(text, { extension: true })).toMatchObject({
      class: 'Myopathy',
      extension: null,
      wellFormed: false,
      problem: '<extension> is missing',
    });
    expect(parseClassification(`${text}<extension> </extension>`, { extension: true }).problem).toBe(
      'the extension is blank',
    );
    expect(parseClassification(`${text}<extension>x</extension>`)).toMatchObject({
      class: 'Myopathy',
      wellFormed: false,
    });
  });
});

describe('the class of a response', () => {
  const read = (label: string) => parseClassification(`<think>t</think><class>${label}</class>`).class;
  test('may have 200 characters, whatever their size, and no more', () => {
    expect(read('\u{1f40b}'.repeat(200))).toBe('\u{1f40b}'.repeat(200));
    expect(read('\u{1f40b}'.repeat(201))).toBeNull();
    expect(read('b'.repeat(201))).toBeNull();
  });
});

describe('a response about variates', () => {
  const name = (list: string, think = 'two square waves') =>
    `<think>${think}</think><answer>${list}</answer>`;

  test('is read into its two parts', () => {
    expect(parseVariates(name('[2, 7]'), 9)).toEqual({
      think: 'two square waves',
      intervals: null,
      variates: [2, 7],
      class: null,
      wellFormed: true,
      problem: null,
    });
  });

  test('may say that none is anomalous', () => {
    expect(parseVariates(name('[]'), 9)).toMatchObject({ variates: [], wellFormed: true });
  });

  test('may list ids in any order and twice, with white space between', () => {
    expect(parseVariates(` ${name('\n[ 10 ,2,\t0, 2\r\n] ')}\n`, 11)).toMatchObject({
      variates: [0, 2, 10],
      wellFormed: true,
    });
  });

  test('may list every channel, not one entry more', () => {
    expect(parseVariates(name('[3, 2, 1, 0]'), 4).variates).toEqual([0, 1, 2, 3]);
    expect(parseVariates(name('[3, 2, 1, 0, 0]'), 4)).toMatchObject({
      variates: null,
      problem: 'more than 4 variates',
    });
    expect(parseVariates(name('[1, 1, 1, 1, 1]'), 4).variates).toBeNull();
  });

  test.each([
    ['an id that no channel has', '[2, 9]', 'variate 9 is none of the 9, numbered from 0'],
    ['a leading zero', '[02]', 'expected the number of a variate, an integer, at character 1 of the answer'],
    ['a fraction', '[1.5]', 'expected "," or "]" at character 2 of the answer'],
    ['an exponent', '[1e0]', 'expected "," or "]" at character 2 of the answer'],
    ['a negative id', '[-1]', 'expected the number of a variate, an integer, at character 1 of the answer'],
    [
      'an explicit plus',
      '[+1]',
      'expected the number of a variate, an integer, at character 1 of the answer',
    ],
    ['a string', '["1"]', 'expected the number of a variate, an integer, at character 1 of the answer'],
    ['a pair', '[[1, 2]]', 'expected the number of a variate, an integer, at character 1 of the answer'],
    [
      'full-width digits',
      '[５]',
      'expected the number of a variate, an integer, at character 1 of the answer',
    ],
    [
      'a trailing comma',
      '[1,]',
      'expected the number of a variate, an integer, at character 3 of the answer',
    ],
    ['a missing comma', '[1 2]', 'expected "," or "]" at character 3 of the answer'],
    [
      'a number of ten digits',
      '[1000000000]',
      'expected the number of a variate, an integer, at character 1 of the answer',
    ],
    ['an unclosed list', '[1, 2', 'expected "," or "]" at character 5 of the answer'],
    ['text after the list', '[1] or so', 'text after the list of the answer'],
    ['no list', '1, 2', 'the answer is not a list of numbers of variates'],
    ['nothing', '', 'the answer is not a list of numbers of variates'],
    [
      'a no-break space',
      '[1,\u00a02]',
      'expected the number of a variate, an integer, at character 3 of the answer',
    ],
  ])('is refused, read strictly, for %s', (_, list, problem) => {
    expect(parseVariates(name(list), 9, 'strict')).toMatchObject({
      variates: null,
      wellFormed: false,
      problem,
    });
  });

  const good = name('[2, 7]');
  test.each([
    ['text before', `Sure: ${good}`, 'text before <think>', [2, 7]],
    ['a class, which is not asked for', `${good}<class>trend</class>`, 'text after </answer>', [2, 7]],
    ['a blank think part', name('[2, 7]', ' '), 'the think part is blank', [2, 7]],
    ['a second answer', `${good}<answer>[3]</answer>`, '<answer> appears again', null],
    ['no answer', '<think>t</think>', '<answer> is missing', null],
    ['an answer that is cut off', good.slice(0, -3), '</answer> is missing', null],
  ])('is not well formed with %s', (_, text, problem, variates) => {
    expect(parseVariates(text, 9, 'strict')).toMatchObject({ wellFormed: false, problem, variates });
  });

  test.each([0, -3, 2.5, Number.NaN])('%s channels are a caller error', (channels) => {
    expect(() => parseVariates('', channels)).toThrow(DataError);
  });
});

test.each([
  [respond('[]', 'normal', 'noise'), 'noise'],
  ['  <THINK>two\nlines</Think> <answer>[]', 'two\nlines'],
  ['<think>a</think><think>b</think>', 'a'],
  ['<think>never closed <answer>[]</answer>', null],
  ['</think>closed first<think>', null],
  ['<think></think><answer>[]</answer>', null],
  [`<think>${' '.repeat(MAX_RESPONSE_LENGTH)}</think>`, null],
])('the reasoning of a response stands between its first tags: case %#', (text, reasoning) => {
  const range = reasoningRange(text);
  expect(range && text.slice(...range)).toBe(reasoning);
});
