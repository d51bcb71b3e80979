/** Departures from the expected values, their usual size, and the band that holds 99 % of the samples. */
import { engineFree } from '../ground/numbers.ts';
import { runningMedians } from '../series/robust.ts';
import { median, moments, quantileInPlace } from '../series/stats.ts';
import { difference, type Season } from './season.ts';
import { fitTail, sampleOf } from './tail.ts';

/** Running median [N]; near the ends over as many samples as lie on the shorter side, so that a slope is no departure. */
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

/** Least and largest expected value within `jitter` samples of i; beyond the ends those one period, if any, away. */
function rangeAround(
  expected: Float64Array,
  i: number,
  jitter: number,
  period: number,
): [least: number, largest: number] {
  let [least, largest] = [expected[i]!, expected[i]!];
  for (let k = i - jitter; k <= i + jitter; k++) {
    const value = expected[k < 0 ? k + period : k >= expected.length ? k - period : k];
    if (value === undefined) continue;
    if (value < least) least = value;
    if (value > largest) largest = value;
  }
  return [least, largest];
}

/** Smallest jump of an edge, in usual steps, and as a share of the largest jumps. */
const [JUMP, OF_LARGEST] = [10, 0.5];
/** Fewest pairs of edges one period apart; and the largest distance from that, as a share of the period. */
const [FEWEST_PAIRS, FURTHEST] = [2, 1 / 8];
/** Height of edges that are all that a season consists of, as a share of the range of the values. */
const OF_RANGE = 0.5;
/** Ratio of the usual distance from one edge to that from the nearer of two. */
const OF_NEARER = 1.5;
/** Least share of the edges that have another one period later. */
const PAIRED = 0.6;

/**
 * Samples that the edges of a season come early or late: those of a series with few samples per period by rounding, those of a job that
 * starts at a slightly different time each night by their own spread, of which hardly any edge exceeds one and a half times the 80 % quantile.
 * Infinite for loads that switch at any time, which have no season. Of few weeks (`nested`) one with an incident would be most of that spread:
 * there an edge is no farther off than from the nearer of the weeks before and after.
 */
export function jitterOf(values: Float64Array, period: number, usualStep: number, nested = false): number {
  const least = Math.max(1, Math.round(period / 150));
  const jumps = values.map((value, i) => (i === 0 ? 0 : value - values[i - 1]!));
  const sizes = jumps.map(Math.abs);
  const largest = quantileInPlace(sizes, sizes.length, 1 - 1 / Math.max(2, period));
  const edge = Math.max(JUMP * usualStep, OF_LARGEST * largest);
  if (!(edge > 0)) return least;
  const edges: number[] = [];
  jumps.forEach((jump, i) => {
    if (Math.abs(jump) >= edge) edges.push(i);
  });
  // Of values that jump all the time no edge belongs to another.
  if (edges.length > (4 * values.length) / period) return least;
  const reach = period * FURTHEST;
  const offsets: number[] = [];
  const nearer = new Map<number, number>();
  let first = 0;
  for (const at of edges) {
    while (edges[first]! < at + period - reach) first++;
    let nearest = Number.POSITIVE_INFINITY;
    for (let k = first; k < edges.length && edges[k]! <= at + period + reach; k++) {
      if (jumps[edges[k]!]! > 0 !== jumps[at]! > 0) continue;
      const offset = Math.abs(edges[k]! - at - period);
      nearest = Math.min(nearest, offset);
      for (const edge of [at, edges[k]!]) nearer.set(edge, Math.min(nearer.get(edge) ?? offset, offset));
    }
    if (Number.isFinite(nearest)) offsets.push(nearest);
  }
  if (offsets.length < Math.max(FEWEST_PAIRS, PAIRED * edges.length)) return least;
  const usualOf = (some: readonly number[]): number =>
    quantileInPlace(Float64Array.from(some), some.length, 0.8);
  const usual = Math.min(usualOf(offsets), nested ? OF_NEARER * usualOf([...nearer.values()]) : Infinity);
  const { sample } = sampleOf(values);
  const range = quantileInPlace(sample, sample.length, 0.99) - quantileInPlace(sample, sample.length, 0.01);
  if (usual > reach / 2 && largest >= OF_RANGE * range) return Number.POSITIVE_INFINITY;
  // Few offsets say little about the next one; edges that come at any time are expected anywhere near.
  return Math.min(Math.floor(reach), Math.max(least, Math.ceil(1.5 * (1 + 2 / offsets.length) * usual)));
}

