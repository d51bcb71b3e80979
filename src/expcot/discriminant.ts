/**
 * Linear discriminant analysis with a shrunken covariance: classes are normal clouds around their own means with one common
 * covariance, part of which is replaced by equal variance in every direction (Friedman 1989, regularised discriminant
 * analysis), so that it can be inverted however few the examples.
 */
import { ROUNDING, solveInPlace } from '../series/stats.ts';

export const SHRINKAGES = [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9] as const;
const FOLDS = 5;

interface Discriminant {
  /** Part of the covariance that is replaced by the same variance in every direction, in [0, 1]. */
  readonly shrinkage: number;
  readonly weights: readonly Float64Array[]; // K × [F]
  /** Minus half the squared length of the class mean, plus ln of the class's share: [K]. */
  readonly bias: Float64Array;
}

export interface FittedDiscriminant extends Discriminant {
  /**
   * Share of held-out training rows whose class is the most probable; a row whose class ties with others counts as one over their
   * number. Nested: the shrinkage by which a fold is judged is chosen on the other folds. Null where no row could be held out.
   */
  readonly heldOutAccuracy: number | null;
}

/** Sums over rows [M][F] of classes 0 … K − 1, from which the moments of any union of disjoint sets of rows follow. */
interface Sums {
  /** Rows by class: [K]. */
  readonly counts: Float64Array;
  /** Sum of the rows by class: K × [F]. */
  readonly totals: readonly Float64Array[];
  /** Sum of the products of features: [F·F], lower triangle. */
  readonly products: Float64Array;
}

function noSums(classes: number, size: number): Sums {
  return {
    counts: new Float64Array(classes),
    totals: Array.from({ length: classes }, () => new Float64Array(size)),
    products: new Float64Array(size * size),
  };
}

function sumsOf(
  rows: readonly Float64Array[],
  labels: readonly number[],
  classes: number,
  size: number,
): Sums {
  const sums = noSums(classes, size);
  const { counts, totals, products } = sums;
  rows.forEach((row, r) => {
    const total = totals[labels[r]!]!;
    counts[labels[r]!]!++;
    for (let i = 0; i < size; i++) {
      total[i]! += row[i]!;
      for (let j = 0; j <= i; j++) products[i * size + j]! += row[i]! * row[j]!;
    }
  });
  return sums;
}

function accumulate(into: Float64Array, values: Float64Array): void {
  for (let i = 0; i < into.length; i++) into[i]! += values[i]!;
}

function union(parts: readonly Sums[], classes: number, size: number): Sums {
  const sums = noSums(classes, size);
  for (const { counts, totals, products } of parts) {
    accumulate(sums.counts, counts);
    accumulate(sums.products, products);
    for (const [c, total] of totals.entries()) accumulate(sums.totals[c]!, total);
  }
  return sums;
}

/** Means by class: K × [F]; 0 for a class without a row. */
function meansOf({ counts, totals }: Pick<Sums, 'counts' | 'totals'>): Float64Array[] {
  return totals.map((total, c) => total.map((sum) => sum / Math.max(1, counts[c]!)));
}

/** Means of the classes 0 … K − 1 of rows [M][F]: K × [F]; 0 for a class without a row. */
export function classMeans(
  rows: readonly Float64Array[],
  labels: readonly number[],
  classes: number,
): Float64Array[] {
  const size = rows[0]!.length;
  const [counts, totals] = [
    new Float64Array(classes),
    Array.from({ length: classes }, () => new Float64Array(size)),
  ];
  for (const [r, row] of rows.entries()) {
    counts[labels[r]!]!++;
    accumulate(totals[labels[r]!]!, row);
  }
  return meansOf({ counts, totals });
}

