/** Candidates beside the tracks: lasting steps of the level and the episodes between them, drifts, standstills and cutoffs. */

import type { Interval } from '../ground/types.ts';
import { runs } from '../series/intervals.ts';
import { cumulative, cycleMeans, median, moments } from '../series/stats.ts';
import { LEVELS } from './finding.ts';
import { type Candidate, deviation, MOST_BY_SIZE, type Stretch, scan } from './scan.ts';
import { fitTail, reachOf, surprise, tempered } from './tail.ts';

interface Step {
  /** First sample of the new level. */
  readonly at: number;
  readonly size: number;
  /** Samples before and after it whose means differ. */
  readonly span: number;
  readonly severity: number;
}

/** Allowance for rounding between the rarity of a departure and the departure of a rarity. */
const NEARLY = 1 - 1e-9;

interface StepOptions {
  readonly floor: number;
  readonly least: number;
  readonly looks: number;
  /** Shortest span. */
  readonly shortest: number;
  /** Smallest difference of means, default `floor`: those of counts have finer steps than counts. */
  readonly finest?: number;
}

/** Other steps of at least this share of the size halve the severity when there are so many: frequent steps are usual. */
const ALIKE = 0.5;
const PEERS = 2;
/** Blocks that do not count as other steps: the step itself and its return; and blocks of a span in which one step shows. */
const ITSELF = 2;
const BLOCKS = 2;

/** Returns the largest change, up or down, of each block of a span, ascending. */
function largestOfBlocks(changes: Float64Array, span: number): Float64Array {
  const largest = new Float64Array(Math.ceil(changes.length / span));
  for (let i = 0; i < changes.length; i++) {
    const block = Math.floor(i / span);
    largest[block] = Math.max(largest[block]!, Math.abs(changes[i]!));
  }
  return largest.sort();
}

/** Share of its severity that a step keeps among similar ones. */
function amongOthers(blocks: Float64Array, size: number): number {
  let [low, high] = [0, blocks.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (blocks[middle]! < ALIKE * size) low = middle + 1;
    else high = middle;
  }
  const others = Math.max(0, (blocks.length - low) / BLOCKS - ITSELF);
  return 1 / (1 + (others / PEERS) ** 2);
}

/** Standard deviation of the noise, from differences of neighbours, which a step hardly changes. */
function stepNoise(values: Float64Array): number {
  return deviation(values.map((value, i) => (i === 0 ? 0 : value - values[i - 1]!))) / Math.SQRT2;
}

/** Finds the steps of [N] by time, at most one within a span of another. */
export function steps(
  values: Float64Array,
  { floor, finest = floor, least, looks, shortest }: StepOptions,
): Step[] {
  const n = values.length;
  const single = fitTail(values, floor);
  const clipped = values.map((value) =>
    Math.min(single.centre + single.bandAbove, Math.max(single.centre - single.bandBelow, value)),
  );
  const sums = cumulative(clipped);
  const noise = stepNoise(clipped);
  const candidates: Step[] = [];
  for (let span = shortest; span <= n / 12; span = Math.round(span * 2)) {
    const count = n - 2 * span + 1;
    const changes = new Float64Array(count);
    for (let i = 0; i < count; i++)
      changes[i] = (sums[i + 2 * span]! - 2 * sums[i + span]! + sums[i]!) / span;
    const smallest = Math.max(finest, floor / Math.sqrt(span));
    const tail = fitTail(changes, smallest, span, { tail: single, sigma: noise * Math.SQRT2 });
    const blocks = largestOfBlocks(changes, span);
    const chance = Math.log10((n / span) * looks);
    // A little below the departures that are severe enough, which are found without a power for each sample.
    const [up, down] = [1, -1].map((sign) => NEARLY * reachOf(tail, sign, (least + chance) * Math.LN10));
    for (let i = 0; i < count; i++) {
      const departure = changes[i]! - tail.centre;
      if (departure < up! && -departure < down!) continue;
      const severity = tempered(surprise(tail, departure) / Math.LN10 - chance);
      if (severity < least) continue;
      let top = i;
      for (let j = i; j < Math.min(count, i + span); j++)
        if (Math.abs(changes[j]!) > Math.abs(changes[top]!)) top = j;
      const alone = tempered(surprise(tail, changes[top]! - tail.centre) / Math.LN10 - chance);
      candidates.push({
        at: top + span,
        size: changes[top]!,
        severity: alone * amongOthers(blocks, Math.abs(changes[top]!)),
        span,
      });
      i = top + span - 1;
    }
  }
  candidates.sort((a, b) => b.severity - a.severity);
  const kept: Step[] = [];
  for (const step of candidates) {
    const near = kept.some((other) => Math.abs(other.at - step.at) < Math.max(step.span, other.span));
    if (step.severity >= least && !near) kept.push(step);
  }
  return kept.sort((a, b) => a.at - b.at);
}

/** Longest series in which one shift or episode is looked for at once. */
const LONGEST_WHOLE = 1000;
/** Fewest samples before and behind a shift, and least share of the series; share below which the first ones are an episode. */
const [FEWEST_BEHIND, LEAST_SHARE, FIRST_SHARE] = [5, 1 / 12, 1 / 4];
/** Fewest samples of an episode, and largest share of the series. */
const [SHORTEST_EPISODE, LONGEST_SHARE] = [4, 1 / 4];
/** Fewest samples on each side of an edge whose means are compared. */
const FEWEST_BESIDE = 3;
/**
 * Distances of the means inside and outside, in standard errors, at which a shift and an episode have medium severity. Of 500 to 2000 made series
 * without any, of 30 to 360 samples, with sudden edges, one in 500 exceeds
 * - 4 to 5 (shifts) and 4 to 7 (episodes) where the noise is white, skewed or heavy-tailed,
 * - 9 and 7 where it is autoregressive by .8,
 * - 7 to 13 and 4 to 9 in walks, waves and steady growth.
 */
