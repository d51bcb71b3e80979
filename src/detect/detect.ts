/**
 * Finds what is unusual in a series. Several expectations are laid beside the values (the level, the neighbours, the season, similar stretches),
 * and beside them how much the values move; each leaves a track of departures that is scanned at many window lengths and calibrated
 * against its own usual departures. What the tracks find is then joined: the rarest account of a stretch names it.
 */
import { requireOption } from '../series/checks.ts';
import { bridge } from '../series/missing.ts';
import { runningMedians } from '../series/robust.ts';
import { largestMagnitude, quantileInPlace } from '../series/stats.ts';
import { analogues } from './analog.ts';
import { describeAll, shown, stepsIn } from './describe.ts';
import { type Expectation, expectation } from './expectation.ts';
import { type Detection, LEVELS } from './finding.ts';
import { type Stretch, scan, usualTail, windowLengths } from './scan.ts';
import { difference, findSeason, type Season } from './season.ts';
import { type Step, steps } from './steps.ts';
import { cutoffs, stillness } from './still.ts';
import { fitTail, surprise } from './tail.ts';

export type TrackName =
  | 'level'
  | 'local'
  | 'season'
  | 'analogue'
  | 'step'
  | 'movement'
  | 'size'
  | 'still'
  | 'limit';

export interface Track {
  readonly name: TrackName;
  /** Departures [N]. */
  readonly values: Float64Array;
  readonly floor: number;
  readonly windows: readonly number[];
  /** Small values are no departure. */
  readonly onlyAbove?: boolean;
}

/** Tracks of logarithms. */
const LOGARITHMIC: ReadonlySet<TrackName> = new Set<TrackName>(['movement', 'size']);

export interface Candidate extends Stretch {
  readonly track: TrackName;
}

/** Robust range of the values: 1 % to 99 %. */
function robustRange(values: Float64Array): { low: number; high: number; middle: number } {
  const stride = Math.max(1, Math.floor(values.length / 50_000));
  const sample = Float64Array.from(
    { length: Math.ceil(values.length / stride) },
    (_, i) => values[i * stride]!,
  );
  return {
    low: quantileInPlace(sample, sample.length, 0.01),
    high: quantileInPlace(sample, sample.length, 0.99),
    middle: quantileInPlace(sample, sample.length, 0.5),
  };
}

/** Values that are so few among the samples are steps of a scale. */
const MOST_STEPS = 256;
const SAMPLES_PER_STEP = 8;

/** The step of values that are counted or rounded; 0 where they are not. */
function quantum(values: Float64Array, range: number): number {
  const stride = Math.max(1, Math.floor(values.length / 50_000));
  const distinct = new Set<number>();
  let count = 0;
  for (let i = 0; i < values.length; i += stride, count++) {
    distinct.add(values[i]!);
    if (distinct.size > MOST_STEPS) return 0;
  }
  if (count < SAMPLES_PER_STEP * distinct.size) return 0;
  const sorted = Float64Array.from(distinct).sort();
  let least = Infinity;
  for (let i = 1; i < sorted.length; i++) least = Math.min(least, sorted[i]! - sorted[i - 1]!);
  // Of a few levels that lie far apart a whole step is a departure.
  return least <= range / 4 ? least : 0;
}

/** Running median of the samples around each; near the ends of as many as lie on the shorter side, so that a slope is no departure [N]. */
export function centredMedians(values: Float64Array, window: number): Float64Array {
  const n = values.length;
  const half = window >> 1;
  const medians = runningMedians(values, window);
  const edge = (i: number, reach: number): number =>
    quantileInPlace(values.slice(i - reach, i + reach + 1), 2 * reach + 1, 0.5);
  return values.map((_, i) => {
    const reach = Math.min(i, n - 1 - i);
    return reach < half ? edge(i, reach) : medians[i - half]!;
  });
}

/** An expectation that changes by so many usual departures within the jitter has an edge there. */
const EDGE = 6;

/**
 * Departures from an expectation, of whose edges the values a few samples earlier and later count too: an edge may come early or late [N].
 */
function departures(values: Float64Array, expected: Float64Array, jitter: number): Float64Array {
  const n = values.length;
  const stride = Math.max(1, Math.floor(n / 20_000));
  const sizes = Float64Array.from({ length: Math.ceil(n / stride) }, (_, i) =>
    Math.abs(values[i * stride]! - expected[i * stride]!),
  );
  const usual = quantileInPlace(sizes, sizes.length, 0.7);
  return values.map((value, i) => {
    let least = expected[i]!;
    let largest = least;
    for (let k = Math.max(0, i - jitter); k <= Math.min(n - 1, i + jitter); k++) {
      least = Math.min(least, expected[k]!);
      largest = Math.max(largest, expected[k]!);
    }
    if (largest - least <= EDGE * usual) return value - expected[i]!;
    return value - Math.min(largest, Math.max(least, value));
  });
}

