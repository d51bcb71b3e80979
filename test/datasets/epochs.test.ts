import fc from 'fast-check';
import { expect, test } from 'vitest';
import { EpochOrder } from '../../datasets/epochs.ts';

const places = (order: EpochOrder, from: number, to: number): number[] =>
  Array.from({ length: to - from }, (_, i) => order.place(from + i));

test('every epoch is a permutation of the whole', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 60 }), fc.nat(1000), fc.nat(5), (count, seed, epoch) => {
      const seen = places(new EpochOrder(count, seed, 'sft'), epoch * count, (epoch + 1) * count);
      expect(seen.toSorted((a, b) => a - b)).toEqual(Array.from({ length: count }, (_, i) => i));
    }),
  );
});

test('epochs, stages and seeds have orders of their own', () => {
  const first = places(new EpochOrder(40, 7, 'sft'), 0, 40);
  expect(places(new EpochOrder(40, 7, 'sft'), 40, 80)).not.toEqual(first);
  expect(places(new EpochOrder(40, 7, 'rl'), 0, 40)).not.toEqual(first);
  expect(places(new EpochOrder(40, 8, 'sft'), 0, 40)).not.toEqual(first);
});

test('a place does not depend on what was asked before, so that ranks and resumed runs agree', () => {
  const straight = places(new EpochOrder(17, 3, 'sft'), 0, 100);
  const jumping = new EpochOrder(17, 3, 'sft');
  for (const index of [99, 3, 50, 4, 0, 98, 51, 33, 34]) expect(jumping.place(index)).toBe(straight[index]);
});
