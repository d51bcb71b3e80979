/**
 * What was found in a recording, as a record: the page, the files for other programs and the state file are made from it alone.
 *
 * Built from the recording and what the detector says about each column; checked by a schema (`REPORT`), and against the values by
 * `verify.ts` before it is printed.
 */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { DAY, HOUR, type TimeOrigin } from '../../datasets/readers/clock.ts';
import { formatTime, type Recording, wallTime } from '../../datasets/readers/recording.ts';
import { shown } from '../detect/describe.ts';
import type { Detection, Finding } from '../detect/finding.ts';
import { KINDS, LEVELS, type Level } from '../detect/finding.ts';
import { atPeak } from '../detect/precedents.ts';
import { DataError } from '../ground/errors.ts';
import { grouped } from '../ground/numbers.ts';
import type { Interval } from '../ground/types.ts';
import { overlap } from '../series/intervals.ts';
import { CLAIM, claimOf } from './policy-claims.ts';
import { POLICY_COLUMN, POLICY_HEAD, type PolicyColumn, type PolicyHead } from './policy-section.ts';
import { durationWords, isoTime, spanWords } from './report-time.ts';

/** One column of numbers and what the detector says about it. */
export interface ReportColumn {
  readonly name: string;
  readonly values: Float64Array; // [N], NaN where missing
  readonly detection: Detection;
}

/** A recording as far as a report tells of it. */
export interface ReportSource {
  /** As the report names it. */
  readonly file: string;
  readonly columns: readonly ReportColumn[];
  /** Instants of the samples in ms since 1970, rising; without a zone as if the clock stood in UTC. Null: samples are counted. */
  readonly time: Float64Array | null; // [N]
  /** What 0 ms is: 1970, midnight of a first day that has no date, or the beginning. */
  readonly origin: TimeOrigin;
  /** Milliseconds from a sample to the next; null without time, and where there is no usual step. */
  readonly step: number | null;
  /** IANA name or offset ("+02:00"); null where the stamps name none. */
  readonly zone: string | null;
  /** A stamp for people. */
  readonly formatTime: (ms: number) => string;
  /** Line of the file that each sample comes from, counted from 1; below 1 for a sample that stands for none. Null: no lines. */
  readonly lines: ArrayLike<number> | null; // [N]
  /** What was assumed about the file, and what is noteworthy in it. */
  readonly notes: readonly { readonly code: string; readonly text: string }[];
}

/** A recording with what the detector says about each of its columns, in their order; `file` as the report names it. */
export function reportSource(
  file: string,
  recording: Recording,
  detections: readonly Detection[],
): ReportSource {
  const { columns, time, origin, step, zone, rows, notes } = recording;
  return {
    ...{ file, time, origin, step, zone, notes, lines: rows },
    columns: columns.map(({ name, values }, c) => ({ name, values, detection: detections[c]! })),
    formatTime: (ms) => formatTime(ms, { zone, step, origin }),
  };
}

const finite = z.number();
const index = z.int().nonnegative();
const LEVEL_NAMES = Object.keys(LEVELS) as [Level, ...Level[]];

/** An instant; `ms` since 1970 (or the recording's `origin`), of stamps without a zone as if the clock stood in UTC; `iso` where it has a date. */
const INSTANT = z.strictObject({ iso: z.string().nullable(), shown: z.string(), ms: finite });

/** Where something lies: half-open in samples, and the stamps of its first and its last sample. */
const EXTENT = z.strictObject({
  start: index,
  end: index,
  from: INSTANT.nullable(),
  to: INSTANT.nullable(),
});

