/**
 * Power spectra: periodogram, Welch's average over segments, and the spectrogram. One-sided, in the conventions of
 * scipy.signal (`periodogram`, `welch`, `spectrogram`), whose numbers they give.
 */
import { ConfigError } from '../errors.ts';
import { requireFinite } from './finite.ts';
import { spectrum } from './spectrum.ts';
import { moments } from './stats.ts';

/** Periodic windows; `tukey` tapers an eighth of the segment at each end. */
export type WindowName = 'boxcar' | 'hann' | 'hamming' | 'tukey';

export interface PowerOptions {
  /** Samples per unit of time, > 0; default 1. */
  readonly rate?: number;
  readonly window?: WindowName;
  /** What is taken off each segment first: nothing, its mean, or its least-squares line. */
  readonly detrend?: 'none' | 'constant' | 'linear';
  /** Power per unit of frequency (`density`, default) or of a sine in its bin (`spectrum`). */
  readonly scaling?: 'density' | 'spectrum';
}

export interface SegmentOptions extends PowerOptions {
  /** Samples per segment, 1 … N. */
  readonly segment: number;
  /** Samples that two neighbours share, 0 … segment − 1. */
  readonly overlap: number;
}

export interface Spectrogram {
  readonly frequencies: Float64Array; // [F], F = ⌊segment/2⌋ + 1
  /** Centres of the segments, in units of time. */
  readonly times: Float64Array; // [T]
  /** Power by segment, then frequency. */
  readonly power: readonly Float64Array[]; // T × [F]
}

/** Periodic window [N]. */
export function windowOf(name: WindowName, n: number): Float64Array {
  const cosine = (a: number): Float64Array =>
    Float64Array.from({ length: n }, (_, i) => a - (1 - a) * Math.cos((2 * Math.PI * i) / n));
  if (n === 1 || name === 'boxcar') return new Float64Array(n).fill(1);
  if (name === 'hann') return cosine(0.5);
  if (name === 'hamming') return cosine(0.54);
  // A symmetric window of n + 1 without its last sample; each taper covers an eighth of its length n.
  const taper = n / 8;
  return Float64Array.from({ length: n }, (_, i) => {
    const inside = Math.min(i, n - i);
    return inside < taper ? (1 - Math.cos((Math.PI * inside) / taper)) / 2 : 1;
  });
}

/** Power of every segment of [N]. Throws a ConfigError for options out of range and a DataError for values that are not finite. O(N log N). */
export function spectrogram(values: Float64Array, options: SegmentOptions): Spectrogram {
  requireFinite(values, 'spectrogram');
  const { segment, overlap, rate = 1, window = 'tukey', detrend = 'constant', scaling = 'density' } = options;
  const n = values.length;
  if (!Number.isInteger(segment) || segment < 1 || segment > n) {
    throw new ConfigError(`spectrogram segment: got ${segment}, expected 1 … ${n} for ${n} samples`);
  }
  if (!Number.isInteger(overlap) || overlap < 0 || overlap >= segment) {
    throw new ConfigError(`spectrogram overlap: got ${overlap}, expected 0 … ${segment - 1}`);
  }
  if (!(rate > 0 && rate < Number.POSITIVE_INFINITY)) {
    throw new ConfigError(`spectrogram rate: got ${rate}, expected a number > 0`);
  }
  const step = segment - overlap;
  const count = Math.floor((n - overlap) / step);
  const taper = windowOf(window, segment);
  let sum = 0;
  let squares = 0;
  for (const weight of taper) {
    sum += weight;
    squares += weight * weight;
  }
  const scale = scaling === 'density' ? 1 / (rate * squares) : 1 / (sum * sum);
  const bins = (segment >> 1) + 1;
  const power = Array.from({ length: count }, (_, k) => {
    const part = values.slice(k * step, k * step + segment);
    removeTrend(part, detrend);
    for (let i = 0; i < segment; i++) part[i]! *= taper[i]!;
    const { re, im } = spectrum(part);
    const own = new Float64Array(bins);
    for (let f = 0; f < bins; f++) {
      // All but the constant and the highest frequency of an even length stand for two bins of the full spectrum.
      const twice = f > 0 && 2 * f < segment ? 2 : 1;
      own[f] = twice * scale * (re[f]! * re[f]! + im[f]! * im[f]!);
    }
    return own;
  });
  return {
    frequencies: Float64Array.from({ length: bins }, (_, f) => (f * rate) / segment),
    times: Float64Array.from({ length: count }, (_, k) => (k * step + segment / 2) / rate),
    power,
  };
}

export interface PowerSpectrum {
  readonly frequencies: Float64Array; // [F]
  readonly power: Float64Array; // [F]
}

/** Power of the whole series [N], N ≥ 1: window `boxcar`, detrend `constant` unless given. */
export function periodogram(values: Float64Array, options: PowerOptions = {}): PowerSpectrum {
  const whole = { window: 'boxcar', ...options, segment: values.length, overlap: 0 } as const;
  const { frequencies, power } = spectrogram(values, whole);
  return { frequencies, power: power[0]! };
}

/** Mean power of the segments (Welch 1967): window `hann`, detrend `constant`, half overlapping 256 samples unless given. */
export function welch(values: Float64Array, options: Partial<SegmentOptions> = {}): PowerSpectrum {
  const segment = options.segment ?? Math.min(256, values.length);
  const { frequencies, power } = spectrogram(values, {
    window: 'hann',
    overlap: segment >> 1,
    ...options,
    segment,
  });
  const mean = frequencies.map((_, f) => power.reduce((sum, own) => sum + own[f]!, 0) / power.length);
  return { frequencies, power: mean };
}

function removeTrend(part: Float64Array, detrend: 'none' | 'constant' | 'linear'): void {
  if (detrend === 'none') return;
  const n = part.length;
  const { mean } = moments(part);
  let cross = 0;
  const centre = (n - 1) / 2;
  if (detrend === 'linear') for (let i = 0; i < n; i++) cross += (i - centre) * (part[i]! - mean);
  const slope = n > 1 ? cross / ((n * (n * n - 1)) / 12) : 0;
  for (let i = 0; i < n; i++) part[i]! -= mean + slope * (i - centre);
}
