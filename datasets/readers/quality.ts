/** Quality of data: notes about a recording, and the faults that its values and times show. */
import { quantileInPlace } from '../../src/series/stats.ts';

/** Assumption about a file, or fault of its data. */
export interface Note {
  readonly kind: string;
  /** Sentence that names what, where, how often, and the option that treats it. */
  readonly text: string;
  readonly column?: string;
  readonly count?: number;
  /** First and last line of the file. */
  readonly lines?: readonly [number, number];
  /** Option that treats it, ready to be added to the command line. */
  readonly option?: string;
}

/** Kinds of notes that tell a fault of the data; all others tell an assumption. The last ones are those of `--follow`. */
export const FAULTS: ReadonlySet<string> = new Set([
  ...['sentinel', 'missing', 'left-out', 'words', 'infinite', 'ambiguous-number', 'epoch-column'],
  ...['gaps', 'interval', 'duplicates', 'sorted', 'few-samples', 'counter', 'stuck', 'clipped'],
  ...['bad-row', 'late', 'too-late', 'stray-row'],
]);

/** Stretch [start, end) of samples. */
export interface Stretch {
  readonly start: number;
  readonly end: number;
}

/** Sizes at which counters begin again. */
const WRAPS = [16, 31, 32, 63, 64].map((bits) => 2 ** bits);
/** Names of values that are counted from the start of a program. */
const TOTAL = /(?:^|[^a-z])(?:total|counter|octets)$/i;
/** Fewest rises of a counter, and rises for each drop. */
const [RISES, RISES_OF_DROP] = [20, 10];
/** Largest value after a reset, as a share of the value before, and largest increase over a wrap, in usual ones. */
const [NEAR_ZERO, WRAPPED] = [0.1, 20];

/** Increase of a counter from one value to a later one; NaN where it fell, but neither wrapped nor began again near 0. */
function increase(before: number, after: number, usual: number): number {
  if (after >= before) return after - before;
  const size = WRAPS.find((wrap) => wrap > before);
  const wrapped = after - before + (size ?? Number.NaN);
  if (wrapped <= WRAPPED * usual) return wrapped;
  return after >= 0 && after <= NEAR_ZERO * before ? after : Number.NaN;
}

/** Changes between neighbours among [N] values without the missing ones: their positions, and the usual rise. */
function changesOf(values: Float64Array): { readonly at: readonly number[]; readonly usual: number } {
  const at: number[] = [];
  values.forEach((value, i) => {
    if (!Number.isNaN(value)) at.push(i);
  });
  const rises = Float64Array.from(at.slice(1), (i, k) => values[i]! - values[at[k]!]!).filter((d) => d > 0);
  return { at, usual: rises.length === 0 ? 0 : quantileInPlace(rises, rises.length, 0.99) };
}

/**
 * Positions at which a counter begins again, among [N] values in order of time; null for other series. A counter only rises, but for wraps
 * and resets; one that has none so far is known by its name.
 */
export function counterOf(values: Float64Array, name: string): number[] | null {
  let [rises, falls, last] = [0, 0, Number.NaN];
  for (const value of values) {
    if (Number.isNaN(value)) continue;
    if (value > last) rises++;
    if (value < last) falls++;
    last = value;
  }
  if (rises < Math.max(RISES, RISES_OF_DROP * falls) || (falls === 0 && !TOTAL.test(name))) return null;
  const { at, usual } = changesOf(values);
  const drops: number[] = [];
  for (let k = 1; k < at.length; k++) {
    const [before, after] = [values[at[k - 1]!]!, values[at[k]!]!];
    if (after >= before) continue;
    // A value that is back at once was missed, and not counted anew.
    const next = at.slice(k, k + 4).map((i) => values[i]!);
    if (Number.isNaN(increase(before, after, usual)) || Math.max(...next) > before / 2) return null;
    drops.push(at[k]!);
  }
  return drops;
}

/** Increases of a counter [N] for each second, or for each sample without `time` (ms); NaN where unknown. */
export function rateOf(values: Float64Array, time: Float64Array | null): Float64Array {
  const { at, usual } = changesOf(values);
  const rates = new Float64Array(values.length).fill(Number.NaN);
  for (let k = 1; k < at.length; k++) {
    const [from, to] = [at[k - 1]!, at[k]!];
    const length = time === null ? to - from : (time[to]! - time[from]!) / 1000;
    rates[to] = increase(values[from]!, values[to]!, usual) / length;
  }
  return rates;
}

/** Runs of at least `shortest` equal values. */
function runsOfEqual(values: Float64Array, shortest = 1): Stretch[] {
  const runs: Stretch[] = [];
  for (let start = 0; start < values.length; ) {
    let end = start + 1;
    while (end < values.length && values[end] === values[start]) end++;
    if (end - start >= shortest && !Number.isNaN(values[start]!)) runs.push({ start, end });
    start = end;
  }
  return runs;
}

/** Fewest samples of a stuck stretch, its length in runs of the others, and most such stretches. */
const [STUCK, LONGER, MOST_STUCK] = [8, 4, 3];
/** Series that moves: fewest runs of equal values and distinct values, and runs for each sample. */
const [MOVES, DISTINCT, MOVING] = [30, 10, 0.2];

