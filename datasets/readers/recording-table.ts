/** Table of a recording: its layout, its time column, and its rows. */
import { ConfigError, DataError, reasonOf } from '../../src/ground/errors.ts';
import { readBytes } from '../../src/ground/files.ts';
import { show } from '../../src/ground/json-record.ts';
import { plural } from '../../src/ground/numbers.ts';
import { checkZone, parseStamp } from './clock.ts';
import { chosenColumn, isHeader, listed } from './csv.ts';
import { BLANKS, CsvRecords, firstWidths } from './csv-records.ts';
import { checkLog, type LineTable, lineTable } from './line-forms.ts';
import { ColumnSurvey, unitOf } from './number-format.ts';
import type { Note } from './quality.ts';
import { Column, MOST_CHANNELS, stem } from './record.ts';
import { decodeText } from './text-encoding.ts';
import {
  findTime,
  isCalendarName,
  isTimeName,
  planOf,
  type ReadTimes,
  type SampledColumn,
  TimeColumn,
  type TimePlan,
} from './time-column.ts';

export interface TableOptions {
  /** Time column, or several as `date,clock` or `year,month,day`. */
  readonly time?: string | number | undefined;
  /** Zone of stamps without one, in which times are also shown: an IANA name, `UTC`, or `+02:00`. */
  readonly tz?: string | undefined;
  /** Decimal separator of all numbers; the other one groups thousands. Default: as the numbers of each column show. */
  readonly decimal?: '.' | ',' | undefined;
  /** Name of a recording given as bytes. */
  readonly name?: string | undefined;
  /** Refuse rows without a time. Default: they are left out where they are at most a tenth. */
  readonly strict?: boolean | undefined;
}

/** Share of rows without a time up to which they are left out, and number that more must not exceed at any row. */
const [MOST, MANY] = [0.1, 10_000];

export const MINIMUM_SAMPLES = 2;

export interface TableColumn extends SampledColumn {
  name: string;
  readonly survey: ColumnSurvey;
}

export interface Table {
  readonly file: string;
  readonly name: string;
  readonly text: string;
  readonly layout: TableLayout;
  readonly columns: readonly TableColumn[];
  /** Indices of the time columns. */
  readonly timeColumns: readonly number[];
  readonly times: ReadTimes | null;
  readonly plan: TimePlan | null;
  /** Lines of JSON and the like that it was rewritten from; null for a table. */
  readonly rewritten: LineTable | null;
  /** Line of each row [rows]. */
  readonly lines: Int32Array;
  readonly tz: string | null;
  readonly decimal: '.' | ',' | null;
  readonly notes: Note[];
}

/** Iterates over the rows of a table, without header, comments, blank lines, and repetitions of the header. */
export class TableRows {
  repeatedHeaders = 0;
  firstRepeated = 0;
  comments = 0;
  /** Line of an incomplete last row; 0 for none. */
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
      if (this.#layout.timeless?.has(rows - 1)) continue;
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

/** Makes a name such as "load (column 3)" for a column whose name is taken. */
function freeName(names: readonly string[], index: number): string {
  let name = `${names[index]} (column ${index + 1})`;
  while (names.includes(name)) name += ' again';
  return name;
}

/** Beginning of an object, or of a list of numbers, texts, lists or objects. */
const JSON_START = /^\ufeff?\s*(?:\{\s*"|\[\s*(?:[[{"]|-?\d[\d.eE+-]*\s*[,\]]))/;