const FINDING = z.strictObject({
  /** Of column, kind and beginning: the same in a later report of the same recording. */
  id: z.string(),
  /** 1 is the most severe. */
  rank: z.int().positive(),
  column: z.string(),
  ...EXTENT.shape,
  /** From the first sample to the end of the last one; null without time. */
  durationSeconds: finite.nonnegative().nullable(),
  /** "2 h 35 min", or "12 samples" without time. */
  duration: z.string(),
  kind: z.enum(KINDS),
  direction: z.enum(['above', 'below']).nullable(),
  severity: finite.nonnegative(),
  level: z.enum(LEVEL_NAMES),
  /** The sample that departs most. */
  peak: z.strictObject({ index, at: INSTANT.nullable() }),
  /** Null where every value is missing. */
  observed: z.strictObject({
    least: finite.nullable(),
    mean: finite.nullable(),
    largest: finite.nullable(),
    peak: finite.nullable(),
  }),
  /** At the peak: the value, and the band that holds 99 % of the other samples. */
  expected: z.strictObject({
    value: finite.nullable(),
    low: finite.nullable(),
    high: finite.nullable(),
  }),
  /**
   * At the same phase of earlier cycles of the season, latest first: where they begin, least and largest of the values (spike, dip) or of
   * the means over as long a stretch. Null without a season, or where too few cycles are comparable.
   */
  before: z
    .strictObject({ period: finite.positive(), starts: z.array(index), least: finite, largest: finite })
    .nullable(),
  /** When, what, and how it was before. */
  statement: z.string(),
  evidence: z.strictObject({ for: z.array(z.string()), against: z.array(z.string()) }),
  similar: z.array(EXTENT),
  ongoing: z.boolean(),
  /** Lines of the file; null where there are none. */
  rows: z.strictObject({ first: z.int().positive(), last: z.int().positive() }).nullable(),
  /** The event that it is part of. */
  event: z.string().nullable(),
  /** Whether a policy marks part of it as well; null where none was asked about it, or it abstains. */
  markedByPolicy: z.boolean().nullable(),
});

/** Findings of several columns at the same time. */
const EVENT = z.strictObject({
  id: z.string(),
  ...EXTENT.shape,
  /** By the time at which they depart. */
  columns: z.array(
    z.strictObject({
      column: z.string(),
      findings: z.array(z.string()),
      /** Behind the first column. */
      samplesLater: index,
      secondsLater: finite.nonnegative().nullable(),
      /** Of the sum of the columns' largest severities, in [0, 1]. */
      share: finite.min(0).max(1),
    }),
  ),
  severity: finite.nonnegative(),
  level: z.enum(LEVEL_NAMES),
  ongoing: z.boolean(),
  statement: z.string(),
});

const COUNTS = z.strictObject({ low: index, medium: index, high: index, critical: index, ongoing: index });

/** Findings and what a policy marks, counted by who of the two sees them. */
const AGREEMENT = z.strictObject({
  /** Findings that the policy marks as well, and those that it does not. */
  both: index,
  detectorAlone: index,
  /** Findings in columns about which the policy gives no answer. */
  unanswered: index,
  /** Intervals of the policy where there is no finding. */
  policyAlone: index,
});
export type Agreement = z.infer<typeof AGREEMENT>;

/** What a policy says about the same recording. It changes nothing of the findings, their ranks and levels. */
const POLICY = POLICY_HEAD.extend({
  agreement: AGREEMENT,
  columns: z.array(
    POLICY_COLUMN.extend({
      /**
       * What it marks; nothing where it abstains. `finding`: whether a finding of the column overlaps. `confidence`: the share of such
       * intervals that are right, null where it is not known; absent of a policy of which none is.
       */
      intervals: z.array(
        EXTENT.extend({
          finding: z.boolean(),
          ...CLAIM.shape,
          confidence: z.exactOptional(finite.min(0).max(1).nullable()),
        }),
      ),
    }),
  ),
});

export const REPORT_SCHEMA = 'timeseer.anomalies' as const;
const VERSION = 3;

