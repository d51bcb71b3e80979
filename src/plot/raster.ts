/**
 * Figure + values → RGB, and the column rasteriser: antialiased polylines without axes, one or one in each row, for the training
 * loop.
 *
 * A stroke of radius r with round joins and caps is the union of discs along the path. The path of a series is
 * the graph of a function, so a vertical line at x cuts the stroke in one interval: from the lowest to the
 * highest point over all path points within r of x. The rasteriser computes this interval exactly at
 * `SUBCOLUMNS` positions in each pixel column and adds its exact coverage of each pixel: the min–max column
 * technique, with antialiasing. Its pixels agree with vega's for the same figure (test/plot/raster.test.ts).
 */

import { ConfigError } from '../ground/errors.ts';
import type { Interval, Picture } from '../ground/types.ts';
import { channelsOf, type FigureValues, xDomain, yDomain } from './data.ts';
import { type Figure, isBare, isPanelled, type Panel, panels, plotSize } from './figure.ts';

/**
 * Draws a figure: bare ones by the column rasteriser, which draws the same picture faster, all others through vega, whose modules
 * take longer to load than all of ours and are loaded by the first figure that needs them. Training and evaluation see the same
 * pixels. Parameters and errors as `renderVega`.
 */
export async function render(figure: Figure, values: FigureValues, times?: Float64Array): Promise<Picture> {
  if (isBare(figure) && times === undefined) return renderColumns(figure, values);
  const { renderVega } = await import('./vega-raster.ts');
  return renderVega(figure, values, times);
}

const SUBCOLUMNS = 4;

/** Buffers reused between calls; all calls of a thread are synchronous, so no two overlap. */
interface Scratch {
  readonly lowest: Float64Array; // [W · SUBCOLUMNS] top edge of the stroke, px from the top
  readonly highest: Float64Array; // [W · SUBCOLUMNS] bottom edge
  /** Change of coverage from one pixel row to the next, in units of one subcolumn: [H + 2, W]. */
  readonly change: Float32Array;
  readonly coverage: Float32Array; // [W] running sum of `change` over the rows above
}
let scratch: (Scratch & { readonly width: number; readonly height: number }) | undefined;

function scratchFor(width: number, height: number): Scratch {
  if (scratch?.width !== width || scratch.height !== height) {
    scratch = {
      width,
      height,
      lowest: new Float64Array(width * SUBCOLUMNS).fill(Infinity),
      highest: new Float64Array(width * SUBCOLUMNS).fill(-Infinity),
      change: new Float32Array((height + 2) * width),
      coverage: new Float32Array(width),
    };
  }
  return scratch;
}

type Rgb = readonly [r: number, g: number, b: number];

/** `#rrggbb` → [r, g, b], 0–255. */
function rgb(color: string): Rgb {
  const match = /^#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})$/i.exec(color);
  if (match === null) throw new ConfigError(`figure colour ${JSON.stringify(color)}: expected #rrggbb`);
  return [Number.parseInt(match[1]!, 16), Number.parseInt(match[2]!, 16), Number.parseInt(match[3]!, 16)];
}

/** Widens the stroke's intervals by the disc around one path point. */
function addPoint(s: Scratch, x: number, y: number, radius: number, columns: number): void {
  const first = Math.max(0, Math.ceil((x - radius) * SUBCOLUMNS - 0.5));
  const last = Math.min(columns - 1, Math.floor((x + radius) * SUBCOLUMNS - 0.5));
  for (let c = first; c <= last; c++) {
    const dx = (c + 0.5) / SUBCOLUMNS - x;
    const reach = Math.sqrt(Math.max(0, radius * radius - dx * dx));
    if (y - reach < s.lowest[c]!) s.lowest[c] = y - reach;
    if (y + reach > s.highest[c]!) s.highest[c] = y + reach;
  }
}

