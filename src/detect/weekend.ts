/** Weekends of a series of which fewer than three weeks are known: working days do not predict them, and few other weekends do. */
import type { Interval } from '../ground/types.ts';
import { cumulative, median, quantileInPlace } from '../series/stats.ts';
import { usualSize } from './departures.ts';
import type { Joined } from './join.ts';
import { findSeason, type Season, seasonExpectation, seasonLevel } from './season.ts';

/** Shortest stretch of rest that is fitted, and reach of the comparison of two predictions, as shares of a day. */
const [SHORTEST, REACH] = [1 / 4, 1 / 16];
/** Shares of a day: by which a change may miss the beginning or the end of a weekend, and which it lasts at least. */
const [NEAR, HALF] = [1 / 8, 1 / 2];
/** Share of a day that working hours take at least, and by which a change may miss the edge of a weekend that it touches. */
const [BUSY, TOUCHING] = [1 / 12, 1 / 24];
/** Times of a day, as shares of it, between which working hours begin and end. */
const [BEGINS, ENDS] = [
  [5 / 24, 11 / 24],
  [15 / 24, 21 / 24],
] as const;
/** Days of another stretch of the same kind that show what is usual; and of a week. */
const [KNOWN, DAYS] = [1, 7];

/** Rounds of a fit of least absolute deviations, and its smallest deviation as a share of the median one. */
const [ROUNDS, SMALLEST] = [12, 0.01];

/** Fits y ≈ level + factor · x, factor ≥ 0, by least absolute deviations (iteratively reweighted least squares); returns the fitted y [N]. */
function fitted(x: Float64Array, y: Float64Array): Float64Array {
  const weights = new Float64Array(x.length).fill(1);
  let fit = y;
  for (let round = 0; round < ROUNDS; round++) {
    let [w, sx, sy, sxx, sxy] = [0, 0, 0, 0, 0];
    for (let i = 0; i < x.length; i++) {
      w += weights[i]!;
      sx += weights[i]! * x[i]!;
      sy += weights[i]! * y[i]!;
    }
    for (let i = 0; i < x.length; i++) {
      sxx += weights[i]! * (x[i]! - sx / w) ** 2;
      sxy += weights[i]! * (x[i]! - sx / w) * (y[i]! - sy / w);
    }
    const factor = sxx > 0 ? Math.max(0, sxy / sxx) : 0;
    fit = x.map((value) => sy / w + factor * (value - sx / w));
    const sizes = y.map((value, i) => Math.abs(value - fit[i]!));
    const least = SMALLEST * median(sizes) || Number.MIN_VALUE;
    for (let i = 0; i < x.length; i++) weights[i] = 1 / Math.max(least, sizes[i]!);
  }
  return fit;
}

/** Returns the mean of the known values of [N] from index `first` to `last`, both included, in constant time. */
function runningMeans(values: Float64Array): (first: number, last: number) => number {
  const sums = cumulative(values.map((value) => (Number.isNaN(value) ? 0 : value)));
  const counts = cumulative(values.map((value) => Number(!Number.isNaN(value))));
  return (first, last) => {
    const [from, to] = [Math.max(0, first), Math.min(values.length, last + 1)];
    return (sums[to]! - sums[from]!) / (counts[to]! - counts[from]!);
  };
}

/** Fewest whole working days that show a daily season. */
const FEWEST_DAYS = 2;

/** Finds the daily season that working days show once weekends are left out; null if there is none, or no weekend. */
export function seasonOfWork(
  values: Float64Array,
  weekends: readonly Interval[],
  day: number,
): Season | null {
  const work = values.filter((_, i) => !weekends.some(([start, end]) => i >= start && i < end));
  const found = work.length === values.length ? null : findSeason(work, [], null, [], [day], FEWEST_DAYS);
  if (found === null) return null;
  const level = seasonLevel(values, day);
  return { ...found, level, expected: seasonExpectation(values, day, null, { level, nearest: true }) };
}

