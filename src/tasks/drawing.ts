/** Figure of an example: its task's figure with the example's own channels and x axis. */

import { ConfigError } from '../ground/errors.ts';
import type { Example, Gold, Picture } from '../ground/types.ts';
import type { FigureValues } from '../plot/data.ts';
import { type Figure, figure, isBare, unknownFigure } from '../plot/figure.ts';
import { isFigureName } from '../plot/presets.ts';
import { render, renderColumns, shade } from '../plot/raster.ts';
import { localDeviations, neighbourDistances } from '../series/deviation.ts';
import { bridge } from '../series/missing.ts';
import { taskKind } from './kinds.ts';

/** Figure settings of a manifest. */
export interface FigureChoice {
  readonly preset: string;
  readonly missing: 'break' | 'join';
}

/** Parts of an example that are drawn; the answer may be unknown. */
export interface Drawable extends Pick<Example, 'id' | 'channels' | 'names' | 'times'> {
  readonly gold: Gold | null;
}

export interface Drawing {
  readonly figure: Figure;
  readonly values: FigureValues;
  readonly times?: Float64Array;
}

/** More channels than these on one pair of axes cannot be told apart; they get a panel each. */
const MOST_LINES = 6;
/** Seconds since 1970 that a plain count of seconds hardly reaches: March 1973. */
const DATES_FROM = 1e8;

/** Samples of the stretches that are held against each other; at most a quarter of the series. */
const STRETCH = 24;
/** Deviations of so many standard deviations reach the edge of their axis, and half of them lie below this many. */
const FURTHEST = 60;
const NEAR = 2;
/** Ratios of distances at the edges of their axis, as powers of two. */
const LIKEST = -2;
const UNLIKEST = 3;

/**
 * Lines of a figure with an overlay for a series [N]: its values; deviation of each sample from its
 * neighbours (inverse hyperbolic sine of standard deviations); distance of the stretch around it to all
 * others (powers of two of the usual distance). The last two are scaled to [−1, 1] and interpolate missing
 * values. More than 1.5 samples per column of `columns` are reduced: of each column the least and the largest value in
 * their order, the largest deviation, and the distance of the stretch of column means.
 */
export function unusualLines(values: Float64Array, columns = Infinity): readonly Float64Array[] {
  const n = values.length;
  const seen = values.some((value) => Number.isFinite(value));
  if (n < 8 || !seen) return [values, new Float64Array(n), new Float64Array(n)];
  const whole = bridge(values.map((value) => (Number.isFinite(value) ? value : Number.NaN))).values;
  const clipped = (value: number): number => Math.min(1, Math.max(-1, value));
  const most = Math.asinh(FURTHEST / NEAR);
  const centre = (UNLIKEST + LIKEST) / 2;
  const unlike = (line: Float64Array): Float64Array =>
    neighbourDistances(line, Math.min(STRETCH, line.length >> 2)).map((ratio) =>
      clipped((Math.log2(Math.max(ratio, 1e-9)) - centre) / (UNLIKEST - centre)),
    );
  const deviation = localDeviations(whole).map((z) => clipped(Math.asinh(z / NEAR) / most));
  if (n <= 1.5 * columns) return [values, deviation, unlike(whole)];
  const lines = [0, 1, 2].map(() => new Float64Array(2 * columns)) as [
    Float64Array,
    Float64Array,
    Float64Array,
  ];
  const means = new Float64Array(columns);
  for (let k = 0; k < columns; k++) {
    const [from, to] = [Math.floor((k * n) / columns), Math.floor(((k + 1) * n) / columns)];
    let [least, largest, furthest, sum] = [-1, -1, from, 0];
    for (let t = from; t < to; t++) {
      sum += whole[t]!;
      if (Math.abs(deviation[t]!) > Math.abs(deviation[furthest]!)) furthest = t;
      if (!Number.isFinite(values[t]!)) continue;
      if (least < 0 || values[t]! < values[least]!) least = t;
      if (largest < 0 || values[t]! > values[largest]!) largest = t;
    }
    means[k] = sum / (to - from);
    lines[0][2 * k] = least < 0 ? Number.NaN : values[Math.min(least, largest)]!;
    lines[0][2 * k + 1] = least < 0 ? Number.NaN : values[Math.max(least, largest)]!;
    lines[1].fill(deviation[furthest]!, 2 * k, 2 * k + 2);
  }
  for (const [k, value] of unlike(means).entries()) lines[2].fill(value, 2 * k, 2 * k + 2);
  return lines;
}

/** Lines of one channel in a figure without axes: its values and, if any, the overlay. */
export const linesOf = (shape: Figure, values: Float64Array): FigureValues =>
  shape.overlay === null ? values : unusualLines(values);

/** Draws a univariate series: by columns where the figure allows it, with vega otherwise. */
export function pictureOf(shape: Figure, values: Float64Array): Picture | Promise<Picture> {
  const lines = linesOf(shape, values);
  return isBare(shape) ? renderColumns(shape, lines) : render(shape, lines);
}

/** Problem with the name of a preset; null where there is one of that name. */
export const figureProblem = (preset: string): string | null =>
  isFigureName(preset) ? null : unknownFigure(preset);

/** @throws ConfigError for a name that no preset has */
export function checkFigure(preset: string): void {
  const problem = figureProblem(preset);
  if (problem !== null) throw new ConfigError(`figure: ${problem}`);
}

/**
 * Draws an example. x is the time of a series with its own x values, if it is classified or has no answer;
 * intervals count samples. @throws ConfigError for an unknown preset, or more channels than a picture can
 * show
 */
export function drawingOf(example: Drawable, choice: FigureChoice): Drawing {
  const { channels, names, times, gold } = example;
  const { missing } = choice;
  const plain = figure(choice.preset);
  if (plain.overlay !== null) {
    const shape = channels.length === 1 ? plain : figure(choice.preset, { channels: names });
    return { figure: shape, values: channels.flatMap((values) => unusualLines(values)) };
  }
  if (plain.grid || plain.rows !== null) {
    return { figure: figure(choice.preset, { channels: names, missing }), values: channels };
  }
  const several = channels.length > 1;
  if (channels.length > MOST_LINES) {
    return { figure: figure('vta-grid', { channels: names, missing }), values: channels };
  }
  const named = several || plain.channels.length > 1 ? { channels: names } : {};
  const legend = several ? ({ legend: 'above' } as const) : {};
  const over = gold === null || !taskKind(gold.kind).countsPoints;
  if (times !== null && over && plain.name === 'line') {
    const dates = times[0]! >= DATES_FROM;
    const x = dates ? { time: true, xLabel: '' } : { step: null, xLabel: 'Time' };
    return {
      figure: figure(choice.preset, { ...named, ...legend, ...x, missing }),
      values: channels,
      times: dates ? times.map((second) => second * 1000) : times,
    };
  }
  return { figure: figure(choice.preset, { ...named, ...legend, missing }), values: channels };
}

/** The picture with the truth in green; null where there is nothing to mark, or no place to mark it. */
export function markTruth({ figure, times }: Drawing, picture: Picture, example: Drawable): Picture | null {
  const { gold, channels } = example;
  if (gold === null) return null;
  const length = channels[0]!.length;
  const marks = taskKind(gold.kind).marks(gold, length);
  if (marks === null || (marks.channels !== undefined && !figure.grid)) return null;
  const { intervals, channels: marked } = marks;
  return shade(figure, picture, intervals, length, {
    ...(times === undefined ? {} : { times }),
    ...(marked === undefined ? {} : { channels: marked }),
  });
}
