/**
 * Matrix profile: for every window of a series the distance to its nearest other window, both z-normalised (Yeh et
 * al. 2016). Exact, in O(N²) along diagonals of the distance matrix, where the covariance of a pair follows from the
 * pair before it by one rank-two update (SCAMP, Zimmerman et al. 2019; mpx). Float64 throughout.
 *
 * Rules. Standard deviations are population ones. Pairs with |i − j| ≤ ⌈m/4⌉ are excluded. Two constant windows are at
 * distance 0, a constant and a varying one at √m. Ties go to the lower index.
 *
 * Long series. All pairs of N samples would be N²/2 updates; above `budget` (default 2·10⁸, reached at about 20 000
 * samples, some tenths of a second) a fixed subset of the diagonals is computed instead: the nearest ones up to half
 * of the budget, and of the others an even spread in low-discrepancy order. The result is then an upper bound of the
 * profile, `exact` is false and `share` says which part of the pairs was compared. A discord that survives is unlike
 * its neighbourhood and unlike a uniform sample of the rest.
 */
import { ConfigError } from '../errors.ts';

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
  /** Whether all pairs were compared. */
  readonly exact: boolean;
  /** Part of all pairs that was compared, in [0, 1]. */
  readonly share: number;
}

const DEFAULT_BUDGET = 2e8;
/** Updates of one covariance between two exact recomputations, a power of two. */
const REFRESH = 4096;
/** A window whose deviation is this small beside the series' largest value is constant: what is left is rounding. */
const CONSTANT = 1e-13;

class Workspace {
  mean = new Float64Array(0);
  inverse = new Float64Array(0);
  incoming = new Float64Array(0);
  outgoing = new Float64Array(0);
  best = new Float64Array(0);

  reserve(count: number): void {
    if (this.mean.length >= count) return;
    this.mean = new Float64Array(count);
    this.inverse = new Float64Array(count);
    this.incoming = new Float64Array(count);
    this.outgoing = new Float64Array(count);
    this.best = new Float64Array(count);
  }
}

const shared = new Workspace();
/** Buffers above this size are not kept between calls. */
const LARGEST_KEPT = 65_536;

/**
 * Matrix profile of `values` [N]. A series too short for any pair (N < m, or N − m ≤ exclusion) has a profile of
 * Infinity, empty when N < m. Throws a ConfigError for a window or budget out of range.
 */
export function matrixProfile(values: Float64Array, options: MatrixProfileOptions): MatrixProfile {
  const m = options.window;
  if (!Number.isInteger(m) || m < 2) {
    throw new ConfigError(`matrix profile window: got ${m}, expected a whole number ≥ 2`);
  }
  const exclusion = options.exclusion ?? Math.ceil(m / 4);
  if (!Number.isInteger(exclusion) || exclusion < 0) {
    throw new ConfigError(`matrix profile exclusion: got ${exclusion}, expected a whole number ≥ 0`);
  }
  const budget = options.budget ?? DEFAULT_BUDGET;
  if (!(budget >= 1)) throw new ConfigError(`matrix profile budget: got ${budget}, expected a number ≥ 1`);
  const count = Math.max(0, values.length - m + 1);
  const distances = new Float64Array(count).fill(Number.POSITIVE_INFINITY); // [N − m + 1]
  const neighbours = new Int32Array(count).fill(-1); // [N − m + 1]
  const first = exclusion + 1;
  const diagonals = count - first;
  if (diagonals <= 0) return { window: m, exclusion, distances, neighbours, exact: true, share: 1 };

  const work = count > LARGEST_KEPT ? new Workspace() : shared;
  work.reserve(count);
  const constants = prepare(values, m, count, work);
  work.best.fill(-2, 0, count);
  const pairs = (diagonals * (diagonals + 1)) / 2;
  let compared = pairs;
  if (pairs <= budget) {
    let lag = first;
    for (; lag + 3 < count; lag += 4) fourDiagonals(values, m, lag, count, work, neighbours);
    for (; lag < count; lag++) oneDiagonal(values, m, lag, count, work, neighbours);
  } else {
    compared = 0;
    for (const lag of sampledLags(first, count, budget)) {
      oneDiagonal(values, m, lag, count, work, neighbours);
      compared += count - lag;
    }
  }
  if (constants > 0) compareConstants(count, exclusion, work, neighbours);
  for (let i = 0; i < count; i++) {
    if (neighbours[i]! >= 0) distances[i] = Math.sqrt(Math.max(0, 2 * m * (1 - work.best[i]!)));
  }
  return { window: m, exclusion, distances, neighbours, exact: compared === pairs, share: compared / pairs };
}

