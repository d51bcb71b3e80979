/** Measures against what independent programs computed: test/golden/make_measures.py names them. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Interval } from '../../src/ground/types.ts';
import { mcnemar, pairedPermutation } from '../../src/measures/bootstrap.ts';
import { brierScore, logLoss } from '../../src/measures/calibration.ts';
import { averagePrecision, intervalVus, rocArea, volumeUnderSurface } from '../../src/measures/curves.ts';
import { eventBased, pointAdjusted, rangeBased } from '../../src/measures/range-based.ts';

interface IntervalsCase {
  readonly name: string;
  readonly length: number;
  readonly gold: readonly Interval[];
  readonly predicted: readonly Interval[];
  readonly window: number;
  readonly range_based: readonly {
    readonly alpha: number;
    readonly cardinality: 'one' | 'reciprocal';
    readonly bias: 'flat' | 'front' | 'middle' | 'back';
    readonly precision: number;
    readonly recall: number;
    readonly f1: number;
  }[];
  readonly tsb_range_f1: number;
  readonly tsb_event_f1: number;
  readonly tsb_pa_f1: number;
  readonly vus_labels: readonly [recall: number, precision: number, f: number];
}

interface ScoresCase {
  readonly name: string;
  readonly gold: readonly Interval[];
  readonly window: number;
  readonly scores: readonly number[];
  readonly auc_pr: number;
  readonly auc_roc: number;
  readonly vus_pr: number;
  readonly vus_roc: number;
  readonly vus_pr_all: number;
  readonly vus_roc_all: number;
}

const golden = JSON.parse(
  readFileSync(join(import.meta.dirname, '../golden/eval/measures.json'), 'utf8'),
) as {
  readonly intervals: readonly IntervalsCase[];
  readonly scores: readonly ScoresCase[];
  readonly calibration: {
    readonly classes: readonly string[];
    readonly probabilities: readonly (readonly number[])[];
    readonly gold: readonly string[];
    readonly brier: number;
    readonly log_loss: number;
  };
  readonly mcnemar: readonly { readonly lost: number; readonly won: number; readonly p: number }[];
  readonly permutation: readonly { readonly differences: readonly number[]; readonly p: number }[];
};

const mean = (values: readonly number[]): number => values.reduce((sum, one) => sum + one, 0) / values.length;

describe('measures of intervals', () => {
  test.each(golden.intervals)(
    '$name: range-based as prts with reciprocal cardinality and flat bias',
    (one) => {
      const plain = one.range_based.filter(
        ({ cardinality, bias }) => cardinality === 'reciprocal' && bias === 'flat',
      );
      const [none, some] = [0, 0.3].map((wanted) => plain.find(({ alpha }) => alpha === wanted)!);
      const found = rangeBased(one.predicted, one.gold, one.length);
      expect(found.precision).toBeCloseTo(none!.precision, 12);
      // Recall is linear in alpha, which is 0.2.
      expect(found.recall).toBeCloseTo(none!.recall + (2 / 3) * (some!.recall - none!.recall), 12);
    },
  );

  test.each(golden.intervals)('$name: range F1, event F1 and adjusted F1 as TSB-AD', (one) => {
    const { predicted, gold, length } = one;
    expect(rangeBased(predicted, gold, length).f1).toBeCloseTo(one.tsb_range_f1, 12);
    expect(eventBased(predicted, gold, length).f1).toBeCloseTo(one.tsb_event_f1, 12);
    expect(pointAdjusted(predicted, gold, length).f1).toBeCloseTo(one.tsb_pa_f1, 12);
  });

  test.each(golden.intervals)('$name: VUS of intervals as TSB-AD from the true labels', (one) => {
    const found = intervalVus(one.predicted, one.gold, one.length, one.window);
    const [recall, precision, f1] = one.vus_labels;
    expect(found.recall).toBeCloseTo(recall, 10);
    expect(found.precision).toBeCloseTo(precision, 10);
    expect(found.f1).toBeCloseTo(f1, 10);
  });
});

describe('measures of scores', () => {
  test.each(golden.scores)('$name: areas as scikit-learn', ({ scores, gold, auc_pr, auc_roc }) => {
    expect(averagePrecision(Float64Array.from(scores), gold)).toBeCloseTo(auc_pr, 12);
    expect(rocArea(Float64Array.from(scores), gold)).toBeCloseTo(auc_roc, 12);
  });

  test.each(golden.scores)('$name: VUS as TSB-AD', (one) => {
    const found = volumeUnderSurface(Float64Array.from(one.scores), one.gold, { window: one.window });
    expect(found.pr).toBeCloseTo(one.vus_pr, 10);
    expect(found.roc).toBeCloseTo(one.vus_roc, 10);
  });

  test.each(golden.scores)('$name: VUS at every score as TSB-AD with a threshold for each point', (one) => {
    const found = volumeUnderSurface(Float64Array.from(one.scores), one.gold, {
      window: one.window,
      thresholds: 'all',
    });
    expect(found.pr).toBeCloseTo(one.vus_pr_all, 10);
    expect(found.roc).toBeCloseTo(one.vus_roc_all, 10);
  });
});

describe('probabilities', () => {
  const { classes, probabilities, gold, brier, log_loss: loss } = golden.calibration;
  const stated = probabilities.map((values, i) => ({
    probabilities: Object.fromEntries(classes.map((name, k) => [name, values[k]!])),
    gold: gold[i]!,
  }));

  test('Brier score and log loss as scikit-learn', () => {
    expect(mean(stated.map(brierScore))).toBeCloseTo(brier, 12);
    expect(mean(stated.map(logLoss))).toBeCloseTo(loss, 12);
  });
});

describe('paired tests', () => {
  test.each(golden.mcnemar)('McNemar of $lost lost and $won won as SciPy', ({ lost, won, p }) => {
    expect(mcnemar(lost, won)).toBeCloseTo(p, 10);
  });

  test.each(golden.permutation)('permutation of $differences as SciPy', ({ differences, p }) => {
    expect(pairedPermutation(differences)).toBeCloseTo(p, 12);
  });

  test('draws of signs come near to all of them', () => {
    const few = golden.permutation[2]!.differences;
    // Twice the differences, one of each pair scaled: 20 of them are too many to try all signs.
    const many = [...few, ...few.map((one) => one * 0.9)];
    const p = pairedPermutation(many);
    expect(Math.abs(p - pairedPermutation(many, 1))).toBeLessThan(0.02);
    expect(p).toBeLessThan(pairedPermutation(few));
  });
});
