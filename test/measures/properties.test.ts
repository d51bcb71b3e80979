import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Interval } from '../../src/ground/types.ts';
import { mcnemar, pairedPermutation } from '../../src/measures/bootstrap.ts';
import { calibrationError, checkProbabilities } from '../../src/measures/calibration.ts';
import { averagePrecision, intervalVus, rocArea, volumeUnderSurface } from '../../src/measures/curves.ts';
import {
  eventBased,
  type PrecisionRecall,
  pointAdjusted,
  rangeBased,
} from '../../src/measures/range-based.ts';
import { majority, minimumBayesRisk, passAtK } from '../../src/measures/samples.ts';
import { clipAndMerge, pointF1 } from '../../src/series/intervals.ts';

type Measure = (
  predicted: readonly Interval[] | null,
  gold: readonly Interval[],
  n: number,
) => PrecisionRecall;

const MEASURES: Readonly<Record<string, Measure>> = {
  rangeBased,
  eventBased,
  pointAdjusted,
  intervalVus: (predicted, gold, n) => intervalVus(predicted, gold, n, 15),
};

const N = 80;
const interval = fc
  .tuple(fc.integer({ min: 0, max: N - 1 }), fc.integer({ min: 1, max: 20 }))
  .map(([start, size]): Interval => [start, Math.min(N, start + size)]);
const intervals = fc.array(interval, { minLength: 0, maxLength: 6 });
const some = fc.array(interval, { minLength: 1, maxLength: 5 });

describe.each(Object.entries(MEASURES))('%s', (_, measure) => {
  test('lies between 0 and 1, F1 between precision and recall', () => {
    fc.assert(
      fc.property(intervals, intervals, (predicted, gold) => {
        const { precision, recall, f1 } = measure(predicted, gold, N);
        for (const value of [precision, recall, f1]) {
          expect(value).toBeGreaterThanOrEqual(0);
          expect(value).toBeLessThanOrEqual(1 + 1e-12);
        }
        expect(f1).toBeLessThanOrEqual(Math.max(precision, recall) + 1e-12);
      }),
      { numRuns: 60 },
    );
  });

  test('is 1 for the truth, whatever the order and the pieces of the intervals', () => {
    fc.assert(
      fc.property(some, (gold) => {
        const pieces = [...gold, ...gold].reverse();
        expect(measure(pieces, gold, N).f1).toBeCloseTo(1, 12);
      }),
      { numRuns: 40 },
    );
  });

  test('agrees on a normal series, and is 0 where only one list is empty or the answer is unreadable', () => {
    expect(measure([], [], N).f1).toBe(1);
    expect(measure([[3, 9]], [], N).f1).toBe(0);
    expect(measure([], [[3, 9]], N).f1).toBe(0);
    expect(measure(null, [], N).f1).toBe(0);
    expect(measure([[N + 5, N + 9]], [], N).f1).toBe(0);
    expect(measure([[N + 5, N + 9]], [[3, 9]], N).f1).toBe(0);
  });

  test('takes no longer for an interval of a billion points', () => {
    const { recall } = measure([[0, 1e9]], [[5, 900_000_000]], 1_000_000_000);
    expect(recall).toBeCloseTo(1, 9);
  });
});

describe('VUS', () => {
  const scored = fc.tuple(
    fc.array(fc.integer({ min: -30, max: 30 }), { minLength: N, maxLength: N }),
    fc.array(interval, { minLength: 1, maxLength: 3 }),
    fc.integer({ min: 0, max: 24 }),
  );

  test('lies in [0, 1] and depends on the order of the scores alone', () => {
    fc.assert(
      fc.property(scored, ([scores, gold, window]) => {
        const values = Float64Array.from(scores);
        const { pr, roc } = volumeUnderSurface(values, gold, { window, thresholds: 'all' });
        for (const value of [pr, roc]) {
          expect(value).toBeGreaterThanOrEqual(0);
          expect(value).toBeLessThanOrEqual(1 + 1e-12);
        }
        const stretched = values.map((one) => 2 ** one);
        expect(volumeUnderSurface(stretched, gold, { window, thresholds: 'all' })).toEqual({ pr, roc });
      }),
      { numRuns: 40 },
    );
  });

  test('without a buffer, at every score, is average precision where one anomaly is touched first', () => {
    const scores = Float64Array.from([0.1, 0.9, 0.7, 0.3, 0.8, 0.2]);
    const gold: Interval[] = [[1, 4]];
    const { pr } = volumeUnderSurface(scores, gold, { window: 0, thresholds: 'all' });
    expect(pr).toBeCloseTo(averagePrecision(scores, gold), 12);
  });

  test('is 1 for the truth as scores', () => {
    const gold: Interval[] = [
      [10, 14],
      [40, 60],
    ];
    const scores = new Float64Array(N);
    for (const [start, end] of gold) scores.fill(1, start, end);
    expect(volumeUnderSurface(scores, gold, { window: 20 })).toEqual({ pr: 1, roc: 1 });
    expect(rocArea(scores, gold)).toBe(1);
    expect(averagePrecision(scores, gold)).toBe(1);
  });

  test('counts a near miss of two anomalies for both', () => {
    const near = intervalVus(
      [[30, 34]],
      [
        [20, 30],
        [35, 36],
      ],
      200,
      12,
    );
    const apart = intervalVus([[30, 34]], [[20, 30]], 200, 12);
    expect(near.f1).toBeGreaterThan(apart.f1);
  });

  test('has no value where there is nothing to find, or nothing else', () => {
    const scores = Float64Array.from([1, 2, 3]);
    expect(volumeUnderSurface(scores, []).pr).toBeNaN();
    expect(volumeUnderSurface(scores, [[0, 3]]).roc).toBeNaN();
  });

  test('refuses scores and windows that are none', () => {
    expect(() => volumeUnderSurface(Float64Array.from([1, Number.NaN]), [[0, 1]])).toThrow(
      'scores[1]: got NaN, expected a finite number for every point',
    );
    expect(() => volumeUnderSurface(Float64Array.from([1, 2]), [[0, 1]], { window: 2.5 })).toThrow(
      'a window of 2.5 points, expected an integer from 0 to 100000',
    );
    expect(() => volumeUnderSurface(Float64Array.from([1, 2]), [[0, 1]], { thresholds: 1 })).toThrow(
      '1 thresholds, expected an integer ≥ 2 or all',
    );
  });
});

