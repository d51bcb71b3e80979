/** Recordings: tables of measurements with their times, read tolerantly; notes name every assumption. */
import { ConfigError, DataError, suggestion } from '../../src/ground/errors.ts';
import { show } from '../../src/ground/json-record.ts';
import { plural } from '../../src/ground/numbers.ts';
import { firstNames, onOneLine, shellWord } from '../../src/ground/terminal.ts';
import { checkZone, formatDuration, formatTime, HOUR, parseInstant, type TimeOrigin } from './clock.ts';
import { chosenColumn, listed } from './csv.ts';
import { ANNOTATED } from './line-forms.ts';
import { counterOf, intervalChanges, type Note, rateOf, sentinelsOf, valueFaults } from './quality.ts';
import { findKey, MOST_COLUMNS, readKeys, readValues, valueColumns } from './recording-columns.ts';
import {
  laterRows,
  MINIMUM_SAMPLES,
  namedColumns,
  openTable,
  type Table,
  type TableOptions,
} from './recording-table.ts';
import { type Gap, mergeRows, type Rows, rowsAt, type Sampled, sampleEvenly, sortRows } from './sampling.ts';
import { joinRows } from './side-by-side.ts';
import type { ReadTimes } from './time-column.ts';

export { formatDuration, formatTime, wallTime } from './clock.ts';
export type { Note } from './quality.ts';
export type { Gap } from './sampling.ts';

interface RecordingColumn {
  readonly name: string;
  /** [N]; NaN where a value is missing. */
  readonly values: Float64Array;
}

export interface Recording {
  /** File name without its extension. */
  readonly name: string;
  /** Value of the key column; null where the file holds one series. */
  readonly key: string | null;
  readonly columns: readonly RecordingColumn[];
  /** [N] ms, strictly ascending; since 1970 UTC, or what `origin` says. Null without a column of time, or with row numbers alone. */
  readonly time: Float64Array | null;
  /** Sampling step in ms: the times are evenly spaced, apart from jitter, calendar steps and jumps that the notes name. */
  readonly step: number | null;
  /**
   * The zone in which times are shown: `UTC`, `+02:00`, or an IANA name. Null where stamps name none: they are taken as UTC for
   * arithmetic, and shown as written.
   */
  readonly zone: string | null;
  /**
   * The zone whose clock the days of the series follow: `zone` where it was needed to read the stamps. Stamps that name their instants by
   * themselves have their own, so that `tz` changes how they are shown and nothing else.
   */
  readonly clockZone: string | null;
  /** Meaning of 0 ms: 1970 UTC, midnight of the first day (clocks without dates), or the beginning (elapsed time). */
  readonly origin: TimeOrigin;
  /** Stretches without samples, longer than one and a half steps. */
  readonly gaps: readonly Gap[];
  /** Assumptions and corrections, one plain sentence each, with counts and the first example. */
  readonly notes: readonly Note[];
  /** [N] the line of the file that a sample is of, counted from 1; -1 for one that stands for a gap or was interpolated. */
  readonly rows: Int32Array;
}

export interface RecordingOptions extends TableOptions {
  /** Columns of values: headers, or numbers from 1. Default: every column of numbers that is neither time nor key. */
  readonly columns?: readonly (string | number)[] | undefined;
  /** Column, or several as `host,metric`, that separates series whose rows are mixed. */
  readonly key?: string | number | undefined;
  /** The series to read, by its value in the key column; `*`: all of them, each value column of each series as a column. */
  readonly select?: string | undefined;
  /** Start of the samples to read: a time, or a duration such as `7d` before the last sample. */
  readonly since?: string | undefined;
  /** Keep numbers that stand for a missing value, such as -999. Default: they are missing. */
  readonly keepSentinels?: boolean | undefined;
  /** Counters to read as rates per second, by name or number; `auto`: all columns that look like counters. Default: none. */
  readonly rate?: readonly (string | number)[] | undefined;
}

/** Keys in a message at most, and values of an only row from which it is taken for a series. */
const [LISTED_KEYS, LONG_ROW] = [20, 10];

/**
 * Reads one recording from a file, or from its bytes. Tolerates, with notes: any order of rows, repeated rows, gaps, uneven and
 * jittered times, local times, European numbers, units, comments, encodings; `tableLayout`, `parseStamp` and `sampleEvenly` say how.
 * @throws DataError with file, line and column for cells that are neither number nor time; with the file for one without numbers,
 * with fewer than two samples, or with several series that a key separates. ConfigError for options that name what is not there
 */
