/** What is expected of every sample, and the band that holds 99 % of the others. */
import { fitTail } from './tail.ts';

export interface Expectation {
  readonly expected: Float64Array; // [N]
  readonly low: Float64Array; // [N]
  readonly high: Float64Array; // [N]
}

export interface ExpectationOptions {
  /** Departures below this are none. */
  readonly floor: number;
  /** How much more or less than usual the values vary at a sample [N]. */
  readonly scale: Float64Array | null;
  /** Samples that do not count as others. */
  readonly unusual: (index: number) => boolean;
}

/** The band around what is expected [N] of values [N]. */
export function expectation(
  values: Float64Array,
  expected: Float64Array,
  { floor, scale, unusual }: ExpectationOptions,
): Expectation {
  const departures = values.map((value, i) => (value - expected[i]!) / (scale?.[i] ?? 1));
  const usual = departures.filter((_, i) => !unusual(i));
  const others = usual.length > 0 ? usual : departures;
  const { centre, ...tail } = fitTail(others, floor);
  // The tail says how far the values may go, the others how far they do.
  let [furthestAbove, furthestBelow] = [floor, floor];
  for (const departure of others) {
    furthestAbove = Math.max(furthestAbove, departure - centre);
    furthestBelow = Math.max(furthestBelow, centre - departure);
  }
  const bandAbove = Math.min(tail.bandAbove, furthestAbove);
  const bandBelow = Math.min(tail.bandBelow, furthestBelow);
  let [least, largest] = [Infinity, -Infinity];
  for (let i = 0; i < values.length; i++) {
    if (unusual(i) && usual.length > 0) continue;
    least = Math.min(least, values[i]!);
    largest = Math.max(largest, values[i]!);
  }
  // Where none of the others ever is, is outside: a count has no usual values below 0.
  return {
    expected,
    low: expected.map((value, i) =>
      Math.max(value + (centre - bandBelow) * (scale?.[i] ?? 1), Math.min(least, value)),
    ),
    high: expected.map((value, i) =>
      Math.min(value + (centre + bandAbove) * (scale?.[i] ?? 1), Math.max(largest, value)),
    ),
  };
}
