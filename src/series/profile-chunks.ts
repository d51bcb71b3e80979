/**
 * What the threads of one matrix profile share, and the piece of work that each takes from it: chunks of diagonals, in groups of
 * four. Everything lies in shared memory; a thread writes only its own part of `best` and `neighbours`, so the
 * memory is O(threads · N) and no lock is needed.
 */
import { fourDiagonals, oneDiagonal, Workspace } from './diagonals.ts';

/** Buffers and sizes of one computation; can be posted to a Worker. */
export interface SharedProfile {
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

export const sharedFloats = (length: number): Float64Array =>
  new Float64Array(new SharedArrayBuffer(8 * length));
export const sharedInts = (length: number): Int32Array => new Int32Array(new SharedArrayBuffer(4 * length));

/** Correlation below any that occurs. */
export const NOTHING = -2;

/** More than the distance of two neighbouring numbers within [−1, 1]. */
const TIE = Number.EPSILON;

/** One thread's view: its results, and a scratch copy for the chunk in work. */
export class ProfileThread {
  readonly best: Float64Array; // [K]
  readonly neighbours: Int32Array; // [K]
  readonly #shared: SharedProfile;
  readonly #rank: number;
  readonly #work = new Workspace();
  readonly #found: Int32Array; // [K]

  constructor(shared: SharedProfile, rank: number) {
    const { count } = shared;
    this.#shared = shared;
    this.#rank = rank;
    this.best = shared.best.subarray(rank * count, (rank + 1) * count);
    this.neighbours = shared.neighbours.subarray(rank * count, (rank + 1) * count);
    this.#found = new Int32Array(count);
    const { mean, inverse, incoming, outgoing, restarts } = shared;
    Object.assign(this.#work, { mean, inverse, incoming, outgoing, restarts, best: new Float64Array(count) });
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
    const found = this.#found;
    // From just below what is known: a chunk meets few improvements then, which the processor predicts, and every tie.
    for (let i = 0; i < count; i++) work.best[i] = this.best[i]! - TIE;
    for (const lag of taken) {
      if (lag + 3 < count) fourDiagonals(values, window, lag, count, work, found);
      else for (let one = lag; one < count; one++) oneDiagonal(values, window, one, count, work, found);
    }
    merge(work.best, found, this.best, this.neighbours);
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
