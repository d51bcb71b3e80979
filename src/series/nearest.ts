/**
 * Nearest neighbours by dynamic time warping, exactly: lower bounds and early abandoning pass over what cannot be nearest. On one
 * thread (`WarpingSearch`) or all cores (`NearestPool`), and the window that suits the labels of a training set best (`learnWindow`).
 */
import { availableParallelism } from 'node:os';
import { ConfigError } from '../ground/errors.ts';
import { workerUrl } from '../ground/paths.ts';
import { WorkerPool } from '../ground/worker-pool.ts';
import { type Channels, type Envelope, envelope, lbKeogh, lbKim, WarpingRows, warp, widened } from './dtw.ts';
import type { NearestRequest, SharedSeries } from './nearest-worker.ts';

export interface Neighbour {
  /** Place among the candidates; of equally near ones the first. */
  readonly index: number;
  readonly distance: number;
}

/** @throws ConfigError for no series, or unequal numbers of channels */
function checkCandidates(candidates: readonly Channels[]): void {
  const [first] = candidates;
  if (first === undefined) throw new ConfigError('nearest neighbour: got no series to compare with');
  const channels = (series: Channels): number => series.values.length / series.length;
  const other = candidates.find((candidate) => channels(candidate) !== channels(first));
  if (other === undefined) return;
  throw new ConfigError(
    `nearest neighbour: one series has ${channels(first)} channels, another ${channels(other)}`,
  );
}

/** Series to be nearest to, of one number of channels, and what a search needs of each. */
export class WarpingSearch {
  readonly #candidates: readonly Channels[];
  readonly #scratch = new WarpingRows();
  readonly #rest: Float64Array;
  /** Envelopes of all candidates for one window. */
  #envelopes: { readonly window: number; readonly all: readonly Envelope[] } | null = null;

  /** @throws ConfigError for no candidates, or unequal numbers of channels */
  constructor(candidates: readonly Channels[]) {
    checkCandidates(candidates);
    this.#candidates = candidates;
    this.#rest = new Float64Array(Math.max(...candidates.map(({ length }) => length)) + 1);
  }

  /**
   * The nearest candidate.
   * @param window samples that aligned indices may be apart, as in `dtw`
   * @throws ConfigError for a query of another number of channels
   */
  nearest(query: Channels, window: number): Neighbour {
    checkCandidates([this.#candidates[0]!, query]);
    const all = this.#envelopesOf(window);
    const around = envelope(query, window);
    const bounds = this.#candidates.map((series, i) => {
      const kim = lbKim(query, series);
      if (series.length !== query.length) return kim;
      return Math.max(kim, lbKeogh(query, all[i]!), lbKeogh(series, around));
    });
    const order = this.#nearestFirst(query, bounds);
    let best: Neighbour = { index: -1, distance: Number.POSITIVE_INFINITY };
    for (const index of order) {
      if (bounds[index]! > best.distance) continue;
      const distance = this.#distance(query, index, window, best.distance);
      if (
        distance < best.distance ||
        (distance === best.distance && (best.index < 0 || index < best.index))
      ) {
        best = { index, distance };
      }
    }
    return best;
  }

  /** Orders the candidates by their distance without warping: the near ones give a bound for the others. */
  #nearestFirst(query: Channels, bounds: readonly number[]): Int32Array {
    const hints = this.#candidates.map((series, i) =>
      series.length === query.length ? straight(query, series) : bounds[i]!,
    );
    return Int32Array.from(hints.keys()).sort((a, b) => hints[a]! - hints[b]! || a - b);
  }

  #envelopesOf(window: number): readonly Envelope[] {
    if (this.#envelopes?.window !== window) {
      this.#envelopes = { window, all: this.#candidates.map((series) => envelope(series, window)) };
    }
    return this.#envelopes.all;
  }

  #distance(query: Channels, index: number, window: number, bound: number): number {
    const series = this.#candidates[index]!;
    let rest: Float64Array | null = null;
    if (series.length === query.length && bound < Number.POSITIVE_INFINITY) {
      rest = this.#rest;
      lbKeogh(query, this.#envelopesOf(window)[index]!, rest);
    }
    return this.#between(query, series, window, bound, rest);
  }

  #between(a: Channels, b: Channels, window: number, bound: number, rest: Float64Array | null): number {
    return warp(a, b, widened(window, a.length, b.length), bound, rest, this.#scratch);
  }

  /**
   * Returns the nearest other candidate of candidate `index` for every window (ascending, samples), for leave-one-out. From the widest
   * window down: a distance never falls as the window narrows, so that a neighbour whose distance is still the same is still the nearest,
   * and distances of wider windows are lower bounds (Tan et al. 2018, "Efficient search of the best warping window").
   */
  nearestByWindow(index: number, windows: readonly number[]): Int32Array {
    const nearestIndices = new Int32Array(windows.length).fill(-1);
    const query = this.#candidates[index]!;
    const bounds = this.#candidates.map((series) => lbKim(query, series));
    const order = this.#nearestFirst(query, bounds).filter((other) => other !== index);
    for (let at = windows.length - 1; at >= 0; ) {
      const around = envelope(query, windows[at]!);
      let [nearest, least] = [-1, Number.POSITIVE_INFINITY];
      for (const other of order) {
        if (bounds[other]! > least) continue;
        const series = this.#candidates[other]!;
        const rest = series.length === query.length ? this.#rest : null;
        if (rest !== null) {
          bounds[other] = Math.max(bounds[other]!, lbKeogh(series, around, rest));
          if (bounds[other]! > least) continue;
        }
        const value = this.#between(series, query, windows[at]!, least, rest);
        // Beyond the bound nothing but that is known.
        bounds[other] = Math.max(bounds[other]!, Math.min(value, least));
        if (value < least || (value === least && (nearest < 0 || other < nearest))) {
          [nearest, least] = [other, value];
        }
      }
      // The narrowest window at which it is no further away.
      let [low, high] = [0, at];
      while (low < high) {
        const middle = (low + high) >> 1;
        const value = this.#between(this.#candidates[nearest]!, query, windows[middle]!, least, null);
        if (value <= least) high = middle;
        else low = middle + 1;
      }
      nearestIndices.fill(nearest, low, at + 1);
      order.sort((a, b) => bounds[a]! - bounds[b]! || a - b);
      at = low - 1;
    }
    return nearestIndices;
  }
}

/** Distance of two series of equal length without warping: an upper bound. */
function straight(a: Channels, b: Channels): number {
  let sum = 0;
  for (let k = 0; k < a.values.length; k++) sum += (a.values[k]! - b.values[k]!) ** 2;
  return sum;
}

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
    const values = new SharedArrayBuffer(
      8 * candidates.reduce((sum, series) => sum + series.values.length, 0),
    );
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
  let next = 0;
  const work = async (): Promise<void> => {
    while (next < pool.count) {
      const index = next++;
      const neighbours = await pool.nearestByWindow(index, windows, signal);
      for (const [w, other] of neighbours.entries()) if (labels[other] !== labels[index]) errors[w]!++;
      onProgress?.(++done);
    }
  };
  await Promise.all(Array.from({ length: pool.capacity }, work));
  const percent = errors.indexOf(Math.min(...errors));
  return { percent, samples: windows[percent]!, errors };
}
