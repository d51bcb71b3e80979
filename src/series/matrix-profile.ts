/**
 * Matrix profile: for every window of a series the distance to its nearest other window, both z-normalised (Yeh et
 * al. 2016). Exact, in O(N²) along diagonals of the distance matrix, where the covariance of a pair follows from the
 * pair before it by one rank-two update (SCAMP, Zimmerman et al. 2019; mpx). Float64 throughout.
 *
 * Rules. Standard deviations are population ones. Pairs with |i − j| ≤ ⌈m/4⌉ are excluded. Two constant windows are at
 * distance 0, a constant and a varying one at √m. Ties go to the lower index.
 *
 * Long series. All pairs of N samples would be N²/2 updates; above `budget` (default 2·10⁸, reached at 20 000 samples,
 * about half a second, a third of it with SIMD kernels) a fixed subset of the diagonals is computed instead, in groups of four: the nearest up to half
 * of the budget, and of the others an even spread in low-discrepancy order. The result is then an upper bound of the
 * profile, `exact` is false and `share` says which part of the pairs was compared. A discord that survives is unlike
 * its neighbourhood and unlike a uniform sample of the rest.
 */
import { ConfigError } from '../ground/errors.ts';
import { extent } from '../ground/numbers.ts';
import { requireFinite, requireOption, requireWhole } from './checks.ts';
import { Simd } from './kernels/kernels.ts';
import { largestMagnitude, moments, ROUNDING } from './stats.ts';

export interface MatrixProfileOptions {
  /** Window length m in samples, ≥ 2. */
  readonly window: number;
  /** Pairs no further apart than this are not compared; default ⌈m/4⌉. */
  readonly exclusion?: number;
  /** Largest number of pair updates, ≥ 1; default 2·10⁸. */
  readonly budget?: number;
}

export interface MatrixProfile {
  readonly window: number;
  readonly exclusion: number;
  /** Distance of each window to its nearest neighbour, 0 … 2√m; Infinity where nothing was compared. */
  readonly distances: Float64Array; // [N − m + 1]
  /** Start of that neighbour; −1 where nothing was compared. */
  readonly neighbours: Int32Array; // [N − m + 1]
  /** True if all pairs were compared. */
  readonly exact: boolean;
  /** Part of all pairs that was compared, in [0, 1]. */
  readonly share: number;
}

const DEFAULT_BUDGET = 2e8;

/**
 * Matrix profile of a series [N]. A series too short for any pair (N < m, or N − m ≤ exclusion) has a profile of
 * Infinity, empty when N < m. Throws a ConfigError for a window or budget out of range, a DataError for values that are not finite.
 */
export function matrixProfile(given: Float64Array, options: MatrixProfileOptions): MatrixProfile {
  const { window: m, exclusion, budget } = checkedOptions(given, options, DEFAULT_BUDGET);
  const values = withoutOffset(given);
  const count = Math.max(0, values.length - m + 1);
  const distances = new Float64Array(count).fill(Number.POSITIVE_INFINITY); // [N − m + 1]
  const first = exclusion + 1;
  const diagonals = count - first;
  if (diagonals <= 0) {
    const neighbours = new Int32Array(count).fill(-1); // [N − m + 1]
    return { window: m, exclusion, distances, neighbours, exact: true, share: 1 };
  }

  const work = workspaceOf(count);
  const neighbours = work.neighbours.fill(-1);
  const constants = prepare(values, m, count, work, largestMagnitude(given));
  work.best.fill(-2, 0, count);
  const pairs = (diagonals * (diagonals + 1)) / 2;
  let compared = pairs;
  if (pairs <= budget || diagonals < 4) {
    let lag = first;
    for (; lag + 3 < count; lag += 4) fourDiagonals(values, m, lag, work);
    for (; lag < count; lag++) oneDiagonal(values, m, lag, work);
  } else {
    compared = 0;
    for (const lag of sampledLags(first, count, budget)) {
      fourDiagonals(values, m, lag, work);
      compared += pairsOfFour(lag, count);
    }
  }
  if (constants > 0) compareConstants(count, exclusion, work.inverse, work.best, neighbours);
  for (let i = 0; i < count; i++) {
    if (neighbours[i]! >= 0) distances[i] = Math.sqrt(Math.max(0, 2 * m * (1 - work.best[i]!)));
  }
  const found = { neighbours: neighbours.slice(), exact: compared === pairs, share: compared / pairs };
  work.simd?.close();
  return { window: m, exclusion, distances, ...found };
}

