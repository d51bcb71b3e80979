/** The golden pictures: what is drawn in each. */
import type { FigureValues } from '../../src/plot/data.ts';
import { type Figure, figure } from '../../src/plot/figure.ts';
import { CHANNELS, SHAPES } from './shapes.ts';

interface GoldenPicture {
  readonly figure: Figure;
  readonly values: FigureValues;
  readonly times?: Float64Array;
}

const seconds = Float64Array.from(CHANNELS[0]!, (_, i) => Date.UTC(2024, 1, 28, 23, 59, 30) + 1000 * i);

export const GOLDEN: Readonly<Record<string, GoldenPicture>> = {
  nano: { figure: figure('nano'), values: SHAPES['sine replaced by noise']! },
  anomllm: { figure: figure('anomllm'), values: SHAPES['noise with a shifted range']! },
  ctu: { figure: figure('ctu'), values: SHAPES['spikes']!.subarray(0, 720) },
  channels: {
    figure: figure('line', {
      channels: ['x', 'y', 'z'],
      time: true,
      title: 'Acceleration',
      xLabel: 'Time (UTC)',
      yLabel: 'g',
    }),
    values: CHANNELS,
    times: seconds,
  },
  har: { figure: figure('har'), values: CHANNELS },
  'vta-grid': {
    figure: figure('vta-grid', { width: 420, height: 300, channels: ['0', '1', '2', '3', '4'] }),
    values: ['noisy sine', 'spikes', 'constant', 'trend with a rise', 'sine replaced by noise'].map(
      (name, k) =>
        SHAPES[name]!.map((value, i) => (k === 4 && i % 50 < 20 ? Number.NaN : value)).subarray(600, 800),
    ),
  },
  irregular: {
    figure: figure('vta', { step: null, missing: 'join' }),
    values: SHAPES['gaps']!,
    times: Float64Array.from({ length: 60 }, (_, i) => i ** 1.5),
  },
};
