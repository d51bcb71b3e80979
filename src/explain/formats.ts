/** Output formats of a report: JSON, CSV, Markdown, Grafana annotations; and the scores of every sample as CSV. */

import { closeSync, existsSync, openSync, readSync, statSync } from 'node:fs';
import { KIND_WORDS } from '../detect/finding.ts';
import { ConfigError, DataError } from '../ground/errors.ts';
import { jsonText } from '../ground/files.ts';
import { grouped } from '../ground/numbers.ts';
import { instant, noteTexts, type ReportSource, stateWords, whenWords } from './report.ts';
import type { AnomalyReport, ReportFinding } from './schema.ts';

/**
 * Formats a number for people: decimals down to hundredths of `spread`, or six significant digits without one; digits grouped from five
 * on; a dash for null.
 */
export function numberWords(value: number | null, spread: number | null = null): string {
  if (value === null) return '\u2013';
  const size = Math.abs(value);
  const text =
    size !== 0 && (size < 1e-4 || size >= 1e15)
      ? value.toExponential(3).replace(/\.?0+(?=e)/, '')
      : spread !== null && spread > 0
        ? String(Number(value.toFixed(Math.min(12, Math.max(0, 2 - Math.floor(Math.log10(spread)))))))
        : String(Number(value.toPrecision(size >= 1e6 ? 15 : 6)));
  return text
    .replaceAll('-', '\u2212')
    .replace(/^(\u2212?)(\d{5,})(?=\.|$)/, (_, sign, whole) => sign + grouped(Number(whole)));
}

/** Width of the expected band; null without one. */
export function bandWidth({ expected: { low, high } }: ReportFinding): number | null {
  return low === null || high === null || !Number.isFinite(high - low) ? null : high - low;
}

/** Observed values: that of a single sample, else least to largest and the mean. */
export function observedWords(finding: ReportFinding): string {
  const { observed, start, end } = finding;
  const words = (value: number | null): string => numberWords(value, bandWidth(finding));
  if (end - start === 1) return words(observed.peak);
  if (observed.least === observed.largest) return `${words(observed.least)} throughout`;
  return `${words(observed.least)} to ${words(observed.largest)}, mean ${words(observed.mean)}`;
}

/** Expected value and band at the peak. */
function expectedWords(finding: ReportFinding): string {
  const words = (value: number | null): string => numberWords(value, bandWidth(finding));
  return `${words(finding.expected.value)} (${words(finding.expected.low)} to ${words(finding.expected.high)})`;
}

/** Report as indented JSON. */
export function toJson(report: AnomalyReport): string {
  return jsonText(report);
}

type Cell = string | number | boolean | null | undefined;

/** Formats a record as in RFC 4180, without the line end. */
export function csvRecord(cells: readonly Cell[]): string {
  return cells
    .map((cell) => {
      const text = cell === null || cell === undefined ? '' : String(cell);
      return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    })
    .join(',');
}

const COLUMNS: Readonly<Record<string, (finding: ReportFinding) => Cell>> = {
  id: (finding) => finding.id,
  rank: (finding) => finding.rank,
  column: (finding) => finding.column,
  from: (finding) => finding.from?.iso ?? finding.from?.shown,
  to: (finding) => finding.to?.iso ?? finding.to?.shown,
  duration_seconds: (finding) => finding.durationSeconds,
  start: (finding) => finding.start,
  end: (finding) => finding.end,
  kind: (finding) => finding.kind,
  direction: (finding) => finding.direction,
  level: (finding) => finding.level,
  severity: (finding) => finding.severity,
  ongoing: (finding) => finding.ongoing,
  reported: (finding) => finding.reported,
  peak_time: (finding) => finding.peak.at?.iso ?? finding.peak.at?.shown,
  peak_index: (finding) => finding.peak.index,
  observed_peak: (finding) => finding.observed.peak,
  observed_least: (finding) => finding.observed.least,
  observed_mean: (finding) => finding.observed.mean,
  observed_largest: (finding) => finding.observed.largest,
  expected: (finding) => finding.expected.value,
  expected_low: (finding) => finding.expected.low,
  expected_high: (finding) => finding.expected.high,
  first_line: (finding) => finding.rows?.first,
  last_line: (finding) => finding.rows?.last,
  change: (finding) => finding.change,
  incident: (finding) => finding.incident,
  confidence: (finding) => finding.confidence,
  statement: (finding) => finding.statement,
};

/** CSV with a record for each finding, by rank; unknown values are empty. */
export function toCsv({ findings }: AnomalyReport): string {
  const cells = Object.values(COLUMNS);
  const records = [
    csvRecord(Object.keys(COLUMNS)),
    ...findings.map((finding) => csvRecord(cells.map((cell) => cell(finding)))),
  ];
  return `${records.join('\n')}\n`;
}

/** First columns of a file of scores. */
const SCORES = ['column', 'index'] as const;

/** Reads the first 300 bytes of a file; empty for what cannot be read. */
function headOf(path: string): string {
  const head = Buffer.alloc(300);
  try {
    if (!statSync(path).isFile()) return '';
    const file = openSync(path, 'r');
    readSync(file, head);
    closeSync(file);
  } catch {
    return ''; // what reads all of it says why
  }
  return head.toString();
}

