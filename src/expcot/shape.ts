/**
 * Shape of a series: as a whole (`describeBase`: flat, a wave, cycles of another shape, slow, noise or irregular, with or without a
 * trend), by its strongest spectral line and by its repetition in cycles of any shape (pulses, working days, heart beats, whose power
 * is spread over many frequencies); and in a stretch beside its surroundings (`localEvidence`).
 */

import type { Interval } from '../ground/types.ts';
import {
  dominantIndex,
  refineFrequency,
  type Spectrum,
  seriesOfSpectrum,
  spectrum,
} from '../series/spectrum.ts';
import { fitLine, largestMagnitude, moments, noiseSigma } from '../series/stats.ts';

/**
 * A base is a wave when one prominent spectral line (±2 bins, at least 4 cycles in the series) holds this part of the
 * power of its frequencies; `NOISE_FROM` is the part of noise in the spread from which even a strong line of less
 * than `CLEAR_LINE` is taken for chance. Measured: periodic tasks 0.29–1.0 at a noise part below 0.3, or above 0.76;
 * noise with level shifts below 0.59 at 0.35 and more.
 */
const LINE_FROM = 0.25;
const CLEAR_LINE = 0.65;
const NOISE_FROM = 0.3;
/** Correlation with the next cycle from which a series repeats although it is as rough as noise, has a line at another period, or rides on slower waves. */
const CLEAR_REPETITION = 0.9;
/**
 * Prominence of the line from which it is more than the strongest of many chance frequencies. Measured on 100 to 400 series each: periodic
 * tasks from 10.8 (nano5), 56 (AnomLLM), 106 (VisualTimeAnomaly), 99 of 100 from 21; random walks and smoothed ones up to 6 and
 * autoregressions up to 8 in 95 of 100; recordings of NAB below 1.
 */
const PROMINENT_FROM = 10;
/**
 * Threshold where less than this part of the power is slower: no slope of a walk makes a line there, and waves that run three times as fast
 * for a while (nano5) go down to 3.3.
 */
const LITTLE_SLOW = 0.05;
const PROMINENT_FROM_THERE = 3;
/** Rise of the fitted line over the series, in residual standard deviations, that is called a trend. */
const RISE_FROM = 0.5;
/** Threshold for noise and irregular curves, where a level shift alone reaches 1.6. */
const RISE_FROM_APERIODIC = 2;

/** Shape of the whole series, anomalies aside. */
export interface Base {
  readonly kind: 'flat' | 'sine' | 'cycle' | 'slow' | 'noise' | 'irregular';
  /** Period in samples, refined between the spectral bins; of cycles the lag at which they repeat; null for the other kinds. */
  readonly period: number | null;
  /** Correlation of cycles with themselves one period later; null for the other kinds. */
  readonly repetition: number | null;
  /** Part of the power from 4 cycles up that the strongest line ± 2 bins holds, in [0, 1]. */
  readonly lineShare: number;
  /** Prominence of that line over a power law through the other frequencies, ≥ 0 and finite. */
  readonly prominence: number;
  /** Part of the power of all frequencies that lies below 4 cycles, in [0, 1]. */
  readonly slowShare: number;
  /** Rise of the fitted line from the first sample to the last, in the unit of the values. */
  readonly rise: number;
  /** |rise| in standard deviations of what the line leaves. */
  readonly riseInStd: number;
  readonly trending: boolean;
  /** Standard deviation of what the line leaves, in the unit of the values. */
  readonly spread: number;
}

export interface Noise {
  /** Estimated standard deviation of white noise (third differences). */
  readonly sigma: number;
  /** sigma over the standard deviation around the fitted line, about 0 … 1; 0 for a flat series. */
  readonly share: number;
}

