import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ConfigError, DataError } from '../../src/ground/errors.ts';
import { Random } from '../../src/ground/random.ts';
import { dtw, envelope, joinChannels, lbKeogh, lbKim } from '../../src/series/dtw.ts';
import { learnWindow, NearestPool, WarpingSearch } from '../../src/series/nearest.ts';

interface Golden {
  readonly cases: readonly {
    readonly a: number[][];
    readonly b: number[][];
    readonly distances: Readonly<Record<string, number>>;
    readonly bounds: Readonly<Record<string, { envelope: [number[], number[]]; keogh: number }>>;
  }[];
}
const golden = JSON.parse(readFileSync(join(import.meta.dirname, '../golden/dtw.json'), 'utf8')) as Golden;
const floats = (rows: readonly (readonly number[])[]): Float64Array[] =>
  rows.map((row) => Float64Array.from(row));

/** The whole matrix, by the definition. */
function byDefinition(a: readonly Float64Array[], b: readonly Float64Array[], window = Infinity): number {
  const [n, m] = [a[0]!.length, b[0]!.length];
  const reach = Math.max(window, Math.abs(n - m));
  const total = Array.from({ length: n + 1 }, () => new Float64Array(m + 1).fill(Infinity));
  total[0]![0] = 0;
  for (let i = 1; i <= n; i++) {
    for (let j = 1; j <= m; j++) {
      if (Math.abs(i - j) > reach) continue;
      const cost = a.reduce((sum, channel, c) => sum + (channel[i - 1]! - b[c]![j - 1]!) ** 2, 0);
      total[i]![j] = cost + Math.min(total[i - 1]![j - 1]!, total[i - 1]![j]!, total[i]![j - 1]!);
    }
  }
  return total[n]![m]!;
}

// Few different values, so that distances are often equal.
const value = fc.oneof(fc.integer({ min: -3, max: 3 }), fc.double({ min: -3, max: 3, noNaN: true }));
const seriesOf = (channels: number, least: number, most: number): fc.Arbitrary<Float64Array[]> =>
  fc
    .integer({ min: least, max: most })
    .chain((n) =>
      fc.array(fc.array(value, { minLength: n, maxLength: n }), { minLength: channels, maxLength: channels }),
    )
    .map(floats);
const pair = fc
  .integer({ min: 1, max: 3 })
  .chain((channels) => fc.tuple(seriesOf(channels, 1, 14), seriesOf(channels, 1, 14)));

describe('dynamic time warping', () => {
  it('is what aeon, tslearn and dtaidistance say, in windows, of several channels and of unequal lengths', () => {
    for (const { a, b, distances } of golden.cases) {
      for (const [window, distance] of Object.entries(distances)) {
        const options = window === 'full' ? {} : { window: Number(window) };
        expect(dtw(floats(a), floats(b), options)).toBeCloseTo(distance, 9);
      }
    }
  });

  it('is the least cost of the whole matrix, whatever the bound leaves out', () => {
    fc.assert(
      fc.property(
        pair,
        fc.integer({ min: 0, max: 14 }),
        fc.double({ min: 0, max: 2, noNaN: true }),
        ([a, b], window, factor) => {
          const distance = byDefinition(a, b, window);
          expect(dtw(a, b, { window })).toBe(distance);
          expect(dtw(b, a, { window })).toBe(distance);
          expect(dtw(a, b, { window, bound: distance })).toBe(distance);
          const bound = factor * distance;
          expect(dtw(a, b, { window, bound })).toBe(distance <= bound ? distance : Infinity);
        },
      ),
    );
  });

  it('refuses what it cannot align', () => {
    const one = [Float64Array.of(1, 2, 3)];
    expect(() => dtw(one, [...one, ...one])).toThrow('one series has 1 channels, the other 2');
    expect(() => dtw(one, [])).toThrow(ConfigError);
    expect(() => dtw(one, [new Float64Array(0)])).toThrow('expected at least one sample');
    expect(() => dtw([...one, Float64Array.of(1)], [...one, ...one])).toThrow('channel 1 has 1');
    expect(() => dtw(one, [Float64Array.of(1, Number.NaN)])).toThrow(DataError);
    expect(() => dtw(one, one, { window: -1 })).toThrow(ConfigError);
    expect(() => dtw(one, one, { bound: Number.NaN })).toThrow(ConfigError);
  });
});

