/** Keys: the columns of a table that tell apart series whose rows are mixed. */
import { chosenColumn } from './csv.ts';
import { isNumeric, MINIMUM_SAMPLES, type Table, type TableColumn, TableRows } from './recording-table.ts';
import { mergeRows, type Rows, runsOf, type Sampled, sampleEvenly, sortRows } from './sampling.ts';

/** Values of a key column: with more it is no key. */
const MOST_KEYS = 1000;
/** The share of times with several rows from which on the rows are of several series. */
const MIXED = 0.1;

/** Which key each row has, as a number in order of appearance. */
export interface Keys {
  readonly columns: readonly number[];
  readonly names: readonly string[];
  readonly ids: Int32Array;
}

/** The keys of each row by each set of columns; null for a set with more keys than any key has. */
export function readKeys(table: Table, sets: readonly (readonly number[])[], most: number): (Keys | null)[] {
  const found = sets.map(() => ({
    seen: new Map<string, number>(),
    ids: new Int32Array(table.lines.length),
    full: false,
  }));
  let row = 0;
  new TableRows(table.text, table.file, table.layout).each((records) => {
    if (row === table.lines.length) return;
    for (const [k, one] of found.entries()) {
      if (one.full) continue;
      const set = sets[k]!;
      let name = records.field(set[0]!);
      for (let i = 1; i < set.length; i++) name += ` / ${records.field(set[i]!)}`;
      let id = one.seen.get(name);
      if (id === undefined) {
        id = one.seen.size;
        one.seen.set(name, id);
        one.full = one.seen.size > most;
      }
      one.ids[row] = id;
    }
    row++;
  });
  return found.map(({ seen, ids, full }, k) =>
    full ? null : { columns: sets[k]!, names: [...seen.keys()], ids },
  );
}

/** Columns of a key: one, or several as `host,metric`. */
export function keyColumns(columns: readonly TableColumn[], wanted: string | number, file: string): number[] {
  const whole = columns.some(({ name }) => name.toLowerCase() === String(wanted).toLowerCase());
  const parts = whole ? [String(wanted)] : String(wanted).split(',');
  return parts.map((part) => chosenColumn(columns, part.trim(), file, '--key'));
}

/**
 * The columns that tell series apart whose rows are mixed: where many times have several rows, columns of which each of these rows has
 * another value; where the times are uneven, columns by which each series is even. Null where the rows are one series, or nothing splits
 * them.
 */
export function findKey(table: Table, all: Rows, values: readonly number[]): Keys | null {
  const open = table.columns.flatMap((column, i) => {
    if (table.timeColumns.includes(i) || values.includes(i) || column.survey.filled === 0) return [];
    const { plain, filled, points } = column.survey;
    const whole = plain === filled && points.decimal + points.either === 0;
    return whole || !isNumeric(column) ? [i] : [];
  });
  if (open.length === 0) return null;
  const { rows, order } = sortRows(all);
  const ends = runsOf(rows.time);
  let several = 0;
  for (let run = 0; run < ends.length; run++)
    if (ends[run]! - (run === 0 ? 0 : ends[run - 1]!) > 1) several++;
  const shared = several >= MIXED * ends.length;
  const isText = (set: readonly number[]): boolean => set.every((i) => !isNumeric(table.columns[i]!));
  const candidates = shared ? open : open.filter((i) => isText([i]));
  if (candidates.length === 0) return null;
  if (!shared && (several > 0 || ends.length < 8 || sampleEvenlyOrNull(rows) !== null)) return null;
  const pairs = candidates.flatMap((a, k) => candidates.slice(k + 1).map((b) => [a, b]));
  const sets = [...candidates.map((i) => [i]), ...pairs.filter(isText).slice(0, 20)].slice(0, 60);
  const most = Math.min(MOST_KEYS, Math.floor(table.lines.length / 2));
  const fitting = readKeys(table, sets, most).filter((keys): keys is Keys => {
    if (keys === null || keys.names.length < 2) return false;
    return shared ? splitsRuns(keys.ids, order, ends) : splitsEvenly(keys, all);
  });
  // Words before numbers, one column before two, few keys before many.
  const rank = (keys: Keys): number =>
    (isText(keys.columns) ? 0 : 1e6) + 1e4 * keys.columns.length + keys.names.length;
  return fitting.sort((a, b) => rank(a) - rank(b))[0] ?? null;
}

/** Whether rows of one time have different keys, in nearly all of the times with several rows. */
function splitsRuns(ids: Int32Array, order: Uint32Array, ends: Uint32Array): boolean {
  let [several, split] = [0, 0];
  for (let run = 0; run < ends.length; run++) {
    const start = run === 0 ? 0 : ends[run - 1]!;
    if (ends[run]! - start < 2) continue;
    several++;
    const seen = new Set<number>();
    for (let i = start; i < ends[run]!; i++) seen.add(ids[order[i]!]!);
    if (seen.size === ends[run]! - start) split++;
  }
  return split >= 0.99 * several;
}

/** Whether each key has samples at even steps, which together are uneven. */
function splitsEvenly({ names, ids }: Keys, all: Rows): boolean {
  const times = names.map((): number[] => []);
  for (let i = 0; i < ids.length; i++) times[ids[i]!]!.push(all.time[i]!);
  return times.every((some) => {
    const time = Float64Array.from(some).sort();
    return (
      time.length >= 4 &&
      sampleEvenlyOrNull({ time, values: [], lines: new Int32Array(time.length) }) !== null
    );
  });
}

/** The sampling of rows whose times are even as they are; null for others. */
function sampleEvenlyOrNull({ time, lines }: Rows): Sampled | null {
  const { rows } = mergeRows({ time, values: [], lines });
  if (rows.time.length < MINIMUM_SAMPLES) return null;
  const sampled = sampleEvenly(rows, null);
  return sampled.resampled ? null : sampled;
}
