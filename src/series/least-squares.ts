/** Ordinary least squares by Householder reflections (Golub & Van Loan, algorithm 5.2.1), for a few columns. */

/** Part of a column that must stand outside the columns before it to count as one of its own. */
const INDEPENDENT = 1e-10;

export interface Fit {
  /** Weight of each column [P]; 0 for a column that depends on those before it. */
  readonly coefficients: Float64Array;
  /** Sums of squared residuals with the first 0, 1, … P columns: [P + 1]. */
  readonly residualSquares: Float64Array;
  /** Diagonal of (XᵀX)⁻¹: the variance of each coefficient in units of the noise variance; NaN for a dependent column. */
  readonly variances: Float64Array; // [P]
  /** Columns that depend on none before them. */
  readonly rank: number;
}

/**
 * Fits `target` [N] by the columns [P] of [N], N ≥ P. All nested fits come at once: the first k columns leave
 * Σ (Qᵀy)²ᵢ over i ≥ k. Cost: 2·N·P² operations; columns and target are copied.
 */
export function leastSquares(columns: readonly Float64Array[], target: Float64Array): Fit {
  const n = target.length;
  const p = columns.length;
  const q = columns.map((column) => column.slice());
  const y = target.slice();
  const diagonal = new Float64Array(p);
  const row = new Int32Array(p).fill(-1); // row of R in which a column's pivot stands
  const afterColumn = new Float64Array(p + 1);
  afterColumn[0] = squaresFrom(y, 0);
  let rank = 0;
  for (let c = 0; c < p; c++) {
    const v = q[c]!;
    const norm = Math.sqrt(squaresFrom(v, rank));
    const whole = Math.sqrt(squaresFrom(columns[c]!, 0));
    if (rank < n && norm > INDEPENDENT * whole) {
      const pivot = v[rank]!;
      const alpha = pivot > 0 ? -norm : norm;
      // v becomes the reflection's vector; what it annihilates is never read again.
      v[rank] = pivot - alpha;
      const squared = squaresFrom(v, rank);
      for (let k = c + 1; k < p; k++) reflect(q[k]!, v, rank, squared);
      reflect(y, v, rank, squared);
      diagonal[c] = alpha;
      row[c] = rank++;
    }
    afterColumn[c + 1] = squaresFrom(y, rank);
  }
  // Columns above the pivots hold R; solve R·b = Qᵀy and R⁻¹ row by row, from the last independent column back.
  const independent = [...row.keys()].filter((c) => row[c]! >= 0);
  const coefficients = new Float64Array(p);
  const inverse = independent.map(() => new Float64Array(rank)); // rows of R⁻¹
  for (let a = rank - 1; a >= 0; a--) {
    const c = independent[a]!;
    let sum = y[a]!;
    const line = inverse[a]!;
    line[a] = 1;
    for (let b = a + 1; b < rank; b++) {
      const above = q[independent[b]!]![a]!;
      sum -= above * coefficients[independent[b]!]!;
      for (let k = b; k < rank; k++) line[k]! -= above * inverse[b]![k]!;
    }
    coefficients[c] = sum / diagonal[c]!;
    for (let k = a; k < rank; k++) line[k]! /= diagonal[c]!;
  }
  const variances = new Float64Array(p).fill(Number.NaN);
  for (const [a, c] of independent.entries()) variances[c] = squaresFrom(inverse[a]!, a);
  return { coefficients, residualSquares: afterColumn, variances, rank };
}

function squaresFrom(values: Float64Array, start: number): number {
  let sum = 0;
  for (let i = start; i < values.length; i++) sum += values[i]! * values[i]!;
  return sum;
}

/** values ← (I − 2vvᵀ/‖v‖²)·values from row `start` on. */
function reflect(values: Float64Array, v: Float64Array, start: number, squared: number): void {
  // Four sums: one would wait for each addition before the next.
  let a = 0;
  let b = 0;
  let c = 0;
  let d = 0;
  let i = start;
  for (; i + 3 < v.length; i += 4) {
    a += v[i]! * values[i]!;
    b += v[i + 1]! * values[i + 1]!;
    c += v[i + 2]! * values[i + 2]!;
    d += v[i + 3]! * values[i + 3]!;
  }
  for (; i < v.length; i++) a += v[i]! * values[i]!;
  const factor = (2 * (a + b + (c + d))) / squared;
  for (let k = start; k < v.length; k++) values[k]! -= factor * v[k]!;
}
