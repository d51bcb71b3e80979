/**
 * Pipeline of detect, explain, --follow and serve: read → detect → ask a policy, if one is named → build the report → verify it.
 */
import { fstatSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { performance } from 'node:perf_hooks';
import { isUcrAnomaly } from '../../datasets/readers/anomaly-files.ts';
import { parseDuration, parseInstant } from '../../datasets/readers/clock.ts';
import type { Note } from '../../datasets/readers/quality.ts';
import {
  type Recording,
  readRecording,
  recordingOfSeries,
  wallTime,
} from '../../datasets/readers/recording.ts';
import { type Earlier, precede } from '../../datasets/readers/side-by-side.ts';
import type { EngineName } from '../answer/answerer.ts';
import { DEFAULT_POLICY, shippedPolicy } from '../answer/reference.ts';
import { type DetectOptions, detect, FEWEST_SAMPLES } from '../detect/detect.ts';
import type { Detection } from '../detect/finding.ts';
import { moved } from '../detect/moved.ts';
import { buildReport, type PolicyOpinion, type ReportSource, reportSource } from '../explain/report.ts';
import { checkTarget, defaultTarget, writeReport } from '../explain/report-page.ts';
import type { AnomalyReport } from '../explain/schema.ts';
import { sinceReport } from '../explain/state.ts';
import { verify } from '../explain/verify.ts';
import { ConfigError, DataError } from '../ground/errors.ts';
import { readBytes, STANDARD_INPUT } from '../ground/files.ts';
import { withInterrupt } from '../ground/interrupt.ts';
import { grouped } from '../ground/numbers.ts';
import { onOneLine, say } from '../ground/terminal.ts';
import type { Interval } from '../ground/types.ts';
import { runs } from '../series/intervals.ts';

/** Range query of a Prometheus server as a command line has it. */
export interface PrometheusRequest {
  readonly url: string;
  readonly query: string;
  /** Durations such as `7d` and `1m`; defaults: as far back as `since`, else a day; a minute. */
  readonly history?: string | undefined;
  readonly step?: string | undefined;
  /** File with the bearer token; default: that of the environment. */
  readonly tokenFile?: string | undefined;
  /** File with certificates of authorities. */
  readonly caFile?: string | undefined;
}

/** Options of detection but those that the times of a recording decide. */
type AskedOptions = Omit<DetectOptions, 'calendar' | 'clock' | 'clocks' | 'weekends' | 'dates'>;

export interface DetectRequest extends AskedOptions {
  /** Name of the recording, where it comes from a server. */
  readonly file: string;
  readonly prometheus?: PrometheusRequest | undefined;
  /** File with earlier samples of the same columns. */
  readonly history?: string | undefined;
  readonly columns: readonly string[];
  readonly time: string | undefined;
  readonly key: string | undefined;
  readonly select: string | undefined;
  readonly tz: string | undefined;
  readonly keepSentinels?: boolean | undefined;
  /** Decimal separator; default: as the numbers show. */
  readonly decimal?: '.' | ',' | undefined;
  /** Span to judge, as in PipelineOptions. */
  readonly window?: string | undefined;
  /** Columns to judge as rates per second; `auto`: those that look like counters. Default: none. */
  readonly rate?: readonly string[] | undefined;
}

export interface Detected {
  readonly source: ReportSource;
  readonly report: AnomalyReport;
  readonly seconds: number;
}

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

/** Times of a recording, and the clock that they were read by. */
type Timed = Pick<Recording, 'step' | 'time' | 'clockZone' | 'origin'>;

/** Samples of an hour, a day and a week, where the step makes whole ones. */
export function calendarOf({ step, time }: Pick<Timed, 'step' | 'time'>): number[] {
  if (time === null || step === null) return [];
  return [HOUR, DAY, 7 * DAY].map((span) => span / step).filter((samples) => samples >= 3);
}

/** Zones with the usual dates on which clocks are changed: those of Europe, of America from east to west, and of Australia. */
const CHANGING_ZONES = ['Europe/Berlin', 'America/New_York', 'America/Los_Angeles', 'Australia/Sydney'];
/** Time that two changes of a clock are apart at least. */
const SUMMER = 14 * DAY;
/** Fewest days that show what months repeat. */
const FEWEST_DATES = 120;

/**
 * Samples that the clock of a recording is ahead of what it was at the beginning [N]: it goes forward in spring and back in autumn. One
 * clock where it is known, because stamps were read by it; else those that may be, and `detect` finds out; none where no clock is changed.
 */
export function clocksOf({ step, time, clockZone, origin }: Timed): Pick<DetectOptions, 'clock' | 'clocks'> {
  if (time === null || step === null || time.length === 0 || origin !== 'calendar') return {};
  const changed = (zone: string): Int32Array[] => {
    const ahead = (i: number): number => Math.round(wallTime(time[i]!, zone) - time[i]!);
    const first = ahead(0);
    const clock = new Int32Array(time.length);
    const fill = (start: number, end: number): void => {
      const offset = ahead(start);
      const middle = (start + end) >> 1;
      if (ahead(end - 1) === offset && time[end - 1]! - time[start]! < SUMMER)
        clock.fill(Math.round((offset - first) / step), start, end);
      else
        for (const [a, b] of [
          [start, middle],
          [middle, end],
        ] as const)
          fill(a, b);
    };
    fill(0, time.length);
    return clock.some((samples) => samples !== 0) ? [clock] : [];
  };
  if (clockZone === null || /^(?:UTC|[+-])/.test(clockZone))
    return { clocks: CHANGING_ZONES.flatMap(changed) };
  const [clock] = changed(clockZone);
  return clock === undefined ? {} : { clock };
}

/** Weekends [start, end) in samples; none where three weeks are recorded, so that weeks repeat, or days are not known. */
export function weekendsOf({ step, time, clockZone, origin }: Timed): Interval[] {
  if (time === null || step === null || origin !== 'calendar' || time.length < 2) return [];
  if (DAY < 3 * step || time.at(-1)! + step - time[0]! >= 21 * DAY) return [];
  return runs(time.length, (i) => new Date(wallTime(time[i]!, clockZone)).getUTCDay() % 6 === 0);
}

/** Wall times of a daily series of several months; none otherwise. */
function datesOf({ step, time, clockZone, origin }: Timed): Pick<DetectOptions, 'dates'> {
  if (time === null || origin !== 'calendar' || step !== DAY || time.length < FEWEST_DATES) return {};
  return { dates: Float64Array.from(time, (ms) => wallTime(ms, clockZone)) };
}

/** Collects what the times of a recording tell the detector. */
const knownTimes = (recording: Pick<Recording, 'step' | 'time' | 'clockZone' | 'origin'>) => ({
  ...{ calendar: calendarOf(recording), weekends: weekendsOf(recording) },
  ...{ ...clocksOf(recording), ...datesOf(recording) },
});

export interface PipelineOptions extends AskedOptions {
  /** Span "FROM..TO" that is judged against everything before it; default: the whole recording is judged. */
  readonly window?: string | undefined;
  /** Leaves out what was over before; see `sinceReport`. */
  readonly since?: string | undefined;
  /** Words for that moment; see `sinceReport`. */
  readonly before?: string | undefined;
  /** Asks a policy about the columns from a sample on; undefined where it cannot be asked. */
  readonly ask?: ((source: ReportSource, from: number) => Promise<PolicyOpinion | undefined>) | undefined;
  /** Index of the first sample that is judged and that a policy is asked about. Default: 0. */
  readonly from?: number | undefined;
  readonly onColumn?: (done: number) => void;
}

/**
 * Samples of a span "FROM..TO", half-open: times as for --since, an open end, or samples where there is no time.
 * @throws ConfigError for another form, and a span with nothing inside or too little before it
 */
function spanOf(text: string, { time, zone, rows: { length } }: Recording): Interval {
  const fault = (problem: string): ConfigError => new ConfigError(`--window ${text}: ${problem}`);
  const [from = '', to = '', ...rest] = text.split('..');
  if (rest.length > 0 || from === '' || !text.includes('..'))
    throw fault('expected FROM..TO, such as 2025-03-04T05:00..2025-03-04T10:00, 6h..2h, or 6h.. to the end');
  const sampleOf = (end: string): number => {
    if (time === null) {
      if (/^\d+$/.test(end)) return Math.min(length, Number(end));
      throw fault(
        'the recording has no time; give samples, such as 900..960, or name the column with --time',
      );
    }
    const at = parseInstant(end, '--window', zone, time.at(-1) ?? 0);
    const first = time.findIndex((ms) => ms >= at);
    return first < 0 ? length : first;
  };
  const [start, end] = [sampleOf(from), to === '' ? length : sampleOf(to)];
  if (start > end) throw fault('FROM comes after TO; exchange them');
  if (start === end) throw fault('holds no sample of the recording');
  if (start < FEWEST_SAMPLES)
    throw fault(`only ${start} samples come before it; at least ${FEWEST_SAMPLES} show what is usual`);
  return [start, end];
}

const samplesWords = (n: number): string => (n === 1 ? '1 sample' : `${grouped(n)} samples`);

/** Tells what was compared, and which columns have no value in the window. */
function windowNotes({ columns, rows: { length } }: Recording, [start, end]: Interval): Note[] {
  const later = length - end;
  const after = later === 0 ? '' : `; the ${samplesWords(later)} after were not read`;
  const isEmpty = ({ values }: Recording['columns'][number]): boolean =>
    values.subarray(start, end).every(Number.isNaN) && !values.subarray(0, start).every(Number.isNaN);
  return [
    {
      ...{ kind: 'window', count: end - start },
      text: `Compared ${samplesWords(end - start)} with the ${grouped(start)} before${after}.`,
    },
    ...columns.filter(isEmpty).map(({ name }) => ({
      ...{ kind: 'missing', column: name, count: end - start },
      text: `${name} has no value in the window.`,
    })),
  ];
}

/**
 * Makes the verified report of a recording.
 *
 * @param name of the recording in the report
 * @throws DataError for values that cannot be judged; ConfigError for an option out of range
 */
export async function detectRecording(
  name: string,
  recording: Recording,
  { since, before, window, ask, from = 0, onColumn, ...options }: PipelineOptions,
): Promise<Omit<Detected, 'seconds'>> {
  const known = { ...options, ...knownTimes(recording) };
  const span = window === undefined ? null : spanOf(window, recording);
  if (span !== null && span[1] <= from)
    throw new ConfigError(`--window ${window}: ends before the recording begins, in its --history`);
  const detections = [];
  for (const { values } of recording.columns) {
    detections.push(span === null ? detect(values, known) : moved(values, span, known));
    onColumn?.(detections.length);
    await new Promise(setImmediate);
  }
  const notes = span === null ? [] : windowNotes(recording, span);
  const told = { ...recording, notes: [...notes, ...recording.notes] };
  const source = reportSource(onOneLine(name), told, detections, span ?? undefined);
  const whole = buildReport(source, await ask?.(source, from));
  const report = since === undefined ? whole : sinceReport(whole, since, before);
  verify(report, source);
  return { source, report };
}

/** Environment variable with the bearer token of a Prometheus server. */
export const PROMETHEUS_TOKEN = 'PROMETHEUS_TOKEN';

/** A duration above 0 in ms. @throws ConfigError */
function durationOf(text: string, option: string): number {
  const ms = parseDuration(text) ?? 0;
  if (ms >= 1) return ms;
  throw new ConfigError(`${option} ${text}: expected a duration such as 30s, 5m, 6h or 7d`);
}

/**
 * Reads the series of a Prometheus query until now. Times are whole steps, so that a later run sees the same samples.
 * @throws ConfigError, EndpointError, DataError as `readRange`
 */
async function readPrometheus(
  { url, query, history, step: interval = '1m', tokenFile, caFile }: PrometheusRequest,
  since: string | undefined,
  request: DetectRequest,
): Promise<Recording> {
  const { readRange } = await import('../endpoint/prometheus.ts');
  const { bearerToken, readAuthorities } = await import('../endpoint/requests.ts');
  const step = durationOf(interval, '--step');
  const now = Math.floor(Date.now() / step) * step;
  const asked = since === undefined ? null : parseInstant(since, '--since', request.tz ?? 'UTC', now);
  const back =
    history === undefined ? (asked === null ? DAY : now - asked) : durationOf(history, '--history');
  if (back < step) throw new ConfigError('--since: asks for less than one --step before now');
  const token = bearerToken(tokenFile, PROMETHEUS_TOKEN);
  if (token !== null && /^http:\/\/(?!localhost\b|127\.|\[::1\])/i.test(url))
    say('note: the token is sent unencrypted; use an https: address where you can');
  const ca = readAuthorities(caFile);
  const range = await withInterrupt((signal) =>
    readRange(
      { url, query, from: now - Math.floor(back / step) * step, to: now, step, token, ca },
      signal,
      say,
    ),
  );
  const notes = range.warnings.map((text) => ({ kind: 'partial', text: `Prometheus warns: ${text}.` }));
  if (range.infinite > 0)
    notes.push({ kind: 'infinite', text: `${range.infinite} values are infinite and count as missing.` });
  return recordingOfSeries({ ...range, name: request.file, notes }, readingOf(request));
}

/**
 * Reads a file that holds one series without times and is no table, by the reader of data sets.
 * @throws DataError for several series; ConfigError for options of tables
 */
async function readSeries(request: DetectRequest): Promise<Recording> {
  const { file } = request;
  for (const option of ['time', 'key', 'select', 'decimal'] as const)
    if (request[option] !== undefined)
      throw new ConfigError(`--${option}: ${file} holds a series without times, no table; leave it out`);
  const { readRecords } = await import('../../datasets/readers/formats.ts');
  const records = [...readRecords(file)];
  const [record] = records;
  if (record === undefined || records.length > 1)
    throw new DataError(
      `${records.length} series, one is read: save x[0], or an array of points and columns as CSV: np.savetxt('x.csv', x, delimiter=',')`,
      { file },
    );
  const columns = record.channels.map((values, c) => ({ name: record.channelNames[c]!, values }));
  return recordingOfSeries({ name: file, time: null, columns, notes: [] }, readingOf(request));
}

/**
 * Reads the recording of a request, from a file, standard input or a server.
 * @throws DataError for a file that cannot be read as a recording; ConfigError for an option that names what is not there; EndpointError
 */
export async function readRequest(request: DetectRequest, since?: string): Promise<Recording> {
  const { prometheus, file } = request;
  if (prometheus !== undefined) return readPrometheus(prometheus, since, request);
  if (/\.npy$/i.test(file) || isUcrAnomaly(file)) return readSeries(request);
  if (file !== STANDARD_INPUT) return readRecording(file, readingOf(request));
  return readRecording(readStandardInput(), { ...readingOf(request), name: INPUT_WORDS });
}

/** Options of the reader of a recording; without columns it takes all numeric ones. */
export function readingOf(request: Omit<DetectRequest, 'file' | 'window' | 'history'>) {
  const { columns, time, key, select, tz, keepSentinels, decimal, rate } = request;
  const chosen = columns.length === 0 ? {} : { columns };
  return { ...chosen, time, key, select, tz, keepSentinels, decimal, rate };
}

/**
 * Puts earlier samples in front of a recording: of the file that the request names, else those that the policy was adapted to, where they
 * fit. Only what ends after them is reported.
 * @throws ConfigError for a file whose samples do not come before those of the recording; otherwise as `readRecording`
 */
function withHistory(
  recording: Recording,
  request: DetectRequest,
  known: readonly Earlier[],
  since: string | undefined,
): Pick<PipelineOptions, 'since' | 'before' | 'from'> & { readonly recording: Recording } {
  const { history } = request;
  const start = recording.time?.[0];
  // A recording that begins with what the policy was adapted to has its history inside.
  const isBefore = ({ time }: Earlier): boolean => start === undefined || time![0]! < start;
  const earlier =
    history === undefined ? known.filter(isBefore) : [readRecording(history, readingOf(request))];
  if (earlier.length === 0) return { recording, since };
  const whose = history === undefined ? ' that the policy was adapted to' : ` of ${basename(history)}`;
  const joined = precede(recording, earlier, onOneLine(whose));
  if (typeof joined === 'string') {
    if (history !== undefined)
      throw new ConfigError(
        `--history ${history}: ${joined}; name a recording of the same columns that ends before it`,
      );
    const text = `Earlier samples that the policy was adapted to are not used: ${joined}.`;
    return { recording: { ...recording, notes: [{ kind: 'history', text }, ...recording.notes] }, since };
  }
  const { time, zone } = joined.recording;
  const [first, last] = [time![joined.start]!, time!.at(-1)!];
  const after = { recording: joined.recording, from: joined.start };
  if (since !== undefined && parseInstant(since, '--since', zone, last) > first) return { ...after, since };
  return { ...after, since: new Date(first).toISOString(), before: 'the recording begins' };
}

/**
 * Detects in the recording of a request.
 * @param earlier samples that may come before it
 * @param given the recording, where it was read before
 * @throws as `readRequest`, `withHistory` and `detectRecording`
 */
export async function detectFile(
  request: DetectRequest,
  {
    earlier = [],
    ...also
  }: Pick<PipelineOptions, 'since' | 'ask'> & { readonly earlier?: readonly Earlier[] } = {},
  given?: Recording,
): Promise<Detected> {
  const started = performance.now();
  const {
    prometheus,
    file,
    history: _,
    columns,
    time,
    key,
    select,
    tz,
    keepSentinels,
    decimal,
    rate,
    ...options
  } = request;
  const read = given ?? (await readRequest(request, also.since));
  const { recording, ...after } = withHistory(read, request, earlier, also.since);
  const progress =
    recording.columns.length > 1
      ? new (await import('../ground/progress.ts')).Progress({
          ...{ label: 'detect', total: recording.columns.length, unit: 'columns' },
        })
      : null;
  try {
    const onColumn = (done: number): void => {
      progress?.update(done);
      if (done === recording.columns.length) progress?.stop();
    };
    const isPath = prometheus === undefined && given === undefined;
    const detected = await detectRecording(isPath ? basename(file) : file, recording, {
      ...{ ...options, ...also, ...after, onColumn },
    });
    return { ...detected, seconds: (performance.now() - started) / 1000 };
  } finally {
    progress?.stop();
  }
}

const INPUT_WORDS = 'standard input';

/** @throws DataError where standard input is neither a pipe nor a file */
function readStandardInput(): Buffer {
  const input = fstatSync(0);
  if (input.isSocket()) return readFileSync(0);
  if (input.isFIFO() || input.isFile()) return readBytes(STANDARD_INPUT);
  throw new DataError('is neither a pipe nor a file; pipe a CSV file into it', { file: INPUT_WORDS });
}

/** Share of the step by which times may jitter. */
const JITTER = 0.1;

/** Step of evenly spaced, ascending times in ms. @throws DataError */
function evenStep(times: Float64Array, count: number): number {
  if (times.length !== count)
    throw new DataError(`times: got ${times.length} for ${count} values; give one for each`);
  const steps = times.subarray(1).map((time, i) => time - times[i]!);
  const step = steps.toSorted()[steps.length >> 1]!;
  const odd = steps.findIndex((length) => !(Math.abs(length - step) <= JITTER * step));
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
  options: AskedOptions,
): Detection {
  if (
    typeof (values as Partial<ArrayLike<number>> | undefined)?.length !== 'number' ||
    typeof values === 'string'
  ) {
    throw new DataError(`values: got ${String(values)}, expected a list of numbers, NaN where missing`);
  }
  const series = Float64Array.from(values, (value, i) => {
    if (typeof value === 'number') return value;
    throw new DataError(`values: got ${String(value)} at ${i}, expected a number, NaN where missing`);
  });
  if (times === null || series.length < 2) return detect(series, options);
  const time = Float64Array.from(times, Number);
  const timing = { step: evenStep(time, series.length), time };
  const recording = { ...timing, clockZone: null, origin: 'calendar' } as const;
  return detect(series, { ...options, ...knownTimes(recording) });
}

export interface PolicyRequest {
  /** Reference to a policy on this machine, or `none`; default: small, or with `inspect` the one that looks closer. */
  readonly policy: string | undefined;
  readonly engine?: EngineName | undefined;
  readonly device: string | undefined;
  readonly window?: number | undefined;
  readonly overlap?: number | undefined;
  /** True: let a large policy look closer over several turns. A policy trained to always does. */
  readonly inspect?: boolean | undefined;
}

export interface ExplainRequest extends PolicyRequest {
  readonly detect: DetectRequest;
  /** Moment or span, as for `sinceReport`. */
  readonly since: string | undefined;
  readonly out: string | undefined;
}

/** Value of --policy for the detector alone. */
export const NONE = 'none';

/** @throws ConfigError for an option about a policy where none is asked */
function checkAlone({ window, overlap, engine, device }: PolicyRequest): void {
  const given = Object.entries({ engine, device, window, overlap }).find(([, value]) => value !== undefined);
  if (given === undefined) return;
  throw new ConfigError(
    `--${given[0]}: has no effect without a policy; name one with --policy, or leave --${given[0]} out`,
  );
}

/** Opens the policy that is asked; null for none. */
async function openPolicy(request: PolicyRequest) {
  const { policy } = request;
  if (policy === NONE || (policy === undefined && shippedPolicy(DEFAULT_POLICY) === null)) {
    checkAlone(request);
    if (policy === undefined) say('note: this copy of timeseer ships no policy; only the detector answers');
    return null;
  }
  const { openAsked } = await import('./explain.ts');
  return openAsked(request);
}

type Pictures = Parameters<typeof writeReport>[3];

/**
 * Detects in one file or Prometheus query and asks a policy, with progress on standard error.
 *
 * @param given the recording, where it was read before
 * @throws ConfigError for a wrong option; DataError for a wrong file; CheckpointError for a missing or damaged policy;
 * EngineError without libtorch
 */
export async function detectAndAsk(
  request: DetectRequest,
  policy: PolicyRequest,
  since: string | undefined,
  given?: Recording,
): Promise<Detected & { readonly pictures: Pictures }> {
  const opened = await openPolicy(policy);
  try {
    let seen: Awaited<ReturnType<NonNullable<typeof opened>['ask']>>['columns'] = [];
    const ask = async (source: ReportSource, from: number): Promise<PolicyOpinion> => {
      const opinion = await opened!.ask(source, from);
      seen = opinion.columns;
      return opinion;
    };
    const also = { since, earlier: opened?.earlier ?? [], ask: opened === null ? undefined : ask };
    const detected = await detectFile(request, also, given);
    return { ...detected, pictures: new Map(seen.map((answers) => [answers.column, answers.seen])) };
  } finally {
    await opened?.close();
  }
}

/** A report, and the files that it was written to. */
export interface Explained {
  readonly source: ReportSource;
  readonly report: AnomalyReport;
  readonly files: { readonly html: string; readonly json: string };
  readonly seconds: number;
}

/**
 * Explains one CSV file or Prometheus query, with progress on standard error. After an error or an interruption neither of the two files is written.
 *
 * @throws WriteError when the disk refuses; otherwise as `detectAndAsk`
 */
export async function explainFile(request: ExplainRequest): Promise<Explained> {
  const started = performance.now();
  const { file, columns, select, prometheus } = request.detect;
  const chosen = [...(select === undefined ? [] : [select === '*' ? 'all' : select]), ...columns];
  const out =
    request.out ??
    (prometheus === undefined ? defaultTarget(file, chosen) : defaultTarget('prometheus', [file, ...chosen]));
  checkTarget(out);
  const { source, report, pictures } = await detectAndAsk(request.detect, request, request.since);
  const files = writeReport(out, report, source, pictures);
  return { source, report, files, seconds: (performance.now() - started) / 1000 };
}
