/** PNG of an RGB picture: 8 bit, colour type 2, no metadata, so that equal pixels give equal bytes. */
import { promisify } from 'node:util';
import { crc32, deflate, deflateSync, inflateSync } from 'node:zlib';
import { DataError } from '../ground/errors.ts';
import type { Picture } from '../ground/types.ts';

/** Maximum pixels of a picture to read; Pillow refuses more, too, as an attempt to fill the memory. */
export const MOST_PIXELS = 178_956_970;
export const MOST_BYTES = 256 << 20;

export const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);

function chunk(type: string, data: Uint8Array): Buffer {
  const result = Buffer.alloc(12 + data.length);
  result.writeUInt32BE(data.length, 0);
  result.write(type, 4, 'latin1');
  result.set(data, 8);
  result.writeUInt32BE(crc32(result.subarray(4, 8 + data.length)), 8 + data.length);
  return result;
}

const DEFLATE = { level: 4 } as const;
const deflateAside = promisify(deflate);

function filteredRows({ width, height, data }: Picture): Buffer {
  const stride = width * 3;
  const rows = Buffer.alloc(height * (stride + 1));
  for (let y = 0; y < height; y++) {
    // Filter 0 (none): most of a plot is one colour, whose runs deflate finds faster, and codes shorter, than differences.
    rows.set(data.subarray(y * stride, (y + 1) * stride), y * (stride + 1) + 1);
  }
  return rows;
}

function pngFile({ width, height }: Picture, compressed: Uint8Array): Buffer {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 2, 0, 0, 0], 8);
  return Buffer.concat([
    SIGNATURE,
    chunk('IHDR', header),
    chunk('IDAT', compressed),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}

export function encodePng(picture: Picture): Buffer {
  return pngFile(picture, deflateSync(filteredRows(picture), DEFLATE));
}

/** Encodes the same bytes, compressing in another thread. */
export async function encodePngAside(picture: Picture): Promise<Buffer> {
  return pngFile(picture, await deflateAside(filteredRows(picture), DEFLATE));
}

/** The predictor of PNG's filter 4 (PNG specification, 9.4). */
function paeth(a: number, b: number, c: number): number {
  const p = a + b - c;
  const [pa, pb, pc] = [Math.abs(p - a), Math.abs(p - b), Math.abs(p - c)];
  return pa <= pb && pa <= pc ? a : pb <= pc ? b : c;
}

/** Turns a filtered row into pixels, in place; `above` is the finished row before it (PNG specification, 9.2). */
function unfilter(row: Uint8Array, above: Uint8Array, filter: number, channels: number): void {
  if (filter === 0) return;
  for (let x = 0; x < row.length; x++) {
    const left = x < channels ? 0 : row[x - channels]!;
    const up = above[x]!;
    if (filter === 1) row[x] = row[x]! + left;
    else if (filter === 2) row[x] = row[x]! + up;
    else if (filter === 3) row[x] = row[x]! + ((left + up) >> 1);
    else row[x] = row[x]! + paeth(left, up, x < channels ? 0 : above[x - channels]!);
  }
}

/**
 * Reads an 8-bit RGB or RGBA PNG without interlacing (alpha is dropped). Throws DataError naming `file` on
 * anything else, on a truncated or damaged one, and on one of more than `most` pixels.
 */
export function decodePng(bytes: Uint8Array, file = 'PNG', most = MOST_PIXELS): Picture {
  const fail = (problem: string, cause?: unknown) =>
    new DataError(`not a usable PNG: ${problem}`, { file, cause });
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (!buffer.subarray(0, 8).equals(SIGNATURE)) throw fail('wrong signature');
  const parts: Buffer[] = [];
  let header: Buffer | undefined;
  let ended = false;
  for (let at = 8; at + 12 <= buffer.length && !ended; ) {
    const length = buffer.readUInt32BE(at);
    if (at + 12 + length > buffer.length) throw fail('truncated');
    const type = buffer.toString('latin1', at + 4, at + 8);
    if (buffer.readUInt32BE(at + 8 + length) !== crc32(buffer.subarray(at + 4, at + 8 + length))) {
      throw fail(`wrong checksum in ${type}`);
    }
    const data = buffer.subarray(at + 8, at + 8 + length);
    if (type === 'IHDR') header = data;
    else if (type === 'IDAT') parts.push(data);
    else if (type === 'IEND') ended = true;
    at += 12 + length;
  }
  if (!ended || header?.length !== 13) throw fail('truncated');
  const width = header.readUInt32BE(0);
  const height = header.readUInt32BE(4);
  const channels = header[9] === 2 ? 3 : header[9] === 6 ? 4 : 0;
  if (header[8] !== 8 || channels === 0 || header[12] !== 0) {
    throw fail('only 8-bit RGB or RGBA without interlacing is read');
  }
  if (width * height > most) {
    throw fail(`${width} × ${height} pixels are more than can be read, ${most}; make it smaller`);
  }
  const stride = width * channels;
  let rows: Buffer;
  try {
    rows = inflateSync(Buffer.concat(parts), { maxOutputLength: Math.max(1, height * (stride + 1)) });
  } catch (cause) {
    throw fail('damaged pixel data', cause);
  }
  if (rows.length !== height * (stride + 1)) throw fail('pixel data do not fill the picture');
  const data = new Uint8Array(width * height * 3);
  let above: Uint8Array = new Uint8Array(stride);
  for (let y = 0; y < height; y++) {
    const filter = rows[y * (stride + 1)]!;
    const row = rows.subarray(y * (stride + 1) + 1, (y + 1) * (stride + 1));
    if (filter > 4) throw fail(`unknown filter ${filter}`);
    unfilter(row, above, filter, channels);
    if (channels === 3) data.set(row, y * stride);
    else {
      for (let x = 0; x < width; x++) data.set(row.subarray(x * 4, x * 4 + 3), (y * width + x) * 3);
    }
    above = row;
  }
  return { width, height, data };
}
