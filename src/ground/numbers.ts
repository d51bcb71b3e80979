/** Numbers: means and quantiles of small lists, and numbers, intervals and durations as text. */
import type { Estimate } from './types.ts';

/** Sum, from the first value to the last. */
export function sum(values: ArrayLike<number>): number {
  let total = 0;
  for (let i = 0; i < values.length; i++) total += values[i]!;
  return total;
}

/** Joins vectors into one. */
export function concatenate(parts: readonly Float32Array[]): Float32Array {
  const joined = new Float32Array(sum(parts.map(({ length }) => length)));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}

/**
 * Rounds to nine significant digits. Logarithms and powers differ in their last digits between JavaScript engines and their versions; what
 * is reported must not.
 */
export const engineFree = (value: number): number => Number(value.toPrecision(9));

/** Rounds to a whole number, halves to the even one, as Python's `round` does. */
export function roundHalfEven(value: number): number {
  const floor = Math.floor(value);
  if (value - floor !== 0.5) return Math.round(value);
  return floor % 2 === 0 ? floor : floor + 1;
}

/** Arithmetic mean; NaN for no values. */
export const mean = (values: ArrayLike<number>): number => sum(values) / values.length;

/** Arithmetic mean; null for no values. */
export const meanOrNull = (values: ArrayLike<number>): number | null =>
  values.length === 0 ? null : mean(values);

/** Divides values into `most` parts of about one length, or one for each value where they are fewer. */
export function partsOf<Value>(values: readonly Value[], most: number): Value[][] {
  const count = Math.min(values.length, most);
  const start = (part: number): number => Math.floor((part * values.length) / count);
  return Array.from({ length: count }, (_, part) => values.slice(start(part), start(part + 1)));
}

/** Least and largest value, missing ones (NaN) aside; [∞, −∞] for none. */
export function extent(values: ArrayLike<number>): [low: number, high: number] {
  let [low, high] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (let i = 0; i < values.length; i++) {
    const value = values[i]!;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [low, high];
}

/** Quantile `q` in [0, 1] of sorted values, linear between neighbours (Hyndman & Fan type 7). */
export function quantile(sorted: ArrayLike<number>, q: number): number {
  const position = q * (sorted.length - 1);
  const below = Math.floor(position);
  const low = sorted[below]!;
  return low + (position - below) * (sorted[Math.min(below + 1, sorted.length - 1)]! - low);
}

const MINUS = '\u2212';

/** Fixed decimals with a true minus sign; no "−0.000". */
export function fixed(value: number, decimals = 3): string {
  const text = Math.abs(value).toFixed(decimals);
  return value < 0 && Number(text) !== 0 ? MINUS + text : text;
}

/** `fixed` with a sign: "+0.015", "−0.002"; a value that rounds to 0 has none: "0.000". */
export function signed(value: number, decimals = 3): string {
  const text = fixed(value, decimals);
  return text.startsWith(MINUS) || Number(text) === 0 ? text : `+${text}`;
}

/** Formats an interval: "[0.81, 0.85]". */
export function interval(
  estimate: Pick<Estimate, 'ci95'>,
  format: (value: number) => string = fixed,
): string {
  return `[${format(estimate.ci95[0])}, ${format(estimate.ci95[1])}]`;
}

/** Formats a difference: "+0.015 [−0.002, +0.032]"; no change at all is a plain "0.000". */
export function change(estimate: Pick<Estimate, 'mean' | 'ci95'>): string {
  const mean = signed(estimate.mean);
  const ends = estimate.ci95.map((value) => signed(value));
  return ends.every((end) => end === mean && Number(end) === 0) ? mean : `${mean} [${ends.join(', ')}]`;
}

/** Formats a p-value: "0.012", "< .001". */
export const pText = (p: number): string => (p < 0.001 ? '< .001' : fixed(p));

/** Formats a large count: 930000 → "0.93 M", 12345 → "12.3 k", 3.09e9 → "3.09 B". */
export function compact(value: number): string {
  const [scale, unit] =
    value >= 1e9 ? [1e9, ' B'] : value >= 5e5 ? [1e6, ' M'] : value >= 1e4 ? [1e3, ' k'] : [1, ''];
  const scaled = value / scale;
  const decimals = scale === 1 ? 0 : scaled >= 100 ? 0 : scaled >= 10 ? 1 : 2;
  return scaled.toFixed(decimals) + unit.replace(' ', '\u202f');
}

/** Separates thousands by thin spaces: 30000 → "30 000". */
export function grouped(value: number): string {
  return Math.round(value)
    .toString()
    .replace(/\B(?=(\d{3})+$)/g, '\u202f');
}

/** Counts things: plural(1, 'row') → "1 row", plural(2, 'row') → "2 rows". */
export const plural = (count: number, one: string, many = `${one}s`): string =>
  `${count} ${count === 1 ? one : many}`;

/** Capitalises the first letter. */
export function upperFirst(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Lower-cases the first letter, for a label inside a sentence. */
export function lowerFirst(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1);
}

/** Formats a share in percent: percent(0.125) → "12.5 %"; `space` stands before the sign. */
export const percent = (share: number, decimals = 1, space = '\u202f'): string =>
  `${(100 * share).toFixed(decimals)}${space}%`;

/** Formats seconds: 4.25 → "4.3 s", 118 → "1 min 58 s". */
export function duration(seconds: number): string {
  if (seconds < 10) return `${seconds.toFixed(1)}\u202fs`;
  if (seconds < 60) return `${Math.round(seconds)}\u202fs`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)}\u202fmin ${whole % 60}\u202fs`;
  return `${Math.floor(whole / 3600)}\u202fh ${Math.round((whole % 3600) / 60)}\u202fmin`;
}