/** Samples at edges that tell how values vary there. */
const FEWEST_AT_EDGES = 30;

/**
 * How much more than usual the values vary where what is expected changes from sample to sample: a narrow peak that comes a part of a
 * sample early is missed by much [N].
 */
function spreadAtEdges(
  departures: Float64Array,
  expected: Float64Array,
  usual: number,
  jitter: number,
): Float64Array {
  const n = departures.length;
  const steps = departures.map((_, i) => {
    let [least, largest] = [expected[i]!, expected[i]!];
    for (let k = Math.max(0, i - jitter); k <= Math.min(n - 1, i + jitter); k++) {
      least = Math.min(least, expected[k]!);
      largest = Math.max(largest, expected[k]!);
    }
    return largest - least;
  });
  const ratios: number[] = [];
  const stride = Math.max(1, Math.floor(n / 50_000));
  for (let i = 0; i < n; i += stride)
    if (steps[i]! > EDGE * usual) ratios.push(Math.abs(departures[i]!) / steps[i]!);
  if (ratios.length < FEWEST_AT_EDGES) return steps.fill(1);
  const ratio = quantileInPlace(Float64Array.from(ratios), ratios.length, 0.8);
  return steps.map((step) => (step > EDGE * usual ? Math.max(1, (ratio * step) / usual) : 1));
}

/** How much more or less than usual the values vary, by edges and by the phase of the season [N]. */
function spread(
  departures: Float64Array,
  { expected, period, clock }: Season,
  usual: number,
  jitter: number,
): Float64Array {
  const edges = spreadAtEdges(departures, expected, usual, jitter);
  const phases = spreadOfPhase(
    departures.map((value, i) => value / edges[i]!),
    period,
    clock,
  );
  return phases.map((phase, i) => phase * edges[i]!);
}

/** How much more or less than usual the values vary at each phase of the season: rush hours vary more than nights [N]. */
function spreadOfPhase(departures: Float64Array, period: number, clock: Int32Array | null): Float64Array {
  const n = departures.length;
  const even = new Float64Array(n).fill(1);
  const bins = Math.min(48, Math.floor(period / 2), Math.floor(n / 150));
  if (bins < 2) return even;
  const binOf = (i: number): number => {
    const phase = (i + (clock?.[i] ?? 0)) / period;
    return Math.min(bins - 1, Math.floor((phase - Math.floor(phase)) * bins));
  };
  const members: number[][] = Array.from({ length: bins }, () => []);
  const stride = Math.max(1, Math.floor(n / 50_000));
  for (let i = 0; i < n; i += stride) members[binOf(i)]!.push(Math.abs(departures[i]!));
  const wide = (sizes: readonly number[]): number =>
    quantileInPlace(Float64Array.from(sizes), sizes.length, 0.7);
  const all = wide(members.flat());
  if (!(all > 0)) return even;
  const raw = members.map((some) => (some.length < 8 ? all : wide(some)));
  const scale = raw.map((own, k) => {
    const around = raw[(k + bins - 1) % bins]! + raw[(k + 1) % bins]!;
    return Math.max(0.4, (around + 2 * own) / 4 / all);
  });
  return even.map((_, i) => scale[binOf(i)]!);
}

/** Mean of the steps from sample to sample, the largest twentieth left out. */
function meanStep(values: Float64Array): number {
  const steps = Float64Array.from({ length: values.length - 1 }, (_, i) =>
    Math.abs(values[i + 1]! - values[i]!),
  ).sort();
  const kept = Math.ceil(0.95 * steps.length);
  let sum = 0;
  for (let i = 0; i < kept; i++) sum += steps[i]!;
  return sum / kept;
}

/** log of how much the values move from sample to sample, as a track whose means are local log-scales. */
function movement(values: Float64Array, floor: number): Float64Array {
  const n = values.length;
  const out = new Float64Array(n);
  for (let i = 1; i < n; i++) out[i] = Math.log(Math.abs(values[i]! - values[i - 1]!) + floor);
  out[0] = out[1]!;
  return out;
}

/** log of how far the values are from what is expected: a track in which a stretch that departs up and down is one [N]. */
function size(departures: Float64Array, floor: number): Float64Array {
  return departures.map((value) => Math.log(Math.abs(value) + floor));
}

