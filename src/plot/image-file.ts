/** Pictures from PNG, JPEG and WebP files, decoded as the image processors of transformers do. */
import { statSync } from 'node:fs';
import { crc32, inflateSync } from 'node:zlib';
import { DataError, reasonOf } from '../ground/errors.ts';
import { readBytes } from '../ground/files.ts';
import type { Picture } from '../ground/types.ts';
import { canvas, opaquePixels } from './canvas.ts';
import { SIGNATURE } from './png.ts';

/** Maximum pixels of a picture to read; Pillow refuses more, too, as an attempt to fill the memory. */
const MOST_PIXELS = 178_956_970;
export const MOST_BYTES = 256 << 20;

const JPEG = Buffer.from('ffd8ff', 'hex');
const JPEG_SCAN = Buffer.from('ffda', 'hex');
const JPEG_END = Buffer.from('ffd9', 'hex');

function formatOf(bytes: Buffer): ImageFormat | null {
  if (bytes.subarray(0, 8).equals(SIGNATURE)) return 'PNG';
  if (bytes.subarray(0, 3).equals(JPEG)) return 'JPEG';
  return bytes.toString('latin1', 0, 4) === 'RIFF' && bytes.toString('latin1', 8, 12) === 'WEBP'
    ? 'WebP'
    : null;
}

/** Chunks of a PNG in order, up to the first that is cut off; `whole`: with length, type and checksum. */
function* pngChunks(bytes: Buffer): Generator<{ type: string; data: Buffer; whole: Buffer }> {
  for (let at = 8; at + 12 <= bytes.length; ) {
    const end = at + 12 + bytes.readUInt32BE(at);
    if (end > bytes.length) return;
    const type = bytes.toString('latin1', at + 4, at + 8);
    yield { type, data: bytes.subarray(at + 8, end - 4), whole: bytes.subarray(at, end) };
    at = end;
  }
}

/** Returns the first fault in the chunks of a PNG, or null. */
function pngFault(bytes: Buffer): string | null {
  if (bytes.length < 33) return 'is truncated';
  if (bytes.toString('latin1', 12, 16) !== 'IHDR') return 'is damaged: it does not begin with its size';
  for (const { type, whole } of pngChunks(bytes)) {
    if (whole.readUInt32BE(whole.length - 4) !== crc32(whole.subarray(4, -4))) return `is damaged in ${type}`;
    if (type === 'IEND') return null;
  }
  return 'is truncated';
}

/** First fault of a file, or null. The decoder fills in missing data, so the file's own end marks are checked first. */
function fault(bytes: Buffer, format: ImageFormat): string | null {
  if (format === 'PNG') return pngFault(bytes);
  const whole =
    format === 'JPEG'
      ? bytes.lastIndexOf(JPEG_END) > bytes.lastIndexOf(JPEG_SCAN)
      : bytes.length >= 12 && bytes.readUInt32LE(4) + 8 <= bytes.length;
  return whole ? null : 'is truncated';
}

type Size = readonly [width: number, height: number];

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

/** Size in the header, checked before decoding allocates memory for it. */
function sizeOf(bytes: Buffer, format: ImageFormat): Size | null {
  if (format === 'PNG') return [bytes.readUInt32BE(16), bytes.readUInt32BE(20)];
  return format === 'JPEG' ? jpegSize(bytes) : webpSize(bytes);
}

/** Detects the image format from its header. @throws DataError as `decodeImage` */
function inspect(bytes: Buffer, fail: Fail): { readonly format: ImageFormat; readonly size: Size } {
  const format = formatOf(bytes);
  if (format === null) throw fail('is no PNG, JPEG or WebP picture; convert it to one');
  const wrong = fault(bytes, format);
  if (wrong !== null) throw fail(`${wrong}: copy it again`);
  const size = sizeOf(bytes, format);
  if (size === null || size[0] * size[1] === 0)
    throw fail(`is not a usable ${format} picture: it has no size`);
  return { format, size };
}

type Fail = (problem: string, cause?: unknown) => DataError;
const unnamed: Fail = (problem, cause) => new DataError(problem, { cause });

/** Width and height of a picture as it is stored, without decoding it. @throws DataError as `decodeImage` */
export function imageSize(bytes: Buffer): { readonly width: number; readonly height: number } {
  const [width, height] = inspect(bytes, unnamed).size;
  return { width, height };
}

/** Reads a picture file, as `decodeImage` does its bytes. @throws DataError naming the file, also when it is missing */
export async function readImage(file: string): Promise<Picture> {
  const fail: Fail = (problem, cause) => new DataError(problem, { file, cause });
  const there = statSync(file, { throwIfNoEntry: false });
  if (there === undefined) throw fail('no such file');
  if (!there.isFile()) throw fail('is not a file; give a PNG, JPEG or WebP picture');
  let bytes: Buffer;
  try {
    bytes = readBytes(file, MOST_BYTES);
  } catch (cause) {
    throw fail(`cannot be read (${reasonOf(cause)})`, cause);
  }
  return decodeImage(bytes, fail);
}

