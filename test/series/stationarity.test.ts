import { describe, expect, it } from 'vitest';
import { ConfigError, DataError } from '../../src/errors.ts';
import { Random } from '../../src/random.ts';
import { stationarityTest, unitRootTest } from '../../src/series/stationarity.ts';
import { analysis, series, seriesOf, worst } from './golden.ts';

const random = new Random(8, 'stationarity');
const noise = Float64Array.from({ length: 150 }, () => random.normal(0.3, 1));

describe('augmented Dickey–Fuller test', () => {
  it.each(series.adf.map((row) => [row.series, row.regression, row.maxLag ?? 'auto', row] as const))(
    'agrees with statsmodels on %s, regression %s, lags %s',
    (name, regression, _, row) => {
      const options = row.maxLag === null ? {} : { maxLag: row.maxLag, autolag: false };
      const test = unitRootTest(seriesOf(name), { regression: regression as 'n' | 'c' | 'ct', ...options })!;
      expect(test.lags).toBe(row.lags);
      expect(test.observations).toBe(row.nobs);
      // An offset of a million costs the reference, which inverts the product matrix, half of its digits.
      const tolerance = name === 'offset_80' ? 1e-6 : 1e-8;
      expect(worst([test.statistic, test.pValue], [row.stat, row.p])).toBeLessThan(tolerance);
      expect(worst(Object.values(test.critical), row.critical)).toBeLessThan(1e-10);
    },
  );

  it.each(
    analysis.summary.flatMap((row) => ('adf' in row && row.adf ? [[row.series, row.adf] as const] : [])),
  )('agrees with an older statsmodels on %s', (name, row) => {
    const test = unitRootTest(seriesOf(name))!;
    expect([test.lags, test.observations]).toEqual([row.lags, row.nobs]);
    expect(worst([test.statistic, test.pValue], [row.stat, row.p])).toBeLessThan(2e-9);
  });

  it('rejects a unit root in noise and keeps it in a random walk', () => {
    let sum = 0;
    expect(unitRootTest(noise)!.pValue).toBeLessThan(0.01);
    expect(unitRootTest(noise.map((value) => (sum += value - 0.3)))!.pValue).toBeGreaterThan(0.05);
  });

  it('does not depend on offset or scale', () => {
    const plain = unitRootTest(noise)!;
    const moved = unitRootTest(noise.map((value) => 1e5 + 37 * value))!;
    expect(moved.lags).toBe(plain.lags);
    expect(moved.statistic).toBeCloseTo(plain.statistic, 7);
  });

  it('is undefined for constants, straight lines and too few samples', () => {
    expect(unitRootTest(new Float64Array(40).fill(0.1))).toBeNull();
    expect(unitRootTest(Float64Array.from({ length: 40 }, (_, i) => 0.3 + 2 * i))).toBeNull();
    for (const regression of ['n', 'c', 'ct'] as const) {
      for (let n = 0; n < 12; n++) {
        const test = unitRootTest(noise.subarray(0, n), { regression });
        if (n < { n: 3, c: 4, ct: 6 }[regression]) expect(test).toBeNull();
        else if (test !== null) expect(Number.isFinite(test.statistic)).toBe(true);
      }
    }
  });

  it('names gaps and lags out of range', () => {
    expect(() => unitRootTest(Float64Array.of(1, 2, Number.NaN, 4))).toThrow(/value 2 of 4 is NaN/);
    expect(() => unitRootTest(noise, { maxLag: 74 })).toThrow(/expected 0 … 73 for 150 samples/);
    expect(() => unitRootTest(noise, { maxLag: 1.5 })).toThrow(ConfigError);
  });
});

describe('KPSS test', () => {
  it.each(series.kpss.map((row) => [row.series, row.regression, row.given ?? 'auto', row] as const))(
    'agrees with statsmodels on %s, regression %s, lags %s',
    (name, regression, _, row) => {
      const given = row.given === null ? {} : { lags: row.given };
      const test = stationarityTest(seriesOf(name), { regression: regression as 'c' | 'ct', ...given })!;
      expect(test.lags).toBe(row.lags);
      expect(worst([test.statistic, test.pValue], [row.stat, row.p])).toBeLessThan(1e-8);
    },
  );

  it.each(
    analysis.summary.flatMap((row) => ('kpss' in row && row.kpss ? [[row.series, row.kpss] as const] : [])),
  )('agrees with an older statsmodels on %s', (name, row) => {
    const test = stationarityTest(seriesOf(name))!;
    expect(test.lags).toBe(row.lags);
    expect(worst([test.statistic, test.pValue], [row.stat, row.p])).toBeLessThan(1e-9);
  });

  it('rejects stationarity of a walk about a constant', () => {
    let sum = 0;
    expect(stationarityTest(noise)!.pValue).toBe(0.1);
    expect(stationarityTest(noise.map((value) => (sum += value)))!.pValue).toBeLessThan(0.05);
  });

  it('is undefined for constants, for lines about a line, and for too few samples', () => {
    const line = Float64Array.from({ length: 40 }, (_, i) => 0.3 + 2 * i);
    expect(stationarityTest(new Float64Array(40).fill(0.1))).toBeNull();
    expect(stationarityTest(line, { regression: 'ct' })).toBeNull();
    expect(stationarityTest(line)).not.toBeNull();
    expect(stationarityTest(noise.subarray(0, 2))).toBeNull();
  });

  it('names gaps and lags out of range', () => {
    expect(() => stationarityTest(Float64Array.of(1, Number.POSITIVE_INFINITY, 2))).toThrow(DataError);
    expect(() => stationarityTest(noise, { lags: 150 })).toThrow(ConfigError);
  });
});