const [CLEAR_SHIFT, CLEAR_EPISODE] = [12, 10];
/** Least change at an edge, as a share of the shift: growth and walks get there in time. */
const SUDDEN = 0.7;
/** Largest correlation of neighbouring samples; and the correlation above which that of the next but one tells how it fades. */
const [MOST_CORRELATED, LEAST_CORRELATED] = [0.98, 0.1];

/** Factor by which the variance of means of [N] departures exceeds that of independent ones, if they are autoregressive noise and white noise together. */
function varianceOfMeans(departures: Float64Array): number {
  const n = departures.length;
  const product = (lag: number): number => {
    let sum = 0;
    for (let i = lag; i < n; i++) sum += departures[i]! * departures[i - lag]!;
    return sum;
  };
  const [square, next, second] = [product(0), product(1), product(2)];
  const unbiased = (some: number): number => Math.min(MOST_CORRELATED, some + (1 + 3 * some) / n);
  const correlated = next / square;
  const fades = correlated > LEAST_CORRELATED ? Math.max(correlated, second / next) : Math.max(0, correlated);
  return 1 + (2 * Math.max(0, unbiased(correlated))) / (1 - unbiased(Math.min(MOST_CORRELATED, fades)));
}

/**
 * Finds the stretch of `least` to `most` samples, to the end or inside of a series, whose mean is furthest from that of the rest in standard errors.
 * @param sums of the samples before each [N + 1]
 */
function furthestApart(sums: Float64Array, least: number, most: number, toEnd: boolean): Interval {
  const n = sums.length - 1;
  const mean = sums[n]! / n;
  let [start, long, furthest] = [n - least, least, -1];
  for (let length = least; length <= most; length++) {
    // Square of the distance, but for a factor that all stretches share.
    const weight = 1 / (length * (n - length));
    for (let from = toEnd ? n - length : 1; from < (toEnd ? n - length + 1 : n - length); from++) {
      const sum = sums[from + length]! - sums[from]! - length * mean;
      const far = sum * sum * weight;
      if (far > furthest) [start, long, furthest] = [from, length, far];
    }
  }
  return [start, start + long];
}

/**
 * Finds the stretch of a short series [N] that differs from all the rest: an episode, or all samples from a shift of the level on. In a short series
 * smaller differences are too few for a distribution, so the means inside and outside are compared by what the noise allows. Null without one.
 */
export function onlyShift(values: Float64Array, floor: number): Candidate | null {
  const n = values.length;
  const least = Math.max(FEWEST_BEHIND, Math.ceil(LEAST_SHARE * n));
  if (n > LONGEST_WHOLE || n < 2 * least) return null;
  const { centre, bandAbove, bandBelow } = fitTail(values, floor);
  const clipped = values.map((value) => Math.min(centre + bandAbove, Math.max(centre - bandBelow, value)));
  const sums = cumulative(clipped);
  const meanOf = (from: number, to: number): number => {
    const [first, last] = [Math.max(0, from), Math.min(n, to)];
    return (sums[last]! - sums[first]!) / (last - first);
  };
  /** Mean inside less mean outside. */
  const shiftOf = ([start, end]: Interval): number => {
    const inside = sums[end]! - sums[start]!;
    return inside / (end - start) - (sums[n]! - inside) / (n - end + start);
  };
  /** Standard error of that in independent noise of variance 1. */
  const errorOf = ([start, end]: Interval): number => Math.sqrt(n / ((end - start) * (n - end + start)));
  const severityOf = (span: Interval, beside: number, clear: number): number => {
    const [start, end] = span;
    const shift = shiftOf(span);
    const begins = meanOf(start, start + beside) - meanOf(start - beside, start);
    const ends = end === n ? shift : meanOf(end - beside, end) - meanOf(end, end + beside);
    if (!(Math.abs(shift) >= floor && Math.min(begins / shift, ends / shift) >= SUDDEN)) return 0;
    const outside = meanOf(start, end) - shift;
    const left = clipped.map((value, i) => value - outside - (i >= start && i < end ? shift : 0));
    const error = errorOf(span) * Math.sqrt((dot(left, left) / (n - 2)) * varianceOfMeans(left));
    return Math.min(MOST_BY_SIZE, (LEVELS.medium * Math.abs(shift)) / (clear * error));
  };
  // All places are compared: one next to a shift that is too near an end must not stand for it.
  const split = furthestApart(sums, 1, n - 1, true);
  const episode = furthestApart(sums, SHORTEST_EPISODE, Math.floor(LONGEST_SHARE * n), false);
  const few = Math.max(FEWEST_BESIDE, Math.ceil((LEAST_SHARE / 2) * n));
  const isInside = split[0] >= least && n - split[0] >= least;
  const asSplit = isInside ? severityOf(split, Math.max(SHORTEST_EPISODE, least >> 1), CLEAR_SHIFT) : 0;
  const asEpisode = severityOf(episode, Math.min(episode[1] - episode[0], few), CLEAR_EPISODE);
  const severity = Math.max(asSplit, asEpisode);
  if (severity < LEVELS.medium) return null;
  const [start, end] = asEpisode > asSplit ? episode : split;
  const up = shiftOf([start, end]) > 0;
  const common = { severity, track: 'step' } as const;
  if (end < n) return { start, end, sign: up ? 1 : -1, peak: start, ...common };
  return start < FIRST_SHARE * n
    ? { start: 0, end: start, sign: up ? -1 : 1, peak: 0, ...common }
    : { start, end: start + least, sign: up ? 1 : -1, peak: start, lasting: true, ...common };
}

/** Largest distance from the level before a stretch of the level after it, as a share of the departure, if it has returned. */
const RETURNED = 0.25;
/** Newest samples that do not end a level by themselves. */
const NEWEST = 2;
/** Longest stretch that a step ends, in spans. */
const FURTHEST = 3;
/** Longest episode, as a share of the series. */
const LONGEST_EPISODE = 1 / 3;

/**
 * Turns steps into stretches: from a step to the one that takes it back; without one, on the side of the step that is farther from the
 * usual level, since a step back to that level ends a stretch.
 */