/**
 * Decodes a picture. What is transparent is laid over white and grey becomes RGB, as transformers' `convert_to_rgb` does;
 * a picture that was taken sideways is turned upright; colour profiles and gamma are left aside, as Pillow does. Of 16 bits
 * per channel the upper 8 are taken, of grey too, where Pillow cuts at 255 and leaves a white picture.
 * @throws DataError when it is of another format, damaged, or larger than MOST_PIXELS
 */
export async function decodeImage(bytes: Buffer, fail: Fail = unnamed): Promise<Picture> {
  const { format, size } = inspect(bytes, fail);
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
  return upright({ width, height, data: opaquePixels(page.data()) }, bare.orientation);
}

// Metadata of a file. transformers (that is, Pillow) takes the numbers of the pixels as they are, whatever
// gamma, colour space or ICC profile the file names, and turns the picture as its EXIF orientation, or else its XMP, says. A
// browser's kind of decoder converts colours and turns some formats only, so it gets the pixels alone, without the orientation.

type ImageFormat = 'PNG' | 'JPEG' | 'WebP';

/** Image bytes reduced to their pixels, with EXIF orientation 1 to 8 (1: upright). */
interface BarePicture {
  readonly bytes: Buffer;
  readonly orientation: number;
}

interface Metadata {
  /** TIFF structures in Pillow's order of preference. */
  readonly exif: (Buffer | null)[];
  readonly xmp: string[];
}

const ORIENTATION = 0x0112;
const EXIF_MARK = Buffer.from('Exif\0\0', 'latin1');
const XMP_MARK = Buffer.from('http://ns.adobe.com/xap/1.0/\0', 'latin1');
/** Maximum bytes of an EXIF record that is stored compressed; a JPEG's segment holds 65 533. */
const MOST_EXIF = 2 ** 20;

/** Value of the orientation in a TIFF structure's first directory; null when there is none. */
function tiffOrientation(bytes: Buffer): number | null {
  const tiff = bytes.subarray(0, 6).equals(EXIF_MARK) ? bytes.subarray(6) : bytes;
  const order = tiff.toString('latin1', 0, 2);
  if (tiff.length < 8 || (order !== 'II' && order !== 'MM')) return null;
  const little = order === 'II';
  const short = (at: number): number => (little ? tiff.readUInt16LE(at) : tiff.readUInt16BE(at));
  const long = (at: number): number => (little ? tiff.readUInt32LE(at) : tiff.readUInt32BE(at));
  const start = long(4);
  if (start + 2 > tiff.length) return null;
  const count = short(start);
  for (let i = 0, at = start + 2; i < count && at + 12 <= tiff.length; i++, at += 12) {
    if (short(at) !== ORIENTATION || long(at + 4) !== 1) continue;
    const type = short(at + 2);
    if (type === 3) return short(at + 8);
    if (type === 4) return long(at + 8);
  }
  return null;
}

/** Decodes ImageMagick's older format: hexadecimal text under a name and a length. */
function rawProfile(text: string): Buffer {
  return Buffer.from(text.split('\n').slice(3).join(''), 'hex');
}

/** Compressed text of a PNG; empty when it is damaged or too long. */
function inflated(bytes: Buffer): string {
  try {
    return inflateSync(bytes, { maxOutputLength: MOST_EXIF }).toString('latin1');
  } catch {
    return '';
  }
}

/** Key and text of a PNG's tEXt, zTXt or iTXt chunk. */
function pngText(type: string, data: Buffer): readonly [key: string, text: string] {
  const end = data.indexOf(0);
  if (end < 0) return ['', ''];
  const key = data.toString('latin1', 0, end);
  if (type === 'tEXt') return [key, data.toString('latin1', end + 1)];
  if (type === 'zTXt') return [key, inflated(data.subarray(end + 2))];
  const compressed = data[end + 1] === 1;
  const language = data.indexOf(0, end + 3);
  const translated = language < 0 ? -1 : data.indexOf(0, language + 1);
  if (translated < 0) return ['', ''];
  const text = data.subarray(translated + 1);
  return [key, compressed ? inflated(text) : text.toString('latin1')];
}