/** The published shape of a report. A version has these fields and no others. */
export const REPORT = z.strictObject({
  schema: z.literal(REPORT_SCHEMA),
  version: z.literal(VERSION),
  file: z.string(),
  samples: index,
  /** Stamps of the first and the last sample. */
  from: INSTANT.nullable(),
  to: INSTANT.nullable(),
  stepSeconds: finite.positive().nullable(),
  origin: z.enum(['calendar', 'midnight', 'start']),
  zone: z.string().nullable(),
  notes: z.array(z.strictObject({ code: z.string(), text: z.string() })),
  columns: z.array(
    z.strictObject({
      name: z.string(),
      missing: index,
      least: finite.nullable(),
      mean: finite.nullable(),
      largest: finite.nullable(),
      /** What the series looks like apart from the findings. */
      structure: z.array(z.string()),
      /** In samples. */
      seasons: z.array(finite),
      findings: index,
    }),
  ),
  headline: z.string(),
  counts: COUNTS,
  findings: z.array(FINDING),
  events: z.array(EVENT),
  /** Absent where none was asked. */
  policy: POLICY.optional(),
});

export type AnomalyReport = z.infer<typeof REPORT>;
export type ReportFinding = AnomalyReport['findings'][number];
export type ReportEvent = AnomalyReport['events'][number];
export type Instant = z.infer<typeof INSTANT>;

/** The shape as JSON Schema (draft 2020-12), for programs that read reports. */
export function reportSchema(): object {
  return z.toJSONSchema(REPORT);
}

/** A report from its JSON. @throws DataError that names the first field that is wrong */
export function checkReport(value: unknown, file?: string): AnomalyReport {
  const checked = REPORT.safeParse(value);
  if (checked.success) return checked.data;
  const issue = checked.error.issues[0]!;
  throw new DataError(
    `not a report of version ${VERSION}: ${issue.path.join('.') || 'the whole'}: ${issue.message}`,
    file === undefined ? {} : { file },
  );
}

const orNull = (value: number): number | null => (Number.isFinite(value) ? value : null);

/** Rarer than this nobody tells apart; keeps an infinite severity out of JSON. */
const MOST_SEVERE = 999;

/** Least, mean and largest of the values that are there, in [start, end). */
export function summary(
  values: Float64Array,
  start: number,
  end: number,
): { least: number | null; mean: number | null; largest: number | null; missing: number } {
  let [least, largest, sum, count] = [Infinity, -Infinity, 0, 0];
  for (let i = start; i < end; i++) {
    const value = values[i]!;
    if (Number.isNaN(value)) continue;
    least = Math.min(least, value);
    largest = Math.max(largest, value);
    sum += value;
    count++;
  }
  if (count === 0) return { least: null, mean: null, largest: null, missing: end - start };
  // Of values near the largest that float64 holds, the sum overflows.
  let mean = sum / count;
  if (!Number.isFinite(mean)) {
    mean = 0;
    for (let i = start; i < end; i++) if (!Number.isNaN(values[i]!)) mean += values[i]! / count;
  }
  return { least, mean, largest, missing: end - start - count };
}

/** Stamp of a sample; null without time. */
export function instant(source: ReportSource, sample: number): Instant | null {
  const ms = source.time?.[sample];
  if (ms === undefined) return null;
  const iso = source.origin === 'calendar' ? isoTime(ms, source.zone) : null;
  return { iso, shown: source.formatTime(ms), ms };
}

/** What an id is made of: the instant, or the sample where there is no time. */
const instantKey = (at: Instant | null, sample: number): string => String(at?.iso ?? at?.ms ?? sample);

/** Stamps of a stretch. */
export function extentOf(source: ReportSource, start: number, end: number): z.infer<typeof EXTENT> {
  return { start, end, from: instant(source, start), to: instant(source, end - 1) };
}

/** Seconds from the first sample of a stretch to the end of its last one; null without time. */
export function secondsOf({ time, step }: ReportSource, start: number, end: number): number | null {
  return time === null ? null : (time[end - 1]! - time[start]! + (step ?? 0)) / 1000;
}

