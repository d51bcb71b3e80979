/** Selects the findings to report: those since a moment, and those that were not reported before; one identity, one state file. */
import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { formatDuration, parseDuration, parseInstant } from '../../datasets/readers/clock.ts';
import { INSIDE, LEVELS, type Level } from '../detect/finding.ts';
import { ConfigError, DataError, faultOf } from '../ground/errors.ts';
import { readUtf8, writeJson } from '../ground/files.ts';
import { type Holder, takeLock } from '../ground/lock.ts';
import { say } from '../ground/terminal.ts';
import { policyStatement } from './policy-words.ts';
import { type ReportSource, selectFindings } from './report.ts';
import type { Alerts, AnomalyReport, ReportFinding, ReportState, SeenFinding } from './schema.ts';

/** Exit code: 1 where a finding is at least as severe as `level`, else 0; null never fails. */
export function failOn({ findings }: AnomalyReport, level: Level | null): 0 | 1 {
  return level !== null && findings.some((finding) => LEVELS[finding.level] >= LEVELS[level]) ? 1 : 0;
}

/**
 * Reduces a report to what lasts until `since` or longer: findings that were over before are left out.
 *
 * @param since "2025-03-04", "2025-03-04T14:00" (the clock of the file's stamps, where no zone is given), or a span such as "90min",
 * "2h", "3d" before the last sample
 * @param before words for that moment in the note about what is left out
 * @throws ConfigError for another form, and for a recording without time
 */
export function sinceReport(
  report: AnomalyReport,
  since: string,
  before = `--since ${since}`,
): AnomalyReport {
  if (report.samples === 0) return report;
  if (report.to === null)
    throw new ConfigError(
      '--since: the recording has no time; leave --since out, or name the time column with --time',
    );
  if (report.origin !== 'calendar' && parseDuration(since) === null)
    throw new ConfigError(
      `--since ${since}: the recording has no dates; expected a duration before its end such as 90min, 2h or 3d`,
    );
  const from = parseInstant(since, '--since', report.zone, report.to.ms);
  const notes = report.notes.filter(({ to }) => to === null || to.ms >= from);
  return selectFindings(
    { ...sincePolicy(report, from), notes },
    (finding) => spanOf(finding).to >= from,
    `over before ${before}`,
  );
}

/** Leaves out intervals of the policy that were over before an instant. */
function sincePolicy({ policy, ...report }: AnomalyReport, from: number): AnomalyReport {
  if (policy === undefined) return report;
  const columns = policy.columns.map((column) => {
    const intervals = column.intervals.filter(({ to }) => to!.ms >= from);
    return { ...column, intervals, statement: policyStatement({ ...column, intervals }) };
  });
  return { ...report, policy: { ...policy, columns } };
}

/** First and last stamp of a finding in ms; without time its first and last sample. */
export const spanOf = ({
  from,
  to,
  start,
  end,
}: Pick<ReportFinding, 'from' | 'to' | 'start' | 'end'>): Pick<SeenFinding, 'from' | 'to'> => ({
  from: from?.ms ?? start,
  to: to?.ms ?? end - 1,
});

type Remembered = Pick<SeenFinding, 'column' | 'from' | 'to'> & { readonly id: string };

/**
 * Identity of a finding over time, for --state and --follow: the same id, or an overlapping finding of the same column, so that a finding
 * that grew is not new. A dip inside a level is not the level.
 *
 * @param findings of the same report: a short one inside this one, or a long one around it, may be the one that was seen
 */
export function isSame(
  finding: ReportFinding,
  seen: Remembered,
  findings: readonly ReportFinding[],
): boolean {
  if (seen.id === finding.id) return true;
  const shared = alike(finding, seen);
  if (shared < 0) return false;
  const holds = (one: ReportFinding, other: ReportFinding): boolean =>
    one.start <= other.start &&
    other.end <= one.end &&
    one.end - one.start >= INSIDE * (other.end - other.start);
  return !findings.some(
    (other) =>
      other.column === finding.column &&
      other !== finding &&
      (holds(other, finding) || holds(finding, other)) &&
      (other.id === seen.id || alike(other, seen) > shared),
  );
}

/** Share of the time of two spans that both cover; below 0 for another column and spans that are apart. */
function alike(finding: ReportFinding, seen: Remembered): number {
  const { from, to } = spanOf(finding);
  if (seen.column !== finding.column) return -1;
  // The duration is one step longer than the stamps are apart. Beside other series stamps may be off by half a step.
  const step = Math.max(0, 1000 * (finding.durationSeconds ?? 0) - (to - from));
  const overlap = Math.min(to, seen.to) - Math.max(from, seen.from);
  if (overlap < -step / 2) return -1;
  const whole = Math.max(to, seen.to) - Math.min(from, seen.from) + step;
  return whole === 0 ? 1 : Math.max(0, overlap + step) / whole;
}

