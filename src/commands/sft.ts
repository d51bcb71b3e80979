import type { CommandModule } from 'yargs';
import { type RunArguments, runOptions } from '../run/options.ts';
import { print, printJson } from '../terminal.ts';

export const sft: CommandModule<object, RunArguments> = {
  command: 'sft',
  describe: 'Train a policy on expert traces (supervised)',
  builder: (cli) =>
    runOptions(cli, {
      recipe: 'quickstart',
      force: 'Start the stage over with the recipe and data of the run; drops it and what was built on it',
    })
      .example('$0 sft --out runs/a', 'The supervised stage of the quickstart')
      .example('$0 sft --out runs/a --resume', 'Go on after Ctrl-C or a crash, bit for bit')
      .example('$0 sft --recipe my.yaml --set sft.samples=10000 --out runs/b', 'Another recipe, shorter')
      .example('$0 sft --set policy.init=checkpoints/qwen2.5-vl-3b --out runs/c', 'Start from a checkpoint'),
  handler: async (given) => {
    const [{ runSession }, { RunFiles }, { writeEnvironment }, { runSftStage }, { commandLine, shellWord }] =
      await Promise.all([
        import('../run/session.ts'),
        import('../run/files.ts'),
        import('../run/environment.ts'),
        import('../run/train-stage.ts'),
        import('../run/options.ts'),
      ]);
    const open = () => {
      const own = given.set.length === 0 && (given.resume || RunFiles.begun(given.out));
      return RunFiles.open(given.out, {
        recipe: given.recipe ?? (own ? null : 'quickstart'),
        set: given.set,
        command: commandLine(),
        resume: given.resume,
      });
    };
    const run = await runSession('sft', given, open, async (one) => {
      writeEnvironment(one, given.device, { sft_workers: one.recipe.sft.workers });
      await runSftStage(one, { ...given, silent: given.quiet });
    });
    const record = run.stageRecord('sft')!;
    const policy = run.policy('sft');
    if (given.json) printJson({ out: run.path, policy, ...record });
    else {
      print(
        `${policy}: ${record.samples} ${record.samples === 1 ? 'sample' : 'samples'} in ${record.seconds.toFixed(1)} s ` +
          `(${(record.samples / record.seconds).toFixed(0)}/s); next: npx timeseer train --out ${shellWord(run.path)}`,
      );
    }
  },
};
