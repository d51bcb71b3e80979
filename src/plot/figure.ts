/**
 * What a plot looks like, apart from its data: plain, serialisable values that key caches and travel to Workers.
 * Sizes are pixels of the whole picture.
 */
import { ConfigError } from '../errors.ts';

/** The bundled font, under a name that no system font has; see canvas.ts. */
export const FONT_FAMILY = 'Timeseer Sans';

/** matplotlib's default cycle, which the figures of the papers were drawn with. */
export const CHANNEL_COLORS = [
  '#1f77b4',
  '#ff7f0e',
  '#2ca02c',
  '#d62728',
  '#9467bd',
  '#8c564b',
  '#e377c2',
  '#7f7f7f',
  '#bcbd22',
  '#17becf',
] as const;

/** Space between the plot area and the edges of the picture. */
export interface Padding {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

export interface Figure {
  readonly name: string;
  readonly width: number; // px, integer
  readonly height: number; // px, integer
  readonly padding: Padding;
  /** One name per channel; a legend appears when there are several. */
  readonly channels: readonly string[];
  readonly colors: readonly string[]; // CSS hex colours, cycled over the channels
  readonly background: string;
  readonly lineWidth: number;
  /** Axes with ticks, frame and titles. Without them, and with one channel, the figure is a bare polyline. */
  readonly axes: boolean;
  readonly title: string;
  readonly xLabel: string;
  readonly yLabel: string;
  readonly titleSize: number; // font sizes in px
  readonly labelSize: number;
  readonly tickSize: number;
  /** Whether x holds UTC milliseconds instead of sample indices. */
  readonly time: boolean;
  /**
   * Share of the x extent left free on each side. `null`: sample i owns the cell [i, i + 1)·W/N of the plot area
   * and is drawn in its middle, so that W/k-pixel blocks hold exactly N/k samples.
   */
  readonly xMargin: number | null;
  /** Share of the y extent left free above and below, so that no line is cut. */
  readonly yMargin: number;
  /**
   * Values that the y axis shows as well; the data can widen it. Left out where it would squeeze the data into less
   * than a tenth of the axis: a series on quite another scale must not become a flat line.
   */
  readonly yInclude: readonly [lo: number, hi: number] | null;
}

const line: Figure = {
  name: 'line',
  width: 640,
  height: 240,
  padding: { left: 56, top: 26, right: 14, bottom: 44 },
  channels: ['value'],
  colors: CHANNEL_COLORS,
  background: '#ffffff',
  lineWidth: 1.5,
  axes: true,
  title: '',
  xLabel: 'Index',
  yLabel: 'Value',
  titleSize: 13,
  labelSize: 12,
  tickSize: 11,
  time: false,
  xMargin: 0.01,
  yMargin: 0.05,
  yInclude: null,
};

/**
 * Figures by name.
 *
 *  line     generic, for reports; several channels get a legend
 *  nano     560 × 28, a bare black polyline: 40 × 2 patches of 14 px, 20 visual tokens of N/20 samples each
 *  anomllm  AnomLLM's 10 × 1.5 in at 100 dpi, but with a y axis that widens instead of clipping at ±1
 *  ctu      TimeMaster's 6 × 2.5 in tight box (580 × 230), line width 2 pt, fonts 9 / 8 / 7 pt
 */
const PRESETS = {
  line,
  nano: {
    ...line,
    name: 'nano',
    width: 560,
    height: 28,
    padding: { left: 0, top: 0, right: 0, bottom: 0 },
    colors: ['#000000'],
    lineWidth: 1.5,
    axes: false,
    xMargin: null,
  },
  anomllm: {
    ...line,
    name: 'anomllm',
    width: 1000,
    height: 150,
    padding: { left: 58, top: 20, right: 15, bottom: 39 },
    colors: ['#4682b4'],
    lineWidth: 2.08,
    xLabel: '',
    yLabel: '',
    tickSize: 13.9,
    xMargin: 0.05,
    yInclude: [-1, 1],
  },
  ctu: {
    ...line,
    name: 'ctu',
    width: 580,
    height: 230,
    padding: { left: 54, top: 23, right: 5, bottom: 40 },
    lineWidth: 2.78,
    title: 'Complete Signal',
    xLabel: 'Timestamp',
    titleSize: 12.5,
    labelSize: 11.1,
    tickSize: 9.72,
    xMargin: 0.05,
  },
} as const satisfies Record<string, Figure>;

export type FigureName = keyof typeof PRESETS;
export const FIGURE_NAMES = Object.keys(PRESETS) as FigureName[];

/** Whether `name` is a preset; use it to narrow a flag or a recipe's string. */
export function isFigureName(name: string): name is FigureName {
  return Object.hasOwn(PRESETS, name);
}

/**
 * A preset, with the given properties replaced.
 * Throws ConfigError when the name is unknown or a size, margin or channel list makes no picture.
 */
export function figure(name: string, changes: Partial<Omit<Figure, 'name'>> = {}): Figure {
  if (!isFigureName(name)) {
    throw new ConfigError(
      `figure: unknown name ${JSON.stringify(name)}; use one of ${FIGURE_NAMES.join(', ')}`,
    );
  }
  const result: Figure = { ...PRESETS[name], ...changes };
  const { left, right, top, bottom } = result.padding;
  for (const [key, value] of [
    ['width', result.width],
    ['height', result.height],
  ] as const) {
    if (!Number.isInteger(value) || value < 1 || value > 8192) {
      throw new ConfigError(`figure.${key}: expected a whole number of pixels in 1 … 8192, got ${value}`);
    }
  }
  if (!(result.width - left - right >= 1 && result.height - top - bottom >= 1)) {
    throw new ConfigError(
      `figure.padding: leaves no room for the plot in ${result.width} × ${result.height} px; make it smaller`,
    );
  }
  if (!(result.lineWidth > 0 && result.lineWidth <= 64)) {
    throw new ConfigError(`figure.lineWidth: expected a width in (0, 64] px, got ${result.lineWidth}`);
  }
  if (!(result.yMargin >= 0 && result.yMargin <= 10) || !((result.xMargin ?? 0) >= 0)) {
    throw new ConfigError(
      `figure margins: expected shares ≥ 0, got x ${result.xMargin}, y ${result.yMargin}`,
    );
  }
  if (result.channels.length === 0 || new Set(result.channels).size !== result.channels.length) {
    throw new ConfigError('figure.channels: expected at least one name, each different');
  }
  if (result.colors.length === 0) throw new ConfigError('figure.colors: expected at least one colour');
  return result;
}

/** Whether the column rasteriser can draw the figure: one polyline, no axes, no text. */
export function isBare(figure: Figure): boolean {
  return !figure.axes && figure.title === '' && figure.channels.length === 1 && !figure.time;
}

/** Plot area in pixels. */
export function plotSize(figure: Figure): { readonly width: number; readonly height: number } {
  const { left, right, top, bottom } = figure.padding;
  return { width: figure.width - left - right, height: figure.height - top - bottom };
}
