import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ConfigError, DataError } from '../../src/ground/errors.ts';
import { decompose, type StlOptions, stl, strengths } from '../../src/series/decompose.ts';
import { autocorrelation, bartlettBands } from '../../src/series/spectrum.ts';
import { analysis, series, seriesOf, worst } from './golden.ts';

const wave = Float64Array.from(
  { length: 130 },
  (_, i) => 3 + 0.02 * i + Math.sin((2 * Math.PI * i) / 11) + ((i * 37) % 17) / 40,
);

describe('autocorrelation', () => {
  it.each(analysis.acf.map((row) => [row.series, row] as const))(
    'agrees with statsmodels on %s',
    (name, row) => {
      const out = autocorrelation(seriesOf(name), { lags: row.nlags, adjusted: row.adjusted });
      expect(worst(out, row.out)).toBeLessThan(1e-9);
    },
  );

  it.each(series.acf.map((row) => [row.series, row] as const))(
    'agrees with statsmodels on %s, bands included',
    (name, row) => {
      const values = seriesOf(name);
      const out = autocorrelation(values, { lags: row.lags, adjusted: row.adjusted });
      expect(worst(out, row.out)).toBeLessThan(1e-11);
      expect(worst(bartlettBands(out, values.length), row.band)).toBeLessThan(1e-11);
    },
  );

  it('ignores offset and scale, and stays within ±1', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: -9, max: 9 }), { minLength: 2, maxLength: 30 }), (list) => {
        const values = Float64Array.from(list);
        fc.pre(new Set(list).size > 1);
        const out = autocorrelation(values, { lags: list.length - 1 });
        expect(out.every((r) => Math.abs(r) <= 1 + 1e-12)).toBe(true);
        // Over all lags the correlations of centred values sum to −½.
        expect(out.slice(1).reduce((sum, r) => sum + r, 0)).toBeCloseTo(-0.5, 10);
        const moved = autocorrelation(
          values.map((value) => 40 - 3 * value),
          { lags: list.length - 1 },
        );
        for (const [k, r] of out.entries()) expect(moved[k]).toBeCloseTo(r, 10);
      }),
    );
  });

  it('gives the sums of products at many lags too, where it is a transform', () => {
    const values = Float64Array.from({ length: 777 }, (_, i) => Math.sin(i / 9) + ((i * 53) % 31) / 20 + 40);
    const mean = values.reduce((sum, value) => sum + value, 0) / 777;
    const product = (k: number): number =>
      values.subarray(k).reduce((sum, value, t) => sum + (value - mean) * (values[t]! - mean), 0);
    for (const adjusted of [false, true]) {
      const out = autocorrelation(values, { lags: 700, adjusted });
      const worth = out.map((_, k) => (product(k) / product(0)) * (adjusted ? 777 / (777 - k) : 1));
      expect(worst(out, [...worth])).toBeLessThan(1e-11);
    }
  });

  it('is undefined for a constant, and names lags and gaps it cannot use', () => {
    expect(autocorrelation(new Float64Array(9).fill(0.1), { lags: 2 })).toEqual(
      new Float64Array(3).fill(Number.NaN),
    );
    expect(() => autocorrelation(wave, { lags: 130 })).toThrow(/0 … 129/);
    expect(() => autocorrelation(Float64Array.of(1, Number.NaN))).toThrow(DataError);
    expect(() => bartlettBands(wave, 130, 0)).toThrow(ConfigError);
  });
});

describe('classical decomposition', () => {
  it.each(
    analysis.decomposition
      .filter((row) => row.kind.startsWith('seasonal_decompose'))
      .map((row) => [row.series, row] as const),
  )('agrees with statsmodels on %s', (name, row) => {
    const parts = decompose(seriesOf(name), row.period);
    expect(worst(parts.trend, row.trend)).toBeLessThan(1e-9);
    expect(worst(parts.seasonal, row.seasonal)).toBeLessThan(1e-9);
    expect(worst(parts.residual, row.resid)).toBeLessThan(1e-9);
  });

  it.each(series.decompose.map((row) => [row.series, row.model, row.period, row] as const))(
    'agrees with statsmodels on %s, %s, period %i',
    (name, model, period, row) => {
      const parts = decompose(seriesOf(name), period, model as 'additive' | 'multiplicative');
      expect(worst(parts.trend, row.trend)).toBeLessThan(1e-11);
      expect(worst(parts.seasonal, row.seasonal)).toBeLessThan(1e-11);
      expect(worst(parts.residual, row.residual)).toBeLessThan(1e-11);
    },
  );

  it('needs two whole periods, and positive values to multiply', () => {
    expect(() => decompose(wave, 66)).toThrow(/2 … 65/);
    expect(() =>
      decompose(
        wave.map((value, i) => (i === 7 ? 0 : value)),
        11,
        'multiplicative',
      ),
    ).toThrow(/value 7 is 0/);
    expect(() =>
      decompose(
        wave.map((value, i) => (i === 7 ? Number.NaN : value)),
        11,
      ),
    ).toThrow(DataError);
  });
});

