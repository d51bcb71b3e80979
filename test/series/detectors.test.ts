import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Random } from '../../src/ground/random.ts';
import type { Interval } from '../../src/ground/types.ts';
import { DETECTORS, type ScoredIntervals, spreadOverWindows } from '../../src/series/detectors.ts';
import { coverage, mergeIntervals, overlap, pointF1, runs } from '../../src/series/intervals.ts';

const random = new Random(3, 'detectors');
const run = (name: string, values: Float64Array): ScoredIntervals => DETECTORS[name]!(values);

describe.each(Object.keys(DETECTORS))('detector %s', (name) => {
  it('gives sorted disjoint intervals inside the series and a finite score per sample, at any length', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 260 }),
        fc.integer({ min: 0, max: 1000 }),
        fc.constantFrom(0, 1, 40),
        (n, seed, spike) => {
          const draw = new Random(seed, 'values');
          const values = Float64Array.from({ length: n }, (_, i) =>
            i === n >> 1 ? spike : Math.round(2 * Math.sin(i / 4) + draw.normal(0, 0.3)),
          );
          const { intervals, score } = run(name, values);
          expect(score.length).toBe(n);
          expect(score.every((value) => Number.isFinite(value) && value >= 0)).toBe(true);
          let last = -1;
          for (const [start, end] of intervals) {
            expect(start).toBeGreaterThan(last);
            expect(end).toBeGreaterThan(start);
            last = end;
          }
          expect(last).toBeLessThanOrEqual(n);
        },
      ),
      { numRuns: 25 },
    );
  });

  it('finds nothing in a constant series', () => {
    const { intervals, score } = run(name, new Float64Array(300).fill(0.1));
    expect(intervals).toEqual([]);
    expect(Math.max(...score)).toBe(0);
  });
});

describe('detectors', () => {
  const shifted: Interval = [300, 340];
  const noise = Float64Array.from(
    { length: 800 },
    (_, i) => random.normal(0, 0.1) + (i >= 300 && i < 340 ? 0.9 : 0),
  );

  it.each(['clipped-zscore', 'iqr'])('%s covers a stretch of shifted noise', (name) => {
    expect(pointF1(run(name, noise).intervals, [shifted])).toBeGreaterThan(0.95);
  });

  it('zscore marks a lone spike and scores it highest', () => {
    const values = Float64Array.from({ length: 500 }, (_, i) => Math.sin(i / 9) + random.normal(0, 0.02));
    values[333] = 9;
    const { intervals, score } = run('zscore', values);
    expect(intervals).toEqual([[333, 334]]);
    expect(score.indexOf(Math.max(...score))).toBe(333);
  });

  it('gradient marks a step and scores it highest', () => {
    const values = Float64Array.from({ length: 500 }, (_, i) => Math.sin(i / 60) + (i < 333 ? 0 : 4));
    const { intervals, score } = run('gradient', values);
    expect(overlap(intervals, [[323, 343]])).toBe(coverage(intervals));
    expect(coverage(intervals)).toBeGreaterThan(5);
    expect(Math.abs(score.indexOf(Math.max(...score)) - 333)).toBeLessThan(6);
  });

  it.each(['discord', 'discords', 'sliding-period'])('%s marks a stretch of another period', (name) => {
    const values = Float64Array.from(
      { length: 1500 },
      (_, i) => Math.sin((2 * Math.PI * i) / (i >= 900 && i < 960 ? 6 : 24)) + random.normal(0, 0.03),
    );
    const { intervals, score } = run(name, values);
    expect(overlap(intervals, [[900, 960]])).toBeGreaterThan(20);
    expect(coverage(intervals)).toBeLessThan(250);
    expect(score[930]).toBeGreaterThan(score[200]!);
  });
});

describe('intervals', () => {
  const list = fc
    .array(fc.tuple(fc.integer({ min: 0, max: 90 }), fc.integer({ min: 1, max: 15 })))
    .map((pairs) => mergeIntervals(pairs.map(([start, length]): Interval => [start, start + length])));
  const flags = (intervals: readonly Interval[]): boolean[] =>
    Array.from({ length: 120 }, (_, i) => intervals.some(([start, end]) => i >= start && i < end));

  it('are the runs of their own flags', () => {
    fc.assert(
      fc.property(list, (intervals) => {
        const mask = flags(intervals);
        expect(runs(120, (i) => mask[i]!)).toEqual(intervals);
      }),
    );
  });

  it('compare as their flags do', () => {
    fc.assert(
      fc.property(list, list, (a, b) => {
        const both = flags(a).filter((flag, i) => flag && flags(b)[i]).length;
        const sizes = [a, b].map((intervals) => flags(intervals).filter(Boolean).length);
        expect(overlap(a, b)).toBe(both);
        expect([coverage(a), coverage(b)]).toEqual(sizes);
        const total = sizes[0]! + sizes[1]!;
        expect(pointF1(a, b)).toBeCloseTo(total === 0 ? 1 : (2 * both) / total, 12);
      }),
      { numRuns: 50 },
    );
  });

  it('join over gaps up to the given one', () => {
    const parts: Interval[] = [
      [10, 12],
      [0, 5],
      [7, 8],
    ];
    expect(mergeIntervals(parts, 2)).toEqual([[0, 12]]);
    expect(mergeIntervals(parts, 1)).toEqual([
      [0, 5],
      [7, 8],
      [10, 12],
    ]);
  });
});

describe('scores spread over windows', () => {
  it('give each sample the largest score of the windows that hold it', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: 9 }), { minLength: 1, maxLength: 30 }),
        fc.integer({ min: 1, max: 8 }),
        (scores, window) => {
          const length = scores.length + window - 1;
          const spread = spreadOverWindows(Float64Array.from(scores), window, length);
          for (let i = 0; i < length; i++) {
            const holding = scores.filter((_, k) => i >= k && i < k + window);
            expect(spread[i]).toBe(Math.max(...holding));
          }
        },
      ),
    );
  });
});
