import * as fc from 'fast-check';
import { expect, it } from 'vitest';
import { m4 } from '../../src/plot/data.ts';

const BIN = 10;
const column = (i: number) => Math.floor(i / BIN);
const samples = fc.array(
  fc.oneof({ weight: 9, arbitrary: fc.double({ min: -9, max: 9, noNaN: true }) }, fc.constant(Number.NaN)),
  { maxLength: 120 },
);

it('keeps first, last, lowest and highest of every column, and no more than five', () => {
  fc.assert(
    fc.property(samples, (list) => {
      const kept = [...m4(Float64Array.from(list), column)];
      expect(kept).toEqual([...new Set(kept)].sort((a, b) => a - b));
      for (let from = 0; from < list.length; from += BIN) {
        const all = list.slice(from, from + BIN);
        const some = kept.filter((i) => column(i) === from / BIN).map((i) => list[i]!);
        expect(some.length).toBeLessThanOrEqual(5);
        const [finite, chosen] = [all.filter(Number.isFinite), some.filter(Number.isFinite)];
        expect(chosen[0]).toBe(finite[0]);
        expect(chosen.at(-1)).toBe(finite.at(-1));
        expect(Math.min(...chosen)).toBe(Math.min(...finite));
        expect(Math.max(...chosen)).toBe(Math.max(...finite));
        expect(some.some(Number.isNaN)).toBe(all.some(Number.isNaN));
      }
    }),
  );
});

it('chooses by the columns that it is given', () => {
  const values = Float64Array.of(5, 1, 2, 9, 4, 4, 4);
  expect([...m4(values, () => 0)]).toEqual([0, 1, 3, 6]);
  expect([...m4(values, (i) => i)]).toEqual([0, 1, 2, 3, 4, 5, 6]);
  expect([...m4(values, (i) => (i < 3 ? -1 : 7))]).toEqual([0, 1, 2, 3, 4, 6]);
});
