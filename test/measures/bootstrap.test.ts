import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { DataError } from '../../src/ground/errors.ts';
import { Random } from '../../src/ground/random.ts';
import {
  estimate,
  estimates,
  holm,
  intervalOf,
  pairedDifference,
  resampledDifference,
  type ScoreColumn,
  SeedBootstrap,
  setEstimates,
} from '../../src/measures/bootstrap.ts';

const normals = (n: number, mean: number, seed: number) => {
  const random = new Random(seed, 'test');
  return Array.from({ length: n }, () => random.normal(mean, 1));
};

describe('a bootstrap estimate', () => {
  test('has the mean, the count, and about the interval of the normal approximation', () => {
    const values = normals(400, 3, 1);
    const { mean, ci95, n } = estimate(values);
    const average = values.reduce((a, b) => a + b, 0) / 400;
    const error = Math.sqrt(values.reduce((a, b) => a + (b - average) ** 2, 0) / 400 / 400);
    expect(n).toBe(400);
    expect(mean).toBeCloseTo(average, 12);
    expect(ci95[0]).toBeGreaterThan(average - 2.15 * error);
    expect(ci95[0]).toBeLessThan(average - 1.77 * error);
    expect(ci95[1]).toBeLessThan(average + 2.15 * error);
    expect(ci95[1]).toBeGreaterThan(average + 1.77 * error);
  });

  test('repeats with the same seed and differs with another', () => {
    const values = normals(50, 0, 2);
    expect(estimate(values, { seed: 5 })).toEqual(estimate(values, { seed: 5 }));
    expect(estimate(values, { seed: 5 }).ci95).not.toEqual(estimate(values, { seed: 6 }).ci95);
  });

  test('covers the true mean in about 95 of 100 experiments', () => {
    let covered = 0;
    for (let experiment = 0; experiment < 200; experiment++) {
      const { ci95 } = estimate(normals(80, 1, 100 + experiment), { resamples: 400 });
      if (ci95[0] <= 1 && 1 <= ci95[1]) covered++;
    }
    expect(covered).toBeGreaterThanOrEqual(180);
    expect(covered).toBeLessThanOrEqual(199);
  });

  test('of equal values has no width, not even by rounding', () => {
    expect(estimate([0.1, 0.1, 0.1, 0.1, 0.1, 0.1])).toEqual({ mean: 0.1, ci95: [0.1, 0.1], n: 6 });
    expect(estimate([0.7])).toEqual({ mean: 0.7, ci95: [0.7, 0.7], n: 1 });
  });

  test('lies within the values', () => {
    fc.assert(
      fc.property(
        fc.array(fc.double({ min: -1, max: 2, noNaN: true }), { minLength: 1, maxLength: 12 }),
        (values) => {
          const { ci95 } = estimate(values, { resamples: 200 });
          expect(ci95[0]).toBeLessThanOrEqual(ci95[1]);
          expect(ci95[0]).toBeGreaterThanOrEqual(Math.min(...values) - 1e-12);
          expect(ci95[1]).toBeLessThanOrEqual(Math.max(...values) + 1e-12);
        },
      ),
      { numRuns: 50 },
    );
  });

  test('of several columns is what each column gives alone', () => {
    const a = normals(30, 0, 3);
    const b = normals(30, 5, 4);
    expect(estimates({ a, b })).toEqual({ a: estimate(a), b: estimate(b) });
  });

  const refused: [string, Record<string, number[]>][] = [
    ['no value', { a: [] }],
    ['NaN', { a: [1, Number.NaN] }],
    ['columns of two lengths', { a: [1, 2], b: [1] }],
  ];
  test.each(refused)('refuses %s', (_, columns) => {
    expect(() => estimates(columns)).toThrow(DataError);
  });
});

describe('estimates of a whole set', () => {
  const values = normals(40, 2, 9);
  const meanOf = (indices: ArrayLike<number>) =>
    Array.from(indices, (i) => values[i]!).reduce((sum, value) => sum + value, 0) / indices.length;

  test('draw the series that means draw', () => {
    const options = { seed: 3, resamples: 300 };
    const { mean } = setEstimates(40, (indices) => ({ mean: meanOf(indices) }), options);
    const plain = estimate(values, options);
    expect(mean.mean).toBeCloseTo(plain.mean, 12);
    expect(mean.ci95[0]).toBeCloseTo(plain.ci95[0], 12);
    expect(mean.ci95[1]).toBeCloseTo(plain.ci95[1], 12);
    expect(mean.n).toBe(40);
  });

  test('leave out resamples on which a number is not defined', () => {
    // Defined only where series 0 is drawn: then it is how often, at least once.
    const often = (indices: ArrayLike<number>) => {
      const times = Array.from(indices).filter((i) => i === 0).length;
      return { times: times === 0 ? Number.NaN : times };
    };
    const { times } = setEstimates(5, often, { resamples: 500 });
    expect(times).toMatchObject({ mean: 1, n: 5 });
    expect(times.ci95[0]).toBe(1);
    expect(times.ci95[1]).toBeGreaterThanOrEqual(3);
  });

  test('are refused where there is no series, or a number is not defined on the set', () => {
    expect(() => setEstimates(0, () => ({ a: 1 }))).toThrow(DataError);
    expect(() => setEstimates(3, () => ({ odd: Number.NaN }))).toThrow('estimate of odd');
  });
});

describe('a paired difference', () => {
  test('is a − b, and far narrower than the spread of either', () => {
    const before = normals(100, 0, 7);
    const jitter = new Random(1, 'jitter');
    const after = before.map((value) => value + 0.1 + 0.05 * jitter.normal());
    const gain = pairedDifference(after, before);
    expect(gain.mean).toBeCloseTo(0.1, 1);
    expect(gain.ci95[0]).toBeGreaterThan(0.08);
    expect(gain.ci95[1]).toBeLessThan(0.12);
    const loss = pairedDifference(before, after);
    expect(loss.mean).toBeCloseTo(-gain.mean, 12);
  });

  test('refuses lists of different lengths', () => {
    expect(() => pairedDifference([1, 2], [1])).toThrow(DataError);
  });
});

