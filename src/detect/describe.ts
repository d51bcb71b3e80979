/** Describes findings: kind, observed and expected values, and the range of earlier cycles at the same phase. */
import { engineFree } from '../ground/numbers.ts';
import { largestMagnitude, quantileInPlace } from '../series/stats.ts';
import type { Expectation } from './departures.ts';
import { type Finding, type Kind, LEVELS, type Level } from './finding.ts';
import type { Joined } from './join.ts';
import type { Candidate } from './scan.ts';
import { stateFinding } from './sentence.ts';

/** Series with its findings' context: expected values, season and statistics of the whole series. */
interface Described {
  /** [N]; NaN where missing. */
  readonly values: Float64Array;
  readonly base: Expectation;
  /** Null without a season. */
  readonly season: Cycles | null;
  /** Median absolute difference between consecutive samples. */
  readonly usualStep: number;
  /** True for a series on a line: the mean before a level says nothing where all values rise. Default: false. */
  readonly onLine?: boolean;
  /** Minimum, maximum and steps (sum and number) of the whole series. */
  readonly least: number;
  readonly largest: number;
  readonly steps: { readonly sum: number; readonly count: number };
}

/** Maximum length of a spike or dip: this many samples, or this share of a season if longer. */
const SPIKE_SAMPLES = 3;
const SPIKE_PART = 1 / 24;
/** Flat stretch: maximum range as a share of the band, and minimum number of samples. */
const STILL = 0.05;
const STILL_SAMPLES = 5;
/** Minimum |balance| of one-sided departures: |sum of departures| / sum of their magnitudes. */
const ONE_SIDED = 0.6;
/** Mean step, relative to the usual step, above which a stretch is noise rather than another shape. */
const ROUGH = 1.8;
/** Minimum ratio of the lengths, and of the heights, of similar findings. */
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
  /** Sum of the departures divided by the sum of their magnitudes, −1 to 1. */
  readonly balance: number;
  /** Mean absolute difference between consecutive samples inside the stretch. */
  readonly step: number;
  /** Mean absolute difference between consecutive samples outside of it. */
  readonly usualStep: number;
  /** Samples that have the least, and the largest value. */
  readonly atLeast: number;
  readonly atLargest: number;
}

/** Returns the mean and number of known values in samples [from, to); mean NaN without any. */
function meanKnown(values: Float64Array, from: number, to: number): { mean: number; known: number } {
  let [sum, known] = [0, 0];
  for (let i = from; i < to; i++) {
    if (Number.isNaN(values[i]!)) continue;
    sum += values[i]!;
    known++;
  }
  return { mean: sum / known, known };
}

/** Returns the mean before a step, over as many samples as the stretch after it; null if all are missing. */
function beforeStep(values: Float64Array, start: number, end: number): Finding['stepped'] {
  const since = Math.max(0, 2 * start - end);
  const { mean, known } = meanKnown(values, since, start);
  return known === 0 ? null : { since, mean };
}

/** Share of a drift, at its end, over which its final level is averaged. */
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

/** Returns the sum and number of the absolute sample-to-sample steps in [from, to) between known values. */
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

/** Returns true if a stretch begins and ends without a jump, as clipped values do; a level shift jumps. */
function continuous(values: Float64Array, start: number, end: number, band: number): boolean {
  const before = start > 0 ? Math.abs(values[start]! - values[start - 1]!) : 0;
  const after = end < values.length ? Math.abs(values[end]! - values[end - 1]!) : 0;
  return Math.max(before, after) < band / 2;
}

/** Returns true if the expected values start and end near the stretch's mean and leave it in between, as where values are clipped. */
function passesThrough(
  expected: Float64Array,
  start: number,
  end: number,
  { mean }: Facts,
  band: number,
): boolean {
  const distances = expected.subarray(start, end).map((value) => Math.abs(value - mean));
  const edges = Math.max(distances[0]!, distances.at(-1)!);
  return largestMagnitude(distances) > Math.max(2 * edges, band / 2);
}

