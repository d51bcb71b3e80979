/**
 * Rarity of a departure among the usual departures of a series. Each side of the distribution gets a Weibull tail
 * P(d > x) = ½·exp(−(x/σ)^κ), fitted to quantiles from the median outwards: normal noise gives κ ≈ 1.4, Laplace 1, heavier tails less.
 * A fit to the extremes would make every anomaly look common. Departures at many places of the series are common all the same: they count
 * where the quantiles suggest a thinner tail.
 */
import { runs } from '../series/intervals.ts';
import { quantileInPlace } from '../series/stats.ts';

/** Upper or lower half of a distribution around its centre. */
interface Side {
  readonly scale: number;
  readonly shape: number;
  /** Outermost quantile used, and −ln of the share of the side beyond it. */
  readonly anchor: number;
  readonly rarity: number;
  /** Quantile and −ln share of the maxima of parts of the series, where these lie beyond the fitted tail; else equal to the anchor. */
  readonly far: number;
  readonly farRarity: number;
  /** Exponent at `far`. */
  readonly slope: number;
  /** Exponent beyond the anchor: 2 for normal noise, 1 for Laplace. */
  readonly beyond: number;
}

/** Weibull exponent of the inner quantiles of normal noise. */
const NORMAL_SHAPE = 1.386;

/** Exponent beyond the anchor of Laplace-like noise, a little below 1: power-law noise looks the same at the inner quantiles. */
const LAPLACE_BEYOND = 0.8;

/**
 * Makes a side of the given scale and shape. Normal noise has shape 1.4 at the inner quantiles and 2 further out, Laplace noise 1 at both;
 * beyond the anchor the tail goes on with the outer exponent, from the slope at the anchor.
 */
function sideOf(scale: number, shape: number, share: number): Side {
  const rarity = -Math.log(share);
  const beyond =
    shape <= 1
      ? LAPLACE_BEYOND * shape
      : Math.min(2, LAPLACE_BEYOND + (2 - LAPLACE_BEYOND) * ((shape - 1) / (NORMAL_SHAPE - 1)) ** 1.25);
  const anchor = scale * rarity ** (1 / shape);
  return { scale, shape, anchor, rarity, far: anchor, farRarity: rarity, slope: shape, beyond };
}

/** Number of parts of a series whose largest departures are used. */
const PARTS = 64;
/** Minimum number of windows in a part. */
const WINDOWS_IN_PART = 2;
/** Share of the parts that may hold anomalies; and a second quantile of the maxima, from which their tail index follows. */
const OUTER = 0.25;
const INNER = 0.55;
/** Number of places that may hold anomalies; parts closer than this share of the series are one place. */
const PLACES = 4;
const NEAR = 0.05;
/** Factor (in −ln share) by which maxima must exceed the fitted tail to count: their quantiles rest on few values. */
const CLEARLY = Math.log(1.5);
/** Exponent that stands for a power-law tail, and the smallest index of such a tail. */
const POWER = 0.02;
const LEAST_INDEX = 2;
const BISECTIONS = 8;

/** Size of a departure, and −ln of the share of a side beyond it. */
interface Quantile {
  readonly size: number;
  readonly rarity: number;
}

/** Maxima this many times the next smaller one are outliers among the maxima, if they fill at most this share of the parts. */
const GAP = 2;
const MOST_OF_KIND = 0.5;
/**
 * Largest number k of maxima for which a smaller gap counts too, and the gap as its k-th power. A power law of index α has such a gap at a
 * given k with probability RARE_GAP^(−α): one in 8000 for α = 3.
 */
const [FEW_OUTLIERS, RARE_GAP] = [8, 20];
/** Maximum number of places at which equal outliers among the maxima may be anomalies; neighbouring parts are one place. */
const MOST_PLACES = 10;

/** Largest departure of each part of a series, by time and side; 0 in parts with an outlier. */
interface Maxima {
  readonly up: Float64Array;
  readonly down: Float64Array;
  /** Number of parts without an outlier, and of disjoint windows in them. */
  readonly parts: number;
  readonly windows: number;
}

/** Largest departure of samples [start, end) to a side; 0 for none. */
function furthest(values: Float64Array, start: number, end: number, centre: number, sign: number): number {
  let most = 0;
  for (let i = start; i < end; i++) most = Math.max(most, sign * (values[i]! - centre));
  return most;
}

