/** The features of a single channel: distribution, trend, steps, frequencies, pulses, energy in time. */
import { spectrum } from '../series/spectrum.ts';
import { moments, quantileInPlace, summarise } from '../series/stats.ts';
import { mannKendall, theilSen } from '../series/trend.ts';
import { BAND_EDGES, STRETCHES } from './feature-kinds.ts';

/** Blocks whose means stand for a long series in the Theil–Sen line, whose cost is quadratic. */
const LINE_BLOCKS = 120;
/** Lags up to which the autocorrelation is followed down. */
const LONGEST_MEMORY = 500;

/** Features of one channel [N] of finite values, in the order of CHANNEL_KINDS; `missing` is the share that was bridged. */
export function channelFeatures(values: Float64Array, missing: number): number[] {
  const { mean, std, min, max, median, skew, excessKurtosis } = summarise(values);
  // Equal values have no shape: what is measured in standard deviations is 0.
  const unit = std === 0 ? 1 : std;
  const standard = values.map((value) => (value - mean) / unit);
  return [
    ...distribution(values, { mean, std, min, max, median, skew, excessKurtosis, unit }),
    ...trend(standard),
    ...steps(standard),
    ...frequencies(standard),
    ...pulses(standard),
    ...energy(standard, (median - mean) / unit),
    ...stretches(standard),
    missing,
  ];
}

interface Level {
  readonly mean: number;
  readonly std: number;
  readonly min: number;
  readonly max: number;
  readonly median: number;
  readonly skew: number;
  readonly excessKurtosis: number;
  readonly unit: number;
}

function distribution(values: Float64Array, level: Level): number[] {
  const { mean, std, min, max, median, skew, excessKurtosis, unit } = level;
  const n = values.length;
  const scratch = values.slice();
  const range = quantileInPlace(scratch, n, 0.9) - quantileInPlace(scratch, n, 0.1);
  const near = (max - min) / 20;
  const share = (is: (value: number, i: number) => boolean): number => {
    let count = 0;
    for (let i = 0; i < n; i++) if (is(values[i]!, i)) count++;
    return count / n;
  };
  const flat = min === max;
  return [
    mean,
    std,
    range,
    flat ? 0 : skew,
    flat ? 0 : excessKurtosis + 3,
    (max - median) / unit,
    (median - min) / unit,
    share((value) => value <= min + near),
    share((value) => value >= max - near),
    share((value) => value > (min + max) / 2),
    share((value, i) => i > 0 && value === values[i - 1]),
    share((value) => value === 0),
    longestQuiet(values, near) / n,
  ];
}

/** Samples of the longest stretch whose values span less than `width`, grown greedily from left to right. */
function longestQuiet(values: Float64Array, width: number): number {
  let longest = 0;
  let start = 0;
  let low = values[0]!;
  let high = low;
  for (let i = 0; i < values.length; i++) {
    const value = values[i]!;
    low = Math.min(low, value);
    high = Math.max(high, value);
    if (high - low > width) {
      start = i;
      low = value;
      high = value;
    }
    longest = Math.max(longest, i + 1 - start);
  }
  return longest;
}

function trend(standard: Float64Array): number[] {
  const n = standard.length;
  const blocks = Math.min(n, LINE_BLOCKS);
  const means = Float64Array.from({ length: blocks }, (_, b) => {
    return moments(standard, Math.floor((b * n) / blocks), Math.floor(((b + 1) * n) / blocks)).mean;
  });
  return [mannKendall(standard)?.tau ?? 0, (theilSen(means)?.slope ?? 0) * (blocks - 1)];
}

function steps(standard: Float64Array): number[] {
  const n = standard.length;
  let largest = 0;
  let squares = 0;
  let cubes = 0;
  let jumps = 0;
  let crossings = 0;
  let turns = 0;
  let before = 0;
  for (let i = 1; i < n; i++) {
    const step = standard[i]! - standard[i - 1]!;
    largest = Math.max(largest, Math.abs(step));
    squares += step * step;
    cubes += step * step * step;
    if (Math.abs(step) > 1) jumps++;
    if (standard[i]! >= 0 !== standard[i - 1]! >= 0) crossings++;
    if (step !== 0) {
      if (step * before < 0) turns++;
      before = step;
    }
  }
  const count = Math.max(1, n - 1);
  const rough = Math.sqrt(squares / count);
  const per = 100 / n;
  return [
    rough,
    largest,
    jumps * per,
    squares === 0 ? 0 : cubes / count / rough ** 3,
    crossings * per,
    turns * per,
  ];
}

