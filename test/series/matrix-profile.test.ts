import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ConfigError, DataError } from '../../src/ground/errors.ts';
import { matrixProfile } from '../../src/series/matrix-profile.ts';
import golden from '../golden/analysis.json' with { type: 'json' };
import { nearest, windowDistance } from './brute-force.ts';

const distance = windowDistance;

function naive(values: Float64Array, m: number, exclusion: number): { value: number; index: number }[] {
  return Array.from({ length: values.length - m + 1 }, (_, i) => nearest(values, m, i, exclusion));
}

describe('matrix profile', () => {
  it.each(golden.matrix_profile.cases.map((row) => [row.name, row] as const))(
    'agrees with the definition on %s',
    (_, row) => {
      const profile = matrixProfile(Float64Array.from(row.x), { window: row.m });
      expect(profile.exclusion).toBe(row.exclusion);
      expect(profile.exact).toBe(true);
      expect([...profile.neighbours]).toEqual(row.index);
      for (const [i, expected] of row.profile.entries())
        expect(profile.distances[i]).toBeCloseTo(expected, 7);
    },
  );

  it('agrees with the definition on arbitrary short series with constant stretches', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.integer({ min: -3, max: 3 }), fc.integer({ min: 1, max: 7 })), {
          minLength: 4,
          maxLength: 14,
        }),
        fc.integer({ min: 2, max: 6 }),
        (stretches, m) => {
          const values = Float64Array.from(stretches.flatMap(([level, length]) => Array(length).fill(level)));
          fc.pre(values.length >= m);
          const { distances, neighbours, exclusion } = matrixProfile(values, { window: m });
          for (const [i, expected] of naive(values, m, exclusion).entries()) {
            if (expected.index < 0) {
              expect(distances[i]).toBe(Number.POSITIVE_INFINITY);
              expect(neighbours[i]).toBe(-1);
              continue;
            }
            // Integers make many windows exactly alike: which twin is named is rounding, its distance is not.
            expect(distances[i]).toBeCloseTo(expected.value, 6);
            expect(distance(values, m, i, neighbours[i]!)).toBeCloseTo(expected.value, 6);
            expect(Math.abs(neighbours[i]! - i)).toBeGreaterThan(exclusion);
          }
        },
      ),
    );
  });

  it('does not depend on the offset, the scale or an earlier call with other values', () => {
    const values = Float64Array.from({ length: 240 }, (_, i) => Math.sin(i / 3) + ((i * 37) % 11) / 20);
    const plain = matrixProfile(values, { window: 20 });
    matrixProfile(
      values.map((value) => -value * value),
      { window: 11 },
    );
    const moved = matrixProfile(
      values.map((value) => 1e4 + 250 * value),
      { window: 20 },
    );
    expect([...moved.neighbours]).toEqual([...plain.neighbours]);
    for (let i = 0; i < plain.distances.length; i++)
      expect(moved.distances[i]).toBeCloseTo(plain.distances[i]!, 6);
  });

  it('stays exact on diagonals longer than the refresh of their covariance', () => {
    const values = Float64Array.from(
      { length: 4400 },
      (_, i) => ((i * i * 31) % 997) / 997 + Math.sin(i / 40),
    );
    const { distances, neighbours } = matrixProfile(values, { window: 16 });
    for (const i of [0, 2000, 4200, 4384]) {
      expect(distances[i]).toBeCloseTo(distance(values, 16, i, neighbours[i]!), 7);
      let best = Number.POSITIVE_INFINITY;
      for (let j = 0; j < distances.length; j++) {
        if (Math.abs(i - j) > 4) best = Math.min(best, distance(values, 16, i, j));
      }
      expect(distances[i]).toBeCloseTo(best, 7);
    }
  });

  it('keeps its digits under an offset of a million and beside values a million times larger', () => {
    // A cycle of 900 that repeats to about 1e-5, in binary fractions that the offset leaves exact.
    const base = Float64Array.from({ length: 4600 }, (_, i) => {
      const k = i % 900;
      return Math.round(2 ** 20 * Math.sin((k * k) / 4000)) / 2 ** 20 + ((i * i * 31) % 997) / 2 ** 26;
    });
    const offset = base.map((value) => 1e6 + value);
    const spiked = base.map((value, i) => (i % 900 === 450 ? 1e6 : value));
    for (const values of [offset, spiked]) {
      const { distances } = matrixProfile(values, { window: 20 });
      for (const i of [0, 429, 451, 452, 600, 2301, 3151, 4580]) {
        const expected = nearest(values, 20, i, 5).value;
        expect(expected).toBeLessThan(1e-3);
        expect(Math.abs(distances[i]! - expected)).toBeLessThan(1e-6);
      }
    }
  });

  it('refuses gaps', () => {
    expect(() => matrixProfile(Float64Array.of(1, 2, Number.NaN, 3, 5), { window: 2 })).toThrow(DataError);
  });

  it('beyond its budget gives an upper bound, says so, and still shows a discord', () => {
    const values = Float64Array.from(
      { length: 3000 },
      (_, i) => Math.sin(i / 6) + ((i * 7919) % 101) / 400 + (i > 1700 && i < 1730 ? ((i * 13) % 7) / 4 : 0),
    );
    const exact = matrixProfile(values, { window: 50 });
    const bound = matrixProfile(values, { window: 50, budget: 4e5 });
    expect(bound.exact).toBe(false);
    expect(bound.share).toBeGreaterThan(0.08);
    expect(bound.share).toBeLessThan(0.1);
    for (let i = 0; i < exact.distances.length; i++) {
      expect(bound.distances[i]!).toBeGreaterThanOrEqual(exact.distances[i]! - 1e-9);
      expect(bound.distances[i]!).toBeLessThan(Number.POSITIVE_INFINITY);
    }
    const discord = bound.distances.indexOf(Math.max(...bound.distances));
    expect(discord).toBeGreaterThan(1700 - 50);
    expect(discord).toBeLessThan(1730);
  });

  it('gives every window a neighbour under the smallest budget', () => {
    const values = Float64Array.from({ length: 120 }, (_, i) => (i * i) % 23);
    expect(matrixProfile(values, { window: 10, budget: 1 }).neighbours.every((index) => index >= 0)).toBe(
      true,
    );
    expect(matrixProfile(values.subarray(0, 15), { window: 10, budget: 1 }).exact).toBe(true);
  });

  it('is empty or infinite where there is nothing to compare', () => {
    expect(matrixProfile(new Float64Array(9), { window: 10 }).distances.length).toBe(0);
    expect([...matrixProfile(Float64Array.of(1, 2, 3, 5), { window: 3 }).distances]).toEqual([
      Number.POSITIVE_INFINITY,
      Number.POSITIVE_INFINITY,
    ]);
  });

  it('refuses windows, exclusions and budgets out of range', () => {
    const values = new Float64Array(100);
    expect(() => matrixProfile(values, { window: 1 })).toThrow(ConfigError);
    expect(() => matrixProfile(values, { window: 10, exclusion: -1 })).toThrow(ConfigError);
    expect(() => matrixProfile(values, { window: 10, budget: 0 })).toThrow(ConfigError);
  });
});
