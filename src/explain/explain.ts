/**
 * How a file of numbers becomes a page:
 *
 *   1. datasets/csv.ts   reads the file: values, NaN where one is missing, and time stamps
 *   2. `clean`           rescales extreme magnitudes and bridges gaps by straight lines
 *   3. findings.ts       runs the classical analyses, which see neither the policy nor any label, and says what each found
 *   4. windows.ts        cuts windows, asks the policy (reader.ts) about each, and merges its answers
 *   5. page.ts           writes page and JSON
 *
 * Defined for every series of at least two samples, finite or missing (NaN), with at least one value. A constant one is normal, and
 * no policy is asked. Work and memory are bounded whatever the length: at most MOST_WINDOWS windows are answered, and the analyses
 * bound themselves.
 */

import { ConfigError, DataError } from '../errors.ts';
import type { Gaps } from '../expcot/evidence.ts';
import { figureSvg } from '../plot/svg.ts';
import { coverage, mergeIntervals, overlap } from '../series/intervals.ts';
import { bridge } from '../series/missing.ts';
import type { Interval, Json } from '../types.ts';
import { classicalFindings } from './findings.ts';
import type { ExplainedInterval, ExplainedWindow, Explanation } from './page.ts';
import { type Reader, UNTAUGHT_LENGTH } from './reader.ts';
import { askWindows, cutWindows, mergeWindows, windowSize, withPictures } from './windows.ts';

/** Most windows answered: a million samples in overlapping windows of 1000. Beyond, windows are longer. */
export const MOST_WINDOWS = 2048;
/** A window of fewer samples is said to be short. */
const FEW_SAMPLES = 100;
export const NORMAL = 'normal';
export const UNREADABLE = 'unreadable';

export interface ExplainSource {
  /** As the page names it. */
  readonly file: string;
  readonly column: string | null;
  readonly values: Float64Array; // [N], N ≥ 2; finite, or NaN where missing
  readonly time: readonly string[] | null; // [N]
}

export interface ExplainOptions {
  /** Samples per window; when absent, what shows the policy what it was taught (see `windowSize`). */
  readonly window?: number;
  /** Share that neighbouring windows have in common, in [0, 0.9]; half when absent. */
  readonly overlap?: number;
  /** Windows answered so far, of all. */
  readonly onProgress?: (done: number, total: number) => void;
  readonly environment?: Readonly<Record<string, Json>>;
}

/** Values whose squares stay inside float64, and the power of ten that they were divided by (0: untouched). NaN stays. */
export function tame(values: Float64Array): { readonly values: Float64Array; readonly exponent: number } {
  let largest = 0;
  for (const value of values) {
    if (Number.isNaN(value)) continue;
    if (!Number.isFinite(value)) {
      throw new DataError(`value ${value}: only finite values can be explained; fill the gap or remove it`);
    }
    largest = Math.max(largest, Math.abs(value));
  }
  if (largest === 0 || (largest <= 1e100 && largest >= 1e-100)) return { values, exponent: 0 };
  const exponent = Math.floor(Math.log10(largest));
  // In two steps: 10^−exponent itself may be beyond float64.
  const half = Math.trunc(exponent / 2);
  const [a, b] = [10 ** -half, 10 ** -(exponent - half)];
  return { values: values.map((value) => value * a * b), exponent };
}

/**
 * The class of the whole: of the windows with anomalies that survived the merge, the class with the most such samples;
 * `normal` without any, `unreadable` when no window could be read. A window that names no anomaly although it marks one
 * decides only where all such windows do.
 */
export function classOf(windows: readonly ExplainedWindow[], merged: readonly Interval[]): string {
  if (windows.length > 0 && windows.every((one) => one.intervals === null)) return UNREADABLE;
  if (merged.length === 0) return NORMAL;
  const weights = new Map<string, number>();
  for (const one of windows) {
    if (one.intervals === null || one.class === null) continue;
    const samples = overlap(one.intervals, merged);
    if (samples > 0) weights.set(one.class, (weights.get(one.class) ?? 0) + samples);
  }
  const ranked = [...weights].sort((a, b) => b[1] - a[1]).map(([name]) => name);
  return ranked.find((name) => name !== NORMAL) ?? ranked[0] ?? UNREADABLE;
}

/** Intersection over union of two lists of sorted, disjoint intervals; 1 when both are empty. */
export function agreement(a: readonly Interval[], b: readonly Interval[]): number {
  const shared = overlap(a, b);
  const all = coverage(a) + coverage(b) - shared;
  return all === 0 ? 1 : shared / all;
}

/** Few enough bands for a plot: those closer than its pixels are one. */
const PLOT_WIDTH = 1072;
function bands(intervals: readonly Interval[], length: number): Interval[] {
  return mergeIntervals(intervals, Math.floor(length / (PLOT_WIDTH / 2)));
}

