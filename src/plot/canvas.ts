/**
 * The canvas library with exactly one font: DejaVu Sans, from its npm package, under a name of its own. System
 * fonts are ignored, so that text looks the same on every machine and does not vanish on bare ones.
 */
import { createRequire } from 'node:module';
import { TimeseerError } from '../ground/errors.ts';
import { FONT_FAMILY } from './figure.ts';

const require = createRequire(import.meta.url);
// Read when the library loads; hence required here instead of imported.
process.env['DISABLE_SYSTEM_FONTS_LOAD'] ??= '1';

export const canvas = require('@napi-rs/canvas') as typeof import('@napi-rs/canvas');

for (const file of ['DejaVuSans.ttf', 'DejaVuSans-Bold.ttf']) {
  const path = require.resolve(`dejavu-fonts-ttf/ttf/${file}`);
  if (canvas.GlobalFonts.registerFromPath(path, FONT_FAMILY) === null) {
    throw new TimeseerError(`${path}: not a readable font; reinstall the dependencies with \`npm ci\``);
  }
}

const ruler = canvas.createCanvas(1, 1).getContext('2d');

/** Advance width of `text` in px for a CSS font such as `12px "Timeseer Sans"`. */
export function textWidth(font: string, text: string): number {
  ruler.font = font;
  return ruler.measureText(text).width;
}