/** Departure of a day of rest, as a multiple of that of working days, from which these do not predict it. */
const DEPARTS = 2;

/** Splits a weekend at its midnight; in one piece where that is not known. */
function daysOf([start, end]: Interval, n: number, day: number): Interval[] {
  const midnight = Math.round(start > 0 ? start + day : end < n ? end - day : start);
  return midnight > start && midnight < end
    ? [
        [start, midnight],
        [midnight, end],
      ]
    : [[start, end]];
}

/** Returns true if working days do not predict a Saturday or a Sunday. */
export function departsAtRest(
  values: Float64Array,
  season: Season,
  weekends: readonly Interval[],
  day: number,
): boolean {
  const skip = Uint8Array.from(values, (_, i) => Number(weekends.some(([from, to]) => i >= from && i < to)));
  const { period, clock, level } = season;
  const expected = seasonExpectation(values, period, clock, { level, nearest: true, skip });
  const departures = values.map((value, i) => value - expected[i]!);
  const atWork = departures.filter((_, i) => skip[i] === 0);
  const usual = atWork.length === 0 ? Number.POSITIVE_INFINITY : usualSize(atWork);
  return weekends
    .flatMap((weekend) => daysOf(weekend, values.length, day))
    .some(
      ([start, end]) =>
        end - start >= SHORTEST * day && usualSize(departures.slice(start, end)) > DEPARTS * usual,
    );
}

/** Share of the working samples that are taken for ordinary. Others depart if they do so by a multiple of the largest departure of these. */
const [ORDINARY, FARTHER] = [0.9, 2.5];
/** Share of the departing samples that an incident holds, and of the busy hours of a day that go on beside it as usual. */
const [MOSTLY, WORKS] = [0.8, 1 / 3];

/** Sample of a weekend or a working day, beside the median of the (other) working days at its time. */
interface Hour {
  readonly at: number;
  readonly value: number;
  readonly work: number;
}

/**
 * Returns the weekends; none of them if each departs from working days in one incident alone. Then busy hours of its days are nearer to those of
 * working days than to what the incident would make of these: its value, or so many times theirs, or so much more.
 */
export function restingWeekends(
  values: Float64Array,
  weekends: readonly Interval[],
  day: number,
): readonly Interval[] {
  if (weekends.length === 0) return weekends;
  const n = values.length;
  const middle = (some: readonly number[]): number => median(Float64Array.from(some));
  const rest = Uint8Array.from(values, (_, i) => Number(weekends.some(([from, to]) => i >= from && i < to)));
  const days = Math.ceil(n / day);
  const others = (i: number): number[] => {
    const some: number[] = [];
    for (let away = -days; away <= days; away++) {
      const at = Math.round(i + away * day);
      if (away !== 0 && at >= 0 && at < n && rest[at] === 0) some.push(values[at]!);
    }
    return some;
  };
  const stride = Math.max(1, Math.floor(day / 96));
  const samples = (from: number, to: number, atRest: number): Hour[] => {
    const some: Hour[] = [];
    for (let i = from; i < to; i += stride) {
      const known = rest[i] === atRest ? others(i) : [];
      if (known.length >= FEWEST_DAYS) some.push({ at: i, value: values[i]!, work: middle(known) });
    }
    return some;
  };
  const busyOf = (of: readonly Hour[]): Hour[] => {
    const heights = Float64Array.from(of, ({ work }) => work);
    const [low, high] = [0.1, 0.9].map((share) => quantileInPlace(heights, heights.length, share));
    return of.filter(({ work }) => work >= (low! + high!) / 2);
  };
  const departure = ({ value, work }: Hour): number => Math.abs(value - work);
  // Working days may lie higher or lower than others, as behind a step.
  const atWork = Array.from({ length: days }, (_, k) => {
    const of = samples(Math.round(k * day), Math.min(n, Math.round((k + 1) * day)), 0);
    const offset = middle(of.map(({ value, work }) => value - work));
    return of.map(({ value, ...hour }) => ({ ...hour, value: value - offset }));
  }).flat();
  const sizes = Float64Array.from(atWork, departure);
  const far = FARTHER * quantileInPlace(sizes, sizes.length, ORDINARY);
  const usual = middle(busyOf(atWork).map(departure));
  const isOneIncident = (weekend: Interval): boolean => {
    const parts = daysOf(weekend, n, day)
      .filter(([from, to]) => to - from >= SHORTEST * day)
      .map(([from, to]) => samples(from, to, 1));
    const departing = parts.flat().filter((hour) => departure(hour) > far);
    if (parts.length === 0) return false;
    if (departing.length * stride < TOUCHING * day)
      return parts.every((of) => middle(busyOf(of).map(departure)) <= DEPARTS * usual);
    // What comes on both days is no single incident.
    let [longest, length] = [0, 0];
    departing.forEach(({ at }, k) => {
      length = k > 0 && at - departing[k - 1]!.at <= NEAR * day ? length + 1 : 1;
      longest = Math.max(longest, length);
    });
    if (longest < MOSTLY * departing.length) return false;
    const [height, factor, shift] = [
      middle(departing.map(({ value }) => value)),
      middle(departing.map(({ value, work }) => value / work)),
      middle(departing.map(({ value, work }) => value - work)),
    ];
    return parts.every((of) => {
      const busy = busyOf(of);
      const usually = busy.filter((hour) => {
        const made = [height, factor * hour.work, hour.work + shift];
        const effect = Math.min(...made.map((value) => Math.abs(value - hour.work)));
        return effect > far && departure(hour) < effect / 2;
      });
      return usually.length >= WORKS * busy.length;
    });
  };
  return atWork.length > 0 && weekends.every(isOneIncident) ? [] : weekends;
}

