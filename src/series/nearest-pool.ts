/** Nearest neighbours by dynamic time warping on all cores, and the window that suits the labels of a training set best. */

import { availableParallelism } from 'node:os';
import { workerUrl } from '../ground/paths.ts';
import { mapAhead, WorkerPool } from '../ground/worker-pool.ts';
import type { Channels } from './dtw.ts';
import { checkCandidates, type Neighbour } from './nearest.ts';
import type { NearestRequest, SharedSeries } from './nearest-worker.ts';

/** A `WarpingSearch` on Workers. They do not keep the process alive when nothing is asked. */
export class NearestPool {
  readonly #pool: WorkerPool<NearestRequest, readonly number[]>;
  /** Queries that keep all Workers busy. */
  readonly capacity: number;
  /** Number of candidates, and samples of the longest. */
  readonly count: number;
  readonly longest: number;

  /** @throws ConfigError as `WarpingSearch` */
  constructor(candidates: readonly Channels[], threads = availableParallelism()) {
    checkCandidates(candidates);
    const values = new SharedArrayBuffer(8 * candidates.reduce((sum, one) => sum + one.values.length, 0));
    const all = new Float64Array(values);
    let from = 0;
    for (const { values: own } of candidates) {
      all.set(own, from);
      from += own.length;
    }
    const lengths = candidates.map(({ length }) => length);
    const workerData: SharedSeries = {
      values,
      channels: candidates[0]!.values.length / lengths[0]!,
      lengths,
    };
    this.count = candidates.length;
    this.longest = Math.max(...lengths);
    this.#pool = new WorkerPool({
      size: threads,
      program: workerUrl('./nearest-worker.ts', import.meta.url),
      workerData,
      failure: (problem) => `a search of nearest neighbours ended: ${problem}`,
    });
    this.capacity = this.#pool.capacity;
  }

  /** Runs `WarpingSearch.nearest` in Workers. Aborting rejects with the signal's reason. */
  async nearest(query: Channels, window: number, signal?: AbortSignal): Promise<Neighbour> {
    const [index, distance] = await this.#ask({ query, window }, signal);
    return { index: index!, distance: distance! };
  }

  /** Runs `WarpingSearch.nearestByWindow` in Workers. */
  nearestByWindow(
    index: number,
    windows: readonly number[],
    signal?: AbortSignal,
  ): Promise<readonly number[]> {
    return this.#ask({ index, windows }, signal);
  }

  #ask(request: NearestRequest, signal: AbortSignal | undefined): Promise<readonly number[]> {
    return this.#pool.ask(request, signal === undefined ? {} : { signal });
  }

  close(): Promise<void> {
    return this.#pool.close();
  }
}

export interface LearnedWindow {
  /** Hundredths of the longest series, 0 … 100. */
  readonly percent: number;
  /** Window in samples, rounded up. */
  readonly samples: number;
  /** Candidates whose nearest other one is of another class, at every window of 0 … 100 %. */
  readonly errors: Int32Array;
}

/**
 * The window of the least leave-one-out error among 0, 1, … 100 % of the length, the smallest of equally good ones, as the UCR archive
 * chooses it (Dau et al. 2018): its windows, rounded up to whole samples, give its published errors.
 * @param labels classes of the candidates, at least two
 */
export async function learnWindow(
  pool: NearestPool,
  labels: readonly string[],
  {
    signal,
    onProgress,
  }: {
    readonly signal?: AbortSignal | undefined;
    readonly onProgress?: ((done: number) => void) | undefined;
  } = {},
): Promise<LearnedWindow> {
  const windows = Array.from({ length: 101 }, (_, percent) => Math.ceil((percent * pool.longest) / 100));
  const errors = new Int32Array(windows.length);
  let done = 0;
  const candidates = Array.from({ length: pool.count }, (_, index) => index);
  await mapAhead(candidates, pool.capacity, async (index) => {
    const nearest = await pool.nearestByWindow(index, windows, signal);
    for (const [w, other] of nearest.entries()) if (labels[other] !== labels[index]) errors[w]!++;
    onProgress?.(++done);
  });
  const percent = errors.indexOf(Math.min(...errors));
  return { percent, samples: windows[percent]!, errors };
}