/** Makes the state that remembers findings. */
export const stateOf = (
  timed: boolean,
  seen: readonly (SeenFinding & { readonly id: string })[],
): ReportState => ({
  ...{ schema: 'timeseer.anomalies.state', version: 2, timed },
  seen: Object.fromEntries(seen.map(({ id, ...finding }) => [id, finding])),
});

/** Findings that a state remembers; none if only one of state and recording has time. */
export const seenIn = (
  state: ReportState | null,
  timed: boolean,
): (SeenFinding & { readonly id: string })[] =>
  state?.timed === timed ? Object.entries(state.seen).map(([id, seen]) => ({ id, ...seen })) : [];

const ELSEWHERE = 'choose another --state';
const REMEDY = `${ELSEWHERE}, or remove the file: every finding is then reported once more`;

/** Reads the state file; null if there is none yet. @throws DataError for a damaged one */
export async function readState(path: string): Promise<ReportState | null> {
  if (!existsSync(path)) return null;
  let content: unknown;
  try {
    const text = readUtf8(path);
    if (text.trim() === '')
      throw new DataError(`is empty, so no finding is known from it; remove the file, or ${ELSEWHERE}`, {
        file: path,
      });
    content = JSON.parse(text);
  } catch (cause) {
    if (cause instanceof DataError) throw cause;
    throw new DataError(`not a state file (${faultOf(cause)}); ${REMEDY}`, { file: path, cause });
  }
  const { checkState } = await import('./schema.ts');
  return checkState(content, path, REMEDY);
}

/** Writes the state file whole. @throws WriteError */
export function writeState(path: string, state: ReportState): void {
  writeJson(path, state);
}

/**
 * Runs `work` while no other process uses the state file. The lock of a process that was killed holds nobody up.
 *
 * @param waits false: does not wait for another process
 * @throws ConfigError for a file that a living process uses, unless it `waits`, and for one in a directory that is not there
 */
export async function withState<T>(path: string, waits: boolean, work: () => Promise<T>): Promise<T> {
  const directory = dirname(path);
  if (!existsSync(directory))
    throw new ConfigError(
      `--state ${path}: there is no directory ${directory}; make it, or choose another file`,
    );
  const holder = ({ pid, since, elsewhere, file }: Holder): string =>
    `process ${pid}${elsewhere ? ' of another machine or container' : ''} has used it for ${formatDuration(1000 * Math.ceil((Date.now() - since) / 1000))} (${file})`;
  const refuse = (other: Holder): Error =>
    new ConfigError(`--state ${path}: ${holder(other)}; end that process, or choose another --state`);
  const onWait = (other: Holder): void => say(`${path}: waiting; ${holder(other)}`);
  const lock = await takeLock(`${path}.lock`, { onWait, ...(waits ? {} : { refuse }) });
  try {
    return await work();
  } finally {
    lock.release();
  }
}

/** Time after which columns that no run has read any more are forgotten: 30 days in ms. */
const FORGOTTEN = 30 * 86_400_000;

/**
 * Reduces a report to what a run with a state has to say: findings that were not reported before, and those that were and are still ongoing,
 * a level that has come to stay apart. Findings that were over before the recording begins are forgotten; those of columns that the report
 * lacks are kept, as a file or a series may be missing for some nights.
 */
export function newFindings(
  report: AnomalyReport,
  state: ReportState | null,
): { readonly fresh: AnomalyReport; readonly state: ReportState } {
  const timed = report.from !== null;
  const all = seenIn(state, state?.timed ?? timed);
  const first = report.from?.ms ?? 0;
  const time = Date.now();
  const here = new Set(report.columns.map(({ name }) => name));
  const read = (names: Iterable<string>) => Object.fromEntries(Array.from(names, (name) => [name, time]));
  const last = { ...read(all.map(({ column }) => column)), ...state?.columns, ...read(here) };
  const isLate = (column: string): boolean => time - last[column]! >= FORGOTTEN;
  const seen = all.filter(({ column, to }) => (here.has(column) ? to >= first : !isLate(column)));
  const now = report.findings.map((finding) => {
    const { from, to } = spanOf(finding);
    const before = seen.find(({ id }) => id === finding.id);
    return {
      ...(before?.open === undefined ? {} : { open: before.open }),
      ...{ id: finding.id, column: finding.column, kind: finding.kind, from },
      to: Math.max(to, before?.to ?? to),
    };
  });
  const marked = report.findings.map((finding) => ({
    ...finding,
    reported: seen.some((old) => isSame(finding, old, report.findings)),
  }));
  const kept = stateOf(timed, [...seen, ...now]);
  return {
    fresh: selectFindings(
      { ...report, findings: marked },
      ({ reported, ongoing, lasting }) => !reported || (ongoing && !lasting),
      'reported before, by --state',
    ),
    state: {
      ...kept,
      columns: Object.fromEntries(Object.entries(last).filter(([column]) => !isLate(column))),
      ...(state?.followed === undefined ? {} : { followed: state.followed }),
      ...(state?.alerts === undefined ? {} : { alerts: state.alerts }),
    },
  };
}