/** The usual size of a departure: the mean of the nearer three quarters. */
function usualSize(departures: Float64Array): number {
  const sizes = departures.map(Math.abs).sort();
  const kept = Math.ceil(0.75 * sizes.length);
  let sum = 0;
  for (let i = 0; i < kept; i++) sum += sizes[i]!;
  return sum / kept;
}

/** Neighbours must leave less than this part of the usual departures from the level. */
const FOLLOWING = 0.85;
/** Similar stretches must leave less than this part of the usual departures from the mean of the stretch. */
const MOST_LEFT = 0.5;
/** Edges that halve the severity of a stretch between two like them. */
const PEERS = 4;
/** Steps of usual size that make a jump. */
const JUMP = 10;
/** An edge this part as high as the stretch makes a box of it. */
const BOX = 0.7;
/** A level that this part of the samples has is a usual one; within this part of the height of its edges. */
const USUAL_LEVEL = 0.05;
const SAME_LEVEL = 0.2;

/** Edges that the season foretells this often keep a schedule. */
const FORETOLD = 0.7;

/**
 * For a stretch at a level at which the series often is, which begins or ends with a jump, or where a jump was to be expected (`missed`, how
 * far the values are from similar stretches): how many pairs of jumps as high there are elsewhere. A load that goes on and off at any time
 * is no stranger for doing it a little sooner or later than before; one that keeps a schedule is.
 */
function likeEdges(
  values: Float64Array,
  usualStep: number,
  { start, end, peak, track }: Candidate,
  season: Season | null,
  missed: Float64Array | undefined,
): number {
  const n = values.length;
  const jumpAt = (at: number): number => {
    let largest = 0;
    for (let i = Math.max(1, at - 1); i <= Math.min(n - 1, at + 1); i++) {
      largest = Math.max(largest, Math.abs(values[i]! - values[i - 1]!));
    }
    return largest;
  };
  const before = values[Math.max(0, start - 1)]!;
  const after = values[Math.min(n - 1, end)]!;
  const height = Math.max(Math.abs(values[peak]! - before), Math.abs(values[peak]! - after));
  let edge = Math.max(jumpAt(start), jumpAt(end));
  const timing = track === 'analogue' && missed !== undefined;
  if (timing) edge = Math.max(edge, Math.abs(missed[peak]!));
  else if (start < 1 || end >= n || edge < BOX * height) return 0;
  if (edge < JUMP * usualStep) return 0;
  let there = 0;
  for (let i = 0; i < n; i++) {
    if ((i < start || i >= end) && Math.abs(values[i]! - values[peak]!) < SAME_LEVEL * edge) there++;
  }
  if (there < USUAL_LEVEL * n) return 0;
  let [alike, foretold] = [0, 0];
  for (let i = 1; i < n; i++) {
    const jump = Math.abs(values[i]! - values[i - 1]!);
    if (jump < BOX * edge || (i >= start - 2 && i <= end + 2)) continue;
    alike++;
    if (season === null) continue;
    for (let k = Math.max(1, i - 2); k <= Math.min(n - 1, i + 2); k++) {
      if (Math.abs(season.expected[k]! - season.expected[k - 1]!) < jump / 2) continue;
      foretold++;
      break;
    }
  }
  return timing && foretold >= FORETOLD * alike ? 0 : alike / 2;
}

/** Stretches that come at equal distances, at least, and the part of all distances that is equal. */
const FEWEST_REGULAR = 6;
const REGULAR = 0.6;
/** A distance may be off by this part of the usual one, and up to so many may lie between two stretches. */
const OFF = 0.1;
const SKIPPED = 3;
/** Peers are this alike in severity. */
const AS_SEVERE = 0.6;

/**
 * Whether a stretch is one of many that come at equal distances, as a job that runs every day does. Of places at random a distance has a
 * chance of about one in seven to be as near to a small multiple of the usual one; that three fifths of five and more are is below 1 %, of
 * ten below one in a thousand. What comes between them, or after them at other distances, is none of them.
 */