/** Returns true for a file that timeseer wrote: scores, findings, a report, events or a state. */
export const isWritten = (path: string): boolean =>
  /^(?:column,index|id,rank,column,from),|^\s*\{.*?"schema":\s*"timeseer\./s.test(headOf(path));

/** @throws ConfigError for a path of scores at which something else is: it is kept */
export function checkScores(path: string): void {
  if (existsSync(path) && !headOf(path).startsWith(`${csvRecord(SCORES)},`))
    throw new ConfigError(
      `--scores ${path}: exists and was not written by this command; it is kept. Choose another --scores`,
    );
}

/**
 * CSV with a record for each sample of each column: value, expected value, band and score. Yielded in parts, because a million samples make
 * 100 MB of text. Missing values are empty.
 */
export function* scoresCsv(source: ReportSource): Generator<string> {
  yield `${csvRecord([...SCORES, ...(source.time === null ? [] : ['time']), 'value', 'expected', 'low', 'high', 'score'])}\n`;
  for (const { name, values, detection } of source.columns) {
    const { expected, low, high, score } = detection;
    for (let at = 0; at < values.length; at += 4096) {
      let part = '';
      for (let i = at; i < Math.min(values.length, at + 4096); i++) {
        const numbers = [values[i]!, expected[i]!, low[i]!, high[i]!, score[i]!];
        const stamp = source.time === null ? [] : [instant(source, i)!.iso ?? source.time[i]!];
        part += `${csvRecord([name, i, ...stamp, ...numbers.map((value) => (Number.isFinite(value) ? value : null))])}\n`;
      }
      yield part;
    }
  }
}

/** Escapes text for Markdown: no markup, link, mention or line break is left. */
function markdownText(text: string): string {
  return text
    .replaceAll(/\s+/g, ' ')
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll(/[\\`*_{}[\]()#|!~@]/g, '\\$&');
}

/** Markdown for a ticket: the headline, a table of all findings with their evidence, and the assumptions. */
export function toMarkdown(report: AnomalyReport): string {
  const text = markdownText;
  const row = (finding: ReportFinding): string =>
    `| ${[
      String(finding.rank),
      `**${finding.level}**`,
      text(whenWords(finding)),
      report.window === null
        ? `${finding.duration}, ${text(stateWords(finding, report.to))}`
        : finding.duration,
      text(finding.column),
      KIND_WORDS[finding.kind],
      observedWords(finding),
      expectedWords(finding),
    ].join(' | ')} |`;
  const detail = (finding: ReportFinding): string[] => [
    `${finding.rank}. ${text(finding.statement)}`,
    ...finding.evidence.for.map((clause) => `   - for: ${text(clause)}`),
    ...finding.evidence.against.map((clause) => `   - against: ${text(clause)}`),
    ...(finding.similar.length === 0
      ? []
      : [`   - similar: ${text(finding.similar.map((other) => whenWords(other)).join('; '))}`]),
  ];
  const listed = (title: string, notes: readonly string[]): string[] =>
    notes.length === 0 ? [] : ['', `## ${title}`, '', ...notes.map((note) => `- ${text(note)}`)];
  const { faults, assumptions } = noteTexts(report);
  const lines = [
    `# Anomalies in ${text(report.file)}`,
    '',
    text(report.headline),
    ...listed(
      'Incidents',
      report.incidents.map(({ level, statement }) => `${level}: ${statement}`),
    ),
    ...(report.findings.length === 0
      ? []
      : [
          '',
          '| # | Level | When | Duration | Column | Kind | Observed | Expected at peak (99 % band) |',
          '|-|-|-|-|-|-|-|-|',
          ...report.findings.map(row),
          '',
          ...report.findings.flatMap(detail),
        ]),
    ...listed('Data quality', faults),
    ...listed('Assumptions', assumptions),
  ];
  return `${lines.join('\n')}\n`;
}

/** Annotation for Grafana's HTTP API (POST /api/annotations). */
interface GrafanaAnnotation {
  readonly time: number; // ms since 1970
  readonly timeEnd: number;
  readonly tags: readonly string[];
  /** Escaped, since Grafana shows it as HTML. */
  readonly text: string;
}

/**
 * Makes an annotation for each finding. Stamps without a zone count as UTC.
 * @throws DataError for a recording without time
 */
export function toGrafana(report: AnomalyReport): GrafanaAnnotation[] {
  return report.findings.map((finding) => {
    if (finding.from === null || finding.to === null || report.origin !== 'calendar') {
      throw new DataError(
        'annotations need dates, but no time column with dates was found; name one with --time, or choose another format',
        { file: report.file },
      );
    }
    const seconds = finding.durationSeconds ?? 0;
    return {
      time: Math.round(finding.from.ms),
      timeEnd: Math.round(finding.from.ms + 1000 * seconds),
      tags: ['timeseer', finding.level, finding.kind, finding.column],
      text: finding.statement.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;'),
    };
  });
}

/** Formats of a report by option name. */
export const FORMATS: Readonly<Record<string, (report: AnomalyReport) => string>> = {
  json: toJson,
  csv: toCsv,
  markdown: toMarkdown,
  'grafana-annotations': (report) => `${JSON.stringify(toGrafana(report), null, 2)}\n`,
};
