/** CSV files of one series, as people have them: one row per point. */
import { parse } from 'node:path';
import { ConfigError, DataError, reasonOf, suggestion } from '../../src/ground/errors.ts';
import { readBytes } from '../../src/ground/files.ts';
import { CsvRecords, detectDelimiter } from './csv-records.ts';
import { fileFacts, MOST_CHANNELS, pointLabels, type RawRecord, rawRecord, seconds, stem } from './record.ts';

/** A line needs two points. */
const MINIMUM_POINTS = 2;

/** Records after the header by which columns are told apart. */
const SAMPLE = 100;

/** A decimal number; each digit can be matched in one way only, so that a long cell takes no longer than its length. */
export const NUMBER = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$/;
const MISSING = /^(?:[+-]?nan|na|n\/a|null|none|#n\/a|\?)?$/i;
const SPECIAL = /^[+-]?(?:nan|inf|infinity|na|n\/a|null|none|#n\/a|\?)$/i;
const DECIMAL_COMMA = /^[+-]?[\d.]*\d,[\d.,]*\d$/;
const DATE_OR_CLOCK = /^\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}|\d{1,2}:\d{2}/;
/** Headers of columns that hold the time, in any case. */
const TIME_NAME =
  /^(?:times?|timestamps?|dates?|date[_ ]?time|ds|t|index|idx|steps?|epoch|unix(?:[_ ]?time)?|seconds?)$/i;
/** Header that pandas gives to its row numbers. */
const ROW_NUMBER_NAME = /^(?:unnamed: 0|index|idx)?$/i;

/** A series as it stands in a file, without any label. */
interface CsvSeries {
  /** [N], N ≥ 2; finite, or NaN where a missing value was allowed. */
  readonly values: Float64Array;
  /** The time column as written [N]; null without one. */
  readonly time: readonly string[] | null;
  /** File name without its extension. */
  readonly name: string;
  /** Header of the value column, or `column 2` without a header. */
  readonly column: string;
}

export interface CsvOptions {
  /** Header of the value column, or its number from 1. */
  readonly column?: string | number | undefined;
  /** Reads an empty cell, NaN, NA, null and the like as missing (NaN). Default: they are refused. */
  readonly missing?: boolean | undefined;
  /** Advice in messages where several columns hold numbers. Default: name one with --column. */
  readonly advice?: string | undefined;
}

interface Column {
  readonly name: string;
  /** Header as written; null without one. */
  readonly header: string | null;
  readonly cells: readonly string[];
  readonly numeric: boolean;
  /** Every cell of the sample is empty. */
  readonly blank: boolean;
  readonly rowNumbers: boolean;
  readonly time: boolean;
}

export const show = (text: string): string =>
  JSON.stringify(text.length > 40 ? `${text.slice(0, 37)}...` : text);

/** The text of a file. @throws DataError for one of more than `maximum` bytes, unreadable or not UTF-8 */
export function readText(path: string, maximum?: number): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(readBytes(path, maximum));
  } catch (cause) {
    if (cause instanceof DataError) throw cause;
    const reason =
      (cause as NodeJS.ErrnoException).code === 'ERR_ENCODING_INVALID_ENCODED_DATA'
        ? 'not UTF-8 text; save it as UTF-8 CSV'
        : `cannot be read (${reasonOf(cause)})`;
    throw new DataError(reason, { file: path, cause });
  }
}

/** A header has words, and neither numbers nor dates. */
export function isHeader(cells: readonly string[]): boolean {
  let words = 0;
  for (const cell of cells) {
    if (cell === '') continue;
    if (NUMBER.test(cell) || SPECIAL.test(cell) || DATE_OR_CLOCK.test(cell) || DECIMAL_COMMA.test(cell)) {
      return false;
    }
    words++;
  }
  return words > 0;
}

