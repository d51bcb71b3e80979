import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ConfigError, DataError } from '../../src/ground/errors.ts';
import { subPca } from '../../src/series/point-scores.ts';

const golden = JSON.parse(readFileSync(join(import.meta.dirname, '../golden/sub_pca.json'), 'utf8')) as {
  values: number[];
  cases: { window: number; explained: number; scores: number[] }[];
};

describe('principal components of windows', () => {
  it.each(golden.cases)(
    'leave of windows of $window samples what numpy says',
    ({ window, explained, scores }) => {
      const found = subPca(Float64Array.from(golden.values), { window, explained });
      expect(found.length).toBe(scores.length);
      found.forEach((one, i) => {
        expect(one).toBeCloseTo(scores[i]!, 9);
      });
    },
  );

  it('leave nothing of a constant series, and have no window in a short one', () => {
    expect(subPca(new Float64Array(30).fill(4.25), { window: 6 })).toEqual(new Float64Array(25));
    expect(subPca(Float64Array.of(1, 5, 2), { window: 4 })).toEqual(new Float64Array(0));
  });

  it('leave most of the windows that hold another shape', () => {
    const values = Float64Array.from(
      { length: 400 },
      (_, i) => Math.sin(i / 6) + (i >= 250 && i < 262 ? (i % 3) - 1 : 0),
    );
    const scores = subPca(values, { window: 20 });
    const top = scores.indexOf(Math.max(...scores));
    expect(top).toBeGreaterThan(250 - 20);
    expect(top).toBeLessThan(262);
  });

  it('refuse what they cannot work with', () => {
    const values = Float64Array.of(1, 2, Number.NaN, 4);
    expect(() => subPca(values, { window: 2 })).toThrow(DataError);
    expect(() => subPca(values.fill(0), { window: 1 })).toThrow(ConfigError);
    expect(() => subPca(values, { window: 2, explained: 1 })).toThrow(ConfigError);
  });
});
