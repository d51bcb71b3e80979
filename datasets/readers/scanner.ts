/** Scanner over the fields of a text file, read in chunks. */
import { closeSync, readSync } from 'node:fs';
import { DataError, reasonOf } from '../../src/ground/errors.ts';
import { openFile } from '../../src/ground/files.ts';
import { show } from '../../src/ground/json-record.ts';
import { NUMBER } from './record.ts';

/** Number written in a text; NaN for any other text, an infinity where it is too large for float64. */
export const decimal = (text: string): number => (NUMBER.test(text) ? Number(text) : Number.NaN);

const MISSING = /^(?:\?|[+-]?nan|na|n\/a|#n\/a|null|none)?$/i;
const INFINITE = /^[+-]?inf(?:inity)?$/i;

const LF = 10;
const CR = 13;
const TAB = 9;
const SPACE = 32;

/** Return value of `next` at the end of the file. */
export const END = -1;
/** Return value of `next` at the end of a line, whatever its line ending. */
export const LINE = LF;

const NONE: ReadonlySet<number> = new Set();

const CHUNK = 1 << 16;
/** Maximum bytes of a field: a longer one is a file of another kind. */
const LONGEST = 1 << 20;

/** Table of the bytes that end a field: those of `characters`, and line ends. */
export function stopsAt(characters: string): Uint8Array {
  const stops = new Uint8Array(256);
  for (const byte of [...Buffer.from(characters, 'latin1'), LF, CR]) stops[byte] = 1;
  return stops;
}

export const LINES = stopsAt('');
/** Fields are separated by blanks; empty fields appear where blanks end a line. */
export const WORDS = stopsAt(' \t');
export const COMMAS = stopsAt(',');

const DECODER = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * Fields of a text file, one after the other. Lines end with LF, CRLF or CR; a byte-order mark of UTF-8 is skipped;
 * blanks around a field do not belong to it. Columns in messages count bytes from 1.
 *
 * The current field is `bytes[from, to)` until the next call; `number` and `text` read it.
 */
export class Scanner {
  readonly path: string;
  bytes: Buffer = Buffer.allocUnsafe(CHUNK);
  from = 0;
  to = 0;
  line = 1;
  readonly #handle: number;
  /** Line of the next byte, and its offset in the file. */
  #nextLine = 1;
  #nextStart = 0;
  #lineStart = 0;
  /** File offset of `bytes[0]`. */
  #base = 0;
  #at = 0;
  #end = 0;
  #last = false;
  #afterCr = false;
  #closed = false;

  /** @throws DataError for a file that cannot be opened, is compressed, or is UTF-16 */
  constructor(path: string) {
    this.path = path;
    this.#handle = openFile(path).handle;
    try {
      this.#fill(0);
      this.#checkStart();
    } catch (error) {
      this.close();
      throw error;
    }
  }

  close(): void {
    if (!this.#closed) closeSync(this.#handle);
    this.#closed = true;
  }

  /**
   * Moves to the next field and past the byte that ends it.
   * @returns that byte, LINE at a line end, END at the end of the file
   * @throws DataError for a field of more than 1 MiB
   */
  next(stops: Uint8Array): number {
    this.#skipBlanks(stops[TAB] === 0 || stops[SPACE] === 1);
    this.line = this.#nextLine;
    this.#lineStart = this.#nextStart;
    let start = this.#at;
    let at = start;
    for (;;) {
      const bytes = this.bytes;
      const end = this.#end;
      while (at < end && stops[bytes[at]!] === 0) at++;
      if (at < end || this.#last) break;
      at -= start;
      this.#fill(start);
      start = 0;
    }
    this.from = start;
    let to = at;
    while (to > start && (this.bytes[to - 1] === SPACE || this.bytes[to - 1] === TAB)) to--;
    this.to = to;
    if (at >= this.#end) {
      this.#at = at;
      return END;
    }
    this.#at = at + 1;
    const stop = this.bytes[at]!;
    return stop === LF || stop === CR ? this.#endLine(stop) : stop;
  }

  /** The first byte of the next field, LINE or END; blanks before it are skipped, tabs only when `tabs`. */
  peek(tabs = true): number {
    this.#skipBlanks(tabs);
    if (this.#at >= this.#end) return END;
    const code = this.bytes[this.#at]!;
    return code === CR ? LINE : code;
  }

  /** Skips blank lines, and lines that begin with a byte of `comments`. @returns false at the end of the file */
  atLine(comments: ReadonlySet<number> = NONE): boolean {
    for (;;) {
      const code = this.peek();
      if (code === LINE) this.skip();
      else if (comments.has(code)) this.skipLine();
      else return code !== END;
    }
  }

  /** Skips the byte that `peek` returned. */
  skip(): void {
    const code = this.bytes[this.#at++]!;
    if (code === LF || code === CR) this.#endLine(code);
  }

  /** Skips the rest of the line, however long it is. @returns LINE, or END after the last */
  skipLine(): number {
    for (;;) {
      const { bytes } = this;
      let at = this.#at;
      while (at < this.#end && bytes[at] !== LF && bytes[at] !== CR) at++;
      this.#at = at;
      if (at < this.#end) {
        this.#at = at + 1;
        return this.#endLine(bytes[at]!);
      }
      if (this.#last) return END;
      this.#fill(at);
    }
  }

  /** Rest of the current line, as far as it lies in memory; nothing is consumed. */
  ahead(): string {
    const { bytes } = this;
    let end = this.#at;
    while (end < this.#end && bytes[end] !== LF && bytes[end] !== CR) end++;
    return bytes.toString('latin1', this.#at, end);
  }

  get empty(): boolean {
    return this.from === this.to;
  }

  /** Column of the current field, in bytes from 1. */
  get column(): number {
    return this.#base + this.from - this.#lineStart + 1;
  }

  /** Place of the current field, for a DataError. */
  get place(): { file: string; line: number; column: number } {
    return { file: this.path, line: this.line, column: this.column };
  }

  /**
   * The current field as a number; NaN when it is missing: empty, `?`, `nan`, `na`, `n/a`, `null` or `none`, in
   * any case. Quotes around it do not count.
   * @throws DataError with line and column for other text and for infinities
   */
  number(): number {
    const raw = this.latin1();
    const value = decimal(raw);
    if (Number.isFinite(value)) return value;
    const text = /^"(.*)"$/.exec(raw)?.[1]?.trim() ?? raw;
    const inside = decimal(text);
    if (Number.isFinite(inside)) return inside;
    if (MISSING.test(text)) return Number.NaN;
    if (INFINITE.test(text) || !Number.isNaN(inside)) {
      throw this.fail(`${show(text)} is not a finite number; write ? or NaN for a missing value`);
    }
    throw this.fail(`${show(text)} is not a number`);
  }

  /** The current field with a character for each byte. */
  latin1(): string {
    return this.bytes.toString('latin1', this.from, this.to);
  }

  /** The current field as text. @throws DataError with line and column when it is not UTF-8 */
  text(): string {
    try {
      return DECODER.decode(this.bytes.subarray(this.from, this.to));
    } catch (cause) {
      throw new DataError('not UTF-8 text; save the file as UTF-8', { ...this.place, cause });
    }
  }

  /** Current field as text, without one pair of quotes around it. */
  unquoted(): string {
    const text = this.text();
    const quote = text[0];
    if (text.length < 2 || (quote !== '"' && quote !== "'") || text.at(-1) !== quote) return text;
    return text.slice(1, -1).trim();
  }

  fail(message: string): DataError {
    return new DataError(message, this.place);
  }

  #endLine(code: number): number {
    this.#afterCr = code === CR;
    this.#nextLine++;
    this.#nextStart = this.#base + this.#at;
    return LINE;
  }

  /** Skips blanks, and the LF of a CRLF whose CR ended the last field. */
  #skipBlanks(tabs: boolean): void {
    for (;;) {
      if (this.#at >= this.#end) {
        if (this.#last) return;
        this.#fill(this.#at);
        continue;
      }
      const code = this.bytes[this.#at]!;
      if (code === LF && this.#afterCr) {
        this.#at++;
        this.#nextStart = this.#base + this.#at;
      } else if (code !== SPACE && !(tabs && code === TAB)) {
        this.#afterCr = false;
        return;
      } else {
        this.#at++;
      }
      this.#afterCr = false;
    }
  }

  /** Reads more bytes, keeping those from `keep`, which move to the front. */
  #fill(keep: number): void {
    const kept = this.#end - keep;
    if (kept > LONGEST) {
      throw new DataError(`a field of more than ${LONGEST} bytes; not a file of this format`, {
        file: this.path,
        line: this.#nextLine,
        column: this.#base + keep - this.#nextStart + 1,
      });
    }
    const target = kept + CHUNK > this.bytes.length ? Buffer.allocUnsafe(2 * (kept + CHUNK)) : this.bytes;
    this.bytes.copy(target, 0, keep, this.#end);
    this.bytes = target;
    this.#base += keep;
    this.#at -= keep;
    let read = 0;
    try {
      read = readSync(this.#handle, target, kept, target.length - kept, null);
    } catch (cause) {
      throw new DataError(`cannot be read (${reasonOf(cause)})`, { file: this.path, cause });
    }
    this.#end = kept + read;
    this.#last = read === 0;
  }

  #checkStart(): void {
    const { bytes } = this;
    const head = bytes.subarray(0, Math.min(this.#end, 4)).toString('hex');
    if (head.startsWith('efbbbf')) {
      this.#at = 3;
      this.#nextStart = 3;
    } else if (head.startsWith('fffe') || head.startsWith('feff')) {
      throw new DataError('UTF-16 text; save the file as UTF-8', { file: this.path });
    } else if (head.startsWith('1f8b') || head.startsWith('504b0304')) {
      throw new DataError('a compressed file; unpack it first', { file: this.path });
    }
  }
}

/** Runs `read` over a scanner of `path` and closes it, also when the caller stops early. */
export function* scanning<T>(path: string, read: (scanner: Scanner) => Generator<T>): Generator<T> {
  const scanner = new Scanner(path);
  try {
    yield* read(scanner);
  } finally {
    scanner.close();
  }
}
