/** AnomSeer's reward: the intervals of anomalies, their kind, and the format of the response. */
import type { Choice } from '../src/ground/choice.ts';
import { ConfigError, DataError } from '../src/ground/errors.ts';
import { checkIntervalLists } from '../src/ground/interval-lists.ts';
import { show } from '../src/ground/json-record.ts';
import type { AnomalyGold, Interval, ParsedAnswer, Score } from '../src/ground/types.ts';
import { clipAndMerge, coverage, overlap } from '../src/series/intervals.ts';
import { affiliationOf } from './affiliation.ts';
import { accuracyReward, formatReward, type Reward, type RewardOptions } from './reward.ts';

/** Point-wise and affiliation metrics of one series, each in [0, 1]. */
export interface Localisation {
  readonly precision: number;
  readonly recall: number;
  readonly f1: number;
  readonly affiliationPrecision: number;
  readonly affiliationRecall: number;
  readonly affiliationF1: number;
}

const all = (value: number): Localisation => ({
  ...{ precision: value, recall: value, f1: value },
  ...{ affiliationPrecision: value, affiliationRecall: value, affiliationF1: value },
});
const NONE = all(0);
const ALL = all(1);

/** Computes `localisation` for arguments of the right shape, unchecked for speed. @throws DataError for a gold interval that is empty or leaves the series */
export function localisationOf(
  predicted: readonly Interval[] | null,
  gold: readonly Interval[],
  length: number,
): Localisation {
  for (const [start, end] of gold) {
    if (!(start >= 0 && start < end && end <= length)) {
      throw new DataError(
        `gold interval [${start}, ${end}] is not inside a series of ${length} points: correct the data set`,
      );
    }
  }
  if (predicted === null) return NONE;
  if (predicted.length === 0 && gold.length === 0) return ALL;
  const merged = clipAndMerge(predicted, length);
  if (merged.length === 0 || gold.length === 0) return NONE;
  const truth = clipAndMerge(gold, length);
  const shared = overlap(merged, truth);
  const precision = shared / coverage(merged);
  const recall = shared / coverage(truth);
  const affiliated = affiliationOf(merged, truth, [0, length]);
  return {
    precision,
    recall,
    f1: shared === 0 ? 0 : (2 * precision * recall) / (precision + recall),
    affiliationPrecision: affiliated.precision,
    affiliationRecall: affiliated.recall,
    affiliationF1: affiliated.f1,
  };
}

/**
 * Computes the six metrics, not rounded.
 *
 * Formula: over indices, precision = |P ∩ G| / |P|, recall = |P ∩ G| / |G|, F1 their harmonic mean; affiliation
 * metrics as in `affiliation` over the range [0, length].
 * Range: [0, 1] each. Edge cases: predictions are clipped to the series and merged first; nothing predicted
 * and nothing there: all 1; only one of the two, or an answer that could not be read (null): all 0. A prediction
 * that lies wholly outside the series predicts something, hence all 0 on a normal series too.
 * Example: predicted [[120, 180]], gold [[100, 150]], length 1000 → precision .5, recall .6, affiliation F1 .9757.
 * Source: AnomSeer's reward; Huet et al. 2022.
 * @throws DataError when a gold interval is empty or leaves the series; ConfigError for arguments of another shape.
 */
export function localisation(
  predicted: readonly Interval[] | null,
  gold: readonly Interval[],
  length: number,
): Localisation {
  if (!Number.isInteger(length) || length < 1) {
    throw new ConfigError(
      `localisation: length: got ${show(length)}, expected the number of points of the series`,
    );
  }
  checkIntervalLists('localisation', predicted === null ? { gold } : { predicted, gold });
  return localisationOf(predicted, gold, length);
}

/** Four decimals, exact ties to the even digit. */
function round4(value: number): number {
  const scaled = value * 10_000;
  const below = Math.floor(scaled);
  const rest = scaled - below;
  return (below + (rest > 0.5 || (rest === 0.5 && below % 2 === 1) ? 1 : 0)) / 10_000;
}

interface LocalisationChoice extends Choice {
  readonly grade: (metrics: Localisation) => number;
}

const SIX = [
  'precision',
  'recall',
  'f1',
  'affiliationPrecision',
  'affiliationRecall',
  'affiliationF1',
] as const;
const ANOMSEER = 'AnomSeer (reward of anomalies)';

/** Grades of predicted intervals by name, each in [0, 1]. */
export const LOCALISATIONS: Readonly<Record<RewardOptions['localisation'], LocalisationChoice>> = {
  mean_of_six: {
    label: 'mean of six localisation metrics',
    summary: 'mean of six metrics, each rounded to four decimals',
    paper: ANOMSEER,
    grade: (metrics) => SIX.reduce((sum, name) => sum + round4(metrics[name]), 0) / SIX.length,
  },
  point_f1: {
    label: 'point F1',
    summary: 'F1 over points alone',
    grade: ({ f1 }) => f1,
  },
  f05_affiliation: {
    label: 'point F0.5 and affiliation F1',
    summary: 'mean of point F0.5 and affiliation F1, which does not reward over-wide intervals',
    grade({ precision, recall, affiliationF1 }) {
      const f05 = precision * recall === 0 ? 0 : (1.25 * precision * recall) / (0.25 * precision + recall);
      return (f05 + affiliationF1) / 2;
    },
  },
};

