import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { NANO5_CLASSES, nano5Class } from '../../datasets/generators/nano5.ts';
import { SPLITS } from '../../datasets/split.ts';
import { ConfigError } from '../../src/ground/errors.ts';
import type { AnomalyClass } from '../../src/ground/types.ts';
import { nano5, type Series } from '../helpers/series.ts';

const N = 1000;
const COUNT = 5000;
const SIGMAS = 4;
const DURATIONS: Readonly<Partial<Record<AnomalyClass, readonly [number, number]>>> = {
  'contextual point': [40, 120],
  'global point': [20, 90],
  seasonal: [60, 150],
  trend: [50, 120],
};

const all: readonly Series[] = Array.from({ length: COUNT }, (_, i) => nano5(42, 'test', i));
const ofClass = (label: AnomalyClass): Series[] => all.filter((s) => s.class === label);

const mean = (xs: ArrayLike<number>): number => Array.from(xs).reduce((sum, x) => sum + x, 0) / xs.length;
function deviation(xs: ArrayLike<number>): number {
  const m = mean(xs);
  return Math.sqrt(Array.from(xs).reduce((sum, x) => sum + (x - m) ** 2, 0) / (xs.length - 1));
}
function expectMean(xs: readonly number[], expected: number): void {
  expect(xs.length).toBeGreaterThan(100);
  expect(Math.abs(mean(xs) - expected)).toBeLessThan((SIGMAS * deviation(xs)) / Math.sqrt(xs.length));
}

/** Stretches without an anomaly. */
function normalParts({ values, intervals }: Series): Float64Array[] {
  const parts: Float64Array[] = [];
  let from = 0;
  for (const [start, end] of [...intervals, [values.length, values.length] as const]) {
    if (start > from) parts.push(values.slice(from, start));
    from = end;
  }
  return parts;
}

/** Share of the variance of `x` that a constant and one sine of `frequency` (cycles per sample) explain, 0–1. */
function explained(x: Float64Array, frequency: number): number {
  const centred = (wave: Float64Array): Float64Array => {
    let total = 0;
    for (let t = 0; t < wave.length; t++) total += wave[t]!;
    for (let t = 0; t < wave.length; t++) wave[t] = wave[t]! - total / wave.length;
    return wave;
  };
  const dot = (a: Float64Array, b: Float64Array): number => {
    let total = 0;
    for (let t = 0; t < a.length; t++) total += a[t]! * b[t]!;
    return total;
  };
  const y = centred(x.slice());
  const c = centred(x.map((_, t) => Math.cos(2 * Math.PI * frequency * t)));
  const s = centred(x.map((_, t) => Math.sin(2 * Math.PI * frequency * t)));
  const [cc, ss, cs, yc, ys] = [dot(c, c), dot(s, s), dot(c, s), dot(y, c), dot(y, s)];
  return (yc * (yc * ss - ys * cs) + ys * (ys * cc - yc * cs)) / ((cc * ss - cs * cs) * dot(y, y));
}

/** The period that explains most, searched in steps of 1 and then of 0.1. */
function bestPeriod(x: Float64Array, low: number, high: number): { period: number; share: number } {
  let best = { period: 0, share: -1 };
  const search = (from: number, to: number, step: number): void => {
    for (let period = from; period <= to; period += step) {
      const share = explained(x, 1 / period);
      if (share > best.share) best = { period, share };
    }
  };
  search(low, high, 1);
  search(best.period - 1, best.period + 1, 0.1);
  return best;
}

