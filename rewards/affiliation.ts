/**
 * Affiliation precision and recall (Huet, Navarro & Rossi 2022, "Local evaluation of time series anomaly
 * detection algorithms"), integrated exactly. Each gold event J = [a, b] owns the zone E of the time axis that is
 * closest to it. Precision asks how close the predictions inside E are to J, recall how close J is to them, both
 * as the probability of doing better than a uniformly random point of E.
 */
import { ConfigError, DataError } from '../src/ground/errors.ts';
import { checkIntervalLists, isPair } from '../src/ground/interval-lists.ts';
import { show } from '../src/ground/json-record.ts';
import type { Interval } from '../src/ground/types.ts';

/** Share of one gold event in the metrics. */
interface EventAffiliation {
  readonly zone: readonly [start: number, end: number];
  /** Precision in [0, 1]; NaN when no prediction falls into the zone. */
  readonly precision: number;
  /** Recall in [0, 1]; 0 when no prediction falls into the zone. */
  readonly recall: number;
}

export interface Affiliation {
  /** Mean over the events whose zone holds a prediction, in [0, 1]; NaN when there is none. */
  readonly precision: number;
  /** Mean over all events, in [0, 1]. */
  readonly recall: number;
  /** Harmonic mean, in [0, 1]; 0 when either is 0 or NaN. */
  readonly f1: number;
  readonly events: readonly EventAffiliation[];
}

/** ∫₀^d min(s, cap) ds. */
function cappedIntegral(d: number, cap: number): number {
  return d <= cap ? (d * d) / 2 : (cap * cap) / 2 + cap * (d - cap);
}

/**
 * ∫ over distances d in [near, far] on one side of an event of `d + min(d, other)`: the length of the part of the
 * zone that is closer than d, where the own side never ends before d and the other side has `other` left.
 */
function closerThan(near: number, far: number, other: number): number {
  return (far * far - near * near) / 2 + cappedIntegral(far, other) - cappedIntegral(near, other);
}

/** ∫ of precision's survival function over the piece [u, v] of a zone [e0, e1] around the event [a, b]. */
function precisionMass(u: number, v: number, a: number, b: number, e0: number, e1: number): number {
  const size = e1 - e0;
  let mass = Math.max(0, Math.min(v, b) - Math.max(u, a));
  const left = Math.min(v, a);
  if (u < left) mass += left - u - ((b - a) * (left - u) + closerThan(a - left, a - u, e1 - b)) / size;
  const right = Math.max(u, b);
  if (right < v) mass += v - right - ((b - a) * (v - right) + closerThan(right - b, v - b, a - e0)) / size;
  return mass;
}

/** ∫ over y in [u, v] of min(p − y, y − e0) for e0 ≤ u ≤ v ≤ p. */
function tentIntegral(u: number, v: number, p: number, e0: number): number {
  const peak = (p + e0) / 2;
  const rising = Math.min(v, peak);
  const falling = Math.max(u, peak);
  let mass = 0;
  if (u < rising) mass += ((rising - e0) ** 2 - (u - e0) ** 2) / 2;
  if (falling < v) mass += ((p - falling) ** 2 - (p - v) ** 2) / 2;
  return mass;
}

/** ∫ over y in [u, v] of 1 − (d + min(d, room behind y)) / |E| where the nearest prediction is p ≥ v. */
function recallMassBefore(u: number, v: number, p: number, e0: number, size: number): number {
  const distance = ((p - u) ** 2 - (p - v) ** 2) / 2;
  return v - u - (distance + tentIntegral(u, v, p, e0)) / size;
}

/** Mean recall survival over the event [a, b] given the predictions `pieces` (sorted, not empty) in [e0, e1]. */
function eventRecall(pieces: readonly Interval[], a: number, b: number, e0: number, e1: number): number {
  const size = e1 - e0;
  let mass = 0;
  let previousEnd: number | null = null;
  for (let i = 0; i <= pieces.length; i++) {
    const piece = pieces[i];
    const nextStart = piece === undefined ? null : piece[0];
    // The gap before this piece: its first half is closest to the previous piece, its second half to this one.
    const middle =
      previousEnd === null ? -Infinity : nextStart === null ? Infinity : (previousEnd + nextStart) / 2;
    if (previousEnd !== null) {
      const u = Math.max(a, previousEnd);
      const v = Math.min(b, middle);
      // Mirrored: distances to a prediction on the left of y are those to one on the right of −y.
      if (u < v) mass += recallMassBefore(-v, -u, -previousEnd, -e1, size);
    }
    if (nextStart !== null) {
      const u = Math.max(a, middle);
      const v = Math.min(b, nextStart);
      if (u < v) mass += recallMassBefore(u, v, nextStart, e0, size);
    }
    if (piece !== undefined) {
      mass += Math.max(0, Math.min(b, piece[1]) - Math.max(a, piece[0]));
      previousEnd = piece[1];
    }
  }
  return mass / (b - a);
}

