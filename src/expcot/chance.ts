/**
 * What chance alone puts between windows where a window need not hold a wave: of slow curves, of irregular ones, and of cycles with
 * quiet parts. A window of the matrix profile that is shorter than half a
 * period holds an arc of the wave. Scaled to its own small spread, noise grows with the arc, two turning points differ by
 * where the samples fall on them, and the few arcs of a curve that hardly repeats are like no others. Real discords of waves
 * that a window holds half a period of and more need none of this.
 */
import { savgolWeights } from '../series/savgol.ts';
import { moments } from '../series/stats.ts';
import type { Base, Noise } from './base.ts';
import { type LocalEvidence, WHITE_FROM } from './local.ts';

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
   * What explains the distance; null where the discord is more than chance. `arc`: the curve hardly repeats, so that its smooth arcs are
   * like no others without being anomalies.
   */
  readonly explains: 'noise' | 'sampling' | 'arc' | null;
}

/** Whether windows of `m` samples hold less than `part` of a wave: of a slow curve always. */
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

/** What chance gives a discord; null for waves of which a window holds half a period and more. */
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