/** Usual sizes of a departure that steps from sample to sample have at least where days have no cycle. */
const STEADY = 0.7;
/** Share of its height that a day of rest may vary by, and share of heights and levels by which two may differ. */
const [VARIES, AGREE] = [1 / 8, 1 / 4];

/**
 * Returns how much higher days of rest are expected to lie [N] where working days have no cycle that would show it; null where they have one, or
 * none lies apart. A day is expected at its own height where another day of rest agrees, and else at that of the other Saturdays, or Sundays.
 */
export function heightsAtRest(
  values: Float64Array,
  weekends: readonly Interval[],
  day: number,
): Float64Array | null {
  const n = values.length;
  const work = values.filter((_, i) => !weekends.some(([from, to]) => i >= from && i < to));
  if (work.length < FEWEST_DAYS * day || work.length === n) return null;
  const level = median(work);
  const usual = usualSize(work.map((value) => value - level));
  if (usualSize(work.slice(1).map((value, i) => value - work[i]!)) < STEADY * usual) return null;
  const known = weekends
    .flatMap((weekend) => daysOf(weekend, n, day))
    .map(([start, end]) => {
      const own = values.slice(start, end);
      const height = median(own) - level;
      const varies = usualSize(own.map((value) => value - level - height));
      const isEven = varies <= Math.max(DEPARTS * usual, VARIES * Math.abs(height));
      return { at: start > 0 ? start : end - day, start, end, height: isEven ? height : Number.NaN };
    });
  const agree = (a: number, b: number): boolean => {
    const least = Math.min(...[a, b, level + a, level + b].map(Math.abs));
    return Math.abs(a - b) <= Math.max(DEPARTS * usual, AGREE * least);
  };
  const middle = (some: readonly (typeof known)[number][]): number =>
    median(Float64Array.from(some.map(({ height }) => height).filter((height) => !Number.isNaN(height))));
  const expected = ({ at, height }: (typeof known)[number]): number => {
    const others = known.filter((other) => other.at !== at);
    const weeksAway = (other: (typeof known)[number]): number => (other.at - at) / (DAYS * day);
    const alike = others.filter(
      (other) => Math.abs(weeksAway(other) - Math.round(weeksAway(other))) * DAYS <= NEAR,
    );
    const usually = middle(alike);
    if (alike.length === 0) return others.some((other) => agree(other.height, height)) ? height : 0;
    if (2 * alike.filter((other) => agree(other.height, height)).length >= alike.length) return height;
    if (alike.length > 1) return usually;
    const atAll = middle(others);
    return agree(atAll, height) ? height : agree(atAll, usually) ? usually : 0;
  };
  const heights = new Float64Array(n);
  for (const one of known) {
    const height = expected(one);
    if (Math.abs(height) > DEPARTS * usual) heights.fill(height, one.start, one.end);
  }
  return heights.some((height) => height !== 0) ? heights : null;
}

