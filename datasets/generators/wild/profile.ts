/** One cycle of a season as a curve over its phase in [0, 1): from 0 to 1, smooth, with the asymmetries that recordings have. */
import type { Random } from '../../../src/ground/random.ts';
import { chance } from './draft.ts';

/** A value for each phase in [0, 1). */
export type Profile = (phase: number) => number;

/** Places of a tabulated curve; a power of two, so that phases wrap by a mask. */
const PLACES = 128;
const TAU = 2 * Math.PI;

/** A periodic curve through a table of values, rescaled to [0, 1]. */
function tabulated(curve: Profile): Profile {
  const table = new Float64Array(PLACES);
  let low = Number.POSITIVE_INFINITY;
  let high = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < PLACES; i++) {
    const value = curve(i / PLACES);
    table[i] = value;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  const scale = high > low ? 1 / (high - low) : 0;
  for (let i = 0; i < PLACES; i++) table[i] = (table[i]! - low) * scale;
  return (phase) => {
    const place = (phase - Math.floor(phase)) * PLACES;
    const i = Math.floor(place);
    const left = table[i & (PLACES - 1)]!;
    return left + (table[(i + 1) & (PLACES - 1)]! - left) * (place - i);
  };
}

/** Distance of two phases around the cycle, in [0, 0.5]. */
const around = (a: number, b: number): number => {
  const distance = Math.abs(a - b) % 1;
  return distance > 0.5 ? 1 - distance : distance;
};

/** A sine with one to four overtones that fall off. */
function harmonics(random: Random): Profile {
  const terms = Array.from({ length: random.integer(1, 5) }, (_, k) => ({
    size: k === 0 ? 1 : random.normal() / (k + 1) ** 1.2,
    at: random.uniform(),
  }));
  return (phase) =>
    terms.reduce((sum, { size, at }, k) => sum + size * Math.sin(TAU * ((k + 1) * phase + at)), 0);
}

/** One to three peaks of their own widths over a quiet floor. */
function peaks(random: Random): Profile {
  const bumps = Array.from({ length: random.integer(1, 3) }, (_, k) => ({
    at: random.uniform(),
    width: random.between(0.03, 0.16),
    size: k === 0 ? 1 : random.between(0.25, 0.9),
  }));
  return (phase) =>
    bumps.reduce((sum, { at, width, size }) => sum + size * Math.exp(-((around(phase, at) / width) ** 2)), 0);
}

/** A plateau with slopes, and often a dent in it: office hours. */
function plateau(random: Random): Profile {
  const [from, to] = [random.between(0.2, 0.4), random.between(0.6, 0.9)];
  const [rise, fall] = [random.between(0.01, 0.12), random.between(0.01, 0.15)];
  const dent = chance(random, 0.5) ? random.between(0.1, 0.4) : 0;
  const noon = (from + to) / 2;
  const step = (x: number): number => 1 / (1 + Math.exp(-x));
  return (phase) =>
    step((phase - from) / (rise / 3)) *
    step((to - phase) / (fall / 3)) *
    (1 - dent * Math.exp(-(((phase - noon) / 0.05) ** 2)));
}

/** A curve that follows no formula: a smooth random one, its heights bent so that it is low, or high, most of the time. */
function wandering(random: Random): Profile {
  const terms = Array.from({ length: 7 }, (_, k) => ({
    size: random.normal() * Math.exp(-k / 3),
    at: random.uniform(),
  }));
  const bend = random.between(-1.2, 1.2);
  return (phase) => {
    const sum = terms.reduce(
      (all, { size, at }, k) => all + size * Math.sin(TAU * ((k + 1) * phase + at)),
      0,
    );
    return Math.exp(bend * sum) * Math.sign(bend);
  };
}

const KINDS = [harmonics, peaks, plateau, wandering] as const;

/** A cycle of any of the kinds. */
export const anyProfile = (random: Random): Profile => tabulated(random.pick(KINDS)(random));

/** A cycle of a working day. */
export const dayProfile = (random: Random): Profile =>
  tabulated(random.pick([plateau, plateau, peaks, wandering, harmonics] as const)(random));
