/**
 * Confidence of a policy in the intervals that it marks.
 *
 * The scan of an answer (`; scan ..(#)...o....`) has a symbol for each cell of the picture: a mark of probability p says with p that something
 * is there, a `.` with 1 − p. The support of an interval is what its window says of its cells, what the other windows of that scale and of
 * other scales say, and for a short one how rare such a departure is in the series. A logistic regression (`ConfidenceModel`, fitted by
 * `timeseer calibrate` to series that the policy was not trained on) turns support into the share of such intervals that are right.
 */

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { CheckpointError } from '../ground/errors.ts';
import { readUtf8 } from '../ground/files.ts';
import { addToManifest, checkFiles } from '../ground/manifest.ts';
import type { Interval } from '../ground/types.ts';
import { localDeviations } from '../series/deviation.ts';
import { overlap, runs } from '../series/intervals.ts';
import { quantileInPlace } from '../series/stats.ts';
import { agreement } from './trust.ts';

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

export const CONFIDENCE_FILE = 'timeseer.confidence.json';

const finite = z.number();

const modelSchema = z
  .strictObject({
    version: z.literal(1),
    /** Log-odds of being right where every input is 0. */
    constant: finite,
    /** What one unit of an input adds. */
    weights: z.strictObject(
      Object.fromEntries(SUPPORT.map((name) => [name, finite])) as Record<keyof Support, typeof finite>,
    ),
    /** What it was fitted to: series of a generator or a data set, the intervals that the policy marks in them, and how many are right. */
    fitted: z.strictObject({
      data: z.string(),
      series: z.int().min(1),
      intervals: z.int().min(1),
      right: z.int().nonnegative(),
    }),
  })
  .readonly();

export type ConfidenceModel = z.infer<typeof modelSchema>;

/** The share of intervals with this support that are right, in (0, 1). */
export function confidenceOf(
  { constant, weights }: Pick<ConfidenceModel, 'constant' | 'weights'>,
  support: Support,
): number {
  let sum = constant;
  for (const name of SUPPORT) sum += weights[name] * support[name];
  return 1 / (1 + Math.exp(-sum));
}

/** Where nothing was fitted: what its own window, the others and the other scales say, in equal parts. */
const UNFITTED: Pick<ConfidenceModel, 'constant' | 'weights'> = {
  constant: 0,
  weights: { own: 1, neighbours: 1 / 3, scales: 1 / 3, size: 0, windows: 0, rarity: 0 },
};

/**
 * Confidence from which on an interval is reported. Chosen on recordings, recordings with anomalies put in and shapes (test/bench/policy.ts, half
 * `choose`): from .2 on affiliation F1 is .03 higher, and alarms on series without anomaly are twice as many.
 */
export const REPORTED_FROM = 0.4;

interface WeighedAccount extends Account {
  /** Null where the tokens of its answer tell nothing. */
  readonly confidence: number | null;
}

/**
 * One account of every place that windows give account of, most confident first: what overlaps a more confident one is dropped
 * (non-maximum suppression). Those without a confidence come last.
 */
export function weighAccounts(
  windows: readonly WindowEvidence[],
  values: Float64Array,
  model: Pick<ConfidenceModel, 'constant' | 'weights'> | null,
): WeighedAccount[] {
  const ranked = accountsOf(windows, values)
    .map((one) => ({
      ...one,
      confidence: one.support === null ? null : confidenceOf(model ?? UNFITTED, one.support),
    }))
    .sort((a, b) => (b.confidence ?? -1) - (a.confidence ?? -1));
  const kept = new IntervalSet();
  return ranked.filter(({ interval }) => kept.add(interval));
}

/** What of these is reported, in the order of the series: from a confidence on, and what an answer marks without one. */
export function reportedAccounts(
  windows: readonly WindowEvidence[],
  values: Float64Array,
  model: ConfidenceModel | null,
): WeighedAccount[] {
  return weighAccounts(windows, values, model)
    .filter(({ confidence }) => confidence === null || confidence >= REPORTED_FROM)
    .sort((a, b) => a.interval[0] - b.interval[0]);
}

/** Disjoint intervals, ordered by their starts. */
class IntervalSet {
  readonly #intervals: Interval[] = [];

  /** Adds one that overlaps none; whether it did. */
  add(interval: Interval): boolean {
    const all = this.#intervals;
    let [low, high] = [0, all.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (all[middle]![0] < interval[0]) low = middle + 1;
      else high = middle;
    }
    if (low > 0 && all[low - 1]![1] > interval[0]) return false;
    if (low < all.length && all[low]![0] < interval[1]) return false;
    all.splice(low, 0, interval);
    return true;
  }
}

/** Samples by which intervals are widened on both sides before they are compared, and how much they must then have in common. */
const TOLERANCE = 5;
const IN_COMMON = 0.2;

/**
 * Whether an interval names an anomaly: both widened by 5 samples on each side, their intersection over union is at least 0.2 with one of the
 * true ones. A spike is found where the mark is a cell wide; a whole day marked for a spike is not right.
 */
