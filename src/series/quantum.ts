/** Steps of counts and of rounded values. */

/** Most samples that are looked at, evenly spread. */
const MOST_SAMPLES = 50_000;
/** Limits for treating values as counts or rounded: distinct values, samples per distinct value, and range in steps. */
const MOST_STEPS = 256;
const SAMPLES_PER_STEP = 8;
const FEWEST_STEPS = 3;

/** Returns the step of counts or rounded values [N] of a robust range; 0 for continuous values. */
export function quantum(values: Float64Array, range: number): number {
  const stride = Math.max(1, Math.floor(values.length / MOST_SAMPLES));
  const distinct = new Set<number>();
  let samples = 0;
  for (let i = 0; i < values.length; i += stride, samples++) {
    distinct.add(values[i]!);
    if (distinct.size > MOST_STEPS) return 0;
  }
  if (samples < SAMPLES_PER_STEP * distinct.size) return 0;
  const sorted = Float64Array.from(distinct).sort();
  let least = Infinity;
  for (let i = 1; i < sorted.length; i++) least = Math.min(least, sorted[i]! - sorted[i - 1]!);
  // With only a few distant levels, one step is itself a departure. Rare-event counts are mostly 0, so their robust range is a step or two.
  return least <= range / 4 || sorted.at(-1)! - sorted[0]! >= FEWEST_STEPS * least ? least : 0;
}