export function readRecording(source: string | Uint8Array, options: RecordingOptions = {}): Recording {
  const opened = openSeries(source, options);
  if (options.select === ALL && opened.series.length > 1) return sideBySide(opened, options);
  return theSeries(opened).read();
}

/** Value of `select` for all series of a file. */
const ALL = '*';

/**
 * Makes one recording of all series of a file, by their common times.
 * @throws DataError for series without times in common
 */
function sideBySide(
  { table, series, key }: ReturnType<typeof openSeries>,
  options: RecordingOptions,
): Recording {
  const { file, times } = table;
  if (times === null || times.ordinal)
    throw new DataError(`no column of time by which to join the series of column ${show(key)}`, { file });
  const count = series.reduce((sum, { columns }) => sum + columns.length, 0);
  if (count > MOST_COLUMNS)
    throw new DataError(
      `${count} columns of ${series.length} series; at most ${MOST_COLUMNS} stand side by side: choose --column, or one series with --select`,
      { file },
    );
  const joined = joinRows(series.map(({ rows }) => rows()));
  if (joined === null)
    throw new DataError(
      `the ${series.length} series of column ${show(key)} are sampled at different times, so that they cannot stand side by side; choose one with --select`,
      { file },
    );
  const columns = series.flatMap(({ name, columns: own }) =>
    own.map((i) => ({ name: own.length === 1 ? name! : `${name} ${table.columns[i]!.name}` })),
  );
  const text = `${series.length} series of column ${show(key)}, side by side.`;
  // In order of the file, as rows are.
  const order = Uint32Array.from(joined.lines.keys()).sort((a, b) => joined.lines[a]! - joined.lines[b]!);
  const rows = rowsAt(joined, order);
  return recordingOf(
    { ...table, columns },
    rows,
    [...columns.keys()],
    null,
    [...series[0]!.notes, ...joined.notes, { kind: 'split', text }],
    options,
  );
}

/** Returns the only series. @throws DataError naming those that there are */
function theSeries({ table, series, key }: ReturnType<typeof openSeries>): Series {
  if (series.length === 1) return series[0]!;
  const names = series.map(({ name }) => name!);
  const first = /[^\w.-]/.test(names[0]!) ? show(names[0]!) : names[0]!;
  throw new DataError(
    `${names.length} series in one file, separated by column ${show(key)}: ${firstNames(names.map(show), LISTED_KEYS)}; choose one with --key ${/\s/.test(key) ? show(key) : key} --select ${first}, or all with --select '*'`,
    { file: table.file },
  );
}

/** Reads one recording per value of the key column, in file order; one where the file has no key. */
export function readRecordings(source: string | Uint8Array, options: RecordingOptions = {}): Recording[] {
  return openSeries(source, options).series.map(({ read }) => read());
}

/** Reads a recording that grows: its first rows decide how all are read, later rows are read alone, and numbers are kept. */
export interface RowReader {
  /** Rows of the series among the first ones, in order of the file. */
  readonly first: ReadRows;
  /** Reads later rows; lines are counted from the beginning of the text. @throws DataError as `readRecording` */
  read(text: string): ReadRows;
  /** Makes a recording of rows: sorted, merged, at an even step. @throws DataError for fewer than two */
  recording(rows: Rows): Recording;
}

/** Rows of one series, the lines of all rows that were read, those of other series included, and notes on them. */
interface ReadRows extends Rows {
  readonly read: Int32Array;
  readonly notes: readonly Note[];
}

/**
 * Opens a recording that grows by its first rows, with their header.
 * @throws as `readRecording`; DataError without a header, or without a column of time that has dates
 */
