/** Candidates beside the tracks: lasting steps of the level and the episodes between them, drifts, standstills and cutoffs. */
import { quantileInPlace } from '../series/stats.ts';
import { type Candidate, deviation, type Stretch } from './scan.ts';
import { cumulative } from './season.ts';
import { fitTail, surprise, tempered } from './tail.ts';

interface Step {
  /** First sample of the new level. */
  readonly at: number;
  readonly size: number;
  /** Samples before and after it whose means differ. */
  readonly span: number;
  readonly severity: number;
}

interface StepOptions {
  readonly floor: number;
  readonly least: number;
  readonly looks: number;
  /** Shortest span. */
  readonly shortest: number;
}

/** Other steps of this part of the size, and how many halve the severity: where the level steps often, one more is usual. */
const ALIKE = 0.5;
const PEERS = 2;
/** A step and the one that takes it back; and in how many blocks of a span a step shows at that part of its size. */
const OWN = 2;
const BLOCKS = 2;

/** The largest change, up or down, in each block of a span, ascending. */
function largestOfBlocks(changes: Float64Array, span: number): Float64Array {
  const largest = new Float64Array(Math.ceil(changes.length / span));
  for (let i = 0; i < changes.length; i++) {
    const block = Math.floor(i / span);
    largest[block] = Math.max(largest[block]!, Math.abs(changes[i]!));
  }
  return largest.sort();
}

/** The part of its severity that a step keeps beside the others that are like it. */
function amongOthers(blocks: Float64Array, size: number): number {
  let [low, high] = [0, blocks.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (blocks[middle]! < ALIKE * size) low = middle + 1;
    else high = middle;
  }
  const others = Math.max(0, (blocks.length - low) / BLOCKS - OWN);
  return 1 / (1 + (others / PEERS) ** 2);
}

/** Standard deviation of the noise, from neighbours: a step does not count. */
function stepNoise(values: Float64Array): number {
  return deviation(values.map((value, i) => (i === 0 ? 0 : value - values[i - 1]!))) / Math.SQRT2;
}

/** Steps of [N] by time, at most one within a span of another. */
export function steps(values: Float64Array, { floor, least, looks, shortest }: StepOptions): Step[] {
  const n = values.length;
  const single = fitTail(values, floor);
  const clipped = values.map((value) =>
    Math.min(single.centre + single.bandAbove, Math.max(single.centre - single.bandBelow, value)),
  );
  const sums = cumulative(clipped);
  const noise = stepNoise(clipped);
  const found: Step[] = [];
  for (let span = shortest; span <= n / 12; span = Math.round(span * 2)) {
    const count = n - 2 * span + 1;
    const changes = Float64Array.from(
      { length: count },
      (_, i) => (sums[i + 2 * span]! - 2 * sums[i + span]! + sums[i]!) / span,
    );
    const tail = fitTail(changes, floor, span, { tail: single, sigma: noise * Math.SQRT2 });
    const blocks = largestOfBlocks(changes, span);
    const chance = Math.log10((n / span) * looks);
    for (let i = 0; i < count; i++) {
      const severity = tempered(surprise(tail, changes[i]! - tail.centre) / Math.LN10 - chance);
      if (severity < least) continue;
      let top = i;
      for (let j = i; j < Math.min(count, i + span); j++)
        if (Math.abs(changes[j]!) > Math.abs(changes[top]!)) top = j;
      const alone = tempered(surprise(tail, changes[top]! - tail.centre) / Math.LN10 - chance);
      found.push({
        at: top + span,
        size: changes[top]!,
        severity: alone * amongOthers(blocks, Math.abs(changes[top]!)),
        span,
      });
      i = top + span - 1;
    }
  }
  found.sort((a, b) => b.severity - a.severity);
  const kept: typeof found = [];
  for (const one of found) {
    if (
      one.severity >= least &&
      !kept.some((other) => Math.abs(other.at - one.at) < Math.max(one.span, other.span))
    )
      kept.push(one);
  }
  return kept.sort((a, b) => a.at - b.at);
}

/** What a step ends began at most so many of its spans before. */
const FURTHEST = 3;
/** Longest part of a series that is an episode rather than half of it. */
const LONGEST_EPISODE = 1 / 3;

/**
 * From a step to the one that takes it back; where there is none, of what lies before and after it the part that is farther from the usual
 * level: a step back to it after a drift away is the end of something, and not its beginning.
 */
