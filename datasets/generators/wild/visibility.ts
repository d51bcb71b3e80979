/**
 * Visibility of a change to an oracle that knows the unmodified series: the signal-to-noise ratio of the change.
 *
 * Of the unmodified readings y the generator knows the expected value m and the standard deviation c of the unpredictable part; z = (y − m) / c
 * has about unit size, whatever the hour. The correlation of neighbours is removed: w[t] = z[t] − φ·z[t − 1] with φ the correlation
 * of neighbours, so that a walk is measured by its steps. A change d in [start, end) becomes ω[t] = d[t]/c[t] − φ·d[t − 1]/c[t − 1], and
 *
 *     visibility = √Σ ω² / σ        σ: standard deviation of w without its outliers (from the median of |w|)
 *
 * the signal-to-noise ratio of a filter that knows the change (in white noise: rms(d)/σ · √length). No change counts for more than it does in a
 * picture: c·σ is at least a hundredth of the usual range of the unmodified readings, and of their whole range 0.6 %.
 *
 * Such a filter would see a change of the noise far too early. Of changes of variance the visibility is the logarithm of the ratio of variances of w
 * in standard errors, √((κ − 1)/length) with κ the kurtosis of w. And what is usual is no anomaly: spikes, and all that is shorter than five
 * samples, must depart further than the third largest of what the series does by itself, and values that stand still must do so for longer than ever before.
 */
import { extent } from '../../../src/ground/numbers.ts';
import type { Draft } from './draft.ts';
import type { Sensor } from './sensor.ts';

/** Signal-to-noise ratio from which a change is labelled. */
export const VISIBLE = 6;
/** Signal-to-noise ratio for values that stand still: nothing else in a moving series looks like them. */
export const VISIBLE_STILL = VISIBLE / 2;
/** Minimum severity in standard deviations, however long a change lasts, unless values stand still. */
const LEAST_SEVERITY = 0.7;
/** Minimum size of a labelled lone departure, relative to the third largest to the same side in the unmodified series. */
export const BEYOND_USUAL = 1.3;
/** Minimum length of a labelled standstill, relative to the longest one before; two samples are added. */
const LONGER_THAN_USUAL = 1.5;
/** Changes of fewer samples are lone departures. */
const LONE = 5;
/** Shares of the usual and of the whole range below which nothing shows. */
const RESOLUTION = 0.01;
const RESOLUTION_OF_ALL = 0.006;

/** Target of a change: values, single outliers, the size of the noise, or movement itself. */
export type Judged = 'values' | 'spike' | 'noise' | 'still';

interface Judgement {
  /** Root mean square of the change, in standard deviations of the unpredictable part of each sample. */
  readonly severity: number;
  readonly visibility: number;
  readonly visible: boolean;
}

/** Length of the longest run of equal present values in [start, end). */
export function longestStill(values: Float64Array, start: number, end: number): number {
  let longest = 0;
  let length = 0;
  let previous = Number.NaN;
  for (let t = start; t < end; t++) {
    const value = values[t]!;
    if (Number.isNaN(value)) continue;
    length = value === previous ? length + 1 : 1;
    previous = value;
    if (length > longest) longest = length;
  }
  return longest;
}

const quantile = (sorted: Float64Array, share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))]!;

/** Maximum number of samples for quantiles, taken at even distances. */
const SAMPLE = 512;

function sortedSample(values: Float64Array): Float64Array {
  const stride = Math.ceil(values.length / SAMPLE);
  const sample = new Float64Array(Math.floor(values.length / stride));
  for (let k = 0; k < sample.length; k++) sample[k] = values[k * stride]!;
  return sample.sort();
}

/** Keeps the three largest values in descending order. */
function keepLargest(top: number[], value: number): void {
  if (value <= top[2]!) return;
  if (value <= top[1]!) top[2] = value;
  else {
    top[2] = top[1]!;
    if (value <= top[0]!) top[1] = value;
    else {
      top[1] = top[0]!;
      top[0] = value;
    }
  }
}

/** Range of the middle 98 % of a series without missing points. */
export function usualRange(clean: Float64Array): readonly [low: number, high: number] {
  const sorted = sortedSample(clean);
  return [quantile(sorted, 0.01), quantile(sorted, 0.99)];
}

/** Statistics of an unmodified series. */
export class Usual {
  readonly #clean: Float64Array;
  readonly #expected: Float64Array;
  /** c, at least [N]. */
  readonly #scale: Float64Array;
  readonly #memory: number;
  readonly #sigma: number;
  readonly #kurtosis: number;
  readonly #third: readonly [down: number, up: number];
  readonly #still: number;
  readonly #floor: number;
  readonly extremes: readonly [low: number, high: number];

