/** Worker of nearest neighbours: answers for one series at a time. */
import { workerData } from 'node:worker_threads';
import { answerRequests } from '../ground/worker-thread.ts';
import type { Channels } from './dtw.ts';
import { WarpingSearch } from './nearest.ts';

/** Candidates in shared memory, one after the other. */
export interface SharedSeries {
  readonly values: SharedArrayBuffer;
  readonly channels: number;
  /** Samples of each. */
  readonly lengths: readonly number[];
}

/** The nearest to a query, or for each of some windows the nearest other candidate to a candidate. */
export type NearestRequest =
  | { readonly query: Channels; readonly window: number }
  | { readonly index: number; readonly windows: readonly number[] };

function open({ values, channels, lengths }: SharedSeries): WarpingSearch {
  const all = new Float64Array(values);
  let from = 0;
  return new WarpingSearch(
    lengths.map((length) => {
      from += channels * length;
      return { values: all.subarray(from - channels * length, from), length };
    }),
  );
}

let search: WarpingSearch | null = null;

answerRequests<NearestRequest, readonly number[]>(async (request) => {
  search ??= open(workerData as SharedSeries);
  if ('query' in request) {
    const { index, distance } = search.nearest(request.query, request.window);
    return { reply: [index, distance] };
  }
  return { reply: [...search.nearestByWindow(request.index, request.windows)] };
});
