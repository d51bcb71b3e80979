/** Tricube kernels and their sums about the points of a series: what local regression at equally spaced points is made of. */

/** Tricube weights for bandwidth h at distances −R … R, R = ⌊0.999·h⌋, the same times distance and distance², and their sum. */
export interface Kernel {
  readonly reach: number;
  readonly weights: Float64Array; // [2R + 1]
  readonly leans: Float64Array; // [2R + 1]
  readonly squares: Float64Array; // [2R + 1]
  readonly total: number;
}

export function tricube(h: number): Kernel {
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

/**
 * Σ kernel[R + d]·x[i + d] over d = −R … R of an even kernel [2R + 1] about each i in [from, to), all of it inside of x: into out[i].
 * Four at a time: they share what is read.
 */
export function evenSums(
  kernel: Float64Array,
  x: Float64Array,
  from: number,
  to: number,
  out: Float64Array,
): void {
  const reach = kernel.length >> 1;
  let i = from;
  for (; i + 3 < to; i += 4) {
    let left0 = x[i]!;
    let left1 = x[i + 1]!;
    let left2 = x[i + 2]!;
    let right1 = left1;
    let right2 = left2;
    let right3 = x[i + 3]!;
    const middle = kernel[reach]!;
    let sum0 = middle * left0;
    let sum1 = middle * left1;
    let sum2 = middle * left2;
    let sum3 = middle * right3;
    let left3 = right3;
    for (let d = 1; d <= reach; d++) {
      const weight = kernel[reach + d]!;
      left3 = left2;
      left2 = left1;
      left1 = left0;
      left0 = x[i - d]!;
      const right0 = right1;
      right1 = right2;
      right2 = right3;
      right3 = x[i + 3 + d]!;
      sum0 += weight * (left0 + right0);
      sum1 += weight * (left1 + right1);
      sum2 += weight * (left2 + right2);
      sum3 += weight * (left3 + right3);
    }
    out[i] = sum0;
    out[i + 1] = sum1;
    out[i + 2] = sum2;
    out[i + 3] = sum3;
  }
  for (; i < to; i++) {
    let sum = kernel[reach]! * x[i]!;
    for (let d = 1; d <= reach; d++) sum += kernel[reach + d]! * (x[i - d]! + x[i + d]!);
    out[i] = sum;
  }
}

/** The same with an even and an odd kernel at once, two places at a time. */
export function bothSums(
  { reach, weights, leans }: Kernel,
  x: Float64Array,
  from: number,
  to: number,
  evens: Float64Array,
  odds: Float64Array,
): void {
  const middle = weights[reach]!;
  let i = from;
  for (; i + 1 < to; i += 2) {
    let left0 = x[i]!;
    let right1 = x[i + 1]!;
    let left1 = right1;
    let even0 = middle * left0;
    let even1 = middle * right1;
    let odd0 = 0;
    let odd1 = 0;
    for (let d = 1; d <= reach; d++) {
      const weight = weights[reach + d]!;
      const lean = leans[reach + d]!;
      left1 = left0;
      left0 = x[i - d]!;
      const right0 = right1;
      right1 = x[i + 1 + d]!;
      even0 += weight * (right0 + left0);
      odd0 += lean * (right0 - left0);
      even1 += weight * (right1 + left1);
      odd1 += lean * (right1 - left1);
    }
    evens[i] = even0;
    evens[i + 1] = even1;
    odds[i] = odd0;
    odds[i + 1] = odd1;
  }
  for (; i < to; i++) {
    let even = middle * x[i]!;
    let odd = 0;
    for (let d = 1; d <= reach; d++) {
      even += weights[reach + d]! * (x[i + d]! + x[i - d]!);
      odd += leans[reach + d]! * (x[i + d]! - x[i - d]!);
    }
    evens[i] = even;
    odds[i] = odd;
  }
}
