/** What predicted intervals cover of a series. */
import { mergeIntervals } from '../src/series/intervals.ts';
import type { Interval } from '../src/types.ts';

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
