/**
 * Report of a recording: findings with times, file lines and sentences; incidents in several columns; a headline; the answers of a policy.
 * It is built once; HTML page, exports and state file are rendered from it alone. `verify.ts` checks it before it is printed.
 */
import { createHash } from 'node:crypto';
import { DAY, HOUR, type TimeOrigin } from '../../datasets/readers/clock.ts';
import { FAULTS, type Note } from '../../datasets/readers/quality.ts';
import { formatDuration, formatTime, type Recording, wallTime } from '../../datasets/readers/recording.ts';
import { atPeak } from '../detect/describe.ts';
import { FEWEST_SAMPLES } from '../detect/detect.ts';
import { type Detection, type Filter, type Finding, KIND_WORDS, type Level } from '../detect/finding.ts';
import { count, figure, joined, type Sentence, type Stated, say, stepFor } from '../detect/sentence.ts';
import { DataError } from '../ground/errors.ts';
import { grouped } from '../ground/numbers.ts';
import type { Interval } from '../ground/types.ts';
import { overlap } from '../series/intervals.ts';
import { claimOf } from './policy-words.ts';
import type {
  Agreement,
  AnomalyReport,
  Instant,
  PolicyClaim,
  PolicyColumn,
  PolicyHead,
  ReportFinding,
  ReportIncident,
} from './schema.ts';

/** Column of numbers with its detection. */
export interface ReportColumn {
  readonly name: string;
  readonly values: Float64Array; // [N], NaN where missing
  readonly detection: Detection;
}

/** A recording with its detections: everything that a report is made from. */
export interface ReportSource {
  /** Name of the file in the report. */
  readonly file: string;
  readonly columns: readonly ReportColumn[];
  /** Sample times in ms since 1970, ascending; without a zone, the wall-clock time read as UTC. Null: no time column. */
  readonly time: Float64Array | null; // [N]
  /** Meaning of 0 ms: 1970, midnight of a first day without a date, or the beginning. */
  readonly origin: TimeOrigin;
  /** Milliseconds from a sample to the next; null without time, or if the spacing is irregular. */
  readonly step: number | null;
  /** IANA name or offset ("+02:00"); null where the stamps name none. */
  readonly zone: string | null;
  /** Formats a stamp for people. */
  readonly formatTime: (ms: number) => string;
  /** Line of the file that each sample comes from, counted from 1; below 1 for an inserted sample without a line. Null: no line numbers. */
  readonly lines: ArrayLike<number> | null; // [N]
  /** Assumptions made when reading the file, and faults of its data. */
  readonly notes: readonly Note[];
  /** Samples that were judged, against all before them; absent where all were. */
  readonly window?: Interval | undefined;
}

const FILTER_OPTIONS: Readonly<Record<Filter, string>> = {
  ...{ severity: '--severity', direction: '--direction', change: '--min-change', share: '--min-share' },
};

/** Kind of the notes that tell of findings that are not listed. */
const FILTERED = 'filtered';

const filteredNote = (count: number, how: string): Note => ({
  ...{ kind: FILTERED, count },
  text: `${findingsWords(count)} ${how}.`,
});

/** Joins a recording with the detections of its columns, in their order. */
export function reportSource(
  file: string,
  recording: Recording,
  detections: readonly Detection[],
  window?: Interval,
): ReportSource {
  const { columns, time, origin, step, zone, rows } = recording;
  const notes = [...recording.notes];
  if (rows.length < FEWEST_SAMPLES)
    notes.push({
      ...{ kind: 'few-samples', count: rows.length },
      text: `${rows.length} samples are too few to tell usual from unusual; nothing is judged below ${FEWEST_SAMPLES}.`,
    });
  for (const [filter, option] of Object.entries(FILTER_OPTIONS)) {
    const count = detections.reduce((sum, { leftOut }) => sum + leftOut[filter as Filter], 0);
    if (count > 0) notes.push(filteredNote(count, `left out by ${option}`));
  }
  return {
    ...{ file, time, origin, step, zone, notes, window, lines: rows },
    columns: columns.map(({ name, values }, c) => ({ name, values, detection: detections[c]! })),
    formatTime: (ms) => formatTime(ms, { zone, step, origin }),
  };
}

/** Formats a time as ISO 8601, "2025-03-04T14:00:00+01:00"; milliseconds only if not 0, no offset if the file names no zone. */
export function isoTime(ms: number, zone: string | null): string {
  const whole = Math.round(ms);
  const wall = wallTime(whole, zone);
  const offset = wall - whole;
  const text = new Date(wall).toISOString().replace(/(?:\.000)?Z$/, '');
  if (zone === null) return text;
  if (offset === 0) return `${text}Z`;
  const minutes = Math.round(Math.abs(offset) / 60_000);
  const two = (n: number): string => String(n).padStart(2, '0');
  return `${text}${offset < 0 ? '-' : '+'}${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`;
}

