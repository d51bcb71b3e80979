import { describe, expect, it } from 'vitest';
import { addNoise, Random, standardNormal } from '../../src/ground/random.ts';

/** Φ(x) to about 1e-7 (Abramowitz and Stegun 26.2.17), independent of the generator. */
function cumulative(x: number): number {
  const k = 1 / (1 + 0.2316419 * Math.abs(x));
  const poly =
    k * (0.31938153 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))));
  const upper = (poly * Math.exp(-0.5 * x * x)) / Math.sqrt(2 * Math.PI);
  return x >= 0 ? 1 - upper : upper;
}

describe('standardNormal', () => {
  const n = 400_000;
  const random = new Random(5, 'test/gaussian');
  const draws = Float64Array.from({ length: n }, () => standardNormal(random)).sort();

  it('has the moments of N(0, 1) within 4 standard errors', () => {
    const moment = (k: number) => draws.reduce((sum, z) => sum + z ** k, 0) / n;
    expect(Math.abs(moment(1))).toBeLessThan(4 * Math.sqrt(1 / n));
    expect(Math.abs(moment(2) - 1)).toBeLessThan(4 * Math.sqrt(2 / n));
    expect(Math.abs(moment(3))).toBeLessThan(4 * Math.sqrt(15 / n));
    expect(Math.abs(moment(4) - 3)).toBeLessThan(4 * Math.sqrt(96 / n));
  });

  it('passes Kolmogorov–Smirnov against Φ', () => {
    let worst = 0;
    for (let i = 0; i < n; i++) worst = Math.max(worst, Math.abs(cumulative(draws[i]!) - (i + 0.5) / n));
    expect(worst * Math.sqrt(n)).toBeLessThan(2); // p ≈ 7e-4
  });

  it('reaches into both tails as often as N(0, 1) does', () => {
    for (const bound of [3, 3.442619855899, 4]) {
      const expected = n * (1 - cumulative(bound));
      const above = draws.filter((z) => z > bound).length;
      const below = draws.filter((z) => z < -bound).length;
      expect(Math.abs(above - expected)).toBeLessThan(4 * Math.sqrt(expected) + 1);
      expect(Math.abs(below - expected)).toBeLessThan(4 * Math.sqrt(expected) + 1);
    }
  });

  it('repeats with the key of its stream', () => {
    const again = new Random(8, 'again', 3);
    const first = Array.from({ length: 20 }, () => standardNormal(again));
    const fresh = new Random(8, 'again', 3);
    expect(Array.from({ length: 20 }, () => standardNormal(fresh))).toEqual(first);
  });
});

describe('addNoise', () => {
  it('changes only the given range', () => {
    const values = Float64Array.of(1, 2, 3, 4, 5);
    addNoise(new Random(1, 'noise'), values, 0.5, 1, 4);
    expect(values[0]).toBe(1);
    expect(values[4]).toBe(5);
    expect([...values.slice(1, 4)].every((v, i) => v !== i + 2)).toBe(true);
  });
});
