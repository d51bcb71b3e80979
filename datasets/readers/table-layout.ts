/** How a text is laid out as a table: what separates its fields, where its rows begin, and what their columns are called. */
import { DataError } from '../../src/ground/errors.ts';
import { parseStamp } from './clock.ts';
import { isHeader, show } from './csv.ts';
import { BLANKS, CsvRecords, firstWidths } from './csv-records.ts';
import { unitOf } from './number-format.ts';
import { MOST_CHANNELS } from './record.ts';
import { isTimeName } from './time-column.ts';

export interface TableLayout {
  readonly delimiter: string;
  /** Records before the first row of data that are not blank. */
  readonly skipped: number;
  /** Names of the columns; null without a header. */
  readonly header: readonly string[] | null;
  /** Fields of a row. */
  readonly width: number;
  /** The first rows. */
  readonly sample: readonly (readonly string[])[];
  /** Lines above the header that belong to no table, and the row of units below it; for notes. */
  readonly preamble: number;
  readonly units: readonly string[] | null;
}

/** Delimiters in order of preference: a comma inside files of the others is most likely a decimal comma. */
const DELIMITERS = ['\t', ';', '|', ',', BLANKS] as const;
/** Records by which the delimiter is told, and rows by which the columns are. */
const PROBE = 50;
const SAMPLE = 100;
/** The share of records that must have the same number of fields. */
const EVEN = 0.9;
/** What `sep=;` in the first line says to spreadsheets. */
const STATED = /^\ufeff?"?sep=(.)"?[ \t]*(?:\r\n|\n|\r)/i;
/** Numbers with a blank between that are no thousands, as a comma leaves them where it is a decimal one: `5 2` of `1,5 2,5`. */
const TWO_NUMBERS = /^(?:.{0,40}[\d:]) +[+-]?\d+$/;
const THOUSANDS = /^[+-]?\d{1,3}(?: \d{3})+$/;

/** The number of fields that most records have, and the share of them that do. */
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

/** Whether a comma splits numbers that blanks set apart. */
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

/** Whether a row is a header: words, and not the numbers with units that the row below has, too. */
function isHeading(cells: readonly string[], below: readonly string[] = []): boolean {
  if (!isHeader(cells)) return false;
  return !cells.some((cell, i) => {
    const unit = unitOf(cell);
    return unit !== null && (unit === '' || unit === unitOf(below[i] ?? ''));
  });
}

/** Whether a row has words, and nothing that could be a number or a time. */
const isWords = (cells: readonly string[]): boolean =>
  isHeading(cells) && cells.every((cell) => unitOf(cell) === null);

/**
 * Whether the lines below the header are numbers of one column: with decimal commas, which a comma would split, or with units, which
 * blanks would.
 */
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
 *
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