describe('STL', () => {
  it.each(
    analysis.decomposition
      .filter((row) => row.kind === 'STL')
      .map((row) => [row.series, row.robust, row] as const),
  )('agrees with statsmodels on %s, robust %s', (name, robust, row) => {
    const parts = stl(seriesOf(name), { period: row.period, robust: robust === true });
    expect(worst(parts.trend, row.trend)).toBeLessThan(1e-9);
    expect(worst(parts.seasonal, row.seasonal)).toBeLessThan(1e-9);
    expect(worst(parts.residual, row.resid!)).toBeLessThan(1e-9);
    if (row.weights) expect(worst(parts.weights, row.weights)).toBeLessThan(1e-7);
  });

  const optionsOf = (options: Readonly<Record<string, number>>): StlOptions => {
    const names: Readonly<Record<string, keyof StlOptions>> = {
      low_pass: 'lowPass',
      seasonal_deg: 'seasonalDegree',
      trend_deg: 'trendDegree',
      low_pass_deg: 'lowPassDegree',
      seasonal_jump: 'seasonalJump',
      trend_jump: 'trendJump',
      low_pass_jump: 'lowPassJump',
    };
    const entries = Object.entries(options).map(([key, value]) => [names[key] ?? key, value]);
    return Object.fromEntries(entries) as StlOptions;
  };

  it.each(series.stl.map((row) => [row.series, JSON.stringify(row.options), row] as const))(
    'agrees with statsmodels on %s with %s',
    (name, _, row) => {
      const parts = stl(seriesOf(name), { ...optionsOf(row.options), robust: row.robust });
      expect(worst(parts.trend, row.trend)).toBeLessThan(1e-8);
      expect(worst(parts.seasonal, row.seasonal)).toBeLessThan(1e-8);
      if (row.weights !== null) expect(worst(parts.weights, row.weights)).toBeLessThan(1e-6);
    },
  );

  it('adds up to the series, follows offset and scale, and leaves a constant to the trend', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: -20, max: 20 }), { minLength: 12, maxLength: 60 }),
        fc.integer({ min: 2, max: 6 }),
        fc.boolean(),
        (list, period, robust) => {
          const values = Float64Array.from(list);
          const { trend, seasonal, residual, weights } = stl(values, {
            period,
            robust,
            inner: 1,
            outer: robust ? 2 : 0,
          });
          for (const [i, value] of values.entries()) {
            expect(trend[i]! + seasonal[i]! + residual[i]!).toBeCloseTo(value, 10);
            expect(weights[i]).toBeGreaterThanOrEqual(0);
            expect(weights[i]).toBeLessThanOrEqual(1);
          }
        },
      ),
      { numRuns: 60 },
    );
    const moved = stl(
      wave.map((value) => 500 - 4 * value),
      { period: 11 },
    );
    const plain = stl(wave, { period: 11 });
    expect(worst(moved.seasonal, [...plain.seasonal.map((value) => -4 * value)])).toBeLessThan(1e-10);
    const flat = stl(new Float64Array(30).fill(7), { period: 5, robust: true });
    expect(worst(flat.trend, Array(30).fill(7))).toBeLessThan(1e-13);
    expect(worst(flat.seasonal, Array(30).fill(0))).toBeLessThan(1e-13);
  });

  it('measures how much of the variance season and trend hold', () => {
    const { trend, seasonal } = strengths(stl(wave, { period: 11 }));
    expect(seasonal).toBeGreaterThan(0.9);
    expect(trend).toBeGreaterThan(0.8);
    const noise = Float64Array.from({ length: 200 }, (_, i) => ((i * i * 7919) % 1013) / 1013);
    expect(strengths(decompose(noise, 11)).seasonal).toBeLessThan(0.4);
  });

  it('names what it cannot work with', () => {
    expect(() => stl(wave, { period: 66 })).toThrow(/at most 65/);
    expect(() => stl(wave, { period: 11, seasonal: 8 })).toThrow(/STL seasonal: got 8, expected an odd/);
    expect(() => stl(wave, { period: 11, trend: 11 })).toThrow(/≥ 12/);
    expect(() => stl(wave, { period: 11, trendJump: 0 })).toThrow(ConfigError);
    expect(() => stl(Float64Array.of(1, 2, Number.NaN, 4), { period: 2 })).toThrow(DataError);
  });
});