/** Widens the stroke's intervals by the two long sides of one segment's rectangle. */
function addSegment(
  s: Scratch,
  x0: number,
  y0: number,
  x1: number,
  y1: number,
  radius: number,
  columns: number,
): void {
  const slope = (y1 - y0) / (x1 - x0);
  const length = Math.sqrt(1 + slope * slope);
  // The sides are the segment moved by ±radius along its normal (slope, −1) / length.
  const shift = (radius * slope) / length;
  const rise = radius * length; // vertical distance from the segment's line to a side's line
  const upperFirst = Math.max(0, Math.ceil((x0 + shift) * SUBCOLUMNS - 0.5));
  const upperLast = Math.min(columns - 1, Math.floor((x1 + shift) * SUBCOLUMNS - 0.5));
  const step = slope / SUBCOLUMNS;
  let y = y0 + ((upperFirst + 0.5) / SUBCOLUMNS - x0) * slope - rise;
  for (let c = upperFirst; c <= upperLast; c++, y += step) if (y < s.lowest[c]!) s.lowest[c] = y;
  const lowerFirst = Math.max(0, Math.ceil((x0 - shift) * SUBCOLUMNS - 0.5));
  const lowerLast = Math.min(columns - 1, Math.floor((x1 - shift) * SUBCOLUMNS - 0.5));
  y = y0 + ((lowerFirst + 0.5) / SUBCOLUMNS - x0) * slope + rise;
  for (let c = lowerFirst; c <= lowerLast; c++, y += step) if (y > s.highest[c]!) s.highest[c] = y;
}

/** Adds the intervals of subcolumns [first, last] to the coverage and clears them for the next run. */
function flush(s: Scratch, first: number, last: number, width: number, height: number): void {
  const { lowest, highest, change } = s;
  for (let c = first; c <= last; c++) {
    const top = Math.min(height, Math.max(0, lowest[c]!));
    const bottom = Math.min(height, Math.max(0, highest[c]!));
    lowest[c] = Infinity;
    highest[c] = -Infinity;
    if (!(bottom > top)) continue;
    const column = (c / SUBCOLUMNS) | 0;
    const topRow = top | 0;
    const topPart = top - topRow;
    let at = topRow * width + column;
    change[at]! += 1 - topPart;
    change[at + width]! += topPart;
    const bottomRow = bottom | 0;
    const bottomPart = bottom - bottomRow;
    at = bottomRow * width + column;
    change[at]! -= 1 - bottomPart;
    change[at + width]! -= bottomPart;
  }
}

/** Stroke of a picture: its scratch, size and radius, and the x scale of its samples. */
interface Stroke {
  readonly s: Scratch;
  readonly width: number;
  readonly height: number;
  readonly radius: number;
  readonly toX: { readonly scale: number; readonly offset: number };
}

/** The y scale of a channel, in px from the top. */
interface YScale {
  readonly scale: number;
  readonly top: number;
  readonly highest: number;
}

/** Traces one run of finite samples [from, to), already in pixels. */
function addRun(stroke: Stroke, values: Float64Array, from: number, to: number, toY: YScale): void {
  const { s, toX, radius, width, height } = stroke;
  const columns = width * SUBCOLUMNS;
  let x0 = from * toX.scale + toX.offset;
  let y0 = (toY.highest - values[from]!) * toY.scale + toY.top;
  addPoint(s, x0, y0, radius, columns);
  const first = Math.max(0, Math.floor((x0 - radius) * SUBCOLUMNS - 1));
  for (let i = from + 1; i < to; i++) {
    const x1 = i * toX.scale + toX.offset;
    const y1 = (toY.highest - values[i]!) * toY.scale + toY.top;
    addSegment(s, x0, y0, x1, y1, radius, columns);
    addPoint(s, x1, y1, radius, columns);
    x0 = x1;
    y0 = y1;
  }
  flush(s, first, Math.min(columns - 1, Math.ceil((x0 + radius) * SUBCOLUMNS)), width, height);
}

/** y domain of a row with its own axis; `otherwise` for a channel without samples, whose row stays empty. */
function ownDomain(
  figure: Figure,
  series: Float64Array,
  otherwise: readonly [lo: number, hi: number],
): readonly [lo: number, hi: number] {
  return series.some((value) => Number.isFinite(value)) ? yDomain(figure, [series]) : otherwise;
}

function addChannel(stroke: Stroke, series: Float64Array, toY: YScale): void {
  for (let from = 0; from < series.length; ) {
    const value = series[from]!;
    if (value - value !== 0) {
      from++;
      continue;
    }
    let to = from + 1;
    while (to < series.length && series[to]! - series[to]! === 0) to++;
    addRun(stroke, series, from, to, toY);
    from = to;
  }
}