/** The options with their defaults; throws for what is out of range, in the series too. */
export function checkedOptions(
  values: Float64Array,
  options: MatrixProfileOptions,
  defaultBudget: number,
): Required<MatrixProfileOptions> {
  const { window, exclusion = Math.ceil(window / 4), budget = defaultBudget } = options;
  requireWhole('matrix profile window', window, 2);
  requireWhole('matrix profile exclusion', exclusion, 0);
  requireOption(budget >= 1, 'matrix profile budget', budget, 'a number ≥ 1');
  requireFinite(values, 'matrix profile');
  return { window, exclusion, budget };
}

/** Pairs on the diagonals lag … lag + 3. */
export function pairsOfFour(lag: number, count: number): number {
  return 4 * (count - lag) - 6;
}

/** First lags of the groups of four to compute: the nearest, then others in the order of the golden-ratio sequence. */
function sampledLags(first: number, count: number, budget: number): number[] {
  const groups = Math.floor((count - first) / 4);
  // The nearest group is computed whatever the budget, so that all windows but the last few have a neighbour.
  const lags = [first];
  let spent = pairsOfFour(first, count);
  let near = 1;
  for (; near < groups; near++) {
    const lag = first + 4 * near;
    if (spent + pairsOfFour(lag, count) > budget / 2) break;
    lags.push(lag);
    spent += pairsOfFour(lag, count);
  }
  const rest = groups - near;
  const taken = new Uint8Array(rest);
  let position = 0;
  for (let tries = 0; tries < 4 * rest; tries++) {
    position = (position + 0.6180339887498949) % 1;
    const group = Math.floor(position * rest);
    if (taken[group] === 1) continue;
    const lag = first + 4 * (near + group);
    if (spent + pairsOfFour(lag, count) > budget) break;
    taken[group] = 1;
    lags.push(lag);
    spent += pairsOfFour(lag, count);
  }
  return lags;
}

// Inner loops: correlations of windows along diagonals of the distance matrix. Window i has mean μ and norm ‖x − μ‖; the covariance
// of a pair follows from the pair before it on the same diagonal as cov + a[i]·b[j] + a[j]·b[i], a = half the difference of the
// entering and the leaving sample, b = the sum of their deviations from the means of their windows.

/** Updates of one covariance between two exact recomputations, a power of two. */
const REFRESH = 4096;
/**
 * A norm this many times smaller than the largest since the last exact covariance asks for another one: the rounding errors
 * that large windows leave in a running covariance would outweigh small ones.
 */
const DROP = 256;

/** Per window [K]: its mean, inverse norm, update terms, and the best correlation so far with the window that has it. */
export interface Workspace {
  readonly mean: Float64Array;
  readonly inverse: Float64Array;
  readonly incoming: Float64Array;
  readonly outgoing: Float64Array;
  readonly best: Float64Array;
  readonly neighbours: Int32Array;
  /** Covariances on the four diagonals. */
  readonly covariances: Float64Array;
  /** Kernels whose memory the arrays lie in. */
  readonly simd: Simd | null;
  /** Windows, ascending, from which covariances are computed afresh. */
  restarts: Int32Array;
}

