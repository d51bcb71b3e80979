/**
 * Pages of a Parquet file, decoded straight into float64 or text and assembled as one value or one list per row. hyparquet reads the footer
 * and the page headers. Two libraries that decode values as well were tried and not taken, because they believe the lengths inside a page:
 * hyparquet 1.31.5 runs out of memory, or takes 13 s and 1.4 GB, on a file of 3.5 kB with five changed bytes; parquet-wasm 0.8.0 survives
 * 200 000 damaged files (no hang, traps that can be caught), but takes 1.8 GB, which WebAssembly never gives back, for a file of 188 kB, and
 * 27 MB of installation (with apache-arrow) instead of 0.7 MB. Here every run and length is checked against the bytes that are there.
 */
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import type { ColumnMetaData, PageHeader } from 'hyparquet';
import { parquetHeader } from 'hyparquet/src/column.js';
import { compressors, decompressZstd } from 'hyparquet-compressors';

/** Damaged content; the reader of the column says where. */
class PageError extends Error {}

type Values = Float64Array | readonly string[];

/** Physical types, unsigned ones listed separately; TEXT is BYTE_ARRAY. */
export type Stored = 'BOOLEAN' | 'INT32' | 'UINT32' | 'INT64' | 'UINT64' | 'FLOAT' | 'DOUBLE' | 'TEXT';

/** Cursor over the bytes of a page. */
export class PageReader {
  readonly bytes: Buffer;
  at = 0;

  constructor(bytes: Buffer) {
    this.bytes = bytes;
  }

  /** Moves past `count` bytes. @returns their start */
  take(count: number): number {
    const start = this.at;
    if (!(count >= 0 && start + count <= this.bytes.length)) {
      throw new PageError(`${count} bytes expected at byte ${start} of ${this.bytes.length}`);
    }
    this.at = start + count;
    return start;
  }

  uint32(): number {
    return this.bytes.readUInt32LE(this.take(4));
  }

  byte(): number {
    return this.bytes[this.take(1)]!;
  }

  /** An unsigned LEB128 number of up to 64 bits. */
  varint(): bigint {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = this.byte();
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
    throw new PageError('a number of more than 64 bits');
  }

  count(): number {
    const value = this.varint();
    if (value > 0x7fffffffn) throw new PageError(`a count of ${value}`);
    return Number(value);
  }

  zigzag(): bigint {
    const value = this.varint();
    return (value >> 1n) ^ -(value & 1n);
  }
}

/** `bits` bits from bit `position` after byte `start`, lowest first; bits ≤ 32. */
function unpack(bytes: Buffer, start: number, position: number, bits: number): number {
  let value = 0;
  for (let got = 0; got < bits; ) {
    const inside = (position + got) & 7;
    const take = Math.min(8 - inside, bits - got);
    const byte = bytes[start + Math.floor((position + got) / 8)]!;
    value += ((byte >>> inside) & ((1 << take) - 1)) * 2 ** got;
    got += take;
  }
  return value;
}

/** Decodes `count` numbers of `width` bits in the hybrid of run lengths and bit packing. */
export function readRuns(reader: PageReader, width: number, count: number): Uint32Array {
  if (width > 32) throw new PageError(`numbers of ${width} bits`);
  const out = new Uint32Array(count);
  const valueBytes = Math.ceil(width / 8);
  for (let seen = 0; seen < count; ) {
    const head = reader.count();
    const length = head >>> 1;
    if ((head & 1) === 1) {
      const values = Math.min(8 * length, count - seen);
      // a writer may cut the last group off after the values that count
      const packed = Math.min(length * width, reader.bytes.length - reader.at);
      if (packed * 8 < values * width) throw new PageError('bit-packed numbers are cut off');
      const start = reader.take(packed);
      for (let i = 0; i < values; i++) out[seen + i] = unpack(reader.bytes, start, i * width, width);
      seen += values;
    } else {
      const start = reader.take(valueBytes);
      const value = valueBytes === 0 ? 0 : reader.bytes.readUIntLE(start, valueBytes);
      out.fill(value, seen, Math.min(seen + length, count));
      seen += length;
    }
  }
  return out;
}

