/** Column chunks of a Parquet file: pages, unpacked and put together as one value or one list per row. */
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import type { ColumnMetaData, PageHeader } from 'hyparquet';
import { parquetHeader } from 'hyparquet/src/column.js';
import { compressors, decompressZstd } from 'hyparquet-compressors';
import {
  lookUp,
  PageError,
  PageReader,
  readDeltas,
  readPlain,
  readRuns,
  readSplit,
  type Stored,
  type Values,
} from './parquet-values.ts';

/** Most values of a column chunk and of a page, and most bytes of a page: what can be held beside the series. */
const MOST_VALUES = 1 << 25;
const MOST_PER_PAGE = 1 << 23;
const MOST_BYTES = 1 << 29;
const EMPTY = Buffer.alloc(0);

/** How a column is stored. */
export interface Leaf {
  readonly stored: Stored;
  /** Level of a value that is there. */
  readonly maximumDefinition: number;
  /** 1 for a list column, 0 for a flat one. */
  readonly maximumRepetition: 0 | 1;
  /** Lists: level from which an element is there, be it null. */
  readonly elementDefinition: number;
}

/** One chunk of a column. Flat: one value per row. List: the elements of row r are `[starts[r], starts[r+1])`. */
export interface Chunk {
  /** Numbers, NaN for null; or texts, null for null. */
  readonly values: Float64Array | readonly (string | null)[];
  readonly starts: readonly number[] | null;
}

function unpackPage(bytes: Buffer, size: number, codec: string): Buffer {
  if (codec === 'UNCOMPRESSED') return bytes;
  if (size === 0) return EMPTY;
  if (!(size > 0 && size <= MOST_BYTES)) throw new PageError(`a page of ${size} bytes`);
  const options = { maxOutputLength: size };
  let page: Uint8Array;
  if (codec === 'GZIP') page = gunzipSync(bytes, options);
  else if (codec === 'BROTLI') page = brotliDecompressSync(bytes, options);
  else if (codec === 'ZSTD') page = decompressZstd(bytes, new Uint8Array(size));
  else if (codec === 'SNAPPY' || codec === 'LZ4' || codec === 'LZ4_RAW')
    page = compressors[codec]!(bytes, size);
  else throw new PageError(`compression ${codec}`);
  if (page.length !== size) throw new PageError(`${page.length} bytes unpacked, expected ${size}`);
  return Buffer.from(page.buffer, page.byteOffset, page.byteLength);
}

function readEncoded(
  reader: PageReader,
  encoding: string,
  leaf: Leaf,
  count: number,
  dictionary: Values | null,
): Values {
  switch (encoding) {
    case 'PLAIN':
      return readPlain(reader, leaf.stored, count);
    case 'PLAIN_DICTIONARY':
    case 'RLE_DICTIONARY':
      if (dictionary === null) throw new PageError('a page of indices without a dictionary before it');
      return lookUp(dictionary, count === 0 ? new Uint32Array(0) : readRuns(reader, reader.byte(), count));
    case 'RLE':
      if (leaf.stored !== 'BOOLEAN') break;
      reader.uint32();
      return Float64Array.from(readRuns(reader, 1, count));
    case 'DELTA_BINARY_PACKED':
      if (!/INT/.test(leaf.stored)) break;
      return readDeltas(reader, count, leaf.stored);
    case 'BYTE_STREAM_SPLIT':
      return readSplit(reader, leaf.stored, count);
  }
  throw new PageError(`encoding ${encoding} of ${leaf.stored}`);
}

/** Collects the rows of the pages of one chunk. */
class Rows {
  readonly leaf: Leaf;
  readonly numbers: Float64Array | null;
  readonly texts: (string | null)[] = [];
  readonly starts: number[] = [];
  /** Levels seen, and values (nulls included) stored. */
  levels = 0;
  length = 0;

  constructor(leaf: Leaf, count: number) {
    this.leaf = leaf;
    this.numbers = leaf.stored === 'TEXT' ? null : new Float64Array(count);
  }

  add(count: number, definitions: Uint32Array | null, repetitions: Uint32Array | null, values: Values): void {
    const { maximumDefinition, elementDefinition, maximumRepetition } = this.leaf;
    let next = 0;
    for (let i = 0; i < count; i++) {
      const definition = definitions === null ? maximumDefinition : definitions[i]!;
      if (maximumRepetition === 1) {
        if (repetitions![i] === 0) this.starts.push(this.length);
        else if (this.starts.length === 0) throw new PageError('a list that begins in the middle');
        if (definition < elementDefinition) continue; // an empty list, or none
      }
      const value = definition === maximumDefinition ? values[next++] : null;
      if (this.numbers === null) this.texts.push(value as string | null);
      else this.numbers[this.length] = value === null ? Number.NaN : (value as number);
      this.length++;
    }
    this.levels += count;
  }
}

