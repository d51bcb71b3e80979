/** Parquet files: a table of points with one column per channel, or a table of series with list columns. */
import {
  type ColumnMetaData,
  type FileMetaData,
  parquetMetadata,
  parquetSchema,
  type SchemaElement,
  type SchemaTree,
} from 'hyparquet';
import { DataError } from '../../src/ground/errors.ts';
import { getOrMake } from '../../src/ground/maps.ts';
import { type ByteSource, reading } from './byte-source.ts';
import { eachSeries, labelColumn, labelsPoints, namesSeries, seriesColumn } from './csv.ts';
import { type Chunk, type Leaf, readChunk, type Stored } from './parquet-pages.ts';
import { Column, isInfinite, pointLabels, type RawRecord, rawRecord, stem } from './record.ts';

interface ParquetColumn {
  readonly name: string;
  readonly path: string;
  readonly leaf: Leaf;
  readonly convert: ((value: number) => number) | null;
  readonly instant: boolean;
}

const UNITS: Readonly<Record<string, number>> = { MILLIS: 1e3, MICROS: 1e6, NANOS: 1e9 };

/** Storage of a leaf and the meaning of its numbers; null where it is neither a number nor a text. */
function storedAs(
  element: SchemaElement,
): { stored: Stored; convert: ((value: number) => number) | null; instant: boolean } | null {
  const { type, converted_type: old, logical_type: logical } = element;
  const number = (stored: Stored, divisor = 1, instant = false) => ({
    stored,
    convert: divisor === 1 ? null : (value: number): number => value / divisor,
    instant,
  });
  if (type === 'BYTE_ARRAY') {
    return old === 'DECIMAL' || logical?.type === 'DECIMAL' ? null : number('TEXT');
  }
  if (type === 'BOOLEAN' || type === 'FLOAT' || type === 'DOUBLE') return number(type);
  if (type !== 'INT32' && type !== 'INT64') return null;
  if (logical?.type === 'TIMESTAMP') return number(type, UNITS[logical.unit] ?? 1, true);
  if (old === 'TIMESTAMP_MILLIS') return number(type, 1e3, true);
  if (old === 'TIMESTAMP_MICROS') return number(type, 1e6, true);
  if (old === 'DATE' || logical?.type === 'DATE') {
    return { stored: type, convert: (days) => days * 86400, instant: true };
  }
  if (old === 'DECIMAL' || logical?.type === 'DECIMAL') return number(type, 10 ** (element.scale ?? 0));
  if (logical?.type === 'INTEGER' ? !logical.isSigned : old?.startsWith('UINT_')) {
    return number(type === 'INT32' ? 'UINT32' : 'UINT64');
  }
  return number(type);
}

/** A top-level column as a flat one or a list of one level; null for structures, maps and lists of lists. */
function readable(top: SchemaTree): ParquetColumn | null {
  let node = top;
  let definition = 0;
  let repetition = 0;
  let elementDefinition = 0;
  for (;;) {
    const kind = node.element.repetition_type;
    if (kind !== 'REQUIRED') definition++;
    if (kind === 'REPEATED') {
      repetition++;
      elementDefinition = definition;
    }
    if (node.children.length === 0) break;
    if (node.children.length > 1) return null;
    node = node.children[0]!;
  }
  if (typeof top.element.name !== 'string') throw new TypeError('a column without a name');
  const stored = storedAs(node.element);
  if (stored === null || repetition > 1 || (repetition === 0 && node !== top)) return null;
  return {
    name: top.element.name,
    path: node.path.join('.'),
    leaf: {
      stored: stored.stored,
      maximumDefinition: definition,
      maximumRepetition: repetition === 1 ? 1 : 0,
      elementDefinition,
    },
    convert: stored.convert,
    instant: stored.instant,
  };
}

const LABEL_NAME = /^(?:class|target)$/i;
const AXIS_NAME = /^[xz]$/i;
const TIME_NAME = /^(?:times?|timestamps?|dates?|date_?time|ds|t|index|epoch)$/i;
const PANDAS_INDEX = /^__index_level_\d+__$/;
const LONGEST_FOOTER = 64 << 20;

function readFooter(source: ByteSource): FileMetaData {
  const fail = (message: string, cause?: unknown): DataError =>
    new DataError(message, { file: source.path, cause });
  if (source.size < 12) throw fail('not a Parquet file');
  const end = source.read(source.size - 8, 8);
  const magic = end.toString('latin1', 4);
  if (magic === 'PARE') throw fail('an encrypted Parquet file');
  if (magic !== 'PAR1') throw fail('not a Parquet file, or cut off: no PAR1 at its end');
  const length = end.readUInt32LE(0);
  if (length > Math.min(source.size - 12, LONGEST_FOOTER)) {
    throw fail('damaged, or cut off: its end does not locate the list of columns; copy or write it again');
  }
  try {
    return parquetMetadata(source.read(source.size - 8 - length, length + 8), { geoparquet: false });
  } catch (cause) {
    throw fail(`damaged footer (${(cause as Error).message})`, cause);
  }
}

