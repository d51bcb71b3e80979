/** The grain of a series: independent or with memory, normal or with heavy tails, even or louder at times. */
import type { Random } from '../../../src/ground/random.ts';
import { standardNormal } from '../gaussian.ts';
import { chance, type Draft } from './draft.ts';

type Draw = (random: Random) => number;

const exponential: Draw = (random) => -Math.log(1 - random.uniform());
const laplace: Draw = (random) => (chance(random, 0.5) ? -1 : 1) * exponential(random) * Math.SQRT1_2;
/** Student's t with three degrees of freedom over its standard deviation: now and then a value far out is usual. */
const student: Draw = (random) => {
  let squares = 0;
  for (let i = 0; i < 3; i++) squares += standardNormal(random) ** 2;
  return standardNormal(random) / Math.sqrt(squares);
};
/** Exponential with mean 0: a sharp lower edge, a long upper tail. */
const skewed: Draw = (random) => exponential(random) - 1;

/** What the noise is made louder by. */
function loudness({ random, n, pattern, components }: Draft): (t: number) => number {
  components.add('heteroscedastic noise');
  let [low, high] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const value of pattern) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  const least = random.between(0.15, 0.5);
  if (high > low && chance(random, 0.7)) {
    const scale = (1.3 - least) / (high - low);
    return (t) => least + scale * (pattern[t]! - low);
  }
  const cycles = random.between(0.5, 3);
  const at = random.uniform();
  return (t) => least + (1.3 - least) * (0.5 + 0.5 * Math.sin(2 * Math.PI * (cycles * (t / n) + at)));
}

/** Adds noise of this standard deviation, about. */
export function addNoise(draft: Draft, std: number, { even = false, light = false } = {}): void {
  const { random, n, noise, deviation, components } = draft;
  const draw = light || chance(random, 0.7) ? standardNormal : random.pick([laplace, student, skewed]);
  if (draw !== standardNormal) components.add('heavy-tailed noise');
  const loud = even || !chance(random, 0.25) ? () => 1 : loudness(draft);
  const kind = random.uniform();
  const memory = kind < 0.4 ? random.between(0.2, 0.95) : kind < 0.5 ? -random.between(0.1, 0.5) : 0;
  // A second memory, of the sample before the last, lets the noise swing.
  const second = memory > 0.5 && chance(random, 0.3) ? -random.between(0.1, 0.5) : 0;
  components.add(memory !== 0 ? 'autoregressive noise' : 'white noise');
  const variance = (1 - second) / ((1 + second) * ((1 - second) ** 2 - memory ** 2));
  const scale = std / Math.sqrt(variance > 0 ? variance : 1);
  let [last, before] = [0, 0];
  for (let t = 0; t < n; t++) {
    const value = memory * last + second * before + scale * draw(random);
    before = last;
    last = value;
    const factor = loud(t);
    noise[t] = noise[t]! + factor * value;
    deviation[t] = factor * std;
  }
}
