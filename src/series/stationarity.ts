/**
 * Unit-root (augmented Dickey–Fuller) and stationarity (KPSS) tests. They ask opposite questions: the augmented Dickey–Fuller test's null hypothesis is a
 * unit root, that of the KPSS test is stationarity. Results equal statsmodels' `adfuller` (autolag AIC) and `kpss`
 * (nlags auto).
 */
import { requireFinite, requireWithin } from './checks.ts';
import { fitLine, laggedProduct, moments, normalCdf } from './stats.ts';

/** Deterministic part of the regression: none, constant, constant and trend. */
export type Regression = 'n' | 'c' | 'ct';

export interface UnitRootTest {
  /** t-statistic of the lagged level; the more negative, the less like a unit root. */
  readonly statistic: number;
  /** MacKinnon's (1994) approximate p-value, in [0, 1]; small: no unit root. */
  readonly pValue: number;
  /** Lagged differences in the regression. */
  readonly lags: number;
  /** Observations in the regression: N − 1 − lags. */
  readonly observations: number;
  /** MacKinnon's (2010) critical values for this number of observations. */
  readonly critical: { readonly '1%': number; readonly '5%': number; readonly '10%': number };
}

interface MacKinnon {
  /** Outside [min, max] the p-value is 0 or 1; up to `star` the quadratic applies, above it the cubic. */
  readonly min: number;
  readonly max: number;
  readonly star: number;
  readonly small: readonly number[];
  readonly large: readonly number[];
  /** Per level 1 %, 5 %, 10 %: polynomial in 1/T. */
  readonly critical: readonly (readonly number[])[];
}

/** Response surfaces for one series: MacKinnon 1994, tables 3 and 4 (p-values), and 2010, table 1 (critical values). */
const SURFACES: Readonly<Record<Regression, MacKinnon>> = {
  n: {
    min: -19.04,
    max: Number.POSITIVE_INFINITY,
    star: -1.04,
    small: [0.6344, 1.2378, 0.032496],
    large: [0.4797, 0.93557, -0.06999, 0.033066],
    critical: [
      [-2.56574, -2.2358, -3.627, 0],
      [-1.941, -0.2686, -3.365, 31.223],
      [-1.61682, 0.2656, -2.714, 25.364],
    ],
  },
  c: {
    min: -18.83,
    max: 2.74,
    star: -1.61,
    small: [2.1659, 1.4412, 0.038269],
    large: [1.7339, 0.93202, -0.12745, -0.010368],
    critical: [
      [-3.43035, -6.5393, -16.786, -79.433],
      [-2.86154, -2.8903, -4.234, -40.04],
      [-2.56677, -1.5384, -2.809, 0],
    ],
  },
  ct: {
    min: -16.18,
    max: 0.7,
    star: -2.89,
    small: [3.2512, 1.6047, 0.049588],
    large: [2.5261, 0.61654, -0.37956, -0.060285],
    critical: [
      [-3.95877, -9.0531, -28.428, -134.155],
      [-3.41049, -4.3904, -9.036, -45.374],
      [-3.12705, -2.5856, -3.925, -22.38],
    ],
  },
};

const polynomial = (coefficients: readonly number[], x: number): number =>
  coefficients.reduceRight((sum, c) => sum * x + c, 0);

function macKinnonP(statistic: number, regression: Regression): number {
  const { min, max, star, small, large } = SURFACES[regression];
  if (statistic > max) return 1;
  if (statistic < min) return 0;
  return normalCdf(polynomial(statistic <= star ? small : large, statistic));
}

export interface UnitRootOptions {
  /** Default `c`. */
  readonly regression?: Regression;
  /** Most lagged differences; default ⌈12·(N/100)^¼⌉ (Schwert 1989), at most ⌊N/2⌋ − trend terms − 1. */
  readonly maxLag?: number;
  /** True to choose the number of lags by Akaike's criterion over one common sample (default); false for `maxLag`. */
  readonly autolag?: boolean;
}

/**
 * Augmented Dickey–Fuller test (Said & Dickey 1984): Δx[t] = γ·x[t−1] + Σ φ_k·Δx[t−k] + deterministic terms; the
 * statistic is γ's t-value. Null where it is undefined: a series too short for the regression (N < 3, 4, 6 for n, c, ct), a
 * constant, or one that the regressors fit exactly. Throws a DataError for values that are not finite and a ConfigError for a
 * maxLag out of range. Cost O(N·lags²).
 */