/** Stretches of [N] values that are stuck at one value, in a series that otherwise moves. */
export function stuckIn(values: Float64Array): Stretch[] {
  if (runsOfEqual(values, STUCK).length === 0) return [];
  const runs = runsOfEqual(values);
  const length = ({ start, end }: Stretch): number => end - start;
  const longest = [...runs].sort((a, b) => length(b) - length(a));
  for (let k = 1; k <= MOST_STUCK && k < longest.length; k++) {
    if (length(longest[k - 1]!) < Math.max(STUCK, LONGER * length(longest[k]!))) continue;
    const others = longest.slice(k);
    const samples = others.reduce((sum, run) => sum + length(run), 0);
    if (others.length < Math.max(MOVES, MOVING * samples)) return [];
    if (new Set(others.map(({ start }) => values[start]!)).size < DISTINCT) return [];
    // At its least value a series rests: a machine that is off, an hour without requests.
    const least = others.reduce((low, { start }) => Math.min(low, values[start]!), Number.POSITIVE_INFINITY);
    return longest
      .slice(0, k)
      .filter(({ start }) => values[start]! > least)
      .sort((a, b) => a.start - b.start);
  }
  return [];
}

/** Limit of a column at which values are cut off. */
export interface Limit extends Stretch {
  readonly side: 'maximum' | 'minimum';
  readonly value: number;
  readonly count: number;
}

/** Fewest samples at a limit, also as a share and in samples of the other distinct values, and fewest runs of them. */
const [CLIPPED, CLIPPED_SHARE, CROWDED, CLIPPED_RUNS] = [8, 0.005, 8, 3];
/** Largest share of samples at a limit: more of them rest there. */
const MOST_CLIPPED = 0.5;
/** Least share of distinct values of a continuous column. */
const CONTINUOUS = 0.3;
/** Limits by nature: of shares, percentages and counts. */
const NATURAL = new Set([0, 1, 100]);

/** Limits at which [N] continuous values are clipped: many samples at the maximum or the minimum exactly. */
export function limitsOf(values: Float64Array): Limit[] {
  const finite = values.filter((value) => !Number.isNaN(value));
  const maximum = finite.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY);
  const minimum = finite.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY);
  const limits = (['maximum', 'minimum'] as const).flatMap((side) => {
    const value = side === 'maximum' ? maximum : minimum;
    const count = finite.reduce((sum, other) => sum + Number(other === value), 0);
    const isMany =
      count >= Math.max(CLIPPED, CLIPPED_SHARE * finite.length) && count <= MOST_CLIPPED * finite.length;
    return isMany && !NATURAL.has(value) ? [{ side, value, count }] : [];
  });
  if (limits.length === 0) return [];
  const others = finite.filter((value) => value !== maximum && value !== minimum);
  const distinct = new Set(others).size;
  if (distinct === 0 || distinct < CONTINUOUS * others.length) return [];
  return limits.flatMap((limit) => {
    const runs = runsOfEqual(values).filter(({ start }) => values[start] === limit.value);
    const crowded = limit.count >= (CROWDED * others.length) / distinct && runs.length >= CLIPPED_RUNS;
    return crowded ? [{ ...limit, start: runs[0]!.start, end: runs.at(-1)!.end }] : [];
  });
}

/** Change of the sampling interval, at the sample that begins it; both intervals in ms. */
export interface IntervalChange {
  readonly at: number;
  readonly from: number;
  readonly to: number;
}

/** Intervals that are compared on each side, how many of them must be equal, within which share, and by how much the sides differ. */
const [INTERVALS, EQUAL, EVEN, CHANGED] = [12, 10, 0.1, 1.25];

/** Usual interval of some; NaN where they are uneven. */
function usualInterval(some: Float64Array): number {
  const usual = some.toSorted()[some.length >> 1]!;
  const equal = some.filter((interval) => Math.abs(interval - usual) <= EVEN * usual).length;
  return equal >= EQUAL ? usual : Number.NaN;
}

/** Changes of the sampling interval of ascending times [N] in ms, where it is even before and after. */
export function intervalChanges(time: Float64Array): IntervalChange[] {
  const intervals = time.subarray(1).map((ms, i) => ms - time[i]!);
  const differ = (a: number, b: number): boolean => Math.max(a, b) >= CHANGED * Math.min(a, b);
  const changes: IntervalChange[] = [];
  for (let i = INTERVALS; i + INTERVALS <= intervals.length; i++) {
    if (!differ(intervals[i - 1]!, intervals[i]!)) continue;
    const from = usualInterval(intervals.subarray(i - INTERVALS, i));
    const to = usualInterval(intervals.subarray(i, i + INTERVALS));
    const edge =
      Math.abs(intervals[i]! - to) <= EVEN * to && Math.abs(intervals[i - 1]! - from) <= EVEN * from;
    if (edge && differ(from, to)) changes.push({ at: i, from, to });
  }
  return changes;
}
