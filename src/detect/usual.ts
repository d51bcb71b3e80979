/** Reasons why a departing stretch is usual: loads that switch at any time, jobs at equal intervals, patterns of the season. */
import type { Interval } from '../ground/types.ts';
import { mergeIntervals, runs } from '../series/intervals.ts';
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
  { start, end, peak, track, lasting }: Candidate,
  season: Season | null,
  missed: Float64Array | undefined,
): number {
  // The length of a standstill has been compared with that of others. A level that stays is compared with the season, whose own edges are no peers.
  if (track === 'still' || (lasting === true && season !== null)) return 0;
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
  const keepsTime = timing || (track === 'season' && season?.nested === true);
  return keepsTime && predicted >= PREDICTED * alike ? 0 : alike / 2;
}

/** Fewest stretches at equal distances, and the share of the distances that must be equal. */
const FEWEST_REGULAR = 6;
const REGULAR = 0.6;
/** Least part of a series of `n` samples over which they come: in less they are one incident. */
const WIDE = 0.25;
/** Tolerance of a distance, as a share of the usual one; and most usual distances between two stretches. */
const OFF = 0.1;
const SKIPPED = 3;
/** Least ratio of the severities of two peers. */
const AS_SEVERE = 0.6;

/**
 * Returns true if a stretch is one of many at equal distances, like a job that runs every day. A distance between random places has a chance
 * of about 1 in 7 to be this near a small multiple of the usual one; three fifths of five or more are below 1 %, of ten below 0.1 %.
 */
