/** How well intervals and scores tell where the anomalies of a series are. */
import { affiliation } from '../../rewards/affiliation.ts';
import type { Interval } from '../../src/ground/types.ts';
import { mergeIntervals } from '../../src/series/intervals.ts';

/**
 * Average precision of a score [N] for the samples inside of the truth: Σ (Rₙ − Rₙ₋₁)·Pₙ over the thresholds, equal scores together, as
 * in scikit-learn. In [0, 1]; the share of anomalous samples for a score without information; NaN without an anomalous sample.
 */
export function averagePrecision(score: Float64Array, truth: readonly Interval[]): number {
  const n = score.length;
  const inside = new Uint8Array(n);
  for (const [start, end] of truth) inside.fill(1, start, end);
  let total = 0;
  for (const one of inside) total += one;
  const order = Array.from({ length: n }, (_, i) => i).sort((a, b) => score[b]! - score[a]!);
  let [hits, sum] = [0, 0];
  for (let i = 0; i < n; ) {
    const before = hits;
    const value = score[order[i]!]!;
    while (i < n && score[order[i]!]! === value) hits += inside[order[i++]!]!;
    sum += ((hits - before) / total) * (hits / i);
  }
  return total === 0 ? Number.NaN : sum;
}

export const shared = (a: Interval, b: Interval): number =>
  Math.max(0, Math.min(a[1], b[1]) - Math.max(a[0], b[0]));

/** Shared samples over those of either, in [0, 1]. */
export function intersectionOverUnion(a: Interval, b: Interval): number {
  const both = shared(a, b);
  return both / (a[1] - a[0] + b[1] - b[0] - both);
}

export interface AlarmMeasures {
  /** Affiliation, in [0, 1]; the precision of no alarm is 0. */
  readonly f1: number;
  readonly precision: number;
  readonly recall: number;
  /** Share of the anomalies that an alarm touches. */
  readonly hit: number;
  /** Mean over the anomalies of the largest intersection over union with an alarm; 0 for one that none touches. */
  readonly iou: number;
  /** Alarms that touch no anomaly. */
  readonly falseAlarms: number;
}

/** Measures of alarms, in any order, against at least one anomaly of a series of n samples. */
export function alarmMeasures(
  alarms: readonly Interval[],
  truth: readonly Interval[],
  n: number,
): AlarmMeasures {
  const { f1, precision, recall } = affiliation(mergeIntervals(alarms), mergeIntervals(truth), [0, n]);
  const best = truth.map((one) => Math.max(0, ...alarms.map((alarm) => intersectionOverUnion(alarm, one))));
  return {
    ...{ f1, precision: Number.isNaN(precision) ? 0 : precision, recall },
    hit: best.filter((one) => one > 0).length / truth.length,
    iou: best.reduce((sum, one) => sum + one, 0) / truth.length,
    falseAlarms: alarms.filter((alarm) => !truth.some((one) => shared(alarm, one) > 0)).length,
  };
}
