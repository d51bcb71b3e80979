/** `timeseer explain`: writes a page and a JSON file about the anomalies in a CSV file, by the detector and by a policy. */
import type { CommandModule } from 'yargs';
import { ENGINE_HELP, ENGINES, type EngineName } from '../answer/answerer.ts';
import type { Level } from '../detect/finding.ts';
import { scoresCsv, toJson } from '../explain/formats.ts';
import { failOn } from '../explain/state.ts';
import { MOST_WINDOWS } from '../explain/windows.ts';
import { writeFileAtomic } from '../ground/files.ts';
import { print, say } from '../ground/terminal.ts';
import { explainFile } from '../run/detect.ts';
import {
  type DetectOptionValues,
  detectOptions,
  detectRequest,
  FILE_WORDS,
  LEVEL_WORDS,
  reportText,
} from './detect-options.ts';

interface ExplainArguments extends DetectOptionValues {
  readonly file: string;
  readonly policy: string | undefined;
  readonly out: string | undefined;
  readonly engine: EngineName | undefined;
  readonly device: string | undefined;
  readonly window: number | undefined;
  readonly overlap: number | undefined;
  readonly json: boolean;
}

async function runExplain(args: ExplainArguments): Promise<void> {
  const { out, policy, engine, device, window, overlap, since } = args;
  const { report, source, files, seconds } = await explainFile({
    ...{ detect: detectRequest(args.file, args), since },
    ...{ out, policy, engine, device, window, overlap },
  });
  const written: string[] = Object.values(files);
  if (args.scores !== undefined) {
    writeFileAtomic(args.scores, [...scoresCsv(source)].join(''));
    written.push(args.scores);
  }
  if (args.json) {
    print(toJson(report).trimEnd());
    for (const file of written) say(file);
  } else print(reportText(report, written, seconds));
  const level = args['fail-on'];
  if (level !== undefined) process.exitCode = failOn(report, level as Level);
}

export const explainCommand: CommandModule<object, ExplainArguments> = {
  command: 'explain <file>',
  describe: 'Find anomalies in a CSV file and write an HTML page about them',
  builder: (yargs) =>
    detectOptions(yargs.positional('file', { type: 'string', demandOption: true, describe: FILE_WORDS }))
      .option('out', {
        type: 'string',
        describe:
          'Output path without extension (default: ./<file name>[.<column>].explain); writes .html and .json',
        requiresArg: true,
      })
      .option('policy', {
        type: 'string',
        describe:
          'Policy whose answers are shown next to the findings: small (ships with timeseer), a run or policy directory, or none (default: small)',
        requiresArg: true,
      })
      .option('engine', { choices: ENGINES, describe: ENGINE_HELP, requiresArg: true })
      .option('device', {
        type: 'string',
        describe: 'Device of the policy: cpu (default), cuda or cuda:N',
        requiresArg: true,
      })
      .option('window', {
        type: 'number',
        describe: `Samples per window of the policy (default: its training length; longer if the series needs more than ${MOST_WINDOWS} windows)`,
        requiresArg: true,
      })
      .option('overlap', {
        type: 'number',
        describe: 'Overlap of neighbouring windows of the policy, 0 to 0.9 (default: 0.5)',
        requiresArg: true,
      })
      .option('json', { type: 'boolean', default: false, describe: 'Print the report as JSON' })
      .example('$0 explain metrics.csv', 'All numeric columns: writes metrics.explain.html and .json')
      .example('$0 explain metrics.csv --column requests --out reports/requests', 'One column')
      .example('$0 explain metrics.csv --policy none', 'The detector alone, without a policy')
      .example(
        '$0 explain series.csv --policy runs/quickstart',
        'With the answers of your own policy, for series like its training data',
      )
      .epilogue(`${LEVEL_WORDS} Results of an earlier run are replaced; other files are never overwritten.`),
  handler: runExplain,
};
