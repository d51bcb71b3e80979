/** Finds what is unusual in a file of numbers by the classical detector, without any policy: reads, detects column by column, reports. */
import { basename } from 'node:path';
import { performance } from 'node:perf_hooks';
import { type Recording, readRecording } from '../../datasets/readers/recording.ts';
import { type DetectOptions, detect } from '../detect/detect.ts';
import type { Detection } from '../detect/finding.ts';
import { buildReport, type ReportSource, reportSource } from '../explain/report.ts';
import { offsetAt, zoneOffsets } from '../explain/report-time.ts';
import type { AnomalyReport } from '../explain/schema.ts';
import { verify } from '../explain/verify.ts';
import { DataError } from '../ground/errors.ts';
import { Progress } from '../ground/progress.ts';

export interface DetectRequest extends Omit<DetectOptions, 'calendar' | 'clock'> {
  readonly file: string;
  readonly columns: readonly string[];
  readonly time: string | undefined;
  readonly key: string | undefined;
  readonly select: string | undefined;
  readonly tz: string | undefined;
}

export interface Detected {
  readonly source: ReportSource;
  readonly report: AnomalyReport;
  readonly seconds: number;
}

const HOUR = 3_600_000;

/** Samples of an hour, a day and a week, where the step makes whole ones. */
export function calendarOf({ step, time }: Pick<Recording, 'step' | 'time'>): number[] {
  if (time === null || step === null) return [];
  return [HOUR, 24 * HOUR, 168 * HOUR].map((span) => span / step).filter((samples) => samples >= 3);
}

/**
 * Samples that the clock of a recording is ahead of what it was at the beginning [N]: it goes forward in spring and back in autumn.
 * Undefined where it is never changed.
 */
export function clockOf({
  step,
  time,
  zone,
  origin,
}: Pick<Recording, 'step' | 'time' | 'zone' | 'origin'>): Int32Array | undefined {
  if (time === null || step === null || time.length === 0 || origin !== 'calendar') return undefined;
  const offsets = zoneOffsets(zone, time[0]!, time.at(-1)!);
  if (offsets.length === 1) return undefined;
  return Int32Array.from(time, (ms) => Math.round((offsetAt(offsets, ms) - offsets[0]!.offset) / step));
}

/**
 * Detects in every column of a recording.
 * @param name what the report calls the recording
 * @throws DataError for values that cannot be judged; ConfigError for an option out of range
 */
export async function detectRecording(
  name: string,
  recording: Recording,
  options: Omit<DetectOptions, 'calendar' | 'clock'>,
  onColumn: (done: number) => void = () => {},
): Promise<Omit<Detected, 'seconds'>> {
  const calendar = calendarOf(recording);
  const clock = clockOf(recording);
  const detections = [];
  for (const { values } of recording.columns) {
    detections.push(detect(values, { ...options, calendar, ...(clock === undefined ? {} : { clock }) }));
    onColumn(detections.length);
    await new Promise(setImmediate);
  }
  const source = reportSource(name, recording, detections);
  const report = buildReport(source);
  verify(report, source);
  return { source, report };
}

/**
 * @throws DataError for a file that cannot be read as a recording; ConfigError for an option that names what is not there
 */
export async function detectFile(request: DetectRequest): Promise<Detected> {
  const started = performance.now();
  const { file, columns, time, key, select, tz, ...options } = request;
  const recording = readRecording(file, {
    ...(columns.length === 0 ? {} : { columns }),
    ...{ time, key, select, tz },
  });
  const progress =
    recording.columns.length > 1
      ? new Progress({ label: 'detect', total: recording.columns.length, unit: 'columns' })
      : null;
  try {
    const detected = await detectRecording(basename(file), recording, options, (done) => {
      progress?.update(done);
      if (done === recording.columns.length) progress?.stop();
    });
    return { ...detected, seconds: (performance.now() - started) / 1000 };
  } finally {
    progress?.stop();
  }
}

/** Share of the step by which times may jitter. */
const JITTER = 0.1;

/** Step of evenly spaced, ascending times in ms. @throws DataError */
function evenStep(times: Float64Array, count: number): number {
  if (times.length !== count)
    throw new DataError(`times: got ${times.length} for ${count} values; give one for each`);
  const steps = times.subarray(1).map((time, i) => time - times[i]!);
  const step = steps.toSorted()[steps.length >> 1]!;
  const odd = steps.findIndex((one) => !(Math.abs(one - step) <= JITTER * step));
  if (step > 0 && odd < 0) return step;
  throw new DataError(
    `times: entry ${odd + 1} does not follow the one before by the step of ${step} ms; give evenly spaced, ascending times, with NaN ` +
      'for missing values, or read a file with explain()',
  );
}

/**
 * Detects in one series given as numbers. @param times ms since 1970 or dates; null: not known
 * @throws DataError for values that cannot be judged or times that are uneven; ConfigError for an option out of range
 */
export function detectValues(
  values: ArrayLike<number>,
  times: ArrayLike<number | Date> | null,
  options: Omit<DetectOptions, 'calendar' | 'clock'>,
): Detection {
  const series = Float64Array.from(values, (value, i) => {
    if (typeof value === 'number') return value;
    throw new DataError(`values: got ${String(value)} at ${i}, expected a number, NaN where missing`);
  });
  if (times === null || series.length < 2) return detect(series, options);
  const time = Float64Array.from(times, Number);
  return detect(series, { ...options, calendar: calendarOf({ step: evenStep(time, series.length), time }) });
}