export function levels(found: readonly Step[], values: Float64Array, usual: number): Candidate[] {
  const n = values.length;
  const most = Math.floor(LONGEST_EPISODE * n);
  const out: Candidate[] = [];
  const used = new Set<Step>();
  for (const one of [...found].sort((a, b) => b.severity - a.severity)) {
    if (used.has(one)) continue;
    used.add(one);
    const back = found.find(
      (other) =>
        !used.has(other) &&
        Math.sign(other.size) !== Math.sign(one.size) &&
        Math.abs(other.size) > 0.4 * Math.abs(one.size) &&
        Math.abs(other.size) < 2.5 * Math.abs(one.size) &&
        Math.abs(other.at - one.at) <= most &&
        !found.some(
          (between) => between.at > Math.min(one.at, other.at) && between.at < Math.max(one.at, other.at),
        ),
    );
    const add = (start: number, end: number, sign: number): void =>
      void out.push({
        ...{ start, end, sign: sign > 0 ? 1 : -1, severity: one.severity },
        ...{ peak: start, track: 'step' as const },
      });
    if (back !== undefined) {
      used.add(back);
      const first = back.at < one.at ? back : one;
      add(first.at, Math.max(one.at, back.at), first.size);
      continue;
    }
    const before = meanOf(values, Math.max(0, one.at - one.span), one.at);
    const after = meanOf(values, one.at, Math.min(n, one.at + one.span));
    const half = (before + after) / 2;
    const later = Math.abs(after - usual) >= Math.abs(before - usual);
    const sign = later ? Math.sign(one.size) : -Math.sign(one.size);
    // As far as it adds up to more.
    let [sum, largest, reach] = [0, 0, 0];
    const room = later ? n - one.at : one.at;
    const furthest = later ? most : Math.min(most, FURTHEST * one.span);
    for (let k = 1; k <= room; k++) {
      sum += sign * (values[later ? one.at + k - 1 : one.at - k]! - half);
      if (sum > largest) [largest, reach] = [sum, k];
    }
    if (reach > furthest) {
      const end = Math.min(n, one.at + one.span);
      out.push({
        ...{ start: one.at, end, sign: one.size > 0 ? 1 : -1, severity: one.severity, peak: one.at },
        ...{ track: 'step', lasting: true },
      });
    } else if (later) add(one.at, one.at + Math.max(1, reach), sign);
    else add(one.at - Math.max(1, reach), one.at, sign);
  }
  return out;
}

/** Mean of samples [from, to). */
function meanOf(values: Float64Array, from: number, to: number): number {
  let sum = 0;
  for (let i = from; i < to; i++) sum += values[i]!;
  return sum / Math.max(1, to - from);
}

/** Parts of the series whose medians are looked at, and the fewest before and after the bend. */
const PARTS = 64;
const FEWEST_PARTS = 5;
/** Samples of a part, at least. */
const SHORTEST_PART = 4;
/** What is left around the bent line is at most so many times the noise between neighbouring parts: a random walk wanders farther. */
const MOST_LEFT = 1.4;
/** A bent line must leave at most this part of what a parabola leaves: steady growth bends everywhere. */
const BENT = 0.6;
/** The slope before it is at most this part of the change of slope. */
const SLOPE_BEFORE = 0.3;
/** The drift ends so many standard deviations of single samples away, at least. */
const FARTHEST = 3;
/** Normal noise: a standard deviation over the median size of a second difference. */
const OF_SECOND_DIFFERENCES = 1 / (0.6745 * Math.sqrt(6));

/** Least squares of y on columns [k][n] by the normal equations: coefficients, and the sum of squares that is left. */
function fitted(
  y: Float64Array,
  columns: readonly Float64Array[],
): { coefficients: Float64Array; left: number } {
  const k = columns.length;
  const a = columns.map((one) =>
    Float64Array.from({ length: k + 1 }, (_, j) => dot(one, j < k ? columns[j]! : y)),
  );
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
    left += (y[t]! - columns.reduce((sum, one, j) => sum + coefficients[j]! * one[t]!, 0)) ** 2;
  }
  return { coefficients, left };
}

function dot(a: Float64Array, b: Float64Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i]! * b[i]!;
  return sum;
}

const median = (values: Float64Array): number => quantileInPlace(values, values.length, 0.5);

/**
 * The drift that a series [N] without its season ends with, or null: medians of 64 parts lie on a line that bends once, better than on a
 * parabola, and no farther from it than neighbouring parts are from each other.
 */
