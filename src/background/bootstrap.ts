/**
 * Seasonal block bootstrap. A window is put together from blocks of the recording. Each block begins at the place in the season at which
 * the one before ends (Politis 2001), and is drawn from those that continue its last values best (matched blocks, Carlstein et al. 1998), so
 * that joins are no steps.
 */
import { DataError } from '../ground/errors.ts';
import { getOrMake } from '../ground/maps.ts';
import { Random } from '../ground/random.ts';
import type { Background, Model, Windows } from './background.ts';

/** Samples before a join that are compared, and number of best places of which one is drawn. */
const MATCHED = 6;
const BEST = 6;
/** Minimum number of places at the right phase; with fewer the longest season is left out. */
const FEWEST_PLACES = 4;
/** Samples of a block without a season, as a share of the window. */
const SHARE = 1 / 6;
const SHORTEST = 4;

/** Values of the recording that some window holds; NaN between. */
export function learnBootstrap({ windows, periods }: Windows): Model {
  const first = Math.min(...windows.map(({ start }) => start));
  const end = Math.max(...windows.map(({ start, values }) => start + values.length));
  const values = new Float64Array(end - first).fill(Number.NaN);
  for (const window of windows) values.set(window.values, window.start - first);
  const length = windows[0]!.values.length;
  const cycle = periods.find((period) => period <= length / 3);
  const block = Math.max(
    SHORTEST,
    Math.round(cycle === undefined ? length * SHARE : Math.max(cycle, length / 8)),
  );
  return { settings: { block }, arrays: { values: { shape: [values.length], values } } };
}

/** Places at which a block can begin: the samples before and behind it are there. */
function placesOf(values: Float64Array, block: number): Int32Array {
  const places: number[] = [];
  let present = 0;
  for (let t = 0; t < values.length; t++) {
    present = Number.isNaN(values[t]) ? 0 : present + 1;
    if (present >= block + MATCHED) places.push(t + 1 - block);
  }
  return Int32Array.from(places);
}

/** Distance of two samples within a season, in samples. */
function phaseDistance(a: number, b: number, period: number): number {
  const apart = Math.abs(a - b) % period;
  return Math.min(apart, period - apart);
}

/** Places at the phase of sample `at`, in as many seasons as leave enough of them. */
function alignedPlaces(places: Int32Array, at: number, periods: readonly number[]): Int32Array {
  for (let kept = periods.length; kept > 0; kept--) {
    const used = periods.slice(0, kept);
    const aligned = places.filter((place) => used.every((period) => phaseDistance(place, at, period) <= 0.5));
    if (aligned.length >= FEWEST_PLACES) return aligned;
  }
  return places;
}

function oneWindow(
  random: Random,
  values: Float64Array,
  places: Int32Array,
  block: number,
  background: Background,
) {
  const { length, periods } = background;
  const window = new Float64Array(length);
  const aligned = new Map<number, Int32Array>();
  let from = places[random.integer(0, places.length - 1)]!;
  for (let t = 0; t < length; ) {
    // The blocks of a window differ in length, so that joins have no rhythm.
    const size = random.integer(Math.ceil(block / 2), block);
    for (let k = 0; k < size && t < length; k++) window[t++] = values[from + k]!;
    if (t >= length) break;
    const at = from + size;
    const candidates = getOrMake(aligned, at, () => alignedPlaces(places, at, periods));
    from = matching(random, values, candidates, at);
  }
  return window;
}

/** Draws one of the places before which the values are most like those before `at`; `at` itself is none. */
function matching(random: Random, values: Float64Array, places: Int32Array, at: number): number {
  const best: { place: number; error: number }[] = [];
  for (const place of places) {
    if (place === at) continue;
    let error = 0;
    for (let k = 1; k <= MATCHED; k++) error += (values[place - k]! - values[at - k]!) ** 2;
    if (best.length === BEST && error >= best[BEST - 1]!.error) continue;
    best.push({ place, error });
    best.sort((a, b) => a.error - b.error);
    best.length = Math.min(best.length, BEST);
  }
  return best.length === 0 ? at : random.pick(best).place;
}

export function sampleBootstrap(background: Background, n: number, seed: number): Float64Array[] {
  const { values } = background.arrays['values']!;
  const block = background.settings['block']!;
  const places = placesOf(values, block);
  if (places.length === 0)
    throw new DataError(`${background.source}: no stretch of ${block + MATCHED} samples`);
  return Array.from({ length: n }, (_, i) =>
    oneWindow(new Random(seed, 'bootstrap', i), values, places, block, background),
  );
}