/** Means by class, K × [F] (0 for a class without a row), and the covariance around them, [F·F], lower triangle. */
function momentsOf(sums: Sums): { means: Float64Array[]; covariance: Float64Array } {
  const { counts, totals, products } = sums;
  const size = totals[0]!.length;
  const rows = counts.reduce((a, b) => a + b);
  const means = meansOf(sums);
  const covariance = products.map((product) => product / rows);
  const squares = Float64Array.from({ length: size }, (_, i) => covariance[i * size + i]!);
  for (let i = 0; i < size; i++) {
    for (let j = 0; j <= i; j++) {
      let between = 0;
      for (let c = 0; c < means.length; c++) between += counts[c]! * means[c]![i]! * means[c]![j]!;
      covariance[i * size + j]! -= between / rows;
    }
  }
  const none = squares.map((square, i) => (covariance[i * size + i]! <= ROUNDING * square ? 1 : 0));
  for (let i = 0; i < size; i++) {
    for (let j = 0; j <= i; j++) if (none[i] === 1 || none[j] === 1) covariance[i * size + j] = 0;
  }
  return { means, covariance };
}

/** Models of the rows of these sums, one for each shrinkage. */
function rulesOf(sums: Sums, shrinkages: readonly number[]): Discriminant[] {
  const { means, covariance } = momentsOf(sums);
  const count = sums.counts.reduce((a, b) => a + b);
  const shares = sums.counts.map((classCount) => classCount / count);
  return shrinkages.map((shrinkage) => rule(covariance, means, shares, shrinkage));
}

function rule(
  covariance: Float64Array,
  means: readonly Float64Array[],
  shares: Float64Array,
  shrinkage: number,
): Discriminant {
  const size = means[0]!.length;
  let level = 0;
  for (let i = 0; i < size; i++) level += covariance[i * size + i]! / size;
  const blend = covariance.map((value) => (1 - shrinkage) * value);
  // Rows that all equal their means have no covariance: any one will do.
  for (let i = 0; i < size; i++) blend[i * size + i]! += level === 0 ? 1 : shrinkage * level;
  const weights = means.map((mean) => mean.slice());
  solveInPlace(blend, size, weights);
  const bias = Float64Array.from(weights, (weight, c) => {
    let product = 0;
    for (let i = 0; i < size; i++) product += weight[i]! * means[c]![i]!;
    return Math.log(shares[c]!) - product / 2;
  });
  return { shrinkage, weights, bias };
}

/**
 * Row numbers by fold. Rows of one recording stay together, as a model would know them by it; recording number n of a class, counted by
 * its first row, is in fold n mod 5. Rows without a recording, and those of a class that one recording holds, are each their own.
 * The only row of a class is never held out.
 */
function foldsOf(
  labels: readonly number[],
  classes: number,
  recordings: readonly (string | null)[],
): { folds: number[][]; always: number[] } {
  const counts = new Array<number>(classes).fill(0);
  const known = Array.from({ length: classes }, () => new Set<string | null>());
  labels.forEach((label, r) => {
    counts[label]!++;
    known[label]!.add(recordings[r]!);
  });
  const seen = new Array<number>(classes).fill(0);
  const folds = Array.from({ length: FOLDS }, (): number[] => []);
  const always: number[] = [];
  const homes = new Map<string, number[]>();
  labels.forEach((label, r) => {
    const recording = known[label]!.size === 1 ? null : recordings[r]!;
    const home = recording === null ? undefined : homes.get(recording);
    const fold = home ?? (counts[label] === 1 ? always : folds[seen[label]!++ % FOLDS]!);
    if (recording !== null) homes.set(recording, fold);
    fold.push(r);
  });
  return { folds, always };
}

/** The index of the smallest loss; of no losses at all the strongest shrinkage, as nothing speaks for a weaker one. */
function bestOf(losses: Float64Array): number {
  if (losses.every((loss) => loss === 0)) return losses.length - 1;
  return losses.indexOf(losses.reduce((a, b) => Math.min(a, b)));
}

/** 1 where the own probability is the largest alone, 1/m where m share it, else 0. */
function credit(probabilities: Float64Array, goldIndex: number): number {
  const mine = probabilities[goldIndex]!;
  if (probabilities.some((other) => other > mine)) return 0;
  return 1 / probabilities.filter((other) => other === mine).length;
}

