/**
 * Principal components of the windows of a series, and how badly the first of them describe each window (Aggarwal 2017, "Outlier
 * Analysis", 9.3; "Sub-PCA" of TSB-UAD): what no combination of the usual shapes gives back is unusual.
 */
import { requireFinite, requireOption, requireWhole } from './checks.ts';

export interface SubPcaOptions {
  /** Window length in samples, ≥ 2. */
  readonly window: number;
  /** Part of the variance that the components that are kept explain at least, in (0, 1); default 0.9. */
  readonly explained?: number;
}

/** Values by which a window is described at most; longer ones are averaged in pieces. */
const MOST_PIECES = 48;
/** Sweeps of rotations; symmetric matrices of this size need fewer than ten. */
const MOST_SWEEPS = 50;

/** Eigenvalues [m], falling, and eigenvectors [m, m], one a row, of a symmetric matrix [m, m], by cyclic Jacobi rotations. */
function eigen(matrix: Float64Array, m: number): { values: Float64Array; vectors: Float64Array } {
  const a = matrix.slice();
  const v = new Float64Array(m * m);
  for (let i = 0; i < m; i++) v[i * m + i] = 1;
  let size = 0;
  for (const one of a) size += one * one;
  for (let sweep = 0; sweep < MOST_SWEEPS; sweep++) {
    let off = 0;
    for (let p = 0; p < m; p++) for (let q = p + 1; q < m; q++) off += a[p * m + q]! ** 2;
    if (off <= 1e-30 * size) break;
    for (let p = 0; p < m; p++) {
      for (let q = p + 1; q < m; q++) {
        const apq = a[p * m + q]!;
        if (apq === 0) continue;
        const theta = (a[q * m + q]! - a[p * m + p]!) / (2 * apq);
        const t = (theta < 0 ? -1 : 1) / (Math.abs(theta) + Math.hypot(1, theta));
        const c = 1 / Math.hypot(1, t);
        const s = t * c;
        for (let k = 0; k < m; k++) {
          const [x, y] = [a[k * m + p]!, a[k * m + q]!];
          a[k * m + p] = c * x - s * y;
          a[k * m + q] = s * x + c * y;
        }
        for (let k = 0; k < m; k++) {
          const [x, y] = [a[p * m + k]!, a[q * m + k]!];
          a[p * m + k] = c * x - s * y;
          a[q * m + k] = s * x + c * y;
          const [one, other] = [v[p * m + k]!, v[q * m + k]!];
          v[p * m + k] = c * one - s * other;
          v[q * m + k] = s * one + c * other;
        }
      }
    }
  }
  const order = Array.from({ length: m }, (_, i) => i).sort((i, j) => a[j * m + j]! - a[i * m + i]!);
  const vectors = new Float64Array(m * m);
  order.forEach((from, to) => {
    vectors.set(v.subarray(from * m, (from + 1) * m), to * m);
  });
  return { values: Float64Array.from(order, (i) => a[i * m + i]!), vectors };
}

/**
 * Root mean square of what the kept components leave of each window of [N]: [N − window + 1]; empty for a series shorter than the
 * window, 0 for a constant one. Windows are compared with their level, less the mean of all windows. Throws a ConfigError for options
 * out of range and a DataError for values that are not finite. O(N · min(window, 48)²).
 */
export function subPca(values: Float64Array, options: SubPcaOptions): Float64Array {
  const { window, explained = 0.9 } = options;
  requireFinite(values, 'sub-PCA');
  requireWhole('sub-PCA window', window, 2);
  requireOption(explained > 0 && explained < 1, 'sub-PCA explained', explained, 'between 0 and 1');
  const count = Math.max(0, values.length - window + 1);
  const scores = new Float64Array(count);
  if (count === 0) return scores;
  const m = Math.min(window, MOST_PIECES);
  const sums = new Float64Array(values.length + 1);
  // A large offset would take the digits of the sums.
  for (let i = 0; i < values.length; i++) sums[i + 1] = sums[i]! + (values[i]! - values[0]!);
  const bounds = Int32Array.from({ length: m + 1 }, (_, k) => Math.round((k * window) / m));
  const row = new Float64Array(m);
  const mean = new Float64Array(m);
  const read = (i: number): void => {
    for (let k = 0; k < m; k++) {
      const [from, to] = [bounds[k]!, bounds[k + 1]!];
      row[k] = (sums[i + to]! - sums[i + from]!) / (to - from) - mean[k]!;
    }
  };
  const total = new Float64Array(m);
  for (let i = 0; i < count; i++) {
    read(i);
    for (let k = 0; k < m; k++) total[k]! += row[k]!;
  }
  for (let k = 0; k < m; k++) mean[k] = total[k]! / count;
  const covariance = new Float64Array(m * m);
  for (let i = 0; i < count; i++) {
    read(i);
    for (let p = 0; p < m; p++) for (let q = p; q < m; q++) covariance[p * m + q]! += row[p]! * row[q]!;
  }
  for (let p = 0; p < m; p++) {
    for (let q = p; q < m; q++) {
      const own = covariance[p * m + q]! / count;
      covariance[p * m + q] = own;
      covariance[q * m + p] = own;
    }
  }
  const { values: variances, vectors } = eigen(covariance, m);
  const variance = variances.reduce((sum, one) => sum + Math.max(0, one), 0);
  let kept = 0;
  for (let sum = 0; kept < m && sum < explained * variance; kept++) sum += Math.max(0, variances[kept]!);
  for (let i = 0; i < count; i++) {
    read(i);
    for (let r = 0; r < kept; r++) {
      let along = 0;
      for (let k = 0; k < m; k++) along += row[k]! * vectors[r * m + k]!;
      for (let k = 0; k < m; k++) row[k]! -= along * vectors[r * m + k]!;
    }
    let squares = 0;
    for (let k = 0; k < m; k++) squares += row[k]! ** 2;
    scores[i] = Math.sqrt(squares / m);
  }
  return scores;
}
