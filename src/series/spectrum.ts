/**
 * Spectra of real series of any length: Fourier coefficients, dominant periods, power spectra, autocorrelation. `fft.js` transforms powers of two; other lengths go
 * through Bluestein's chirp convolution (Bluestein 1970), which is exact for every length and costs two transforms of
 * the next power of two above 2N (above N for even N, where two real samples share one complex one).
 */

import FFT from 'fft.js';
import { requireFinite, requireOption, requireWithin } from './checks.ts';
import {
  fitLine,
  laggedProduct,
  largestMagnitude,
  moments,
  normalQuantile,
  ROUNDING,
  spread,
} from './stats.ts';

export interface Spectrum {
  /** Length of the series. */
  readonly n: number;
  /** Coefficients 0 … ⌊N/2⌋ of Σ x[i]·e^(−2πi·k·i/N). */
  readonly re: Float64Array; // [⌊N/2⌋ + 1]
  readonly im: Float64Array; // [⌊N/2⌋ + 1]
}

/** Complex transform of one length; holds its tables and buffers, so calls allocate nothing. */
interface Transform {
  /** Interleaved re, im of the last `run`: [2·length]. */
  readonly output: Float64Array;
  readonly input: Float64Array; // [2·length], filled by the caller
  run(): void;
}

function powerOfTwoTransform(length: number): Transform {
  const input = new Float64Array(2 * length);
  const output = new Float64Array(2 * length);
  if (length === 1) return { input, output, run: () => output.set(input) };
  const fft = new FFT(length);
  return { input, output, run: () => fft.transform(output, input) };
}

function bluesteinTransform(length: number): Transform {
  const padded = 2 ** Math.ceil(Math.log2(2 * length - 1));
  const fft = new FFT(padded);
  const input = new Float64Array(2 * length);
  const output = new Float64Array(2 * length);
  const chirp = new Float64Array(2 * length); // e^(−πi·k²/length)
  for (let k = 0; k < length; k++) {
    // k² is reduced modulo 2·length first: the angle of a big square would lose its digits.
    const angle = (Math.PI * ((k * k) % (2 * length))) / length;
    chirp[2 * k] = Math.cos(angle);
    chirp[2 * k + 1] = -Math.sin(angle);
  }
  const work = new Float64Array(2 * padded);
  const spectrum = new Float64Array(2 * padded);
  const filter = new Float64Array(2 * padded);
  work[0] = 1;
  for (let k = 1; k < length; k++) {
    const re = chirp[2 * k]!;
    const im = -chirp[2 * k + 1]!;
    work[2 * k] = re;
    work[2 * k + 1] = im;
    work[2 * (padded - k)] = re;
    work[2 * (padded - k) + 1] = im;
  }
  fft.transform(filter, work);
  const run = () => {
    work.fill(0, 2 * length);
    for (let k = 0; k < 2 * length; k += 2) {
      const re = chirp[k]!;
      const im = chirp[k + 1]!;
      work[k] = input[k]! * re - input[k + 1]! * im;
      work[k + 1] = input[k]! * im + input[k + 1]! * re;
    }
    fft.transform(spectrum, work);
    // Conjugated product: a second forward transform then inverts, up to conjugation and the factor `padded`.
    for (let k = 0; k < 2 * padded; k += 2) {
      const re = spectrum[k]! * filter[k]! - spectrum[k + 1]! * filter[k + 1]!;
      const im = spectrum[k]! * filter[k + 1]! + spectrum[k + 1]! * filter[k]!;
      spectrum[k] = re;
      spectrum[k + 1] = -im;
    }
    fft.transform(work, spectrum);
    for (let k = 0; k < 2 * length; k += 2) {
      const re = work[k]! / padded;
      const im = -work[k + 1]! / padded;
      output[k] = re * chirp[k]! - im * chirp[k + 1]!;
      output[k + 1] = re * chirp[k + 1]! + im * chirp[k]!;
    }
  };
  return { input, output, run };
}

const transforms = new Map<number, Transform>();
/** Tables of longer transforms are built per call: kept, a few of them would hold gigabytes. */
const LONGEST_KEPT = 32_768;

