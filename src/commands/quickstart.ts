import { print, printJson, shellWord } from '../ground/terminal.ts';
import { command, shared } from './options.ts';
import { checkRun, type RunArguments, recipeHelp, runOptions, runRequest } from './run-options.ts';

export const quickstart = command({
  command: 'quickstart',
  options: runOptions({
    recipe: 'quickstart',
    out: 'runs/quickstart',
    force: 'Start over: delete the existing run in --out',
  }),
  check: checkRun,
  examples: [
    ['$0 quickstart', 'All stages, about four minutes on two cores with AVX-512'],
    ['$0 quickstart --resume', 'Resume an interrupted run'],
    [
      '$0 quickstart --processes 2 --out runs/two',
      'In two processes instead of two Workers, with the same result',
    ],
    ['$0 quickstart --recipe quickstart-short --out runs/short', 'All stages with tiny counts, as a trial'],
    ['$0 quickstart --set rl.advantage=grpo --out runs/grpo', 'Another advantage estimator'],
  ],
  epilogue: recipeHelp(null),
  handler: shared(async (given: RunArguments) => {
    const { runQuickstart } = await import('../run/quickstart.ts');
    const { resultLines } = await import('../run/report.ts');
    const { out, files, summary, explains } = await runQuickstart(runRequest(given));
    if (given.json) {
      printJson({ out, ...files });
      return;
    }
    print(`${resultLines(summary).join('\n')}\n`);
    print(`report: ${files.report}\nsummary: ${files.summary}`);
    if (explains) {
      print(
        `explain a series like the training series: npx timeseer explain my.csv --policy ${shellWord(out)}\n` +
          'for recordings, leave out --policy: the detector alone finds more than this policy on recordings',
      );
    }
  }),
});