function regular(one: Candidate, candidates: readonly Candidate[]): boolean {
  const alike = candidates
    .filter(
      (other) =>
        other.track === one.track &&
        other.sign === one.sign &&
        other.severity >= AS_SEVERE * one.severity &&
        other.severity * AS_SEVERE <= one.severity,
    )
    .map(({ peak }) => peak)
    .sort((a, b) => a - b)
    .filter((peak, i, peaks) => i === 0 || peak > peaks[i - 1]! + 1);
  if (alike.length < FEWEST_REGULAR) return false;
  const gaps = Float64Array.from({ length: alike.length - 1 }, (_, i) => alike[i + 1]! - alike[i]!);
  const usual = quantileInPlace(gaps.slice(), gaps.length, 0.5);
  const equal = (gap: number | undefined): boolean => {
    if (gap === undefined) return false;
    const times = Math.round(gap / usual);
    return times >= 1 && times <= SKIPPED && Math.abs(gap - times * usual) <= Math.max(1, OFF * usual);
  };
  if (gaps.filter(equal).length < Math.max(FEWEST_REGULAR - 1, REGULAR * gaps.length)) return false;
  const place = alike.findIndex((peak) => Math.abs(peak - one.peak) <= 1);
  return equal(gaps[place - 1]) || equal(gaps[place]);
}

/** Whether what departs from level and neighbours is what the season lets one expect. */
function explained(departures: Float64Array, { start, end, sign }: Candidate): boolean {
  const { centre, bandAbove, bandBelow } = fitTail(departures, 1e-300);
  let sum = 0;
  for (let i = start; i < end; i++) sum += departures[i]! - centre;
  const mean = sum / (end - start);
  return sign > 0 ? mean < bandAbove / 2 : -mean < bandBelow / 2;
}

/** What is expected near a narrow peak changes by this part of the departure at least. */
const PEAK = 0.5;

/** Whether what is expected within `reach` of a stretch changes by so much. */
function atEdge(expected: Float64Array, { start, end }: Candidate, reach: number, least: number): boolean {
  let [low, high] = [Infinity, -Infinity];
  for (let i = Math.max(0, start - reach); i < Math.min(expected.length, end + reach); i++) {
    low = Math.min(low, expected[i]!);
    high = Math.max(high, expected[i]!);
  }
  return high - low >= least;
}

export interface Analysed {
  readonly values: Float64Array;
  readonly season: Season | null;
  readonly tracks: readonly Track[];
  readonly candidates: readonly Candidate[];
  /** What explains most [N], how much more or less than usual the values vary there [N], and what is no departure. */
  readonly ordinary: Float64Array;
  readonly phases: Float64Array | null;
  readonly floor: number;
  readonly usualStep: number;
}

export interface AnalyseOptions {
  /** Samples of an hour, a day, a week, where known. */
  readonly calendar?: readonly number[];
  /** [N] samples that the clock of the calendar is ahead of the count of samples; where it is never changed, absent. */
  readonly clock?: Int32Array;
  /** Departures below this part of the range of the values (1 % to 99 %) are none; default 0.02. */
  readonly relativeFloor?: number;
  /** Departures below this are none, in units of the values; default 0. */
  readonly absoluteFloor?: number;
}