/** 9300 → "2 h 35 min". */
export const durationWords = (seconds: number): string => formatDuration(1000 * seconds);

/** Formats a span: "2025-03-04 14:00 to 16:30 +01:00". Equal days, zones and stamps appear once. */
export function spanWords(from: string, to: string, between = 'to'): string {
  if (from === to) return from;
  const [[day, clock, zone], [lastDay, lastClock, lastZone]] = [from.split(' '), to.split(' ')];
  // Times of day without a date begin with "day 2,".
  const isDate = /^\d{4}-\d\d-\d\d$/.test(day!);
  if (clock === undefined || lastClock === undefined || day !== lastDay || !isDate)
    return `${from} ${between} ${to}`;
  const tail = lastZone === undefined ? lastClock : `${lastClock} ${lastZone}`;
  return zone === lastZone ? `${day} ${clock} ${between} ${tail}` : `${from} ${between} ${tail}`;
}

const orNull = (value: number): number | null => (Number.isFinite(value) ? value : null);

/** Largest severity in JSON, which has no infinity. */
const MOST_SEVERE = 999;

/** Name and version of the report's JSON; see schema.ts. */
export const REPORT_SCHEMA = 'timeseer.anomalies';
export const VERSION = 6;

/** Least, mean and largest value in [start, end), and the number of missing ones. */
function summary(
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
  // The sum of values near the float64 maximum overflows.
  let mean = sum / count;
  if (!Number.isFinite(mean)) {
    mean = 0;
    for (let i = start; i < end; i++) if (!Number.isNaN(values[i]!)) mean += values[i]! / count;
  }
  return { least, mean, largest, missing: end - start - count };
}

/** Returns the stamp of a sample; null without time. */
export function instant(source: ReportSource, sample: number): Instant | null {
  const ms = source.time?.[sample];
  if (ms === undefined) return null;
  const iso = source.origin === 'calendar' ? isoTime(ms, source.zone) : null;
  return { iso, shown: source.formatTime(ms), ms };
}

/** Key of an instant in an id: the stamp, or the sample where there is no time. */
const instantKey = (at: Instant | null, sample: number): string => String(at?.iso ?? at?.ms ?? sample);

/** Returns a stretch with its stamps. */
function extentOf(source: ReportSource, start: number, end: number): ReportFinding['similar'][number] {
  return { start, end, from: instant(source, start), to: instant(source, end - 1) };
}

/** Returns the seconds from the first sample of a stretch to the end of its last one; null without time. */
function secondsOf({ time, step }: ReportSource, start: number, end: number): number | null {
  return time === null ? null : (time[end - 1]! - time[start]! + (step ?? 0)) / 1000;
}

const samplesWords = (n: number): string => (n === 1 ? '1 sample' : `${grouped(n)} samples`);
const findingsWords = (n: number): string => (n === 1 ? '1 finding' : `${grouped(n)} findings`);

/** Length of a stretch in words. */
function lengthWords(seconds: number | null, samples: number): string {
  return seconds === null || seconds === 0 ? samplesWords(samples) : durationWords(seconds);
}

/** Returns the lines of the file that a stretch comes from; rows may have been sorted. */
function rowsOf({ lines }: ReportSource, start: number, end: number): ReportFinding['rows'] {
  if (lines === null) return null;
  let [first, last] = [Infinity, 0];
  for (let i = start; i < end; i++) {
    if (lines[i]! < 1) continue;
    first = Math.min(first, lines[i]!);
    last = Math.max(last, lines[i]!);
  }
  return last === 0 ? null : { first, last };
}

/** Returns a note with its samples and stamps, which are null for a note about the whole file. */
function toNote(source: ReportSource, note: Note): AnomalyReport['notes'][number] {
  const { kind, text, column = null, count = null, option = null, lines: given } = note;
  const [first, last] = given === undefined ? [0, 0] : [Math.min(...given), Math.max(...given)];
  const isInside = (line: number): boolean => line >= first && line <= last;
  const lines = given === undefined || source.lines === null ? [] : Array.from(source.lines);
  const [start, end] = [lines.findIndex(isInside), lines.findLastIndex(isInside) + 1];
  return {
    ...{ kind, quality: FAULTS.has(kind), column, count, text, option },
    ...(end === 0 ? { start: null, end: null, from: null, to: null } : extentOf(source, start, end)),
    rows: given === undefined || last < 1 ? null : { first, last },
  };
}

/** Sentences about the faults of the data, and about what was assumed. */
export function noteTexts({ notes }: Pick<AnomalyReport, 'notes'>): {
  faults: string[];
  assumptions: string[];
} {
  const texts = (wanted: boolean) => notes.flatMap(({ quality, text }) => (quality === wanted ? [text] : []));
  return { faults: texts(true), assumptions: texts(false) };
}

/** Returns a hash of texts, twelve hexadecimal digits. */
function idOf(...parts: readonly string[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 12);
}