function caveatsOf(
  source: ExplainSource,
  { exponent, gaps }: Clean,
  reader: Reader | null,
  windows: readonly ExplainedWindow[],
  period: number | null,
): string[] {
  const caveats: string[] = [];
  const constant = windows.length === 0 && reader !== null;
  if (constant)
    caveats.push('Every value is the same: there is nothing to find, and the policy was not asked.');
  if (exponent !== 0) {
    caveats.push(
      `The values are of the order of 1e${exponent}, too extreme to square in double precision: plot and analyses show them in units of 1e${exponent}.`,
    );
  }
  if (gaps.missing > 0) {
    const runs = gaps.gaps === 1 ? 'one gap' : `${gaps.gaps} gaps, the longest of ${gaps.longest}`;
    const those = gaps.missing === 1 ? '1 value is' : `${gaps.missing} values are`;
    caveats.push(
      `${those} missing (${runs}). The plot leaves them out; for the analyses${windows.length > 0 ? ' and the policy' : ''} straight lines bridge them.`,
    );
  }
  if (windows.length > 0 && reader !== null) {
    const size = windows[0]!.end - windows[0]!.start;
    const { length } = reader;
    const periods = period === null ? '' : `, about ${Number((size / period).toPrecision(2))} periods each`;
    if (length !== null) {
      const resampled = size === length ? '' : `, resampled to ${length} points`;
      caveats.push(
        `The policy was taught on series of ${length} points. It sees windows of ${size} samples${resampled}${periods}, each drawn on its own scale.`,
      );
    }
    caveats.push(...reader.caveats);
    if (size < FEW_SAMPLES) {
      caveats.push(`${size} samples are few: a picture of them shows hardly any shape to go by.`);
    }
    const torn = windows.filter(
      (one) =>
        one.intervals !== null &&
        one.class !== null &&
        (one.intervals.length === 0) !== (one.class === NORMAL),
    ).length;
    if (torn > 0) {
      caveats.push(
        `In ${torn} of ${windows.length} windows the class and the intervals contradict each other; the intervals count.`,
      );
    }
  }
  if (reader === null)
    caveats.push('No policy was asked: this is what the classical analyses say on their own.');
  caveats.push(
    'The classical evidence is computed from the values alone, by fixed rules; it neither sees nor corrects the policy’s answer.',
  );
  if (source.time !== null) {
    caveats.push(
      'Time stamps are those of the first and last sample inside an interval; samples are taken as evenly spaced.',
    );
  }
  return caveats;
}

function explained(
  intervals: readonly Interval[],
  classical: readonly Interval[],
  time: readonly string[] | null,
): ExplainedInterval[] {
  return intervals.map(([start, end]) => ({
    start,
    end,
    from: time?.[start] ?? null,
    to: time?.[end - 1] ?? null,
    confirmed: overlap([[start, end]], classical) > 0,
  }));
}

/** A series as plot, analyses and policy take it. */
interface Clean {
  /** In units of 10^exponent; NaN where missing. */
  readonly given: Float64Array; // [N]
  /** The same with gaps bridged. */
  readonly values: Float64Array; // [N]
  readonly exponent: number;
  readonly gaps: Gaps;
}

/** @throws DataError for fewer than two samples, no value at all, or an infinite one */
function clean({ file, values: read }: ExplainSource): Clean {
  if (read.length < 2) throw new DataError(`${read.length} samples; a series needs at least 2`, { file });
  const { values: given, exponent } = tame(read);
  const { values, ...gaps } = bridge(given);
  return { given, values, exponent, gaps };
}

/**
 * The explanation of a series. Without a reader the classical analyses answer alone.
 *
 * @throws ConfigError for a window or overlap out of range; DataError for a series of fewer than two samples, without any value or with
 * infinite ones
 */
export async function explain(
  source: ExplainSource,
  reader: Reader | null,
  options: ExplainOptions = {},
): Promise<Explanation> {
  const series = clean(source);
  const { given, values } = series;
  const { length } = values;
  if (options.window !== undefined && reader === null) {
    throw new ConfigError('window: there is no policy that would see windows; give one, or leave it out');
  }
  const { classical, period } = classicalFindings(given);
  const taught = reader?.length ?? null;
  const size = options.window ?? (taught === null ? UNTAUGHT_LENGTH : windowSize(taught, period));
  const plan = cutWindows(length, { size, overlap: options.overlap ?? 0.5, limit: MOST_WINDOWS });
  const asked = reader !== null && values.some((value) => value !== values[0]);
  const windows = asked ? await askWindows(values, reader, plan, options.onProgress) : [];
  const found = asked ? mergeWindows(length, windows) : classical.intervals;
  return {
    file: source.file,
    column: source.column,
    length,
    policy: asked ? reader.name : null,
    class: asked ? classOf(windows, found) : classical.class,
    intervals: explained(found, classical.intervals, source.time),
    windows: asked ? await withPictures(values, reader, windows) : [],
    classical: windows.some((one) => one.intervals !== null)
      ? { ...classical, agreement: agreement(found, classical.intervals) }
      : classical,
    figure: await figureSvg(given, {
      gold: asked ? bands(classical.intervals, length) : [],
      predicted: bands(found, length),
      names: { gold: 'classical', predicted: asked ? 'policy' : 'classical' },
      width: PLOT_WIDTH,
      height: 220,
    }),
    caveats: caveatsOf(source, series, reader, windows, period),
    environment: {
      ...(asked ? { policy: reader.record } : {}),
      ...options.environment,
    },
  };
}
