/** Question files: rows of JSON, JSON lines, CSV (each optionally gzipped) or Parquet, with their places. */
import { gunzipSync } from 'node:zlib';
import { DataError, reasonOf } from '../../src/ground/errors.ts';
import { readBytes } from '../../src/ground/files.ts';
import { type Place, show, syntaxColumn } from '../../src/ground/json-record.ts';
import { CsvRecords, detectDelimiter } from './csv-records.ts';
import { readParquetRows } from './parquet.ts';
import { decodeText } from './text-encoding.ts';

export interface QuestionRow {
  readonly fields: Readonly<Record<string, unknown>>;
  readonly place: Place;
  /** 0-based. */
  readonly number: number;
}

const TEXT_ENDINGS = ['.json', '.jsonl', '.ndjson', '.csv'] as const;
export const QUESTION_ENDINGS = [
  ...TEXT_ENDINGS,
  ...TEXT_ENDINGS.map((ending) => `${ending}.gz`),
  '.parquet',
];

/** Maximum bytes of text in a gzip file; V8 holds no longer string. */
const MOST_TEXT = 2 ** 29 - 25;

type Row = Pick<QuestionRow, 'fields' | 'place'>;

function object(value: unknown, what: string, place: Place): Readonly<Record<string, unknown>> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    return value as Record<string, unknown>;
  }
  throw new DataError(
    `${what}got ${show(value)}, expected an object with question, answer and series`,
    place,
  );
}

/** Text of a file, unpacked where it is gzip by its first bytes. @throws DataError for one that is damaged or too long */
function textOf(file: string): string {
  let bytes: Buffer;
  try {
    bytes = readBytes(file);
    if (bytes[0] === 0x1f && bytes[1] === 0x8b) bytes = gunzipSync(bytes, { maxOutputLength: MOST_TEXT });
  } catch (cause) {
    if (cause instanceof DataError) throw cause;
    const { code } = cause as NodeJS.ErrnoException;
    const reason =
      code === 'ERR_BUFFER_TOO_LARGE'
        ? `unpacks to more than ${MOST_TEXT} bytes; split it into several files`
        : code?.startsWith('Z_')
          ? `a damaged gzip file (${(cause as Error).message}); download it again`
          : `cannot be read (${reasonOf(cause)})`;
    throw new DataError(reason, { file, cause });
  }
  const { text, assumed } = decodeText(bytes, file);
  if (assumed.length > 0) throw new DataError('not UTF-8 text; save it as UTF-8', { file });
  return text;
}

function parsed(text: string, place: Place): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw new DataError('nested too deep', { ...place, cause });
    const line = place.line === undefined ? {} : { column: syntaxColumn(text) };
    throw new DataError(`not JSON: ${cause.message}`, { ...place, ...line, cause });
  }
}

/** A list of objects, alone or as the only list of an object. */
function* jsonRows(file: string): Generator<Row> {
  const whole = parsed(textOf(file), { file });
  const lists = Array.isArray(whole)
    ? [whole]
    : Object.values(object(whole, '', { file })).filter((value) => Array.isArray(value));
  const list = lists.find((candidate) => candidate.every((item) => typeof item === 'object')) ?? lists[0];
  if (list === undefined) throw new DataError('holds no list of questions', { file });
  for (const [i, item] of list.entries()) {
    const place = { file };
    yield { fields: object(item, `item ${i}: `, place), place };
  }
}

function* jsonLines(file: string): Generator<Row> {
  for (const [i, line] of textOf(file).split('\n').entries()) {
    if (line.trim() === '') continue;
    const place = { file, line: i + 1 };
    yield { fields: object(parsed(line, place), '', place), place };
  }
}

function* csvRows(file: string): Generator<Row> {
  const text = textOf(file);
  const records = new CsvRecords(text, detectDelimiter(text, file), file);
  if (!records.next()) throw new DataError('holds no rows', { file });
  const names = records.fields();
  while (records.next()) {
    if (records.blank) continue;
    const { file: own, line } = records.place(0);
    const place = { file: own, line };
    if (records.width !== names.length) {
      throw new DataError(`${records.width} cells in a row, the header has ${names.length}`, place);
    }
    // Cells hold lists and objects as JSON.
    const fields = Object.fromEntries(
      records.fields().map((cell, c): [string, unknown] => {
        const value = /^\s*[[{]/.test(cell) ? parsed(cell, place) : cell === '' ? null : cell;
        return [names[c]!, value];
      }),
    );
    yield { fields, place };
  }
}

function* parquetRows(file: string): Generator<Row> {
  for (const fields of readParquetRows(file)) yield { fields, place: { file } };
}

/** Rows of a file, by its extension. @throws DataError for a damaged file, with file, line and column where they are known */
export function* readQuestionRows(file: string): Generator<QuestionRow> {
  const name = file.toLowerCase().replace(/\.gz$/, '');
  const rows = name.endsWith('.parquet')
    ? parquetRows
    : name.endsWith('.csv')
      ? csvRows
      : name.endsWith('.json')
        ? jsonRows
        : jsonLines;
  let number = 0;
  for (const row of rows(file)) yield { ...row, number: number++ };
}