const WEEKDAYS = 'Sundays Mondays Tuesdays Wednesdays Thursdays Fridays Saturdays'.split(' ');
const WEEK = 7 * DAY;

/** "428 to 433 on average at this time on the previous 5 days"; null where no earlier cycles are comparable. */
function beforeClause(source: ReportSource, finding: Finding): Sentence | null {
  const { start, end, kind, before, observed } = finding;
  if (before === null) return null;
  const { starts, period, least, largest } = before;
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
  const consecutive = starts.every(
    (at, k) => Math.abs((k === 0 ? start : starts[k - 1]!) - at) < 1.5 * period,
  );
  const cycles = count(
    starts.length,
    { quantity: 'cycles before', start, end },
    consecutive ? `previous ${starts.length} ${unit}` : `${starts.length} earlier ${unit}`,
  );
  const subject = atPeak(kind) ? observed.peak : observed.mean;
  // Cycles that reached the value as well would refute the sentence.
  if (subject >= least && subject <= largest) return null;
  const distance = Math.min(Math.abs(subject - least), Math.abs(subject - largest));
  const step = stepFor([least, largest], distance);
  const low = figure(least, step, { quantity: 'least before', start, end });
  const high = figure(largest, step, { quantity: 'largest before', start, end });
  const range = low.text === high.text ? say`${low}` : say`${low} to ${high}`;
  const average = atPeak(kind) ? say`` : say` on average`;
  const whole = span > DAY / 2 && near(Math.round(span / DAY) * DAY);
  const phase = whole ? say`at this time` : say`at the same phase`;
  const on = weekly || unit === 'days' ? say`on` : say`in`;
  return consecutive
    ? say`${range}${average} ${phase} ${on} the ${cycles}`
    : say`${range}${average} ${phase} ${on} ${cycles}`;
}

type Extent = Pick<ReportFinding, 'start' | 'end' | 'from' | 'to'>;

/** States when a stretch was: by its stamps, or by its samples. */
const whenStated = (extent: Extent): Omit<Stated, 'at'> => ({
  ...{ quantity: 'time', start: extent.start, end: extent.end },
  text: whenWords(extent),
});

/** States a first sample: by its stamp, or by its number. */
const startStated = ({ start, from }: Pick<Extent, 'start' | 'from'>): Omit<Stated, 'at'> => ({
  ...{ quantity: 'time', start, end: start + 1 },
  text: from?.shown ?? `sample ${start}`,
});

/** Kinds of findings whose sentence includes the values of earlier cycles. */
const KINDS_WITH_HISTORY: ReadonlySet<Finding['kind']> = new Set(['spike', 'dip', 'level', 'trend', 'flat']);

/** States what happened when, what was expected, and earlier values. */
function findingSentence(source: ReportSource, column: string, finding: Finding): Sentence {
  const { start, end } = finding;
  const extent = extentOf(source, start, end);
  const name: Omit<Stated, 'at'> = { quantity: 'column', start, end, text: column };
  const when = finding.ongoing
    ? say`${{ quantity: 'state', start, end, text: 'since' }} ${startStated(extent)}`
    : end - start === 1
      ? say`at ${whenStated(extent)}`
      : extent.from === null
        ? say`in ${whenStated(extent)}`
        : say`from ${whenStated(extent)}`;
  const before = KINDS_WITH_HISTORY.has(finding.kind) ? beforeClause(source, finding) : null;
  const context = [...finding.says.context, ...(before === null ? [] : [before])];
  const fact = say`${name} ${finding.says.fact} ${when}`;
  return context.length === 0 ? say`${fact}.` : say`${fact} (${joined(context, '; ')}).`;
}

/** Distance of a finding from what was expected, or from the level before a step; null for kinds without a direction. */
function changeOf(
  { start, end, kind, peak, expected: { value }, stepped }: Finding,
  values: Float64Array,
  expected: Float64Array,
): number | null {
  const meanOf = (list: Float64Array): number =>
    summary(
      list.subarray(start, end).map((one, i) => one + 0 * values[start + i]!),
      0,
      end - start,
    ).mean ?? Number.NaN;
  if (kind === 'level') return orNull(meanOf(values) - (stepped?.mean ?? meanOf(expected)));
  return atPeak(kind) || kind === 'trend' ? orNull(values[peak.index]! - (stepped?.mean ?? value)) : null;
}

