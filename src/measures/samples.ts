/** Metrics of several sampled answers to one question: pass@k and majority vote. */
import { DataError } from '../ground/errors.ts';

/**
 * Chance that at least one of k answers is right, drawn without replacement from n of which c are.
 *
 * Formula: 1 − C(n − c, k) / C(n, k), as a product: unbiased, unlike 1 − (1 − c/n)^k.
 * Range: [0, 1]. Example: n = 5, c = 2, k = 3 → .9.
 * Source: Chen et al. 2021, "Evaluating large language models trained on code".
 * @throws DataError unless 1 ≤ k ≤ n and 0 ≤ c ≤ n
 */
export function passAtK(n: number, c: number, k: number): number {
  if (!(k >= 1 && k <= n && c >= 0 && c <= n)) {
    throw new DataError(`pass@${k} of ${n} answers, ${c} of them right: expected 1 ≤ k ≤ n and 0 ≤ c ≤ n`);
  }
  if (n - c < k) return 1;
  let none = 1;
  for (let i = n - c + 1; i <= n; i++) none *= 1 - k / i;
  return 1 - none;
}

/** Returns the most frequent answer, the first of equals; null where none is readable. Unreadable answers (null) have no vote. */
export function majority(answers: readonly (string | null)[]): string | null {
  const votes = new Map<string, number>();
  for (const answer of answers) if (answer !== null) votes.set(answer, (votes.get(answer) ?? 0) + 1);
  let best: string | null = null;
  for (const [answer, count] of votes) if (best === null || count > votes.get(best)!) best = answer;
  return best;
}

/**
 * Returns the place of the answer with the highest mean similarity to the others, the first of equals; −1 for no answer.
 *
 * Source: minimum Bayes risk (Kumar & Byrne 2004) with the answers themselves as the sample of what may be true.
 * @param similarity of a candidate to another answer, larger is closer
 */
export function minimumBayesRisk<T>(
  answers: readonly T[],
  similarity: (candidate: T, other: T) => number,
): number {
  const sums = answers.map((candidate, i) =>
    answers.reduce((sum, other, j) => (i === j ? sum : sum + similarity(candidate, other)), 0),
  );
  return sums.indexOf(Math.max(...sums));
}