export function unitRootTest(values: Float64Array, options: UnitRootOptions = {}): UnitRootTest | null {
  requireFinite(values, 'unit-root test');
  const { regression = 'c', autolag = true } = options;
  const n = values.length;
  const trends = regression.length * Number(regression !== 'n');
  const most = Math.floor(n / 2) - trends - 1;
  if (most < 0 || values.every((value) => value === values[0])) return null;
  const wanted = options.maxLag ?? Math.min(most, Math.ceil(12 * (n / 100) ** 0.25));
  requireWithin('unit-root test maxLag', wanted, 0, most, ` for ${n} samples`);
  const changes = new Float64Array(n - 1);
  for (let i = 1; i < n; i++) changes[i - 1] = values[i]! - values[i - 1]!;
  let lags = wanted;
  let { columns, target } = design(values, changes, wanted, regression);
  let fit = leastSquares(columns, target);
  if (autolag) {
    let best = Number.POSITIVE_INFINITY;
    for (let k = 0; k <= wanted; k++) {
      const used = trends + 1 + k;
      // Akaike's criterion up to terms that all candidates share.
      const criterion = target.length * Math.log(fit.residualSquares[used]!) + 2 * used;
      if (criterion < best) {
        best = criterion;
        lags = k;
      }
    }
  }
  if (lags < wanted) {
    // Fewer lags leave more rows.
    ({ columns, target } = design(values, changes, lags, regression));
    fit = leastSquares(columns, target);
  }
  const { coefficients, residualSquares, variances } = fit;
  const observations = target.length;
  const left = residualSquares[columns.length]!;
  const freedom = observations - columns.length;
  const statistic = coefficients[trends]! / Math.sqrt((left / freedom) * variances[trends]!);
  const exact = left <= 1e-24 * residualSquares[0]!;
  if (freedom < 1 || exact || !Number.isFinite(statistic)) return null;
  const [one, five, ten] = SURFACES[regression].critical.map((row) => polynomial(row, 1 / observations));
  return {
    statistic,
    pValue: macKinnonP(statistic, regression),
    lags,
    observations,
    critical: { '1%': one!, '5%': five!, '10%': ten! },
  };
}

/** Columns: deterministic terms, lagged level, lagged differences 1 … lags; target: differences. Rows: N − 1 − lags. */
function design(
  values: Float64Array,
  changes: Float64Array,
  lags: number,
  regression: Regression,
): { columns: Float64Array[]; target: Float64Array } {
  const rows = changes.length - lags;
  const columns: Float64Array[] = [];
  if (regression !== 'n') columns.push(new Float64Array(rows).fill(1));
  if (regression === 'ct') columns.push(Float64Array.from({ length: rows }, (_, i) => i + 1));
  columns.push(values.slice(lags, lags + rows));
  for (let k = 1; k <= lags; k++) columns.push(changes.slice(lags - k, lags - k + rows));
  return { columns, target: changes.slice(lags) };
}

export interface StationarityTest {
  readonly statistic: number;
  /** Interpolated in the published table, hence in [0.01, 0.1]; small: not stationary. */
  readonly pValue: number;
  /** Lags in the long-run variance. */
  readonly lags: number;
  readonly critical: {
    readonly '10%': number;
    readonly '5%': number;
    readonly '2.5%': number;
    readonly '1%': number;
  };
}

/** Kwiatkowski et al. 1992, table 1; upper tail at 10, 5, 2.5 and 1 %. */
const KPSS_CRITICAL = { c: [0.347, 0.463, 0.574, 0.739], ct: [0.119, 0.146, 0.176, 0.216] } as const;
const KPSS_LEVELS = [0.1, 0.05, 0.025, 0.01] as const;

export interface StationarityOptions {
  /** Stationary about a constant (`c`, default) or about a line (`ct`). */
  readonly regression?: 'c' | 'ct';
  /** Lags of the Bartlett kernel, 0 … N − 1; default by Hobijn et al. (1998). */
  readonly lags?: number;
}

/**
 * KPSS test (Kwiatkowski, Phillips, Schmidt & Shin 1992): η = Σ S²ₜ / (N²·s²), S the partial sums of the residuals and s² their
 * long-run variance with a Bartlett kernel (Newey & West 1987). Null for a series that its constant or line fits
 * exactly, or of fewer than 3 values. Throws a DataError for values that are not finite. Cost O(N·lags).
 */
