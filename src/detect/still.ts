/** Stretches in which a series stands still for longer than chance and its own habits let one expect: a stuck sensor. */
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
