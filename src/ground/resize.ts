/** Resizing of pictures, bit for bit as torchvision and Pillow do it. */
import type { Picture } from './types.ts';

/**
 * Library whose rounding a resize follows. Both keep 8 bits between the passes.
 * `torchvision`: what transformers' image processor does by default with 8-bit pictures on an x86 processor: rows
 * first, weights of 16 bits. `pillow`: its `Pil` processor, Pillow 13: columns first where the height shrinks by more
 * than twice as many pixels as the width does, weights of 22 bits. With the same order of passes they differ by at
 * most two grey levels; with another, by what the clamping between the passes cuts off at sharp edges, some twenty.
 */
export type Resampler = 'torchvision' | 'pillow';

/** Keys' cubic kernel with a = −0.5. */
function cubic(x: number): number {
  const t = Math.abs(x);
  if (t < 1) return (1.5 * t - 2.5) * t * t + 1;
  if (t < 2) return (((t - 5) * t + 8) * t - 4) * -0.5;
  return 0;
}

/** Lanczos' kernel with three lobes. */
function lanczos(x: number): number {
  const sinc = (t: number): number => (t === 0 ? 1 : Math.sin(Math.PI * t) / (Math.PI * t));
  return Math.abs(x) < 3 ? sinc(x) * sinc(x / 3) : 0;
}

/** Weight by the distance in pixels, 0 beyond `support`. */
interface Kernel {
  readonly weigh: (x: number) => number;
  readonly support: number;
}
const BICUBIC: Kernel = { weigh: cubic, support: 2 };
const LANCZOS: Kernel = { weigh: lanczos, support: 3 };

/** Source positions and integer weights of each target position along an axis. */
interface Taps {
  /** First source position: [to]. */
  readonly starts: Int32Array;
  /** Number of source positions: [to]. */
  readonly counts: Int32Array;
  /** Weights times 2^bits: [to, stride]. */
  readonly weights: Int32Array;
  readonly stride: number;
  readonly bits: number;
}

/** Bits of the weights' fraction. */
function fraction(largest: number, resampler: Resampler): number {
  if (resampler === 'pillow') return 22;
  let bits = 0;
  while (bits < 22 && Math.floor(0.5 + largest * 2 ** (bits + 1)) < 2 ** 15) bits++;
  return bits;
}

/** Taps of one axis; the kernel is widened when shrinking (antialiasing). */
function tapsOf(from: number, to: number, kernel: Kernel, resampler: Resampler): Taps {
  const scale = from / to;
  const widening = Math.max(scale, 1);
  const support = kernel.support * widening;
  const stride = Math.ceil(support) * 2 + 1;
  const starts = new Int32Array(to);
  const counts = new Int32Array(to);
  const exact = new Float64Array(to * stride);
  let largest = 0;
  for (let i = 0; i < to; i++) {
    const centre = (i + 0.5) * scale;
    const start = Math.max(0, Math.trunc(centre - support + 0.5));
    const count = Math.min(from, Math.trunc(centre + support + 0.5)) - start;
    let total = 0;
    for (let j = 0; j < count; j++) {
      const weight = kernel.weigh((start + j - centre + 0.5) * (1 / widening));
      exact[i * stride + j] = weight;
      total += weight;
    }
    for (let j = 0; j < count; j++) {
      exact[i * stride + j]! /= total;
      largest = Math.max(largest, exact[i * stride + j]!);
    }
    starts[i] = start;
    counts[i] = count;
  }
  const bits = fraction(largest, resampler);
  const weights = Int32Array.from(exact, (w) => Math.trunc(w * 2 ** bits + (w < 0 ? -0.5 : 0.5)));
  return { starts, counts, weights, stride, bits };
}

/** [height, from, 3] → [height, to, 3] */
function resampleRows(data: Uint8Array, height: number, from: number, to: number, taps: Taps): Uint8Array {
  const out = new Uint8ClampedArray(height * to * 3);
  const { starts, counts, weights, stride, bits } = taps;
  const half = 1 << (bits - 1);
  let at = 0;
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < to; x++) {
      let source = (y * from + starts[x]!) * 3;
      const first = x * stride;
      const last = first + counts[x]!;
      let [red, green, blue] = [half, half, half];
      for (let k = first; k < last; k++) {
        const weight = weights[k]!;
        red = (red + Math.imul(weight, data[source]!)) | 0;
        green = (green + Math.imul(weight, data[source + 1]!)) | 0;
        blue = (blue + Math.imul(weight, data[source + 2]!)) | 0;
        source += 3;
      }
      out[at++] = red >> bits;
      out[at++] = green >> bits;
      out[at++] = blue >> bits;
    }
  }
  return new Uint8Array(out.buffer);
}

/** [from, inner] → [to, inner] */
function resampleColumns(data: Uint8Array, inner: number, to: number, taps: Taps): Uint8Array {
  const out = new Uint8ClampedArray(to * inner);
  const { starts, counts, weights, stride, bits } = taps;
  const sums = new Int32Array(inner);
  for (let y = 0; y < to; y++) {
    sums.fill(1 << (bits - 1));
    for (let k = 0; k < counts[y]!; k++) {
      const weight = weights[y * stride + k]!;
      const source = (starts[y]! + k) * inner;
      for (let i = 0; i < inner; i++) sums[i] = sums[i]! + Math.imul(weight, data[source + i]!);
    }
    for (let i = 0; i < inner; i++) out[y * inner + i] = sums[i]! >> bits;
  }
  return new Uint8Array(out.buffer);
}

function resize(
  picture: Picture,
  width: number,
  height: number,
  kernel: Kernel,
  resampler: Resampler,
): Picture {
  const { width: fromWidth, height: fromHeight } = picture;
  const rows = (data: Uint8Array, count: number): Uint8Array =>
    fromWidth === width
      ? data
      : resampleRows(data, count, fromWidth, width, tapsOf(fromWidth, width, kernel, resampler));
  const columns = (data: Uint8Array, across: number): Uint8Array =>
    fromHeight === height
      ? data
      : resampleColumns(data, across * 3, height, tapsOf(fromHeight, height, kernel, resampler));
  const shrinks = fromHeight - height;
  const columnsFirst = resampler === 'pillow' && shrinks > 0 && shrinks > (fromWidth - width) * 2;
  const data = columnsFirst
    ? rows(columns(picture.data, fromWidth), height)
    : columns(rows(picture.data, fromHeight), width);
  return { width, height, data };
}

/** Antialiased bicubic resize in 8 bits, to the last bit of the library that `resampler` names. */
export const resizeBicubic = (
  picture: Picture,
  width: number,
  height: number,
  resampler: Resampler = 'torchvision',
): Picture => resize(picture, width, height, BICUBIC, resampler);

/** Antialiased Lanczos resize in 8 bits, to the last bit of Pillow. */
export const resizeLanczos = (picture: Picture, width: number, height: number): Picture =>
  resize(picture, width, height, LANCZOS, 'pillow');
