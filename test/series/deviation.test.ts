import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ConfigError, DataError } from '../../src/ground/errors.ts';
import { localDeviations, neighbourDistances } from '../../src/series/deviation.ts';

const middle = (values: readonly number[]): number => {
  const sorted = [...values].sort((a, b) => a - b);
  const half = sorted.length / 2;
  return sorted.length % 2 === 1 ? sorted[Math.floor(half)]! : (sorted[half - 1]! + sorted[half]!) / 2;
};

const series = fc
  .array(fc.integer({ min: -500, max: 900 }), { minLength: 20, maxLength: 70 })
  .map((list) => Float64Array.from(list, (value, i) => value / 8 + (i % 7)));

describe('local deviations', () => {
  it('are the differences from the median of the neighbours, in robust standard deviations', () => {
    fc.assert(
      fc.property(series, (values) => {
        const list = [...values];
        const differences = list.map(
          (value, t) => value - middle([...list.slice(Math.max(0, t - 8), t), ...list.slice(t + 1, t + 9)]),
        );
        const sizes = differences.map(Math.abs);
        const mean = sizes.reduce((sum, size) => sum + size, 0) / sizes.length;
        const scale = 1.482602218505602 * middle(sizes) || Math.sqrt(Math.PI / 2) * mean;
        const found = localDeviations(values);
        differences.forEach((difference, t) => {
          expect(found[t]).toBeCloseTo(scale > 0 ? difference / scale : 0, 9);
        });
      }),
    );
  });

  it('do not depend on level and unit', () => {
    const values = Float64Array.from({ length: 60 }, (_, i) => Math.sin(i) + (i === 41 ? 5 : 0));
    const other = values.map((value) => 1e6 - 250 * value);
    const [own, moved] = [localDeviations(values), localDeviations(other)];
    own.forEach((value, t) => {
      expect(moved[t]).toBeCloseTo(-value, 4);
    });
  });

  it('tell a lone spike where most samples are equal, and nothing of a constant series', () => {
    const values = new Float64Array(50);
    values[31] = -4;
    const found = localDeviations(values);
    expect(found[31]).toBeCloseTo(-50 / Math.sqrt(Math.PI / 2), 9);
    expect(found.filter((value) => value !== 0)).toHaveLength(1);
    expect(localDeviations(new Float64Array(20).fill(7)).every((value) => value === 0)).toBe(true);
  });

  it('are refused for gaps and for a single sample', () => {
    expect(() => localDeviations(Float64Array.of(1, Number.NaN, 3))).toThrow(DataError);
    expect(() => localDeviations(Float64Array.of(1))).toThrow(ConfigError);
  });
});

describe('distances to the most similar other stretch', () => {
  it('are the least Euclidean distances without levels, over their median', () => {
    fc.assert(
      fc.property(series, fc.integer({ min: 2, max: 6 }), (values, window) => {
        const count = values.length - window + 1;
        const flat = Array.from({ length: count }, (_, i) => {
          const part = [...values.subarray(i, i + window)];
          const mean = part.reduce((sum, value) => sum + value, 0) / window;
          return part.map((value) => value - mean);
        });
        const least = flat.map((own, i) =>
          Math.min(
            ...flat.flatMap((other, j) =>
              Math.abs(i - j) < window ? [] : [Math.hypot(...own.map((value, k) => value - other[k]!))],
            ),
          ),
        );
        const usual = middle(least) || least.reduce((sum, value) => sum + value, 0) / count;
        const found = neighbourDistances(values, window);
        values.forEach((_, t) => {
          const at = Math.min(count - 1, Math.max(0, t - (window >> 1)));
          expect(found[t]).toBeCloseTo(usual > 1e-9 ? least[at]! / usual : found[t]!, 5);
        });
      }),
      { numRuns: 30 },
    );
  });

  it('are largest where one cycle has another shape', () => {
    const values = Float64Array.from({ length: 240 }, (_, i) =>
      i >= 120 && i < 136
        ? Math.abs(((i % 16) - 8) / 8)
        : Math.sin((2 * Math.PI * i) / 16) + 0.01 * Math.cos(i * i),
    );
    const found = neighbourDistances(values, 12);
    const largest = found.indexOf(Math.max(...found));
    expect(largest).toBeGreaterThanOrEqual(114);
    expect(largest).toBeLessThan(142);
  });

  it('are 1 throughout where every stretch has an equal', () => {
    expect([...neighbourDistances(new Float64Array(30).fill(2), 5)]).toEqual(Array(30).fill(1));
  });

  it('are refused for gaps and for windows of no or too much length', () => {
    const values = Float64Array.from({ length: 20 }, (_, i) => i % 3);
    expect(() => neighbourDistances(values, 7)).toThrow(/at most a third of 20 samples/);
    expect(() => neighbourDistances(values, 1)).toThrow(ConfigError);
    expect(() => neighbourDistances(values.with(3, Infinity), 4)).toThrow(DataError);
  });
});
