/** Tests of whether two policies differ on the same series. */
import { DataError } from '../ground/errors.ts';
import { Random } from '../ground/random.ts';

/**
 * McNemar's exact test: whether of two policies that are right and wrong on the same series one is right more often.
 *
 * Formula: of the b + c series on which they differ, two-sided binomial p with chance 1/2.
 * Range: (0, 1]; 1 where b = c. Example: 1 lost, 8 won → .039.
 * Source: McNemar 1947; `binomtest` of SciPy.
 * @param lost series that only the first policy has right
 * @param won series that only the second one has right
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

/** Up to so many differences every sign is tried. */
const EXACT = 16;

export interface PermutationOptions {
  /** Seed of the draws. Default: 0. */
  readonly seed?: number;
  /** Draws where there are too many to try all. Default 10 000. */
  readonly permutations?: number;
}

/**
 * Paired permutation test of "the mean difference is 0": how often changes of sign at random give a mean as far from 0.
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
  const values = Float64Array.from(differences.filter((one) => one !== 0));
  const n = values.length;
  if (n === 0) return 1;
  const size = values.reduce((sum, one) => sum + Math.abs(one), 0);
  // Sums in another order differ in the last bits: they must not pass for smaller.
  const observed = Math.abs(values.reduce((sum, one) => sum + one, 0)) - 1e-12 * size;
  if (n <= EXACT) {
    let as = 0;
    for (let signs = 0; signs < 1 << n; signs++) {
      let sum = 0;
      for (let i = 0; i < n; i++) sum += (signs >> i) & 1 ? -values[i]! : values[i]!;
      if (Math.abs(sum) >= observed) as++;
    }
    return as / (1 << n);
  }
  const random = new Random(seed, 'paired permutation', n);
  let as = 0;
  for (let draw = 0; draw < permutations; draw++) {
    let sum = 0;
    let bits = 0;
    for (let i = 0; i < n; i++) {
      if (i % 32 === 0) bits = random.uint32();
      sum += bits & 1 ? -values[i]! : values[i]!;
      bits >>>= 1;
    }
    if (Math.abs(sum) >= observed) as++;
  }
  return (1 + as) / (1 + permutations);
}
