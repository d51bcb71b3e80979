/** Sentinels: numbers that stand for a missing value, such as -999 between temperatures. */
import { quantileInPlace } from '../../src/series/stats.ts';

/** Numbers that instruments and exports write for a missing value. */
const SENTINELS = new Set([
  ...[99, 999, 9999, 99_999, 999_999, 9_999_999].flatMap((nines) => [nines, -nines]),
  ...[-999.25, -999.9, 999.9, -9999.9, 9999.9, 1e20, -1e20, 1e30, -1e30, 1e36, 9.969_209_968_386_869e36],
  ...[32_767, -32_768, 65_535, 2_147_483_647, -2_147_483_648, 4_294_967_295],
]);
/** Fewest and most rows of a sentinel, the latter as a share. */
const [FEWEST, MOST] = [2, 0.5];
/** Smallest distance from all other values, in their range from the first to the last hundredth. */
const DISTANCE = 2;

/** A sentinel of a column, the rows that have it, and the first of them. */
export interface Sentinel {
  readonly value: number;
  readonly rows: number;
  readonly first: number;
}

/** Finds the sentinels of [N] values (NaN where missing): known ones that come again and lie far from all other values. */
export function sentinelsOf(values: Float64Array): Sentinel[] {
  const seen = new Map<number, { rows: number; first: number }>();
  const others: number[] = [];
  values.forEach((value, i) => {
    const known = seen.get(value);
    if (known !== undefined) known.rows++;
    else if (SENTINELS.has(value)) seen.set(value, { rows: 1, first: i });
    else if (Number.isFinite(value)) others.push(value);
  });
  if (seen.size === 0 || others.length < FEWEST) return [];
  const known = Float64Array.from(others);
  const [least, largest] = [known.reduce((a, b) => Math.min(a, b)), known.reduce((a, b) => Math.max(a, b))];
  const quantile = (share: number): number => quantileInPlace(known, known.length, share);
  const range = quantile(0.99) - quantile(0.01);
  return [...seen].flatMap(([value, { rows, first }]) => {
    const distance = Math.max(least - value, value - largest);
    const stands =
      rows >= FEWEST && rows <= MOST * values.length && distance > DISTANCE * range && distance > 0;
    return stands ? [{ value, rows, first }] : [];
  });
}
