/** Where the panels of a grid, or of rows, lie. */
import { ConfigError } from '../errors.ts';
import type { Figure } from './figure.ts';

/** Space between panels, px; the names stand in it. */
const GAP = 20;
const SMALLEST = 24; // px of a panel's side, just enough to see a shape
const LOWEST = 8; // px of a row

/** A panel, px from the upper left corner of the plot area. */
export interface Panel {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/** Panels of the channels, row by row: ⌈√C⌉ columns and as many rows as that takes; in a figure of rows one below the other. */
export function panels({ width, height, padding, channels, rows: stacked }: Figure): readonly Panel[] {
  if (stacked !== null) {
    const row = (height - padding.top - padding.bottom) / channels.length;
    return channels.map((_, i) => ({
      x: 0,
      y: i * row,
      width: width - padding.left - padding.right,
      height: row,
    }));
  }
  const columns = Math.ceil(Math.sqrt(channels.length));
  const rows = Math.ceil(channels.length / columns);
  const across = (width - padding.left - padding.right - (columns - 1) * GAP) / columns;
  const down = (height - padding.top - padding.bottom - (rows - 1) * GAP) / rows;
  return channels.map((_, i) => ({
    x: (i % columns) * (across + GAP),
    y: Math.floor(i / columns) * (down + GAP),
    width: across,
    height: down,
  }));
}

/** Throws ConfigError when the panels get too small to show anything, or rows are not of whole px. */
export function checkPanels(figure: Figure): void {
  const first = panels(figure)[0];
  if (figure.rows !== null) {
    const row = first?.height ?? 0;
    if (first !== undefined && !(Number.isInteger(row) && row >= LOWEST)) {
      throw new ConfigError(
        `figure.rows: ${figure.channels.length} rows of ${Number(row.toFixed(2))} px; give a height that makes rows of whole px, at least ${LOWEST}`,
      );
    }
    return;
  }
  if (first !== undefined && !(Math.min(first.width, first.height) >= SMALLEST)) {
    throw new ConfigError(
      `figure.grid: ${figure.channels.length} panels of ${Math.floor(first.width)} × ${Math.floor(first.height)} px in ${figure.width} × ${figure.height} px show nothing; make the figure larger`,
    );
  }
}