export function levels(steps: readonly Step[], values: Float64Array, usual: number): Candidate[] {
  const n = values.length;
  const most = Math.floor(LONGEST_EPISODE * n);
  const out: Candidate[] = [];
  const used = new Set<Step>();
  // Between two departures to one side the usual level is no departure to the other.
  const departs = (from: Step, to: Step): boolean => {
    const away = (start: number, end: number): number => Math.abs(moments(values, start, end).mean - usual);
    const inside = away(from.at, to.at);
    return (
      inside >= away(Math.max(0, from.at - from.span), from.at) ||
      inside >= away(to.at, Math.min(n, to.at + to.span))
    );
  };
  // Medians, because a level may begin with a spike.
  const around = ({ at, span }: Step): { before: number; after: number } => ({
    before: median(values.slice(Math.max(0, at - span), at)),
    after: median(values.slice(at, Math.min(n, at + span))),
  });
  const moves = new Map(
    steps.map((step) => {
      const { before, after } = around(step);
      return [step, after - before];
    }),
  );
  const takesBack = (step: Step, other: Step): boolean => {
    const share = -moves.get(other)! / moves.get(step)!;
    return share > 0.4 && share < 2.5;
  };
  for (const step of [...steps].sort((a, b) => b.severity - a.severity)) {
    if (used.has(step)) continue;
    used.add(step);
    const back = steps.find(
      (other) =>
        !used.has(other) &&
        takesBack(step, other) &&
        Math.abs(other.at - step.at) <= most &&
        (other.at < step.at ? departs(other, step) : departs(step, other)) &&
        !steps.some(
          (between) => between.at > Math.min(step.at, other.at) && between.at < Math.max(step.at, other.at),
        ),
    );
    const add = (start: number, end: number, sign: number): void =>
      void out.push({
        ...{ start, end, sign: sign > 0 ? 1 : -1, severity: step.severity },
        ...{ peak: start, track: 'step' as const },
      });
    if (back !== undefined) {
      used.add(back);
      const first = back.at < step.at ? back : step;
      add(first.at, Math.max(step.at, back.at), first.size);
      continue;
    }
    const { before, after } = around(step);
    const half = (before + after) / 2;
    const later = Math.abs(after - usual) >= Math.abs(before - usual);
    const sign = later ? Math.sign(step.size) : -Math.sign(step.size);
    // The stretch reaches as far as its departures add up.
    let [sum, largest, reach] = [0, 0, 0];
    const room = later ? n - step.at : step.at;
    const furthest = later ? most : Math.min(most, FURTHEST * step.span);
    for (let k = 1; k <= room; k++) {
      sum += sign * (values[later ? step.at + k - 1 : step.at - k]! - half);
      if (sum > largest) [largest, reach] = [sum, k];
    }
    if (later && room - reach <= NEWEST && reach >= step.span) reach = room;
    // A step back to the level of before ends a stretch, however long.
    const earlier = values.subarray(0, later ? 0 : step.at - reach);
    const restores =
      earlier.length > step.span && Math.abs(median(earlier) - after) < RETURNED * Math.abs(step.size);
    if (reach > furthest && !restores) {
      const end = Math.min(n, step.at + step.span);
      // Values that are at once as before are a dip or a spike.
      const rest = values.subarray(end);
      if (rest.length > step.span && Math.abs(median(rest) - before) < RETURNED * Math.abs(step.size))
        continue;
      out.push({
        ...{ start: step.at, end, sign: step.size > 0 ? 1 : -1, severity: step.severity, peak: step.at },
        ...{ track: 'step', lasting: true },
      });
    } else if (later) add(step.at, step.at + Math.max(1, reach), sign);
    else add(step.at - Math.max(1, reach), step.at, sign);
  }
  return out;
}

/** Number of parts of the series whose medians are fitted, and the fewest before and after the bend. */
const PARTS = 64;
const FEWEST_PARTS = 5;
/** Fewest samples of a part. */
const SHORTEST_PART = 4;
/** Places of the bend that are tried in a part. */
const BENDS_IN_PART = 4;
/** Largest residual of the bent line, in noise between neighbouring parts, or as a share of the drift: a random walk wanders farther. */
const [MOST_LEFT, MOST_OF_DRIFT] = [1.4, 0.03];
/** Largest residual of the bent line, as a share of that of a parabola: steady growth bends everywhere. */
const BENT = 0.6;
/** Courses of a drift, as powers of time: it slows down, is steady, or speeds up. */
const COURSES = [0.5, 1, 2] as const;
/** Largest slope before the bend, as a share of the change of slope. */
const SLOPE_BEFORE = 0.3;
/** Smallest drift, in standard deviations of single samples. */
const FARTHEST = 3;
/** Standard deviation of normal noise over the median size of its second differences. */
const OF_SECOND_DIFFERENCES = 1 / (0.6745 * Math.sqrt(6));

/** Columns [k][n] of a least-squares problem, and their dot products [k][k]. */
interface Design {
  readonly columns: readonly Float64Array[];
  readonly products: readonly (readonly number[])[];
}

const designOf = (...columns: readonly Float64Array[]): Design => ({
  columns,
  products: columns.map((column) => columns.map((other) => dot(column, other))),
});

/** Least squares of y [n] by the normal equations: coefficients, and the sum of squared residuals. */
function fitted(
  y: Float64Array,
  { columns, products }: Design,
): { coefficients: Float64Array; left: number } {
  const k = columns.length;
  const a = products.map((row, i) => Float64Array.of(...row, dot(columns[i]!, y)));
  for (let i = 0; i < k; i++) {
    const pivot = a[i]![i]!;
    for (let r = 0; r < k; r++) {
      if (r === i) continue;
      const factor = a[r]![i]! / pivot;
      for (let c = i; c <= k; c++) a[r]![c]! -= factor * a[i]![c]!;
    }
  }
  const coefficients = Float64Array.from(a, (row, i) => row[k]! / row[i]!);
  let left = 0;
  for (let t = 0; t < y.length; t++) {
    let sum = 0;
    for (let j = 0; j < k; j++) sum += coefficients[j]! * columns[j]![t]!;
    left += (y[t]! - sum) ** 2;
  }
  return { coefficients, left };
}