/** Makes a workspace; arrays that exist already are taken over, or copied to where the kernels can reach them. */
export function workspaceOf(count: number, known?: Prepared): Workspace {
  const simd = Simd.open(36 * count + 32, 6);
  const floats = (length: number, from?: Float64Array): Float64Array => {
    if (simd === null) return from ?? new Float64Array(length);
    const own = simd.floats(length);
    if (from !== undefined) own.set(from);
    return own;
  };
  return {
    mean: known?.mean ?? new Float64Array(count),
    inverse: floats(count, known?.inverse),
    incoming: floats(count, known?.incoming),
    outgoing: floats(count, known?.outgoing),
    best: floats(count),
    neighbours: simd?.ints(count) ?? new Int32Array(count),
    covariances: floats(4),
    simd,
    restarts: known?.restarts ?? new Int32Array(0),
  };
}

/** Buffers that `prepare` fills. */
export type Prepared = Pick<Workspace, 'mean' | 'inverse' | 'incoming' | 'outgoing' | 'restarts'>;

/**
 * The series for the updates, less a constant that correlations do not see: a large offset would take the digits of the
 * products. Where all values have one sign and the largest is at most twice the smallest, the difference of any
 * two is exact (Sterbenz 1974), so subtracting costs nothing; elsewhere the offset is small and the series stays.
 */
export function withoutOffset(values: Float64Array): Float64Array {
  const [min, max] = extent(values);
  const exact = (min > 0 && max <= 2 * min) || (max < 0 && min >= 2 * max);
  const centre = values[values.length >> 1]!;
  return exact ? values.map((value) => value - centre) : values;
}

/**
 * Fills means, inverse norms (0 marks a constant window), update terms and restarts; returns the number of constant windows.
 * `magnitude` is the largest |value| of the series as it was given: variation far below it is rounding.
 */
export function prepare(
  values: Float64Array,
  m: number,
  count: number,
  work: Pick<Workspace, keyof Prepared>,
  magnitude: number,
): number {
  const { mean, inverse, incoming, outgoing } = work;
  const flat = ROUNDING * magnitude * Math.sqrt(m);
  const restarts: number[] = [];
  let peak = 0;
  let constants = 0;
  for (let i = 0; i < count; i++) {
    let sum = 0;
    for (let k = i; k < i + m; k++) sum += values[k]!;
    const centre = sum / m;
    let squares = 0;
    for (let k = i; k < i + m; k++) {
      const centred = values[k]! - centre;
      squares += centred * centred;
    }
    const norm = Math.sqrt(squares);
    mean[i] = centre;
    if (norm <= flat) {
      inverse[i] = 0;
      constants++;
    } else {
      inverse[i] = 1 / norm;
      if (norm * DROP < peak) {
        restarts.push(i);
        peak = norm;
      } else peak = Math.max(peak, norm);
    }
  }
  work.restarts = Int32Array.from(restarts);
  incoming[0] = 0;
  outgoing[0] = 0;
  for (let i = 1; i < count; i++) {
    incoming[i] = (values[i + m - 1]! - values[i - 1]!) / 2;
    outgoing[i] = values[i + m - 1]! - mean[i]! + (values[i - 1]! - mean[i - 1]!);
  }
  return constants;
}

/** Σ (x[i+k] − mean[i])·(x[j+k] − mean[j]) over a window. */
function covariance(values: Float64Array, m: number, i: number, j: number, mean: Float64Array): number {
  const a = mean[i]!;
  const b = mean[j]!;
  let sum = 0;
  for (let k = 0; k < m; k++) sum += (values[i + k]! - a) * (values[j + k]! - b);
  return sum;
}

/**
 * One diagonal from row `row` on: the whole of it, or what groups of four leave. `before` is the covariance of the row before; without
 * one the first is computed afresh, as every `REFRESH`-th.
 */
