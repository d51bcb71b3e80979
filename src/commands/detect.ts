/** `timeseer detect`: what is unusual in a CSV file, by the classical detector. */
import type { CommandModule } from 'yargs';
import { DEFAULT_SEVERITY } from '../detect/detect.ts';
import { LEVELS, type Level } from '../detect/finding.ts';
import { ConfigError } from '../errors.ts';
import { FORMATS, scoresCsv, toJson } from '../explain/formats.ts';
import { type AnomalyReport, KIND_WORDS, reportSchema, whenWords } from '../explain/report.ts';
import { reportPage } from '../explain/report-page.ts';
import { failOn, sinceReport, tellOnce } from '../explain/state.ts';
import { writeFileAtomic } from '../files.ts';
import { detectFile } from '../run/detect.ts';
import { checkTarget } from '../run/explain.ts';
import { print, printJson, say } from '../terminal.ts';

export interface DetectArguments {
  readonly file: string | undefined;
  readonly column: readonly string[];
  readonly time: string | undefined;
  readonly key: string | undefined;
  readonly select: string | undefined;
  readonly tz: string | undefined;
  readonly severity: number;
  readonly direction: 'above' | 'below' | 'both';
  readonly 'min-change': number;
  readonly 'min-share': number;
  readonly since: string | undefined;
  readonly state: string | undefined;
  readonly format: string;
  readonly out: string | undefined;
  readonly scores: string | undefined;
  readonly 'fail-on': string | undefined;
  readonly schema: boolean;
  readonly json: boolean;
}

/** Findings that a terminal shows. */
const SHOWN = 20;

/** For a terminal: the headline, what was assumed, and a line or two for each finding. */
function text(report: AnomalyReport, files: readonly string[], seconds: number): string {
  const several = report.columns.length > 1;
  const lines = [`${report.file}: ${report.headline} (${seconds.toFixed(1)} s)`];
  for (const { text: note } of report.notes) lines.push(`  note: ${note}`);
  for (const one of report.findings.slice(0, SHOWN)) {
    lines.push(
      `${String(one.rank).padStart(3)}  ${one.level.padEnd(8)} ${one.severity.toFixed(1).padStart(5)}  ${several ? `${one.column}: ` : ''}${KIND_WORDS[one.kind]}, ${whenWords(one)} (${one.duration})`,
      `     ${one.statement}`,
    );
  }
  const more = report.findings.length - SHOWN;
  if (more > 0) lines.push(`     and ${more} more: --format csv lists all`);
  return [...lines, ...files.map((file) => `  ${file}`)].join('\n');
}

export async function runDetect(args: DetectArguments): Promise<void> {
  if (args.schema) return printJson(reportSchema());
  if (args.file === undefined) throw new ConfigError('which file? For example: timeseer detect metrics.csv');
  const { file, column, out } = args;
  if (out !== undefined) checkTarget(out);
  const { source, report, seconds } = await detectFile({
    ...{
      file,
      columns: column.map(String),
      time: args.time,
      key: args.key,
      select: args.select,
      tz: args.tz,
    },
    ...{
      severity: args.severity,
      direction: args.direction,
      absoluteFloor: args['min-change'],
      relativeFloor: args['min-share'],
    },
  });
  const tell = (chosen: AnomalyReport): void => {
    const files: string[] = [];
    if (out !== undefined) {
      writeFileAtomic(`${out}.html`, reportPage(chosen, source));
      writeFileAtomic(`${out}.json`, toJson(chosen));
      files.push(`${out}.html`, `${out}.json`);
    }
    if (args.scores !== undefined) {
      writeFileAtomic(args.scores, [...scoresCsv(source)].join(''));
      files.push(args.scores);
    }
    const format = args.json ? 'json' : args.format;
    if (format === 'text') print(text(chosen, files, seconds));
    else print(FORMATS[format]!(chosen).trimEnd());
    if (format !== 'text') for (const written of files) say(written);
    const level = args['fail-on'];
    if (level !== undefined) process.exitCode = failOn(chosen, level as Level);
  };
  const recent = args.since === undefined ? report : sinceReport(report, args.since);
  if (args.state === undefined) tell(recent);
  else await tellOnce(args.state, recent, tell);
}

export const detectCommand: CommandModule<object, DetectArguments> = {
  command: 'detect [file]',
  describe: 'Find what is unusual in a CSV file, without any policy: scores, findings, a page',
  builder: (yargs) =>
    yargs
      .positional('file', {
        type: 'string',
        describe:
          'CSV with columns of numbers, with or without header and time; any separator, order and encoding',
      })
      .option('column', {
        type: 'string',
        array: true,
        default: [],
        describe: 'Column of values, by name or number (repeatable; default: every column of numbers)',
        requiresArg: true,
      })
      .option('time', { type: 'string', describe: 'Column of time, or two as date,clock', requiresArg: true })
      .option('key', {
        type: 'string',
        describe: 'Column that tells series apart whose rows are mixed',
        requiresArg: true,
      })
      .option('select', {
        type: 'string',
        describe: 'Series to read, by its value in the key column',
        requiresArg: true,
      })
      .option('tz', {
        type: 'string',
        describe: 'Zone of stamps that name none: Europe/Berlin, UTC, +02:00',
        requiresArg: true,
      })
      .option('severity', {
        type: 'number',
        default: DEFAULT_SEVERITY,
        describe: 'Least severity: 2 is one finding by chance in a hundred series, 3 in a thousand; 1 to 100',
        requiresArg: true,
      })
      .option('direction', {
        choices: ['above', 'below', 'both'] as const,
        default: 'both' as const,
        describe: 'Which departures count',
      })
      .option('min-change', {
        type: 'number',
        default: 0,
        describe: 'Smaller departures are none, in units of the values',
        requiresArg: true,
      })
      .option('min-share', {
        type: 'number',
        default: 0.02,
        describe: 'Smaller departures are none, as a part of the range of the values, 0 to 1',
        requiresArg: true,
      })
      .option('since', {
        type: 'string',
        describe: 'Only what lasts until then or longer: 2025-03-04T14:00, or 2h before the end',
        requiresArg: true,
      })
      .option('state', {
        type: 'string',
        describe: 'File that remembers what was told: each finding is reported once',
        requiresArg: true,
      })
      .option('format', {
        choices: ['text', ...Object.keys(FORMATS)],
        default: 'text',
        describe: 'What is printed',
      })
      .option('out', {
        type: 'string',
        describe: 'Write a page and its JSON: the path without .html and .json',
        requiresArg: true,
      })
      .option('scores', {
        type: 'string',
        describe: 'Write a score for every sample, with what was expected, to this CSV file',
        requiresArg: true,
      })
      .option('fail-on', {
        choices: Object.keys(LEVELS),
        describe: 'Exit with 1 where a finding is at least this severe',
        requiresArg: true,
      })
      .option('schema', { type: 'boolean', default: false, describe: 'Print the JSON schema of a report' })
      .option('json', { type: 'boolean', default: false, describe: 'As --format json' })
      .example('$0 detect metrics.csv', 'All columns of numbers, the findings ranked')
      .example(
        '$0 detect metrics.csv --column requests --out report',
        'One column, with a page to zoom in: report.html',
      )
      .example(
        '$0 detect metrics.csv --since 2h --state seen.json --fail-on high',
        'For a cron job: what is new, once',
      )
      .epilogue(
        `Levels by severity: ${Object.entries(LEVELS)
          .map(([name, least]) => `${name} from ${least}`)
          .join(', ')}.`,
      ),
  handler: runDetect,
};
