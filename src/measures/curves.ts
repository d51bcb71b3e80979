/** Areas under curves of a score for every point against intervals of truth. */
import { DataError } from '../ground/errors.ts';
import type { Interval } from '../ground/types.ts';
import { clipAndMerge } from '../series/intervals.ts';

/** @throws DataError for a score that is not finite */
export function checkScores(scores: ArrayLike<number>): void {
  for (let i = 0; i < scores.length; i++) {
    if (!Number.isFinite(scores[i]!)) {
      throw new DataError(`scores[${i}]: got ${scores[i]}, expected a finite number for every point`);
    }
  }
}

/** Anomalous and normal points with each distinct score, from the highest score down. */
interface Steps {
  readonly hits: readonly number[];
  readonly misses: readonly number[];
  readonly positives: number;
  readonly negatives: number;
}

function stepsOf(scores: Float64Array, truth: readonly Interval[]): Steps {
  checkScores(scores);
  const n = scores.length;
  const inside: number[] = [];
  for (const [start, end] of clipAndMerge(truth, n)) {
    for (let i = start; i < end; i++) inside.push(scores[i]!);
  }
  const anomalous = Float64Array.from(inside).sort();
  const all = Float64Array.from(scores).sort();
  const [hits, misses]: [number[], number[]] = [[], []];
  let a = anomalous.length - 1;
  for (let i = n - 1; i >= 0; ) {
    const value = all[i]!;
    let [here, of] = [0, 0];
    while (i >= 0 && all[i] === value) {
      i--;
      here++;
    }
    while (a >= 0 && anomalous[a] === value) {
      a--;
      of++;
    }
    hits.push(of);
    misses.push(here - of);
  }
  return { hits, misses, positives: anomalous.length, negatives: n - anomalous.length };
}

/**
 * Formula: average precision, Σ (Rₙ − Rₙ₋₁)·Pₙ over the thresholds from the highest down, equal scores together.
 * Range: [0, 1]; the share of anomalous points for a score without information. Edge cases: NaN without an anomalous point.
 * Example: scores [.9, .2, .8, .1], truth [[0, 1], [3, 4]] → .75.
 * Source: `average_precision_score` of scikit-learn; TSB-AD's AUC-PR.
 * @throws DataError for a score that is not finite
 */
export function averagePrecision(scores: Float64Array, truth: readonly Interval[]): number {
  const { hits, misses, positives } = stepsOf(scores, truth);
  let [right, predicted, area] = [0, 0, 0];
  for (const [i, of] of hits.entries()) {
    right += of;
    predicted += of + misses[i]!;
    area += (of / positives) * (right / predicted);
  }
  return positives === 0 ? Number.NaN : area;
}

/**
 * Formula: the share of pairs of an anomalous and a normal point in which the anomalous one has the higher score, equal scores half.
 * Range: [0, 1]; .5 for a score without information. Edge cases: NaN unless there are points of both kinds.
 * Example: scores [.9, .2, .8, .1], truth [[0, 1], [3, 4]] → .5.
 * Source: `roc_auc_score` of scikit-learn; TSB-AD's AUC-ROC.
 * @throws DataError for a score that is not finite
 */
export function rocArea(scores: Float64Array, truth: readonly Interval[]): number {
  const { hits, misses, positives, negatives } = stepsOf(scores, truth);
  let [right, area] = [0, 0];
  for (const [i, of] of hits.entries()) {
    area += misses[i]! * (right + of / 2);
    right += of;
  }
  return area / positives / negatives;
}