/** Describes the shape of a series [N], N ≥ 1 of finite values, as a whole. */
export function describeBase(values: Float64Array): { noise: Noise; base: Base } {
  const n = values.length;
  const line = fitLine(values);
  const sigma = noiseSigma(values);
  const rise = line.slope * (n - 1);
  const largest = largestMagnitude(values);
  // What a straight line leaves of itself is rounding, not a spread.
  const straight = line.residualStd <= 1e-9 * largest;
  const share = straight ? 0 : sigma / line.residualStd;
  const riseInStd = straight ? 0 : Math.abs(rise) / line.residualStd;
  const level = values.map((value, i) => value - line.intercept - line.slope * i); // [N]
  const { share: lineShare, prominence, period, slowShare } = strongestLine(level);
  const periodic =
    !straight &&
    prominence >= (slowShare < LITTLE_SLOW ? PROMINENT_FROM_THERE : PROMINENT_FROM) &&
    lineShare >= LINE_FROM &&
    (share < NOISE_FROM || lineShare >= CLEAR_LINE);
  const candidate =
    straight || (periodic && lineShare >= CLEAR_LINE)
      ? null
      : repetition(slowShare >= SLOW_FROM ? withoutSlow(level) : level);
  const doubtful = share >= NOISE_FROM || periodic || slowShare >= SLOW_FROM;
  const clear = candidate !== null && (!doubtful || candidate.correlation >= CLEAR_REPETITION);
  // Beats and pulses may have their strongest line at a multiple of their frequency.
  const repeated = !clear || (periodic && candidate.period < 1.5 * period) ? null : candidate;
  const kind = straight
    ? 'flat'
    : repeated !== null
      ? 'cycle'
      : periodic
        ? 'sine'
        : share >= NOISE_FROM
          ? 'noise'
          : slowShare >= SLOW_FROM
            ? 'slow'
            : 'irregular';
  const trending = straight
    ? Math.abs(rise) > 1e-9 * largest
    : riseInStd > (periodic ? RISE_FROM : RISE_FROM_APERIODIC);
  return {
    noise: { sigma, share },
    base: {
      kind,
      period: kind === 'sine' ? period : (repeated?.period ?? null),
      repetition: repeated?.correlation ?? null,
      lineShare,
      prominence: Math.min(prominence, Number.MAX_VALUE),
      slowShare,
      rise,
      riseInStd,
      trending,
      spread: line.residualStd,
    },
  };
}

/** Cycles that must fit into the series before something is called a period. */
export const FEWEST_CYCLES = 4;
/** Bins on either side that belong to a line between the bins. */
const SIDE = 2;
/** Bins on either side that a background leaves out: as far as the window spreads a line between two bins. */
const SPREAD = 3;
/** Bins that a background is fitted to at least; and up to this multiple of the line's, or to FAR, whichever is further. */
const FEWEST_BINS = 5;
const OCTAVES = 4;
const FAR = 32;
/** Euler's constant: the logarithm of noise lies this much below that of its mean power. */
const EULER = 0.5772156649015329;
/** Highest multiple of a slower wave that is looked for, and how far off it, in cycles, a line may lie. */
const HIGHEST_HARMONIC = 6;
const OFF_HARMONIC = 0.3;
/**
 * Power of the m-th multiple, times m², over that of the wave, below which it belongs to the wave's edges. Measured: square waves of
 * equal halves 0.3–1.1, of a fifth 3.4; a daily wave on a slower one from 10.
 */
const EDGE_RATIO = 5;

/** Power of a line over the weakest bin between it and a slower wave, from which it is no bump on the slope of that. */
const VALLEY = 4;
/** Part of the strongest line's power, both under a window, below which what looks stronger without one is leakage. */
const LEAKED_BELOW = 0.25;
/** Part of slower power from which it leaks over the others: shares are then taken under a window too. */
const SLOW_FROM = 0.5;

export interface Line {
  /** Part of the power from 4 cycles up that the line ± 2 bins holds, in [0, 1]; 0 without a line. */
  readonly share: number;
  /** Its power over that of a power law c/fᵇ through the other bins, ≥ 0; infinite where they hold none. */
  readonly prominence: number;
  /** Period in samples, refined between the bins; NaN without a line. */
  readonly period: number;
  /** Part of the power of all frequencies that lies below 4 cycles, in [0, 1]. */
  readonly slowShare: number;
}

