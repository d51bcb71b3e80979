/**
 * Matrix profile of long series: on all cores, in an order that makes every prefix of the work a good approximation
 * (SCRIMP; Zhu et al. 2018), with reports of its convergence and a signal that ends it early. The event loop stays
 * free: this thread works in slices of a few milliseconds, Workers do the rest.
 *
 * Memory: about 100 bytes per window and 24 more per thread. Time: 1.1·10⁹ pairs (50 000 samples) take about 1.3 s of processor time with SIMD kernels.
 */

import { availableParallelism } from 'node:os';
import { setImmediate } from 'node:timers/promises';
import { workerUrl } from '../ground/paths.ts';
import { Random } from '../ground/random.ts';
import { WorkerPool } from '../ground/worker-pool.ts';
import { requireOption, requireWhole } from './checks.ts';
import {
  checkedOptions,
  compareConstants,
  fourDiagonals,
  type MatrixProfile,
  type MatrixProfileOptions,
  oneDiagonal,
  pairsOfFour,
  prepare,
  type Workspace,
  withoutOffset,
  workspaceOf,
} from './matrix-profile.ts';
import { largestMagnitude } from './stats.ts';

/** Progress of a computation. Distances fall and shares rise towards those of the exact profile. */
export interface ProfileReport {
  /** Part of all pairs compared, in [0, 1]. */
  readonly share: number;
  /** Part of the windows that have been compared with any other. */
  readonly found: number;
  /** Mean distance over those. */
  readonly mean: number;
  /** Part of the windows whose nearest neighbour is another than in the report before; 1 in the first. */
  readonly changed: number;
  /** Start of the window with the largest distance so far, and that distance. */
  readonly discord: number;
  readonly distance: number;
}

export interface AnytimeOptions extends MatrixProfileOptions {
  /** Largest number of pair updates; default unlimited. Unlike a signal it ends every run at the same point. */
  readonly budget?: number;
  /** Threads, this one included, ≥ 1; default one per core, fewer where the work is too short to start them. */
  readonly threads?: number;
  /** Ends the computation; what is known by then is returned, with `exact` false. */
  readonly signal?: AbortSignal;
  /** Called whenever another `every` of the pairs has been compared, and at the end. */
  readonly onReport?: (report: ProfileReport) => void;
  /** Part of the pairs between two reports, in (0, 1]; default 0.05. */
  readonly every?: number;
  /** Seed for the order of the diagonals. Default: 0. The finished profile does not depend on it. */
  readonly seed?: number;
}

/** Groups of four diagonals per chunk: long enough to make merging cheap, short enough to hold a slice of this thread. */
const LARGEST_CHUNK = 16;
const PAIRS_PER_CHUNK = 4e6;
/** Work below which another thread is not worth its start. */
const PAIRS_PER_THREAD = 1.5e7;
const SLICE_MS = 8;

/**
 * Matrix profile of a series [N] by the rules of `matrixProfile`, exact unless a budget or signal ends it. The distance of each
 * window to its neighbour is computed from the two windows themselves, hence accurate down to identical ones.
 * Throws a ConfigError for options out of range and a DataError for values that are not finite.
 */
