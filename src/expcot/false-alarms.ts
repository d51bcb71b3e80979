/**
 * Explanations of flagged stretches other than an anomaly.
 *
 * - The tail of the series' own distribution (`tailTest`): values of heavy-tailed noise lie beyond five standard deviations as a matter of
 *   course. Peaks over a threshold with exponential excesses, as in SPOT (Siffer et al. 2017, "Anomaly detection in streams with
 *   extreme value theory", with shape 0); fitted to the body of the tail, so that the outliers do not raise their own limit.
 * - Recurrence (`recurrence`): departures that come again and again at equal distances are the pattern of a series, such as the edges of
 *   a working day, or a job that runs every night.
 * - Chance (`chanceOf`), for discords of slow or irregular curves and of cycles with quiet parts, whose windows need not hold a wave. A
 *   window of less than half a period holds an arc of the wave. Scaled to its own small spread, noise grows with the arc, two turning
 *   points differ by where the samples fall on them, and the few arcs of a curve that hardly repeats are like no others. Discords of
 *   waves that a window holds half a period of and more need none of this.
 */

import type { Interval } from '../ground/types.ts';
import { OUTLIER_GAP } from '../series/analyses.ts';
import { runs } from '../series/intervals.ts';
import { savgolWeights } from '../series/savgol.ts';
import { moments, quantileInPlace } from '../series/stats.ts';
import { type Base, type LocalEvidence, type Noise, WHITE_FROM } from './shape.ts';

/** Excesses are taken from the first of these quantiles on, and cut off at the second: one sample in a hundred may be an outlier. */
const BODY = [0.95, 0.99] as const;
/** Below this many samples too few excesses tell what the tail is like. */
const FEWEST_SAMPLES = 200;
/** Samples beyond the limit that the tail is expected to give in a series by chance. */
const EXPECTED_BY_CHANCE = 0.05;
/** Runs outside of the band this short are single outliers. */
const SHORT_RUN = 2;
/** Expected number of stretches as dense with outliers, were they strewn at random, below which a stretch is no chance. */
const DENSE_BY_CHANCE = 0.01;

export interface TailTest {
  /** Distance from the centre that the tail does not reach by chance; 0 where there are too few samples to say. */
  readonly limit: number;
  /** The stretches that are more than the tail: dense with outliers, or with a sample beyond the limit. */
  readonly beyond: readonly Interval[];
}

/**
 * Tests stretches of outliers of [N].
 * @param band values outside of it are outliers
 */
export function tailTest(
  values: Float64Array,
  { mean, lower, upper }: { readonly mean: number; readonly lower: number; readonly upper: number },
  stretches: readonly Interval[],
): TailTest {
  const n = values.length;
  const outside = (i: number): boolean => values[i]! > upper || values[i]! < lower;
  let single = 0;
  for (const [start, end] of runs(n, outside)) if (end - start <= SHORT_RUN) single += end - start;
  const share = Math.max(1, single) / n;
  const near = 1 - (1 - share) ** (OUTLIER_GAP + 1);
  const dense = stretches.filter(([start, end]) => {
    let count = 0;
    for (let i = start; i < end; i++) if (outside(i)) count++;
    return n * share * near ** (count - 1) < DENSE_BY_CHANCE;
  });
  const rest: number[] = [];
  let from = 0;
  for (const [start, end] of [...dense, [n, n] as const]) {
    for (let i = from; i < start; i++) rest.push(Math.abs(values[i]! - mean));
    from = end;
  }
  const limit = rest.length < FEWEST_SAMPLES ? 0 : tailLimit(Float64Array.from(rest));
  const beyond = stretches.filter((stretch) => {
    if (dense.includes(stretch)) return true;
    for (let i = stretch[0]; i < stretch[1]; i++) if (Math.abs(values[i]! - mean) > limit) return true;
    return false;
  });
  return { limit, beyond };
}

