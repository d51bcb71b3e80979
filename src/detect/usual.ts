/** Why a stretch that departs is usual after all: loads that go on and off at any time, jobs at equal distances, what the season foretells. */
import { quantileInPlace } from '../series/stats.ts';
import type { Candidate } from './scan.ts';
import type { Season } from './season.ts';
import { fitTail } from './tail.ts';

/** Edges that halve the severity of a stretch between two like them. */
export const PEERS = 4;
/** Steps of usual size that make a jump. */
const JUMP = 10;
/** An edge this part as high as the stretch makes a box of it. */
const BOX = 0.7;
/** A level that this part of the samples has is a usual one; within this part of the height of its edges. */
const USUAL_LEVEL = 0.05;
const SAME_LEVEL = 0.2;

/** Edges that the season foretells this often keep a schedule. */
const FORETOLD = 0.7;

/**
 * For a stretch at a level at which the series often is, which begins or ends with a jump, or where a jump was to be expected (`missed`, how
 * far the values are from similar stretches): how many pairs of jumps as high there are elsewhere. A load that goes on and off at any time
 * is no stranger for doing it a little sooner or later than before; one that keeps a schedule is.
 */
export function likeEdges(
  values: Float64Array,
  usualStep: number,
  { start, end, peak, track }: Candidate,
  season: Season | null,
  missed: Float64Array | undefined,
): number {
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
  const timing = track === 'analogue' && missed !== undefined;
  if (timing) edge = Math.max(edge, Math.abs(missed[peak]!));
  else if (start < 1 || end >= n || edge < BOX * height) return 0;
  if (edge < JUMP * usualStep) return 0;
  let there = 0;
  for (let i = 0; i < n; i++) {
    if ((i < start || i >= end) && Math.abs(values[i]! - values[peak]!) < SAME_LEVEL * edge) there++;
  }
  if (there < USUAL_LEVEL * n) return 0;
  let [alike, foretold] = [0, 0];
  for (let i = 1; i < n; i++) {
    const jump = Math.abs(values[i]! - values[i - 1]!);
    if (jump < BOX * edge || (i >= start - 2 && i <= end + 2)) continue;
    alike++;
    if (season === null) continue;
    for (let k = Math.max(1, i - 2); k <= Math.min(n - 1, i + 2); k++) {
      if (Math.abs(season.expected[k]! - season.expected[k - 1]!) < jump / 2) continue;
      foretold++;
      break;
    }
  }
  return timing && foretold >= FORETOLD * alike ? 0 : alike / 2;
}

/** Stretches that come at equal distances, at least, and the part of all distances that is equal. */
const FEWEST_REGULAR = 6;
const REGULAR = 0.6;
/** A distance may be off by this part of the usual one, and up to so many may lie between two stretches. */
const OFF = 0.1;
const SKIPPED = 3;
/** Peers are this alike in severity. */
const AS_SEVERE = 0.6;

/**
 * Whether a stretch is one of many that come at equal distances, as a job that runs every day does. Of places at random a distance has a
 * chance of about one in seven to be as near to a small multiple of the usual one; that three fifths of five and more are is below 1 %, of
 * ten below one in a thousand. What comes between them, or after them at other distances, is none of them.
 */
export function regular(one: Candidate, candidates: readonly Candidate[]): boolean {
  const alike = candidates
    .filter(
      (other) =>
        other.track === one.track &&
        other.sign === one.sign &&
        other.severity >= AS_SEVERE * one.severity &&
        other.severity * AS_SEVERE <= one.severity,
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
  const place = alike.findIndex((peak) => Math.abs(peak - one.peak) <= 1);
  return equal(gaps[place - 1]) || equal(gaps[place]);
}

/** Whether what departs from level and neighbours is what the season lets one expect. */
export function explained(departures: Float64Array, { start, end, sign }: Candidate): boolean {
  const { centre, bandAbove, bandBelow } = fitTail(departures, 1e-300);
  let sum = 0;
  for (let i = start; i < end; i++) sum += departures[i]! - centre;
  const mean = sum / (end - start);
  return sign > 0 ? mean < bandAbove / 2 : -mean < bandBelow / 2;
}

/** What is expected near a narrow peak changes by this part of the departure at least. */
export const PEAK = 0.5;

/** Whether what is expected within `reach` of a stretch changes by so much. */
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
