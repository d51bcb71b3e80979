/** The presets in a few words each, for help. */
import { FIGURE_NAMES, type FigureName } from './figure.ts';

const WORDS: Readonly<Record<FigureName, string>> = {
  line: 'any series, with axes',
  nano: 'small and bare, one channel',
  'nano-tall': 'the same, twice as tall',
  'nano-channels': 'a bare row per channel',
  'nano-har': 'the same for acceleration in g',
  'nano-variates': 'bare rows, each on its own scale',
  anomllm: 'blue, 1000 × 150',
  ctu: 'one day of power, 580 × 230',
  tee: 'power density over µs',
  ecg: 'mV at 300 Hz',
  emg: 'mV at 4 kHz',
  har: 'three axes in g at 50 Hz',
  rcw: 'hydrophone at 2 kHz',
  'rcw-spectrogram': 'the same as a mel spectrogram',
  vta: 'blue, 1000 × 150, tight y axis',
  'vta-grid': 'a small plot per variate',
};

/** `line (any series, with axes), nano (small and bare, one channel), …` */
export const FIGURE_HELP = FIGURE_NAMES.map((name) => `${name} (${WORDS[name]})`).join(', ');