function describe(header: string | null, index: number, cells: readonly string[]): Column {
  let numbers = 0;
  let words = 0;
  let clocks = 0;
  let marks = 0;
  for (const cell of cells) {
    if (cell === '') continue;
    if (NUMBER.test(cell) || DECIMAL_COMMA.test(cell)) numbers++;
    else if (SPECIAL.test(cell)) marks++;
    else words++;
    if (DATE_OR_CLOCK.test(cell) && !NUMBER.test(cell)) clocks++;
  }
  const numeric = words === 0 ? numbers + marks > 0 : numbers > 0 && numbers >= words;
  const first = Number(cells[0]);
  const rowNumbers =
    cells.length >= 3 &&
    (first === 0 || first === 1) &&
    (header === null || ROW_NUMBER_NAME.test(header)) &&
    cells.every((cell, i) => NUMBER.test(cell) && Number(cell) === first + i);
  const time = numeric
    ? header !== null && TIME_NAME.test(header)
    : words > 0 && (2 * clocks > words || (header !== null && TIME_NAME.test(header)));
  const name = header === null || header === '' ? `column ${index + 1}` : header;
  return { name, header, cells, numeric, blank: numbers + marks + words === 0, rowNumbers, time };
}

/** Columns that a message names; a file may have thousands. */
const NAMED = 10;

export function listed(columns: readonly { readonly name: string }[]): string {
  const names = columns.slice(0, NAMED).map(({ name }) => show(name));
  const more = columns.length - names.length;
  return names.join(', ') + (more > 0 ? ` and ${more} more` : '');
}

/** The column of a name, in any case where it is not ambiguous, or of a number from 1. @throws ConfigError for none */
export function chosenColumn(
  columns: readonly { readonly name: string }[],
  wanted: string | number,
  path: string,
  option = '--column',
): number {
  const text = String(wanted);
  const same = (name: string, fold: boolean): boolean =>
    fold ? name.toLowerCase() === text.toLowerCase() : name === text;
  for (const fold of [false, true]) {
    const found: number[] = [];
    for (let i = 0; i < columns.length; i++) if (same(columns[i]!.name, fold)) found.push(i);
    if (found.length === 1) return found[0]!;
    if (found.length > 1) {
      throw new ConfigError(
        `${option} ${text}: ${found.length} columns of ${path} have this name; give a number from 1 to ${columns.length}`,
      );
    }
  }
  const number = /^\d+$/.test(text) ? Number(text) : 0;
  if (number >= 1 && number <= columns.length) return number - 1;
  const names = columns.map(({ name }) => name);
  throw new ConfigError(
    `${option} ${text}: ${path} has no such column.${suggestion(text, names)} Columns: ${listed(columns)}, or a number from 1 to ${columns.length}`,
  );
}

/** The only column that can hold the values, or an error that says what to do. */
function onlyNumeric(columns: readonly Column[], path: string, advice: string | undefined): number {
  const numeric = columns.flatMap((column, i) => (column.numeric ? [i] : []));
  const hasClock = columns.some((column) => column.time && !column.numeric);
  const isTime = (i: number): boolean => columns[i]!.rowNumbers || (!hasClock && columns[i]!.time);
  const left = numeric.filter((i) => !isTime(i));
  // Beside a column of time, a named one without a single value is the series that was meant: reading it says what is missing.
  const blank = columns.flatMap((column, i) => (column.blank && column.header && !isTime(i) ? [i] : []));
  const candidates = [left, blank, numeric].find((some) => some.length > 0) ?? [];
  if (candidates.length === 1) return candidates[0]!;
  if (candidates.length === 0 && columns.length === 1) return 0; // the first cell then says what is wrong
  if (candidates.length === 0) {
    const seen = columns
      .slice(0, NAMED)
      .map(({ name, cells }) => `${show(name)} begins with ${show(cells[0] ?? '')}`)
      .join(', ');
    throw new DataError(`no column of numbers: ${seen}`, { file: path });
  }
  const example = columns[candidates[0]!]!.header ? show(columns[candidates[0]!]!.name) : candidates[0]! + 1;
  const what = candidates === blank ? `columns whose first ${SAMPLE} rows are empty` : 'columns of numbers';
  throw new DataError(
    `${candidates.length} ${what}: ${listed(candidates.map((i) => columns[i]!))}; ${advice ?? `say which, for example --column ${example}`}`,
    { file: path },
  );
}

