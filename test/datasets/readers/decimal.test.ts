import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { decimal } from '../../../datasets/readers/decimal.ts';

const read = (text: string): number => {
  const bytes = Buffer.from(`,${text},`, 'latin1');
  return decimal(bytes, 1, 1 + text.length);
};

describe('decimal', () => {
  test('reads every float64 as Number does, however it is written', () => {
    fc.assert(
      fc.property(
        fc.double({ noNaN: true, noDefaultInfinity: true }),
        fc.integer({ min: 0, max: 20 }),
        (value, digits) => {
          for (const text of [String(value), value.toExponential(digits)])
            expect(read(text)).toBe(Number(text));
          if (Math.abs(value) < 1e20) expect(read(value.toFixed(digits))).toBe(Number(value.toFixed(digits)));
        },
      ),
      { numRuns: 2000 },
    );
  });

  test('reads any digits, point and exponent as Number does', () => {
    const digits = fc.stringMatching(/^[+-]?(\d{1,20}\.?\d{0,20}|\.\d{1,20})([eE][+-]?\d{1,3})?$/);
    fc.assert(
      fc.property(digits, (text) => {
        expect(read(text)).toBe(Number(text));
      }),
      { numRuns: 2000 },
    );
  });

  test.each([
    '',
    '-',
    '.',
    'e5',
    '1e',
    '1e+',
    '1.2.3',
    '--1',
    '1,5',
    ' 1',
    '1 ',
    '0x10',
    'NaN',
    'inf',
    '1_0',
    '1f',
  ])('takes %j for no number', (text) => {
    expect(read(text)).toBeNaN();
  });

  test('keeps the sign of zero, and shows what is too large as infinite', () => {
    expect(Object.is(read('-0'), -0)).toBe(true);
    expect(Object.is(read('-0.000e5'), -0)).toBe(true);
    expect(read('-1e999')).toBe(Number.NEGATIVE_INFINITY);
    expect(read('1e99999999999999999999')).toBe(Number.POSITIVE_INFINITY);
    expect(read('1e-99999999999999999999')).toBe(0);
  });
});
