/** Pictures from files: PNG, JPEG and WebP, as the image processors of transformers take them in. */
import { statSync } from 'node:fs';
import { crc32 } from 'node:zlib';
import { DataError, reasonOf } from '../errors.ts';
import { readBytes } from '../input-file.ts';
import type { Picture } from '../types.ts';
import { canvas } from './canvas.ts';
import { barePicture, type ImageFormat, upright } from './image-metadata.ts';
import { MOST_BYTES, MOST_PIXELS } from './png.ts';

const PNG = Buffer.from('89504e470d0a1a0a', 'hex');
const JPEG = Buffer.from('ffd8ff', 'hex');
const JPEG_SCAN = Buffer.from('ffda', 'hex');
const JPEG_END = Buffer.from('ffd9', 'hex');

function formatOf(bytes: Buffer): ImageFormat | null {
  if (bytes.subarray(0, 8).equals(PNG)) return 'PNG';
  if (bytes.subarray(0, 3).equals(JPEG)) return 'JPEG';
  return bytes.toString('latin1', 0, 4) === 'RIFF' && bytes.toString('latin1', 8, 12) === 'WEBP'
    ? 'WebP'
    : null;
}

/** What is wrong with the chunks of a PNG, up to its end; null when nothing is. */
function pngFault(bytes: Buffer): string | null {
  for (let at = 8; at + 12 <= bytes.length; ) {
    const end = at + 12 + bytes.readUInt32BE(at);
    if (end > bytes.length) break;
    const type = bytes.toString('latin1', at + 4, at + 8);
    if (bytes.readUInt32BE(end - 4) !== crc32(bytes.subarray(at + 4, end - 4)))
      return `is damaged in ${type}`;
    if (type === 'IEND') return null;
    at = end;
  }
  return 'is truncated';
}

/** The decoder fills in what is missing; so what the file says of its own end is checked first. */
function fault(bytes: Buffer, format: ImageFormat): string | null {
  if (format === 'PNG') return pngFault(bytes);
  const whole =
    format === 'JPEG'
      ? bytes.lastIndexOf(JPEG_END) > bytes.lastIndexOf(JPEG_SCAN)
      : bytes.length >= 12 && bytes.readUInt32LE(4) + 8 <= bytes.length;
  return whole ? null : 'is truncated';
}

type Size = readonly [width: number, height: number];

/** Size in the frame header of a JPEG; null when there is none. */
function jpegSize(bytes: Buffer): Size | null {
  for (let at = 2; at + 9 <= bytes.length; ) {
    const marker = bytes[at + 1]!;
    const frame = marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker);
    if (frame) return [bytes.readUInt16BE(at + 7), bytes.readUInt16BE(at + 5)];
    at += marker === 0xff ? 1 : 2 + bytes.readUInt16BE(at + 2); // a marker may be padded
  }
  return null;
}

/** Size in the first chunk of a WebP, of one of three kinds. */
function webpSize(bytes: Buffer): Size | null {
  if (bytes.length < 30) return null;
  switch (bytes.toString('latin1', 12, 16)) {
    case 'VP8X':
      return [1 + bytes.readUIntLE(24, 3), 1 + bytes.readUIntLE(27, 3)];
    case 'VP8L':
      return [1 + (bytes.readUInt32LE(21) & 0x3fff), 1 + ((bytes.readUInt32LE(21) >>> 14) & 0x3fff)];
    case 'VP8 ':
      return [bytes.readUInt16LE(26) & 0x3fff, bytes.readUInt16LE(28) & 0x3fff];
    default:
      return null;
  }
}

/** Size that the header gives: decoding takes memory for all of it. */
function sizeOf(bytes: Buffer, format: ImageFormat): Size | null {
  if (format === 'PNG') return [bytes.readUInt32BE(16), bytes.readUInt32BE(20)];
  return format === 'JPEG' ? jpegSize(bytes) : webpSize(bytes);
}

/**
 * Reads a picture. What is transparent is laid over white and grey becomes RGB, as transformers' `convert_to_rgb` does;
 * a picture that was taken sideways is turned upright; colour profiles and gamma are left aside, as Pillow does. Of 16 bits
 * per channel the upper 8 are taken, of grey too, where Pillow cuts at 255 and leaves a white picture.
 * @throws DataError naming the file when it is missing, of another format, damaged, or larger than MOST_PIXELS
 */
export async function readImage(file: string): Promise<Picture> {
  const fail = (problem: string, cause?: unknown): DataError => new DataError(problem, { file, cause });
  const there = statSync(file, { throwIfNoEntry: false });
  if (there === undefined) throw fail('no such file');
  if (!there.isFile()) throw fail('is not a file; give a PNG, JPEG or WebP picture');
  let bytes: Buffer;
  try {
    bytes = readBytes(file, MOST_BYTES);
  } catch (cause) {
    throw fail(`cannot be read (${reasonOf(cause)})`, cause);
  }
  const format = formatOf(bytes);
  if (format === null) throw fail('is no PNG, JPEG or WebP picture; convert it to one');
  const wrong = fault(bytes, format);
  if (wrong !== null) throw fail(`${wrong}: copy it again`);
  const size = sizeOf(bytes, format);
  if (size === null || size[0] * size[1] === 0)
    throw fail(`is not a usable ${format} picture: it has no size`);
  if (size[0] * size[1] > MOST_PIXELS) {
    throw fail(`${size[0]} × ${size[1]} pixels are more than can be read, ${MOST_PIXELS}; make it smaller`);
  }
  const bare = barePicture(bytes, format);
  let image: Awaited<ReturnType<typeof canvas.loadImage>>;
  try {
    image = await canvas.loadImage(bare.bytes);
  } catch (cause) {
    throw fail(`is not a usable ${format} picture (${(cause as Error).message})`, cause);
  }
  const { width, height } = image;
  const page = canvas.createCanvas(width, height);
  const context = page.getContext('2d');
  context.fillStyle = '#fff';
  context.fillRect(0, 0, width, height);
  context.drawImage(image, 0, 0);
  const rgba = context.getImageData(0, 0, width, height).data;
  const data = new Uint8Array(width * height * 3);
  for (let from = 0, to = 0; to < data.length; from += 4, to += 3) {
    data[to] = rgba[from]!;
    data[to + 1] = rgba[from + 1]!;
    data[to + 2] = rgba[from + 2]!;
  }
  return upright({ width, height, data }, bare.orientation);
}