/** Share of an expected edge that must be absent within the jitter for the edge to be missing. */
const MISSING = 0.8;

/**
 * Departures from an expectation [N] of a period, 0 for none, whose edges may come up to `jitter` samples early or late. `nested`: of a season
 * with shorter cycles inside, each of which may be missing.
 */
export function departures(
  values: Float64Array,
  expected: Float64Array,
  jitter: number,
  period: number,
  nested = false,
): Float64Array {
  const sizes = sampleOf(difference(values, expected)).sample.map(Math.abs);
  const usual = quantileInPlace(sizes, sizes.length, 0.7);
  return values.map((value, i) => {
    const [least, largest] = rangeAround(expected, i, jitter, period);
    if (largest - least <= EDGE * usual) return value - expected[i]!;
    // A short peak that is expected and comes nowhere near is missing, though idle values are expected beside it.
    const [low, high] = rangeAround(values, i, jitter, 0);
    const nearest = Math.min(high, Math.max(low, expected[i]!));
    const apart = 2 * jitter + 1;
    const short = [i - apart, i + apart].every(
      (at) => Math.abs(expected[i]! - (expected[at] ?? expected[i]!)) > MISSING * (largest - least),
    );
    if (nested && short && Math.abs(nearest - expected[i]!) > MISSING * (largest - least))
      return nearest - expected[i]!;
    return value - Math.min(largest, Math.max(least, value));
  });
}

/** Fewest samples at edges from which their spread is estimated. */
const FEWEST_AT_EDGES = 30;

/**
 * Spread of the values at the edges of an expectation, relative to the usual spread [N]: a narrow peak a fraction of a sample early leaves
 * large departures.
 */
