/** Options that `detect` and `explain` share, and the report as text for a terminal. */
import { existsSync } from 'node:fs';
import { parseDuration } from '../../datasets/readers/clock.ts';
import { DEFAULT_SEVERITY } from '../detect/detect.ts';
import { KIND_WORDS, LEVELS, type Level } from '../detect/finding.ts';
import { claimWords, confidenceWords, policyWords } from '../explain/policy-words.ts';
import { agreementWords, markedAlone, noteTexts, whenWords } from '../explain/report.ts';
import type { AnomalyReport, ReportFinding } from '../explain/schema.ts';
import { failOn } from '../explain/state.ts';
import { ConfigError } from '../ground/errors.ts';
import { type DetectRequest, PROMETHEUS_TOKEN } from '../run/detect.ts';
import { choice, flag, type Given, grouped, list, number, text } from './options.ts';

export type DetectOptionValues = Given<typeof DETECT_OPTIONS>;

export const FILE_WORDS =
  'CSV with numeric columns, JSON lines, InfluxDB CSV or line protocol, or a .npy array of one series; form, header, time column, separator, row order and encoding are detected; - reads standard input';

export const LEVEL_WORDS = `Severity levels: ${Object.entries(LEVELS)
  .map(([name, least]) => `${name} from ${least}`)
  .join(', ')}.`;

/** Options of `detect` and `explain`. */
export const DETECT_OPTIONS = {
  column: list('Column of values, by name or number (repeatable; default: all numeric columns)'),
  time: text('Column of time, or several as date,clock or year,month,day,hour'),
  key: text('Column that names the series of each row, in a file with several series'),
  select: text('Series to read: a value of the --key column, or * for all of them, as columns'),
  tz: text('Time zone of time stamps that have none, and to show times in: Europe/Berlin, UTC, +02:00'),
  severity: number(
    'Minimum severity, 1 to 100: 2 means one false finding per 100 normal series, 3 one per 1000',
    {
      default: DEFAULT_SEVERITY,
      coerce: (severity: number) => {
        if (!Number.isNaN(severity)) return severity;
        const levels = Object.entries(LEVELS).map(([name, least]) => `${least} for ${name}`);
        throw new ConfigError(`--severity: expected a number, 1 to 100: ${levels.join(', ')}`);
      },
    },
  ),
  direction: choice(['above', 'below', 'both'], 'Direction of the anomalies to report', { default: 'both' }),
  'min-change': number('Leave out findings whose departure is smaller than this, in units of the values', {
    default: 0,
  }),
  'min-share': number(
    'Leave out findings whose departure is smaller than this share of the value range, 0 to 1; departures below 0.02 are not judged',
    { default: 0 },
  ),
  'keep-sentinels': flag(
    'Keep numbers such as -999 that stand for a missing value, instead of leaving them out',
  ),
  rate: list(
    'Counter to judge as a rate per second, by column (repeatable); auto: all that look like counters',
  ),
  decimal: choice(['.', ','], 'Decimal separator of all numbers; the other one groups thousands'),
  since: text(
    'Report only findings that end after this time: 2025-03-04T14:00, or 2h for the last two hours',
  ),
  history: text(
    'Earlier samples, from which what is usual is learned; only what ends after them is reported: a file with the same columns (default: the recordings that the policy was adapted to), or with --prometheus how far back to read, such as 7d (default: as far as --since, else 1d)',
  ),
  scores: text('CSV file for the score and the expected value of every sample'),
  'fail-on': choice(
    Object.keys(LEVELS),
    'Exit with 1 if a finding is at least this severe (2: wrong usage, 3: an error)',
  ),
  'fail-on-quality': flag(
    'Exit with 1 if the data have a fault, such as a gap, a stuck or clipped value, a counter or an ambiguous number',
  ),
  ...grouped('Prometheus:', {
    prometheus: text(
      'Read a Prometheus server instead of a file: its address, such as http://localhost:9090',
    ),
    query: text('With --prometheus: PromQL; each series of the result is a column, named by its labels'),
    step: text('With --prometheus: time between two samples (default: 1m)'),
    'token-file': text(
      `With --prometheus: file that holds the bearer token (default: environment variable ${PROMETHEUS_TOKEN})`,
    ),
    'ca-file': text('Certificates (PEM) of the authorities to trust, beside the usual ones'),
  }),
};

/** Options that say how a file is read. */
const OF_FILES = ['time', 'key', 'select', 'decimal'] as const;
/** Options that need --prometheus. */
const OF_PROMETHEUS = ['query', 'step', 'tokenFile'] as const;

