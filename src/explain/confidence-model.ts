/**
 * `timeseer.confidence.json` beside a policy's weights: the logistic regression that makes of what a policy's answers tell of an interval the share
 * of such intervals that are right, fitted to series that it was not taught (`timeseer calibrate`).
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { CheckpointError } from '../ground/errors.ts';
import { readUtf8 } from '../ground/files.ts';
import { addToManifest, checkFiles } from '../ground/manifest.ts';
import type { Interval } from '../ground/types.ts';
import { type Account, accountsOf, SUPPORT, type Support, type WindowEvidence } from './confidence.ts';
import { agreement } from './trust.ts';

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

export interface WeighedAccount extends Account {
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
      `${file}: not a confidence model of this version (${fault}); make it again with timeseer calibrate --policy ${directory}`,
      { cause },
    );
  }
}
