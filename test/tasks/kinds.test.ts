import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { DataError } from '../../src/ground/errors.ts';
import { ANOMALY_CLASSES, type Gold, type Interval } from '../../src/ground/types.ts';
import { clipAndMerge } from '../../src/series/intervals.ts';
import type { Asked } from '../../src/tasks/kind.ts';
import {
  genericTrace,
  goldResponse,
  KIND_NAMES,
  markedShare,
  parseResponse,
  scoreAnswer,
  taskKind,
} from '../../src/tasks/kinds.ts';

interface Posed {
  readonly gold: Gold;
  readonly asked: Asked;
}

const KINDS = [
  'classification',
  'anomaly',
  'variates',
  'question',
] as const satisfies readonly Gold['kind'][];

const oneLine = fc
  .string({ unit: 'grapheme', minLength: 1, maxLength: 60 })
  .map((text) => text.replace(/[<>\n\r]/g, '').trim())
  .filter((text) => text !== '' && [...text].length <= 200);

const classification: fc.Arbitrary<Posed> = fc
  .tuple(oneLine, fc.integer({ min: 2, max: 400 }), fc.integer({ min: 1, max: 9 }))
  .map(([label, length, channels]) => ({
    gold: { kind: 'classification', class: label },
    asked: { kind: 'classification', length, channels, classes: [label] },
  }));

const NAMED = ANOMALY_CLASSES.filter((name) => name !== 'normal');
const anomaly: fc.Arbitrary<Posed> = fc
  .integer({ min: 2, max: 400 })
  .chain((length) =>
    fc.tuple(
      fc.constant(length),
      fc.array(fc.tuple(fc.nat(length - 1), fc.integer({ min: 1, max: 30 })), { maxLength: 6 }),
      fc.constantFrom(null, ...NAMED),
    ),
  )
  .map(([length, list, label]) => {
    const intervals = clipAndMerge(
      list.map(([start, size]): Interval => [start, start + size]),
      length,
    );
    return {
      gold: { kind: 'anomaly', class: intervals.length === 0 ? 'normal' : label, intervals },
      asked: { kind: 'anomaly', length, channels: 1, classes: [] },
    };
  });

const variates: fc.Arbitrary<Posed> = fc
  .integer({ min: 1, max: 36 })
  .chain((channels) => fc.tuple(fc.constant(channels), fc.uniqueArray(fc.nat(channels - 1))))
  .map(([channels, list]) => ({
    gold: { kind: 'variates', variates: list.sort((a, b) => a - b) },
    asked: { kind: 'variates', length: 200, channels, classes: [] },
  }));

const question: fc.Arbitrary<Posed> = fc
  .tuple(
    oneLine,
    fc.uniqueArray(oneLine, {
      minLength: 2,
      maxLength: 26,
      selector: (text) => text.trim().replace(/\s+/g, ' ').toLowerCase(),
    }),
    fc.nat(25),
  )
  .map(([text, options, right]) => ({
    gold: {
      ...{ kind: 'question', question: text, options, category: null, thought: null },
      answer: String.fromCharCode(65 + (right % options.length)),
    },
    asked: { kind: 'question', length: 200, channels: 2, classes: [], options },
  }));

const posed = fc.oneof(classification, anomaly, variates, question);

/** Text in which tags, signs and numbers are frequent. */
const anyText = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        ...['think', 'answer', 'class', 'extension'].flatMap((tag) => [`<${tag}>`, `</${tag}>`]),
        ...['[', ']', '[[', ']]', ',', '7', '0', '12', '-', ' ', '\n', 'trend', '[2, 7]', '[[3, 9]]'],
      ),
      fc.string({ unit: 'binary', maxLength: 6 }),
    ),
    { maxLength: 24 },
  )
  .map((pieces) => pieces.join(''));

/** The right response with a stretch cut out and another text put in: close to the grammar, hence hard. */
const damaged = fc.tuple(posed, fc.nat(300), fc.nat(12), anyText).map(([{ gold, asked }, at, cut, text]) => {
  const whole = goldResponse(gold, 'because');
  return { gold, asked, text: whole.slice(0, at) + text + whole.slice(at + cut) };
});

test.each(KIND_NAMES)('the generic traces of %s find nothing and name no class', (kind) => {
  const { classes } = taskKind(kind);
  for (const style of ['nano', 'full'] as const) {
    const text = genericTrace(kind, style);
    expect(text).toMatch(/^<think>[^<>]+<\/think>$/);
    expect(text).not.toMatch(/[0-9]/);
    for (const name of classes === 'data'
      ? []
      : classes.filter((one) => one !== 'normal' && one !== 'trend')) {
      expect(text).not.toContain(name);
    }
  }
});

