/** The table that a compiled figure draws. */
import { DataError } from '../errors.ts';
import { xDomain, yDomain } from './domain.ts';
import { m4 } from './downsample.ts';
import { type Figure, needsTimes, plotSize } from './figure.ts';
import { panels } from './panels.ts';

/** Above this many samples per pixel column, downsampling pays. */
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

/** Indices of the finite values. */
function present(values: Float64Array): Int32Array {
  const indices = new Int32Array(values.length);
  let count = 0;
  for (let i = 0; i < values.length; i++) if (Number.isFinite(values[i])) indices[count++] = i;
  return indices.subarray(0, count);
}

/** Adds the samples of one channel that show in `columns` pixel columns. */
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
