/**
 * Local regression at equally spaced points (Cleveland 1979), as seasonal-trend decomposition uses it: tricube weights over a
 * fixed number of neighbours, a constant or a line fitted at each point, robustness weights if given.
 */

export interface Loess {
  /** Odd number of neighbours, ≥ 3; more than there are points widens the bandwidth. */
  readonly window: number;
  readonly degree: 0 | 1;
  /** Points between two fits, ≥ 1; those between are interpolated linearly. */
  readonly jump: number;
}

/** Tricube weights for bandwidth h at distances −R … R, R = ⌊0.999·h⌋, the same times distance and distance², and their sum. */
interface Kernel {
  readonly reach: number;
  readonly weights: Float64Array; // [2R + 1]
  readonly leans: Float64Array; // [2R + 1]
  readonly squares: Float64Array; // [2R + 1]
  readonly total: number;
}

function tricube(h: number): Kernel {
  const reach = Math.floor(0.999 * h);
  const weights = new Float64Array(2 * reach + 1);
  const leans = new Float64Array(2 * reach + 1);
  const squares = new Float64Array(2 * reach + 1);
  let total = 0;
  for (let k = 0; k < weights.length; k++) {
    const distance = k - reach;
    const part = Math.abs(distance) / h;
    const rest = 1 - part * part * part;
    const weight = Math.abs(distance) <= 0.001 * h ? 1 : rest * rest * rest;
    weights[k] = weight;
    leans[k] = weight * distance;
    squares[k] = weight * distance * distance;
    total += weight;
  }
  return { reach, weights, leans, squares, total };
}

/** Weighted mean over the kernel about `at`, all of it inside the series: there a line's value is its mean. */
function symmetricFit(values: Float64Array, at: number, { reach, weights, total }: Kernel): number {
  let sum = weights[reach]! * values[at]!;
  for (let d = 1; d <= reach; d++) sum += weights[reach + d]! * (values[at - d]! + values[at + d]!);
  return sum / total;
}

/**
 * Value at `at` of the line (or constant) fitted to the neighbours from … to; NaN where every weight is 0. Moments of distance and value
 * are summed in one pass, values against one of them, so that an offset does not cancel digits. Where the neighbours lie
 * within `narrow` of one place, the fit is a constant.
 */
function weightedFit(
  values: Float64Array,
  trust: Float64Array,
  at: number,
  from: number,
  to: number,
  { reach, weights, leans, squares }: Kernel,
  degree: 0 | 1,
  narrow: number,
): number {
  const near = values[Math.min(to, Math.max(from, at))]!;
  let w0 = 0;
  let w1 = 0;
  let w2 = 0;
  let y0 = 0;
  let y1 = 0;
  for (let j = from, k = from - at + reach; j <= to; j++, k++) {
    const own = trust[j]!;
    const value = values[j]! - near;
    const weight = own * weights[k]!;
    const lean = own * leans[k]!;
    w0 += weight;
    w1 += lean;
    w2 += own * squares[k]!;
    y0 += weight * value;
    y1 += lean * value;
  }
  if (!(w0 > 0)) return Number.NaN;
  const mean = y0 / w0;
  if (degree === 0) return near + mean;
  const centre = w1 / w0;
  const spread = w2 / w0 - centre * centre;
  if (!(Math.sqrt(spread) > narrow)) return near + mean;
  return near + mean - (centre * (y1 / w0 - centre * mean)) / spread;
}

/**
 * `weightedFit` where the kernel lies inside the series: neighbours at one distance share its factors. `trusted` holds trust times value.
 */