export function regular(candidate: Candidate, candidates: readonly Candidate[], n: number): boolean {
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
  if (alike.length < FEWEST_REGULAR || alike.at(-1)! - alike[0]! < WIDE * n) return false;
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

/** Fewest departures like a stretch that make it usual; largest ratio of their distances, and share that keep it. */
const [FEWEST_ALIKE, PACE, MOST_AT_PACE] = [8, 2, 0.9];
/** Fewest departures like a stretch that make it usual at any time, the longest part of the series without one, and number that is a crowd. */
const [FEWEST_AT_RANDOM, LONGEST_PAUSE, CROWD] = [24, 1 / 4, 6];
/** Tolerance of equal distances, as a share. */
const IN_TIME = 0.05;
/** Ratio of heights whose runs are taken together; least height of one that is alike, and height at which lengths are compared, as shares. */
const [SAME, AS_HIGH, FLANK] = [1.25, 0.7, 0.5];
/** Place of the length that is compared, from the longest; and how much longer a stretch may be. */
const [LONG_PLACE, LONGER] = [3, 1.5];

/**
 * Returns a function that is true of a stretch of departures [N] if others as high and about as long come at a pace, as deployments do: another
 * one is expected, however rare its values are. What comes at equal distances is expected at its time alone.
 *
 * @param anytime true if the distances of very many may be those of chance, outside crowds: without a season, whose phases differ
 */
export function recurring(
  departures: Float64Array,
  floor: number,
  anytime = false,
): (stretch: Pick<Candidate, 'start' | 'end' | 'sign'>) => boolean {
  const n = departures.length;
  const furthest = (start: number, end: number, sign: number): number =>
    departures.subarray(start, end).reduce((most, value) => Math.max(most, sign * value), 0);
  const known = new Map<number, (readonly [start: number, end: number, height: number])[]>();
  const alikeTo = (height: number, sign: number): Interval[] => {
    const step = sign * SAME ** Math.floor(Math.log(height) / Math.log(SAME));
    const all =
      known.get(step) ??
      mergeIntervals(
        runs(n, (i) => sign * departures[i]! >= FLANK * Math.abs(step)),
        1,
      ).map(([start, end]) => [start, end, furthest(start, end, sign)] as const);
    known.set(step, all);
    return all.flatMap(([start, end, top]) => (top >= AS_HIGH * height ? [[start, end] as const] : []));
  };
  return ({ start, end, sign }) => {
    const height = furthest(start, end, sign);
    if (height <= floor) return false;
    const others = alikeTo(height, sign).filter(([from, to]) => to <= start || from >= end);
    if (others.length < FEWEST_ALIKE) return false;
    const starts = [...others.map(([from]) => from), start].sort((a, b) => a - b);
    const gaps = starts.slice(1).map((at, k) => at - starts[k]!);
    const usual = median(Float64Array.from(gaps));
    const isPace = (gap = usual): boolean => gap * PACE >= usual && gap <= PACE * usual;
    const place = starts.indexOf(start);
    const keepsPace =
      [gaps[place - 1], gaps[place]].every(isPace) &&
      gaps.filter((gap) => gap <= PACE * usual).length >= MOST_AT_PACE * gaps.length;
    const crowd = (k: number): number => (starts[k + CROWD - 1] ?? Infinity) - (starts[k] ?? -Infinity);
    const comesAtRandom = (): boolean =>
      anytime &&
      others.length >= FEWEST_AT_RANDOM &&
      gaps.every((gap) => gap < LONGEST_PAUSE * n) &&
      Array.from({ length: CROWD }, (_, k) => crowd(place - k)).every((long) => long > n / starts.length);
    const lengths = others.map(([from, to]) => to - from).sort((a, b) => b - a);
    return (
      2 * (starts.at(-1)! - starts[0]!) > n &&
      (keepsPace || comesAtRandom()) &&
      gaps.filter((gap) => Math.abs(gap - usual) <= Math.max(1, IN_TIME * usual)).length <
        REGULAR * gaps.length &&
      end - start <= Math.max(lengths[LONG_PLACE - 1]! + 1, LONGER * lengths[LONG_PLACE - 1]!)
    );
  };
}

/** Fewest samples of the usual departure from a constant that has a shape. */
const SHAPED = 3;

/**
 * Returns the first samples of the events of a mostly constant series [N] whose departures from its constant are too short for a shape, such as
 * counts that are nearly always 0; null for other series. Any such event is like any other, whenever it comes.
 */
export function rareEvents(values: Float64Array): number[] | null {
  const n = values.length;
  const common = quantileInPlace(values.slice(), n, 0.5);
  const events = runs(n, (i) => values[i] !== common);
  const samples = events.reduce((sum, [start, end]) => sum + end - start, 0);
  if (events.length === 0) return null;
  const usual = median(Float64Array.from(events, ([start, end]) => end - start));
  return 2 * samples < n && usual < SHAPED ? events.map(([start]) => start) : null;
}

/** Distance by which an event may miss its time, as a share of the period, and in samples at least and at most. */
const [MISSED, LEAST_MISSED, MOST_MISSED] = [0.02, 1, 5];

/** Returns true for rare events of which fewer than three fifths come a period before or after another one: their season is one of chance. */
export function comesByChance(values: Float64Array, period: number): boolean {
  const events = rareEvents(values);
  if (events === null) return false;
  const off = Math.min(MOST_MISSED, Math.max(LEAST_MISSED, MISSED * period));
  const inTime = new Set<number>();
  let next = 0;
  for (const at of events) {
    while (next < events.length && events[next]! < at + period - off) next++;
    for (let k = next; k < events.length && events[k]! <= at + period + off; k++) {
      inTime.add(at);
      inTime.add(events[k]!);
    }
  }
  return inTime.size < REGULAR * events.length;
}

/** Smallest leg of a sawtooth, as a share of the range; fewest legs each way; and least unevenness of the times without schedule. */
const [LEG, FEWEST_LEGS, UNEVEN] = [0.2, 2, 0.02];
/** Fewest samples of the usual leg one way: noise turns all the time. */
const SLOW = 8;
/** Fewest even gaps that show a schedule, other than an hour, a day or a week: two or three are even by chance. */
const FEWEST_GAPS = 4;
/** Largest distance of a leg from its chord, as a share of its height; and share of the legs that are straight and as steep as usual. */
const [BENT, MOST_LEGS] = [0.06, 0.75];
/** Ratio by which the slope of a leg may be off, and standard errors; and samples of a leg that has a slope. */
const [SLOPE, ERRORS, SLOPED] = [0.5, 4, 4];
/** Distance by which a stretch may go beyond the other teeth, as a share of the range. */
const BEYOND = 0.05;
/** Share of the ends of teeth on either side that an incident may have. */
const OUTER = 0.1;

/** Returns the samples at which values turn back by `reach` or more, in order. */
function turnsOf(values: Float64Array, reach: number): number[] {
  const turns: number[] = [];
  let [low, top, way] = [0, 0, 0];
  for (let i = 1; i < values.length; i++) {
    if (values[i]! > values[top]!) top = i;
    if (values[i]! < values[low]!) low = i;
    const falls = way >= 0 && values[top]! - values[i]! >= reach;
    if (!falls && !(way <= 0 && values[i]! - values[low]! >= reach)) continue;
    turns.push(falls ? top : low);
    [low, top, way] = [i, i, falls ? -1 : 1];
  }
  return turns.filter((turn) => turn > 0);
}

/**
 * Recognises a sawtooth: values that rise and fall between two limits, each at its own pace, and turn at any time, such as a disk that is
 * emptied when it is full, or a battery. Returns a function that is true of stretches that move as usual, stay in the range of the others,
 * and turn where others do; null for other series.
 *
 * @param calendar samples of an hour, a day and a week
 */
export function sawtooth(
  values: Float64Array,
  calendar: readonly number[] = [],
): ((stretch: Pick<Candidate, 'start' | 'end'>) => boolean) | null {
  const sorted = values.slice().sort();
  const range = sorted[Math.floor(0.99 * (sorted.length - 1))]! - sorted[Math.floor(0.01 * sorted.length)]!;
  const turns = range > 0 ? turnsOf(values, LEG * range) : [];
  const legs = turns.slice(1).map((end, k) => {
    const [start, height] = [turns[k]!, values[end]! - values[turns[k]!]!];
    const slope = height / (end - start);
    let far = 0;
    for (let i = start; i < end; i++) far += Math.abs(values[i]! - values[start]! - slope * (i - start));
    return { start, end, slope, bent: far / (end - start) / Math.abs(height) };
  });
  const ways = ([1, -1] as const).map((sign) => legs.filter(({ slope }) => sign * slope > 0));
  if (ways.some((some) => some.length < FEWEST_LEGS)) return null;
  const jumpsOf = (start: number, end: number): number[] =>
    Array.from(values.subarray(start, end), (value, i) => values[start + i + 1]! - value);
  const [up, down] = ways.map((some) => {
    const slope = median(Float64Array.from(some, (leg) => leg.slope));
    const usual = some.filter(
      ({ start, end, ...leg }) =>
        end - start < SLOPED || (leg.bent <= BENT && Math.abs(leg.slope - slope) <= SLOPE * Math.abs(slope)),
    );
    // Jumps at their own paces, of noise, and the samples of the usual leg.
    const { std } = moments(Float64Array.from(some.flatMap((leg) => jumpsOf(leg.start, leg.end))));
    const length = median(Float64Array.from(some, ({ start, end }) => end - start));
    return { slope, std, length, even: usual.length >= MOST_LEGS * some.length };
  });
  if (!up!.even || !down!.even || Math.max(up!.length, down!.length) < SLOW) return null;
  const lows = turns.filter((_, k) => legs[Math.max(0, k - 1)]!.slope > 0 === (k === 0));
  const gaps = Float64Array.from(lows.slice(1), (at, k) => at - lows[k]!);
  const usual = median(gaps);
  const uneven = gaps.map((gap) => Math.abs(gap - usual)).sort();
  const keepsTime = uneven[Math.floor(0.75 * (uneven.length - 1))]! < UNEVEN * usual;
  const known = calendar.some((period) => Math.abs(usual - period) < UNEVEN * period);
  if (keepsTime && (known || gaps.length >= FEWEST_GAPS)) return null;
  return ({ start, end }) => {
    // The ends of other teeth, with a margin for what has no schedule.
    const isInside = (turn: number): boolean => turn >= start && turn <= end;
    const reach = (top: boolean): readonly [number, number] => {
      const ends = turns
        .filter((turn) => !isInside(turn) && lows.includes(turn) !== top)
        .map((i) => values[i]!)
        .sort((a, b) => a - b);
      const [low, high] = [OUTER, 1 - OUTER].map((share) => ends[Math.round(share * (ends.length - 1))]!);
      // Few ends say little about the next one.
      const margin = (1 + 2 / ends.length) * Math.max(BEYOND * range, high! - low!);
      return [low! - margin, high! + margin];
    };
    const [lands, tops] = [reach(false), reach(true)];
    const within = (value: number, [low, high]: readonly [number, number]): boolean =>
      value >= low && value <= high;
    const moves = (from: number, to: number): boolean => {
      const { slope, std, length } = values[to]! > values[from]! ? up! : down!;
      if (to <= from || length < SLOPED) return true;
      const off = Math.abs((values[to]! - values[from]!) / (to - from) - slope);
      return off <= Math.max(SLOPE * Math.abs(slope), (ERRORS * std) / Math.sqrt(to - from));
    };
    const inside = turns.filter(isInside);
    // It begins and ends as teeth do, too.
    const ends = [Math.max(0, start - 1), ...inside, Math.min(end, values.length - 1)];
    return (
      turns.length - inside.length >= 4 &&
      values.subarray(start, end).every((value) => within(value, [lands[0], tops[1]])) &&
      inside.every((turn) => within(values[turn]!, lows.includes(turn) ? lands : tops)) &&
      ends.every((to, k) => k === 0 || moves(ends[k - 1]!, to))
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

/** Largest size of departures beside worse ones, as a share of that over the whole stretch, if they are not part of it. */
const BESIDE = 0.5;

/**
 * Returns a function that is true of stretches of large departures, in a track of sizes, that are little more than worse and far shorter ones in
 * them: by one of the tracks [N] the samples beside those depart as usual.
 */
export function onlyByParts(
  sizes: readonly Float64Array[],
  all: readonly Candidate[],
): (whole: Candidate) => boolean {
  const tracks = sizes.map((values) => ({ values, centre: median(values.slice()) }));
  return (whole) => {
    const parts = all.filter(
      ({ track, start, end, severity, lasting }) =>
        track !== 'size' &&
        lasting !== true &&
        severity >= whole.severity &&
        start < whole.end &&
        whole.start < end &&
        2 * (end - start) < whole.end - whole.start,
    );
    if (parts.length === 0) return false;
    return tracks.some(({ values, centre }) => {
      let [sum, beside, count] = [0, 0, 0];
      for (let i = whole.start; i < whole.end; i++) {
        sum += values[i]! - centre;
        if (parts.some(({ start, end }) => i >= start && i < end)) continue;
        beside += values[i]! - centre;
        count++;
      }
      return count > 0 && beside / count < (BESIDE * sum) / (whole.end - whole.start);
    });
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
