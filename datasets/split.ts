/** Splits, and the seeded, stratified draws into them, by single examples or by recordings. */
import { ConfigError, DataError } from '../src/ground/errors.ts';
import { getOrMake } from '../src/ground/maps.ts';
import { Random } from '../src/ground/random.ts';

/** Each split draws from a random stream of its own name, so that splits never overlap, whatever the seeds. */
export const SPLITS = ['train', 'validation', 'test'] as const;
export type Split = (typeof SPLITS)[number];

/** Seeds of the published AnomLLM splits: 3407 for training, 42 for evaluation. */
export const DEFAULT_SEED: Readonly<Record<Split, number>> = { train: 3407, validation: 3407, test: 42 };

/** Indices are 32-bit words of the random counter. */
export const MAXIMUM_INDEX = 0xffffffff;

/** Maximum points of a generated series. */
const MAXIMUM_LENGTH = 10_000_000;

/**
 * Checks the address of a series.
 * @param seed integer in [0, 2⁵³)
 * @param index integer in [0, 2³²)
 * @param length number of points, an integer from `minimum` to `MAXIMUM_LENGTH`
 * @throws ConfigError naming the part that is wrong, what it is, and what it may be
 */
export function checkAddress(seed: number, index: number, length: number, minimum: number): void {
  if (!Number.isSafeInteger(seed) || seed < 0) {
    throw new ConfigError(`seed: got ${seed}, expected an integer from 0 to ${Number.MAX_SAFE_INTEGER}`);
  }
  if (!Number.isInteger(index) || index < 0 || index > MAXIMUM_INDEX) {
    throw new ConfigError(`index: got ${index}, expected an integer from 0 to ${MAXIMUM_INDEX}`);
  }
  if (!Number.isSafeInteger(length) || length < minimum || length > MAXIMUM_LENGTH) {
    throw new ConfigError(
      `length: got ${length}, expected an integer of at least ${minimum} and at most ${MAXIMUM_LENGTH}; set --length, data.length or inspect.lengths`,
    );
  }
}

/**
 * Sizes of parts of `total` in proportion to `shares`: rounded down, and what is left goes to the largest remainders,
 * of equal ones to the first. Each is off by less than one; they sum to `total`.
 * @param shares at least one above 0, none below
 */
export function apportion(total: number, shares: readonly number[]): number[] {
  const sum = shares.reduce((all, share) => all + share, 0);
  if (!(sum > 0) || shares.some((share) => !(share >= 0))) {
    throw new DataError(`shares ${shares.join(', ')}: expected numbers of at least 0, one of them above 0`);
  }
  const exact = shares.map((share) => (total * share) / sum);
  const sizes = exact.map(Math.floor);
  const order = exact
    .map((_, i) => i)
    .sort((a, b) => exact[b]! - sizes[b]! - (exact[a]! - sizes[a]!) || a - b);
  const left = total - sizes.reduce((all, size) => all + size, 0);
  for (let k = 0; k < left; k++) sizes[order[k]!]!++;
  return sizes;
}

/**
 * A table of whole numbers with the given sums of rows and columns, each entry the expected rows[r] · columns[c] / total
 * rounded up or down. Such a table always exists (Cox 1987, controlled rounding); this one is found by augmenting
 * paths between the rows and columns that rounding down left short.
 * @throws DataError when rows and columns have different sums
 */
