/** The values that a figure shows, checked, and the extent of its axes. */
import { DataError } from '../errors.ts';
import type { Figure } from './figure.ts';

/** One array per channel of the figure, all of one length. A single array stands for a single channel. */
export type FigureValues = Float64Array | readonly Float64Array[];

/**
 * The channels of `values` [C][N], checked against the figure.
 * Throws DataError when their number or lengths differ, or when a value lies beyond ±1e300 (its axis would overflow).
 * NaN and ±Infinity are missing samples: the line breaks there. A series without one finite value is an error.
 */
export function channelsOf(figure: Figure, values: FigureValues): readonly Float64Array[] {
  const channels = values instanceof Float64Array ? [values] : values;
  if (figure.spectrogram !== null) return channels; // its rows are frequencies; melDecibels checks them
  if (channels.length !== figure.channels.length) {
    throw new DataError(
      `figure ${figure.name} shows ${figure.channels.length} channel(s) (${figure.channels.join(', ')}), the series has ${channels.length}`,
    );
  }
  const length = channels[0]?.length ?? 0;
  if (length === 0) throw new DataError('a series without samples cannot be drawn; give at least one');
  for (const channel of channels) {
    if (channel.length !== length) {
      throw new DataError(`channels of one series must be equally long, got ${length} and ${channel.length}`);
    }
  }
  return channels;
}

/** Largest magnitude that a plot accepts: margins and spans of larger values would overflow. */
export const LARGEST_VALUE = 1e300;

/**
 * Domain of the y axis: extent of the finite values and `yInclude` (see Figure), widened by `yMargin` of itself on each side.
 * An extent below 1e-14 of its magnitude (constant, up to rounding) becomes value ± 5 % (± 0.5 around 0): the
 * line lies in the middle.
 */
export function yDomain(figure: Figure, channels: readonly Float64Array[]): [lo: number, hi: number] {
  let lo = Infinity;
  let hi = -Infinity;
  for (const channel of channels) {
    for (let i = 0; i < channel.length; i++) {
      const value = channel[i]!;
      if (value - value !== 0) continue; // NaN, ±Infinity
      if (value < lo) lo = value;
      if (value > hi) hi = value;
    }
  }
  if (lo > hi) throw new DataError('every sample is missing (NaN or infinite): there is nothing to draw');
  if (hi > LARGEST_VALUE || lo < -LARGEST_VALUE) {
    const [value, limit] = [hi > LARGEST_VALUE ? hi : lo, LARGEST_VALUE];
    throw new DataError(`value ${value} is beyond ±${limit} and cannot be drawn; rescale the series`);
  }
  if (figure.yInclude !== null) {
    const wideLo = Math.min(lo, figure.yInclude[0]);
    const wideHi = Math.max(hi, figure.yInclude[1]);
    const inside = wideLo === figure.yInclude[0] && wideHi === figure.yInclude[1];
    if (hi - lo >= (wideHi - wideLo) / 10 || (hi === lo && inside)) [lo, hi] = [wideLo, wideHi];
  }
  const magnitude = Math.max(Math.abs(lo), Math.abs(hi));
  if (hi - lo <= Math.max(magnitude * 1e-14, 1e-290)) {
    const half = magnitude < 1e-280 ? 0.5 : magnitude * 0.05;
    const middle = lo / 2 + hi / 2;
    return [middle - half, middle + half];
  }
  const margin = (hi - lo) * figure.yMargin;
  return [lo - margin, hi + margin];
}

/** Domain of the x axis for `length` samples at `times` (multiples of the figure's step when absent). */
export function xDomain(figure: Figure, length: number, times?: Float64Array): [lo: number, hi: number] {
  const first = times?.[0] ?? 0;
  const step = figure.step ?? 1;
  const last = times?.[length - 1] ?? (length - 1) * step;
  if (figure.xMargin === null || !(last > first)) {
    const half = last > first ? (last - first) / (length - 1) / 2 : 0.5 * step;
    return [first - half, last + half];
  }
  const margin = (last - first) * figure.xMargin;
  return [first - margin, last + margin];
}