const powerOf = ({ re, im }: Spectrum, k: number): number => re[k]! * re[k]! + im[k]! * im[k]!;

/** Power of bin 1 ≤ k < ⌊N/2⌋ of the series under a Hann window, by which a line between two bins leaks no further than two. */
function taperedPower({ re, im }: Spectrum, k: number): number {
  const real = re[k]! / 2 - (re[k - 1]! + re[k + 1]!) / 4;
  const imaginary = im[k]! / 2 - (im[k - 1]! + im[k + 1]!) / 4;
  return real * real + imaginary * imaginary;
}

/**
 * Power of bin k over the mean power there of the law c/fᵇ, fitted to the logarithms of the other bins by weights 1/f, the same
 * for every octave: what a random walk (b = 2), a smoothed one (4) and white noise (0) have in common. 0 for too few bins to tell.
 */
function prominenceOf(transformed: Spectrum, k: number): number {
  const last = Math.min(transformed.re.length - 2, Math.max(FAR, OCTAVES * k));
  let [bins, weight, x, y, xx, xy] = [0, 0, 0, 0, 0, 0];
  for (let j = 2; j <= last; j++) {
    if (Math.abs(j - k) <= SPREAD) continue;
    bins++;
    const power = taperedPower(transformed, j);
    if (power === 0) continue;
    const [w, u, v] = [1 / j, Math.log(j), Math.log(power)];
    weight += w;
    x += w * u;
    y += w * v;
    xx += w * u * u;
    xy += w * u * v;
  }
  if (bins < FEWEST_BINS) return 0;
  const spread = weight * xx - x * x;
  if (!(spread > 0)) return Number.POSITIVE_INFINITY;
  const b = (weight * xy - x * y) / spread;
  const a = (y - b * x) / weight;
  return Math.exp(Math.log(taperedPower(transformed, Math.min(k, last))) - a - b * Math.log(k) - EULER);
}

/** The bin below 4 cycles in which `power` is largest. */
function slowest(power: (k: number) => number): number {
  let slow = 1;
  for (let k = 2; k < FEWEST_CYCLES; k++) if (power(k) > power(slow)) slow = k;
  return slow;
}

/** True where the line at bin k is a multiple of a wave of fewer than 4 cycles, and no stronger than the edges of such a wave are. */
function isHarmonic(transformed: Spectrum, k: number): boolean {
  const slow = slowest((bin) => powerOf(transformed, bin));
  const [own, base] = [refineFrequency(transformed, k), refineFrequency(transformed, slow)];
  const multiple = Math.round(own / base);
  if (multiple < 2 || multiple > HIGHEST_HARMONIC) return false;
  if (Math.abs(own - multiple * base) >= OFF_HARMONIC) return false;
  return taperedPower(transformed, k) * multiple ** 2 < EDGE_RATIO * taperedPower(transformed, slow);
}

/** True where bin k is no more than a bump on the slope of a slower wave: between the two no bin is far weaker than it. */
function onSlope(transformed: Spectrum, k: number): boolean {
  if (k + 1 >= transformed.re.length) return false;
  const own = taperedPower(transformed, k);
  for (let j = slowest((bin) => taperedPower(transformed, bin)) + 1; j < k; j++) {
    if (taperedPower(transformed, j) * VALLEY < own) return false;
  }
  return true;
}

