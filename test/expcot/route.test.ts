import { expect, test } from 'vitest';
import { open } from '../../datasets/registry.ts';
import { analyse } from '../../src/expcot/evidence.ts';
import { cite, citedFamily } from '../../src/expcot/route.ts';

test.each(['nano5', 'anomllm'])(
  'on %s the family found without needless analyses is the one that all four analyses give',
  (name) => {
    const cited = new Set<string | null>();
    for (const { values, intervals } of open(name, { split: 'validation', seed: 11, count: 48 })) {
      const family = citedFamily(analyse(values), intervals);
      expect(family).toBe(intervals.length === 0 ? null : cite(analyse(values), intervals).family);
      cited.add(family);
    }
    expect(cited.size).toBeGreaterThan(2);
  },
);
