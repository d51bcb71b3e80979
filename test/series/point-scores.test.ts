import { describe, expect, it } from 'vitest';
import {
  deviationScore,
  onSamples,
  peaks,
  smoothed,
  spectralScore,
  stlScore,
  subPca,
  windowDiscords,
  windowIsolation,
} from '../../src/series/point-scores.ts';

/** A season of 24 samples with a dropout at 310 … 317. */
const season = Float64Array.from({ length: 600 }, (_, i) =>
  i >= 310 && i < 318 ? 0 : 10 + 3 * Math.sin((2 * Math.PI * i) / 24) + 0.2 * Math.sin(i * i),
);

describe('scores of samples', () => {
  it.each([
    ['deviation', deviationScore],
    ['STL residual', (values: Float64Array) => stlScore(values, 24, true)],
    ['residual of a running median', (values: Float64Array) => stlScore(values, null, false)],
    [
      'isolation forest',
      (values: Float64Array) => onSamples(windowIsolation(values, 24), 24, values.length, 'centre'),
    ],
    [
      'discords',
      (values: Float64Array) => onSamples(windowDiscords(values, 24), 24, values.length, 'spread'),
    ],
    ['spectral residual', (values: Float64Array) => spectralScore(values, 3)],
    [
      'sub-PCA',
      (values: Float64Array) =>
        onSamples(subPca(values, { window: 24, explained: 0.6 }), 24, values.length, 'centre'),
    ],
  ] as const)('%s: one for each sample, finite, the largest near what is unusual', (_, score) => {
    const scores = score(season);
    expect(scores.length).toBe(600);
    expect(scores.every((one) => Number.isFinite(one) && one >= 0)).toBe(true);
    const [start] = peaks(scores, { count: 1, share: 0.5, gap: 5 })[0]!.interval;
    expect(start).toBeGreaterThan(310 - 40);
    expect(start).toBeLessThan(318);
    expect(score(Float64Array.of(1, 4)).length).toBe(2);
  });

  it('smooth by the mean of what there is around each sample', () => {
    expect(smoothed(Float64Array.of(3, 0, 0, 9, 0), 3)).toEqual(Float64Array.of(1.5, 1, 3, 3, 4.5));
  });
});

describe('peaks of a score', () => {
  const score = Float64Array.of(0, 0, 2, 8, 5, 1, 0, 0, 0, 0, 3, 2, 0, 0, 0, 0);

  it('reach as far as the score keeps to a share of the highest, highest first', () => {
    const found = peaks(score, { count: 2, share: 0.5, gap: 0 });
    expect(found.map(({ interval }) => interval)).toEqual([
      [3, 5],
      [10, 12],
    ]);
    expect(found[0]!.height).toBeGreaterThan(found[1]!.height);
  });

  it('bridge gaps, leave out what is taken, and always are as many as asked for', () => {
    const gapped = Float64Array.of(0, 6, 0, 6, 0, 0, 0, 0, 0, 4, 0, 0, 0);
    const [first] = peaks(gapped, { count: 1, share: 0.5, gap: 1 });
    expect(first!.interval).toEqual([1, 4]);
    const [other] = peaks(gapped, { count: 1, share: 0.5, gap: 1, taken: [[1, 4]] });
    expect(other!.interval).toEqual([9, 10]);
    expect(peaks(new Float64Array(40).fill(2), { count: 1, share: 0.5, gap: 1 })).toHaveLength(1);
    for (const count of [1, 2, 3, 5]) expect(peaks(score, { count, share: 1, gap: 0 })).toHaveLength(count);
  });
});
