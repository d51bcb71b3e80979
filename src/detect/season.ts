/** Seasons of a series: found by autocorrelation or named by the calendar, kept if they predict; and the values that they predict. */
import { sortedMedian } from '../series/deviation.ts';
import { Simd } from '../series/kernels/kernels.ts';
import { seriesOfSpectrum, spectrum } from '../series/spectrum.ts';
import { cycleMeans, moments, quantileInPlace } from '../series/stats.ts';

/** Cycles on each side whose values at the same phase are averaged. */
const CYCLES = 4;
/** Distance of the farthest cycles that are averaged: the series divided by this. */
const FAR = 4;
/** Far cycles must predict this share of the samples as well as near ones, by this factor or within this share of the range. */
const MOST = 0.75;
const AS_GOOD = 1.1;
const AS_NEAR = 0.002;
/** Spreads phases evenly. */
const GOLDEN = (Math.sqrt(5) - 1) / 2;
/** Longest series whose level is computed at every sample. */
const EVERY = 20_000;
/** Fewest whole cycles that show a season. */
const FEWEST_CYCLES = 3;
/** Fewest whole cycles of several days, other than a week. */
const CYCLES_OF_DAYS = 12;
/** A season must leave at most this share of the departures without it. */
const LEAST_GAIN = 0.8;
/** Its mean departure must be below this share of that from other phases of the same cycles. */
const MEAN_GAIN = 0.9;
/** A longer season must be better than a shorter one by this factor. */
const LONGER_GAIN = 0.9;
/** Factor by which a week must be better than a day where the newest samples do not show it. */
const CLEAR_GAIN = 0.6;
/** A season of rare events must leave less than this share of the mean departure without it. */
const RARE_GAIN = 0.5;
/** Its mean gain over the cycles of the shorter one must be so many standard errors above 0. */
const LEAST_ERRORS = 2;
/** Fewest weeks of which the worst does not count. */
const FEWEST_TO_SPARE = 5;
const LONGEST_CORRELATED = 1 << 17;

