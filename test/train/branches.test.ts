import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { BranchedRow, branchedRows } from '../../src/train/branches.ts';

const ids = (...tokens: number[]): Int32Array => Int32Array.from(tokens);
const prompt = { ids: ids(1, 2), positions: new Int32Array(6), images: [], next: 7 };
/** Tokens that a place of a row continues, itself included. */
const pathTo = (row: BranchedRow, place: number): number[] => {
  const { ids: tokens, parents } = row.sequence(prompt);
  const before = parents?.[place] ?? place - 1;
  return [...(before < 0 ? [] : pathTo(row, before)), tokens[place]!];
};

describe('texts in a row', () => {
  const row = new BranchedRow();
  const first = row.add(ids(5, 6, 7));

  test('one after the other are a chain as long as they continue each other', () => {
    expect([...first]).toEqual([0, 1, 2]);
    expect([...row.add(ids(5, 6, 7, 8))]).toEqual([0, 1, 2, 3]);
    expect([...row.add(ids(5, 6))]).toEqual([0, 1]);
    expect(row.sequence(prompt).parents).toBeUndefined();
  });

  test('share what they begin with, at the positions behind the prompt that each has alone', () => {
    expect(row.shared(ids(5, 6, 9))).toBe(2);
    expect([...row.add(ids(5, 6, 9, 8))]).toEqual([0, 1, 4, 5]);
    const { ids: tokens, parents, positions } = row.sequence(prompt);
    expect([...tokens]).toEqual([5, 6, 7, 8, 9, 8]);
    expect([...parents!]).toEqual([-1, 0, 1, 2, 1, 4]);
    const expected = [7, 8, 9, 10, 9, 10];
    expect([...positions]).toEqual([...expected, ...expected, ...expected]);
  });
});

test('tokens before each place of a text are those of the text, however many share its row', () => {
  const texts = fc.array(
    fc.array(fc.integer({ min: 0, max: 2 }), { maxLength: 9 }).map((tokens) => ids(...tokens)),
    { maxLength: 12 },
  );
  fc.assert(
    fc.property(texts, fc.boolean(), (all, branching) => {
      const { rows, placed } = branchedRows(all, branching);
      expect(placed).toHaveLength(all.length);
      all.forEach((text, b) => {
        const { row, places } = placed[b]!;
        expect(places).toHaveLength(text.length);
        if (text.length > 0) expect(pathTo(rows[row]!, places.at(-1)!)).toEqual([...text]);
      });
      const tokens = new Set(all.flatMap((text) => [...text].map((_, t) => text.slice(0, t + 1).join())));
      const held = rows.reduce((sum, { length }) => sum + length, 0);
      expect(held).toBeGreaterThanOrEqual(tokens.size);
      if (branching && all.every((text) => text[0] === all[0]![0] && text.length > 0))
        expect(held).toBe(tokens.size);
    }),
  );
});

test('texts that share nothing, or too little of a long row, stand apart', () => {
  const long = (from: number): Int32Array =>
    Int32Array.from({ length: 900 }, (_, t) => (t < 5 ? t : from + t));
  expect(branchedRows([ids(1, 2), ids(2, 2)], true).rows).toHaveLength(2);
  expect(branchedRows([ids(1, 2), ids(1, 3)], true).rows).toHaveLength(1);
  expect(branchedRows([long(0), long(5000)], true).rows).toHaveLength(2);
  const { rows, placed } = branchedRows([long(0), long(5000), long(5000)], true);
  expect(rows).toHaveLength(2);
  expect(placed.map(({ row }) => row)).toEqual([0, 1, 1]);
});

test('a row with branches is not longer than 1024 tokens, a text alone may be', () => {
  const ending = (length: number, last: number): Int32Array =>
    Int32Array.from({ length }, (_, t) => (t < length - 1 ? 3 : last));
  const count = (length: number): number =>
    branchedRows([ending(length, 5), ending(length, 6), ending(length, 5)], true).rows.length;
  expect([1023, 1024, 3000].map(count)).toEqual([1, 2, 2]);
});

test('without branches every text has a row', () => {
  const { rows, placed } = branchedRows([ids(1, 2), ids(1, 3), ids(1), ids(1, 2)], false);
  expect(rows.map(({ length }) => length)).toEqual([2, 2, 1, 2]);
  expect(placed.map(({ row }) => row)).toEqual([0, 1, 2, 3]);
});