export function openRows(source: Uint8Array, options: RecordingOptions): RowReader {
  const all = openSeries(source, { ...options, strict: true });
  const opened = all.table;
  const { file, layout, times } = opened;
  if (opened.rewritten?.form === ANNOTATED)
    throw new DataError(`${ANNOTATED}, whose tables come one after the other, cannot be followed`, { file });
  if (layout.header === null)
    throw new DataError('no header; following a file needs column names in its first row', { file });
  if (times === null || times.ordinal)
    throw new DataError('no time column; following a file needs one (name it with --time)', { file });
  if (times.origin === 'midnight')
    throw new DataError('clock times without dates; following a file needs dates', { file });
  if (options.select === ALL && all.series.length > 1)
    throw new ConfigError(
      `--select ${ALL}: one series is followed; choose one of ${firstNames(
        all.series.map(({ name }) => show(name)),
        LISTED_KEYS,
      )}`,
    );
  const series = theSeries(all);
  let table = opened;
  return {
    first: { ...series.rows(), read: opened.lines, notes: [] },
    read(text) {
      const later = laterRows(table, text);
      const { keys, name, columns } = series;
      const values = readValues(later, columns, []);
      const all: Rows = { time: later.times!.time, values, lines: later.lines };
      const read = { read: later.lines, notes: later.notes };
      table = { ...table, times: later.times };
      if (keys.length === 0) return { ...all, ...read };
      const { names, ids } = readKeys(later, [keys], Number.POSITIVE_INFINITY)[0]!;
      const id = names.indexOf(name!);
      const order = Array.from(ids, (_, i) => i).filter((i) => ids[i] === id);
      return { ...rowsAt(all, order), ...read };
    },
    recording: (rows) => recordingOf(opened, rows, series.columns, series.name, series.notes, options),
  };
}

/** Opens the series of a file, or the selected one. @throws ConfigError for one that is not there */
function openSeries(
  source: string | Uint8Array,
  options: RecordingOptions,
): { table: Table; series: readonly Series[]; key: string } {
  const table = openTable(source, options);
  const { series, key } = seriesOf(table, options);
  const { select } = options;
  if (select === undefined || select === ALL) return { table, series, key };
  const selected = series.filter(({ name }) => name === select);
  if (selected.length > 0) return { table, series: selected, key };
  const names = series.map(({ name }) => name!);
  throw new ConfigError(
    `--select ${select}: column ${show(key)} of ${table.file} has no such value.${suggestion(select, names)} Values: ${firstNames(names.map(show), LISTED_KEYS)}`,
  );
}

interface Series {
  /** Key of the series; null where the file has none. */
  readonly name: string | null;
  /** Indices of the value and key columns. */
  readonly columns: readonly number[];
  readonly keys: readonly number[];
  readonly notes: readonly Note[];
  /** Rows in file order. */
  readonly rows: () => Rows;
  readonly read: () => Recording;
}

/** Series of a file: one, or one per key, where a key column was named or separates rows of the same times. */
function seriesOf(table: Table, options: RecordingOptions): { series: Series[]; key: string } {
  const { columns, file, times, lines } = table;
  if (lines.length < MINIMUM_SAMPLES) {
    const fix =
      columns.length < LONG_ROW
        ? ''
        : `, one for each sample: write the ${columns.length} values one below the other`;
    throw new DataError(
      `${plural(lines.length, 'row')} of data; a recording needs at least ${MINIMUM_SAMPLES}${fix}`,
      { file },
    );
  }
  const { keys: own = [], labels = [] } = table.rewritten ?? {};
  const asked = options.key === undefined ? own : namedColumns(columns, options.key, file, '--key');
  if (asked.length === 0 && options.select !== undefined && options.select !== ALL && times === null)
    throw new ConfigError(`--select ${options.select}: name the column with --key`);
  const notes = [...table.notes];
  const chosen = valueColumns(table, options.columns, [...asked, ...labels], notes);
  const values = readValues(table, chosen, notes);
  const all: Rows = { time: times?.time ?? new Float64Array(lines.length), values, lines };
  const keys =
    asked.length > 0
      ? readKeys(table, [asked], Number.POSITIVE_INFINITY)[0]!
      : times === null || times.ordinal
        ? null
        : findKey(table, all, options.columns === undefined ? [] : chosen);
  if (keys === null) {
    if (options.select !== undefined && options.select !== ALL)
      throw new ConfigError(
        `--select ${options.select}: ${file} holds one series; name the column with --key`,
      );
    const read = (): Recording => recordingOf(table, all, chosen, null, notes, options);
    return { series: [{ name: null, columns: chosen, keys: [], notes, rows: () => all, read }], key: '' };
  }
  const key = keys.columns.map((i) => columns[i]!.name).join(',');
  const kept = chosen.flatMap((i, k) => (keys.columns.includes(i) ? [] : [k]));
  if (kept.length === 0)
    throw new DataError(`no column of numbers beside the time and the key ${show(key)}`, { file });
  // Rows by key, those of one in order of the file.
  const byKey = keys.names.map((): number[] => []);
  for (const [i, id] of keys.ids.entries()) byKey[id]!.push(i);
  const series = keys.names.flatMap((name, id): Series[] => {
    const order = byKey[id]!;
    // Lines of JSON and the like have values of their own each.
    const filled = kept.filter(
      (k) => table.rewritten === null || order.some((i) => !Number.isNaN(values[k]![i]!)),
    );
    if (filled.length === 0) return [];
    const rows = (): Rows => rowsAt({ ...all, values: filled.map((k) => values[k]!) }, order);
    const columns = filled.map((k) => chosen[k]!);
    const read = (): Recording => {
      const text = `Series ${show(name)} of ${keys.names.length}, separated by column ${show(key)}: ${order.length} of ${lines.length} rows.`;
      return recordingOf(table, rows(), columns, name, [...notes, { kind: 'split', text }], options);
    };
    return [{ name, columns, keys: keys.columns, notes, rows, read }];
  });
  return { series, key };
}

