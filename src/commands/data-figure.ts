/** What an example is drawn as: the figure of its task, with the example's own channels and x axis. */

import type { FigureValues } from '../plot/domain.ts';
import type { Figure } from '../plot/figure.ts';
import { figure } from '../plot/figure.ts';
import { spectrogram } from '../series/power.ts';
import type { Example } from '../types.ts';

/** What a manifest says of figures. */
export interface FigureChoice {
  readonly preset: string;
  readonly missing: 'break' | 'join';
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

/** Powers of a short-time Fourier transform by frequency, then time: [F][T]. */
function powers(
  values: Float64Array,
  { rate, window, hop }: NonNullable<Figure['spectrogram']>,
): Float64Array[] {
  const filled = values.map((value) => (Number.isNaN(value) ? 0 : value));
  const { power } = spectrogram(filled, { rate, segment: window, overlap: window - hop, window: 'hann' });
  return Array.from({ length: window / 2 + 1 }, (_, f) => Float64Array.from(power, (frame) => frame[f]!));
}

/**
 * The drawing of an example. A classified series with x values of its own stands over them; where intervals are asked for,
 * x counts samples, because answers do.
 *
 * @throws ConfigError for an unknown preset, or more channels than a picture can show
 */
export function drawingOf(example: Example, choice: FigureChoice): Drawing {
  const { channels, names, times, gold } = example;
  const { missing } = choice;
  const plain = figure(choice.preset);
  if (plain.spectrogram !== null) {
    return { figure: plain, values: powers(channels[0]!, plain.spectrogram) };
  }
  if (plain.grid) return { figure: figure(choice.preset, { channels: names, missing }), values: channels };
  const many = channels.length > MOST_LINES;
  const named = channels.length > 1 ? { channels: names } : {};
  const legend = channels.length > 1 ? ({ legend: 'above' } as const) : {};
  if (many) return { figure: figure('vta-grid', { channels: names, missing }), values: channels };
  if (times !== null && gold.kind === 'classification' && plain.name === 'line') {
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
