/** Missing points of a series: counted, and bridged by straight lines for analyses that need every point. */
import { DataError } from '../ground/errors.ts';
import type { Interval } from '../ground/types.ts';

export interface Bridged {
  /** Without missing points [N]; the very array that was given where none is missing. Not to be written to. */
  readonly values: Float64Array;
  /** Number of missing points. */
  readonly missing: number;
  /** Number of unbroken runs of missing points. */
  readonly gaps: number;
  /** Points of the longest run; 0 without one. */
  readonly longest: number;
}

/**
 * Bridges the missing points (NaN) of [N] by straight lines between their neighbours; before the first and after the last known
 * point its value is held. Throws a DataError for no samples, an infinity, or no known point.
 */
export function bridge(values: Float64Array): Bridged {
  const n = values.length;
  if (n === 0) throw new DataError('the series is empty: give at least one value');
  const infinite = values.findIndex((value) => value === Infinity || value === -Infinity);
  if (infinite >= 0) {
    throw new DataError(
      `value ${infinite} of the series is ${values[infinite]}: only NaN marks a missing point`,
    );
  }
  if (!values.some((value) => Number.isNaN(value))) return { values, missing: 0, gaps: 0, longest: 0 };
  const filled = values.slice();
  let missing = 0;
  let gaps = 0;
  let longest = 0;
  for (let start = 0; start < n; ) {
    if (!Number.isNaN(values[start]!)) {
      start++;
      continue;
    }
    let end = start;
    while (end < n && Number.isNaN(values[end]!)) end++;
    if (end - start === n) throw new DataError(`all ${n} points of the series are missing`);
    const before = start === 0 ? values[end]! : values[start - 1]!;
    const after = end === n ? before : values[end]!;
    for (let i = start; i < end; i++) {
      const part = (i - start + 1) / (end - start + 1);
      filled[i] = before * (1 - part) + after * part;
    }
    missing += end - start;
    gaps++;
    longest = Math.max(longest, end - start);
    start = end;
  }
  return { values: filled, missing, gaps, longest };
}

/** Cuts missing samples (NaN) off both ends; null if less than half of the interval is known. */
export function knownPart([start, end]: Interval, values: Float64Array): Interval | null {
  let known = 0;
  let [from, to] = [end, start];
  for (let t = start; t < end; t++) {
    if (Number.isNaN(values[t]!)) continue;
    known++;
    from = Math.min(from, t);
    to = t + 1;
  }
  return known === 0 || 2 * known < end - start ? null : [from, to];
}