/** Series with times in common, as a database gives them, or without times. */
interface SeriesTable {
  readonly name: string;
  /** [N] ms since 1970, ascending; null without times. */
  readonly time: Float64Array | null;
  readonly columns: Recording['columns'];
  readonly notes: readonly Note[];
}

/**
 * Makes a recording of series that no text holds: read as a table is, but for its text. Its samples have no lines (`rows` is negative), so
 * that notes name times, or without them samples from 0.
 * @throws DataError for fewer than two samples, or none with a number; ConfigError for options that name what is not there
 */
export function recordingOfSeries(
  { name, time, columns, notes }: SeriesTable,
  options: Pick<RecordingOptions, 'columns' | 'tz' | 'keepSentinels' | 'rate'>,
): Recording {
  const tz = options.tz === undefined ? null : checkZone(options.tz);
  const chosen =
    options.columns?.map((column) => chosenColumn(columns, column, name)) ?? columns.map((_, i) => i);
  const { length } = columns[0]!.values;
  const rows: Rows = {
    time: time ?? new Float64Array(length),
    values: chosen.map((i) => columns[i]!.values),
    lines: Int32Array.from({ length }, (_, i) => i + 1),
  };
  const zones = { zone: tz ?? 'UTC', clockZone: 'UTC' };
  const times = time && ({ time, ...zones, origin: 'calendar', ordinal: false } as const);
  const recording = recordingOf({ file: name, name, columns, times, tz }, rows, chosen, null, notes, options);
  const place = (line: number): number => (line > 0 ? -1 - line : -1);
  const at = (line: string): string =>
    time === null
      ? `sample ${Number(line) - 1}`
      : formatTime(time[Number(line) - 1]!, { ...zones, step: recording.step, origin: 'calendar' });
  return {
    ...recording,
    rows: recording.rows.map(place),
    notes: recording.notes.map(({ lines, ...note }) => ({
      ...note,
      ...(lines === undefined ? {} : { lines: [place(lines[0]), place(lines[1])] as const }),
      text: notes.some(({ text }) => text === note.text)
        ? note.text
        : note.text.replaceAll(/\b(in )?line (\d+)/g, (_, word, line) => `${word ? 'at ' : ''}${at(line)}`),
    })),
  };
}

/** Parts of a table of which recordings are made. */
type Read = Pick<Table, 'file' | 'name' | 'tz'> & {
  readonly columns: readonly { readonly name: string }[];
  readonly times: Pick<ReadTimes, 'time' | 'zone' | 'clockZone' | 'origin' | 'ordinal'> | null;
};