/** @param values [N], N ≥ 2, finite */
export function analyse(values: Float64Array, options: AnalyseOptions = {}): Analysed {
  const n = values.length;
  const { low, high, middle } = robustRange(values);
  const range = high - low;
  const tracks: Track[] = [];
  const least = LEVELS.low;
  let largest = range;
  if (!(range > 0)) for (const value of values) largest = Math.max(largest, Math.abs(value - middle));
  const floor =
    Math.max((options.relativeFloor ?? 0.02) * largest, options.absoluteFloor ?? 0, quantum(values, range)) ||
    Number.MIN_VALUE;
  const usualStep = quantileInPlace(
    Float64Array.from({ length: n - 1 }, (_, i) => Math.abs(values[i + 1]! - values[i]!)),
    n - 1,
    0.5,
  );
  const season = findSeason(values, options.calendar, options.clock);
  const jitter = season === null ? 1 : Math.max(1, Math.round(season.period / 150));
  const residual = season === null ? null : departures(values, season.expected, jitter);
  const phases =
    season === null || residual === null
      ? null
      : spread(residual, season, Math.max(floor, usualSize(residual)), jitter);
  tracks.push({
    name: 'level',
    values: values.map((value) => value - middle),
    floor,
    windows: windowLengths(n),
  });
  const away = usualSize(values.map((value) => value - middle));
  for (const window of [9, 33]) {
    if (n < 3 * window) continue;
    const beside = difference(values, centredMedians(values, window));
    // Samples that do not follow their neighbours are not to be judged by them.
    if (usualSize(beside) > FOLLOWING * away) continue;
    tracks.push({
      name: 'local',
      values: beside,
      floor,
      windows: windowLengths(n).filter((w) => w <= window / 2),
    });
  }
  if (season !== null && residual !== null) {
    tracks.push({
      name: 'season',
      values: residual.map((value, i) => value / phases![i]!),
      floor,
      windows: windowLengths(n),
    });
  }
  const window =
    season === null ? Math.min(64, n >> 3) : Math.min(season.period * Math.ceil(16 / season.period), n >> 2);
  const similar = analogues(values, window);
  const overEdges = (found: Float64Array, expected: Float64Array): Float64Array => {
    const edges = spreadAtEdges(found, expected, Math.max(floor, usualSize(found)), jitter);
    return found.map((value, i) => value / edges[i]!);
  };
  if (similar !== null && similar.rest < MOST_LEFT) {
    tracks.push({
      name: 'analogue',
      values: overEdges(departures(values, similar.expected, jitter), similar.expected),
      floor,
      windows: windowLengths(n).filter((w) => w <= 4 * similar.window),
    });
  }
  for (const { name, values: departures } of [...tracks]) {
    if (name !== 'season' && name !== 'analogue') continue;
    tracks.push({
      name: 'size',
      values: size(departures, Math.max(floor, usualSize(departures))),
      floor: 0.05,
      windows: windowLengths(n, 5),
      onlyAbove: true,
    });
  }
  // Where nothing moves most of the time, to stand still is no departure, and what moves is seen by the others.
  if (usualStep > 0) {
    tracks.push({
      name: 'movement',
      values: movement(values, Math.max(floor / 20, 0.2 * meanStep(values))),
      floor: 0.05,
      windows: windowLengths(n, 8),
    });
  }
  const looks = tracks.length;
  const candidates = tracks.flatMap((track): Candidate[] =>
    scan(track.values, {
      ...{ floor: track.floor, windows: track.windows, least, looks },
      logarithmic: LOGARITHMIC.has(track.name),
      edges: track.name === 'analogue',
    })
      .filter(({ sign }) => sign > 0 || track.onlyAbove !== true)
      .map((one) => ({ ...one, track: track.name })),
  );
  candidates.push(...stillness(values, least).map((one) => ({ ...one, track: 'still' as const })));
  candidates.push(...cutoffs(values, least).map((one) => ({ ...one, track: 'limit' as const })));
  // A level that follows the cycles would follow a shift that outlasts them.
  const calm = season === null ? values : difference(values, difference(season.expected, season.level));
  const seasonal = tracks.find(({ name }) => name === 'season');
  const alike = tracks.find(({ name }) => name === 'analogue');
  const vetoed = (one: Candidate): boolean => {
    if (seasonal === undefined) return false;
    if (one.track === 'level' || one.track === 'local') return explained(seasonal.values, one);
    // A narrow peak that comes a little early or late is told by the peaks elsewhere, not by their mean.
    return (
      one.track === 'season' &&
      alike !== undefined &&
      one.end - one.start <= 2 * jitter + 2 &&
      atEdge(
        season!.expected,
        one,
        2 * jitter,
        PEAK * Math.abs(values[one.peak]! - season!.expected[one.peak]!),
      ) &&
      explained(alike.values, one)
    );
  };
  candidates.push(
    ...levels(
      steps(calm, { floor, least, looks, shortest: Math.max(12, Math.ceil(season?.period ?? 0)) }),
      calm,
      middle,
    ),
  );
  const judged = candidates
    .filter((one) => !vetoed(one) && !regular(one, candidates))
    .map((one) => ({
      ...one,
      severity: one.severity / (1 + (likeEdges(values, usualStep, one, season, alike?.values) / PEERS) ** 3),
    }))
    .filter(({ severity }) => severity >= least)
    .sort((a, b) => b.severity - a.severity);
  const plain = levelOrNeighbours(values, middle);
  // Similar stretches are what is expected where they tell much more: a wave whose pace changes, not noise with a spike here and there.
  const ordinary =
    season?.expected ??
    (similar !== null &&
    usualSize(difference(values, similar.middle)) < FOLLOWS * usualSize(difference(values, plain))
      ? similar.middle
      : plain);
  return { values, season, tracks, candidates: judged, ordinary, phases, floor, usualStep };
}

/** Neighbours must explain the values so much better than their level to be what is expected. */
const FOLLOWS = 0.5;

/** The level of the whole series, or the running median where the level moves [N]. */
function levelOrNeighbours(values: Float64Array, middle: number): Float64Array {
  const level = values.map(() => middle);
  if (values.length < 99) return level;
  const near = centredMedians(values, 33);
  return usualSize(difference(values, near)) < FOLLOWS * usualSize(difference(values, level)) ? near : level;
}

/** What a step ends began at most so many of its spans before. */
const FURTHEST = 3;
/** Longest part of a series that is an episode rather than half of it. */
const LONGEST_EPISODE = 1 / 3;

