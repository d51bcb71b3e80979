/** Decimal numbers straight from the bytes of a file: no string per number, and the same float64 as `Number`. */

const ZERO = 48;
const NINE = 57;
const PLUS = 43;
const MINUS = 45;
const POINT = 46;

/** Powers of ten that float64 holds exactly. */
const POWERS = Array.from({ length: 23 }, (_, i) => Number(`1e${i}`));

/** Digits whose integers float64 holds exactly, whatever they are. */
const EXACT_DIGITS = 15;

/**
 * The number written in `bytes[from, to)`: digits with an optional sign, point and exponent. NaN for anything else;
 * an infinity where the number is too large for float64.
 *
 * With at most 15 digits and a power of ten up to 22, one multiplication or division of exact values rounds
 * correctly (W. D. Clinger, How to read floating point numbers accurately, 1990); the rest is left to `Number`.
 */
export function decimal(bytes: Buffer, from: number, to: number): number {
  let at = from;
  const negative = bytes[at] === MINUS;
  if (negative || bytes[at] === PLUS) at++;
  let mantissa = 0;
  let digits = 0;
  let significant = 0;
  let scale = 0;
  let code = at < to ? bytes[at]! : 0;
  while (code >= ZERO && code <= NINE) {
    if (significant > 0 || code !== ZERO) significant++;
    mantissa = mantissa * 10 + (code - ZERO);
    digits++;
    code = ++at < to ? bytes[at]! : 0;
  }
  if (code === POINT) {
    code = ++at < to ? bytes[at]! : 0;
    while (code >= ZERO && code <= NINE) {
      if (significant > 0 || code !== ZERO) significant++;
      mantissa = mantissa * 10 + (code - ZERO);
      digits++;
      scale--;
      code = ++at < to ? bytes[at]! : 0;
    }
  }
  if (digits === 0) return Number.NaN;
  if (at < to && (code | 32) === 101) {
    code = ++at < to ? bytes[at]! : 0;
    const down = code === MINUS;
    if (down || code === PLUS) code = ++at < to ? bytes[at]! : 0;
    if (code < ZERO || code > NINE) return Number.NaN;
    let exponent = 0;
    while (code >= ZERO && code <= NINE) {
      if (exponent < 100_000) exponent = exponent * 10 + (code - ZERO);
      code = ++at < to ? bytes[at]! : 0;
    }
    scale += down ? -exponent : exponent;
  }
  if (at < to) return Number.NaN;
  if (significant > EXACT_DIGITS || scale > 22 || scale < -22)
    return Number(bytes.toString('latin1', from, to));
  const size = scale < 0 ? mantissa / POWERS[-scale]! : mantissa * POWERS[scale]!;
  return negative ? -size : size;
}
