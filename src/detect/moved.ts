/**
 * Comparison of one given stretch with everything before it: did the level, the noise or the extremes change? The season is taken out
 * first. Each statistic of the stretch is held against the same statistic of earlier stretches as long, and, for series that wander,
 * against the changes from one such stretch to the next: the smaller of the two departures counts.
 */
import type { Interval } from '../ground/types.ts';
import { bridge } from '../series/missing.ts';
import { GAUSSIAN_MAD, median, quantileInPlace } from '../series/stats.ts';
import { expectation, stepSizes } from './departures.ts';
import { describeAll, stepsIn } from './describe.ts';
import {
  type AnalyseOptions,
  FEWEST_SAMPLES,
  type FilterOptions,
  filterFindings,
  sizeOf,
  structureOf,
  unjudged,
} from './detect.ts';
import type { Detection } from './finding.ts';
import { LEVELS } from './finding.ts';
import type { Candidate } from './scan.ts';
import { difference, findSeason } from './season.ts';
import { say } from './sentence.ts';

/** Earlier stretches to compare with: fewer make the stretches shorter; more are spread over the time before. */
const FEWEST = 8;
const MOST = 128;
/** Smallest spread of a mean, as a share of the range of the values; and of a logarithm of the movement. */
const FLOOR = 0.005;
const LOG_FLOOR = 0.1;
/** Share of the earlier stretches, and so many spreads, within which they lie: earlier incidents widen the spread, but one does not set it. */
const [MOSTLY, WITHIN] = [0.95, 2];
/** Smallest movement that is told from a standstill, as a share of the usual one. */
const STILL = 0.05;
/** Number of statistics that are looked at. */
const LOOKS = 4;
/** Spreads from which on a departure of the whole stretch is told. */
const CLEAR = 5;
/** Part of the largest departure to which an extreme reaches. */
const FLANK = 0.5;

/** Distance of a value from the others, in robust spreads; positive above. */
function distance(value: number, others: Float64Array, floor: number): number {
  const middle = median(others);
  const distances = others.map((other) => Math.abs(other - middle));
  const quantile = (q: number): number => quantileInPlace(distances, distances.length, q);
  const spread = Math.max(GAUSSIAN_MAD * quantile(0.5), quantile(MOSTLY) / WITHIN, floor);
  return (value - middle) / spread;
}

const smaller = (a: number, b: number): number => (a * b <= 0 ? 0 : Math.abs(a) < Math.abs(b) ? a : b);

/** Severity of a distance of so many spreads, estimated from `count` stretches: the logarithm of Student's tail. */
function severityOf(spreads: number, count: number): number {
  const freedom = Math.min(30, Math.max(3, count - 1));
  return Math.max(0, ((freedom + 1) / 2) * Math.log10(1 + spreads ** 2 / freedom) - Math.log10(LOOKS));
}

/**
 * Judges samples [start, end) of [N] values, NaN where missing, against those before; what comes later is left out. At most one finding.
 *
 * @param window half-open, in samples; with fewer than 16 samples before, or without a value inside, nothing is judged
 */
