import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  advantageOf,
  drGrpo,
  type GroupAdvantage,
  grpo,
  isZeroVariance,
  SPREAD_FLOOR,
  timerpo,
  withEqualSpread,
} from '../../src/train/advantage.ts';

const dot = (a: readonly number[], b: readonly number[]): number =>
  a.reduce((sum, v, i) => sum + v * b[i]!, 0);
const PAPER = { alpha: 0.3, projection: true };
const group = fc.integer({ min: 2, max: 9 }).chain((size) =>
  fc.record({
    rewards: fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: size, maxLength: size }),
    similarity: fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: size, maxLength: size }),
  }),
);

test('the time-series part of TimerPO never moves along the task part', () => {
  fc.assert(
    fc.property(group, (record) => {
      const { main, orthogonal } = advantageOf('timerpo', record, PAPER);
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
        const total = advantageOf(name, record, PAPER).advantage.reduce((sum, value) => sum + value, 0);
        expect(Math.abs(total)).toBeLessThan(1e-9);
      }
    }),
  );
});

test('a group of equal rewards still teaches through its traces under TimerPO, and has zero variance under GRPO', () => {
  const record = { rewards: [0.1, 0.1, 0.1], similarity: [0.2, 0.5, 0.8] };
  const { main, advantage } = advantageOf('timerpo', record, PAPER);
  expect(main).toEqual([0, 0, 0]);
  expect(advantage[0]).toBeCloseTo(-0.09, 12);
  expect(advantage[2]).toBeCloseTo(0.09, 12);
  expect(isZeroVariance(advantageOf('timerpo', record, PAPER))).toBe(false);
  expect(isZeroVariance(grpo(record))).toBe(true);
  expect(isZeroVariance(drGrpo(record))).toBe(true);
});

test('equal rewards and equal similarities have zero variance, whatever their binary rounding', () => {
  expect(
    isZeroVariance(advantageOf('timerpo', { rewards: [0.1, 0.1, 0.1], similarity: [0.7, 0.7, 0.7] }, PAPER)),
  ).toBe(true);
});

test('GRPO divides by the sample standard deviation, Dr. GRPO does not', () => {
  const record = { rewards: [0, 0, 1, 3], similarity: [0, 0, 0, 0] };
  expect(drGrpo(record).advantage).toEqual([-1, -1, 0, 2]);
  const std = Math.sqrt(6 / 3);
  expect(grpo(record).advantage[3]).toBeCloseTo(2 / (std + 1e-6), 12);
});

test('TimerPO takes any centred main part, and without the projection adds the centred similarity itself', () => {
  const main = [2, -1, -1];
  const similarity = [0.9, 0.1, 0.2];
  const plain = timerpo(main, similarity, { alpha: 0.5, projection: false });
  [0.5, -0.3, -0.2].forEach((value, i) => {
    expect(plain.orthogonal[i]).toBeCloseTo(value, 12);
    expect(plain.advantage[i]).toBeCloseTo(main[i]! + 0.5 * value, 12);
  });
  // ⟨A_ts, A_main⟩ / ‖A_main‖² = 1.5 / 6
  const projected = timerpo(main, similarity, { alpha: 0.5, projection: true });
  [0, -0.05, 0.05].forEach((value, i) => {
    expect(projected.orthogonal[i]).toBeCloseTo(value, 8);
  });
});

describe('orthogonal parts scaled to the spread of the main ones', () => {
  const alone = (values: readonly number[]): readonly number[] => values;
  const rms = (groups: readonly GroupAdvantage[], key: 'main' | 'orthogonal'): number => {
    const all = groups.flatMap((one) => one[key]);
    return Math.sqrt(dot(all, all) / all.length);
  };
  const groups = [
    timerpo([0.3, -0.1, -0.2], [0.31, 0.3, 0.28], PAPER),
    timerpo([0, 0, 0], [0.29, 0.33, 0.31], PAPER),
    timerpo([0.5, -0.5, 0], [0.3, 0.3, 0.3], PAPER),
  ];

  test('have it over the step, in the proportions between groups that they had', () => {
    const scaled = withEqualSpread(groups, 0.3, alone);
    expect(rms(scaled, 'orthogonal')).toBeCloseTo(rms(scaled, 'main'), 12);
    const factor = scaled[1]!.orthogonal[0]! / groups[1]!.orthogonal[0]!;
    expect(factor).toBeGreaterThan(5);
    scaled.forEach(({ main, orthogonal, advantage }, p) => {
      expect(main).toEqual(groups[p]!.main);
      orthogonal.forEach((value, i) => {
        expect(value).toBeCloseTo(factor * groups[p]!.orthogonal[i]!, 12);
        expect(advantage[i]).toBeCloseTo(main[i]! + 0.3 * value, 12);
      });
    });
  });

  test('are the same in two shares whose sums are added as in one', () => {
    const [left, right] = [groups.slice(0, 1), groups.slice(1)];
    const sums: number[][] = [];
    const tell = (values: readonly number[]): readonly number[] => {
      sums.push([...values]);
      return values;
    };
    withEqualSpread(left, 0.3, tell);
    withEqualSpread(right, 0.3, tell);
    const both = sums[0]!.map((value, i) => value + sums[1]![i]!);
    const apart = [left, right].flatMap((share) => withEqualSpread(share, 0.3, () => both));
    withEqualSpread(groups, 0.3, alone).forEach((one, p) => {
      one.advantage.forEach((value, i) => {
        expect(apart[p]!.advantage[i]).toBeCloseTo(value, 12);
      });
    });
  });

  test('stay as they are where no group has a main part', () => {
    const equal = [groups[1]!, timerpo([0, 0], [0.2, 0.4], PAPER)];
    expect(withEqualSpread(equal, 0.3, alone)).toEqual(equal);
  });

  test('are not blown up where they are rounding alone', () => {
    const tiny = [timerpo([1, -1], [0.3, 0.3 + 1e-7], PAPER), timerpo([0, 0], [0.3, 0.3 + 1e-7], PAPER)];
    const scaled = withEqualSpread(tiny, 0.3, alone);
    expect(Math.abs(scaled[1]!.orthogonal[0]!)).toBeCloseTo((0.5e-7 * Math.SQRT1_2) / SPREAD_FLOOR, 6);
  });
});