/** Lines of the parts that are fitted: straight, a parabola, a cubic, and those that bend at a part. */
interface Lines {
  readonly straight: Design;
  readonly parabola: Design;
  readonly cubic: Design;
  readonly bent: readonly { readonly at: number; readonly design: Design }[];
}
let lines: Lines | undefined;

/** The lines, which are the same for every series. */
function linesOfParts(): Lines {
  if (lines !== undefined) return lines;
  const time = Float64Array.from({ length: PARTS }, (_, p) => p / PARTS);
  const ones = new Float64Array(PARTS).fill(1);
  const bent: { at: number; design: Design }[] = [];
  for (let at = FEWEST_PARTS; at <= PARTS - FEWEST_PARTS; at += 1 / BENDS_IN_PART) {
    for (const power of COURSES) {
      const after = time.map((t) => Math.max(0, (t * PARTS + 0.5 - at) / (PARTS - at)) ** power);
      bent.push({ at, design: designOf(ones, time, after) });
    }
  }
  const square = time.map((t) => t * t);
  const parabola = designOf(ones, time, square);
  const cubic = designOf(
    ones,
    time,
    square,
    time.map((t) => t ** 3),
  );
  lines = { straight: designOf(ones, time), parabola, cubic, bent };
  return lines;
}

/** Middles of 64 parts of [N] values, from sample `first` on, and the noise between neighbours; null if the parts are too short. */
function partsOf(values: Float64Array, middle: (part: Float64Array) => number) {
  const size = Math.floor(values.length / PARTS);
  if (size < SHORTEST_PART) return null;
  const first = values.length - size * PARTS;
  const middles = Float64Array.from({ length: PARTS }, (_, p) =>
    middle(values.subarray(first + p * size, first + (p + 1) * size)),
  );
  const bends = middles.subarray(2).map((value, i) => Math.abs(middles[i]! - 2 * middles[i + 1]! + value));
  return { size, first, middles, noise: median(bends) * OF_SECOND_DIFFERENCES };
}

function dot(a: Float64Array, b: Float64Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i]! * b[i]!;
  return sum;
}

/** Fewest days of a drift that is found in means of days. */
const FEWEST_DAYS = 2;

/** Finds the drift at the end of a series [N] of `day` samples a day whose season it hides: that of the means of whole days. */
function driftOfDays(
  values: Float64Array,
  day: number,
  floor: number,
  least: number,
  looks: number,
): Candidate | null {
  const n = values.length;
  const half = Math.ceil(day / 2);
  if (day < SHORTEST_PART || n < 4 * day) return null;
  const means = cycleMeans(values, day);
  const spread = median(values.map((value, i) => Math.abs(value - means[i]!)));
  // Near the ends the means are of the same day.
  const found = drift(means.subarray(half, n - half), floor, least, looks, { spread, apart: n / day });
  // The means turn a step into a rise of a day.
  if (found === null || n - half - found.start < FEWEST_DAYS * day) return null;
  return { ...found, start: found.start + half, end: n, peak: n - 1 };
}

/** Means over a time, which share samples. */
interface Smoothed {
  /** Median departure of single samples from them. */
  readonly spread: number;
  /** Number of them that share none. */
  readonly apart: number;
}

/** Medians of 64 parts of [N] values, the noise between neighbours, and the usual departure of single samples; null if the parts are too short. */
function measuredParts(values: Float64Array, floor: number, spread?: number) {
  const parts = partsOf(values, median);
  if (parts === null) return null;
  const { size, first, middles } = parts;
  const around = (): Float64Array =>
    Float64Array.from({ length: size * PARTS }, (_, i) =>
      Math.abs(values[first + i]! - middles[Math.floor(i / size)]!),
    );
  const single = Math.max(floor / 2, 1.4826 * (spread ?? median(around())));
  return { ...parts, single, noise: Math.max(parts.noise, single / Math.sqrt(size) / 4) };
}

/**
 * Finds the drift at the end of a series [N] without its season; null if there is none. The medians of 64 parts must lie on a line that
 * bends once, better than on a parabola, and no farther from it than neighbouring parts are from each other.
 *
 * @param smoothed where the values are such means
 */
function drift(
  values: Float64Array,
  floor: number,
  least: number,
  looks: number,
  smoothed?: Smoothed,
): Candidate | null {
  const n = values.length;
  const measured = measuredParts(values, floor, smoothed?.spread);
  if (measured === null) return null;
  const { size, first, middles: medians, single, noise } = measured;
  const designs = linesOfParts();
  const straight = fitted(medians, designs.straight);
  const parabola = fitted(medians, designs.parabola);
  let best: { at: number; coefficients: Float64Array; left: number } | null = null;
  for (const { at, design } of designs.bent) {
    const fit = fitted(medians, design);
    if (best === null || fit.left < best.left) best = { at, ...fit };
  }
  const { at, coefficients, left } = best!;
  const [, before, rise] = coefficients as unknown as [number, number, number];
  const far = Math.abs(rise);
  const residual = Math.sqrt(left / (PARTS - 4));
  if (residual > Math.max(MOST_LEFT * noise, MOST_OF_DRIFT * far) || left > BENT * parabola.left) return null;
  if (Math.abs(before) * (1 - at / PARTS) > SLOPE_BEFORE * far || far < FARTHEST * single) return null;
  // Means that share samples lie on smooth courses: as many as share none must tell the bend.
  const ofApart = ((smoothed?.apart ?? Infinity) / 2) * Math.log10(straight.left / left);
  if (tempered(ofApart - Math.log10(PARTS * looks)) < LEVELS.medium) return null;
  const surprise = (straight.left - left) / (2 * noise ** 2) / Math.LN10;
  const severity = tempered(surprise - Math.log10(PARTS * looks));
  if (!(severity >= least)) return null;
  const start = first + Math.round(at * size);
  const stretch = { start, end: n, sign: rise > 0 ? 1 : -1, severity, peak: n - 1 } as const;
  return { ...stretch, track: 'step', lasting: true, drifts: true };
}

