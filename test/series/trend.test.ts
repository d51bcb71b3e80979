import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Random } from '../../src/ground/random.ts';
import { mannKendall, slopesOfRank, sortCountingInversions, theilSen } from '../../src/series/trend.ts';
import { analysis, series, seriesOf, worst } from './golden.ts';

const lists = fc.array(fc.integer({ min: -6, max: 6 }), { minLength: 2, maxLength: 40 });

describe('Mann–Kendall test', () => {
  it.each(analysis.mann_kendall.map((row) => [row.series, row] as const))(
    'agrees with the definition on %s',
    (name, row) => {
      const test = mannKendall(seriesOf(name))!;
      const got = [test.s, test.variance, test.z, test.pValue, test.tau, test.tauB];
      expect(worst(got, [row.S, row.var_S, row.z, row.p_two_sided, row.tau, row.tau_b])).toBeLessThan(1e-9);
    },
  );

  it.each(series.trend.map((row) => [row.series, row] as const))(
    'agrees with pyMannKendall on %s',
    (name, row) => {
      const test = mannKendall(seriesOf(name))!;
      const got = [test.s, test.variance, test.z, test.pValue, test.tau, test.tauB];
      expect(worst(got, [row.s, row.variance, row.z, row.p, row.tau, row.tauB])).toBeLessThan(1e-11);
    },
  );

  it('counts pairs, turns its sign with the series, and ignores offset, scale and monotonic maps', () => {
    fc.assert(
      fc.property(lists, (list) => {
        const values = Float64Array.from(list);
        const test = mannKendall(values)!;
        let s = 0;
        for (const [j, later] of list.entries()) {
          for (const earlier of list.slice(0, j)) s += Math.sign(later - earlier);
        }
        expect(test.s).toBe(s);
        expect(mannKendall(values.slice().reverse())!.s).toBe(-s + 0);
        expect(mannKendall(values.map((value) => -value))!.z).toBe(-test.z + 0);
        expect(mannKendall(values.map((value) => 7 + Math.exp(value)))).toEqual(test);
      }),
    );
  });

  it('needs two values, which must be finite', () => {
    expect(mannKendall(Float64Array.of(3))).toBeNull();
    expect(mannKendall(Float64Array.of(3, 1))!.s).toBe(-1);
    expect(() => mannKendall(Float64Array.of(3, Number.NaN))).toThrow(/value 1/);
  });
});

