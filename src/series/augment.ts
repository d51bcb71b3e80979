/**
 * Random changes of a series that leave its class as it is: jitter, magnitude warping, time warping, window slicing (Um et al. 2017, "Data
 * augmentation of wearable sensor data"; Le Guennec et al. 2016) and mirrored values. Strengths are drawn evenly from 0 to those given.
 */
import type { Random } from '../ground/random.ts';

/** Share of the series of training that stay as they are, as in evaluation. */
export const UNCHANGED = 0.25;

/** Largest strengths; 0: none. */
export interface Augmentation {
  /** Standard deviation of white noise, in those of the channel. */
  readonly jitter: number;
  /** Standard deviation of the logarithm of a factor that varies smoothly along the series. */
  readonly scale: number;
  /** Standard deviation of the logarithm of the speed of time, which varies as smoothly. */
  readonly warp: number;
  /** Share of the series that is cut off at its ends, in [0, 1); the rest is stretched to the same length. */
  readonly crop: number;
  /** Probability of values mirrored at their mean. */
  readonly flip: number;
}

/** Random values along a smooth curve. */
const KNOTS = 5;

/** Smooth curve of standard normal heights: cosine interpolation between knots. [length] */
function curve(random: Random, length: number): Float64Array {
  const heights = Array.from({ length: KNOTS }, () => random.normal());
  return Float64Array.from({ length }, (_, t) => {
    const at = (t * (KNOTS - 1)) / Math.max(1, length - 1);
    const knot = Math.min(KNOTS - 2, Math.floor(at));
    const share = (1 - Math.cos(Math.PI * (at - knot))) / 2;
    return heights[knot]! * (1 - share) + heights[knot + 1]! * share;
  });
}

/** Linear interpolation at a position, constant beyond both ends; NaN beside a missing point. */
export function valueAt(values: Float64Array, at: number): number {
  const position = Math.min(values.length - 1, Math.max(0, at));
  const below = Math.floor(position);
  const share = position - below;
  return share === 0 ? values[below]! : values[below]! * (1 - share) + values[below + 1]! * share;
}

/** Positions of the new points in the old series, ascending; null: as they are. [length] */
function positions(random: Random, { warp, crop }: Augmentation, length: number): Float64Array | null {
  if (warp === 0 && crop === 0) return null;
  const [strength, kept] = [random.between(0, warp), 1 - random.between(0, crop)];
  const start = random.between(0, 1 - kept);
  const way = curve(random, length).map((height) => Math.exp(strength * height));
  for (let t = 1; t < length; t++) way[t] = way[t - 1]! + way[t]!;
  const [first, last] = [way[0]!, way[length - 1]!];
  return way.map((sum) => (length - 1) * (start + (kept * (sum - first)) / (last - first)));
}

/** Share of the draws in which a rough series is read at its nearest points. */
const NEAREST = 0.5;

/**
 * Returns true for a series that mostly turns back from one step to the next. Interpolation takes more than half of the variance of its steps
 * away, and it looks like another series.
 */
function isRough(values: Float64Array): boolean {
  let products = 0;
  for (let t = 2; t < values.length; t++) {
    const product = (values[t]! - values[t - 1]!) * (values[t - 1]! - values[t - 2]!);
    if (!Number.isNaN(product)) products += product;
  }
  return products < 0;
}

/**
 * Changes the channels of a series [C][N], at least 2 points, into others of the same shape; time runs alike in all of them. Missing points
 * (NaN) stay missing. Values between points are interpolated; half of the draws of a rough series take the nearest points instead.
 */
export function augment(
  channels: readonly Float64Array[],
  options: Augmentation,
  random: Random,
): Float64Array[] {
  const length = channels[0]!.length;
  const places = positions(random, options, length);
  const isFlipped = random.uniform() < options.flip;
  const isNearest = random.uniform() < NEAREST;
  return channels.map((channel) => {
    const nearest = isNearest && isRough(channel);
    const at = (place: number): number => (nearest ? channel[Math.round(place)]! : valueAt(channel, place));
    const values = places === null ? channel.slice() : places.map(at);
    const known = values.filter((value) => !Number.isNaN(value));
    const mean = known.reduce((sum, value) => sum + value, 0) / known.length;
    const std = Math.sqrt(known.reduce((sum, value) => sum + (value - mean) ** 2, 0) / known.length);
    const factor = random.between(0, options.scale);
    const noise = std * random.between(0, options.jitter);
    const heights = options.scale === 0 ? null : curve(random, length);
    for (let t = 0; t < length; t++) {
      const deviation = (isFlipped ? -1 : 1) * (values[t]! - mean);
      const scaled = heights === null ? deviation : deviation * Math.exp(factor * heights[t]!);
      values[t] = mean + scaled + (noise === 0 ? 0 : noise * random.normal());
    }
    return values;
  });
}