interface Plan {
  readonly channels: readonly ParquetColumn[];
  readonly label: ParquetColumn | null;
  readonly time: ParquetColumn | null;
  /** Columns that may name the series of each labelled row. */
  readonly keys: readonly ParquetColumn[];
  readonly lists: boolean;
}

/**
 * The column that holds labels by its name: one of those of points, class or target, in any case; or y, unless a column x or z
 * says that it is an axis. Null for none.
 */
function likelyLabel(flat: readonly ParquetColumn[]): ParquetColumn | null {
  const axes = flat.some(({ name }) => AXIS_NAME.test(name));
  const named = flat.find(({ name }) => labelColumn([name]) === 0 || LABEL_NAME.test(name));
  return named ?? (axes ? undefined : flat.find(({ name }) => /^y$/i.test(name))) ?? null;
}

function plan(columns: readonly ParquetColumn[], labelled: boolean, path: string): Plan {
  const flat = columns.filter(({ leaf }) => leaf.maximumRepetition === 0);
  const label = labelled ? likelyLabel(flat) : null;
  const isNumber = ({ leaf }: ParquetColumn): boolean => leaf.stored !== 'TEXT';
  const lists = columns.filter((column) => column.leaf.maximumRepetition === 1 && isNumber(column));
  const time =
    flat.find((column) => column.instant) ??
    flat.find((column) => isNumber(column) && TIME_NAME.test(column.name));
  const values = flat.filter(
    (column) =>
      isNumber(column) &&
      column !== label &&
      column !== time &&
      !column.instant &&
      !PANDAS_INDEX.test(column.name),
  );
  const measured = values.filter(({ name }) => !labelsPoints(name));
  const named = flat.filter(
    ({ name, leaf }) => !/^(?:FLOAT|DOUBLE)/.test(leaf.stored) && namesSeries({ name, cells: [] }),
  );
  const keyed = label === null || lists.length > 0 ? [] : named;
  const unnamed = measured.filter((column) => !keyed.includes(column));
  const channels = [lists, unnamed, measured].find((some) => some.length > 0) ?? values;
  const keys = keyed.filter((column) => !channels.includes(column));
  if (channels.length === 0) throw new DataError('no column of numbers', { file: path });
  return { channels, label, time: time ?? null, keys, lists: lists.length > 0 };
}

/** Numbers of a column, converted. @throws DataError for infinities */
function numbers(chunk: Chunk, column: ParquetColumn, path: string): Float64Array {
  const values = chunk.values as Float64Array;
  const wrong = values.findIndex(isInfinite);
  if (wrong >= 0) {
    throw new DataError(`column "${column.name}": infinite value ${wrong + 1} of a row group`, {
      file: path,
    });
  }
  return column.convert === null ? values : values.map(column.convert);
}

/**
 * Reads a Parquet file. With list columns of numbers every row is a record (`name/index` from 0), its channels the
 * lists, its label the label column. Otherwise the file is one record of one row per point: channels are the numeric
 * columns, times the first column of dates or one named time, timestamp, date, …, and the label column holds point
 * labels (0 or 1); with a column such as `KPI ID`, whose values repeat, it is one record for each of them, as in `readPoints`. Nulls are
 * missing values (NaN); columns of other kinds are left out.
 * @param labelled false: no column is taken for a label
 *
 * Row groups are read one by one. Compression: none, Snappy, gzip, Brotli, LZ4, Zstandard; numbers of up to 64 bits
 * (rounded to float64), decimals and dates (seconds since 1970).
 * @throws DataError for a damaged or encrypted file, no numeric column, infinities, and a missing label or time
 */
export function readParquet(path: string, labelled = true): Generator<RawRecord> {
  return reading(path, (source) => records(source, labelled));
}

/** Reads the requested columns of one row group. */
function readGroup(
  source: ByteSource,
  group: FileMetaData['row_groups'][number],
  columns: readonly ParquetColumn[],
): Map<ParquetColumn, Chunk> {
  const chunks = new Map<ParquetColumn, Chunk>();
  const rowCount = Number(group.num_rows);
  for (const column of columns) {
    // A damaged footer may lack any part, whatever the type says.
    const pathOf = (meta: Partial<ColumnMetaData> | undefined) => meta?.path_in_schema?.join('.');
    const meta = group.columns.find((chunk) => pathOf(chunk.meta_data) === column.path)?.meta_data;
    const fail = (message: string, cause?: unknown): DataError =>
      new DataError(`column "${column.name}": ${message}`, { file: source.path, cause });
    if (meta === undefined) throw fail('missing in a row group');
    const dictionary = Number(meta.dictionary_page_offset ?? 0);
    const start =
      dictionary > 0 ? Math.min(dictionary, Number(meta.data_page_offset)) : Number(meta.data_page_offset);
    const bytes = source.read(start, Number(meta.total_compressed_size));
    try {
      chunks.set(column, readChunk(bytes, meta, column.leaf, rowCount));
    } catch (cause) {
      throw fail(`damaged (${(cause as Error).message})`, cause);
    }
  }
  return chunks;
}