function transformOf(length: number): Transform {
  const known = transforms.get(length);
  if (known !== undefined) return known;
  const isPower = (length & (length - 1)) === 0;
  const made = isPower ? powerOfTwoTransform(length) : bluesteinTransform(length);
  if (length <= LONGEST_KEPT) {
    if (transforms.size >= 16) transforms.delete(transforms.keys().next().value!);
    transforms.set(length, made);
  }
  return made;
}

/** Fourier coefficients of `values` [N], N ≥ 1, minus `offset` (pass the mean to clear coefficient 0). */
export function spectrum(values: Float64Array, offset = 0): Spectrum {
  const n = values.length;
  const bins = Math.floor(n / 2) + 1;
  const re = new Float64Array(bins);
  const im = new Float64Array(bins);
  if (n % 2 === 1) {
    const { input, output, run } = transformOf(n);
    for (let i = 0; i < n; i++) {
      input[2 * i] = values[i]! - offset;
      input[2 * i + 1] = 0;
    }
    run();
    for (let k = 0; k < bins; k++) {
      re[k] = output[2 * k]!;
      im[k] = output[2 * k + 1]!;
    }
    return { n, re, im };
  }
  const half = n / 2;
  const { input, output, run } = transformOf(half);
  for (let i = 0; i < n; i++) input[i] = values[i]! - offset;
  run();
  for (let k = 0; k <= half; k++) {
    const at = 2 * (k % half);
    const mirrored = 2 * ((half - k) % half);
    // Even and odd samples travelled as real and imaginary part: separate them by symmetry, then join.
    const evenRe = (output[at]! + output[mirrored]!) / 2;
    const evenIm = (output[at + 1]! - output[mirrored + 1]!) / 2;
    const oddRe = (output[at + 1]! + output[mirrored + 1]!) / 2;
    const oddIm = (output[mirrored]! - output[at]!) / 2;
    const angle = (-2 * Math.PI * k) / n;
    const cos = Math.cos(angle);
    const sin = Math.sin(angle);
    re[k] = evenRe + oddRe * cos - oddIm * sin;
    im[k] = evenIm + oddRe * sin + oddIm * cos;
  }
  return { n, re, im };
}

/** The real series [N] whose coefficients 0 … ⌊N/2⌋ these are: the inverse of `spectrum`. */
export function seriesOfSpectrum({ n, re, im }: Spectrum): Float64Array {
  const { input, output, run } = transformOf(n);
  // The conjugate of the transform of conjugates is the inverse, times N; a real series' upper half mirrors its lower.
  for (let k = 0; k < n; k++) {
    const mirrored = 2 * k > n;
    input[2 * k] = re[mirrored ? n - k : k]!;
    input[2 * k + 1] = mirrored ? im[n - k]! : -im[k]!;
  }
  run();
  const series = new Float64Array(n);
  for (let i = 0; i < n; i++) series[i] = output[2 * i]! / n;
  return series;
}

/** Index of the strongest coefficient among `from` … ⌊N/2⌋, lowest on ties; `from` itself when all are 0. */
export function dominantIndex({ re, im }: Spectrum, from = 1): number {
  let best = from;
  let bestPower = -1;
  for (let k = from; k < re.length; k++) {
    const power = re[k]! * re[k]! + im[k]! * im[k]!;
    if (power > bestPower) {
      bestPower = power;
      best = k;
    }
  }
  return best;
}

/** Period in samples of the strongest coefficient but the constant one; NaN for fewer than 2 samples. */
export function dominantPeriod(values: Float64Array, mean: number): number {
  return values.length < 2 ? Number.NaN : values.length / dominantIndex(spectrum(values, mean));
}

/**
 * Frequency of the line at coefficient k in cycles per series, between the bins: Jacobsen's three-sample estimate
 * k + Re((X[k−1] − X[k+1]) / (2X[k] − X[k−1] − X[k+1])) (Jacobsen & Kootsookos 2007). The step is cut at half
 * a bin; k itself at the ends of the spectrum, or where the estimate is off by a bin and more.
 */
export function refineFrequency({ re, im }: Spectrum, k: number): number {
  if (k < 1 || k + 1 >= re.length) return k;
  const topRe = re[k - 1]! - re[k + 1]!;
  const topIm = im[k - 1]! - im[k + 1]!;
  const bottomRe = 2 * re[k]! - re[k - 1]! - re[k + 1]!;
  const bottomIm = 2 * im[k]! - im[k - 1]! - im[k + 1]!;
  const shift = (topRe * bottomRe + topIm * bottomIm) / (bottomRe * bottomRe + bottomIm * bottomIm);
  return Math.abs(shift) < 1 ? k + Math.min(0.5, Math.max(-0.5, shift)) : k;
}

