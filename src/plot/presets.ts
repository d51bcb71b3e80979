/** Figures by name: what the papers' plots look like, and ours. Sizes are px; points are those of 100 dots per inch. */
import type { Figure } from './figure.ts';

/** matplotlib's default cycle, which the figures of the papers were drawn with. */
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

/** Small and bare: whole 28 px blocks, one visual token each; line only. */
const nano: Figure = {
  ...line,
  name: 'nano',
  width: 560,
  height: 28,
  padding: { left: 0, top: 0, right: 0, bottom: 0 },
  colors: ['#000000'],
  axes: false,
  xMargin: null,
};

/**
 *  line             generic, for reports; several channels get a legend
 *  nano             560 × 28, a bare black polyline: 40 × 2 patches of 14 px, 20 visual tokens of N/20 samples each
 *  nano-tall        the same at 560 × 56, for series whose levels matter; 20 × 2 tokens
 *  nano-channels    a bare row of 28 px per channel over one y axis, which keeps what lies along which axis; 20 × C tokens at
 *                   560 px, 10 × C at 280 px, which is enough for about 150 samples
 *  nano-har         the same at 280 px for acceleration in g, over at least −1 … 2, so that a push looks as strong as it is;
 *                   30 tokens (a linear rule over simple statistics of the picture's cells names 89 % of 950 test windows of HAR, 81 % where
 *                   the axis fits each series, 72 % where it fits each row)
 *  nano-variates    as nano-channels, with a y axis for each row, at 280 px: shapes, whatever their level and size; 10 × C tokens
 *  nano-analysis    as nano, the values in green on black, and over them in red how far each sample departs from its neighbours and in blue how unlike
 *                   all others the stretch around it is, both on axes that are the same for every series; 20 tokens. Up to 560 samples have a column
 *                   of pixels of their own
 *  anomllm          AnomLLM's 10 × 1.5 in at 100 dpi, but with a y axis that widens instead of clipping at ±1
 *  ctu              TimeMaster's 6 × 2.5 in tight box (580 × 230), line width 2 pt, fonts 9 / 8 / 7 pt
 *  tee              power density over 800 µs, 319 samples; 21 × 8 tokens
 *  ecg, emg         millivolts over seconds, sampled at 300 Hz and 4 kHz; 30 × 9 tokens
 *  har              three axes of acceleration over seconds at 50 Hz, on one pair of axes with a legend; 21 × 9 tokens
 *  rcw              a hydrophone's signal over seconds at 2 kHz; 30 × 9 tokens
 *  vta              VisualTimeAnomaly's univariate 10 × 1.5 in at 100 dpi
 *  vta-grid         VisualTimeAnomaly's 10 × 10 in grid of variates without ticks; ids above the panels are ours
 */
export const PRESETS = {
  line,
  nano,
  'nano-tall': { ...nano, name: 'nano-tall', height: 56 },
  'nano-channels': { ...nano, name: 'nano-channels', height: 84, channels: ['x', 'y', 'z'], rows: 'shared' },
  'nano-har': {
    ...nano,
    name: 'nano-har',
    width: 280,
    height: 84,
    channels: ['x', 'y', 'z'],
    rows: 'shared',
    yInclude: [-1, 2],
  },
  'nano-variates': {
    ...nano,
    name: 'nano-variates',
    width: 280,
    height: 252,
    channels: ['0', '1', '2', '3', '4', '5', '6', '7', '8'],
    rows: 'own',
  },
  'nano-analysis': {
    ...nano,
    name: 'nano-analysis',
    channels: ['value', 'deviation', 'unlikeness'],
    colors: ['#00ff00', '#ff0000', '#0000ff'],
    background: '#000000',
    overlay: [null, [-1, 1], [-1, 1]],
  },
  anomllm: {
    ...line,
    name: 'anomllm',
    width: 1000,
    height: 150,
    padding: { left: 58, top: 20, right: 15, bottom: 39 },
    colors: [STEEL_BLUE],
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
  tee: {
    ...signal,
    name: 'tee',
    width: 588,
    height: 224,
    lineWidth: 1.8,
    step: 800 / 319,
    xLabel: 'Time (µs)',
    yLabel: 'Power density',
  },
  ecg: { ...signal, name: 'ecg', step: 1 / 300, yLabel: 'Amplitude (mV)' },
  emg: { ...signal, name: 'emg', step: 1 / 4000, yLabel: 'Amplitude (mV)' },
  har: {
    ...signal,
    name: 'har',
    width: 588,
    padding: { left: 62, top: 28, right: 14, bottom: 44 },
    channels: ['x', 'y', 'z'],
    lineWidth: 1.8,
    step: 1 / 50,
    yLabel: 'Acceleration (g)',
    legend: 'above',
  },
  rcw: { ...signal, name: 'rcw', lineWidth: 1, step: 1 / 2000, yLabel: 'Amplitude' },
  vta: {
    ...line,
    name: 'vta',
    width: 1000,
    height: 150,
    padding: { left: 45, top: 15, right: 15, bottom: 39 },
    colors: [STEEL_BLUE],
    lineWidth: 2.08,
    xLabel: '',
    yLabel: '',
    tickSize: 13.9,
    xMargin: 0.05,
  },
  'vta-grid': {
    ...line,
    name: 'vta-grid',
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
} as const satisfies Record<string, Figure>;

export type FigureName = keyof typeof PRESETS;
export const FIGURE_NAMES = Object.keys(PRESETS) as FigureName[];

/** Whether `name` is a preset; use it to narrow a flag or a recipe's string. */
export function isFigureName(name: string): name is FigureName {
  return Object.hasOwn(PRESETS, name);
}

/** The presets in a few words each, for help. */
const WORDS: Readonly<Record<FigureName, string>> = {
  line: 'any series, with axes',
  nano: 'small and bare, one channel',
  'nano-tall': 'the same, twice as tall',
  'nano-channels': 'a bare row per channel',
  'nano-har': 'the same for acceleration in g',
  'nano-variates': 'bare rows, each on its own scale',
  'nano-analysis': 'values, and what is unusual in them, in three colours',
  anomllm: 'blue, 1000 × 150',
  ctu: 'one day of power, 580 × 230',
  tee: 'power density over µs',
  ecg: 'mV at 300 Hz',
  emg: 'mV at 4 kHz',
  har: 'three axes in g at 50 Hz',
  rcw: 'hydrophone at 2 kHz',
  vta: 'blue, 1000 × 150, tight y axis',
  'vta-grid': 'a small plot per variate',
};

/** `line (any series, with axes), nano (small and bare, one channel), …` */
export const FIGURE_HELP = FIGURE_NAMES.map((name) => `${name} (${WORDS[name]})`).join(', ');