interface NormalChoice extends Choice {
  /** Grade of a number of intervals on a normal series; null: that of the localisation. */
  readonly grade: ((falseAlarms: number) => number) | null;
}

/** Grades of intervals predicted on a normal series, by name. */
export const NORMALS: Readonly<Record<RewardOptions['normal'], NormalChoice>> = {
  exact: { label: 'exact', summary: '1 without intervals, else 0', paper: ANOMSEER, grade: null },
  graded: {
    label: '1 / (1 + intervals) as the localisation on normal series',
    summary: '1 / (1 + intervals), so that fewer false alarms earn more',
    grade: (falseAlarms) => 1 / (1 + falseAlarms),
  },
};

/** Options of AnomSeer's reward as published. */
export const PAPER: RewardOptions = { localisation: 'mean_of_six', normal: 'exact' };

/**
 * Formula: `mean_of_six`: mean of the six metrics of `localisation`, each rounded to four decimals; `point_f1`: their F1 over
 * indices, not rounded; `f05_affiliation`: mean of the point F0.5 = 1.25·P·R / (0.25·P + R), which counts precision more than
 * recall, and the affiliation F1. With `normal: graded`, 1 / (1 + falseAlarms) on a normal series instead.
 * Range: [0, 1]. Edge cases: see `localisation`; an unreadable answer earns 0 on a normal series too, however it is graded.
 * Example: predicted [[120, 180]], gold [[100, 150]], length 1000 → (.5 + .6 + .5455 + .96 + .992 + .9757) / 6 = .7622, by point F1
 * .5455, by `f05_affiliation` (.5172 + .9757) / 2 = .7465; predicted [[120, 180], [400, 420]], gold none → 0, graded 1/3.
 * Source: `mean_of_six` and `exact` AnomSeer (weight 0.7). The mean of six is flat around the optimum: an answer twice as wide as a
 * gold interval of 50 points, which it covers, earns .849, by point F1 .667. `point_f1`, `f05_affiliation` and `graded` are ours.
 * @param falseAlarms intervals predicted on a normal series; null where the series has anomalies or the answer is unreadable
 */
export function localisationReward(
  metrics: Localisation,
  options: RewardOptions = PAPER,
  falseAlarms: number | null = null,
): number {
  const { grade } = NORMALS[options.normal];
  if (grade !== null && falseAlarms !== null) return grade(falseAlarms);
  return LOCALISATIONS[options.localisation].grade(metrics);
}

/** Number of false alarms of an answer; null where the series has anomalies or the answer is unreadable. */
const falseAlarmsOf = (answer: ParsedAnswer, intervals: readonly Interval[]): number | null =>
  intervals.length > 0 ? null : (answer.intervals?.length ?? null);

/** Grades the intervals of an answer: `localisationReward` of its `localisation`. @throws DataError as `localisation` */
export function intervalReward(
  answer: ParsedAnswer,
  intervals: readonly Interval[],
  length: number,
  options: RewardOptions = PAPER,
): number {
  const metrics = localisationOf(answer.intervals, intervals, length);
  return localisationReward(metrics, options, falseAlarmsOf(answer, intervals));
}

/** Weights of AnomSeer's reward; they sum to 1. */
const ANOMALY_WEIGHTS = { localisation: 0.7, class: 0.2, format: 0.1 } as const;

/**
 * Formula: 0.7 · localisation + 0.2 · class + 0.1 · format; where the class is not known,
 * (0.7 · localisation + 0.1 · format) / 0.8, so that the right answer is worth 1 on every series.
 * Range: [0, 1]; parts `localisation`, `class` (only where it is known), `format`, each in [0, 1].
 * Edge cases: each part is earned on its own: an unreadable interval list loses localisation and format, the class
 * can still count; an empty list on a normal series earns the full localisation. A class that is not graded is still
 * part of the format: the prompt asks for one.
 * Example: predicted [[120, 180]] and the right class, gold [[100, 150]], length 1000, well formed → .83354; without a
 * known class → .79193.
 * `options` change what the localisation is, not its weight (`localisationReward`).
 * Source: AnomSeer's reward; leaving the class out is ours, for data sets that do not name it.
 * @throws DataError when a gold interval is empty or leaves the series of `length` points.
 */
export function anomalyReward(
  answer: ParsedAnswer,
  gold: { readonly intervals: readonly Interval[]; readonly class: string | null },
  length: number,
  options: RewardOptions = PAPER,
): Score {
  const weights = ANOMALY_WEIGHTS;
  const placed = intervalReward(answer, gold.intervals, length, options);
  const format = formatReward(answer);
  if (gold.class === null) {
    // Divided by the sum as it is computed, not by 0.8: then the right answer is exactly 1.
    const total =
      (weights.format * format + weights.localisation * placed) / (weights.format + weights.localisation);
    return { total, parts: { localisation: placed, format } };
  }
  const named = accuracyReward(answer.class, gold.class);
  // Smallest weight first: in this order 0.1 + 0.2 + 0.7 is exactly 1 in floating point.
  const total = weights.format * format + weights.class * named + weights.localisation * placed;
  return { total, parts: { localisation: placed, class: named, format } };
}

export const anomseer: Reward<AnomalyGold> = {
  name: 'anomseer',
  weights: ANOMALY_WEIGHTS,
  score: anomalyReward,
};