export interface Season {
  /** Samples per cycle; not whole if the phase drifts against the samples. */
  readonly period: number;
  /** Values expected from the other cycles [N]. */
  readonly expected: Float64Array;
  /** Median |value − expected| over median |value − level|. */
  readonly rest: number;
  /** Expected values without the pattern of the cycles [N]. */
  readonly level: Float64Array;
  /** Clock that it follows [N]; null unless that clock is changed. */
  readonly clock: Int32Array | null;
  /** True where it has shorter cycles inside, such as hourly jobs in a day. */
  readonly nested?: boolean;
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

/** Rounding error of means, relative to the values. */
const ROUNDING = 1e-10;
/** Weight of the mean departure beside the median one. */
const EDGES = 0.1;

/** Means of groups of `pool` samples. */
export function pooled(values: Float64Array, pool: number): Float64Array {
  if (pool === 1) return values;
  const means = new Float64Array(Math.floor(values.length / pool));
  for (let i = 0; i < means.length; i++) {
    let sum = 0;
    for (let k = 0; k < pool; k++) sum += values[i * pool + k]!;
    means[i] = sum / pool;
  }
  return means;
}

/** Level without season [N]: the median of the cycle means of seven cycles, `spacing` apart, which an unusual cycle does not move. */
export function seasonLevel(values: Float64Array, period: number, spacing = 1): Float64Array {
  const means = cycleMeans(values, period);
  const n = values.length;
  const scratch = new Float64Array(7);
  // The level of a long series is computed at a stride, and interpolated.
  const stride = n <= EVERY ? 1 : Math.max(1, Math.floor(period / 32));
  const levels = new Float64Array(Math.floor((n - 1) / stride) + 2);
  for (let j = 0; j < levels.length; j++) {
    const i = Math.min(n - 1, j * stride);
    let count = 0;
    for (let k = -3; k <= 3; k++) {
      const at = Math.round(i + k * spacing * period);
      if (at >= 0 && at < n) scratch[count++] = means[at]!;
    }
    levels[j] = sortedMedian(scratch, count);
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
 * Predicts each sample [N], or every `stride`-th, by the median of the same phase of the nearest other cycles, `spacing` apart, on the
 * level of the cycles around.
 *
 * @param clock samples by which the clock of the season is ahead of the sample count [N]: a day of 23 hours moves it by an hour
 * @param options `aside` takes other phases of those cycles instead, as a control; `nearest` takes the nearer of two cycles where there
 * are no more, so that an anomaly in one does not spoil the prediction of the other; `only` marks the samples to predict, `skip` those that predict none
 */
export function seasonExpectation(
  values: Float64Array,
  period: number,
  clock: Int32Array | null = null,
  {
    spacing = 1,
    aside = false,
    nearest = false,
    stride = 1,
    level = seasonLevel(values, period, spacing),
    only = null as Uint8Array | null,
    skip = null as Uint8Array | null,
  } = {},
): Float64Array {
  const n = values.length;
  const scratch = new Float64Array(2 * CYCLES);
  const whole = Number.isInteger(period);
  // Distances of the cycles and of the phases in them, nearest first: one before, one after.
  const cycles = Float64Array.from({ length: 4 * CYCLES }, (_, c) => ((c >> 1) + 1) * (c % 2 === 0 ? -1 : 1));
  const phases = cycles.map((k) =>
    aside ? Math.max(1, Math.round(period * (0.25 + 0.5 * (((k * GOLDEN) % 1) + (k < 0 ? 1 : 0))))) : 0,
  );
  for (let c = 0; c < cycles.length; c++) cycles[c] = cycles[c]! * spacing * period;
  const out = new Float64Array(Math.ceil(n / stride));
  const done =
    clock === null && skip === null ? betweenEnds(values, level, cycles, phases, stride, out) : [0, 0];
  for (let place = 0; place < out.length; place++) {
    if (place === done[0]) place = done[1]!;
    const i = place * stride;
    if (i >= n) break;
    if (only !== null && only[i] === 0) continue;
    let count = 0;
    for (let c = 0; count < 2 * CYCLES && c < cycles.length; c++) {
      let x = i + cycles[c]! + phases[c]!;
      if (clock !== null) x -= clock[Math.round(Math.min(n - 1, Math.max(0, x)))]! - clock[i]!;
      if (x < 0 || x > n - 1) continue;
      const left = Math.floor(x);
      if (skip?.[left] === 1) continue;
      const part = whole ? 0 : x - left;
      const value = part === 0 ? values[left]! : (1 - part) * values[left]! + part * values[left + 1]!;
      scratch[count++] = value - level[left]!;
    }
    out[place] =
      level[i]! +
      (count === 0
        ? 0
        : nearest && count === 2
          ? nearer(values[i]! - level[i]!, scratch)
          : sortedMedian(scratch, count));
  }
  return out;
}

/** Fewest samples that are worth the way to the kernels. */
const WORTH = 512;

/**
 * Predicts samples that have all their nearest cycles within the series, by SIMD; returns the places in `out` from which and up to which
 * they are, equal for none.
 */
function betweenEnds(
  values: Float64Array,
  level: Float64Array,
  cycles: Float64Array,
  phases: Float64Array,
  stride: number,
  out: Float64Array,
): readonly [number, number] {
  const n = values.length;
  let [before, after] = [0, 0];
  for (let c = 0; c < 2 * CYCLES; c++) {
    before = Math.max(before, -(cycles[c]! + phases[c]!));
    after = Math.max(after, cycles[c]! + phases[c]!);
  }
  // A sample less at each end, so that rounding leads none out of the series.
  const from = Math.ceil((before + 1) / stride);
  const places = (Math.floor((n - 2 - after) / stride) - from) & ~1;
  const simd = places < WORTH ? null : Simd.open(8 * (2 * n + 4 * CYCLES + places), 5);
  if (simd === null) return [0, 0];
  const copy = (some: Float64Array, length: number): number => {
    const own = simd.floats(length);
    own.set(some.subarray(0, length));
    return own.byteOffset;
  };
  const [x, at, near, aside] = [
    copy(values, n),
    copy(level, n),
    copy(cycles, 2 * CYCLES),
    copy(phases, 2 * CYCLES),
  ];
  const results = simd.floats(places);
  const between = cycles.every(Number.isInteger) ? 0 : 1;
  simd.run.medians(x, at, near, aside, between, from * stride, stride, places, results.byteOffset);
  out.set(results, from);
  simd.close();
  return [from, from + places];
}

const nearer = (value: number, [a, b]: Float64Array): number =>
  Math.abs(value - a!) <= Math.abs(value - b!) ? a! : b!;

/** Unbiased autocorrelation of [N] at lags 0 … N/2. */
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
  const correlations = new Float64Array((n >> 1) + 1);
  const variance = products[0]! / n;
  if (variance > 0) for (let k = 0; 2 * k <= n; k++) correlations[k] = products[k]! / (n - k) / variance;
  return correlations;
}

/** Returns the lags at which a series correlates with itself: local maxima, highest first. */
function correlatedLags(values: Float64Array, least: number): number[] {
  const r = correlogram(values);
  const n = values.length;
  const tops: { lag: number; height: number }[] = [];
  let dipped = false; // before the first dip the series is only smooth
  for (let k = 2; k < r.length - 1 && k <= n / FEWEST_CYCLES; k++) {
    if (r[k]! < 0.05 || r[k]! < r[k - 1]!) dipped = true;
    if (dipped && k >= least && r[k]! > 0.1 && r[k]! >= r[k - 1]! && r[k]! > r[k + 1]!) {
      tops.push({ lag: k, height: r[k]! });
    }
  }
  tops.sort((a, b) => b.height - a.height);
  // Multiples of a period are as high as the period: the shortest of almost equal height is kept as well.
  const kept: number[] = [];
  for (const { lag, height } of tops.slice(0, 60)) {
    if (kept.length >= 6) break;
    const shorter = tops.filter((top) => top.lag <= lag && top.height > 0.9 * height).map((top) => top.lag);
    for (const candidate of [Math.min(...shorter), lag]) {
      if (kept.every((known) => Math.abs(known - candidate) > Math.max(1, 0.02 * candidate)))
        kept.push(candidate);
    }
  }
  return kept.map((lag) => refine(r, lag));
}

/** Refines a lag to the period, from its largest multiple that still correlates. */
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

/** Reach of the values that are compared, in median absolute deviations; and least autocorrelation of what repeats. */
const ORDINARY = 6;
const REPEATS = 0.1;

/** Returns true if the ordinary values of most cycles correlate with those one period later: two incidents are no season. */
function repeats(values: Float64Array, period: number): boolean {
  const centre = quantileInPlace(values.slice(), values.length, 0.5);
  const reach =
    ORDINARY *
    quantileOfAbs(
      values.map((value) => value - centre),
      1,
      0.5,
    );
  if (!(reach > 0)) return true;
  const ordinary = values.map((value) => Math.min(reach, Math.max(-reach, value - centre)));
  const { std } = moments(ordinary);
  const lag = Math.round(period);
  const pairs = Math.floor(ordinary.length / lag) - 1;
  let alike = 0;
  for (let end = ordinary.length; end >= 2 * lag; end -= lag) {
    const [later, earlier] = [0, lag].map(
      (before) => moments(ordinary, end - before - lag, end - before).mean,
    );
    let products = 0;
    for (let i = end - lag; i < end; i++)
      products += (ordinary[i]! - later!) * (ordinary[i - lag]! - earlier!);
    if (products >= REPEATS * std * std * lag) alike++;
  }
  return 2 * alike > pairs;
}

/** Parts of a series, and least share of them in which a season predicts better: flapping for an hour is none. */
const [SOME_PARTS, IN_PARTS] = [8, 0.5];

/** Returns true if departures are smaller than others in half of the parts of a series or more. */
function betterAllOver(own: Float64Array, others: Float64Array): boolean {
  const gains = new Float64Array(SOME_PARTS);
  own.forEach((rest, i) => {
    gains[Math.floor((i * SOME_PARTS) / own.length)]! += Math.abs(others[i]!) - Math.abs(rest);
  });
  return gains.filter((gain) => gain > 0).length >= IN_PARTS * SOME_PARTS;
}

/**
 * Returns true if a season predicts rare and large values, such as a job once a day, which medians and clipped values hardly show.
 */
function predictsRare(
  values: Float64Array,
  period: number,
  clock: Int32Array | null,
  stride: number,
): boolean {
  const level = seasonLevel(values, period);
  const some = every(values, stride);
  const rests = (aside: boolean, one: number): Float64Array =>
    difference(
      one === 1 ? values : some,
      seasonExpectation(values, period, clock, { aside, level, stride: one }),
    );
  const [own, others] = [rests(false, stride), rests(true, stride)];
  return (
    meanOfAbs(own, 1) < RARE_GAIN * meanOfAbs(others, 1) &&
    betterAllOver(own, others) &&
    (stride === 1
      ? betterOverCycles(own, others, period)
      : betterOverCycles(rests(false, 1), rests(true, 1), period))
  );
}

/** Departures beyond so many median ones are outliers. A week that has half of those of a day may predict all others a little worse. */
const [OUTLYING, WORSE] = [6, 1.25];

/** Returns true if outliers among the departures are clearly fewer or smaller than in a shorter season: a job does not run at weekends. */
function predictsOutliers(longer: Float64Array, shorter: Float64Array): boolean {
  const limit = OUTLYING * medianOfAbs(shorter, 1);
  const beyond = (rests: Float64Array): number =>
    meanOfAbs(
      rests.map((rest) => Math.max(0, Math.abs(rest) - limit)),
      1,
    );
  return beyond(longer) < RARE_GAIN * beyond(shorter);
}

/** Copies every `stride`-th value. */
function every(values: Float64Array, stride: number): Float64Array {
  const out = new Float64Array(Math.ceil(values.length / stride));
  for (let i = 0; i < out.length; i++) out[i] = values[i * stride]!;
  return out;
}

interface Fit {
  /** Departures from its prediction [N], those of every so many samples, and their size. */
  readonly rests: Float64Array;
  readonly few: Float64Array;
  readonly left: number;
  readonly spacing: number;
}

/**
 * Returns true if the departures of a longer season are smaller throughout the cycles of a shorter one: by chance, cycles of varying size
 * are alike four or five cycles apart, and a median may rest on quiet samples such as nights.
 */
function betterOverCycles(
  longer: Float64Array,
  shorter: Float64Array,
  period: number,
  isSpared = false,
): boolean {
  const all = new Float64Array(Math.floor(longer.length / period));
  for (let i = 0; i < longer.length; i++) {
    all[Math.min(all.length - 1, Math.floor(i / period))]! += Math.abs(shorter[i]!) - Math.abs(longer[i]!);
  }
  // An unusual cycle of many is an incident.
  const gains = isSpared && all.length >= FEWEST_TO_SPARE ? all.sort().subarray(1) : all;
  const cycles = gains.length;
  let [sum, squares] = [0, 0];
  for (const gain of gains) sum += gain;
  const mean = sum / cycles;
  for (const gain of gains) squares += (gain - mean) ** 2;
  return mean > LEAST_ERRORS * Math.sqrt(squares / cycles / (cycles - 1));
}

/** Least share of what a clock changes in the departures by which they become smaller; an anomaly is not changed. */
const CLOCK_GAIN = 0.3;
/** Least difference of that share between the clock and the same clock turned the other way; at most 2. */
const CLOCK_CONTRAST = 1;
/** Largest departure of a sample that counts, as a multiple of the median one: on days that neither clock explains any change is by chance. */
const EXPLAINED = 4;
/** Cycles on either side of a change that count in a series of fewer than three weeks: it falls on a Sunday, of which no other is known. */
const [VOTING, CYCLES_OF_WEEKS] = [4, 21];
const NEAR_DAY = 0.01;
/** Distance of a lag from a period of the calendar, as a share, at which it is tried after it. */
const NEAR_CALENDAR = 0.03;

/** Finds the clock by which a season predicts clearly better near the changes of that clock, which is all that it alters; else null. */
function clockThatPredicts(
  values: Float64Array,
  season: Pick<Fit & Season, 'period' | 'rests'>,
  clocks: readonly Int32Array[],
) {
  const reach = (values.length / season.period < CYCLES_OF_WEEKS ? VOTING : 1) * Math.round(season.period);
  const usual = EXPLAINED * medianOfAbs(season.rests, 1);
  let [chosen, least]: [Int32Array | null, number] = [null, CLOCK_GAIN];
  for (const clock of clocks) {
    const isNear = (i: number): boolean =>
      clock[Math.max(0, i - reach)] !== clock[Math.min(values.length - 1, i + reach)];
    const only = Uint8Array.from(clock, (_, i) => Number(isNear(i)));
    const gainOf = (tried: Int32Array): number => {
      const expected = seasonExpectation(values, season.period, tried, { only });
      let [gain, change] = [0, 0];
      for (let i = 0; i < values.length; i++) {
        const [before, after] = [Math.abs(season.rests[i]!), Math.abs(values[i]! - expected[i]!)];
        if (only[i] === 0 || Math.min(before, after) > usual) continue;
        const gained = before - after;
        gain += gained;
        change += Math.abs(gained);
      }
      return change === 0 ? 0 : gain / change;
    };
    const gain = gainOf(clock);
    if (gain > least && gain - gainOf(clock.map((ahead) => -ahead)) > CLOCK_CONTRAST)
      [chosen, least] = [clock, gain];
  }
  return chosen;
}

/** Fewest cycles of the shorter season in the longer one, and largest distance of their ratio from a whole number. */
const [FEWEST_INSIDE, NEAR_WHOLE] = [3, 0.02];
/** Least course of the means, in departures from the shorter season. */
const COURSE = 3;

/** Period in samples by which the means over the cycles of a season repeat, a whole number of these; null where they do not. */
function seasonOfLevel(
  values: Float64Array,
  { period, few }: { readonly period: number; readonly few: Float64Array },
  calendar: readonly number[],
): number | null {
  if (!Number.isInteger(period)) return null;
  const means = pooled(values, period);
  const longer = findSeason(
    means,
    calendar.map((samples) => samples / period).filter((cycles) => cycles >= FEWEST_INSIDE),
  );
  if (longer === null || longer.period < FEWEST_INSIDE) return null;
  const course = difference(longer.expected, longer.level);
  if (!(quantileOfAbs(course, 1, MOST) > COURSE * medianOfAbs(few, 1))) return null;
  const whole = Math.round(longer.period);
  return Math.abs(longer.period - whole) <= NEAR_WHOLE ? whole * period : null;
}

/** Newest part of a week, and share of its samples that lie on one side of those a week and more earlier, if a level has begun. */
const [NEWEST_PART, ONE_SIDE] = [1.5 / 7, 0.95];

/** Returns true if the newest samples lie on one side of the median of the same phase in earlier cycles. */
function isLevel(values: Float64Array, period: number): boolean {
  const n = values.length;
  let [above, below] = [0, 0];
  for (let i = n - Math.round(NEWEST_PART * period); i < n; i++) {
    const earlier = Float64Array.from(
      { length: Math.floor(i / period) },
      (_, k) => values[i - (k + 1) * period]!,
    ).sort();
    const usual = sortedMedian(earlier, earlier.length);
    if (values[i]! > usual) above++;
    else if (values[i]! < usual) below++;
  }
  return Math.max(above, below) >= ONE_SIDE * NEWEST_PART * period;
}

/**
 * Finds the season that predicts [N] best; null if none does. Candidates are the lags at which the series correlates with itself, and
 * `calendar` (samples of an hour, a day, a week), which follows the `clock` (see `seasonExpectation`), or one of the other `clocks` where
 * that predicts better.
 *
 * @param periods candidates instead of these, of which a longer one must be clearly better
 * @param fewest least number of whole cycles
 */
export function findSeason(
  values: Float64Array,
  calendar: readonly number[] = [],
  clock: Int32Array | null = null,
  clocks: readonly Int32Array[] = [],
  periods: readonly number[] | null = null,
  fewest = FEWEST_CYCLES,
): Season | null {
  const n = values.length;
  if (n < 4 * FEWEST_CYCLES) return null;
  const stride = Math.max(1, Math.floor(n / 20_000));
  // Outliers would be all that the correlation sees.
  const sample = every(values, stride).sort();
  const q = (share: number): number => sample[Math.floor(share * (sample.length - 1))]!;
  const reach = 1.5 * (q(0.9) - q(0.1)) || Number.POSITIVE_INFINITY;
  const [least, most] = [q(0.1) - reach, q(0.9) + reach];
  const clipped = values.map((value) => Math.min(most, Math.max(least, value)));
  const some = every(clipped, stride);
  const pool = Math.ceil(n / LONGEST_CORRELATED);
  const candidates =
    periods ??
    [
      ...calendar.filter((period) => period >= 3 && n / period >= FEWEST_CYCLES),
      ...correlatedLags(pooled(clipped, pool), 3).map((period) => period * pool),
    ].flatMap((period) => [Math.round(period), period]);
  const magnitude = Math.max(Math.abs(sample[0]!), Math.abs(sample.at(-1)!));
  let leftOfShorter = Number.POSITIVE_INFINITY;
  type Chosen = Omit<Season, 'level' | 'expected'> & Fit;
  let best: Chosen | null = null;
  let longest: Chosen | null = null;
  // Some days are alike four or nine days later by chance, as sunny ones are.
  const day = (calendar.at(-1) ?? Number.POSITIVE_INFINITY) / 7;
  const isDays = (period: number): boolean =>
    period > 1.5 * day &&
    !calendar.includes(period) &&
    Math.abs(period - Math.round(period / day) * day) < NEAR_DAY * period;
  const clockOf = (period: number): Int32Array | null => (calendar.includes(period) ? clock : null);
  // Shorter ones first, one of the calendar before those near it, and a whole number of samples before one that is not.
  const known = (period: number): number | undefined =>
    calendar.find((samples) => Math.abs(period / samples - 1) < NEAR_CALENDAR);
  const sorted = [...new Set(candidates)].sort(
    (a, b) =>
      (known(a) ?? Math.round(a)) - (known(b) ?? Math.round(b)) ||
      Number(b === known(b)) - Number(a === known(a)) ||
      Math.round(a) - Math.round(b) ||
      Number(Number.isInteger(b)) - Number(Number.isInteger(a)),
  );
  for (const period of sorted) {
    if (n / period < fewest || (n / period < CYCLES_OF_DAYS && isDays(period))) continue;
    // A level that follows the values explains them without a season: the gain over it counts.
    const level = cycleMeans(clipped, period);
    const around = difference(clipped, level);
    const without = medianOfAbs(around, stride) + EDGES * meanOfAbs(around, stride);
    if (!(without > ROUNDING * magnitude)) continue;
    const ofPeriod = seasonLevel(clipped, period);
    const restsOf = (options: { readonly stride?: number; readonly aside?: boolean }): Float64Array => {
      const expected = seasonExpectation(clipped, period, clockOf(period), { level: ofPeriod, ...options });
      return difference(expected.length === n ? clipped : some, expected);
    };
    // Most candidates are judged by every so many samples alone.
    const few = restsOf({ stride });
    // The median of a pattern that repeats exactly between its edges is 0 at any period near by.
    const left = medianOfAbs(few, 1) + EDGES * meanOfAbs(few, 1);
    const rest = left / without;
    const candidate = { period, few, rest, clock: clockOf(period), left, spacing: 1 };
    if (period === calendar.at(-1) && Number.isInteger(period)) longest = { ...candidate, rests: few };
    if (periods !== null && left >= CLEAR_GAIN * leftOfShorter) continue;
    leftOfShorter = left;
    if (best === null && predictsRare(values, period, clockOf(period), stride)) {
      best = { ...candidate, rests: stride === 1 ? few : restsOf({}) };
      continue;
    }
    const isWeek: boolean = best !== null && period === calendar.at(-1) && predictsOutliers(few, best.few);
    if (rest >= LEAST_GAIN || (best !== null && left >= (isWeek ? WORSE : LONGER_GAIN) * best.left)) continue;
    const rests = stride === 1 ? few : restsOf({});
    // Outliers of one day of the week are gained on that day alone.
    if (best !== null && !betterOverCycles(rests, best.rests, isWeek ? period : best.period, isWeek))
      continue;
    // Medians of skewed or rounded noise are nearer to it than its mean, whatever the phase.
    const others = restsOf({ stride, aside: true });
    const chance = medianOfAbs(others, 1) + EDGES * meanOfAbs(others, 1);
    // Where most values are alike, such as 0, the median departure says little.
    const isCloser = meanOfAbs(few, 1) < MEAN_GAIN * meanOfAbs(others, 1);
    if (isCloser && left < LEAST_GAIN * chance && betterAllOver(few, others) && repeats(values, period))
      best = { ...candidate, rests, nested: isWeek };
  }
  // A level that has begun in the last two weeks hides that weeks repeat.
  if (
    periods === null &&
    best !== null &&
    longest !== null &&
    best.period < longest.period &&
    isLevel(values, longest.period)
  ) {
    const { period } = longest;
    const to = Math.max(FEWEST_CYCLES * period, n - 2 * period);
    const before = findSeason(
      values.subarray(0, to),
      calendar,
      clock?.subarray(0, to),
      [],
      [best.period, period],
    );
    if (before?.period === period) best = longest;
  }
  // A level that follows hourly jobs explains the course of the day, and an unusual day too: what its own means repeat by is the season.
  const around = periods !== null || best === null ? null : seasonOfLevel(clipped, best, calendar);
  if (best !== null && around !== null && n / around >= FEWEST_CYCLES) {
    const expected = seasonExpectation(clipped, around, clockOf(around), {
      level: seasonLevel(clipped, around),
      stride,
    });
    const few = difference(expected.length === n ? clipped : some, expected);
    best = { ...best, period: around, clock: clockOf(around), few, rests: few, nested: true };
  }
  if (best !== null) {
    // A clock that is changed lets the best period differ from the day by a little.
    const { period: found, rests } = best;
    const day = calendar.find((samples) => Math.abs(samples / found - 1) < NEAR_DAY);
    const other = day === undefined ? null : clockThatPredicts(clipped, { period: day, rests }, clocks);
    if (day !== undefined && other !== null) {
      const few = difference(some, seasonExpectation(clipped, day, other, { stride }));
      best = { ...best, period: day, clock: other, few };
    }
    // Far cycles lie outside an anomaly of a few cycles; they serve if they predict as well.
    const spacing = Math.floor(n / best.period / CYCLES / FAR);
    if (spacing > 1) {
      const far = seasonExpectation(clipped, best.period, best.clock, { spacing, stride });
      const usual = (rests: Float64Array): number => quantileOfAbs(rests, 1, MOST);
      if (usual(difference(some, far)) <= AS_GOOD * usual(best.few) + AS_NEAR * (q(0.9) - q(0.1)))
        best = { ...best, spacing };
    }
  }
  if (best === null) return null;
  const { period, rest, spacing } = best;
  const level = seasonLevel(values, period, spacing);
  const expected = seasonExpectation(values, period, best.clock, { spacing, nearest: true, level });
  // Nights are dark whatever the level of their day.
  const dark = valueOfRest(values);
  if (!Number.isNaN(dark)) {
    const rests = seasonExpectation(
      values.map((value) => Number(value === dark)),
      period,
      best.clock,
      {
        spacing,
        level: new Float64Array(n),
      },
    );
    for (let i = 0; i < n; i++) if (rests[i] === 1) expected[i] = dark;
  }
  return { period, rest, clock: best.clock, level, expected, nested: best.nested === true };
}

/** Least share of the samples that have a value of rest. */
const RESTS = 0.1;

/** Returns the most frequent value of [N]; NaN if few samples have it. */
function valueOfRest(values: Float64Array): number {
  const sorted = values.slice().sort();
  let [rest, most] = [Number.NaN, RESTS * sorted.length];
  for (let from = 0, to = 0; from < sorted.length; from = to) {
    while (to < sorted.length && sorted[to] === sorted[from]) to++;
    if (to - from > most) [rest, most] = [sorted[from]!, to - from];
  }
  return rest;
}

/** Computes a − b [N]. */
export function difference(a: Float64Array, b: Float64Array): Float64Array {
  const out = new Float64Array(a.length);
  for (let i = 0; i < a.length; i++) out[i] = a[i]! - b[i]!;
  return out;
}