/** Computes the maxima of the departures of [N] values, which are means over `window` samples; null if the parts are too short. */
function maximaOf(values: Float64Array, centre: number, window: number, floor: number): Maxima | null {
  const n = values.length;
  if (n < PARTS * WINDOWS_IN_PART * window) return null;
  const [up, down] = [new Float64Array(PARTS), new Float64Array(PARTS)];
  for (let part = 0, i = 0; part < PARTS; part++) {
    const end = Math.ceil(((part + 1) * n) / PARTS);
    [up[part], down[part]] = [furthest(values, i, end, centre, 1), furthest(values, i, end, centre, -1)];
    i = end;
  }
  const [most, least] = [largestRegular(up, floor), largestRegular(down, floor)];
  let parts = PARTS;
  for (let k = 0; k < PARTS; k++) {
    if (up[k]! <= most && down[k]! <= least) continue;
    up[k] = down[k] = 0;
    parts--;
  }
  return { up, down, parts, windows: ((n / window) * parts) / PARTS };
}

/**
 * Returns the largest maximum that is no outlier; Infinity if there are no outliers: tails of any law are dense above the floor but for their last few values. Nights that
 * are all alike leave no departures, beside which those of a cloudy day are no outliers.
 */
function largestRegular(maxima: Float64Array, floor: number): number {
  const sorted = maxima.slice().sort();
  for (let k = Math.ceil((1 - MOST_OF_KIND) * PARTS); k < PARTS - PLACES; k++) {
    const regular = sorted[k - 1]!;
    const outliers = PARTS - k;
    const gap = outliers <= FEW_OUTLIERS ? Math.min(GAP, RARE_GAP ** (1 / outliers)) : GAP;
    if (sorted[k]! <= gap * Math.max(floor, regular)) continue;
    // Counted events all over the series, mostly of one size, are what it is made of.
    const isCount = sorted[k] === sorted[(k + PARTS) >> 1];
    if (!isCount || runs(PARTS, (part) => maxima[part]! > regular).length <= MOST_PLACES) return regular;
  }
  return Infinity;
}

/**
 * Thickens a side whose quantiles suggest a thinner tail than the maxima do: a departure in a quarter of all parts is common, while an
 * anomaly is the maximum of one part or a few.
 */
function withMaxima(side: Side, sizes: Float64Array, { parts, windows }: Maxima): Side {
  const sorted = sizes.slice().sort();
  // −ln share of the side; a surprise is that of both sides.
  const at = (share: number): Quantile => ({
    size: sorted[PARTS - Math.ceil(share * parts)]!,
    rarity: Math.log(windows / parts / -Math.log(1 - share)) - Math.LN2,
  });
  return thickened(side, at(OUTER), at(INNER));
}

/** Returns −ln of the share of a side beyond the fifth-rarest of the departures that are far from each other in time. */
function fifthPlace(above: Side, below: Side, { up, down }: Maxima): number {
  const rarities = up.map((size, k) => Math.max(rarityOf(above, size), rarityOf(below, down[k]!)));
  const order = Array.from(rarities.keys()).sort((i, j) => rarities[j]! - rarities[i]!);
  const taken: number[] = [];
  let places = 0;
  for (const k of order) {
    if (taken.every((other) => Math.abs(other - k) > NEAR * PARTS)) places++;
    if (places > PLACES) return rarities[k]!;
    taken.push(k);
  }
  return 0;
}

/**
 * Fits the sides to the extremes, leaving out those that may be anomalies: the departure at the fifth place must be as rare as five places
 * are. Sides that are too thin for that become more like power laws.
 */
function withExtremes([above, below]: readonly [Side, Side], maxima: Maxima): readonly [Side, Side] {
  const wanted = Math.log(maxima.windows / (PLACES + 0.5)) + CLEARLY - Math.LN2;
  const bent = (part: number): readonly [Side, Side] => [
    { ...above, beyond: POWER + part * (above.beyond - POWER) },
    { ...below, beyond: POWER + part * (below.beyond - POWER) },
  ];
  if (fifthPlace(above, below, maxima) <= wanted) return [above, below];
  let [low, high] = [0, 1];
  for (let k = 0; k < BISECTIONS; k++) {
    const middle = (low + high) / 2;
    if (fifthPlace(...bent(middle), maxima) > wanted) high = middle;
    else low = middle;
  }
  return bent(low);
}