export function drift(values: Float64Array, floor: number, least: number, looks: number): Candidate | null {
  const n = values.length;
  const size = Math.floor(n / PARTS);
  if (size < SHORTEST_PART) return null;
  const first = n - size * PARTS;
  const medians = Float64Array.from({ length: PARTS }, (_, p) =>
    median(values.slice(first + p * size, first + (p + 1) * size)),
  );
  const bends = Float64Array.from({ length: PARTS - 2 }, (_, i) =>
    Math.abs(medians[i]! - 2 * medians[i + 1]! + medians[i + 2]!),
  );
  const spread = median(
    Float64Array.from({ length: size * PARTS }, (_, i) =>
      Math.abs(values[first + i]! - medians[Math.floor(i / size)]!),
    ),
  );
  const single = Math.max(floor / 2, 1.4826 * spread);
  const noise = Math.max(median(bends) * OF_SECOND_DIFFERENCES, single / Math.sqrt(size) / 4);
  const time = Float64Array.from({ length: PARTS }, (_, p) => p / PARTS);
  const ones = new Float64Array(PARTS).fill(1);
  const straight = fitted(medians, [ones, time]);
  const parabola = fitted(medians, [ones, time, time.map((t) => t * t)]);
  let best: { at: number; coefficients: Float64Array; left: number } | null = null;
  for (let at = FEWEST_PARTS; at <= PARTS - FEWEST_PARTS; at++) {
    const after = time.map((t) => Math.max(0, t - at / PARTS));
    const found = fitted(medians, [ones, time, after]);
    if (best === null || found.left < best.left) best = { at, ...found };
  }
  const { at, coefficients, left } = best!;
  const [, before, change] = coefficients as unknown as [number, number, number];
  const freedom = PARTS - 4;
  const far = Math.abs(change) * (1 - at / PARTS);
  if (Math.sqrt(left / freedom) > MOST_LEFT * noise || left > BENT * parabola.left) return null;
  if (Math.abs(before) > SLOPE_BEFORE * Math.abs(change) || far < FARTHEST * single) return null;
  const surprise = (straight.left - left) / (2 * noise ** 2) / Math.LN10;
  const severity = tempered(surprise - Math.log10(PARTS * looks));
  if (!(severity >= least)) return null;
  const start = first + at * size;
  return {
    start,
    end: n,
    sign: change > 0 ? 1 : -1,
    severity,
    peak: n - 1,
    track: 'step',
    lasting: true,
    drifts: true,
  };
}

/** Samples of one value that are told of, at least. */
const SHORTEST = 4;
/** So many times the longest other stillness is a full surprise; as long as it is none. */
const LONGER = 3;

/** Runs of one value in [N], half-open. */
function runs(values: Float64Array): [start: number, end: number][] {
  const found: [number, number][] = [];
  for (let i = 0; i < values.length; ) {
    let j = i + 1;
    while (j < values.length && values[j] === values[i]) j++;
    if (j - i >= 2) found.push([i, j]);
    i = j;
  }
  return found;
}

/**
 * Runs of one value in [N] that are long for a series whose samples equal the one before as often as they do elsewhere (runs of length L
 * have probability pᴸ⁻¹), and long against its other runs: where every night stands still, one more does not count.
 */
export function stillness(values: Float64Array, least: number): Stretch[] {
  const n = values.length;
  const all = runs(values);
  const equal = all.reduce((sum, [start, end]) => sum + end - start - 1, 0);
  const longest = all.map(([start, end]) => end - start).sort((a, b) => b - a);
  return all.flatMap(([start, end]): Stretch[] => {
    const length = end - start;
    if (length < SHORTEST) return [];
    // One more equal pair than was counted: of what has not been seen p is not 0.
    const p = (equal - (length - 1) + 1) / (n - length + 2);
    const chance = -Math.log10(n) - (length - 1) * Math.log10(p);
    const other = longest[0] === length ? (longest[1] ?? 1) : longest[0]!;
    const longer = Math.min(1, Math.max(0, (length / other - 1) / (LONGER - 1)));
    const severity = tempered(Math.max(0, chance)) * longer;
    return severity < least ? [] : [{ start, end, sign: 1, severity, peak: start }];
  });
}

/** Samples at a limit, at least, and the longest part of a series that one may hold down. */
const AT_LIMIT = 8;
const LONGEST_CUTOFF = 1 / 3;

/**
 * Stretches of [N] that again and again reach one value exactly, which is the largest or the least there and is passed elsewhere, in a
 * series whose samples hardly ever equal others.
 */
export function cutoffs(values: Float64Array, least: number): Stretch[] {
  const n = values.length;
  const places = new Map<number, number[]>();
  for (let i = 0; i < n; i++) {
    const own = places.get(values[i]!);
    if (own === undefined) places.set(values[i]!, [i]);
    else own.push(i);
  }
  const repeated = n - places.size;
  return [...places].flatMap(([value, at]): Stretch[] => {
    const [start, end] = [at[0]!, at.at(-1)! + 1];
    if (at.length < AT_LIMIT || end - start > LONGEST_CUTOFF * n) return [];
    let [below, above, passed] = [false, false, false];
    for (let i = start; i < end; i++) {
      below ||= values[i]! < value;
      above ||= values[i]! > value;
    }
    if (below === above) return [];
    for (let i = 0; i < n && !passed; i++) passed = below ? values[i]! > value : values[i]! < value;
    const p = (repeated - (at.length - 1) + 1) / (n - at.length + 2);
    const severity = tempered(Math.max(0, -Math.log10(n) - (at.length - 1) * Math.log10(p)));
    return !passed || severity < least ? [] : [{ start, end, sign: below ? -1 : 1, severity, peak: start }];
  });
}