describe('lower bounds', () => {
  it('are those of tslearn', () => {
    const { a, b, bounds } = golden.cases[0]!;
    const [one, other] = [joinChannels(floats(a)), joinChannels(floats(b))];
    for (const [window, { envelope: sides, keogh }] of Object.entries(bounds)) {
      const found = envelope(other, Number(window));
      expect([...found.lower]).toEqual(sides[0]);
      expect([...found.upper]).toEqual(sides[1]);
      expect(lbKeogh(one, found) / keogh).toBeCloseTo(1, 8);
    }
  });

  it('never exceed the distance', () => {
    fc.assert(
      fc.property(pair, fc.integer({ min: 0, max: 14 }), ([a, b], window) => {
        const [one, other] = [joinChannels(a), joinChannels(b)];
        const distance = byDefinition(a, b, window);
        expect(lbKim(one, other)).toBeLessThanOrEqual(distance);
        if (one.length !== other.length) return;
        const rest = new Float64Array(one.length + 1);
        const bound = lbKeogh(one, envelope(other, window), rest);
        expect(bound).toBeLessThanOrEqual(distance);
        expect(rest[0]).toBe(bound);
        expect(rest.at(-1)).toBe(0);
      }),
    );
  });
});

describe('the nearest neighbour', () => {
  const set = fc
    .integer({ min: 1, max: 2 })
    .chain((channels) =>
      fc.tuple(fc.array(seriesOf(channels, 5, 9), { minLength: 2, maxLength: 9 }), seriesOf(channels, 5, 9)),
    );
  const first = (distances: readonly number[]): number => distances.indexOf(Math.min(...distances));

  it('is the first of the least distances by the whole matrix, in every window', () => {
    fc.assert(
      fc.property(set, fc.integer({ min: 0, max: 9 }), ([all, query], window) => {
        const distances = all.map((one) => byDefinition(query, one, window));
        const found = new WarpingSearch(all.map(joinChannels)).nearest(joinChannels(query), window);
        expect(found).toEqual({ index: first(distances), distance: Math.min(...distances) });
      }),
    );
  });

  it('among the others is found for all windows at once', () => {
    fc.assert(
      fc.property(set, ([all]) => {
        const windows = [0, 1, 2, 2, 3, 5, 9];
        const found = new WarpingSearch(all.map(joinChannels)).nearestByWindow(0, windows);
        const others = all.slice(1);
        expect([...found]).toEqual(
          windows.map((window) => 1 + first(others.map((one) => byDefinition(all[0]!, one, window)))),
        );
      }),
    );
  });

  it('is the same on Workers, and the window is that of the least leave-one-out error, the smallest of equals', async () => {
    // Two classes by the place of a bump in noise: too much warping takes one for the other, too little misses their spread.
    const random = new Random(3, 'warping test');
    const series = Array.from({ length: 14 }, (_, i) => {
      const at = 12 + (i % 2) * 9 + random.integer(0, 6);
      return joinChannels([
        Float64Array.from(
          { length: 40 },
          (_, t) => 3 * Math.exp(-((t - at) ** 2) / 4) + random.normal(0, 0.6),
        ),
      ]);
    });
    const labels = series.map((_, i) => (i % 2 === 0 ? 'early' : 'late'));
    const pool = new NearestPool(series, 2);
    try {
      const alone = new WarpingSearch(series);
      const query = joinChannels([series[3]!.values.map((x, t) => x + Math.sin(t) / 9)]);
      expect(await pool.nearest(query, 4)).toEqual(alone.nearest(query, 4));
      const { percent, samples, errors } = await learnWindow(pool, labels);
      const windows = Array.from({ length: 101 }, (_, p) => Math.ceil((p * 40) / 100));
      const expected = windows.map((window) => {
        const wrong = series.filter((own, i) => {
          const distances = series.map((one, k) =>
            k === i ? Infinity : byDefinition([own.values], [one.values], window),
          );
          return labels[first(distances)] !== labels[i];
        });
        return wrong.length;
      });
      expect([...errors]).toEqual(expected);
      expect(new Set(expected).size).toBeGreaterThan(1);
      expect(percent).toBe(first(expected));
      expect(samples).toBe(windows[percent]);
      const stopped = AbortSignal.abort(new Error('enough'));
      await expect(learnWindow(pool, labels, { signal: stopped })).rejects.toThrow('enough');
    } finally {
      await pool.close();
    }
  });

  it('is not looked for among nothing, or among series of other channels', () => {
    const [one, two] = [
      joinChannels([Float64Array.of(1, 2)]),
      joinChannels([Float64Array.of(1), Float64Array.of(2)]),
    ];
    expect(() => new WarpingSearch([])).toThrow(ConfigError);
    expect(() => new WarpingSearch([one, two])).toThrow('one series has 1 channels, another 2');
    expect(() => new WarpingSearch([one]).nearest(two, 1)).toThrow(ConfigError);
    expect(() => new NearestPool([one, two])).toThrow(ConfigError);
  });
});
