import type { CommandModule } from 'yargs';
import { print, printJson, shellWord } from '../ground/terminal.ts';
import { recipeHelp } from './recipe-help.ts';
import { type RunArguments, runOptions, runRequest } from './run-options.ts';

export const sft: CommandModule<object, RunArguments> = {
  command: 'sft',
  describe: 'Train a policy on expert traces (supervised fine-tuning)',
  builder: (cli) =>
    runOptions(cli, {
      recipe: 'quickstart',
      force: 'Restart the stage with the recipe and data of the run; deletes the stage and all later results',
    })
      .example('$0 sft --out runs/a', 'The supervised stage of the quickstart')
      .example('$0 sft --out runs/a --resume', 'Resume after Ctrl-C or a crash, bit for bit')
      .example(
        '$0 sft --recipe my.yaml --set sft.samples=10000 --out runs/b',
        'Another recipe with another number of samples',
      )
      .example(
        '$0 sft --set policy.init=models/Qwen2.5-VL-3B-Instruct --out runs/c',
        'Start from a checkpoint',
      )
      .epilogue(recipeHelp('sft')),
  handler: async (given) => {
    const { trainStage } = await import('../run/stage.ts');
    const trained = await trainStage('sft', runRequest(given));
    const { out, policy, samples, seconds } = trained;
    if (given.json) printJson(trained);
    else {
      print(
        `${policy}: ${samples} ${samples === 1 ? 'sample' : 'samples'} in ${seconds.toFixed(1)} s ` +
          `(${(samples / seconds).toFixed(0)}/s); next: npx timeseer train --out ${shellWord(out)}`,
      );
    }
  },
};