/** Makes a recording of the rows of one series, which are in file order. */
function recordingOf(
  table: Read,
  series: Rows,
  columns: readonly number[],
  key: string | null,
  tableNotes: readonly Note[],
  options: RecordingOptions,
): Recording {
  const { file, times } = table;
  const notes = [...tableNotes];
  const kept = withNumbers(series, columns, table, options.columns !== undefined, notes);
  const chosen = kept.map((k) => columns[k]!);
  const values = kept.map((k) => series.values[k]!);
  const names = chosen.map((column) => onOneLine(table.columns[column]!.name));
  const all: Rows = {
    ...series,
    values: options.keepSentinels === true ? values : withoutSentinels(values, names, series.lines, notes),
  };
  const named = (rows: Rows): RecordingColumn[] =>
    rows.values.map((values, k) => ({ name: names[k]!, values }));
  const rated = rateColumns(table, chosen, options.rate ?? []);
  const base = { name: table.name, key };
  const few = (count: number): DataError =>
    new DataError(
      `${plural(count, 'sample')}${key === null ? '' : ` of ${show(key)}`}; a recording needs at least ${MINIMUM_SAMPLES}`,
      { file },
    );
  const sorted = times === null ? null : sortRows(all);
  let rows = sorted?.rows ?? all;
  if (sorted === null || times === null || times.ordinal) {
    if (rows.lines.length < MINIMUM_SAMPLES) throw few(rows.lines.length);
    if (sorted !== null && (sorted.late > 0 || sorted.descending))
      notes.push({
        ...(sorted.late === 0 ? { kind: 'order' } : { kind: 'sorted', count: sorted.late }),
        text: `The rows were sorted by their numbers${sorted.late > 0 ? `; ${sorted.late} of ${rows.lines.length} were out of order, the first in line ${all.lines[sorted.firstLate]}` : ''}.`,
      });
    rows = withRates(rows, names, rated, false, notes);
    noteValues(rows, names, null, notes);
    return {
      ...base,
      columns: named(rows),
      time: null,
      step: null,
      zone: null,
      clockZone: null,
      origin: 'start',
      gaps: [],
      notes,
      rows: rows.lines,
    };
  }
  const { zone, origin } = times;
  const merged = mergeRows(rows);
  const firstAveraged =
    merged.firstAveraged < 0
      ? null
      : {
          line: rows.lines[merged.firstAveraged]!,
          ms: rows.time[merged.firstAveraged]!,
          // Clocks are set back on Sundays, and then show one hour twice.
          inOneHour:
            zone === null &&
            origin === 'calendar' &&
            new Date(rows.time[merged.firstAveraged]!).getUTCDay() === 0 &&
            rows.time[merged.lastAveraged]! - rows.time[merged.firstAveraged]! < HOUR,
        };
  const firstRepeated = merged.firstRepeated < 0 ? 0 : rows.lines[merged.firstRepeated]!;
  rows = merged.rows;
  if (options.since !== undefined) {
    const since = parseInstant(options.since, '--since', table.tz ?? zone, rows.time.at(-1) ?? 0);
    const from = rows.time.findIndex((ms) => ms >= since);
    if (from < 0)
      throw new DataError(
        `no sample since ${options.since}; the last is at ${formatTime(rows.time.at(-1) ?? 0, { zone, step: null, origin })}`,
        { file },
      );
    if (from > 0) {
      notes.push({
        kind: 'since',
        text: `${plural(from, 'earlier sample')} left out by --since ${options.since}.`,
      });
      rows = rowsAt(rows, [...rows.time.keys()].slice(from));
    }
  }
  if (rows.time.length < MINIMUM_SAMPLES) throw few(rows.time.length);
  rows = withRates(rows, names, rated, true, notes);
  const sampled = sampleEvenly(rows, times.clockZone);
  const form = { zone, step: sampled.step, origin };
  const at = (ms: number): string => formatTime(ms, form);
  if (sorted.late > 0) {
    const { firstLate, before, late } = sorted;
    const order = sorted.descending ? 'The rows are in descending order of time; ' : '';
    notes.push({
      ...{ kind: 'sorted', count: late, lines: [all.lines[firstLate]!, all.lines[firstLate]!] },
      text: `${order}${late} of ${all.lines.length} rows were out of order, the first in line ${all.lines[firstLate]} (${at(all.time[firstLate]!)} after ${at(all.time[before]!)}); they were sorted.`,
    });
  } else if (sorted.descending)
    notes.push({ kind: 'order', text: 'The rows are in descending order of time and were reversed.' });
  if (merged.repeated > 0)
    notes.push({
      ...{ kind: 'duplicates', count: merged.repeated, lines: [firstRepeated, firstRepeated] },
      text: `${plural(merged.repeated, 'repeated row')} ${merged.repeated === 1 ? 'was' : 'were'} dropped, the first in line ${firstRepeated}.`,
    });
  if (firstAveraged !== null)
    notes.push({
      ...{ kind: 'duplicates', count: merged.averaged, lines: [firstAveraged.line, firstAveraged.line] },
      ...(firstAveraged.inOneHour ? { option: '--tz' } : {}),
      text: `${plural(merged.averaged, 'time stamp')} ${merged.averaged === 1 ? 'has' : 'have'} several rows of different values, the first ${at(firstAveraged.ms)} in line ${firstAveraged.line}; their mean is used.${firstAveraged.inOneHour ? ' If clocks were set back in this hour, set the zone with --tz to keep both readings.' : ''}`,
    });
  noteSampling(sampled, rows, at, notes);
  noteValues(rows, names, at, notes);
  return {
    ...base,
    columns: named(sampled.rows),
    time: sampled.rows.time,
    step: sampled.step,
    zone,
    clockZone: times.clockZone,
    origin,
    gaps: sampled.gaps,
    notes,
    rows: sampled.rows.lines,
  };
}

