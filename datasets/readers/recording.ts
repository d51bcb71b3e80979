/** Recordings: tables of measurements with their time, read as they come from the field, and what had to be assumed to read them. */
import { ConfigError, DataError, reasonOf, suggestion } from '../../src/errors.ts';
import { readBytes } from '../../src/files.ts';
import { checkZone, formatDuration, formatTime, HOUR, parseInstant, type TimeOrigin } from './clock.ts';
import { chosenColumn, listed, NUMBER, show } from './csv.ts';
import { BLANKS, CsvRecords } from './csv-records.ts';
import { ColumnSurvey, kindOf, type NumberFormat, readNumber } from './number-format.ts';
import { Column, stem } from './record.ts';
import {
  type Gap,
  mergeRows,
  type Rows,
  rowsAt,
  runsOf,
  type Sampled,
  sampleEvenly,
  sortRows,
} from './sampling.ts';
import { type TableLayout, tableLayout } from './table-layout.ts';
import { decodeText } from './text-encoding.ts';
import {
  countsTime,
  findTime,
  isTimeName,
  type Note,
  planOf,
  type ReadTimes,
  type SampledColumn,
  TimeColumn,
} from './time-column.ts';

export { formatDuration, formatTime, wallTime } from './clock.ts';
export type { Gap } from './sampling.ts';
export type { Note } from './time-column.ts';

export interface RecordingColumn {
  readonly name: string;
  /** [N]; NaN where a value is missing. */
  readonly values: Float64Array;
}

export interface Recording {
  /** File name without its extension. */
  readonly name: string;
  /** The value of the key column that this series was told apart by; null where the file is one series. */
  readonly key: string | null;
  /** One or several columns of values. */
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
  /** What 0 ms is: 1970 UTC, midnight of the first day (clocks without dates), or the beginning (elapsed time). */
  readonly origin: TimeOrigin;
  /** Stretches without samples, longer than one and a half steps. */
  readonly gaps: readonly Gap[];
  /** What was assumed or done, one plain sentence each, with counts and the first example. */
  readonly notes: readonly Note[];
  /** [N] the line of the file that a sample is of, counted from 1; -1 for one that stands for a gap or was interpolated. */
  readonly rows: Int32Array;
}

export interface RecordingOptions {
  /** Columns of values: headers, or numbers from 1. Default: every column of numbers that is neither time nor key. */
  readonly columns?: readonly (string | number)[] | undefined;
  /** The column of time, or two of them as `date,clock`. */
  readonly time?: string | number | undefined;
  /** The column, or several as `host,metric`, that tells apart series whose rows are mixed. */
  readonly key?: string | number | undefined;
  /** The series to read, by its value in the key column. */
  readonly select?: string | undefined;
  /** The zone that stamps without one are of, and in which times are shown: an IANA name, `UTC`, or `+02:00`. */
  readonly tz?: string | undefined;
  /** Earlier samples are left out: a time, or a duration such as `7d` before the last sample. */
  readonly since?: string | undefined;
  /** Name of what is given as bytes. */
  readonly name?: string | undefined;
}

/** Columns of values that are read at once unless they are named. */
const MOST_COLUMNS = 64;
const MINIMUM_SAMPLES = 2;
/** Words among numbers are missing values up to this share. */
const FEW = 0.01;
/** Units that multiply: with and without them are numbers of another size. */
const MAGNITUDE = /^(?:[kmgtb]|mn|bn|mio|mrd|[kmgt]i?b)$/i;
/** Values of a key column: with more it is no key. */
const MOST_KEYS = 1000;
/** Keys that a message lists. */
const LISTED_KEYS = 20;
/** The share of times with several rows from which on the rows are of several series. */
const MIXED = 0.1;

/**
 * Reads one recording from a file, or from its bytes. Tolerates, and says in its notes: any order of rows, repeated rows, gaps, uneven and
 * jittered times, local times, European numbers, units, comments, encodings; `tableLayout`, `parseStamp` and `sampleEvenly` say how.
 *
 * @throws DataError with file, line and column for cells that are neither number nor time; with the file for one without numbers,
 * with fewer than two samples, or with several series that a key tells apart. ConfigError for options that name what is not there
 */
