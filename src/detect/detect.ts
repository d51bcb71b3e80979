/**
 * Anomaly detector for one series. It compares the values with several predictions (from level, neighbours, season, similar stretches), and
 * their movement with the usual movement. Each comparison yields a track: residuals that are scanned at many window lengths and calibrated
 * against their own distribution. Overlapping candidates of all tracks are joined; the rarest one describes the finding.
 */

import { mean } from '../ground/numbers.ts';
import type { Interval } from '../ground/types.ts';
import { requireOption } from '../series/checks.ts';
import { bridge } from '../series/missing.ts';
import { quantum } from '../series/quantum.ts';
import { runningMedians } from '../series/robust.ts';
import { largestMagnitude, median, quantileInPlace } from '../series/stats.ts';
import { analogues } from './analog.ts';
import {
  centredMedians,
  departures,
  type Expectation,
  expectation,
  FOLLOWS,
  fromNeighbours,
  jitterOf,
  meanStep,
  movement,
  STILLEST,
  size,
  spread,
  spreadAtEdges,
  stepSizes,
  usualSize,
} from './departures.ts';
import { atPeak, describeAll, stepsIn } from './describe.ts';
import { type Detection, type Filter, type Finding, INSIDE, LEVELS } from './finding.ts';
import { type Joined, join } from './join.ts';
import {
  betweenJumps,
  burst,
  cutoffs,
  drifts,
  growth,
  levelStillness,
  levels,
  onlyShift,
  slowChange,
  steps,
  stillness,
} from './levels.ts';
import { heightsInMonths } from './month.ts';
import { breaksOf, findRhythm, isOnBeat } from './rhythm.ts';
import {
  type Candidate,
  LOGARITHMIC,
  outstanding,
  type Stretch,
  scan,
  type Track,
  usualTail,
  windowLengths,
} from './scan.ts';
import { difference, findSeason, type Season } from './season.ts';
import { count, figure, type Sentence, say, stepFor } from './sentence.ts';
import { sampleOf, surprise } from './tail.ts';
import {
  atEdge,
  comesByChance,
  explainer,
  likeEdges,
  onlyByParts,
  PEAK,
  PEERS,
  recurring,
  regular,
  sawtooth,
} from './usual.ts';
import {
  atRest,
  departsAtRest,
  heightsAtRest,
  isAtRest,
  isWeekend,
  restingWeekends,
  seasonOfWork,
  spreadAtRest,
  uncertaintyOfDays,
} from './weekend.ts';

/** Robust range of the values: 1 % to 99 %. */
function robustRange(values: Float64Array): { low: number; high: number; middle: number } {
  const { sample } = sampleOf(values, 50_000);
  return {
    low: quantileInPlace(sample, sample.length, 0.01),
    high: quantileInPlace(sample, sample.length, 0.99),
    middle: quantileInPlace(sample, sample.length, 0.5),
  };
}

/** Size of the values: their robust range, or where that is 0 the largest distance from the middle. */
export function sizeOf(values: Float64Array): number {
  const { low, high, middle } = robustRange(values);
  return high > low
    ? high - low
    : values.reduce((most, value) => Math.max(most, Math.abs(value - middle)), 0);
}

/** Local tracks are used if the usual residual from the neighbours is below this share of the usual residual from the level. */
const FOLLOWING = 0.85;
/** Samples of the running median that replaces a level which moves. */
const FOLLOWING_WINDOW = 33;
/** The analogue track is used if the residual from similar stretches is below this share of the residual from the stretch mean. */
const MAX_REST = 0.5;

/** Fewest samples whose distribution tells how rare a single one is: of fewer one must be far larger than all others. */
const FEWEST_FOR_TAILS = 45;
/** Fewest cycles of a season without which a level may lie; and the share of samples by which two stretches are the same. */
const [CYCLES_OF_LEVELS, SAME] = [5, 0.6];
/** Fewest days among which a long burst of noise may lie. */
const DAYS_OF_BURSTS = 3;
/** Shortest stretches that are held against each other, in samples. */
const SHORTEST_ANALOGUE = 15;

/** Tracks in which a stretch of a sawtooth departs like others. */
const OF_TEETH: ReadonlySet<Candidate['track']> = new Set(['still', 'limit', 'movement']);

/** Lengths of what departs from its neighbours. */
const ODD = [1, 2] as const;
/** Tracks that compare days. */
const OF_DAYS = new Set(['season', 'analogue', 'size']);
/** Tracks in which a weekend departs if it is the only one. */
const UNSEEN: ReadonlySet<Candidate['track']> = new Set(['analogue', 'size', 'movement', 'still']);

/** Largest departure from the season, as a share of that from the level or the neighbours, of what it expects for the most part. */
const MOST_EXPECTED = 0.35;

/** Shortest span of a step in samples, and number of the shortest spans in a series that holds few cycles of its season. */
const [SHORTEST_STEP, STEPS_IN_SERIES] = [12, 48];
/** Number of the shortest levels in a series that holds few cycles of its season. */
const LEVELS_IN_SERIES = 12;

/** Shortest window of the `size` track, in samples. */
const SHORTEST_SIZE = 12;

interface Analysed {
  readonly values: Float64Array;
  readonly season: Season | null;
  readonly tracks: readonly Track[];
  readonly candidates: readonly Candidate[];
  /** Expected values [N]. */
  readonly ordinary: Float64Array;
  /** True if these are a running median of the values. */
  readonly follows: boolean;
  /** Window of the similar stretches whose middle they are, in samples; null for other ones. */
  readonly alike: number | null;
  /** Spread of the values around `ordinary`, relative to the usual spread [N]; null without a season. */
  readonly phases: Float64Array | null;
  /** Smallest residual that counts as a departure. */
  readonly floor: number;
  readonly usualStep: number;
}