describe('classes and intervals of nano5', () => {
  it('holds each class once in every block of five, in varying order', () => {
    const orders = new Set<string>();
    for (let i = 0; i < COUNT; i += 5) {
      const block = all.slice(i, i + 5).map((s) => s.class);
      expect(new Set(block).size).toBe(5);
      orders.add(block.join());
    }
    expect(orders.size).toBe(120);
    expect([...new Set(all.map((s) => s.class))].sort()).toEqual([...NANO5_CLASSES].sort());
  });

  it('tells the class of an index without making the series', () => {
    for (let i = 0; i < 50; i++) expect(nano5Class(42, 'test', i)).toBe(all[i]!.class);
  });

  it('has 1, 2 and 3 intervals with shares .5, .3 and .2, none when normal', () => {
    const anomalous = all.filter((s) => s.class !== 'normal');
    for (const [k, share] of [
      [1, 0.5],
      [2, 0.3],
      [3, 0.2],
    ] as const) {
      expectMean(
        anomalous.map((s) => Number(s.intervals.length === k)),
        share,
      );
    }
    expect(ofClass('normal').every((s) => s.intervals.length === 0)).toBe(true);
  });

  it.each(Object.entries(DURATIONS))(
    'draws every duration of %s from its bounds, %j',
    (label, [low, high]) => {
      const lengths = ofClass(label as AnomalyClass).flatMap((s) => s.intervals.map(([a, b]) => b - a));
      expect(Math.min(...lengths)).toBe(low);
      expect(Math.max(...lengths)).toBe(high);
      expectMean(lengths, (low + high) / 2);
    },
  );

  it('keeps 30 normal points around intervals, at any seed and length in proportion', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER }),
        fc.constantFrom(...SPLITS),
        fc.integer({ min: 0, max: 0xffffffff }),
        fc.integer({ min: 200, max: 3000 }),
        (seed, split, index, length) => {
          const series = nano5(seed, split, index, length);
          expect(series.values.length).toBe(length);
          expect(series.id).toBe(`nano5/${split}/${index}`);
          const gap = Math.round((30 * length) / N);
          const bounds = DURATIONS[series.class]?.map((d) => Math.round((d * length) / N));
          let from = 0;
          for (const [start, end] of series.intervals) {
            expect(start - from).toBeGreaterThanOrEqual(gap);
            expect(end - start).toBeGreaterThanOrEqual(bounds![0]!);
            expect(end - start).toBeLessThanOrEqual(bounds![1]!);
            from = end;
          }
          expect(length - from).toBeGreaterThanOrEqual(gap);
        },
      ),
      { numRuns: 300 },
    );
  });

  it('places intervals over the whole series, evenly from both ends', () => {
    const centres = all.flatMap((s) => s.intervals.map(([a, b]) => (a + b) / 2 / N));
    expectMean(centres, 0.5);
    const starts = all.flatMap((s) => s.intervals.slice(0, 1).map(([a]) => a));
    const ends = all.flatMap((s) => s.intervals.slice(-1).map(([, b]) => b));
    expect(Math.min(...starts)).toBeLessThan(35);
    expect(Math.max(...ends)).toBeGreaterThan(N - 35);
  });
});

