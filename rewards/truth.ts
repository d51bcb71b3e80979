/** Reward of the truth of a reasoning: which facts of the expert trace it states, and what it states falsely. */
import type { ReasoningGrader } from '../src/claims/reasoning.ts';
import type { ParsedAnswer } from '../src/ground/types.ts';

/**
 * Formula: F1 = 2·r / (r + w + f), r facts of the expert trace that the reasoning states truly, w its false claims, f facts of the trace.
 * Range: [0, 1]. Edge cases: no reasoning or no claim is 0; a fact counts once however often it is stated; hedged, denied and bounded
 * claims ("about", "not", "above", "between") count nowhere, nor do true claims that the trace does not make; null where the trace states
 * no fact that the series confirms. Independent of answer and format.
 * Example: 3 facts, 2 stated truly, 1 false claim → 4 / 6 = .67.
 * Source: ours. Claims and tolerances: `src/claims/check.ts`.
 */
export function truthReward({ think }: Pick<ParsedAnswer, 'think'>, grader: ReasoningGrader): number | null {
  return grader.grade(think ?? '').f1;
}
