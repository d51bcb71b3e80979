/** Series of every shape that a picture has to show, the same in each run. */
import { Random } from '../../src/ground/random.ts';

const N = 1000;
const series = (length: number, value: (i: number) => number) =>
  Float64Array.from({ length }, (_, i) => value(i));
const sine = (i: number, period: number) => Math.sin((2 * Math.PI * i) / period);
const noise = (name: string) => {
  const random = new Random(7, name);
  return (std: number) => random.normal(0, std);
};
const [a, b, c] = [noise('a'), noise('b'), noise('c')];

/** Shapes of the nano5 preset and the corner cases beside them. */
export const SHAPES: Readonly<Record<string, Float64Array>> = {
  'noisy sine': series(N, (i) => sine(i, 47) + a(0.05)),
  'noise with a shifted range': series(N, (i) => b(0.1) + (i >= 300 && i < 360 ? 0.65 : 0)),
  'sine replaced by noise': series(N, (i) => (i >= 610 && i < 700 ? c(0.4) : sine(i, 62))),
  'sine at triple frequency': series(N, (i) => sine(i, i >= 200 && i < 320 ? 11 : 33)),
  'trend with a rise': series(
    N,
    (i) => sine(i, 33) + (2 * i) / N + 3 * Math.min(1, Math.max(0, (i - 700) / 80)),
  ),
  spikes: series(N, (i) => (i % 97 === 5 ? 4 : i % 211 === 7 ? -1.5 : 0)),
  constant: series(N, () => 3),
  'two points': Float64Array.of(1, 4),
  'one point': Float64Array.of(-2),
  'three points': Float64Array.of(1, 5, 2),
  'more samples than pixels': series(9000, (i) => sine(i, 1234) + 0.3 * sine(i, 7)),
  gaps: series(60, (i) => (i % 7 === 3 || (i > 40 && i < 50 && i !== 45) ? Number.NaN : sine(i, 31))),
  huge: series(N, (i) => 1e300 * sine(i, 57)),
  'tiny range': series(N, (i) => 1 + 1e-12 * sine(i, 57)),
};

/** Three channels of 128 samples, as from an accelerometer. */
export const CHANNELS: readonly Float64Array[] = [
  series(128, (i) => sine(i, 40)),
  series(128, (i) => 0.4 * sine(i, 17) - 0.3),
  series(128, (i) => i / 128),
];