function toFinding(source: ReportSource, column: ReportColumn, finding: Finding): ReportFinding {
  const { start, end } = finding;
  const { values } = column;
  const seconds = secondsOf(source, start, end);
  const { missing: _, ...observed } = summary(values, start, end);
  const { text, stated } = findingSentence(source, column.name, finding);
  return {
    id: idOf(column.name, finding.kind, instantKey(instant(source, start), start)),
    rank: 1,
    column: column.name,
    ...extentOf(source, start, end),
    durationSeconds: seconds,
    duration: lengthWords(seconds, end - start),
    kind: finding.kind,
    direction: finding.direction,
    severity: Math.min(finding.severity, MOST_SEVERE),
    level: finding.level,
    peak: { index: finding.peak.index, at: instant(source, finding.peak.index) },
    observed: { ...observed, peak: orNull(values[finding.peak.index]!) },
    expected: {
      value: orNull(finding.expected.value),
      low: orNull(finding.expected.low),
      high: orNull(finding.expected.high),
    },
    before: finding.before === null ? null : { ...finding.before, starts: [...finding.before.starts] },
    stepped: finding.stepped === null ? null : { ...finding.stepped },
    statement: text,
    stated: [...stated],
    evidence: { for: [...finding.evidence.for], against: [...finding.evidence.against] },
    similar: finding.similar.map((other) => extentOf(source, other.start, other.end)),
    ongoing: finding.ongoing,
    lasting: finding.lasting,
    rows: rowsOf(source, start, end),
    change: changeOf(finding, values, column.detection.expected),
    incident: null,
    markedByPolicy: null,
    confidence: null,
    reported: false,
  };
}

/**
 * Returns true if findings of two columns belong to one incident: they overlap, and either their starts differ by at most three times the
 * shorter length or their overlap is at least a fifth of their union. A spike in the middle of another column's weeks-long trend is not.
 */
function belongTogether(a: ReportFinding, b: ReportFinding): boolean {
  const shared = Math.min(a.end, b.end) - Math.max(a.start, b.start);
  if (a.column === b.column || shared <= 0) return false;
  const shorter = Math.min(a.end - a.start, b.end - b.start);
  const union = Math.max(a.end, b.end) - Math.min(a.start, b.start);
  return Math.abs(a.start - b.start) <= 3 * shorter || shared >= 0.2 * union;
}

/** States how many columns an incident has. */
const columnsOf = ({
  id,
  start,
  end,
  columns,
}: Pick<ReportIncident, 'id' | 'start' | 'end' | 'columns'>) => ({
  ...count(columns.length, { quantity: 'columns', start, end }, `${grouped(columns.length)} columns`),
  finding: id,
});

/** Most columns that a sentence about an incident names. */
const MOST_NAMED = 6;

/** "p99 +40.2, errors +3 and 2 more": the columns of an incident by severity, with their changes. */
function movesClause(
  { id: incident, start, end, columns }: Pick<ReportIncident, 'id' | 'start' | 'end' | 'columns'>,
  findings: ReadonlyMap<string, ReportFinding>,
): Sentence {
  const named = columns.slice(0, columns.length === MOST_NAMED + 1 ? MOST_NAMED + 1 : MOST_NAMED);
  const clauses = named.map(({ column, findings: [id] }) => {
    const finding = findings.get(id!)!;
    const place = { start: finding.start, end: finding.end, finding: id! };
    const name = { ...place, quantity: 'column', text: column } as const;
    if (finding.change === null)
      return say`${name} (${{ ...place, quantity: 'kind', text: KIND_WORDS[finding.kind] }})`;
    const size = figure(finding.change, stepFor([finding.change]), { ...place, quantity: 'change' });
    const text = finding.change > 0 ? `+${size.text}` : size.text.replace('-', '\u2212');
    return say`${name} ${{ ...size, text, finding: id! }}`;
  });
  const rest = columns.length - named.length;
  const more = { ...count(rest, { quantity: 'columns', start, end }, `${rest} more`), finding: incident };
  return joined(rest === 0 ? clauses : [...clauses, more], ', ', ' and ');
}

/** States when an incident was, how each column moved, and which one departed first, if that is certain. */
function incidentSentence(
  incident: Omit<ReportIncident, 'statement' | 'stated'>,
  findings: ReadonlyMap<string, ReportFinding>,
): Sentence {
  const { id, start, end, from, columns, ongoing, first } = incident;
  const when = ongoing
    ? say`${{ quantity: 'state', start, end, text: 'since', finding: id }} ${startStated(incident)}`
    : from === null
      ? say`in ${whenStated(incident)}`
      : say`from ${whenStated(incident)}`;
  const moved = say`${columnsOf(incident)} moved ${when}: ${movesClause(incident, findings)}.`;
  if (first === null) return moved;
  const { column, samplesEarlier, secondsEarlier } = first;
  const lag = count(
    secondsEarlier ?? samplesEarlier,
    { quantity: 'lag', start, end },
    secondsEarlier === null ? samplesWords(samplesEarlier) : durationWords(secondsEarlier),
  );
  const earliest = findings.get(columns.find((other) => other.column === column)!.findings[0]!)!;
  const name = { quantity: 'column', start: earliest.start, end: earliest.end, text: column } as const;
  const word = { quantity: 'lag', start, end: start + 1, text: 'first' } as const;
  return say`${moved} ${{ ...name, finding: earliest.id }} departed ${word}, ${lag} before the next.`;
}

/** Least doubt about where a departure begins, in samples; and as a share of its length: slow ones are found late. */
const [LEAST_DOUBT, DOUBT] = [3, 0.5];

