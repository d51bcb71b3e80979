/** What a stretch is: its kind, what was there and what was expected, in numbers of the series itself and one sentence about them. */
import { quantileInPlace } from '../series/stats.ts';
import type { Candidate, Joined } from './detect.ts';
import type { Expectation } from './expectation.ts';
import { type Finding, type Kind, LEVELS, type Level } from './finding.ts';

/** What describing needs to know of a series. */
export interface Described {
  /** [N]; NaN where missing. */
  readonly values: Float64Array;
  readonly base: Expectation;
  /** Samples of a season; null without one. */
  readonly period: number | null;
  /** Median step from sample to sample. */
  readonly usualStep: number;
}

/** Samples up to which a departure is a spike or a dip rather than a level, at least; or this part of a season. */
const SPIKE_SAMPLES = 3;
const SPIKE_PART = 1 / 24;
/** A stretch whose values differ by less than this part of the band stands still. */
const STILL = 0.05;
const STILL_SAMPLES = 5;
/** Departures that add up to less than this part of their sizes go up as well as down. */
const ONE_SIDED = 0.6;
/** Steps so many times the usual ones are noise, not another shape. */
const ROUGH = 1.8;
/** Findings this alike in length and height are similar. */
const ALIKE = 0.6;

export function levelOf(severity: number): Level {
  const levels = Object.keys(LEVELS) as Level[];
  return levels.filter((level) => severity >= LEVELS[level]).at(-1) ?? 'low';
}

/** Four significant digits, as few as needed. */
export function shown(value: number): string {
  return String(Number(value.toPrecision(4)));
}

interface Facts {
  readonly least: number;
  readonly largest: number;
  readonly mean: number;
  /** Mean of what was expected. */
  readonly expected: number;
  /** Sum of the departures over the sum of their sizes, −1 to 1. */
  readonly balance: number;
  /** Mean step from sample to sample inside. */
  readonly step: number;
}

function factsOf(values: Float64Array, expected: Float64Array, start: number, end: number): Facts {
  let least = Number.POSITIVE_INFINITY;
  let largest = Number.NEGATIVE_INFINITY;
  let [sum, sumExpected, departures, sizes, steps, n, moves] = [0, 0, 0, 0, 0, 0, 0];
  for (let i = start; i < end; i++) {
    if (Number.isNaN(values[i]!)) continue;
    n++;
    least = Math.min(least, values[i]!);
    largest = Math.max(largest, values[i]!);
    sum += values[i]!;
    sumExpected += expected[i]!;
    departures += values[i]! - expected[i]!;
    sizes += Math.abs(values[i]! - expected[i]!);
    const move = i > start ? Math.abs(values[i]! - values[i - 1]!) : Number.NaN;
    if (Number.isNaN(move)) continue;
    steps += move;
    moves++;
  }
  return {
    least,
    largest,
    mean: sum / n,
    expected: sumExpected / n,
    balance: sizes === 0 ? 0 : departures / sizes,
    step: moves === 0 ? 0 : steps / moves,
  };
}

/** Whether the stretch begins where the series was, so that its values are capped rather than another level. */
function continuous(values: Float64Array, start: number, end: number, band: number): boolean {
  const before = start > 0 ? Math.abs(values[start]! - values[start - 1]!) : 0;
  const after = end < values.length ? Math.abs(values[end]! - values[end - 1]!) : 0;
  return Math.max(before, after) < band / 2;
}