export async function anytimeMatrixProfile(
  given: Float64Array,
  options: AnytimeOptions,
): Promise<MatrixProfile> {
  const { window: m, exclusion, budget } = checkedOptions(given, options, Number.POSITIVE_INFINITY);
  const { signal, every = 0.05, seed = 0, threads: wanted = availableParallelism() } = options;
  requireWhole('matrix profile threads', wanted, 1);
  requireOption(every > 0 && every <= 1, 'matrix profile every', every, '(0, 1]');
  const count = Math.max(0, given.length - m + 1);
  const first = exclusion + 1;
  const diagonals = count - first;
  if (diagonals <= 0) {
    const distances = new Float64Array(count).fill(Number.POSITIVE_INFINITY);
    const neighbours = new Int32Array(count).fill(-1);
    return { window: m, exclusion, distances, neighbours, exact: true, share: 1 };
  }
  const pairs = (diagonals * (diagonals + 1)) / 2;
  const threads = Math.max(1, Math.min(wanted, Math.floor(Math.min(pairs, budget) / PAIRS_PER_THREAD)));
  const { shared, constants } = allocate(given, m, count, first, threads, seed);
  const sizes = chunkSizes(shared); // pairs
  const chunks = sizes.length;
  let end = 0;
  for (let planned = 0; end < chunks; end++) {
    planned += sizes[end]!;
    if (end > 0 && planned > budget) break;
  }
  // Before a Worker is lent: it would not wait for a signal that has come already.
  shared.cursor[1] = signal?.aborted === true ? 0 : end;
  const share = (): number => {
    const compared = sizes.reduce(
      (sum, size, c) => (Atomics.load(shared.owner, c) > 0 ? sum + size : sum),
      0,
    );
    return compared / pairs;
  };

  const best = new Float64Array(count); // [K]
  const neighbours = new Int32Array(count); // [K]
  const gather = (trusted: (rank: number) => boolean): void => {
    best.fill(NOTHING);
    neighbours.fill(-1);
    for (let rank = 0; rank < threads; rank++) {
      if (!trusted(rank)) continue;
      const part = [rank * count, (rank + 1) * count] as const;
      merge(shared.best.subarray(...part), shared.neighbours.subarray(...part), best, neighbours);
    }
  };
  let before: Int32Array | null = null;
  const report = (): void => {
    gather(() => true);
    const now = neighbours.slice();
    options.onReport?.(reportOf(share(), m, best, now, before));
    before = now;
  };

  // Workers take chunks from the same cursor; one that fails leaves chunks behind, which are done here.
  const failed = new Set<number>();
  const helpers = Array.from({ length: threads - 1 }, (_, k) =>
    pool.ask({ shared, rank: k + 1 }).then(
      () => true,
      () => false,
    ),
  );
  const mainThread = new ProfileThread(shared, 0);
  let reported = 0;
  let yielded = performance.now();
  const stop = (): void => void Atomics.store(shared.cursor, 1, 0);
  const breathe = async (): Promise<void> => {
    if (performance.now() - yielded < SLICE_MS) return;
    await setImmediate();
    yielded = performance.now();
    if (signal?.aborted === true) return stop();
    if (options.onReport === undefined) return;
    const now = share();
    // The result itself is the last report.
    if (now < reported + every || now === 1) return;
    reported = now;
    report();
  };
  try {
    while (mainThread.step()) await breathe();
  } finally {
    stop();
    // A Worker that is still loading will find nothing to do: it is not waited for.
    for (const [k, helper] of helpers.entries()) {
      if (Atomics.load(shared.started, k + 1) !== 0 && !(await helper)) failed.add(k + 1);
    }
  }
  for (let chunk = 0; chunk < end; chunk++) {
    if (failed.has(shared.owner[chunk]! - 1)) shared.owner[chunk] = 0;
    if (shared.owner[chunk] !== 0 || signal?.aborted === true) continue;
    mainThread.complete(chunk);
    await breathe();
  }
  gather((rank) => !failed.has(rank));
  if (constants > 0) compareConstants(count, exclusion, shared.inverse, best, neighbours);
  const exact = shared.owner.every((owner) => owner > 0);
  const finished = exact ? 1 : share();
  if (options.onReport !== undefined) options.onReport(reportOf(finished, m, best, neighbours, before));
  const distances = distancesOf(shared, best, neighbours);
  return { window: m, exclusion, distances, neighbours, exact, share: finished };
}

/** Pairs of every chunk. */
function chunkSizes({ lags, groups, owner, count }: SharedProfile): Float64Array {
  const sizes = new Float64Array(owner.length);
  for (const [k, lag] of lags.entries()) {
    const left = count - lag;
    sizes[Math.floor(k / groups)]! += left > 3 ? pairsOfFour(lag, count) : (left * (left + 1)) / 2;
  }
  return sizes;
}

