/** `timeseer detect`: what is unusual in a CSV file, by the classical detector. */
import type { CommandModule } from 'yargs';
import type { Level } from '../detect/finding.ts';
import { ConfigError } from '../errors.ts';
import { FORMATS, scoresCsv } from '../explain/formats.ts';
import { type AnomalyReport, reportSchema } from '../explain/report.ts';
import { checkTarget, writeReport } from '../explain/report-files.ts';
import { failOn, sinceReport, tellOnce } from '../explain/state.ts';
import { writeFileAtomic } from '../files.ts';
import { detectFile } from '../run/detect.ts';
import { print, printJson, say } from '../terminal.ts';
import {
  type DetectOptionValues,
  detectOptions,
  detectRequest,
  FILE_WORDS,
  LEVEL_WORDS,
  reportText,
} from './detect-options.ts';

export interface DetectArguments extends DetectOptionValues {
  readonly file: string | undefined;
  readonly state: string | undefined;
  readonly format: string;
  readonly out: string | undefined;
  readonly schema: boolean;
  readonly json: boolean;
}

export async function runDetect(args: DetectArguments): Promise<void> {
  if (args.schema) return printJson(reportSchema());
  if (args.file === undefined) throw new ConfigError('which file? For example: timeseer detect metrics.csv');
  const { out } = args;
  if (out !== undefined) checkTarget(out);
  const { source, report, seconds } = await detectFile(detectRequest(args.file, args));
  const tell = (chosen: AnomalyReport): void => {
    const files: string[] = [];
    if (out !== undefined) files.push(...Object.values(writeReport(out, chosen, source)));
    if (args.scores !== undefined) {
      writeFileAtomic(args.scores, [...scoresCsv(source)].join(''));
      files.push(args.scores);
    }
    const format = args.json ? 'json' : args.format;
    if (format === 'text') print(reportText(chosen, files, seconds));
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
  describe: 'Find what is unusual in a CSV file: scores and findings, for programs and cron jobs',
  builder: (yargs) =>
    detectOptions(yargs.positional('file', { type: 'string', describe: FILE_WORDS }))
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
      .option('schema', { type: 'boolean', default: false, describe: 'Print the JSON schema of a report' })
      .option('json', { type: 'boolean', default: false, describe: 'As --format json' })
      .example('$0 detect metrics.csv', 'All columns of numbers, the findings ranked')
      .example(
        '$0 detect metrics.csv --column requests --format csv --scores scores.csv',
        'One column: its findings as CSV, and a score for every sample',
      )
      .example(
        '$0 detect metrics.csv --since 2h --state seen.json --fail-on high',
        'For a cron job: what is new, once',
      )
      .epilogue(LEVEL_WORDS),
  handler: runDetect,
};