  /** @param clean readings without anomalies and without missing points [N] @param range their `usualRange` */
  constructor(
    clean: Float64Array,
    [low, high]: readonly [number, number],
    { n, level, pattern, deviation }: Draft,
    sensor: Sensor,
  ) {
    this.#clean = clean;
    const [least, most] = extent(clean);
    this.extremes = [least, most];
    const width = high - low || most - least || 1;
    const floor = Math.max(
      RESOLUTION * width,
      RESOLUTION_OF_ALL * (most - least),
      sensor.quantum / Math.sqrt(12),
    );
    const expected = new Float64Array(n);
    const scale = new Float64Array(n);
    const z = new Float64Array(n);
    let [mean, square, product] = [0, 0, 0];
    for (let t = 0; t < n; t++) {
      const latent = level[t]! + pattern[t]!;
      expected[t] = sensor.expected(latent);
      scale[t] = Math.max(floor, sensor.spread(latent, deviation[t]!));
      z[t] = (clean[t]! - expected[t]!) / scale[t]!;
      mean += z[t]! / n;
    }
    for (let t = 0; t < n; t++) {
      const centred = z[t]! - mean;
      square += centred * centred;
      if (t > 0) product += centred * (z[t - 1]! - mean);
    }
    this.#expected = expected;
    this.#scale = scale;
    this.#memory = square > 0 ? Math.min(1, Math.max(0, product / square)) : 0;
    const size = new Float64Array(n - 1); // |w|
    let [second, fourth] = [0, 0];
    const above = [0, 0, 0];
    const below = [0, 0, 0];
    for (let t = 1; t < n; t++) {
      const signed = z[t]! - mean - this.#memory * (z[t - 1]! - mean);
      const w = Math.abs(signed);
      size[t - 1] = w;
      second += (w * w) / n;
      fourth += (w * w * w * w) / n;
      keepLargest(signed > 0 ? above : below, w);
    }
    const sample = sortedSample(size);
    // The median of |N(0, 1)| is 0.6745.
    this.#sigma = Math.max(quantile(sample, 0.5) / 0.6745, floor / width);
    this.#kurtosis = Math.min(12, Math.max(3, second > 0 ? fourth / second ** 2 : 3));
    this.#third = [below[2]!, above[2]!];
    this.#still = longestStill(clean, 0, n);
    this.#floor = floor;
  }

  /** Standard deviation at a sample given the samples before it, in units of the readings; at least a hundredth of the range. */
  spreadAt(t: number): number {
    return Math.max(this.#floor, this.#scale[t]! * this.#sigma);
  }

  /** Distance of a sample from its expected value, in its standard deviations; a missing one as if it were unmodified. */
  #z(values: Float64Array, t: number): number {
    const value = Number.isNaN(values[t]) ? this.#clean[t]! : values[t]!;
    return (value - this.#expected[t]!) / this.#scale[t]!;
  }

  /** Judges a change of the readings in [start, end). @param of what is changed */
  judge(changed: Float64Array, start: number, end: number, of: Judged): Judgement {
    const clean = this.#clean;
    const scale = this.#scale;
    const memory = this.#memory;
    let [sum, energy, largest, inside, present] = [0, 0, 0, 0, 0];
    let before = 0;
    const until = Math.min(clean.length, end + 1);
    for (let t = start; t < until; t++) {
      // A missing point shows nothing.
      const missing = Number.isNaN(changed[t]);
      const difference = missing ? 0 : changed[t]! - clean[t]!;
      const scaled = difference / scale[t]!;
      const spread = this.spreadAt(t) / scale[t]!;
      const step = (scaled - memory * before) / spread;
      energy += step * step;
      before = scaled;
      if (t >= end || missing) continue;
      present++;
      sum += (difference / this.spreadAt(t)) ** 2;
      const w = this.#z(changed, t) - memory * (t === 0 ? 0 : this.#z(changed, t - 1));
      inside += w * w;
      if (Math.abs(w) > Math.abs(largest)) largest = w;
    }
    const severity = Math.sqrt(sum / present);
    const size = Math.sqrt(energy);
    if (of === 'noise') {
      const ratio = Math.log((inside / present + 1e-12) / this.#sigma ** 2);
      const visibility = Math.abs(ratio) / Math.sqrt((this.#kurtosis - 1) / present);
      return { severity, visibility, visible: visibility >= VISIBLE && severity >= LEAST_SEVERITY };
    }
    const far = Math.abs(largest) >= BEYOND_USUAL * this.#third[largest > 0 ? 1 : 0];
    if (of === 'still') {
      const longer = longestStill(changed, start, end) >= LONGER_THAN_USUAL * this.#still + 2;
      return { severity, visibility: size, visible: size >= VISIBLE_STILL && (longer || far) };
    }
    const long = of === 'values' && end - start >= LONE;
    return {
      severity,
      visibility: size,
      visible: size >= VISIBLE && severity >= LEAST_SEVERITY && (long || far),
    };
  }
}
