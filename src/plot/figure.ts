/**
 * Appearance of a plot without its data: plain, serialisable values that key caches and travel to Workers.
 * Sizes are pixels of the whole picture.
 */
import { ConfigError } from '../ground/errors.ts';
import { FIGURE_NAMES, isFigureName, PRESETS } from './presets.ts';

/** The bundled font, under a name that no system font has; see canvas.ts. */
export const FONT_FAMILY = 'Timeseer Sans';

/** Space between the plot area and the edges of the picture. */
export interface Padding {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

export interface Figure {
  readonly name: string;
  readonly width: number; // px, integer
  readonly height: number; // px, integer
  readonly padding: Padding;
  /** One name per channel; a legend appears when there are several. */
  readonly channels: readonly string[];
  readonly colors: readonly string[]; // CSS hex colours, cycled over the channels
  readonly background: string;
  readonly lineWidth: number;
  /** Axes with ticks, frame and titles. Without them, and with one channel, the figure is a bare polyline. */
  readonly axes: boolean;
  readonly title: string;
  readonly xLabel: string;
  readonly yLabel: string;
  readonly titleSize: number; // font sizes in px
  readonly labelSize: number;
  readonly tickSize: number;
  /** True if x holds UTC milliseconds, given with the series. */
  readonly time: boolean;
  /** Units of the x axis from one sample to the next; `null`: each series brings its own x values. */
  readonly step: number | null;
  /** Missing samples (NaN, ±Infinity): the line breaks, or joins their neighbours. */
  readonly missing: 'break' | 'join';
  /** Legend of several channels: in the upper right corner of the plot area, or above it. */
  readonly legend: 'inside' | 'above';
  /**
   * One panel per channel, each with a y axis of its own and the channel's name above it, row by row in a grid of
   * ⌈√C⌉ columns; no ticks.
   */
  readonly grid: boolean;
  /**
   * One bare row per channel over the whole width, one below the other, all of one height in whole px: nothing but lines. The
   * rows share one y axis, so that levels compare, or each has its own, so that shapes do. `null`: no rows.
   */
  readonly rows: 'shared' | 'own' | null;
  /**
   * Lines laid over each other: a channel, and what is unusual in it (`unusualLines`). Their colours add up like light. Each line has a y axis
   * of its own, with the ends given here (the line is cut there), or (`null`) as long as the line needs. Of several channels each has a row,
   * drawn as if it was alone. `null`: no overlay.
   */
  readonly overlay: readonly (readonly [lo: number, hi: number] | null)[] | null;
  /**
   * Share of the x extent left free on each side. `null`: sample i owns the cell [i, i + 1)·W/N of the plot area
   * and is drawn in its middle, so that W/k-pixel blocks hold exactly N/k samples.
   */
  readonly xMargin: number | null;
  /** Share of the y extent left free above and below, so that no line is cut. */
  readonly yMargin: number;
  /**
   * Values that the y axis shows as well; the data can widen it. Left out where it would squeeze the data into less
   * than a tenth of the axis: a series on quite another scale must not become a flat line.
   */
  readonly yInclude: readonly [lo: number, hi: number] | null;
}

/** The height of a preset of rows, or of overlaid lines, for the channels of `changes`. */
function rowsOf(preset: Figure, changes: Partial<Figure>): Partial<Figure> {
  const { rows, overlay, channels, height, padding } = preset;
  if ((rows === null && overlay === null) || changes.channels === undefined || changes.channels.length === 0)
    return {};
  const { top, bottom } = padding;
  const row = (height - top - bottom) / channels.length;
  const { top: newTop, bottom: newBottom } = changes.padding ?? padding;
  return { height: newTop + newBottom + row * changes.channels.length };
}

export const unknownFigure = (name: string): string =>
  `unknown name ${JSON.stringify(name)}; use one of ${FIGURE_NAMES.join(', ')}`;

/**
 * A preset, with the given properties replaced. A figure of rows, or of overlaid lines, keeps the height of a row: without a height among
 * the `changes` it grows with its channels.
 * Throws ConfigError when the name is unknown or a size, margin or channel list makes no picture.
 */
export function figure(name: string, changes: Partial<Omit<Figure, 'name'>> = {}): Figure {
  if (!isFigureName(name)) {
    throw new ConfigError(`figure: ${unknownFigure(name)}`);
  }
  const preset: Figure = PRESETS[name];
  const result: Figure = { ...preset, ...rowsOf(preset, changes), ...changes };
  const { left, right, top, bottom } = result.padding;
  for (const [key, value] of [
    ['width', result.width],
    ['height', result.height],
  ] as const) {
    if (!Number.isInteger(value) || value < 1 || value > 8192) {
      throw new ConfigError(`figure.${key}: expected a whole number of pixels in 1 … 8192, got ${value}`);
    }
  }
  if (!(result.width - left - right >= 1 && result.height - top - bottom >= 1)) {
    throw new ConfigError(
      `figure.padding: leaves no room for the plot in ${result.width} × ${result.height} px; make it smaller`,
    );
  }
  if (!(result.lineWidth > 0 && result.lineWidth <= 64)) {
    throw new ConfigError(`figure.lineWidth: expected a width in (0, 64] px, got ${result.lineWidth}`);
  }
  if (!(result.yMargin >= 0 && result.yMargin <= 10) || !((result.xMargin ?? 0) >= 0)) {
    throw new ConfigError(
      `figure margins: expected shares ≥ 0, got x ${result.xMargin}, y ${result.yMargin}`,
    );
  }
  if (result.step !== null && !(result.step > 0 && Number.isFinite(result.step))) {
    throw new ConfigError(`figure.step: expected units of x per sample above 0, or null, got ${result.step}`);
  }
  const { grid, time, rows, overlay } = result;
  if ([grid, time, rows !== null, overlay !== null].filter(Boolean).length > 1) {
    throw new ConfigError('figure: grid, time, rows and overlay exclude each other; keep one');
  }
  if (overlay !== null && result.colors.length !== overlay.length) {
    throw new ConfigError(`figure.overlay: expected as many colours as axes, ${overlay.length}`);
  }
  if (overlay !== null && isPanelled(result) && [left, right, top, bottom].some((side) => side > 0)) {
    throw new ConfigError('figure.overlay: rows of several channels have no padding; set it to 0');
  }
  if (isPanelled(result)) checkPanels(result);
  if (result.channels.length === 0 || new Set(result.channels).size !== result.channels.length) {
    throw new ConfigError('figure.channels: expected at least one name, each different');
  }
  if (result.colors.length === 0) throw new ConfigError('figure.colors: expected at least one colour');
  return result;
}

/** Returns true if the column rasteriser can draw the figure: one polyline, one per row, or overlaid lines; no axes, no text. */
export function isBare(figure: Figure): boolean {
  const { axes, title, channels, colors, time, step, missing, grid, rows, overlay } = figure;
  if (overlay !== null) return true;
  const plain = step === 1 && missing === 'break' && !time && !grid;
  const lines = channels.length === 1 || (rows !== null && colors.length === 1);
  return plain && !axes && title === '' && lines;
}

/** Returns true if each channel has a panel, or a row, of its own. */
export function isPanelled({ grid, rows, overlay, channels }: Figure): boolean {
  return grid || rows !== null || (overlay !== null && channels.length > 1);
}

export function needsTimes(figure: Figure): boolean {
  return figure.time || figure.step === null;
}

export function plotSize(figure: Figure): { readonly width: number; readonly height: number } {
  const { left, right, top, bottom } = figure.padding;
  return { width: figure.width - left - right, height: figure.height - top - bottom };
}

/** Space between the panels of a grid, px; the names stand in it. */
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
export function panels({
  width,
  height,
  padding,
  channels,
  rows: stacked,
  overlay,
}: Figure): readonly Panel[] {
  if (stacked !== null || overlay !== null) {
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
function checkPanels(figure: Figure): void {
  const first = panels(figure)[0];
  if (figure.rows !== null || figure.overlay !== null) {
    const row = first?.height ?? 0;
    if (first !== undefined && !(Number.isInteger(row) && row >= LOWEST)) {
      throw new ConfigError(
        `figure.${figure.rows === null ? 'overlay' : 'rows'}: ${figure.channels.length} rows of ${Number(row.toFixed(2))} px; give a height that makes rows of whole px, at least ${LOWEST}`,
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

/** `Time (s)` → `time in s`. */
function quantity(label: string): string {
  const [, name = label, unit] = /^(.*?)(?: \((.*)\))?$/.exec(label) ?? [];
  const lower = name === '' ? 'x value' : `${name[0]!.toLowerCase()}${name.slice(1)}`;
  return unit === undefined ? lower : `${lower} in ${unit}`;
}

const short = (value: number): string => String(Number(value.toPrecision(3)));

function xAxis(figure: Figure, length: number, times: Float64Array | undefined): string {
  const { step, time, xLabel } = figure;
  if (time) return 'the x axis is the date';
  if (step === 1) return `the x axis is the index, 0 to ${length - 1}`;
  const name = quantity(xLabel);
  if (step !== null) return `the x axis is the ${name}, 0 to ${short((length - 1) * step)}`;
  return times === undefined
    ? `the x axis is the ${name}`
    : `the x axis is the ${name}, ${short(times[0]!)} to ${short(times[times.length - 1]!)}`;
}

/**
 * Clause for a prompt, which must not contradict the picture beside it: it describes the x axis of a figure of
 * `length` points, and about what else is not to be expected of a plot: rows and panels.
 * `times` are the x values where the series brings its own.
 */
export function axesText(figure: Figure, length: number, times?: Float64Array): string {
  const x = xAxis(figure, length, times);
  if (figure.grid) return `each channel has a small plot of its own, row by row from the upper left; ${x}`;
  if (isPanelled(figure) && figure.channels.length > 1)
    return `each channel has a row of its own, from the top; ${x}`;
  return x;
}
