/** Values that come again exactly: stretches in which a series stands still (a stuck sensor), or does not pass a limit (a cutoff). */
import type { Stretch } from './scan.ts';
import { tempered } from './tail.ts';

/** Samples of one value that are told of, at least. */
const SHORTEST = 4;
/** So many times the longest other stillness is a full surprise; as long as it is none. */
const LONGER = 3;

/** Runs of one value in [N], half-open. */
function runs(values: Float64Array): [start: number, end: number][] {
  const found: [number, number][] = [];
  for (let i = 0; i < values.length; ) {
    let j = i + 1;
    while (j < values.length && values[j] === values[i]) j++;
    if (j - i >= 2) found.push([i, j]);
    i = j;
  }
  return found;
}

/**
 * Runs of one value in [N] that are long for a series whose samples equal the one before as often as they do elsewhere (runs of length L
 * have probability pᴸ⁻¹), and long against its other runs: where every night stands still, one more does not count.
 */
export function stillness(values: Float64Array, least: number): Stretch[] {
  const n = values.length;
  const all = runs(values);
  const equal = all.reduce((sum, [start, end]) => sum + end - start - 1, 0);
  const longest = all.map(([start, end]) => end - start).sort((a, b) => b - a);
  return all.flatMap(([start, end]): Stretch[] => {
    const length = end - start;
    if (length < SHORTEST) return [];
    // One more equal pair than was counted: of what has not been seen p is not 0.
    const p = (equal - (length - 1) + 1) / (n - length + 2);
    const chance = -Math.log10(n) - (length - 1) * Math.log10(p);
    const other = longest[0] === length ? (longest[1] ?? 1) : longest[0]!;
    const longer = Math.min(1, Math.max(0, (length / other - 1) / (LONGER - 1)));
    const severity = tempered(Math.max(0, chance)) * longer;
    return severity < least ? [] : [{ start, end, sign: 1, severity, peak: start }];
  });
}

/** Samples at a limit, at least, and the longest part of a series that one may hold down. */
const AT_LIMIT = 8;
const LONGEST_CUTOFF = 1 / 3;

/**
 * Stretches of [N] that again and again reach one value exactly, which is the largest or the least there and is passed elsewhere, in a
 * series whose samples hardly ever equal others.
 */
export function cutoffs(values: Float64Array, least: number): Stretch[] {
  const n = values.length;
  const places = new Map<number, number[]>();
  for (let i = 0; i < n; i++) {
    const own = places.get(values[i]!);
    if (own === undefined) places.set(values[i]!, [i]);
    else own.push(i);
  }
  const repeated = n - places.size;
  return [...places].flatMap(([value, at]): Stretch[] => {
    const [start, end] = [at[0]!, at.at(-1)! + 1];
    if (at.length < AT_LIMIT || end - start > LONGEST_CUTOFF * n) return [];
    let [below, above, passed] = [false, false, false];
    for (let i = start; i < end; i++) {
      below ||= values[i]! < value;
      above ||= values[i]! > value;
    }
    if (below === above) return [];
    for (let i = 0; i < n && !passed; i++) passed = below ? values[i]! > value : values[i]! < value;
    const p = (repeated - (at.length - 1) + 1) / (n - at.length + 2);
    const severity = tempered(Math.max(0, -Math.log10(n) - (at.length - 1) * Math.log10(p)));
    return !passed || severity < least ? [] : [{ start, end, sign: below ? -1 : 1, severity, peak: start }];
  });
}
