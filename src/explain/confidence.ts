/**
 * Confidence of a policy in the intervals that it marks, and of policy and detector together.
 *
 * The scan of an answer (`; scan ..(#)...o....`) has a symbol for each cell of the picture. A mark of probability p means an anomaly with
 * probability p, a `.` with 1 − p. The support of an interval combines its own window, the other windows of that scale and of other scales,
 * and for a short one the rarity of such a departure in the series. A logistic regression (`ConfidenceModel`, fitted by `timeseer calibrate`
 * to held-out series, or to recordings of the user) turns support into the share of such intervals that are right.
 *
 * A second regression, fitted to recordings with made anomalies as well, weighs that against the detector: a place (`Place`) is a finding with
 * the marks on it, or a mark where there is no finding. It gives one ranking of both, and the confidence that reports state.
 */

import { z } from 'zod';
import type { Finding } from '../detect/finding.ts';
import { jsonText } from '../ground/files.ts';
import { addToManifest, readSaved } from '../ground/manifest.ts';
import { getOrMake } from '../ground/maps.ts';
import { mean } from '../ground/numbers.ts';
import type { Interval } from '../ground/types.ts';
import { localDeviations } from '../series/deviation.ts';
import { overlap, runs } from '../series/intervals.ts';
import { bridge, knownPart } from '../series/missing.ts';
import { largestMagnitude, quantileInPlace, solveInPlace } from '../series/stats.ts';
import { agreement } from './trust.ts';

/** Symbols of a scan for an anomaly in a cell, and for none. */
const MARKS = '(#)ox';
const NOTHING = '.';

/** Token of an answer: its text, and its log-probability (natural logarithm). */
export interface AnswerToken {
  readonly text: string;
  readonly logProb: number;
}

/**
 * Returns the probability of an anomaly in each cell of the scan of an answer: that of the token for a mark, 1 − that for a `.`, NaN for
 * other symbols. Null without a scan, or if a token holds two symbols, whose probability is not that of a cell.
 */
