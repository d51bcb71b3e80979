/** A report in the forms that other programs take: JSON, CSV, Markdown, Grafana annotations; and the scores of every sample. */

import { KIND_WORDS } from '../detect/finding.ts';
import { DataError } from '../ground/errors.ts';
import { grouped } from '../ground/numbers.ts';
import { instant, type ReportSource, stateWords, whenWords } from './report.ts';
import type { AnomalyReport, ReportFinding } from './schema.ts';

/**
 * A number for people: as many decimals as tell apart hundredths of `spread`, or six significant digits without one; whole parts are
 * grouped from five digits on; a dash where there is none.
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

/** Width of the band that is expected; null where there is none. */
export function bandWidth({ expected: { low, high } }: ReportFinding): number | null {
  return low === null || high === null || !Number.isFinite(high - low) ? null : high - low;
}

/** What was observed: the value of a single sample, else least to largest and the mean. */
export function observedWords(one: ReportFinding): string {
  const { observed, start, end } = one;
  const words = (value: number | null): string => numberWords(value, bandWidth(one));
  if (end - start === 1) return words(observed.peak);
  if (observed.least === observed.largest) return `${words(observed.least)} throughout`;
  return `${words(observed.least)} to ${words(observed.largest)}, mean ${words(observed.mean)}`;
}

/** What was expected where it departs most. */
function expectedWords(one: ReportFinding): string {
  const words = (value: number | null): string => numberWords(value, bandWidth(one));
  return `${words(one.expected.value)} (${words(one.expected.low)} to ${words(one.expected.high)})`;
}

/** The report itself, indented. */
export function toJson(report: AnomalyReport): string {
  return `${JSON.stringify(report, null, 2)}\n`;
}

type Cell = string | number | boolean | null | undefined;

/** One record as RFC 4180 writes it, without the line end. */
export function csvRecord(cells: readonly Cell[]): string {
  return cells
    .map((cell) => {
      const text = cell === null || cell === undefined ? '' : String(cell);
      return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    })
    .join(',');
}

const COLUMNS: Readonly<Record<string, (finding: ReportFinding) => Cell>> = {
  id: (one) => one.id,
  rank: (one) => one.rank,
  column: (one) => one.column,
  from: (one) => one.from?.iso ?? one.from?.shown,
  to: (one) => one.to?.iso ?? one.to?.shown,
  duration_seconds: (one) => one.durationSeconds,
  start: (one) => one.start,
  end: (one) => one.end,
  kind: (one) => one.kind,
  direction: (one) => one.direction,
  level: (one) => one.level,
  severity: (one) => one.severity,
  ongoing: (one) => one.ongoing,
  peak_time: (one) => one.peak.at?.iso ?? one.peak.at?.shown,
  peak_index: (one) => one.peak.index,
  observed_peak: (one) => one.observed.peak,
  observed_least: (one) => one.observed.least,
  observed_mean: (one) => one.observed.mean,
  observed_largest: (one) => one.observed.largest,
  expected: (one) => one.expected.value,
  expected_low: (one) => one.expected.low,
  expected_high: (one) => one.expected.high,
  first_line: (one) => one.rows?.first,
  last_line: (one) => one.rows?.last,
  event: (one) => one.event,
  statement: (one) => one.statement,
};

/** One record for each finding, by rank, under a header; empty cells where something is unknown. */
export function toCsv({ findings }: AnomalyReport): string {
  const cells = Object.values(COLUMNS);
  const records = [
    csvRecord(Object.keys(COLUMNS)),
    ...findings.map((one) => csvRecord(cells.map((cell) => cell(one)))),
  ];
  return `${records.join('\n')}\n`;
}

/**
 * One record for each sample of each column, under a header: what was observed and expected, and its score. In parts, because a
 * million samples make a text of 100 MB. Missing values are empty.
 */
export function* scoresCsv(source: ReportSource): Generator<string> {
  yield `${csvRecord(['column', 'index', ...(source.time === null ? [] : ['time']), 'value', 'expected', 'low', 'high', 'score'])}\n`;
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

/** Text of a file inside Markdown: nothing in it is markup, a link, a mention or a line break. */
function markdownText(text: string): string {
  return text
    .replaceAll(/\s+/g, ' ')
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll(/[\\`*_{}[\]()#|!~@]/g, '\\$&');
}

/** For a ticket: the headline, what was assumed, a table of all findings, and what speaks for and against each. */
export function toMarkdown(report: AnomalyReport): string {
  const text = markdownText;
  const row = (one: ReportFinding): string =>
    `| ${[
      String(one.rank),
      `**${one.level}**`,
      text(whenWords(one)),
      `${one.duration}, ${text(stateWords(one, report.to))}`,
      text(one.column),
      KIND_WORDS[one.kind],
      observedWords(one),
      expectedWords(one),
    ].join(' | ')} |`;
  const told = (one: ReportFinding): string[] => [
    `${one.rank}. ${text(one.statement)}`,
    ...one.evidence.for.map((clause) => `   - for: ${text(clause)}`),
    ...one.evidence.against.map((clause) => `   - against: ${text(clause)}`),
    ...(one.similar.length === 0
      ? []
      : [`   - similar: ${text(one.similar.map((other) => whenWords(other)).join('; '))}`]),
  ];
  const lines = [
    `# Anomalies in ${text(report.file)}`,
    '',
    text(report.headline),
    ...(report.findings.length === 0
      ? []
      : [
          '',
          '| # | Level | When | Duration | Column | Kind | Observed | Expected at peak (99 % band) |',
          '|-|-|-|-|-|-|-|-|',
          ...report.findings.map(row),
          '',
          ...report.findings.flatMap(told),
        ]),
    ...(report.events.length === 0
      ? []
      : ['', '## Across columns', '', ...report.events.map((event) => `- ${text(event.statement)}`)]),
    ...(report.notes.length === 0
      ? []
      : ['', '## Assumptions', '', ...report.notes.map((note) => `- ${text(note.text)}`)]),
  ];
  return `${lines.join('\n')}\n`;
}

/** One annotation as Grafana's HTTP API takes it (POST /api/annotations). */
interface GrafanaAnnotation {
  readonly time: number; // ms since 1970
  readonly timeEnd: number;
  readonly tags: readonly string[];
  /** Grafana shows it as HTML: escaped. */
  readonly text: string;
}

/**
 * One annotation for each finding. Stamps without a zone count as UTC.
 * @throws DataError for a recording without time
 */
export function toGrafana(report: AnomalyReport): GrafanaAnnotation[] {
  return report.findings.map((one) => {
    if (one.from === null || one.to === null || report.origin !== 'calendar') {
      throw new DataError(
        'annotations need dates, but no time column with dates was found; name one with --time, or choose another format',
        {
          file: report.file,
        },
      );
    }
    const seconds = one.durationSeconds ?? 0;
    return {
      time: Math.round(one.from.ms),
      timeEnd: Math.round(one.from.ms + 1000 * seconds),
      tags: ['timeseer', one.level, one.kind, one.column],
      text: one.statement.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;'),
    };
  });
}

/** The forms of a report, by the name of the option. */
export const FORMATS: Readonly<Record<string, (report: AnomalyReport) => string>> = {
  json: toJson,
  csv: toCsv,
  markdown: toMarkdown,
  'grafana-annotations': (report) => `${JSON.stringify(toGrafana(report), null, 2)}\n`,
};
