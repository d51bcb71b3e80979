/** True intervals over a finished picture, for people: a light band and a strip along the top of the plot area. */
import type { Interval, Picture } from '../ground/types.ts';
import { xDomain } from './data.ts';
import { type Figure, type Panel, panels, plotSize } from './figure.ts';

const GREEN = [0x2c, 0xa0, 0x2c] as const;
const BAND = 0.18;
/** The strip is at least this wide in px: a single point of many would be a hairline. */
export const LEAST_STRIP = 4;

export interface ShadeOptions {
  /** The x values [N] that the series brought, where it did. */
  readonly times?: Float64Array;
  /** Panels of a grid, or rows, to shade; default: all. */
  readonly channels?: readonly number[];
}

/** Half-way from sample i − 1 to sample i, as far beyond the first and the last one as to their neighbours. */
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
 *
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
  const panelled = figure.grid || figure.rows !== null;
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
