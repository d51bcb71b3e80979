/** Seasons of a series: found by autocorrelation or named by the calendar, kept where they predict; and what they let one expect. */
import { seriesOfSpectrum, spectrum } from '../series/spectrum.ts';
import { quantileInPlace } from '../series/stats.ts';

/** Cycles on each side whose values at the same phase are averaged. */
const CYCLES = 4;
/** The farthest cycles that are averaged lie this part of the series away. */
const FAR = 4;
/** They must predict this part of the samples so well, beside nearer ones, or within this part of the range. */
const MOST = 0.75;
const AS_GOOD = 1.1;
const AS_NEAR = 0.002;
/** Spreads phases evenly. */
const GOLDEN = (Math.sqrt(5) - 1) / 2;
/** Longest series of which the level is found at every sample. */
const EVERY = 20_000;
/** Fewest whole cycles in which a season can be told from chance. */
const FEWEST_CYCLES = 3;
/** A season must leave at most this part of the usual departures without it. */
const LEAST_GAIN = 0.8;
/** A longer season must be better than a shorter one by this factor. */
const LONGER_GAIN = 0.9;
/** A season of what is rare must leave this part of the mean departure without it. */
const RARE_GAIN = 0.5;
/** Its gain in each cycle of the shorter one must be so many standard errors above 0 on average. */
const LEAST_ERRORS = 2;
const LONGEST_CORRELATED = 1 << 17;

export interface Season {
  /** In samples; not whole where the phase drifts against the samples. */
  readonly period: number;
  /** What the other cycles let one expect [N]. */
  readonly expected: Float64Array;
  /** Median |value − expected| over median |value − level|. */
  readonly rest: number;
  /** What is expected without the pattern of the cycles [N]. */
  readonly level: Float64Array;
  /** The clock that it follows [N], where one is changed. */
  readonly clock: Int32Array | null;
}

function quantileOfAbs(values: Float64Array, stride: number, share: number): number {
  const n = Math.ceil(values.length / stride);
  const sample = new Float64Array(n);
  for (let i = 0; i < n; i++) sample[i] = Math.abs(values[i * stride]!);
  return quantileInPlace(sample, n, share);
}

const medianOfAbs = (values: Float64Array, stride: number): number => quantileOfAbs(values, stride, 0.5);

function meanOfAbs(values: Float64Array, stride: number): number {
  let [sum, n] = [0, 0];
  for (let i = 0; i < values.length; i += stride, n++) sum += Math.abs(values[i]!);
  return sum / n;
}

/** Means of values carry rounding errors of this part of them. */
const ROUNDING = 1e-10;
/** Weight of the mean departure beside the median one. */
const EDGES = 0.1;

/** Sums of the values before each index [N + 1]. */
export function cumulative(values: Float64Array): Float64Array {
  const sums = new Float64Array(values.length + 1);
  for (let i = 0; i < values.length; i++) sums[i + 1] = sums[i]! + values[i]!;
  return sums;
}

/** Mean of the window of `period` samples around each sample [N]; at the ends of the nearest whole window. Fractions weigh the outer samples. */
function cycleMeans(values: Float64Array, period: number): Float64Array {
  const n = values.length;
  const sums = cumulative(values);
  const at = (x: number): number => {
    const whole = Math.floor(x);
    return whole >= n ? sums[n]! : sums[whole]! + (x - whole) * values[whole]!;
  };
  const means = new Float64Array(n);
  for (let i = 0; i < n; i++) {
    const start = Math.min(Math.max(0, i + 0.5 - period / 2), n - period);
    means[i] = (at(start + period) - at(start)) / period;
  }
  return means;
}

function medianOf(scratch: Float64Array, n: number): number {
  // Insertion: never more than a handful.
  for (let i = 1; i < n; i++) {
    const value = scratch[i]!;
    let j = i - 1;
    for (; j >= 0 && scratch[j]! > value; j--) scratch[j + 1] = scratch[j]!;
    scratch[j + 1] = value;
  }
  return n % 2 === 1 ? scratch[n >> 1]! : (scratch[(n >> 1) - 1]! + scratch[n >> 1]!) / 2;
}