describe('the reward of every kind of task', () => {
  test('has a name', () => {
    expect(KIND_NAMES.map((name) => [name, taskKind(name).reward.name])).toEqual([
      ['anomaly', 'anomseer'],
      ['classification', 'timemaster'],
      ['variates', 'variates'],
      ['question', 'question'],
    ]);
  });

  test('pays exactly 1 for the right answer', () => {
    fc.assert(
      fc.property(posed, ({ gold, asked }) => {
        const answer = parseResponse(goldResponse(gold, 'because'), asked);
        expect(answer.problem).toBeNull();
        expect(scoreAnswer(answer, gold, asked.length).total).toBe(1);
      }),
      { numRuns: 600 },
    );
  });

  test('reads any text without an error, scores it in [0, 1], and 1 only where nothing is wrong', () => {
    const text = fc.oneof(
      fc.tuple(posed, anyText).map(([one, written]) => ({ ...one, text: written })),
      damaged,
    );
    fc.assert(
      fc.property(text, fc.boolean(), ({ gold, asked, text: response }, extension) => {
        const answer = parseResponse(response, { ...asked, extension });
        expect(answer.wellFormed).toBe(answer.problem === null);
        const { total, parts } = scoreAnswer(answer, gold, asked.length);
        for (const value of [total, ...Object.values(parts)]) {
          expect(value).toBeGreaterThanOrEqual(0);
          expect(value).toBeLessThanOrEqual(1);
        }
        expect(total === 1).toBe(Object.values(parts).every((part) => part === 1));
        if (answer.wellFormed) {
          const { think, intervals, class: label, variates: ids, extension: advice } = answer;
          expect(think?.trim() ?? '').not.toBe('');
          expect(intervals === null).toBe(asked.kind !== 'anomaly');
          expect(label === null).toBe(asked.kind === 'variates');
          expect((ids ?? null) === null).toBe(asked.kind !== 'variates');
          expect((advice ?? null) === null).toBe(asked.kind !== 'classification' || !extension);
        }
        let last = -1;
        for (const id of answer.variates ?? []) {
          expect(id).toBeGreaterThan(last);
          expect(id).toBeLessThan(asked.channels);
          last = id;
        }
      }),
      { numRuns: 3000 },
    );
  });

  test('reads a response by what was asked, not by what it holds', () => {
    const asked = { length: 100, channels: 9, classes: [] };
    const text = '<think>t</think><answer>[2, 7]</answer><class>trend</class>';
    expect(parseResponse(text, { ...asked, kind: 'variates' })).toMatchObject({
      variates: [2, 7],
      class: null,
      problem: 'text after </answer>',
    });
    expect(parseResponse(text, { ...asked, kind: 'anomaly' })).toMatchObject({
      intervals: null,
      class: 'trend',
      problem: 'expected [start, end] with integers at character 1 of the answer',
    });
    expect(parseResponse(text, { ...asked, kind: 'classification' })).toMatchObject({
      class: 'trend',
      problem: 'text before <class>',
    });
  });

  test('asks for an extension where the task does', () => {
    const asked = { kind: 'classification', length: 100, channels: 1, classes: [], extension: true } as const;
    const gold = { kind: 'classification', class: 'Laptop' } as const;
    const bare = parseResponse('<think>t</think><class>Laptop</class>', asked);
    expect(scoreAnswer(bare, gold, 100)).toEqual({ total: 0.9, parts: { accuracy: 1, format: 0 } });
    const whole = parseResponse('<think>t</think><class>Laptop</class><extension> e </extension>', asked);
    expect(whole.extension).toBe('e');
    expect(scoreAnswer(whole, gold, 100).total).toBe(1);
  });

  test('agrees with numbers worked out by hand', () => {
    const score = (kind: Gold['kind'], text: string, gold: Gold) =>
      scoreAnswer(parseResponse(text, { kind, length: 1000, channels: 9, classes: [] }), gold, 1000).total;
    const two = '<think>t</think><answer>[7, 2]</answer>';
    expect(score('variates', two, { kind: 'variates', variates: [7] })).toBeCloseTo(0.7, 12);
    const found = '<think>t</think><answer>[[120, 180]]</answer><class>trend</class>';
    const at = { kind: 'anomaly', intervals: [[100, 150]] } as const;
    expect(score('anomaly', found, { ...at, class: 'trend' })).toBeCloseTo(0.83354, 10);
    expect(score('anomaly', found, { ...at, class: 'seasonal' })).toBeCloseTo(0.63354, 10);
    expect(score('anomaly', found, { ...at, class: null })).toBeCloseTo(0.791925, 10);
    const wrong = '<think>t</think><class>Desktop</class>';
    expect(score('classification', wrong, { kind: 'classification', class: 'Laptop' })).toBe(0.1);
  });

  test('counts a part that was not read as nothing', () => {
    for (const kind of KINDS) {
      const gold: Gold =
        kind === 'classification'
          ? { kind, class: 'Laptop' }
          : kind === 'anomaly'
            ? { kind, class: 'normal', intervals: [] }
            : kind === 'variates'
              ? { kind, variates: [] }
              : { kind, question: 'q', options: [], answer: 'a', category: null, thought: null };
      const blank = { think: null, intervals: null, class: null, wellFormed: false, problem: 'cut off' };
      expect(scoreAnswer(blank, gold, 10).total).toBe(0);
    }
  });

  test('refuses a series without points or channels, and a gold answer outside of it', () => {
    expect(() => parseResponse('', { kind: 'anomaly', length: 0, channels: 1, classes: [] })).toThrow(
      DataError,
    );
    expect(() => parseResponse('', { kind: 'variates', length: 9, channels: 0, classes: [] })).toThrow(
      DataError,
    );
    const answer = parseResponse('', { kind: 'anomaly', length: 9, channels: 1, classes: [] });
    const beyond: Gold = { kind: 'anomaly', class: null, intervals: [[3, 10]] };
    expect(() => scoreAnswer(answer, beyond, 9)).toThrow(DataError);
  });
});

test('what an answer marks is a share of the points, or of the channels; a class marks nothing', () => {
  const shape = { length: 200, channels: 8 };
  const said = (gold: Gold) => markedShare(taskKind(gold.kind).evaluation.said(gold), shape);
  const intervals: Interval[] = [
    [10, 30],
    [50, 55],
  ];
  expect(said({ kind: 'anomaly', class: 'trend', intervals })).toBe(0.125);
  expect(said({ kind: 'anomaly', class: 'normal', intervals: [] })).toBe(0);
  expect(said({ kind: 'variates', variates: [0, 5] })).toBe(0.25);
  expect(said({ kind: 'classification', class: 'walk' })).toBeNull();
  expect(markedShare({ intervals: null }, shape)).toBeNull(); // unreadable
});