export function moved(
  given: Float64Array,
  [start, end]: Interval,
  options: AnalyseOptions & FilterOptions = {},
): Detection {
  const known = given.slice(0, end);
  const missing = known.subarray(start).every(Number.isNaN);
  if (start < FEWEST_SAMPLES || missing || known.subarray(0, start).every(Number.isNaN))
    return unjudged(given, say`Values are missing: all of the window, or all before it.`);
  const values = bridge(known).values;
  const clocks = options.clocks?.map((clock) => clock.subarray(0, end));
  const season = findSeason(values, options.calendar, options.clock?.subarray(0, end) ?? null, clocks);
  const shape = season === null ? values.map(() => 0) : difference(season.expected, season.level);
  const level = difference(values, shape);
  const size = sizeOf(level.subarray(0, start)) || sizeOf(level) || Number.MIN_VALUE;

  const length = Math.max(1, Math.min(end - start, Math.floor(start / FEWEST)));
  const stride = Math.max(1, Math.ceil(length / 2), Math.ceil((start - length) / MOST));
  const starts: number[] = [];
  for (let at = start - length; at >= 0; at -= stride) starts.push(at);
  const independent = Math.floor(start / Math.max(length, stride));
  /** Distance of the stretch in a statistic, from earlier stretches and from the changes between them. */
  const compared = (statistic: (from: number, to: number) => number, floor: number, wanders = true) => {
    const here = statistic(start, end);
    const before = Float64Array.from(starts, (at) => statistic(at, at + length));
    const apart = distance(here, before, floor);
    const lag = Math.ceil(length / stride);
    if (!wanders || before.length < 2 * lag + FEWEST / 2) return { spreads: apart, follows: false };
    const changes = before.subarray(lag).map((value, k) => before[k]! - value);
    const change = distance(here - before[0]!, changes, floor);
    return { spreads: smaller(apart, change), follows: Math.abs(change) < Math.abs(apart) };
  };
  const mean = (from: number, to: number): number => {
    let sum = 0;
    for (let i = from; i < to; i++) sum += level[i]!;
    return sum / (to - from);
  };
  const meanStep = (from: number, to: number): number => {
    const { sum, count } = stepsIn(values, from, to);
    return sum / Math.max(1, count);
  };
  const least = STILL * meanStep(0, start) + Number.MIN_VALUE;
  const movement = (from: number, to: number): number => Math.log(meanStep(from, to) + least);
  const extreme =
    (sign: 1 | -1) =>
    (from: number, to: number): number =>
      level
        .subarray(from, to)
        .reduce((most, value) => Math.max(most, sign * value), Number.NEGATIVE_INFINITY);
  const { spreads: ofLevel, follows } = compared(mean, FLOOR * size);
  const { spreads: ofMovement } = compared(movement, LOG_FLOOR);
  const above = Math.max(0, compared(extreme(1), FLOOR * size, false).spreads);
  const below = Math.max(0, compared(extreme(-1), FLOOR * size, false).spreads);

  // What is usual: the level before the stretch of a series that wanders, that of the whole time before of any other.
  const usual = follows ? mean(starts[0]!, start) : median(level.slice(0, start));
  const expected = given.map((_, i) =>
    i < start && season !== null ? season.expected[i]! : usual + (shape[i] ?? 0),
  );
  const filled = given.map((value, i) => (Number.isNaN(value) ? expected[i]! : value));
  const base = expectation(filled, expected, {
    ...{ floor: FLOOR * size, scale: null },
    unusual: (i) => i >= start,
  });

  const first = known.findIndex((value, i) => i >= start && !Number.isNaN(value));
  const last = known.findLastIndex((value) => !Number.isNaN(value)) + 1;
  let peak = first;
  for (let i = first; i < last; i++)
    if (Math.abs(known[i]! - expected[i]!) > Math.abs(known[peak]! - expected[peak]!)) peak = i;
  const sign = known[peak]! >= expected[peak]! ? 1 : -1;
  /** Samples around the peak that depart by at least a part as much. */
  const flanks = (): { start: number; end: number } => {
    const departs = (i: number): boolean =>
      sign * (known[i]! - expected[i]!) >= FLANK * Math.abs(known[peak]! - expected[peak]!);
    let [from, to] = [peak, peak + 1];
    while (from > first && departs(from - 1)) from--;
    while (to < last && departs(to)) to++;
    return { start: from, end: to };
  };
  const looks: (Pick<Candidate, 'track' | 'sign'> & { spreads: number })[] = [
    { track: 'level', sign: ofLevel > 0 ? 1 : -1, spreads: Math.abs(ofLevel) },
    { track: 'movement', sign: ofMovement > 0 ? 1 : -1, spreads: Math.abs(ofMovement) },
  ];
  const largest = (all: typeof looks) => all.reduce((a, b) => (b.spreads > a.spreads ? b : a));
  const extremes: (typeof looks)[number] = { track: 'level', sign, spreads: sign > 0 ? above : below };
  const whole = largest(looks);
  const most = largest([...looks, extremes]);
  // Other noise has other extremes: they are told only where nothing is to be said of the whole.
  const told = whole.spreads >= CLEAR ? whole : most;
  const stretch = told === extremes ? flanks() : { start: first, end: last };
  const severity = severityOf(most.spreads, independent);
  const score = new Float64Array(given.length).fill(severity, start, end);
  const candidate = { ...stretch, track: told.track, sign: told.sign, severity, peak };
  const present = given.filter((value) => !Number.isNaN(value));
  const described = {
    ...{ values: given, base, season, usualStep: median(stepSizes(values)) },
    ...{ steps: stepsIn(given, 0, given.length) },
    least: present.reduce((a, b) => Math.min(a, b)),
    largest: present.reduce((a, b) => Math.max(a, b)),
  };
  const found =
    severity >= LEVELS.low ? describeAll([{ ...candidate, members: [candidate] }], described) : [];
  const { findings, leftOut } = filterFindings(found, size, options);
  return {
    ...{ score, ...base, findings, leftOut },
    structure: structureOf(season, base),
    seasons: season === null ? [] : [season.period],
  };
}
