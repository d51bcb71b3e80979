/** The matrix profile by definition, window against window. */

/** Distance of two windows by definition, with the rules for constant ones. */
export function windowDistance(values: Float64Array, m: number, i: number, j: number): number {
  const normal = (start: number): Float64Array | null => {
    const part = values.slice(start, start + m);
    if (part.every((value) => value === part[0])) return null;
    // Deviations from a member first: an offset does not cost the mean its digits.
    const near = part.map((value) => value - part[0]!);
    const mean = near.reduce((sum, value) => sum + value, 0) / m;
    const std = Math.sqrt(near.reduce((sum, value) => sum + (value - mean) ** 2, 0) / m);
    return near.map((value) => (value - mean) / std);
  };
  const a = normal(i);
  const b = normal(j);
  if (a === null || b === null) return a === b ? 0 : Math.sqrt(m);
  return Math.sqrt(a.reduce((sum, value, k) => sum + (value - b[k]!) ** 2, 0));
}

/** Nearest window to window i outside the exclusion zone; Infinity and −1 where there is none. */
export function nearest(
  values: Float64Array,
  m: number,
  i: number,
  exclusion: number,
): { value: number; index: number } {
  let best = { value: Number.POSITIVE_INFINITY, index: -1 };
  for (let j = 0; j + m <= values.length; j++) {
    if (Math.abs(i - j) <= exclusion) continue;
    const value = windowDistance(values, m, i, j);
    if (value < best.value) best = { value, index: j };
  }
  return best;
}
