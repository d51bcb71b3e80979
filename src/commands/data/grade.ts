/** Whether the right answer to an example earns full marks: if not, the example cannot be learned. */

import { lengthOf } from '../../../datasets/example.ts';
import { goldResponse } from '../../../datasets/gold-answer.ts';
import { EXACT_WORDS, parseResponse, scoreAnswer } from '../../../rewards/response.ts';
import type { Example } from '../../types.ts';

/** Rewards are sums of binary fractions of decimal weights. */
const EXACT = 1e-12;

/**
 * Runs the gold answer through the reader and the reward of its kind, as a response is. Of an anomaly whose kind is not
 * named, the class is not graded.
 *
 * @returns what is wrong, or null
 */
export function gradeProblem(example: Example): string | null {
  const { gold, channels } = example;
  const length = lengthOf(example);
  const asked = { kind: gold.kind, length, channels: channels.length, ...EXACT_WORDS };
  const answer = parseResponse(goldResponse(gold, 'The right answer.'), asked);
  const { total } = scoreAnswer(answer, gold, length);
  if (Math.abs(total - 1) <= EXACT) return null;
  return `the right answer earns ${total} of 1${answer.problem === null ? '' : ` (${answer.problem})`}`;
}
