/**
 * How rare a departure is among those that a series usually has. Each side of the distribution gets a Weibull tail
 * P(d > x) = ½·exp(−(x/σ)^κ), fitted to quantiles from the median outwards and never to the extremes: normal noise gives κ ≈ 1.4, Laplace
 * 1, heavier tails less. A fit to the extremes themselves would call nothing rare that is there.
 */
import { quantileInPlace } from '../series/stats.ts';

/** One side of a distribution around its centre. */
interface Side {
  readonly scale: number;
  readonly shape: number;
  /** The outermost quantile that was read, and −ln of the share of the side beyond it. */
  readonly anchor: number;
  readonly rarity: number;
  /** Exponent beyond the anchor: 2 for normal noise, 1 for Laplace. */
  readonly beyond: number;
}

/** Weibull exponent of the quantiles that are read from normal noise. */
const NORMAL_SHAPE = 1.386;

/** Between the quantiles that can be read noise with the tail of a power looks like Laplace noise; what is far out is judged with care. */
const LAPLACE_BEYOND = 0.8;

/**
 * A side of the given scale and shape. Between the quantiles that can be read normal noise looks like a Weibull tail of shape 1.4, Laplace
 * noise like one of shape 1; further out their exponents are 2 and 1, and so it is continued (a little below 1, see above), with the slope that it has at the anchor.
 */
function sideOf(scale: number, shape: number, share: number): Side {
  const rarity = -Math.log(share);
  const beyond =
    shape <= 1
      ? LAPLACE_BEYOND * shape
      : Math.min(2, LAPLACE_BEYOND + (2 - LAPLACE_BEYOND) * ((shape - 1) / (NORMAL_SHAPE - 1)) ** 1.25);
  return { scale, shape, anchor: scale * rarity ** (1 / shape), rarity, beyond };
}

export interface Tail {
  readonly centre: number;
  readonly above: Side;
  readonly below: Side;
  /** Departures on each side of the centre that 99 % of all samples keep to. */
  readonly bandAbove: number;
  readonly bandBelow: number;
}

/** Shares of a side that lie further out, where quantiles are read: the outermost 3 % may be what is looked for. */
const SHARES = [0.5, 0.42, 0.35, 0.3, 0.25, 0.2, 0.16, 0.12, 0.08, 0.05, 0.03] as const;
const FEWEST_SHARES = 5;
/** Samples that are looked at: quantiles of more are no different. */
const MOST_SAMPLES = 20_000;
/** −ln of the share of a side outside of a band that holds 99 %. */
const BAND = -Math.log(0.01);
const LEAST_SHAPE = 0.4;
const LARGEST_SHAPE = 2;

/** Median of the slopes between all pairs of points: a few wrong points do not move it. */
function medianSlope(x: readonly number[], y: readonly number[]): number {
  const slopes: number[] = [];
  for (let i = 0; i < x.length; i++) {
    for (let j = i + 2; j < x.length; j++) slopes.push((y[j]! - y[i]!) / (x[j]! - x[i]!));
  }
  return quantileInPlace(Float64Array.from(slopes), slopes.length, 0.5);
}

/** Departures that this share of normal noise exceeds on one side, by SHARES. */
const NORMAL = [0.674, 0.806, 0.935, 1.036, 1.15, 1.282, 1.405, 1.555, 1.751, 1.96, 2.17] as const;
/** Quantiles above the floor that tell a shape; with fewer the departures are taken for exponential. */
const FEWEST_ABOVE_FLOOR = 4;

/** Largest share that is read from an anchor. */
const MOST_BEYOND = 0.5;

interface Limits {
  readonly floor: number;
  /** Standard deviation that the departures have at least. */
  readonly sigma: number;
  /** Shares that one anomaly may fill. */
  readonly spoilt: number;
  /** How much heavier the tail may be than it looks, and how heavy at most: an exponent, by side. */
  readonly doubt: number;
  readonly leastShape: number;
}

/** Steps of a counted side that are read, each with so many departures at least; and so many departures to a step where values are counted. */
const MOST_STEPS = 8;
const MOST_SIZES = 16;
const FEWEST_AT_STEP = 5;
const DEPARTURES_PER_STEP = 20;

/** The sizes above the floor of departures that are counted, smallest first, each with the share that is as large; none where they are not. */
function countedSteps(departures: Float64Array, n: number, floor: number): { size: number; share: number }[] {
  const sorted = departures.slice(0, n).sort();
  const steps: { size: number; share: number }[] = [];
  let distinct = 0;
  for (let i = 0; i < n; i++) {
    if (i > 0 && sorted[i] === sorted[i - 1]) continue;
    if (++distinct > MOST_SIZES || distinct * DEPARTURES_PER_STEP > n) return [];
    const share = (n - i) / n;
    if (sorted[i]! > floor && share < 1 && n - i >= FEWEST_AT_STEP && steps.length < MOST_STEPS)
      steps.push({ size: sorted[i]!, share });
  }
  return steps;
}

