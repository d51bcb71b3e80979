import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ConfigError, DataError } from '../../src/ground/errors.ts';
import { Random } from '../../src/ground/random.ts';
import { changePenalty, cusumShifts, cusumTest, pelt } from '../../src/series/change-points.ts';
import { series, seriesOf, worst } from './golden.ts';

const random = new Random(4, 'changes');

/** Least cost + penalties over every way to cut the list, by trying them all. */
function exhaustive(list: readonly number[], minSize: number, penalty: number): number {
  const cost = (part: readonly number[]): number => {
    const mean = part.reduce((sum, value) => sum + value, 0) / part.length;
    return part.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  };
  let best = cost(list);
  for (let mask = 1; mask < 2 ** (list.length - 1); mask++) {
    const bounds = [0];
    for (let i = 1; i < list.length; i++) if ((mask >> (i - 1)) & 1) bounds.push(i);
    bounds.push(list.length);
    if (bounds.slice(1).some((end, k) => end - bounds[k]! < minSize)) continue;
    const total = bounds.slice(1).reduce((sum, end, k) => sum + cost(list.slice(bounds[k], end)), 0);
    best = Math.min(best, total + penalty * (bounds.length - 2));
  }
  return best;
}

describe('PELT', () => {
  it.each(series.pelt.map((row) => [row.series, row.minSize, row.penalty, row] as const))(
    'agrees with ruptures on %s, least segment %i, penalty %f',
    (name, minSize, penalty, row) => {
      const found = pelt(seriesOf(name), { minSize, penalty });
      expect(found.changes).toEqual(row.changes);
      expect(worst([found.cost + penalty * found.changes.length], [row.total])).toBeLessThan(1e-10);
    },
  );

  it('is as good as the best of all segmentations', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: -4, max: 4 }), { minLength: 1, maxLength: 11 }),
        fc.integer({ min: 1, max: 4 }),
        fc.constantFrom(0, 0.4, 2, 9),
        (list, minSize, penalty) => {
          const { changes, cost, means } = pelt(Float64Array.from(list), { minSize, penalty });
          expect(cost + penalty * changes.length).toBeCloseTo(exhaustive(list, minSize, penalty), 9);
          const bounds = [0, ...changes, list.length];
          expect(means.length).toBe(bounds.length - 1);
          if (changes.length > 0) {
            for (const [k, end] of bounds.slice(1).entries()) {
              expect(end - bounds[k]!).toBeGreaterThanOrEqual(minSize);
            }
          }
        },
      ),
      { numRuns: 150 },
    );
  });

  it('finds the levels of a noisy series by its default penalty, and none in noise, at any scale and offset', () => {
    const noise = Float64Array.from({ length: 500 }, () => random.normal(0, 0.3));
    const levels = noise.map((value, i) => value + (i < 130 ? 0 : i < 170 ? 2 : i < 380 ? -0.6 : 0.4));
    expect(pelt(noise).changes).toEqual([]);
    const { changes, means } = pelt(levels);
    expect(changes.length).toBe(3);
    for (const [k, at] of [130, 170, 380].entries()) expect(Math.abs(changes[k]! - at)).toBeLessThan(4);
    expect(means[1]).toBeCloseTo(2, 0);
    expect(pelt(levels.map((value) => 1e7 + 50 * value)).changes).toEqual(changes);
    expect(changePenalty(levels)).toBeLessThan(1.5 * 2 * 0.09 * Math.log(500));
  });

  it('splits nothing that is constant, empty or shorter than two segments', () => {
    expect(pelt(new Float64Array(50).fill(0.1)).changes).toEqual([]);
    expect(pelt(new Float64Array(0))).toMatchObject({ changes: [], means: [], cost: 0 });
    expect(pelt(Float64Array.of(0, 0, 9), { minSize: 2, penalty: 0.1 })).toMatchObject({
      changes: [],
      means: [3],
    });
  });

  it('refuses gaps and options out of range', () => {
    expect(() => pelt(Float64Array.of(1, Number.NaN))).toThrow(DataError);
    expect(() => pelt(Float64Array.of(1, 2), { minSize: 0 })).toThrow(ConfigError);
    expect(() => pelt(Float64Array.of(1, 2), { penalty: -1 })).toThrow(ConfigError);
  });
});

describe('CUSUM test', () => {
  it.each(series.cusum.map((row) => [row.series, row] as const))(
    'agrees with statsmodels on %s',
    (name, row) => {
      const test = cusumTest(seriesOf(name))!;
      expect(worst([test.statistic, test.pValue], [row.stat, row.p])).toBeLessThan(1e-11);
      expect(test.change).toBe(row.peak);
    },
  );

  it('is undefined for constants and for fewer than three values', () => {
    expect(cusumTest(new Float64Array(9).fill(0.1))).toBeNull();
    expect(cusumTest(Float64Array.of(1, 2))).toBeNull();
    expect(cusumTest(new Float64Array(0))).toBeNull();
  });
});

describe('CUSUM chart', () => {
  it.each(series.cusum_chart.map((row) => [row.series, row] as const))(
    'agrees with sums over their running minimum on %s',
    (name, row) => {
      const { target, sigma, drift, threshold } = row;
      const shifts = cusumShifts(seriesOf(name), { target, sigma, drift, threshold });
      expect(shifts.length).toBeGreaterThan(0);
      expect(shifts.map(({ direction, onset, alarm, end }) => [direction, onset, alarm, end])).toEqual(
        row.shifts,
      );
    },
  );

  it('names a lasting shift once, from its onset to its end, and mirrors with the series', () => {
    const values = Float64Array.from(
      { length: 400 },
      (_, i) => random.normal(0, 0.5) + (i >= 250 && i < 290 ? 1.4 : 0),
    );
    const shifts = cusumShifts(values, { threshold: 9 });
    expect(shifts.length).toBe(1);
    expect(shifts[0]!.direction).toBe('up');
    expect(Math.abs(shifts[0]!.onset - 250)).toBeLessThan(5);
    expect(Math.abs(shifts[0]!.end - 290)).toBeLessThan(5);
    const mirrored = cusumShifts(
      values.map((value) => -value),
      { threshold: 9 },
    );
    expect(mirrored).toEqual(shifts.map((shift) => ({ ...shift, direction: 'down' })));
  });

  it('finds nothing in a constant or empty series, and an outlier where the rest is constant', () => {
    expect(cusumShifts(new Float64Array(60).fill(0.1))).toEqual([]);
    expect(cusumShifts(new Float64Array(0))).toEqual([]);
    const lone = new Float64Array(60);
    lone[33] = -1;
    expect(cusumShifts(lone)).toMatchObject([{ direction: 'down', onset: 33, alarm: 33, end: 34 }]);
  });

  it('refuses gaps and options out of range', () => {
    expect(() => cusumShifts(Float64Array.of(Number.NaN))).toThrow(DataError);
    expect(() => cusumShifts(Float64Array.of(1, 2), { sigma: 0 })).toThrow(ConfigError);
    expect(() => cusumShifts(Float64Array.of(1, 2), { threshold: 0 })).toThrow(ConfigError);
    expect(() => cusumShifts(Float64Array.of(1, 2), { drift: -1 })).toThrow(ConfigError);
  });
});
