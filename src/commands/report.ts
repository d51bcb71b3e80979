/** `timeseer report`: rebuilds the report and the summary of a run from its files. */
import { spawn } from 'node:child_process';
import { resolve } from 'node:path';
import type { CommandModule } from 'yargs';
import { heldOutExamples } from '../../datasets/partition.ts';
import { openExamples } from '../../datasets/source.ts';
import { type AssembleOptions, type ReportFiles, reportFiles, writeRunReport } from '../../eval/assemble.ts';
import { summaryTable } from '../../eval/metrics-table.ts';
import { POLICIES, RunDirectory } from '../../eval/run-directory.ts';
import type { Summary } from '../../eval/summary.ts';
import { hasCard } from '../train/card.ts';
import { evaluationCard } from './task/card.ts';
import { exampleTask } from './task/example-task.ts';

export interface ReportArguments {
  run: string;
  open: boolean;
  json: boolean;
}

/** The results of a run as a table for a terminal, and what of its requirements is missed. */
export function resultLines(summary: Summary): string[] {
  const missed = (summary.requirements ?? []).filter((one) => !one.met);
  const verdict =
    (summary.requirements ?? []).length === 0
      ? []
      : missed.length === 0
        ? ['all requirements are met']
        : missed.map(
            ({ name, at_least, measured }) => `missed: ${name} ${measured.toFixed(4)}, required ${at_least}`,
          );
  return [...summaryTable(summary), ...verdict];
}

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

/** Says on stderr what a report had to leave out. */
function tellGaps(run: string, gaps: readonly string[]): void {
  for (const gap of gaps) process.stderr.write(`${run}: ${gap}\n`);
}

/** What the run's furthest policy was shown; nothing where no policy is left to tell, and the recipe has to. */
function drawing(path: string): AssembleOptions {
  const run = new RunDirectory(path);
  const { data, seed, eval: evaluation } = run.recipe;
  const directory = POLICIES.toReversed()
    .map((policy) => run.policyDirectory(policy))
    .find(hasCard);
  if (directory === undefined) return {};
  const { facts } = openExamples(heldOutExamples(data, seed, evaluation.series));
  return { draw: exampleTask(evaluationCard(directory, facts), { facts }).picture };
}

/**
 * Writes report and summary of a run, and says what they had to leave out; resolves to their paths. Errors as
 * `writeRunReport`.
 */
export async function buildReport(run: string): Promise<ReportFiles> {
  const { gaps } = await writeRunReport(run, drawing(run));
  tellGaps(run, gaps);
  return reportFiles(run);
}

/** @throws DataError, ConfigError, WriteError as `writeRunReport` */
export async function runReport({ run, open, json }: ReportArguments): Promise<void> {
  const { summary, gaps } = await writeRunReport(run, drawing(run));
  tellGaps(run, gaps);
  const files = reportFiles(run);
  process.stdout.write(
    json
      ? `${JSON.stringify({ files, ...summary })}\n`
      : `${resultLines(summary).join('\n')}\n${files.report}\n${files.summary}\n`,
  );
  if (!open) return;
  const problem = await show(resolve(files.report));
  if (problem !== null) {
    process.stderr.write(
      `the report is written but was not opened (${problem}); open ${files.report} yourself\n`,
    );
  }
}

export const report: CommandModule<object, ReportArguments> = {
  command: 'report <run>',
  describe: 'Rebuild the report and the summary of a run from its files',
  builder: (yargs) =>
    yargs
      .positional('run', { type: 'string', demandOption: true, describe: 'Directory of a run' })
      .option('open', { type: 'boolean', default: false, describe: 'Show the report in a browser' })
      .option('json', { type: 'boolean', default: false, describe: 'Print the summary as JSON' })
      .example('$0 report runs/quickstart --open', 'Write report.html and summary.json, and look')
      .example('$0 report runs/quickstart --json | jq .rl.gain', 'The numbers for a program')
      .epilogue(
        'Runs the classical detectors on the held-out series where that has not been done (seconds). BROWSER names ' +
          'the program of --open.',
      ),
  handler: runReport,
};
