/** Description of a finding: its kind, what was observed and expected in units of the series, and earlier cycles at the same phase. */
import { largestMagnitude, quantileInPlace } from '../series/stats.ts';
import type { Expectation } from './departures.ts';
import { type Finding, type Kind, LEVELS, type Level } from './finding.ts';
import type { Joined } from './join.ts';
import type { Candidate } from './scan.ts';
import { stateFinding } from './sentence.ts';

/** Series that a finding is described in. */
interface Described {
  /** [N]; NaN where missing. */
  readonly values: Float64Array;
  readonly base: Expectation;
  /** Null without a season. */
  readonly season: Cycles | null;
  /** Median step from sample to sample. */
  readonly usualStep: number;
  /** Least and largest value, and the steps, of the whole series. */
  readonly least: number;
  readonly largest: number;
  readonly steps: { readonly sum: number; readonly count: number };
}

/** Longest spike or dip: so many samples, or this share of a season if that is longer. */
const SPIKE_SAMPLES = 3;
const SPIKE_PART = 1 / 24;
/** Largest range of a flat stretch, as a share of the band; and its fewest samples. */
const STILL = 0.05;
const STILL_SAMPLES = 5;
/** Share of their sizes that departures in one direction add up to. */
const ONE_SIDED = 0.6;
/** Steps from which a stretch is noise rather than another shape, in usual steps. */
const ROUGH = 1.8;
/** Findings this alike in length and height are similar. */
const ALIKE = 0.6;

function levelOf(severity: number): Level {
  const levels = Object.keys(LEVELS) as Level[];
  return levels.filter((level) => severity >= LEVELS[level]).at(-1) ?? 'low';
}

interface Facts {
  readonly least: number;
  readonly largest: number;
  readonly mean: number;
  /** Mean of the expected values. */
  readonly expected: number;
  /** Sum of the departures over the sum of their sizes, −1 to 1. */
  readonly balance: number;
  /** Mean step from sample to sample inside, and outside. */
  readonly step: number;
  readonly usualStep: number;
  /** Samples that have the least, and the largest value. */
  readonly atLeast: number;
  readonly atLargest: number;
}

/** Mean and number of the values that are not missing in samples [from, to); NaN without one. */
function meanKnown(values: Float64Array, from: number, to: number): { mean: number; known: number } {
  let [sum, known] = [0, 0];
  for (let i = from; i < to; i++) {
    if (Number.isNaN(values[i]!)) continue;
    sum += values[i]!;
    known++;
  }
  return { mean: sum / known, known };
}

/** Mean of the values right before a step, over as many samples as after it; null if all are missing. */
function beforeStep(values: Float64Array, start: number, end: number): Finding['stepped'] {
  const since = Math.max(0, 2 * start - end);
  const { mean, known } = meanKnown(values, since, start);
  return known === 0 ? null : { since, mean };
}

/** Share of a drift, at its end, that is averaged. */
const LATE = 1 / 16;

/** Mean of the last samples of a stretch, at least one cycle. */
function meanOfEnd(
  values: Float64Array,
  start: number,
  end: number,
  period: number,
): { mean: number; samples: number } {
  const samples = Math.min(end - start, Math.max(1, Math.round(LATE * (end - start)), Math.round(period)));
  return { mean: meanKnown(values, end - samples, end).mean, samples };
}

/** Sum and number of the steps between values that are there, in samples [from, to). */
export function stepsIn(values: Float64Array, from: number, to: number): { sum: number; count: number } {
  let [sum, count] = [0, 0];
  for (let i = from + 1; i < to; i++) {
    const step = Math.abs(values[i]! - values[i - 1]!);
    if (Number.isNaN(step)) continue;
    sum += step;
    count++;
  }
  return { sum, count };
}

function factsOf({ values, base: { expected }, steps }: Described, start: number, end: number): Facts {
  let least = Number.POSITIVE_INFINITY;
  let largest = Number.NEGATIVE_INFINITY;
  let [sum, sumExpected, departures, sizes, n] = [0, 0, 0, 0, 0];
  for (let i = start; i < end; i++) {
    if (Number.isNaN(values[i]!)) continue;
    n++;
    least = Math.min(least, values[i]!);
    largest = Math.max(largest, values[i]!);
    sum += values[i]!;
    sumExpected += expected[i]!;
    departures += values[i]! - expected[i]!;
    sizes += Math.abs(values[i]! - expected[i]!);
  }
  const inside = stepsIn(values, start, end);
  const samplesAt = (value: number): number =>
    values.subarray(start, end).reduce((sum, other) => sum + Number(other === value), 0);
  return {
    least,
    largest,
    mean: sum / n,
    expected: sumExpected / n,
    balance: sizes === 0 ? 0 : departures / sizes,
    step: inside.count === 0 ? 0 : inside.sum / inside.count,
    usualStep: (steps.sum - inside.sum) / Math.max(1, steps.count - inside.count),
    atLeast: samplesAt(least),
    atLargest: samplesAt(largest),
  };
}

