/** Trend without a distribution: the Mann–Kendall test, and the Theil–Sen line. */
import { roundHalfEven } from '../ground/numbers.ts';
import { requireFinite, requireOption } from './checks.ts';
import { median, normalQuantile, select, twoSided } from './stats.ts';

export interface MannKendall {
  /** Rising minus falling pairs. */
  readonly s: number;
  /** Variance of s under no trend, corrected for ties. */
  readonly variance: number;
  /** (s − sign s) / √variance; 0 where the variance is. */
  readonly z: number;
  /** Two-sided, normal approximation. */
  readonly pValue: number;
  /** s over all pairs, in [−1, 1]. */
  readonly tau: number;
  /** Kendall's τ_b, which leaves tied pairs out; NaN for a constant series. */
  readonly tauB: number;
}

/**
 * Mann–Kendall test of a monotonic trend (Mann 1945, Kendall 1975; ties: Gilbert 1987, eq. 16.4.3) of [N], N ≥ 2; null for fewer.
 * s is found by counting inversions in a merge sort: O(N log N). Throws a DataError for values that are not finite.
 */
export function mannKendall(values: Float64Array): MannKendall | null {
  requireFinite(values, 'Mann–Kendall test');
  const n = values.length;
  if (n < 2) return null;
  const sorted = values.slice();
  const falling = sortCountingInversions(sorted);
  let tiedPairs = 0;
  let tiedVariance = 0;
  for (let i = 0; i < n; ) {
    let end = i + 1;
    while (end < n && sorted[end] === sorted[i]) end++;
    const t = end - i;
    tiedPairs += (t * (t - 1)) / 2;
    tiedVariance += t * (t - 1) * (2 * t + 5);
    i = end;
  }
  const pairs = (n * (n - 1)) / 2;
  const s = pairs - tiedPairs - 2 * falling;
  const variance = (n * (n - 1) * (2 * n + 5) - tiedVariance) / 18;
  const z = variance <= 0 ? 0 : (s - Math.sign(s)) / Math.sqrt(variance);
  return {
    s,
    variance,
    z,
    pValue: twoSided(z),
    tau: s / pairs,
    tauB: tiedPairs === pairs ? Number.NaN : s / Math.sqrt(pairs * (pairs - tiedPairs)),
  };
}

export interface TheilSen {
  /** Median of the slopes of all pairs, per sample. */
  readonly slope: number;
  /** Median of the values minus slope times median index. */
  readonly intercept: number;
  /** Confidence interval of the slope (Sen 1968). */
  readonly low: number;
  readonly high: number;
}

/**
 * Theil–Sen line of [N], N ≥ 2, over the index; null for fewer. `confidence` in (0, 1) is that of the slope's interval, default
 * 0.95. Equals scipy's `theilslopes`, intercept `separate`. Exact, without keeping most of the slopes (`slopesOfRank`): O(N²) time, O(N) memory.
 * Throws a DataError for values that are not finite.
 */
export function theilSen(values: Float64Array, confidence = 0.95): TheilSen | null {
  requireFinite(values, 'Theil–Sen line');
  requireOption(confidence > 0 && confidence < 1, 'Theil–Sen confidence', confidence, '(0, 1)');
  const n = values.length;
  if (n < 2) return null;
  const pairs = (n * (n - 1)) / 2;
  const { variance } = mannKendall(values)!;
  const reach = normalQuantile(0.5 + confidence / 2) * Math.sqrt(variance);
  const upper = Math.min(pairs - 1, roundHalfEven((pairs + reach) / 2));
  const lower = Math.max(0, roundHalfEven((pairs - reach) / 2) - 1);
  const below = Math.floor((pairs - 1) / 2);
  const ranks = [lower, below, Math.floor(pairs / 2), upper];
  const [low, belowSlope, aboveSlope, high] = slopesOfRank(values, ranks) as [number, number, number, number];
  const slope = (belowSlope + aboveSlope) / 2;
  return { slope, intercept: median(values) - slope * ((n - 1) / 2), low, high };
}

// Order statistics of the slopes of all pairs of points, exact: a sample brackets them, and a pass over all pairs counts what lies
// below, inside and above the bracket.

/** Up to this many pairs, all slopes are kept. */
const FEW_PAIRS = 20_000;

/** Returns the slopes of the given ranks (ascending, 0 is the smallest) among those of all pairs of [N]. O(N²). */
export function slopesOfRank(values: Float64Array, ranks: readonly number[]): number[] {
  const n = values.length;
  const pairs = (n * (n - 1)) / 2;
  if (pairs <= FEW_PAIRS) {
    const all = allSlopes(values);
    let before = 0;
    return ranks.map((rank) => {
      // What stands before the last rank is smaller than what is looked for.
      const slope = select(all.subarray(before), pairs - before, rank - before);
      before = rank;
      return slope;
    });
  }
  const sample = sampledSlopes(values);
  const slopes: number[] = [];
  while (slopes.length < ranks.length) {
    const first = ranks[slopes.length]!;
    // Neighbouring ranks, such as the middle ones of an even number of pairs, share the work.
    const group = ranks.slice(slopes.length).filter((rank) => rank - first <= GROUP * Math.min(pairs, 2e6));
    slopes.push(...byPasses(values, sample, group));
  }
  return slopes;
}

/** Ranks no further apart than this part of the pairs are looked for together. */
const GROUP = 0.002;

