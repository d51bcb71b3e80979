import { plural } from '../ground/numbers.ts';
import { print, printJson, shellWord } from '../ground/terminal.ts';
import { command, shared, text } from './options.ts';
import { checkRun, type RunArguments, recipeHelp, runOptions, runRequest } from './run-options.ts';

interface TrainArguments extends RunArguments {
  readonly policy: string | undefined;
}

export const train = command({
  command: 'train',
  options: {
    ...runOptions({
      recipe: "with --policy that of the policy's run, else quickstart",
      force: 'Restart the stage with the recipe and data of the run; deletes the stage and all later results',
    }),
    ...{
      policy: text(
        'Initial policy of a new run: a checkpoint, or a run (its last policy); without --recipe the new run has its recipe and data',
      ),
    },
  },
  check: checkRun,
  examples: [
    ['$0 train --out runs/a', 'TimerPO after `npx timeseer sft --out runs/a`'],
    [
      '$0 train --recipe inspect --out runs/inspect',
      'A policy that looks closer over several turns: both stages, the supervised one first',
    ],
    ['$0 train --out runs/a --resume', 'Resume from the last checkpoint, bit for bit'],
    [
      '$0 train --policy runs/a --set rl.advantage=grpo --out runs/grpo',
      'From the same policy with another advantage estimator',
    ],
    [
      '$0 train --policy runs/a --reward task --reward ./brief.ts --out runs/brief',
      'Equal weights: the reward of the task and your own',
    ],
  ],
  epilogue: recipeHelp('rl'),
  handler: shared(async (given: TrainArguments) => {
    const { trainStage } = await import('../run/stage.ts');
    const trained = await trainStage('rl', runRequest(given));
    const { out, policy, steps, seconds } = trained;
    if (given.json) printJson(trained);
    else {
      print(
        `${policy}: ${steps} steps in ${seconds.toFixed(1)} s; next: npx timeseer eval --policy ${shellWord(out)}`,
      );
    }
  }),
});

export const sft = command({
  command: 'sft',
  options: runOptions({
    recipe: 'quickstart',
    force: 'Restart the stage with the recipe and data of the run; deletes the stage and all later results',
  }),
  check: checkRun,
  examples: [
    ['$0 sft --out runs/a', 'The supervised stage of the quickstart'],
    ['$0 sft --out runs/a --resume', 'Resume after Ctrl-C or a crash, bit for bit'],
    [
      '$0 sft --recipe my.yaml --set sft.samples=10000 --out runs/b',
      'Another recipe with another number of samples',
    ],
    ['$0 sft --set policy.init=models/Qwen2.5-VL-3B-Instruct --out runs/c', 'Start from a checkpoint'],
  ],
  epilogue: recipeHelp('sft'),
  handler: shared(async (given: RunArguments) => {
    const { trainStage } = await import('../run/stage.ts');
    const trained = await trainStage('sft', runRequest(given));
    const { out, policy, samples, seconds } = trained;
    if (given.json) printJson(trained);
    else {
      const { Run } = await import('../run/run.ts');
      const next = new Run(out).recipe.rl.steps > 0 ? 'train --out' : 'eval --policy';
      print(
        `${policy}: ${plural(samples, 'sample')} in ${seconds.toFixed(1)} s ` +
          `(${(samples / seconds).toFixed(0)}/s); next: npx timeseer ${next} ${shellWord(out)}`,
      );
    }
  }),
});