const samplesWords = (n: number): string => (n === 1 ? '1 sample' : `${grouped(n)} samples`);

/** How long a stretch lasts, in words. */
export function lengthWords(seconds: number | null, samples: number): string {
  return seconds === null || seconds === 0 ? samplesWords(samples) : durationWords(seconds);
}

/** Lines of the file that a stretch comes from: rows may have been sorted. */
export function rowsOf({ lines }: ReportSource, start: number, end: number): ReportFinding['rows'] {
  if (lines === null) return null;
  let [first, last] = [Infinity, 0];
  for (let i = start; i < end; i++) {
    if (lines[i]! < 1) continue;
    first = Math.min(first, lines[i]!);
    last = Math.max(last, lines[i]!);
  }
  return last === 0 ? null : { first, last };
}

/** Twelve hexadecimal digits of the texts. */
export function idOf(...parts: readonly string[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 12);
}

const WEEKDAYS = [
  'Sundays',
  'Mondays',
  'Tuesdays',
  'Wednesdays',
  'Thursdays',
  'Fridays',
  'Saturdays',
] as const;
const WEEK = 7 * DAY;

/** "on the 9 Tuesdays before it was 310 to 420 at that time"; null where earlier cycles tell nothing. */
function beforeWords(source: ReportSource, { start, end, kind, before }: Finding): string | null {
  if (before === null) return null;
  const { starts, period, least, largest } = before;
  const count = starts.length;
  const span = source.step === null || source.origin === 'start' ? 0 : period * source.step;
  const near = (unit: number): boolean => Math.abs(span / unit - 1) < 0.01;
  const short = (secondsOf(source, start, end) ?? 0) * 1000 <= DAY;
  const weekly = near(WEEK) && short && source.origin === 'calendar';
  const unit = weekly
    ? WEEKDAYS[new Date(wallTime(source.time![starts[0]!]!, source.zone)).getUTCDay()]!
    : near(WEEK)
      ? 'weeks'
      : near(DAY)
        ? 'days'
        : near(HOUR)
          ? 'hours'
          : 'cycles';
  const next = starts.every((at, k) => Math.abs((k === 0 ? start : starts[k - 1]!) - at) < 1.5 * period);
  const where = `${weekly || unit === 'days' ? 'on' : 'in'} ${next ? `the ${count} ${unit} before` : `${count} earlier ${unit}`}`;
  const values = least === largest ? shown(least) : `${shown(least)} to ${shown(largest)}`;
  return `${where} it was ${values}${atPeak(kind) ? '' : ' on average'} at ${span >= 0.99 * DAY ? 'that time' : 'the same phase'}`;
}

/** When, what, and how it was before: a sentence. */
export function findingStatement(source: ReportSource, column: string, found: Finding): string {
  const { start, end, ongoing } = found;
  const { from, to } = extentOf(source, start, end);
  const when =
    from === null || to === null
      ? end - start === 1
        ? `At sample ${start}`
        : ongoing
          ? `Since sample ${start}`
          : `In samples ${start} to ${end - 1}`
      : end - start === 1
        ? `At ${from.shown}`
        : ongoing
          ? `Since ${from.shown}`
          : `Between ${spanWords(from.shown, to.shown, 'and')}`;
  const before = beforeWords(source, found);
  return `${when} ${column} ${found.statement}${before === null ? '' : `; ${before}`}.`;
}