export function oneDiagonal(
  values: Float64Array,
  m: number,
  lag: number,
  { mean, inverse, incoming, outgoing, best, neighbours, restarts }: Workspace,
  row = 0,
  before?: number,
): void {
  let cov = before ?? 0;
  for (let i = row, j = row + lag; j < neighbours.length; i++, j++) {
    const afresh = restarts.length > 0 || (before === undefined && (i & (REFRESH - 1)) === 0);
    if (afresh) cov = covariance(values, m, i, j, mean);
    else cov += incoming[i]! * outgoing[j]! + incoming[j]! * outgoing[i]!;
    const correlation = cov * inverse[i]! * inverse[j]!;
    if (correlation > best[i]!) {
      best[i] = correlation;
      neighbours[i] = j;
    }
    // The left neighbour has the lower index, so it also wins a tie.
    if (correlation >= best[j]!) {
      best[j] = correlation;
      neighbours[j] = i;
    }
  }
}

/**
 * Diagonals lag … lag + 3 together: four independent update chains keep the processor busy where one waits. A column is
 * read when the widest diagonal reaches it, stays in local variables while the other three pass, and is then
 * written: a quarter of the memory traffic of one diagonal at a time. The last rows, which only some of the
 * four have, are completed one diagonal at a time.
 */
export function fourDiagonals(values: Float64Array, m: number, lag: number, work: Workspace): void {
  const { mean, covariances, simd } = work;
  const rows = work.neighbours.length - lag - 3; // rows of the shortest of the four
  const { incoming, outgoing, inverse, best, neighbours } = work;
  for (let block = 0, end = 0; block < rows; block = end) {
    end = Math.min(rows, nextRestart(work.restarts, block, lag));
    for (let k = 0; k < 4; k++) covariances[k] = covariance(values, m, block, block + lag + k, mean);
    if (simd === null) fourRows(work, lag, block, end);
    else
      simd.run.fourRows(
        ...([incoming.byteOffset, outgoing.byteOffset, inverse.byteOffset, best.byteOffset] as const),
        ...([neighbours.byteOffset, covariances.byteOffset, lag, block, end] as const),
      );
  }
  for (let k = 0; k < 3; k++) oneDiagonal(values, m, lag + k, work, rows, covariances[k]!);
}

/** Rows [begin, end) of the diagonals lag … lag + 3; `covariances` are those of row `begin`, and become those of the last row. */
function fourRows(work: Workspace, lag: number, begin: number, until: number): void {
  const { inverse, incoming, outgoing, best, neighbours, covariances } = work;
  let [cov0, cov1, cov2, cov3] = covariances as unknown as [number, number, number, number];
  // The compiler keeps the loop's counters whole numbers only where it can see that the bounds are.
  const block = begin | 0;
  const end = until | 0;
  let j = block + lag;
  // Columns j, j + 1, j + 2: update terms, inverse norm, best correlation so far.
  let in0 = incoming[j]!;
  let in1 = incoming[j + 1]!;
  let in2 = incoming[j + 2]!;
  let out0 = outgoing[j]!;
  let out1 = outgoing[j + 1]!;
  let out2 = outgoing[j + 2]!;
  let inverse0 = inverse[j]!;
  let inverse1 = inverse[j + 1]!;
  let inverse2 = inverse[j + 2]!;
  let best0 = best[j]!;
  let best1 = best[j + 1]!;
  let best2 = best[j + 2]!;
  for (let i = block; i < end; i++, j++) {
    const in3 = incoming[j + 3]!;
    const out3 = outgoing[j + 3]!;
    const inverse3 = inverse[j + 3]!;
    let best3 = best[j + 3]!;
    if (i !== block) {
      const entering = incoming[i]!;
      const leaving = outgoing[i]!;
      cov0 += entering * out0 + in0 * leaving;
      cov1 += entering * out1 + in1 * leaving;
      cov2 += entering * out2 + in2 * leaving;
      cov3 += entering * out3 + in3 * leaving;
    }
    const scale = inverse[i]!;
    const c0 = cov0 * scale * inverse0;
    const c1 = cov1 * scale * inverse1;
    const c2 = cov2 * scale * inverse2;
    const c3 = cov3 * scale * inverse3;
    let top = best[i]!;
    if (c0 > top) {
      top = c0;
      neighbours[i] = j;
    }
    if (c1 > top) {
      top = c1;
      neighbours[i] = j + 1;
    }
    if (c2 > top) {
      top = c2;
      neighbours[i] = j + 2;
    }
    if (c3 > top) {
      top = c3;
      neighbours[i] = j + 3;
    }
    best[i] = top;
    if (c0 >= best0) {
      best0 = c0;
      neighbours[j] = i;
    }
    if (c1 >= best1) {
      best1 = c1;
      neighbours[j + 1] = i;
    }
    if (c2 >= best2) {
      best2 = c2;
      neighbours[j + 2] = i;
    }
    if (c3 >= best3) {
      best3 = c3;
      neighbours[j + 3] = i;
    }
    best[j] = best0;
    in0 = in1;
    in1 = in2;
    in2 = in3;
    out0 = out1;
    out1 = out2;
    out2 = out3;
    inverse0 = inverse1;
    inverse1 = inverse2;
    inverse2 = inverse3;
    best0 = best1;
    best1 = best2;
    best2 = best3;
  }
  best[j] = best0;
  best[j + 1] = best1;
  best[j + 2] = best2;
  covariances.set([cov0, cov1, cov2, cov3]);
}

