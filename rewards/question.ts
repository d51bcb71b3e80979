/** Rewards of answers to questions. */

import type { ParsedAnswer, QuestionGold, Score } from '../src/ground/types.ts';
import { accuracyReward, formatReward, type Reward } from './reward.ts';

/** A number as people write it: 1 200, 1,200.5, -3e4, 12 %. */
const NUMBER = /^[+-]?(?:\d{1,3}(?:[ ,]\d{3})+|\d+)?(?:\.\d+)?(?:e[+-]?\d+)?$/i;
/** Relative tolerance of numbers. */
const NEAR = 0.01;

const folded = (text: string): string => text.trim().replace(/\s+/g, ' ').replace(/[.!]$/, '').toLowerCase();

function numberOf(text: string): number | null {
  const plain = folded(text).replace(/ ?%$/, '');
  return /\d/.test(plain) && NUMBER.test(plain) ? Number(plain.replace(/[ ,]/g, '')) : null;
}

/**
 * Returns true if a free answer is right: a number within 1 % (0 is exact), or a text equal up to case, white space and a final full stop.
 */
export function sameAnswer(answer: string, right: string): boolean {
  const [value, expected] = [numberOf(answer), numberOf(right)];
  if (value !== null && expected !== null) return Math.abs(value - expected) <= NEAR * Math.abs(expected);
  return folded(answer) === folded(right);
}

/** Returns true if a response answers its question correctly; unreadable responses do not. */
export function answersQuestion(given: string | null, { options, answer }: QuestionGold): boolean {
  if (given === null) return false;
  return options.length > 0 ? given === answer : sameAnswer(given, answer);
}

/** Weights of the reward on questions; they sum to 1. */
const QUESTION_WEIGHTS = { accuracy: 0.9, format: 0.1 } as const;

/**
 * Formula: 0.9 · accuracy + 0.1 · format.
 * Range: [0, 1]; parts `accuracy`, `format`, each 0 or 1.
 * Edge cases: an unreadable answer, a letter that no option has, and a free answer that is not the right one (`sameAnswer`) earn 0 for
 * accuracy; a readable answer in a response that is not well formed earns 0.9.
 * Example: "B" where B is right, reasoning missing → .9.
 * Source: ours; its weights are TimeMaster's of classification.
 */
export const question: Reward<QuestionGold> = {
  name: 'question',
  weights: QUESTION_WEIGHTS,
  score(answer: ParsedAnswer, gold: QuestionGold): Score {
    const accuracy = accuracyReward(answersQuestion(answer.class, gold) ? gold.answer : null, gold.answer);
    const format = formatReward(answer);
    const { accuracy: a, format: f } = QUESTION_WEIGHTS;
    return { total: a * accuracy + f * format, parts: { accuracy, format } };
  },
};