/** Returns the column that departs before all others by more than the doubt about their beginnings; null without one. */
function firstOf(byTime: readonly ReportFinding[]): ReportIncident['first'] {
  const earliest = byTime[0]!;
  const others = byTime.filter(({ column }) => column !== earliest.column);
  const certain = others.every(
    ({ start, end }) => start - earliest.start > Math.max(LEAST_DOUBT, DOUBT * (end - start)),
  );
  if (!certain) return null;
  const { column, start, from } = earliest;
  const next = others[0]!;
  return {
    column,
    samplesEarlier: next.start - start,
    secondsEarlier: from === null || next.from === null ? null : (next.from.ms - from.ms) / 1000,
  };
}

/**
 * Returns the findings with which the time of an incident begins and ends: that in which columns with half of the severity depart, since the
 * bounds of a single column may be far off. It is all of the time where that is no one stretch, or a column departs outside of it.
 */
function boundsOf(members: readonly ReportFinding[]): { first: ReportFinding; last: ReportFinding } {
  const severityAt = (isThere: (finding: ReportFinding) => boolean): number => {
    const most = new Map<string, number>();
    for (const finding of members.filter(isThere))
      most.set(finding.column, Math.max(most.get(finding.column) ?? 0, finding.severity));
    return [...most.values()].reduce((sum, severity) => sum + severity, 0);
  };
  const half = severityAt(() => true) / 2;
  const isShared = (at: number): boolean => severityAt(({ start, end }) => start <= at && at < end) >= half;
  const earliest = (some: readonly ReportFinding[]) => some.reduce((a, b) => (b.start < a.start ? b : a));
  const latest = (some: readonly ReportFinding[]) => some.reduce((a, b) => (b.end > a.end ? b : a));
  const whole = { first: earliest(members), last: latest(members) };
  const from = members.filter(({ start }) => isShared(start));
  const to = members.filter(({ end }) => isShared(end - 1));
  if (from.length === 0 || to.length === 0) return whole;
  const [first, last] = [earliest(from), latest(to)];
  // What is shared changes where a finding begins or ends.
  const isOne = members
    .flatMap(({ start, end }) => [start, end])
    .every((at) => at < first.start || at >= last.end || isShared(at));
  const isInside = members.every(({ start, end }) => start < last.end && end > first.start);
  return isOne && isInside ? { first, last } : whole;
}

function toIncident(
  members: readonly ReportFinding[],
  { stepSeconds, window }: Pick<AnomalyReport, 'stepSeconds' | 'window'>,
): ReportIncident {
  const byTime = members.toSorted((a, b) => a.start - b.start || b.severity - a.severity);
  const bySeverity = members.toSorted((a, b) => b.severity - a.severity || a.start - b.start);
  const worst = bySeverity[0]!;
  const columns = [...new Set(bySeverity.map(({ column }) => column))].map((column) => {
    const own = bySeverity.filter((finding) => finding.column === column);
    return { column, findings: own.map(({ id }) => id), severity: own[0]!.severity };
  });
  // A window begins for all columns where it is asked to.
  const first = window === null ? firstOf(byTime) : null;
  const bounds = boundsOf(members);
  const ongoing = members.filter((finding) => finding.ongoing);
  const { start, from } = first === null ? bounds.first : byTime[0]!;
  const { end, to } = [bounds.last, ...ongoing].reduce((a, b) => (b.end > a.end ? b : a));
  const seconds = from === null || to === null ? null : (to.ms - from.ms) / 1000 + (stepSeconds ?? 0);
  const names = [...new Set(byTime.map(({ column }) => column))];
  const incident = {
    id: idOf('incident', ...names, instantKey(byTime[0]!.from, byTime[0]!.start)),
    ...{ start, end, from, to, durationSeconds: seconds, duration: lengthWords(seconds, end - start) },
    ...{ columns, first, severity: worst.severity, level: worst.level, ongoing: ongoing.length > 0 },
  };
  const { text, stated } = incidentSentence(incident, new Map(members.map((one) => [one.id, one])));
  return { ...incident, statement: text, stated: [...stated] };
}

/** Joins findings of several columns that belong together into incidents, by falling severity. */
function joinFindings(
  findings: readonly ReportFinding[],
  report: Pick<AnomalyReport, 'stepSeconds' | 'window'>,
): { findings: ReportFinding[]; incidents: ReportIncident[] } {
  const groups: ReportFinding[][] = [];
  for (const finding of findings) {
    const near = groups.filter((group) => group.some((other) => belongTogether(finding, other)));
    const members = [finding, ...near.flat()];
    for (const group of near) groups.splice(groups.indexOf(group), 1);
    groups.push(members);
  }
  const incidents = groups
    .filter((group) => group.length > 1)
    .map((group) => toIncident(group, report))
    .sort((a, b) => b.severity - a.severity || a.start - b.start);
  const incidentOf = new Map(
    incidents.flatMap(({ id, columns }) =>
      columns.flatMap((column) => column.findings.map((finding) => [finding, id])),
    ),
  );
  return {
    findings: findings.map((finding) => ({ ...finding, incident: incidentOf.get(finding.id) ?? null })),
    incidents,
  };
}