function kindOf(
  joined: Joined,
  facts: Facts,
  described: Described,
): { kind: Kind; direction: Finding['direction'] } {
  const { values, base, period, usualStep } = described;
  const { start, end, track, sign } = joined;
  const length = end - start;
  const band = base.high[joined.peak]! - base.low[joined.peak]!;
  const outside = facts.mean > base.high[joined.peak]! || facts.mean < base.low[joined.peak]!;
  if (length >= STILL_SAMPLES && facts.largest - facts.least <= STILL * band) {
    const direction = facts.mean > facts.expected ? 'above' : 'below';
    if (!continuous(values, start, end, band))
      return { kind: outside ? 'level' : 'flat', direction: outside ? direction : null };
    const capped = Math.abs(facts.balance) > ONE_SIDED;
    return capped
      ? { kind: 'cutoff', direction: direction === 'below' ? 'above' : 'below' }
      : { kind: 'flat', direction: null };
  }
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

/** Median step in as many samples as the stretch has, before and after it. */
function stepsAround(values: Float64Array, start: number, end: number): number {
  const reach = Math.max(20, end - start);
  const steps: number[] = [];
  for (let i = Math.max(1, start - reach); i < Math.min(values.length, end + reach); i++) {
    const step = Math.abs(values[i]! - values[i - 1]!);
    if ((i < start || i > end) && !Number.isNaN(step)) steps.push(step);
  }
  return steps.length === 0 ? 0 : quantileInPlace(Float64Array.from(steps), steps.length, 0.5);
}

const samples = (n: number): string => (n === 1 ? 'one sample' : `${n} samples`);

function statementOf(
  kind: Kind,
  direction: Finding['direction'],
  facts: Facts,
  finding: Omit<Finding, 'statement' | 'evidence' | 'similar'>,
): string {
  const { observed, expected, start, end } = finding;
  const band = `${shown(expected.low)} to ${shown(expected.high)}`;
  const length = samples(end - start);
  switch (kind) {
    case 'spike':
      return `Rose to ${shown(observed.peak)} for ${length} where ${shown(expected.value)} was expected (usual: ${band}).`;
    case 'dip':
      return `Fell to ${shown(observed.peak)} for ${length} where ${shown(expected.value)} was expected (usual: ${band}).`;
    case 'level':
      return `Was ${shown(observed.mean)} on average (${shown(observed.least)} to ${shown(observed.largest)}) for ${length}, ${direction === 'above' ? 'above' : 'below'} the ${shown(facts.expected)} that was expected.`;
    case 'trend':
      return `Drifted ${direction === 'above' ? 'up' : 'down'} to ${shown(observed.peak)} where ${shown(expected.value)} was expected (usual: ${band}).`;
    case 'variance':
      return `Moved by ${shown(facts.step)} from sample to sample on average for ${length}, ${direction === 'above' ? 'more' : 'less'} than usual.`;
    case 'flat':
      return `Stood still at ${shown(observed.mean)} for ${length}.`;
    case 'cutoff':
      return `Did not go ${direction === 'above' ? 'above' : 'below'} ${shown(direction === 'above' ? observed.largest : observed.least)} for ${length}, where up to ${shown(expected.value)} was expected.`;
    default:
      return `Has another shape than the rest for ${length}: ${shown(observed.least)} to ${shown(observed.largest)}, at its peak ${shown(observed.peak)} where ${shown(expected.value)} was expected.`;
  }
}

/** What each account is called, as evidence for a finding. */
const ACCOUNTS: Readonly<Record<Candidate['track'], string>> = {
  level: 'far from the level of the whole series',
  local: 'far from the samples around it',
  season: 'unlike the same phase of the other cycles',
  analogue: 'unlike the most similar stretches elsewhere',
  step: 'the level before and after differs',
  movement: 'moves more or less from sample to sample than elsewhere',
  size: 'departs from what is expected, up and down, for longer than elsewhere',
};

/** The findings of a series, without those that are `similar` to each other filled in. */
function describe(joined: Joined, described: Described): Finding {
  const { values, base } = described;
  const { start, end, severity, members } = joined;
  const facts = factsOf(values, base.expected, start, end);
  // A stretch begins with a value: missing ones at its ends were cut off.
  let peak = start;
  for (let i = start; i < end; i++) {
    if (Math.abs(values[i]! - base.expected[i]!) > Math.abs(values[peak]! - base.expected[peak]!)) peak = i;
  }
  const { kind, direction } = kindOf({ ...joined, peak }, facts, described);
  const finding = {
    start,
    end,
    kind,
    direction,
    severity,
    level: levelOf(severity),
    peak,
    observed: { least: facts.least, mean: facts.mean, largest: facts.largest, peak: values[peak]! },
    expected: { value: base.expected[peak]!, low: base.low[peak]!, high: base.high[peak]! },
    ongoing: end === values.length,
  };
  const names = [...new Set(members.map(({ track }) => track))];
  const inside = values[peak]! >= base.low[peak]! && values[peak]! <= base.high[peak]!;
  return {
    ...finding,
    statement: statementOf(kind, direction, facts, finding),
    evidence: {
      for: names.map((name) => ACCOUNTS[name]),
      against: inside ? ['no single value leaves the usual band'] : [],
    },
    similar: [],
  };
}

/** Findings by falling severity, each with the others that are like it. */
export function describeAll(all: readonly Joined[], described: Described): Finding[] {
  const findings = all.map((one) => describe(one, described));
  return findings.map((one) => {
    const height = Math.abs(one.observed.peak - one.expected.value);
    const similar = findings.filter((other) => {
      if (other === one || other.kind !== one.kind || other.direction !== one.direction) return false;
      const lengths = [one.end - one.start, other.end - other.start];
      const heights = [height, Math.abs(other.observed.peak - other.expected.value)];
      return (
        Math.min(...lengths) >= ALIKE * Math.max(...lengths) &&
        Math.min(...heights) >= ALIKE * Math.max(...heights)
      );
    });
    return {
      ...one,
      similar: similar.map(({ start, end }) => [start, end] as const).sort((a, b) => a[0] - b[0]),
      evidence:
        similar.length === 0
          ? one.evidence
          : {
              ...one.evidence,
              against: [...one.evidence.against, `${similar.length} other stretches are like it`],
            },
    };
  });
}
