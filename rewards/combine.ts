/** The reward of a whole response: weighted sums of its parts. */
import { DataError } from '../src/errors.ts';
import type { Interval, ParsedAnswer, Score } from '../src/types.ts';
import { accuracyReward } from './accuracy.ts';
import type { ParsedClassification } from './answer.ts';
import { formatReward } from './format.ts';
import { localisation, localisationReward } from './localisation.ts';

/** Weights of AnomSeer's reward; they sum to 1. */
export const ANOMALY_WEIGHTS = { localisation: 0.7, class: 0.2, format: 0.1 } as const;

/** Weights of TimeMaster's reward; the extension comes on top. */
export const CLASSIFICATION_WEIGHTS = { accuracy: 0.9, format: 0.1, extension: 0.5 } as const;

/** The gold answer that a response is compared with. */
export interface GoldAnswer {
  readonly intervals: readonly Interval[]; // inside [0, length)
  readonly class: string;
}

/**
 * Formula: 0.7 · localisation + 0.2 · class + 0.1 · format.
 * Range: [0, 1]; parts `localisation`, `class`, `format`, each in [0, 1].
 * Edge cases: each part is earned on its own: an unreadable interval list loses localisation and format, the class
 * can still count; an empty list on a normal series earns the full localisation.
 * Example: predicted [[120, 180]] and the right class, gold [[100, 150]], length 1000, well formed → .83354.
 * Source: AnomSeer's reward.
 * @throws DataError when a gold interval is empty or leaves the series of `length` points.
 */
export function anomalyReward(answer: ParsedAnswer, gold: GoldAnswer, length: number): Score {
  const parts = {
    localisation: localisationReward(localisation(answer.intervals, gold.intervals, length)),
    class: accuracyReward(answer.class, gold.class),
    format: formatReward(answer),
  };
  // Smallest weight first: in this order 0.1 + 0.2 + 0.7 is exactly 1 in floating point.
  const total =
    ANOMALY_WEIGHTS.format * parts.format +
    ANOMALY_WEIGHTS.class * parts.class +
    ANOMALY_WEIGHTS.localisation * parts.localisation;
  return { total, parts };
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
  answer: ParsedClassification,
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