function toFinding(source: ReportSource, column: ReportColumn, found: Finding): ReportFinding {
  const { start, end } = found;
  const { values } = column;
  const seconds = secondsOf(source, start, end);
  const { missing: _, ...observed } = summary(values, start, end);
  return {
    id: idOf(column.name, found.kind, instantKey(instant(source, start), start)),
    rank: 1,
    column: column.name,
    ...extentOf(source, start, end),
    durationSeconds: seconds,
    duration: lengthWords(seconds, end - start),
    kind: found.kind,
    direction: found.direction,
    severity: Math.min(found.severity, MOST_SEVERE),
    level: found.level,
    peak: { index: found.peak, at: instant(source, found.peak) },
    observed: { ...observed, peak: orNull(values[found.peak]!) },
    expected: {
      value: orNull(found.expected.value),
      low: orNull(found.expected.low),
      high: orNull(found.expected.high),
    },
    before: found.before === null ? null : { ...found.before, starts: [...found.before.starts] },
    statement: findingStatement(source, column.name, found),
    evidence: { for: [...found.evidence.for], against: [...found.evidence.against] },
    similar: found.similar.map(([from, to]) => extentOf(source, from, to)),
    ongoing: found.ongoing,
    rows: rowsOf(source, start, end),
    event: null,
    markedByPolicy: null,
  };
}

/**
 * Whether findings of two columns are of one event: they share samples, and either begin together (up to three times the shorter
 * one's length apart) or lie a fifth on each other. A spike in the middle of another column's trend of weeks is not part of it.
 */
export function belongTogether(a: ReportFinding, b: ReportFinding): boolean {
  const shared = Math.min(a.end, b.end) - Math.max(a.start, b.start);
  if (a.column === b.column || shared <= 0) return false;
  const shorter = Math.min(a.end - a.start, b.end - b.start);
  const union = Math.max(a.end, b.end) - Math.min(a.start, b.start);
  return Math.abs(a.start - b.start) <= 3 * shorter || shared >= 0.2 * union;
}

/** "60 %"; what is there is never told as nothing. */
export const percent = (share: number): string =>
  share > 0 && share < 0.005 ? '< 1 %' : `${Math.round(100 * share)} %`;

const list = (parts: readonly string[]): string =>
  parts.length < 2 ? parts.join('') : `${parts.slice(0, -1).join(', ')} and ${parts.at(-1)}`;

/** Who departs first, how much later the others follow, and whose share is how large. */
export function eventStatement(columns: ReportEvent['columns'], from: Instant | null): string {
  const together = columns.filter(({ samplesLater }) => samplesLater === 0).map(({ column }) => column);
  const later = columns
    .filter(({ samplesLater }) => samplesLater > 0)
    .map(
      ({ column, samplesLater, secondsLater }) =>
        `${column} ${secondsLater === null ? samplesWords(samplesLater) : durationWords(secondsLater)} later`,
    );
  const at = from === null ? '' : ` at ${from.shown}`;
  const first =
    together.length === 1
      ? `${together[0]} departs first${at}, ${list(later)}.`
      : `${list(together)} depart together${at}${later.length === 0 ? '' : `, ${list(later)}`}.`;
  const byShare = [...columns].sort((a, b) => b.share - a.share);
  return `${first} Share of the severity: ${list(byShare.map(({ column, share }) => `${column} ${percent(share)}`))}.`;
}

function toEvent(members: readonly ReportFinding[]): ReportEvent {
  const byTime = [...members].sort((a, b) => a.start - b.start || b.severity - a.severity);
  const earliest = byTime[0]!;
  const latest = members.reduce((a, b) => (b.end > a.end ? b : a));
  const worst = members.reduce((a, b) => (b.severity > a.severity ? b : a));
  const names = [...new Set(byTime.map(({ column }) => column))];
  const of = (name: string): ReportFinding[] => byTime.filter(({ column }) => column === name);
  const most = (name: string): number => Math.max(...of(name).map(({ severity }) => severity));
  const sum = names.reduce((total, name) => total + most(name), 0);
  const columns = names.map((column) => {
    const first = of(column)[0]!;
    return {
      column,
      findings: of(column).map(({ id }) => id),
      samplesLater: first.start - earliest.start,
      secondsLater:
        first.from === null || earliest.from === null ? null : (first.from.ms - earliest.from.ms) / 1000,
      share: sum > 0 ? most(column) / sum : 1 / names.length,
    };
  });
  return {
    id: idOf('event', ...names, instantKey(earliest.from, earliest.start)),
    ...{ start: earliest.start, end: latest.end, from: earliest.from, to: latest.to },
    columns,
    severity: worst.severity,
    level: worst.level,
    ongoing: members.some(({ ongoing }) => ongoing),
    statement: eventStatement(columns, earliest.from),
  };
}