/** Returns true if a stretch begins and ends without a jump: then its values are capped rather than at another level. */
function continuous(values: Float64Array, start: number, end: number, band: number): boolean {
  const before = start > 0 ? Math.abs(values[start]! - values[start - 1]!) : 0;
  const after = end < values.length ? Math.abs(values[end]! - values[end - 1]!) : 0;
  return Math.max(before, after) < band / 2;
}

/** Returns true if the expected values begin and end at the mean of the stretch and go beyond it in between: it is cut off there. */
function passesThrough(
  expected: Float64Array,
  start: number,
  end: number,
  { mean }: Facts,
  band: number,
): boolean {
  const beyond = expected.subarray(start, end).map((value) => Math.abs(value - mean));
  const edges = Math.max(beyond[0]!, beyond.at(-1)!);
  return largestMagnitude(beyond) > Math.max(2 * edges, band / 2);
}

function kindOf(
  joined: Joined,
  facts: Facts,
  described: Described,
): { kind: Kind; direction: Finding['direction']; pace?: number } {
  const { values, base, season, usualStep } = described;
  const period = season?.period ?? null;
  const { start, end, track, sign } = joined;
  if (joined.lasting) {
    return { kind: joined.drifts ? 'trend' : 'level', direction: sign > 0 ? 'above' : 'below' };
  }
  const length = end - start;
  const band = base.high[joined.peak]! - base.low[joined.peak]!;
  const outside = facts.mean > base.high[joined.peak]! || facts.mean < base.low[joined.peak]!;
  if (length >= STILL_SAMPLES && facts.largest - facts.least <= STILL * band) {
    const direction = facts.mean > facts.expected ? 'above' : 'below';
    // At the least or largest of all values nothing holds them back: they fell or rose to it.
    const extreme =
      direction === 'below' ? facts.least <= described.least : facts.largest >= described.largest;
    if (extreme && Math.abs(facts.balance) > ONE_SIDED) return { kind: 'level', direction };
    if (!continuous(values, start, end, band))
      return { kind: outside ? 'level' : 'flat', direction: outside ? direction : null };
    const capped =
      Math.abs(facts.balance) > ONE_SIDED && passesThrough(base.expected, start, end, facts, band);
    return capped
      ? { kind: 'cutoff', direction: direction === 'below' ? 'above' : 'below' }
      : { kind: 'flat', direction: null };
  }
  if (track === 'limit') return { kind: 'cutoff', direction: sign < 0 ? 'above' : 'below' };
  const drift = driftOf(values, base.expected, start, end);
  if (drift !== 0 && length >= DRIFT_SAMPLES)
    return { kind: 'trend', direction: drift > 0 ? 'above' : 'below' };
  const pace = period === null ? null : otherPace(values, start, end, period);
  if (pace !== null) return { kind: 'frequency', direction: null, pace };
  if (track === 'movement') {
    return sign > 0 ? { kind: 'variance', direction: 'above' } : { kind: 'variance', direction: 'below' };
  }
  if (track === 'step' || Math.abs(facts.balance) > ONE_SIDED) {
    const up = facts.balance > 0;
    const direction = up ? 'above' : 'below';
    const short = Math.max(SPIKE_SAMPLES, period === null ? 0 : Math.round(SPIKE_PART * period));
    if (length <= short) return { kind: up ? 'spike' : 'dip', direction };
    return { kind: 'level', direction };
  }
  if (facts.step > ROUGH * Math.max(usualStep, stepsAround(values, start, end)))
    return { kind: 'variance', direction: 'above' };
  return { kind: 'shape', direction: null };
}

/** Fewest samples of a drift. */
const DRIFT_SAMPLES = 12;
/** Parts of a drift whose means are compared. */
const DRIFT_PARTS = 6;

/**
 * Direction of a drift: 1 or −1 if the departures grow from part to part of the stretch and begin small; 0 otherwise.
 */