/** Distance that an exponential tail with the body of these distances [M] exceeds EXPECTED_BY_CHANCE times in M. Reorders them. */
function tailLimit(distances: Float64Array): number {
  const count = distances.length;
  const [from, cut] = BODY.map((q) => quantileInPlace(distances, count, q)) as [number, number];
  let excess = 0;
  let whole = 0;
  let above = 0;
  for (const distance of distances) {
    if (distance <= from) continue;
    above++;
    excess += Math.min(distance, cut) - from;
    if (distance <= cut) whole++;
  }
  // Maximum likelihood of a right-censored exponential.
  return whole === 0 ? from : from + (excess / whole) * Math.log(above / EXPECTED_BY_CHANCE);
}

/** Occurrences from which equal distances are no chance. */
const FEWEST_OCCURRENCES = 3;
/** Deviation from equal distances, as a part of the distance, and in samples at least. */
const TOLERANCE = 0.02;
const LEAST_TOLERANCE = 2;
/** Part of a departure that its recurrence must reach. */
const LEAST_PART = 2 / 3;
/** Distance, in lengths of the longest stretch, from which stretches recur rather than follow each other. */
const LEAST_LENGTHS = 4;
/** Deviation that adds up over many lags, as a part of the lag, from which anything would match. */
const MOST_REACH = 0.25;
/** More stretches than these are not compared: cost would grow with their number times the length. */
const MOST_STRETCHES = 100;
/** Stretches whose distances are tried as lags; of more the first ones. */
const MOST_TRIED = 12;

/** A stretch by its largest departure, signed. */
interface Peak {
  readonly at: number;
  readonly size: number;
  /** Samples by which it may lie off because an end of the series cuts it. */
  readonly slack: number;
}

export interface Recurrence {
  /** Distance in samples at which departures recur; null where none do. */
  readonly lag: number | null;
  /** The stretches that do not recur at it. */
  readonly rest: readonly Interval[];
}

/**
 * Separates the stretches of departures [N] that recur from the rest. A stretch recurs at a lag when at every whole number of lags before and after it that the
 * series holds (up to 12 each way), and at one at least, stands a departure in the same direction, two thirds as large or larger. A lag is one at which a stretch
 * occurs three times or more; of several that at which the most stretches recur, of equal ones the shortest.
 */
export function recurrence(departures: Float64Array, stretches: readonly Interval[]): Recurrence {
  const n = departures.length;
  let best: Recurrence = { lag: null, rest: stretches };
  if (stretches.length < 2 || stretches.length > MOST_STRETCHES) return best;
  const peaks = stretches.map(([start, end]): Peak => {
    let at = start;
    for (let i = start; i < end; i++) if (Math.abs(departures[i]!) > Math.abs(departures[at]!)) at = i;
    return { at, size: departures[at]!, slack: start === 0 || end === n ? end - start : 0 };
  });
  const longest = stretches.reduce((most, [start, end]) => Math.max(most, end - start), 0);
  const tried = peaks.slice(0, MOST_TRIED);
  const lags = tried
    .flatMap((a, i) => tried.slice(i + 1).flatMap((b) => (a.size * b.size > 0 ? [b.at - a.at] : [])))
    .filter((lag) => lag > LEAST_LENGTHS * longest && (FEWEST_OCCURRENCES - 1) * lag < n)
    .sort((a, b) => a - b);
  for (const lag of new Set(lags)) {
    const times = peaks.map((peak) => occurrences(departures, peak, lag));
    if (!times.some((count) => count >= FEWEST_OCCURRENCES)) continue;
    const rest = stretches.filter((_, i) => times[i]! < 2);
    if (rest.length < best.rest.length) best = { lag, rest };
  }
  return best;
}

/** Counts a departure at multiples of a lag, itself included; 1 where it is missing anywhere. */
function occurrences(departures: Float64Array, { at, size, slack }: Peak, lag: number): number {
  const n = departures.length;
  let count = 1;
  for (const direction of [-1, 1]) {
    for (let k = 1; ; k++) {
      const reach = slack + k * Math.max(LEAST_TOLERANCE, TOLERANCE * lag);
      const [from, to] = [at + direction * k * lag - reach, at + direction * k * lag + reach];
      // Where the series ends inside, or it is too far off, nothing can be said.
      if (from < 0 || to > n - 1 || reach > MOST_REACH * lag) break;
      let largest = 0;
      for (let i = Math.ceil(from); i <= to; i++) {
        largest = Math.max(largest, Math.sign(size) * departures[i]!);
      }
      if (largest < LEAST_PART * Math.abs(size)) return 1;
      count++;
    }
  }
  return count;
}