/** Findings of several columns that belong together, by falling severity; `event` of the findings says which. */
function joinFindings(findings: readonly ReportFinding[]): {
  findings: ReportFinding[];
  events: ReportEvent[];
} {
  const groups: ReportFinding[][] = [];
  for (const one of findings) {
    const near = groups.filter((group) => group.some((other) => belongTogether(one, other)));
    const joined = [one, ...near.flat()];
    for (const group of near) groups.splice(groups.indexOf(group), 1);
    groups.push(joined);
  }
  const events = groups
    .filter((group) => group.length > 1)
    .map(toEvent)
    .sort((a, b) => b.severity - a.severity || a.start - b.start);
  const eventOf = new Map(
    events.flatMap(({ id, columns }) => columns.flatMap((column) => column.findings.map((one) => [one, id]))),
  );
  return { findings: findings.map((one) => ({ ...one, event: eventOf.get(one.id) ?? null })), events };
}

export function countFindings(findings: readonly ReportFinding[]): AnomalyReport['counts'] {
  const of = (level: Level): number => findings.filter((one) => one.level === level).length;
  return {
    ...{ low: of('low'), medium: of('medium'), high: of('high'), critical: of('critical') },
    ongoing: findings.filter(({ ongoing }) => ongoing).length,
  };
}

/** "level shift", "dip": a kind as a noun. */
export const KIND_WORDS: Readonly<Record<ReportFinding['kind'], string>> = {
  spike: 'spike',
  dip: 'dip',
  level: 'level shift',
  trend: 'trend',
  variance: 'change of variance',
  flat: 'flat line',
  cutoff: 'cutoff',
  shape: 'unusual shape',
  frequency: 'change of frequency',
};

/** When a stretch was: by its stamps, or by its samples. */
export function whenWords({
  start,
  end,
  from,
  to,
}: Pick<ReportFinding, 'start' | 'end' | 'from' | 'to'>): string {
  if (from !== null && to !== null) return spanWords(from.shown, to.shown);
  return end - start === 1 ? `sample ${start}` : `samples ${start} to ${end - 1}`;
}

/** The state of a finding: since when it lasts, or for how long it has been over. */
export function stateWords(one: ReportFinding, last: Instant | null): string {
  if (one.ongoing) return `ongoing since ${one.from?.shown ?? `sample ${one.start}`}`;
  if (one.to === null || last === null) return 'over';
  const seconds = (last.ms - one.to.ms) / 1000;
  return seconds > 0 ? `over for ${durationWords(seconds)}` : 'over';
}

/** What one who was woken up wants to know first: how many, the worst, and whether something is still going on. */
export function headlineOf(
  findings: readonly ReportFinding[],
  { samples, from, to }: Pick<AnomalyReport, 'samples' | 'from' | 'to'>,
): string {
  const worst = findings[0];
  const whole = from === null || to === null ? '' : `, ${spanWords(from.shown, to.shown)}`;
  if (worst === undefined) return `Nothing unusual in ${samplesWords(samples)}${whole}.`;
  const name = (one: ReportFinding): string => `${one.level} ${KIND_WORDS[one.kind]} in ${one.column}`;
  const ongoing = findings.filter((one) => one.ongoing);
  const count = findings.length === 1 ? '1 finding' : `${grouped(findings.length)} findings`;
  const state =
    ongoing.length === 0
      ? findings.length === 1
        ? ', over'
        : findings.length === 2
          ? ', both over'
          : ', all over'
      : findings.length === 1
        ? ', ongoing'
        : `, ${ongoing.length === findings.length ? 'all' : grouped(ongoing.length)} ongoing`;
  const other = worst.ongoing ? undefined : ongoing[0];
  return [
    `${count}${state}.`,
    `${findings.length === 1 ? 'It is a' : 'The worst is a'} ${name(worst)}, ${whenWords(worst)} (${worst.duration}), ${stateWords(worst, to)}.`,
    ...(other === undefined
      ? []
      : [`Ongoing: ${name(other)} since ${other.from?.shown ?? `sample ${other.start}`}.`]),
  ].join(' ');
}

