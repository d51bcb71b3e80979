import { expect, test } from 'vitest';
import { openExamples } from '../../datasets/source.ts';
import { analyse } from '../../src/expcot/evidence.ts';
import { cite, citedFamily } from '../../src/expcot/route.ts';
import { univariate } from '../helpers/series.ts';

test.each(['nano5', 'anomllm'])(
  'on %s the family found without needless analyses is the one that all four analyses give',
  (name) => {
    const cited = new Set<string | null>();
    const source = openExamples({ name, split: 'validation', seed: 11, length: 1000, count: 48 });
    for (const { values, intervals } of [...source].map(univariate)) {
      const family = citedFamily(analyse(values), intervals);
      expect(family).toBe(intervals.length === 0 ? null : cite(analyse(values), intervals).family);
      cited.add(family);
    }
    expect(cited.size).toBeGreaterThan(2);
  },
);