/** Fills means, inverse norms (0 marks a constant window) and update terms; returns the number of constant windows. */
function prepare(values: Float64Array, m: number, count: number, work: Workspace): number {
  const { mean, inverse, incoming, outgoing } = work;
  let largest = 0;
  for (const value of values) largest = Math.max(largest, Math.abs(value));
  const flat = CONSTANT * largest;
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
    if (norm <= flat * Math.sqrt(m)) {
      inverse[i] = 0;
      constants++;
    } else inverse[i] = 1 / norm;
  }
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

function oneDiagonal(
  values: Float64Array,
  m: number,
  lag: number,
  count: number,
  work: Workspace,
  neighbours: Int32Array,
): void {
  const { mean, inverse, incoming, outgoing, best } = work;
  let cov = 0;
  for (let i = 0, j = lag; j < count; i++, j++) {
    if ((i & (REFRESH - 1)) === 0) cov = covariance(values, m, i, j, mean);
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
function fourDiagonals(
  values: Float64Array,
  m: number,
  lag: number,
  count: number,
  work: Workspace,
  neighbours: Int32Array,
): void {
  const { mean, inverse, incoming, outgoing, best } = work;
  const rows = count - lag - 3; // rows of the shortest of the four
  let cov0 = 0;
  let cov1 = 0;
  let cov2 = 0;
  let cov3 = 0;
  for (let block = 0; block < rows; block += REFRESH) {
    const end = Math.min(rows, block + REFRESH);
    let j = block + lag;
    cov0 = covariance(values, m, block, j, mean);
    cov1 = covariance(values, m, block, j + 1, mean);
    cov2 = covariance(values, m, block, j + 2, mean);
    cov3 = covariance(values, m, block, j + 3, mean);
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
  }
  finishDiagonal(rows, lag, cov0, count, work, neighbours);
  finishDiagonal(rows, lag + 1, cov1, count, work, neighbours);
  finishDiagonal(rows, lag + 2, cov2, count, work, neighbours);
}

/** Rows `row` … of one diagonal, continued from the covariance of the row before. */
function finishDiagonal(
  row: number,
  lag: number,
  before: number,
  count: number,
  { inverse, incoming, outgoing, best }: Workspace,
  neighbours: Int32Array,
): void {
  let cov = before;
  for (let i = row, j = row + lag; j < count; i++, j++) {
    cov += incoming[i]! * outgoing[j]! + incoming[j]! * outgoing[i]!;
    const correlation = cov * inverse[i]! * inverse[j]!;
    if (correlation > best[i]!) {
      best[i] = correlation;
      neighbours[i] = j;
    }
    if (correlation >= best[j]!) {
      best[j] = correlation;
      neighbours[j] = i;
    }
  }
}

/** Lags to compute within a budget: the nearest, then every other one in the order of the golden-ratio sequence. */
function sampledLags(first: number, count: number, budget: number): number[] {
  const lags: number[] = [];
  let spent = 0;
  let lag = first;
  for (; lag < count && spent + (count - lag) <= budget / 2; lag++) {
    lags.push(lag);
    spent += count - lag;
  }
  const rest = count - lag;
  const taken = new Uint8Array(rest);
  let position = 0;
  for (let tries = 0; tries < 4 * rest; tries++) {
    position = (position + 0.6180339887498949) % 1;
    const offset = Math.floor(position * rest);
    const cost = rest - offset;
    if (taken[offset] === 1) continue;
    if (spent + cost > budget) break;
    taken[offset] = 1;
    spent += cost;
    lags.push(lag + offset);
  }
  // A budget below one diagonal still compares one, so that every window but the last few has a neighbour.
  if (lags.length === 0) lags.push(first);
  return lags;
}

/**
 * Applies the rules for constant windows, which the correlation cannot express: correlation 1 (distance 0) between two
 * of them, ½ (distance √m) between one and a varying window; for each the lowest index out of the exclusion zone.
 */
function compareConstants(count: number, exclusion: number, work: Workspace, neighbours: Int32Array): void {
  const { inverse, best } = work;
  const constant: number[] = [];
  const varying: number[] = [];
  for (let i = 0; i < count; i++) (inverse[i] === 0 ? constant : varying).push(i);
  const partner = (list: readonly number[], i: number): number => {
    const lowest = list[0];
    if (lowest === undefined) return -1;
    if (lowest < i - exclusion) return lowest;
    // Lists are sorted: the first element beyond the zone, by bisection.
    let low = 0;
    let high = list.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (list[middle]! > i + exclusion) high = middle;
      else low = middle + 1;
    }
    return list[low] ?? -1;
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
