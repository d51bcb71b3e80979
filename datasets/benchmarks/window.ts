/** Windows of a series that is too long to be one example. */
import { ConfigError } from '../../src/errors.ts';
import type { Interval } from '../../src/types.ts';

/** Shortest window that can be asked for. */
export const MINIMUM_WINDOW = 16;

/** @throws ConfigError unless it is a whole number of at least `MINIMUM_WINDOW`, or null */
export function checkWindow(window: number | null): void {
  if (window === null || (Number.isInteger(window) && window >= MINIMUM_WINDOW)) return;
  throw new ConfigError(
    `--window: got ${window}, expected a whole number of at least ${MINIMUM_WINDOW} points, or 0 for whole series`,
  );
}

/** @throws ConfigError where a task of whole series is asked for windows */
export function refuseWindow(task: string, window: number | null | undefined): void {
  if (window == null) return;
  throw new ConfigError(`${task}: its series are examples as they are; leave --window out`);
}

/**
 * Cuts [0, length) into the fewest windows of at most `most` points, of lengths that differ by at most one: no point is
 * left out, none is in two windows. Null: one window.
 */
export function evenWindows(length: number, most: number | null): Interval[] {
  const count = most === null ? 1 : Math.max(1, Math.ceil(length / most));
  return Array.from(
    { length: count },
    (_, k): Interval => [Math.floor((k * length) / count), Math.floor(((k + 1) * length) / count)],
  );
}

/** Windows of exactly `size` points from the start on; what is left at the end is not used. */
export function wholeWindows(length: number, size: number): Interval[] {
  return Array.from({ length: Math.floor(length / size) }, (_, k): Interval => [k * size, (k + 1) * size]);
}

/** What of the intervals lies in a window, counted from its start. */
export function inside(intervals: readonly Interval[], [from, to]: Interval): Interval[] {
  return intervals.flatMap(([start, end]): Interval[] => {
    const first = Math.max(start, from);
    const last = Math.min(end, to);
    return first < last ? [[first - from, last - from]] : [];
  });
}

/** Runs of 1 as intervals. */
export function runsOf(labels: Uint8Array): Interval[] {
  const runs: Interval[] = [];
  for (let at = 0; at < labels.length; at++) {
    if (labels[at] === 0) continue;
    const start = at;
    while (at < labels.length && labels[at] !== 0) at++;
    runs.push([start, at]);
  }
  return runs;
}
