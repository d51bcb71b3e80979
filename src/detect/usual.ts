/** Reasons why a departing stretch is usual: loads that switch at any time, jobs at equal intervals, patterns of the season. */
import { median, moments, quantileInPlace } from '../series/stats.ts';
import type { Candidate } from './scan.ts';
import type { Season } from './season.ts';
import { fitTail } from './tail.ts';

/** Pairs of similar edges that halve the severity of a stretch. */
export const PEERS = 4;
/** Smallest jump, in usual steps. */
const JUMP = 10;
/** Smallest edge of a box, as a share of the height of the stretch. */
const BOX = 0.7;
/** Share of the samples that makes a level usual; and its tolerance, as a share of the edges. */
const USUAL_LEVEL = 0.05;
const SAME_LEVEL = 0.2;

/** Share of edges predicted by the season from which they keep a schedule. */
const PREDICTED = 0.7;

/**
 * Counts the pairs of similar jumps elsewhere, for a stretch at a usual level that begins or ends with a jump, or should have (`missed`:
 * departures from similar stretches). A load that switches at any time is usual when it switches a little early or late; one that keeps
 * a schedule is not, and counts 0.
 */
export function likeEdges(
  values: Float64Array,
  usualStep: number,
  { start, end, peak, track }: Candidate,
  season: Season | null,
  missed: Float64Array | undefined,
): number {
  // The length of a standstill has been compared with that of others.
  if (track === 'still') return 0;
  const n = values.length;
  const jumpAt = (at: number): number => {
    let largest = 0;
    for (let i = Math.max(1, at - 1); i <= Math.min(n - 1, at + 1); i++) {
      largest = Math.max(largest, Math.abs(values[i]! - values[i - 1]!));
    }
    return largest;
  };
  const before = values[Math.max(0, start - 1)]!;
  const after = values[Math.min(n - 1, end)]!;
  const height = Math.max(Math.abs(values[peak]! - before), Math.abs(values[peak]! - after));
  let edge = Math.max(jumpAt(start), jumpAt(end));
  const timing = (track === 'analogue' || track === 'season') && missed !== undefined;
  if (timing) edge = Math.max(edge, Math.abs(missed[peak]!));
  else if (start < 1 || end >= n || edge < BOX * height) return 0;
  if (edge < JUMP * usualStep) return 0;
  let there = 0;
  for (let i = 0; i < n; i++) {
    if ((i < start || i >= end) && Math.abs(values[i]! - values[peak]!) < SAME_LEVEL * edge) there++;
  }
  if (there < USUAL_LEVEL * n) return 0;
  let [alike, predicted] = [0, 0];
  for (let i = 1; i < n; i++) {
    const jump = Math.abs(values[i]! - values[i - 1]!);
    if (jump < BOX * edge || (i >= start - 2 && i <= end + 2)) continue;
    alike++;
    if (season === null) continue;
    for (let k = Math.max(1, i - 2); k <= Math.min(n - 1, i + 2); k++) {
      if (Math.abs(season.expected[k]! - season.expected[k - 1]!) < jump / 2) continue;
      predicted++;
      break;
    }
  }
  return timing && predicted >= PREDICTED * alike ? 0 : alike / 2;
}

/** Fewest stretches at equal distances, and the share of the distances that must be equal. */
const FEWEST_REGULAR = 6;
const REGULAR = 0.6;
/** Tolerance of a distance, as a share of the usual one; and most usual distances between two stretches. */
const OFF = 0.1;
const SKIPPED = 3;
/** Least ratio of the severities of two peers. */
const AS_SEVERE = 0.6;

/**
 * Returns true if a stretch is one of many at equal distances, like a job that runs every day. A distance between random places has a chance
 * of about 1 in 7 to be this near a small multiple of the usual one; three fifths of five or more are below 1 %, of ten below 0.1 %.
 */
export function regular(candidate: Candidate, candidates: readonly Candidate[]): boolean {
  const alike = candidates
    .filter(
      (other) =>
        other.track === candidate.track &&
        other.sign === candidate.sign &&
        other.severity >= AS_SEVERE * candidate.severity &&
        other.severity * AS_SEVERE <= candidate.severity,
    )
    .map(({ peak }) => peak)
    .sort((a, b) => a - b)
    .filter((peak, i, peaks) => i === 0 || peak > peaks[i - 1]! + 1);
  if (alike.length < FEWEST_REGULAR) return false;
  const gaps = Float64Array.from({ length: alike.length - 1 }, (_, i) => alike[i + 1]! - alike[i]!);
  const usual = quantileInPlace(gaps.slice(), gaps.length, 0.5);
  const equal = (gap: number | undefined): boolean => {
    if (gap === undefined) return false;
    const times = Math.round(gap / usual);
    return times >= 1 && times <= SKIPPED && Math.abs(gap - times * usual) <= Math.max(1, OFF * usual);
  };
  if (gaps.filter(equal).length < Math.max(FEWEST_REGULAR - 1, REGULAR * gaps.length)) return false;
  const place = alike.findIndex((peak) => Math.abs(peak - candidate.peak) <= 1);
  return equal(gaps[place - 1]) || equal(gaps[place]);
}