/** The strongest line of at least 4 cycles in a series [N] without its trend. */
function strongestLine(level: Float64Array): Line {
  const n = level.length;
  const none = { share: 0, prominence: 0, period: Number.NaN, slowShare: 0 };
  if (n < 2 * FEWEST_CYCLES) return none;
  const transformed = spectrum(level);
  const bins = transformed.re.length;
  let slow = 0;
  let total = 0;
  for (let k = 1; k < FEWEST_CYCLES; k++) slow += powerOf(transformed, k);
  for (let k = FEWEST_CYCLES; k < bins; k++) total += powerOf(transformed, k);
  const slowShare = slow + total === 0 ? 0 : slow / (slow + total);
  // Power that falls from below is what a slower wave, of too few cycles, leaks up to here: no line of its own.
  const tapered = (k: number): number => taperedPower(transformed, k);
  let from = FEWEST_CYCLES;
  while (from + 1 < bins && tapered(from) <= tapered(from - 1)) from++;
  if (from + 1 >= bins || total === 0) return { ...none, slowShare };
  let peak = dominantIndex(transformed, from);
  let strongest = from;
  for (let k = from; k + 1 < bins; k++) if (tapered(k) > tapered(strongest)) strongest = k;
  // Without the window a line is sharper, but a much slower wave may leak more power than it has.
  const leaked =
    slowShare >= SLOW_FROM && peak + 1 < bins && tapered(peak) < LEAKED_BELOW * tapered(strongest);
  if (leaked) peak = strongest;
  if (slowShare >= SLOW_FROM && onSlope(transformed, peak)) return { ...none, slowShare };
  if (isHarmonic(transformed, peak)) return { ...none, slowShare };
  const shareOf = (power: (k: number) => number, end: number): number => {
    let [near, all] = [0, 0];
    for (let k = FEWEST_CYCLES; k < end; k++) {
      all += power(k);
      if (k >= from && Math.abs(k - peak) <= SIDE) near += power(k);
    }
    return all === 0 ? 0 : near / all;
  };
  const share = shareOf((k) => powerOf(transformed, k), bins);
  return {
    share: slowShare < SLOW_FROM ? share : Math.max(share, shareOf(tapered, bins - 1)),
    prominence: prominenceOf(transformed, peak),
    period: n / refineFrequency(transformed, peak),
    slowShare,
  };
}

/** A series [N] without its waves of fewer than 4 cycles. */
function withoutSlow(level: Float64Array): Float64Array {
  const { n, re, im } = spectrum(level);
  const end = Math.min(FEWEST_CYCLES, re.length);
  re.fill(0, 0, end);
  im.fill(0, 0, end);
  return seriesOfSpectrum({ n, re, im });
}

/**
 * Correlation with itself one cycle later from which a series repeats. Measured on series without a spectral line: pulses, jobs and
 * beats with noise from 0.92; random walks, autoregressions and white noise up to 0.45, nano5 and AnomLLM up to 0.39.
 */
const REPEATS_FROM = 0.7;
/** Samples and lag from which correlations are more than chance. */
const SHORTEST_SERIES = 40;
const SHORTEST_CYCLE = 4;
/** The shortest lag whose correlation is this part of the largest is the cycle: the others are its multiples. */
const FIRST_PART = 0.8;
/** Correlation below which the series has left itself: smaller lags are no cycles but the smoothness of the curve. */
const LEFT_BELOW = 0.3;

interface Repetition {
  /** Samples of a cycle, between the samples. */
  readonly period: number;
  /** Correlation with itself that many samples later, over the pairs there are: in [−1, 1]. */
  readonly correlation: number;
}

/** r[lag] = Σ x[i]·x[i + lag] / √(Σ x[i]² · Σ x[i + lag]²) over the pairs there are: [N] → [lags + 1]. Cost O(N·log N). */
function correlations(level: Float64Array, lags: number): Float64Array {
  const n = level.length;
  const padded = new Float64Array(2 ** Math.ceil(Math.log2(n + lags + 1))); // zeros keep the ends apart
  padded.set(level);
  const transformed = spectrum(padded);
  const power = transformed.re.map((re, k) => re * re + transformed.im[k]! ** 2);
  const products = seriesOfSpectrum({ n: padded.length, re: power, im: new Float64Array(power.length) });
  const squares = new Float64Array(n + 1); // Σ x[i]² over i < k
  for (let i = 0; i < n; i++) squares[i + 1] = squares[i]! + level[i]! ** 2;
  return Float64Array.from({ length: lags + 1 }, (_, lag) => {
    const size = Math.sqrt(squares[n - lag]! * (squares[n]! - squares[lag]!));
    return size === 0 ? 0 : Math.max(-1, Math.min(1, products[lag]! / size));
  });
}

