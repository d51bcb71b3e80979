import type { CommandModule } from 'yargs';
import { type RunArguments, runOptions } from './run-options.ts';

interface TrainArguments extends RunArguments {
  readonly policy: string | undefined;
}

export const train: CommandModule<object, TrainArguments> = {
  command: 'train',
  describe: 'Train a policy further by reinforcement: TimerPO, GRPO or Dr. GRPO',
  builder: (cli) =>
    runOptions(cli, {})
      .option('policy', {
        type: 'string',
        requiresArg: true,
        describe: 'Begin a run at this stage with this policy, or the policy of this run',
      })
      .example('$0 train --out runs/a', 'TimerPO after `timeseer sft --out runs/a`')
      .example('$0 train --out runs/a --resume', 'Go on from the last checkpoint, bit for bit')
      .example(
        '$0 train --policy runs/a --set rl.advantage=grpo --out runs/grpo',
        'The same start with another advantage',
      ),
  handler: async (given) => {
    const [{ withInterrupt }, { RunFiles }, { runRlStage }, { commandLine }, { existsSync }, errors] =
      await Promise.all([
        import('../interrupt.ts'),
        import('./run-files.ts'),
        import('./train-stage.ts'),
        import('./run-options.ts'),
        import('node:fs'),
        import('../errors.ts'),
      ]);
    const begins = given.policy !== undefined;
    const run = RunFiles.open(given.out, {
      recipe: given.recipe ?? (begins && !given.resume ? 'quickstart' : null),
      set: begins
        ? [...given.set, 'sft.samples=0', `policy.init=${JSON.stringify(given.policy)}`]
        : given.set,
      command: commandLine(),
    });
    if (run.recipe.sft.samples > 0 && !existsSync(run.policy('sft'))) {
      throw new errors.CheckpointError(
        `${run.path}: its supervised stage is not finished; run timeseer sft --out ${run.path} --resume first, ` +
          'or name a policy to start from with --policy and a new --out',
      );
    }
    await withInterrupt(async (signal) => {
      run.writeEnvironment(given.device, { rl_workers: run.recipe.rl.workers });
      await runRlStage(run, { ...given, silent: given.quiet, signal });
    });
    const record = run.stageRecord('rl')!;
    process.stdout.write(
      given.json
        ? `${JSON.stringify({ out: run.path, policy: run.policy('rl'), ...record })}\n`
        : `${run.policy('rl')}: ${record.steps} steps in ${record.seconds.toFixed(1)} s; next: timeseer eval --policy ${run.path}\n`,
    );
  },
};
