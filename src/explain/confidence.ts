/**
 * How sure a policy is of what it marks, from the probabilities of the tokens of its greedy answers about the windows of a series, and which
 * account of a place is taken where several windows have one.
 *
 * The scan of an answer (`; scan ..(#)...o....`) tells for each cell of the picture whether something is there: a mark of probability p says so
 * with p, a `.` with 1 − p. Of an interval it is asked what its own window says of its cells, what the other windows of that scale say that
 * show it, what those of other scales say, and of a short one how rare such a departure is in the whole series. A logistic regression
 * (`ConfidenceModel`) makes of these, and of its length and the number of windows, the share of such intervals that are right. Whether the answer lists it, and the probabilities of the class, of the first cell and of the coordinates
 * tell nothing beyond that.
 */

import type { Interval } from '../ground/types.ts';
import { localDeviations } from '../series/deviation.ts';
import { overlap, runs } from '../series/intervals.ts';
import { quantileInPlace } from '../series/stats.ts';

/** Symbols of a scan that stand for an anomaly in a cell, and the one for none. */
const MARKS = '(#)ox';
const NOTHING = '.';

/** A token of an answer: what it decodes to, and the natural logarithm of its probability. */
export interface AnswerToken {
  readonly text: string;
  readonly logProb: number;
}

/**
 * The probability that there is something, for each cell of the scan of an answer whose tokens put together are its text: of a mark the
 * probability of its token, of a `.` 1 less that; NaN of a symbol that tells neither.
 *
 * Null where it has no scan, or where one token holds two symbols of it: its probability is not that of a cell.
 */
export function cellsOf(tokens: readonly AnswerToken[]): number[] | null {
  const scan = /; scan ([^;<]+)/d.exec(tokens.map((one) => one.text).join(''));
  if (scan === null) return null;
  const [first, last] = scan.indices![1]!;
  const cells: number[] = [];
  let at = 0;
  for (const { text, logProb } of tokens) {
    const [from, to] = [Math.max(first, at), Math.min(last, at + text.length)];
    if (to - from > 1) return null;
    if (to - from === 1) {
      const p = Math.min(1, Math.exp(logProb));
      const symbol = text[from - at]!;
      cells.push(MARKS.includes(symbol) ? p : symbol === NOTHING ? 1 - p : Number.NaN);
    }
    at += text.length;
  }
  return cells;
}

/** What was said about a window [start, end), and how sure. */
export interface WindowEvidence {
  readonly start: number;
  readonly end: number;
  /** Place among the scales, 0 for the finest. */
  readonly scale: number;
  /** In samples of the series; null where the answer cannot be read. */
  readonly intervals: readonly Interval[] | null;
  /** Probability that there is something, by cell, as `cellsOf` has it. */
  readonly cells: readonly number[] | null;
}

/** What is known of an interval that a window marks; the names are those of the coefficients of a model. */
export interface Support {
  /** What the window says: the logit of the mean probability over the interval's cells. */
  readonly own: number;
  /** What the other windows of this scale that show it say, as a logit, less `own`; 0 without any. */
  readonly neighbours: number;
  /** The same of the scale that says most, of the others; 0 without any. */
  readonly scales: number;
  /** Logarithm to base 2 of its length in cells, at least 0. */
  readonly size: number;
  /** Logarithm to base 2 of the windows of this scale, at most 5: among more windows there are more that look unusual by chance. */
  readonly windows: number;
  /**
   * Of at most 6 samples, how much further they depart from their neighbours than 99.5 % of the series do, in powers of 2, from 0 to 6; 0 of longer
   * ones. A window does not show how often such a spike comes elsewhere.
   */
  readonly rarity: number;
}

export const SUPPORT = [
  'own',
  'neighbours',
  'scales',
  'size',
  'windows',
  'rarity',
] as const satisfies readonly (keyof Support)[];

/** One window's account of a place. */
export interface Account {
  readonly interval: Interval;
  /** Null where the tokens tell nothing. */
  readonly support: Support | null;
}

/** Probabilities are told apart up to this far from 0 and 1. */
const SUREST = 1e-4;
const logit = (p: number): number => {
  const kept = Math.min(1 - SUREST, Math.max(SUREST, p));
  return Math.log(kept / (1 - kept));
};
const MOST_COUNTED = 5;

const mean = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / values.length;

/** Probabilities of the window's cells that an interval touches; empty where nothing is known. */
function touchedCells({ start, end, cells }: WindowEvidence, [from, to]: Interval): number[] {
  if (cells === null) return [];
  const width = (end - start) / cells.length;
  const first = Math.max(0, Math.floor((from - start) / width + 1e-9));
  const last = Math.min(cells.length, Math.ceil((to - start) / width - 1e-9));
  return cells.slice(first, Math.max(last, first + 1)).filter((p) => !Number.isNaN(p));
}

