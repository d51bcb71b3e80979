/** Checks every number of a report against the values that it tells of: what does not hold is never printed. */
import { LEVELS } from '../detect/finding.ts';
import { atPeak } from '../detect/precedents.ts';
import { type Claim, claimOf } from './policy-claims.ts';
import { policyStatement } from './policy-section.ts';
import {
  type AnomalyReport,
  agreementOf,
  checkReport,
  countFindings,
  eventStatement,
  extentOf,
  findingStatement,
  headlineOf,
  instant,
  lengthWords,
  type ReportColumn,
  type ReportFinding,
  type ReportSource,
  rowsOf,
  secondsOf,
  summary,
} from './report.ts';

/** A report says something that the values do not: a fault of the program, never of the file. */
export class ReportMismatch extends Error {
  constructor(place: string, told: unknown, found: unknown) {
    super(`report: ${place}: told ${JSON.stringify(told)}, the values give ${JSON.stringify(found)}`);
    this.name = 'ReportMismatch';
  }
}

/** Relative; sums in another order differ in the last digits. */
const TOLERANCE = 1e-9;

function same(place: string, told: unknown, found: unknown): void {
  if (typeof told === 'number' && typeof found === 'number') {
    if (Math.abs(told - found) <= TOLERANCE * Math.max(Math.abs(told), Math.abs(found))) return;
  } else if (JSON.stringify(told) === JSON.stringify(found)) return;
  throw new ReportMismatch(place, told, found);
}

function checkFinding(one: ReportFinding, source: ReportSource, column: ReportColumn, samples: number): void {
  const at = `finding ${one.rank}`;
  const { start, end, peak } = one;
  if (!(start < end && end <= samples)) throw new ReportMismatch(`${at}: extent`, [start, end], [0, samples]);
  if (!(start <= peak.index && peak.index < end)) {
    throw new ReportMismatch(`${at}: peak inside [start, end)`, peak.index, [start, end]);
  }
  const { least, mean, largest } = summary(column.values, start, end);
  const value = column.values[peak.index]!;
  same(`${at}: least`, one.observed.least, least);
  same(`${at}: mean`, one.observed.mean, mean);
  same(`${at}: largest`, one.observed.largest, largest);
  same(`${at}: value at the peak`, one.observed.peak, Number.isNaN(value) ? null : value);
  const { low, high } = one.expected;
  if (low !== null && high !== null && low > high) throw new ReportMismatch(`${at}: band`, low, high);
  const extent = extentOf(source, start, end);
  same(`${at}: from`, one.from, extent.from);
  same(`${at}: to`, one.to, extent.to);
  same(`${at}: time of the peak`, peak.at, instant(source, peak.index));
  const seconds = secondsOf(source, start, end);
  same(`${at}: seconds`, one.durationSeconds, seconds);
  same(`${at}: duration`, one.duration, lengthWords(seconds, end - start));
  same(`${at}: rows`, one.rows, rowsOf(source, start, end));
  same(`${at}: severity`, one.severity >= LEVELS[one.level], true);
  const found = column.detection.findings.find(
    (other) => other.start === start && other.end === end && other.kind === one.kind,
  );
  if (found === undefined) throw new ReportMismatch(`${at}: a finding of the detector`, [start, end], null);
  same(`${at}: ongoing`, one.ongoing, end === samples || found.lasting);
  if (found.stepped !== null) {
    const { since, mean: before } = found.stepped;
    same(`${at}: mean before the step`, before, summary(column.values, since, start).mean);
    same(`${at}: direction of the step`, found.direction, mean! > before ? 'above' : 'below');
  }
  same(`${at}: statement`, one.statement, findingStatement(source, column.name, found));
  if (one.before !== null) {
    const { starts, least: low, largest: high } = one.before;
    const told = starts.map((first) =>
      atPeak(one.kind)
        ? column.values[first]!
        : (summary(column.values, first, first + end - start).mean ?? Number.NaN),
    );
    same(`${at}: least of the cycles before`, low, Math.min(...told));
    same(`${at}: largest of the cycles before`, high, Math.max(...told));
    same(
      `${at}: cycles before`,
      starts.every((first) => first >= 0 && first < start),
      true,
    );
  }
  for (const other of one.similar) {
    if (!(other.start < other.end && other.end <= samples)) {
      throw new ReportMismatch(`${at}: a similar stretch`, [other.start, other.end], [0, samples]);
    }
    same(`${at}: a similar stretch`, other, extentOf(source, other.start, other.end));
  }
}

