/**
 * Linear discriminant analysis with a shrunken covariance: classes are normal clouds around their own means with one common
 * covariance, part of which is replaced by equal variance in every direction (Friedman 1989, regularised discriminant
 * analysis), so that it can be inverted however few the examples.
 */
export const SHRINKAGES = [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9] as const;
const FOLDS = 5;

export interface Discriminant {
  /** Part of the covariance that is replaced by the same variance in every direction, in [0, 1]. */
  readonly shrinkage: number;
  readonly weights: readonly Float64Array[]; // K × [F]
  /** Minus half the squared length of the class mean, plus ln of the class's share: [K]. */
  readonly bias: Float64Array;
}

export interface FittedDiscriminant extends Discriminant {
  /** Share of held-out training rows whose class is the most probable, at the chosen shrinkage; null where no row could be held out. */
  readonly heldOutAccuracy: number | null;
}

/** Solves A·x = b for each b in place; A [F·F] symmetric positive definite, overwritten by its Cholesky factor. */
function solveInPlace(a: Float64Array, size: number, targets: readonly Float64Array[]): void {
  for (let i = 0; i < size; i++) {
    for (let j = 0; j <= i; j++) {
      let sum = a[i * size + j]!;
      for (let k = 0; k < j; k++) sum -= a[i * size + k]! * a[j * size + k]!;
      a[i * size + j] = i === j ? Math.sqrt(sum) : sum / a[j * size + j]!;
    }
  }
  for (const b of targets) {
    for (let i = 0; i < size; i++) {
      for (let k = 0; k < i; k++) b[i]! -= a[i * size + k]! * b[k]!;
      b[i]! /= a[i * size + i]!;
    }
    for (let i = size - 1; i >= 0; i--) {
      for (let k = i + 1; k < size; k++) b[i]! -= a[k * size + i]! * b[k]!;
      b[i]! /= a[i * size + i]!;
    }
  }
}

/** Scatter of rows [M][F] around the means of their classes, over M: [F·F], lower triangle. */
function scatter(
  rows: readonly Float64Array[],
  labels: readonly number[],
  means: readonly Float64Array[],
): Float64Array {
  const size = means[0]!.length;
  const sum = new Float64Array(size * size);
  const rest = new Float64Array(size);
  rows.forEach((row, r) => {
    const mean = means[labels[r]!]!;
    for (let i = 0; i < size; i++) rest[i] = row[i]! - mean[i]!;
    for (let i = 0; i < size; i++) {
      const own = rest[i]!;
      for (let j = 0; j <= i; j++) sum[i * size + j]! += own * rest[j]!;
    }
  });
  return sum.map((value) => value / rows.length);
}

/** Means of the classes 0 … K − 1 of rows [M][F]: K × [F]; 0 for a class without a row. */
export function classMeans(
  rows: readonly Float64Array[],
  labels: readonly number[],
  classes: number,
): Float64Array[] {
  const counts = new Float64Array(classes);
  const means = Array.from({ length: classes }, () => new Float64Array(rows[0]!.length));
  rows.forEach((row, r) => {
    const mean = means[labels[r]!]!;
    counts[labels[r]!]!++;
    for (let f = 0; f < row.length; f++) mean[f]! += row[f]!;
  });
  return means.map((mean, c) => mean.map((sum) => sum / Math.max(1, counts[c]!)));
}

function rule(
  covariance: Float64Array,
  means: readonly Float64Array[],
  shares: readonly number[],
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
 * Fits rows [M][F] of classes 0 … K − 1, each with a row, features on comparable scales. The covariance is that of the rows around
 * the means of their classes. The shrinkage is the one of `SHRINKAGES` whose probabilities fit held-out rows best (mean logarithmic
 * loss over 5 folds; row number n of a class is in fold n mod 5). O(M·F² + F³).
 */
export function fitDiscriminant(
  rows: readonly Float64Array[],
  labels: readonly number[],
  classes: number,
): FittedDiscriminant {
  const counts = shareOf(labels, classes).map((share) => share * rows.length);
  const seen = new Array<number>(classes).fill(0);
  // The only row of a class is never held out.
  const folds = labels.map((label) => (counts[label] === 1 ? -1 : seen[label]!++ % FOLDS));
  const losses = new Float64Array(SHRINKAGES.length);
  const right = new Float64Array(SHRINKAGES.length);
  let held = 0;
  for (let fold = 0; fold < FOLDS; fold++) {
    const inside = rows.flatMap((_, r) => (folds[r] === fold ? [] : [r]));
    const kept = inside.map((r) => rows[r]!);
    const keptLabels = inside.map((r) => labels[r]!);
    if (inside.length === rows.length) continue;
    held += rows.length - inside.length;
    const means = classMeans(kept, keptLabels, classes);
    const covariance = scatter(kept, keptLabels, means);
    const shares = shareOf(keptLabels, classes);
    SHRINKAGES.forEach((shrinkage, s) => {
      const fitted = rule(covariance, means, shares, shrinkage);
      rows.forEach((row, r) => {
        if (folds[r] !== fold) return;
        const probabilities = classProbabilities(fitted, row);
        const own = probabilities[labels[r]!]!;
        losses[s]! -= Math.log(Math.max(own, 1e-12));
        if (probabilities.every((other) => other <= own)) right[s]!++;
      });
    });
  }
  const best = losses.indexOf(losses.reduce((a, b) => Math.min(a, b)));
  const means = classMeans(rows, labels, classes);
  const fitted = rule(scatter(rows, labels, means), means, shareOf(labels, classes), SHRINKAGES[best]!);
  return { ...fitted, heldOutAccuracy: held === 0 ? null : right[best]! / held };
}

function shareOf(labels: readonly number[], classes: number): number[] {
  return Array.from(
    { length: classes },
    (_, c) => labels.filter((label) => label === c).length / labels.length,
  );
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
