/** `timeseer explain`: writes a page and a JSON file about the anomalies in a CSV file or a Prometheus query, by the detector and by a policy. */
import { checkScores, scoresCsv, toJson } from '../explain/formats.ts';
import { MOST_WINDOWS } from '../explain/windows.ts';
import { writeFileAtomic } from '../ground/files.ts';
import { print, say } from '../ground/terminal.ts';
import { explainFile } from '../run/detect.ts';
import {
  DETECT_OPTIONS,
  detectRequest,
  exitCode,
  FILE_WORDS,
  LEVEL_WORDS,
  reportText,
} from './detect-options.ts';
import { command, ENGINE_OPTIONS, flag, type Given, number, text } from './options.ts';

type ExplainArguments = Given<typeof OPTIONS> & { readonly file: string | undefined };

async function runExplain(args: ExplainArguments): Promise<void> {
  const { policy, engine, device, window, overlap, inspect, since } = args;
  const out = args.out?.replace(/(?<=[^/])\.(?:html|json)$/i, '');
  if (args.scores !== undefined) checkScores(args.scores);
  const { report, source, files, seconds } = await explainFile({
    ...{ detect: detectRequest(args.file, args), since },
    ...{ out, policy, engine, device, window, overlap, inspect },
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
  process.exitCode = exitCode(report, args);
}

const OPTIONS = {
  ...DETECT_OPTIONS,
  out: text('Output path (default: ./<file name>[.<column>].explain); .html and .json are written'),
  policy: text(
    'Policy whose answers are shown next to the findings: small or inspect (which ship with timeseer), a run or policy directory, with --inspect also openai:MODEL@URL, or none (default: small; with --inspect: inspect)',
  ),
  ...ENGINE_OPTIONS,
  window: number(
    `Samples per window of the policy (default: its training length; longer if the series needs more than ${MOST_WINDOWS} windows)`,
  ),
  overlap: number(
    'Overlap of neighbouring windows of the policy, as a share of the window: 0 to 0.9 (default: 0.5)',
  ),
  inspect: flag(
    'Let the policy look closer over several turns; the page shows where it looked. Default policy: inspect. Qwen2.5-VL checkpoints and openai:MODEL@URL can look closer too; a policy trained for it does so without this flag',
  ),
  json: flag('Print the report as JSON'),
};

export const explainCommand = command({
  command: 'explain [file]',
  positionals: { file: { type: 'string', describe: FILE_WORDS } },
  options: OPTIONS,
  examples: [
    ['$0 explain metrics.csv', 'All numeric columns: writes metrics.explain.html and .json'],
    ['$0 explain metrics.csv --column requests --out reports/requests', 'One column'],
    [
      `$0 explain --prometheus http://prometheus:9090 --query 'rate(errors_total[5m])' --since 6h`,
      'A PromQL query: a column for each series',
    ],
    ['$0 explain metrics.csv --policy none', 'The detector alone, without a policy'],
    [
      '$0 explain series.csv --policy runs/quickstart',
      'With the answers of your own policy, for series like its training data',
    ],
    ['$0 explain long.csv --inspect', 'The policy looks at the parts that stand out before it answers'],
    [
      '$0 explain long.csv --policy openai:Qwen/Qwen2.5-VL-7B-Instruct@http://localhost:8000/v1 --inspect',
      'A model behind vLLM zooms into the series before it answers',
    ],
  ],
  epilogue: `${LEVEL_WORDS} Results of an earlier run are replaced; other files are never overwritten.`,
  handler: runExplain,
});