/**
 * Draws a bare figure (one polyline, or one in each row; no axes, no padding needed) of `values` [N] or [C][N] to RGB, synchronously. With an
 * overlay of L lines, `values` are the lines of all channels, [C·L][N].
 *
 * About 0.2 ms for N = 1000 at 560 × 28, and as much for each further row. Missing samples (NaN, ±Infinity) break the line; a sample between two
 * breaks is a dot of the line's width. A constant series is a horizontal line in the middle.
 * `into`, when given, must hold height · width · 3 bytes and becomes the picture's data.
 *
 * Throws ConfigError when the figure has axes, text, or several channels that are not rows of one colour; DataError as `channelsOf` and `yDomain`.
 */
export function renderColumns(figure: Figure, values: FigureValues, into?: Uint8Array): Picture {
  if (!isBare(figure)) {
    throw new ConfigError(
      `figure ${figure.name} has axes, text, or several channels that are not rows of one colour: draw it with render()`,
    );
  }
  const { width, height } = figure;
  const size = width * height * 3;
  if (into !== undefined && into.length !== size) {
    throw new ConfigError(
      `renderColumns: a ${width} × ${height} picture needs ${size} bytes, got ${into.length}`,
    );
  }
  const channels = channelsOf(figure, values);
  const data = into ?? new Uint8Array(size);
  if (figure.overlay !== null && figure.channels.length > 1) {
    const lines = figure.overlay.length;
    const one = { ...figure, channels: figure.channels.slice(0, 1), height: height / figure.channels.length };
    const bytes = one.height * width * 3;
    figure.channels.forEach((_, c) => {
      const own = channels.slice(c * lines, (c + 1) * lines);
      renderColumns(one, own, data.subarray(c * bytes, (c + 1) * bytes));
    });
    return { width, height, data };
  }
  const [xLo, xHi] = xDomain(figure, channels[0]!.length);
  const common = yDomain(figure, channels);
  const plot = plotSize(figure);
  const xScale = plot.width / (xHi - xLo);
  const toX = { scale: xScale, offset: figure.padding.left - xLo * xScale };
  const stroke = { s: scratchFor(width, height), width, height, radius: figure.lineWidth / 2, toX };
  const row = plot.height / channels.length;
  if (figure.overlay !== null) {
    fillWith(data, rgb(figure.background));
    figure.overlay.forEach((axis, c) => {
      const series = channels[c]!;
      const [yLo, yHi] = axis ?? ownDomain(figure, series, common);
      const toY = { scale: plot.height / (yHi - yLo), top: figure.padding.top, highest: yHi };
      addChannel(stroke, series, toY);
      paintLight(stroke, rgb(figure.colors[c]!), data);
    });
    return { width, height, data };
  }
  channels.forEach((series, c) => {
    const [yLo, yHi] = figure.rows === 'own' ? ownDomain(figure, series, common) : common;
    // Subtracted before scaling, so that values which differ in their last digits stay apart.
    const toY = { scale: row / (yHi - yLo), top: figure.padding.top + c * row, highest: yHi };
    addChannel(stroke, series, toY);
  });
  paint(stroke, rgb(figure.colors[0]!), rgb(figure.background), data);
  return { width, height, data };
}

/** Sums the coverage down each column, passes the coverage of each pixel to `draw`, and clears the scratch. */
function eachPixel({ s, width, height }: Stroke, draw: (at: number, alpha: number) => void): void {
  const { change, coverage } = s;
  coverage.fill(0);
  let at = 0;
  for (let row = 0; row < height; row++) {
    const start = row * width;
    for (let column = 0; column < width; column++) {
      const sum = coverage[column]! + change[start + column]!;
      coverage[column] = sum;
      // Runs on both sides of a break can overlap in a column; rounding can leave a trace below 0.
      draw(at, sum <= 0.001 ? 0 : sum >= SUBCOLUMNS ? 1 : sum / SUBCOLUMNS);
      at += 3;
    }
  }
  change.fill(0);
}