function problem(cell: string, column: string): string {
  if (cell === '') return `empty cell in column ${show(column)}; fill the gap or remove the row`;
  const value = `${show(cell)} in column ${show(column)}`;
  if (SPECIAL.test(cell) || NUMBER.test(cell)) {
    return `${value} is not a finite number; fill the gap or remove the row`;
  }
  const hint = DECIMAL_COMMA.test(cell) ? '; write a decimal point, and no thousands separators' : '';
  return `${value} is not a number${hint}`;
}

/** The first records, by which columns are told apart. @throws DataError for one of more fields than channels are allowed */
function readSample(records: CsvRecords): string[][] {
  const sample: string[][] = [];
  while (sample.length <= SAMPLE && records.next()) {
    if (records.blank) continue;
    if (records.width > MOST_CHANNELS) {
      throw new DataError(
        `${records.width} columns, more than ${MOST_CHANNELS}; a series has a row for each point, so transpose the table`,
        records.place(0),
      );
    }
    sample.push(Array.from({ length: records.width }, (_, i) => records.field(i)));
  }
  return sample;
}

/**
 * Reads one series from a CSV file: comma, semicolon or tab; UTF-8 with or without byte-order mark; any line ends;
 * quoted fields; blank lines before the first and after the last record.
 *
 * The values are the only numeric column that is not time. Time is the first column of dates or clock times, else a
 * numeric column with a name such as `timestamp`, else row numbers that count up from 0 or 1; columns of other text
 * are left out. With several numeric columns left, `column` must say which.
 *
 * @throws DataError with file, line and column for an empty cell or NaN among the values unless `missing` allows them, text or an
 * infinity, a record
 * with another number of fields, a blank line inside the data (of an only column, a missing value), a stray quote; with the file
 * for one that cannot be read, is empty, has no numeric column or several, no number in the column, or fewer than 2 points. ConfigError for a `column` that is not
 * there
 */
export function readSeriesCsv(path: string, options: CsvOptions = {}): CsvSeries {
  return readColumnsCsv(path, [options.column], options)[0]!;
}

/**
 * As `readSeriesCsv`, for several columns of one file, none of which is the time; undefined: the only one that can hold the values.
 * The file is gone through once.
 */
function readColumnsCsv(
  path: string,
  wanted: readonly CsvOptions['column'][],
  options: Omit<CsvOptions, 'column'> = {},
): CsvSeries[] {
  const text = readText(path);
  const delimiter = detectDelimiter(text, path);
  const sample = readSample(new CsvRecords(text, delimiter, path));
  const top = sample[0];
  if (top === undefined) throw new DataError('empty; expected a column of numbers', { file: path });
  const header = isHeader(top);
  const body = header ? sample.slice(1) : sample;
  if (body.length === 0) {
    const names = `${top.slice(0, NAMED).map(show).join(', ')}${top.length > NAMED ? ' …' : ''}`;
    throw new DataError(`only a header (${names}), no data below it`, { file: path });
  }
  const columns = top.map((name, i) =>
    describe(
      header ? name : null,
      i,
      body.map((record) => record[i] ?? ''),
    ),
  );
  const chosen = wanted.map((column) =>
    column === undefined ? onlyNumeric(columns, path, options.advice) : chosenColumn(columns, column, path),
  );
  const others: (Column | null)[] = [...columns];
  for (const index of chosen) others[index] = null;
  const clock = [
    others.findIndex((column) => column?.time === true && !column.numeric),
    others.findIndex((column) => column?.time),
    others.findIndex((column) => column?.rowNumbers),
  ].find((i) => i >= 0);
  const time: string[] | null = clock === undefined ? null : [];
  const values = chosen.map((): number[] => []);

  const records = new CsvRecords(text, delimiter, path);
  const missing = options.missing ?? false;
  let blank: ReturnType<CsvRecords['place']> | undefined;
  let blanks = 0;
  let seen = 0;
  while (records.next()) {
    if (records.blank) {
      if (seen > 0) blank ??= records.place(0);
      if (seen > 0) blanks++;
      continue;
    }
    if (blank !== undefined) {
      // The empty cell of an only column is a blank line.
      if (!missing || columns.length > 1)
        throw new DataError('blank line inside the data; remove or fill it', blank);
      for (; blanks > 0; blanks--) for (const column of values) column.push(Number.NaN);
      blank = undefined;
    }
    if (records.width !== columns.length) {
      throw new DataError(
        `${records.width} fields, the first record has ${columns.length}`,
        records.place(Math.min(records.width, columns.length) - 1),
      );
    }
    if (seen++ === 0 && header) continue;
    for (let k = 0; k < chosen.length; k++) {
      const cell = records.field(chosen[k]!);
      const number = NUMBER.test(cell) ? Number(cell) : Number.NaN;
      if (!Number.isFinite(number) && !(missing && MISSING.test(cell))) {
        throw new DataError(problem(cell, columns[chosen[k]!]!.name), records.place(chosen[k]!));
      }
      values[k]!.push(number);
    }
    if (time !== null) time.push(records.field(clock!));
  }
  return chosen.map((index, k) => {
    const { name } = columns[index]!;
    const points = Float64Array.from(values[k]!);
    if (points.length < MINIMUM_POINTS) {
      throw new DataError(`${points.length} point; a series needs at least ${MINIMUM_POINTS}`, {
        file: path,
      });
    }
    if (points.every((one) => Number.isNaN(one))) {
      throw new DataError(`column ${show(name)} holds no number; remove it, or fill it`, { file: path });
    }
    return { values: points, time, name: parse(path).name, column: name };
  });
}

