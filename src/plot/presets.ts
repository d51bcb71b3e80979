/** Figure presets: those of the papers' plots, and ours. Sizes are px; points are those of 100 dots per inch. */
import type { Figure } from './figure.ts';

/** Default colour cycle of matplotlib, as in the papers' figures. */
const CHANNEL_COLORS = [
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

const STEEL_BLUE = '#4682b4';

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
  step: 1,
  missing: 'break',
  legend: 'inside',
  grid: false,
  rows: null,
  overlay: null,
  xMargin: 0.01,
  yMargin: 0.05,
  yInclude: null,
};

/** Signals over seconds, at a size that Qwen2.5-VL takes without resizing: whole 28 px blocks, one token each. */
const signal: Figure = {
  ...line,
  width: 840,
  height: 252,
  padding: { left: 62, top: 10, right: 14, bottom: 44 },
  lineWidth: 1.3,
  xLabel: 'Time (s)',
};

/** 10 × 1.5 in at 100 dpi, as in VisualTimeAnomaly and AnomLLM. */
const wide: Figure = {
  ...line,
  width: 1000,
  height: 150,
  padding: { left: 45, top: 15, right: 15, bottom: 39 },
  colors: [STEEL_BLUE],
  lineWidth: 2.08,
  xLabel: '',
  yLabel: '',
  tickSize: 13.9,
  xMargin: 0.05,
};

/** Small and bare: whole 28 px blocks, one visual token each; line only. */
const nano: Figure = {
  ...line,
  width: 560,
  height: 28,
  padding: { left: 0, top: 0, right: 0, bottom: 0 },
  colors: ['#000000'],
  axes: false,
  xMargin: null,
};

interface FigureRecord {
  readonly summary: string;
  readonly figure: Figure;
}

/** Figures by name; add a record to add a figure. */
export const FIGURES = {
  line: { summary: 'any series, with axes', figure: line },
  // 40 × 2 patches of 14 px: 20 visual tokens of N/20 samples each.
  nano: { summary: 'small and bare, one channel', figure: nano },
  // 20 × 2 tokens, for series whose levels matter.
  'nano-tall': {
    summary: 'nano, twice as tall',
    figure: { ...nano, height: 56 },
  },
  // 28 px per channel over one y axis, which keeps what lies along which axis: 20 × C tokens at 560 px.
  'nano-channels': {
    summary: 'a bare row per channel',
    figure: { ...nano, height: 84, channels: ['x', 'y', 'z'], rows: 'shared' },
  },
  // Over at least −1 … 2, so that a push looks as strong as it is; 30 tokens. A linear rule over simple
  // statistics of the picture's cells names 89 % of 950 test windows of HAR, 81 % where the axis fits each
  // series, 72 % where it fits each row.
  'nano-har': {
    summary: 'nano-channels for acceleration in g',
    figure: {
      ...nano,
      width: 280,
      height: 84,
      channels: ['x', 'y', 'z'],
      rows: 'shared',
      yInclude: [-1, 2],
    },
  },
  // A y axis for each row: shapes, whatever their level and size; 10 × C tokens.
  'nano-variates': {
    summary: 'bare rows, each on its own scale',
    figure: {
      ...nano,
      width: 280,
      height: 252,
      channels: ['0', '1', '2', '3', '4', '5', '6', '7', '8'],
      rows: 'own',
    },
  },
  // Green: values; red: departure of each sample from its neighbours; blue: how unlike all others the
  // stretch around it is. Both on axes that are the same for every series. Up to 560 samples have a column
  // of pixels of their own. Each channel takes 20 tokens.
  'nano-analysis': {
    summary: 'values, and what is unusual in them, in three colours',
    figure: {
      ...nano,
      colors: ['#00ff00', '#ff0000', '#0000ff'],
      background: '#000000',
      overlay: [null, [-1, 1], [-1, 1]],
    },
  },
  // AnomLLM's 10 × 1.5 in at 100 dpi, but with a y axis that widens instead of clipping at ±1.
  anomllm: {
    summary: 'blue, 1000 × 150',
    figure: {
      ...wide,
      padding: { left: 58, top: 20, right: 15, bottom: 39 },
      yInclude: [-1, 1],
    },
  },
  // TimeMaster's 6 × 2.5 in tight box, line width 2 pt, fonts 9 / 8 / 7 pt.
  ctu: {
    summary: 'one day of power, 580 × 230',
    figure: {
      ...line,
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
  },
  // 21 × 8 tokens; 319 samples.
  tee: {
    summary: 'power density over µs',
    figure: {
      ...signal,
      width: 588,
      height: 224,
      lineWidth: 1.8,
      step: 800 / 319,
      xLabel: 'Time (µs)',
      yLabel: 'Power density',
    },
  },
  // 30 × 9 tokens.
  ecg: {
    summary: 'mV at 300 Hz',
    figure: { ...signal, step: 1 / 300, yLabel: 'Amplitude (mV)' },
  },
  // 30 × 9 tokens.
  emg: {
    summary: 'mV at 4 kHz',
    figure: { ...signal, step: 1 / 4000, yLabel: 'Amplitude (mV)' },
  },
  // 21 × 9 tokens.
  har: {
    summary: 'three axes in g at 50 Hz',
    figure: {
      ...signal,
      width: 588,
      padding: { left: 62, top: 28, right: 14, bottom: 44 },
      channels: ['x', 'y', 'z'],
      lineWidth: 1.8,
      step: 1 / 50,
      yLabel: 'Acceleration (g)',
      legend: 'above',
    },
  },
  // 30 × 9 tokens.
  rcw: {
    summary: 'hydrophone at 2 kHz',
    figure: { ...signal, lineWidth: 1, step: 1 / 2000, yLabel: 'Amplitude' },
  },
  // VisualTimeAnomaly's univariate 10 × 1.5 in at 100 dpi.
  vta: {
    summary: 'blue, 1000 × 150, tight y axis',
    figure: wide,
  },
  // VisualTimeAnomaly's 10 × 10 in grid of variates without ticks; ids above the panels are ours.
  'vta-grid': {
    summary: 'a small plot per variate',
    figure: {
      ...line,
      width: 1000,
      height: 1000,
      padding: { left: 20, top: 15, right: 15, bottom: 20 },
      channels: ['0', '1', '2', '3', '4', '5', '6', '7', '8'],
      colors: [STEEL_BLUE],
      lineWidth: 2.08,
      labelSize: 14,
      xMargin: 0.05,
      grid: true,
    },
  },
} as const satisfies Readonly<Record<string, FigureRecord>>;

type FigureName = keyof typeof FIGURES;
export const FIGURE_NAMES = Object.keys(FIGURES) as FigureName[];

export const PRESETS = Object.fromEntries(
  FIGURE_NAMES.map((name) => [name, { ...FIGURES[name].figure, name }]),
) as Readonly<Record<FigureName, Figure>>;

export function isFigureName(name: string): name is FigureName {
  return Object.hasOwn(FIGURES, name);
}

/** `line (any series, with axes), nano (small and bare, one channel), …` */
export const FIGURE_HELP = FIGURE_NAMES.map((name) => `${name} (${FIGURES[name].summary})`).join(', ');
