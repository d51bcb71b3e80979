import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  dominantIndex,
  dominantPeriod,
  refineFrequency,
  slidingPeriods,
  spectrum,
} from '../../src/series/spectrum.ts';
import { moments } from '../../src/series/stats.ts';
import golden from '../golden/analysis.json' with { type: 'json' };

const seriesOf = (name: string): Float64Array =>
  Float64Array.from((golden.series as Record<string, number[]>)[name]!);

/** The transform by its definition. */
function direct(values: Float64Array): { re: number[]; im: number[] } {
  const n = values.length;
  const re: number[] = [];
  const im: number[] = [];
  for (let k = 0; k <= n / 2; k++) {
    let sumRe = 0;
    let sumIm = 0;
    for (let i = 0; i < n; i++) {
      const angle = (2 * Math.PI * ((k * i) % n)) / n;
      sumRe += values[i]! * Math.cos(angle);
      sumIm -= values[i]! * Math.sin(angle);
    }
    re.push(sumRe);
    im.push(sumIm);
  }
  return { re, im };
}

const wave = (n: number): Float64Array =>
  Float64Array.from({ length: n }, (_, i) => Math.sin(0.37 * i * i) + 0.02 * i - 0.3);

describe('spectrum', () => {
  it.each([1, 2, 3, 5, 8, 12, 31, 64, 99, 100, 250])('is the Fourier transform for %i samples', (n) => {
    const values = wave(n);
    const { re, im } = spectrum(values);
    const expected = direct(values);
    expect(re.length).toBe(Math.floor(n / 2) + 1);
    for (let k = 0; k < re.length; k++) {
      expect(re[k]).toBeCloseTo(expected.re[k]!, 9);
      expect(im[k]).toBeCloseTo(expected.im[k]!, 9);
    }
  });

  it.each(golden.periodogram.map((row) => [row.series, row] as const))(
    'agrees with NumPy on %s',
    (name, row) => {
      const values = seriesOf(name);
      const { mean } = moments(values);
      const transformed = spectrum(values, mean);
      expect(dominantIndex(transformed)).toBe(row.dominant_index);
      expect(dominantPeriod(values, mean)).toBeCloseTo(row.dominant_period, 8);
      const amplitudes: readonly number[] = 'rfft_abs' in row ? (row.rfft_abs as number[]) : [];
      for (const [k, expected] of amplitudes.entries()) {
        expect(Math.hypot(transformed.re[k]!, transformed.im[k]!)).toBeCloseTo(expected, 8);
      }
    },
  );

  it('places a sine between the bins to a tenth of a bin', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 501, max: 5999 }),
        fc.integer({ min: 0, max: 628 }),
        (hundredths, phase) => {
          const cycles = hundredths / 100;
          const values = Float64Array.from({ length: 300 }, (_, i) =>
            Math.sin((2 * Math.PI * cycles * i) / 300 + phase / 100),
          );
          const transformed = spectrum(values, moments(values).mean);
          const refined = refineFrequency(transformed, dominantIndex(transformed));
          expect(Math.abs(refined - cycles)).toBeLessThan(0.1);
        },
      ),
    );
  });
});

describe('sliding dominant period', () => {
  /** Every window on its own, by definition. */
  function reference(values: Float64Array, window: number): { period: number; clear: boolean }[] {
    return Array.from({ length: values.length - window + 1 }, (_, t) => {
      const { re, im } = direct(values.subarray(t, t + window));
      const powers = re.map((value, k) => value * value + im[k]! * im[k]!).slice(1);
      const top = Math.max(...powers);
      const rivals = powers.filter((power) => power > top * (1 - 1e-9)).length;
      return { period: window / (powers.indexOf(top) + 1), clear: rivals === 1 };
    });
  }

  it('is the exact argmax of every window, on noise, waves and level shifts', () => {
    const noise = Float64Array.from({ length: 700 }, (_, i) => (((i * 7919 + 5) * (i + 1)) % 1009) / 1009);
    const mixed = noise.map(
      (value, i) => Math.sin(i / (i > 300 ? 3 : 7)) + 0.3 * value + (i > 550 ? 1000 : 0),
    );
    for (const values of [noise, mixed]) {
      for (const window of [100, 37]) {
        const periods = slidingPeriods(values, window);
        const expected = reference(values, window);
        expect(periods.length).toBe(expected.length);
        for (const [t, { period, clear }] of expected.entries()) if (clear) expect(periods[t]).toBe(period);
      }
    }
  });

  it('stays exact over windows beyond the refresh of its running sums', () => {
    const values = Float64Array.from({ length: 1500 }, (_, i) => Math.sin(i / 5) * (1 + ((i * 31) % 17) / 9));
    const periods = slidingPeriods(values, 100);
    const tail = reference(values.subarray(1000), 100);
    for (const [t, { period, clear }] of tail.entries()) if (clear) expect(periods[1000 + t]).toBe(period);
  });

  it('calls a constant window as long as itself, also after a wave that rounding could leave behind', () => {
    const values = Float64Array.from({ length: 400 }, (_, i) => (i < 150 ? 1e3 * Math.sin(i) : 0.1));
    const periods = slidingPeriods(values, 100);
    expect(periods[0]).toBeLessThan(10);
    expect([...periods.subarray(150)].every((period) => period === 100)).toBe(true);
  });

  it('has no windows in a series shorter than one', () => {
    expect(slidingPeriods(new Float64Array(99), 100).length).toBe(0);
    expect(
      slidingPeriods(
        Float64Array.from({ length: 100 }, (_, i) => i % 4),
        100,
      ),
    ).toEqual(Float64Array.of(4));
  });
});
