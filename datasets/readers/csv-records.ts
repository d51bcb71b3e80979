/**
 * Records of a CSV text (RFC 4180, any delimiter, CRLF, LF or CR) as positions in the text, one at a time. No library serves: errors
 * name the column of a wrong cell in its line, and a million rows take about a second, without an object per row.
 */
import { DataError } from '../../src/ground/errors.ts';

const QUOTE = 34;
const LF = 10;
const CR = 13;
const TAB = 9;
const HASH = 35;
const PERCENT = 37;
const SLASH = 47;
const PLUS = 43;
const DASH = 45;
const BAR = 124;

/** Delimiter for columns separated by any number of blanks and tabs. */
export const BLANKS = ' ';

/** Maximum fields of a record: the points of a long series in one row. */
const MAXIMUM_FIELDS = 1_000_000;

const isBlank = (code: number): boolean => code === 32 || code === 9;

/** Characters of a ruler below a header, as databases print it. */
const RULER = new Set([...'-+|=: \t'].map((character) => character.charCodeAt(0)));
const SHORTEST_RULER = 4;
/** Error values of spreadsheets; they begin like comments but are none. */
const SPREADSHEET_ERROR = /#(?:N\/A|DIV\/0!|REF!|VALUE!|NUM!|NAME\?|NULL!)/iy;

/** Iterates over the records of a text; `field` reads the fields of the current one. */
export class CsvRecords {
  /** Number of fields of the current record; a blank line has one empty field. */
  width = 0;
  /** Comment lines passed so far. */
  comments = 0;
  /** The last comment line, from its mark on. */
  comment = '';
  readonly #text: string;
  readonly #file: string;
  readonly #delimiter: number;
  /** Tabs beside blanks; otherwise the delimiter again. */
  readonly #second: number;
  readonly #skipsComments: boolean;
  readonly #starts: number[] = [];
  readonly #ends: number[] = [];
  #position = 0;
  /** Line and offset of the last place that was computed. */
  #counted = { line: 1, start: 0 };

  /** @param skipComments skips lines that begin with `#`, `//` or `%` and words, and rulers such as `----+----` */
  constructor(text: string, delimiter: string, file: string, skipComments = false) {
    this.#text = text;
    this.#file = file;
    this.#delimiter = delimiter.charCodeAt(0);
    this.#second = delimiter === BLANKS ? TAB : this.#delimiter;
    this.#skipsComments = skipComments;
  }

  /**
   * Moves to the next record; false after the last.
   * @throws DataError with line and column for a quote that never closes, text after a closing one, or too many fields
   */
  next(): boolean {
    const text = this.#text;
    const length = text.length;
    if (this.#skipsComments) this.#skipComments();
    let at = this.#position;
    if (at >= length) return false;
    const delimiter = this.#delimiter;
    const second = this.#second;
    const runs = second !== delimiter;
    let width = 0;
    for (;;) {
      let code = text.charCodeAt(at);
      while (at < length && isBlank(code) && (runs || code !== delimiter)) code = text.charCodeAt(++at);
      if (runs && width > 0 && (at >= length || code === LF || code === CR)) break;
      this.#starts[width] = at;
      if (code === QUOTE) {
        at = this.#skipQuoted(at);
        code = text.charCodeAt(at);
      }
      while (at < length && code !== delimiter && code !== second && code !== LF && code !== CR) {
        code = text.charCodeAt(++at);
      }
      this.#ends[width++] = at;
      if (width > MAXIMUM_FIELDS) {
        throw new DataError(`more than ${MAXIMUM_FIELDS} fields in one line`, this.#place(this.#position));
      }
      if (at >= length || code === LF || code === CR) break;
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

  /** True when the current record is a blank line. */
  get blank(): boolean {
    return this.width === 1 && this.#starts[0] === this.#ends[0];
  }

  fields(): string[] {
    return Array.from({ length: this.width }, (_, i) => this.field(i));
  }

  /** 1-based line on which the current record begins. */
  get line(): number {
    return this.#place(this.#starts[0]!).line;
  }

  /** Place of a field of the current record: file, 1-based line and column. */
  place(index: number): { file: string; line: number; column: number } {
    return this.#place(this.#starts[index]!);
  }

  /** Counts lines only on request, and from the last place on, so that asking for all places is quick. */
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

  #skipComments(): void {
    const text = this.#text;
    while (this.#position < text.length) {
      let at = this.#position;
      while (isBlank(text.charCodeAt(at))) at++;
      if (!this.#isComment(at)) return;
      let end = at;
      while (end < text.length && text.charCodeAt(end) !== LF && text.charCodeAt(end) !== CR) end++;
      this.comments++;
      this.comment = text.slice(at, end);
      this.#position = text.charCodeAt(end) === CR && text.charCodeAt(end + 1) === LF ? end + 2 : end + 1;
    }
  }

  #isComment(at: number): boolean {
    const code = this.#text.charCodeAt(at);
    if (code === DASH || code === PLUS || code === BAR) return this.#isRuler(at);
    if (code !== HASH && code !== PERCENT && code !== SLASH) return false;
    const next = this.#text.charCodeAt(at + 1);
    if (code === SLASH) return next === SLASH;
    // A unit alone is the cell of a row of units.
    if (code === PERCENT)
      return !Number.isNaN(next) && next !== this.#delimiter && next !== LF && next !== CR;
    SPREADSHEET_ERROR.lastIndex = at;
    return !SPREADSHEET_ERROR.test(this.#text);
  }

  #isRuler(at: number): boolean {
    const text = this.#text;
    let dashes = 0;
    let end = at;
    for (; RULER.has(text.charCodeAt(end)); end++) if (text.charCodeAt(end) === DASH) dashes++;
    return dashes >= SHORTEST_RULER && (text.charCodeAt(end) === LF || text.charCodeAt(end) === CR);
  }

  /** Skips a quoted field and the blanks behind it. */
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
    const [delimiter, second] = [this.#delimiter, this.#second];
    let code = text.charCodeAt(at);
    while (isBlank(code) && code !== delimiter && code !== second) code = text.charCodeAt(++at);
    if (at < text.length && code !== delimiter && code !== second && code !== LF && code !== CR) {
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
/** Records that the delimiter is found by. */
const PROBED = 20;

/**
 * Field counts of the first non-blank records. `whole` is false where a misplaced quote ended the walk early, which may be fine under
 * another delimiter.
 */
export function firstWidths(walk: CsvRecords, records: number): { widths: number[]; whole: boolean } {
  const widths: number[] = [];
  try {
    while (widths.length < records && walk.next()) if (!walk.blank) widths.push(walk.width);
  } catch (error) {
    if (!(error instanceof DataError)) throw error;
    return { widths, whole: false };
  }
  return { widths, whole: true };
}

/**
 * The delimiter of a CSV text: the one that splits the first records into the same number of fields, at least two;
 * else the one that splits the first record most; a comma when none occurs.
 */
export function detectDelimiter(text: string, file: string): string {
  let widest = ',';
  let width = 1;
  for (const delimiter of DELIMITERS) {
    const { widths, whole } = firstWidths(new CsvRecords(text, delimiter, file), PROBED);
    const first = widths[0] ?? 0;
    if (whole && first >= 2 && widths.every((fields) => fields === first)) return delimiter;
    if (first > width) {
      width = first;
      widest = delimiter;
    }
  }
  return widest;
}
