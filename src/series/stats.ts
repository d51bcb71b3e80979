/** Summary statistics of a univariate series. Every function takes finite values; the caller checks its input. */

export interface Moments {
  readonly mean: number;
  /** Population standard deviation (divides by N). */
  readonly std: number;
}

export interface Summary extends Moments {
  readonly n: number;
  /** Sample standard deviation (divides by N − 1); NaN for one value. */
  readonly sampleStd: number;
  readonly min: number;
  readonly max: number;
  /** Quartiles with linear interpolation between order statistics (NumPy's default, Hyndman & Fan type 7). */
  readonly q1: number;
  readonly median: number;
  readonly q3: number;
  /** Median absolute deviation from the median, not scaled. */
  readonly mad: number;
  /** Population skewness m₃ / m₂^1.5; NaN for a constant series. */
  readonly skew: number;
  /** Population excess kurtosis m₄ / m₂² − 3; NaN for a constant series. */
  readonly excessKurtosis: number;
}

/** Mean and population standard deviation of `values[start, end)`, in two passes: [N] → scalars. */
export function moments(values: Float64Array, start = 0, end = values.length): Moments {
  const n = end - start;
  let sum = 0;
  for (let i = start; i < end; i++) sum += values[i]!;
  const mean = sum / n;
  let squares = 0;
  for (let i = start; i < end; i++) {
    const centred = values[i]! - mean;
    squares += centred * centred;
  }
  return { mean, std: Math.sqrt(squares / n) };
}

/** Index and size of the largest |value − centre|, the first on ties. */
export function furthest(values: Float64Array, centre: number): { index: number; size: number } {
  let index = 0;
  let size = -1;
  for (let i = 0; i < values.length; i++) {
    const distance = Math.abs(values[i]! - centre);
    if (distance > size) {
      size = distance;
      index = i;
    }
  }
  return { index, size };
}

/** Mean and σ, where σ is exactly 0 for equal values. */
export function spread(values: Float64Array): Moments {
  const first = values[0]!;
  return values.every((value) => value === first) ? { mean: first, std: 0 } : moments(values);
}

/** Differences below this part of a series' largest magnitude are rounding errors of its analyses. */
export const ROUNDING = 1e-12;

/** Largest |value|; 0 for none. */
export function largestMagnitude(values: Float64Array): number {
  let largest = 0;
  for (let i = 0; i < values.length; i++) largest = Math.max(largest, Math.abs(values[i]!));
  return largest;
}

/** Sums of the values before each index [N + 1]. */
export function cumulative(values: Float64Array): Float64Array {
  const sums = new Float64Array(values.length + 1);
  for (let i = 0; i < values.length; i++) sums[i + 1] = sums[i]! + values[i]!;
  return sums;
}

/** Mean of the window of `period` samples around each sample [N]; at the ends, of the nearest whole window. Fractions weigh the outer samples. */
export function cycleMeans(values: Float64Array, period: number): Float64Array {
  const n = values.length;
  const sums = cumulative(values);
  const upTo = (x: number): number => {
    const whole = Math.floor(x);
    return whole >= n ? sums[n]! : sums[whole]! + (x - whole) * values[whole]!;
  };
  const means = new Float64Array(n);
  for (let i = 0; i < n; i++) {
    const start = Math.min(Math.max(0, i + 0.5 - period / 2), n - period);
    means[i] = (upTo(start + period) - upTo(start)) / period;
  }
  return means;
}

/** Σ x[i]·x[i − lag]. */
export function laggedProduct(values: Float64Array, lag: number): number {
  let sum = 0;
  for (let i = lag; i < values.length; i++) sum += values[i]! * values[i - lag]!;
  return sum;
}

/**
 * Reorders `scratch[from, n)` so that the k-th smallest value of `scratch[0, n)` stands at k, and returns it (Hoare's selection).
 * No value before `from` may exceed one behind it.
 */
export function select(scratch: Float64Array, n: number, k: number, from = 0): number {
  let left = from;
  let right = n - 1;
  while (left < right) {
    // The median of three keeps sorted and constant inputs linear.
    const a = scratch[left]!;
    const b = scratch[(left + right) >> 1]!;
    const c = scratch[right]!;
    const pivot = Math.max(Math.min(a, b), Math.min(Math.max(a, b), c));
    let i = left;
    let j = right;
    while (i <= j) {
      while (scratch[i]! < pivot) i++;
      while (scratch[j]! > pivot) j--;
      if (i <= j) {
        const kept = scratch[i]!;
        scratch[i] = scratch[j]!;
        scratch[j] = kept;
        i++;
        j--;
      }
    }
    if (k <= j) right = j;
    else if (k >= i) left = i;
    else break;
  }
  return scratch[k]!;
}