/** Level without season: the median of the cycle means up to three cycles before and after, or `spacing` times as many, so that an unusual cycle does not move it [N]. */
function seasonLevel(values: Float64Array, period: number, spacing = 1): Float64Array {
  const means = cycleMeans(values, period);
  const n = values.length;
  const scratch = new Float64Array(7);
  // The level changes with the cycles, not with the samples: where it is found every so many, lines join it.
  const stride = n <= EVERY ? 1 : Math.max(1, Math.floor(period / 32));
  const levels = new Float64Array(Math.floor((n - 1) / stride) + 2);
  for (let j = 0; j < levels.length; j++) {
    const i = Math.min(n - 1, j * stride);
    let count = 0;
    for (let k = -3; k <= 3; k++) {
      const at = Math.round(i + k * spacing * period);
      if (at >= 0 && at < n) scratch[count++] = means[at]!;
    }
    levels[j] = medianOf(scratch, count);
  }
  if (stride === 1) return levels.subarray(0, n);
  const out = new Float64Array(n);
  for (let i = 0; i < n; i++) {
    const j = Math.floor(i / stride);
    const part = i / stride - j;
    out[i] = (1 - part) * levels[j]! + part * levels[j + 1]!;
  }
  return out;
}

/**
 * What the same phase of the nearest other cycles, or of every so many (`spacing`), lets one expect: their median, on the level of the
 * cycles around [N].
 *
 * With `aside` other phases of those cycles: a season predicts better than that, and chance does not. With `apart` the nearer of two
 * other cycles where there are no more: an anomaly in one of them would be half of what is expected of the other.
 *
 * @param clock [N] samples that the clock which the season follows is ahead of the count of samples: a day with 23 hours moves it by an
 * hour from there on
 */
function seasonExpectation(
  values: Float64Array,
  period: number,
  clock: Int32Array | null = null,
  { spacing = 1, aside = false, apart = false } = {},
): Float64Array {
  const n = values.length;
  const level = seasonLevel(values, period, spacing);
  const scratch = new Float64Array(2 * CYCLES);
  const whole = Number.isInteger(period);
  const out = new Float64Array(n);
  for (let i = 0; i < n; i++) {
    let count = 0;
    const take = (k: number): void => {
      let x = i + k * spacing * period;
      if (aside) x += Math.max(1, Math.round(period * (0.25 + 0.5 * (((k * GOLDEN) % 1) + (k < 0 ? 1 : 0)))));
      if (clock !== null) x -= clock[Math.round(Math.min(n - 1, Math.max(0, x)))]! - clock[i]!;
      if (x < 0 || x > n - 1) return;
      const left = Math.floor(x);
      const part = whole ? 0 : x - left;
      const value = part === 0 ? values[left]! : (1 - part) * values[left]! + part * values[left + 1]!;
      scratch[count++] = value - level[left]!;
    };
    for (let k = 1; count < 2 * CYCLES && k <= 2 * CYCLES; k++) {
      take(-k);
      if (count < 2 * CYCLES) take(k);
    }
    out[i] =
      level[i]! +
      (count === 0
        ? 0
        : apart && count === 2
          ? nearer(values[i]! - level[i]!, scratch)
          : medianOf(scratch, count));
  }
  return out;
}

const nearer = (own: number, [a, b]: Float64Array): number =>
  Math.abs(own - a!) <= Math.abs(own - b!) ? a! : b!;

/** Autocorrelation of [N] at lags 0 … N/2, without the bias of short overlaps. */
function correlogram(values: Float64Array): Float64Array {
  const n = values.length;
  let size = 1;
  while (size < 2 * n) size *= 2;
  const padded = new Float64Array(size);
  let mean = 0;
  for (const value of values) mean += value / n;
  for (let i = 0; i < n; i++) padded[i] = values[i]! - mean;
  const { re, im } = spectrum(padded);
  for (let k = 0; k < re.length; k++) {
    re[k] = re[k]! ** 2 + im[k]! ** 2;
    im[k] = 0;
  }
  const products = seriesOfSpectrum({ n: size, re, im });
  const lags = n >> 1;
  const own = products[0]! / n;
  return Float64Array.from({ length: lags + 1 }, (_, k) => (own > 0 ? products[k]! / (n - k) / own : 0));
}

