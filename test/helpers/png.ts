/** Reader of PNG pictures that shares no code with the program's. */
import { inflateSync } from 'node:zlib';
import type { Picture } from '../../src/ground/types.ts';

/** Predictor of filter 4 (PNG specification, 9.4). */
function paeth(a: number, b: number, c: number): number {
  const p = a + b - c;
  const [pa, pb, pc] = [Math.abs(p - a), Math.abs(p - b), Math.abs(p - c)];
  return pa <= pb && pa <= pc ? a : pb <= pc ? b : c;
}

/** Turns a filtered row into pixels, in place; `above` is the finished row before it (PNG specification, 9.2). */
function unfilter(row: Uint8Array, above: Uint8Array, filter: number, channels: number): void {
  for (let x = 0; x < row.length; x++) {
    const left = x < channels ? 0 : row[x - channels]!;
    const up = above[x]!;
    const corner = x < channels ? 0 : above[x - channels]!;
    row[x]! += [0, left, up, (left + up) >> 1, paeth(left, up, corner)][filter]!;
  }
}

/** Pixels of an 8-bit RGB or RGBA file without interlacing; alpha is dropped. @throws Error for any other */
export function decodePng(bytes: Uint8Array): Picture {
  const file = Buffer.from(bytes);
  const parts: Buffer[] = [];
  let header: Buffer | undefined;
  for (let at = 8; at + 12 <= file.length; at += 12 + file.readUInt32BE(at)) {
    const type = file.toString('latin1', at + 4, at + 8);
    const data = file.subarray(at + 8, at + 8 + file.readUInt32BE(at));
    if (type === 'IHDR') header = data;
    if (type === 'IDAT') parts.push(data);
  }
  const channels = header?.[9] === 2 ? 3 : header?.[9] === 6 ? 4 : 0;
  if (header === undefined || header[8] !== 8 || channels === 0)
    throw new Error('no PNG of 8-bit RGB or RGBA');
  const [width, height] = [header.readUInt32BE(0), header.readUInt32BE(4)];
  const stride = width * channels;
  const rows = inflateSync(Buffer.concat(parts));
  const data = new Uint8Array(width * height * 3);
  let above: Uint8Array = new Uint8Array(stride);
  for (let y = 0; y < height; y++) {
    const row = rows.subarray(y * (stride + 1) + 1, (y + 1) * (stride + 1));
    unfilter(row, above, rows[y * (stride + 1)]!, channels);
    for (let x = 0; x < width; x++)
      data.set(row.subarray(x * channels, x * channels + 3), (y * width + x) * 3);
    above = row;
  }
  return { width, height, data };
}