/** Distance between the ends of a slow change that are tried, in parts: first, and then around the best. */
const [COARSE, FINE] = [2, 0.5] as const;
/** Parts that a slow change takes: what is quicker is a step, what takes longer the course of the series. */
const [SHORTEST_CHANGE, LONGEST_CHANGE] = [3, PARTS / 2] as const;

/**
 * Finds the slow change of a series [N] without its season from one level to another that stays; null if there is none. Steps are looked for in
 * short spans, where a slow change is equally large at many places. The medians of 64 parts must lie on two levels and a line between
 * them, no farther from it than neighbouring parts are from each other.
 */
export function slowChange(
  values: Float64Array,
  { floor, least, looks }: Omit<StepOptions, 'shortest'>,
): Candidate | null {
  const measured = measuredParts(values, floor);
  if (measured === null) return null;
  const { size, first, middles: medians, single, noise } = measured;
  const levelOf = (some: Float64Array): number => median(some.slice());
  const most = levelOf(medians.subarray(PARTS - FEWEST_PARTS)) - levelOf(medians.subarray(0, FEWEST_PARTS));
  if (Math.abs(most) < FARTHEST * single) return null;
  const { straight: line, cubic } = linesOfParts();
  const [ones] = line.columns as [Float64Array];
  let best = { at: 0, to: 0, left: Infinity, coefficients: ones };
  const tries = (at: number, to: number): void => {
    if (at < FEWEST_PARTS || to > PARTS - FEWEST_PARTS || to - at < COARSE || to - at > LONGEST_CHANGE)
      return;
    const change = ones.map((_, p) => Math.min(1, Math.max(0, (p + 0.5 - at) / (to - at))));
    const fit = fitted(medians, designOf(ones, change));
    if (fit.left < best.left) best = { at, to, ...fit };
  };
  for (let at = FEWEST_PARTS; at < PARTS; at += COARSE)
    for (let to = at + COARSE; to < PARTS; to += COARSE) tries(at, to);
  const [near, far] = [best.at, best.to];
  for (let at = near - COARSE; at <= near + COARSE; at += FINE)
    for (let to = far - COARSE; to <= far + COARSE; to += FINE) tries(at, to);
  const { at, to, left, coefficients } = best;
  const rise = coefficients[1]!;
  if (to - at < SHORTEST_CHANGE) return null;
  if (Math.sqrt(left / (PARTS - 4)) > Math.max(MOST_LEFT * noise, MOST_OF_DRIFT * Math.abs(rise)))
    return null;
  const straight = fitted(medians, line);
  // A slow wave rises and flattens like a cubic.
  if (left > BENT * fitted(medians, cubic).left || Math.abs(rise) < FARTHEST * single) return null;
  const surprise = (straight.left - left) / (2 * noise ** 2) / Math.LN10;
  const severity = tempered(surprise - Math.log10(PARTS * looks));
  if (!(severity >= least)) return null;
  const [start, end] = [first + Math.round(at * size), first + Math.round(to * size)];
  return {
    start,
    end,
    sign: rise > 0 ? 1 : -1,
    severity,
    peak: end - 1,
    track: 'step',
    lasting: true,
    slow: true,
  };
}

/** Place and size of the largest change from a sample to the next, in [from, to); N for none. */
function largestJump(values: Float64Array, from: number, to: number): readonly [number, number] {
  let [at, size] = [values.length, 0];
  for (let i = Math.max(1, Math.ceil(from)); i < Math.min(to, values.length); i++) {
    const change = values[i]! - values[i - 1]!;
    if (Math.abs(change) > Math.abs(size)) [at, size] = [i, change];
  }
  return [at, size];
}

/** Squares that two levels leave of those that a line leaves, below which a stretch is a box. */
const OF_BOX = 0.5;

/** Returns true if two levels fit the samples up to `end` far better than a level up to `start` and a line behind it: a box is no drift. */
function isBox(values: Float64Array, from: number, start: number, end: number): boolean {
  const first = Math.max(from, 2 * start - end);
  const level = moments(values, first, start).mean;
  let [all, sum, slope, squares] = [0, 0, 0, 0];
  for (let i = first; i < end; i++) {
    all += (values[i]! - level) ** 2;
    sum += values[i]! - level;
    slope += Math.max(0, i - start) * (values[i]! - level);
    squares += Math.max(0, i - start) ** 2;
  }
  // Sums of squares that each explains.
  let [explained, left] = [0, 0];
  for (let i = first + 1; i < end; i++) {
    left += values[i - 1]! - level;
    explained = Math.max(explained, left ** 2 / (i - first) + (sum - left) ** 2 / (end - i));
  }
  return all - explained < OF_BOX * (all - slope ** 2 / squares);
}

/**
 * Finds the drifts of a series [N] without its season: the one that goes on to the end, and those that a step takes back, such as a leak that
 * ends in a restart. Such a step leads to the usual level and is no departure: `others` are the steps without these.
 */
export function drifts(
  values: Float64Array,
  steps: readonly Step[],
  { floor, least, looks, day }: Omit<StepOptions, 'shortest'> & { readonly day: number | null },
): { readonly found: Candidate[]; readonly others: Step[] } {
  const n = values.length;
  const found: Candidate[] = [];
  const driftOf = (some: Float64Array): Candidate | null =>
    drift(some, floor, least, looks) ?? (day === null ? null : driftOfDays(some, day, floor, least, looks));
  const takesBack = (step: Pick<Step, 'at' | 'size' | 'span'>): boolean => {
    const from = found.at(-1)?.end ?? 0;
    const rise = driftOf(values.subarray(from, step.at));
    if (rise === null || rise.sign > 0 === step.size > 0) return false;
    const [start, end] = [from + rise.start, step.at];
    if (isBox(values, from, start, end)) return false;
    const level = moments(values, from, start).mean;
    const after = moments(values, end, Math.min(n, end + step.span)).mean;
    if (Math.abs(after - level) > RETURNED * Math.abs(values[end - 1]! - level)) return false;
    const { lasting, ...ended } = rise;
    found.push({ ...ended, start, end, peak: end - 1 });
    return true;
  };
  // A restart is where the values leap, which the means of a step place a little aside.
  const others = steps.filter((step) => {
    const [at] = largestJump(values, step.at - step.span, step.at + step.span);
    return !takesBack({ ...step, at }) && !takesBack(step);
  });
  // Just behind a restart there are too few samples for a step.
  const [at, size] = largestJump(values, Math.max(found.at(-1)?.end ?? 0, n - (day ?? n / PARTS)), n);
  const last = at < n && takesBack({ at, size, span: n - at }) ? null : driftOf(values);
  return { found: last === null ? found : [...found, last], others };
}