function pairedFit(
  trusted: Float64Array,
  trust: Float64Array,
  at: number,
  { reach, weights, leans, squares }: Kernel,
  degree: 0 | 1,
  narrow: number,
): number {
  let w0 = weights[reach]! * trust[at]!;
  let w1 = 0;
  let w2 = 0;
  let y0 = weights[reach]! * trusted[at]!;
  let y1 = 0;
  for (let d = 1; d <= reach; d++) {
    const before = trust[at - d]!;
    const after = trust[at + d]!;
    const valueBefore = trusted[at - d]!;
    const valueAfter = trusted[at + d]!;
    const weight = weights[reach + d]!;
    const lean = leans[reach + d]!;
    w0 += weight * (after + before);
    w1 += lean * (after - before);
    w2 += squares[reach + d]! * (after + before);
    y0 += weight * (valueAfter + valueBefore);
    y1 += lean * (valueAfter - valueBefore);
  }
  if (!(w0 > 0)) return Number.NaN;
  const mean = y0 / w0;
  if (degree === 0) return mean;
  const centre = w1 / w0;
  const spread = w2 / w0 - centre * centre;
  if (!(Math.sqrt(spread) > narrow)) return mean;
  return mean - (centre * (y1 / w0 - centre * mean)) / spread;
}

/** Smoother for series of one length with one set of options: it keeps the weights of each bandwidth. */
export class Smoother {
  readonly #n: number;
  readonly #options: Loess;
  readonly #narrow: number;
  readonly #kernels = new Map<number, Kernel>();
  /** That of a window about its middle. */
  readonly #inner: Kernel;
  readonly #equal: Float64Array; // [N]
  readonly #trusted: Float64Array; // [N]

  constructor(n: number, options: Loess) {
    this.#n = n;
    this.#options = options;
    this.#narrow = 0.001 * (n - 1);
    this.#inner = this.#kernelOf((options.window - 1) >> 1);
    this.#equal = new Float64Array(n).fill(1);
    this.#trusted = new Float64Array(n);
  }

  #kernelOf(h: number): Kernel {
    const known = this.#kernels.get(h);
    if (known !== undefined) return known;
    const made = tricube(h);
    this.#kernels.set(h, made);
    return made;
  }

  /**
   * Fit at position `at` (0-based, may lie outside the series) from neighbours first … last: the value, or NaN where every
   * weight is 0. `robust` [N] multiplies the weights.
   */
  fit(values: Float64Array, at: number, first: number, last: number, robust: Float64Array | null): number {
    const { window, degree } = this.#options;
    let h = Math.max(at - first, last - at);
    if (window > this.#n) h += (window - this.#n) >> 1;
    const kernel = this.#kernelOf(h);
    // Neighbours beyond the kernel have weight 0.
    const from = Math.max(first, at - kernel.reach);
    const to = Math.min(last, at + kernel.reach);
    return weightedFit(values, robust ?? this.#equal, at, from, to, kernel, degree, this.#narrow);
  }

  /** Smooths `values` [N] into `out` [N]. A point whose neighbours all have weight 0 keeps its value. */
  smooth(values: Float64Array, robust: Float64Array | null, out: Float64Array): void {
    const n = this.#n;
    if (n < 2) {
      out[0] = values[0]!;
      return;
    }
    const jump = Math.min(this.#options.jump, n - 1);
    // Values against one of them, so that an offset does not cancel digits.
    const near = values[0]!;
    if (robust !== null) for (let i = 0; i < n; i++) this.#trusted[i] = robust[i]! * (values[i]! - near);
    let previous = 0;
    for (let i = 0; ; ) {
      const value = this.#fitInside(values, i, robust, near);
      out[i] = Number.isNaN(value) ? values[i]! : value;
      if (i - previous > 1) {
        const step = (out[i]! - out[previous]!) / (i - previous);
        for (let k = previous + 1; k < i; k++) out[k] = out[previous]! + step * (k - previous);
      }
      if (i === n - 1) return;
      previous = i;
      i = Math.min(n - 1, i + jump);
    }
  }

  /** Fit at a point of the series from the window about it, which is moved inwards at the ends. */
  #fitInside(values: Float64Array, i: number, robust: Float64Array | null, near: number): number {
    const n = this.#n;
    const { window, degree } = this.#options;
    const half = (window - 1) >> 1;
    if (i >= half && i + half < n) {
      const inner = this.#inner;
      if (robust === null) return symmetricFit(values, i, inner);
      return near + pairedFit(this.#trusted, robust, i, inner, degree, this.#narrow);
    }
    if (window >= n) return this.fit(values, i, 0, n - 1, robust);
    const first = i < half ? 0 : n - window;
    return this.fit(values, i, first, first + window - 1, robust);
  }
}