function countFindings(findings: readonly ReportFinding[]): AnomalyReport['counts'] {
  const of = (level: Level): number => findings.filter((finding) => finding.level === level).length;
  return {
    ...{ low: of('low'), medium: of('medium'), high: of('high'), critical: of('critical') },
    ongoing: findings.filter(({ ongoing }) => ongoing).length,
  };
}

/** Time of a stretch in words: its stamps, or its samples. */
export function whenWords({ start, end, from, to }: Extent): string {
  if (from !== null && to !== null) return spanWords(from.shown, to.shown);
  return end - start === 1 ? `sample ${start}` : `samples ${start} to ${end - 1}`;
}

/** Seconds up to which the end of a finding is told by its distance from the last sample. */
const RECENT = DAY / 1000;

/** State of a finding or an incident: "ongoing since 14:00", "ended 2 h before the end", or "ended" a day before it or without time. */
export function stateWords(
  finding: Pick<ReportFinding, 'ongoing' | 'from' | 'to' | 'start'>,
  last: Instant | null,
): string {
  if (finding.ongoing) return `ongoing since ${finding.from?.shown ?? `sample ${finding.start}`}`;
  const seconds = finding.to === null || last === null ? 0 : (last.ms - finding.to.ms) / 1000;
  return seconds > 0 && seconds < RECENT ? `ended ${durationWords(seconds)} before the end` : 'ended';
}

/** Headline for someone on call: number of incidents and findings, the worst one, and the worst ongoing one. */
function headlineOf(
  findings: readonly ReportFinding[],
  incidents: readonly ReportIncident[],
  { samples, from, to, notes, window }: Pick<AnomalyReport, 'samples' | 'from' | 'to' | 'notes' | 'window'>,
): Sentence {
  const worst = findings[0];
  const whole = { start: 0, end: samples };
  if (worst === undefined) {
    const length = count(samples, { quantity: 'samples', ...whole }, samplesWords(samples));
    const when = from === null || to === null ? say`` : say`, ${whenStated({ ...whole, from, to })}`;
    const apart = notes.some(({ kind }) => kind === FILTERED) ? say`, but for findings left out` : say``;
    if (window !== null) return say`Nothing moved${apart}: ${whenStated(window)}.`;
    return say`Nothing unusual in ${length}${when}${apart}.`;
  }
  const about = (
    { id: finding, start, end }: ReportFinding | ReportIncident,
    quantity: Stated['quantity'],
    text: string,
  ): Omit<Stated, 'at'> => ({ quantity, start, end, text, finding });
  const name = (finding: ReportFinding): Sentence =>
    say`${about(finding, 'level', finding.level)} ${about(finding, 'kind', KIND_WORDS[finding.kind])} in ${about(finding, 'column', finding.column)}`;
  const incident = incidents.find(({ id }) => id === worst.incident);
  const told = incident ?? worst;
  const length = {
    ...about(told, 'duration', told.duration),
    ...{ number: told.durationSeconds ?? told.end - told.start, tolerance: 0 },
  };
  // What comes after a window was not judged.
  const state = window === null ? say`, ${about(told, 'state', stateWords(told, to))}` : say``;
  const when = say`${whenStated(told)} (${length})${state}`;
  const ongoing = findings.filter((finding) => finding.ongoing);
  const next = told.ongoing ? undefined : ongoing[0];
  const besides =
    next === undefined
      ? say``
      : say` ${about(next, 'state', 'Ongoing')}: ${name(next)} ${about(next, 'state', 'since')} ${startStated(next)}.`;
  if (incidents.length > 0) {
    const alone = findings.filter((finding) => finding.incident === null).length;
    const number = count(
      incidents.length,
      { quantity: 'incidents', ...whole },
      incidents.length === 1 ? '1 incident' : `${grouped(incidents.length)} incidents`,
    );
    const columns = incidents.length === 1 ? columnsOf(incidents[0]!) : say`several columns`;
    const others = count(
      alone,
      { quantity: 'other findings', ...whole },
      alone === 1 ? '1 other finding' : `${grouped(alone)} other findings`,
    );
    const first = say`${number} in ${columns}${alone === 0 ? say`` : say` and ${others}`}.`;
    if (incident === undefined) return say`${first} The worst is a ${name(worst)}, ${when}.${besides}`;
    const subject = incidents.length === 1 && alone === 0 ? say`It is` : say`The worst is`;
    const which = incidents.length === 1 && alone === 0 ? say`` : say`, in ${columnsOf(incident)}`;
    const members = new Map(findings.map((finding) => [finding.id, finding]));
    return say`${first} ${subject} ${about(incident, 'level', incident.level)}${which}: ${movesClause(incident, members)}, ${when}.${besides}`;
  }
  const total = count(findings.length, { quantity: 'findings', ...whole }, findingsWords(findings.length));
  const summary = say`a ${name(worst)}, ${when}.`;
  if (findings.length === 1) return say`${total}: ${summary}`;
  const all = findings.length === 2 ? 'both' : 'all';
  const states =
    ongoing.length === 0
      ? `${all} ended`
      : ongoing.length === findings.length
        ? `${all} ongoing`
        : `${grouped(ongoing.length)} ongoing`;
  const how = count(ongoing.length, { quantity: 'ongoing findings', ...whole }, states);
  return say`${total}${window === null ? say`, ${how}` : say``}. The worst is ${summary}${besides}`;
}