/** Smallest growth of the fluctuations to the end of a series, as a logarithm. */
const LEAST_GROWTH = Math.log(1.5);
/** Fewest parts before it begins: what grows all the time is the usual course of the series. */
const STEADY_PARTS = PARTS / 4;

/**
 * Finds fluctuations that grow until the end of a series, in the logarithms of its steps [N]; null if there are none. The means of 64 parts
 * must lie on a level that begins to rise once and is not back at the end, no farther from it than neighbouring parts are from each other.
 */
export function growth(movement: Float64Array, least: number, looks: number): Candidate | null {
  const n = movement.length;
  const parts = partsOf(movement, (part) => moments(part).mean);
  if (parts === null) return null;
  const { size, first, middles: means } = parts;
  const noise = Math.max(parts.noise, 1e-9);
  const ones = new Float64Array(PARTS).fill(1);
  const level = fitted(means, designOf(ones));
  let best: { at: number; steady: number; rise: number; left: number } | null = null;
  for (let at = 0; at <= PARTS - FEWEST_PARTS; at++) {
    const after = ones.map((_, p) => Math.max(0, p - at) / (PARTS - at));
    const { coefficients, left } = fitted(means, designOf(ones, after));
    const [steady, rise] = coefficients as unknown as [number, number];
    if (best === null || left < best.left) best = { at, steady, rise, left };
  }
  const { at, steady, rise, left } = best!;
  if (at < STEADY_PARTS || rise < LEAST_GROWTH || Math.sqrt(left / (PARTS - 3)) > MOST_LEFT * noise)
    return null;
  // Fluctuations that are calm again, or as lively before the parts, do not grow to the end.
  const half = steady + rise / 2;
  if (median(means.slice(-FEWEST_PARTS)) < half) return null;
  if (first >= SHORTEST_PART && moments(movement, 0, first).mean > half) return null;
  const surprise = (level.left - left) / (2 * noise ** 2) / Math.LN10;
  const severity = tempered(surprise - Math.log10(PARTS * looks));
  if (!(severity >= least)) return null;
  return { start: first + at * size, end: n, sign: 1, severity, peak: n - 1, track: 'movement', grows: true };
}

/** Largest residual of the levels around a long burst, as a share of its rise: it may be less even than the rest. */
const MOST_OF_BURST = 1 / 6;
/** Least rise of the fluctuations in a long burst, as a logarithm; and its fewest and most parts. */
const [LEAST_BURST, SHORTEST_BURST, LONGEST_BURST] = [Math.log(2), PARTS / 16, PARTS / 2] as const;

/**
 * Finds the stretch of livelier fluctuations in the logarithms of the steps [N] of a series; null if there is none. Windows of a scan are too
 * short for it and tell its extremes. The means of 64 parts must lie on two levels, no farther from them than neighbouring parts are from each
 * other, and far nearer than to a cubic.
 */
export function burst(movement: Float64Array, least: number, looks: number): Candidate | null {
  const parts = partsOf(movement, (part) => moments(part).mean);
  if (parts === null) return null;
  const { size, first, middles: means } = parts;
  const noise = Math.max(parts.noise, 1e-9);
  const sums = cumulative(means);
  const whole = sums[PARTS]!;
  let best = { at: 0, to: 0, explained: 0 };
  for (let at = 0; at < PARTS; at++) {
    for (let to = at + SHORTEST_BURST; to <= Math.min(PARTS, at + LONGEST_BURST); to++) {
      const inside = sums[to]! - sums[at]! - ((to - at) * whole) / PARTS;
      const explained = (Math.max(0, inside) ** 2 * PARTS) / ((to - at) * (PARTS - to + at));
      if (explained > best.explained) best = { at, to, explained };
    }
  }
  const { at, to, explained } = best;
  const inside = (sums[to]! - sums[at]!) / (to - at);
  const outside = (whole - sums[to]! + sums[at]!) / (PARTS - to + at);
  // A series that begins lively has become calm.
  if (at === 0 || inside - outside < LEAST_BURST) return null;
  // It may begin and end in the middle of a part.
  const isEdge = (part: number): boolean =>
    Math.min(Math.abs(part + 0.5 - at), Math.abs(part + 0.5 - to)) < 1;
  const away = means.map((value, k) => value - (k >= at && k < to ? inside : outside));
  const within = away.filter((_, k) => !isEdge(k));
  const residual = Math.sqrt(dot(within, within) / (within.length - 4));
  if (residual > Math.max(MOST_LEFT * noise, MOST_OF_BURST * (inside - outside))) return null;
  if (dot(away, away) > BENT * fitted(means, linesOfParts().cubic).left) return null;
  const surprise = explained / (2 * Math.max(noise, residual) ** 2) / Math.LN10;
  const severity = tempered(surprise - Math.log10(PARTS ** 2 * looks));
  if (!(severity >= least)) return null;
  // Within a part of either end, where most of the steps lie on either side of the middle.
  const half = (inside + outside) / 2;
  const edge = (part: number, sign: number): number => {
    const from = first + (part - 1) * size;
    const some = movement.subarray(from, first + (part + 1) * size).map((move) => sign * (move - half));
    const before = cumulative(some);
    return from + before.indexOf(before.reduce((low, sum) => Math.min(low, sum)));
  };
  const [start, end] = [edge(at, 1), to === PARTS ? movement.length : edge(to, -1)];
  return { start, end, sign: 1, severity, peak: start, track: 'movement', grows: true };
}

