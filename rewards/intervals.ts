/** Sets of half-open index intervals: clipping, merging, overlap. */
import type { Interval } from '../src/types.ts';

/**
 * The union of the intervals inside [0, length): clipped, empty ones dropped, sorted, overlapping and touching
 * ones merged. Order and duplicates in the input do not matter.
 */
export function mergeIntervals(intervals: readonly Interval[], length: number): Interval[] {
  const inside: [number, number][] = [];
  for (const [start, end] of intervals) {
    const lo = Math.max(0, start);
    const hi = Math.min(length, end);
    if (lo < hi) inside.push([lo, hi]);
  }
  inside.sort((a, b) => a[0] - b[0]);
  const merged: [number, number][] = [];
  for (const next of inside) {
    const last = merged[merged.length - 1];
    if (last !== undefined && next[0] <= last[1]) last[1] = Math.max(last[1], next[1]);
    else merged.push(next);
  }
  return merged;
}

/** Number of indices covered by merged intervals. */
export function coveredLength(merged: readonly Interval[]): number {
  let total = 0;
  for (const [start, end] of merged) total += end - start;
  return total;
}

/** Number of indices covered by both of two merged lists. */
export function overlapLength(a: readonly Interval[], b: readonly Interval[]): number {
  let total = 0;
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    const [aStart, aEnd] = a[i]!;
    const [bStart, bEnd] = b[j]!;
    total += Math.max(0, Math.min(aEnd, bEnd) - Math.max(aStart, bStart));
    if (aEnd < bEnd) i++;
    else j++;
  }
  return total;
}

/** Maximal runs of positive entries as half-open intervals: [0, 1, 1, 0, 2] → [[1, 3], [4, 5]]. */
export function runsOf(labels: ArrayLike<number>): Interval[] {
  const runs: Interval[] = [];
  for (let start = 0; start < labels.length; start++) {
    if (!(labels[start]! > 0)) continue;
    let end = start + 1;
    while (end < labels.length && labels[end]! > 0) end++;
    runs.push([start, end]);
    start = end;
  }
  return runs;
}