/**
 * From a step to the one that takes it back; where there is none, of what lies before and after it the part that is farther from the usual
 * level: a step back to it after a drift away is the end of something, and not its beginning.
 */
function levels(found: readonly Step[], values: Float64Array, usual: number): Candidate[] {
  const n = values.length;
  const most = Math.floor(LONGEST_EPISODE * n);
  const out: Candidate[] = [];
  const used = new Set<Step>();
  for (const one of [...found].sort((a, b) => b.severity - a.severity)) {
    if (used.has(one)) continue;
    used.add(one);
    const back = found.find(
      (other) =>
        !used.has(other) &&
        Math.sign(other.size) !== Math.sign(one.size) &&
        Math.abs(other.size) > 0.4 * Math.abs(one.size) &&
        Math.abs(other.size) < 2.5 * Math.abs(one.size) &&
        Math.abs(other.at - one.at) <= most &&
        !found.some(
          (between) => between.at > Math.min(one.at, other.at) && between.at < Math.max(one.at, other.at),
        ),
    );
    const add = (start: number, end: number, sign: number): void =>
      void out.push({
        ...{ start, end, sign: sign > 0 ? 1 : -1, severity: one.severity },
        ...{ peak: start, track: 'step' as const },
      });
    if (back !== undefined) {
      used.add(back);
      const first = back.at < one.at ? back : one;
      add(first.at, Math.max(one.at, back.at), first.size);
      continue;
    }
    const before = meanOf(values, Math.max(0, one.at - one.span), one.at);
    const after = meanOf(values, one.at, Math.min(n, one.at + one.span));
    const half = (before + after) / 2;
    const later = Math.abs(after - usual) >= Math.abs(before - usual);
    const sign = later ? Math.sign(one.size) : -Math.sign(one.size);
    // As far as it adds up to more.
    let [sum, largest, reach] = [0, 0, 0];
    const room = later ? n - one.at : one.at;
    const furthest = later ? most : Math.min(most, FURTHEST * one.span);
    for (let k = 1; k <= room; k++) {
      sum += sign * (values[later ? one.at + k - 1 : one.at - k]! - half);
      if (sum > largest) [largest, reach] = [sum, k];
    }
    if (reach > furthest) add(one.at, one.at + 1, one.size);
    else if (later) add(one.at, one.at + Math.max(1, reach), sign);
    else add(one.at - Math.max(1, reach), one.at, sign);
  }
  return out;
}

/** Mean of samples [from, to). */
function meanOf(values: Float64Array, from: number, to: number): number {
  let sum = 0;
  for (let i = from; i < to; i++) sum += values[i]!;
  return sum / Math.max(1, to - from);
}

export interface Joined extends Candidate {
  /** The candidates that it is made of, itself the most severe. */
  readonly members: readonly Candidate[];
}

/** Weaker than this part of the most severe member, a candidate does not stretch a group. */
const WEAK = 0.4;

/** A step that is never taken back stretches a group to the end only where it is as severe. */
const LASTING = 1;

/** So many groups in a row, so much of a season apart at most, are the peaks of one change. */
const FEWEST_PEAKS = 3;
const NEAR_PEAKS = 0.6;

