/** The samples of a recording that travel in a page: all of a short one; of a long one those that its plot needs. */
import type { ReportColumn, ReportSource } from './report.ts';
import { offsetAt, zoneOffsets } from './report-time.ts';

/** Bytes of samples in a page, before they are written in base64. */
const BUDGET = 1_050_000;
/** Of value, expected value, band (float32) and score (uint16). */
const BYTES = 18;
/** Samples around one finding that are kept in full, or by their extremes where there are more. */
const AROUND = 2000;
/** Parts of the whole of which at least the extremes are kept. */
const FEWEST_PARTS = 300;

/** A stretch [start, end) in samples. */
type Stretch = readonly [start: number, end: number];

/** A stretch with what lies before and after it: three times its length, and at least 50 samples. */
export function context(start: number, end: number, samples: number): Stretch {
  const around = Math.max(3 * (end - start), 50);
  return [Math.max(0, start - around), Math.min(samples, end + around)];
}

/** Marks the least and the largest value, the largest score and a missing value of each of `parts` parts of a stretch. */
function markExtremes(
  { values, detection }: ReportColumn,
  [start, end]: Stretch,
  parts: number,
  marks: Uint8Array,
): void {
  const size = (end - start) / Math.max(1, parts);
  for (let part = 0; part < parts; part++) {
    const [from, to] = [Math.floor(start + part * size), Math.floor(start + (part + 1) * size)];
    let [least, largest, score, gap] = [-1, -1, from, -1];
    for (let i = from; i < to; i++) {
      const value = values[i]!;
      if (Number.isNaN(value)) gap = i;
      else {
        if (least < 0 || value < values[least]!) least = i;
        if (largest < 0 || value > values[largest]!) largest = i;
      }
      if (detection.score[i]! > detection.score[score]!) score = i;
    }
    for (const i of [least, largest, gap]) if (i >= 0) marks[i] = 1;
    if (from < to) marks[score] = 1;
  }
}

/**
 * Indices of the samples to keep, rising, about `most` of them: everything where it fits; else the extremes of equal parts of the
 * whole, and around each stretch of `important` (most important first) all samples, or the extremes of 1000 parts.
 */
export function keptSamples(column: ReportColumn, important: readonly Stretch[], most: number): Uint32Array {
  const n = column.values.length;
  if (n <= most) return Uint32Array.from({ length: n }, (_, i) => i);
  const marks = new Uint8Array(n);
  marks[0] = marks[n - 1] = 1;
  const count = (): number => marks.reduce((sum, mark) => sum + mark, 0);
  const share = Math.min(AROUND, Math.floor((most * 0.7) / Math.max(1, important.length)));
  for (const [start, end] of important) {
    const [from, to] = context(start, end, n);
    if (to - from <= share) marks.fill(1, from, to);
    else {
      markExtremes(column, [from, to], Math.floor(share / 3), marks);
      marks[start] = marks[end - 1] = 1;
    }
  }
  markExtremes(column, [0, n], Math.max(FEWEST_PARTS, Math.floor((most - count()) / 3)), marks);
  const kept = new Uint32Array(count());
  for (let i = 0, k = 0; i < n; i++) if (marks[i] === 1) kept[k++] = i;
  return kept;
}

/** The longest unit of which a length of time has at least two. */
export function axisUnit(ms: number): readonly [name: string, ms: number] {
  const units = [
    ['days', 86_400_000],
    ['hours', 3_600_000],
    ['minutes', 60_000],
  ] as const;
  return units.find(([, size]) => ms >= 2 * size) ?? ['seconds', 1000];
}

/**
 * Places of the samples on the axis of the plot: the clock of the recording's zone as ms; a number of units where the times have no
 * date; without time the samples' numbers.
 */
export function axisPlaces({ time, zone, origin, columns }: ReportSource): Float64Array {
  const n = columns[0]?.values.length ?? 0;
  if (time === null || n === 0) return Float64Array.from({ length: n }, (_, i) => i);
  if (origin !== 'calendar') {
    const [, unit] = axisUnit(time[n - 1]! - time[0]!);
    return time.map((ms) => ms / unit);
  }
  const offsets = zoneOffsets(zone, time[0]!, time[n - 1]!);
  return offsets.length === 1
    ? time.map((ms) => ms + offsets[0]!.offset)
    : time.map((ms) => ms + offsetAt(offsets, ms));
}

