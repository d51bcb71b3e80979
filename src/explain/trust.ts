/**
 * Whether a policy can be believed about the windows of a series. A policy answers whatever it is shown; that it is far from what it was
 * taught shows in six ways, each measured window by window:
 *
 *   unreadable  the answer is none
 *   unlike      what it was shown lies farther from its training pictures than 99 % of its validation pictures do
 *   unsure      its tokens are less probable than those of 99 % of its answers to validation pictures
 *   samples     answers drawn at random mark other samples than each other
 *   shifts      windows that overlap mark other samples where they do, and not only here and there
 *   repeated    many windows that look different get one and the same text
 *
 * A window with any doubt has no vote. From a share of such windows on, of all or of those that mark something, the policy abstains on the
 * whole column.
 *
 * Limits were chosen with two policies of the quickstart's size, on 400 held-out series as they were taught, on 7 recordings of NAB and on
 * made-up ones. The one of the quickstart abstains on 3 % of the series and on 7 of 7 recordings; one that learned from 30 000 traces on
 * 1 % and on 6 of 7, in the last of which it marks nothing. Both mark nothing in clean sines of a million samples, or abstain; both
 * answer about white noise (nothing) and abstain on square waves and on noise with spikes.
 */

import type { Interval } from '../ground/types.ts';
import { coverage, overlap } from '../series/intervals.ts';
import type { PolicyReference } from '../tasks/reference.ts';
import { FEWEST_WINDOWS, tooDoubtful } from './policy-words.ts';
import type { Doubt, PolicyAnswer, PolicySignal } from './schema.ts';

/** What a policy said about a window, and what can be measured of it alone. */
export interface AskedWindow extends Omit<PolicyAnswer, 'shiftAgreement' | 'doubts' | 'intervals'> {
  readonly intervals: readonly Interval[] | null;
  /** The same for windows that were shown the same. */
  readonly input: string;
  /** As those of `WindowEvidence`. */
  readonly cells: readonly number[] | null;
  readonly scale: number;
}

/** Limits that are the same for every policy; those of `unlike` and `unsure` are the policy's own (see `PolicyReference`). */
const LEAST_SAMPLE_AGREEMENT = 0.2;
const LEAST_SHIFT_AGREEMENT = 0.2;
export const MOST_REPEATED = 0.1;
export const MOST_DOUBTFUL = 0.3;

/** Intersection over union of two lists of sorted, disjoint intervals; null where both are empty. */
export function agreement(a: readonly Interval[], b: readonly Interval[]): number | null {
  const shared = overlap(a, b);
  const all = coverage(a) + coverage(b) - shared;
  return all === 0 ? null : shared / all;
}

/**
 * Mean agreement over all pairs of answers, in [0, 1]. Two that mark nothing agree; one that cannot be read (null) agrees with none.
 */
export function pairwiseAgreement(answers: readonly (readonly Interval[] | null)[]): number {
  let [sum, pairs] = [0, 0];
  for (let i = 0; i < answers.length; i++) {
    for (let j = 0; j < i; j++, pairs++) {
      const [a, b] = [answers[i]!, answers[j]!];
      if (a !== null && b !== null) sum += agreement(a, b) ?? 1;
    }
  }
  return pairs === 0 ? 1 : sum / pairs;
}

const clipped = (intervals: readonly Interval[], [start, end]: Interval): Interval[] =>
  intervals.flatMap(([from, to]): Interval[] =>
    from < end && to > start ? [[Math.max(from, start), Math.min(to, end)]] : [],
  );

/** Agreement of each window with its two neighbours, where they overlap and somebody marks something; and of all of them together. */
export function shiftAgreements(windows: readonly Pick<AskedWindow, 'start' | 'end' | 'intervals'>[]): {
  readonly each: (number | null)[];
  readonly all: number | null;
} {
  const shared = windows.map(() => 0);
  const union = windows.map(() => 0);
  for (let i = 0; i + 1 < windows.length; i++) {
    const [a, b] = [windows[i]!, windows[i + 1]!];
    // Behind the last window of a scale comes the first one of the next.
    if (a.intervals === null || b.intervals === null || b.start >= a.end || b.start < a.start) continue;
    const both: Interval = [b.start, a.end];
    const [left, right] = [clipped(a.intervals, both), clipped(b.intervals, both)];
    const common = overlap(left, right);
    const marked = coverage(left) + coverage(right) - common;
    for (const k of [i, i + 1]) {
      shared[k]! += common;
      union[k]! += marked;
    }
  }
  const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
  const marked = sum(union);
  return {
    each: shared.map((common, i) => (union[i]! > 0 ? common / union[i]! : null)),
    all: marked > 0 ? sum(shared) / marked : null,
  };
}

/**
 * The share that the most common text has among the windows that mark something and were shown something of their own, and the windows
 * whose text is that of too many. Texts that mark nothing are left out: of a series without anomalies they are rightly all the same.
 */