describe('signals of nano5', () => {
  it('has sines of period 30–70 with noise of .03–.08', () => {
    const periods: number[] = [];
    for (const series of ofClass('contextual point').slice(0, 160)) {
      const longest = normalParts(series).reduce((a, b) => (b.length > a.length ? b : a));
      if (longest.length < 250) continue;
      const { period, share } = bestPeriod(longest, 25, 80);
      const noise = Math.sqrt((1 - share) / share / 2); // the sine's own variance is ½
      expect(period).toBeGreaterThan(29);
      expect(period).toBeLessThan(71);
      expect(noise).toBeGreaterThan(0.025);
      expect(noise).toBeLessThan(0.095);
      periods.push(period);
    }
    expectMean(periods, 50);
  });

  it('contextual point: the interval is N(0, s), s of U(.2, .5)', () => {
    const stds = ofClass('contextual point').flatMap((s) =>
      s.intervals.map(([a, b]) => deviation(s.values.slice(a, b))),
    );
    expect(Math.abs(mean(stds) - 0.35)).toBeLessThan(0.01);
    expect(Math.min(...stds)).toBeGreaterThan(0.2 * (1 - 4 / Math.sqrt(80)));
    expect(Math.max(...stds)).toBeLessThan(0.5 * (1 + 4 / Math.sqrt(80)));
  });

  it('global point: N(0, .1), the interval shifted by ±U(.5, .8), both signs evenly', () => {
    const shifts: number[] = [];
    const ups: number[] = [];
    for (const series of ofClass('global point')) {
      for (const part of normalParts(series)) expect(deviation(part)).toBeLessThan(0.16);
      for (const [a, b] of series.intervals) {
        const cut = series.values.slice(a, b);
        const sign = Math.sign(mean(cut));
        expect(cut.every((x) => sign * x > 0)).toBe(true);
        shifts.push(...cut.map((x) => sign * x));
        ups.push(Number(sign > 0));
      }
    }
    expectMean(shifts, 0.65);
    expect(deviation(shifts)).toBeCloseTo(Math.sqrt(0.01 + 0.3 ** 2 / 12), 2);
    expectMean(ups, 0.5);
  });

  it('seasonal: the interval has 3 or ⅓ times the frequency, at even odds', () => {
    const fast: number[] = [];
    for (const series of ofClass('seasonal').slice(0, 300)) {
      const longest = normalParts(series).reduce((a, b) => (b.length > a.length ? b : a));
      if (longest.length < 250) continue;
      const { period } = bestPeriod(longest, 25, 80);
      for (const [a, b] of series.intervals) {
        if (b - a < 100) continue;
        const cut = series.values.slice(a, b);
        const [three, same, third] = [3, 1, 1 / 3].map((factor) => explained(cut, factor / period));
        expect(Math.max(three!, third!)).toBeGreaterThan(Math.max(0.75, same!));
        fast.push(Number(three! > third!));
      }
    }
    expectMean(fast, 0.5);
  });

  it('trend: a slope of either sign, and a rise of U(2, 4) over the interval, which stays', () => {
    const rises: number[] = [];
    const slopes: number[] = [];
    for (const series of ofClass('trend')) {
      const [first] = series.intervals;
      if (first === undefined || series.intervals.length > 1) continue;
      const [a, b] = first;
      const before = series.values.slice(0, a);
      const after = series.values.slice(b);
      if (before.length < 300 || after.length < 300) continue;
      const line = (x: Float64Array): number => {
        const centre = (x.length - 1) / 2;
        let [up, down] = [0, 0];
        for (let t = 0; t < x.length; t++) {
          up += (t - centre) * x[t]!;
          down += (t - centre) ** 2;
        }
        return up / down;
      };
      const slope = (line(before) + line(after)) / 2;
      slopes.push(slope * N);
      const span = (before.length + after.length) / 2 + (b - a); // between the centres of the two parts
      rises.push(mean(after) - mean(before) - slope * span);
    }
    expect(rises.length).toBeGreaterThan(100);
    expect(Math.abs(mean(rises) - 3)).toBeLessThan(0.2);
    expect(Math.min(...rises)).toBeGreaterThan(1);
    expect(Math.max(...rises)).toBeLessThan(5);
    expectMean(
      slopes.map((s) => Number(s > 0)),
      0.5,
    );
    expect(Math.max(...slopes.map(Math.abs))).toBeLessThan(4);
    expect(mean(slopes.map(Math.abs))).toBeCloseTo(1.75, 0);
  });

  it('normal: shows every base that anomalous series have', () => {
    const kinds = ofClass('normal')
      .slice(0, 400)
      .map(({ values }) => {
        const drift = Math.abs(mean(values.slice(0, 210)) - mean(values.slice(-210)));
        const { share } = bestPeriod(values.slice(0, 150), 28, 72);
        return share < 0.3 ? 'noise' : drift > 0.3 ? 'trend' : 'sine';
      });
    const shareOf = (kind: string): number => kinds.filter((k) => k === kind).length / kinds.length;
    expect(shareOf('noise')).toBeCloseTo(0.25, 1);
    expect(shareOf('trend')).toBeCloseTo(0.25, 1);
    expect(shareOf('sine')).toBeCloseTo(0.5, 1);
  });
});

describe('nano5', () => {
  it('is a pure function of its address', () => {
    for (const i of [17, 3, 4999]) expect(nano5(42, 'test', i)).toEqual(all[i]);
  });

  it('never repeats a series over splits, seeds and indices', () => {
    const seen = new Set<string>();
    for (const split of SPLITS) {
      for (const seed of [0, 42, 3407]) {
        for (let i = 0; i < 200; i++) seen.add(nano5(seed, split, i).values.slice(0, 4).join());
      }
    }
    expect(seen.size).toBe(SPLITS.length * 3 * 200);
  });

  it('refuses lengths below 200 and indices out of range', () => {
    expect(() => nano5(1, 'train', 0, 199)).toThrow(ConfigError);
    expect(() => nano5(1, 'train', 0, 199)).toThrow(/length: got 199, expected an integer of at least 200/);
    expect(() => nano5(1, 'train', -1)).toThrow(/index: got -1/);
    expect(() => nano5(Number.NaN, 'train', 0)).toThrow(/seed: got NaN/);
  });
});
