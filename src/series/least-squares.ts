/**
 * Ordinary least squares for a few columns: by the normal equations (Cholesky's factor of XᵀX) where the columns are far from depending on
 * each other, which costs a quarter, else by Householder reflections (Golub & Van Loan, algorithm 5.2.1).
 */

/** Part of a column that must stand outside the columns before it to count as one of its own. */
const INDEPENDENT = 1e-10;

/**
 * Part of a column's square, the target included, that must stand outside the columns before it for the normal equations, which square
 * the condition number: 1e-4 costs four digits of sixteen.
 */
const WELL_CONDITIONED = 1e-4;

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

/** Factors of the columns: X = Q·R. */
interface Factors {
  /** Columns of R; only what stands above the diagonal is read. */
  readonly upper: readonly Float64Array[]; // [P][≥ P]
  readonly diagonal: Float64Array; // [P]
  /** Qᵀy; the first `rank` are read. */
  readonly turned: Float64Array;
  /** Row of R in which a column's diagonal element stands; −1 for a column that depends on those before it. */
  readonly row: Int32Array; // [P]
  readonly rank: number;
  readonly residualSquares: Float64Array; // [P + 1]
}

/**
 * Fits `target` [N] by the columns [P] of [N], N ≥ P. All nested fits come at once: the first k columns leave
 * Σ (Qᵀy)²ᵢ over i ≥ k. Cost: N·P²/2 operations by the normal equations, 2·N·P² by reflections; columns and target are not written to.
 */
export function leastSquares(columns: readonly Float64Array[], target: Float64Array): Fit {
  const factors = byNormalEquations(columns, target) ?? byReflections(columns, target);
  const { upper, diagonal, turned, row, rank, residualSquares } = factors;
  const p = columns.length;
  // Solve R·b = Qᵀy and R⁻¹ row by row, from the last independent column back.
  const independent = [...row.keys()].filter((c) => row[c]! >= 0);
  const coefficients = new Float64Array(p);
  const inverse = independent.map(() => new Float64Array(rank)); // rows of R⁻¹
  for (let a = rank - 1; a >= 0; a--) {
    const c = independent[a]!;
    let sum = turned[a]!;
    const line = inverse[a]!;
    line[a] = 1;
    for (let b = a + 1; b < rank; b++) {
      const above = upper[independent[b]!]![a]!;
      sum -= above * coefficients[independent[b]!]!;
      for (let k = b; k < rank; k++) line[k]! -= above * inverse[b]![k]!;
    }
    coefficients[c] = sum / diagonal[c]!;
    for (let k = a; k < rank; k++) line[k]! /= diagonal[c]!;
  }
  const variances = new Float64Array(p).fill(Number.NaN);
  for (const [a, c] of independent.entries()) variances[c] = squaresFrom(inverse[a]!, a);
  return { coefficients, residualSquares, variances, rank };
}

/** R from RᵀR = XᵀX, column by column, the target as the last one; null where a column leaves too little of itself. */
function byNormalEquations(columns: readonly Float64Array[], target: Float64Array): Factors | null {
  const p = columns.length;
  const all = [...columns, target];
  const upper = all.map(() => new Float64Array(p + 1));
  const diagonal = new Float64Array(p + 1);
  for (let c = 0; c <= p; c++) {
    const own = upper[c]!;
    products(all, c, own);
    const whole = own[c]!;
    let left = whole;
    for (let a = 0; a < c; a++) {
      const above = upper[a]!;
      let sum = own[a]!;
      for (let b = 0; b < a; b++) sum -= above[b]! * own[b]!;
      own[a] = sum / diagonal[a]!;
      left -= own[a]! * own[a]!;
    }
    if (!(left > WELL_CONDITIONED * whole)) return null;
    diagonal[c] = Math.sqrt(left);
  }
  const turned = upper[p]!;
  const residualSquares = new Float64Array(p + 1);
  residualSquares[p] = diagonal[p]! * diagonal[p]!;
  for (let c = p - 1; c >= 0; c--) residualSquares[c] = residualSquares[c + 1]! + turned[c]! * turned[c]!;
  return { upper, diagonal, turned, row: Int32Array.from(columns.keys()), rank: p, residualSquares };
}

/** Products of column c with the columns 0 … c into `out`, four at a time: they share what is read. */
function products(columns: readonly Float64Array[], c: number, out: Float64Array): void {
  const own = columns[c]!;
  const n = own.length;
  for (let first = 0; first <= c; first += 4) {
    // Beyond the last column it is taken again.
    const [b0, b1, b2, b3] = [
      columns[first]!,
      columns[Math.min(c, first + 1)]!,
      columns[Math.min(c, first + 2)]!,
      columns[Math.min(c, first + 3)]!,
    ];
    let sum0 = 0;
    let sum1 = 0;
    let sum2 = 0;
    let sum3 = 0;
    for (let i = 0; i < n; i++) {
      const value = own[i]!;
      sum0 += value * b0[i]!;
      sum1 += value * b1[i]!;
      sum2 += value * b2[i]!;
      sum3 += value * b3[i]!;
    }
    out[first] = sum0;
    if (first + 1 <= c) out[first + 1] = sum1;
    if (first + 2 <= c) out[first + 2] = sum2;
    if (first + 3 <= c) out[first + 3] = sum3;
  }
}

/** R and Qᵀy by reflections, for columns that may depend on each other. */
function byReflections(columns: readonly Float64Array[], target: Float64Array): Factors {
  const n = target.length;
  const p = columns.length;
  const q = columns.map((column) => column.slice());
  const y = target.slice();
  const diagonal = new Float64Array(p);
  const row = new Int32Array(p).fill(-1);
  const residualSquares = new Float64Array(p + 1);
  residualSquares[0] = squaresFrom(y, 0);
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
    residualSquares[c + 1] = squaresFrom(y, rank);
  }
  // Columns above the pivots hold R.
  return { upper: q, diagonal, turned: y, row, rank, residualSquares };
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
