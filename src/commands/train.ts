import type { CommandModule } from 'yargs';
import { print, printJson, shellWord } from '../ground/terminal.ts';
import { recipeHelp } from './recipe-help.ts';
import { type RunArguments, runOptions, runRequest } from './run-options.ts';

interface TrainArguments extends RunArguments {
  readonly policy: string | undefined;
}

export const train: CommandModule<object, TrainArguments> = {
  command: 'train',
  describe: 'Train a policy by reinforcement learning: TimerPO, GRPO and related estimators',
  builder: (cli) =>
    runOptions(cli, {
      force: 'Restart the stage with the recipe and data of the run; deletes the stage and all later results',
    })
      .option('policy', {
        type: 'string',
        requiresArg: true,
        describe: 'Initial policy of a new run: a checkpoint, or a run (its last policy)',
      })
      .example('$0 train --out runs/a', 'TimerPO after `npx timeseer sft --out runs/a`')
      .example('$0 train --out runs/a --resume', 'Resume from the last checkpoint, bit for bit')
      .example(
        '$0 train --policy runs/a --set rl.advantage=grpo --out runs/grpo',
        'From the same policy with another advantage estimator',
      )
      .example(
        '$0 train --policy runs/a --reward task --reward ./brief.ts --out runs/brief',
        'Equal weights: the reward of the task and your own',
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