export function roundedTable(rows: readonly number[], columns: readonly number[]): number[][] {
  const total = rows.reduce((sum, n) => sum + n, 0);
  const across = columns.reduce((sum, n) => sum + n, 0);
  if (total !== across) throw new DataError(`rows sum to ${total}, columns to ${across}`);
  // Products of integers stay exact, so that a whole expected entry has no remainder.
  const table = rows.map((n) => columns.map((m) => (total === 0 ? 0 : Math.floor((n * m) / total))));
  const open = rows.map((n) => columns.map((m) => total !== 0 && (n * m) % total !== 0));
  const short = columns.map((m, c) => m - table.reduce((sum, row) => sum + row[c]!, 0));
  const raised = rows.map(() => columns.map(() => false));
  const reach = (r: number, seen: Set<number>): boolean => {
    for (const c of columns.keys()) {
      if (!open[r]![c]! || raised[r]![c]! || seen.has(c)) continue;
      seen.add(c);
      const donor = short[c]! > 0 ? -1 : raised.findIndex((row, k) => row[c]! && k !== r && reach(k, seen));
      if (short[c]! > 0) short[c]!--;
      else if (donor < 0) continue;
      else raised[donor]![c] = false;
      raised[r]![c] = true;
      return true;
    }
    return false;
  };
  for (const [r, n] of rows.entries()) {
    const deficit = n - table[r]!.reduce((sum, entry) => sum + entry, 0);
    for (let k = 0; k < deficit; k++) {
      if (!reach(r, new Set())) throw new DataError('no table with these sums');
    }
  }
  return table.map((row, r) => row.map((entry, c) => entry + Number(raised[r]![c]!)));
}

export interface Entry {
  readonly class: string;
  /** Null without one. Examples of one recording stay together where a split is drawn by recordings. */
  readonly recording: string | null;
}

/** Shares or sizes of the three splits; only their proportions count where they do not sum to what there is. */
export type SplitSizes = Readonly<Record<Split, number>>;

/** Positions of the items of each class, sorted by class name. */
function byClass(classes: readonly string[]): [name: string, at: number[]][] {
  const groups = new Map<string, number[]>();
  for (const [i, name] of classes.entries()) getOrMake(groups, name, (): number[] => []).push(i);
  return [...groups].sort(([a], [b]) => (a < b ? -1 : 1));
}

function shuffled(items: readonly number[], seed: number, name: string): number[] {
  return Array.from(new Random(seed, name).permutation(items.length), (i) => items[i]!);
}

/** Below this number of items every split gets at least one of each class: single examples decide what can be measured. */
const FEW_ITEMS = 100;

/**
 * Gives every wanted column at least one of each row that has as many, from the row's largest entry; where another row has more
 * than one in that column, it gives one back, so that the column's sum stays.
 * @param table [R][C], changed in place
 */
function giveOneOfEach(table: number[][], wanted: readonly boolean[]): void {
  const needed = wanted.filter(Boolean).length;
  for (const [r, row] of table.entries()) {
    if (row.reduce((sum, n) => sum + n, 0) < needed) continue;
    for (const [c, n] of row.entries()) {
      if (n > 0 || !wanted[c]) continue;
      const from = row.indexOf(Math.max(...row));
      row[from]!--;
      row[c]!++;
      const others = table.filter((other, k) => k !== r && other[c]! > 1);
      const most = others.toSorted((a, b) => b[c]! - a[c]!)[0];
      if (most === undefined) continue;
      most[c]!--;
      most[from]!++;
    }
  }
}

/**
 * Splits items so that each class is spread like the whole: per class and split, the expected number rounded up or down; of
 * few items, at least one.
 * @returns a split for each item
 */
function stratified(classes: readonly string[], sizes: SplitSizes, seed: number): Split[] {
  const groups = byClass(classes);
  const totals = apportion(
    classes.length,
    SPLITS.map((split) => sizes[split]),
  );
  const table = roundedTable(
    groups.map(([, at]) => at.length),
    totals,
  );
  if (classes.length < FEW_ITEMS)
    giveOneOfEach(
      table,
      SPLITS.map((split) => sizes[split] > 0),
    );
  const result: Split[] = Array.from({ length: classes.length }, () => 'train');
  for (const [g, [name, at]] of groups.entries()) {
    const order = shuffled(at, seed, `split/${name}`);
    let next = 0;
    for (const [s, split] of SPLITS.entries()) {
      for (let k = 0; k < table[g]![s]!; k++) result[order[next++]!] = split;
    }
  }
  return result;
}