/** Candidates that overlap or all but touch are one: its extent is that of all of them that are not weak. */
export function join(candidates: readonly Candidate[], period: number | null = null): Joined[] {
  const last = Math.max(...candidates.map(({ end }) => end));
  const lasting = (one: Candidate): boolean => one.track === 'step' && one.end === last;
  const groups: { start: number; end: number; members: Candidate[] }[] = [];
  for (const one of candidates) {
    const near = groups.filter(({ start, end, members }) => {
      const gap = Math.max(one.start - end, start - one.end);
      const shorter = Math.min(end - start, one.end - one.start);
      return (
        gap <= Math.min(Math.max(2, 0.5 * shorter), period === null ? 16 : Math.max(2, period / 3)) &&
        one.severity >= (lasting(one) ? LASTING : WEAK) * members[0]!.severity
      );
    });
    const inside = groups.some(({ start, end }) => one.start < end && start < one.end);
    if (near.length === 0) {
      if (!inside) groups.push({ start: one.start, end: one.end, members: [one] });
      continue;
    }
    const first = near[0]!;
    for (const other of near.slice(1)) {
      first.start = Math.min(first.start, other.start);
      first.end = Math.max(first.end, other.end);
      first.members.push(...other.members);
      groups.splice(groups.indexOf(other), 1);
    }
    first.start = Math.min(first.start, one.start);
    first.end = Math.max(first.end, one.end);
    first.members.push(one);
  }
  // A longer stretch that the strong parts all but fill is one event of which they are parts.
  for (const one of candidates) {
    const inside = groups.filter(({ start, end }) => {
      const shared = Math.min(end, one.end) - Math.max(start, one.start);
      return 2 * shared >= end - start;
    });
    if (inside.length === 0 || inside.some(({ members }) => members.includes(one))) continue;
    const covered = inside.reduce((sum, { start, end }) => sum + end - start, 0);
    const hull = Math.max(...inside.map(({ end }) => end)) - Math.min(...inside.map(({ start }) => start));
    const length = one.end - one.start;
    if (hull < 0.5 * length || (inside.length < 2 && covered < 0.5 * length)) continue;
    const first = inside[0]!;
    for (const other of inside.slice(1)) {
      first.members.push(...other.members);
      groups.splice(groups.indexOf(other), 1);
    }
    first.members.push(one);
    first.start = Math.min(one.start, ...inside.map(({ start }) => start));
    first.end = Math.max(one.end, ...inside.map(({ end }) => end));
  }
  // What lies inside of another stretch is part of it; what reaches beyond it stretches it, unless it is a weak step beside a strong one.
  const apart: typeof groups = [];
  const severityOf = ({ members }: (typeof groups)[number]): number =>
    Math.max(...members.map(({ severity }) => severity));
  const stepAlone = ({ members }: (typeof groups)[number]): boolean =>
    members.every(({ track }) => track === 'step');
  for (const one of groups.sort((a, b) => a.start - b.start)) {
    const last = apart.at(-1);
    if (last === undefined || one.start >= last.end) {
      apart.push(one);
      continue;
    }
    const [weak, strong] = severityOf(one) < severityOf(last) ? [one, last] : [last, one];
    if (stepAlone(weak) && severityOf(weak) < WEAK * severityOf(strong)) {
      if (weak === last) apart[apart.length - 1] = one;
      continue;
    }
    last.end = Math.max(last.end, one.end);
    last.members.push(...one.members);
  }
  // Every cycle of a change of amplitude or pace departs at its peaks: three and more, closer than a cycle, are one.
  const events: typeof groups = [];
  for (let i = 0; i < apart.length; ) {
    let j = i + 1;
    while (period !== null && j < apart.length && apart[j]!.start - apart[j - 1]!.end <= NEAR_PEAKS * period)
      j++;
    const chain = apart.slice(i, j);
    if (chain.length >= FEWEST_PEAKS) {
      const members = chain.flatMap((one) => one.members);
      events.push({ start: chain[0]!.start, end: chain.at(-1)!.end, members });
    } else events.push(...chain);
    i = j;
  }
  return events
    .map(({ start, end, members }) => {
      members.sort((a, b) => b.severity - a.severity);
      const worst = members[0]!;
      // Where one value begins and ends is exact.
      return worst.track === 'still' ? { ...worst, members } : { ...worst, start, end, members };
    })
    .sort((a, b) => b.severity - a.severity);
}

export interface DetectOptions extends AnalyseOptions {
  /**
   * Least severity of a finding; default 2: of a hundred series without anomaly one has a finding by chance, if its departures are
   * distributed as they seem.
   */
  readonly severity?: number;
  /** Only findings in this direction. */
  readonly direction?: 'above' | 'below' | 'both';
}

/** Series of fewer samples tell nothing of what is usual. */
const FEWEST_SAMPLES = 16;
export const DEFAULT_SEVERITY = LEVELS.medium;

/**
 * What is unusual in [N] values; NaN is a missing one. Bounded: O(N log N), and at most a few seconds for a million samples.
 *
 * @throws DataError for no sample, no value at all, or an infinite one; ConfigError for an option out of range
 */
