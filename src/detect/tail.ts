/**
 * How rare a departure is among those that a series usually has. Each side of the distribution gets a Weibull tail
 * P(d > x) = ½·exp(−(x/σ)^κ), fitted to quantiles from the median outwards and never to the extremes: normal noise gives κ ≈ 1.4, Laplace
 * 1, heavier tails less. A fit to the extremes themselves would call nothing rare that is there; but what comes at many places of the
 * series is not rare, and where the quantiles tell of a thinner tail than these places do, they count.
 */
import { quantileInPlace } from '../series/stats.ts';

/** One side of a distribution around its centre. */
interface Side {
  readonly scale: number;
  readonly shape: number;
  /** The outermost quantile that was read, and −ln of the share of the side beyond it. */
  readonly anchor: number;
  readonly rarity: number;
  /** The same of the maxima of parts of the series where they lie further out than the exponent lets expect; else of the anchor. */
  readonly far: number;
  readonly farRarity: number;
  /** Exponent at the outermost of them. */
  readonly slope: number;
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
  const anchor = scale * rarity ** (1 / shape);
  return { scale, shape, anchor, rarity, far: anchor, farRarity: rarity, slope: shape, beyond };
}

/** Parts of a series of which the largest departures are read. */
const PARTS = 64;
/** Windows in a part, at least. */
const WINDOWS_IN_PART = 2;
/** So large a share of the parts may hold what is looked for; and another that tells how fast the maxima get rarer. */
const OUTER = 0.25;
const INNER = 0.55;
/** So many places may; parts nearer to one another than this share of the series are one place. */
const PLACES = 4;
const NEAR = 0.05;
/** The maxima must be so much more often as large than the tail has it (−ln of a share): their quantiles are of few. */
const CLEARLY = Math.log(1.5);
/** Exponent of what is taken for the tail of a power, and its least index. */
const POWER = 0.02;
const LEAST_INDEX = 2;
const BISECTIONS = 8;

/** A size, and −ln of the share of a side beyond it. */
interface Quantile {
  readonly size: number;
  readonly rarity: number;
}

/** Departures so many times as large as all smaller ones are of another kind than these, if they are in at most this share of the parts. */
const GAP = 2;
const MOST_OF_KIND = 0.5;

/** The largest departure of each part of a series, by time and side; 0 in parts with one of another kind. */
interface Maxima {
  readonly up: Float64Array;
  readonly down: Float64Array;
  /** Parts without one of another kind, and windows in them, of samples that do not overlap. */
  readonly parts: number;
  readonly windows: number;
}

/** Maxima of [N] departures, by time, of windows of so many samples; null where the parts are too short. */
function maximaOf(departures: Float64Array, window: number): Maxima | null {
  const n = departures.length;
  if (n < PARTS * WINDOWS_IN_PART * window) return null;
  const [up, down] = [new Float64Array(PARTS), new Float64Array(PARTS)];
  for (let i = 0; i < n; i++) {
    const part = Math.floor((i * PARTS) / n);
    up[part] = Math.max(up[part]!, departures[i]!);
    down[part] = Math.max(down[part]!, -departures[i]!);
  }
  const [most, least] = [largestOfKind(up), largestOfKind(down)];
  let parts = PARTS;
  for (let k = 0; k < PARTS; k++) {
    if (up[k]! <= most && down[k]! <= least) continue;
    up[k] = down[k] = 0;
    parts--;
  }
  return { up, down, parts, windows: ((n / window) * parts) / PARTS };
}

/** The largest maximum that is not of another kind: tails of any law are dense but for their last few values. */
function largestOfKind(maxima: Float64Array): number {
  const sorted = maxima.slice().sort();
  for (let k = Math.ceil((1 - MOST_OF_KIND) * PARTS); k < PARTS - PLACES; k++)
    if (sorted[k]! > GAP * sorted[k - 1]!) return sorted[k - 1]!;
  return Infinity;
}

/**
 * A side whose quantiles tell of a thinner tail than the maxima of parts of the series do: what comes in a quarter of all parts is not
 * rare, while one anomaly is the maximum of one part, or of a few.
 */
function withMaxima(side: Side, sizes: Float64Array, { parts, windows }: Maxima): Side {
  const sorted = sizes.slice().sort();
  // Of the side: a surprise is of the whole.
  const at = (share: number): Quantile => ({
    size: sorted[PARTS - Math.ceil(share * parts)]!,
    rarity: Math.log(windows / parts / -Math.log(1 - share)) - Math.LN2,
  });
  return thickened(side, at(OUTER), at(INNER));
}