/**
 * Thickens a side until it has at least the share of a quantile beyond it: by its exponent, or where even a power law is too thin, with the
 * quantile as its outermost point.
 */
function thickened(side: Side, outer: Quantile, inner: Quantile): Side {
  const { far, farRarity, slope } = side;
  if (!(outer.size > far) || outer.rarity <= farRarity) return side;
  if (rarityOf(side, outer.size) <= outer.rarity + CLEARLY) return side;
  const ratio = outer.size / far;
  const wanted = (outer.rarity / farRarity - 1) / slope;
  if (wanted > (ratio ** POWER - 1) / POWER) {
    let [low, high] = [POWER, side.beyond];
    for (let k = 0; k < BISECTIONS; k++) {
      const middle = (low + high) / 2;
      if ((ratio ** middle - 1) / middle > wanted) high = middle;
      else low = middle;
    }
    return { ...side, beyond: low };
  }
  const index = Math.max(
    LEAST_INDEX,
    (outer.rarity - inner.rarity) / Math.log(outer.size / Math.max(side.anchor, inner.size)),
  );
  // Quantiles of counts may be equal, which does not make a larger count infinitely rare.
  const atFar = Math.min(LARGEST_SHAPE, index / outer.rarity);
  return { ...side, far: outer.size, farRarity: outer.rarity, slope: atFar, beyond: POWER };
}

/** Returns −ln of the share of a side that lies beyond a departure. */
function rarityOf(
  { scale, shape, anchor, rarity, far, farRarity, slope, beyond }: Side,
  size: number,
): number {
  if (size <= anchor) return (size / scale) ** shape;
  if (size <= far && far > anchor)
    return rarity * (size / anchor) ** (Math.log(farRarity / rarity) / Math.log(far / anchor));
  return farRarity * (1 + (slope / beyond) * ((size / far) ** beyond - 1));
}

export interface Tail {
  readonly centre: number;
  readonly above: Side;
  readonly below: Side;
  /** Distances from the centre that hold 99 % of all samples. */
  readonly bandAbove: number;
  readonly bandBelow: number;
}

/** Shares of a side beyond the quantiles that are used; the outermost 3 % may be anomalies. */
const SHARES = [0.5, 0.42, 0.35, 0.3, 0.25, 0.2, 0.16, 0.12, 0.08, 0.05, 0.03] as const;
const FEWEST_SHARES = 5;
/** Number of samples from which quantiles are taken; more would not change them. */
const MOST_SAMPLES = 20_000;
/** −ln of the share of a side outside a band that holds 99 %. */
const BAND = -Math.log(0.01);
const LEAST_SHAPE = 0.4;
const LARGEST_SHAPE = 2;

/** Median of the slopes between all pairs of points [N] but neighbours: a few wrong points do not move it. */
function medianSlope(x: Float64Array, y: Float64Array): number {
  const slopes = new Float64Array(((x.length - 1) * (x.length - 2)) / 2);
  let count = 0;
  for (let i = 0; i < x.length; i++) {
    for (let j = i + 2; j < x.length; j++) slopes[count++] = (y[j]! - y[i]!) / (x[j]! - x[i]!);
  }
  return quantileInPlace(slopes, count, 0.5);
}

/** Departures that this share of normal noise exceeds on one side, by SHARES. */
const NORMAL = [0.674, 0.806, 0.935, 1.036, 1.15, 1.282, 1.405, 1.555, 1.751, 1.96, 2.17] as const;
/** Fewest quantiles above the floor that give a shape; with fewer the tail is exponential. */
const FEWEST_ABOVE_FLOOR = 4;

/** Largest share of a side beyond an anchor. */
const MOST_BEYOND = 0.5;

interface Limits {
  readonly floor: number;
  /** Smallest standard deviation of the departures. */
  readonly sigma: number;
  /** Share of a side that a single anomaly may fill. */
  readonly spoilt: number;
  /** Allowance for a tail heavier than it looks (added to 1 / exponent), and the smallest exponent. */
  readonly doubt: number;
  readonly leastShape: number;
}

/** Limits for counted values: most steps used, most different sizes, fewest departures at a step, and fewest per size. */
const MOST_STEPS = 8;
const MOST_SIZES = 16;
const FEWEST_AT_STEP = 5;
const DEPARTURES_PER_STEP = 20;