/**
 * Splits by single examples, stratified by class: per class and split, the expected number rounded up or down; the
 * sizes of the splits are exact. With fewer than 100 examples, every split has at least one of each class that has as many as there
 * are splits, at the cost of exact sizes. Windows of one recording may end up in several splits.
 * @throws DataError for shares that are none
 */
export function splitByExample(entries: readonly Entry[], sizes: SplitSizes, seed: number): Split[] {
  return stratified(
    entries.map((entry) => entry.class),
    sizes,
    seed,
  );
}

/** Positions and classes of each recording; an example without one counts as a recording of its own. */
function recordings(entries: readonly Entry[]): Map<string, { at: number[]; classes: Set<string> }> {
  const groups = new Map<string, { at: number[]; classes: Set<string> }>();
  for (const [i, { recording, class: name }] of entries.entries()) {
    // An example without a recording is one of its own; the prefix separates the two kinds of names.
    const key = recording === null ? `example ${i}` : `recording ${recording}`;
    const group = getOrMake(groups, key, () => ({ at: [], classes: new Set<string>() }));
    group.at.push(i);
    group.classes.add(name);
  }
  return groups;
}

/**
 * Splits by recordings: all examples of one recording are in one split, and so is every example without one. Stratified
 * by the set of classes that a recording has: per set and split, the expected number of recordings rounded up or down; of fewer
 * than 100 recordings, at least one where there are enough.
 * @throws DataError for shares that are none, and for fewer recordings than splits that must not be empty
 */
export function splitByRecording(entries: readonly Entry[], sizes: SplitSizes, seed: number): Split[] {
  const groups = [...recordings(entries).values()];
  const wanted = SPLITS.filter((split) => sizes[split] > 0);
  if (groups.length < wanted.length) {
    throw new DataError(
      `${groups.length} ${groups.length === 1 ? 'recording' : 'recordings'} for ${wanted.length} splits (${wanted.join(', ')}); ` +
        'windows of one recording stay together: give more recordings, or fewer splits with --shares',
    );
  }
  const drawn = stratified(
    groups.map(({ classes }) => [...classes].sort().join('\n')),
    sizes,
    seed,
  );
  const result: Split[] = new Array(entries.length);
  for (const [g, { at }] of groups.entries()) for (const i of at) result[i] = drawn[g]!;
  return result;
}

function checkCount(key: string, value: number): void {
  if (!Number.isInteger(value) || value < 1) {
    throw new ConfigError(`${key}: got ${value}, expected a whole number of at least 1`);
  }
}

/**
 * A subset of at most `count` items with the classes in proportion: per class the expected number, off by less than one.
 * @returns positions of those kept, ascending
 * @throws ConfigError unless `count` is a whole number of at least 1
 */
export function stratifiedSubset(classes: readonly string[], count: number, seed: number): number[] {
  checkCount('--count', count);
  if (count >= classes.length) return classes.map((_, i) => i);
  const groups = byClass(classes);
  const sizes = apportion(
    count,
    groups.map(([, at]) => at.length),
  );
  return groups
    .flatMap(([name, at], g) => shuffled(at, seed, `subset/${name}`).slice(0, sizes[g]!))
    .sort((a, b) => a - b);
}

/**
 * `shots` items of every class. A draw of more shots holds that of fewer.
 * @returns positions of those kept, ascending
 * @throws ConfigError unless `shots` is a whole number of at least 1; DataError for a class with fewer items
 */
export function fewShots(classes: readonly string[], shots: number, seed: number): number[] {
  checkCount('--shots', shots);
  return byClass(classes)
    .flatMap(([name, at]) => {
      if (at.length < shots) {
        throw new DataError(`--shots ${shots}: class '${name}' has ${at.length} examples to train on`);
      }
      return shuffled(at, seed, `subset/${name}`).slice(0, shots);
    })
    .sort((a, b) => a - b);
}