function driftOf(values: Float64Array, expected: Float64Array, start: number, end: number): -1 | 0 | 1 {
  const means: number[] = [];
  for (let part = 0; part < DRIFT_PARTS; part++) {
    const from = start + Math.round((part * (end - start)) / DRIFT_PARTS);
    const to = start + Math.round(((part + 1) * (end - start)) / DRIFT_PARTS);
    let [sum, n] = [0, 0];
    for (let i = from; i < to; i++) {
      if (Number.isNaN(values[i]!)) continue;
      sum += values[i]! - expected[i]!;
      n++;
    }
    if (n === 0) return 0;
    means.push(sum / n);
  }
  const far = means.at(-1)!;
  const sign = far > 0 ? 1 : -1;
  const steady = means.every((mean, i) => i === 0 || sign * (mean - means[i - 1]!) > 0.05 * Math.abs(far));
  return steady && Math.abs(means[0]!) < 0.35 * Math.abs(far) ? sign : 0;
}

/** Pace, relative to the season, beyond which the frequency has changed (or beyond its inverse). */
const OTHER_PACE = 0.8;

/** Fewest seasons in which another pace differs from a part of the pattern. */
const FEWEST_SEASONS = 1.2;
/** Most samples of a stretch that are compared with each other. */
const MOST_COMPARED = 4096;

/** Correlation of samples [start, end) with themselves `lag` samples later, around a common mean; missing values are left out. */
function likeness(values: Float64Array, start: number, end: number, mean: number, lag: number): number {
  let [products, left, right] = [0, 0, 0];
  for (let i = start; i + lag < end; i++) {
    const [a, b] = [values[i]! - mean, values[i + lag]! - mean];
    if (Number.isNaN(a) || Number.isNaN(b)) continue;
    products += a * b;
    left += a * a;
    right += b * b;
  }
  return products / Math.sqrt(left * right || 1);
}

/** Returns the lag at which a stretch repeats faster or slower than the season; null if it does not. */
function otherPace(values: Float64Array, from: number, to: number, period: number): number | null {
  const spare = Math.max(0, to - from - MOST_COMPARED) >> 1;
  const [start, end] = [from + spare, to - spare];
  const longest = Math.min(Math.floor((end - start) / 1.5), Math.ceil(2 * period));
  if (end - start < FEWEST_SEASONS * period || longest < 4) return null;
  const { mean, known } = meanKnown(values, start, end);
  if (known < end - start) return null;
  let best = 0;
  let height = 0.7;
  let dipped = false; // before the first dip the stretch is only smooth
  for (let lag = 1; lag <= longest; lag++) {
    const r = likeness(values, start, end, mean, lag);
    if (r < 0.3) dipped = true;
    if (dipped && r > height + 0.05) {
      best = lag;
      height = r;
    }
  }
  if (best === 0) return null;
  const pace = best / period;
  // A pattern with several humps a season repeats within it: so does the series around the stretch.
  const other = pace < OTHER_PACE || pace > 1 / OTHER_PACE;
  return other && likeAround(values, start, end, best) < height - 0.2 ? best : null;
}

/** Correlation at a lag of the series before and after the stretch, whichever is larger. */
function likeAround(values: Float64Array, start: number, end: number, lag: number): number {
  const reach = Math.max(4 * lag, end - start);
  let best = -1;
  for (const [from, to] of [
    [Math.max(0, start - reach), start],
    [end, Math.min(values.length, end + reach)],
  ] as const) {
    if (to - from < 2 * lag) continue;
    best = Math.max(best, likeness(values, from, to, meanKnown(values, from, to).mean, lag));
  }
  return best;
}

/** Median step before and after a stretch, over as many samples as it has on each side. */
function stepsAround(values: Float64Array, start: number, end: number): number {
  const reach = Math.max(20, end - start);
  const steps: number[] = [];
  for (let i = Math.max(1, start - reach); i < Math.min(values.length, end + reach); i++) {
    const step = Math.abs(values[i]! - values[i - 1]!);
    if ((i < start || i > end) && !Number.isNaN(step)) steps.push(step);
  }
  return steps.length === 0 ? 0 : quantileInPlace(Float64Array.from(steps), steps.length, 0.5);
}

/** Evidence that a candidate of each track gives for a finding. */
const ACCOUNTS: Readonly<Record<Candidate['track'], string>> = {
  level: 'far from the level of the whole series',
  local: 'far from the samples around it',
  season: 'unlike the same phase of the other cycles',
  analogue: 'unlike even the most similar stretches elsewhere',
  step: 'the level after it differs from the level before',
  movement: 'moves more, or less, from sample to sample than elsewhere',
  still: 'keeps one value for longer than anywhere else',
  limit: 'reaches one value again and again and does not pass it',
  size: 'departs from the expected values, up and down, for longer than elsewhere',
};

