/**
 * Records of a CSV text (RFC 4180, with comma, semicolon or tab, and CRLF, LF or CR), one at a time, as positions in
 * the text. A scan of our own instead of a library: `explain` must name the column of a wrong cell inside its line,
 * which the common parsers do not keep, and a million rows must take about a second, without an object per row.
 */
import { DataError } from '../../src/errors.ts';

const QUOTE = 34;
const LF = 10;
const CR = 13;

/** Most fields of a record: the points of a long series in one row. */
const MAXIMUM_FIELDS = 1_000_000;

const isBlank = (code: number): boolean => code === 32 || code === 9;

/** A walk over the records; the fields of the current one are read with `field`. */
export class CsvRecords {
  /** Number of fields of the current record; a blank line has one empty field. */
  width = 0;
  readonly #text: string;
  readonly #file: string;
  readonly #delimiter: number;
  readonly #starts: number[] = [];
  readonly #ends: number[] = [];
  #position = 0;
  /** The line of the last place that was asked for, and its offset. */
  #counted = { line: 1, start: 0 };

  constructor(text: string, delimiter: string, file: string) {
    this.#text = text;
    this.#file = file;
    this.#delimiter = delimiter.charCodeAt(0);
  }

  /**
   * Moves to the next record; false after the last.
   *
   * @throws DataError with line and column for a quote that never closes, text after a closing one, or too many fields
   */
  next(): boolean {
    const text = this.#text;
    const length = text.length;
    let at = this.#position;
    if (at >= length) return false;
    let width = 0;
    for (;;) {
      while (at < length && isBlank(text.charCodeAt(at)) && text.charCodeAt(at) !== this.#delimiter) at++;
      this.#starts[width] = at;
      if (text.charCodeAt(at) === QUOTE) at = this.#skipQuoted(at);
      let code = text.charCodeAt(at);
      while (at < length && code !== this.#delimiter && code !== LF && code !== CR) {
        code = text.charCodeAt(++at);
      }
      this.#ends[width++] = at;
      if (width > MAXIMUM_FIELDS) {
        throw new DataError(`more than ${MAXIMUM_FIELDS} fields in one line`, this.#place(this.#position));
      }
      if (at >= length || code !== this.#delimiter) break;
      at++;
    }
    if (text.charCodeAt(at) === CR && text.charCodeAt(at + 1) === LF) at++;
    this.#position = at + 1;
    this.width = width;
    return true;
  }

  /** Content of a field of the current record, without quotes and surrounding blanks. */
  field(index: number): string {
    const start = this.#starts[index]!;
    let end = this.#ends[index]!;
    while (end > start && isBlank(this.#text.charCodeAt(end - 1))) end--;
    if (end > start && this.#text.charCodeAt(start) === QUOTE) {
      return this.#text
        .slice(start + 1, end - 1)
        .replaceAll('""', '"')
        .trim();
    }
    return this.#text.slice(start, end);
  }

  /** True when the current record is a line of blanks, or nothing at all. */
  get blank(): boolean {
    return this.width === 1 && this.#starts[0] === this.#ends[0];
  }

  /** Where a field of the current record begins: file, 1-based line and column. */
  place(index: number): { file: string; line: number; column: number } {
    return this.#place(this.#starts[index]!);
  }

  /** Counted only when asked, so that the walk itself need not count; from the last place on, so that asking for all is quick. */
  #place(offset: number): { file: string; line: number; column: number } {
    let { line, start } = this.#counted.start <= offset ? this.#counted : { line: 1, start: 0 };
    for (let i = start; i < offset; i++) {
      const code = this.#text.charCodeAt(i);
      if (code === LF || (code === CR && this.#text.charCodeAt(i + 1) !== LF)) {
        line++;
        start = i + 1;
      }
    }
    this.#counted = { line, start };
    return { file: this.#file, line, column: offset - start + 1 };
  }

  /** From an opening quote to what follows its closing one, blanks skipped. */
  #skipQuoted(open: number): number {
    const text = this.#text;
    let at = open + 1;
    for (;;) {
      const quote = text.indexOf('"', at);
      if (quote < 0) throw new DataError('this quote never closes', this.#place(open));
      at = quote + 1;
      if (text.charCodeAt(at) !== QUOTE) break;
      at++;
    }
    while (isBlank(text.charCodeAt(at)) && text.charCodeAt(at) !== this.#delimiter) at++;
    const code = text.charCodeAt(at);
    if (at < text.length && code !== this.#delimiter && code !== LF && code !== CR) {
      throw new DataError(
        'text after a closing quote; double the quotes inside a quoted field',
        this.#place(at),
      );
    }
    return at;
  }
}

/** Delimiters in order of preference: a comma inside tab or semicolon files is most likely a decimal comma. */
const DELIMITERS = ['\t', ';', ','] as const;

/**
 * The delimiter of a CSV text: the one that splits the first records into the same number of fields, at least two;
 * else the one that splits the first record most; a comma when none occurs.
 */
export function detectDelimiter(text: string, file: string, records = 20): string {
  let widest = ',';
  let width = 1;
  for (const delimiter of DELIMITERS) {
    const walk = new CsvRecords(text, delimiter, file);
    let first = 0;
    let even = true;
    try {
      for (let seen = 0; seen < records && walk.next(); ) {
        if (walk.blank) continue;
        if (seen === 0) first = walk.width;
        even &&= walk.width === first;
        seen++;
      }
    } catch (error) {
      if (!(error instanceof DataError)) throw error;
      even = false; // a quote in the wrong place under this delimiter may be fine under the next
    }
    if (even && first >= 2) return delimiter;
    if (first > width) {
      width = first;
      widest = delimiter;
    }
  }
  return widest;
}