/**
 * Lets a season [N] expect of working days what other working days show, and in the first weekend their cycle at the height of that weekend, or
 * the same hours of another day of rest, whichever is nearer to the values. Later weekends are expected to be as earlier ones.
 *
 * @param weekends stretches of rest [start, end)
 * @param day samples of a day
 */
export function atRest(
  values: Float64Array,
  season: Season,
  weekends: readonly Interval[],
  day: number,
): Season {
  if (weekends.length === 0) return season;
  const rest = Uint8Array.from(values, (_, i) => Number(weekends.some(([from, to]) => i >= from && i < to)));
  const { period, clock } = season;
  const atWork = (level: Float64Array): Float64Array =>
    seasonExpectation(values, period, clock, { level, nearest: true, skip: rest });
  const first = atWork(season.level);
  const level = seasonLevel(
    values.map((value, i) => (rest[i] === 1 ? first[i]! : value)),
    period,
  );
  const expected = atWork(level);
  const usual = expected.slice();
  const reach = Math.max(1, Math.round(REACH * day));
  for (const [start, end] of weekends) {
    if (end - start < SHORTEST * day) continue;
    const own = values.slice(start, end);
    const working = usual.slice(start, end);
    // Work may end after midnight, and begin before it.
    const near = own.map((_, i) =>
      Math.min(start === 0 ? Number.POSITIVE_INFINITY : i, end - start - 1 - i) < NEAR * day
        ? working[i]!
        : Number.NaN,
    );
    // The height of an earlier weekend is usual.
    const isKnown = rest[Math.round(start + day / 2 - DAYS * day)] === 1;
    const predictions = isKnown ? [near] : [fitted(working, own), near];
    // Saturdays may be half as busy, and Sundays not at all.
    const parts = daysOf([start, end], values.length, day);
    if (!isKnown && parts.length > 1 && parts.every(([from, to]) => to - from >= SHORTEST * day)) {
      const daily = new Float64Array(own.length);
      for (const [from, to] of parts)
        daily.set(fitted(usual.subarray(from, to), values.subarray(from, to)), from - start);
      predictions.push(daily);
    }
    const days = Math.ceil(values.length / day);
    for (let away = -days; away <= days; away++) {
      const shift = Math.round(away * day);
      if (away === 0) continue;
      const other = own.map((_, i) => {
        const at = start + i + shift;
        return rest[at] === 1 && !(isKnown && at >= start) ? values[at]! : Number.NaN;
      });
      if (!other.every(Number.isNaN)) predictions.push(other);
    }
    const misses = predictions.map((prediction) =>
      runningMeans(own.map((value, i) => Math.abs(value - prediction[i]!))),
    );
    for (let i = 0; i < own.length; i++) {
      let least = Number.POSITIVE_INFINITY;
      predictions.forEach((prediction, k) => {
        if (Number.isNaN(prediction[i]!)) return;
        // One prediction may end here, and another begin.
        const miss = Math.min(misses[k]!(i - reach, i), misses[k]!(i, i + reach));
        if (miss < least) [least, expected[start + i]] = [miss, prediction[i]!];
      });
    }
  }
  return { ...season, level, expected };
}

/** 97.5 % quantile of Student's law over that of the normal law, by degrees of freedom from 1 on. */
const STUDENT = [6.5, 2.2, 1.62, 1.42, 1.31, 1.25];