function barePng(bytes: Buffer, { exif, xmp }: Metadata): Buffer {
  const kept = [bytes.subarray(0, 8)];
  let raw: Buffer | null = null;
  for (const { type, data, whole } of pngChunks(bytes)) {
    if (['IHDR', 'PLTE', 'tRNS', 'IDAT', 'IEND'].includes(type)) kept.push(whole);
    else if (type === 'eXIf') exif.unshift(data);
    else if (['tEXt', 'zTXt', 'iTXt'].includes(type)) {
      const [key, text] = pngText(type, data);
      if (key === 'Raw profile type exif') raw = rawProfile(text);
      if (key === 'XML:com.adobe.xmp') xmp.push(text);
    }
    if (type === 'IEND') break;
  }
  exif.push(raw);
  return Buffer.concat(kept);
}

function bareJpeg(bytes: Buffer, { exif, xmp }: Metadata): Buffer {
  const kept = [bytes.subarray(0, 2)];
  const records: Buffer[] = [];
  let at = 2;
  while (at + 4 <= bytes.length && bytes[at] === 0xff) {
    const marker = bytes[at + 1]!;
    if (marker === 0xff) {
      at++; // a marker may be padded
      continue;
    }
    if (marker === 0xda) break;
    const end = at + 2 + bytes.readUInt16BE(at + 2);
    const data = bytes.subarray(at + 4, end);
    const application = marker >= 0xe0 && marker <= 0xef;
    // Adobe's own segment says how the colours are stored.
    if (!application || marker === 0xe0 || marker === 0xee) kept.push(bytes.subarray(at, end));
    else if (marker === 0xe1 && data.subarray(0, 6).equals(EXIF_MARK)) records.push(data.subarray(6));
    else if (marker === 0xe1 && data.subarray(0, XMP_MARK.length).equals(XMP_MARK)) {
      xmp.push(data.toString('latin1', XMP_MARK.length));
    }
    at = end;
  }
  if (records.length > 0) exif.push(Buffer.concat(records)); // one that was too long for a segment
  return Buffer.concat([...kept, bytes.subarray(at)]);
}

/** Bits of a WebP's VP8X chunk that announce an ICC profile, EXIF and XMP. */
const WEBP_FLAGS = 0x20 | 0x08 | 0x04;

function bareWebp(bytes: Buffer, { exif, xmp }: Metadata): Buffer {
  const kept: Buffer[] = [];
  for (let at = 12; at + 8 <= bytes.length; ) {
    const size = bytes.readUInt32LE(at + 4);
    const end = at + 8 + size + (size % 2);
    const type = bytes.toString('latin1', at, at + 4);
    const data = bytes.subarray(at + 8, at + 8 + size);
    if (type === 'EXIF') exif.push(data);
    else if (type === 'XMP ') xmp.push(data.toString('latin1'));
    else if (type === 'VP8X') {
      const chunk = Buffer.from(bytes.subarray(at, end));
      chunk[8]! &= ~WEBP_FLAGS;
      kept.push(chunk);
    } else if (type !== 'ICCP') kept.push(bytes.subarray(at, end));
    at = end;
  }
  const body = Buffer.concat(kept);
  const head = Buffer.from(bytes.subarray(0, 12));
  head.writeUInt32LE(4 + body.length, 4);
  return Buffer.concat([head, body]);
}

/** Strips everything but the pixels from a file. Damaged parts stay for the decoder to refuse. */
function barePicture(bytes: Buffer, format: ImageFormat): BarePicture {
  const metadata: Metadata = { exif: [], xmp: [] };
  const take = { PNG: barePng, JPEG: bareJpeg, WebP: bareWebp }[format];
  const bare = take(bytes, metadata);
  const record = metadata.exif.find((entry) => entry !== null);
  const written = /tiff:Orientation(?:="|>)([0-9])/.exec(metadata.xmp.at(-1) ?? '')?.[1];
  const code = (record && tiffOrientation(record)) ?? Number(written ?? 1);
  return { bytes: bare, orientation: code >= 1 && code <= 8 ? code : 1 };
}

/** Turns a picture with this EXIF orientation upright. */
function upright(picture: Picture, orientation: number): Picture {
  if (orientation === 1) return picture;
  const { width, height, data } = picture;
  const sideways = orientation >= 5;
  const [columns, rows] = sideways ? [height, width] : [width, height];
  const mirrored = [2, 3, 7, 8].includes(orientation); // along the stored rows
  const flipped = [3, 4, 6, 7].includes(orientation); // along the stored columns
  const out = new Uint8Array(data.length);
  for (let row = 0, to = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++, to += 3) {
      const [x, y] = sideways ? [row, column] : [column, row];
      const from = ((flipped ? height - 1 - y : y) * width + (mirrored ? width - 1 - x : x)) * 3;
      out[to] = data[from]!;
      out[to + 1] = data[from + 1]!;
      out[to + 2] = data[from + 2]!;
    }
  }
  return { width: columns, height: rows, data: out };
}
