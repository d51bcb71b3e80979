/** The table of a recording: its layout, its column of time, and a walk over its rows. */
import { ConfigError, DataError, reasonOf } from '../../src/ground/errors.ts';
import { readBytes } from '../../src/ground/files.ts';
import { checkZone } from './clock.ts';
import { chosenColumn, listed, show } from './csv.ts';
import { BLANKS, CsvRecords } from './csv-records.ts';
import { ColumnSurvey } from './number-format.ts';
import { Column, stem } from './record.ts';
import { type TableLayout, tableLayout } from './table-layout.ts';
import { decodeText } from './text-encoding.ts';
import {
  findTime,
  isTimeName,
  type Note,
  planOf,
  type ReadTimes,
  type SampledColumn,
  TimeColumn,
  type TimePlan,
} from './time-column.ts';

/** What of a file is its table, and where its time is. */
export interface TableOptions {
  /** The column of time, or two of them as `date,clock`. */
  readonly time?: string | number | undefined;
  /** The zone that stamps without one are of, and in which times are shown: an IANA name, `UTC`, or `+02:00`. */
  readonly tz?: string | undefined;
  /** Name of what is given as bytes. */
  readonly name?: string | undefined;
}

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
  /** Columns of time, from 0. */
  readonly timeColumns: readonly number[];
  readonly times: ReadTimes | null;
  readonly plan: TimePlan | null;
  /** [rows] line of each row. */
  readonly lines: Int32Array;
  readonly tz: string | null;
  readonly notes: Note[];
}

/** Walks over the rows of a table, without header, comments, blank lines, and repetitions of the header. */
export class TableRows {
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

export const plural = (count: number, one: string, many = `${one}s`): string =>
  `${count} ${count === 1 ? one : many}`;

/** "load (column 3)" for a column whose name another has, too. */
function freeName(names: readonly string[], index: number): string {
  let name = `${names[index]} (column ${index + 1})`;
  while (names.includes(name)) name += ' again';
  return name;
}

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
    ...{ times, plan },
    lines: walk.blankEnd > 0 ? lines.slice(0, -walk.blankEnd) : lines,
    tz,
    notes: [...notes, ...(times?.notes ?? [])],
  };
}

/**
 * Reads later rows of a table, without its header, by the decisions that were made about the first ones.
 * @throws DataError for a row of another width, or a cell that is no time
 */
export function laterRows(table: Table, text: string): Table {
  const { file, plan, times, tz } = table;
  const layout = { ...table.layout, skipped: 0 };
  const clock = plan === null ? null : new TimeColumn(plan, times?.decided ?? null);
  const lineColumn = new Column();
  new TableRows(text, file, layout).each((records) => {
    clock?.add(records);
    lineColumn.push(records.line);
  });
  const lines = Int32Array.from(lineColumn.take());
  return { ...table, text, layout, lines, times: clock?.finish(lines, file, tz) ?? null, notes: [] };
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

export const isTruth = ({ survey }: TableColumn): boolean =>
  survey.truths > 0 && survey.truths + survey.missing === survey.filled;

/** Whether a column is mostly of numbers, or of `true` and `false`. */
export const isNumeric = (column: TableColumn): boolean =>
  (column.survey.numbers > 0 && column.survey.numbers >= column.survey.unread) || isTruth(column);