const SERIES = 40;

/** Values of policies of some seeds on the same series: an offset of the seed, one of the series, and noise. */
function policies(
  seeds: number,
  spread: { readonly seed: number; readonly series: number; readonly noise: number },
  key: number,
  mean = 0,
): ScoreColumn[] {
  const random = new Random(key, 'policies', seeds);
  const normal = (): number =>
    Math.sqrt(-2 * Math.log(random.uniform() + 1e-12)) * Math.cos(2 * Math.PI * random.uniform());
  const series = Array.from({ length: SERIES }, () => spread.series * normal());
  return Array.from({ length: seeds }, () => {
    const own = spread.seed * normal();
    return series.map((value) => mean + own + value + spread.noise * normal());
  });
}

const width = ([low, high]: readonly [number, number]): number => high - low;

describe('intervals over seeds and series', () => {
  test('have the standard error that an analysis of variance gives', () => {
    const spread = { seed: 1, series: 5, noise: 2 };
    const columns = policies(6, spread, 3);
    const bootstrap = new SeedBootstrap(SERIES, { resamples: 8000 });
    const { draws, mean } = bootstrap.overSeeds(columns);
    const rows = columns.map((one) => one.reduce<number>((sum, value) => sum + value!, 0) / SERIES);
    const all = rows.reduce((sum, value) => sum + value, 0) / 6;
    const bySeries = Array.from(
      { length: SERIES },
      (_, c) => columns.reduce((sum, one) => sum + one[c]!, 0) / 6,
    );
    const variance = (values: readonly number[]): number =>
      values.reduce((sum, value) => sum + (value - all) ** 2, 0) / (values.length - 1);
    // Random effects of both; the bootstrap over series has (C − 1)/C of its part.
    const expected = variance(rows) / 6 + variance(bySeries) / SERIES;
    const found = [...draws].reduce((sum, value) => sum + (value - mean) ** 2, 0) / draws.length;
    expect(mean).toBeCloseTo(all, 12);
    expect(found / expected).toBeGreaterThan(0.9);
    expect(found / expected).toBeLessThan(1.25);
  });

  test('cover the truth about as often as they say, more seldom where seeds alone differ', () => {
    const covered = (spread: Parameters<typeof policies>[1]): number => {
      let count = 0;
      for (let key = 0; key < 200; key++) {
        const bootstrap = new SeedBootstrap(SERIES, { resamples: 200, seed: key });
        const { ci95 } = intervalOf(bootstrap.overSeeds(policies(5, spread, key, 0.5)));
        if (ci95[0] <= 0.5 && ci95[1] >= 0.5) count++;
      }
      return count / 200;
    };
    expect(covered({ seed: 0.3, series: 6, noise: 2 })).toBeGreaterThan(0.9);
    expect(covered({ seed: 1, series: 0.1, noise: 0.1 })).toBeGreaterThan(0.8);
  });

  test('of one seed are those of the series alone, and ignore series without a value', () => {
    const bootstrap = new SeedBootstrap(4, { resamples: 500 });
    const one = bootstrap.overSeeds([[1, null, 1, 1]]);
    expect(intervalOf(one)).toEqual({ mean: 1, ci95: [1, 1] });
    expect(bootstrap.overSeeds([[0, 1, 0, 1]]).mean).toBe(0.5);
    expect(() => bootstrap.ofSeries([null, null, null, null])).toThrow('no series has a value');
    expect(() => bootstrap.ofSeries([1])).toThrow('got 1 values for 4 series');
  });

  test('of a difference are paired: what seeds and series share does not blur it', () => {
    const spread = { seed: 2, series: 10, noise: 0.1 };
    const bootstrap = new SeedBootstrap(SERIES, { resamples: 500 });
    const base = policies(5, spread, 7);
    const better = base.map((column, s) =>
      column.map((value, c) => value! + 0.3 + 0.05 * Math.sin(s + 3 * c)),
    );
    const [a, b] = [bootstrap.overSeeds(better), bootstrap.overSeeds(base)];
    const apart = resampledDifference(a, b);
    expect(apart.mean).toBeCloseTo(0.3, 2);
    expect(width(apart.ci95)).toBeLessThan(0.05);
    expect(width(intervalOf(a).ci95)).toBeGreaterThan(1);
    expect(apart.p).toBeCloseTo(2 / 501, 12);
    expect(resampledDifference(b, b).p).toBe(1);
  });

  test('are the same again, and others with another seed', () => {
    const columns = policies(3, { seed: 1, series: 1, noise: 1 }, 1);
    const at = (seed: number) =>
      intervalOf(new SeedBootstrap(SERIES, { resamples: 100, seed }).overSeeds(columns));
    expect(at(4)).toEqual(at(4));
    expect(at(4)).not.toEqual(at(5));
  });
});

describe("Holm's correction", () => {
  // statsmodels 0.14: multipletests([0.01, 0.04, 0.03, 0.005], 0.05, 'holm')[0] is [True, False, False, True]
  test('rejects as statsmodels does', () => {
    expect(holm([0.01, 0.04, 0.03, 0.005])).toEqual([true, false, false, true]);
    expect(holm([0.001, 0.04])).toEqual([true, true]);
    expect(holm([])).toEqual([]);
  });

  test('stops at the first that it keeps', () => {
    expect(holm([0.02, 0.026, 0.03])).toEqual([false, false, false]);
  });
});
