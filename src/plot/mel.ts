/**
 * Mel spectrograms: powers of a short-time Fourier transform, gathered into bands that are equally wide to the ear, in
 * decibels. The mel scale is O'Shaughnessy's (1987): 2595 · log₁₀(1 + f / 700).
 */
import { ConfigError, DataError } from '../ground/errors.ts';

export interface MelScale {
  readonly rate: number; // samples per second
  /** Samples of a frame, even: the transform has window / 2 + 1 frequencies from 0 to rate / 2. */
  readonly window: number;
  readonly hop: number; // samples from one frame to the next
  readonly bands: number;
  readonly low: number; // Hz, lower edge of the lowest band
  readonly high: number; // Hz, upper edge of the highest band
  /** Decibels from the strongest cell down to the end of the colours; what is weaker is drawn as that. */
  readonly range: number;
}

export const melOf = (hertz: number): number => 2595 * Math.log10(1 + hertz / 700);
export const hertzOf = (mel: number): number => 700 * (10 ** (mel / 2595) - 1);

/** Weights of one band: those of the frequencies `first`, `first` + 1 …, which sum to 1. */
interface Band {
  readonly first: number;
  readonly weights: Float64Array;
}

/**
 * Triangles that peak at equal distances of the mel scale, each from its lower to its upper neighbour's peak. Weights sum
 * to 1: a band holds a mean of powers, and noise of equal power at all frequencies gives equal bands.
 */
function filters(scale: MelScale): Band[] {
  const { rate, window, bands, low, high } = scale;
  const [from, to] = [melOf(low), melOf(high)];
  const edge = (i: number): number => (hertzOf(from + ((to - from) * i) / (bands + 1)) * window) / rate;
  return Array.from({ length: bands }, (_, band) => {
    const [left, peak, right] = [edge(band), edge(band + 1), edge(band + 2)];
    const first = Math.floor(left) + 1;
    const weights = Float64Array.from({ length: Math.max(0, Math.ceil(right) - first) }, (_, i) => {
      const at = first + i;
      return at <= peak ? (at - left) / (peak - left) : (right - at) / (right - peak);
    });
    const sum = weights.reduce((total, weight) => total + weight, 0);
    return { first, weights: weights.map((weight) => weight / sum) };
  });
}

/** Throws ConfigError for a scale without meaning, or with bands too narrow to hold a frequency of the transform. */
export function checkMelScale(scale: MelScale): void {
  const { rate, window, hop, bands, low, high, range } = scale;
  const fail = (key: keyof MelScale, expected: string): never => {
    throw new ConfigError(`figure.spectrogram.${key}: expected ${expected}, got ${scale[key]}`);
  };
  if (!(rate > 0 && Number.isFinite(rate))) fail('rate', 'samples per second above 0');
  if (!(Number.isInteger(window) && window >= 2 && window % 2 === 0))
    fail('window', 'an even number of samples');
  if (!(Number.isInteger(hop) && hop >= 1)) fail('hop', 'a whole number of samples');
  if (!(Number.isInteger(bands) && bands >= 1 && bands <= 1024)) fail('bands', 'a whole number in 1 … 1024');
  if (!(low >= 0 && low < high)) fail('low', `a frequency from 0 to below ${high} Hz`);
  if (!(high <= rate / 2)) fail('high', `at most half the rate, ${rate / 2} Hz`);
  if (!(range > 0 && Number.isFinite(range))) fail('range', 'decibels above 0');
  if (filters(scale).some(({ weights }) => weights.length === 0)) {
    throw new ConfigError(
      `figure.spectrogram.bands: ${bands} bands are narrower than the ${rate / window} Hz between frequencies; use fewer, or a longer window`,
    );
  }
}

/**
 * Decibels relative to the strongest cell, in [−range, 0]: one array per mel band, the lowest first [M][T].
 *
 * @param power powers of the short-time Fourier transform, one array per frequency from 0 on [window / 2 + 1][T], on
 * any scale; NaN marks frames without data, and stays NaN. Without any power all cells are at −range.
 *
 * Throws DataError when the number or the lengths of the arrays are not those of one transform, or a power is negative
 * or infinite.
 */
export function melDecibels(scale: MelScale, power: readonly Float64Array[]): Float64Array[] {
  const { window, range } = scale;
  const frames = power[0]?.length ?? 0;
  if (power.length !== window / 2 + 1 || frames === 0) {
    throw new DataError(
      `a spectrogram of ${window}-sample frames takes ${window / 2 + 1} arrays of powers, one per frequency, got ${power.length} with ${frames} frames; transform the series first`,
    );
  }
  for (const row of power) {
    if (row.length !== frames) {
      throw new DataError(
        `frequencies of one spectrogram must have equally many frames, got ${frames} and ${row.length}`,
      );
    }
    for (const value of row) {
      if (value < 0 || value === Infinity)
        throw new DataError(`power ${value}: expected a number of at least 0`);
    }
  }
  const means = filters(scale).map(({ first, weights }) => {
    const band = new Float64Array(frames); // [T]
    weights.forEach((weight, i) => {
      const row = power[first + i]!;
      for (let t = 0; t < frames; t++) band[t] = band[t]! + weight * row[t]!;
    });
    return band;
  });
  let strongest = 0;
  for (const band of means) for (const value of band) if (value > strongest) strongest = value;
  return means.map((band) =>
    band.map((value) => {
      if (Number.isNaN(value)) return value;
      return value > 0 ? Math.max(-range, 10 * Math.log10(value / strongest)) : -range;
    }),
  );
}

/** Seconds from the left edge of the first cell to the right edge of the last, cells standing around their frames' middles. */
export function frameSpan({ rate, window, hop }: MelScale, frames: number): [from: number, to: number] {
  return [(window - hop) / 2 / rate, (window + hop) / 2 / rate + ((frames - 1) * hop) / rate];
}