/** Number of remembered samples: the latest ones, and as many of the second half. */
const LATEST = 4;
/** Fewest samples that tell one recording from another. */
const FEWEST = 3;

/** Returns the samples of a recording that its state remembers. */
function samplesOf({ time, columns }: ReportSource): NonNullable<ReportState['samples']> {
  const n = columns[0]?.values.length ?? 0;
  const places = Array.from({ length: LATEST }, (_, k) => [
    n - 1 - k,
    n - 1 - Math.floor((k * n) / 2 / LATEST),
  ]);
  return [...new Set(places.flat())]
    .filter((i) => i >= 0)
    .sort((a, b) => a - b)
    .map((i) => [
      time?.[i] ?? i,
      Object.fromEntries(
        columns.map(({ name, values }) => [name, Number.isNaN(values[i]!) ? null : values[i]!]),
      ),
    ]);
}

/**
 * Refuses a state of another recording, whose findings would hide those of this one: where it has none of the remembered samples, or other
 * values in all of them.
 *
 * @throws ConfigError
 */
function checkSource(
  path: string,
  state: ReportState | null,
  { time, columns, formatTime }: ReportSource,
  several: boolean,
): void {
  const n = columns[0]?.values.length ?? 0;
  if (state?.samples === undefined || n === 0 || state.timed !== (time !== null)) return;
  const refuse = (difference: string): never => {
    throw new ConfigError(
      `--state ${path}: belongs to another recording, or to other options of reading: ${difference}; give each recording its own --state, or remove the file`,
    );
  };
  const stamp = (at: number): string => (time === null ? `sample ${at}` : formatTime(at));
  const covered = state.samples.filter(([at]) => at >= (time?.[0] ?? 0) && at <= (time?.[n - 1] ?? n - 1));
  const places = new Map(Array.from(time ?? new Float64Array(n).keys(), (at, i) => [at, i]));
  const common = covered.filter(([at]) => places.has(at));
  // Beside other series stamps may be off by half a step.
  if (!several && covered.length >= FEWEST && common.length === 0)
    refuse(`it remembers a sample at ${stamp(covered[0]![0])}, which this one has not`);
  const pairs = common.map(([at, before]) =>
    columns.flatMap(({ name, values }) => {
      const [old, now] = [before[name], values[places.get(at)!]!];
      return old === undefined || old === null || Number.isNaN(now) ? [] : [{ at, name, old, now }];
    }),
  );
  const compared = pairs.filter((some) => some.length > 0);
  if (compared.length < FEWEST || compared.some((some) => some.some(({ old, now }) => old === now))) return;
  const { at, name, old, now } = compared.at(-1)![0]!;
  const shown = (value: number | undefined): number => Number(value!.toPrecision(6));
  refuse(`at ${stamp(at)} ${name} was ${shown(old)} and is ${shown(now)} here`);
}

/** Receiver of what a report changes; see `Webhook`. */
interface Receiver {
  readonly alerts: Alerts;
  update(report: AnomalyReport, fresh: AnomalyReport): void;
  deliver(save: (alerts: Alerts) => void): Promise<void>;
}

/** Reports what is new in a report: `publish` gets the report of `newFindings`. */
export type Once = (report: AnomalyReport, source: ReportSource, publish: Publish) => Promise<void>;
type Publish = (fresh: AnomalyReport) => void | Promise<void>;

/**
 * Reports each finding of growing recordings once, and again while it is ongoing. Findings count as reported once `work` has returned. A
 * column of one state file belongs to one recording. Processes that share the file wait for each other. A `receiver` is told what opened and
 * closed once the state holds it.
 *
 * @param several false for one recording alone, whose samples keep their stamps
 * @throws DataError for a damaged state file; WriteError; errors of `work`, to which `once` throws ConfigError for another recording
 */
export async function reportOnce(
  path: string,
  work: (once: Once) => Promise<void>,
  receiver?: (kept: Alerts | undefined) => Receiver,
  several = true,
): Promise<void> {
  await withState(path, true, async () => {
    const before = await readState(path);
    const told = receiver?.(before?.alerts);
    const samples: ReturnType<typeof samplesOf> = [];
    let last = before;
    await work(async (report, source, publish) => {
      checkSource(path, before, source, several);
      const { fresh, state } = newFindings(report, last);
      await publish(fresh);
      told?.update(report, fresh);
      samples.push(...samplesOf(source));
      last = { ...state, samples };
    });
    const save = (alerts = last?.alerts): void =>
      writeState(path, { ...last!, ...(alerts === undefined ? {} : { alerts }) });
    if (last !== before) save(told?.alerts);
    await told?.deliver(save);
  });
}
