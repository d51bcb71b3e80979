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

/** Means of a series over `columns` columns; NaN where all samples are missing. Shorter series repeat samples. */
export function columnsOf(values: Float64Array, columns: number): Float64Array {
  const { length } = values;
  const out = new Float64Array(columns);
  for (let k = 0; k < columns; k++) {
    const from = Math.floor((k * length) / columns);
    const to = Math.max(from + 1, Math.floor(((k + 1) * length) / columns));
    let [sum, known] = [0, 0];
    for (let t = from; t < to; t++) {
      if (Number.isNaN(values[t]!)) continue;
      sum += values[t]!;
      known++;
    }
    out[k] = known === 0 ? Number.NaN : sum / known;
  }
  return out;
}

/**
 * Lines of a figure with an overlay for a series [N]: its values; deviation of each sample from its
 * neighbours (inverse hyperbolic sine of standard deviations); distance of the stretch around it to all
 * others (powers of two of the usual distance). The last two are scaled to [−1, 1] and interpolate missing
 * values. More samples than `columns` are reduced to as many: means, the largest deviation of a sample in each column, and the
 * distance of the stretch of means.
 */
export function unusualLines(values: Float64Array, columns = Infinity): readonly Float64Array[] {
  const n = values.length;
  const means = n > columns ? columnsOf(values, columns) : values;
  const blank = (): Float64Array => new Float64Array(means.length);
  if (n < 8 || !values.some((value) => Number.isFinite(value))) return [means, blank(), blank()];
  const finite = (line: Float64Array): Float64Array =>
    bridge(line.map((value) => (Number.isFinite(value) ? value : Number.NaN))).values;
  const clipped = (value: number): number => Math.min(1, Math.max(-1, value));
  const most = Math.asinh(FURTHEST / NEAR);
  const centre = (UNLIKEST + LIKEST) / 2;
  const unlike = neighbourDistances(finite(means), Math.min(STRETCH, means.length >> 2)).map((ratio) =>
    clipped((Math.log2(Math.max(ratio, 1e-9)) - centre) / (UNLIKEST - centre)),
  );
  const samples = localDeviations(finite(values)).map((z) => clipped(Math.asinh(z / NEAR) / most));
  if (n === means.length) return [means, samples, unlike];
  const deviation = blank();
  for (let k = 0; k < columns; k++) {
    const to = Math.floor(((k + 1) * n) / columns);
    for (let t = Math.floor((k * n) / columns); t < to; t++) {
      if (Math.abs(samples[t]!) > Math.abs(deviation[k]!)) deviation[k] = samples[t]!;
    }
  }
  return [means, deviation, unlike];
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
