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
  ...['sentinel', 'missing', 'left-out', 'words', 'infinite', 'ambiguous-number'],
  ...[
    'gaps',
    'interval',
    'duplicates',
    'sorted',
    'few-samples',
    'counter',
    'stuck',
    'clipped',
    'mixed-units',
  ],
  'partial',
  ...['bad-row', 'late', 'too-late', 'stray-row'],
]);

/** Sizes at which counters begin again. */
const WRAPS = [16, 31, 32, 63, 64].map((bits) => 2 ** bits);
/** Names of values that are counted from the start of a program. */
const TOTAL = /(?:^|[^a-z])(?:total|counter|octets)$/i;
/** Fewest rises of a counter, and rises for each drop. */
const [RISES, RISES_OF_DROP] = [20, 10];
/** Largest value after a reset, as a share of the value before, and largest increase over a wrap, in usual ones. */
const [NEAR_ZERO, WRAPPED] = [0.1, 20];

/** Increase of a counter from one value to a later one; NaN where it fell but did not wrap: what it counted before a reset is not known. */
function increase(before: number, after: number, usual: number): number {
  if (after >= before) return after - before;
  const wrapped = after - before + (WRAPS.find((wrap) => wrap > before) ?? Number.NaN);
  return wrapped <= WRAPPED * usual ? wrapped : Number.NaN;
}

/** Positions of [N] values without the missing ones, those at which they fall as indices of positions, and the rises. */
function changesOf(values: Float64Array) {
  const [at, falls, rises]: [number[], number[], number[]] = [[], [], []];
  for (let i = 0; i < values.length; i++) {
    if (Number.isNaN(values[i]!)) continue;
    const change = values[i]! - values[at.at(-1) ?? i]!;
    if (change > 0) rises.push(change);
    if (change < 0) falls.push(at.length);
    at.push(i);
  }
  const usual = quantileInPlace(Float64Array.from(rises), rises.length, 0.99);
  return { at, falls, rises: rises.length, usual };
}

/**
 * Positions at which a counter begins again, among [N] values in order of time; null for other series. A counter only rises, but for wraps
 * and resets; one that has none so far is known by its name.
 */