/**
 * Quantile `q` in [0, 1] of `scratch[0, n)`, linear interpolation; reorders `scratch`. After a smaller quantile, whose position was
 * `from` or more, the values before `from` stay.
 */
export function quantileInPlace(scratch: Float64Array, n: number, q: number, from = 0): number {
  const position = q * (n - 1);
  const below = Math.floor(position);
  const low = select(scratch, n, below, from);
  if (position === below) return low;
  // After the selection everything right of `below` is at least as large: the next order statistic is its minimum.
  let high = Number.POSITIVE_INFINITY;
  for (let i = below + 1; i < n; i++) if (scratch[i]! < high) high = scratch[i]!;
  return low + (position - below) * (high - low);
}

export function median(values: Float64Array): number {
  return quantileInPlace(values.slice(), values.length, 0.5);
}

/** Computes all summary statistics of a non-empty series [N]. */
export function summarise(values: Float64Array): Summary {
  const n = values.length;
  const { mean, std } = moments(values);
  let min = Number.POSITIVE_INFINITY;
  let max = Number.NEGATIVE_INFINITY;
  let third = 0;
  let fourth = 0;
  for (let i = 0; i < n; i++) {
    const value = values[i]!;
    if (value < min) min = value;
    if (value > max) max = value;
    const centred = value - mean;
    const square = centred * centred;
    third += square * centred;
    fourth += square * square;
  }
  const scratch = values.slice(); // [N]
  const q1 = quantileInPlace(scratch, n, 0.25);
  const middle = quantileInPlace(scratch, n, 0.5);
  const q3 = quantileInPlace(scratch, n, 0.75);
  for (let i = 0; i < n; i++) scratch[i] = Math.abs(values[i]! - middle);
  const mad = quantileInPlace(scratch, n, 0.5);
  const variance = std * std;
  // Equal values leave a rounding residue in the variance, which must not pass for a shape.
  const constant = min === max;
  return {
    n,
    mean: constant ? min : mean,
    std: constant ? 0 : std,
    sampleStd: constant ? (n > 1 ? 0 : Number.NaN) : std * Math.sqrt(n / (n - 1)),
    min,
    max,
    q1,
    median: middle,
    q3,
    mad,
    skew: constant ? Number.NaN : third / n / (variance * std),
    excessKurtosis: constant ? Number.NaN : fourth / n / (variance * variance) - 3,
  };
}

/** Ordinary least squares line over the index: value ≈ intercept + slope · i. */
export interface Line {
  readonly slope: number;
  readonly intercept: number;
  /** Share of the variance that the line explains, in [0, 1]; 0 for a constant series. */
  readonly r2: number;
  /** Population standard deviation of what the line leaves. */
  readonly residualStd: number;
}

/** Fits a line to a non-empty series [N]; one value has slope 0. */
export function fitLine(values: Float64Array): Line {
  const n = values.length;
  const { mean, std } = moments(values);
  const centre = (n - 1) / 2;
  let cross = 0;
  for (let i = 0; i < n; i++) cross += (i - centre) * (values[i]! - mean);
  const indexSquares = (n * (n * n - 1)) / 12;
  const slope = indexSquares === 0 ? 0 : cross / indexSquares;
  const total = std * std * n;
  const explained = slope * cross;
  const residual = Math.max(0, total - explained);
  return {
    slope,
    intercept: mean - slope * centre,
    r2: total === 0 ? 0 : Math.min(1, explained / total),
    residualStd: Math.sqrt(residual / n),
  };
}

/** σ of Gaussian noise whose median absolute deviation is 1. */
export const GAUSSIAN_MAD = 1.482602218505602;

/**
 * Standard deviation of white noise riding on a smooth series [N], N ≥ 4: 1.4826 · MAD of the third differences,
 * divided by √20 (the noise gain of the filter 1, −3, 3, −1). Third differences remove any local quadratic,
 * so a clean sine of period P and unit amplitude reads (2π/P)³ · 0.23 instead of 0; the median ignores the ends
 * of anomalies. 0 for fewer than 4 values.
 */
