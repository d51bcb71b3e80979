/**
 * A series of any length, seen by a policy that was taught one length: overlapping windows, each resampled to that
 * length, and their answers mapped back and merged.
 */

import { ConfigError } from '../src/errors.ts';
import { mergeIntervals, runs } from '../src/series/intervals.ts';
import type { Interval } from '../src/types.ts';

export interface WindowOptions {
  /** Samples per window, ≥ 2. */
  readonly size: number;
  /** Least share of a window that it has in common with the next, in [0, 0.9]. */
  readonly overlap: number;
  /** Most windows; with more, all of them grow. */
  readonly limit: number;
}

/**
 * Equally long windows over [0, length), evenly spaced, the first at 0 and the last ending at `length`; a single one
 * when the series is not longer than `size`. Where `limit` windows of `size` samples do not reach, they are as long
 * as it takes, so that a series of any length is answered by at most `limit` windows.
 * @throws ConfigError for an option out of range
 */
export function cutWindows(length: number, options: WindowOptions): Interval[] {
  const { overlap, limit } = options;
  if (!(Number.isInteger(options.size) && options.size >= 2)) {
    throw new ConfigError(`window: expected a whole number of at least 2 samples, got ${options.size}`);
  }
  if (!(overlap >= 0 && overlap <= 0.9)) {
    throw new ConfigError(`overlap: expected a share from 0 to 0.9, got ${overlap}`);
  }
  if (!(Number.isInteger(limit) && limit >= 2)) {
    throw new ConfigError(`limit: expected a whole number of at least 2 windows, got ${limit}`);
  }
  if (length <= options.size) return [[0, length]];
  // `limit` windows that overlap by the given share reach over 1 + (limit − 1)(1 − overlap) of their length.
  const size = Math.max(options.size, Math.ceil(length / (1 + (limit - 1) * (1 - overlap))));
  const count = Math.min(limit, 1 + Math.ceil((length - size) / Math.max(1, size * (1 - overlap)) - 1e-9));
  return Array.from({ length: count }, (_, i): Interval => {
    const start = Math.round((i * (length - size)) / (count - 1));
    return [start, start + size];
  });
}

/**
 * `values` [W] at `length` points: sample i owns the cell [i, i + 1) of W, point k the cell [k, k + 1)·W/length, and a
 * point takes the value at the middle of its cell, linearly interpolated between the middles of samples. Nothing is averaged
 * away.
 */
export function resample(values: Float64Array, length: number): Float64Array {
  const width = values.length;
  if (width === length) return values;
  const out = new Float64Array(length); // [length]
  for (let k = 0; k < length; k++) {
    const position = Math.min(width - 1, Math.max(0, ((k + 0.5) * width) / length - 0.5));
    const below = Math.floor(position);
    const share = position - below;
    const left = values[below]!;
    out[k] = share === 0 ? left : left * (1 - share) + values[below + 1]! * share;
  }
  return out;
}

/**
 * Intervals in the coordinates of an answer over `length` points, in samples of the series: start and end to the nearest
 * sample of the window, at least one sample each; sorted, disjoint, inside the window.
 */
export function mapBack(intervals: readonly Interval[], length: number, window: Interval): Interval[] {
  const [first, last] = window;
  const scale = (last - first) / length;
  return mergeIntervals(
    intervals.map(([start, end]): Interval => {
      const from = Math.min(last - 1, first + Math.round(start * scale));
      return [from, Math.min(last, Math.max(from + 1, first + Math.round(end * scale)))];
    }),
  );
}

/** What one window said, in samples of the series; null when it could not be read. */
export interface WindowAnswer {
  readonly window: Interval;
  readonly intervals: readonly Interval[] | null;
}

export interface MergeRule {
  /** Share of an overlap, at either side of it, in which a window does not vote while the other can; in [0, 0.5]. */
  readonly trim: number;
  /** Share of the votes from which a sample is anomalous. */
  readonly votes: number;
}

export const MERGE_RULE: MergeRule = { trim: 0.25, votes: 0.5 };

/** Weights of a vote from the middle of a window and from its trimmed edge, which counts where nothing else does. */
const MIDDLE = 4096;
const EDGE = 1;

/**
 * The anomalies of the whole series [0, length): the samples that at least `votes` of the readable windows over them
 * flag. Windows that could not be read have no vote.
 */
export function mergeWindows(
  length: number,
  answers: readonly WindowAnswer[],
  rule: MergeRule = MERGE_RULE,
): Interval[] {
  const change = new Float64Array(length + 1); // votes, then possible votes, as differences along the series
  const possible = new Float64Array(length + 1);
  const readable = answers.filter((answer) => answer.intervals !== null);
  const add = (into: Float64Array, start: number, end: number, weight: number): void => {
    if (end <= start) return;
    into[start]! += weight;
    into[end]! -= weight;
  };
  for (const [i, { window, intervals }] of readable.entries()) {
    const [first, last] = window;
    const before = (readable[i - 1]?.window[1] ?? first) - first;
    const after = last - (readable[i + 1]?.window[0] ?? last);
    const from = first + Math.round(rule.trim * Math.max(0, before));
    const to = last - Math.round(rule.trim * Math.max(0, after));
    const vote = (into: Float64Array, start: number, end: number): void => {
      add(into, start, end, EDGE);
      add(into, Math.max(start, from), Math.min(end, to), MIDDLE - EDGE);
    };
    vote(possible, first, last);
    for (const [start, end] of intervals!) vote(change, start, end);
  }
  let votes = 0;
  let all = 0;
  return runs(length, (t) => {
    votes += change[t]!;
    all += possible[t]!;
    return votes > 0 && votes >= rule.votes * all;
  });
}
