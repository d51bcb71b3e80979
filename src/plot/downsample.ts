/**
 * M4 downsampling (Jugel et al. 2014, "M4: a visualization-oriented time series data aggregation"): of the
 * samples that fall into one pixel column, the first, last, lowest and highest draw the same picture as all.
 */

/**
 * Indices of the samples to keep, ascending; at most five per column, the fifth being a missing sample (NaN,
 * ±Infinity), so that breaks of the line survive.
 *
 * @param values samples [N]
 * @param column pixel column of sample i; must not decrease with i
 */
export function m4(values: Float64Array, column: (index: number) => number): Int32Array {
  const kept = new Int32Array(values.length);
  let count = 0;
  for (let from = 0; from < values.length; ) {
    const here = column(from);
    let lowest = -1;
    let highest = -1;
    let missing = -1;
    let first = -1;
    let last = -1;
    let i = from;
    for (; i < values.length && column(i) === here; i++) {
      const value = values[i]!;
      if (value - value !== 0) {
        if (missing < 0) missing = i;
        continue;
      }
      if (first < 0) first = i;
      last = i;
      if (lowest < 0 || value < values[lowest]!) lowest = i;
      if (highest < 0 || value > values[highest]!) highest = i;
    }
    const chosen = [first, last, lowest, highest, missing].sort((a, b) => a - b);
    let previous = -1;
    for (const index of chosen) {
      if (index > previous) {
        kept[count++] = index;
        previous = index;
      }
    }
    from = i;
  }
  return kept.slice(0, count);
}