export interface AnalyseOptions {
  /** Periods of an hour, a day and a week in samples, if known. */
  readonly calendar?: readonly number[];
  /** Offset of the wall clock from the sample count, in samples [N] (daylight saving time); absent if constant. */
  readonly clock?: Int32Array;
  /** Clocks that the season may follow instead, of which the one that predicts best is taken. */
  readonly clocks?: readonly Int32Array[];
  /** Weekends [start, end) in samples, where fewer than three weeks are known; absent otherwise. */
  readonly weekends?: readonly Interval[];
  /** Wall time of each sample in ms [N], of a daily series of several months, for days on which each month departs; absent otherwise. */
  readonly dates?: Float64Array;
}

/** Smallest departure that is judged, as a share of the range of the values (1 % to 99 %) without a line. */
const FLOOR = 0.02;
/** Range around a line, as shares of the whole range: below the least, the values have no noise. */
const [LEAST_SCATTER, ON_LINE] = [2e-4, 0.5];
/** Part of a series over which its slope is measured, and largest usual change over it without the line, in usual steps: a curve wanders. */
const [SLOPE_OVER, WANDERS] = [1 / 8, 2];

/** Returns the line that [N] values scatter around, whose slope is the median one; null if they do not, stand still for a time, or begin to drift. */
function lineOf(values: Float64Array, day: number | null): Float64Array | null {
  const lag = Math.ceil(SLOPE_OVER * values.length);
  const changes = difference(values.subarray(lag), values.subarray(0, -lag));
  const rise = median(changes);
  const line = values.map((_, i) => (rise / lag) * i);
  const around = difference(values, line);
  const [whole, rest] = [sizeOf(values), sizeOf(around)];
  const usual = median(changes.map((change) => Math.abs(change - rise)));
  if (usual >= WANDERS * median(stepSizes(around))) return null;
  if (rest < LEAST_SCATTER * whole || rest > ON_LINE * whole) return null;
  if (stillness(values, LEVELS.medium, day).length > 0) return null;
  // A leak that lasts for most of the series has the median slope too.
  const leak = drifts(values, [], { floor: FLOOR * whole, least: LEVELS.medium, looks: 1, day: null });
  return leak.found.length === 0 ? line : null;
}

/**
 * @param values [N], N ≥ 2, finite
 * @param step step of counts or rounded values; given, since a level or line that was subtracted hides it
 * @param given values as they were given [N], NaN where missing
 */