function frequencies(standard: Float64Array): number[] {
  const n = standard.length;
  const bands = BAND_EDGES.length - 1;
  const { re, im } = spectrum(standard);
  const last = re.length - 1;
  const power = re.map((value, k) => value * value + im[k]! * im[k]!);
  power[0] = 0;
  let total = 0;
  let weighted = 0;
  let peak = 1;
  const inBand = new Float64Array(bands);
  for (let k = 1; k <= last; k++) {
    const own = power[k]!;
    total += own;
    weighted += own * k;
    if (own > power[peak]!) peak = k;
    const frequency = k / n;
    let band = bands - 1;
    while (band > 0 && frequency < BAND_EDGES[band]!) band--;
    inBand[band]! += own;
  }
  const none = [n, 0, 0, 0, 0, 0, 0, ...inBand];
  // A constant series transforms to rounding errors.
  if (last < 1 || total <= 1e-20 * n * n) return none;
  let entropy = 0;
  for (let k = 1; k <= last; k++) {
    const p = power[k]! / total;
    if (p > 0) entropy -= p * Math.log(p);
  }
  let line = 0;
  for (let k = Math.max(1, peak - 1); k <= Math.min(last, peak + 1); k++) line += power[k]!;
  const period = n / peak;
  const correlation = (lag: number): number => {
    if (lag >= n) return 0;
    let sum = 0;
    for (let i = lag; i < n; i++) sum += standard[i]! * standard[i - lag]!;
    return sum / n;
  };
  let memory = 1;
  const furthest = Math.min(n - 1, n >> 2, LONGEST_MEMORY);
  while (memory < furthest && correlation(memory) > Math.exp(-1)) memory++;
  return [
    period,
    line / total,
    correlation(Math.round(period)),
    memory,
    correlation(1),
    (100 * weighted) / total / n,
    last > 1 ? entropy / Math.log(last) : 0,
    ...inBand.map((own) => own / total),
  ];
}

/** Excursions above one standard deviation; they end where the mean is reached, so that ripples do not count twice. */
function pulses(standard: Float64Array): number[] {
  const n = standard.length;
  const places: number[] = [];
  let heights = 0;
  let widths = 0;
  let at = -1;
  for (let i = 0; i < n; i++) {
    const value = standard[i]!;
    if (value > 1) {
      widths++;
      if (at < 0 || value > standard[at]!) at = i;
    }
    if (at >= 0 && (value <= 0 || i === n - 1)) {
      places.push(at);
      heights += standard[at]!;
      at = -1;
    }
  }
  const count = places.length;
  const gaps = Float64Array.from(places.slice(1), (place, i) => place - places[i]!);
  const spacing = gaps.length < 2 ? null : moments(gaps);
  return [
    (1000 * count) / n,
    count === 0 ? Number.NaN : heights / count,
    count === 0 ? Number.NaN : widths / count,
    spacing === null ? Number.NaN : spacing.std / spacing.mean,
  ];
}

/** Where the energy lies: sixteenths, the largest deflection from `centre` and its flanks, first and second moment. */
function energy(standard: Float64Array, centre: number): number[] {
  const n = standard.length;
  const parts = Math.min(16, n);
  const own = new Float64Array(parts);
  let at = 0;
  let total = 0;
  let first = 0;
  for (let i = 0; i < n; i++) {
    const square = standard[i]! ** 2;
    own[Math.floor((i * parts) / n)]! += square;
    total += square;
    first += square * i;
    if (Math.abs(standard[i]! - centre) > Math.abs(standard[at]! - centre)) at = i;
  }
  const { mean, std } = moments(own);
  const half = Math.abs(standard[at]! - centre) / 2;
  const sign = Math.sign(standard[at]! - centre);
  let left = at;
  while (left > 0 && (standard[left]! - centre) * sign > half) left--;
  let right = at;
  while (right < n - 1 && (standard[right]! - centre) * sign > half) right++;
  if (total === 0) return [0, 0.5, 0, 0, 0.5, 0];
  const middle = first / total;
  let second = 0;
  for (let i = 0; i < n; i++) second += standard[i]! ** 2 * (i - middle) ** 2;
  return [
    mean === 0 ? 0 : std / mean,
    at / n,
    at - left,
    right - at,
    middle / n,
    Math.sqrt(second / total) / n,
  ];
}

/** 0 for what rounding leaves of it, in standard deviations. */
function unlessRounding(value: number): number {
  return Math.abs(value) < 1e-9 ? 0 : value;
}

function stretches(standard: Float64Array): number[] {
  const n = standard.length;
  const parts = Array.from({ length: STRETCHES }, (_, s) => {
    const start = Math.min(n - 1, Math.floor((s * n) / STRETCHES));
    return moments(standard, start, Math.max(start + 1, Math.floor(((s + 1) * n) / STRETCHES)));
  });
  return [...parts.map(({ mean }) => mean), ...parts.map(({ std }) => std)].map(unlessRounding);
}
