/** Half-open intervals on the index axis: from flags, and compared with other intervals. */
import { DataError } from '../ground/errors.ts';
import { checkIntervalLists } from '../ground/interval-lists.ts';
import type { Interval } from '../ground/types.ts';

/** Runs of flagged indices of [N] as sorted, disjoint half-open intervals. */
export function runs(n: number, flagged: (index: number) => boolean): Interval[] {
  const intervals: Interval[] = [];
  let start = -1;
  for (let i = 0; i < n; i++) {
    if (flagged(i)) {
      if (start < 0) start = i;
    } else if (start >= 0) {
      intervals.push([start, i]);
      start = -1;
    }
  }
  if (start >= 0) intervals.push([start, n]);
  return intervals;
}

/** Sorted union; intervals no further apart than `gap` samples become one (0 joins those that touch). */
export function mergeIntervals(intervals: readonly Interval[], gap = 0): Interval[] {
  const merged: [number, number][] = [];
  for (const [start, end] of [...intervals].sort((a, b) => a[0] - b[0])) {
    const last = merged.at(-1);
    if (last !== undefined && start <= last[1] + gap) last[1] = Math.max(last[1], end);
    else merged.push([start, end]);
  }
  return merged;
}

/**
 * Maps intervals of an answer over `length` points to samples of the series: ends at the nearest sample, at least one sample each; sorted,
 * disjoint, inside the window.
 */
export function mapBack(intervals: readonly Interval[], length: number, window: Interval): Interval[] {
  const [first, last] = window;
  const scale = (last - first) / length;
  return mergeIntervals(
    intervals.map(([start, end]): Interval => {
      const from = Math.min(last - 1, first + Math.round(start * scale));
      return [from, Math.min(last, Math.max(from + 1, first + Math.round(end * scale)))];
    }),
  );
}

/** Number of samples covered by sorted, disjoint intervals. */
export function coverage(intervals: readonly Interval[]): number {
  let covered = 0;
  for (const [start, end] of intervals) covered += end - start;
  return covered;
}

/** Number of samples that two lists of sorted, disjoint intervals share. */
export function overlap(a: readonly Interval[], b: readonly Interval[]): number {
  let shared = 0;
  let i = 0;
  let j = 0;
  while (i < a.length && j < b.length) {
    const [aStart, aEnd] = a[i]!;
    const [bStart, bEnd] = b[j]!;
    shared += Math.max(0, Math.min(aEnd, bEnd) - Math.max(aStart, bStart));
    if (aEnd <= bEnd) i++;
    else j++;
  }
  return shared;
}

/** Computes `pointF1` of sorted, disjoint intervals, unchecked for speed. */
export function pointF1Of(predicted: readonly Interval[], gold: readonly Interval[]): number {
  const total = coverage(predicted) + coverage(gold);
  return total === 0 ? 1 : (2 * overlap(predicted, gold)) / total;
}

/**
 * Computes the point F1 of intervals, in [0, 1]: 2·|A∩B| / (|A| + |B|); two empty lists agree (1). Order and overlaps in a list do
 * not matter.
 * @throws DataError for an empty or reversed interval; ConfigError for arguments of another shape
 */
export function pointF1(predicted: readonly Interval[], gold: readonly Interval[]): number {
  checkIntervalLists('pointF1', { predicted, gold });
  for (const [name, intervals] of Object.entries({ predicted, gold })) {
    const wrong = intervals.findIndex(([start, end]) => !(start < end));
    if (wrong < 0) continue;
    const [start, end] = intervals[wrong]!;
    throw new DataError(
      `pointF1: ${name}[${wrong}]: got [${start}, ${end}], expected the start to be below the end`,
    );
  }
  return pointF1Of(mergeIntervals(predicted), mergeIntervals(gold));
}

/**
 * The union of the intervals inside [0, length): clipped, empty ones dropped, sorted, overlapping and touching
 * ones merged. Order and duplicates in the input do not matter.
 */
export function clipAndMerge(intervals: readonly Interval[], length: number): Interval[] {
  const inside: Interval[] = [];
  for (const [start, end] of intervals) {
    const lo = Math.max(0, start);
    const hi = Math.min(length, end);
    if (lo < hi) inside.push([lo, hi]);
  }
  return mergeIntervals(inside);
}

/** Parts of the intervals inside a window, counted from its start. */
export function within(intervals: readonly Interval[], [from, to]: Interval): Interval[] {
  return intervals.flatMap(([start, end]): Interval[] => {
    const first = Math.max(start, from);
    const last = Math.min(end, to);
    return first < last ? [[first - from, last - from]] : [];
  });
}

/** Intervals for a reader; null: unreadable. */
export function intervalText(intervals: readonly Interval[] | null): string {
  if (intervals === null) return 'unreadable';
  if (intervals.length === 0) return 'none';
  const shown = intervals.slice(0, 20).map(([start, end]) => `[${start},\u00a0${end})`);
  return shown.join(' ') + (intervals.length > 20 ? ` and ${intervals.length - 20} more` : '');
}