export function readRecording(source: string | Uint8Array, options: RecordingOptions = {}): Recording {
  const { table, series, key } = openSeries(source, options);
  if (series.length === 1) return series[0]!.read();
  const names = series.map(({ name }) => name!);
  const first = /[^\w.-]/.test(names[0]!) ? show(names[0]!) : names[0]!;
  throw new DataError(
    `${names.length} series in one file, told apart by column ${show(key)}: ${keysListed(names)}; read one of them with --key ${/\s/.test(key) ? show(key) : key} --select ${first}`,
    { file: table.file },
  );
}

/** As `readRecording`, one recording for each value of the key column, in order of the file; one where the file has no key. */
export function readRecordings(source: string | Uint8Array, options: RecordingOptions = {}): Recording[] {
  return openSeries(source, options).series.map(({ read }) => read());
}

/** The rows of a table as they stand in the file, before they are sorted, joined and sampled. */
export interface TimedRows {
  /** Names of the columns; null without a header. */
  readonly header: readonly string[] | null;
  /** [N] the line of each row, counted from 1. */
  readonly lines: Int32Array;
  /** [N] ms; null without a column of time, or with row numbers alone. */
  readonly time: Float64Array | null;
  readonly origin: TimeOrigin;
}

/** When the rows of a file are, in order of the file. @throws as `readRecording`, except for what is wrong with values */
export function readTimes(source: string | Uint8Array, options: RecordingOptions = {}): TimedRows {
  const { layout, lines, times } = openTable(source, options);
  const time = times === null || times.ordinal ? null : times.time;
  return { header: layout.header, lines, time, origin: times?.origin ?? 'start' };
}

/** The series of a file, or the one that is selected. @throws ConfigError for one that is not there */
function openSeries(
  source: string | Uint8Array,
  options: RecordingOptions,
): { table: Table; series: readonly Series[]; key: string } {
  const table = openTable(source, options);
  const { series, key } = seriesOf(table, options);
  const { select } = options;
  if (select === undefined) return { table, series, key };
  const found = series.filter(({ name }) => name === select);
  if (found.length > 0) return { table, series: found, key };
  const names = series.map(({ name }) => name!);
  throw new ConfigError(
    `--select ${select}: column ${show(key)} of ${table.file} has no such value.${suggestion(select, names)} Values: ${keysListed(names)}`,
  );
}

function keysListed(names: readonly string[]): string {
  const more = names.length - LISTED_KEYS;
  return names.slice(0, LISTED_KEYS).map(show).join(', ') + (more > 0 ? ` and ${more} more` : '');
}

interface TableColumn extends SampledColumn {
  name: string;
  readonly survey: ColumnSurvey;
}

interface Table {
  readonly file: string;
  readonly name: string;
  readonly text: string;
  readonly layout: TableLayout;
  readonly columns: readonly TableColumn[];
  /** Columns of time, from 0. */
  readonly timeColumns: readonly number[];
  readonly times: ReadTimes | null;
  /** [rows] line of each row. */
  readonly lines: Int32Array;
  readonly tz: string | null;
  readonly notes: Note[];
}

/** Walks over the rows of a table, without header, comments, blank lines, and repetitions of the header. */
class TableRows {
  repeatedHeaders = 0;
  firstRepeated = 0;
  comments = 0;
  /** The line of a last row that ends early; 0 for none. */
  cut = 0;
  /** Blank lines at the end of an only column, which were visited as empty cells. */
  blankEnd = 0;
  readonly #text: string;
  readonly #file: string;
  readonly #layout: TableLayout;

  constructor(text: string, file: string, layout: TableLayout) {
    this.#text = text;
    this.#file = file;
    this.#layout = layout;
  }

