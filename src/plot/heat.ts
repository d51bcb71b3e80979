/** Cells of a spectrogram as pixels, and the bar that tells their decibels. */
import { scheme } from 'vega';
import { TimeseerError } from '../errors.ts';
import type { Picture } from '../types.ts';
import { type Figure, plotSize } from './figure.ts';

/** Px from the plot area to the bar, and the bar's width. */
export const BAR_GAP = 12;
export const BAR_WIDTH = 12;

const SHADES = 256;
/** Missing frames: no colour of the scale. */
const NO_DATA = [0xdd, 0xdd, 0xdd] as const;

/** Viridis (van der Walt and Smith 2015), whose lightness grows evenly: RGB of 256 shades, the weakest first. */
const VIRIDIS: Uint8Array = (() => {
  const colors = scheme('viridis') as unknown;
  if (typeof colors !== 'function') throw new TimeseerError('vega has no colours named viridis');
  const rgb = new Uint8Array(SHADES * 3);
  for (let i = 0; i < SHADES; i++) {
    const text = String((colors as (t: number) => string)(i / (SHADES - 1)));
    const hex = /^#([0-9a-f]{6})$/.exec(text)?.[1];
    const parts =
      hex === undefined ? text.match(/\d+/g) : hex.match(/../g)!.map((h) => Number.parseInt(h, 16));
    for (let c = 0; c < 3; c++) rgb[i * 3 + c] = Number(parts?.[c]);
  }
  return rgb;
})();

/**
 * Paints the cells [M][T] in [−range, 0] dB over the plot area inside its frame, the lowest band at the bottom, and the
 * bar beside it. Each pixel shows the cell that its middle lies in.
 */
export function paintCells(
  figure: Figure,
  picture: Picture,
  cells: readonly Float64Array[],
  range: number,
): void {
  const { width, height } = plotSize(figure);
  const { left, top } = figure.padding;
  const frames = cells[0]!.length;
  const put = (x: number, y: number, level: number): void => {
    const shade = Math.round(Math.min(1, Math.max(0, level)) * (SHADES - 1)) * 3;
    const at = (y * picture.width + x) * 3;
    for (let c = 0; c < 3; c++)
      picture.data[at + c] = Number.isNaN(level) ? NO_DATA[c]! : VIRIDIS[shade + c]!;
  };
  // The frame takes the first pixel row and column.
  for (let y = 1; y < height; y++) {
    const band = cells[Math.floor(((height - y - 0.5) / height) * cells.length)]!;
    for (let x = 1; x < width; x++) {
      put(left + x, top + y, 1 + band[Math.floor(((x + 0.5) / width) * frames)]! / range);
    }
    for (let x = 0; x < BAR_WIDTH; x++) put(left + width + BAR_GAP + x, top + y, 1 - (y + 0.5) / height);
  }
}
