/** PNG of an RGB picture: 8 bit, colour type 2, no metadata, so that equal pixels give equal bytes. */
import { promisify } from 'node:util';
import { crc32, deflate, deflateSync } from 'node:zlib';
import type { Picture } from '../ground/types.ts';

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

/** Data URI of a picture, as pages carry it. */
export const pngUri = (picture: Picture): string =>
  `data:image/png;base64,${encodePng(picture).toString('base64')}`;

/** Encodes the same bytes, compressing in another thread. */
export async function encodePngAside(picture: Picture): Promise<Buffer> {
  return pngFile(picture, await deflateAside(filteredRows(picture), DEFLATE));
}
