import type { CommandModule } from 'yargs';
import { type RunArguments, runOptions } from '../run/options.ts';
import { print, printJson } from '../terminal.ts';

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
      .example('$0 train --out runs/a --resume', 'Go on from the last checkpoint, bit for bit')
      .example(
        '$0 train --policy runs/a --set rl.advantage=grpo --out runs/grpo',
        'The same start with another advantage',
      ),
  handler: async (given) => {
    const [
      { runSession },
      { RunFiles },
      { writeEnvironment },
      { runRlStage },
      { commandLine, shellWord },
      errors,
    ] = await Promise.all([
      import('../run/session.ts'),
      import('../run/files.ts'),
      import('../run/environment.ts'),
      import('../run/train-stage.ts'),
      import('../run/options.ts'),
      import('../errors.ts'),
    ]);
    const begins = given.policy !== undefined;
    if (begins && given.resume) {
      throw new errors.ConfigError(
        '--policy begins a run and --resume goes on with one, whose policy is known: leave --policy out',
      );
    }
    const open = () => {
      const opened = RunFiles.open(given.out, {
        recipe: given.recipe ?? (begins ? 'quickstart' : null),
        set: begins
          ? [...given.set, 'sft.samples=0', `policy.init=${JSON.stringify(given.policy)}`]
          : given.set,
        command: commandLine(),
        resume: given.resume,
      });
      if (opened.recipe.sft.samples > 0 && !opened.finished('sft')) {
        const first = `npx timeseer sft --out ${shellWord(opened.path)} --resume`;
        throw new errors.CheckpointError(
          `${opened.path}: its supervised stage is not finished; run ${first} first, ` +
            'or name a policy to start from with --policy and a new --out',
        );
      }
      return opened;
    };
    const run = await runSession('train', given, open, async (one) => {
      writeEnvironment(one, given.device, { rl_workers: one.recipe.rl.workers });
      await runRlStage(one, { ...given, silent: given.quiet });
    });
    const record = run.stageRecord('rl')!;
    const policy = run.policy('rl');
    if (given.json) printJson({ out: run.path, policy, ...record });
    else {
      const took = `${record.steps} steps in ${record.seconds.toFixed(1)} s`;
      print(`${policy}: ${took}; next: npx timeseer eval --policy ${shellWord(run.path)}`);
    }
  },
};
