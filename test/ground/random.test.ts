import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { hash32, philox, Random } from '../../src/ground/random.ts';

/** `philox4x32 10` of kat_vectors, Random123 (the distribution of Salmon et al. 2011). */
const KNOWN_ANSWERS = [
  {
    counter: [0, 0, 0, 0],
    key: [0, 0],
    out: [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8],
  },
  {
    counter: [0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff],
    key: [0xffffffff, 0xffffffff],
    out: [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd],
  },
  {
    counter: [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344],
    key: [0xa4093822, 0x299f31d0],
    out: [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1],
  },
] as const;

function take<T>(n: number, draw: () => T): T[] {
  return Array.from({ length: n }, draw);
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function std(values: readonly number[]): number {
  const centre = mean(values);
  return Math.sqrt(mean(values.map((value) => (value - centre) ** 2)));
}

describe('philox', () => {
  test.each(KNOWN_ANSWERS)('gives the known answer for counter $counter', ({ counter, key, out }) => {
    const block = new Uint32Array(4);
    philox(counter, key, block);
    expect([...block]).toEqual([...out]);
  });
});

describe('hash32', () => {
  test('is FNV-1a', () => {
    expect(hash32('')).toBe(0x811c9dc5);
    expect(hash32('a')).toBe(0xe40c292c);
    expect(hash32('foobar')).toBe(0xbf9cf968);
  });
});

describe('Random', () => {
  test('repeats under the same key and differs when any part of the key differs', () => {
    const draws = (seed: number, name: string, a: number, b: number): number[] => {
      const random = new Random(seed, name, a, b);
      return take(8, () => random.uint32());
    };
    const reference = draws(42, 'rollout', 3, 5);
    expect(draws(42, 'rollout', 3, 5)).toEqual(reference);
    for (const other of [
      draws(43, 'rollout', 3, 5),
      draws(42 + 2 ** 32, 'rollout', 3, 5),
      draws(42, 'rollouts', 3, 5),
      draws(42, 'rollout', 5, 3),
      draws(42, 'rollout', 3, 6),
    ]) {
      expect(other.filter((value, i) => value === reference[i])).toEqual([]);
    }
  });

  test('does not depend on how draws of different kinds are grouped into streams', () => {
    const first = new Random(1, 'a');
    const second = new Random(1, 'b');
    const apart = [take(5, () => first.uniform()), take(5, () => second.uniform())];
    const [third, fourth] = [new Random(1, 'a'), new Random(1, 'b')];
    const together = take(5, () => [third.uniform(), fourth.uniform()]);
    expect(together.map(([x]) => x)).toEqual(apart[0]);
    expect(together.map(([, y]) => y)).toEqual(apart[1]);
  });

  test('uniform stays in [0, 1) with the moments of a uniform', () => {
    const random = new Random(7, 'uniform');
    const values = take(20_000, () => random.uniform());
    expect(Math.min(...values)).toBeGreaterThanOrEqual(0);
    expect(Math.max(...values)).toBeLessThan(1);
    expect(Math.abs(mean(values) - 0.5)).toBeLessThan((4 * Math.sqrt(1 / 12)) / Math.sqrt(20_000));
    expect(std(values)).toBeCloseTo(Math.sqrt(1 / 12), 2);
  });

  test('normal and exponential have the moments that were asked for', () => {
    const random = new Random(11, 'moments');
    const normal = take(20_000, () => random.normal(3, 0.5));
    expect(Math.abs(mean(normal) - 3)).toBeLessThan((4 * 0.5) / Math.sqrt(20_000));
    expect(std(normal)).toBeCloseTo(0.5, 1);
    const inside = normal.filter((value) => Math.abs(value - 3) < 0.5).length / normal.length;
    expect(inside).toBeCloseTo(0.6827, 1);
    const exponential = take(20_000, () => random.exponential(80));
    expect(Math.abs(mean(exponential) - 80)).toBeLessThan((4 * 80) / Math.sqrt(20_000));
    expect(Math.min(...exponential)).toBeGreaterThanOrEqual(0);
  });

  test('integer reaches both ends and nothing beyond', () => {
    const random = new Random(5, 'integer');
    expect([...new Set(take(500, () => random.integer(-2, 3)))].sort((a, b) => a - b)).toEqual([
      -2, -1, 0, 1, 2, 3,
    ]);
  });

  test('between, pick and weighted keep to what they are given', () => {
    const random = new Random(9, 'rest');
    expect(take(1000, () => random.between(-4, -3)).every((x) => x >= -4 && x < -3)).toBe(true);
    expect(new Set(take(200, () => random.pick(['a', 'b', 'c'])))).toEqual(new Set(['a', 'b', 'c']));
    const counts = [0, 0, 0];
    for (const index of take(10_000, () => random.weighted([5, 0, 3]))) counts[index]!++;
    expect(counts[1]).toBe(0);
    expect(counts[0]! / 10_000).toBeCloseTo(5 / 8, 1);
  });

  test('permutation holds every index once', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 60 }), fc.integer(), (n, seed) => {
        const order = new Random(seed, 'permutation').permutation(n);
        expect([...order].sort((a, b) => a - b)).toEqual(Array.from({ length: n }, (_, i) => i));
      }),
    );
  });

  test('permutation puts every index everywhere equally often', () => {
    const random = new Random(3, 'fair');
    const first = [0, 0, 0, 0];
    for (let i = 0; i < 4000; i++) first[random.permutation(4)[0]!]!++;
    for (const n of first) expect(Math.abs(n - 1000)).toBeLessThan(5 * Math.sqrt(4000 * 0.25 * 0.75));
  });
});
