import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../src/ground/errors.ts';
import { savgol, savgolWeights } from '../../src/series/savgol.ts';
import golden from '../golden/analysis.json' with { type: 'json' };

const seriesOf = (name: string): Float64Array =>
  Float64Array.from((golden.series as Record<string, number[]>)[name]!);

describe('Savitzky–Golay filter', () => {
  it.each(golden.savgol.cases.map((row) => [row.series, row.mode, row.out] as const))(
    'agrees with SciPy on %s with %s edges',
    (name, mode, out) => {
      const filtered = savgol(seriesOf(name), {
        window: golden.savgol.window,
        order: golden.savgol.polyorder,
        edges: mode as 'interp' | 'nearest' | 'mirror',
      });
      expect(filtered.length).toBe(out.length);
      for (const [i, expected] of out.entries()) expect(filtered[i]).toBeCloseTo(expected, 8);
    },
  );

  it.each(golden.savgol.other.map((row) => [row.window, row.polyorder, row] as const))(
    'agrees with SciPy for window %i, order %i',
    (window, order, row) => {
      const derivative = 'deriv' in row ? (row.deriv as number) : 0;
      const filtered = savgol(seriesOf(row.series), { window, order, derivative });
      for (const [i, expected] of row.out.entries()) expect(filtered[i]).toBeCloseTo(expected, 8);
    },
  );

  it('has the published centre coefficients for window 21, order 2', () => {
    const middle = savgolWeights(21, 2, 0).subarray(10 * 21, 11 * 21);
    for (const [i, expected] of golden.savgol.centre_coeffs.entries())
      expect(middle[i]).toBeCloseTo(expected, 12);
  });

  it('reproduces polynomials up to its order, and their derivatives, edges included', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 25 }),
        fc.integer({ min: 1, max: 5 }),
        fc.array(fc.integer({ min: -5, max: 5 }), { minLength: 6, maxLength: 6 }),
        (half, order, coefficients) => {
          fc.pre(order < 2 * half + 1);
          const at = (i: number) => (i - 30) / 20;
          const values = Float64Array.from({ length: 60 }, (_, i) =>
            coefficients.slice(0, order + 1).reduce((sum, c, k) => sum + c * at(i) ** k, 0),
          );
          const window = 2 * half + 1;
          const smooth = savgol(values, { window, order });
          const slope = savgol(values, { window, order, derivative: 1 });
          for (let i = 0; i < 60; i++) {
            expect(smooth[i]).toBeCloseTo(values[i]!, 6);
            const exact = coefficients
              .slice(0, order + 1)
              .reduce((sum, c, k) => sum + (k === 0 ? 0 : (c * k * at(i) ** (k - 1)) / 20), 0);
            expect(slope[i]).toBeCloseTo(exact, 6);
          }
        },
      ),
      { numRuns: 40 },
    );
  });

  it('names the window, order or length it cannot work with', () => {
    const values = new Float64Array(10);
    expect(() => savgol(values, { window: 4, order: 2 })).toThrow(ConfigError);
    expect(() => savgol(values, { window: 5, order: 5 })).toThrow(/0 … 4/);
    expect(() => savgol(values, { window: 11, order: 2 })).toThrow(/at most 10/);
    expect(() => savgol(values, { window: 5, order: 2, derivative: -1 })).toThrow(ConfigError);
  });
});
