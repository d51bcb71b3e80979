/** `timeseer explain`: what a policy and the classical analyses see in one CSV file. */
import type { CommandModule } from 'yargs';
import { MOST_WINDOWS } from '../explain/explain.ts';
import { disagrees, type Explanation } from '../explain/page.ts';
import { type ExplainRequest, explainFile } from '../run/explain.ts';
import { print, printJson, say } from '../terminal.ts';

export interface ExplainArguments extends ExplainRequest {
  readonly json: boolean;
}

const SHOWN = 10;

function count(n: number, one: string, many = `${one}s`): string {
  return `${n} ${n === 1 ? one : many}`;
}

/** Whether the policy was asked, and none of its answers could be read. */
function unanswered({ windows }: Explanation): boolean {
  return windows.length > 0 && windows.every((one) => one.intervals === null);
}

function summary(found: Explanation, files: { html: string; json: string }, seconds: number): string {
  const { intervals, classical, windows } = found;
  const lines = [
    `${found.file}: ${found.length} samples, ${unanswered(found) ? 'no readable answer' : `${count(intervals.length, 'anomaly', 'anomalies')}, class ${found.class}`} ` +
      `(${found.policy === null ? 'classical analyses' : `policy ${found.policy}`}, ${seconds.toFixed(1)} s)`,
  ];
  for (const { start, end, from, to, confirmed } of intervals.slice(0, SHOWN)) {
    const when = from === null ? '' : `  ${from} to ${to}`;
    const also = found.policy === null ? '' : confirmed ? '  classical analyses too' : '  policy alone';
    lines.push(`  [${start}, ${end})${when}${also}`);
  }
  if (intervals.length > SHOWN) lines.push(`  and ${intervals.length - SHOWN} more`);
  if (disagrees(found)) {
    const said = classical.intervals.slice(0, SHOWN).map(([start, end]) => `[${start}, ${end})`);
    const more = classical.intervals.length - said.length;
    lines.push(
      said.length === 0
        ? '  the classical analyses disagree: they find nothing'
        : `  the classical analyses disagree: ${said.join(' ')}${more > 0 ? ` and ${more} more` : ''} ${classical.class}`,
    );
  }
  if (found.policy !== null) {
    const unreadable = windows.filter((one) => one.intervals === null).length;
    lines.push(
      `  ${count(windows.length, 'window')} answered` +
        (unreadable === 0 ? '' : `, ${unreadable} of them unreadable: they count as nothing found`),
      `  classical analyses: ${count(classical.intervals.length, 'interval')}, class ${classical.class}` +
        (classical.agreement === undefined
          ? ''
          : `, intersection over union ${classical.agreement.toFixed(2)}`),
    );
  }
  lines.push(`  ${files.html}`, `  ${files.json}`);
  return lines.join('\n');
}

export async function runExplain(args: ExplainArguments): Promise<void> {
  const { found, files, seconds } = await explainFile(args);
  if (args.json) {
    const { figure: _figure, windows, ...rest } = found;
    printJson({
      out: files,
      seconds: Number(seconds.toFixed(3)),
      ...rest,
      windows: windows.length,
      unreadable: windows.filter((one) => one.intervals === null).length,
    });
  } else print(summary(found, files, seconds));
  if (unanswered(found)) {
    say(
      `warning: none of the policy's ${count(found.windows.length, 'answer')} could be read, so it says nothing about this series; they are in ${files.html}`,
    );
    process.exitCode = 1;
  }
}

export const explainCommand: CommandModule<object, ExplainArguments> = {
  command: 'explain <file>',
  describe: 'Find and explain the anomalies of a CSV file',
  builder: (yargs) =>
    yargs
      .positional('file', {
        type: 'string',
        demandOption: true,
        describe:
          'CSV with one column of numbers, with or without a header and a time column; at least 2 samples, empty cells are gaps',
      })
      .option('policy', {
        type: 'string',
        describe: 'Directory of a run or of a policy (default: none, the classical analyses alone)',
        requiresArg: true,
      })
      .option('column', {
        type: 'string',
        describe: 'Value column, by name or number, where there are several',
        requiresArg: true,
      })
      .option('out', {
        type: 'string',
        describe:
          'Path of the result without .html and .json (default: <name of the file>[.<column>].explain in the current directory)',
        requiresArg: true,
      })
      .option('device', {
        type: 'string',
        describe: 'Where the policy runs: cpu (default), cuda or cuda:N',
        requiresArg: true,
      })
      .option('window', {
        type: 'number',
        describe: `Samples per window (default: what the policy was taught; longer where ${MOST_WINDOWS} windows do not reach)`,
        requiresArg: true,
      })
      .option('overlap', {
        type: 'number',
        default: 0.5,
        describe: 'Share that neighbouring windows have in common, 0 to 0.9',
        requiresArg: true,
      })
      .option('json', { type: 'boolean', default: false, describe: 'Print the summary as JSON' })
      .example(
        '$0 explain my.csv --policy runs/quickstart',
        'The best policy of a run, one page and its JSON',
      )
      .example('$0 explain my.csv --column temperature --out reports/my', 'The classical analyses alone')
      .example(
        '$0 explain my.csv --policy runs/quickstart --window 4000',
        'Longer windows, for slower anomalies',
      )
      .epilogue('An earlier explanation of the same name is replaced; any other file is not.'),
  handler: runExplain,
};
