import { describe, expect, it } from 'vitest';
import { Random } from '../../src/ground/random.ts';
import { type Loess, Smoother } from '../../src/series/decompose.ts';
import { worst } from './golden.ts';

const random = new Random(12, 'loess');
const values = Float64Array.from({ length: 37 }, (_, i) => 4 + Math.cos(i / 3) + random.normal(0, 0.4));
const robust = Float64Array.from({ length: 37 }, (_, i) => (i % 5 === 2 ? 0 : random.uniform()));

/** The definition: at each point a line (or constant) fitted to the nearest `window` points under tricube weights times trust. */
function plainly({ window, degree }: Loess, trust: Float64Array | null): number[] {
  const n = values.length;
  return Array.from(values, (_, at) => {
    const first = Math.max(0, Math.min(n - window, at - ((window - 1) >> 1)));
    const last = Math.min(n - 1, first + window - 1);
    const h = Math.max(at - first, last - at) + (window > n ? (window - n) >> 1 : 0);
    const weights = Array.from({ length: last - first + 1 }, (_, k) => {
      const part = Math.abs(first + k - at) / h;
      const own = part > 0.999 ? 0 : part <= 0.001 ? 1 : (1 - part ** 3) ** 3;
      return own * (trust === null ? 1 : trust[first + k]!);
    });
    const mean = (of: (i: number) => number): number => {
      const total = weights.reduce((sum, weight) => sum + weight, 0);
      return weights.reduce((sum, weight, k) => sum + weight * of(first + k), 0) / total;
    };
    const [x, y] = [mean((i) => i), mean((i) => values[i]!)];
    if (degree === 0) return y;
    return y + ((at - x) * mean((i) => (i - x) * (values[i]! - y))) / mean((i) => (i - x) ** 2);
  });
}

describe('local regression', () => {
  it.each(
    [5, 9, 13, 37, 41].flatMap((window) => ([0, 1] as const).map((degree) => [window, degree] as const)),
  )('fits window %i, degree %i, as defined, with weights of trust and without', (window, degree) => {
    const options = { window, degree, jump: 1 };
    const smoother = new Smoother(values.length, options);
    const out = new Float64Array(values.length);
    smoother.weigh(robust);
    smoother.smooth(values, out);
    expect(worst(out, plainly(options, robust))).toBeLessThan(1e-12);
    smoother.weigh(null);
    smoother.smooth(values, out);
    expect(worst(out, plainly(options, null))).toBeLessThan(1e-12);
  });

  it('fits the points that a jump leaves, and draws lines between them', () => {
    const every = new Smoother(values.length, { window: 9, degree: 1, jump: 1 });
    const some = new Smoother(values.length, { window: 9, degree: 1, jump: 5 });
    const [one, other] = [new Float64Array(37), new Float64Array(37)];
    for (const smoother of [every, some]) smoother.weigh(robust);
    every.smooth(values, one);
    some.smooth(values, other);
    for (const i of [0, 5, 10, 15, 20, 25, 30, 35, 36]) expect(other[i]).toBeCloseTo(one[i]!, 12);
    expect(other[7]).toBeCloseTo(0.6 * one[5]! + 0.4 * one[10]!, 12);
  });

  it('leaves a point without trusted neighbours as it is', () => {
    const smoother = new Smoother(values.length, { window: 7, degree: 1, jump: 1 });
    smoother.weigh(Float64Array.from(values, (_, i) => Number(i < 3 || i > 20)));
    const out = new Float64Array(37);
    smoother.smooth(values, out);
    expect(out[12]).toBe(values[12]);
    expect(out[25]).not.toBe(values[25]);
  });
});
