/** Data of a figure: checked values, axis extents, M4 downsampling, and the rows of vega's table. */
import { DataError } from '../ground/errors.ts';
import { type Figure, needsTimes, panels, plotSize } from './figure.ts';

/** One array per channel of the figure, all of one length. A single array stands for a single channel. */
export type FigureValues = Float64Array | readonly Float64Array[];

/**
 * The channels of `values` [C][N], checked against the figure.
 * Throws DataError when their number or lengths differ, or when a value lies beyond ±1e300 (its axis would overflow).
 * NaN and ±Infinity are missing samples: the line breaks there. A series without one finite value is an error.
 */
export function channelsOf(figure: Figure, values: FigureValues): readonly Float64Array[] {
  const channels = values instanceof Float64Array ? [values] : values;
  const lines = figure.overlay?.length ?? 1; // per channel
  if (channels.length !== figure.channels.length * lines) {
    const [each, had] = lines === 1 ? ['', 'the series has'] : [`, ${lines} lines each`, 'lines given:'];
    throw new DataError(
      `figure ${figure.name} shows ${figure.channels.length} channel(s) (${figure.channels.join(', ')})${each}; ${had} ${channels.length}`,
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
export const LARGEST_DRAWABLE = 1e300;

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
  if (hi > LARGEST_DRAWABLE || lo < -LARGEST_DRAWABLE) {
    const [value, limit] = [hi > LARGEST_DRAWABLE ? hi : lo, LARGEST_DRAWABLE];
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

/**
 * M4 downsampling (Jugel et al. 2014, "M4: a visualization-oriented time series data aggregation"): of the samples that fall
 * into one pixel column, the first, last, lowest and highest draw the same picture as all.
 * @param values samples [N]
 * @param column pixel column of sample i; must not decrease with i
 * @returns indices of the samples to keep, ascending; at most five per column, the fifth being a missing sample (NaN,
 * ±Infinity), so that breaks of the line survive
 */
export function m4(values: Float64Array, column: (index: number) => number): Int32Array {
  const kept = new Int32Array(values.length);
  let count = 0;
  for (let from = 0; from < values.length; ) {
    const here = column(from);
    let lowest = -1;
    let highest = -1;
    let missing = -1;
    let first = -1;
    let last = -1;
    let i = from;
    for (; i < values.length && column(i) === here; i++) {
      const value = values[i]!;
      if (value - value !== 0) {
        if (missing < 0) missing = i;
        continue;
      }
      if (first < 0) first = i;
      last = i;
      if (lowest < 0 || value < values[lowest]!) lowest = i;
      if (highest < 0 || value > values[highest]!) highest = i;
    }
    const chosen = [first, last, lowest, highest, missing].sort((a, b) => a - b);
    let previous = -1;
    for (const index of chosen) {
      if (index > previous) {
        kept[count++] = index;
        previous = index;
      }
    }
    from = i;
  }
  return kept.slice(0, count);
}

/** Samples per pixel column above which downsampling pays. */
const SAMPLES_PER_COLUMN = 4;

export interface Row {
  x: number;
  y: number | null;
  readonly channel: string;
}

/** Throws DataError when times are missing, unwanted, unsorted or too few. */
export function checkTimes(figure: Figure, times: Float64Array | undefined, length: number): void {
  if (needsTimes(figure) !== (times !== undefined)) {
    if (figure.time) {
      throw new DataError(`figure ${figure.name} has a time axis: give one UTC millisecond time per sample`);
    }
    throw new DataError(
      figure.step === null
        ? `figure ${figure.name} takes its x axis from the series: give one number per sample`
        : `figure ${figure.name} counts samples: give no times, or set its time property, or its step to null`,
    );
  }
  if (times === undefined) return;
  if (times.length !== length)
    throw new DataError(`${times.length} times for ${length} samples; give one each`);
  for (let i = 0; i < length; i++) {
    if (!Number.isFinite(times[i]!) || (i > 0 && times[i]! < times[i - 1]!)) {
      throw new DataError(
        `time ${times[i]} of sample ${i} is not finite or precedes the one before; sort by time`,
      );
    }
  }
}

function present(values: Float64Array): Int32Array {
  const indices = new Int32Array(values.length);
  let count = 0;
  for (let i = 0; i < values.length; i++) if (Number.isFinite(values[i])) indices[count++] = i;
  return indices.subarray(0, count);
}

/** Adds the samples of one channel that are visible in `columns` pixel columns. */
function addSamples(
  rows: Row[],
  figure: Figure,
  channel: string,
  samples: Float64Array,
  times: Float64Array | undefined,
  columns: number,
): void {
  const [lo, hi] = xDomain(figure, samples.length, times);
  const scale = columns / (hi - lo);
  const step = figure.step ?? 1;
  const joined = figure.missing === 'join' ? present(samples) : undefined;
  const values = joined === undefined ? samples : Float64Array.from(joined, (i) => samples[i]!);
  const xOf = (i: number): number => {
    const at = joined === undefined ? i : joined[i]!;
    return times === undefined ? at * step : times[at]!;
  };
  const add = (i: number) => {
    const y = values[i]!;
    const row = { x: xOf(i), y: Number.isFinite(y) ? y : null, channel };
    rows.push(row);
    // A path without length draws nothing: a sample between two missing ones gets 1/100 px, and is seen as a dot.
    if (row.y !== null && !Number.isFinite(values[i - 1]) && !Number.isFinite(values[i + 1])) {
      rows.push({ ...row, x: row.x + 0.01 / scale });
    }
  };
  if (values.length <= SAMPLES_PER_COLUMN * columns) for (let i = 0; i < values.length; i++) add(i);
  else m4(values, (i) => Math.floor((xOf(i) - lo) * scale)).forEach(add);
}

/** Rows of the lines, in channel order, in the units of the axes. */
export function lineRows(figure: Figure, channels: readonly Float64Array[], times?: Float64Array): Row[] {
  const rows: Row[] = [];
  const columns = plotSize(figure).width;
  for (const [c, values] of channels.entries()) {
    addSamples(rows, figure, figure.channels[c]!, values, times, columns);
  }
  return rows;
}

/** Rows of the lines of a grid, or of a figure of rows, in channel order, in px from the upper left corner of the plot area. */
export function gridRows(figure: Figure, channels: readonly Float64Array[], times?: Float64Array): Row[] {
  const rows: Row[] = [];
  const [lo, hi] = xDomain(figure, channels[0]!.length, times);
  const places = panels(figure);
  const common = figure.rows === 'shared' ? yDomain(figure, channels) : undefined;
  channels.forEach((values, c) => {
    // A channel without a single sample leaves its panel empty.
    if (!values.some((value) => Number.isFinite(value))) return;
    const { x, y, width, height } = places[c]!;
    const [bottom, top] = common ?? yDomain(figure, [values]);
    // A gap, so that the lines of neighbours stay apart where one mark draws them all.
    rows.push({ x, y: null, channel: figure.channels[c]! });
    const from = rows.length;
    addSamples(rows, figure, figure.channels[c]!, values, times, width);
    for (let i = from; i < rows.length; i++) {
      const row = rows[i]!;
      row.x = x + ((row.x - lo) / (hi - lo)) * width;
      if (row.y !== null) row.y = y + ((top - row.y) / (top - bottom)) * height;
    }
  });
  return rows;
}