function kindOf(
  joined: Joined,
  facts: Facts,
  described: Described,
): { kind: Kind; direction: Finding['direction']; pace?: number } {
  const { values, base, season, usualStep } = described;
  const period = season?.period ?? null;
  const { start, end, track, sign } = joined;
  if (joined.lasting || joined.drifts)
    return { kind: joined.drifts ? 'trend' : 'level', direction: sign > 0 ? 'above' : 'below' };
  if (joined.rhythm !== undefined) return { kind: 'frequency', direction: null };
  const length = end - start;
  const band = base.high[joined.peak]! - base.low[joined.peak]!;
  const outside = facts.mean > base.high[joined.peak]! || facts.mean < base.low[joined.peak]!;
  if (length >= STILL_SAMPLES && facts.largest - facts.least <= STILL * band) {
    const direction = facts.mean > facts.expected ? 'above' : 'below';
    // At the minimum or maximum of the series the values are not clipped; they fell or rose to a level.
    const extreme =
      direction === 'below' ? facts.least <= described.least : facts.largest >= described.largest;
    const aside = Math.abs(facts.balance) > ONE_SIDED;
    if (extreme && aside) return { kind: 'level', direction };
    if (!continuous(values, start, end, band))
      return outside && aside ? { kind: 'level', direction } : { kind: 'flat', direction: null };
    const capped = aside && passesThrough(base.expected, start, end, facts, band);
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
  // A usual step that differs beside a mean one that does not is another course.
  if (track === 'movement' && sign * (facts.step - facts.usualStep) > 0)
    return sign > 0 ? { kind: 'variance', direction: 'above' } : { kind: 'variance', direction: 'below' };
  if (track === 'step' || Math.abs(facts.balance) > ONE_SIDED) {
    const up = facts.balance > 0;
    const direction = up ? 'above' : 'below';
    const short = Math.max(SPIKE_SAMPLES, period === null ? 0 : Math.round(SPIKE_PART * period));
    if (length <= short) return { kind: up ? 'spike' : 'dip', direction };
    return { kind: 'level', direction };
  }
  const rough = facts.step > ROUGH * Math.max(usualStep, medianStepAround(values, start, end));
  if (rough && facts.step > facts.usualStep) return { kind: 'variance', direction: 'above' };
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
  const lastMean = means.at(-1)!;
  const sign = lastMean > 0 ? 1 : -1;
  const steady = means.every(
    (mean, i) => i === 0 || sign * (mean - means[i - 1]!) > 0.05 * Math.abs(lastMean),
  );
  return steady && Math.abs(means[0]!) < 0.35 * Math.abs(lastMean) ? sign : 0;
}

/** Ratio of a stretch's period to the season below which (or above whose inverse) its frequency counts as changed. */
const OTHER_PACE = 0.8;

/** Minimum length in seasons for a changed period: in less, a part of the seasonal pattern may look like one. */
const FEWEST_SEASONS = 1.2;
/** Maximum number of samples of a stretch used for its autocorrelation. */
const MOST_COMPARED = 4096;

/** Returns the autocorrelation of samples [start, end) at `lag`, around `mean`; missing values are left out. */
function autocorrelation(
  values: Float64Array,
  start: number,
  end: number,
  mean: number,
  lag: number,
): number {
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
  let highest = 0.7;
  let dipped = false; // before its first dip, a high autocorrelation only means that the stretch is smooth
  for (let lag = 1; lag <= longest; lag++) {
    const r = autocorrelation(values, start, end, mean, lag);
    if (r < 0.3) dipped = true;
    if (dipped && r > highest + 0.05) {
      best = lag;
      highest = r;
    }
  }
  if (best === 0) return null;
  const pace = best / period;
  // A pattern with several peaks per season repeats within the season, but then also around the stretch.
  const other = pace < OTHER_PACE || pace > 1 / OTHER_PACE;
  return other && autocorrelationAround(values, start, end, best) < highest - 0.2 ? best : null;
}

/** Returns the autocorrelation at `lag` before or after the stretch, whichever is larger. */
function autocorrelationAround(values: Float64Array, start: number, end: number, lag: number): number {
  const reach = Math.max(4 * lag, end - start);
  let best = -1;
  for (const [from, to] of [
    [Math.max(0, start - reach), start],
    [end, Math.min(values.length, end + reach)],
  ] as const) {
    if (to - from < 2 * lag) continue;
    best = Math.max(best, autocorrelation(values, from, to, meanKnown(values, from, to).mean, lag));
  }
  return best;
}

/** Returns the median step around a stretch: on each side, over as many samples as the stretch has (at least 20). */
function medianStepAround(values: Float64Array, start: number, end: number): number {
  const reach = Math.max(20, end - start);
  const steps: number[] = [];
  for (let i = Math.max(1, start - reach); i < Math.min(values.length, end + reach); i++) {
    const step = Math.abs(values[i]! - values[i - 1]!);
    if ((i < start || i > end) && !Number.isNaN(step)) steps.push(step);
  }
  return steps.length === 0 ? 0 : quantileInPlace(Float64Array.from(steps), steps.length, 0.5);
}

/** Evidence for a finding, in words, by the track of the candidate. */
const EVIDENCE_WORDS: Readonly<Record<Candidate['track'], string>> = {
  level: 'far from the level of the whole series',
  local: 'far from the samples around it',
  season: 'unlike the same phase of the other cycles',
  analogue: 'unlike any other stretch, even the most similar',
  step: 'the level after it differs from the level before',
  movement: 'sample-to-sample changes larger or smaller than elsewhere',
  still: 'keeps one value or level for longer than anywhere else',
  limit: 'reaches one value repeatedly and never goes beyond it',
  size: 'deviates from the expected values, above and below, for longer than elsewhere',
  rhythm: 'breaks the rhythm of the rest',
};

/** Describes one finding; `similar` is filled in later. */
function describe(
  joined: Joined,
  described: Described,
  others: readonly (readonly [number, number])[],
): Finding {
  const { values, base, onLine = false } = described;
  const { start, end, members } = joined;
  const severity = engineFree(joined.severity);
  const facts = factsOf(described, start, end);
  // The first sample is not missing: missing values were cut off the ends.
  let peak = start;
  for (let i = start; i < end; i++) {
    if (Math.abs(values[i]! - base.expected[i]!) > Math.abs(values[peak]! - base.expected[peak]!)) peak = i;
  }
  const { pace, ...byKind } = kindOf({ ...joined, peak }, facts, described);
  const late = joined.drifts ? meanOfEnd(values, start, end, described.season?.period ?? 1) : null;
  // Means of parts of a cycle differ by their phase.
  const isPart = described.season !== null && end - start < described.season.period;
  const earlier =
    ((byKind.kind === 'level' && joined.track === 'step') || joined.drifts) && !isPart && !onLine
      ? beforeStep(values, start, end)
      : null;
  // Means that hardly differ are no step: something else is unusual there.
  const isStep =
    earlier === null ||
    Math.abs((late?.mean ?? facts.mean) - earlier.mean) >= STILL * (base.high[peak]! - base.low[peak]!);
  const stepped = isStep ? earlier : null;
  const kind = isStep ? byKind.kind : 'shape';
  // The expected values may have adapted to the step, so the direction comes from the mean before it.
  const moved = stepped !== null && (facts.mean > stepped.mean ? 'above' : 'below');
  const direction = moved || (isStep ? byKind.direction : null);
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
  const tracks = [...new Set(members.map(({ track }) => track))];
  const inside = values[peak]! >= base.low[peak]! && values[peak]! <= base.high[peak]!;
  return {
    ...finding,
    before: described.season === null ? null : precedents(values, finding, described.season, others),
    says: stateFinding(finding, {
      ...{ meanExpected: facts.expected, step: facts.step, usualStep: facts.usualStep },
      ...{ atLeast: facts.atLeast, atLargest: facts.atLargest, pace, rhythm: joined.rhythm },
      period: described.season?.period ?? null,
      late,
    }),
    evidence: {
      for: tracks.map((track) => EVIDENCE_WORDS[track]),
      against: inside && joined.rhythm === undefined ? ['no single value leaves the usual band'] : [],
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
    const repeats = similar.length === 1 ? 'another stretch is similar' : 'other stretches are similar';
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
  /** Lead of the season's clock over the sample index, in samples: [N]. Null if the clock never changes (no daylight saving time). */
  readonly clock: Int32Array | null;
}

/** Maximum and minimum number of earlier cycles that a finding is compared with. */
const MOST_CYCLES = 9;
const FEWEST_CYCLES = 2;

/** Returns true for kinds described by the value at their peak; the others are described by their mean. */
export const atPeak = (kind: Finding['kind']): boolean => kind === 'spike' || kind === 'dip';

/**
 * Returns the range of earlier cycles at the same phase: of the value at the peak for a spike or dip, of the mean for other kinds. Skips
 * cycles with more than half of the values missing or that overlap one of `others` (half-open, in samples); null if fewer than two remain.
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
