/**
 * The canvas library with two fonts: DejaVu Sans and its monospaced kin, from their npm package, under names of their own. System
 * fonts are ignored, so that text looks the same on every machine and does not vanish on bare ones.
 */
import { createRequire } from 'node:module';
import { endianness } from 'node:os';
import { TimeseerError } from '../ground/errors.ts';
import { FONT_FAMILY } from './figure.ts';

const require = createRequire(import.meta.url);
// Read when the library loads; hence required here instead of imported.
process.env['DISABLE_SYSTEM_FONTS_LOAD'] ??= '1';

export const canvas = require('@napi-rs/canvas') as typeof import('@napi-rs/canvas');

/** Monospaced font, bundled as `FONT_FAMILY` is. */
export const MONO_FONT_FAMILY = 'Timeseer Mono';

for (const [file, family] of [
  ['DejaVuSans.ttf', FONT_FAMILY],
  ['DejaVuSans-Bold.ttf', FONT_FAMILY],
  ['DejaVuSansMono.ttf', MONO_FONT_FAMILY],
] as const) {
  const path = require.resolve(`dejavu-fonts-ttf/ttf/${file}`);
  if (canvas.GlobalFonts.registerFromPath(path, family) === null) {
    throw new TimeseerError(`${path}: not a readable font; reinstall the dependencies with \`npm ci\``);
  }
}

const ruler = canvas.createCanvas(1, 1).getContext('2d');

/** Advance width of `text` in px for a CSS font such as `12px "Timeseer Sans"`. */
export function textWidth(font: string, text: string): number {
  ruler.font = font;
  return ruler.measureText(text).width;
}

const LITTLE_ENDIAN = endianness() === 'LE';

/** Drops the alpha of fully opaque RGBA pixels, four at a time where the byte order allows. */
export function opaquePixels(rgba: Uint8Array): Uint8Array {
  const pixels = rgba.length / 4;
  const data = new Uint8Array(pixels * 3);
  let pixel = 0;
  if (LITTLE_ENDIAN && rgba.byteOffset % 4 === 0) {
    const from = new Uint32Array(rgba.buffer, rgba.byteOffset, pixels);
    const to = new Uint32Array(data.buffer, 0, Math.floor(data.length / 4));
    for (let at = 0; pixel + 4 <= pixels; pixel += 4, at += 3) {
      const [b, c] = [from[pixel + 1]!, from[pixel + 2]!];
      to[at] = (from[pixel]! & 0xffffff) | (b << 24);
      to[at + 1] = ((b >>> 8) & 0xffff) | (c << 16);
      to[at + 2] = ((c >>> 16) & 0xff) | (from[pixel + 3]! << 8);
    }
  }
  for (; pixel < pixels; pixel++) {
    for (let c = 0; c < 3; c++) data[pixel * 3 + c] = rgba[pixel * 4 + c]!;
  }
  return data;
}
