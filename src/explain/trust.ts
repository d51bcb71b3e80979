/**
 * Reliability of a policy's answers about the windows of a series. A policy answers about any picture; data unlike its training data show
 * in six ways, each measured for every window:
 *
 *   unreadable  the answer cannot be parsed
 *   unlike      the picture is farther from the training pictures than 99 % of the validation pictures
 *   unsure      the tokens are less probable than those of 99 % of the answers to validation pictures
 *   samples     sampled answers mark different samples
 *   shifts      overlapping windows mark different samples, in most of the column
 *   repeated    many windows that look different get the same text
 *
 * A doubtful window has no vote. If too many of all windows, or of those that mark something, are doubtful, the policy abstains on the column.
 *
 * Limits were chosen with two policies of the quickstart's size, on 400 held-out series, 7 recordings of NAB and synthetic ones. The policy
 * of the quickstart abstains on 3 % of the series and 7 of 7 recordings; one trained on 30 000 traces on 1 % and 6 of 7, and marks nothing
 * in the seventh. Both mark nothing, or abstain, on clean sines of a million samples; both mark nothing in white noise, and abstain on
 * square waves and noise with spikes.
 */

import { meanOrNull, sum } from '../ground/numbers.ts';
import type { Interval } from '../ground/types.ts';
import { coverage, overlap, within } from '../series/intervals.ts';
import { median as medianOf } from '../series/stats.ts';
import type { PolicyReference } from '../tasks/reference.ts';
import { FEWEST_WINDOWS, tooDoubtful } from './policy-words.ts';
import type { Doubt, PolicyAnswer, PolicySignal } from './schema.ts';

/** Answer about a window, with the measures that need no other window. */
export interface AskedWindow extends Omit<PolicyAnswer, 'shiftAgreement' | 'doubts' | 'intervals'> {
  readonly intervals: readonly Interval[] | null;
  /** Key of the prompt: equal for windows that look the same. */
  readonly input: string;
  /** Probabilities by cell, and index of the scale; see `WindowEvidence`. */
  readonly cells: readonly number[] | null;
  readonly scale: number;
}

/** Limits for every policy; those of `unlike` and `unsure` belong to the policy (see `PolicyReference`). */
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
 * Mean agreement over all pairs of answers, in [0, 1]. Two that mark nothing agree; an unreadable one (null) agrees with none.
 */
export function pairwiseAgreement(answers: readonly (readonly Interval[] | null)[]): number {
  let [total, pairs] = [0, 0];
  for (let i = 0; i < answers.length; i++) {
    for (let j = 0; j < i; j++, pairs++) {
      const [a, b] = [answers[i]!, answers[j]!];
      if (a !== null && b !== null) total += agreement(a, b) ?? 1;
    }
  }
  return pairs === 0 ? 1 : total / pairs;
}

/** Agreement of each window with its two neighbours, where they overlap and either marks something; and of all windows together. */
export function shiftAgreements(windows: readonly Pick<AskedWindow, 'start' | 'end' | 'intervals'>[]): {
  readonly each: (number | null)[];
  readonly all: number | null;
} {
  const shared = windows.map(() => 0);
  const union = windows.map(() => 0);
  for (let i = 0; i + 1 < windows.length; i++) {
    const [a, b] = [windows[i]!, windows[i + 1]!];
    // The last window of a scale is followed by the first one of the next.
    if (a.intervals === null || b.intervals === null || b.start >= a.end || b.start < a.start) continue;
    const both: Interval = [b.start, a.end];
    const [left, right] = [within(a.intervals, both), within(b.intervals, both)];
    const common = overlap(left, right);
    const marked = coverage(left) + coverage(right) - common;
    for (const k of [i, i + 1]) {
      shared[k]! += common;
      union[k]! += marked;
    }
  }
  const marked = sum(union);
  return {
    each: shared.map((common, i) => (union[i]! > 0 ? common / union[i]! : null)),
    all: marked > 0 ? sum(shared) / marked : null,
  };
}

/**
 * Share of the most common text among different-looking windows that mark something, and the windows whose text is too common. Texts that
 * mark nothing are left out: in a series without anomalies they are rightly all the same.
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

const median = (values: readonly number[]): number | null =>
  values.length === 0 ? null : medianOf(Float64Array.from(values));

const known = (values: readonly (number | null)[]): number[] => values.filter((value) => value !== null);

interface Trust {
  readonly answers: PolicyAnswer[];
  readonly signals: PolicySignal[];
  readonly doubtful: number;
  readonly abstains: boolean;
}

/**
 * Judges the answers about the windows of a column, in their order, scale by scale.
 *
 * @param reference of the policy; null if it has none
 * @param weighed true if every interval has a confidence: then only unreadable answers are left out, and the other measures have no limit.
 * With limits, on 93 series of test/bench/policy.ts, the policy would abstain on 40 (F1 .961 → .323 on recordings, .659 → .286 with
 * injected anomalies, .921 → .750 on shapes), and windows left out alone cost .33, .06 and .06
 */
export function judge(
  windows: readonly AskedWindow[],
  reference: PolicyReference | null,
  weighed = false,
): Trust {
  const shifts = shiftAgreements(windows);
  const shifted = known(shifts.each).length;
  // A single anomaly that one of two windows misses says nothing about the others.
  const contradicts = shifted >= FEWEST_WINDOWS && shifts.all !== null && shifts.all < LEAST_SHIFT_AGREEMENT;
  const { share, marking, repeated } = repetition(windows);
  const farthest = reference?.distance.p99 ?? null;
  const leastSure = reference?.logProbability.p01 ?? null;
  const answers = windows.map(({ input: _, cells: __, scale: ___, ...answer }, i): PolicyAnswer => {
    const { intervals, distance, logProbability, sampleAgreement } = answer;
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
      ...answer,
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
        meanOrNull(sampled),
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