interface Twiddles {
  readonly bins: number;
  /** Per phase r of a sample, cosines and sines of 2π·k·r/W interleaved, k = 1 … bins: W arrays [2·bins]. */
  readonly phases: readonly Float64Array[];
}

const twiddleTables = new Map<number, Twiddles>();

function twiddlesOf(window: number): Twiddles {
  const known = twiddleTables.get(window);
  if (known !== undefined) return known;
  const bins = Math.floor(window / 2);
  const phases = Array.from({ length: window }, (_, r) => {
    const phase = new Float64Array(2 * bins);
    for (let k = 1; k <= bins; k++) {
      const angle = (2 * Math.PI * ((k * r) % window)) / window;
      phase[2 * k - 2] = Math.cos(angle);
      phase[2 * k - 1] = Math.sin(angle);
    }
    return phase;
  });
  if (twiddleTables.size >= 4) twiddleTables.clear();
  const made = { bins, phases };
  twiddleTables.set(window, made);
  return made;
}

/** Windows between two exact recomputations of the running coefficients: rounding cannot build up. */
const REFRESH = 512;

/**
 * Dominant period (samples) of every window of `window` samples: [N] → [N − window + 1], empty for a shorter series.
 * Per window: the strongest of the coefficients 1 … ⌊window/2⌋, the lowest on ties and in a constant window.
 *
 * The coefficients slide: each step replaces the sample that leaves by the one that enters, against phases fixed to
 * the series rather than the window. Their moduli are those of the window's own transform, no rotation multiplies
 * old rounding errors, and an exact sum replaces them every 512 windows.
 */
export function slidingPeriods(values: Float64Array, window: number): Float64Array {
  const count = Math.max(0, values.length - window + 1);
  const periods = new Float64Array(count); // [N − W + 1]
  if (count === 0) return periods;
  const { bins, phases } = twiddlesOf(window);
  const state = new Float64Array(2 * bins); // re, im interleaved
  // Coefficients this small are rounding errors of a constant window.
  const floor = (ROUNDING * window * largestMagnitude(values)) ** 2;
  for (let t = 0; t < count; t++) {
    const last = t + window - 1;
    let change = t === 0 ? 0 : values[last]! - values[t - 1]!;
    if (t % REFRESH === 0) {
      // Only differences matter to the coefficients above 0; against a value of the window the sums stay small.
      state.fill(0);
      for (let i = t; i <= last; i++) accumulate(state, phases[i % window]!, values[i]! - values[t]!);
      change = 0;
    }
    const best = accumulate(state, phases[last % window]!, change);
    const power = state[2 * best]! ** 2 + state[2 * best + 1]! ** 2;
    periods[t] = power > floor ? window / (best + 1) : window;
  }
  return periods;
}

/** Adds one sample to the running coefficients; returns the index of the strongest, the lowest on ties. */
function accumulate(state: Float64Array, phase: Float64Array, change: number): number {
  let best = 0;
  let bestPower = -1;
  for (let at = 0; at < state.length; at += 2) {
    const re = state[at]! + change * phase[at]!;
    const im = state[at + 1]! - change * phase[at + 1]!;
    state[at] = re;
    state[at + 1] = im;
    const power = re * re + im * im;
    if (power > bestPower) {
      bestPower = power;
      best = at;
    }
  }
  return best >> 1;
}

// Power spectra, one-sided, in the conventions of scipy.signal (`periodogram`, `welch`, `spectrogram`), whose numbers they give.

/** Periodic windows; `tukey` tapers an eighth of the segment at each end. */
export type WindowName = 'boxcar' | 'hann' | 'hamming' | 'tukey';