/** Lags at which a series is like itself: local maxima, the highest first, with the largest correlation. */
function correlatedLags(values: Float64Array, least: number): number[] {
  const r = correlogram(values);
  const n = values.length;
  const found: { lag: number; height: number }[] = [];
  let dipped = false; // before the first dip the series is only smooth
  for (let k = 2; k < r.length - 1 && k <= n / FEWEST_CYCLES; k++) {
    if (r[k]! < 0.05 || r[k]! < r[k - 1]!) dipped = true;
    if (dipped && k >= least && r[k]! > 0.1 && r[k]! >= r[k - 1]! && r[k]! > r[k + 1]!) {
      found.push({ lag: k, height: r[k]! });
    }
  }
  found.sort((a, b) => b.height - a.height);
  // Multiples of a period are as high as itself: the shortest of almost equal height, and its refinement at the largest multiple.
  const kept: number[] = [];
  for (const { lag, height } of found.slice(0, 60)) {
    if (kept.length >= 6) break;
    const shorter = found.filter((one) => one.lag <= lag && one.height > 0.9 * height).map((one) => one.lag);
    for (const one of [Math.min(...shorter), lag]) {
      if (!kept.some((other) => Math.abs(other - one) <= Math.max(1, 0.02 * one))) kept.push(one);
    }
  }
  return kept.map((lag) => refine(r, lag));
}

/** The period near a lag, read off at its largest multiple that still correlates. */
function refine(r: Float64Array, lag: number): number {
  let period = lag;
  for (let k = 2; k * period < r.length - 2; k++) {
    const middle = Math.round(k * period);
    const reach = 2; // the period is known to half a sample over k − 1 cycles
    let best = middle;
    for (let at = middle - reach; at <= Math.min(r.length - 2, middle + reach); at++) {
      if (r[at]! > r[best]!) best = at;
    }
    if (r[best]! < 0.5 * r[lag]!) break;
    const [a, b, c] = [r[best - 1]!, r[best]!, r[best + 1]!];
    const bend = a - 2 * b + c;
    const aside = bend < 0 ? (a - c) / (2 * bend) : 0;
    const refined = (best + Math.max(-0.5, Math.min(0.5, aside))) / k;
    if (Math.abs(refined - lag) > Math.max(1, 0.05 * lag)) break;
    period = refined;
  }
  const nearest = Math.round(period);
  return Math.abs(period - nearest) * (r.length / period) < 0.5 ? nearest : period;
}

/**
 * Whether a season foretells what is rare and large, such as a job once a day: the median departure does not depend on it, and clipped
 * values hardly do.
 */
function foretellsRare(
  values: Float64Array,
  period: number,
  clock: Int32Array | null,
  stride: number,
): boolean {
  const rests = difference(values, seasonExpectation(values, period, clock));
  const others = difference(values, seasonExpectation(values, period, clock, { aside: true }));
  return (
    meanOfAbs(rests, stride) < RARE_GAIN * meanOfAbs(others, stride) &&
    betterOverCycles(rests, others, period)
  );
}

interface Found {
  /** Departures from what it lets one expect [N], and how far they lie from 0. */
  readonly rests: Float64Array;
  readonly left: number;
  readonly spacing: number;
}

/**
 * Whether the departures of a longer season are smaller in more than some cycles of a shorter one: cycles whose size varies are alike four
 * or five cycles apart by chance, and where most samples are the same, as at night, that decides a median.
 */
function betterOverCycles(longer: Float64Array, shorter: Float64Array, period: number): boolean {
  const cycles = Math.floor(longer.length / period);
  const gains = new Float64Array(cycles);
  for (let i = 0; i < longer.length; i++) {
    gains[Math.min(cycles - 1, Math.floor(i / period))]! += Math.abs(shorter[i]!) - Math.abs(longer[i]!);
  }
  let [sum, squares] = [0, 0];
  for (const gain of gains) sum += gain;
  const mean = sum / cycles;
  for (const gain of gains) squares += (gain - mean) ** 2;
  return mean > LEAST_ERRORS * Math.sqrt(squares / cycles / (cycles - 1));
}

/**
 * The season that predicts [N] best, or null: candidates are the lags at which the series correlates with itself, and `calendar`
 * (samples of an hour, a day, a week where the sampling step is known), which follows the `clock` (see `seasonExpectation`).
 */