/** Fewest samples of a reported standstill. */
const SHORTEST = 4;
/** Length, in those of the longest other standstill, at which the severity counts in full; at 1 it is 0. */
const LONGER = 3;

/** Part of the range between two levels, and the shares of the samples in it at most and beyond it on each side at least. */
const [BETWEEN, MOST_BETWEEN, LEAST_BEYOND] = [0.6, 0.05, 0.05];

/** Fewest samples of a value elsewhere that show how often another one follows it: zeros follow each other at night. */
const FEWEST_ELSEWHERE = 40;

/** Fewest other runs of the same value that have a usual length. */
const FEWEST_RUNS = 8;
/** Fewest runs at least half as long as the longest of a value at which a series rests. */
const FEWEST_RESTS = 3;
/** Equal pairs of the usual run, below which runs come by chance: counts that happen to be equal. */
const SHORT_RUN = 2;

/**
 * Returns −log₁₀ of the number of runs as long that others of the same value would have by chance, if their lengths follow a gamma
 * distribution: a load that runs for an hour at a time and now for six.
 */
function rarityOfRun(length: number, others: readonly number[]): number {
  if (others.length < FEWEST_RUNS) return 0;
  const { mean, std } = moments(Float64Array.from(others, (other) => other - 1));
  if (mean < SHORT_RUN) return 0;
  // Few runs may be alike by chance.
  const shape = Math.min(others.length / 2, (1 - 2 / Math.sqrt(others.length)) * (mean / std) ** 2);
  const ratio = (length - 1) / mean;
  return ratio <= 1 ? 0 : (shape * (ratio - 1 - Math.log(ratio))) / Math.LN10 - Math.log10(others.length);
}

/** Most standstills far longer than all others that are each unusual, as in a sensor that sticks at times; and their largest share of a series. */
const [MOST_STUCK, MOST_STUCK_SHARE] = [6, 1 / 5];
/** Fewest standstills that keep time, and the least ratio of their lengths and of their distances to each other. */
const [FEWEST_IN_TIME, IN_TIME] = [3, 0.9];
/** Share of a day within which standstills of every day begin: pauses, and days without work. */
const SAME_HOUR = 1 / 8;

/**
 * Returns the length of the longest usual run of a series of `n` samples: the one next to the widest gap in the lengths, at most six runs from
 * the longest. Alike runs at equal distances, such as closed weekends, are usual, and so are several that begin at one time of `day` samples.
 */
function longestUsual(all: readonly Interval[], n: number, day: number | null): number {
  const sorted = all.toSorted((a, b) => b[1] - b[0] - (a[1] - a[0]));
  const lengths = sorted.map(([start, end]) => end - start);
  const isEven = (some: readonly number[]): boolean => Math.min(...some) >= IN_TIME * Math.max(...some);
  const keepTime = (k: number): boolean => {
    const starts = sorted
      .slice(0, k)
      .map(([start]) => start)
      .sort((a, b) => a - b);
    const distances = starts.slice(1).map((start, i) => start - starts[i]!);
    return k >= FEWEST_IN_TIME && isEven(lengths.slice(0, k)) && isEven(distances);
  };
  const atOneHour = (k: number): boolean => {
    // Of a day of few samples many begin together by chance.
    if (day === null || SAME_HOUR * day < 1 || k < 2) return false;
    const hours = sorted.slice(0, k).map(([start]) => start % day);
    return hours.some((from) => hours.every((hour) => (hour - from + day) % day <= SAME_HOUR * day));
  };
  const before = (k: number): number => (lengths[k - 1] ?? 1) / (lengths[k] ?? 1);
  let [widest, together] = [1, lengths[0] ?? 0];
  for (let k = 2; k <= Math.min(MOST_STUCK, lengths.length); k++) {
    together += lengths[k - 1]!;
    if (together > MOST_STUCK_SHARE * n) break;
    if (keepTime(k)) return lengths[1]!;
    if (before(k) >= LONGER && before(k) > before(widest)) widest = k;
  }
  return lengths[atOneHour(widest) ? 1 : widest] ?? 1;
}

/** Longest share of a series that can stand still: of more, the standstill is what is usual. */
const LONGEST_STILL = 0.9;

/**
 * Finds runs of one value in [N] that are too long for the share p of samples equal to the one before (a run of length L has probability
 * pᴸ⁻¹), and longer than the other runs: in a series that stands still every night, one more night does not count. `least` > 0.
 *
 * @param day samples of a day; null if not known
 */
