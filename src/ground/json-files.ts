/** Files of JSON, and of JSON lines of any size, read strictly. */
import { closeSync, readSync } from 'node:fs';
import { StringDecoder } from 'node:string_decoder';
import type { z } from 'zod';
import { DataError, reasonOf } from './errors.ts';
import { openReadable, readUtf8 } from './files.ts';
import { syntaxColumn } from './json-record.ts';

const CHUNK = 1 << 20;
/** Longest line that is read, in bytes: a whole recording with its scores is a few megabytes. */
const LONGEST = 64 << 20;
/** Longest line that is searched for the place of a syntax error, which takes several readings of the line. */
const SEARCHED = 1 << 16;

function unreadable(file: string, cause: unknown, advice: string): DataError {
  if (cause instanceof DataError) return cause;
  const missing = (cause as NodeJS.ErrnoException).code === 'ENOENT';
  const problem = missing ? 'no such file' : `not readable (${reasonOf(cause)})`;
  return new DataError(`${problem}; ${advice}`, { file, cause });
}

/** Checks a value against its shape. @throws DataError naming the file and the key that is wrong */
export function checked<Shape extends z.ZodType>(
  value: unknown,
  shape: Shape,
  file: string,
  advice: string,
  line?: number,
): z.infer<Shape> {
  const { success, data, error } = shape.safeParse(value);
  if (success) return data;
  const issue = error.issues[0];
  const key = issue?.path.join('.') ?? '';
  throw new DataError(`${key === '' ? '' : `"${key}": `}${issue?.message ?? 'wrong shape'}; ${advice}`, {
    file,
    ...(line === undefined ? {} : { line }),
  });
}

/** Reads a JSON file. @throws DataError when it is missing, not JSON, or of another shape */
export function readJson<Shape extends z.ZodType>(
  file: string,
  shape: Shape,
  advice: string,
): z.infer<Shape> {
  let text: string;
  try {
    text = readUtf8(file);
  } catch (cause) {
    throw unreadable(file, cause, advice);
  }
  let value: unknown;
  try {
    value = JSON.parse(text.replace(/^\uFEFF/, ''));
  } catch (cause) {
    throw new DataError(`not JSON (${(cause as Error).message}); ${advice}`, { file, cause });
  }
  return checked(value, shape, file, advice);
}

interface JsonLinesOptions {
  /** Remedy at the end of every error. */
  readonly advice: string;
  /** Called when a torn last line, left by a killed process, is dropped; without it such a line is an error. */
  readonly onTornEnd?: () => void;
}

interface JsonLine {
  readonly value: unknown;
  readonly text: string;
  /** 1-based. */
  readonly line: number;
}

/**
 * Reads the values of a file of JSON lines, one line at a time; blank lines and a byte-order mark are passed over.
 * @throws DataError naming file and line for a line that is not JSON or longer than 64 MiB, and for a file that cannot be read
 */
export function* readJsonValues(file: string, { advice, onTornEnd }: JsonLinesOptions): Generator<JsonLine> {
  let handle: number;
  try {
    handle = openReadable(file).handle;
  } catch (cause) {
    throw unreadable(file, cause, advice);
  }
  const parse = (raw: string, line: number, last: boolean): JsonLine[] => {
    const text = line === 1 ? raw.replace(/^\ufeff/, '') : raw;
    if (line === 1 && text.startsWith('\x1f'))
      throw new DataError('a compressed file; unpack it first (gunzip)', { file });
    if (text.trim() === '') return [];
    try {
      return [{ value: JSON.parse(text), text, line }];
    } catch (cause) {
      if (last && onTornEnd !== undefined) {
        onTornEnd();
        return [];
      }
      const column = text.length <= SEARCHED ? { column: syntaxColumn(text) } : {};
      const comma = /^\s*\{.*(?:,\s*\}|\}\s*,)\s*$/s.test(text) ? '; remove the last comma' : '';
      throw new DataError(`not a JSON line${comma}; ${advice}`, { file, line, ...column, cause });
    }
  };
  try {
    const decoder = new StringDecoder('utf8');
    const chunk = Buffer.allocUnsafe(CHUNK);
    let pending = '';
    let line = 1;
    for (let size = -1; size !== 0; ) {
      size = readSync(handle, chunk, 0, CHUNK, null);
      const lines = (pending + (size === 0 ? decoder.end() : decoder.write(chunk.subarray(0, size)))).split(
        '\n',
      );
      pending = lines.pop()!;
      for (const text of lines) yield* parse(text, line++, false);
      if (pending.length > LONGEST) {
        const problem = `longer than ${LONGEST >> 20} MiB: is every object on a line of its own?`;
        throw new DataError(problem, { file, line });
      }
    }
    yield* parse(pending, line, true);
  } finally {
    closeSync(handle);
  }
}

/** Reads all lines of a file. @throws DataError as `readJsonValues`, and for a value of another shape */
export function readJsonLines<Shape extends z.ZodType>(
  file: string,
  shape: Shape,
  options: JsonLinesOptions,
): z.infer<Shape>[] {
  return Array.from(readJsonValues(file, options), ({ value, line }) =>
    checked(value, shape, file, options.advice, line),
  );
}

/** Writes one line for each value. */
export function* jsonLines(values: Iterable<unknown>): Generator<string> {
  for (const value of values) yield `${JSON.stringify(value)}\n`;
}
