/**
 * Comparison of one given stretch with everything before it: did the level, the noise or the extremes change? The season is taken out
 * first. Each statistic of the stretch is held against the same statistic of earlier stretches as long. For series that wander, the changes from
 * one such stretch to the next count as well: the smaller of the two departures is taken.
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

/** Centre and robust spread of some values. */
function centred(values: Float64Array, floor: number): { centre: number; spread: number } {
  const centre = median(values);
  const distances = values.map((value) => Math.abs(value - centre));
  const quantile = (q: number): number => quantileInPlace(distances, distances.length, q);
  const spread = Math.max(GAUSSIAN_MAD * quantile(0.5), quantile(MOSTLY) / WITHIN, floor);
  return { centre, spread };
}

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
  /** Compares a statistic with that of earlier stretches; of a series that wanders, its change from the stretch before. */
  const compared = (statistic: (from: number, to: number) => number, floor: number, mayWander = true) => {
    const before = Float64Array.from(starts, (at) => statistic(at, at + length));
    const all = centred(before, floor);
    const lag = Math.ceil(length / stride);
    const changes = before.subarray(lag).map((value, k) => before[k]! - value);
    const steps = changes.length < FEWEST / 2 ? all : centred(changes, floor);
    // Independent stretches differ by √2 spreads.
    const wanders = mayWander && steps.spread < all.spread;
    const spreadsOf = (from: number, to: number): number => {
      const here = statistic(from, to);
      const apart = (here - all.centre) / all.spread;
      if (!wanders) return apart;
      const change = (here - before[0]! - steps.centre) / steps.spread;
      return apart * change <= 0 ? 0 : Math.abs(change) < Math.abs(apart) ? change : apart;
    };
    return { spreadsOf, wanders };
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
  const levels = compared(mean, FLOOR * size);
  const movements = compared(movement, LOG_FLOOR);

  // What is usual: the level before the stretch of a series that wanders, that of the whole time before of any other.
  const usual = levels.wanders ? mean(starts[0]!, start) : median(level.slice(0, start));
  /** Sample of the last known cycle at the phase of a later one. */
  const latest = (i: number): number => {
    const period = season?.period ?? 1;
    return Math.max(0, Math.min(end - 1, i - Math.round(Math.ceil((i - end + 1) / period) * period)));
  };
  const expected = given.map((_, i) =>
    i < start && season !== null ? season.expected[i]! : usual + shape[i < end ? i : latest(i)]!,
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
  const sign = known[peak]! >= expected[peak]! ? (1 as const) : (-1 as const);
  /** Samples around the peak that depart by at least a part as much. */
  const flanks = (): { start: number; end: number } => {
    const departs = (i: number): boolean =>
      sign * (known[i]! - expected[i]!) >= FLANK * Math.abs(known[peak]! - expected[peak]!);
    let [from, to] = [peak, peak + 1];
    while (from > first && departs(from - 1)) from--;
    while (to < last && departs(to)) to++;
    return { start: from, end: to };
  };
  type Look = Pick<Candidate, 'track' | 'sign' | 'start' | 'end'> & { readonly spreads: number };
  const look = (track: 'level' | 'movement', spreads: number, from = first, to = last): Look => ({
    ...{ track, sign: spreads < 0 ? -1 : 1, spreads: Math.abs(spreads), start: from, end: to },
  });
  const isClear = ({ spreads }: Look): boolean => spreads >= CLEAR;
  const byLevel = look('level', levels.spreadsOf(start, end));
  const byMovement = look('movement', movements.spreadsOf(start, end));
  const flank = flanks();
  const beyond = compared(extreme(sign), FLOOR * size, false).spreadsOf(start, end);
  const byExtreme: Look = { ...look('level', Math.max(0, beyond), flank.start, flank.end), sign };
  const looks = [byLevel, byMovement, byExtreme];
  const most = looks.reduce((a, b) => (b.spreads > a.spreads ? b : a));
  // Beside a short event the rest of the stretch is usual; in other noise it is not.
  const [from, to] = flank.start - start > end - flank.end ? [start, flank.start] : [flank.end, end];
  const isEvent =
    to - from >= (end - start) / 3 &&
    isClear(byExtreme) &&
    Math.max(Math.abs(levels.spreadsOf(from, to)), Math.abs(movements.spreadsOf(from, to))) < CLEAR;
  const told = isEvent ? byExtreme : isClear(byLevel) ? byLevel : isClear(byMovement) ? byMovement : most;
  const severity = severityOf(most.spreads, independent);
  const score = new Float64Array(given.length).fill(severity, start, end);
  const { spreads: _, ...stretch } = told;
  const candidate = { ...stretch, severity, peak };
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
