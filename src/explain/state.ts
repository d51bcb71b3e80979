/** Which findings are told: those since a moment, those that were not told before, and when they fail a command. */
import { existsSync } from 'node:fs';
import { z } from 'zod';
import { LEVELS, type Level } from '../detect/finding.ts';
import { ConfigError, DataError } from '../ground/errors.ts';
import { readUtf8, writeFileAtomic } from '../ground/files.ts';
import { withLock } from '../ground/lock.ts';
import { say } from '../ground/terminal.ts';
import { policyStatement } from './policy-words.ts';
import { selectFindings } from './report.ts';
import { zoneOffsets } from './report-time.ts';
import type { AnomalyReport, ReportFinding } from './schema.ts';

/** Ends with 1 where a finding is at least as severe as `level`, else with 0; null never fails. */
export function failOn({ findings }: AnomalyReport, level: Level | null): 0 | 1 {
  return level !== null && findings.some((one) => LEVELS[one.level] >= LEVELS[level]) ? 1 : 0;
}

/**
 * The report of what lasts until `since` or longer: findings that were over before are left out.
 *
 * @param since "2025-03-04", "2025-03-04T14:00" (the clock of the file's stamps, where no zone is given), or a span such as "90min",
 * "2h", "3d" before the last sample
 * @throws ConfigError for another form, and for a recording without time
 */
export function sinceReport(report: AnomalyReport, since: string): AnomalyReport {
  if (report.samples === 0) return report;
  if (report.to === null)
    throw new ConfigError('--since: the recording has no time; leave it out, or name its time column');
  const from = parseSince(since, report);
  return selectFindings(sincePolicy(report, from), (one) => one.to!.ms >= from);
}

/** A report with what of the policy's marks lasts until an instant or longer. */
function sincePolicy({ policy, ...report }: AnomalyReport, from: number): AnomalyReport {
  if (policy === undefined) return report;
  const columns = policy.columns.map((said) => {
    const intervals = said.intervals.filter(({ to }) => to!.ms >= from);
    return { ...said, intervals, statement: policyStatement({ ...said, intervals }) };
  });
  return { ...report, policy: { ...policy, columns } };
}

const UNITS = { s: 1000, min: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 } as const;

function parseSince(since: string, { to, zone, origin }: AnomalyReport): number {
  const [, amount, unit] = /^(\d+(?:\.\d+)?) ?(s|min|h|d|w)$/.exec(since) ?? [];
  if (amount !== undefined) return to!.ms - Number(amount) * UNITS[unit as keyof typeof UNITS];
  const stamp = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d+)?)?))?(Z|[+-]\d\d:\d\d)?$/.exec(since);
  const clock =
    stamp === null ? Number.NaN : Date.parse(`${stamp[1]}T${stamp[2] ?? '00:00'}${stamp[3] ?? 'Z'}`);
  if (stamp === null || Number.isNaN(clock) || origin !== 'calendar') {
    throw new ConfigError(
      `--since: expected a date of a recording that has dates ("2025-03-04", "2025-03-04T14:00") or a span before the end ("90min", "2h", "3d"), got ${JSON.stringify(since)}`,
    );
  }
  if (stamp[3] !== undefined) return clock;
  // The offset depends on the moment that is sought: the second look is right except within the hour of a change.
  const guess = clock - offsetOf(zone, clock);
  return clock - offsetOf(zone, guess);
}

function offsetOf(zone: string | null, ms: number): number {
  return zoneOffsets(zone, ms, ms)[0]!.offset;
}

/** A finding that was told. */
const SEEN = z.strictObject({
  column: z.string(),
  kind: z.string(),
  /** First and last stamp in ms, or first and last sample of a recording without time. */
  from: z.number(),
  to: z.number(),
});

/** What was told before, by id. */
const STATE = z.strictObject({
  schema: z.literal('timeseer.anomalies.state'),
  version: z.literal(1),
  timed: z.boolean(),
  seen: z.record(z.string(), SEEN),
});

export type ReportState = z.infer<typeof STATE>;

/** The state file, or null where there is none yet. @throws DataError for a damaged one */
export function readState(path: string): ReportState | null {
  if (!existsSync(path)) return null;
  let content: unknown;
  try {
    content = JSON.parse(readUtf8(path));
  } catch (cause) {
    if (cause instanceof DataError) throw cause;
    throw new DataError(`not a state file (${(cause as Error).message}); ${REMEDY}`, { file: path, cause });
  }
  const checked = STATE.safeParse(content);
  if (checked.success) return checked.data;
  const issue = checked.error.issues[0]!;
  throw new DataError(
    `not a state file: ${issue.path.join('.') || 'the whole'}: ${issue.message}; ${REMEDY}`,
    {
      file: path,
    },
  );
}

const REMEDY = 'choose another --state, or remove it: every finding is then told once more';

const spanOf = ({ from, to, start, end }: ReportFinding): { from: number; to: number } => ({
  from: from?.ms ?? start,
  to: to?.ms ?? end - 1,
});

/** Whether a finding was told: the same one, or one of its column that lay where it lies; so one that grew is not new. */
function wasTold(one: ReportFinding, { seen }: ReportState): boolean {
  if (Object.hasOwn(seen, one.id)) return true;
  const { from, to } = spanOf(one);
  return Object.values(seen).some((old) => old.column === one.column && old.from <= to && from <= old.to);
}

/** The report of what is new, and what is known from now on; findings that were over before the recording begins are forgotten. */
export function newFindings(
  report: AnomalyReport,
  state: ReportState | null,
): { readonly fresh: AnomalyReport; readonly state: ReportState } {
  const timed = report.from !== null;
  const known: ReportState =
    state?.timed === timed ? state : { schema: 'timeseer.anomalies.state', version: 1, timed, seen: {} };
  const first = report.from?.ms ?? 0;
  const kept = Object.entries(known.seen).filter(([, old]) => old.to >= first);
  const now = report.findings.map((one) => {
    const { from, to } = spanOf(one);
    const before = Object.hasOwn(known.seen, one.id) ? known.seen[one.id] : undefined;
    return [
      one.id,
      { column: one.column, kind: one.kind, from, to: Math.max(to, before?.to ?? to) },
    ] as const;
  });
  return {
    fresh: selectFindings(report, (one) => !wasTold(one, known)),
    state: { ...known, seen: Object.fromEntries([...kept, ...now]) },
  };
}

/**
 * Tells each finding once, however often a recording that grows is looked at: `tell` gets the report of what is new, and only when it
 * has returned the findings count as told. One state file belongs to one thing that is watched. Runs at the same time wait for each other.
 *
 * @throws DataError for a damaged state file; WriteError; what `tell` throws
 */
export async function tellOnce(
  path: string,
  report: AnomalyReport,
  tell: (fresh: AnomalyReport) => void | Promise<void>,
): Promise<AnomalyReport> {
  const wait = (file: string): void => say(`${path}: waiting for another process (${file})`);
  return withLock(`${path}.lock`, wait, async () => {
    const { fresh, state } = newFindings(report, readState(path));
    await tell(fresh);
    writeFileAtomic(path, `${JSON.stringify(state, null, 2)}\n`);
    return fresh;
  });
}
