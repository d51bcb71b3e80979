/** Windows without variation, which correlation cannot compare. */
import { firstAbove } from './diagonals.ts';

/**
 * Applies the rules for constant windows, which the correlation cannot express: correlation 1 (distance 0) between two
 * of them, ½ (distance √m) between one and a varying window; for each the lowest index out of the exclusion zone.
 */
export function compareConstants(
  count: number,
  exclusion: number,
  inverse: Float64Array,
  best: Float64Array,
  neighbours: Int32Array,
): void {
  const windows = Int32Array.from({ length: count }, (_, i) => i);
  const constant = windows.filter((i) => inverse[i] === 0);
  const varying = windows.filter((i) => inverse[i] !== 0);
  const partner = (list: Int32Array, i: number): number => {
    const lowest = list[0];
    if (lowest === undefined) return -1;
    return lowest < i - exclusion ? lowest : (list[firstAbove(list, i + exclusion)] ?? -1);
  };
  for (const i of constant) {
    const twin = partner(constant, i);
    const other = twin >= 0 ? twin : partner(varying, i);
    best[i] = twin >= 0 ? 1 : 0.5;
    neighbours[i] = other;
  }
  for (const i of varying) {
    const other = partner(constant, i);
    if (other < 0 || best[i]! > 0.5 || (best[i] === 0.5 && neighbours[i]! <= other)) continue;
    best[i] = 0.5;
    neighbours[i] = other;
  }
}
