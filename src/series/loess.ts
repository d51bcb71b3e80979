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

/** Tricube weights by distance in points, for bandwidth h: [⌊0.999·h⌋ + 1]. */
function tricube(h: number): Float64Array {
  const last = Math.floor(0.999 * h);
  const table = new Float64Array(last + 1);
  for (let r = 0; r <= last; r++) table[r] = r <= 0.001 * h ? 1 : (1 - (r / h) ** 3) ** 3;
  return table;
}

/** Smoother for series of one length with one set of options: it keeps the weights of each bandwidth. */
export class Smoother {
  readonly #n: number;
  readonly #options: Loess;
  readonly #tables = new Map<number, Float64Array>();
  readonly #weights: Float64Array;

  constructor(n: number, options: Loess) {
    this.#n = n;
    this.#options = options;
    this.#weights = new Float64Array(n);
  }

  /**
   * Fit at position `at` (0-based, may lie outside the series) from neighbours first … last: the value, or NaN where every
   * weight is 0. `robust` [N] multiplies the weights.
   */
  fit(values: Float64Array, at: number, first: number, last: number, robust: Float64Array | null): number {
    const n = this.#n;
    const { window, degree } = this.#options;
    const weights = this.#weights;
    let h = Math.max(at - first, last - at);
    if (window > n) h += (window - n) >> 1;
    let table = this.#tables.get(h);
    if (table === undefined) {
      table = tricube(h);
      this.#tables.set(h, table);
    }
    // Neighbours beyond the table have weight 0.
    const from = Math.max(first, at - table.length + 1);
    const to = Math.min(last, at + table.length - 1);
    let total = 0;
    for (let j = from; j <= to; j++) {
      const near = table[j < at ? at - j : j - at]!;
      const weight = robust === null ? near : robust[j]! * near;
      weights[j] = weight;
      total += weight;
    }
    if (!(total > 0)) return Number.NaN;
    let slope = 0;
    let centre = 0;
    if (degree === 1 && h > 0) {
      for (let j = from; j <= to; j++) centre += weights[j]! * j;
      centre /= total;
      let spread = 0;
      for (let j = from; j <= to; j++) spread += weights[j]! * (j - centre) * (j - centre);
      spread /= total;
      // Where the neighbours lie too close together for a slope, the fit is a constant.
      if (Math.sqrt(spread) > 0.001 * (n - 1)) slope = (at - centre) / spread;
    }
    let sum = 0;
    if (slope === 0) for (let j = from; j <= to; j++) sum += weights[j]! * values[j]!;
    else for (let j = from; j <= to; j++) sum += weights[j]! * (slope * (j - centre) + 1) * values[j]!;
    return sum / total;
  }

  /** Smooths `values` [N] into `out` [N]. A point whose neighbours all have weight 0 keeps its value. */
  smooth(values: Float64Array, robust: Float64Array | null, out: Float64Array): void {
    const n = this.#n;
    const { window } = this.#options;
    if (n < 2) {
      out[0] = values[0]!;
      return;
    }
    const jump = Math.min(this.#options.jump, n - 1);
    const half = (window + 1) >> 1;
    const fitAt = (i: number): void => {
      let first = 0;
      let last = n - 1;
      if (window < n) {
        first = Math.min(Math.max(0, i - half + 1), n - window);
        last = first + window - 1;
      }
      const value = this.fit(values, i, first, last, robust);
      out[i] = Number.isNaN(value) ? values[i]! : value;
    };
    let previous = 0;
    fitAt(0);
    const fill = (i: number): void => {
      fitAt(i);
      const step = (out[i]! - out[previous]!) / (i - previous);
      for (let k = previous + 1; k < i; k++) out[k] = out[previous]! + step * (k - previous);
      previous = i;
    };
    for (let i = jump; i < n; i += jump) fill(i);
    if (previous < n - 1) fill(n - 1);
  }
}
