import { describe, expect, test } from 'vitest';
import {
  type Column,
  difference,
  holm,
  intervalOf,
  pValue,
  SeedBootstrap,
} from '../../eval/seed-bootstrap.ts';
import { Random } from '../../src/ground/random.ts';

const SERIES = 40;

/** Values of policies of some seeds on the same series: an offset of the seed, one of the series, and noise. */
function policies(
  seeds: number,
  spread: { readonly seed: number; readonly series: number; readonly noise: number },
  key: number,
  mean = 0,
): Column[] {
  const random = new Random(key, 'policies', seeds);
  const normal = (): number =>
    Math.sqrt(-2 * Math.log(random.uniform() + 1e-12)) * Math.cos(2 * Math.PI * random.uniform());
  const series = Array.from({ length: SERIES }, () => spread.series * normal());
  return Array.from({ length: seeds }, () => {
    const own = spread.seed * normal();
    return series.map((value) => mean + own + value + spread.noise * normal());
  });
}

const over = (bootstrap: SeedBootstrap, columns: readonly Column[]) =>
  bootstrap.overSeeds(columns.map((one) => bootstrap.ofSeries(one)));

const width = ([low, high]: readonly [number, number]): number => high - low;

describe('intervals over seeds and series', () => {
  test('have the standard error that an analysis of variance gives', () => {
    const spread = { seed: 1, series: 5, noise: 2 };
    const columns = policies(6, spread, 3);
    const bootstrap = new SeedBootstrap(SERIES, { resamples: 8000 });
    const { draws, mean } = over(bootstrap, columns);
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
        const { ci95 } = intervalOf(over(bootstrap, policies(5, spread, key, 0.5)));
        if (ci95[0] <= 0.5 && ci95[1] >= 0.5) count++;
      }
      return count / 200;
    };
    expect(covered({ seed: 0.3, series: 6, noise: 2 })).toBeGreaterThan(0.9);
    expect(covered({ seed: 1, series: 0.1, noise: 0.1 })).toBeGreaterThan(0.8);
  });

  test('of one seed are those of the series alone, and ignore series without a value', () => {
    const bootstrap = new SeedBootstrap(4, { resamples: 500 });
    const one = over(bootstrap, [[1, null, 1, 1]]);
    expect(intervalOf(one)).toEqual({ mean: 1, ci95: [1, 1] });
    expect(over(bootstrap, [[0, 1, 0, 1]]).mean).toBe(0.5);
    expect(() => bootstrap.ofSeries([null, null, null, null])).toThrow('no series has a value');
    expect(() => bootstrap.ofSeries([1])).toThrow('1 values of 4 series');
  });

  test('of a difference are paired: what seeds and series share does not blur it', () => {
    const spread = { seed: 2, series: 10, noise: 0.1 };
    const bootstrap = new SeedBootstrap(SERIES, { resamples: 500 });
    const base = policies(5, spread, 7);
    const better = base.map((column, s) =>
      column.map((value, c) => value! + 0.3 + 0.05 * Math.sin(s + 3 * c)),
    );
    const [a, b] = [over(bootstrap, better), over(bootstrap, base)];
    const apart = intervalOf(difference(a, b));
    expect(apart.mean).toBeCloseTo(0.3, 2);
    expect(width(apart.ci95)).toBeLessThan(0.05);
    expect(width(intervalOf(a).ci95)).toBeGreaterThan(1);
    expect(pValue(difference(a, b))).toBeCloseTo(2 / 501, 12);
    expect(pValue(difference(b, b))).toBe(1);
  });

  test('are the same again, and others with another seed', () => {
    const columns = policies(3, { seed: 1, series: 1, noise: 1 }, 1);
    const at = (seed: number) =>
      intervalOf(over(new SeedBootstrap(SERIES, { resamples: 100, seed }), columns));
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