/** Finds the top of a parabola through a maximum and its neighbours. */
function vertex(values: Float64Array, at: number): number {
  const [left, middle, right] = [values[at - 1]!, values[at]!, values[at + 1] ?? values[at]!];
  const bend = left - 2 * middle + right;
  return bend >= 0 ? at : at + Math.max(-0.5, Math.min(0.5, (left - right) / (2 * bend)));
}

/** The cycle of a series [N] without its trend, of which at least four are seen; null without one. All values must be finite. */
export function repetition(level: Float64Array): Repetition | null {
  const n = level.length;
  if (n < SHORTEST_SERIES) return null;
  const longest = Math.floor(n / FEWEST_CYCLES);
  const r = correlations(level, longest + 1); // [longest + 2]
  const left = r.findIndex((value) => value < LEFT_BELOW);
  if (left < 0) return null;
  const peaks: number[] = [];
  for (let lag = Math.max(left, SHORTEST_CYCLE); lag <= longest; lag++) {
    if (r[lag]! >= r[lag - 1]! && r[lag]! >= r[lag + 1]!) peaks.push(lag);
  }
  const most = peaks.reduce((best, lag) => Math.max(best, r[lag]!), 0);
  if (!(most >= REPEATS_FROM)) return null;
  const first = peaks.find((lag) => r[lag]! >= Math.max(FIRST_PART * most, REPEATS_FROM))!;
  let period = vertex(r, first);
  // Every further cycle doubles the lever on its length.
  for (let cycles = 2; cycles * period <= longest; cycles *= 2) {
    const near = Math.round(cycles * period);
    const around = [near - 1, near, near + 1].filter((lag) => lag <= longest);
    const best = around.reduce((a, b) => (r[b]! > r[a]! ? b : a));
    if (r[best]! < FIRST_PART * most) break;
    period = vertex(r, best) / cycles;
  }
  return { period, correlation: r[first]! };
}

/**
 * Whiteness from which a stretch is noise rather than shape. Measured on discords: contextual points 0.45–1.3 in nano5, down
 * to 0.14 where few samples of the window are noise; seasonal anomalies below 0.2.
 */
export const WHITE_FROM = 0.3;

export interface LocalEvidence {
  readonly interval: Interval;
  /** Root mean square of the third differences over √20: of white noise, its standard deviation; 0 for fewer than 4 samples. */
  readonly roughness: number;
  /** Roughness in standard deviations of the stretch: about 1 for white noise, near 0 for a smooth curve; 0 for equal values. */
  readonly whiteness: number;
  /** Mean over one period after the stretch minus mean over one period before it; 0 at an end of the series. */
  readonly levelChange: number;
  /** |levelChange| in standard deviations of the series around its line; 0 for a straight line. */
  readonly levelChangeInStd: number;
}

/** Departure of a stretch from the series around it; sizes are shares of the range of the series. */
export interface Departure {
  readonly kind: 'step' | 'shift' | 'swings' | 'inside';
  /** Step or shift: up or down; swings: faster or slower; inside: null. */
  readonly direction: 'up' | 'down' | 'faster' | 'slower' | null;
  /** Step: change of the level from before to after; shift: of the level inside; inside: standard deviation inside; swings: none. */
  readonly size: number | null;
}

/** Shares of the range from which a level has changed for good, and from which it differs inside. */
const STEP_FROM = 0.2;
const SHIFT_FROM = 0.15;
/** Ratios of the rates of swings, inside over around, from which they are faster or slower. */
const FASTER_FROM = 1.6;
const SLOWER_BELOW = 0.65;
/** Distance from the mean, in standard deviations, that a swing reaches. */
const SWING = 0.5;