function allocate(
  given: Float64Array,
  m: number,
  count: number,
  first: number,
  threads: number,
  seed: number,
): { shared: SharedProfile; constants: number } {
  const values = sharedFloats(given.length);
  values.set(withoutOffset(given));
  const [mean, inverse, incoming] = [sharedFloats(count), sharedFloats(count), sharedFloats(count)];
  const work = { mean, inverse, incoming, outgoing: sharedFloats(count), restarts: new Int32Array(0) };
  const constants = prepare(values, m, count, work, largestMagnitude(given));
  const restarts = sharedInts(work.restarts.length);
  restarts.set(work.restarts);
  const total = Math.ceil((count - first) / 4);
  const lags = sharedInts(total);
  // The nearest diagonals come first, whatever the order of the others: they give all windows but the last a neighbour.
  lags[0] = first;
  for (const [k, group] of new Random(seed, 'matrix-profile').permutation(total - 1).entries()) {
    lags[k + 1] = first + 4 * (group + 1);
  }
  const groups = Math.max(1, Math.min(LARGEST_CHUNK, Math.floor(PAIRS_PER_CHUNK / (4 * count))));
  const cursor = sharedInts(2);
  const best = sharedFloats(threads * count).fill(NOTHING);
  const neighbours = sharedInts(threads * count).fill(-1);
  const owner = sharedInts(Math.ceil(total / groups));
  const started = sharedInts(threads);
  const shared = {
    ...{ window: m, count, first, threads, groups, values, ...work },
    ...{ restarts, lags, owner, cursor, started, best, neighbours },
  };
  return { shared, constants };
}

/** Distance from a correlation: √(2m(1 − r)). */
const distanceOf = (m: number, correlation: number): number =>
  Math.sqrt(Math.max(0, 2 * m * (1 - correlation)));

function reportOf(
  share: number,
  m: number,
  best: Float64Array,
  neighbours: Int32Array,
  before: Int32Array | null,
): ProfileReport {
  let covered = 0;
  let sum = 0;
  let changed = 0;
  let discord = -1;
  let distance = 0;
  for (let i = 0; i < best.length; i++) {
    if (before === null || neighbours[i] !== before[i]) changed++;
    if (neighbours[i]! < 0) continue;
    const nearest = distanceOf(m, best[i]!);
    covered++;
    sum += nearest;
    if (discord < 0 || nearest > distance) {
      discord = i;
      distance = nearest;
    }
  }
  const count = best.length;
  return { share, found: covered / count, mean: sum / covered, changed: changed / count, discord, distance };
}

/** Distances from the windows themselves: √(m·Σ (u − v)²), u and v the centred windows over their norms. */
function distancesOf(shared: SharedProfile, best: Float64Array, neighbours: Int32Array): Float64Array {
  const { window: m, count, values, mean, inverse } = shared;
  const distances = new Float64Array(count).fill(Number.POSITIVE_INFINITY); // [K]
  for (let i = 0; i < count; i++) {
    const j = neighbours[i]!;
    if (j < 0) continue;
    if (inverse[i] === 0 || inverse[j] === 0) {
      distances[i] = distanceOf(m, best[i]!);
      continue;
    }
    let squares = 0;
    for (let k = 0; k < m; k++) {
      const step = (values[i + k]! - mean[i]!) * inverse[i]! - (values[j + k]! - mean[j]!) * inverse[j]!;
      squares += step * step;
    }
    distances[i] = Math.sqrt(m * squares);
  }
  return distances;
}

// What the threads share lies in shared memory; a thread writes only its own part of `best` and `neighbours`, so the memory
// is O(threads · N) and no lock is needed.

/** Request to a Worker: take chunks as thread `rank` until there are none. */
export interface ProfileRequest {
  readonly shared: SharedProfile;
  readonly rank: number;
}

/** Started when first needed and kept from call to call; idle Workers do not keep the process alive. */
const pool = new WorkerPool<ProfileRequest, true>({
  size: availableParallelism(),
  depth: 1,
  program: workerUrl('./profile-worker.ts', import.meta.url),
  failure: (problem) => `a thread of a matrix profile ended: ${problem}`,
});