/**
 * Notes missing values, and leaves out columns without a number unless they were requested.
 * @returns the columns that are left
 * @throws DataError where none is left, or one was asked for
 */
function withNumbers(
  rows: Rows,
  chosen: readonly number[],
  table: Read,
  asked: boolean,
  notes: Note[],
): number[] {
  let missing = 0;
  let first: { line: number; name: string } | null = null;
  const kept: number[] = [];
  for (const [k, column] of rows.values.entries()) {
    const { name } = table.columns[chosen[k]!]!;
    let here = 0;
    let line = 0;
    for (let i = 0; i < column.length; i++) {
      if (!Number.isNaN(column[i]!)) continue;
      here++;
      if (line === 0 || rows.lines[i]! < line) line = rows.lines[i]!;
    }
    if (here === column.length) {
      if (asked || (kept.length === 0 && k === rows.values.length - 1))
        throw new DataError(`column ${show(name)} holds no number; remove it, or fill it`, {
          file: table.file,
        });
      notes.push({ kind: 'left-out', text: `Column ${show(name)} holds no number and was left out.` });
      continue;
    }
    kept.push(k);
    missing += here;
    if (here > 0 && (first === null || line < first.line)) first = { line, name };
  }
  if (first !== null)
    notes.push({
      ...{ kind: 'missing', count: missing, lines: [first.line, first.line] },
      text: `${plural(missing, 'value')} missing, the first in line ${first.line}, column ${show(first.name)}.`,
    });
  return kept;
}

/** Takes numbers that stand for a missing value out of columns [C][N], with a note for each. */
function withoutSentinels(
  columns: readonly Float64Array[],
  names: readonly string[],
  lines: Int32Array,
  notes: Note[],
): Float64Array[] {
  return columns.map((values, k) => {
    const sentinels = sentinelsOf(values);
    for (const { value, rows, first } of sentinels)
      notes.push({
        ...{ kind: 'sentinel', column: names[k]!, count: rows, option: '--keep-sentinels' },
        ...{ lines: [lines[first]!, lines[first]!] },
        text: `${value} in ${plural(rows, 'row')} of column ${show(names[k]!)}, the first in line ${lines[first]}, stands for a missing value (--keep-sentinels keeps it).`,
      });
    const stands = new Set(sentinels.map(({ value }) => value));
    return stands.size === 0 ? values : values.map((value) => (stands.has(value) ? Number.NaN : value));
  });
}

/** Positions of the columns to read as rates; null for those that look like counters. @throws ConfigError for one that is not read */
function rateColumns(table: Read, chosen: readonly number[], wanted: readonly (string | number)[]) {
  if (wanted.includes('auto')) return null;
  return wanted.map((column) => {
    const k = chosen.indexOf(chosenColumn(table.columns, column, table.file, '--rate'));
    if (k >= 0) return k;
    throw new ConfigError(
      `--rate ${column}: not among the columns of values; they are ${listed(chosen.map((i) => table.columns[i]!))}`,
    );
  });
}