const bitsFor = (level: number): number => 32 - Math.clz32(level);

/** Levels of a version 1 page: their length in bytes, then runs. */
function readLevels(reader: PageReader, level: number, count: number): Uint32Array | null {
  if (level === 0) return null;
  const length = reader.uint32();
  const start = reader.take(length);
  return readRuns(new PageReader(reader.bytes.subarray(start, start + length)), bitsFor(level), count);
}

const present = (definitions: Uint32Array | null, level: number, count: number): number =>
  definitions === null ? count : definitions.reduce((sum, at) => sum + (at === level ? 1 : 0), 0);

function addPage(
  rows: Rows,
  header: PageHeader,
  bytes: Buffer,
  codec: string,
  dictionary: Values | null,
): void {
  const { leaf } = rows;
  const { maximumDefinition, maximumRepetition } = leaf;
  const v1 = header.data_page_header;
  const v2 = header.data_page_header_v2;
  const count = (header.type === 'DATA_PAGE_V2' ? v2 : v1)?.num_values ?? -1;
  if (!(count >= 0 && count <= MOST_PER_PAGE))
    throw new PageError(`${count} values in a page, more than ${MOST_PER_PAGE}`);
  let repetitions: Uint32Array | null;
  let definitions: Uint32Array | null;
  let reader: PageReader;
  let encoding: string;
  if (header.type === 'DATA_PAGE_V2') {
    const { repetition_levels_byte_length: r, definition_levels_byte_length: d, is_compressed } = v2!;
    encoding = v2!.encoding;
    const levels = new PageReader(bytes);
    const at = levels.take(r);
    const then = levels.take(d);
    const part = (from: number, length: number): PageReader =>
      new PageReader(bytes.subarray(from, from + length));
    repetitions = maximumRepetition === 0 ? null : readRuns(part(at, r), 1, count);
    definitions = maximumDefinition === 0 ? null : readRuns(part(then, d), bitsFor(maximumDefinition), count);
    const rest = bytes.subarray(levels.at);
    reader = new PageReader(
      is_compressed === false ? rest : unpackPage(rest, header.uncompressed_page_size - r - d, codec),
    );
  } else {
    encoding = v1!.encoding;
    reader = new PageReader(unpackPage(bytes, header.uncompressed_page_size, codec));
    repetitions = readLevels(reader, maximumRepetition, count);
    definitions = readLevels(reader, maximumDefinition, count);
  }
  const values = readEncoded(
    reader,
    encoding,
    leaf,
    present(definitions, maximumDefinition, count),
    dictionary,
  );
  rows.add(count, definitions, repetitions, values);
}

/**
 * Reads one column chunk.
 *
 * @param bytes all bytes of the chunk, in memory of its own
 * @param rowCount rows of its row group
 * @throws PageError, RangeError, or an error of zlib or of the decompressors, for damaged content
 */
export function readChunk(bytes: Buffer, meta: ColumnMetaData, leaf: Leaf, rowCount: number): Chunk {
  const expected = Number(meta.num_values);
  if (
    !(expected >= rowCount || leaf.maximumRepetition === 0) ||
    !(expected >= 0 && expected <= MOST_VALUES)
  ) {
    throw new PageError(
      `${expected} values in ${rowCount} rows; at most ${MOST_VALUES} per row group are read`,
    );
  }
  const rows = new Rows(leaf, expected);
  const reader = { view: new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), offset: 0 };
  let dictionary: Values | null = null;
  while (rows.levels < expected) {
    const header = parquetHeader(reader);
    const size = header.compressed_page_size;
    if (!(size >= 0 && reader.offset + size <= bytes.length)) throw new PageError(`a page of ${size} bytes`);
    const page = bytes.subarray(reader.offset, reader.offset + size);
    reader.offset += size;
    if (header.type === 'DICTIONARY_PAGE') {
      const count = header.dictionary_page_header?.num_values ?? -1;
      if (!(count >= 0 && count <= MOST_PER_PAGE)) throw new PageError(`a dictionary of ${count} values`);
      const unpacked = unpackPage(page, header.uncompressed_page_size, meta.codec);
      dictionary = readPlain(new PageReader(unpacked), leaf.stored, count);
    } else if (header.type === 'DATA_PAGE' || header.type === 'DATA_PAGE_V2') {
      addPage(rows, header, page, meta.codec, dictionary);
      if (rows.levels > expected) throw new PageError(`more than ${expected} values`);
    }
  }
  const found = leaf.maximumRepetition === 1 ? rows.starts.length : rows.length;
  if (found !== rowCount) throw new PageError(`${found} rows, the row group has ${rowCount}`);
  const values = rows.numbers === null ? rows.texts : rows.numbers.subarray(0, rows.length);
  return { values, starts: leaf.maximumRepetition === 1 ? [...rows.starts, rows.length] : null };
}