type Policy = NonNullable<AnomalyReport['policy']>;

/** Counts findings by agreement of detector and policy. */
function agreementOf(
  findings: readonly ReportFinding[],
  columns: readonly Pick<Policy['columns'][number], 'intervals'>[],
): Agreement {
  const marked = (by: boolean | null): number =>
    findings.filter(({ markedByPolicy }) => markedByPolicy === by).length;
  const alone = columns.flatMap(({ intervals }) => intervals.filter(({ finding }) => !finding));
  return {
    ...{ both: marked(true), detectorAlone: marked(false), unanswered: marked(null) },
    policyAlone: alone.length,
  };
}

/** "2 found by both, 1 by the detector alone, 3 by the policy alone." */
export function agreementWords({ both, detectorAlone, unanswered, policyAlone }: Agreement): string {
  const rest = unanswered === 0 ? '' : `; the policy gives no answer about ${findingsWords(unanswered)}`;
  return `${grouped(both)} found by both, ${grouped(detectorAlone)} by the detector alone, ${grouped(policyAlone)} by the policy alone${rest}.`;
}

type PolicyInterval = Policy['columns'][number]['intervals'][number];

/** Lists intervals of the policy without a finding: most confident first, then by time. */
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

/** Ranks findings, joins them into incidents, and adds counts and headline. */
function assemble(
  base: Omit<AnomalyReport, 'headline' | 'stated' | 'counts' | 'findings' | 'incidents' | 'policy'> & {
    readonly policy?: Omit<Policy, 'agreement'> | undefined;
  },
  unranked: readonly ReportFinding[],
): AnomalyReport {
  const columnOf = (finding: ReportFinding): number =>
    base.columns.findIndex(({ name }) => name === finding.column);
  const ranked = [...unranked]
    .sort((a, b) => b.severity - a.severity || a.start - b.start || columnOf(a) - columnOf(b))
    .map((finding, i) => ({ ...finding, rank: i + 1 }));
  const { findings, incidents } = joinFindings(ranked, base);
  const columns = base.columns.map((column) => ({
    ...column,
    findings: findings.filter((finding) => finding.column === column.name).length,
  }));
  const { text: headline, stated } = headlineOf(findings, incidents, base);
  const { policy, ...rest } = base;
  return {
    ...{ ...rest, columns, headline, stated: [...stated], counts: countFindings(findings) },
    ...{ findings, incidents },
    ...(policy === undefined
      ? {}
      : { policy: { ...policy, agreement: agreementOf(findings, policy.columns) } }),
  };
}

/** Answers of a policy about a recording, before they are compared with the findings. */
export interface PolicyOpinion extends PolicyHead {
  readonly columns: readonly (PolicyColumn & {
    readonly intervals: readonly Interval[];
    /** Claim about each interval; absent: that of the answer which fits it best. */
    readonly claims?: readonly PolicyClaim[];
    /** Confidence of each interval; null or absent where it is not known. */
    readonly confidences?: readonly (number | null)[] | null;
    /** Confidence of each finding of the detector; null or absent where it is not known. */
    readonly ofFindings?: readonly (number | null)[] | null;
    /** Places that policy or detector tells of, most confident first. */
    readonly ranking?: readonly { readonly interval: Interval; readonly confidence: number }[];
  })[];
}

/** Returns true if the policy's intervals overlap a finding; null if it gave no answer for the column. */
function markedBy(
  policy: Pick<PolicyOpinion, 'columns'> | undefined,
  { column, start, end }: Pick<ReportFinding, 'column' | 'start' | 'end'>,
): boolean | null {
  const answered = policy?.columns.find((other) => other.column === column);
  return answered?.status === 'answers' ? overlap(answered.intervals, [[start, end]]) > 0 : null;
}

