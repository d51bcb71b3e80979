/** The golden files of the analyses: series by name, and lists in which null stands for NaN. */
import analysis from '../golden/analysis.json' with { type: 'json' };
import series from '../golden/series.json' with { type: 'json' };

export { analysis, series };

/** A series of either golden file. */
export function seriesOf(name: string): Float64Array {
  const all: Readonly<Record<string, readonly number[]>> = { ...analysis.series, ...series.series };
  const found = all[name];
  if (found === undefined) throw new Error(`no golden series '${name}'`);
  return Float64Array.from(found);
}

/**
 * Largest difference, each divided by the larger of 1 and the expected size; NaN must meet null. Lengths must agree, or
 * the answer is Infinity.
 */
export function worst(got: ArrayLike<number>, expected: readonly (number | null)[]): number {
  if (got.length !== expected.length) return Number.POSITIVE_INFINITY;
  let largest = 0;
  for (const [i, value] of expected.entries()) {
    const mine = got[i]!;
    if (value === null || Number.isNaN(mine)) {
      if (value !== null || !Number.isNaN(mine)) return Number.POSITIVE_INFINITY;
      continue;
    }
    largest = Math.max(largest, Math.abs(mine - value) / Math.max(1, Math.abs(value)));
  }
  return largest;
}
