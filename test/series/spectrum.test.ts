import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ConfigError, DataError } from '../../src/ground/errors.ts';
import {
  dominantIndex,
  dominantPeriod,
  type PowerOptions,
  periodogram,
  refineFrequency,
  seriesOfSpectrum,
  slidingPeriods,
  spectrogram,
  spectrum,
  type WindowName,
  welch,
  windowOf,
} from '../../src/series/spectrum.ts';
import { moments } from '../../src/series/stats.ts';
import { analysis, series, seriesOf, worst } from './golden.ts';

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

  it.each(analysis.periodogram.map((row) => [row.series, row] as const))(
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

describe('periodogram', () => {
  it.each(
    analysis.periodogram.flatMap((row) =>
      'scipy_periodogram_constant' in row ? [[row.series, row] as const] : [],
    ),
  )('agrees with SciPy on %s', (name, row) => {
    const values = seriesOf(name);
    expect(worst(periodogram(values).power, row.scipy_periodogram_constant!)).toBeLessThan(1e-9);
    expect(
      worst(periodogram(values, { detrend: 'linear' }).power, row.scipy_periodogram_linear!),
    ).toBeLessThan(1e-9);
  });

  it.each(analysis.periodogram.map((row) => [row.series, row] as const))(
    'ranks the frequencies of %s as NumPy does, with the same share of power in the first',
    (name, row) => {
      const values = seriesOf(name);
      const { power, frequencies } = periodogram(values, { scaling: 'spectrum' });
      if (row.share_of_power === null) {
        expect(power.every((value) => value === 0)).toBe(true);
        return;
      }
      // The highest frequency of an even length stands for itself alone: as a coefficient it weighs twice.
      const even = values.length % 2 === 0;
      const squares = power.map((value, k) => (even && k === power.length - 1 ? 2 * value : value));
      const ranked = [...squares.keys()].slice(1).sort((a, b) => squares[b]! - squares[a]!);
      expect(ranked.slice(0, 3)).toEqual(row.top3_indices);
      const total = squares.reduce((sum, value) => sum + value, 0);
      expect(squares[row.dominant_index]! / total).toBeCloseTo(row.share_of_power, 9);
      expect(frequencies[row.dominant_index]).toBeCloseTo(row.dominant_freq, 11);
      const flat = periodogram(values, { detrend: 'linear' }).power.subarray(1);
      expect(flat.indexOf(Math.max(...flat)) + 1).toBe(row.dominant_index_linear_detrend);
    },
  );

  it('holds the variance of the series', () => {
    for (const n of [120, 121]) {
      const values = Float64Array.from({ length: n }, (_, i) => Math.sin(0.3 * i * i) + 0.01 * i);
      const { power, frequencies } = periodogram(values, { rate: 5 });
      const mean = values.reduce((sum, value) => sum + value, 0) / n;
      const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / n;
      expect(power.reduce((sum, value) => sum + value, 0) * frequencies[1]!).toBeCloseTo(variance, 10);
    }
  });
});

describe("Welch's spectrum", () => {
  const optionsOf = (options: Readonly<Record<string, unknown>>): PowerOptions => ({
    ...('window' in options ? { window: options['window'] as WindowName } : {}),
    ...('detrend' in options
      ? { detrend: options['detrend'] === false ? 'none' : (options['detrend'] as 'linear') }
      : {}),
    ...('scaling' in options ? { scaling: options['scaling'] as 'spectrum' } : {}),
  });

  it.each(series.psd.map((row) => [row.series, JSON.stringify(row.options), row] as const))(
    'agrees with SciPy on %s with %s',
    (name, _, row) => {
      const { nperseg, noverlap } = row.options as { nperseg: number; noverlap?: number };
      const overlap = noverlap === undefined ? {} : { overlap: noverlap };
      const own = welch(seriesOf(name), {
        rate: row.fs,
        segment: nperseg,
        ...overlap,
        ...optionsOf(row.options),
      });
      expect(worst(own.frequencies, row.f)).toBeLessThan(1e-12);
      expect(worst(own.power, row.p)).toBeLessThan(1e-12);
    },
  );
});

describe('spectrogram', () => {
  const {
    x,
    fs: rate,
    nperseg: segment,
    noverlap: overlap,
    tukey_const,
    hann_nodetrend,
  } = analysis.spectrogram;
  const values = Float64Array.from(x);

  it.each([
    ['tukey, constant', { window: 'tukey', detrend: 'constant' } as const, tukey_const.psd],
    ['hann, none', { window: 'hann', detrend: 'none' } as const, hann_nodetrend.psd],
  ])('agrees with SciPy: %s', (_, options, psd) => {
    const { power, times, frequencies } = spectrogram(values, { rate, segment, overlap, ...options });
    expect(worst(frequencies.subarray(0, 4), tukey_const.f_head)).toBeLessThan(1e-12);
    expect(worst(times, tukey_const.t)).toBeLessThan(1e-12);
    for (const [f, row] of psd.entries()) {
      for (const [t, expected] of row.entries()) {
        // The reference is written with six significant digits; the smallest powers are differences of larger ones.
        expect(Math.abs(power[t]![f]! - expected)).toBeLessThan(1e-5 * expected + 1e-12);
      }
    }
    expect(power.length).toBe(psd[0]!.length);
  });

  it('has windows that repeat without a seam', () => {
    for (const name of ['hann', 'hamming', 'tukey', 'boxcar'] as const) {
      for (const n of [1, 2, 9, 32]) {
        const window = windowOf(name, n);
        expect(window.length).toBe(n);
        for (let i = 1; i < n; i++) expect(window[i]).toBeCloseTo(window[n - i]!, 12);
      }
    }
  });

  it('refuses gaps, and names segments, overlaps and rates out of range', () => {
    expect(() => spectrogram(values, { segment: 513, overlap: 0 })).toThrow(/1 … 512/);
    expect(() => spectrogram(values, { segment: 64, overlap: 64 })).toThrow(/0 … 63/);
    expect(() => periodogram(values, { rate: 0 })).toThrow(ConfigError);
    expect(() => periodogram(Float64Array.of(1, Number.NaN))).toThrow(DataError);
    expect(() => periodogram(new Float64Array(0))).toThrow(ConfigError);
  });
});

describe('inverse spectrum', () => {
  it.each([1, 2, 3, 8, 9, 25, 64, 100, 101])('gives back the series of %i samples', (n) => {
    const values = Float64Array.from({ length: n }, (_, i) => Math.sin(0.37 * i * i) + 0.02 * i - 0.3);
    expect(worst(seriesOfSpectrum(spectrum(values)), [...values])).toBeLessThan(1e-12);
  });
});
