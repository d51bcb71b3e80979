/**
 * Values of Parquet pages, straight into float64 or strings. The library that reads the footer and the page headers
 * decodes values too, but believes the lengths inside a page: a damaged one can make it fill the memory or never end.
 * Here every run and length is checked against the bytes that are there.
 */

/** Damaged content; the reader of the column says where. */
export class PageError extends Error {}

/** What a page or a dictionary holds. */
export type Values = Float64Array | readonly string[];

/** Physical types, with the unsigned ones apart; TEXT is BYTE_ARRAY. */
export type Stored = 'BOOLEAN' | 'INT32' | 'UINT32' | 'INT64' | 'UINT64' | 'FLOAT' | 'DOUBLE' | 'TEXT';

/** A walk over the bytes of a page. */
export class PageReader {
  readonly bytes: Buffer;
  at = 0;

  constructor(bytes: Buffer) {
    this.bytes = bytes;
  }

  /** Moves past `count` bytes. @returns where they begin */
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

  /** As `varint`, for sizes and counts. */
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

/** `count` numbers of `width` bits in the hybrid of run lengths and bit packing. */
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

/** Differences between integers, in blocks of bit-packed miniblocks; they wrap around at their number of bits. */
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

/** `count` values one after the other. */
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

/** `count` numbers whose first bytes come first, then their second bytes, and so on. */
export function readSplit(reader: PageReader, stored: Stored, count: number): Float64Array {
  const fixed = FIXED[stored];
  if (fixed === undefined) throw new PageError(`split bytes of ${stored}`);
  const [size, element] = fixed;
  const start = reader.take(count * size);
  const one = Buffer.alloc(size);
  const out = new Float64Array(count);
  for (let i = 0; i < count; i++) {
    for (let b = 0; b < size; b++) one[b] = reader.bytes[start + b * count + i]!;
    out[i] = element(one, 0);
  }
  return out;
}

/** The values that indices name. */
export function lookUp(dictionary: Values, indices: Uint32Array): Values {
  for (const index of indices) {
    if (index >= dictionary.length)
      throw new PageError(`entry ${index} of a dictionary of ${dictionary.length}`);
  }
  if (dictionary instanceof Float64Array) return Float64Array.from(indices, (index) => dictionary[index]!);
  return Array.from(indices, (index) => dictionary[index]!);
}