export interface PowerOptions {
  /** Samples per unit of time, > 0; default 1. */
  readonly rate?: number;
  readonly window?: WindowName;
  /** Detrending of each segment: none, its mean, or its least-squares line. */
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
  requireWithin('spectrogram segment', segment, 1, n, ` for ${n} samples`);
  requireWithin('spectrogram overlap', overlap, 0, segment - 1);
  requireOption(rate > 0 && rate < Number.POSITIVE_INFINITY, 'spectrogram rate', rate, 'a number > 0');
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
    const segmentPower = new Float64Array(bins);
    for (let f = 0; f < bins; f++) {
      // All but the constant and the highest frequency of an even length stand for two bins of the full spectrum.
      const twice = f > 0 && 2 * f < segment ? 2 : 1;
      segmentPower[f] = twice * scale * (re[f]! * re[f]! + im[f]! * im[f]!);
    }
    return segmentPower;
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
  const mean = frequencies.map((_, f) => power.reduce((sum, segment) => sum + segment[f]!, 0) / power.length);
  return { frequencies, power: mean };
}

function removeTrend(part: Float64Array, detrend: 'none' | 'constant' | 'linear'): void {
  if (detrend === 'none') return;
  const { mean } = moments(part);
  const slope = detrend === 'linear' ? fitLine(part).slope : 0;
  const centre = (part.length - 1) / 2;
  for (let i = 0; i < part.length; i++) part[i]! -= mean + slope * (i - centre);
}

/** Count of lags from which transforms are quicker than sums. */
const MOST_DIRECT_LAGS = 128;

/** Σ x[t]·x[t+k] of k = 0 … lags, as the transform of the power spectrum of [N] followed by zeros: [≥ lags + 1]. */
function laggedProducts(values: Float64Array, lags: number): Float64Array {
  const padded = new Float64Array(2 ** Math.ceil(Math.log2(values.length + lags)));
  padded.set(values);
  const { n, re, im } = spectrum(padded);
  return seriesOfSpectrum({ n, re: re.map((part, k) => part ** 2 + im[k]! ** 2), im: im.fill(0) });
}

export interface AutocorrelationOptions {
  /** Largest lag, 0 … N − 1; default ⌊10·log₁₀N⌋. */
  readonly lags?: number;
  /** Divide the covariance at lag k by N − k instead of N; default false. */
  readonly adjusted?: boolean;
}

/**
 * Autocorrelation r[k] = Σ (x[t] − μ)(x[t+k] − μ) / Σ (x[t] − μ)², k = 0 … lags: [N] → [lags + 1]. NaN throughout for a
 * constant series, where it is undefined. Equals statsmodels' `acf`. Throws a DataError for values that are not
 * finite, a ConfigError for lags out of range. Cost O(N·log N).
 */
export function autocorrelation(values: Float64Array, options: AutocorrelationOptions = {}): Float64Array {
  requireFinite(values, 'autocorrelation');
  const n = values.length;
  const lags = options.lags ?? Math.max(0, Math.min(n - 1, Math.floor(10 * Math.log10(n))));
  requireWithin('autocorrelation lags', lags, 0, n - 1, ` for ${n} samples`);
  const { mean, std } = spread(values);
  const out = new Float64Array(lags + 1); // [lags + 1]
  if (std === 0) return out.fill(Number.NaN);
  const centred = values.map((value) => value - mean);
  const products = lags > MOST_DIRECT_LAGS ? laggedProducts(centred, lags) : null;
  for (let k = 0; k <= lags; k++) {
    out[k] = (products?.[k] ?? laggedProduct(centred, k)) / (options.adjusted === true ? n - k : n);
  }
  const variance = out[0]!;
  for (let k = 0; k <= lags; k++) out[k]! /= variance;
  return out;
}

/**
 * Half-widths of the confidence bands around an autocorrelation [lags + 1] of N samples, by Bartlett's formula:
 * z·√((1 + 2·Σ_{0<i<k} r[i]²) / N) at lag k, 0 at lag 0 (Brockwell & Davis 1991, §7.2). `alpha` in (0, 1).
 */
export function bartlettBands(correlations: Float64Array, n: number, alpha = 0.05): Float64Array {
  requireOption(alpha > 0 && alpha < 1, 'Bartlett bands alpha', alpha, '(0, 1)');
  const z = normalQuantile(1 - alpha / 2);
  const bands = new Float64Array(correlations.length);
  let sum = 0;
  for (let k = 1; k < correlations.length; k++) {
    if (k > 1) sum += correlations[k - 1]! ** 2;
    bands[k] = z * Math.sqrt((1 + 2 * sum) / n);
  }
  return bands;
}