/** Makes rates of counters, with a note for each, and for each column that looks like one and is not `rated`. */
function withRates(
  rows: Rows,
  names: readonly string[],
  rated: readonly number[] | null,
  timed: boolean,
  notes: Note[],
): Rows {
  const values = rows.values.map((column, k) => {
    const name = names[k]!;
    const drops = counterOf(column, name);
    if (rated === null ? drops !== null : rated.includes(k)) {
      const per = timed ? 'second' : 'sample';
      notes.push({ kind: 'rate', column: name, text: `Column ${show(name)} is read as a rate per ${per}.` });
      return rateOf(column, timed ? rows.time : null);
    }
    if (drops === null) return column;
    const option = `--rate ${shellWord(name)}`;
    const [first, last] = [drops[0], drops.at(-1)].map((i) => rows.lines[i ?? -1]);
    notes.push({
      ...{ kind: 'counter', column: name, count: drops.length, option },
      ...(first === undefined ? {} : { lines: [first, last!] }),
      text: `Column ${show(name)} looks like a counter: it only rises${first === undefined ? '' : ` and begins again ${plural(drops.length, 'time')}, first in line ${first}`}. Its values are judged as they are; ${option} judges its rate.`,
    });
    return column;
  });
  return { ...rows, values };
}

/** Notes values that are stuck or clipped. */
function noteValues(
  { values, time, lines }: Rows,
  names: readonly string[],
  at: ((ms: number) => string) | null,
  notes: Note[],
): void {
  const place = (i: number): string => (at === null ? `line ${lines[i]}` : at(time[i]!));
  for (const [k, column] of values.entries()) {
    for (const { kind, start, end, count, says } of valueFaults(column)) {
      const where =
        end === column.length ? `since ${place(start)}` : `from ${place(start)} to ${place(end - 1)}`;
      notes.push({
        ...{ kind, column: names[k]!, count, lines: [lines[start]!, lines[end - 1]!] },
        text: `Column ${show(names[k]!)} ${says} ${where} (${plural(count, 'sample')}).`,
      });
    }
  }
}

function noteSampling(
  sampled: Sampled,
  { time, lines }: Rows,
  at: (ms: number) => string,
  notes: Note[],
): void {
  const { step, calendar } = sampled;
  const samples = time.length;
  const changes = intervalChanges(time);
  // Where the interval became longer, the places between are no gaps.
  const usual = changes.reduce((most, { from, to }) => Math.max(most, from, to), 0);
  const gaps = sampled.gaps.filter((gap) => gap.to - gap.from > 1.5 * usual);
  const [first] = changes;
  if (first !== undefined)
    notes.push({
      ...{ kind: 'interval', count: changes.length, lines: [lines[first.at]!, lines[changes.at(-1)!.at]!] },
      text: `The sampling interval changes from ${formatDuration(first.from)} to ${formatDuration(first.to)} at ${at(time[first.at]!)}${changes.length === 1 ? '' : `, and ${plural(changes.length - 1, 'time')} more`}; missing places are bridged, which may look unusual.`,
    });
  const percent = (share: number): string => `${Number((100 * share).toPrecision(2))} %`;
  if (calendar !== null)
    notes.push({
      kind: 'calendar',
      text: `There is one sample per ${calendar === 'weekday' ? 'working day' : calendar}; all are kept as they are.`,
    });
  if (sampled.jittered > 0 && sampled.jitter > 0)
    notes.push({
      kind: 'jitter',
      text: `${plural(sampled.jittered, 'sample')} of ${samples} ${sampled.jittered === 1 ? 'is' : 'are'} off an even step of ${formatDuration(step)}, most of them by ${percent(sampled.jitter)} of it or less; all are kept as they are.`,
    });
  if (sampled.resampled)
    notes.push({
      kind: 'resampled',
      text: `The samples are unevenly spaced (${formatDuration(sampled.shortest)} to ${formatDuration(sampled.longest)} apart); ${samples} samples were interpolated to ${sampled.rows.time.length}, one every ${formatDuration(step)}.`,
    });
  if (gaps.length === 0) return;
  const missing = gaps.reduce((sum, gap) => sum + gap.missing, 0);
  const longest = gaps.reduce((a, b) => (b.to - b.from > a.to - a.from ? b : a));
  const which = gaps.length === 1 ? 'from' : 'the longest from';
  const what = sampled.jumps ? '; they are too long to be filled, so the time jumps there' : '';
  const line = (ms: number): number => lines[time.indexOf(ms)]!;
  notes.push({
    ...{ kind: 'gaps', count: missing, lines: [line(longest.from), line(longest.to)] },
    text: `${plural(gaps.length, 'gap')} without samples (${missing} missing at a step of ${formatDuration(step)}), ${which} ${at(longest.from)} to ${at(longest.to)}${what}.`,
  });
}