export function cellsOf(tokens: readonly AnswerToken[]): number[] | null {
  const scan = /; scan ([^;<]+)/d.exec(tokens.map(({ text }) => text).join(''));
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

/** Answer about a window [start, end), with its probabilities. */
export interface WindowEvidence {
  readonly start: number;
  readonly end: number;
  /** Index of the scale, 0 for the finest. */
  readonly scale: number;
  /** Marked intervals in samples of the series; null if the answer cannot be read. */
  readonly intervals: readonly Interval[] | null;
  /** Probability of an anomaly by cell; see `cellsOf`. */
  readonly cells: readonly number[] | null;
}

/** Inputs of the confidence of an interval; the names are those of the model's weights. */
export interface Support {
  /** Logit of the mean probability over the interval's cells, in its own window. */
  readonly own: number;
  /** Logit of the other windows of this scale that show it, less `own`; 0 without any. */
  readonly neighbours: number;
  /** Logit of the other scale with the highest probability, less `own`; 0 without any. */
  readonly scales: number;
  /** log₂ of its length in cells, at least 0. */
  readonly size: number;
  /** log₂ of the number of windows of this scale, at most 5: more windows look unusual by chance. */
  readonly windows: number;
  /**
   * log₂ of the departure from the neighbours over the 99.5 % quantile of the series, 0 to 6, for at most 6 samples; 0 for longer
   * intervals. A window does not show how often such a spike comes elsewhere.
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

/** Interval that a window marks, or might have marked. */
interface Account {
  readonly interval: Interval;
  /** Null if the tokens give no probability. */
  readonly support: Support | null;
}

/** Distance from 0 and 1 to which probabilities are clamped. */
const SUREST = 1e-4;
const logit = (p: number): number => {
  const clamped = Math.min(1 - SUREST, Math.max(SUREST, p));
  return Math.log(clamped / (1 - clamped));
};
const MOST_COUNTED = 5;

/** Probabilities of the window's cells that an interval touches; empty if unknown. */
function touchedCells({ start, end, cells }: WindowEvidence, [from, to]: Interval): number[] {
  if (cells === null) return [];
  const width = (end - start) / cells.length;
  const first = Math.max(0, Math.floor((from - start) / width + 1e-9));
  const last = Math.min(cells.length, Math.ceil((to - start) / width - 1e-9));
  return cells.slice(first, Math.max(last, first + 1)).filter((p) => !Number.isNaN(p));
}

/** Least share of an interval inside a window that shows it. */
const SHOWN = 0.5;

/** Mean probability of an interval in a window; null if the window does not show it, or the probability is unknown. */
function probabilityIn(window: WindowEvidence, [from, to]: Interval): number | null {
  const seen = Math.min(to, window.end) - Math.max(from, window.start);
  if (seen < SHOWN * (to - from)) return null;
  const cells = touchedCells(window, [Math.max(from, window.start), Math.min(to, window.end)]);
  return cells.length === 0 ? null : mean(cells);
}

/** Longest interval with a rarity, the quantile of the series that it is compared with, and the largest rarity. */
const SHORT = 6;
const USUAL = 0.995;
const RAREST = 6;

/** Returns a function that computes the rarity of intervals of a series [N] of finite values; see `Support`. */
function rarityIn(values: Float64Array): (interval: Interval) => number {
  if (values.length < 2) return () => 0;
  // Differences of values near the largest float64 overflow.
  const sizes = localDeviations(values).map((size) => (Number.isNaN(size) ? Infinity : Math.abs(size)));
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
  const touched = touchedCells(window, interval);
  if (cells === null || touched.length === 0) return null;
  const others = new Map<number, number[]>();
  for (const at of near) {
    if (at === index) continue;
    const probability = probabilityIn(windows[at]!, interval);
    if (probability === null) continue;
    getOrMake(others, windows[at]!.scale, (): number[] => []).push(probability);
  }
  const beside = others.get(scale);
  const elsewhere = [...others].filter(([at]) => at !== scale).map(([, list]) => mean(list));
  const strength = logit(mean(touched));
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

/** Least probability of an unmarked cell that becomes an account. */
const LEAST_CELL = 0.1;

/** Stretches of such cells that the answer does not mark. */
function likely({ start, end, intervals, cells }: WindowEvidence): Interval[] {
  if (cells === null || intervals === null) return [];
  const edge = (cell: number): number => start + Math.round((cell * (end - start)) / cells.length);
  return runs(cells.length, (cell) => {
    const [from, to] = [edge(cell), edge(cell + 1)];
    return cells[cell]! >= LEAST_CELL && from < to && overlap(intervals, [[from, to]]) === 0;
  }).map(([first, last]): Interval => [edge(first), edge(last)]);
}

/**
 * Lists every interval that a window marks or might have marked, with its support. Gaps hold none.
 * @param values series of the windows [N], NaN where missing
 */
export function accountsOf(windows: readonly WindowEvidence[], values: Float64Array): Account[] {
  const rarity = rarityIn(bridge(values).values);
  const counts = new Map<number, number>();
  for (const { scale } of windows) counts.set(scale, (counts.get(scale) ?? 0) + 1);
  return windows.flatMap((window, index) => {
    const account = (whole: Interval): Account[] => {
      const interval = knownPart(whole, values);
      if (interval === null) return [];
      const near = touching(windows, interval);
      const alike = counts.get(window.scale)!;
      return [{ interval, support: supportOf(interval, index, windows, near, alike, rarity(interval)) }];
    };
    return [...(window.intervals ?? []), ...likely(window)].flatMap(account);
  });
}

/** Indices of the windows that share samples with an interval. */
function touching(windows: readonly WindowEvidence[], [from, to]: Interval): number[] {
  return windows.flatMap(({ start, end }, i) => (start < to && end > from ? [i] : []));
}

export const CONFIDENCE_FILE = 'timeseer.confidence.json';

const finite = z.number();

/** Logistic regression on named inputs. */
export interface Regression<Name extends string> {
  /** Log-odds if every input is 0. */
  readonly constant: number;
  /** Weight of each input. */
  readonly weights: Readonly<Record<Name, number>>;
}

const regression = <Name extends string>(names: readonly Name[]) => ({
  constant: finite,
  weights: z.strictObject(
    Object.fromEntries(names.map((name) => [name, finite])) as Record<Name, typeof finite>,
  ),
});

/** Inputs of the confidence in a place; the names are those of the model's weights. */
export interface Evidence {
  /** Logit of the policy's confidence, limited to 0.02 to 0.98; 0.02 where it marks nothing. */
  readonly policy: number;
  /** log₂ of 1 + the severity of the finding; 0 without one. */
  readonly severity: number;
  /** log₂ of 1 + the number of findings elsewhere in the series. */
  readonly findings: number;
  /** log₂ of 1 + the number of other places where the policy is as confident. */
  readonly marks: number;
}

export const EVIDENCE = [
  'policy',
  'severity',
  'findings',
  'marks',
] as const satisfies readonly (keyof Evidence)[];

const modelSchema = z
  .strictObject({
    version: z.literal(2),
    ...regression(SUPPORT),
    /** Regression of right places on the evidence of policy and detector. */
    evidence: z.strictObject(regression(EVIDENCE)),
    /** True if fitted to recordings of the user alone: the policy's own confidence holds there without the detector. */
    recordingsAlone: z.boolean().optional(),
    /** True if it was fitted to windows with and without their season, where one follows the calendar: both are asked about. */
    deseasonalised: z.literal(true).optional(),
    /**
     * Calibration data: generator and recordings, number of series, of intervals that the policy marks in them, and of right ones. Error:
     * expected calibration error of what is stated, in [0, 1]; the evidence is fitted to half of the series and judged by the others, and back.
     */
    fitted: z.strictObject({
      data: z.string(),
      series: z.int().min(1),
      intervals: z.int().min(1),
      right: z.int().nonnegative(),
      error: z.number().optional(),
    }),
  })
  .readonly();

export type ConfidenceModel = z.infer<typeof modelSchema>;

/** Predicts the share of intervals with such inputs that are right, in (0, 1). */
export function confidenceOf<Name extends string>(
  { constant, weights }: Regression<Name>,
  inputs: Readonly<Record<Name, number>>,
): number {
  let sum = constant;
  for (const name of Object.keys(weights) as Name[]) sum += weights[name] * inputs[name];
  return 1 / (1 + Math.exp(-sum));
}

/** Model without calibration: its own window, the others and the other scales in equal parts. */
const UNFITTED: Regression<keyof Support> = {
  constant: 0,
  weights: { own: 1, neighbours: 1 / 3, scales: 1 / 3, size: 0, windows: 0, rarity: 0 },
};

/**
 * Least confidence of a reported interval. Chosen on recordings, recordings with injected anomalies and shapes (test/bench/policy.ts, half
 * `choose`): at .2, affiliation F1 is .03 higher, with twice the alarms on series without anomaly.
 */
export const REPORTED_FROM = 0.4;

interface WeighedAccount extends Account {
  /** Null if the tokens of its answer give no probability. */
  readonly confidence: number | null;
}

/**
 * Ranks the accounts, most confident first, and drops those that overlap a more confident one (non-maximum suppression). Accounts without
 * a confidence come last.
 */
export function weighAccounts(
  accounts: readonly Account[],
  model: Regression<keyof Support> | null,
): WeighedAccount[] {
  const ranked = accounts
    .map((account) => {
      const { support } = account;
      return { ...account, confidence: support === null ? null : confidenceOf(model ?? UNFITTED, support) };
    })
    .sort((a, b) => (b.confidence ?? -1) - (a.confidence ?? -1));
  const kept: Interval[] = [];
  return ranked.filter(({ interval: [start, end] }) => {
    const free = kept.every(([from, to]) => end <= from || to <= start);
    if (free) kept.push([start, end]);
    return free;
  });
}

/** Selects the reported accounts, by time: those of enough confidence, and those without one. */
export function reportedAccounts(weighed: readonly WeighedAccount[]): WeighedAccount[] {
  return weighed
    .filter(({ confidence }) => confidence === null || confidence >= REPORTED_FROM)
    .sort((a, b) => a.interval[0] - b.interval[0]);
}

/** Finding of the detector with the policy's marks on it, or a mark where there is none. */
export interface Place {
  readonly interval: Interval;
  /** Index of the finding; null without one. */
  readonly finding: number | null;
  /** The policy's marks there. */
  readonly marks: readonly Interval[];
  readonly evidence: Evidence;
}

/** The policy's confidence where it marks nothing; in the evidence it is limited to this and 1 less this. */
const UNMARKED = 0.02;

/** Least part of the shorter one that a mark and a finding share, if they are one place. */
const SHARED = 0.5;

/** Returns true if a mark tells of a finding; the extent of a level that stays says nothing behind its beginning. */
function tellsOf([from, to]: Interval, { start, end, lasting }: FoundPlace): boolean {
  const shared = Math.min(to, end) - Math.max(from, start);
  return shared >= SHARED * Math.min(to - from, end - start) && !(lasting && from > start + (to - from));
}

type FoundPlace = Pick<Finding, 'start' | 'end' | 'severity' | 'lasting'>;

/** Joins the policy's accounts, as `weighAccounts` gives them, with the detector's findings: the findings come first, in their order. */
export function placesOf(weighed: readonly WeighedAccount[], findings: readonly FoundPlace[]): Place[] {
  const known = weighed.filter(({ confidence }) => confidence !== null);
  const alone = known.filter(({ interval }) => !findings.some((finding) => tellsOf(interval, finding)));
  const places = [
    ...findings.map((finding, index) => {
      const on = known.filter(({ interval }) => tellsOf(interval, finding));
      const interval: Interval = [finding.start, finding.end];
      return { interval, finding: index, severity: finding.severity, on };
    }),
    ...alone.map((mark) => ({ interval: mark.interval, finding: null, severity: 0, on: [mark] })),
  ].map((place) => ({ ...place, sure: Math.max(0, ...place.on.map(({ confidence }) => confidence!)) }));
  return places.map(({ interval, finding, severity, on, sure }) => {
    const policy = Math.min(1 - UNMARKED, Math.max(UNMARKED, sure));
    const others = findings.length - (finding === null ? 0 : 1);
    const alike = places.filter((other) => other.sure >= policy).length - (sure >= policy ? 1 : 0);
    return {
      ...{ interval, finding, marks: on.map(({ interval }) => interval) },
      evidence: {
        policy: Math.log(policy / (1 - policy)),
        severity: Math.log2(1 + severity),
        findings: Math.log2(1 + others),
        marks: Math.log2(1 + alike),
      },
    };
  });
}

export interface RankedPlace extends Place {
  /** Share of such places that are right. */
  readonly confidence: number;
}

/**
 * Severity at which a finding alone has a confidence of .5. Chosen on made anomalies in recordings (test/bench/policy.ts, half `choose`): at 32
 * the AUC was .801 and the calibration error .076 (.775 and .085 without); at 16 they were .844 and .135. Not chosen anew for later weights.
 */
const HALF_RIGHT = 32;

/** Least confidence in a place by the severity of its finding alone, 0 without one: a policy that is silent or marks much refutes no incident. */
function leastConfidence({ severity: logarithm }: Evidence): number {
  const severity = 2 ** logarithm - 1;
  return severity ** 2 / (severity ** 2 + HALF_RIGHT ** 2);
}

/**
 * Confidence that is stated of a place. One that the policy marks has at least the confidence of the mark, if the model was fitted to the
 * user's recordings alone: on later days of twelve made sources the calibration error of adapted policies is .05 with that and .17 without, of
 * copies of `small` .10 and .21 (test/bench/policy.ts --adapted, seed 11); for `small` as it ships it would be .37 instead of .11 on recordings.
 */
export function statedConfidence(
  { evidence: model, recordingsAlone = false }: Pick<ConfidenceModel, 'evidence' | 'recordingsAlone'>,
  { marks, evidence }: Pick<Place, 'marks' | 'evidence'>,
): number {
  const own = recordingsAlone && marks.length > 0 ? 1 / (1 + Math.exp(-evidence.policy)) : 0;
  return Math.max(leastConfidence(evidence), confidenceOf(model, evidence), own);
}

/** Ranks what policy and detector tell of, most confident first. */
export function rankPlaces(
  places: readonly Place[],
  model: Pick<ConfidenceModel, 'evidence' | 'recordingsAlone'>,
): RankedPlace[] {
  return places
    .map((place) => ({
      told: confidenceOf(model.evidence, place.evidence),
      ranked: { ...place, confidence: statedConfidence(model, place) },
    }))
    .sort((a, b) => b.ranked.confidence - a.ranked.confidence || b.told - a.told)
    .map(({ ranked }) => ranked);
}

/** Samples by which intervals are widened on both sides before they are compared, and the least intersection over union. */
const TOLERANCE = 5;
const IN_COMMON = 0.2;

/**
 * Returns true if an interval is right: with both widened by 5 samples on each side, its intersection over union with a true one is at least
 * 0.2. A mark as wide as a cell is right for a spike; a whole day is not.
 */
export function isRight(interval: Interval, truth: readonly Interval[]): boolean {
  const wide = ([start, end]: Interval): Interval => [start - TOLERANCE, end + TOLERANCE];
  const marked = wide(interval);
  return truth.some((gold) => (agreement([marked], [wide(gold)]) ?? 0) >= IN_COMMON);
}

/** Penalty on the weights of standardised inputs, in examples; and most steps of Newton's method. */
const PENALTY = 1;
const STEPS = 50;

export interface Weighted<Name extends string> {
  readonly inputs: Readonly<Record<Name, number>>;
  readonly right: boolean;
  /** Number of examples that it counts as; default: 1. */
  readonly weight?: number;
}

/**
 * Fits the logistic regression of `right` on the inputs by Newton's method, with a small penalty on the weights of standardised inputs. Half a
 * right and half a wrong example are added, so that no share is 0 or 1.
 */
export function fitConfidence<Name extends string>(examples: readonly Weighted<Name>[]): Regression<Name> {
  const n = examples.length;
  const names = Object.keys(examples[0]!.inputs) as Name[];
  const spread = names.map((name) => {
    const values = examples.map(({ inputs }) => inputs[name]);
    const centre = mean(values);
    const std = Math.sqrt(values.reduce((sum, value) => sum + (value - centre) ** 2, 0) / n);
    return { mean: centre, std: std > 0 ? std : 1 };
  });
  const rows = examples.map(({ inputs }) => [
    1,
    ...names.map((name, k) => (inputs[name] - spread[k]!.mean) / spread[k]!.std),
  ]);
  const targets: number[] = examples.map(({ right }) => (right ? 1 : 0));
  const counted = [...examples.map(({ weight = 1 }) => weight), 1];
  const d = names.length + 1;
  // An example at the middle that is half right.
  rows.push([1, ...names.map(() => 0)]);
  targets.push(0.5);
  let weights = new Array<number>(d).fill(0);
  for (let step = 0; step < STEPS; step++) {
    const hessian = new Float64Array(d * d);
    for (let i = 0; i < d; i++) hessian[i * d + i] = i === 0 ? 1e-9 : PENALTY;
    const gradient = Float64Array.from(weights, (value, i) => (i === 0 ? 0 : -PENALTY * value));
    for (const [r, row] of rows.entries()) {
      const p = 1 / (1 + Math.exp(-row.reduce((sum, value, i) => sum + value * weights[i]!, 0)));
      const curve = counted[r]! * Math.max(1e-9, p * (1 - p));
      for (let i = 0; i < d; i++) {
        gradient[i]! += counted[r]! * (targets[r]! - p) * row[i]!;
        for (let j = 0; j < d; j++) hessian[i * d + j]! += curve * row[i]! * row[j]!;
      }
    }
    solveInPlace(hessian, d, [gradient]);
    weights = weights.map((value, i) => value + gradient[i]!);
    if (largestMagnitude(gradient) < 1e-9) break;
  }
  const scaled = names.map((_, k) => weights[k + 1]! / spread[k]!.std);
  return {
    constant: weights[0]! - scaled.reduce((sum, value, k) => sum + value * spread[k]!.mean, 0),
    weights: Object.fromEntries(names.map((name, k) => [name, scaled[k]!])) as Record<Name, number>,
  };
}

/** Writes the model to a policy directory and its manifest. */
export function writeConfidence(directory: string, model: ConfidenceModel): void {
  addToManifest(directory, CONFIDENCE_FILE, jsonText(model));
}

/**
 * Reads the confidence model of a policy; null if it was not calibrated.
 * @throws CheckpointError for a damaged file, and one of another version
 */
export function readConfidence(directory: string): ConfidenceModel | null {
  const remedy = `write it anew with timeseer calibrate --policy ${directory}`;
  return readSaved(directory, CONFIDENCE_FILE, { what: 'confidence model', remedy }, (content) =>
    modelSchema.parse(content),
  );
}