/** Returns the sizes of counted departures above the floor, ascending, each with the share at least as large; empty for other values. */
function countedSteps(departures: Float64Array, n: number, floor: number): { size: number; share: number }[] {
  const sizes: number[] = [];
  for (let i = 0; i < n && sizes.length <= MOST_SIZES; i++)
    if (!sizes.includes(departures[i]!)) sizes.push(departures[i]!);
  if (sizes.length > MOST_SIZES) return [];
  const sorted = departures.slice(0, n).sort();
  const steps: { size: number; share: number }[] = [];
  let distinct = 0;
  for (let i = 0; i < n; i++) {
    if (i > 0 && sorted[i] === sorted[i - 1]) continue;
    if (++distinct * DEPARTURES_PER_STEP > n) return [];
    const share = (n - i) / n;
    if (sorted[i]! > floor && share < 1 && n - i >= FEWEST_AT_STEP && steps.length < MOST_STEPS)
      steps.push({ size: sorted[i]!, share });
  }
  return steps;
}

/** Sizes that the first `count` SHARES of a side [n] exceed, at least those of normal noise with this standard deviation. */
function quantilesOf(departures: Float64Array, n: number, count: number, sigma: number): Float64Array {
  const quantiles = new Float64Array(count);
  let from = 0;
  for (let i = 0; i < count; i++) {
    const quantile = n < 8 ? 0 : quantileInPlace(departures, n, 1 - SHARES[i]!, from);
    from = Math.floor((1 - SHARES[i]!) * (n - 1));
    quantiles[i] = Math.max(quantile, sigma * NORMAL[i]!);
  }
  return quantiles;
}

/** Writes the departures of a side into `side`; returns their number. */
function departuresInto(side: Float64Array, sample: Float64Array, centre: number, sign: number): number {
  let n = 0;
  for (let i = 0; i < sample.length; i++) {
    const departure = sign * (sample[i]! - centre);
    side[n] = departure;
    n += departure > 0 ? 1 : 0;
  }
  return n;
}

/** Number of the first `n` departures that are at least `least`. */
function countFrom(departures: Float64Array, n: number, least: number): number {
  let count = 0;
  for (let i = 0; i < n; i++) if (departures[i]! >= least) count++;
  return count;
}

// In typed arrays alone: arrays whose kind depends on their numbers had V8 compile this six times.
function fitSide(
  departures: Float64Array,
  n: number,
  { floor, sigma, spoilt, doubt, leastShape }: Limits,
): Side {
  const used = SHARES.filter((share, i) => share >= spoilt || i < FEWEST_SHARES).length;
  const outermost = SHARES[used - 1]!;
  const quantiles = quantilesOf(departures, n, used, sigma);
  const sizes = quantiles.filter((size) => size > floor);
  const steps = new Set(sizes).size < FEWEST_ABOVE_FLOOR ? countedSteps(departures, n, floor) : [];
  const scaleOf = (x: Float64Array, y: Float64Array, shape: number): number =>
    Math.exp(
      quantileInPlace(
        x.map((place, i) => y[i]! - place / shape),
        x.length,
        0.6,
      ),
    );
  if (steps.length >= 2) {
    const x = Float64Array.from(steps, ({ share }) => Math.log(-Math.log(share)));
    const y = Float64Array.from(steps, ({ size }) => Math.log(size));
    const slopes = x.subarray(1).map((place, i) => (y[i + 1]! - y[i]!) / (place - x[i]!));
    const slope = quantileInPlace(slopes, slopes.length, 0.5);
    const shape = Math.min(LARGEST_SHAPE, Math.max(leastShape, 1 / (slope + doubt)));
    return sideOf(scaleOf(x, y, shape), shape, steps.at(-1)!.share);
  }
  if (sizes.length < FEWEST_ABOVE_FLOOR) {
    // Almost all values are exactly as expected: the others need only exceed the floor.
    const anchor = Math.max(floor, quantiles.at(-1)!);
    // Many more counted values may be as large as the quantile: their share sets the scale.
    const share = Math.min(MOST_BEYOND, Math.max(outermost, countFrom(departures, n, anchor) / n));
    return sideOf(anchor / -Math.log(share), 1, share);
  }
  const x = Float64Array.from(SHARES, (share) => Math.log(-Math.log(share))).filter(
    (_, i) => quantiles[i]! > floor,
  );
  const y = sizes.map(Math.log);
  const shape = Math.min(
    LARGEST_SHAPE,
    Math.max(leastShape, 1 / (Math.max(1e-9, medianSlope(x, y)) + doubt)),
  );
  return sideOf(scaleOf(x, y, shape), shape, outermost);
}