function allSlopes(values: Float64Array): Float64Array {
  const n = values.length;
  const slopes = new Float64Array((n * (n - 1)) / 2);
  let count = 0;
  for (let d = 1; d < n; d++) {
    for (let i = 0, j = d; j < n; i++, j++) slopes[count++] = (values[j]! - values[i]!) / d;
  }
  return slopes;
}

/** Slopes of all pairs against a bracket [low, high]. */
interface Bracketed {
  readonly below: number;
  readonly atLow: number;
  /** Strictly inside; the first `kept` are filled. */
  readonly inside: Float64Array;
  readonly kept: number;
  readonly atHigh: number;
}

/** Relative error that a product may have beside the quotient that it stands for. */
const SLACK = 4 * Number.EPSILON;

/**
 * One pass over all pairs, by distance d: a rise is compared with low·d and high·d, and divided only near or inside the
 * bracket, so that equal slopes compare as equal. On which side the others fall no processor foresees: those below are
 * counted without a jump. Slopes equal to an end are only counted: rounded data repeat the same slope without end.
 */
function bracket(values: Float64Array, low: number, high: number): Bracketed {
  const n = values.length;
  const open = low === Number.NEGATIVE_INFINITY || high === Number.POSITIVE_INFINITY;
  let inside = new Float64Array(4096);
  let kept = 0;
  let below = 0;
  let atLow = 0;
  let atHigh = 0;
  for (let d = 1; d < n; d++) {
    const slack = SLACK * (Math.abs(low * d) + Math.abs(high * d));
    const surelyBelow = low * d - slack;
    const middle = open ? 0 : ((low + high) * d) / 2;
    const reach = open ? Number.POSITIVE_INFINITY : ((high - low) * d) / 2 + 2 * slack;
    let under = 0;
    for (let i = 0, j = d; j < n; i++, j++) {
      const rise = values[j]! - values[i]!;
      under += Number(rise < surelyBelow);
      if (Math.abs(rise - middle) > reach || rise < surelyBelow) continue;
      const slope = rise / d;
      if (slope < low) under++;
      else if (slope === low) atLow++;
      else if (slope === high) atHigh++;
      else if (slope < high) {
        if (kept === inside.length) {
          const wider = new Float64Array(2 * kept);
          wider.set(inside);
          inside = wider;
        }
        inside[kept++] = slope;
      }
    }
    below += under;
  }
  return { below, atLow, inside, kept, atHigh };
}

/** The slope of this rank (0 is the smallest), or undefined where it lies outside the bracket. */
function rankInside(
  { below, atLow, inside, kept, atHigh }: Bracketed,
  rank: number,
): number | 'low' | 'high' | undefined {
  const place = rank - below;
  if (place < 0) return undefined;
  if (place < atLow) return 'low';
  if (place < atLow + kept) return select(inside, kept, place - atLow);
  return place < atLow + kept + atHigh ? 'high' : undefined;
}

/** The slopes of neighbouring ranks, by counting all pairs against a bracket. */
function byPasses(values: Float64Array, sample: Float64Array, ranks: readonly number[]): number[] {
  const n = values.length;
  const pairs = (n * (n - 1)) / 2;
  const size = sample.length;
  const place = (rank: number): number => (rank / (pairs - 1)) * size;
  for (let sigmas = 4; ; sigmas *= 2) {
    const margin = sigmas * Math.sqrt(size) * 0.5 + 1;
    const low = sample[Math.floor(place(ranks[0]!) - margin)] ?? Number.NEGATIVE_INFINITY;
    const high = sample[Math.ceil(place(ranks.at(-1)!) + margin)] ?? Number.POSITIVE_INFINITY;
    const counted = bracket(values, low, high);
    const slopes = ranks.map((rank) => rankInside(counted, rank));
    if (slopes.includes(undefined)) continue;
    return slopes.map((slope) => (slope === 'low' ? low : slope === 'high' ? high : slope!));
  }
}

/**
 * Slopes of some pairs, ascending: a fixed sample, spread evenly over all pairs by Roberts' additive sequence (steps 1/p and 1/p², p³ = p
 * + 1). It only says where to look; a bracket that misses its rank is widened.
 */
function sampledSlopes(values: Float64Array): Float64Array {
  const n = values.length;
  const sample = new Float64Array(Math.min(1 << 21, Math.max(2048, 2 * n)));
  let a = 0.5;
  let b = 0.5;
  for (let k = 0; k < sample.length; k++) {
    a = (a + 0.7548776662466927) % 1;
    b = (b + 0.5698402909980532) % 1;
    const i = Math.floor(a * n);
    const j = (i + 1 + Math.floor(b * (n - 1))) % n;
    sample[k] = (values[j]! - values[i]!) / (j - i);
  }
  return sample.sort();
}

/** Sorts keys [N] in place by merging; returns the number of pairs i < j with keys[i] > keys[j]. O(N log N). */
export function sortCountingInversions(keys: Float64Array): number {
  const n = keys.length;
  let inversions = 0;
  let from = keys;
  let to = new Float64Array(n) as typeof keys;
  for (let width = 1; width < n; width *= 2) {
    for (let left = 0; left < n; left += 2 * width) {
      const middle = Math.min(n, left + width);
      const end = Math.min(n, left + 2 * width);
      let a = left;
      let b = middle;
      for (let k = left; k < end; k++) {
        if (a < middle && (b >= end || from[a]! <= from[b]!)) to[k] = from[a++]!;
        else {
          inversions += middle - a;
          to[k] = from[b++]!;
        }
      }
    }
    [from, to] = [to, from];
  }
  if (from !== keys) keys.set(from);
  return inversions;
}