export function stationarityTest(
  values: Float64Array,
  options: StationarityOptions = {},
): StationarityTest | null {
  requireFinite(values, 'stationarity test');
  const { regression = 'c' } = options;
  const n = values.length;
  const { lags: given } = options;
  if (given !== undefined)
    requireWithin('stationarity test lags', given, 0, Math.max(0, n - 1), ` for ${n} samples`);
  if (n < 3 || values.every((value) => value === values[0])) return null;
  const { mean, std } = moments(values);
  const line = regression === 'ct' ? fitLine(values) : null;
  // A line stands on the mean at the centre: its intercept would lose digits against a large offset.
  const slope = line === null ? 0 : line.slope;
  const residuals = values.map((value, i) => value - mean - slope * (i - (n - 1) / 2));
  const variance = laggedProduct(residuals, 0);
  if (variance <= 1e-24 * n * std * std) return null;
  const lags = given ?? Math.min(n - 1, hobijnLags(residuals));
  let longRun = variance;
  for (let k = 1; k <= lags; k++) longRun += 2 * (1 - k / (lags + 1)) * laggedProduct(residuals, k);
  let partial = 0;
  let squares = 0;
  for (const residual of residuals) {
    partial += residual;
    squares += partial * partial;
  }
  const statistic = squares / n / longRun;
  const table = KPSS_CRITICAL[regression];
  return {
    statistic,
    pValue: interpolate(statistic, table, KPSS_LEVELS),
    lags,
    critical: { '10%': table[0], '5%': table[1], '2.5%': table[2], '1%': table[3] },
  };
}

/** Bandwidth of Hobijn, Franses & Ooms (1998) for a Bartlett kernel. */
function hobijnLags(residuals: Float64Array): number {
  const n = residuals.length;
  let total = laggedProduct(residuals, 0) / n;
  let weighted = 0;
  const last = Math.floor(n ** (2 / 9));
  for (let k = 1; k <= last; k++) {
    const pair = (2 * laggedProduct(residuals, k)) / n;
    total += pair;
    weighted += k * pair;
  }
  const ratio = weighted / total;
  return Math.floor(1.1447 * (ratio * ratio) ** (1 / 3) * n ** (1 / 3));
}

/** Linear between the points, constant outside; `x` ascending. */
function interpolate(at: number, x: readonly number[], y: readonly number[]): number {
  let k = 0;
  while (k < x.length && at > x[k]!) k++;
  if (k === 0) return y[0]!;
  if (k === x.length) return y[k - 1]!;
  return y[k - 1]! + ((at - x[k - 1]!) / (x[k]! - x[k - 1]!)) * (y[k]! - y[k - 1]!);
}

// Ordinary least squares for a few columns, by Householder reflections (Golub & Van Loan, algorithm 5.2.1).

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
 * Σ (Qᵀy)²ᵢ over i ≥ k. Cost: 2·N·P² operations; columns and target are not written to.
 */
export function leastSquares(columns: readonly Float64Array[], target: Float64Array): Fit {
  const n = target.length;
  const p = columns.length;
  const upper = columns.map((column) => column.slice()); // above the pivots: R
  const turned = target.slice(); // Qᵀy
  const diagonal = new Float64Array(p);
  const independent: number[] = [];
  const residualSquares = new Float64Array(p + 1);
  residualSquares[0] = squaresFrom(turned, 0);
  for (let c = 0; c < p; c++) {
    const v = upper[c]!;
    const rank = independent.length;
    const norm = Math.sqrt(squaresFrom(v, rank));
    const whole = Math.sqrt(squaresFrom(columns[c]!, 0));
    if (rank < n && norm > INDEPENDENT * whole) {
      const pivot = v[rank]!;
      const alpha = pivot > 0 ? -norm : norm;
      // v becomes the reflection's vector; what it annihilates is never read again.
      v[rank] = pivot - alpha;
      const squared = squaresFrom(v, rank);
      for (let k = c + 1; k < p; k++) reflect(upper[k]!, v, rank, squared);
      reflect(turned, v, rank, squared);
      diagonal[c] = alpha;
      independent.push(c);
    }
    residualSquares[c + 1] = squaresFrom(turned, independent.length);
  }
  const rank = independent.length;
  // Solve R·b = Qᵀy and R⁻¹ row by row, from the last independent column back.
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
