/** True intervals over a finished picture, for people: a light band and a strip along the top of the plot area. */
import type { Interval, Picture } from '../types.ts';
import { xDomain } from './domain.ts';
import { type Figure, plotSize } from './figure.ts';

const GREEN = [0x2c, 0xa0, 0x2c] as const;
const BAND = 0.18;

/**
 * A copy of `picture`, drawn from `figure` and a series of `length` samples, with `intervals` shaded. The strip is
 * an eighth of the plot area's height, between 2 and 5 px. Coverage of partly covered pixel columns is exact.
 */
export function shade(
  figure: Figure,
  picture: Picture,
  intervals: readonly Interval[],
  length: number,
): Picture {
  const data = Uint8Array.from(picture.data);
  const { width, height } = plotSize(figure);
  const left = figure.padding.left;
  const top = Math.round(figure.padding.top);
  const strip = Math.min(5, Math.max(2, Math.round(height / 8)));
  const [lo, hi] = xDomain(figure, length);
  const toPixel = (x: number) => left + ((x - lo) / (hi - lo)) * width;
  for (const [start, end] of intervals) {
    const from = toPixel(start - 0.5);
    const to = toPixel(end - 0.5);
    for (let x = Math.max(0, Math.floor(from)); x < Math.min(picture.width, to); x++) {
      const covered = Math.min(x + 1, to) - Math.max(x, from);
      for (let y = top; y < Math.min(picture.height, top + Math.round(height)); y++) {
        const alpha = covered * (y < top + strip ? 1 : BAND);
        const at = (y * picture.width + x) * 3;
        for (let c = 0; c < 3; c++)
          data[at + c] = Math.round(data[at + c]! * (1 - alpha) + GREEN[c]! * alpha);
      }
    }
  }
  return { width: picture.width, height: picture.height, data };
}