/** Numbers, also with a decimal comma. */
const NUMBERS = /^[+-]?[\d.,]+(?:e[+-]?\d+)?$/i;
const MISSING_CELL = /^(?:[+-]?nan|na|n\/a|null|none|#n\/a|\?)?$/i;

/**
 * Columns of a csv file of points whose first value that is not missing is a number, and which are no time; undefined without a
 * header, or with a single one left. A first column without a name is the row numbers of a program that wrote the file.
 *
 * @throws DataError for a file that cannot be read
 */
export function numericColumns(path: string): string[] | undefined {
  const text = readText(path);
  const records = new CsvRecords(text, detectDelimiter(text, path), path);
  const [names = [], ...body] = readSample(records);
  const headed = names.every((name, i) => (name === '' ? i === 0 : !Number.isFinite(Number(name))));
  if (!headed) return undefined;
  const columns = names.filter((name, i) => {
    const first = body.map((row) => row[i] ?? '').find((cell) => !MISSING_CELL.test(cell));
    return name !== '' && !TIME_NAME.test(name) && (first === undefined || NUMBERS.test(first));
  });
  return columns.length > 1 ? columns : undefined;
}

interface CsvReadOptions {
  /** Columns of the channels: headers, or numbers from 1. Without it, the only numeric column that is not time. */
  readonly columns?: readonly (string | number)[] | undefined;
  /** Column of point labels, 0 or 1. */
  readonly label?: string | number | undefined;
  /** See `CsvOptions`. */
  readonly missing?: boolean | undefined;
  readonly advice?: string | undefined;
}

/** The time column as numbers: dates as seconds since 1970, else numbers; null when some row is neither. */
function instants(time: readonly string[] | null): Float64Array | null {
  if (time === null) return null;
  const values = Float64Array.from(time, (cell) => {
    const date = seconds(cell);
    return Number.isNaN(date) && cell !== '' ? Number(cell) : date;
  });
  return values.every((value) => Number.isFinite(value)) ? values : null;
}

/**
 * Reads the one series of a CSV file with `readSeriesCsv`, which says what is tolerated; its id is the file's name.
 * Unlike the other readers it refuses missing values unless they are allowed.
 *
 * @throws DataError as `readSeriesCsv`, and for a label other than 0 and 1; ConfigError for a column that is not
 * there, and for no columns at all
 */
export function* readCsv(path: string, options: CsvReadOptions = {}): Generator<RawRecord> {
  const { columns = [undefined], label, missing, advice } = options;
  if (columns.length === 0) throw new ConfigError('columns: at least one is needed');
  const channels = readColumnsCsv(path, columns, { missing, advice });
  const marks = label === undefined ? null : readSeriesCsv(path, { column: label });
  yield rawRecord(
    fileFacts(path, 'csv'),
    stem(path),
    channels.map(({ values }) => values),
    {
      channelNames: channels.map(({ column }) => column),
      times: instants(channels[0]!.time),
      anomalies: marks === null ? null : pointLabels(marks.values, marks.column, path),
    },
  );
}
