import type { CommandModule } from 'yargs';
import { print, printJson, shellWord } from '../ground/terminal.ts';
import { recipeHelp } from './recipe-help.ts';
import { type RunArguments, runOptions, runRequest } from './run-options.ts';

interface TrainArguments extends RunArguments {
  readonly policy: string | undefined;
}

export const train: CommandModule<object, TrainArguments> = {
  command: 'train',
  describe: 'Train a policy further by reinforcement: TimerPO, GRPO or Dr. GRPO',
  builder: (cli) =>
    runOptions(cli, {
      force: 'Start the stage over with the recipe and data of the run; drops it and what was built on it',
    })
      .option('policy', {
        type: 'string',
        requiresArg: true,
        describe: 'Begin a run at this stage with this policy, or the policy of this run',
      })
      .example('$0 train --out runs/a', 'TimerPO after `npx timeseer sft --out runs/a`')
      .example('$0 train --out runs/a --resume', 'Resume from the last checkpoint, bit for bit')
      .example(
        '$0 train --policy runs/a --set rl.advantage=grpo --out runs/grpo',
        'The same start with another advantage',
      )
      .example(
        '$0 train --policy runs/a --reward task --reward ./brief.ts --out runs/brief',
        'The reward of the task and one of your own, half each',
      )
      .epilogue(recipeHelp('rl')),
  handler: async (given) => {
    const { trainStage } = await import('../run/stage.ts');
    const trained = await trainStage('rl', runRequest(given));
    const { out, policy, steps, seconds } = trained;
    if (given.json) printJson(trained);
    else {
      print(
        `${policy}: ${steps} steps in ${seconds.toFixed(1)} s; next: npx timeseer eval --policy ${shellWord(out)}`,
      );
    }
  },
};