/** Samples of [N] outside weekends. */
const workOf = (n: number, weekends: readonly Interval[]): number =>
  weekends.reduce((left, [start, end]) => left - (end - start), n);

/** Returns true if at least half of a stretch lies in weekends. */
export const isAtRest = (start: number, end: number, weekends: readonly Interval[]): boolean =>
  weekends.some(([from, to]) => 2 * (Math.min(end, to) - Math.max(start, from)) >= end - start);

/** Divisor of severities where few working days show how much days differ; 1 without weekends. */
export const uncertaintyOfDays = (n: number, weekends: readonly Interval[], day: number): number =>
  (weekends.length > 0 && STUDENT[Math.max(0, Math.floor(workOf(n, weekends) / day) - 2)]) || 1;

/** Spread of the departures [N] in each weekend relative to that of all others, at least 1 [N]. */
export function spreadAtRest(departures: Float64Array, weekends: readonly Interval[]): Float64Array {
  const spread = new Float64Array(departures.length).fill(1);
  const others = departures.filter((_, i) => !weekends.some(([start, end]) => i >= start && i < end));
  const usual = usualSize(others.length > 0 ? others : departures);
  if (!(usual > 0)) return spread;
  for (const [start, end] of weekends)
    spread.fill(Math.max(1, usualSize(departures.slice(start, end)) / usual), start, end);
  return spread;
}

/**
 * Returns true if a change in [N] may be usual for a weekend. Of half a day or more, it begins or ends with one: it lies in a weekend, or fills
 * half of the days between two, and no other weekend, or no other working day, shows what is usual. Shorter, it lies next to a weekend, as
 * if rest began earlier. Where fewer than two working days are known, a rise from a morning to the evening may be working hours.
 */
export function isWeekend(
  { start, end, lasting, sign }: Joined,
  n: number,
  weekends: readonly Interval[],
  day: number,
): boolean {
  const reach = NEAR * day;
  const edges = weekends.flat().filter((edge) => edge > 0 && edge < n);
  const isTime = (at: number, [from, to]: Interval): boolean => {
    const time = (((at - edges[0]!) / day) % 1) + 1;
    return time % 1 >= from && time % 1 <= to;
  };
  const isOnlyWork =
    edges.length > 0 && workOf(n, weekends) < FEWEST_DAYS * day && !isAtRest(start, end, weekends);
  const isBusy = sign > 0 && end - start >= BUSY * day && end - start < day;
  if (isOnlyWork && isBusy && (start === 0 || isTime(start, BEGINS)) && (end === n || isTime(end, ENDS)))
    return true;
  // Rest may begin before midnight, and end after it.
  const touches = (at: number, edge: number): boolean =>
    edge > 0 && edge < n && Math.abs(at - edge) <= TOUCHING * day;
  const isNext = weekends.some(
    ([from, to]) =>
      (touches(end, from) && start >= from - reach) || (touches(start, to) && end <= to + reach),
  );
  if (isNext && !lasting && end - start >= TOUCHING * day) return true;
  const near = (at: number): boolean => edges.some((edge) => Math.abs(at - edge) <= reach);
  if (end - start < HALF * day || !(near(start) || near(end))) return false;
  const last = lasting ? n : end;
  const bounds = [0, ...edges, n];
  const stretches = bounds.slice(1).map((to, k): Interval => [bounds[k]!, to]);
  const isRest = ([from, to]: Interval): boolean =>
    weekends.some(([begin, over]) => begin <= from && to <= over);
  const within = stretches.filter(
    ([from, to]) =>
      start >= from - reach &&
      last <= to + reach &&
      (to - from <= 2 * day || 2 * (last - start) >= to - from),
  );
  const known = (rest: boolean): number =>
    Math.max(
      0,
      ...stretches
        .filter((one) => isRest(one) === rest && !within.includes(one))
        .map(([from, to]) => to - from),
    );
  return within.some((one) => known(isRest(one)) < KNOWN * day);
}
