import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Random } from '../../src/random.ts';
import { sortCountingInversions } from '../../src/series/inversions.ts';
import { slopesOfRank } from '../../src/series/slopes.ts';

describe('inversions', () => {
  it('are counted by a sort that takes the order along and keeps equal keys as they stand', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: -9, max: 9 }), { maxLength: 70 }), (list) => {
        const keys = Float64Array.from(list);
        const order = Int32Array.from(list.keys());
        let pairs = 0;
        for (const [j, later] of list.entries()) for (const own of list.slice(0, j)) if (own > later) pairs++;
        expect(sortCountingInversions(keys, order)).toBe(pairs);
        const expected = [...list.keys()].sort((a, b) => list[a]! - list[b]! || a - b);
        expect([...order]).toEqual(expected);
        expect([...keys]).toEqual(expected.map((i) => list[i]));
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