/** All top-level columns that can be read, in the file's order. @throws DataError for a schema that is none */
function readableColumns(footer: FileMetaData, path: string): ParquetColumn[] {
  try {
    return parquetSchema(footer)
      .children.map(readable)
      .filter((column) => column !== null);
  } catch (cause) {
    throw new DataError(`damaged schema (${(cause as Error).message})`, { file: path, cause });
  }
}

function* records(source: ByteSource, labelled: boolean): Generator<RawRecord> {
  const { path } = source;
  const footer = readFooter(source);
  const planned = plan(readableColumns(footer, path), labelled, path);
  const groups = footer.row_groups.filter((group) => Number(group.num_rows) > 0);
  if (groups.length === 0) throw new DataError('no rows', { file: path });
  if (planned.lists) yield* rowRecords(source, groups, planned, path);
  else yield* pointRecords(source, groups, planned, path);
}

function* rowRecords(
  source: ByteSource,
  groups: FileMetaData['row_groups'],
  { channels, label }: Plan,
  path: string,
): Generator<RawRecord> {
  const name = stem(path);
  const channelNames = channels.map((column) => column.name);
  let index = 0;
  for (const group of groups) {
    const chunks = readGroup(source, group, label === null ? channels : [...channels, label]);
    const values = channels.map((column) => numbers(chunks.get(column)!, column, path));
    const starts = channels.map((column) => chunks.get(column)!.starts!);
    const labels = label === null ? null : chunks.get(label)!.values;
    for (let row = 0; row < Number(group.num_rows); row++) {
      const fail = (message: string): DataError => new DataError(`row ${index}: ${message}`, { file: path });
      const series = values.map((all, c) => all.slice(starts[c]![row]!, starts[c]![row + 1]!));
      if (series.some((channel) => channel.length === 0)) throw fail('a series without values');
      const value = labels === null ? null : labels[row]!;
      if (labels !== null && (value === null || Number.isNaN(value))) throw fail('a missing label');
      yield rawRecord(path, `${name}/${index++}`, series, {
        channelNames,
        label: value === null ? null : String(value),
      });
    }
  }
}

function* pointRecords(
  source: ByteSource,
  groups: FileMetaData['row_groups'],
  { channels, label, time, keys }: Plan,
  path: string,
): Generator<RawRecord> {
  if (label !== null && label.leaf.stored === 'TEXT') {
    throw new DataError(`the label "${label.name}" of points is text; expected 0 or 1`, { file: path });
  }
  const columns = [...channels, ...[label, time].filter((column) => column !== null)];
  const values = new Map(columns.map((column) => [column, new Column()]));
  const names = keys.map(({ name }) => ({ name, cells: [] as string[] }));
  for (const group of groups) {
    const chunks = readGroup(source, group, [...columns, ...keys]);
    for (const [k, { cells }] of names.entries())
      for (const value of chunks.get(keys[k]!)!.values) cells.push(String(value ?? ''));
    for (const column of columns) {
      for (const value of numbers(chunks.get(column)!, column, path)) values.get(column)!.push(value);
    }
  }
  const whole = (column: ParquetColumn): Float64Array => values.get(column)!.take();
  const times = time === null ? null : whole(time);
  const absent = times?.findIndex((value) => Number.isNaN(value)) ?? -1;
  if (absent >= 0) throw new DataError(`column "${time!.name}": no time in row ${absent}`, { file: path });
  const anomalies = label === null ? null : pointLabels(whole(label), label.name, path);
  const record = rawRecord(path, stem(path), channels.map(whole), {
    channelNames: channels.map((column) => column.name),
    times,
    anomalies,
  });
  const rowsOf = new Map<string, number[]>();
  for (const [row, key] of names[seriesColumn(names)]?.cells.entries() ?? [])
    getOrMake(rowsOf, key, () => []).push(row);
  if (anomalies === null) yield record;
  else yield* eachSeries(record, anomalies, rowsOf);
}

/**
 * Rows of a Parquet file as objects: numbers, texts, and lists of either; null for what is missing, an empty list included. Columns of
 * other kinds (structures, lists of lists) are left out.
 * @throws DataError as `readParquet`
 */
export function readParquetRows(path: string): Generator<Record<string, unknown>> {
  return reading(path, rows);
}

function* rows(source: ByteSource): Generator<Record<string, unknown>> {
  const footer = readFooter(source);
  const columns = readableColumns(footer, source.path);
  for (const group of footer.row_groups) {
    const count = Number(group.num_rows);
    if (count === 0) continue;
    const chunks = readGroup(source, group, columns);
    for (let row = 0; row < count; row++) {
      const fields: Record<string, unknown> = {};
      for (const column of columns) {
        const { starts, values } = chunks.get(column)!;
        const plain = (at: number): unknown => {
          const value = values[at] ?? null;
          return typeof value === 'number' && Number.isNaN(value) ? null : value;
        };
        if (starts === null) fields[column.name] = plain(row);
        else {
          const length = starts[row + 1]! - starts[row]!;
          const list = Array.from({ length }, (_, i) => plain(starts[row]! + i));
          fields[column.name] = length === 0 ? null : list;
        }
      }
      yield fields;
    }
  }
}