export function repetition(windows: readonly Pick<AskedWindow, 'intervals' | 'input' | 'response'>[]): {
  readonly share: number | null;
  readonly marking: number;
  readonly repeated: boolean[];
} {
  const inputs = new Map<string, Set<string>>();
  const seen = new Set<string>();
  for (const { intervals, input, response } of windows) {
    if (intervals === null || intervals.length === 0) continue;
    seen.add(input);
    inputs.set(response, (inputs.get(response) ?? new Set()).add(input));
  }
  const counts = [...inputs.values()].map((set) => set.size);
  const tooMany = (response: string): boolean => {
    const count = inputs.get(response)?.size ?? 0;
    return count >= FEWEST_WINDOWS && count > MOST_REPEATED * seen.size;
  };
  return {
    share: seen.size < FEWEST_WINDOWS ? null : Math.max(...counts) / seen.size,
    marking: windows.filter(({ intervals }) => intervals !== null && intervals.length > 0).length,
    repeated: windows.map(
      ({ intervals, response }) => intervals !== null && intervals.length > 0 && tooMany(response),
    ),
  };
}

function median(values: readonly number[]): number | null {
  if (values.length === 0) return null;
  const sorted = [...values].sort((a, b) => a - b);
  return (sorted[(sorted.length - 1) >> 1]! + sorted[sorted.length >> 1]!) / 2;
}

const mean = (values: readonly number[]): number | null =>
  values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length;

const known = (values: readonly (number | null)[]): number[] => values.filter((value) => value !== null);

interface Trust {
  readonly answers: PolicyAnswer[];
  readonly signals: PolicySignal[];
  readonly doubtful: number;
  readonly abstains: boolean;
}

/**
 * Judges what was answered about the windows of a column, in their order, scale by scale; `reference` of the policy, null where it has none.
 *
 * @param weighed every interval has a confidence of its own: then only answers that cannot be read are left out, and the other measures are told
 * without a limit. Measured on 93 series of test/bench/policy.ts: the policy would abstain on 40 of them (F1 .961 → .323 on recordings, .659 → .286
 * with anomalies put in, .921 → .750 on shapes), and windows left out alone cost .33, .06 and .06
 */
export function judge(
  windows: readonly AskedWindow[],
  reference: PolicyReference | null,
  weighed = false,
): Trust {
  const shifts = shiftAgreements(windows);
  const shifted = known(shifts.each).length;
  // One anomaly that one of two windows overlooks is a mistake, and says nothing about the others.
  const contradicts = shifted >= FEWEST_WINDOWS && shifts.all !== null && shifts.all < LEAST_SHIFT_AGREEMENT;
  const { share, marking, repeated } = repetition(windows);
  const farthest = reference?.distance.p99 ?? null;
  const leastSure = reference?.logProbability.p01 ?? null;
  const answers = windows.map(({ input: _, cells: __, scale: ___, ...one }, i): PolicyAnswer => {
    const { intervals, distance, logProbability, sampleAgreement } = one;
    const shiftAgreement = shifts.each[i]!;
    const doubts: Record<Doubt, boolean> = {
      unreadable: intervals === null,
      unlike: farthest !== null && distance !== null && distance > farthest,
      unsure: leastSure !== null && logProbability !== null && logProbability < leastSure,
      samples: sampleAgreement !== null && sampleAgreement < LEAST_SAMPLE_AGREEMENT,
      shifts: contradicts && shiftAgreement !== null && shiftAgreement < LEAST_SHIFT_AGREEMENT,
      repeated: repeated[i]!,
    };
    return {
      ...one,
      intervals: intervals === null ? null : intervals.map(([start, end]) => [start, end]),
      shiftAgreement,
      doubts: (Object.keys(doubts) as Doubt[]).filter(
        (name) => doubts[name] && (!weighed || name === 'unreadable'),
      ),
    };
  });
  const count = (name: Doubt): number => answers.filter(({ doubts }) => doubts.includes(name)).length;
  const signal = (
    name: Doubt,
    text: string,
    value: number | null,
    limit: number | null,
    measured: number,
  ): PolicySignal => ({
    ...{ name, text, value, windows: measured, doubtful: count(name) },
    limit: weighed && name !== 'unreadable' ? null : limit,
  });
  const distances = known(answers.map(({ distance }) => distance));
  const probabilities = known(answers.map(({ logProbability }) => logProbability));
  const sampled = known(answers.map(({ sampleAgreement }) => sampleAgreement));
  const total = answers.length;
  const abstaining = tooDoubtful(answers, MOST_DOUBTFUL);
  return {
    answers,
    signals: [
      signal('unreadable', 'Share of answers that cannot be read', count('unreadable') / total, 0, total),
      signal(
        'unlike',
        'Distance from the training data, median',
        median(distances),
        farthest,
        distances.length,
      ),
      signal(
        'unsure',
        'Log-probability per token of its answers, median',
        median(probabilities),
        leastSure,
        probabilities.length,
      ),
      signal(
        'samples',
        'Agreement of sampled answers, mean',
        mean(sampled),
        LEAST_SAMPLE_AGREEMENT,
        sampled.length,
      ),
      signal('shifts', 'Agreement of overlapping windows', shifts.all, LEAST_SHIFT_AGREEMENT, shifted),
      signal(
        'repeated',
        'Share of the most common text among windows that mark something',
        share,
        MOST_REPEATED,
        marking,
      ),
    ],
    doubtful: answers.filter(({ doubts }) => doubts.length > 0).length,
    abstains: abstaining !== null,
  };
}
