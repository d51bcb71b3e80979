/** Whether the right answer to an example earns full marks: if not, the example cannot be learned. */

import { lengthOf } from '../../datasets/example.ts';
import { goldResponse } from '../../datasets/gold-answer.ts';
import { parseAnswer, parseClassification } from '../../rewards/answer.ts';
import { anomalyReward, classificationReward } from '../../rewards/combine.ts';
import type { Example } from '../types.ts';

/** Rewards are sums of binary fractions of decimal weights. */
const EXACT = 1e-12;

/**
 * Runs the gold answer through the reward.
 *
 * @returns what is wrong, or null. Of an anomaly whose kind is not named, the class is not graded; for variates there is no
 * reward to run
 */
export function gradeProblem(example: Example): string | null {
  const { gold } = example;
  if (gold.kind === 'variates') return null;
  const response = goldResponse(gold, 'The right answer.');
  if (gold.kind === 'classification') {
    const answer = parseClassification(response);
    const { total } = classificationReward(answer, gold.class);
    if (Math.abs(total - 1) <= EXACT) return null;
    return `the right answer earns ${total} of 1${answer.problem === null ? '' : ` (${answer.problem})`}`;
  }
  const length = lengthOf(example);
  const answer = parseAnswer(response, length);
  const named = gold.class !== null;
  const { total, parts } = anomalyReward(
    answer,
    { intervals: gold.intervals, class: gold.class ?? '' },
    length,
  );
  const full = named ? Math.abs(total - 1) <= EXACT : parts['localisation'] === 1 && parts['format'] === 1;
  if (full) return null;
  const earned = named ? `${total} of 1` : `${parts['localisation']} of 1 for its intervals`;
  return `the right answer earns ${earned}${answer.problem === null ? '' : ` (${answer.problem})`}`;
}
