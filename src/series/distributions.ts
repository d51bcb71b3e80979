/** Tail probabilities that the tests of a series need, to about 14 digits. */

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