/** Share of an interval from which a window shows it. */
const SHOWN = 0.5;

/** What a window says of a place that it shows: the mean over its cells. Null where it does not show it, or nothing is known. */
function saysOf(window: WindowEvidence, [from, to]: Interval): number | null {
  const seen = Math.min(to, window.end) - Math.max(from, window.start);
  if (seen < SHOWN * (to - from)) return null;
  const cells = touchedCells(window, [Math.max(from, window.start), Math.min(to, window.end)]);
  return cells.length === 0 ? null : mean(cells);
}

/** Longest stretch of which the rarity counts, and the part of the series that it is held against. */
const SHORT = 6;
const USUAL = 0.995;
const RAREST = 6;

/** The rarity of intervals of a series [N] of finite values, see `Support`. */
function rarityIn(values: Float64Array): (interval: Interval) => number {
  if (values.length < 2) return () => 0;
  const sizes = localDeviations(values).map(Math.abs);
  const usual = quantileInPlace(sizes.slice(), sizes.length, USUAL);
  return ([start, end]) => {
    if (end - start > SHORT) return 0;
    let most = 0;
    for (let t = Math.max(0, start - 1); t < Math.min(sizes.length, end + 1); t++) {
      most = Math.max(most, sizes[t]!);
    }
    return most <= usual ? 0 : Math.min(RAREST, Math.log2(most / usual));
  };
}

function supportOf(
  interval: Interval,
  index: number,
  windows: readonly WindowEvidence[],
  near: readonly number[],
  alike: number,
  rarity: number,
): Support | null {
  const window = windows[index]!;
  const { start, end, scale, cells } = window;
  const own = touchedCells(window, interval);
  if (cells === null || own.length === 0) return null;
  const others = new Map<number, number[]>();
  for (const at of near) {
    if (at === index) continue;
    const says = saysOf(windows[at]!, interval);
    if (says === null) continue;
    const list = others.get(windows[at]!.scale);
    if (list === undefined) others.set(windows[at]!.scale, [says]);
    else list.push(says);
  }
  const beside = others.get(scale);
  const elsewhere = [...others].filter(([at]) => at !== scale).map(([, says]) => mean(says));
  const strength = logit(mean(own));
  const cell = (end - start) / cells.length;
  return {
    own: strength,
    neighbours: beside === undefined ? 0 : logit(mean(beside)) - strength,
    scales: elsewhere.length === 0 ? 0 : logit(Math.max(...elsewhere)) - strength,
    size: Math.max(0, Math.log2((interval[1] - interval[0]) / cell)),
    windows: Math.min(MOST_COUNTED, Math.log2(alike)),
    rarity,
  };
}

/** Probability from which on a cell without a mark is an account too. */
const LEAST_CELL = 0.1;

/** Stretches of cells in which something is as probable as that, less what the answer marks. */
function likely({ start, end, intervals, cells }: WindowEvidence): Interval[] {
  if (cells === null || intervals === null) return [];
  const edge = (cell: number): number => start + Math.round((cell * (end - start)) / cells.length);
  return runs(cells.length, (cell) => {
    const [from, to] = [edge(cell), edge(cell + 1)];
    return cells[cell]! >= LEAST_CELL && from < to && overlap(intervals, [[from, to]]) === 0;
  }).map(([first, last]): Interval => [edge(first), edge(last)]);
}

/**
 * Every interval that a window marks, and every stretch of cells in which it marks nothing and might have, with what is
 * known of them.
 * @param values of the series that the windows are of [N], finite
 */
export function accountsOf(windows: readonly WindowEvidence[], values: Float64Array): Account[] {
  const rarity = rarityIn(values);
  const counts = new Map<number, number>();
  for (const { scale } of windows) counts.set(scale, (counts.get(scale) ?? 0) + 1);
  return windows.flatMap((window, index) => {
    const account = (interval: Interval): Account => {
      const near = touching(windows, interval);
      return {
        interval,
        support: supportOf(interval, index, windows, near, counts.get(window.scale)!, rarity(interval)),
      };
    };
    return [
      ...(window.intervals ?? []).map((one) => account(one)),
      ...likely(window).map((one) => account(one)),
    ];
  });
}

/** Indices of the windows that share samples with an interval. */
function touching(windows: readonly WindowEvidence[], [from, to]: Interval): number[] {
  const found: number[] = [];
  for (const [i, { start, end }] of windows.entries()) if (start < to && end > from) found.push(i);
  return found;
}