export function stillness(
  values: Float64Array,
  least: number,
  day: number | null,
  longestPart = LONGEST_STILL,
): Stretch[] {
  const n = values.length;
  // Runs of equal pairs are one sample shorter than the standstill.
  const all = runs(n - 1, (i) => values[i] === values[i + 1]).map(
    ([start, end]) => [start, end + 1] as const,
  );
  const equal = all.reduce((sum, [start, end]) => sum + end - start - 1, 0);
  const lengths = new Map<number, number[]>(all.map(([start]) => [values[start]!, []]));
  for (const [start, end] of all) lengths.get(values[start]!)!.push(end - start);
  const most = new Map(Array.from(lengths, ([value, of]) => [value, of.reduce((a, b) => Math.max(a, b))]));
  // A value at which a series rests again and again tells nothing about others: a load is 0 at night.
  const rests = (value: number): boolean =>
    lengths.get(value)!.filter((length) => 2 * length >= most.get(value)!).length >= FEWEST_RESTS;
  const apart = all.filter(([start]) => !rests(values[start]!));
  const longest = apart.reduce((most, [start, end]) => Math.max(most, end - start), 1);
  const usual = longestUsual(apart, n, day);
  const times = new Map<number, number>(all.map(([start]) => [values[start]!, 0]));
  for (const value of values) if (times.has(value)) times.set(value, times.get(value)! + 1);
  return all.flatMap(([start, end]): Stretch[] => {
    const length = end - start;
    // Of a value the longest run alone can be longer than the others.
    if (length < Math.max(SHORTEST, most.get(values[start]!)!) || length > longestPart * n) return [];
    const same = lengths.get(values[start]!)!;
    const alike = same.filter((other) => other < length);
    if (alike.length < same.length - 1) return [];
    // One more equal pair than counted, so that p is never 0.
    const overall = (equal - (length - 1) + 1) / (n - length + 2);
    const elsewhere = times.get(values[start]!)! - length;
    // What most of the series does, in a run and outside of it, is usual.
    if (2 * length > n && 2 * elsewhere > n - length) return [];
    const p =
      elsewhere < FEWEST_ELSEWHERE
        ? overall
        : Math.max(overall, (alike.reduce((sum, other) => sum + other - 1, 0) + 1) / (elsewhere + 2));
    const chance = -Math.log10(n) - (length - 1) * Math.log10(p);
    const longer = (others: readonly number[]): number =>
      Math.min(1, Math.max(0, (length / others.reduce((a, b) => Math.max(a, b), 1) - 1) / (LONGER - 1)));
    const others = rests(values[start]!) ? [longest, ...alike] : [length > usual ? usual : longest];
    const severity = Math.max(
      tempered(Math.max(0, chance)) * longer(others),
      tempered(Math.max(0, rarityOfRun(length, alike))) * longer(alike),
    );
    return severity < least ? [] : [{ start, end, sign: 1, severity, peak: start }];
  });
}

/** Finds the stretches of [N] noisy values on one of two levels, `low` and `high`, that are too long; none where there are no two levels. */
export function levelStillness(
  values: Float64Array,
  low: number,
  high: number,
  least: number,
  day: number | null,
): Stretch[] {
  const middle = (low + high) / 2;
  const reach = (BETWEEN / 2) * (high - low);
  const [above, below] = [
    values.filter((value) => value >= middle + reach).length,
    values.filter((value) => value <= middle - reach).length,
  ];
  const n = values.length;
  if (Math.min(above, below) < LEAST_BEYOND * n || n - above - below > MOST_BETWEEN * n) return [];
  const states = values.map((value) => Number(value > middle));
  return stillness(states, least, day, LONGEST_EPISODE);
}

/** Fewest samples at a limit, and the longest cutoff, as a share of the series. */
const AT_LIMIT = 8;
const LONGEST_CUTOFF = 1 / 3;

/**
 * Finds stretches of [N] that reach one value again and again, which is the largest or least there but is passed elsewhere, in a series
 * whose samples hardly ever equal others.
 */
export function cutoffs(values: Float64Array, least: number): Stretch[] {
  const n = values.length;
  const sorted = values.slice().sort();
  // First and last place, and the number, of values that are frequent enough.
  const places = new Map<number, { start: number; end: number; times: number }>();
  let distinct = 0;
  for (let from = 0, to = 0; from < n; from = to, distinct++) {
    while (to < n && sorted[to] === sorted[from]) to++;
    if (to - from >= AT_LIMIT) places.set(sorted[from]!, { start: n, end: 0, times: to - from });
  }
  const repeated = n - distinct;
  for (let i = 0; places.size > 0 && i < n; i++) {
    const place = places.get(values[i]!);
    if (place === undefined) continue;
    place.start = Math.min(place.start, i);
    place.end = i + 1;
  }
  const byTime = [...places].sort(([, a], [, b]) => a.start - b.start);
  return byTime.flatMap(([value, { start, end, times }]): Stretch[] => {
    if (end - start > LONGEST_CUTOFF * n) return [];
    let [below, above, passed] = [false, false, false];
    for (let i = start; i < end; i++) {
      below ||= values[i]! < value;
      above ||= values[i]! > value;
    }
    if (below === above) return [];
    for (let i = 0; i < n && !passed; i++) passed = below ? values[i]! > value : values[i]! < value;
    const p = (repeated - (times - 1) + 1) / (n - times + 2);
    const severity = tempered(Math.max(0, -Math.log10(n) - (times - 1) * Math.log10(p)));
    return !passed || severity < least ? [] : [{ start, end, sign: below ? -1 : 1, severity, peak: start }];
  });
}

/** Shortest episode between two jumps in samples, and the longest as a share of the series. */
const [SHORTEST_BETWEEN, LONGEST_BETWEEN] = [3, 1 / 4];
/** Least ratio of the jumps there and back to each other, and of the smaller to any other jump: a series may consist of levels between jumps. */
const [THERE_AND_BACK, LONE] = [0.6, 2];

/** Finds episodes of [N] between a jump and the next one back, each far larger than any other, however far the level wanders meanwhile. */
export function betweenJumps(
  values: Float64Array,
  { floor, least, looks }: Omit<StepOptions, 'shortest'>,
): Candidate[] {
  const n = values.length;
  const jumps = values.map((value, i) => (i === 0 ? 0 : value - values[i - 1]!));
  const found = scan(jumps, { floor, least, looks, windows: [1] }).sort((a, b) => a.start - b.start);
  return found.slice(1).flatMap((back, k): Candidate[] => {
    const there = found[k]!;
    const [start, end] = [there.peak, back.peak];
    const [up, down] = [Math.abs(jumps[start]!), Math.abs(jumps[end]!)];
    if (there.sign === back.sign || Math.min(up, down) < THERE_AND_BACK * Math.max(up, down)) return [];
    if (end - start < SHORTEST_BETWEEN || end - start > LONGEST_BETWEEN * n) return [];
    const isAt = (i: number): boolean => Math.min(Math.abs(i - start), Math.abs(i - end)) <= 1;
    if (jumps.some((jump, i) => LONE * Math.abs(jump) > Math.min(up, down) && !isAt(i))) return [];
    const severity = Math.min(there.severity, back.severity);
    return [{ start, end, sign: there.sign, severity, peak: start, track: 'level' }];
  });
}