function analyse(values: Float64Array, options: AnalyseOptions, step: number, given: Float64Array): Analysed {
  const n = values.length;
  const { low, high, middle } = robustRange(values);
  const tracks: Track[] = [];
  const least = LEVELS.low;
  const finest = FLOOR * sizeOf(values) || Number.MIN_VALUE;
  const floor = Math.max(finest, step);
  const usualStep = median(stepSizes(values));
  const day = dayOf(options);
  const found =
    findSeason(values, options.calendar, options.clock, options.clocks) ??
    (day === null ? null : seasonOfWork(values, options.weekends ?? [], day));
  const periodic = found === null || comesByChance(values, found.period) ? null : found;
  // Days are not rounded to samples, as times of a day are.
  const late =
    periodic === null ? 1 : day === 1 ? 0 : jitterOf(values, periodic.period, usualStep, periodic.nested);
  const [usual, jitter] = Number.isFinite(late) ? [periodic, late] : [null, 1];
  const { weekends: known = [] } = options;
  const weekends = usual === null || day === null || departsAtRest(values, usual, known, day) ? known : [];
  const season = usual === null || day === null ? usual : atRest(values, usual, weekends, day);
  // Edges that keep time but for rounding are where they belong at the ends as well.
  const cycle = season === null || jitter < 2 ? 0 : Math.round(season.period);
  const residual = season === null ? null : departures(values, season.expected, jitter, cycle, season.nested);
  const atAll =
    season === null || residual === null
      ? null
      : spread(residual, season, Math.max(floor, usualSize(residual)), jitter, cycle, day);
  const resting = season === null ? null : spreadAtRest(difference(values, season.expected), weekends);
  const phases = atAll?.map((phase, i) => phase * resting![i]!) ?? null;
  tracks.push({
    name: 'level',
    values: values.map((value) => value - middle),
    floor,
    windows: windowLengths(n),
  });
  const usualFromLevel = usualSize(tracks[0]!.values);
  // The level of the whole series, or the running median if the level moves; and the usual departure from it.
  let plain: Float64Array = values.map(() => middle);
  let usualFromPlain = usualFromLevel;
  for (const window of [9, FOLLOWING_WINDOW]) {
    if (n < 3 * window) continue;
    const neighbours = centredMedians(values, window);
    const fromNeighbours = difference(values, neighbours);
    const left = usualSize(fromNeighbours);
    if (window === FOLLOWING_WINDOW && left < FOLLOWS * usualFromLevel)
      [plain, usualFromPlain] = [neighbours, left];
    // Skip if neighbours predict little better than the level.
    if (left > FOLLOWING * usualFromLevel) continue;
    tracks.push({
      name: 'local',
      values: fromNeighbours,
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
  // Among few samples some stretch is alike by chance.
  const similar = window < SHORTEST_ANALOGUE ? null : analogues(values, window);
  const overEdges = (residuals: Float64Array, expected: Float64Array): Float64Array => {
    const edges = spreadAtEdges(residuals, expected, Math.max(floor, usualSize(residuals)), jitter, cycle);
    return residuals.map((value, i) => value / edges[i]!);
  };
  if (similar !== null && similar.rest < MAX_REST) {
    tracks.push({
      name: 'analogue',
      values: overEdges(departures(values, similar.expected, jitter, cycle), similar.expected),
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
      windows: windowLengths(n, SHORTEST_SIZE),
      onlyAbove: true,
    });
  }
  // In a mostly constant series no movement is normal, and the other tracks detect the changes.
  if (usualStep > 0) {
    const moving = movement(values, Math.max(floor / 20, 0.2 * meanStep(values)));
    // The lines that bridge missing values do not move.
    const isBridged = (i: number): boolean => Number.isNaN(given[i]!) || Number.isNaN(given[i - 1] ?? 0);
    const unbridged = moving.filter((_, i) => !isBridged(i));
    const typical = unbridged.length === 0 ? 0 : median(unbridged);
    tracks.push({
      name: 'movement',
      values: unbridged.length === n ? moving : moving.map((move, i) => (isBridged(i) ? typical : move)),
      floor: 0.05,
      windows: windowLengths(n, 8),
    });
  }
  const odd = fromNeighbours(values);
  if (usualSize(odd) <= FOLLOWING * usualFromLevel)
    tracks.push({ name: 'local', values: odd, floor, windows: ODD });
  const looks = tracks.length;
  const uncertain =
    day === null || season === null || season.period < day / 2 ? 1 : uncertaintyOfDays(n, weekends, day);
  const mayShift = season !== null && jitter > 1;
  const unshifted = mayShift ? difference(values, season.expected) : null;
  const oddExpected = mayShift ? fromNeighbours(season.expected) : null;
  // No narrow peak comes early or late where the season has none near by.
  const isLone = ({ start, end, peak }: Stretch): boolean =>
    oddExpected !== null &&
    end - start <= ODD.at(-1)! &&
    oddExpected
      .subarray(Math.max(0, start - 2 * jitter), end + 2 * jitter)
      .every((value) => Math.abs(value) < PEAK * Math.abs(odd[peak]!));
  const sizeOfMean = (some: Float64Array, { start, end }: Stretch): number =>
    Math.abs(mean(some.subarray(start, end)));
  // A peak that the season expects for the most part is compared with other cycles, not with what is around it.
  const isExpected = (track: Track, stretch: Stretch): boolean =>
    residual !== null &&
    (track.name === 'level' || track.name === 'local') &&
    sizeOfMean(isLone(stretch) ? unshifted! : residual, stretch) <
      MOST_EXPECTED * sizeOfMean(track.values, stretch);
  const candidates = tracks.flatMap((track): Candidate[] =>
    scan(track.values, {
      ...{ floor: track.floor, windows: track.windows, least, looks },
      logarithmic: LOGARITHMIC.has(track.name),
      edges: track.name === 'analogue',
      constant: track.name === 'level',
    })
      .filter(({ sign }) => sign > 0 || track.onlyAbove !== true)
      // How often a value repeats tells how long it may stay.
      .filter(
        ({ sign, start, end }) => track.name !== 'movement' || sign > 0 || !isConstant(values, start, end),
      )
      .filter((stretch) => !isExpected(track, stretch))
      .filter(({ start, end }) => track.name !== 'size' || end - start >= SHORTEST_SIZE)
      .map((candidate) => {
        // Hours differ from day to day together; a single sample has others to be compared with.
        const part = day === null ? 0 : Math.min(1, (8 * (candidate.end - candidate.start)) / day);
        const severity = candidate.severity / (OF_DAYS.has(track.name) ? uncertain ** ((1 + part) / 2) : 1);
        return { ...candidate, track: track.name, severity };
      })
      .filter(({ severity }) => severity >= least)
      .filter(({ start, end }) => n >= FEWEST_FOR_TAILS || end - start > ODD.at(-1)!),
  );
  candidates.push(
    ...[...stillness(values, least, day), ...levelStillness(values, low, high, least, day)].map(
      (candidate) => ({
        ...candidate,
        track: 'still' as const,
      }),
    ),
  );
  candidates.push(...cutoffs(values, least).map((candidate) => ({ ...candidate, track: 'limit' as const })));
  const before = [...candidates];
  for (const { name, values, floor } of tracks) {
    if (name !== 'level' && (name !== 'season' || day !== 1)) continue;
    for (const event of outstanding(values, floor)) {
      if (
        !before.some(
          ({ start, end, severity }) => severity >= LEVELS.medium && start < event.end && event.start < end,
        )
      )
        candidates.push({ ...event, track: name });
    }
  }
  // Only the seasonal shape is subtracted: with a level that follows each cycle, longer shifts would vanish too.
  const deseasonalised =
    season === null ? values : difference(values, difference(season.expected, season.level));
  candidates.push(...betweenJumps(deseasonalised, { floor, least, looks }));
  const seasonal = tracks.find(({ name }) => name === 'season');
  const analogue = tracks.find(({ name }) => name === 'analogue');
  const bySeason = seasonal === undefined ? null : explainer(seasonal.values);
  const byUnshifted =
    oddExpected === null ? null : explainer(unshifted!.map((value, i) => value / phases![i]!));
  const byAnalogue = analogue === undefined ? null : explainer(analogue.values);
  // The only weekend is like no other stretch, and moves like none.
  const sees = ({ track, start, end }: Candidate): boolean =>
    !UNSEEN.has(track) ||
    (track === 'still' && isConstant(values, start, end)) ||
    !isAtRest(start, end, weekends);
  const vetoed = (candidate: Candidate): boolean => {
    if (bySeason === null) return false;
    if (candidate.track === 'level' || candidate.track === 'local' || !sees(candidate))
      return candidate.track === 'local' && isLone(candidate) ? byUnshifted!(candidate) : bySeason(candidate);
    // Compare a slightly early or late narrow peak with similar peaks, not with the seasonal mean.
    return (
      candidate.track === 'season' &&
      byAnalogue !== null &&
      candidate.end - candidate.start <= 2 * jitter + 2 &&
      atEdge(
        season!.expected,
        candidate,
        2 * jitter,
        PEAK * Math.abs(values[candidate.peak]! - season!.expected[candidate.peak]!),
      ) &&
      cameNear(values, season!.expected[candidate.peak]!, candidate, 2 * jitter + 2) &&
      byAnalogue(candidate)
    );
  };
  const shortest = Math.max(
    SHORTEST_STEP,
    Math.min(Math.ceil(season?.period ?? 0), Math.floor(n / STEPS_IN_SERIES)),
  );
  const leaks = drifts(deseasonalised, steps(deseasonalised, { floor, finest, least, looks, shortest }), {
    ...{ floor, least, looks },
    day,
  });
  // What is over within a cycle is another shape of it, and no level. The candidate of a level that stays is only its beginning.
  const cycleOf = season?.period ?? 0;
  candidates.push(
    ...levels(leaks.others, deseasonalised, middle).filter(
      (level) =>
        level.end - level.start >= Math.min(cycleOf, n / LEVELS_IN_SERIES) ||
        level.end === n ||
        (level.lasting === true && separates(deseasonalised, level)),
    ),
  );
  // The pattern of few cycles may be a chance one, and what it leaves no level.
  const isKnownSeason = season === null || n >= CYCLES_OF_LEVELS * season.period;
  const only = isKnownSeason ? onlyShift(deseasonalised, floor) : null;
  // A lasting one is known where one of medium severity or a rarer long candidate begins; an episode by a rarer candidate, or a medium one of
  // about the same samples.
  const isKnown = (shift: Candidate, { severity, start, end, lasting }: Candidate): boolean => {
    const long = shift.end - shift.start;
    const rarer = severity >= shift.severity;
    const isMedium = severity >= LEVELS.medium;
    if (shift.lasting)
      return (
        Math.abs(start - shift.start) < long && ((lasting && isMedium) || (rarer && end - start >= long))
      );
    const shared = Math.min(end, shift.end) - Math.max(start, shift.start);
    const isSame = shared >= SAME * Math.max(long, end - start);
    return shared > 0 && (rarer || (isMedium && isSame));
  };
  if (only !== null && !candidates.some((other) => isKnown(only, other))) candidates.push(only);
  const missedBy = ({ track }: Candidate): Float64Array | undefined =>
    track === 'season' && !options.calendar?.includes(season!.period)
      ? difference(values, season!.expected)
      : analogue?.values;
  const teeth = sawtooth(values, options.calendar);
  // No load switches a little early or late where none ever does.
  const peersOf = (candidate: Candidate): number =>
    candidate.track === 'season' && (day === 1 || phases![candidate.peak]! <= STILLEST)
      ? 0
      : likeEdges(values, usualStep, candidate, season, missedBy(candidate));
  const accepted = candidates
    .filter((candidate) => !vetoed(candidate) && !regular(candidate, candidates, n))
    .filter(
      (candidate) =>
        teeth === null ||
        OF_TEETH.has(candidate.track) ||
        // A level that stays has the season to be compared with.
        (candidate.lasting === true && season !== null) ||
        !teeth(candidate),
    )
    .map((candidate) => ({
      ...candidate,
      severity: candidate.severity / (1 + (peersOf(candidate) / PEERS) ** 3),
    }))
    .filter(({ severity }) => severity >= least)
    .sort((a, b) => b.severity - a.severity);
  accepted.push(...leaks.found);
  const slow = teeth === null ? slowChange(deseasonalised, { floor, least, looks }) : null;
  const others = accepted.filter(({ lasting }) => lasting === true);
  // Steps that are found in the middle of a slow change are a part of it.
  const isPart = ({ start, drifts, severity }: Candidate): boolean =>
    slow !== null && drifts !== true && start >= slow.start && start < slow.end && severity < slow.severity;
  if (slow !== null && others.every(isPart)) {
    for (const other of others) accepted.splice(accepted.indexOf(other), 1);
    accepted.push(slow);
  }
  const moves = tracks.find(({ name }) => name === 'movement');
  // The only day is livelier than the nights around it.
  const knowsDays = day === null || n >= DAYS_OF_BURSTS * day;
  const grows =
    moves === undefined
      ? null
      : (growth(moves.values, least, looks) ?? (knowsDays ? burst(moves.values, least, looks) : null));
  // Other noise behind a step, and the step itself, are no growth.
  const stepped = (stretch: Candidate): boolean =>
    accepted.some(({ track, severity, ...step }) => {
      const shared = Math.min(step.end, stretch.end) - Math.max(step.start, stretch.start);
      return track === 'step' && severity >= LEVELS.medium && 2 * shared >= stretch.end - stretch.start;
    });
  if (grows !== null && !stepped(grows)) accepted.push(grows);
  accepted.sort((a, b) => b.severity - a.severity);
  const sizes = tracks.flatMap(({ name, values }) => (name === 'size' ? [values] : []));
  const isOfParts = onlyByParts(sizes, accepted);
  const told = accepted.filter((candidate) => candidate.track !== 'size' || !isOfParts(candidate));
  // Expect the values of similar stretches only if they predict far better: for a wave of varying period, not noise with a few spikes.
  const ordinary =
    season?.expected ??
    (similar !== null && usualSize(difference(values, similar.middle)) < FOLLOWS * usualFromPlain
      ? similar.middle
      : plain);
  const follows = ordinary === plain && usualFromPlain !== usualFromLevel;
  const alike = ordinary === similar?.middle ? similar.window : null;
  return {
    ...{ values, season, tracks, candidates: told, ordinary, follows, alike, phases, floor, usualStep },
  };
}

/** Least difference of all samples before and behind a level that stays, as a share of its step. */
const LEAST_STAY = 0.5;

/** Returns true if all samples before the beginning of a level differ from all behind it by at least half as much as those next to it. */
function separates(values: Float64Array, { start, end, sign }: Candidate): boolean {
  const change = (from: number, to: number): number =>
    sign * (median(values.slice(start, to)) - median(values.slice(from, start)));
  return start > 0 && change(0, values.length) > LEAST_STAY * change(Math.max(0, 2 * start - end), end);
}

const isConstant = (values: Float64Array, start: number, end: number): boolean => {
  for (let i = start + 1; i < end; i++) if (values[i] !== values[start]) return false;
  return true;
};

/** Returns true if the values reach at least half of the expected peak within `reach` samples of a stretch: it is shifted, not missing. */
function cameNear(
  values: Float64Array,
  expected: number,
  { start, end, peak }: Candidate,
  reach: number,
): boolean {
  const half = Math.abs(values[peak]! - expected) / 2;
  for (let i = Math.max(0, start - reach); i < Math.min(values.length, end + reach); i++) {
    if (Math.abs(values[i]! - expected) <= half) return true;
  }
  return false;
}

export interface FilterOptions {
  /**
   * Minimum severity of a finding. Default: 2, one false finding per 100 normal series, if residuals follow the estimated distribution.
   */
  readonly severity?: number;
  /** Direction of the findings to keep. Default: both. */
  readonly direction?: 'above' | 'below' | 'both';
  /**
   * Smallest departure to keep, as a share of the range of the values (1 % to 99 %). Default: 0; departures below
   * 0.02 are not judged. Like all filters it removes findings, and changes none.
   */
  readonly relativeFloor?: number;
  /** Smallest departure to keep, in units of the values. Default: 0. */
  readonly absoluteFloor?: number;
}

export type DetectOptions = AnalyseOptions & FilterOptions;

/** Size of a finding's departure, by which filters keep it; infinite for a stretch that is too quiet, which departs by nothing. */
function departureOf({ kind, direction, observed, expected, stepped }: Finding): number {
  if (kind === 'flat' || (kind === 'variance' && direction === 'below')) return Number.POSITIVE_INFINITY;
  const far = Math.abs(observed.peak - expected.value);
  if (stepped !== null) return Math.max(far, Math.abs(observed.mean - stepped.mean));
  return kind === 'variance' || kind === 'frequency' ? Math.max(far, observed.largest - observed.least) : far;
}

const NONE: Readonly<Record<Filter, number>> = { severity: 0, direction: 0, change: 0, share: 0 };

/** Minimum number of samples to estimate usual behaviour. */
export const FEWEST_SAMPLES = 16;
export const DEFAULT_SEVERITY = LEVELS.medium;

/** @throws ConfigError for a filter out of range */
function checkFilters({
  severity = DEFAULT_SEVERITY,
  relativeFloor = 0,
  absoluteFloor = 0,
}: FilterOptions): void {
  requireOption(severity >= LEVELS.low && severity <= 100, 'severity', severity, `${LEVELS.low} to 100`);
  requireOption(relativeFloor >= 0 && relativeFloor <= 1, 'relative floor', relativeFloor, '0 to 1');
  requireOption(
    absoluteFloor >= 0 && Number.isFinite(absoluteFloor),
    'absolute floor',
    absoluteFloor,
    'a number from 0 on',
  );
}

/** Leaves out findings by the filters, and counts them. @param size range of the values, of which `relativeFloor` is a share */
export function filterFindings(
  found: readonly Finding[],
  size: number,
  options: FilterOptions,
): Pick<Detection, 'findings' | 'leftOut'> {
  checkFilters(options);
  const { severity = DEFAULT_SEVERITY, direction = 'both', relativeFloor = 0, absoluteFloor = 0 } = options;
  const share = relativeFloor * size;
  const removedBy = (finding: Finding): Filter | null => {
    if (finding.severity < severity) return 'severity';
    if (direction !== 'both' && finding.direction !== direction) return 'direction';
    if (absoluteFloor > 0 && departureOf(finding) < absoluteFloor) return 'change';
    return share > 0 && departureOf(finding) < share ? 'share' : null;
  };
  const leftOut = { ...NONE };
  const findings = found.filter((finding) => {
    const filter = removedBy(finding);
    if (filter !== null) leftOut[filter]++;
    return filter === null;
  });
  return { findings, leftOut };
}

/** Returns what is said of values [N] that cannot be judged. */
export function unjudged(values: Float64Array, structure: Sentence): Detection {
  const score = new Float64Array(values.length);
  return {
    ...{ score, expected: values, low: values, high: values, findings: [], leftOut: { ...NONE } },
    ...{ structure, seasons: [] },
  };
}

/**
 * Detects anomalies in [N] values; NaN marks a missing value. O(N log N): at most a few seconds for a million samples.
 *
 * @throws DataError for an empty series, one without values, or an infinite value; ConfigError for an option out of range
 */
export function detect(given: Float64Array, asked: DetectOptions = {}): Detection {
  const { severity = DEFAULT_SEVERITY } = asked;
  checkFilters(asked);
  const { values: bridged } = bridge(given);
  const n = bridged.length;
  // Rescale values whose squares would overflow or underflow.
  const magnitude = largestMagnitude(bridged);
  const unit = magnitude > 1e100 || (magnitude > 0 && magnitude < 1e-100) ? magnitude : 1;
  const scaled = unit === 1 ? bridged : bridged.map((value) => value / unit);
  if (isConstant(scaled, 0, n)) return unjudged(bridged, say`All values are equal.`);
  if (n < FEWEST_SAMPLES) {
    const samples = count(n, { quantity: 'samples', start: 0, end: n });
    return unjudged(bridged, say`${samples} samples are too few to tell usual from unusual.`);
  }
  const range = robustRange(scaled);
  const step = quantum(scaled, range.high - range.low);
  const day = dayOf(asked);
  const weekends = day === null ? [] : restingWeekends(scaled, asked.weekends ?? [], day);
  const { dates } = asked;
  const ofRest = day === null ? null : heightsAtRest(scaled, weekends, day);
  const heights = ofRest ?? (dates === undefined ? null : heightsInMonths(scaled, dates));
  const whole = heights === null ? scaled : difference(scaled, heights);
  if (isConstant(whole, 0, n))
    return unjudged(bridged, say`Usual days and days of rest or of a month have one value each.`);
  // The height of a line depends on the length of the series: it hides what departs from the line.
  const line = lineOf(whole, day);
  const values = line === null ? whole : difference(whole, line);
  const options = { ...asked, weekends };
  const first = analyse(values, options, step, given);
  // Remove lasting level shifts and drifts, then analyse again.
  const moved = first.candidates.filter(
    ({ lasting, drifts, severity }) => (lasting || drifts) && severity >= LEVELS.medium,
  );
  const period = Math.max(1, Math.round(first.season?.period ?? 1));
  const away = levelChange(values, moved, period);
  const level = moved.length === 0 ? values : difference(values, away);
  const analysed = moved.length === 0 ? first : analyse(level, options, step, given);
  const { season, tracks, usualStep } = analysed;
  const candidates =
    moved.length === 0
      ? first.candidates
      : // Behind a step other noise is part of the new level.
        [
          ...analysed.candidates.filter(({ lasting, drifts, grows }) => !lasting && !drifts && !grows),
          ...moved,
        ].sort((a, b) => b.severity - a.severity);
  const ofMonths = ofRest === null ? heights : null;
  const withoutMonths = given.map((value, i) => value - (ofMonths?.[i] ?? 0) * unit);
  // The season of a week expects weekends, which come neither early nor late.
  const rhythm = day === 1 && season !== null ? null : findRhythm(withoutMonths);
  const isUsual = recurring(
    difference(level, analysed.ordinary),
    analysed.floor,
    season === null && !analysed.follows,
  );
  const recurs = (event: Joined): boolean =>
    !event.lasting && event.members.every(({ track }) => OF_VALUES.has(track)) && isUsual(event);
  const departing = join(
    candidates.filter((candidate) => !isOnBeat(rhythm, candidate)),
    n,
    // Changes of a week depart at the peaks of its days.
    season === null ? null : Math.min(season.period, day ?? season.period),
  ).map((event) =>
    !event.drifts && ((day !== null && isWeekend(event, n, weekends, day)) || recurs(event))
      ? { ...event, severity: Math.min(event.severity, UNKNOWN) }
      : event,
  );
  const strong = departing.filter((event) => event.severity >= LEVELS.medium);
  // What comes once a day is not missing, or late, on the only weekend; nor is what pauses for all of it and comes again.
  const rests = ({ start, end }: Candidate): boolean =>
    weekends.some(([from, to]) => {
      const shared = Math.min(end, to) - Math.max(start, from);
      const near = NEAR_WEEKEND * rhythm!.every;
      const whole = start <= from + near && end >= to - near && to < n;
      return 2 * shared >= end - start && (whole || 2 * rhythm!.every >= day!);
    });
  const broken = breaksOf(rhythm, strong).filter((candidate) => !rests(candidate));
  const all = [...departing, ...broken.map((candidate) => ({ ...candidate, members: [candidate] }))].sort(
    (a, b) => b.severity - a.severity,
  );
  const unusual = new Uint8Array(n);
  for (const event of all) {
    // After a lasting shift the new level counts as usual.
    if (event.severity >= LEVELS.medium && event.lasting !== true) unusual.fill(1, event.start, event.end);
  }
  const { ordinary, phases: scale, floor } = analysed;
  // A running median follows a long departure, and departures are alike: they are taken of the other samples.
  const followed =
    (analysed.follows
      ? mediansOfOthers(level, unusual, FOLLOWING_WINDOW)
      : analysed.alike === null
        ? null
        : middleOfOthers(level, unusual, analysed.alike)) ?? ordinary;
  const inside = expectation(level, followed.slice(), { floor, scale, unusual: (i) => unusual[i] === 1 });
  const [lowest, highest] = [Math.min, Math.max].map((of) => level.reduce((a, b) => of(a, b))) as [
    number,
    number,
  ];
  const usualThere = new Set<Joined>();
  for (const event of all) {
    const around = all.find(
      ({ start, end, lasting }) =>
        lasting !== true &&
        start < event.start &&
        event.end < end &&
        INSIDE * (event.end - event.start) <= end - start,
    );
    if (around === undefined || event.track !== 'local') continue;
    // The level around a spike or a dip is expected there.
    const others = (some: Float64Array): Float64Array =>
      some
        .slice(around.start, around.end)
        .filter((_, i) => around.start + i < event.start || around.start + i >= event.end);
    const shift = median(others(level)) - median(others(inside.expected));
    // The band is as wide as the noise there, and the least usual value does not end it.
    const noise = OF_STEPS * median(stepSizes(others(level)));
    for (let i = event.start; i < event.end; i++) {
      const expected = inside.expected[i]!;
      const reach = Math.max(noise, inside.high[i]! - expected, expected - inside.low[i]!);
      inside.expected[i]! += shift;
      inside.low[i] = Math.max(expected + shift - reach, lowest);
      inside.high[i] = Math.min(expected + shift + reach, highest);
    }
    const isOutside = (value: number, i: number): boolean =>
      value < inside.low[event.start + i]! || value > inside.high[event.start + i]!;
    if (!level.subarray(event.start, event.end).some(isOutside)) usualThere.add(event);
  }
  const unusualThere = all.filter((event) => !usualThere.has(event));
  // Extents do not depend on the severity that is asked for.
  const usual = unusualThere.filter((event) => event.severity >= DEFAULT_SEVERITY);
  const plain = season === null ? values : difference(values, difference(season.expected, season.level));
  const events = withReturns(
    unusualThere
      .filter((event) => event.severity >= Math.min(severity, DEFAULT_SEVERITY))
      .map((event) =>
        event.lasting && !event.drifts
          ? { ...event, end: untilNext(event, usual, plain) }
          : trimmed(event, level, inside),
      )
      // What is left of a level by its band may be the dip inside it.
      .filter(
        (event, i, some) =>
          some.findIndex(({ start, end }) => start === event.start && end === event.end) === i,
      ),
    plain,
  );
  // What returned to the earlier level is expected there.
  const stays = moved.filter(({ start }) => events.some((event) => event.lasting && event.start === start));
  // Values that leave a line are compared with the line.
  const shown =
    stays.length === 0 || line !== null
      ? null
      : stays.length === moved.length
        ? away
        : levelChange(values, stays, period);
  const inUnits = (some: Float64Array): Float64Array =>
    some.map((value, i) => (value + (shown?.[i] ?? 0) + (heights?.[i] ?? 0) + (line?.[i] ?? 0)) * unit);
  const base = { expected: inUnits(inside.expected), low: inUnits(inside.low), high: inUnits(inside.high) };
  const departs = (i: number): boolean => level[i]! < inside.low[i]! || level[i]! > inside.high[i]!;
  const joined = events.flatMap((event) => withoutGaps(event, given, departs));
  let [smallest, largest] = [Infinity, -Infinity];
  for (const value of scaled) {
    smallest = Math.min(smallest, value);
    largest = Math.max(largest, value);
  }
  const described = {
    ...{ values: given, base, season, usualStep: usualStep * unit, steps: stepsIn(given, 0, n) },
    ...{ least: smallest * unit, largest: largest * unit, onLine: line !== null },
  };
  const told = describeAll(joined, described).filter(
    (finding) => !(atPeak(finding.kind) && insideBand(finding)),
  );
  const { findings, leftOut } = filterFindings(told, sizeOf(whole) * unit, options);
  return {
    score: scores(tracks, [...candidates, ...broken], n),
    ...base,
    findings,
    leftOut,
    structure: structureOf(season, base),
    seasons: season === null ? [] : [season.period],
  };
}

/** Middle of the similar stretches of [N] with a line over each unusual stretch; null where most samples are unusual, or none are similar. */
function middleOfOthers(values: Float64Array, unusual: Uint8Array, window: number): Float64Array | null {
  const others = values.map((value, i) => (unusual[i] === 1 ? Number.NaN : value));
  const known = others.filter((value) => !Number.isNaN(value)).length;
  return 2 * known < values.length ? null : (analogues(bridge(others).values, window)?.middle ?? null);
}

/** Running median of the usual samples of [N], bridged over the unusual ones; null for fewer than a window. */
function mediansOfOthers(values: Float64Array, unusual: Uint8Array, window: number): Float64Array | null {
  const others = values.filter((_, i) => unusual[i] === 0);
  if (others.length < window) return null;
  const medians = runningMedians(others, window);
  let next = -(window >> 1);
  const known = values.map((_, i) =>
    unusual[i] === 1 ? Number.NaN : medians[Math.min(medians.length - 1, Math.max(0, next++))]!,
  );
  return bridge(known).values;
}

/**
 * Computes the cumulative level change [N] due to lasting shifts (difference of the medians of whole cycles before and after, with a line
 * between them where the shift is slow) and drifts (a line).
 */
function levelChange(values: Float64Array, moved: readonly Candidate[], period: number): Float64Array {
  const n = values.length;
  const away = new Float64Array(n);
  const medianOf = (from: number, to: number): number => {
    const some = values.slice(Math.max(0, from), Math.min(n, to));
    return quantileInPlace(some, some.length, 0.5);
  };
  // A cycle's median does not depend on where it begins.
  const wholeCycles = (samples: number): number => Math.max(1, Math.floor(samples / period)) * period;
  const sorted = moved.toSorted((a, b) => a.start - b.start);
  for (const [k, { start, end, drifts, slow }] of sorted.entries()) {
    const from = sorted[k - 1]?.start ?? 0;
    const to = drifts ? end : (sorted[k + 1]?.start ?? n);
    const before = medianOf(start - wholeCycles(start - from), start);
    if (drifts) {
      const late = Math.min(to - start, wholeCycles(Math.ceil((to - start) / 8)));
      const slope = (medianOf(to - late, to) - before) / Math.max(1, to - late / 2 - start);
      for (let i = start; i < to; i++) away[i]! += slope * (i - start);
    } else {
      const settled = slow ? end : start;
      const size = medianOf(settled, settled + wholeCycles(to - settled)) - before;
      for (let i = start; i < n; i++)
        away[i]! += i < settled ? (size * (i - start)) / (settled - start) : size;
    }
  }
  return away;
}

/** Half the width of the band around a spike or a dip inside a departure, in median steps there. */
const OF_STEPS = 4;

/** Tracks in which values depart, and not their movement. */
const OF_VALUES: ReadonlySet<Candidate['track']> = new Set(['level', 'local', 'season', 'analogue', 'step']);
/** Distance of a pause from the ends of a weekend, in usual distances of the rhythm. */
const NEAR_WEEKEND = 1.5;
/** Severity of what cannot be told from a usual weekend: below all that is reported by default. */
const UNKNOWN = 1.9;
/** Samples of a day, if known. */
const dayOf = ({ calendar = [] }: AnalyseOptions): number | null =>
  calendar.length === 0 ? null : calendar.at(-1)! / 7;

/** Returns true if the peak lies inside its band: such a value is no spike, even if similar stretches differ. */
const insideBand = ({ observed: { peak }, expected: { low, high } }: Finding): boolean =>
  peak >= low && peak <= high;

/**
 * End of a lasting shift of the values [N], without their season, in the report: the start of the next event, or the end of the series. It goes on
 * behind a short event, and at one that is not over but not back at the earlier level.
 */
function untilNext({ start }: Joined, all: readonly Joined[], values: Float64Array): number {
  const n = values.length;
  const isInside = (other: Joined): boolean =>
    other.lasting !== true &&
    INSIDE * (other.end - other.start) <= n - start &&
    (other.end < n || !isBack(values, start, other));
  const next = all.filter((other) => other.start > start && !isInside(other));
  return Math.min(n, ...next.map((other) => other.start));
}

/** Largest distance from the earlier level of what has returned to it, as a share of the shift. */
const RETURNED = 0.35;

/** Longest time between the end of such a shift and its return, as a share of the shift: a spike may lie there. */
const BETWEEN = 0.05;

/** Returns true if values [N] in a stretch are about as before the shift that began at `start` and that they end. */
function isBack(values: Float64Array, start: number, stretch: Pick<Joined, 'start' | 'end'>): boolean {
  const middle = (from: number, to: number): number => {
    const some = values.slice(from, to);
    return quantileInPlace(some, some.length, 0.5);
  };
  const before = middle(Math.max(0, 2 * start - stretch.start), start);
  const size = middle(start, stretch.start) - before;
  return Math.abs(middle(stretch.start, stretch.end) - before) <= RETURNED * Math.abs(size);
}

/**
 * Ends a lasting shift where the values [N], without their season, return to the earlier level until the end of the series: it is an
 * episode, and its end is no event.
 */
function withReturns(events: readonly Joined[], values: Float64Array): Joined[] {
  const n = values.length;
  const returns = new Set<Joined>();
  const shifts = events.map((event): Joined => {
    const { lasting, ...episode } = event;
    const { start, end, drifts } = event;
    const back = events.find(
      (other) =>
        other.start >= end &&
        other.start - end <= BETWEEN * (end - start) &&
        (other.end === n || other.lasting),
    );
    if (!lasting || drifts || start === 0 || back === undefined) return event;
    if (!isBack(values, start, { start: end, end: n })) return event;
    returns.add(back);
    return episode;
  });
  return shifts.filter((_, i) => !returns.has(events[i]!));
}

/** Minimum share of samples outside the band, from the first to the last of them, for a finding to be trimmed to these. */
const MOSTLY_OUTSIDE = 0.6;

/** Trims a finding to its samples outside the band, unless its movement departs for much longer: it is as severe as what departs there. */
function trimmed(event: Joined, values: Float64Array, { low, high }: Expectation): Joined {
  if (event.drifts || event.track === 'still' || event.track === 'rhythm') return event;
  let [start, end, outside] = [event.end, event.start, 0];
  for (let i = event.start; i < event.end; i++) {
    if (values[i]! >= low[i]! && values[i]! <= high[i]!) continue;
    outside++;
    start = Math.min(start, i);
    end = i + 1;
  }
  // A level that goes on is not over because its newest samples lie in the band.
  const n = values.length;
  if (event.end === n && event.members.some(({ track, end: last }) => track === 'step' && last === n))
    end = n;
  if (outside === 0 || outside < MOSTLY_OUTSIDE * (end - start)) return event;
  if (LOGARITHMIC.has(event.track) && 2 * (end - start) < event.end - event.start) return event;
  const [worst] = event.members.filter((member) => member.start < end && start < member.end);
  return { ...event, start, end, severity: Math.min(event.severity, worst?.severity ?? event.severity) };
}

/**
 * Cuts missing values off the ends of a stretch; returns no stretch if more than half of it is missing, unless what is left is known for the
 * most part and departs: the line over a gap that ends at one odd sample is no departure, and the sample is.
 */
function withoutGaps(event: Joined, given: Float64Array, departs: (index: number) => boolean): Joined[] {
  let { start, end } = event;
  while (start < end && Number.isNaN(given[start]!)) start++;
  while (end > start && Number.isNaN(given[end - 1]!)) end--;
  let known = 0;
  for (let i = event.start; i < event.end; i++) if (!Number.isNaN(given[i]!)) known++;
  if (known === 0) return [];
  const cut = { ...event, start, end, peak: Math.min(end - 1, Math.max(start, event.peak)) };
  if (2 * known >= event.end - event.start) return [cut];
  let far = false;
  for (let i = start; i < end && !far; i++) far = !Number.isNaN(given[i]!) && departs(i);
  return far && 2 * known >= end - start ? [cut] : [];
}

/** Computes scores [N]: severity inside candidates; elsewhere 0 to 1, the sample's rarity as a share of the lowest severity. */
function scores(tracks: readonly Track[], candidates: readonly Candidate[], n: number): Float64Array {
  const out = new Float64Array(n);
  const chance = Math.log10(n * tracks.length) + LEVELS.low;
  for (const { name, values, floor } of tracks) {
    if (LOGARITHMIC.has(name)) continue;
    const tail = usualTail(values, floor);
    for (let i = 0; i < n; i++) {
      const rarity = (surprise(tail, values[i]! - tail.centre) - Math.LN2) / Math.LN10 / chance;
      out[i] = Math.max(out[i]!, Math.min(rarity, LEVELS.low));
    }
  }
  for (const { start, end, severity } of candidates) {
    for (let i = start; i < end; i++) out[i] = Math.max(out[i]!, severity);
  }
  return out;
}

/** States the season of the series and the width of its usual range. */
export function structureOf(season: Season | null, { low, high }: Expectation): Sentence {
  const whole = { start: 0, end: low.length };
  const width = quantileInPlace(difference(high, low), low.length, 0.5);
  const band = figure(width, stepFor([width]), { quantity: 'band', ...whole });
  // Of values near the largest that float64 holds the band overflows.
  const range = Number.isFinite(width)
    ? say`; nearly all values lie in a range ${band} wide around the expected value`
    : say``;
  if (season === null) return say`No season found${range}.`;
  const period = figure(season.period, stepFor([season.period]), { quantity: 'period', ...whole });
  return say`Repeats every ${period} samples${range}.`;
}