/** Buffers and sizes of one computation; can be posted to a Worker. */
interface SharedProfile {
  readonly window: number;
  /** Number of windows K = N − m + 1. */
  readonly count: number;
  /** Smallest lag that is compared. */
  readonly first: number;
  readonly threads: number;
  /** Groups of four diagonals per chunk. */
  readonly groups: number;
  readonly values: Float64Array; // [N]
  readonly mean: Float64Array; // [K]
  readonly inverse: Float64Array; // [K]
  readonly incoming: Float64Array; // [K]
  readonly outgoing: Float64Array; // [K]
  readonly restarts: Int32Array;
  /** First lags of the groups, in the order in which they are taken. */
  readonly lags: Int32Array;
  /** Per chunk: 1 + the thread that has completed it, 0 before. */
  readonly owner: Int32Array;
  /** [next chunk, end of the chunks to take]. */
  readonly cursor: Int32Array;
  /** Per thread: 1 once its program runs. */
  readonly started: Int32Array; // [threads]
  readonly best: Float64Array; // [threads, K]
  readonly neighbours: Int32Array; // [threads, K]
}

const sharedFloats = (length: number): Float64Array => new Float64Array(new SharedArrayBuffer(8 * length));
const sharedInts = (length: number): Int32Array => new Int32Array(new SharedArrayBuffer(4 * length));

/** Correlation below any that occurs. */
export const NOTHING = -2;

/** More than the distance of two neighbouring numbers within [−1, 1]. */
const TIE = Number.EPSILON;

/** Results of one thread, and a scratch copy for its current chunk. */
export class ProfileThread {
  readonly best: Float64Array; // [K]
  readonly neighbours: Int32Array; // [K]
  readonly #shared: SharedProfile;
  readonly #rank: number;
  readonly #work: Workspace;

  constructor(shared: SharedProfile, rank: number) {
    const { count } = shared;
    this.#shared = shared;
    this.#rank = rank;
    this.best = shared.best.subarray(rank * count, (rank + 1) * count);
    this.neighbours = shared.neighbours.subarray(rank * count, (rank + 1) * count);
    this.#work = workspaceOf(count, shared);
  }

  /** Takes the next chunk and completes it; false when there is none. */
  step(): boolean {
    const { cursor } = this.#shared;
    const chunk = Atomics.add(cursor, 0, 1);
    if (chunk >= Atomics.load(cursor, 1)) return false;
    this.complete(chunk);
    return true;
  }

  /**
   * Compares along the diagonals of one chunk. Within a chunk lags ascend, so that the lower index wins a tie as it is
   * met; chunks come in any order, so their results are merged by that rule afterwards. The outcome does not depend on order
   * or number of threads.
   */
  complete(chunk: number): void {
    const { values, window, count, lags, groups, owner } = this.#shared;
    const taken = lags.slice(chunk * groups, (chunk + 1) * groups).sort();
    const work = this.#work;
    // From just below what is known: a chunk meets few improvements then, which the processor predicts, and every tie.
    for (let i = 0; i < count; i++) work.best[i] = this.best[i]! - TIE;
    for (const lag of taken) {
      if (lag + 3 < count) fourDiagonals(values, window, lag, work);
      else for (let diagonal = lag; diagonal < count; diagonal++) oneDiagonal(values, window, diagonal, work);
    }
    merge(work.best, work.neighbours, this.best, this.neighbours);
    Atomics.store(owner, chunk, this.#rank + 1);
  }
}

/** Takes over what is more like, or as like and of lower index. */
export function merge(
  best: Float64Array,
  neighbours: Int32Array,
  intoBest: Float64Array,
  intoNeighbours: Int32Array,
): void {
  for (let i = 0; i < best.length; i++) {
    const correlation = best[i]!;
    const known = intoBest[i]!;
    if (correlation > known || (correlation === known && neighbours[i]! < intoNeighbours[i]!)) {
      intoBest[i] = correlation;
      intoNeighbours[i] = neighbours[i]!;
    }
  }
}
