/**
 * Departures that come again and again at equal distances are the pattern of a series, not anomalies: the edges of a working day, a
 * job that runs every night.
 */
import type { Interval } from '../types.ts';

/** Occurrences from which equal distances are no chance. */
const FEWEST_OCCURRENCES = 3;
/** Deviation from equal distances, as a part of the distance, and in samples at least. */
const TOLERANCE = 0.02;
const LEAST_TOLERANCE = 2;
/** Part of a departure that its recurrence must reach. */
const LEAST_PART = 2 / 3;
/** Distance, in lengths of the longest stretch, from which stretches recur rather than follow each other. */
const LEAST_LENGTHS = 4;
/** Deviation that adds up over many lags, as a part of the lag, from which anything would match. */
const MOST_REACH = 0.25;
/** More stretches than these are not compared: cost would grow with their number times the length. */
const MOST_STRETCHES = 100;
/** Stretches whose distances are tried as lags; of more the first ones. */
const MOST_TRIED = 12;

/** A stretch by its largest departure, signed. */
interface Peak {
  readonly at: number;
  readonly size: number;
  /** Samples by which it may lie off because an end of the series cuts it. */
  readonly slack: number;
}

export interface Recurrence {
  /** Distance in samples at which departures recur; null where none do. */
  readonly lag: number | null;
  /** The stretches that do not recur at it. */
  readonly rest: readonly Interval[];
}

/**
 * Which stretches of departures [N] recur. A stretch recurs at a lag when at every whole number of lags before and after it that the
 * series holds (up to 12 each way), and at one at least, stands a departure in the same direction, two thirds as large or larger. A lag is one at which a stretch
 * occurs three times or more; of several that at which the most stretches recur, of equal ones the shortest.
 */
export function recurrence(departures: Float64Array, stretches: readonly Interval[]): Recurrence {
  const n = departures.length;
  let best: Recurrence = { lag: null, rest: stretches };
  if (stretches.length < 2 || stretches.length > MOST_STRETCHES) return best;
  const peaks = stretches.map(([start, end]): Peak => {
    let at = start;
    for (let i = start; i < end; i++) if (Math.abs(departures[i]!) > Math.abs(departures[at]!)) at = i;
    return { at, size: departures[at]!, slack: start === 0 || end === n ? end - start : 0 };
  });
  const longest = stretches.reduce((most, [start, end]) => Math.max(most, end - start), 0);
  const tried = peaks.slice(0, MOST_TRIED);
  const lags = tried
    .flatMap((a, i) => tried.slice(i + 1).flatMap((b) => (a.size * b.size > 0 ? [b.at - a.at] : [])))
    .filter((lag) => lag > LEAST_LENGTHS * longest && (FEWEST_OCCURRENCES - 1) * lag < n)
    .sort((a, b) => a - b);
  for (const lag of new Set(lags)) {
    const times = peaks.map((peak) => occurrences(departures, peak, lag));
    if (!times.some((own) => own >= FEWEST_OCCURRENCES)) continue;
    const rest = stretches.filter((_, i) => times[i]! < 2);
    if (rest.length < best.rest.length) best = { lag, rest };
  }
  return best;
}

/** How often a departure occurs at multiples of a lag, itself included; 1 where it is missing anywhere. */
function occurrences(departures: Float64Array, { at, size, slack }: Peak, lag: number): number {
  const n = departures.length;
  let count = 1;
  for (const direction of [-1, 1]) {
    for (let k = 1; ; k++) {
      const reach = slack + k * Math.max(LEAST_TOLERANCE, TOLERANCE * lag);
      const [from, to] = [at + direction * k * lag - reach, at + direction * k * lag + reach];
      // Where the series ends inside, or it is too far off, nothing can be said.
      if (from < 0 || to > n - 1 || reach > MOST_REACH * lag) break;
      let largest = 0;
      for (let i = Math.ceil(from); i <= to; i++) {
        largest = Math.max(largest, Math.sign(size) * departures[i]!);
      }
      if (largest < LEAST_PART * Math.abs(size)) return 1;
      count++;
    }
  }
  return count;
}