describe('samples', () => {
  test('pass@k is the share of the draws of k that hold a right answer', () => {
    const right = [true, false, false, true, false];
    let [hits, draws] = [0, 0];
    for (let a = 0; a < 5; a++) {
      for (let b = a + 1; b < 5; b++) {
        for (let c = b + 1; c < 5; c++) {
          draws++;
          if (right[a] || right[b] || right[c]) hits++;
        }
      }
    }
    expect(passAtK(5, 2, 3)).toBeCloseTo(hits / draws, 12);
    expect(passAtK(5, 2, 1)).toBeCloseTo(0.4, 12);
    expect(passAtK(4, 0, 4)).toBe(0);
    expect(() => passAtK(4, 1, 5)).toThrow(
      'pass@5 of 4 answers, 1 of them right: expected 1 ≤ k ≤ n and 0 ≤ c ≤ n',
    );
  });

  test('unreadable answers have no vote, and the first of equals wins', () => {
    expect(majority([null, 'b', null, 'a', null, 'a'])).toBe('a');
    expect(majority(['b', 'a', 'a', 'b'])).toBe('b');
    expect(majority([null, null])).toBeNull();
  });

  test('the answer closest to the others is chosen', () => {
    const answers: Interval[][] = [[[0, 10]], [[50, 60]], [[52, 62]], [[40, 61]]];
    const similar = (a: readonly Interval[], b: readonly Interval[]): number =>
      pointF1(clipAndMerge(a, 100), clipAndMerge(b, 100));
    expect(minimumBayesRisk(answers, similar)).toBe(1);
    expect(minimumBayesRisk([], similar)).toBe(-1);
  });
});

describe('calibration', () => {
  test('is the gap between probability and accuracy, weighed by bins', () => {
    const nine = Array.from({ length: 10 }, (_, i) => ({
      probabilities: { a: 0.9, b: 0.1 },
      gold: i < 8 ? 'a' : 'b',
    }));
    const sure = { probabilities: { a: 0, b: 1 }, gold: 'b' };
    expect(calibrationError(nine)).toBeCloseTo(0.1, 12);
    expect(calibrationError([...nine, sure, sure])).toBeCloseTo((10 / 12) * 0.1, 12);
    expect(calibrationError([])).toBeNaN();
  });

  test('probabilities sum to 1', () => {
    expect(() => checkProbabilities({ a: 0.4, b: 0.4 })).toThrow('they sum to 0.8, expected 1');
    expect(() => checkProbabilities({ a: 1.5, b: -0.5 })).toThrow('a has 1.5, expected a number from 0 to 1');
  });
});

describe('paired tests', () => {
  test('do not depend on which policy is the first', () => {
    fc.assert(
      fc.property(
        fc.array(fc.double({ min: -1, max: 1, noNaN: true }), { minLength: 1, maxLength: 9 }),
        (differences) => {
          const p = pairedPermutation(differences);
          expect(p).toBeGreaterThan(0);
          expect(p).toBeLessThanOrEqual(1);
          expect(pairedPermutation(differences.map((one) => -one))).toBe(p);
        },
      ),
      { numRuns: 30 },
    );
    expect(mcnemar(3, 11)).toBe(mcnemar(11, 3));
    expect(mcnemar(0, 0)).toBe(1);
  });

  test('find nothing where nothing differs', () => {
    expect(pairedPermutation([0, 0, 0])).toBe(1);
    expect(() => pairedPermutation([])).toThrow('expected at least one difference');
  });
});
