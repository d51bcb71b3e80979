/** Significance tests: whether two policies differ on the same series, and the correction for several comparisons. */
import { DataError } from '../ground/errors.ts';
import { Random } from '../ground/random.ts';

/**
 * McNemar's exact test of "both policies are right equally often", for policies that are right or wrong on the same series.
 *
 * Formula: of the b + c series on which they differ, two-sided binomial p with chance 1/2.
 * Range: (0, 1]; 1 where b = c. Example: 1 lost, 8 won → .039.
 * Source: McNemar 1947; `binomtest` of SciPy.
 * @param lost number of series that only the first policy has right
 * @param won number of series that only the second policy has right
 */
export function mcnemar(lost: number, won: number): number {
  const n = lost + won;
  const fewer = Math.min(lost, won);
  // Σ C(n, i) / 2ⁿ for i ≤ fewer, in logarithms.
  let term = -n * Math.LN2;
  let sum = 0;
  for (let i = 0; i <= fewer; i++) {
    sum += Math.exp(term);
    term += Math.log((n - i) / (i + 1));
  }
  return Math.min(1, 2 * sum);
}

/** Up to this many differences, all sign changes are enumerated. */
const EXACT = 16;

export interface PermutationOptions {
  /** Seed of the random sign changes. Default 0. */
  readonly seed?: number;
  /** Number of random sign changes when there are too many to enumerate. Default 10 000. */
  readonly permutations?: number;
}

/**
 * Paired permutation test of "the mean difference is 0": the share of random sign changes with a mean at least as far from 0.
 *
 * Formula: share of the sign changes whose |mean| ≥ the observed one: all 2ⁿ for up to 16 differences that are not 0, beyond that
 * `permutations` draws, (1 + those) / (1 + draws).
 * Range: (0, 1]. Edge cases: 1 where all differences are 0. Example: [1, 2, −.5, 3] → .25.
 * Source: Fisher 1935; `permutation_test(permutation_type='samples')` of SciPy.
 * @throws DataError for no difference, or one that is not finite
 */
export function pairedPermutation(
  differences: readonly number[],
  { seed = 0, permutations = 10_000 }: PermutationOptions = {},
): number {
  if (differences.length === 0 || !differences.every(Number.isFinite)) {
    throw new DataError('paired permutation test: expected at least one difference, all of them finite');
  }
  const values = Float64Array.from(differences.filter((difference) => difference !== 0));
  const n = values.length;
  if (n === 0) return 1;
  const size = values.reduce((total, value) => total + Math.abs(value), 0);
  // Sums in another order differ in the last bits: they must not pass for smaller.
  const observed = Math.abs(values.reduce((total, value) => total + value, 0)) - 1e-12 * size;
  if (n <= EXACT) {
    let extreme = 0;
    for (let signs = 0; signs < 1 << n; signs++) {
      let sum = 0;
      for (let i = 0; i < n; i++) sum += (signs >> i) & 1 ? -values[i]! : values[i]!;
      if (Math.abs(sum) >= observed) extreme++;
    }
    return extreme / (1 << n);
  }
  const random = new Random(seed, 'paired permutation', n);
  let extreme = 0;
  for (let draw = 0; draw < permutations; draw++) {
    let sum = 0;
    let bits = 0;
    for (let i = 0; i < n; i++) {
      if (i % 32 === 0) bits = random.uint32();
      sum += bits & 1 ? -values[i]! : values[i]!;
      bits >>>= 1;
    }
    if (Math.abs(sum) >= observed) extreme++;
  }
  return (1 + extreme) / (1 + permutations);
}

/** Which of several hypotheses are rejected at a family-wise error of 5 % (Holm 1979). */
export function holm(pValues: readonly number[]): boolean[] {
  const order = [...pValues.keys()].sort((a, b) => pValues[a]! - pValues[b]!);
  const rejected = pValues.map(() => false);
  for (const [rank, i] of order.entries()) {
    if (pValues[i]! > 0.05 / (pValues.length - rank)) break;
    rejected[i] = true;
  }
  return rejected;
}
