/** CSV files of one series, one row per point. */
import { closeSync, readSync } from 'node:fs';
import { ConfigError, DataError, reasonOf, suggestion } from '../../src/ground/errors.ts';
import { openFile, readBytes } from '../../src/ground/files.ts';
import { show } from '../../src/ground/json-record.ts';
import { getOrMake } from '../../src/ground/maps.ts';
import { firstNames } from '../../src/ground/terminal.ts';
import { CsvRecords, detectDelimiter } from './csv-records.ts';
import { Column, MOST_CHANNELS, NUMBER, type RawRecord, rawRecord, seconds, stem } from './record.ts';
import { epochOf } from './time-column.ts';

const MINIMUM_POINTS = 2;

/** Records after the header from which the kinds of the columns are inferred. */
const SAMPLE = 100;

/** Cells that stand for a missing value. */
const MISSING = /^(?:[+-]?nan|na|n\/a|null|none|#n\/a|\?)?$/i;
const SPECIAL = /^[+-]?(?:nan|inf|infinity|na|n\/a|null|none|#n\/a|\?)$/i;
/** Numbers, also with a decimal comma. */
const NUMBERS = /^[+-]?[\d.,]+(?:e[+-]?\d+)?$/i;
const DECIMAL_COMMA = /^[+-]?[\d.]*\d,[\d.,]*\d$/;
const DATE_OR_CLOCK = /^\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}|\d{1,2}:\d{2}/;
/** Headers of time columns, in any case. */
const TIME_NAME =
  /^(?:times?|timestamps?|dates?|date[_ ]?time|ds|t|index|idx|steps?|epoch|unix(?:[_ ]?time)?|seconds?)$/i;
/** Headers of the labels of points in public collections, in any case. */
const LABEL_NAME = /^(?:labels?|(?:is[_ ]?)?(?:anomal(?:y|ous)|outlier)|attack|normal\/attack)$/i;
/** Headers of further labels in some collections: change points, and attacks on one part of a plant. */
const MORE_LABELS = /^(?:change[_ ]?points?|attack_p\d)$/i;
export const labelsPoints = (name: string): boolean => LABEL_NAME.test(name) || MORE_LABELS.test(name);
/** Index of the column that marks each point as anomalous or not; −1 without one. */
export const labelColumn = (header: readonly string[]): number =>
  header.findIndex((name) => LABEL_NAME.test(name));
/** Headers of the name of the series that a row belongs to, such as `KPI ID`. */
const SERIES_NAME = /(?:^|[ _])(?:id|key|name|series)$/i;
/** Headers that begin with a word for a time, such as `timestamp_(min)`; `timeouts` does not. */
const NAMES_TIME = /^(?:time|date)(?:stamp|time)?s?(?![a-z])/i;
const ANOMALOUS = /^(?:\+?1(?:\.0*)?(?:e[+-]?0+)?|true|yes|a ?ttack|anomal(?:y|ous)|outlier)$/i;
const USUAL = /^(?:[+-]?0(?:\.0*)?(?:e[+-]?0+)?|false|no|normal)$/i;
/** Label of a point, 1 for anomalous: a number, a truth value, or a word such as `Attack`; undefined for another cell. */
export const pointMark = (cell: string): 0 | 1 | undefined =>
  ANOMALOUS.test(cell) ? 1 : USUAL.test(cell) ? 0 : undefined;

/** Header that pandas gives to its row numbers. */
const ROW_NUMBER_NAME = /^(?:unnamed: 0|index|idx)?$/i;

interface CsvColumn {
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

/** Returns true if a row has words, and neither numbers nor dates. */
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

function describe(header: string | null, index: number, cells: readonly string[]): CsvColumn {
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

/** Maximum number of columns in a message; a file may have thousands. */
const NAMED = 10;

export const listed = (columns: readonly { readonly name: string }[]): string =>
  firstNames(
    columns.map(({ name }) => show(name)),
    NAMED,
  );

/** Finds a column by name, in any case where that is unambiguous, or by number from 1. @throws ConfigError for none */
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
    const matches = columns.flatMap(({ name }, i) => (same(name, fold) ? [i] : []));
    if (matches.length === 1) return matches[0]!;
    if (matches.length > 1) {
      throw new ConfigError(
        `${option} ${text}: ${matches.length} columns of ${path} have this name; give a number from 1 to ${columns.length}`,
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

/** Index of the only column that can hold the values. @throws DataError that says what to do */
function onlyNumeric(columns: readonly CsvColumn[], path: string, advice: string | undefined): number {
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
    `${candidates.length} ${what}: ${listed(candidates.map((i) => columns[i]!))}; ${advice ?? `name one, for example --column ${example}`}`,
    { file: path },
  );
}

function problem(cell: string, column: string): string {
  const value = `${show(cell)} in column ${show(column)}`;
  if (SPECIAL.test(cell) || NUMBER.test(cell)) {
    return `${value} is not a finite number; fill the gap or remove the row`;
  }
  const hint = DECIMAL_COMMA.test(cell) ? '; write a decimal point, and no thousands separators' : '';
  return `${value} is not a number${hint}`;
}

/** The header and the first records. @throws DataError for one with more fields than a series may have channels */
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
    sample.push(records.fields());
  }
  return sample;
}

interface CsvOptions {
  /** Columns of the channels: headers, or numbers from 1. Default: the only numeric column that is not time. */
  readonly columns?: readonly (string | number)[] | undefined;
  /** Advice in messages where several columns hold numbers. Default: name one with --column. */
  readonly advice?: string | undefined;
  /**
   * Read the column of point labels as anomalies and, without `columns`, every other column of measurements as a channel; 'elsewhere'
   * reads those columns of a file whose labels are in another.
   */
  readonly labelled?: boolean | 'elsewhere';
}

interface NamedCells {
  readonly name: string;
  readonly cells: readonly string[];
}

/** Column of names of series, such as `KPI ID`: texts or whole numbers. A column `series` of fractions holds measurements. */
export const namesSeries = ({ name, cells }: NamedCells): boolean =>
  SERIES_NAME.test(name) &&
  !(
    cells.some((cell) => /\d[.,]\d/.test(cell)) &&
    cells.every((cell) => NUMBERS.test(cell) || MISSING.test(cell))
  );

/** Index of the column that names the series of each labelled row, whose cells repeat in the sample and are not read as a channel; −1 without one. */
export const seriesColumn = (columns: readonly NamedCells[], channels: readonly number[] = []): number =>
  columns.findIndex(({ name, cells }, i) => {
    const sample = cells.slice(0, SAMPLE);
    return (
      !channels.includes(i) && namesSeries({ name, cells: sample }) && new Set(sample).size < sample.length
    );
  });

/** Returns true for cells of numbers that only rise, such as row numbers. */
const countsUp = ({ cells }: CsvColumn): boolean =>
  cells.every((cell, i) => i === 0 || Number(cell) > Number(cells[i - 1]));

/** Indices of the columns of measurements beside labels of points. A column of names counts where nothing else is measured. */
function measurements(columns: readonly CsvColumn[]): number[] {
  const possible = columns.flatMap(({ name, header, numeric, blank, rowNumbers, time }, i) => {
    const values = (numeric || (blank && header)) && !time && !rowNumbers && !NAMES_TIME.test(name);
    return values && !labelsPoints(name) ? [i] : [];
  });
  const unnamed = possible.filter((i) => !namesSeries(columns[i]!));
  return unnamed.length > 0 ? unnamed : possible.filter((i) => !countsUp(columns[i]!));
}

/** Columns of measurements beside labels of points. @throws DataError for none */
function measured(columns: readonly CsvColumn[], path: string): number[] {
  const chosen = measurements(columns);
  if (chosen.length > 0) return chosen;
  throw new DataError(
    `labels of points, and no column of numbers beside them (${listed(columns)}); labels and measurements belong in one file`,
    { file: path },
  );
}

/** Columns of a CSV file by its first rows, of which 256 KiB are read. @throws DataError for a file that cannot be read */
function firstColumns(path: string): CsvColumn[] {
  const { handle, size } = openFile(path);
  const bytes = Buffer.alloc(Math.min(size, 1 << 18));
  try {
    readSync(handle, bytes, 0, bytes.length, 0);
  } finally {
    closeSync(handle);
  }
  const read = new TextDecoder().decode(bytes);
  const text = bytes.length < size ? (/^[\s\S]*[\r\n]/.exec(read)?.[0] ?? '') : read;
  const records = new CsvRecords(text, detectDelimiter(text, path), path);
  const rows: string[][] = [];
  while (rows.length <= SAMPLE && records.next()) if (!records.blank) rows.push(records.fields());
  const [header = [], ...body] = rows;
  return header.map((name, i) =>
    describe(
      name,
      i,
      body.map((row) => row[i] ?? ''),
    ),
  );
}

/** Returns true for a CSV file with a column of labels by its name, whatever it holds. */
export const namesLabels = (path: string): boolean =>
  labelColumn(firstColumns(path).map(({ name }) => name)) >= 0;

/**
 * Returns true for a CSV file of labelled points by its first rows: marks alone in the column of labels, and measurements beside it. A
 * measurement named `anomaly`, or a column `label` of words, makes no file of labelled points.
 * @throws DataError for a file that cannot be read
 */
export function marksPoints(path: string): boolean {
  const columns = firstColumns(path);
  const labels = columns[labelColumn(columns.map(({ name }) => name))]?.cells ?? [];
  return (
    labels.some((cell) => cell !== '') &&
    labels.every((cell) => cell === '' || pointMark(cell) !== undefined) &&
    measurements(columns).length > 0
  );
}

/**
 * Reads the series of a CSV file with a column of point labels, one row per point; with a column such as `KPI ID`, whose values repeat,
 * one series for each of them, in the order in which they first appear.
 * @throws DataError as `readCsv`, and for a cell that is no label
 */
export const readPoints = (path: string): Generator<RawRecord> => readCsv(path, { labelled: true });

/**
 * Reads the one series of a CSV file; its id is the file's name. Comma, semicolon or tab; UTF-8 with or without byte-order mark; any line
 * ends; quoted fields; blank lines before the first and after the last record. An empty cell, NaN, NA, null and the like is a missing
 * value (NaN).
 *
 * Time is the first column of dates or clock times, else a numeric column with a name such as `timestamp`, else row numbers that count
 * up from 0 or 1; columns of other text are left out. With several numeric columns left, `columns` must say which.
 * @throws DataError with file, line and column, or with the file. ConfigError for a column that is not there, and for no columns
 */
export function* readCsv(path: string, options: CsvOptions = {}): Generator<RawRecord> {
  const { columns: wanted = [undefined], advice } = options;
  if (wanted.length === 0) throw new ConfigError('columns: at least one is needed');
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
  let labelAt = options.labelled === true ? labelColumn(columns.map(({ name }) => name)) : -1;
  const chosen =
    (labelAt >= 0 || options.labelled === 'elsewhere') && options.columns === undefined
      ? measured(columns, path)
      : wanted.map((column) =>
          column === undefined ? onlyNumeric(columns, path, advice) : chosenColumn(columns, column, path),
        );
  const keyAt = labelAt < 0 ? -1 : seriesColumn(columns, chosen);
  const others: (CsvColumn | null)[] = [...columns];
  for (const index of chosen) others[index] = null;
  const clock = [
    others.findIndex((column) => column?.time === true && !column.numeric),
    others.findIndex((column) => column?.time),
    others.findIndex((column) => column?.rowNumbers),
  ].find((i) => i >= 0);
  const times = new Column();
  const values = chosen.map(() => new Column());
  const marks = new Column();
  const rowsOf = new Map<string, number[]>();

  const records = new CsvRecords(text, delimiter, path);
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
      if (columns.length > 1) throw new DataError('blank line inside the data; remove or fill it', blank);
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
    for (const [k, index] of chosen.entries()) {
      const cell = records.field(index);
      const number = NUMBER.test(cell) ? Number(cell) : Number.NaN;
      if (!Number.isFinite(number) && !MISSING.test(cell)) {
        throw new DataError(problem(cell, columns[index]!.name), records.place(index));
      }
      values[k]!.push(number);
    }
    if (clock !== undefined) times.push(instant(records.field(clock)));
    if (labelAt < 0) continue;
    const mark = pointMark(records.field(labelAt));
    if (mark === undefined && options.columns !== undefined) {
      labelAt = -1; // the named columns are read without labels
      continue;
    }
    if (mark === undefined) {
      const column = show(columns[labelAt]!.name);
      throw new DataError(
        `${show(records.field(labelAt))} in the column ${column}, which marks every point with 0 or 1 (anomalous)`,
        records.place(labelAt),
      );
    }
    if (keyAt >= 0) getOrMake(rowsOf, records.field(keyAt), () => []).push(marks.length);
    marks.push(mark);
  }
  const channels = values.map((column) => column.take());
  for (const [k, points] of channels.entries()) {
    if (points.length < MINIMUM_POINTS) {
      throw new DataError(`${points.length} point; a series needs at least ${MINIMUM_POINTS}`, {
        file: path,
      });
    }
    if (points.every((value) => Number.isNaN(value))) {
      const name = show(columns[chosen[k]!]!.name);
      throw new DataError(`column ${name} holds no number; remove it, or fill it`, { file: path });
    }
  }
  const perSecond = 1000 / (epochOf(times.at(0) ?? 0)?.[0] ?? 1000);
  const instants = times.take().map((time) => time / perSecond);
  const timed = clock !== undefined && instants.every((time) => Number.isFinite(time));
  const channelNames = chosen.map((index) => columns[index]!.name);
  if (labelAt < 0) {
    yield rawRecord(path, stem(path), channels, { channelNames, times: timed ? instants : null });
    return;
  }
  const anomalies = Uint8Array.from(marks.take());
  const whole = rawRecord(path, stem(path), channels, {
    channelNames,
    times: timed ? instants : null,
    anomalies,
  });
  yield* eachSeries(whole, anomalies, rowsOf);
}

/**
 * Takes a record of labelled points apart into its series, in the order in which they first appear.
 * @param rowsOf the rows of each series by its name; the whole is one series where there are none
 */
export function* eachSeries(
  whole: RawRecord,
  anomalies: Uint8Array,
  rowsOf: ReadonlyMap<string, readonly number[]>,
): Generator<RawRecord> {
  if (rowsOf.size === 0) yield whole;
  for (const [key, rows] of rowsOf) {
    const part = (all: Float64Array): Float64Array => Float64Array.from(rows, (row) => all[row]!);
    yield {
      ...whole,
      id: `${whole.id}/${key}`,
      channels: whole.channels.map(part),
      times: whole.times === null ? null : part(whole.times),
      anomalies: Uint8Array.from(rows, (row) => anomalies[row]!),
    };
  }
}

/** A time as a number: a date as seconds since 1970, else the number itself; NaN for anything else. */
function instant(cell: string): number {
  const date = seconds(cell);
  return Number.isNaN(date) && cell !== '' ? Number(cell) : date;
}

/**
 * Columns of a csv file of points whose first value that is not missing is a number, and which are no time; undefined without a
 * header, or with a single one left. A first column without a name is the row numbers of a program that wrote the file.
 * @throws DataError for a file that cannot be read
 */
export function numericColumns(path: string): string[] | undefined {
  const text = readText(path);
  const records = new CsvRecords(text, detectDelimiter(text, path), path);
  const [names = [], ...body] = readSample(records);
  const headed = names.every((name, i) => (name === '' ? i === 0 : !Number.isFinite(Number(name))));
  if (!headed) return undefined;
  const columns = names.filter((name, i) => {
    const first = body.map((row) => row[i] ?? '').find((cell) => !MISSING.test(cell));
    return name !== '' && !TIME_NAME.test(name) && (first === undefined || NUMBERS.test(first));
  });
  return columns.length > 1 ? columns : undefined;
}