/**
 * Computes the metrics for events that are already valid (see `affiliation`), unchecked for speed.
 * Time is linear in the number of events plus predictions times zones they touch.
 */
export function affiliationOf(
  predicted: readonly Interval[],
  gold: readonly Interval[],
  range: readonly [start: number, end: number],
): Affiliation {
  const events: EventAffiliation[] = [];
  let first = 0; // predictions before it end before the current zone
  let precisionSum = 0;
  let precisionCount = 0;
  let recallSum = 0;
  for (let j = 0; j < gold.length; j++) {
    const [a, b] = gold[j]!;
    const e0 = j === 0 ? range[0] : (gold[j - 1]![1] + a) / 2;
    const e1 = j === gold.length - 1 ? range[1] : (b + gold[j + 1]![0]) / 2;
    while (first < predicted.length && predicted[first]![1] <= e0) first++;
    const pieces: Interval[] = [];
    let covered = 0;
    let mass = 0;
    for (let i = first; i < predicted.length && predicted[i]![0] < e1; i++) {
      const u = Math.max(e0, predicted[i]![0]);
      const v = Math.min(e1, predicted[i]![1]);
      pieces.push([u, v]);
      covered += v - u;
      mass += precisionMass(u, v, a, b, e0, e1);
    }
    const precision = pieces.length === 0 ? Number.NaN : Math.min(1, Math.max(0, mass / covered));
    const recall = pieces.length === 0 ? 0 : Math.min(1, Math.max(0, eventRecall(pieces, a, b, e0, e1)));
    if (pieces.length > 0) {
      precisionSum += precision;
      precisionCount++;
    }
    recallSum += recall;
    events.push({ zone: [e0, e1], precision, recall });
  }
  const precision = precisionSum / precisionCount; // 0 / 0 is the NaN of "no prediction"
  const recall = recallSum / gold.length;
  const f1 = precision > 0 && recall > 0 ? (2 * precision * recall) / (precision + recall) : 0;
  return { precision, recall, f1, events };
}

/** @throws ConfigError for a range or events that are not pairs of finite numbers */
function checkShapes({
  predicted,
  gold,
  range,
}: Readonly<Record<'predicted' | 'gold' | 'range', unknown>>): void {
  if (!isPair(range) || !((range as number[])[0]! < (range as number[])[1]!)) {
    throw new ConfigError(
      `affiliation: range: got ${show(range)}, expected [start, end] with start < end, such as [0, length]`,
    );
  }
  checkIntervalLists('affiliation', { predicted, gold });
}

function checkEvents(name: string, events: readonly Interval[], range: readonly [number, number]): void {
  events.forEach(([start, end], i) => {
    const where = `affiliation: ${name} event ${i} [${start}, ${end}]`;
    if (!(start < end)) throw new DataError(`${where} is empty: the start must be below the end`);
    if (start < range[0] || end > range[1]) {
      throw new DataError(`${where} leaves the range [${range[0]}, ${range[1]}]: clip it first`);
    }
    if (i > 0 && !(events[i - 1]![1] < start)) {
      throw new DataError(`${where} touches, overlaps or precedes the one before it: sort and merge first`);
    }
  });
}

/**
 * Computes the affiliation metrics of `predicted` against `gold` events on `range`.
 *
 * Formula: with I = predictions ∩ E, precision_j = mean over x in I of F(x), F = 1 inside J, otherwise
 * 1 − (|J| + min(d, a−e0) + min(d, e1−b)) / |E|, d = distance(x, J); recall_j = mean over y in J of
 * 1 − (min(d, y−e0) + min(d, e1−y)) / |E|, d = distance(y, I).
 * Range: [0, 1]. Edge cases: an event without predictions in its zone has recall 0 and no precision; no prediction
 * at all gives precision NaN, recall 0, F1 0.
 * Example: predicted [[4, 5], [8, 9]], gold [[3, 4], [7, 10]] on [0, 10] → precision .818, recall .844.
 * Source: Huet et al. 2022; agrees with github.com/ahstat/affiliation-metrics-py.
 * @throws DataError for no gold event, or events that are empty, unordered, touching or outside the range; ConfigError for
 * arguments of another shape.
 */
export function affiliation(
  predicted: readonly Interval[],
  gold: readonly Interval[],
  range: readonly [start: number, end: number],
): Affiliation {
  checkShapes({ predicted, gold, range });
  if (gold.length === 0) {
    throw new DataError('affiliation: no gold event; the metrics are only defined for an anomalous series');
  }
  checkEvents('predicted', predicted, range);
  checkEvents('gold', gold, range);
  return affiliationOf(predicted, gold, range);
}