/** Joins the rankings of the columns; names who tells of each interval. */
function rankingOf(
  source: ReportSource,
  { columns }: PolicyOpinion,
  findings: readonly ReportFinding[],
): Policy['ranking'] {
  return columns
    .flatMap(({ column, intervals, ranking = [] }) => {
      // Each finding has one place, where it agrees most; other marks on it are the policy's alone.
      const placed = new Map<ReportFinding, number>();
      for (const finding of findings.filter((other) => other.column === column)) {
        const agreements = ranking.map(({ interval }) => {
          const common = overlap([[finding.start, finding.end]], [interval]);
          return common / (finding.end - finding.start + interval[1] - interval[0] - common);
        });
        const best = agreements.indexOf(Math.max(0, ...agreements));
        if (agreements[best]! > 0) placed.set(finding, best);
      }
      return ranking.map(({ interval, confidence }, k) => {
        const [start, end] = interval;
        const found = [...placed].find(([, at]) => at === k)?.[0] ?? null;
        const marked = found === null || overlap(intervals, [interval]) > 0;
        const by = found === null ? ('policy' as const) : marked ? ('both' as const) : ('detector' as const);
        return { column, ...extentOf(source, start, end), confidence, by, finding: found?.id ?? null };
      });
    })
    .sort((a, b) => b.confidence - a.confidence || a.start - b.start);
}

function toPolicy(
  source: ReportSource,
  opinion: PolicyOpinion,
  findings: readonly ReportFinding[],
): Omit<Policy, 'agreement'> {
  const { name, record, notes, columns } = opinion;
  return {
    ...{ name, record, notes, ranking: rankingOf(source, opinion, findings) },
    columns: columns.map((answered) => {
      const { column, status, statement, window, doubtful, limit, signals, answers } = answered;
      const spans = findings
        .filter((finding) => finding.column === column)
        .map(({ start, end }): Interval => [start, end]);
      return {
        ...{ column, status, statement, window, doubtful, limit, class: answered.class, signals, answers },
        intervals: answered.intervals.map(([start, end], i) => ({
          ...extentOf(source, start, end),
          ...(answered.confidences == null ? {} : { confidence: answered.confidences[i]! }),
          finding: spans.some((span) => overlap([span], [[start, end]]) > 0),
          ...(answered.claims?.[i] ?? claimOf([start, end], answers)),
        })),
      };
    }),
  };
}

/**
 * Builds the report of a recording.
 *
 * @param policy answers of a policy about it
 * @throws DataError where columns, stamps or lines differ in length from the values, or two columns have one name
 */
export function buildReport(source: ReportSource, policy?: PolicyOpinion): AnomalyReport {
  const samples = source.columns[0]?.values.length ?? 0;
  for (const { name, values, detection } of source.columns) {
    const { score, expected, low, high } = detection;
    const lists = [values, score, expected, low, high, source.time, source.lines];
    if (lists.some((list) => list !== null && list.length !== samples)) {
      throw new DataError(
        `column ${name}: values, scores, times and lines must all have ${samples} entries`,
        { file: source.file },
      );
    }
  }
  if (new Set(source.columns.map(({ name }) => name)).size < source.columns.length) {
    throw new DataError('two columns have the same name; rename one', { file: source.file });
  }
  const columns = source.columns.map(({ name, values, detection }) => ({
    name,
    ...summary(values, 0, samples),
    structure: detection.structure.text,
    stated: [...detection.structure.stated],
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
    window: source.window === undefined ? null : extentOf(source, ...source.window),
    zone: source.zone,
    notes: source.notes.map((note) => toNote(source, note)),
    columns,
  } as const;
  const findings = source.columns.flatMap((column) => {
    const sure = policy?.columns.find((answered) => answered.column === column.name)?.ofFindings;
    return column.detection.findings.map((finding, k) => ({
      ...toFinding(source, column, finding),
      confidence: sure?.[k] ?? null,
    }));
  });
  // Two findings of one kind may begin at the same sample; give them different ids.
  const seen = new Map<string, number>();
  const unique = findings.map((finding) => {
    const earlier = seen.get(finding.id) ?? 0;
    seen.set(finding.id, earlier + 1);
    return earlier === 0 ? finding : { ...finding, id: idOf(finding.id, String(earlier)) };
  });
  const marked = unique.map((finding) => ({ ...finding, markedByPolicy: markedBy(policy, finding) }));
  return assemble(
    policy === undefined ? base : { ...base, policy: toPolicy(source, policy, marked) },
    marked,
  );
}

/**
 * Reduces a report to the findings that are `wanted`: ranked, joined and counted anew.
 *
 * @param why words for the note about the others ("left out by --since 2h"); no note if not given
 */
export function selectFindings(
  report: AnomalyReport,
  wanted: (finding: ReportFinding) => boolean,
  why?: string,
): AnomalyReport {
  const kept = report.findings.filter(wanted);
  const count = report.findings.length - kept.length;
  if (why === undefined || count === 0) return assemble(report, kept);
  const { text, kind } = filteredNote(count, why);
  const nowhere = { column: null, start: null, end: null, from: null, to: null, rows: null, option: null };
  return assemble(
    { ...report, notes: [...report.notes, { ...nowhere, kind, text, count, quality: false }] },
    kept,
  );
}
