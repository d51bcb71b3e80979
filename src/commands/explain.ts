/** `timeseer explain`: a page and a JSON file of what is unusual in a CSV file: what the detector finds, and what a policy says. */
import type { CommandModule } from 'yargs';
import { ENGINE_HELP, ENGINES, type EngineName } from '../answer/answerer.ts';
import type { Level } from '../detect/finding.ts';
import { scoresCsv, toJson } from '../explain/formats.ts';
import { MOST_WINDOWS } from '../explain/policy-answers.ts';
import { failOn } from '../explain/state.ts';
import { writeFileAtomic } from '../ground/files.ts';
import { print, say } from '../ground/terminal.ts';
import { explainFile } from '../run/explain.ts';
import {
  type DetectOptionValues,
  detectOptions,
  detectRequest,
  FILE_WORDS,
  LEVEL_WORDS,
  reportText,
} from './detect-options.ts';

export interface ExplainArguments extends DetectOptionValues {
  readonly file: string;
  readonly policy: string | undefined;
  readonly out: string | undefined;
  readonly engine: EngineName | undefined;
  readonly device: string | undefined;
  readonly window: number | undefined;
  readonly overlap: number | undefined;
  readonly json: boolean;
}

export async function runExplain(args: ExplainArguments): Promise<void> {
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
  describe: 'Find what is unusual in a CSV file, and write a page that shows it',
  builder: (yargs) =>
    detectOptions(yargs.positional('file', { type: 'string', demandOption: true, describe: FILE_WORDS }))
      .option('out', {
        type: 'string',
        describe:
          'Path of the result without .html and .json (default: <name of the file>[.<column>].explain in the current directory)',
        requiresArg: true,
      })
      .option('policy', {
        type: 'string',
        describe:
          'Whose answers stand beside the findings, and change none: the directory of a run or of a policy, small, which comes with timeseer, or none (default: small where it is there)',
        requiresArg: true,
      })
      .option('engine', { choices: ENGINES, describe: ENGINE_HELP, requiresArg: true })
      .option('device', {
        type: 'string',
        describe: 'Where the policy runs: cpu (default), cuda or cuda:N',
        requiresArg: true,
      })
      .option('window', {
        type: 'number',
        describe: `Samples per window of the policy (default: what it was taught; longer where ${MOST_WINDOWS} windows do not reach)`,
        requiresArg: true,
      })
      .option('overlap', {
        type: 'number',
        describe: 'Share that neighbouring windows of the policy have in common, 0 to 0.9 (default 0.5)',
        requiresArg: true,
      })
      .option('json', { type: 'boolean', default: false, describe: 'Print the report as JSON' })
      .example('$0 explain metrics.csv', 'All columns of numbers: metrics.explain.html and .json')
      .example('$0 explain metrics.csv --column requests --out reports/requests', 'One column')
      .example('$0 explain metrics.csv --policy none', 'What the detector finds, and no policy')
      .example(
        '$0 explain series.csv --policy runs/quickstart',
        'With what a policy of your own says, for series like those that it was taught',
      )
      .epilogue(`${LEVEL_WORDS} An earlier result of the same name is replaced; any other file is not.`),
  handler: runExplain,
};