/** Samples after which nothing was recorded for more than three usual steps. */
export function breaksOf({ time, step }: Pick<ReportSource, 'time' | 'step'>): number[] {
  if (time === null || time.length < 3) return [];
  const steps = time.subarray(1).map((ms, i) => ms - time[i]!);
  const usual = step ?? [...steps].sort((a, b) => a - b)[Math.floor(steps.length / 2)]!;
  const breaks: number[] = [];
  for (let i = 0; i < steps.length; i++) if (steps[i]! > 3 * usual) breaks.push(i);
  return breaks;
}

function base64(array: ArrayBufferView): string {
  return Buffer.from(array.buffer, array.byteOffset, array.byteLength).toString('base64');
}

/** Numbers as base64 of float32, of value = base + scale × number: large offsets and magnitudes keep their digits. */
export interface EncodedNumbers {
  readonly base: number;
  readonly scale: number;
  readonly data: string;
}

/** NaN stays; the values between 1e−30 and 1e30 in magnitude that vary by more than a thousandth of it go as they are. */
export function encodeNumbers(values: Float64Array): EncodedNumbers {
  let [least, largest] = [Infinity, -Infinity];
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    least = Math.min(least, value);
    largest = Math.max(largest, value);
  }
  const magnitude = Math.max(Math.abs(least), Math.abs(largest));
  const spread = largest / 2 - least / 2;
  const offset = spread > 0 && spread < magnitude / 1000;
  const base = offset ? least / 2 + largest / 2 : 0;
  const size = offset ? spread : magnitude;
  const scale = size > 1e30 || (size < 1e-30 && size > 0) ? size : 1;
  return { base, scale, data: base64(Float32Array.from(values, (value) => (value - base) / scale)) };
}

/** A column as it travels. */
export interface PageColumn {
  readonly name: string;
  /** Indices of the kept samples (uint32), null where all are kept; and their places where they are not evenly spaced (float64). */
  readonly index: string | null;
  readonly place: string | null;
  readonly kept: number;
  readonly value: EncodedNumbers;
  readonly expected: EncodedNumbers;
  readonly low: EncodedNumbers;
  readonly high: EncodedNumbers;
  /** Hundredths (uint16). */
  readonly score: string;
}

/** Distance of neighbouring places where it is the same everywhere; else null. */
export function evenStep(places: Float64Array): number | null {
  const step = places.length < 2 ? 1 : (places.at(-1)! - places[0]!) / (places.length - 1);
  for (let i = 0; i < places.length; i++) {
    if (Math.abs(places[i]! - (places[0]! + i * step)) > 1e-3 * step) return null;
  }
  return step;
}

/** A column as the page carries it, within its share of the page's size; in most detail around `findings`, most severe first. */
export function pageColumn(
  column: ReportColumn,
  findings: readonly { readonly start: number; readonly end: number }[],
  { places, even, columns }: { places: Float64Array; even: boolean; columns: number },
): PageColumn {
  const { values, detection } = column;
  const most = Math.floor(
    BUDGET / columns / (BYTES + (even ? 0 : 8) + (values.length > 50_000 / columns ? 4 : 0)),
  );
  const important = findings.slice(0, 100).map(({ start, end }) => [start, end] as const);
  const kept = keptSamples(column, important, most);
  const all = kept.length === values.length;
  const pick = (from: Float64Array): Float64Array => (all ? from : Float64Array.from(kept, (i) => from[i]!));
  return {
    name: column.name,
    index: all ? null : base64(kept),
    place: even ? null : base64(pick(places)),
    kept: kept.length,
    value: encodeNumbers(pick(values)),
    expected: encodeNumbers(pick(detection.expected)),
    low: encodeNumbers(pick(detection.low)),
    high: encodeNumbers(pick(detection.high)),
    score: base64(
      Uint16Array.from(pick(detection.score), (score) => Math.min(65_535, Math.round(100 * score))),
    ),
  };
}
