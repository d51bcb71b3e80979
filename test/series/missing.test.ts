import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { DataError } from '../../src/ground/errors.ts';
import { bridge } from '../../src/series/missing.ts';

const N = Number.NaN;

describe('bridge', () => {
  it('draws straight lines over gaps and holds the ends', () => {
    const { values, missing, gaps, longest } = bridge(Float64Array.of(N, N, 2, 5, N, N, N, 9, N));
    expect([...values]).toEqual([2, 2, 2, 5, 6, 7, 8, 9, 9]);
    expect({ missing, gaps, longest }).toEqual({ missing: 6, gaps: 3, longest: 3 });
  });

  it('gives a whole series back as it is', () => {
    const whole = Float64Array.of(3, 1, 4);
    expect(bridge(whole)).toEqual({ values: whole, missing: 0, gaps: 0, longest: 0 });
    expect(bridge(whole).values).toBe(whole);
  });

  it('leaves every known point as it is, and nothing missing', () => {
    const point = fc.oneof(fc.double({ min: -1e6, max: 1e6, noNaN: true }), fc.constant(N));
    fc.assert(
      fc.property(fc.array(point, { minLength: 1, maxLength: 40 }), (list) => {
        fc.pre(list.some((value) => !Number.isNaN(value)));
        const { values, missing } = bridge(Float64Array.from(list));
        expect(values.every((value) => Number.isFinite(value))).toBe(true);
        list.forEach((value, i) => {
          if (!Number.isNaN(value)) expect(values[i]).toBe(value);
        });
        expect(missing).toBe(list.filter((value) => Number.isNaN(value)).length);
      }),
    );
  });

  it('refuses what cannot be bridged', () => {
    expect(() => bridge(Float64Array.of(N, N))).toThrow(/all 2 points/);
    expect(() => bridge(new Float64Array(0))).toThrow(DataError);
    expect(() => bridge(Float64Array.of(1, Infinity))).toThrow(/value 1 of the series is Infinity/);
  });
});