/** Returns the departure that is this rare (−ln of the share of the side beyond it). */
function departureOf(
  { scale, shape, anchor, rarity, far, farRarity, slope, beyond }: Side,
  wanted: number,
): number {
  if (wanted <= rarity) return scale * Math.max(0, wanted) ** (1 / shape);
  if (wanted <= farRarity)
    return anchor * (wanted / rarity) ** (Math.log(far / anchor) / Math.log(farRarity / rarity));
  return far * (1 + (beyond * (wanted - farRarity)) / (slope * farRarity)) ** (1 / beyond);
}

/** Returns the departure in the direction of `sign` that gives a surprise of `wanted`. */
export function reachOf({ above, below }: Tail, sign: number, wanted: number): number {
  return departureOf(sign > 0 ? above : below, wanted - Math.LN2);
}

/** Smallest exponent of means, as a share of that of single values: a long anomaly makes their tail look heavier than it is. */
const AS_HEAVY = 0.8;

/** Distribution of the single values that means are taken over. */
interface Single {
  readonly tail: Tail;
  /** Standard deviation. */
  readonly sigma: number;
}

/** Copies every so many values, evenly spaced: at least `most` of a longer series, all of a shorter one. */
export function sampleOf(
  values: Float64Array,
  most = MOST_SAMPLES,
): { readonly sample: Float64Array; readonly stride: number } {
  const stride = Math.max(1, Math.floor(values.length / most));
  const sample = new Float64Array(Math.ceil(values.length / stride));
  for (let i = 0; i < sample.length; i++) sample[i] = values[i * stride]!;
  return { sample, stride };
}

/** Median of [N] values, the centre of their tails. */
export function centreOf(values: Float64Array): number {
  const { sample } = sampleOf(values);
  return quantileInPlace(sample, sample.length, 0.5);
}

/**
 * Fits the tails of [N] values; departures below `floor` > 0 count as `floor`. Means over `window` samples are not independent: quantiles
 * that a single anomaly could fill are left out, a heavier tail is allowed for, and `single` bounds scale and exponent from below.
 */
export function fitTail(values: Float64Array, floor: number, window = 1, single: Single | null = null): Tail {
  const { sample, stride } = sampleOf(values);
  const centre = quantileInPlace(sample.slice(), sample.length, 0.5);
  const side = new Float64Array(sample.length);
  const limits = {
    floor,
    sigma: single === null ? 0 : single.sigma / Math.sqrt(window),
    spoilt: (6 * window) / values.length,
    doubt: 1.5 * Math.sqrt(window / values.length),
  };
  const fitted = (sign: 1 | -1): Side => {
    const known = sign > 0 ? single?.tail.above : single?.tail.below;
    const leastShape = known === undefined ? LEAST_SHAPE : AS_HEAVY * Math.min(NORMAL_SHAPE, known.shape);
    const count = departuresInto(side, sample, centre, sign);
    // What lies on the centre belongs to either side.
    const n = Math.max(count, 1, sample.length >> 1);
    side.fill(0, count, n);
    return fitSide(side, n, { ...limits, leastShape });
  };
  const sides = [fitted(1), fitted(-1)] as const;
  const maxima = maximaOf(sample, centre, window / stride, floor);
  const [above, below] =
    maxima === null
      ? sides
      : withExtremes(
          [withMaxima(sides[0], maxima.up, maxima), withMaxima(sides[1], maxima.down, maxima)],
          maxima,
        );
  return { centre, above, below, bandAbove: departureOf(above, BAND), bandBelow: departureOf(below, BAND) };
}

/** Returns −ln of the share of samples that depart as far in the direction of `departure`; at least ln 2. */
export function surprise({ above, below }: Tail, departure: number): number {
  return Math.LN2 + rarityOf(departure >= 0 ? above : below, Math.abs(departure));
}

/** Severity with values above 10 on a logarithmic scale. */
export const tempered = (severity: number): number =>
  severity <= 10 ? severity : 10 * (1 + Math.log(severity / 10));