export function findSeason(
  values: Float64Array,
  calendar: readonly number[] = [],
  clock: Int32Array | null = null,
): Season | null {
  const n = values.length;
  if (n < 4 * FEWEST_CYCLES) return null;
  const stride = Math.max(1, Math.floor(n / 20_000));
  // Outliers would be all that the correlation sees.
  const sample = Float64Array.from({ length: Math.ceil(n / stride) }, (_, i) => values[i * stride]!).sort();
  const q = (share: number): number => sample[Math.floor(share * (sample.length - 1))]!;
  const reach = 1.5 * (q(0.9) - q(0.1)) || Number.POSITIVE_INFINITY;
  const clipped = values.map((value) => Math.min(q(0.9) + reach, Math.max(q(0.1) - reach, value)));
  const pool = Math.ceil(n / LONGEST_CORRELATED);
  const short =
    pool === 1
      ? clipped
      : Float64Array.from({ length: Math.floor(n / pool) }, (_, i) => {
          let sum = 0;
          for (let k = 0; k < pool; k++) sum += clipped[i * pool + k]!;
          return sum / pool;
        });
  const candidates = [
    ...calendar.filter((period) => period >= 3 && n / period >= FEWEST_CYCLES),
    ...correlatedLags(short, 3).map((period) => period * pool),
  ].flatMap((period) => [Math.round(period), period]);
  const magnitude = Math.max(Math.abs(sample[0]!), Math.abs(sample.at(-1)!));
  let best: (Omit<Season, 'level'> & Found) | null = null;
  const clockOf = (period: number): Int32Array | null => (calendar.includes(period) ? clock : null);
  // Shorter ones first, and a whole number of samples before one that is not.
  const sorted = [...new Set(candidates)].sort(
    (a, b) => Math.round(a) - Math.round(b) || Number(Number.isInteger(b)) - Number(Number.isInteger(a)),
  );
  for (const period of sorted) {
    if (n / period < FEWEST_CYCLES) continue;
    // A level that follows the values explains them without a season: what counts is what the season adds to it.
    const level = cycleMeans(clipped, period);
    const around = difference(clipped, level);
    const without = medianOfAbs(around, stride) + EDGES * meanOfAbs(around, stride);
    if (!(without > ROUNDING * magnitude)) continue;
    const expected = seasonExpectation(clipped, period, clockOf(period));
    const rests = difference(clipped, expected);
    // Of a pattern that repeats exactly apart from its edges the median is 0 at any period near by.
    const left = medianOfAbs(rests, stride) + EDGES * meanOfAbs(rests, stride);
    const rest = left / without;
    const found = { period, expected, rests, rest, clock: clockOf(period), left, spacing: 1 };
    if (best === null && foretellsRare(values, period, clockOf(period), stride)) {
      best = found;
      continue;
    }
    if (rest >= LEAST_GAIN || (best !== null && left >= LONGER_GAIN * best.left)) continue;
    if (best !== null && !betterOverCycles(rests, best.rests, best.period)) continue;
    // Medians of skewed or rounded noise are nearer to it than its mean, whatever the phase.
    const others = difference(clipped, seasonExpectation(clipped, period, clockOf(period), { aside: true }));
    const chance = medianOfAbs(others, stride) + EDGES * meanOfAbs(others, stride);
    if (left < LEAST_GAIN * chance) best = found;
  }
  if (best !== null) {
    // Far cycles are no part of an anomaly of a few cycles; where the season keeps its shape and its level they predict as well.
    const spacing = Math.floor(n / best.period / CYCLES / FAR);
    if (spacing > 1) {
      const far = seasonExpectation(clipped, best.period, best.clock, { spacing });
      const usual = (expected: Float64Array): number =>
        quantileOfAbs(difference(clipped, expected), stride, MOST);
      if (usual(far) <= AS_GOOD * usual(best.expected) + AS_NEAR * (q(0.9) - q(0.1)))
        best = { ...best, spacing };
    }
  }
  return best === null
    ? null
    : {
        period: best.period,
        rest: best.rest,
        clock: best.clock,
        level: seasonLevel(values, best.period, best.spacing),
        expected: seasonExpectation(values, best.period, best.clock, { spacing: best.spacing, apart: true }),
      };
}

export function difference(a: Float64Array, b: Float64Array): Float64Array {
  const out = new Float64Array(a.length);
  for (let i = 0; i < a.length; i++) out[i] = a[i]! - b[i]!;
  return out;
}