/** −ln of the share of a side beyond the fifth of the rarest departures that are far from each other in time. */
function fifthPlace(above: Side, below: Side, { up, down }: Maxima): number {
  const rarities = up.map((size, k) => Math.max(rarityOf(above, size), rarityOf(below, down[k]!)));
  const order = Array.from(rarities.keys()).sort((i, j) => rarities[j]! - rarities[i]!);
  const taken: number[] = [];
  let apart = 0;
  for (const k of order) {
    if (taken.every((other) => Math.abs(other - k) > NEAR * PARTS)) apart++;
    if (apart > PLACES) return rarities[k]!;
    taken.push(k);
  }
  return 0;
}

/**
 * Sides by which departures at five places far from each other are as rare as there are such places: a fit to the extremes but for those
 * that may be what is looked for. Where the sides are too thin for that, both tails become more like those of powers.
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
 * A side that has at least the share of a quantile beyond it: by the exponent that fits it, or with the quantile as its outermost where even
 * the tail of a power is too thin.
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
  return { ...side, far: outer.size, farRarity: outer.rarity, slope: index / outer.rarity, beyond: POWER };
}

/** −ln of the share of a side that lies beyond a departure. */
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
function departureOf(
  { scale, shape, anchor, rarity, far, farRarity, slope, beyond }: Side,
  wanted: number,
): number {
  if (wanted <= rarity) return scale * Math.max(0, wanted) ** (1 / shape);
  if (wanted <= farRarity)
    return anchor * (wanted / rarity) ** (Math.log(far / anchor) / Math.log(farRarity / rarity));
  return far * (1 + (beyond * (wanted - farRarity)) / (slope * farRarity)) ** (1 / beyond);
}

/** How far one must depart in the direction of `sign` for a surprise. */
export function reachOf({ above, below }: Tail, sign: number, wanted: number): number {
  return departureOf(sign > 0 ? above : below, wanted - Math.LN2);
}

/** Means may have this part of the exponent of single values: an anomaly that is long makes the tail of means look heavier than it is. */
const AS_HEAVY = 0.8;

/** The values that means are of. */
interface Single {
  readonly tail: Tail;
  /** Standard deviation. */
  readonly sigma: number;
}

/** Every so many values, evenly spaced, at least MOST_SAMPLES of a longer series; a copy. */
function sampleOf(values: Float64Array): { readonly sample: Float64Array; readonly stride: number } {
  const stride = Math.max(1, Math.floor(values.length / MOST_SAMPLES));
  const sample = new Float64Array(Math.ceil(values.length / stride));
  for (let i = 0; i < sample.length; i++) sample[i] = values[i * stride]!;
  return { sample, stride };
}

/** Centre of the tails of [N] values, their median, without the fit of the tails. */
export function centreOf(values: Float64Array): number {
  const { sample } = sampleOf(values);
  return quantileInPlace(sample, sample.length, 0.5);
}

/** The tails of [N] values; departures below `floor` > 0 count as `floor`. Values that are means over
 * `window` samples are not independent: one anomaly may fill a share of a side, so that quantiles further out are not read, and the
 * fewer independent ones there are, the heavier the tail may be; they vary at least as much as means of independent
 * values, and their tails are hardly heavier than those of the `single` values. A stride through long series stands for all. */
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
  const sides = [fitted(1), fitted(-1)] as const;
  const maxima = maximaOf(
    sample.map((value) => value - centre),
    window / stride,
  );
  const [above, below] =
    maxima === null
      ? sides
      : withExtremes(
          [withMaxima(sides[0], maxima.up, maxima), withMaxima(sides[1], maxima.down, maxima)],
          maxima,
        );
  return { centre, above, below, bandAbove: departureOf(above, BAND), bandBelow: departureOf(below, BAND) };
}

/** −ln of the share of samples that depart as far in the direction of `departure`, at least ln 2. */
export function surprise({ above, below }: Tail, departure: number): number {
  return Math.LN2 + rarityOf(departure >= 0 ? above : below, Math.abs(departure));
}

/** Beyond 10 no one counts: what is rarer still grows by its logarithm. */
export const tempered = (severity: number): number =>
  severity <= 10 ? severity : 10 * (1 + Math.log(severity / 10));
