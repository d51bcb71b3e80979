/** From lasting steps of the level to the stretches between them. */
import type { Candidate } from './scan.ts';
import type { Step } from './steps.ts';

/** What a step ends began at most so many of its spans before. */
const FURTHEST = 3;
/** Longest part of a series that is an episode rather than half of it. */
const LONGEST_EPISODE = 1 / 3;

/**
 * From a step to the one that takes it back; where there is none, of what lies before and after it the part that is farther from the usual
 * level: a step back to it after a drift away is the end of something, and not its beginning.
 */
export function levels(found: readonly Step[], values: Float64Array, usual: number): Candidate[] {
  const n = values.length;
  const most = Math.floor(LONGEST_EPISODE * n);
  const out: Candidate[] = [];
  const used = new Set<Step>();
  for (const one of [...found].sort((a, b) => b.severity - a.severity)) {
    if (used.has(one)) continue;
    used.add(one);
    const back = found.find(
      (other) =>
        !used.has(other) &&
        Math.sign(other.size) !== Math.sign(one.size) &&
        Math.abs(other.size) > 0.4 * Math.abs(one.size) &&
        Math.abs(other.size) < 2.5 * Math.abs(one.size) &&
        Math.abs(other.at - one.at) <= most &&
        !found.some(
          (between) => between.at > Math.min(one.at, other.at) && between.at < Math.max(one.at, other.at),
        ),
    );
    const add = (start: number, end: number, sign: number): void =>
      void out.push({
        ...{ start, end, sign: sign > 0 ? 1 : -1, severity: one.severity },
        ...{ peak: start, track: 'step' as const },
      });
    if (back !== undefined) {
      used.add(back);
      const first = back.at < one.at ? back : one;
      add(first.at, Math.max(one.at, back.at), first.size);
      continue;
    }
    const before = meanOf(values, Math.max(0, one.at - one.span), one.at);
    const after = meanOf(values, one.at, Math.min(n, one.at + one.span));
    const half = (before + after) / 2;
    const later = Math.abs(after - usual) >= Math.abs(before - usual);
    const sign = later ? Math.sign(one.size) : -Math.sign(one.size);
    // As far as it adds up to more.
    let [sum, largest, reach] = [0, 0, 0];
    const room = later ? n - one.at : one.at;
    const furthest = later ? most : Math.min(most, FURTHEST * one.span);
    for (let k = 1; k <= room; k++) {
      sum += sign * (values[later ? one.at + k - 1 : one.at - k]! - half);
      if (sum > largest) [largest, reach] = [sum, k];
    }
    if (reach > furthest) {
      const end = Math.min(n, one.at + one.span);
      out.push({
        ...{ start: one.at, end, sign: one.size > 0 ? 1 : -1, severity: one.severity, peak: one.at },
        ...{ track: 'step', lasting: true },
      });
    } else if (later) add(one.at, one.at + Math.max(1, reach), sign);
    else add(one.at - Math.max(1, reach), one.at, sign);
  }
  return out;
}

/** Mean of samples [from, to). */
function meanOf(values: Float64Array, from: number, to: number): number {
  let sum = 0;
  for (let i = from; i < to; i++) sum += values[i]!;
  return sum / Math.max(1, to - from);
}
