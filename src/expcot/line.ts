/** The strongest spectral line of a series: how much of the power it holds, and whether it stands out from what the other frequencies suggest. */
import {
  dominantIndex,
  refineFrequency,
  type Spectrum,
  seriesOfSpectrum,
  spectrum,
} from '../series/spectrum.ts';

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
export const SLOW_FROM = 0.5;

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

/** Whether the line at bin k is a multiple of a wave of fewer than 4 cycles, and no stronger than the edges of such a wave are. */
function isHarmonic(transformed: Spectrum, k: number): boolean {
  const slow = slowest((bin) => powerOf(transformed, bin));
  const [own, base] = [refineFrequency(transformed, k), refineFrequency(transformed, slow)];
  const multiple = Math.round(own / base);
  if (multiple < 2 || multiple > HIGHEST_HARMONIC) return false;
  if (Math.abs(own - multiple * base) >= OFF_HARMONIC) return false;
  return taperedPower(transformed, k) * multiple ** 2 < EDGE_RATIO * taperedPower(transformed, slow);
}

/** Whether bin k is no more than a bump on the slope of a slower wave: between the two no bin is far weaker than it. */
function onSlope(transformed: Spectrum, k: number): boolean {
  if (k + 1 >= transformed.re.length) return false;
  const own = taperedPower(transformed, k);
  for (let j = slowest((bin) => taperedPower(transformed, bin)) + 1; j < k; j++) {
    if (taperedPower(transformed, j) * VALLEY < own) return false;
  }
  return true;
}

/** The strongest line of at least 4 cycles in a series [N] without its trend. */
export function strongestLine(level: Float64Array): Line {
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
export function withoutSlow(level: Float64Array): Float64Array {
  const { n, re, im } = spectrum(level);
  const end = Math.min(FEWEST_CYCLES, re.length);
  re.fill(0, 0, end);
  im.fill(0, 0, end);
  return seriesOfSpectrum({ n, re, im });
}