describe('Theil–Sen line', () => {
  it.each(analysis.mann_kendall.map((row) => [row.series, row] as const))(
    'agrees with SciPy on %s',
    (name, row) => {
      const line = theilSen(seriesOf(name))!;
      expect(
        worst([line.slope, line.intercept], [row.theil_sen_slope, row.theil_sen_intercept]),
      ).toBeLessThan(1e-9);
    },
  );

  it.each(series.trend.map((row) => [row.series, row] as const))(
    'agrees with SciPy on %s, interval included',
    (name, row) => {
      const values = seriesOf(name);
      const line = theilSen(values)!;
      const narrow = theilSen(values, 0.6)!;
      const got = [line.slope, line.intercept, line.low, line.high, narrow.low, narrow.high];
      const expected = [row.slope, row.intercept, row.low, row.high, row.low60, row.high60];
      expect(worst(got, expected)).toBeLessThan(1e-11);
    },
  );

  const slopesOf = (values: Float64Array): Float64Array => {
    const slopes: number[] = [];
    for (let i = 0; i < values.length; i++) {
      for (let j = i + 1; j < values.length; j++) slopes.push((values[j]! - values[i]!) / (j - i));
    }
    return Float64Array.from(slopes).sort();
  };

  it.each([
    ['continuous', 0],
    ['rounded to a few levels', 1],
  ])('is the exact median of all slopes where these are not all kept: %s values', (_, digits) => {
    const random = new Random(21, 'slopes');
    for (const n of [900, 701]) {
      const values = Float64Array.from({ length: n }, (_, i) => {
        const value = 0.004 * i + random.normal(0, 2);
        return digits === 0 ? value : Math.round(value);
      });
      const slopes = slopesOf(values);
      const half = slopes.length / 2;
      expect(theilSen(values)!.slope).toBe((slopes[Math.ceil(half) - 1]! + slopes[Math.floor(half)]!) / 2);
      expect(theilSen(values, 0.999)!.low).toBeLessThan(theilSen(values, 0.9)!.low);
    }
  });

  it('shifts with the offset, scales with the scale, adds a line to its slope and shrugs at an outlier', () => {
    fc.assert(
      fc.property(lists, fc.integer({ min: -4, max: 4 }), (list, rise) => {
        const values = Float64Array.from(list);
        const { slope, intercept } = theilSen(values)!;
        expect(theilSen(values.map((value) => 16 + 8 * value))!.slope).toBeCloseTo(8 * slope, 10);
        expect(theilSen(values.map((value) => value + 5))!.intercept).toBeCloseTo(intercept + 5, 10);
        expect(theilSen(values.map((value, i) => value + rise * i))!.slope).toBeCloseTo(slope + rise, 10);
        expect(theilSen(values.slice().reverse())!.slope).toBeCloseTo(-slope, 10);
      }),
    );
    const line = Float64Array.from({ length: 60 }, (_, i) => 1 + i / 4);
    line[33] = 1e6;
    expect(theilSen(line)!.slope).toBe(0.25);
  });

  it('needs two values and a confidence inside (0, 1)', () => {
    expect(theilSen(Float64Array.of(3))).toBeNull();
    expect(() => theilSen(Float64Array.of(3, 1), 1)).toThrow(/\(0, 1\)/);
  });
});

describe('inversions', () => {
  it('are counted by a sort', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: -9, max: 9 }), { maxLength: 70 }), (list) => {
        const keys = Float64Array.from(list);
        let pairs = 0;
        for (const [j, later] of list.entries()) for (const own of list.slice(0, j)) if (own > later) pairs++;
        expect(sortCountingInversions(keys)).toBe(pairs);
        expect([...keys]).toEqual(list.toSorted((a, b) => a - b));
      }),
    );
  });
});

describe('slopes of given ranks', () => {
  const shapes: Readonly<Record<string, (random: Random, i: number, level: number) => number>> = {
    noise: (random) => random.normal(),
    'a walk': (random, _, level) => level + random.normal(),
    'a fall under a wave': (_, i) => Math.sin(i / 7) - 0.3 * i,
    'a far offset': (random) => 1e9 + random.normal(),
    hundredths: (random) => Math.round(100 * random.normal()) / 100,
    'two levels': (random) => Number(random.uniform() > 0.7),
    'a straight line': (_, i) => 3 - 0.25 * i,
    'noise with a wild value': (random, i) => (i === 40 ? -1e12 : random.normal()),
  };

  it.each(Object.keys(shapes))('are those of all slopes sorted: %s', (name) => {
    for (const n of [90, 261, 430]) {
      const random = new Random(n, name);
      let level = 0;
      const values = Float64Array.from({ length: n }, (_, i) => {
        level = shapes[name]!(random, i, level);
        return level;
      });
      const slopes: number[] = [];
      for (let i = 0; i < n; i++) {
        for (let j = i + 1; j < n; j++) slopes.push((values[j]! - values[i]!) / (j - i));
      }
      const sorted = Float64Array.from(slopes).sort();
      const half = sorted.length >> 1;
      const places = [0, 7, half - 5000, half, half, half + 1, half + 900, sorted.length - 1];
      const ranks = places.filter((rank) => rank >= 0).sort((one, other) => one - other);
      const got = slopesOfRank(values, ranks);
      // −0 + 0 is 0: which of the two a quotient gives is not its rank.
      expect(got.map((slope) => slope + 0)).toEqual(ranks.map((rank) => sorted[rank]! + 0));
    }
  });
});