export function spreadAtEdges(
  departures: Float64Array,
  expected: Float64Array,
  usual: number,
  jitter: number,
  period: number,
): Float64Array {
  const n = departures.length;
  const steps = departures.map((_, i) => {
    const [least, largest] = rangeAround(expected, i, jitter, period);
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

/** Spread of the values by edges and phase of the season, relative to the usual spread [N]. */
export function spread(
  departures: Float64Array,
  { expected, period, clock }: Season,
  usual: number,
  jitter: number,
  cycle: number,
  day: number | null,
): Float64Array {
  const edges = spreadAtEdges(departures, expected, usual, jitter, cycle);
  const phases = spreadOfPhase(
    departures.map((value, i) => value / edges[i]!),
    { expected, period, clock },
    day !== null && period > 2 * day,
  );
  return phases.map((phase, i) => phase * edges[i]!);
}

/** Samples for each phase whose spread is estimated, and for each of a few heights of the expected values in a series too short for that. */
const [OF_PHASE, OF_HEIGHT] = [150, 40];
const [FEWEST_PHASES, MOST_HEIGHTS] = [6, 6];

/** Spread of phases of rest: nine tenths of the samples at these and their neighbours are exactly as expected. */
export const STILLEST = 0.1;

/** Largest share of the variance of the expected values that may lie inside phases; above it each holds too much of a day. */
const MIXED = 0.4;

/** Returns true if phases hold high and low expected values alike, as phases of a week hold nights and days. */
function mixes(expected: Float64Array, phases: number, phaseOf: (i: number) => number): boolean {
  const members: number[][] = Array.from({ length: phases }, () => []);
  for (let i = 0; i < expected.length; i++) members[phaseOf(i)]!.push(expected[i]!);
  let inside = 0;
  for (const some of members)
    if (some.length > 0) inside += some.length * moments(Float64Array.from(some)).std ** 2;
  return inside > MIXED * expected.length * moments(expected).std ** 2;
}

/**
 * Spread of the values by phase of the season, relative to the usual spread [N]: rush hours vary more than nights. In a short series by
 * the height of the expected values.
 */
function spreadOfPhase(
  departures: Float64Array,
  { expected, period, clock }: Pick<Season, 'expected' | 'period' | 'clock'>,
  ofDays: boolean,
): Float64Array {
  const n = departures.length;
  const even = new Float64Array(n).fill(1);
  const phases = Math.min(48, Math.floor(period / 2), Math.floor(n / OF_PHASE));
  const heights = Math.min(MOST_HEIGHTS, Math.floor(n / OF_HEIGHT));
  const phaseOf = (i: number): number => {
    const phase = (i + (clock?.[i] ?? 0)) / period;
    return Math.min(phases - 1, Math.floor((phase - Math.floor(phase)) * phases));
  };
  const byHeight = phases < FEWEST_PHASES || (ofDays && mixes(expected, phases, phaseOf));
  const bins = byHeight ? heights : phases;
  if (bins < 2) return even;
  const limits = byHeight ? expected.slice().sort() : expected;
  const binOf = (i: number): number => {
    if (byHeight) {
      let k = 0;
      while (k < bins - 1 && expected[i]! >= limits[Math.floor(((k + 1) * n) / bins)]!) k++;
      return k;
    }
    return phaseOf(i);
  };
  const members: number[][] = Array.from({ length: bins }, () => []);
  const stride = Math.max(1, Math.floor(n / 50_000));
  for (let i = 0; i < n; i += stride) members[binOf(i)]!.push(Math.abs(departures[i]!));
  const wide = (sizes: readonly number[]): number =>
    quantileInPlace(Float64Array.from(sizes), sizes.length, 0.7);
  const still = members.map(
    (some) => some.length >= 8 && quantileInPlace(Float64Array.from(some), some.length, 0.9) === 0,
  );
  // Phases of rest say nothing about the others.
  const moving = members.filter((_, k) => !still[k]);
  const all = wide((moving.length > 0 ? moving : members).flat());
  if (!(all > 0)) return even;
  const raw = members.map((some) => (some.length < 8 ? all : wide(some)));
  const scale = raw.map((width, k) => {
    const [before, after] = byHeight
      ? [Math.max(0, k - 1), Math.min(bins - 1, k + 1)]
      : [k + bins - 1, k + 1];
    const around = raw[before % bins]! + raw[after % bins]!;
    const isStill = [before, k, after].every((bin) => still[bin % bins]!);
    return Math.max(isStill ? STILLEST : 0.4, (around + 2 * width) / 4 / all);
  });
  return even.map((_, i) => scale[binOf(i)]!);
}

/** Sizes of the steps from sample to sample [N − 1]. */
export function stepSizes(values: Float64Array): Float64Array {
  const steps = new Float64Array(values.length - 1);
  for (let i = 0; i < steps.length; i++) steps[i] = Math.abs(values[i + 1]! - values[i]!);
  return steps;
}

/** Mean of the steps from sample to sample, the largest twentieth left out. */
export function meanStep(values: Float64Array): number {
  const steps = stepSizes(values).sort();
  const kept = Math.ceil(0.95 * steps.length);
  let sum = 0;
  for (let i = 0; i < kept; i++) sum += steps[i]!;
  return sum / kept;
}

/** Logarithm of the steps from sample to sample [N]: a track whose means are local log-scales. */
export function movement(values: Float64Array, floor: number): Float64Array {
  const n = values.length;
  const out = new Float64Array(n);
  for (let i = 1; i < n; i++) out[i] = Math.log(Math.abs(values[i]! - values[i - 1]!) + floor);
  out[0] = out[1]!;
  return out;
}

/** Logarithm of the size of the departures [N]: a track in which a stretch that departs up and down is one. */
export function size(departures: Float64Array, floor: number): Float64Array {
  return departures.map((value) => Math.log(Math.abs(value) + floor));
}

/** Usual size of a departure: the mean of the smallest three quarters. */
export function usualSize(departures: Float64Array): number {
  const sizes = departures.map(Math.abs).sort();
  const kept = Math.ceil(0.75 * sizes.length);
  let sum = 0;
  for (let i = 0; i < kept; i++) sum += sizes[i]!;
  return sum / kept;
}

/** Neighbours give the expectation if they leave less than this share of the departures from the level. */
export const FOLLOWS = 0.5;

export interface Expectation {
  readonly expected: Float64Array; // [N]
  readonly low: Float64Array; // [N]
  readonly high: Float64Array; // [N]
}

interface ExpectationOptions {
  /** Smallest departure. */
  readonly floor: number;
  /** Spread at each sample, relative to the usual spread [N]; null: the same everywhere. */
  readonly scale: Float64Array | null;
  /** True for samples inside findings, which do not shape the band. */
  readonly unusual: (index: number) => boolean;
}

/** Computes the band around the expected values [N] of values [N]. */
export function expectation(
  values: Float64Array,
  expected: Float64Array,
  { floor, scale, unusual }: ExpectationOptions,
): Expectation {
  const departures = values.map((value, i) => (value - expected[i]!) / (scale?.[i] ?? 1));
  const usual = departures.filter((_, i) => !unusual(i));
  const others = usual.length > 0 ? usual : departures;
  const { centre, ...tail } = fitTail(others, floor);
  // The band reaches no further than the tail allows, nor than the other samples go.
  let [furthestAbove, furthestBelow] = [floor, floor];
  for (const departure of others) {
    furthestAbove = Math.max(furthestAbove, departure - centre);
    furthestBelow = Math.max(furthestBelow, centre - departure);
  }
  const bandAbove = Math.min(engineFree(tail.bandAbove), furthestAbove);
  const bandBelow = Math.min(engineFree(tail.bandBelow), furthestBelow);
  let [least, largest] = [Infinity, -Infinity];
  for (let i = 0; i < values.length; i++) {
    if (unusual(i) && usual.length > 0) continue;
    least = Math.min(least, values[i]!);
    largest = Math.max(largest, values[i]!);
  }
  // Values beyond all other samples are outside: a count has no usual values below 0.
  return {
    expected,
    low: expected.map((value, i) =>
      Math.max(value + (centre - bandBelow) * (scale?.[i] ?? 1), Math.min(least, value)),
    ),
    high: expected.map((value, i) =>
      Math.min(value + (centre + bandAbove) * (scale?.[i] ?? 1), Math.max(largest, value)),
    ),
  };
}

/** Distance of the middle two neighbours, as a multiple of the median one, above which an edge lies between them. */
const PARTED = 4;

/**
 * Returns how far samples [N] depart from their neighbours. Of the two before and the two after, in order of size, the middle two count: their
 * mean, or the nearer one where an edge lies between them. So a single odd sample shows on a steep course too, and an edge does not. The first
 * and last two samples have 0.
 */
export function fromNeighbours(values: Float64Array): Float64Array {
  const n = values.length;
  const [low, high] = [new Float64Array(n), new Float64Array(n)];
  for (let i = 2; i < n - 2; i++) {
    const [a, b, c, d] = [values[i - 2]!, values[i - 1]!, values[i + 1]!, values[i + 2]!];
    const [one, other] = [Math.max(Math.min(a, b), Math.min(c, d)), Math.min(Math.max(a, b), Math.max(c, d))];
    low[i] = Math.min(one, other);
    high[i] = Math.max(one, other);
  }
  const widest = PARTED * median(high.map((value, i) => value - low[i]!));
  return values.map((value, i) => {
    const [from, to] = [low[i]!, high[i]!];
    if (i < 2 || i >= n - 2) return 0;
    if (to - from <= widest) return value - (from + to) / 2;
    return value > to ? value - to : Math.min(0, value - from);
  });
}