function checkEvents({ events, findings }: AnomalyReport): void {
  for (const event of events) {
    const at = `event ${event.id}`;
    const members = findings.filter((one) => one.event === event.id);
    same(
      `${at}: findings`,
      event.columns.flatMap((one) => one.findings).sort(),
      members.map(({ id }) => id).sort(),
    );
    const start = Math.min(...members.map((one) => one.start));
    same(`${at}: start`, event.start, start);
    same(`${at}: end`, event.end, Math.max(...members.map((one) => one.end)));
    same(`${at}: severity`, event.severity, Math.max(...members.map(({ severity }) => severity)));
    for (const { column, samplesLater, secondsLater } of event.columns) {
      const first = members
        .filter((one) => one.column === column)
        .reduce((a, b) => (b.start < a.start ? b : a));
      same(`${at}: samples until ${column}`, samplesLater, first.start - start);
      const seconds = event.from === null ? null : (first.from!.ms - event.from.ms) / 1000;
      same(`${at}: seconds until ${column}`, secondsLater, seconds);
    }
    same(
      `${at}: shares`,
      event.columns.reduce((sum, { share }) => sum + share, 0),
      1,
    );
    same(`${at}: statement`, event.statement, eventStatement(event.columns, event.from));
  }
}

/** What a policy says against the findings, its own answers and the stamps. */
function checkPolicy({ policy, findings }: AnomalyReport, source: ReportSource): void {
  for (const one of findings) {
    const said = policy?.columns.find(({ column }) => column === one.column);
    const marks =
      said?.status === 'answers'
        ? said.intervals.some(({ start, end }) => start < one.end && one.start < end)
        : null;
    same(`finding ${one.rank}: marked by the policy`, one.markedByPolicy, marks);
  }
  for (const said of policy?.columns ?? []) {
    const at = `policy: ${said.column}`;
    same(`${at}: statement`, said.statement, policyStatement(said));
    same(`${at}: doubtful`, said.doubtful, said.answers.filter(({ doubts }) => doubts.length > 0).length);
    if (said.status !== 'answers') same(`${at}: intervals`, said.intervals.length, 0);
    for (const { finding, start, end, from, to, ...told } of said.intervals) {
      const interval = { start, end, from, to };
      same(`${at}: an interval`, interval, extentOf(source, start, end));
      const claim = claimOf([start, end], said.answers);
      for (const name of Object.keys(claim) as (keyof Claim)[]) {
        same(`${at}: what is claimed of an interval`, told[name], claim[name]);
      }
      // A report of some of the findings knows of the others only here.
      const found = findings.some(
        (one) => one.column === said.column && one.start < interval.end && interval.start < one.end,
      );
      if (found) same(`${at}: a finding overlaps`, finding, true);
    }
  }
  if (policy !== undefined) {
    same('policy: agreement', policy.agreement, agreementOf(findings, policy.columns));
  }
}

/**
 * Recomputes from the recording what a report says of it: extremes, means, stamps, durations, lines, counts, ranks, leads, shares.
 *
 * @throws ReportMismatch that names what does not hold; DataError for what is no report
 */
export function verify(report: AnomalyReport, source: ReportSource): void {
  checkReport(report);
  const samples = source.columns[0]?.values.length ?? 0;
  same('samples', report.samples, samples);
  same(
    'columns',
    report.columns.map(({ name }) => name),
    source.columns.map(({ name }) => name),
  );
  same('first stamp', report.from, samples === 0 ? null : instant(source, 0));
  same('last stamp', report.to, samples === 0 ? null : instant(source, samples - 1));
  same('origin', report.origin, source.origin);
  same('step', report.stepSeconds, source.step === null ? null : source.step / 1000);
  const byName = new Map(source.columns.map((column) => [column.name, column]));
  report.columns.forEach(({ name, findings, ...told }) => {
    const { least, mean, largest, missing } = summary(byName.get(name)!.values, 0, samples);
    same(`${name}: least`, told.least, least);
    same(`${name}: mean`, told.mean, mean);
    same(`${name}: largest`, told.largest, largest);
    same(`${name}: missing`, told.missing, missing);
    same(`${name}: findings`, findings, report.findings.filter(({ column }) => column === name).length);
  });
  report.findings.forEach((one, i) => {
    same('rank', one.rank, i + 1);
    const next = report.findings[i + 1];
    if (next !== undefined)
      same(`severity of rank ${i + 1} against the next`, one.severity >= next.severity, true);
    const column = byName.get(one.column);
    if (column === undefined)
      throw new ReportMismatch(`finding ${i + 1}: column`, one.column, [...byName.keys()]);
    checkFinding(one, source, column, samples);
  });
  checkEvents(report);
  checkPolicy(report, source);
  same('counts', report.counts, countFindings(report.findings));
  same('headline', report.headline, headlineOf(report.findings, report));
}