type Policy = NonNullable<AnomalyReport['policy']>;

/** Who of detector and policy sees what. */
export function agreementOf(
  findings: readonly ReportFinding[],
  columns: readonly Pick<Policy['columns'][number], 'intervals'>[],
): Agreement {
  const marked = (by: boolean | null): number =>
    findings.filter(({ markedByPolicy }) => markedByPolicy === by).length;
  const alone = columns.map(({ intervals }) => intervals.filter(({ finding }) => !finding).length);
  return {
    ...{ both: marked(true), detectorAlone: marked(false), unanswered: marked(null) },
    policyAlone: alone.reduce((sum, count) => sum + count, 0),
  };
}

/** "2 found by both, 1 by the detector alone, 3 by the policy alone." */
export function agreementWords({ both, detectorAlone, unanswered, policyAlone }: Agreement): string {
  const rest =
    unanswered === 0
      ? ''
      : `; about ${unanswered === 1 ? 'one finding' : `${grouped(unanswered)} findings`} the policy gives no answer`;
  return `${grouped(both)} found by both, ${grouped(detectorAlone)} by the detector alone, ${grouped(policyAlone)} by the policy alone${rest}.`;
}

export type PolicyInterval = Policy['columns'][number]['intervals'][number];

/** What the policy marks and the detector does not find, the most confident first, then in the order of the recording. */
export function markedAlone({ policy }: AnomalyReport): { column: string; interval: PolicyInterval }[] {
  return (policy?.columns ?? [])
    .flatMap(({ column, intervals }) =>
      intervals.filter(({ finding }) => !finding).map((interval) => ({ column, interval })),
    )
    .sort(
      (a, b) =>
        (b.interval.confidence ?? -1) - (a.interval.confidence ?? -1) || a.interval.start - b.interval.start,
    );
}

/** Ranks, joins, counts and tells findings. */
function assemble(
  base: Omit<AnomalyReport, 'headline' | 'counts' | 'findings' | 'events' | 'policy'> & {
    readonly policy?: Omit<Policy, 'agreement'> | undefined;
  },
  found: readonly ReportFinding[],
): AnomalyReport {
  const ranked = [...found]
    .sort(
      (a, b) =>
        b.severity - a.severity ||
        a.start - b.start ||
        base.columns.findIndex(({ name }) => name === a.column) -
          base.columns.findIndex(({ name }) => name === b.column),
    )
    .map((one, i) => ({ ...one, rank: i + 1 }));
  const { findings, events } = joinFindings(ranked);
  const columns = base.columns.map((column) => ({
    ...column,
    findings: findings.filter((one) => one.column === column.name).length,
  }));
  const headline = headlineOf(findings, base);
  const { policy, ...rest } = base;
  return {
    ...{ ...rest, columns, headline, counts: countFindings(findings), findings, events },
    ...(policy === undefined
      ? {}
      : { policy: { ...policy, agreement: agreementOf(findings, policy.columns) } }),
  };
}

/** What a policy says about a recording, before it is held against the findings. */
export interface PolicyOpinion extends PolicyHead {
  readonly columns: readonly (PolicyColumn & {
    readonly intervals: readonly Interval[];
    /** Of each interval; null or absent where none is known. */
    readonly confidences?: readonly (number | null)[] | null;
  })[];
}

