/** TimeMaster's reward: the class, the form of the response, and a judged extension. */
import { DataError } from '../src/ground/errors.ts';
import type { ClassificationGold, ParsedAnswer, Score } from '../src/ground/types.ts';
import { accuracyReward, formatReward, type Reward } from './reward.ts';

/** Weights of TimeMaster's reward; the extension comes on top. */
export const CLASSIFICATION_WEIGHTS = { accuracy: 0.9, format: 0.1, extension: 0.5 } as const;

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

export const timemaster: Reward<ClassificationGold> = {
  name: 'timemaster',
  weights: { accuracy: CLASSIFICATION_WEIGHTS.accuracy, format: CLASSIFICATION_WEIGHTS.format },
  score: (answer, gold, _length, _options, judged = null) => classificationReward(answer, gold.class, judged),
};