export function isRight(interval: Interval, truth: readonly Interval[]): boolean {
  const wide = ([start, end]: Interval): Interval => [start - TOLERANCE, end + TOLERANCE];
  const own = wide(interval);
  return truth.some((one) => (agreement([own], [wide(one)]) ?? 0) >= IN_COMMON);
}

/** Strength of the penalty on weights of inputs in units of their standard deviations, as examples. */
const PENALTY = 1;
const STEPS = 50;

/** Solves A·x = b for a symmetric positive definite A [D][D], which is overwritten, as is b. */
function solve(a: number[][], b: number[]): number[] {
  const d = b.length;
  for (let k = 0; k < d; k++) {
    for (let i = k + 1; i < d; i++) {
      const share = a[i]![k]! / a[k]![k]!;
      for (let j = k; j < d; j++) a[i]![j]! -= share * a[k]![j]!;
      b[i]! -= share * b[k]!;
    }
  }
  for (let k = d - 1; k >= 0; k--) {
    for (let j = k + 1; j < d; j++) b[k]! -= a[k]![j]! * b[j]!;
    b[k]! /= a[k]![k]!;
  }
  return b;
}

/**
 * The logistic regression of what is right on what is known, by Newton's method, with a small penalty on weights; inputs are scaled by their
 * standard deviations for it. Half a right and half a wrong example are added, so that no share is 0 or 1.
 */
export function fitConfidence(
  examples: readonly { readonly support: Support; readonly right: boolean }[],
): Pick<ConfidenceModel, 'constant' | 'weights'> {
  const n = examples.length;
  const spread = SUPPORT.map((name) => {
    const values = examples.map(({ support }) => support[name]);
    const mean = values.reduce((sum, value) => sum + value, 0) / n;
    const std = Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / n);
    return { mean, std: std > 0 ? std : 1 };
  });
  const rows = examples.map(({ support }) => [
    1,
    ...SUPPORT.map((name, k) => (support[name] - spread[k]!.mean) / spread[k]!.std),
  ]);
  const targets: number[] = examples.map(({ right }) => (right ? 1 : 0));
  const d = SUPPORT.length + 1;
  // An example at the middle that is half right.
  rows.push([1, ...SUPPORT.map(() => 0)]);
  targets.push(0.5);
  let weights = new Array<number>(d).fill(0);
  for (let step = 0; step < STEPS; step++) {
    const hessian = Array.from({ length: d }, (_, i) =>
      Array.from({ length: d }, (_, j) => (i === j ? (i === 0 ? 1e-9 : PENALTY) : 0)),
    );
    const gradient = weights.map((value, i) => (i === 0 ? 0 : -PENALTY * value));
    for (const [r, row] of rows.entries()) {
      const p = 1 / (1 + Math.exp(-row.reduce((sum, value, i) => sum + value * weights[i]!, 0)));
      const curve = Math.max(1e-9, p * (1 - p));
      for (let i = 0; i < d; i++) {
        gradient[i]! += (targets[r]! - p) * row[i]!;
        for (let j = 0; j < d; j++) hessian[i]![j]! += curve * row[i]! * row[j]!;
      }
    }
    const change = solve(hessian, gradient);
    weights = weights.map((value, i) => value + change[i]!);
    if (Math.max(...change.map(Math.abs)) < 1e-9) break;
  }
  const scaled = SUPPORT.map((_, k) => weights[k + 1]! / spread[k]!.std);
  return {
    constant: weights[0]! - scaled.reduce((sum, value, k) => sum + value * spread[k]!.mean, 0),
    weights: Object.fromEntries(SUPPORT.map((name, k) => [name, scaled[k]!])) as Record<
      keyof Support,
      number
    >,
  };
}

/** Writes it beside a policy, and into the policy's manifest. */
export function writeConfidence(directory: string, model: ConfidenceModel): void {
  addToManifest(directory, CONFIDENCE_FILE, `${JSON.stringify(model, null, 2)}\n`);
}

/**
 * How sure a policy has to be taken to be; null where that was not measured.
 * @throws CheckpointError for a damaged file, and one of another version
 */
export function readConfidence(directory: string): ConfidenceModel | null {
  const file = join(directory, CONFIDENCE_FILE);
  checkFiles(directory, (name) => name === CONFIDENCE_FILE);
  if (!existsSync(file)) return null;
  try {
    return modelSchema.parse(JSON.parse(readUtf8(file)));
  } catch (cause) {
    const issue = cause instanceof z.ZodError ? cause.issues[0] : undefined;
    const fault =
      issue === undefined
        ? (cause as Error).message
        : `${issue.path.join('.') || 'all of it'}: ${issue.message}`;
    throw new CheckpointError(
      `${file}: not a confidence model of this version (${fault}); write it anew with timeseer calibrate --policy ${directory}`,
      { cause },
    );
  }
}