function paint(stroke: Stroke, [r, g, b]: Rgb, [br, bg, bb]: Rgb, data: Uint8Array): void {
  eachPixel(stroke, (at, alpha) => {
    data[at] = br + alpha * (r - br) + 0.5;
    data[at + 1] = bg + alpha * (g - bg) + 0.5;
    data[at + 2] = bb + alpha * (b - bb) + 0.5;
  });
}

/** Adds the light of a line to the picture: 255 − (255 − a)·(255 − b)/255 per colour, the blend mode `screen`. */
function paintLight(stroke: Stroke, colour: Rgb, data: Uint8Array): void {
  eachPixel(stroke, (at, alpha) => {
    if (alpha === 0) return;
    for (let k = 0; k < 3; k++) {
      data[at + k] = 255.5 - ((255 - data[at + k]!) * (255 - alpha * colour[k]!)) / 255;
    }
  });
}

function fillWith(data: Uint8Array, [r, g, b]: Rgb): void {
  for (let at = 0; at < data.length; at += 3) {
    data[at] = r;
    data[at + 1] = g;
    data[at + 2] = b;
  }
}

const GREEN = [0x2c, 0xa0, 0x2c] as const;
const BAND = 0.18;
/** Minimum width of the strip in px: a single point of many would be a hairline. */
export const LEAST_STRIP = 4;

interface ShadeOptions {
  /** x values [N] of the series, where it has some. */
  readonly times?: Float64Array;
  /** Panels of a grid, or rows, to shade. Default: all. */
  readonly channels?: readonly number[];
}

/** Mid-point between samples i − 1 and i; extrapolated before the first and after the last. */
function boundary(times: Float64Array, i: number): number {
  const last = times.length - 1;
  if (last === 0) return times[0]! + i - 0.5;
  if (i === 0) return times[0]! - (times[1]! - times[0]!) / 2;
  if (i > last) return times[last]! + (times[last]! - times[last - 1]!) / 2;
  return (times[i - 1]! + times[i]!) / 2;
}

/**
 * A copy of `picture`, drawn from `figure` and a series of `length` samples, with `intervals` shaded. The strip is
 * an eighth of the plot area's height, between 2 and 5 px, and at least `LEAST_STRIP` wide; the band is as wide as the interval.
 * Coverage of partly covered pixel columns is exact.
 */
export function shade(
  figure: Figure,
  picture: Picture,
  intervals: readonly Interval[],
  length: number,
  options: ShadeOptions = {},
): Picture {
  const { times, channels } = options;
  const whole: Panel = { x: 0, y: 0, ...plotSize(figure) };
  const panelled = isPanelled(figure);
  const places = panelled ? panels(figure) : [whole];
  const data = Uint8Array.from(picture.data);
  const [lo, hi] = xDomain(figure, length, times);
  const step = figure.step ?? 1;
  for (const [c, panel] of places.entries()) {
    if (panelled && channels !== undefined && !channels.includes(c)) continue;
    const left = figure.padding.left + panel.x;
    const top = Math.round(figure.padding.top + panel.y);
    const { width, height } = panel;
    const strip = Math.min(5, Math.max(2, Math.round(height / 8)));
    const toPixel = (i: number) => {
      const x = times === undefined ? (i - 0.5) * step : boundary(times, i);
      return left + ((x - lo) / (hi - lo)) * width;
    };
    const paint = (from: number, to: number, rows: readonly [top: number, bottom: number], full: number) => {
      for (let x = Math.max(0, Math.floor(from)); x < Math.min(picture.width, to); x++) {
        const alpha = full * (Math.min(x + 1, to) - Math.max(x, from));
        for (let y = rows[0]; y < Math.min(picture.height, rows[1]); y++) {
          const at = (y * picture.width + x) * 3;
          for (const [k, green] of GREEN.entries()) {
            data[at + k] = Math.round(data[at + k]! * (1 - alpha) + green * alpha);
          }
        }
      }
    };
    for (const [start, end] of intervals) {
      const from = toPixel(start);
      const to = toPixel(end);
      const least = Math.max(to - from, Math.min(LEAST_STRIP, width));
      const first = Math.max(left, Math.min((from + to - least) / 2, left + width - least));
      paint(first, first + least, [top, top + strip], 1);
      paint(from, to, [top + strip, top + Math.round(height)], BAND);
    }
  }
  return { width: picture.width, height: picture.height, data };
}