function fitSide(
  departures: Float64Array,
  n: number,
  { floor, sigma, spoilt, doubt, leastShape }: Limits,
): Side {
  const used = SHARES.map((_, i) => i).filter((i) => SHARES[i]! >= spoilt || i < FEWEST_SHARES);
  const outermost = SHARES[used.at(-1)!]!;
  const quantiles = used.map((i) =>
    Math.max(n < 8 ? 0 : quantileInPlace(departures, n, 1 - SHARES[i]!), sigma * NORMAL[i]!),
  );
  const kept = used
    .map((share, k) => ({ share: SHARES[share]!, size: quantiles[k]! }))
    .filter(({ size }) => size > floor);
  const steps =
    new Set(kept.map(({ size }) => size)).size < FEWEST_ABOVE_FLOOR ? countedSteps(departures, n, floor) : [];
  if (steps.length >= 2) {
    const x = steps.map(({ share }) => Math.log(-Math.log(share)));
    const y = steps.map(({ size }) => Math.log(size));
    const slopes = x.slice(1).map((place, i) => (y[i + 1]! - y[i]!) / (place - x[i]!));
    const slope = quantileInPlace(Float64Array.from(slopes), slopes.length, 0.5);
    const shape = Math.min(LARGEST_SHAPE, Math.max(leastShape, 1 / (slope + doubt)));
    const scales = Float64Array.from(x, (place, i) => y[i]! - place / shape);
    const scale = Math.exp(quantileInPlace(scales, scales.length, 0.6));
    return sideOf(scale, shape, steps.at(-1)!.share);
  }
  if (kept.length < FEWEST_ABOVE_FLOOR) {
    // Almost all is exactly as expected: what is not need only be larger than the floor.
    const anchor = Math.max(floor, quantiles.at(-1)!);
    // Of counted values many more may be as large as the quantile: their share tells how fast they get rarer.
    let beyond = 0;
    for (let i = 0; i < n; i++) if (departures[i]! >= anchor) beyond++;
    const share = Math.min(MOST_BEYOND, Math.max(outermost, beyond / n));
    return sideOf(anchor / -Math.log(share), 1, share);
  }
  const x = kept.map(({ share }) => Math.log(-Math.log(share)));
  const y = kept.map(({ size }) => Math.log(size));
  const shape = Math.min(
    LARGEST_SHAPE,
    Math.max(leastShape, 1 / (Math.max(1e-9, medianSlope(x, y)) + doubt)),
  );
  const scales = x.map((place, i) => y[i]! - place / shape);
  return sideOf(Math.exp(quantileInPlace(Float64Array.from(scales), scales.length, 0.6)), shape, outermost);
}

/** The departure that is as rare as −ln of a share of the side. */
function departureOf({ scale, shape, anchor, rarity, beyond }: Side, wanted: number): number {
  if (wanted <= rarity) return scale * Math.max(0, wanted) ** (1 / shape);
  return anchor * (1 + (beyond * (wanted - rarity)) / (shape * rarity)) ** (1 / beyond);
}

/** How far one must depart in the direction of `sign` for a surprise. */
export function reachOf({ above, below }: Tail, sign: number, wanted: number): number {
  return departureOf(sign > 0 ? above : below, wanted - Math.LN2);
}

/** Means may have this part of the exponent of single values: an anomaly that is long makes the tail of means look heavier than it is. */
const AS_HEAVY = 0.8;

/** The values that means are of. */
export interface Single {
  readonly tail: Tail;
  /** Standard deviation. */
  readonly sigma: number;
}

/** The tails of [N] values; departures below `floor` > 0 count as `floor`. Values that are means over
 * `window` samples are not independent: one anomaly may fill a share of a side, so that quantiles further out are not read, and the
 * fewer independent ones there are, the heavier the tail may be; they vary at least as much as means of independent
 * values, and their tails are hardly heavier than those of the `single` values. A stride through long series stands for all. */
export function fitTail(values: Float64Array, floor: number, window = 1, single: Single | null = null): Tail {
  const stride = Math.max(1, Math.floor(values.length / MOST_SAMPLES));
  const sample = new Float64Array(Math.ceil(values.length / stride));
  for (let i = 0; i < sample.length; i++) sample[i] = values[i * stride]!;
  const centre = quantileInPlace(sample, sample.length, 0.5);
  const side = new Float64Array(sample.length);
  const limits = {
    floor,
    sigma: single === null ? 0 : single.sigma / Math.sqrt(window),
    spoilt: (6 * window) / values.length,
    doubt: 1.5 * Math.sqrt(window / values.length),
  };
  const fitted = (sign: 1 | -1): Side => {
    const own = sign > 0 ? single?.tail.above : single?.tail.below;
    const leastShape = own === undefined ? LEAST_SHAPE : AS_HEAVY * Math.min(NORMAL_SHAPE, own.shape);
    let n = 0;
    for (let i = 0; i < sample.length; i++) {
      const departure = sign * (sample[i]! - centre);
      if (departure > 0) side[n++] = departure;
    }
    // What lies on the centre belongs to either side.
    for (const half = sample.length >> 1; n < half; ) side[n++] = 0;
    return fitSide(side, n, { ...limits, leastShape });
  };
  const above = fitted(1);
  const below = fitted(-1);
  return { centre, above, below, bandAbove: departureOf(above, BAND), bandBelow: departureOf(below, BAND) };
}

/** −ln of the share of samples that depart as far in the direction of `departure`, at least ln 2. */
export function surprise({ above, below }: Tail, departure: number): number {
  const { scale, shape, anchor, rarity, beyond } = departure >= 0 ? above : below;
  const size = Math.abs(departure);
  if (size <= anchor) return Math.LN2 + (size / scale) ** shape;
  return Math.LN2 + rarity * (1 + (shape / beyond) * ((size / anchor) ** beyond - 1));
}

/** Beyond 10 no one counts: what is rarer still grows by its logarithm. */
export const tempered = (severity: number): number =>
  severity <= 10 ? severity : 10 * (1 + Math.log(severity / 10));