/** Whether what a policy marks of a finding's column overlaps it; null where the policy does not answer there. */
function markedBy(
  policy: Pick<PolicyOpinion, 'columns'> | undefined,
  { column, start, end }: Pick<ReportFinding, 'column' | 'start' | 'end'>,
): boolean | null {
  const said = policy?.columns.find((one) => one.column === column);
  return said?.status === 'answers' ? overlap(said.intervals, [[start, end]]) > 0 : null;
}

function toPolicy(
  source: ReportSource,
  { name, record, notes, columns }: PolicyOpinion,
  findings: readonly ReportFinding[],
): Omit<Policy, 'agreement'> {
  return {
    ...{ name, record, notes },
    columns: columns.map((said) => {
      const { column, status, statement, window, doubtful, limit, signals, answers } = said;
      const found = findings
        .filter((one) => one.column === column)
        .map(({ start, end }): Interval => [start, end]);
      return {
        ...{ column, status, statement, window, doubtful, limit, class: said.class, signals, answers },
        intervals: said.intervals.map(([start, end], i) => ({
          ...extentOf(source, start, end),
          ...(said.confidences == null ? {} : { confidence: said.confidences[i]! }),
          finding: found.some((one) => overlap([one], [[start, end]]) > 0),
          ...claimOf([start, end], answers),
        })),
      };
    }),
  };
}

/**
 * The report of a recording.
 *
 * @param policy what a policy says about it
 * @throws DataError where columns, stamps or lines are of another length than the values, or two columns have one name
 */
export function buildReport(source: ReportSource, policy?: PolicyOpinion): AnomalyReport {
  const samples = source.columns[0]?.values.length ?? 0;
  for (const { name, values, detection } of source.columns) {
    const lengths = [
      values,
      detection.score,
      detection.expected,
      detection.low,
      detection.high,
      source.time,
      source.lines,
    ];
    if (lengths.some((one) => one !== null && one.length !== samples)) {
      throw new DataError(
        `column ${name}: values, scores, times and lines must all have ${samples} entries`,
        {
          file: source.file,
        },
      );
    }
  }
  if (new Set(source.columns.map(({ name }) => name)).size < source.columns.length) {
    throw new DataError('two columns have the same name; rename one', { file: source.file });
  }
  const columns = source.columns.map(({ name, values, detection }) => ({
    name,
    ...summary(values, 0, samples),
    structure: [...detection.structure],
    seasons: [...detection.seasons],
    findings: 0,
  }));
  const base = {
    schema: REPORT_SCHEMA,
    version: VERSION,
    file: source.file,
    samples,
    from: samples === 0 ? null : instant(source, 0),
    to: samples === 0 ? null : instant(source, samples - 1),
    origin: source.origin,
    stepSeconds: source.step === null ? null : source.step / 1000,
    zone: source.zone,
    notes: source.notes.map(({ code, text }) => ({ code, text })),
    columns,
  } as const;
  const found = source.columns.flatMap((column) =>
    column.detection.findings.map((one) => toFinding(source, column, one)),
  );
  // Two findings of one kind may begin at one sample; ids must tell them apart all the same.
  const seen = new Map<string, number>();
  const unique = found.map((one) => {
    const before = seen.get(one.id) ?? 0;
    seen.set(one.id, before + 1);
    return before === 0 ? one : { ...one, id: idOf(one.id, String(before)) };
  });
  const marked = unique.map((one) => ({ ...one, markedByPolicy: markedBy(policy, one) }));
  return assemble(
    policy === undefined ? base : { ...base, policy: toPolicy(source, policy, marked) },
    marked,
  );
}

/** The report of only those findings that are `wanted`: ranked, joined and counted anew. */
export function selectFindings(
  report: AnomalyReport,
  wanted: (finding: ReportFinding) => boolean,
): AnomalyReport {
  return assemble(report, report.findings.filter(wanted));
}
