/** `timeseer data validate DIR`: reads, draws and grades every example, and checks what stands beside it. */
import { performance } from 'node:perf_hooks';
import { ExampleSet } from '../../../datasets/example-set.ts';
import { COMPARED, type Verdict, validateSet } from '../../../datasets/validate-set.ts';
import { Progress } from '../../ground/progress.ts';
import { print, printJson } from '../../ground/terminal.ts';
import { command, flag, type Given } from '../options.ts';

type ValidateArguments = Given<typeof OPTIONS> & { readonly directory: string };

/** Broken rows that are printed; JSON has all. */
const SHOWN = 50;
function text(verdict: Verdict, seconds: number): string {
  const { directory, rows, drawn, graded, compared, broken, remarks } = verdict;
  const head = `${directory}: ${rows} ${rows === 1 ? 'row' : 'rows'} read, ${drawn} drawn, ${graded} graded, ${compared} ${compared === 1 ? 'figure' : 'figures'} compared in ${seconds.toFixed(1)} s`;
  const lines = broken.slice(0, SHOWN).map(({ file, line, id, problem }) => {
    const place = line === null ? file : `${file}:${line}`;
    return problem.includes('.jsonl:')
      ? `  ${problem}`
      : `  ${place}: ${id === null ? '' : `${id}: `}${problem}`;
  });
  const more = broken.length > SHOWN ? [`  and ${broken.length - SHOWN} more (--json lists all)`] : [];
  const summary = broken.length === 0 ? `${head}; no broken row` : `${head}; ${broken.length} broken:`;
  return [summary, ...lines, ...more, ...remarks.map((remark) => `note: ${remark}`)].join('\n');
}

/** Runs the command; exit code 1 where a row is broken. @throws as `validateSet` */
export async function runValidate(args: ValidateArguments): Promise<void> {
  const started = performance.now();
  const set = new ExampleSet(args.directory);
  const total = set.splits.reduce((sum, split) => sum + set.count(split), 0);
  const bar = new Progress({ label: 'validate', total, unit: 'rows', silent: args.json });
  try {
    const verdict = await validateSet(args.directory, {
      render: args.render,
      all: args.all,
      onProgress: (rows, broken) => bar.update(rows, broken === 0 ? {} : { broken }),
    });
    bar.stop();
    const seconds = (performance.now() - started) / 1000;
    if (args.json) printJson({ ...verdict, seconds });
    else print(text(verdict, seconds));
    if (verdict.broken.length > 0) process.exitCode = 1;
  } finally {
    bar.stop();
  }
}

const OPTIONS = {
  render: flag('Draw every example; --no-render: only read and grade them', true),
  all: flag(`Compare the pixels of every figure; default: of about ${COMPARED}`),
  json: flag('Print the result as JSON, without progress'),
};

export const validateCommand = command({
  command: 'validate <directory>',
  describe: 'Check every example of a data set, with its figure, prompt and traces; list broken rows',
  positionals: { directory: 'Prepared data set' },
  options: OPTIONS,
  examples: [['$0 data validate data/ctu', 'Exit code 1 where a row is broken']],
  handler: runValidate,
});