/** Losses [S] and credits [S] of some rows under models of every shrinkage. */
interface Verdict {
  readonly losses: Float64Array;
  readonly credits: Float64Array;
}

/**
 * Fits rows [M][F] of classes 0 … K − 1, each with a row, features on comparable scales. The covariance is that of the rows around
 * the means of their classes. The shrinkage is the one of `SHRINKAGES` whose probabilities fit held-out rows best (mean logarithmic
 * loss over 5 folds, none of which shares a recording with another where a class has several). For the accuracy every fold is judged by the shrinkage that
 * serves the other folds best in models that saw neither them nor it (Stone 1974, nested cross-validation). O(M·F² + F³).
 */
export function fitDiscriminant(
  rows: readonly Float64Array[],
  labels: readonly number[],
  classes: number,
  recordings: readonly (string | null)[] = labels.map(() => null),
): FittedDiscriminant {
  const size = rows[0]!.length;
  const { folds, always } = foldsOf(labels, classes, recordings);
  const sums = [...folds, always].map((fold) => {
    return sumsOf(
      fold.map((r) => rows[r]!),
      fold.map((r) => labels[r]!),
      classes,
      size,
    );
  });
  /** Judges folds by models of the rows outside of them; null where no row is. */
  const judge = (left: readonly number[]): Verdict[] | null => {
    const kept = union(
      sums.filter((_, f) => !left.includes(f)),
      classes,
      size,
    );
    if (kept.counts.every((count) => count === 0)) return null;
    const models = rulesOf(kept, SHRINKAGES);
    return left.map((f) => {
      const [losses, credits] = [new Float64Array(models.length), new Float64Array(models.length)];
      for (const r of folds[f]!) {
        models.forEach((model, s) => {
          const probabilities = classProbabilities(model, rows[r]!);
          losses[s]! -= Math.log(Math.max(probabilities[labels[r]!]!, 1e-12));
          credits[s]! += credit(probabilities, labels[r]!);
        });
      }
      return { losses, credits };
    });
  };
  const losses = new Float64Array(SHRINKAGES.length);
  // Losses of the other folds in models that did not see this one, by fold.
  const others = folds.map(() => new Float64Array(SHRINKAGES.length));
  const credits: Float64Array[] = [];
  folds.forEach((fold, f) => {
    const verdict = fold.length === 0 ? null : judge([f])![0]!;
    credits.push(verdict?.credits ?? new Float64Array(SHRINKAGES.length));
    if (verdict !== null) accumulate(losses, verdict.losses);
    for (let second = f + 1; second < FOLDS; second++) {
      if (fold.length === 0 || folds[second]!.length === 0) continue;
      const pair = judge([f, second]);
      if (pair === null) continue;
      accumulate(others[second]!, pair[0]!.losses);
      accumulate(others[f]!, pair[1]!.losses);
    }
  });
  const evaluated = rows.length - always.length;
  const right = credits.reduce((sum, foldCredits, f) => sum + foldCredits[bestOf(others[f]!)]!, 0);
  const [fitted] = rulesOf(union(sums, classes, size), [SHRINKAGES[bestOf(losses)]!]);
  return { ...fitted!, heldOutAccuracy: evaluated === 0 ? null : right / evaluated };
}

/** Probability of each class [K] of a row [F]. */
export function classProbabilities({ weights, bias }: Discriminant, row: Float64Array): Float64Array {
  const scores = Float64Array.from(weights, (weight, c) => {
    let score = bias[c]!;
    for (let i = 0; i < row.length; i++) score += weight[i]! * row[i]!;
    return score;
  });
  const largest = scores.reduce((a, b) => Math.max(a, b));
  const parts = scores.map((score) => Math.exp(score - largest));
  const sum = parts.reduce((a, b) => a + b);
  return parts.map((part) => part / sum);
}
