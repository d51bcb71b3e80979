/** Statistics that a few wild values do not move, and the rules that name such values. */
import { ConfigError } from '../errors.ts';
import { requireFinite } from './finite.ts';
import { GAUSSIAN_MAD, moments, summarise } from './stats.ts';

export interface RobustSummary {
  readonly median: number;
  /** 1.4826·MAD: estimates σ where the bulk is normal. */
  readonly scaledMad: number;
  /** Third less first quartile. */
  readonly iqr: number;
  /** Mean without the lowest and the highest tenth. */
  readonly trimmedMean: number;
  /** Mean with those tenths drawn in to the nearest value that stays. */
  readonly winsorizedMean: number;
}

/** Mean of [N], N ≥ 1, without ⌊part·N⌋ values at each end, part in [0, 0.5) (scipy's `trim_mean`). */
export function trimmedMean(values: Float64Array, part: number): number {
  return trimmed(tails(values, part));
}

/** Mean of [N], N ≥ 1, with ⌊part·N⌋ values at each end set to the nearest that stays, part in [0, 0.5). */
export function winsorizedMean(values: Float64Array, part: number): number {
  return winsorized(tails(values, part));
}

interface Tails {
  readonly sorted: Float64Array; // [N]
  /** Values at each end. */
  readonly cut: number;
}

function tails(values: Float64Array, part: number): Tails {
  requireFinite(values, 'robust mean');
  if (!(part >= 0 && part < 0.5)) throw new ConfigError(`robust mean part: got ${part}, expected [0, 0.5)`);
  if (values.length === 0) throw new ConfigError('robust mean: got no values, expected at least one');
  return { sorted: values.slice().sort(), cut: Math.floor(part * values.length) };
}

function trimmed({ sorted, cut }: Tails): number {
  return moments(sorted, cut, sorted.length - cut).mean;
}

/** Overwrites the tails. */
function winsorized({ sorted, cut }: Tails): number {
  sorted.fill(sorted[cut]!, 0, cut);
  sorted.fill(sorted[sorted.length - 1 - cut]!, sorted.length - cut);
  return moments(sorted).mean;
}

/** Robust summary of [N], N ≥ 1. Throws a DataError for values that are not finite. O(N log N). */
export function summariseRobustly(values: Float64Array): RobustSummary {
  const both = tails(values, 0.1);
  const { median, mad, q1, q3 } = summarise(values);
  return {
    median,
    scaledMad: GAUSSIAN_MAD * mad,
    iqr: q3 - q1,
    trimmedMean: trimmed(both),
    winsorizedMean: winsorized(both),
  };
}

/** Factor of the modified z-score: Φ⁻¹(¾), rounded as published. */
const MODIFIED = 0.6745;

export interface Outliers {
  /** |x − mean| > 3σ. */
  readonly byZ: readonly number[];
  /** More than 1.5 interquartile ranges outside the quartiles (Tukey 1977). */
  readonly byFence: readonly number[];
  /** 0.6745·|x − median| / MAD > 3.5 (Iglewicz & Hoaglin 1993); none where the MAD is 0. */
  readonly byModifiedZ: readonly number[];
}

/** Indices of the outliers of [N], N ≥ 1, by three common rules. Throws a DataError for values that are not finite. O(N). */
export function outlierIndices(values: Float64Array): Outliers {
  requireFinite(values, 'outliers');
  const { mean, std, median, mad, q1, q3 } = summarise(values);
  const fence = 1.5 * (q3 - q1);
  const where = (is: (value: number) => boolean): number[] => {
    const found: number[] = [];
    for (let i = 0; i < values.length; i++) if (is(values[i]!)) found.push(i);
    return found;
  };
  return {
    byZ: where((value) => Math.abs(value - mean) > 3 * std),
    byFence: where((value) => value < q1 - fence || value > q3 + fence),
    byModifiedZ: where((value) => mad > 0 && MODIFIED * Math.abs(value - median) > 3.5 * mad),
  };
}