/** Describes one finding; `similar` is filled in later. */
function describe(
  joined: Joined,
  described: Described,
  others: readonly (readonly [number, number])[],
): Finding {
  const { values, base } = described;
  const { start, end, severity, members } = joined;
  const facts = factsOf(described, start, end);
  // The first sample is not missing: missing values were cut off the ends.
  let peak = start;
  for (let i = start; i < end; i++) {
    if (Math.abs(values[i]! - base.expected[i]!) > Math.abs(values[peak]! - base.expected[peak]!)) peak = i;
  }
  const { kind, pace, ...toward } = kindOf({ ...joined, peak }, facts, described);
  const stepped =
    (kind === 'level' && joined.track === 'step') || joined.drifts ? beforeStep(values, start, end) : null;
  // The expectation may have followed the step.
  const direction = stepped === null ? toward.direction : facts.mean > stepped.mean ? 'above' : 'below';
  const finding = {
    start,
    end,
    kind,
    direction,
    severity,
    level: levelOf(severity),
    peak: { index: peak },
    observed: { least: facts.least, mean: facts.mean, largest: facts.largest, peak: values[peak]! },
    expected: { value: base.expected[peak]!, low: base.low[peak]!, high: base.high[peak]! },
    stepped,
    ongoing: end === values.length || joined.lasting === true,
    lasting: joined.lasting === true,
  };
  const names = [...new Set(members.map(({ track }) => track))];
  const inside = values[peak]! >= base.low[peak]! && values[peak]! <= base.high[peak]!;
  return {
    ...finding,
    before: described.season === null ? null : precedents(values, finding, described.season, others),
    says: stateFinding(finding, {
      ...{ meanExpected: facts.expected, step: facts.step, usualStep: facts.usualStep },
      ...{ atLeast: facts.atLeast, atLargest: facts.atLargest, pace },
      period: described.season?.period ?? null,
      late: joined.drifts ? meanOfEnd(values, start, end, described.season?.period ?? 1) : null,
    }),
    evidence: {
      for: names.map((name) => ACCOUNTS[name]),
      against: inside ? ['no single value leaves the usual band'] : [],
    },
    similar: [],
  };
}

/** Describes findings, most severe first, each with the similar ones. */
export function describeAll(all: readonly Joined[], described: Described): Finding[] {
  const findings = all.map((joined) => {
    const others = all.filter((other) => other !== joined).map(({ start, end }) => [start, end] as const);
    return describe(joined, described, others);
  });
  const lengthOf = ({ start, end }: Finding): number => end - start;
  const heightOf = ({ observed, expected }: Finding): number => Math.abs(observed.peak - expected.value);
  const alike = (a: number, b: number): boolean => Math.min(a, b) >= ALIKE * Math.max(a, b);
  return findings.map((finding) => {
    const { kind, direction, evidence } = finding;
    const similar = findings.filter(
      (other) =>
        other !== finding &&
        other.kind === kind &&
        other.direction === direction &&
        alike(lengthOf(finding), lengthOf(other)) &&
        alike(heightOf(finding), heightOf(other)),
    );
    const repeats = similar.length === 1 ? 'another stretch is like it' : 'other stretches are like it';
    return {
      ...finding,
      similar: similar.map(({ start, end }) => ({ start, end })).sort((a, b) => a.start - b.start),
      evidence: {
        ...evidence,
        against: similar.length === 0 ? evidence.against : [...evidence.against, repeats],
      },
    };
  });
}

/** The season whose cycles are compared. */
export interface Cycles {
  /** Samples per cycle. */
  readonly period: number;
  /** Samples by which the clock of the season is ahead of the sample count [N]; null if it is never changed. */
  readonly clock: Int32Array | null;
}

/** Most and fewest earlier cycles that a finding is compared with. */
const MOST_CYCLES = 9;
const FEWEST_CYCLES = 2;

/** Returns true for kinds that the value at the peak stands for; the mean stands for the others. */
export const atPeak = (kind: Finding['kind']): boolean => kind === 'spike' || kind === 'dip';

/**
 * Least and largest value of the earlier cycles at the same phase: at the peak of a spike or dip, the mean over other stretches. Cycles with
 * half of the values missing, or that overlap one of `others` (half-open, in samples), do not count; null if fewer than two are left.
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
    const { mean, known } = meanKnown(values, at, until);
    if (2 * known < until - at || known === 0) continue;
    least = Math.min(least, mean);
    largest = Math.max(largest, mean);
    starts.push(at);
  }
  return starts.length < FEWEST_CYCLES ? null : { period, starts, least, largest };
}
