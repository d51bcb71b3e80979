/** Calibration of stated class probabilities. */
import { DataError } from '../ground/errors.ts';

/** Stated probability of each class, and the true class, for one answer. */
export interface Stated {
  readonly probabilities: Readonly<Record<string, number>>;
  readonly gold: string;
}

/** Least probability in a logarithm: that of a double's last bit, as in scikit-learn. */
const LEAST = Number.EPSILON;

/** @throws DataError unless they are numbers from 0 to 1 that sum to 1 (± 0.001) */
export function checkProbabilities(probabilities: Readonly<Record<string, number>>): void {
  let sum = 0;
  for (const [name, value] of Object.entries(probabilities)) {
    if (!(typeof value === 'number' && value >= 0 && value <= 1)) {
      throw new DataError(`probabilities: ${name} has ${String(value)}, expected a number from 0 to 1`);
    }
    sum += value;
  }
  if (Math.abs(sum - 1) > 1e-3) throw new DataError(`probabilities: they sum to ${sum}, expected 1`);
}

/** The most probable class, the first of equals. */
export function mostProbable(probabilities: Readonly<Record<string, number>>): readonly [string, number] {
  return Object.entries(probabilities).reduce((best, entry) => (entry[1] > best[1] ? entry : best));
}

/**
 * Formula: Σ over classes of (p − [true])².
 * Range: [0, 2]; 0 is best. Edge cases: a true class without a probability has 0.
 * Example: { a: .8, b: .2 }, true a → .08.
 * Source: Brier 1950; `brier_score_loss(scale_by_half=False)` of scikit-learn.
 */
export function brierScore({ probabilities, gold }: Stated): number {
  let sum = Object.hasOwn(probabilities, gold) ? 0 : 1;
  for (const [name, value] of Object.entries(probabilities)) sum += (value - (name === gold ? 1 : 0)) ** 2;
  return sum;
}

/**
 * Formula: −ln p of the true class.
 * Range: [0, 36.04]; 0 is best. Edge cases: probabilities below 2⁻⁵², 0 among them, count as that.
 * Example: { a: .8, b: .2 }, true a → .223.
 * Source: `log_loss` of scikit-learn.
 */
export function logLoss({ probabilities, gold }: Stated): number {
  return -Math.log(Math.max(LEAST, Object.hasOwn(probabilities, gold) ? probabilities[gold]! : 0));
}

/**
 * Expected calibration error.
 *
 * Formula: answers by the probability of their most probable class in `bins` bins of equal width, (0, 1/bins], …; Σ over the bins of
 * their share of the answers times |accuracy − mean probability|.
 * Range: [0, 1]; 0 is best. Edge cases: NaN without an answer.
 * Example: ten answers with .9, of which 8 are right → .1.
 * Source: Guo et al. 2017, with their 15 bins.
 */
export function calibrationError(answers: readonly Stated[], bins = 15): number {
  const counts = Array.from({ length: bins }, () => ({ right: 0, confidence: 0 }));
  for (const { probabilities, gold } of answers) {
    const [name, value] = mostProbable(probabilities);
    const bin = counts[Math.max(0, Math.ceil(value * bins) - 1)]!;
    bin.confidence += value;
    if (name === gold) bin.right++;
  }
  if (answers.length === 0) return Number.NaN;
  return (
    counts.reduce((sum, { right, confidence }) => sum + Math.abs(right - confidence), 0) / answers.length
  );
}
