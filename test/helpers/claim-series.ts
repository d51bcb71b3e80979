/** Series by formula that the golden sentences about claims are about. */
import type { Subject } from '../../src/claims/check.ts';

const series = (length: number, value: (i: number) => number): Float64Array =>
  Float64Array.from({ length }, (_, i) => value(i));

const turn = (i: number, period: number): number => Math.sin((2 * Math.PI * i) / period);

/** A sine of 24 samples around 1 whose swings are four times as large from 310 to 340, with one point far out. */
const wave = series(600, (i) => (i === 450 ? 14.5 : 1 + (i >= 310 && i < 340 ? 8 : 2) * turn(i, 24)));
/** A line. */
const ramp = series(500, (i) => -3 + 0.02 * i);
/** A sine of 50 samples around 5, of which 21 points are missing. */
const gaps = series(400, (i) => ((i >= 100 && i < 120) || i === 250 ? Number.NaN : 5 + 3 * turn(i, 50)));
const axes = [series(300, (i) => 0.5 + 0.3 * turn(i, 20)), series(300, (i) => -9.8 + 1.2 * turn(i, 60))];
/** Something like noise with three points far out. */
const spikes = series(400, (i) => ({ 50: 3, 200: -2.5, 333: 4.2 })[i] ?? 0.1 * Math.sin(0.7 * i * i));

export const CLAIM_SERIES: Readonly<Record<string, Subject>> = {
  wave: {
    channels: [wave],
    names: ['value'],
    intervals: [
      [310, 340],
      [450, 451],
    ],
  },
  ramp: { channels: [ramp], names: ['value'], intervals: [] },
  gaps: { channels: [gaps], names: ['value'] },
  axes: { channels: axes, names: ['acc_x', 'acc_y'] },
  spikes: {
    channels: [spikes],
    names: ['value'],
    intervals: [
      [50, 51],
      [200, 201],
      [333, 334],
    ],
  },
};
