/** `timeseer report`: rebuilds the report, the summary and the page of completions of a run from its files. */
import { spawn } from 'node:child_process';
import { resolve } from 'node:path';
import { print, printJson, say } from '../ground/terminal.ts';
import { buildCompletions, buildReport, resultLines } from '../run/report.ts';
import { command, flag, type Given } from './options.ts';

type ReportArguments = Given<typeof OPTIONS> & { readonly run: string };

/** The program that shows a page, and its arguments; the environment variable BROWSER comes first. */
function viewer(page: string): [program: string, args: string[]] {
  const wanted = process.env['BROWSER'];
  if (wanted !== undefined && wanted !== '') return [wanted, [page]];
  if (process.platform === 'darwin') return ['open', [page]];
  if (process.platform === 'win32') return ['cmd', ['/c', 'start', '', page]];
  return ['xdg-open', [page]];
}

/** Hands the page to a browser and does not wait for it; resolves to what went wrong, or null. */
function show(page: string): Promise<string | null> {
  const [program, args] = viewer(page);
  return new Promise((done) => {
    const child = spawn(program, args, { detached: true, stdio: 'ignore' });
    child.once('error', (error) => done(`${program}: ${error.message}`));
    child.once('spawn', () => {
      child.unref();
      done(null);
    });
  });
}

/** @throws DataError, ConfigError, WriteError as `buildReport` */
export async function runReport({ run, open, json }: ReportArguments): Promise<void> {
  // Before the report, which needs answers to held-out series: a run that is still trained has none.
  const completions = await buildCompletions(run);
  const pages = completions === null ? {} : { completions };
  const { summary, files } = await buildReport(run);
  if (json) printJson({ files: { ...files, ...pages }, ...summary });
  else print([...resultLines(summary), files.report, files.summary, ...Object.values(pages)].join('\n'));
  if (!open) return;
  const problem = await show(resolve(files.report));
  if (problem !== null) {
    say(`the report is written but was not opened (${problem}); open ${files.report} yourself`);
  }
}

const OPTIONS = {
  open: flag('Show the report in a browser'),
  json: flag('Print the summary as JSON'),
};

export const report = command({
  command: 'report <run>',
  positionals: { run: 'Directory of a run' },
  options: OPTIONS,
  examples: [
    ['$0 report runs/quickstart --open', 'Write report.html and summary.json, and look'],
    ['$0 report runs/quickstart --json | jq .rl.gain', 'The numbers for a program'],
  ],
  epilogue:
    'Also rebuilds rl/completions.html, the page of sampled responses. Runs the classical detectors on the held-out series where that has not been done (seconds). BROWSER names ' +
    'the program of --open.',
  handler: runReport,
});
