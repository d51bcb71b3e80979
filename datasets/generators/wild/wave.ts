/** Machine-made cycles: square, sawtooth and triangle waves, sines, steps, heartbeats, and trains of pulses. */
import type { Random } from '../../../src/ground/random.ts';
import { chance, type Draft } from './draft.ts';
import type { Profile } from './profile.ts';

const bump = (x: number, at: number, width: number): number => Math.exp(-(((x - at) / width) ** 2));

/** Waves by name, each from 0 to 1, with random proportions. */
const WAVES: Readonly<Record<string, (random: Random) => Profile>> = {
  square(random) {
    const duty = random.between(0.15, 0.85);
    return (x) => (x < duty ? 1 : 0);
  },
  sawtooth(random) {
    const rise = chance(random, 0.5) ? random.between(0.75, 0.98) : random.between(0.02, 0.25);
    return (x) => (x < rise ? x / rise : (1 - x) / (1 - rise));
  },
  triangle: () => (x) => 1 - Math.abs(2 * x - 1),
  sine: () => (x) => 0.5 + 0.5 * Math.sin(2 * Math.PI * x),
  steps(random) {
    const heights = Array.from({ length: random.integer(3, 6) }, () => random.uniform());
    return (x) => heights[Math.floor(x * heights.length)]!;
  },
  charge(random) {
    const [duty, speed] = [random.between(0.3, 0.7), random.between(3, 8)];
    return (x) =>
      x < duty
        ? 1 - Math.exp((-speed * x) / duty)
        : (1 - Math.exp(-speed)) * Math.exp((-speed * (x - duty)) / (1 - duty));
  },
  heartbeat(random) {
    const width = random.between(0.012, 0.03);
    return (x) =>
      0.3 +
      0.12 * bump(x, 0.2, 0.035) +
      0.7 * bump(x, 0.38, width) -
      0.25 * bump(x, 0.38 + 2.2 * width, width) +
      0.22 * bump(x, 0.65, 0.05);
  },
};

const WAVE_KINDS = Object.values(WAVES);

/** A wave of any kind. */
export const anyWave = (random: Random): Profile => random.pick(WAVE_KINDS)(random);

/** Adds pulses of one height to the pattern, one a period, that end at once or die away. */
export function addPulses(draft: Draft, period: number, height: number): void {
  const { random, n, pattern } = draft;
  const width = Math.max(1, Math.round(period * random.between(0.01, 0.12)));
  const fades = chance(random, 0.5);
  const phase = random.uniform();
  for (let t = 0; t < n; t++) {
    const since = Math.floor((t / period + phase - Math.floor(t / period + phase)) * period);
    if (fades ? since < 5 * width : since < width) {
      pattern[t] = pattern[t]! + height * (fades ? Math.exp(-since / width) : 1);
    }
  }
  draft.periods.add(period);
  draft.components.add('pulses');
}
