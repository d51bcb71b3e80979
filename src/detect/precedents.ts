/** What a series did at the same phase of earlier cycles: with what an observation on call compares a stretch. */
import type { Finding } from './finding.ts';

/** The season whose cycles are compared. */
export interface Cycles {
  /** In samples. */
  readonly period: number;
  /** Samples that the clock of the season is ahead of the count of samples [N]; null where it is never changed. */
  readonly clock: Int32Array | null;
}

/** Cycles before a stretch that are told of. */
const MOST_CYCLES = 9;
const FEWEST_CYCLES = 2;

/** Whether a value at one sample stands for the stretch, or the mean of all. */
export const atPeak = (kind: Finding['kind']): boolean => kind === 'spike' || kind === 'dip';

/**
 * Least and largest of what the series was in the cycles before a stretch, at the same phase: the value at the peak of a spike or dip, the
 * mean over other stretches. Cycles in which half of the values are missing, or of which a sample is in one of the stretches of `others`
 * (half-open, in samples), do not count; null where fewer than two are left.
 */
export function precedents(
  values: Float64Array, // [N], NaN where missing
  { start, end, peak: { index: peak }, kind }: Pick<Finding, 'start' | 'end' | 'peak' | 'kind'>,
  { period, clock }: Cycles,
  others: readonly (readonly [start: number, end: number])[],
): Finding['before'] {
  const [from, to] = atPeak(kind) ? [peak, peak + 1] : [start, end];
  const starts: number[] = [];
  let [least, largest] = [Infinity, -Infinity];
  // A stretch longer than a cycle is compared with cycles that lie before all of it.
  const first = Math.max(1, Math.ceil((to - from) / period));
  for (let k = first; starts.length < MOST_CYCLES; k++) {
    let at = from - Math.round(k * period);
    if (at < 0) break;
    if (clock !== null) at -= clock[at]! - clock[from]!;
    const until = at + to - from;
    if (at < 0 || until > start) continue;
    if (others.some(([a, b]) => a < until && at < b)) continue;
    let [sum, known] = [0, 0];
    for (let i = at; i < until; i++) {
      if (Number.isNaN(values[i]!)) continue;
      sum += values[i]!;
      known++;
    }
    if (2 * known < until - at || known === 0) continue;
    least = Math.min(least, sum / known);
    largest = Math.max(largest, sum / known);
    starts.push(at);
  }
  return starts.length < FEWEST_CYCLES ? null : { period, starts, least, largest };
}
