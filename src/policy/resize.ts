/** Resizing of RGB rasters as the image processor of Qwen2.5-VL does it. */
import { DataError } from '../errors.ts';
import type { Picture } from '../types.ts';

/** Rounds halves to even, as Python's `round`. */
function roundEven(x: number): number {
  const floor = Math.floor(x);
  const rest = x - floor;
  if (rest !== 0.5) return Math.round(x);
  return floor % 2 === 0 ? floor : floor + 1;
}

/**
 * Size that a picture is resized to: both sides multiples of `factor`, at least `minPixels` and at most
 * `maxPixels` in all, the aspect ratio kept as nearly as possible. Source: `smart_resize` of transformers.
 * @throws DataError when the picture is empty or more than 200 times as long as it is wide.
 */
export function smartResize(
  width: number,
  height: number,
  factor: number,
  minPixels: number,
  maxPixels: number,
): { width: number; height: number } {
  if (!(width > 0 && height > 0) || Math.max(width, height) / Math.min(width, height) > 200) {
    throw new DataError(
      `a picture of ${width} × ${height} pixels cannot be used: the aspect ratio must be at most 200`,
    );
  }
  let toWidth = roundEven(width / factor) * factor;
  let toHeight = roundEven(height / factor) * factor;
  if (toWidth * toHeight > maxPixels) {
    const shrink = Math.sqrt((width * height) / maxPixels);
    toWidth = Math.max(factor, Math.floor(width / shrink / factor) * factor);
    toHeight = Math.max(factor, Math.floor(height / shrink / factor) * factor);
  } else if (toWidth * toHeight < minPixels) {
    const grow = Math.sqrt(minPixels / (width * height));
    toWidth = Math.ceil((width * grow) / factor) * factor;
    toHeight = Math.ceil((height * grow) / factor) * factor;
  }
  return { width: toWidth, height: toHeight };
}

/** Keys' cubic kernel with a = −0.5. */
function cubic(x: number): number {
  const t = Math.abs(x);
  if (t < 1) return (1.5 * t - 2.5) * t * t + 1;
  if (t < 2) return ((-0.5 * t + 2.5) * t - 4) * t + 2;
  return 0;
}

/** Source range and weights of each target position along one axis, widened when shrinking (antialiasing). */
function taps(from: number, to: number): { start: number; weights: Float64Array }[] {
  const scale = from / to;
  const support = 2 * Math.max(scale, 1);
  return Array.from({ length: to }, (_, i) => {
    const centre = (i + 0.5) * scale;
    const start = Math.max(0, Math.trunc(centre - support + 0.5));
    const end = Math.min(from, Math.trunc(centre + support + 0.5));
    const weights = new Float64Array(end - start);
    let total = 0;
    for (let j = 0; j < weights.length; j++) {
      weights[j] = cubic((start + j - centre + 0.5) / Math.max(scale, 1));
      total += weights[j]!;
    }
    for (let j = 0; j < weights.length; j++) weights[j]! /= total;
    return { start, weights };
  });
}

/** Resamples one axis; `inner` values stand between neighbours along it. */
function resampleAxis(data: Uint8Array, outer: number, from: number, to: number, inner: number): Uint8Array {
  if (from === to) return data;
  const out = new Uint8ClampedArray(outer * to * inner); // rounds to nearest and clamps to [0, 255]
  const table = taps(from, to);
  for (let o = 0; o < outer; o++) {
    for (let i = 0; i < to; i++) {
      const { start, weights } = table[i]!;
      for (let k = 0; k < inner; k++) {
        let sum = 0;
        for (let j = 0; j < weights.length; j++)
          sum += weights[j]! * data[(o * from + start + j) * inner + k]!;
        out[(o * to + i) * inner + k] = sum;
      }
    }
  }
  return new Uint8Array(out.buffer);
}

/**
 * Antialiased bicubic resize, rows first then columns, 8 bit in between: Pillow's `BICUBIC` to ±1. Where a newer
 * Pillow takes columns first, clamped overshoots at sharp edges differ by a few grey levels.
 */
export function resizeBicubic(picture: Picture, width: number, height: number): Picture {
  const rows = resampleAxis(picture.data, picture.height, picture.width, width, 3); // [height₀ · width · 3]
  return { width, height, data: resampleAxis(rows, 1, picture.height, height, width * 3) };
}
