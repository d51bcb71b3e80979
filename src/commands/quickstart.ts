import type { CommandModule } from 'yargs';
import { print, printJson, shellWord } from '../ground/terminal.ts';
import { recipeHelp } from './recipe-help.ts';
import { type RunArguments, runOptions, runRequest } from './run-options.ts';

export const quickstart: CommandModule<object, RunArguments> = {
  command: 'quickstart',
  describe: 'Set up, train (supervised, then TimerPO), evaluate and report',
  builder: (cli) =>
    runOptions(cli, {
      recipe: 'quickstart',
      out: 'runs/quickstart',
      force: 'Begin again: the run that is there is removed',
    })
      .example('$0 quickstart', 'The whole path, about four minutes on two cores')
      .example('$0 quickstart --resume', 'Resume where it was stopped')
      .example('$0 quickstart --recipe quickstart-short --out runs/short', 'The path alone, with tiny counts')
      .example('$0 quickstart --set rl.advantage=grpo --out runs/grpo', 'Another advantage')
      .epilogue(recipeHelp(null)),
  handler: async (given) => {
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
        `ask it about a series like those that it learned: npx timeseer explain my.csv --policy ${shellWord(out)}\n` +
          'for recordings leave --policy out: on those it finds less than the detector does without it, and abstains where it notices that',
      );
    }
  },
};