/** @throws ConfigError where both a file and a server are named, or neither */
function inputOf(
  file: string | undefined,
  args: DetectOptionValues,
): Pick<DetectRequest, 'file' | 'prometheus' | 'history'> {
  const { prometheus: url, query, history, step, tokenFile, caFile } = args;
  if (url === undefined) {
    const stray = OF_PROMETHEUS.find((name) => args[name] !== undefined);
    if (stray !== undefined)
      throw new ConfigError(`--${stray === 'tokenFile' ? 'token-file' : stray}: needs --prometheus`);
    if (file === undefined)
      throw new ConfigError(
        'file: missing; name a CSV file, for example metrics.csv, or a server with --prometheus',
      );
    if (history !== undefined && parseDuration(history) !== null && !existsSync(history))
      throw new ConfigError(
        `--history ${history}: a duration needs --prometheus; name a file with earlier samples`,
      );
    return { file, history };
  }
  if (file !== undefined) throw new ConfigError(`--prometheus: reads a server; leave the file ${file} out`);
  const stray = OF_FILES.find((name) => args[name] !== undefined);
  if (stray !== undefined) throw new ConfigError(`--${stray}: says how a file is read; leave it out`);
  if (query === undefined || query.trim() === '')
    throw new ConfigError('--prometheus: needs --query, a PromQL expression such as node_load1');
  return { file: query, prometheus: { url, query, history, step, tokenFile, caFile } };
}

export function detectRequest(file: string | undefined, args: DetectOptionValues): DetectRequest {
  if (!(args.minShare >= 0 && args.minShare <= 1))
    throw new ConfigError(`--min-share: expected a share from 0 to 1, got ${args.minShare}`);
  if (!(args.minChange >= 0))
    throw new ConfigError(`--min-change: expected a number from 0 on, got ${args.minChange}`);
  const { time, key, select, tz, severity, direction } = args;
  return {
    ...inputOf(file, args),
    ...{ columns: args.column.map(String), time, key, select, tz, severity, direction },
    keepSentinels: args.keepSentinels,
    decimal: args.decimal as '.' | ',' | undefined,
    rate: args.rate.map(String),
    absoluteFloor: args.minChange,
    relativeFloor: args.minShare,
  };
}

/** Exit code of a report by --fail-on and --fail-on-quality; undefined where neither is given. */
export function exitCode(
  report: AnomalyReport,
  { failOn: level, failOnQuality }: Pick<DetectOptionValues, 'failOn' | 'failOnQuality'>,
): 0 | 1 | undefined {
  if (failOnQuality && report.notes.some(({ quality }) => quality)) return 1;
  return level === undefined ? undefined : failOn(report, level as Level);
}

/** Most findings that a terminal shows. */
const SHOWN = 20;

const policyMark = (finding: ReportFinding): string => {
  const words = policyWords(finding);
  return words === null ? '' : `; ${words}`;
};

/** Answers of a policy: agreement with the detector, intervals that it marks alone, and a sentence for each column. */
function policyLines(report: AnomalyReport, policy: NonNullable<AnomalyReport['policy']>): string[] {
  const several = report.columns.length > 1;
  const alone = markedAlone(report);
  const lines = [`  detector and policy: ${agreementWords(policy.agreement)}`];
  for (const { column, interval } of alone.slice(0, SHOWN)) {
    lines.push(
      `     policy alone: ${several ? `${column}: ` : ''}${claimWords(interval)}, ${whenWords(interval)}${interval.confidence == null ? '' : ` (confidence ${confidenceWords(interval.confidence)})`}`,
    );
  }
  if (alone.length > SHOWN) lines.push(`     and ${alone.length - SHOWN} more, in the JSON file`);
  for (const { column, statement } of policy.columns) {
    lines.push(`  policy${several ? `, ${column}` : ''}: ${statement}`);
  }
  return lines;
}

/** Formats a report for a terminal: headline, notes, two lines for each finding, answers of a policy, files written. */
export function reportText(report: AnomalyReport, files: readonly string[], seconds: number): string {
  const several = report.columns.length > 1;
  const lines = [`${report.file}: ${report.headline} (${seconds.toFixed(1)} s)`];
  const { faults, assumptions } = noteTexts(report);
  lines.push(...faults.map((fault) => `  data: ${fault}`), ...assumptions.map((note) => `  note: ${note}`));
  const shown = report.findings.slice(0, SHOWN);
  const tell = (finding: ReportFinding): void =>
    void lines.push(
      `${String(finding.rank).padStart(3)}  ${finding.level.padEnd(8)} ${finding.severity.toFixed(1).padStart(5)}  ${several ? `${finding.column}: ` : ''}${KIND_WORDS[finding.kind]}, ${whenWords(finding)} (${finding.duration})${policyMark(finding)}${finding.reported ? '; reported before' : ''}`,
      `     ${finding.statement}`,
    );
  for (const incident of report.incidents) {
    const { level, severity, duration, statement, columns, first } = incident;
    const members = shown.filter((finding) => finding.incident === incident.id);
    if (members.length === 0) continue;
    const isTold = first === null && members[0]?.rank === 1;
    lines.push(
      `  incident: ${level} ${severity.toFixed(1)}, ${columns.length} columns, ${whenWords(incident)} (${duration})`,
      ...(isTold ? [] : [`     ${statement}`]),
    );
    members.forEach(tell);
  }
  const alone = shown.filter(({ incident }) => incident === null);
  if (report.incidents.length > 0 && alone.length > 0) lines.push('  in one column alone:');
  alone.forEach(tell);
  const more = report.findings.length - SHOWN;
  if (more > 0) lines.push(`     and ${more} more: detect --format csv lists all`);
  if (report.policy !== undefined) lines.push(...policyLines(report, report.policy));
  return [...lines, ...files.map((file) => `  ${file}`)].join('\n');
}