  /**
   * @throws DataError for a row of another width. Fields beyond the last column may be empty; the last row may end early, as that of a
   * file that is being written
   */
  each(visit: (records: CsvRecords) => void): this {
    const { delimiter, skipped, width, header } = this.#layout;
    const records = new CsvRecords(this.#text, delimiter, this.#file, true);
    for (let left = skipped; left > 0 && records.next(); ) if (!records.blank) left--;
    let short: DataError | null = null;
    let rows = 0;
    while (records.next()) {
      if (records.blank) {
        // The empty cell of an only column is a blank line.
        if (width > 1 || rows === 0) continue;
        this.blankEnd++;
        visit(records);
        continue;
      }
      if (short !== null) throw short;
      this.blankEnd = 0;
      if (records.width < width || (records.width > width && !this.#endsEmpty(records))) {
        const more = records.width > width;
        short = new DataError(
          `${plural(records.width, 'field')} where the others have ${width}${more && delimiter === ',' ? '; if a decimal comma splits a number, separate the fields by semicolons' : ''}`,
          records.place(Math.min(records.width, width) - 1),
        );
        if (more) throw short;
        this.cut = records.line;
        continue;
      }
      if (header !== null && this.#isHeader(records, header)) {
        if (this.repeatedHeaders++ === 0) this.firstRepeated = records.line;
        continue;
      }
      rows++;
      visit(records);
    }
    if (short !== null && rows < MINIMUM_SAMPLES) throw short;
    this.comments = records.comments;
    return this;
  }

  #endsEmpty(records: CsvRecords): boolean {
    for (let i = this.#layout.width; i < records.width; i++) if (records.field(i) !== '') return false;
    return true;
  }

  #isHeader(records: CsvRecords, header: readonly string[]): boolean {
    let named = false;
    for (let i = 0; i < header.length; i++) {
      if (records.field(i) !== header[i]) return false;
      named ||= header[i] !== '';
    }
    return named;
  }
}

const plural = (count: number, one: string, many = `${one}s`): string =>
  `${count} ${count === 1 ? one : many}`;

/** "load (column 3)" for a column whose name another has, too. */
function freeName(names: readonly string[], index: number): string {
  let name = `${names[index]} (column ${index + 1})`;
  while (names.includes(name)) name += ' again';
  return name;
}

function openTable(source: string | Uint8Array, options: RecordingOptions): Table {
  const file = typeof source === 'string' ? source : (options.name ?? 'recording');
  const tz = options.tz === undefined ? null : checkZone(options.tz);
  let bytes: Uint8Array;
  try {
    bytes = typeof source === 'string' ? readBytes(source) : source;
  } catch (cause) {
    if (cause instanceof DataError) throw cause;
    throw new DataError(`cannot be read (${reasonOf(cause)})`, { file, cause });
  }
  const { text, assumed } = decodeText(bytes, file);
  const layout = tableLayout(text, file);
  const notes: Note[] = assumed.map((sentence) => ({ code: 'encoding', text: sentence }));
  if (layout.delimiter !== ',' && layout.width > 1) {
    const names: Readonly<Record<string, string>> = { '\t': 'tabs', ';': 'semicolons', [BLANKS]: 'blanks' };
    notes.push({
      code: 'delimiter',
      text: `Fields are separated by ${names[layout.delimiter] ?? show(layout.delimiter)}.`,
    });
  }
  const columns = Array.from({ length: layout.width }, (_, i): TableColumn => {
    const header = layout.header?.[i] ?? null;
    return {
      name: header === null || header === '' ? `column ${i + 1}` : header,
      header,
      cells: layout.sample.map((row) => row[i] ?? ''),
      survey: new ColumnSurvey(),
    };
  });
  const names = columns.map(({ name }) => name);
  const again = columns.filter(({ name }, i) => names.indexOf(name) < i);
  for (const column of again) column.name = freeName(names, columns.indexOf(column));
  if (again.length > 0)
    notes.push({
      code: 'names',
      text: `Several columns have one name; the later ones are called ${listed(again)}, by their numbers.`,
    });
  const plan =
    options.time === undefined
      ? findTime(columns)
      : planOf(columns, timeColumns(columns, options.time, file), true);
  const lineColumn = new Column();
  const clock = plan === null ? null : new TimeColumn(plan);
  const inTime = (i: number): boolean => plan?.columns.some((one) => one === i) ?? false;
  const surveyed = columns.map((_, i) => i).filter((i) => !inTime(i));
  const walk = new TableRows(text, file, layout).each((records) => {
    clock?.add(records);
    lineColumn.push(records.line);
    for (const i of surveyed) columns[i]!.survey.add(records.field(i));
  });
  const lines = Int32Array.from(lineColumn.take());
  const times = clock?.finish(lines, file, tz) ?? null;
  if (times === null && tz !== null) throw new ConfigError(`--tz ${tz}: ${file} has no column of time`);
  if (layout.preamble > 0)
    notes.push({
      code: 'comments',
      text: `${plural(layout.preamble, 'line')} above the table ${layout.preamble === 1 ? 'was' : 'were'} skipped.`,
    });
  if (walk.comments > 0)
    notes.push({ code: 'comments', text: `${plural(walk.comments, 'comment line')} skipped.` });
  if (layout.units !== null)
    notes.push({
      code: 'units',
      text: `The row below the header holds words alone (${layout.units
        .filter((one) => one !== '')
        .slice(0, 5)
        .map(show)
        .join(', ')}) and was skipped.`,
    });
  if (walk.repeatedHeaders > 0)
    notes.push({
      code: 'header',
      text: `The header comes again ${plural(walk.repeatedHeaders, 'time')}, first in line ${walk.firstRepeated}; these lines were skipped.`,
    });
  if (walk.cut > 0)
    notes.push({ code: 'cut', text: `Line ${walk.cut}, the last, ends early and was left out.` });
  const unread =
    plan === null ? columns.find(({ header, survey }) => isTimeName(header) && survey.unread > 0) : undefined;
  if (unread !== undefined) {
    notes.push({
      code: 'no-time',
      text: `Column ${show(unread.name)} is not read as time: ${show(unread.cells[0] ?? '')} is no date or clock that is known; write it as 2024-03-01 14:05. The samples have their numbers alone.`,
    });
  }
  return {
    file,
    name: stem(file),
    text,
    layout,
    columns,
    timeColumns: plan?.columns ?? [],
    times,
    lines: walk.blankEnd > 0 ? lines.slice(0, -walk.blankEnd) : lines,
    tz,
    notes: [...notes, ...(times?.notes ?? [])],
  };
}

/** The column of time that was named, or two of them as `date,clock`. */
function timeColumns(
  columns: readonly TableColumn[],
  wanted: string | number,
  file: string,
): readonly [number] | readonly [number, number] {
  const parts = String(wanted).split(',');
  const whole = columns.some(({ name }) => name.toLowerCase() === String(wanted).toLowerCase());
  if (parts.length !== 2 || whole) return [chosenColumn(columns, wanted, file, '--time')];
  const [date, clock] = parts.map((part) => chosenColumn(columns, part.trim(), file, '--time'));
  return [date!, clock!];
}

/** Columns of a key: one, or several as `host,metric`. */
function keyColumns(columns: readonly TableColumn[], wanted: string | number, file: string): number[] {
  const whole = columns.some(({ name }) => name.toLowerCase() === String(wanted).toLowerCase());
  const parts = whole ? [String(wanted)] : String(wanted).split(',');
  return parts.map((part) => chosenColumn(columns, part.trim(), file, '--key'));
}

const isTruth = ({ survey }: TableColumn): boolean =>
  survey.truths > 0 && survey.truths + survey.missing === survey.filled;

/** Whether a column is mostly of numbers, or of `true` and `false`. */
const isNumeric = (column: TableColumn): boolean =>
  (column.survey.numbers > 0 && column.survey.numbers >= column.survey.unread) || isTruth(column);

/** Columns of values, from 0. */
function valueColumns(table: Table, wanted: RecordingOptions['columns'], keys: readonly number[]): number[] {
  const { columns, file, timeColumns: taken, times } = table;
  if (wanted !== undefined) {
    if (wanted.length === 0) throw new ConfigError('columns: at least one is needed');
    return [...new Set(wanted.map((one) => chosenColumn(columns, one, file, '--column')))];
  }
  const numeric = columns.flatMap((column, i) =>
    !taken.includes(i) && !keys.includes(i) && isNumeric(column) ? [i] : [],
  );
  const left = numeric.filter((i) => !(times !== null || numeric.length > 1) || !countsTime(columns[i]!, i));
  const chosen = left.length > 0 ? left : numeric;
  if (chosen.length === 0) {
    const marked = columns.findIndex(
      ({ survey }, i) => !taken.includes(i) && survey.filled === survey.missing + survey.infinite,
    );
    if (marked >= 0)
      throw new DataError(`column ${show(columns[marked]!.name)} holds no number; remove it, or fill it`, {
        file,
      });
    if (columns.length - taken.length === 1) return [columns.findIndex((_, i) => !taken.includes(i))]; // its first cell says what is wrong
    const seen = columns
      .slice(0, 10)
      .map(({ name, cells }) => `${show(name)} begins with ${show(cells[0] ?? '')}`)
      .join(', ');
    throw new DataError(`no column of numbers beside the time: ${seen}`, { file });
  }
  if (chosen.length > MOST_COLUMNS) {
    throw new DataError(
      `${chosen.length} columns of numbers, more than the ${MOST_COLUMNS} that are read at once: ${listed(chosen.map((i) => columns[i]!))}; name some with --column`,
      { file },
    );
  }
  return chosen;
}

/** The values of columns in order of the file, and notes on how they are written. */
function readValues(table: Table, chosen: readonly number[], notes: Note[]): Float64Array[] {
  const { columns, file, layout, text, lines } = table;
  const commaFile = columns.some(({ survey }) => survey.hasDecimalComma);
  const readers = chosen.map((i) => {
    const { survey } = columns[i]!;
    return {
      index: i,
      column: columns[i]!,
      format: survey.format(commaFile, layout.delimiter === ','),
      truth: isTruth(columns[i]!),
      scaled: MAGNITUDE.test(survey.format(commaFile, layout.delimiter === ',').unit),
      tolerant: survey.words < FEW * survey.filled,
      values: new Float64Array(lines.length),
    };
  });
  const first = { comma: '', thousands: '', word: '', infinite: '' };
  let [words, infinite, row] = [0, 0, 0];
  const other = (cell: string, reader: (typeof readers)[number], records: CsvRecords): number => {
    const { format, column } = reader;
    const value = readNumber(cell, format);
    if (!Number.isNaN(value)) {
      if (Number.isFinite(value)) {
        const said = (): string => `${show(cell)} in line ${records.line} is ${value}`;
        if (format.decimal === ',' && cell.includes(',')) first.comma ||= said();
        else if (/[,.'’ \u00a0\u2009\u202f]\d{3}/.test(cell) && Number.parseFloat(cell) !== value)
          first.thousands ||= said();
        return value;
      }
    }
    const kind = kindOf(cell);
    if (kind === 'missing') return Number.NaN;
    if (kind === 'infinite' || !Number.isNaN(value)) {
      if (infinite++ === 0) first.infinite = `${show(cell)} in line ${records.line}`;
      return Number.NaN;
    }
    if (kind === 'truth' && reader.truth) return cell.toLowerCase() === 'true' ? 1 : 0;
    if (kind === 'word' && reader.tolerant) {
      if (words++ === 0) first.word = `${show(cell)} in line ${records.line}, column ${show(column.name)}`;
      return Number.NaN;
    }
    throw new DataError(
      `${show(cell)} in column ${show(column.name)} is not a number${adviceFor(cell, column, format)}`,
      records.place(reader.index),
    );
  };
  new TableRows(text, file, layout).each((records) => {
    if (row === lines.length) return; // blank lines at the end
    for (const reader of readers) {
      const cell = records.field(reader.index);
      const value =
        cell === ''
          ? Number.NaN
          : reader.format.decimal === '.' && NUMBER.test(cell)
            ? Number(cell)
            : other(cell, reader, records);
      if (reader.scaled && value !== 0 && NUMBER.test(cell))
        throw new DataError(
          `${show(cell)} in column ${show(reader.column.name)} has no ${show(reader.format.unit)}, which most others have; write all of them in one unit`,
          records.place(reader.index),
        );
      reader.values[row] =
        Number.isFinite(value) || Number.isNaN(value) ? value : other(cell, reader, records);
    }
    row++;
  });
  if (first.comma !== '')
    notes.push({ code: 'decimal-comma', text: `Numbers are read with a decimal comma: ${first.comma}.` });
  if (first.thousands !== '')
    notes.push({ code: 'thousands', text: `Separators of thousands were taken out: ${first.thousands}.` });
  for (const { column, format, truth } of readers) {
    if (format.unit !== '' && !truth)
      notes.push({
        code: 'unit',
        text: `${show(format.unit)} was taken off the numbers of column ${show(column.name)}.`,
      });
    if (truth)
      notes.push({
        code: 'boolean',
        text: `Column ${show(column.name)} is read as 1 for true and 0 for false.`,
      });
  }
  if (words > 0)
    notes.push({
      code: 'words',
      text: `${plural(words, 'cell')} of words among the numbers ${words === 1 ? 'is' : 'are'} taken as missing, the first ${first.word}.`,
    });
  if (infinite > 0)
    notes.push({
      code: 'infinite',
      text: `${plural(infinite, 'value')} that ${infinite === 1 ? 'is' : 'are'} infinite or too large ${infinite === 1 ? 'is' : 'are'} taken as missing, the first ${first.infinite}.`,
    });
  return readers.map(({ values }) => values);
}

function adviceFor(cell: string, { survey, cells }: TableColumn, format: NumberFormat): string {
  if (kindOf(cell) === 'word' && survey.numbers > 0)
    return `; ${plural(survey.words, 'cell')} of ${survey.filled} are words, too many to be taken as missing; remove them, or leave the column out with --column`;
  if (survey.numbers === 0) return '';
  const like = cells.find((one) => one !== cell && !Number.isNaN(readNumber(one, format)));
  return `${like === undefined ? '' : `; others are written like ${show(like)}`}; correct the cell or remove the row`;
}

/** Which key each row has, as a number in order of appearance. */
interface Keys {
  readonly columns: readonly number[];
  readonly names: readonly string[];
  readonly ids: Int32Array;
}

/** The keys of each row by each set of columns; null for a set with more keys than any key has. */
function readKeys(table: Table, sets: readonly (readonly number[])[], most: number): (Keys | null)[] {
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

interface Series {
  /** Its key; null where the file has none. */
  readonly name: string | null;
  readonly read: () => Recording;
}

/** The series of a file: one, or one for each key, where a column was named as key or tells apart rows of the same times. */
function seriesOf(table: Table, options: RecordingOptions): { series: Series[]; key: string } {
  const { columns, file, times, lines } = table;
  if (lines.length < MINIMUM_SAMPLES)
    throw new DataError(
      `${plural(lines.length, 'row')} of data; a recording needs at least ${MINIMUM_SAMPLES}`,
      { file },
    );
  const asked = options.key === undefined ? [] : keyColumns(columns, options.key, file);
  if (asked.length === 0 && options.select !== undefined && times === null)
    throw new ConfigError(`--select ${options.select}: name the column with --key`);
  const chosen = valueColumns(table, options.columns, asked);
  const notes = [...table.notes];
  const values = readValues(table, chosen, notes);
  const all: Rows = { time: times?.time ?? new Float64Array(lines.length), values, lines };
  const found =
    asked.length > 0
      ? readKeys(table, [asked], Number.POSITIVE_INFINITY)[0]!
      : times === null || times.ordinal
        ? null
        : findKey(table, all, options.columns === undefined ? [] : chosen);
  if (found === null) {
    if (options.select !== undefined)
      throw new ConfigError(
        `--select ${options.select}: ${file} holds one series; name the column with --key`,
      );
    return {
      series: [{ name: null, read: () => recordingOf(table, all, chosen, null, notes, options) }],
      key: '',
    };
  }
  const key = found.columns.map((i) => columns[i]!.name).join(',');
  const kept = chosen.flatMap((i, k) => (found.columns.includes(i) ? [] : [k]));
  if (kept.length === 0)
    throw new DataError(`no column of numbers beside the time and the key ${show(key)}`, { file });
  // Rows by key, those of one in order of the file.
  const ends = new Int32Array(found.names.length);
  for (const id of found.ids) ends[id]!++;
  for (let id = 1; id < ends.length; id++) ends[id]! += ends[id - 1]!;
  const byKey = new Int32Array(found.ids.length);
  const next = Int32Array.from(ends, (_, id) => (id === 0 ? 0 : ends[id - 1]!));
  for (let i = 0; i < found.ids.length; i++) byKey[next[found.ids[i]!]!++] = i;
  const series = found.names.map((name, id): Series => {
    const read = (): Recording => {
      const order = byKey.subarray(id === 0 ? 0 : ends[id - 1]!, ends[id]!);
      const rows = rowsAt({ ...all, values: kept.map((k) => values[k]!) }, order);
      const text = `Of ${plural(found.names.length, 'series', 'series')} told apart by column ${show(key)}, this is ${show(name)}: ${order.length} of ${lines.length} rows.`;
      return recordingOf(
        table,
        rows,
        kept.map((k) => chosen[k]!),
        name,
        [...notes, { code: 'split', text }],
        options,
      );
    };
    return { name, read };
  });
  return { series, key };
}

/**
 * The columns that tell series apart whose rows are mixed: where many times have several rows, columns of which each of these rows has
 * another value; where the times are uneven, columns by which each series is even. Null where the rows are one series, or nothing splits
 * them.
 */
function findKey(table: Table, all: Rows, values: readonly number[]): Keys | null {
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

/** Rows of one series, in order of the file, as a recording. */
function recordingOf(
  table: Table,
  series: Rows,
  columns: readonly number[],
  key: string | null,
  tableNotes: readonly Note[],
  options: RecordingOptions,
): Recording {
  const { file, times } = table;
  const notes = [...tableNotes];
  const kept = withNumbers(series, columns, table, options.columns !== undefined, notes);
  const all: Rows = { ...series, values: kept.map((k) => series.values[k]!) };
  const chosen = kept.map((k) => columns[k]!);
  const named = (rows: Rows): RecordingColumn[] =>
    rows.values.map((values, k) => ({ name: table.columns[chosen[k]!]!.name, values }));
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
        code: 'sorted',
        text: `The rows were sorted by their numbers${sorted.late > 0 ? `; ${sorted.late} of ${rows.lines.length} were out of order, the first in line ${all.lines[sorted.firstLate]}` : ''}.`,
      });
    return {
      ...base,
      columns: named(rows),
      time: null,
      step: null,
      zone: null,
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
        `no sample since ${options.since}; the last is of ${formatTime(rows.time.at(-1) ?? 0, { zone, step: null, origin })}`,
        { file },
      );
    if (from > 0) {
      notes.push({
        code: 'since',
        text: `${plural(from, 'earlier sample')} left out by --since ${options.since}.`,
      });
      rows = rowsAt(
        rows,
        Uint32Array.from({ length: rows.time.length - from }, (_, i) => from + i),
      );
    }
  }
  if (rows.time.length < MINIMUM_SAMPLES) throw few(rows.time.length);
  const sampled = sampleEvenly(rows, zone);
  const form = { zone, step: sampled.step, origin };
  const at = (ms: number): string => formatTime(ms, form);
  if (sorted.late > 0) {
    const { firstLate, before, late } = sorted;
    const order = sorted.descending ? 'The rows are in descending order of time; ' : '';
    notes.push({
      code: 'sorted',
      text: `${order}${late} of ${all.lines.length} rows were out of order, the first in line ${all.lines[firstLate]} (${at(all.time[firstLate]!)} after ${at(all.time[before]!)}); they were sorted.`,
    });
  } else if (sorted.descending)
    notes.push({ code: 'sorted', text: 'The rows are in descending order of time and were turned round.' });
  if (merged.repeated > 0)
    notes.push({
      code: 'duplicates',
      text: `${plural(merged.repeated, 'row')} that ${merged.repeated === 1 ? 'repeats another was' : 'repeat others were'} dropped, the first in line ${firstRepeated}.`,
    });
  if (firstAveraged !== null)
    notes.push({
      code: 'duplicates',
      text: `${plural(merged.averaged, 'time stamp')} ${merged.averaged === 1 ? 'has' : 'have'} several rows of different values, the first ${at(firstAveraged.ms)} in line ${firstAveraged.line}; their mean is used.${firstAveraged.inOneHour ? ' If this is the hour that is there twice where clocks are set back, --tz with the zone reads both.' : ''}`,
    });
  noteSampling(sampled, rows.time.length, at, notes);
  return {
    ...base,
    columns: named(sampled.rows),
    time: sampled.rows.time,
    step: sampled.step,
    zone,
    origin,
    gaps: sampled.gaps,
    notes,
    rows: sampled.rows.lines,
  };
}

/**
 * Says what is missing, and leaves out columns that hold no number unless they were asked for; gives the ones that are left.
 *
 * @throws DataError where none is left, or one was asked for
 */
function withNumbers(
  rows: Rows,
  chosen: readonly number[],
  table: Table,
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
      notes.push({ code: 'left-out', text: `Column ${show(name)} holds no number and was left out.` });
      continue;
    }
    kept.push(k);
    missing += here;
    if (here > 0 && (first === null || line < first.line)) first = { line, name };
  }
  if (first !== null)
    notes.push({
      code: 'missing',
      text: `${plural(missing, 'value')} missing, the first in line ${first.line}, column ${show(first.name)}.`,
    });
  return kept;
}

