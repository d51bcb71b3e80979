/**
 * Matrix profile: for every window of a series the distance to its nearest other window, both z-normalised (Yeh et
 * al. 2016). Exact, in O(N²) along diagonals of the distance matrix, where the covariance of a pair follows from the
 * pair before it by one rank-two update (SCAMP, Zimmerman et al. 2019; mpx). Float64 throughout.
 *
 * Rules. Standard deviations are population ones. Pairs with |i − j| ≤ ⌈m/4⌉ are excluded. Two constant windows are at
 * distance 0, a constant and a varying one at √m. Ties go to the lower index.
 *
 * Long series. All pairs of N samples would be N²/2 updates; above `budget` (default 2·10⁸, reached at 20 000 samples,
 * about half a second) a fixed subset of the diagonals is computed instead, in groups of four: the nearest up to half
 * of the budget, and of the others an even spread in low-discrepancy order. The result is then an upper bound of the
 * profile, `exact` is false and `share` says which part of the pairs was compared. A discord that survives is unlike
 * its neighbourhood and unlike a uniform sample of the rest.
 */
import { ConfigError } from '../errors.ts';
import { compareConstants } from './constant-windows.ts';
import { fourDiagonals, oneDiagonal, prepare, Workspace, withoutOffset } from './diagonals.ts';
import { requireFinite } from './finite.ts';
import { largestMagnitude } from './stats.ts';

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
const shared = new Workspace();
/** Buffers above this size are not kept between calls. */
const LARGEST_KEPT = 65_536;

/**
 * Matrix profile of a series [N]. A series too short for any pair (N < m, or N − m ≤ exclusion) has a profile of
 * Infinity, empty when N < m. Throws a ConfigError for a window or budget out of range, a DataError for values that are not finite.
 */
export function matrixProfile(given: Float64Array, options: MatrixProfileOptions): MatrixProfile {
  const { window: m, exclusion, budget } = checkedOptions(given, options, DEFAULT_BUDGET);
  const values = withoutOffset(given);
  const count = Math.max(0, values.length - m + 1);
  const distances = new Float64Array(count).fill(Number.POSITIVE_INFINITY); // [N − m + 1]
  const neighbours = new Int32Array(count).fill(-1); // [N − m + 1]
  const first = exclusion + 1;
  const diagonals = count - first;
  if (diagonals <= 0) return { window: m, exclusion, distances, neighbours, exact: true, share: 1 };

  const work = count > LARGEST_KEPT ? new Workspace() : shared;
  work.reserve(count);
  const constants = prepare(values, m, count, work, largestMagnitude(given));
  work.best.fill(-2, 0, count);
  const pairs = (diagonals * (diagonals + 1)) / 2;
  let compared = pairs;
  if (pairs <= budget || diagonals < 4) {
    let lag = first;
    for (; lag + 3 < count; lag += 4) fourDiagonals(values, m, lag, count, work, neighbours);
    for (; lag < count; lag++) oneDiagonal(values, m, lag, count, work, neighbours);
  } else {
    compared = 0;
    for (const lag of sampledLags(first, count, budget)) {
      fourDiagonals(values, m, lag, count, work, neighbours);
      compared += pairsOfFour(lag, count);
    }
  }
  if (constants > 0) compareConstants(count, exclusion, work.inverse, work.best, neighbours);
  for (let i = 0; i < count; i++) {
    if (neighbours[i]! >= 0) distances[i] = Math.sqrt(Math.max(0, 2 * m * (1 - work.best[i]!)));
  }
  return { window: m, exclusion, distances, neighbours, exact: compared === pairs, share: compared / pairs };
}

/** The options with their defaults; throws for what is out of range, in the series too. */
export function checkedOptions(
  values: Float64Array,
  options: MatrixProfileOptions,
  defaultBudget: number,
): Required<MatrixProfileOptions> {
  const { window, exclusion = Math.ceil(window / 4), budget = defaultBudget } = options;
  if (!Number.isInteger(window) || window < 2) {
    throw new ConfigError(`matrix profile window: got ${window}, expected a whole number ≥ 2`);
  }
  if (!Number.isInteger(exclusion) || exclusion < 0) {
    throw new ConfigError(`matrix profile exclusion: got ${exclusion}, expected a whole number ≥ 0`);
  }
  if (!(budget >= 1)) throw new ConfigError(`matrix profile budget: got ${budget}, expected a number ≥ 1`);
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