export function noiseSigma(values: Float64Array): number {
  const n = values.length - 3;
  if (n < 1) return 0;
  const scratch = new Float64Array(n); // [N − 3]
  for (let i = 0; i < n; i++) {
    scratch[i] = Math.abs(values[i + 3]! - values[i]! + 3 * (values[i + 1]! - values[i + 2]!));
  }
  return (GAUSSIAN_MAD * quantileInPlace(scratch, n, 0.5)) / Math.sqrt(20);
}

/** Overwrites the lower triangle of a symmetric positive definite A [F·F] by its Cholesky factor. */
export function choleskyInPlace(a: Float64Array, size: number): void {
  for (let i = 0; i < size; i++) {
    for (let j = 0; j <= i; j++) {
      let sum = a[i * size + j]!;
      for (let k = 0; k < j; k++) sum -= a[i * size + k]! * a[j * size + k]!;
      a[i * size + j] = i === j ? Math.sqrt(sum) : sum / a[j * size + j]!;
    }
  }
}

/** Solves A·x = b for each b in place; A [F·F] symmetric positive definite, overwritten by its Cholesky factor. */
export function solveInPlace(a: Float64Array, size: number, targets: readonly Float64Array[]): void {
  choleskyInPlace(a, size);
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

// Tail probabilities, to about 14 digits.

/** Terms until a series or continued fraction has settled; reached by none of the arguments that occur. */
const MOST_TERMS = 500;

/** Complementary error function of x ≥ 0: power series below 2, Lentz's continued fraction above. */
function upperErfc(x: number): number {
  const scale = Math.exp(-x * x) / Math.sqrt(Math.PI);
  if (x < 2) {
    // erf(x) = 2/√π · e^(−x²) · Σ 2^k x^(2k+1) / (1·3·…·(2k+1)): all terms positive, nothing cancels.
    let term = x;
    let sum = x;
    for (let k = 1; k < MOST_TERMS && term > sum * 1e-17; k++) {
      term *= (2 * x * x) / (2 * k + 1);
      sum += term;
    }
    return 1 - 2 * scale * sum;
  }
  // erfc(x) = e^(−x²)/√π · 1/(x + ½/(x + 1/(x + 3⁄2/(x + …)))).
  let fraction = x;
  let c = x;
  let d = 0;
  for (let k = 1; k < MOST_TERMS; k++) {
    d = 1 / (x + (k / 2) * d);
    c = x + k / 2 / c;
    const step = c * d;
    fraction *= step;
    if (Math.abs(step - 1) < 1e-16) break;
  }
  return scale / fraction;
}

/** P(Z ≤ z) of a standard normal Z; the lower tail keeps its relative accuracy. */
export function normalCdf(z: number): number {
  const tail = upperErfc(Math.abs(z) / Math.SQRT2) / 2;
  return z < 0 ? tail : 1 - tail;
}

/** P(|Z| ≥ |z|): the two-sided p-value of a z-score, in [0, 1]. */
export function twoSided(z: number): number {
  return Math.min(1, upperErfc(Math.abs(z) / Math.SQRT2));
}

/** The z with P(Z ≤ z) = p, for p in (0, 1): bisection on the tail, then Newton's steps. */
export function normalQuantile(p: number): number {
  const tail = Math.min(p, 1 - p);
  let low = -40;
  let high = 0;
  for (let k = 0; k < 12; k++) {
    const middle = (low + high) / 2;
    if (normalCdf(middle) < tail) low = middle;
    else high = middle;
  }
  let z = (low + high) / 2;
  for (let k = 0; k < 8; k++) {
    const density = Math.exp((-z * z) / 2) / Math.sqrt(2 * Math.PI);
    const step = (normalCdf(z) - tail) / density;
    z -= Math.max(-1, Math.min(1, step));
    if (Math.abs(step) < 1e-15 * Math.abs(z)) break;
  }
  return p < 0.5 ? z : p === 0.5 ? 0 : -z;
}

/** P(sup |Brownian bridge| ≥ x), the Kolmogorov distribution's tail, in [0, 1]; both theta series. */
export function kolmogorovTail(x: number): number {
  if (x <= 0) return 1;
  let sum = 0;
  if (x < 1) {
    for (let k = 1; k <= 20; k += 2) sum += Math.exp((-k * k * Math.PI * Math.PI) / (8 * x * x));
    return 1 - (Math.sqrt(2 * Math.PI) / x) * sum;
  }
  for (let k = 1; k <= 20; k++) sum += (k % 2 === 1 ? 2 : -2) * Math.exp(-2 * k * k * x * x);
  return sum;
}