export function openTable(source: string | Uint8Array, options: TableOptions): Table {
  const file = typeof source === 'string' ? source : (options.name ?? 'recording');
  const tz = options.tz === undefined ? null : checkZone(options.tz);
  let bytes: Uint8Array;
  try {
    bytes = typeof source === 'string' ? readBytes(source) : source;
  } catch (cause) {
    if (cause instanceof DataError) throw cause;
    throw new DataError(`cannot be read (${reasonOf(cause)})`, { file, cause });
  }
  const { text: given, assumed } = decodeText(bytes, file);
  const rewritten = lineTable(given, file);
  const { text } = rewritten ?? { text: given };
  if (rewritten === null) checkLog(text, file);
  if (rewritten === null && JSON_START.test(text.slice(0, 1000)))
    throw new DataError(
      "JSON, but neither a table nor one object in each line; write each object on a line of its own, for example: jq -c '.[]'",
      { file },
    );
  let layout = rewritten === null ? tableLayout(text, file) : layoutOf(rewritten, file);
  const notes: Note[] = assumed.map((sentence) => ({ kind: 'encoding', text: sentence }));
  notes.push(...(rewritten?.notes ?? []));
  if (layout.delimiter !== ',' && layout.width > 1) {
    const names: Readonly<Record<string, string>> = { '\t': 'tabs', ';': 'semicolons', [BLANKS]: 'blanks' };
    notes.push({
      kind: 'delimiter',
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
      kind: 'names',
      text: `Several columns share a name; the later ones are called ${listed(again)}, after their numbers.`,
    });
  const plan =
    options.time === undefined
      ? findTime(columns)
      : planOf(columns, namedColumns(columns, options.time, file, '--time'), true);
  const lineColumn = new Column();
  const clock = plan === null ? null : new TimeColumn(plan);
  const inTime = (i: number): boolean => plan?.columns.some((index) => index === i) ?? false;
  const surveyed = columns.map((_, i) => i).filter((i) => !inTime(i));
  const timeless = new Set<number>();
  let [row, wrong]: [number, DataError | null] = [0, null];
  const walk = new TableRows(text, file, layout).each((records) => {
    row++;
    try {
      clock?.add(records);
    } catch (error) {
      if (!(error instanceof DataError) || options.strict || timeless.size > MANY + MOST * row) throw error;
      wrong ??= error;
      timeless.add(row - 1);
      return;
    }
    lineColumn.push(records.line);
    for (const i of surveyed) columns[i]!.survey.add(records.field(i));
  });
  if (wrong !== null && timeless.size > MOST * row) throw wrong;
  layout = { ...layout, timeless };
  const lines = Int32Array.from(lineColumn.take());
  const times = clock?.finish(lines, file, tz) ?? null;
  if (wrong !== null) {
    const { line = 0, message } = wrong as DataError;
    notes.push({
      ...{ kind: 'left-out', count: timeless.size, lines: [line, line] },
      text: `${plural(timeless.size, 'row')} without a time left out, the first in line ${line}: ${message.replace(/^.*?:\d+:\d+: |; expected .*$/gs, '')}.`,
    });
  }
  if (times === null && tz !== null) throw new ConfigError(`--tz ${tz}: ${file} has no column of time`);
  if (layout.preamble > 0)
    notes.push({
      kind: 'comments',
      text: `${plural(layout.preamble, 'line')} above the table ${layout.preamble === 1 ? 'was' : 'were'} skipped.`,
    });
  if (walk.comments > 0)
    notes.push({ kind: 'comments', text: `${plural(walk.comments, 'comment line')} skipped.` });
  if (layout.units !== null)
    notes.push({
      kind: 'units',
      text: `The row below the header holds only words (${layout.units
        .filter((cell) => cell !== '')
        .slice(0, 5)
        .map(show)
        .join(', ')}) and was skipped.`,
    });
  if (walk.repeatedHeaders > 0)
    notes.push({
      kind: 'header',
      text: `The header is repeated ${plural(walk.repeatedHeaders, 'time')}, first in line ${walk.firstRepeated}; these lines were skipped.`,
    });
  if (walk.cut > 0)
    notes.push({ kind: 'cut', text: `The last line (${walk.cut}) is incomplete and was left out.` });
  const unread =
    times === null || times.ordinal
      ? columns.find(({ header, survey }) => isCalendarName(header) && survey.unread > 0)
      : undefined;
  if (unread !== undefined) {
    notes.push({
      kind: 'no-time',
      text: `Column ${show(unread.name)} is not read as time: ${show(unread.cells[0] ?? '')} is no known date or clock time; write it like 2024-03-01 14:05. The samples are numbered instead.`,
    });
  }
  return {
    file,
    name: stem(file),
    text,
    layout,
    columns,
    timeColumns: plan?.columns ?? [],
    ...{ times, plan, rewritten },
    lines: walk.blankEnd > 0 ? lines.slice(0, -walk.blankEnd) : lines,
    tz,
    decimal: options.decimal ?? null,
    notes: [...notes, ...(times?.notes ?? [])],
  };
}

/** Layout of lines that were rewritten as a table. @throws DataError for lines without values */
function layoutOf({ form, header, sample }: LineTable, file: string): TableLayout {
  if (header.length === 0) throw new DataError(`${form} without numbers`, { file });
  return { delimiter: ',', skipped: 0, header, width: header.length, sample, preamble: 0, units: null };
}

/**
 * Reads later rows of a table, without its header, by the decisions that were made about the first ones.
 * @throws DataError for a row of another width, or a cell that is no time
 */
export function laterRows(table: Table, given: string): Table {
  const { file, plan, times, tz, rewritten } = table;
  const later = rewritten === null ? null : lineTable(given, file, rewritten);
  const { text } = later ?? { text: given };
  const notes = later?.notes.filter(({ kind }) => kind === 'new-key') ?? [];
  const layout = { ...table.layout, skipped: 0, timeless: new Set<number>() };
  const clock = plan === null ? null : new TimeColumn(plan, times?.decided ?? null);
  const lineColumn = new Column();
  new TableRows(text, file, layout).each((records) => {
    clock?.add(records);
    lineColumn.push(records.line);
  });
  const lines = Int32Array.from(lineColumn.take());
  return { ...table, text, layout, lines, times: clock?.finish(lines, file, tz) ?? null, notes };
}

/** Indices of the column that an option names, or of several as `date,clock`. */
export function namedColumns(
  columns: readonly TableColumn[],
  wanted: string | number,
  file: string,
  option: '--time' | '--key',
): number[] {
  const text = String(wanted);
  const whole = columns.some(({ name }) => name.toLowerCase() === text.toLowerCase());
  const parts = whole ? [text] : text.split(',').map((part) => part.trim());
  return parts.map((part) => chosenColumn(columns, part, file, option));
}

export const isTruth = ({ survey }: TableColumn): boolean =>
  survey.truths > 0 && survey.truths + survey.missing === survey.filled;

/** Returns true if most cells of a column are numbers, or `true` and `false`. */
export const isNumeric = (column: TableColumn): boolean =>
  (column.survey.numbers > 0 && column.survey.numbers >= column.survey.unread) || isTruth(column);

interface TableLayout {
  readonly delimiter: string;
  /** Number of non-blank records before the first row of data. */
  readonly skipped: number;
  /** Column names; null without a header. */
  readonly header: readonly string[] | null;
  readonly width: number;
  readonly sample: readonly (readonly string[])[];
  /** Number of lines above the header that belong to no table, and the row of units below it; for notes. */
  readonly preamble: number;
  readonly units: readonly string[] | null;
  /** Numbers of the rows that are passed over, as they have no time. */
  readonly timeless?: ReadonlySet<number>;
}

/** Delimiters in order of preference: a comma inside files of the others is most likely a decimal comma. */
const DELIMITERS = ['\t', ';', '|', ',', BLANKS] as const;
/** Records for detecting the delimiter, and rows for detecting the columns. */
const PROBE = 50;
const SAMPLE = 100;
/** Minimum share of records with the same number of fields. */
const EVEN = 0.9;
/** First line `sep=;`, which names the delimiter to spreadsheets. */
const STATED = /^\ufeff?"?sep=(.)"?[ \t]*(?:\r\n|\n|\r)/i;
/** Two numbers separated by a blank that does not group thousands: `5 2` in `1,5 2,5`, split at decimal commas. */
const TWO_NUMBERS = /^(?:.{0,40}[\d:]) +[+-]?\d+$/;
const THOUSANDS = /^[+-]?\d{1,3}(?: \d{3})+$/;

/** Most frequent number of fields, and the share of records that have it. */
function usual(widths: readonly number[]): { width: number; share: number } {
  const counts = new Map<number, number>();
  for (const width of widths) counts.set(width, (counts.get(width) ?? 0) + 1);
  const [width, count] = [...counts].sort((a, b) => b[1] - a[1] || b[0] - a[0])[0] ?? [1, 0];
  return { width, share: count / Math.max(1, widths.length) };
}

function detect(text: string, file: string): { delimiter: string; width: number } {
  let best = { delimiter: ',', width: 1, share: 0.5 };
  for (const delimiter of DELIMITERS) {
    const { widths, whole } = firstWidths(new CsvRecords(text, delimiter, file, true), PROBE);
    // A preamble is not counted against a delimiter.
    const { width, share } = usual(widths.filter((_, i) => i > 0 || widths.length < 3));
    if (width < 2 || !whole || share <= best.share) continue;
    if (delimiter === BLANKS && best.width > 1) continue;
    best = { delimiter, width, share };
    if (share >= EVEN) break;
  }
  if (best.delimiter === ',' && best.width > 1) {
    const blanks = firstWidths(new CsvRecords(text, BLANKS, file, true), PROBE);
    const { width, share } = usual(blanks.widths);
    if (blanks.whole && width >= 2 && share >= EVEN && splitsDecimals(text, file))
      return { delimiter: BLANKS, width };
  }
  return best;
}

/** Returns true if a comma splits numbers that blanks separate. */
function splitsDecimals(text: string, file: string): boolean {
  const records = new CsvRecords(text, ',', file, true);
  let [rows, split] = [0, 0];
  while (rows < PROBE && records.next()) {
    if (records.blank) continue;
    rows++;
    for (let i = 0; i < records.width; i++) {
      const cell = records.field(i);
      if (!TWO_NUMBERS.test(cell) || THOUSANDS.test(cell)) continue;
      split++;
      break;
    }
  }
  return split >= EVEN * (rows - 1);
}

/** Returns true if a row is a header: words, and not numbers with units such as those of the row below. */
function isHeading(cells: readonly string[], below: readonly string[] = []): boolean {
  if (!isHeader(cells)) return false;
  return !cells.some((cell, i) => {
    const unit = unitOf(cell);
    return unit !== null && (unit === '' || unit === unitOf(below[i] ?? ''));
  });
}

/** Returns true if a row has words, and nothing that could be a number or a time. */
const isWords = (cells: readonly string[]): boolean =>
  isHeading(cells) && cells.every((cell) => unitOf(cell) === null);

/** Returns true if the lines below the header are numbers of a single column, split at decimal commas or before units. */
function isOneColumn(delimiter: string, records: readonly (readonly string[])[]): boolean {
  const [head, ...rows] = records;
  if (head?.length !== 1 || !isHeading(head) || rows.length === 0) return false;
  if (delimiter === BLANKS) return rows.every((row) => (unitOf(row.join(' ')) ?? '') !== '');
  return (
    delimiter === ',' &&
    rows.every(
      ([whole = '', decimals = '0', ...more]) =>
        /^[+-]?\d*$/.test(whole) && /^\d+$/.test(decimals) && more.length === 0,
    )
  );
}

/**
 * Finds delimiter, header and columns of a table by its first records: tab, semicolon, `|`, comma, or runs of blanks; comment lines
 * (`#`, `//`, `%`) anywhere; lines of another width above the header; `sep=;` in the first line; a row of units below the header; a header
 * in the last comment line before the data; a header without a name for the row names.
 * @throws DataError for an empty file, a header alone, or too many columns
 */
export function tableLayout(text: string, file: string): TableLayout {
  const stated = STATED.exec(text);
  let { delimiter, width } = detect(stated === null ? text : text.slice(stated[0].length), file);
  if (stated !== null) delimiter = stated[1]!;
  const head: { cells: string[]; comment: string }[] = [];
  const gather = (): void => {
    head.length = 0;
    const records = new CsvRecords(text, delimiter, file, true);
    while (head.length < SAMPLE + PROBE && records.next()) {
      if (records.blank) continue;
      if (records.width > MOST_CHANNELS)
        throw new DataError(
          `${records.width} columns, more than ${MOST_CHANNELS}; a series has a row for each point, so transpose the table`,
          records.place(0),
        );
      head.push({ cells: records.fields(), comment: records.comment });
    }
  };
  gather();
  if (
    isOneColumn(
      delimiter,
      head.map(({ cells }) => cells),
    )
  ) {
    delimiter = ';';
    width = 1;
    gather();
  }
  if (stated !== null) {
    head.shift();
    width = usual(head.map(({ cells }) => cells.length)).width;
  }
  if (head.length === 0) throw new DataError('empty; expected a column of numbers', { file });

  let first = head.findIndex(({ cells }) => cells.length === width);
  if (first < 0) first = 0;
  const here = head[first]!.cells;
  const above = head[first - 1]?.cells;
  const headed = isHeading(here, head[first + 1]?.cells);
  // A header may lack the name of the row names, or end in a delimiter that the rows have not.
  const offset = above === undefined || headed ? 0 : above.length - width;
  const aboveIsHeader =
    !headed &&
    above !== undefined &&
    isHeading(above) &&
    width > 1 &&
    above.length > 1 &&
    (offset === -1 || (offset === 1 && above.at(-1) === ''));
  let header: string[] | null = headed ? [...here] : aboveIsHeader ? [...above] : null;
  let skipped = headed ? first + 1 : first;
  const preamble = first - (aboveIsHeader ? 1 : 0);
  const rows = head.slice(skipped);
  if (stated !== null) skipped++;
  if (header !== null && header.length === width - 1) {
    const blankEnd = rows.every(({ cells }) => cells.length < width || cells.at(-1) === '');
    if (!blankEnd && delimiter === ',' && isTimeName(header[0]!) && parseStamp(rows[0]!.cells[0]!) !== null) {
      throw new DataError(
        `the header has ${width - 1} fields and the rows have ${width}; if decimal commas split the numbers, separate the fields by semicolons`,
        { file },
      );
    }
    if (blankEnd) header.push('');
    else header.unshift('');
  }
  if (header === null && head[first]!.comment !== '' && first === 0) {
    const words = new CsvRecords(head[first]!.comment.replace(/^(?:#+|%+|\/\/+)\s*/, ''), delimiter, file);
    if (words.next() && words.width === width) {
      const names = words.fields();
      if (isHeading(names)) header = names;
    }
  }
  let units: string[] | null = null;
  if (header !== null && rows.length > 1 && rows[0]!.cells.length === width && isWords(rows[0]!.cells)) {
    if (!isWords(rows[1]!.cells)) {
      units = [...rows[0]!.cells];
      skipped++;
      rows.shift();
    }
  }
  if (rows.length === 0) {
    const names = (header ?? here).slice(0, 10).map(show).join(', ');
    throw new DataError(`only a header (${names}${here.length > 10 ? ' …' : ''}), no data below it`, {
      file,
    });
  }
  return {
    delimiter,
    skipped,
    header,
    width: header === null ? width : Math.max(header.length, width),
    sample: rows.slice(0, SAMPLE).map(({ cells }) => cells),
    preamble,
    units,
  };
}
