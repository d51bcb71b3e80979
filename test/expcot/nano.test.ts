import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { nano5 } from '../../datasets/generators/nano5.ts';
import { parseAnswer } from '../../rewards/answer.ts';
import { analyse } from '../../src/expcot/evidence.ts';
import { NANO_PHRASES, nanoTeacher, roundIntervals, SCAN_SYMBOLS, scan } from '../../src/expcot/nano.ts';
import { mergeIntervals } from '../../src/series/intervals.ts';
import { ANOMALY_CLASSES, type Interval } from '../../src/types.ts';

/** Longest pieces first: what a tokenizer with one token per tag, phrase, symbol and digit makes of a text. */
function tokens(text: string): number {
  const pieces = [
    ...['<think>', '</think>', '<answer>', '</answer>', '<class>', '</class>'],
    ...['[[', ']]', '[]', '], [', ', '],
    ...ANOMALY_CLASSES,
    ...NANO_PHRASES,
    ...'0123456789',
  ].sort((a, b) => b.length - a.length);
  let count = 0;
  for (let at = 0; at < text.length; count++) {
    const piece = pieces.find((candidate) => text.startsWith(candidate, at));
    if (piece === undefined) throw new Error(`no token for ${JSON.stringify(text.slice(at))}`);
    at += piece.length;
  }
  return count;
}

const intervalLists = fc
  .array(fc.tuple(fc.integer({ min: 0, max: 995 }), fc.integer({ min: 1, max: 200 })), { maxLength: 5 })
  .map((pairs) =>
    mergeIntervals(pairs.map(([start, length]): Interval => [start, Math.min(1000, start + length)])),
  );

describe('scan', () => {
  it.each([
    [[[140, 220]], '..(#)...............'],
    [[[140, 199]], '..()................'],
    [[[150, 200]], '...o................'],
    [[[100, 250]], '..(#)...............'],
    [[[160, 190]], '...o................'],
    [
      [
        [120, 160],
        [180, 320],
      ],
      '..(x##).............',
    ],
    [[[0, 1000]], '(##################)'],
    [[], '....................'],
  ] as [Interval[], string][])('of %j is %s', (intervals, expected) => {
    expect(scan(intervals, 1000, 20)).toBe(expected);
  });

  it('pairs its brackets and touches exactly the cells of the intervals', () => {
    fc.assert(
      fc.property(intervalLists, fc.constantFrom(20, 16, 7), (intervals, cells) => {
        const drawn = scan(intervals, 1000, cells);
        expect(drawn.length).toBe(cells);
        for (let cell = 0; cell < cells; cell++) {
          const left = (cell * 1000) / cells;
          const right = ((cell + 1) * 1000) / cells;
          const touching = intervals.filter(([start, end]) => start < right && end > left);
          const symbol = drawn[cell]!;
          expect(SCAN_SYMBOLS).toContain(symbol);
          expect(symbol === '.').toBe(touching.length === 0);
          expect(symbol === 'x').toBe(touching.length > 1);
        }
        if (!drawn.includes('x')) {
          expect(drawn).toMatch(/^(?:\.|o|\(#*\))*$/);
          expect(drawn.match(/[(o]/g)?.length ?? 0).toBe(intervals.length);
        }
      }),
    );
  });
});

describe('rounded intervals', () => {
  it('are whole steps, never empty, disjoint, inside the series, and near the given ones', () => {
    fc.assert(
      fc.property(intervalLists, fc.constantFrom(1000, 995, 2500), (given, length) => {
        const intervals = given.filter(([, end]) => end <= length);
        const rounded = roundIntervals(intervals, length);
        let last = -1;
        for (const [start, end] of rounded) {
          expect(start).toBeGreaterThan(last);
          expect(end).toBeGreaterThan(start);
          if (length === 1000) expect([start % 10, end % 10]).toEqual([0, 0]);
          last = end;
        }
        expect(last).toBeLessThanOrEqual(length);
        for (const [start, end] of intervals) {
          const home = rounded.find(([a, b]) => a < end + length / 100 && b > start - length / 100);
          expect(home).toBeDefined();
        }
      }),
    );
  });

  it('keep single samples of short series apart', () => {
    expect(
      roundIntervals(
        [
          [3, 4],
          [5, 6],
          [49, 50],
        ],
        50,
      ),
    ).toEqual([
      [3, 4],
      [5, 6],
      [49, 50],
    ]);
    expect(roundIntervals([[998, 1000]], 1000)).toEqual([[990, 1000]]);
    expect(roundIntervals([[0, 2]], 1000)).toEqual([[0, 10]]);
    expect(roundIntervals([[0, 1]], 1)).toEqual([[0, 1]]);
  });
});

describe('nano style', () => {
  const series = Array.from({ length: 40 }, (_, index) => nano5(3407, 'train', index));

  it('tells gold and evidence in fixed phrases, at most 60 tokens, as a well-formed response', () => {
    for (const one of series) {
      const text = nanoTeacher(analyse(one.values), one);
      expect(tokens(text)).toBeLessThanOrEqual(60);
      const answer = parseAnswer(text, one.values.length);
      expect(answer.wellFormed).toBe(true);
      expect(answer.class).toBe(one.class);
      expect(answer.intervals).toEqual(roundIntervals(one.intervals, one.values.length));
      expect(text).toMatch(
        /^<think>[a-z ]+(?:; period [1-9]\d*)?; scan [.()#ox]{20}(?:; [a-z ]+)?<\/think><answer>[^<]*<\/answer><class>[a-z ]+<\/class>$/,
      );
    }
  });

  it('scans the rounded intervals of its own answer', () => {
    for (const one of series) {
      const text = nanoTeacher(analyse(one.values), one);
      const drawn = /scan ([.()#ox]+)/.exec(text)?.[1];
      expect(drawn).toBe(scan(roundIntervals(one.intervals, 1000), 1000, 20));
    }
  });

  it('names a family only for anomalies, and none when asked not to', () => {
    for (const one of series) {
      const cited = nanoTeacher(analyse(one.values), one);
      const plain = nanoTeacher(analyse(one.values), one, { cite: false });
      const phrase = /; scan [^;<]+(; [a-z ]+)?</.exec(cited)?.[1];
      expect(phrase === undefined).toBe(one.class === 'normal');
      expect(cited.replace(phrase ?? '', '')).toBe(plain);
    }
  });

  it('keeps odd lengths and cells in order', () => {
    const values = Float64Array.from({ length: 333 }, (_, i) => Math.sin(i / 4));
    const gold = { intervals: [[100, 140]] as Interval[], class: 'seasonal' as const };
    const text = nanoTeacher(analyse(values), gold, { cells: 7, cite: false });
    expect(text).toBe(
      '<think>sine wave; period 26; scan ..o....</think><answer>[[100, 140]]</answer><class>seasonal</class>',
    );
  });
});
