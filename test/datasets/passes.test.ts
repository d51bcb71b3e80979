import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Passes } from '../../datasets/passes.ts';

const places = (passes: Passes, from: number, to: number): number[] =>
  Array.from({ length: to - from }, (_, i) => passes.place(from + i));

test('every pass is a permutation of the whole', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 60 }), fc.nat(1000), fc.nat(5), (count, seed, pass) => {
      const seen = places(new Passes(count, seed, 'sft'), pass * count, (pass + 1) * count);
      expect(seen.toSorted((a, b) => a - b)).toEqual(Array.from({ length: count }, (_, i) => i));
    }),
  );
});

test('passes, stages and seeds have orders of their own', () => {
  const first = places(new Passes(40, 7, 'sft'), 0, 40);
  expect(places(new Passes(40, 7, 'sft'), 40, 80)).not.toEqual(first);
  expect(places(new Passes(40, 7, 'rl'), 0, 40)).not.toEqual(first);
  expect(places(new Passes(40, 8, 'sft'), 0, 40)).not.toEqual(first);
});

test('a place does not depend on what was asked before, so that ranks and resumed runs agree', () => {
  const straight = places(new Passes(17, 3, 'sft'), 0, 100);
  const jumping = new Passes(17, 3, 'sft');
  for (const index of [99, 3, 50, 4, 0, 98, 51, 33, 34]) expect(jumping.place(index)).toBe(straight[index]);
});