/**
 * Least distance of a discord in distances that noise alone gives, where the curve repeats and where it hardly does. Measured on 24
 * phases each of sines of 0.5 to 8 cycles in 1000 samples with 2 and 10 % noise: without an anomaly up to 1.0 from 4 cycles up,
 * 2.3 below.
 */
const NOISE_RATIO = { repeating: 2, slow: 3 };
/** Greatest distance, in distances of one sample's shift, that falling between the samples explains: half, and a little for the curve. */
const SAMPLING_RATIO = 0.6;

/** The distances that chance gives the window of the discord. */
export interface Chance {
  /**
   * Root of the expected squared distance of two windows of one shape under white noise σ: √((2m + 2)·σ²)/std of the window
   * (De Paepe et al. 2019, "Eliminating noise in the matrix profile"), with the noise that smoothing leaves; of that, which is
   * slower and which the scaling takes up in part, about 1.4 times too much. σ is the least of the
   * series' and the window's own, so that a stuck sensor is no noise.
   */
  readonly noise: number;
  /** Distance of the window from itself a sample earlier or later, the larger one: samples fall on another cycle half as far off. */
  readonly sampling: number;
  /**
   * Explanation of the distance; null where the discord is more than chance. `arc`: the curve hardly repeats, so that its smooth arcs are
   * like no others without being anomalies.
   */
  readonly explains: 'noise' | 'sampling' | 'arc' | null;
}

/** True where windows of `m` samples hold less than `part` of a wave, as those of a slow curve always do. */
export function holdLess({ kind, period }: Base, m: number, part: number): boolean {
  return kind === 'slow' || (period !== null && m < part * period);
}

/** Noise that smoothing (window, order) leaves of white noise of standard deviation 1. */
function noiseLeft(window: number, order: number): number {
  const middle = (window - 1) / 2;
  return Math.sqrt(savgolWeights(window, order, 0)[middle * window + middle]!);
}

/** Distance of two z-normalised windows of `m` samples; 0 where one is constant. */
function distanceOf(values: Float64Array, a: number, b: number, m: number): number {
  const [first, second] = [moments(values, a, a + m), moments(values, b, b + m)];
  if (first.std === 0 || second.std === 0) return 0;
  let dot = 0;
  for (let i = 0; i < m; i++) dot += (values[a + i]! - first.mean) * (values[b + i]! - second.mean);
  return Math.sqrt(Math.max(0, 2 * (m - dot / (first.std * second.std))));
}

/** Computes the distance that chance gives a discord; null for waves of which a window holds half a period and more. */
export function chanceOf(
  analysed: Float64Array,
  discord: { readonly window: number; readonly discord: number; readonly distance: number },
  { base, noise }: { readonly base: Base; readonly noise: Noise },
  local: LocalEvidence,
  smoothing: { readonly window: number; readonly order: number } | null,
): Chance | null {
  const { window: m, discord: at, distance } = discord;
  if (base.kind !== 'irregular' && base.kind !== 'cycle' && !holdLess(base, m, 0.5)) return null;
  const { std } = moments(analysed, at, at + m);
  const sigma =
    Math.min(noise.sigma, local.roughness) *
    (smoothing === null ? 1 : noiseLeft(smoothing.window, smoothing.order));
  const byNoise = std === 0 ? 0 : (Math.sqrt(2 * m + 2) * sigma) / std;
  const neighbours = [at - 1, at + 1].filter((i) => i >= 0 && i + m <= analysed.length);
  const sampling = Math.max(0, ...neighbours.map((i) => distanceOf(analysed, at, i, m)));
  const slow = base.kind === 'slow';
  const explains =
    distance < NOISE_RATIO[slow ? 'slow' : 'repeating'] * byNoise
      ? 'noise'
      : smoothing === null && distance < SAMPLING_RATIO * sampling
        ? 'sampling'
        : slow && local.whiteness <= WHITE_FROM
          ? 'arc'
          : null;
  return { noise: byNoise, sampling, explains };
}