/** Decodes integers from differences, in blocks of bit-packed miniblocks; they wrap around at their number of bits. */
export function readDeltas(reader: PageReader, count: number, stored: Stored): Float64Array {
  const bits = stored === 'INT32' || stored === 'UINT32' ? 32 : 64;
  const wrap = stored === 'UINT32' || stored === 'UINT64' ? BigInt.asUintN : BigInt.asIntN;
  const blockSize = reader.count();
  const miniblocks = reader.count();
  const total = reader.count();
  const perMiniblock = blockSize / miniblocks;
  if (total < count || !Number.isInteger(perMiniblock) || perMiniblock % 8 !== 0 || perMiniblock === 0) {
    throw new PageError(
      `${total} differences in ${miniblocks} miniblocks of ${blockSize}, expected ${count}`,
    );
  }
  let value = wrap(bits, reader.zigzag());
  const out = new Float64Array(count);
  let filled = 0;
  if (count > 0) out[filled++] = Number(value);
  while (filled < count) {
    const least = reader.zigzag();
    const widths = reader.take(miniblocks);
    for (let m = 0; m < miniblocks && filled < count; m++) {
      const width = reader.bytes[widths + m]!;
      if (width > 64) throw new PageError(`differences of ${width} bits`);
      const start = reader.take((perMiniblock * width) / 8);
      for (let i = 0; i < perMiniblock && filled < count; i++) {
        const low = unpack(reader.bytes, start, i * width, Math.min(width, 32));
        const high = width > 32 ? unpack(reader.bytes, start, i * width + 32, width - 32) : 0;
        const difference = least + BigInt(low) + (BigInt(high) << 32n);
        value = wrap(bits, value + difference);
        out[filled++] = Number(value);
      }
    }
  }
  return out;
}

type Element = (bytes: Buffer, at: number) => number;
const FIXED: Readonly<Record<string, readonly [size: number, element: Element]>> = {
  INT32: [4, (bytes, at) => bytes.readInt32LE(at)],
  UINT32: [4, (bytes, at) => bytes.readUInt32LE(at)],
  INT64: [8, (bytes, at) => bytes.readInt32LE(at + 4) * 2 ** 32 + bytes.readUInt32LE(at)],
  UINT64: [8, (bytes, at) => bytes.readUInt32LE(at + 4) * 2 ** 32 + bytes.readUInt32LE(at)],
  FLOAT: [4, (bytes, at) => bytes.readFloatLE(at)],
  DOUBLE: [8, (bytes, at) => bytes.readDoubleLE(at)],
};

const DECODER = new TextDecoder();

/** Decodes `count` consecutive values. */
export function readPlain(reader: PageReader, stored: Stored, count: number): Values {
  if (stored === 'TEXT') {
    if (count * 4 > reader.bytes.length - reader.at) throw new PageError(`${count} texts do not fit`);
    return Array.from({ length: count }, () => {
      const length = reader.uint32();
      const start = reader.take(length);
      return DECODER.decode(reader.bytes.subarray(start, start + length));
    });
  }
  if (stored === 'BOOLEAN') {
    const start = reader.take(Math.ceil(count / 8));
    return Float64Array.from({ length: count }, (_, i) => (reader.bytes[start + (i >> 3)]! >> (i & 7)) & 1);
  }
  const [size, element] = FIXED[stored]!;
  const start = reader.take(count * size);
  const out = new Float64Array(count);
  for (let i = 0; i < count; i++) out[i] = element(reader.bytes, start + i * size);
  return out;
}

/** Decodes `count` numbers stored by byte position: all first bytes, then all second bytes, and so on. */
export function readSplit(reader: PageReader, stored: Stored, count: number): Float64Array {
  const fixed = FIXED[stored];
  if (fixed === undefined) throw new PageError(`split bytes of ${stored}`);
  const [size, element] = fixed;
  const start = reader.take(count * size);
  const joined = Buffer.alloc(size);
  const out = new Float64Array(count);
  for (let i = 0; i < count; i++) {
    for (let b = 0; b < size; b++) joined[b] = reader.bytes[start + b * count + i]!;
    out[i] = element(joined, 0);
  }
  return out;
}

function lookUp(dictionary: Values, indices: Uint32Array): Values {
  for (const index of indices) {
    if (index >= dictionary.length)
      throw new PageError(`entry ${index} of a dictionary of ${dictionary.length}`);
  }
  if (dictionary instanceof Float64Array) return Float64Array.from(indices, (index) => dictionary[index]!);
  return Array.from(indices, (index) => dictionary[index]!);
}

/** Maximum values of a column chunk and of a page, and maximum bytes of a page, given the memory of the series. */
const MOST_VALUES = 1 << 25;
const MOST_PER_PAGE = 1 << 23;
const MOST_BYTES = 1 << 29;
const EMPTY = Buffer.alloc(0);

export interface Leaf {
  readonly stored: Stored;
  /** Definition level of a value that is present. */
  readonly maximumDefinition: number;
  /** 1 for a list column, 0 for a flat one. */
  readonly maximumRepetition: 0 | 1;
  /** Definition level from which a list element exists, possibly as null. */
  readonly elementDefinition: number;
}

/** One chunk of a column. Flat: one value per row. List: the elements of row r are `[starts[r], starts[r+1])`. */
export interface Chunk {
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

/** Reads the levels of a version 1 page: their length in bytes, then runs. */
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
  const rowsRead = leaf.maximumRepetition === 1 ? rows.starts.length : rows.length;
  if (rowsRead !== rowCount) throw new PageError(`${rowsRead} rows, the row group has ${rowCount}`);
  const values = rows.numbers === null ? rows.texts : rows.numbers.subarray(0, rows.length);
  return { values, starts: leaf.maximumRepetition === 1 ? [...rows.starts, rows.length] : null };
}
