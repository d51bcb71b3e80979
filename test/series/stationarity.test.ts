import { describe, expect, it } from 'vitest';
import { ConfigError, DataError } from '../../src/ground/errors.ts';
import { Random } from '../../src/ground/random.ts';
import { leastSquares, stationarityTest, unitRootTest } from '../../src/series/stationarity.ts';
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

const normal = new Random(5, 'least-squares');
const column = (n: number): Float64Array => Float64Array.from({ length: n }, () => normal.normal());
const combine = (parts: readonly (readonly [number, Float64Array])[]): Float64Array =>
  parts[0]![1].map((_, i) => parts.reduce((sum, [weight, own]) => sum + weight * own[i]!, 0));

/** Σ (y − X·b)², straight from the definition. */
const left = (columns: readonly Float64Array[], b: Float64Array, y: Float64Array): number =>
  y.reduce(
    (sum, value, i) => sum + (value - columns.reduce((fit, own, c) => fit + b[c]! * own[i]!, 0)) ** 2,
    0,
  );

describe('least squares', () => {
  const [a, b, c, noise] = [column(60), column(60), column(60), column(60)] as [
    Float64Array,
    Float64Array,
    Float64Array,
    Float64Array,
  ];
  const y = combine([
    [2, a],
    [-0.5, b],
    [3, c],
    [0.1, noise],
  ]);

  it('leaves residuals that are at right angles to every column, for every nested fit', () => {
    for (let p = 0; p <= 3; p++) {
      const columns = [a, b, c].slice(0, p);
      const { coefficients, residualSquares, rank } = leastSquares(columns, y);
      expect(rank).toBe(p);
      const rest = y.map(
        (value, i) => value - columns.reduce((sum, own, k) => sum + coefficients[k]! * own[i]!, 0),
      );
      for (const own of columns)
        expect(Math.abs(own.reduce((sum, x, i) => sum + x * rest[i]!, 0))).toBeLessThan(1e-11);
      const nested = leastSquares([a, b, c], y).residualSquares[p]!;
      expect(nested / residualSquares[p]!).toBeCloseTo(1, 11);
      expect(residualSquares[p]! / left(columns, coefficients, y)).toBeCloseTo(1, 11);
    }
  });

  it('finds the same by reflections, to which nearly dependent columns and exact fits lead', () => {
    const plain = leastSquares([a, b, c], y);
    for (const small of [1e-3, 1e-6]) {
      // The column stands for c: c = (near − a) / small.
      const near = combine([
        [1, a],
        [small, c],
      ]);
      const { coefficients, residualSquares, variances } = leastSquares([a, b, near], y);
      const [one, two, three] = coefficients as unknown as [number, number, number];
      const got = [one + three, two, three * small];
      const tolerance = 1e-15 / small ** 1.2;
      expect(worst(got, [...plain.coefficients])).toBeLessThan(tolerance);
      expect(Math.abs(Math.sqrt(variances[2]!) * small - Math.sqrt(plain.variances[2]!))).toBeLessThan(
        tolerance,
      );
      expect(Math.abs(residualSquares[3]! - plain.residualSquares[3]!)).toBeLessThan(1e-8);
    }
    const exact = leastSquares(
      [a, b],
      combine([
        [4, a],
        [1, b],
      ]),
    );
    expect(worst(exact.coefficients, [4, 1])).toBeLessThan(1e-13);
    expect(exact.residualSquares[2]).toBeLessThan(1e-24);
  });

  it('leaves out a column that depends on those before it', () => {
    const sum = combine([
      [1, a],
      [1, b],
    ]);
    const { coefficients, variances, rank } = leastSquares([a, b, sum, c], y);
    expect(rank).toBe(3);
    expect(coefficients[2]).toBe(0);
    expect(variances[2]).toBeNaN();
    const plain = leastSquares([a, b, c], y);
    const others = [coefficients[0]!, coefficients[1]!, coefficients[3]!];
    expect(worst(others, [...plain.coefficients])).toBeLessThan(1e-12);
  });
});