/** First row after `row` at which the diagonals lag … lag + 3 start afresh, for one of their windows or by count. */
function nextRestart(restarts: Int32Array, row: number, lag: number): number {
  const next = (row | (REFRESH - 1)) + 1;
  if (restarts.length === 0) return next;
  const asRow = restarts[firstAbove(restarts, row)] ?? next;
  const asColumn = restarts[firstAbove(restarts, row + lag)] ?? next + lag + 3;
  // A column comes to the widest diagonal three rows before it comes to the narrowest.
  return Math.min(next, asRow, Math.max(row + 1, asColumn - lag - 3));
}

/** Index of the first element of an ascending list that exceeds `limit`. */
function firstAbove(sorted: Int32Array, limit: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle]! > limit) high = middle;
    else low = middle + 1;
  }
  return low;
}

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

export interface Discord {
  /** Start of the window. */
  readonly start: number;
  /** Distance to its nearest neighbour, which is nowhere else as large. */
  readonly distance: number;
}

/**
 * The `count` windows that are least like any other, no two of which overlap, by falling distance; ties go to the lower index. Fewer
 * where no window is left. Windows that were compared with nothing are none. (Keogh, Lin & Fu 2005; Yeh et al. 2016.)
 */
export function topDiscords({ distances, window }: MatrixProfile, count: number): Discord[] {
  requireWhole('discords count', count, 1);
  const free = new Uint8Array(distances.length).fill(1);
  const discords: Discord[] = [];
  while (discords.length < count) {
    let start = -1;
    for (let i = 0; i < distances.length; i++) {
      const distance = distances[i]!;
      if (free[i] === 0 || distance === Number.POSITIVE_INFINITY) continue;
      if (start < 0 || distance > distances[start]!) start = i;
    }
    if (start < 0) break;
    discords.push({ start, distance: distances[start]! });
    occupy(free, start, window);
  }
  return discords;
}

export interface Motif {
  /** Starts of the two windows that are most alike, ascending. */
  readonly pair: readonly [number, number];
  readonly distance: number;
  /** Starts of all windows of the motif, the pair included, ascending. */
  readonly members: readonly number[];
}

export interface MotifOptions {
  /** A window within this many times the pair's distance of its first-found window belongs to the motif, ≥ 1; default 2. */
  readonly radius?: number;
}