/** Smallest drop of a sawtooth, as a share of the range; fewest drops; and least unevenness of the times between those without schedule. */
const [DROP, FEWEST_DROPS, UNEVEN] = [0.05, 3, 0.02];
/** Ratio of what rises and falls by which a sawtooth may be off, and of the slope of a stretch of it; and standard errors of the slope. */
const [BALANCE, SLOPE, ERRORS] = [2, 0.5, 4];
/** Distance by which a stretch may go beyond the other teeth, as a share of the range. */
const BEYOND = 0.05;

/**
 * Recognises a sawtooth: values that drift and jump back at any time, such as a disk that is emptied when it is full. Returns a function that
 * is true of stretches that drift as usual, stay in the range of the others, and jump to where others do; null for other series.
 */
export function sawtooth(
  values: Float64Array,
  usualStep: number,
): ((stretch: Pick<Candidate, 'start' | 'end'>) => boolean) | null {
  const sorted = values.slice().sort();
  const range = sorted[Math.floor(0.99 * (sorted.length - 1))]! - sorted[Math.floor(0.01 * sorted.length)]!;
  const jumps = values.map((value, i) => (i === 0 ? 0 : value - values[i - 1]!));
  const least = Math.max(DROP * range, JUMP * usualStep);
  const slopeOf = (from: number, to: number) =>
    moments(jumps.subarray(from, to).filter((jump) => Math.abs(jump) < least));
  const { mean, std } = slopeOf(1, values.length);
  const drops = [...jumps.keys()].filter((i) => Math.abs(jumps[i]!) >= least && jumps[i]! > 0 !== mean > 0);
  if (range === 0 || drops.length < FEWEST_DROPS) return null;
  const ratio = Math.abs((mean * values.length) / drops.reduce((sum, i) => sum + jumps[i]!, 0));
  if (ratio > BALANCE || ratio < 1 / BALANCE) return null;
  const gaps = Float64Array.from(drops.slice(1), (at, k) => at - drops[k]!);
  const usual = median(gaps);
  const uneven = gaps.map((gap) => Math.abs(gap - usual)).sort();
  if (uneven[Math.floor(0.75 * uneven.length)]! < UNEVEN * usual) return null;
  return ({ start, end }) => {
    const others = drops.filter((i) => i < start || i > end);
    const slope = slopeOf(Math.max(1, start), end).mean;
    // The ends of other teeth, with a margin for what has no schedule.
    const reach = (places: readonly number[]): readonly [number, number] => {
      const ends = places.map((i) => values[i]!);
      const [low, high] = [Math.min(...ends), Math.max(...ends)];
      const margin = Math.max(BEYOND * range, high - low);
      return [low - margin, high + margin];
    };
    const [lands, tops] = [reach(others), reach(others.map((i) => i - 1))];
    const [low, high] = [Math.min(lands[0], tops[0]), Math.max(lands[1], tops[1])];
    return (
      others.length >= 2 &&
      values.subarray(start, end).every((value) => value >= low && value <= high) &&
      !(Math.abs(slope - mean) > Math.max(SLOPE * Math.abs(mean), (ERRORS * std) / Math.sqrt(end - start))) &&
      drops.every((i) => i < start || i > end || (values[i]! >= lands[0] && values[i]! <= lands[1]))
    );
  };
}

/** Returns a function that is true of candidates in other tracks which hardly depart here: season or similar stretches predict them. */
export function explainer(departures: Float64Array): (candidate: Candidate) => boolean {
  const { centre, bandAbove, bandBelow } = fitTail(departures, 1e-300);
  return ({ start, end, sign }) => {
    let sum = 0;
    for (let i = start; i < end; i++) sum += departures[i]! - centre;
    const mean = sum / (end - start);
    return sign > 0 ? mean < bandAbove / 2 : -mean < bandBelow / 2;
  };
}

/** Smallest change of the expected values near a narrow peak, as a share of the departure. */
export const PEAK = 0.5;

/** Returns true if the expected values within `reach` samples of a stretch change by at least `least`. */
export function atEdge(
  expected: Float64Array,
  { start, end }: Candidate,
  reach: number,
  least: number,
): boolean {
  let [low, high] = [Infinity, -Infinity];
  for (let i = Math.max(0, start - reach); i < Math.min(expected.length, end + reach); i++) {
    low = Math.min(low, expected[i]!);
    high = Math.max(high, expected[i]!);
  }
  return high - low >= least;
}
