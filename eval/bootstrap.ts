/**
 * Bootstrap intervals (Efron & Tibshirani 1993, percentile method). The unit that is resampled is the series: a
 * value that was measured several times on one series enters as that series' mean.
 */
import { DataError } from '../src/ground/errors.ts';
import { Random } from '../src/ground/random.ts';
import type { Estimate } from '../src/ground/types.ts';

export interface BootstrapOptions {
  /** Same seed, same data: same interval. Default 0. */
  readonly seed?: number;
  /** Number of resamples. Default 2000. */
  readonly resamples?: number;
}

const TWO_32 = 0x1_0000_0000;
const RESAMPLES = 2000;
/** Of more series than these the mean of a resample is normal to within the noise of 2000 resamples, and need not be drawn. */
const MANY = 10_000;
/** 97.5 % of a standard normal distribution lie below it. */
const Z_975 = 1.959963984540054;

/** Quantile q in [0, 1] of sorted values, linear between neighbours. */
function quantile(sorted: Float64Array, q: number): number {
  const position = q * (sorted.length - 1);
  const below = Math.floor(position);
  const lo = sorted[below]!;
  const hi = sorted[Math.min(below + 1, sorted.length - 1)]!;
  return lo + (position - below) * (hi - lo);
}

function meanOf(values: ArrayLike<number>): number {
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += values[i]!;
  return sum / values.length;
}

/**
 * Numbers of a whole set of series that are no means over them, such as a macro F1: their values for the series with these
 * indices into the set, of which some may come several times and some not at all. NaN where one is not defined for them.
 */
export type SetMeasure<Name extends string> = (indices: ArrayLike<number>) => Readonly<Record<Name, number>>;

/** An estimate from its value on the whole set and on the resamples where it is defined. */
function around(mean: number, resampled: Float64Array, n: number): Estimate {
  const sorted = resampled.filter((one) => !Number.isNaN(one)).sort();
  if (sorted.length === 0) return { mean, ci95: [mean, mean], n };
  return { mean, ci95: [quantile(sorted, 0.025), quantile(sorted, 0.975)], n };
}

/** The mean of many values with the interval of its normal distribution. */
function normalEstimate(values: Float64Array): Estimate {
  const n = values.length;
  const mean = meanOf(values);
  let squares = 0;
  for (let i = 0; i < n; i++) squares += (values[i]! - mean) ** 2;
  const half = (Z_975 * Math.sqrt(squares / n)) / Math.sqrt(n);
  return { mean, ci95: [mean - half, mean + half], n };
}

function checkColumns(names: readonly string[], data: readonly Float64Array[]): void {
  const n = data[0]?.length ?? 0;
  data.forEach((column, c) => {
    if (column.length === 0) throw new DataError(`estimate of ${names[c]}: no series; leave the group out`);
    if (column.length !== n) {
      throw new DataError(`estimate of ${names[c]}: ${column.length} values beside ${n} of ${names[0]}`);
    }
    if (!column.every(Number.isFinite)) {
      throw new DataError(`estimate of ${names[c]}: a value is not a finite number; score failures as 0`);
    }
  });
}

/** Calls back with the indices of each resample of n series; the list is the same one every time. */
function forResamples(
  n: number,
  options: BootstrapOptions,
  visit: (drawn: Uint32Array, r: number) => void,
): void {
  const { seed = 0, resamples = RESAMPLES } = options;
  const random = new Random(seed, 'bootstrap', n);
  const drawn = new Uint32Array(n);
  for (let r = 0; r < resamples; r++) {
    for (let i = 0; i < n; i++) drawn[i] = Math.floor((random.uint32() / TWO_32) * n);
    visit(drawn, r);
  }
}

/**
 * Means of several measurements of the same n series, each with its 95 % interval. Every resample draws the same
 * series for all columns, so the cost of drawing is paid once: O(resamples · n · columns). Of more than 10 000 series the
 * interval is the limit that the bootstrap has there, mean ± 1.96 · standard error.
 * @throws DataError when a column is empty, has another length than the first, or holds a number that is not finite.
 */
export function estimates<Name extends string>(
  columns: Readonly<Record<Name, ArrayLike<number>>>,
  options: BootstrapOptions = {},
): Record<Name, Estimate> {
  const { resamples = RESAMPLES } = options;
  const names = Object.keys(columns) as Name[];
  const data = names.map((name) => new Float64Array(columns[name])); // [columns][n]
  checkColumns(names, data);
  const n = data[0]?.length ?? 0;
  if (n > MANY) {
    const result: [Name, Estimate][] = names.map((name, c) => [name, normalEstimate(data[c]!)]);
    return Object.fromEntries(result) as Record<Name, Estimate>;
  }
  const means = data.map(() => new Float64Array(resamples)); // [columns][resamples]
  forResamples(n, options, (drawn, r) => {
    for (let c = 0; c < data.length; c++) {
      const column = data[c]!;
      let sum = 0;
      for (let i = 0; i < n; i++) sum += column[drawn[i]!]!;
      means[c]![r] = sum / n;
    }
  });
  const result: [Name, Estimate][] = names.map((name, c) => {
    const [value] = data[c]!;
    // All values equal: no rounding of resampled sums may pretend a spread.
    const equal = data[c]!.every((one) => one === value);
    return [
      name,
      equal ? { mean: value!, ci95: [value!, value!], n } : around(meanOf(data[c]!), means[c]!, n),
    ];
  });
  return Object.fromEntries(result) as Record<Name, Estimate>;
}

/**
 * Numbers of a whole set of n series, each with its 95 % interval over the same resamples as `estimates` of n values.
 * Resamples on which a number is not defined are left out of its interval.
 * @throws DataError for n = 0, and for a number that is not defined on the whole set.
 */
export function setEstimates<Name extends string>(
  n: number,
  measure: SetMeasure<Name>,
  options: BootstrapOptions = {},
): Record<Name, Estimate> {
  const { resamples = RESAMPLES } = options;
  if (n === 0) throw new DataError('estimates of a set: no series; leave the group out');
  const whole = measure(Uint32Array.from({ length: n }, (_, i) => i));
  const list = (Object.entries(whole) as [Name, number][]).map(([name, value]) => {
    if (Number.isFinite(value)) return { name, value, resampled: new Float64Array(resamples) };
    throw new DataError(`estimate of ${name}: not defined on these ${n} series; leave it out`);
  });
  forResamples(n, options, (drawn, r) => {
    const values = measure(drawn);
    for (const { name, resampled } of list) resampled[r] = values[name];
  });
  const result = list.map(({ name, value, resampled }) => [name, around(value, resampled, n)]);
  return Object.fromEntries(result) as Record<Name, Estimate>;
}

/** Mean of one value per series with its 95 % interval: `estimate([0, 1, 1, 1])` → mean .75, n 4. */
export function estimate(values: ArrayLike<number>, options: BootstrapOptions = {}): Estimate {
  return estimates({ values }, options).values;
}

/**
 * Mean of `a[i] − b[i]` over series measured twice, with its 95 % interval: entry i of both is the same series.
 * @throws DataError when the lengths differ or are 0.
 */
export function pairedDifference(
  a: ArrayLike<number>,
  b: ArrayLike<number>,
  options: BootstrapOptions = {},
): Estimate {
  if (a.length !== b.length) {
    throw new DataError(
      `pairedDifference: ${a.length} values against ${b.length}; pair them by series first`,
    );
  }
  return estimate(
    Array.from(a, (value, i) => value - b[i]!),
    options,
  );
}