/**
 * The `count` closest pairs of windows of the series [N] that the profile was made of, each with the other windows like it; windows of
 * one motif overlap none of another. Members are taken by rising distance, each outside the exclusion zone of those before it.
 * Fewer motifs where no free pair is left. O(count · N · m).
 */
export function topMotifs(
  values: Float64Array,
  profile: MatrixProfile,
  count: number,
  options: MotifOptions = {},
): Motif[] {
  requireWhole('motifs count', count, 1);
  const { radius = 2 } = options;
  requireOption(radius >= 1, 'motifs radius', radius, 'a number ≥ 1');
  const { distances, neighbours, window, exclusion } = profile;
  if (values.length - window + 1 !== distances.length) {
    throw new ConfigError(
      `motifs: ${values.length} samples do not belong to a profile of ${distances.length} windows`,
    );
  }
  const free = new Uint8Array(distances.length).fill(1);
  const windows = momentsOfWindows(values, window);
  const motifs: Motif[] = [];
  while (motifs.length < count) {
    let start = -1;
    for (let i = 0; i < distances.length; i++) {
      if (free[i] === 0 || neighbours[i]! < 0 || free[neighbours[i]!] === 0) continue;
      if (start < 0 || distances[i]! < distances[start]!) start = i;
    }
    if (start < 0) break;
    const other = neighbours[start]!;
    const distance = distances[start]!;
    const members = [start, other];
    const like = windowDistances(values, windows, start);
    const near: number[] = [];
    for (let i = 0; i < like.length; i++) if (free[i] === 1 && like[i]! <= radius * distance) near.push(i);
    near.sort((a, b) => like[a]! - like[b]! || a - b);
    for (const i of near) if (members.every((member) => Math.abs(member - i) > exclusion)) members.push(i);
    members.sort((a, b) => a - b);
    motifs.push({ pair: [Math.min(start, other), Math.max(start, other)], distance, members });
    for (const member of members) occupy(free, member, window);
  }
  return motifs;
}

/** z-normalised distances of all windows of m samples to the one at `start`, by the rules of `matrixProfile`: [N] → [N − m + 1]. O(N·m). */
export function distanceProfile(values: Float64Array, m: number, start: number): Float64Array {
  return windowDistances(values, momentsOfWindows(values, m), start);
}

interface Windows {
  readonly window: number;
  readonly means: Float64Array; // [N − m + 1]
  /** Standard deviations; 0 marks a constant window. */
  readonly stds: Float64Array; // [N − m + 1]
}

function momentsOfWindows(values: Float64Array, window: number): Windows {
  const flat = ROUNDING * largestMagnitude(values);
  const count = Math.max(0, values.length - window + 1);
  const means = new Float64Array(count);
  const stds = new Float64Array(count);
  for (let i = 0; i < count; i++) {
    const { mean, std } = moments(values, i, i + window);
    means[i] = mean;
    stds[i] = std <= flat ? 0 : std;
  }
  return { window, means, stds };
}

/** Computes `distanceProfile` from the moments of the windows. */
function windowDistances(
  values: Float64Array,
  { window: m, means, stds }: Windows,
  start: number,
): Float64Array {
  const query = new Float64Array(m);
  const queryVaries = stds[start]! > 0;
  if (queryVaries) for (let k = 0; k < m; k++) query[k] = (values[start + k]! - means[start]!) / stds[start]!;
  return means.map((mean, i) => {
    const std = stds[i]!;
    if (std === 0 || !queryVaries) return std > 0 === queryVaries ? 0 : Math.sqrt(m);
    let squares = 0;
    for (let k = 0; k < m; k++) squares += ((values[i + k]! - mean) / std - query[k]!) ** 2;
    return Math.sqrt(squares);
  });
}

/** Marks the starts of all windows that overlap the one at `start`. */
function occupy(free: Uint8Array, start: number, window: number): void {
  free.fill(0, Math.max(0, start - window + 1), start + window);
}