export function detect(given: Float64Array, options: DetectOptions = {}): Detection {
  const {
    severity = DEFAULT_SEVERITY,
    direction = 'both',
    relativeFloor = 0.02,
    absoluteFloor = 0,
  } = options;
  requireOption(severity >= LEVELS.low && severity <= 100, 'severity', severity, `${LEVELS.low} to 100`);
  requireOption(relativeFloor >= 0 && relativeFloor <= 1, 'relative floor', relativeFloor, '0 to 1');
  requireOption(
    absoluteFloor >= 0 && Number.isFinite(absoluteFloor),
    'absolute floor',
    absoluteFloor,
    'a number from 0 on',
  );
  const { values: bridged } = bridge(given);
  const n = bridged.length;
  // Values so large or small that their squares are not finite are analysed in other units.
  const magnitude = largestMagnitude(bridged);
  const unit = magnitude > 1e100 || (magnitude > 0 && magnitude < 1e-100) ? magnitude : 1;
  const values = unit === 1 ? bridged : bridged.map((value) => value / unit);
  const constant = values.every((value) => value === values[0]);
  if (n < FEWEST_SAMPLES || constant) {
    const structure = [
      constant ? 'Every value is the same.' : `${n} samples are too few to tell what is usual.`,
    ];
    return {
      score: new Float64Array(n),
      expected: bridged,
      low: bridged,
      high: bridged,
      findings: [],
      structure,
      seasons: [],
    };
  }
  const analysed = analyse(values, { ...options, absoluteFloor: absoluteFloor / unit });
  const { season, tracks, candidates, usualStep } = analysed;
  const all = join(candidates, season?.period ?? null);
  const unusual = new Uint8Array(n);
  for (const { start, end, severity: own } of all) if (own >= LEVELS.medium) unusual.fill(1, start, end);
  const { ordinary, phases: scale, floor } = analysed;
  const inside = expectation(values, ordinary, { floor, scale, unusual: (i) => unusual[i] === 1 });
  const inUnits = (some: Float64Array): Float64Array =>
    unit === 1 ? some : some.map((value) => value * unit);
  const base = { expected: inUnits(inside.expected), low: inUnits(inside.low), high: inUnits(inside.high) };
  const joined = all
    .filter((one) => one.severity >= severity)
    .map((one) => trimmed(one, values, inside))
    .flatMap((one) => withoutGaps(one, given));
  let [smallest, largest] = [Infinity, -Infinity];
  for (const value of values) {
    smallest = Math.min(smallest, value);
    largest = Math.max(largest, value);
  }
  const described = {
    ...{ values: given, base, season, usualStep: usualStep * unit, steps: stepsIn(given, 0, n) },
    ...{ least: smallest * unit, largest: largest * unit },
  };
  const findings = describeAll(joined, described).filter(
    (one) => direction === 'both' || one.direction === direction,
  );
  return {
    score: scores(tracks, candidates, n),
    ...base,
    findings,
    structure: structureOf(season, base),
    seasons: season === null ? [] : [season.period],
  };
}

/** Samples outside of the band that make a stretch theirs, as a part of those between the first and the last of them. */
const MOSTLY_OUTSIDE = 0.6;

/** A stretch that leaves the band ends where it comes back. */
function trimmed(one: Joined, values: Float64Array, { low, high }: Expectation): Joined {
  let [start, end, outside] = [one.end, one.start, 0];
  for (let i = one.start; i < one.end; i++) {
    if (values[i]! >= low[i]! && values[i]! <= high[i]!) continue;
    outside++;
    start = Math.min(start, i);
    end = i + 1;
  }
  return outside >= MOSTLY_OUTSIDE * (end - start) && outside > 0 ? { ...one, start, end } : one;
}

/** A stretch without the missing values at its ends; none where half of it is missing. */
function withoutGaps(one: Joined, given: Float64Array): Joined[] {
  let { start, end } = one;
  while (start < end && Number.isNaN(given[start]!)) start++;
  while (end > start && Number.isNaN(given[end - 1]!)) end--;
  let known = 0;
  for (let i = one.start; i < one.end; i++) if (!Number.isNaN(given[i]!)) known++;
  return 2 * known < one.end - one.start || known === 0 ? [] : [{ ...one, start, end }];
}

/** Below the severity of a finding a score tells how near a sample comes to one on its own: from 0 to 1 [N]. */
function scores(tracks: readonly Track[], candidates: readonly Candidate[], n: number): Float64Array {
  const out = new Float64Array(n);
  const chance = Math.log10(n * tracks.length) + LEVELS.low;
  for (const { name, values, floor } of tracks) {
    if (LOGARITHMIC.has(name)) continue;
    const tail = usualTail(values, floor);
    for (let i = 0; i < n; i++) {
      const own = (surprise(tail, values[i]! - tail.centre) - Math.LN2) / Math.LN10 / chance;
      out[i] = Math.max(out[i]!, Math.min(own, LEVELS.low));
    }
  }
  for (const { start, end, severity } of candidates) {
    for (let i = start; i < end; i++) out[i] = Math.max(out[i]!, severity);
  }
  return out;
}

/** What the series looks like, in a sentence each. */
function structureOf(season: Season | null, { low, high }: Expectation): string[] {
  const width = quantileInPlace(difference(high, low), low.length, 0.5);
  const band = `99 of 100 samples lie within a band of ${shown(width)}`;
  return season === null
    ? [`No season was found; ${band}.`]
    : [`Repeats every ${shown(season.period)} samples; ${band} around what the other cycles let one expect.`];
}
