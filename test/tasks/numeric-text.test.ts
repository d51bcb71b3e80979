import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { DataError } from '../../src/ground/errors.ts';
import { numericText } from '../../src/tasks/numeric-text.ts';

const of = (...values: number[]) => Float64Array.from(values);
const text = (...args: Parameters<typeof numericText>) => numericText(...args).text;

describe('numericText', () => {
  it('writes values with the significant digits asked for, without trailing zeros', () => {
    const values = of(0.98712, -1234.567, 0.00012349, 5, -0, 0.1 + 0.2);
    expect(text([values])).toBe('0.987, -1230, 0.000123, 5, 0, 0.3');
    expect(text([values], { digits: 5 })).toBe('0.98712, -1234.6, 0.00012349, 5, 0, 0.3');
    expect(text([of(1e-9, 2.6e30, Number.MAX_VALUE)], { digits: 1 })).toBe(
      '1e-9, 3e+30, 1.7976931348623157e+308',
    );
  });

  it('writes one line per channel, with its name', () => {
    const xyz = [of(1, 2), of(3, 4), of(5, 6)];
    expect(text(xyz)).toBe('0: 1, 2\n1: 3, 4\n2: 5, 6');
    expect(text(xyz, { names: ['x', 'y', 'z'] })).toBe('x: 1, 2\ny: 3, 4\nz: 5, 6');
    expect(text([of(1, 2)], { names: ['power'] })).toBe('power: 1, 2');
  });

  it('names missing values', () => {
    expect(text([of(1, Number.NaN, Infinity, 2)])).toBe('1, nan, nan, 2');
  });

  it('gives back what it was given, at 17 digits', () => {
    const values = fc.array(fc.double({ noNaN: true, noDefaultInfinity: true }), { minLength: 1 });
    fc.assert(
      fc.property(values, (list) => {
        const back = text([Float64Array.from(list)], { digits: 17 })
          .split(', ')
          .map(Number);
        expect(back).toEqual(list.map((value) => value + 0));
      }),
    );
  });

  it('reduces more samples than points to the means of equal blocks', () => {
    expect(text([of(1, 3, 5, 7, 20, 40)], { points: 3 })).toBe('2, 6, 30');
    expect(text([of(1, 3, 5, 7, 20)], { points: 2 })).toBe('2, 10.7');
    expect(text([of(1, Number.NaN, Number.NaN, Number.NaN)], { points: 2 })).toBe('1, nan');
    expect(text([of(1.7e308, 1.7e308)], { points: 1 })).toBe('1.7e+308');
    expect(numericText([of(1, 2)], { points: 9 })).toEqual({ text: '1, 2', points: 2 });
  });

  it('keeps the mean of the series, whatever the number of points that divides it', () => {
    const values = Float64Array.from({ length: 720 }, (_, i) => Math.sin(i / 9) + i / 400);
    const mean = values.reduce((sum, value) => sum + value / 720, 0);
    for (const points of [1, 2, 90, 360]) {
      const parts = text([values], { points, digits: 12 }).split(', ').map(Number);
      expect(parts.length).toBe(points);
      expect(parts.reduce((sum, value) => sum + value / points, 0)).toBeCloseTo(mean, 9);
    }
  });

  it('names what it cannot write', () => {
    expect(() => text([])).toThrow(DataError);
    expect(() => text([of()])).toThrow(/without samples/);
    expect(() => text([of(1, 2), of(1)])).toThrow(/equally long, got 2 and 1/);
    expect(() => text([of(1)], { digits: 0 })).toThrow(/digits: expected an integer from 1 to 17, got 0/);
    expect(() => text([of(1)], { points: 0.5 })).toThrow(/points/);
    expect(() => text([of(1)], { names: ['a', 'b'] })).toThrow(
      /names: expected one for each of 1 channels, got 2/,
    );
  });
});
