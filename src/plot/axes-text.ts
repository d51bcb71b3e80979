/** What the axes of a figure count, in words that go into prompts: a text must not contradict the picture beside it. */
import type { Figure } from './figure.ts';

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
 * A clause about the x axis of a figure of `length` points, and about what else is not to be expected of a plot: rows, panels, a spectrogram.
 * `times` are the x values where the series brings its own.
 */
export function axesText(figure: Figure, length: number, times?: Float64Array): string {
  const { spectrogram, grid, rows, channels } = figure;
  if (spectrogram !== null) {
    const { rate, low, high } = spectrogram;
    return (
      `it is shown as a spectrogram: the x axis is the time in s, 0 to ${short(length / rate)}, the y axis the frequency, ` +
      `${low} to ${high} Hz on the mel scale, and the brighter the stronger`
    );
  }
  const x = xAxis(figure, length, times);
  if (grid) return `each channel has a small plot of its own, row by row from the upper left; ${x}`;
  if (rows !== null && channels.length > 1) return `each channel has a row of its own, from the top; ${x}`;
  return x;
}
