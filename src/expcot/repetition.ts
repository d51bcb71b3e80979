/** Whether a series repeats in cycles of any shape: pulses, working days, heart beats, whose power is spread over many frequencies. */
import { seriesOfSpectrum, spectrum } from '../series/spectrum.ts';
import { FEWEST_CYCLES } from './line.ts';

/**
 * Correlation with itself one cycle later from which a series repeats. Measured on series without a spectral line: pulses, jobs and
 * beats with noise from 0.92; random walks, autoregressions and white noise up to 0.45, nano5 and AnomLLM up to 0.39.
 */
const REPEATS_FROM = 0.7;
/** Samples and lag from which correlations are more than chance. */
const SHORTEST_SERIES = 40;
const SHORTEST_CYCLE = 4;
/** The shortest lag whose correlation is this part of the largest is the cycle: the others are its multiples. */
const FIRST_PART = 0.8;
/** Correlation below which the series has left itself: smaller lags are no cycles but the smoothness of the curve. */
const LEFT_BELOW = 0.3;

export interface Repetition {
  /** Samples of a cycle, between the samples. */
  readonly period: number;
  /** Correlation with itself that many samples later, over the pairs there are: in [−1, 1]. */
  readonly correlation: number;
}

/** r[lag] = Σ x[i]·x[i + lag] / √(Σ x[i]² · Σ x[i + lag]²) over the pairs there are: [N] → [lags + 1]. Cost O(N·log N). */
function correlations(level: Float64Array, lags: number): Float64Array {
  const n = level.length;
  const padded = new Float64Array(2 ** Math.ceil(Math.log2(n + lags + 1))); // zeros keep the ends apart
  padded.set(level);
  const transformed = spectrum(padded);
  const power = transformed.re.map((re, k) => re * re + transformed.im[k]! ** 2);
  const products = seriesOfSpectrum({ n: padded.length, re: power, im: new Float64Array(power.length) });
  const squares = new Float64Array(n + 1); // Σ x[i]² over i < k
  for (let i = 0; i < n; i++) squares[i + 1] = squares[i]! + level[i]! ** 2;
  return Float64Array.from({ length: lags + 1 }, (_, lag) => {
    const size = Math.sqrt(squares[n - lag]! * (squares[n]! - squares[lag]!));
    return size === 0 ? 0 : Math.max(-1, Math.min(1, products[lag]! / size));
  });
}

/** Where a parabola through a maximum and its neighbours is highest. */
function vertex(values: Float64Array, at: number): number {
  const [left, middle, right] = [values[at - 1]!, values[at]!, values[at + 1] ?? values[at]!];
  const bend = left - 2 * middle + right;
  return bend >= 0 ? at : at + Math.max(-0.5, Math.min(0.5, (left - right) / (2 * bend)));
}

/** The cycle of a series [N] without its trend, of which at least four are seen; null without one. All values must be finite. */
export function repetition(level: Float64Array): Repetition | null {
  const n = level.length;
  if (n < SHORTEST_SERIES) return null;
  const longest = Math.floor(n / FEWEST_CYCLES);
  const r = correlations(level, longest + 1); // [longest + 2]
  const left = r.findIndex((value) => value < LEFT_BELOW);
  if (left < 0) return null;
  const peaks: number[] = [];
  for (let lag = Math.max(left, SHORTEST_CYCLE); lag <= longest; lag++) {
    if (r[lag]! >= r[lag - 1]! && r[lag]! >= r[lag + 1]!) peaks.push(lag);
  }
  const most = peaks.reduce((best, lag) => Math.max(best, r[lag]!), 0);
  if (!(most >= REPEATS_FROM)) return null;
  const first = peaks.find((lag) => r[lag]! >= Math.max(FIRST_PART * most, REPEATS_FROM))!;
  let period = vertex(r, first);
  // Every further cycle doubles the lever on its length.
  for (let cycles = 2; cycles * period <= longest; cycles *= 2) {
    const near = Math.round(cycles * period);
    const around = [near - 1, near, near + 1].filter((lag) => lag <= longest);
    const best = around.reduce((a, b) => (r[b]! > r[a]! ? b : a));
    if (r[best]! < FIRST_PART * most) break;
    period = vertex(r, best) / cycles;
  }
  return { period, correlation: r[first]! };
}