export function counterOf(values: Float64Array, name: string): number[] | null {
  const { at, falls, rises, usual } = changesOf(values);
  if (rises < Math.max(RISES, RISES_OF_DROP * falls.length)) return null;
  if (falls.length === 0 && !TOTAL.test(name)) return null;
  const isCounter = falls.every((k) => {
    const before = values[at[k - 1]!]!;
    const next = at.slice(k, k + 4).map((i) => values[i]!);
    // A value that is back at once was missed, and not counted anew.
    const reset = next[0]! >= 0 && next[0]! <= NEAR_ZERO * before;
    return (reset || !Number.isNaN(increase(before, next[0]!, usual))) && Math.max(...next) <= before / 2;
  });
  return isCounter ? falls.map((k) => at[k]!) : null;
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
function runsOfEqual(values: Float64Array, shortest = 1) {
  const runs: { readonly start: number; readonly end: number }[] = [];
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
function stuckIn(values: Float64Array) {
  if (runsOfEqual(values, STUCK).length === 0) return [];
  const longest = runsOfEqual(values)
    .map(({ start, end }) => ({ start, end, count: end - start, value: values[start]! }))
    .sort((a, b) => b.count - a.count);
  const most = longest.findIndex(
    ({ count }, k) => k < MOST_STUCK && count >= Math.max(STUCK, LONGER * (longest[k + 1]?.count ?? count)),
  );
  const others = longest.slice(most + 1);
  const samples = others.reduce((sum, { count }) => sum + count, 0);
  if (others.length < Math.max(MOVES, MOVING * samples)) return [];
  if (new Set(others.map(({ value }) => value)).size < DISTINCT) return [];
  // At its least value a series rests: a machine that is off, an hour without requests.
  const least = others.reduce((low, { value }) => Math.min(low, value), Number.POSITIVE_INFINITY);
  return longest
    .slice(0, most + 1)
    .filter(({ value }) => value > least)
    .map((run) => ({ kind: 'stuck', ...run, says: `is stuck at ${run.value}` }));
}

/** Fewest runs at a limit, and fewest samples in them, in samples of any other value. */
const [CLIPPED_RUNS, CROWDED] = [3, 8];
/** Share of samples at a limit: of fewer it is by chance, of more they rest there. And fewest distinct values beside it. */
const [FEW_CLIPPED, MOST_CLIPPED, LEAST_DISTINCT] = [0.005, 0.5, 60];
/** Number of values next to a limit, with whose usual count it is compared, and the largest distance of the nearest, as a share of the range. */
const [NEXT, ADJACENT] = [5, 0.1];
/** Limits by nature: of shares, percentages and counts. */
const NATURAL = new Set([0, 1, 100]);

/** Limits at which [N] values are clipped: many samples at the maximum or the minimum exactly, and few at the values next to it. */
function clippedIn(values: Float64Array) {
  const counts = new Map<number, number>();
  for (const value of values) if (!Number.isNaN(value)) counts.set(value, (counts.get(value) ?? 0) + 1);
  const known = values.length - values.reduce((sum, value) => sum + Number(Number.isNaN(value)), 0);
  const [fewest, most] = [Math.max(CROWDED, FEW_CLIPPED * known), MOST_CLIPPED * known];
  if (counts.size <= LEAST_DISTINCT) return [];
  const sorted = Float64Array.from(counts.keys()).sort();
  const range = sorted.at(-1)! - sorted[0]!;
  return [sorted.slice(-NEXT - 1).reverse(), sorted.slice(0, NEXT + 1)].flatMap(([value, ...next], k) => {
    const count = counts.get(value!)!;
    const usual = next.reduce((sum, other) => sum + counts.get(other)!, 0) / NEXT;
    if (count < fewest || count > most || NATURAL.has(value!) || count < CROWDED * usual) return [];
    if (Math.abs(next[0]! - value!) > ADJACENT * range) return [];
    const runs = runsOfEqual(values).filter(({ start }) => values[start] === value);
    if (runs.length < CLIPPED_RUNS) return [];
    const says = `is clipped at its ${k === 0 ? 'maximum' : 'minimum'} ${value}`;
    return [{ kind: 'clipped', start: runs[0]!.start, end: runs.at(-1)!.end, count, says }];
  });
}

/** Faults of [N] values in order of time, NaN where missing: each with its stretch, number of samples, and predicate. */
export const valueFaults = (values: Float64Array) => [...stuckIn(values), ...clippedIn(values)];

/** Intervals that are compared on each side, how unequal all but two of them may be, and by how much the sides must differ. */
const [INTERVALS, EVEN, CHANGED] = [12, 1.1, 1.25];

/** Changes of the sampling interval of ascending times [N] in ms, where it is even before (`from`) and after (`to`) a sample. */
export function intervalChanges(time: Float64Array) {
  const intervals = time.subarray(1).map((ms, i) => ms - time[i]!);
  const differ = (a: number, b: number, by: number): boolean => Math.max(a, b) >= by * Math.min(a, b);
  const usual = (from: number): number => {
    const sorted = intervals.slice(from, from + INTERVALS).sort();
    return differ(sorted[1]!, sorted.at(-2)!, EVEN) ? Number.NaN : sorted[INTERVALS >> 1]!;
  };
  const changes: { readonly at: number; readonly from: number; readonly to: number }[] = [];
  for (let i = INTERVALS; i + INTERVALS <= intervals.length; i++) {
    if (!differ(intervals[i - 1]!, intervals[i]!, CHANGED)) continue;
    const [from, to] = [usual(i - INTERVALS), usual(i)];
    const isEdge = !differ(intervals[i]!, to, EVEN) && !differ(intervals[i - 1]!, from, EVEN);
    if (isEdge && differ(from, to, CHANGED)) changes.push({ at: i, from, to });
  }
  return changes;
}

// Sentinels: numbers that stand for a missing value, such as -999 between temperatures.

/** Numbers that instruments and exports write for a missing value. */
const SENTINELS = new Set([
  ...[99, 999, 9999, 99_999, 999_999, 9_999_999].flatMap((nines) => [nines, -nines]),
  ...[-999.25, -999.9, 999.9, -9999.9, 9999.9, 1e20, -1e20, 1e30, -1e30, 1e36, 9.969_209_968_386_869e36],
  ...[32_767, -32_768, 65_535, 2_147_483_647, -2_147_483_648, 4_294_967_295],
]);
/** Fewest and most rows of a sentinel, the latter as a share. */
const [FEWEST_ROWS, MOST_ROWS] = [2, 0.5];
/** Smallest distance from all other values, in their range from the first to the last hundredth. */
const DISTANCE = 2;

/** A sentinel of a column, the rows that have it, and the first of them. */
interface Sentinel {
  readonly value: number;
  readonly rows: number;
  readonly first: number;
}

/** Finds the sentinels of [N] values (NaN where missing): known ones that come again and lie far from all other values. */
export function sentinelsOf(values: Float64Array): Sentinel[] {
  const seen = new Map<number, { rows: number; first: number }>();
  const others: number[] = [];
  values.forEach((value, i) => {
    const known = seen.get(value);
    if (known !== undefined) known.rows++;
    else if (SENTINELS.has(value)) seen.set(value, { rows: 1, first: i });
    else if (Number.isFinite(value)) others.push(value);
  });
  if (seen.size === 0 || others.length < FEWEST_ROWS) return [];
  const known = Float64Array.from(others);
  const [least, largest] = [known.reduce((a, b) => Math.min(a, b)), known.reduce((a, b) => Math.max(a, b))];
  const quantile = (share: number): number => quantileInPlace(known, known.length, share);
  const range = quantile(0.99) - quantile(0.01);
  return [...seen].flatMap(([value, { rows, first }]) => {
    const distance = Math.max(least - value, value - largest);
    const stands =
      rows >= FEWEST_ROWS && rows <= MOST_ROWS * values.length && distance > DISTANCE * range && distance > 0;
    return stands ? [{ value, rows, first }] : [];
  });
}
