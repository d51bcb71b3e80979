/** Lines of JSON from files of any size, one at a time. */
import { closeSync, openSync, readSync, statSync } from 'node:fs';
import { StringDecoder } from 'node:string_decoder';
import { DataError, reasonOf } from '../src/ground/errors.ts';
import { openRegular } from '../src/ground/files.ts';
import { syntaxColumn } from '../src/ground/json-record.ts';

const CHUNK = 1 << 20;
/** Longest line that is read, in bytes: a whole recording with its scores is a few megabytes. */
const LONGEST = 64 << 20;
/** Lines up to here are searched for the place of a syntax error, which takes several readings of the line. */
const SEARCHED = 1 << 16;
const PIPE = /^\/dev\/(?:stdin|fd\/\d+)$/;

export interface JsonLine {
  readonly value: unknown;
  /** 1-based. */
  readonly line: number;
}

function open(file: string): number {
  try {
    return PIPE.test(file) && statSync(file).isFIFO() ? openSync(file, 'r') : openRegular(file).handle;
  } catch (cause) {
    if (cause instanceof DataError) throw cause;
    throw new DataError(`cannot be read (${reasonOf(cause)})`, { file, cause });
  }
}

function parse(text: string, file: string, line: number): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    const column = text.length <= SEARCHED ? { column: syntaxColumn(text) } : {};
    throw new DataError('not JSON: expected one JSON object a line', { file, line, ...column, cause });
  }
}

/**
 * The values of a file of JSON lines; blank lines are passed over. Holds one line at a time.
 * @throws DataError naming file and line for a line that is not JSON or longer than 64 MiB, and for a file that cannot be read
 */
export function* readJsonValues(file: string): Generator<JsonLine> {
  const handle = open(file);
  try {
    const decoder = new StringDecoder('utf8');
    const chunk = Buffer.allocUnsafe(CHUNK);
    let pieces: string[] = [];
    let held = 0;
    let line = 1;
    for (;;) {
      const got = readSync(handle, chunk, 0, CHUNK, null);
      const text = got === 0 ? decoder.end() : decoder.write(chunk.subarray(0, got));
      let start = 0;
      for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', start)) {
        const whole = pieces.length === 0 ? text.slice(start, end) : pieces.join('') + text.slice(start, end);
        pieces = [];
        held = 0;
        start = end + 1;
        if (whole.trim() !== '') yield { value: parse(whole, file, line), line };
        line++;
      }
      if (start < text.length) {
        pieces.push(text.slice(start));
        held += text.length - start;
        if (held > LONGEST) {
          throw new DataError(`longer than ${LONGEST >> 20} MiB: is every object on a line of its own?`, {
            file,
            line,
          });
        }
      }
      if (got === 0) break;
    }
    const last = pieces.join('');
    if (last.trim() !== '') yield { value: parse(last, file, line), line };
  } finally {
    closeSync(handle);
  }
}
