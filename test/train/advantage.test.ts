import fc from 'fast-check';
import { expect, test } from 'vitest';
import { advantageOf, drGrpo, grpo, isZeroVariance, timerpo } from '../../src/train/advantage.ts';

const dot = (a: readonly number[], b: readonly number[]): number =>
  a.reduce((sum, v, i) => sum + v * b[i]!, 0);
const group = fc.integer({ min: 2, max: 9 }).chain((size) =>
  fc.record({
    rewards: fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: size, maxLength: size }),
    similarity: fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: size, maxLength: size }),
  }),
);

test('the time-series part of TimerPO never moves along the task part', () => {
  fc.assert(
    fc.property(group, (record) => {
      const { main, orthogonal } = timerpo(record, { alpha: 0.3 });
      // ε = 1e-8 in the projection leaves ⟨A_ts, A_main⟩ · ε / (‖A_main‖² + ε) behind.
      const norm = dot(main, main);
      const left = Math.sqrt(norm * record.similarity.length) * (1e-8 / (norm + 1e-8));
      expect(Math.abs(dot(main, orthogonal))).toBeLessThanOrEqual(left + 1e-12);
    }),
  );
});

test('every estimator sums to zero over a group', () => {
  fc.assert(
    fc.property(group, (record) => {
      for (const name of ['timerpo', 'grpo', 'dr_grpo'] as const) {
        const total = advantageOf(name, record, { alpha: 0.3 }).advantage.reduce(
          (sum, value) => sum + value,
          0,
        );
        expect(Math.abs(total)).toBeLessThan(1e-9);
      }
    }),
  );
});

test('a group of equal rewards still teaches through its traces under TimerPO, and has zero variance under GRPO', () => {
  const record = { rewards: [0.1, 0.1, 0.1], similarity: [0.2, 0.5, 0.8] };
  const { main, advantage } = timerpo(record, { alpha: 0.3 });
  expect(main).toEqual([0, 0, 0]);
  expect(advantage[0]).toBeCloseTo(-0.09, 12);
  expect(advantage[2]).toBeCloseTo(0.09, 12);
  expect(isZeroVariance(timerpo(record, { alpha: 0.3 }))).toBe(false);
  expect(isZeroVariance(grpo(record))).toBe(true);
  expect(isZeroVariance(drGrpo(record))).toBe(true);
});

test('equal rewards and equal similarities have zero variance, whatever their binary rounding', () => {
  expect(
    isZeroVariance(timerpo({ rewards: [0.1, 0.1, 0.1], similarity: [0.7, 0.7, 0.7] }, { alpha: 0.3 })),
  ).toBe(true);
});

test('GRPO divides by the sample standard deviation, Dr. GRPO does not', () => {
  const record = { rewards: [0, 0, 1, 3], similarity: [0, 0, 0, 0] };
  expect(drGrpo(record).advantage).toEqual([-1, -1, 0, 2]);
  const std = Math.sqrt(6 / 3);
  expect(grpo(record).advantage[3]).toBeCloseTo(2 / (std + 1e-6), 12);
});
