/** Report of a run from its files, and its lines for a terminal. */
import { existsSync } from 'node:fs';
import { heldOutExamples, openExamples } from '../../datasets/source.ts';
import { type AssembleOptions, type ReportFiles, reportFiles, writeRunReport } from '../../eval/report.ts';
import { RunDirectory } from '../../eval/run-directory.ts';
import { type RunSummary, summaryTable } from '../../eval/summary.ts';
import { change } from '../ground/numbers.ts';
import { say } from '../ground/terminal.ts';
import { isSignificant } from '../measures/bootstrap.ts';
import { CARD_FILE } from '../tasks/card.ts';
import { CompletionsPage } from './completions.ts';
import { evaluationCard, exampleTask } from './policy-task.ts';

/** Lines on the change by reinforcement: one for each significant change, the largest first. */
function changeLines({ rl }: RunSummary): string[] {
  const gains = Object.entries(rl?.gain ?? {});
  if (gains.length === 0) return [];
  const sure = gains
    .filter(([, estimate]) => isSignificant(estimate))
    .sort(([, a], [, b]) => Math.abs(b.mean) - Math.abs(a.mean));
  const rest = gains.filter(([, estimate]) => !isSignificant(estimate)).map(([name]) => name);
  return [
    `what reinforcement changed, on the same ${gains[0]![1].n} series (95 % interval):`,
    ...sure.map(
      ([name, estimate]) => `  ${name.padEnd(22)} ${change(estimate)}${estimate.mean < 0 ? '  loss' : ''}`,
    ),
    ...(rest.length === 0 ? [] : [`  no significant change: ${rest.join(', ')}`]),
  ];
}

/** Lines of a run's results for a terminal: table, change by reinforcement, requirements missed or not checked. */
export function resultLines(summary: RunSummary): string[] {
  const { requirements = [] } = summary;
  const missed = requirements.filter(({ met }) => met === false);
  const open = requirements.filter(({ met }) => met === null);
  const verdict =
    open.length > 0
      ? [`requirements not checked: ${open[0]!.not_checked}: ${open.map(({ name }) => name).join(', ')}`]
      : requirements.length > 0 && missed.length === 0
        ? ['all requirements are met']
        : missed.map(
            ({ name, at_least, measured }) => `missed: ${name} ${measured?.toFixed(4)}, required ${at_least}`,
          );
  return [...summaryTable(summary), ...changeLines(summary), ...verdict];
}

/** Returns the drawing of the run's last policy; empty where no policy is left, so that the recipe decides. */
function drawing(path: string): AssembleOptions {
  const run = new RunDirectory(path);
  const { data, seed, eval: evaluation } = run.recipe;
  const directory = run.lastPolicyWith(CARD_FILE);
  if (directory === undefined) return {};
  const { facts } = openExamples(heldOutExamples(data, seed, evaluation.series));
  return { draw: exampleTask(evaluationCard(directory, facts), { facts }).picture };
}

/**
 * Writes report and summary of a run, and prints what they had to leave out; resolves to the summary and both paths.
 *
 * @throws DataError, ConfigError, WriteError as `writeRunReport`
 */
export async function buildReport(run: string): Promise<{ summary: RunSummary; files: ReportFiles }> {
  const { summary, gaps } = await writeRunReport(run, drawing(run));
  for (const gap of gaps) say(`${run}: ${gap}`);
  return { summary, files: reportFiles(run) };
}

/**
 * Writes the page of a run's completions from its logs; resolves to its path, null where the run has none.
 * @throws DataError where they are damaged, WriteError
 */
export async function buildCompletions(path: string): Promise<string | null> {
  const run = new RunDirectory(path);
  if (!existsSync(run.file('rl', 'completions.jsonl'))) return null;
  const page = CompletionsPage.of(run);
  await page.write();
  return page.file;
}
