import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Random } from '../../src/ground/random.ts';
import { augment } from '../../src/series/augment.ts';

const NONE = { jitter: 0, scale: 0, warp: 0, crop: 0, flip: 0 };
const wave = Float64Array.from({ length: 400 }, (_, t) => Math.sin(t / 20));
const once = (options: Partial<typeof NONE>, index = 0, values = wave): Float64Array =>
  augment([values], { ...NONE, ...options }, new Random(1, 'test', index))[0]!;
const std = (values: Float64Array): number => {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length);
};
/** Means over many draws. */
const meanOver = (of: (index: number) => number, draws = 300): number =>
  Array.from({ length: draws }, (_, i) => of(i)).reduce((sum, value) => sum + value, 0) / draws;

describe('a changed series', () => {
  test('is the same for the same key, another for another, and the series itself without any change', () => {
    const options = { jitter: 0.2, scale: 0.2, warp: 0.3, crop: 0.3, flip: 0.5 };
    expect(once(options, 4)).toEqual(once(options, 4));
    expect(once(options, 4)).not.toEqual(once(options, 5));
    for (let t = 0; t < wave.length; t++) expect(once({})[t]).toBeCloseTo(wave[t]!, 12);
  });

  test('has its length and its missing points, and no others, whatever the strengths', () => {
    const strength = fc.double({ min: 0, max: 2, noNaN: true });
    fc.assert(
      fc.property(
        fc.array(fc.double({ noNaN: true, min: -1e6, max: 1e6 }), { minLength: 2, maxLength: 40 }),
        strength,
        strength,
        fc.double({ min: 0, max: 0.9, noNaN: true }),
        fc.integer({ min: 0, max: 99 }),
        (list, strong, warp, crop, index) => {
          const values = Float64Array.from(list);
          const all = { jitter: strong, scale: strong, warp, crop, flip: 0.5 };
          const changed = once(all, index, values);
          expect(changed).toHaveLength(values.length);
          expect(changed.every(Number.isFinite)).toBe(true);
          const gap = values.map((value, t) => (t === 1 ? Number.NaN : value));
          const kept = once({ jitter: strong, scale: strong, flip: 1 }, index, gap);
          expect([...kept].map(Number.isNaN)).toEqual([...gap].map(Number.isNaN));
        },
      ),
    );
  });

  test('has noise of up to the given size, on average half of it', () => {
    const noise = (index: number): number =>
      std(once({ jitter: 0.4 }, index).map((value, t) => value - wave[t]!)) / std(wave);
    expect(meanOver(noise)).toBeCloseTo(0.2, 1);
    expect(Math.max(...Array.from({ length: 100 }, (_, i) => noise(i)))).toBeLessThan(0.45);
  });

  test('that is cropped is a stretched piece of the series, of at least the share that is kept', () => {
    const ramp = Float64Array.from({ length: 101 }, (_, t) => t);
    for (let i = 0; i < 100; i++) {
      const piece = once({ crop: 0.4 }, i, ramp);
      const [low, high] = [piece[0]!, piece[100]!];
      expect(low).toBeGreaterThanOrEqual(-1e-9);
      expect(high).toBeLessThanOrEqual(100 + 1e-9);
      expect(high - low).toBeGreaterThanOrEqual(60 - 1e-9);
      expect(piece[50]!).toBeCloseTo((low + high) / 2, 9);
    }
  });

  test('that is warped keeps the order and both ends of time, alike in all channels', () => {
    const ramp = Float64Array.from({ length: 101 }, (_, t) => t);
    const double = ramp.map((value) => 2 * value);
    const pair = augment([ramp, double], { ...NONE, warp: 0.5 }, new Random(1, 'test', 3));
    const [one, other] = pair as [Float64Array, Float64Array];
    expect([one[0], one[100]]).toEqual([0, 100]);
    for (let t = 1; t < 101; t++) expect(one[t]!).toBeGreaterThan(one[t - 1]!);
    for (let t = 0; t < 101; t++) expect(other[t]!).toBeCloseTo(2 * one[t]!, 9);
    expect(Math.abs(one[50]! - 50)).toBeGreaterThan(0.5);
  });

  test('is interpolated, and if rough read at the nearest points in every other draw', () => {
    const comb = wave.map((_, t) => (t % 2 === 0 ? 1 : -1));
    // Scaling moves nothing: the mean of the comb is not that of its pieces, so values are held against each other.
    const values = (series: typeof wave, index: number): number =>
      new Set(once({ warp: 0.3, crop: 0.2 }, index, series).map((value) => Math.round(value * 1e9))).size;
    const teeth = Array.from({ length: 200 }, (_, i) => values(comb, i));
    const kept = teeth.filter((count) => count === 2).length / 200;
    expect(kept).toBeGreaterThan(0.42);
    expect(kept).toBeLessThan(0.58);
    expect(teeth.filter((count) => count > 2 && count < 50)).toEqual([]);
    const smooth = Array.from({ length: 50 }, (_, i) => values(wave, i));
    expect(Math.min(...smooth)).toBeGreaterThan(300);
  });

  test('is mirrored with the given probability', () => {
    const mirrored = (index: number): number => (once({ flip: 0.3 }, index)[10]! < 0.2 ? 1 : 0);
    expect(meanOver(mirrored)).toBeCloseTo(0.3, 1);
  });
});