/** Counts the changes from beyond +½ to beyond −½ standard deviations around the mean, and back, per sample. */
function swingRate(values: Float64Array, start: number, end: number): number {
  const { mean, std } = moments(values, start, end);
  let [side, swings] = [0, 0];
  for (let i = start; i < end; i++) {
    const far = values[i]! - mean;
    if (Math.abs(far) < SWING * std) continue;
    if (side !== 0 && Math.sign(far) !== side) swings++;
    side = Math.sign(far);
  }
  return end > start ? swings / (end - start) : 0;
}

/**
 * Describes how an interval of a series [N] departs from what surrounds it, by the first of: a step of the level, noise in place of waves,
 * waves of another frequency, another level, the spread inside.
 * @param range largest less smallest value, above 0
 */
export function departureOf(
  values: Float64Array,
  { interval, whiteness }: Pick<LocalEvidence, 'interval' | 'whiteness'>,
  { kind, period }: Pick<Base, 'kind' | 'period'>,
  range: number,
): Departure {
  const [start, end] = interval;
  const around = Math.max(1, Math.round(period ?? end - start));
  const [from, to] = [Math.max(0, start - around), Math.min(values.length, end + around)];
  const level = (a: number, b: number): number | null => (a < b ? moments(values, a, b).mean : null);
  const [before, after] = [level(from, start), level(end, to)];
  const inside = moments(values, start, end);
  const step = before === null || after === null ? 0 : (after - before) / range;
  const expected = before === null ? after : after === null ? before : (before + after) / 2;
  const shift = expected === null ? 0 : (inside.mean - expected) / range;
  const up = (size: number): 'up' | 'down' => (size > 0 ? 'up' : 'down');
  const isNoise = kind === 'noise' || kind === 'flat';
  const spread: Departure = { kind: 'inside', direction: null, size: inside.std / range };
  if (!isNoise && Math.abs(step) >= STEP_FROM) {
    return { kind: 'step', direction: up(step), size: Math.abs(step) };
  }
  if (!isNoise) {
    if (whiteness >= WHITE_FROM) return spread;
    const outside =
      (swingRate(values, 0, start) * start + swingRate(values, end, values.length) * (values.length - end)) /
      Math.max(1, values.length - (end - start));
    const ratio = outside === 0 ? 1 : swingRate(values, start, end) / outside;
    if (ratio >= FASTER_FROM || ratio < SLOWER_BELOW) {
      return { kind: 'swings', direction: ratio > 1 ? 'faster' : 'slower', size: null };
    }
  }
  if (Math.abs(shift) >= SHIFT_FROM) return { kind: 'shift', direction: up(shift), size: Math.abs(shift) };
  return spread;
}

/**
 * Local evidence of an interval inside a series [N].
 * @param period samples over which the levels before and after are averaged: one period of the wave, so that it cancels
 * @param spread standard deviation of the series around its line
 */
export function localEvidence(
  values: Float64Array,
  interval: Interval,
  period: number,
  spread: number,
): LocalEvidence {
  const [start, end] = interval;
  const { std } = moments(values, start, end);
  let squares = 0;
  for (let i = start; i + 3 < end; i++) {
    const third = values[i + 3]! - values[i]! + 3 * (values[i + 1]! - values[i + 2]!);
    squares += third * third;
  }
  const rough = end - start < 4 ? 0 : Math.sqrt(squares / (end - start - 3) / 20);
  const from = Math.max(0, start - period);
  const to = Math.min(values.length, end + period);
  const levelChange =
    from < start && end < to ? moments(values, end, to).mean - moments(values, from, start).mean : 0;
  return {
    interval,
    roughness: rough,
    whiteness: std === 0 ? 0 : rough / std,
    levelChange,
    levelChangeInStd: spread === 0 ? 0 : Math.abs(levelChange) / spread,
  };
}