function noteSampling(sampled: Sampled, samples: number, at: (ms: number) => string, notes: Note[]): void {
  const { step, gaps, calendar } = sampled;
  const percent = (share: number): string => `${Number((100 * share).toPrecision(2))} %`;
  if (calendar !== null)
    notes.push({
      code: 'calendar',
      text: `The samples are one for each ${calendar === 'weekday' ? 'working day' : calendar}, and kept as they are.`,
    });
  if (sampled.jittered > 0 && sampled.jitter > 0)
    notes.push({
      code: 'jitter',
      text: `${plural(sampled.jittered, 'sample')} of ${samples} ${sampled.jittered === 1 ? 'is' : 'are'} off an even step of ${formatDuration(step)}, most of them by ${percent(sampled.jitter)} of it or less; all are kept as they are.`,
    });
  if (sampled.resampled)
    notes.push({
      code: 'resampled',
      text: `The samples are unevenly spaced (${formatDuration(sampled.shortest)} to ${formatDuration(sampled.longest)} apart); ${samples} samples were interpolated to ${sampled.rows.time.length}, one every ${formatDuration(step)}.`,
    });
  if (gaps.length === 0) return;
  const missing = gaps.reduce((sum, gap) => sum + gap.missing, 0);
  const longest = gaps.reduce((a, b) => (b.to - b.from > a.to - a.from ? b : a));
  const which = gaps.length === 1 ? 'from' : 'the longest from';
  const what = sampled.jumps ? '; they are too long to be filled, and the time jumps there' : '';
  notes.push({
    code: 'gaps',
    text: `${plural(gaps.length, 'gap')} without samples (${missing} missing at a step of ${formatDuration(step)}), ${which} ${at(longest.from)} to ${at(longest.to)}${what}.`,
  });
}
