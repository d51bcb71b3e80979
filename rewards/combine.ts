/** The reward of a whole response: weighted sums of its parts. */
import { DataError } from '../src/errors.ts';
import type { Interval, ParsedAnswer, Score } from '../src/types.ts';
import { accuracyReward } from './accuracy.ts';
import { formatReward } from './format.ts';
import { localisation, localisationReward } from './localisation.ts';
import { variateMetrics } from './variates.ts';

/** Weights of AnomSeer's reward; they sum to 1. */
export const ANOMALY_WEIGHTS = { localisation: 0.7, class: 0.2, format: 0.1 } as const;

/** Weights of TimeMaster's reward; the extension comes on top. */
export const CLASSIFICATION_WEIGHTS = { accuracy: 0.9, format: 0.1, extension: 0.5 } as const;

/** Weights of the reward on variates; they sum to 1. */
export const VARIATES_WEIGHTS = { f1: 0.9, format: 0.1 } as const;

/** The gold answer that a response is compared with. */
export interface GoldAnswer {
  readonly intervals: readonly Interval[]; // inside [0, length)
  /** Null: the kind of the anomaly is not known, and not graded. */
  readonly class: string | null;
}

/**
 * Formula: 0.7 · localisation + 0.2 · class + 0.1 · format; where the class is not known,
 * (0.7 · localisation + 0.1 · format) / 0.8, so that the right answer is worth 1 on every series.
 * Range: [0, 1]; parts `localisation`, `class` (only where it is known), `format`, each in [0, 1].
 * Edge cases: each part is earned on its own: an unreadable interval list loses localisation and format, the class
 * can still count; an empty list on a normal series earns the full localisation. A class that is not graded is still
 * part of the format: the prompt asks for one.
 * Example: predicted [[120, 180]] and the right class, gold [[100, 150]], length 1000, well formed → .83354; without a
 * known class → .79193.
 * Source: AnomSeer's reward; leaving the class out is ours, for data sets that do not name it.
 * @throws DataError when a gold interval is empty or leaves the series of `length` points.
 */
export function anomalyReward(answer: ParsedAnswer, gold: GoldAnswer, length: number): Score {
  const weights = ANOMALY_WEIGHTS;
  const placed = localisationReward(localisation(answer.intervals, gold.intervals, length));
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

/**
 * Formula: 0.9 · accuracy + 0.1 · format, + 0.5 · judge when the answer is right and well formed.
 * Range: [0, 1] without a judge, [0, 1.5] with one; parts `accuracy`, `format` and, where it counts, `extension`.
 * Edge cases: `judge` is the score in [0, 1] that the caller obtained for the extension; null (no extension in this
 * task, or the judge failed) leaves the part out instead of counting it as 0. A wrong or ill-formed answer earns
 * nothing for its extension: the part is 0.
 * Example: right and well formed, judge .8 → 1.4; wrong class, well formed, judge .8 → .1.
 * Source: TimeMaster's reward.
 * @throws DataError when `judge` is outside [0, 1].
 */
export function classificationReward(
  answer: ParsedAnswer,
  goldClass: string,
  judge: number | null = null,
): Score {
  if (judge !== null && !(judge >= 0 && judge <= 1)) {
    throw new DataError(
      `classificationReward: judge score ${judge} is outside [0, 1]: average its criteria first`,
    );
  }
  const accuracy = accuracyReward(answer.class, goldClass);
  const format = formatReward(answer);
  const base = CLASSIFICATION_WEIGHTS.accuracy * accuracy + CLASSIFICATION_WEIGHTS.format * format;
  if (judge === null) return { total: base, parts: { accuracy, format } };
  const extension = accuracy === 1 && format === 1 ? judge : 0;
  return {
    total: base + CLASSIFICATION_WEIGHTS.extension * extension,
    parts: { accuracy, format, extension },
  };
}

/**
 * Formula: 0.9 · F1 + 0.1 · format, F1 over the sets of variates as in `variateMetrics`.
 * Range: [0, 1]; parts `f1`, `format`, each in [0, 1].
 * Edge cases: none named where none is anomalous earns the full F1; an unreadable list, or none named where some are
 * anomalous, earns 0 for it.
 * Example: named {1, 2, 7}, anomalous {2, 7, 8, 11}, well formed → .9 · .5714 + .1 = .61429.
 * Source: VisualTimeAnomaly asks for the ids; the reward is ours, its weights in line with TimeMaster's 0.9 and 0.1.
 * @throws DataError when a gold id is not an integer ≥ 0.
 */
export function variatesReward(answer: ParsedAnswer, gold: readonly number[]): Score {
  const { f1 } = variateMetrics(answer.variates ?? null, gold);
  const format = formatReward(answer);
  return { total: VARIATES_WEIGHTS.f1 * f1 + VARIATES_WEIGHTS.format * format, parts: { f1, format } };
}
