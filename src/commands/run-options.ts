/** The options that `sft`, `train` and `quickstart` share. */

import type { Argv } from 'yargs';
import { COMMON_REWARDS } from '../../rewards/registry.ts';
import { ConfigError } from '../ground/errors.ts';
import type { RunRequest } from '../run/run.ts';

export interface RunArguments extends RunRequest {
  readonly reward: readonly string[];
  readonly json: boolean;
}

/** Turns `--reward` into the recipe key `reward`. */
export function runRequest<Given extends RunArguments>(given: Given): Given {
  const { reward, set } = given;
  return reward.length === 0 ? given : { ...given, set: [...set, `reward=${JSON.stringify(reward)}`] };
}

export function runOptions(
  cli: Argv,
  defaults: { readonly recipe?: string; readonly out?: string; readonly force: string },
): Argv<RunArguments> {
  return cli
    .option('recipe', {
      type: 'string',
      requiresArg: true,
      describe: 'Recipe by name or path of a .yaml file. An existing run keeps its own',
      ...(defaults.recipe === undefined ? {} : { defaultDescription: defaults.recipe }),
    })
    .option('set', {
      type: 'string',
      array: true,
      nargs: 1,
      default: [] as string[],
      describe: 'Set a recipe key, e.g. sft.samples=10000 (repeatable)',
    })
    .option('reward', {
      type: 'string',
      array: true,
      nargs: 1,
      default: [] as string[],
      describe: `Reward to maximise instead of the task's own: ./my-reward.ts or ./my-reward.ts#name, made with defineReward, or ${COMMON_REWARDS.join(', ')}. Repeat it to maximise their mean; for weights use --set reward=…`,
    })
    .option('out', {
      type: 'string',
      requiresArg: true,
      describe: 'Directory of the run',
      ...(defaults.out === undefined ? { demandOption: true } : { default: defaults.out }),
    })
    .option('device', { type: 'string', default: 'cpu', requiresArg: true, describe: 'cpu, cuda or cuda:N' })
    .option('resume', { type: 'boolean', default: false, describe: 'Resume from the last checkpoint' })
    .option('allow-change', {
      type: 'string',
      array: true,
      nargs: 1,
      default: [] as string[],
      describe:
        'With --resume: recipe key, block of keys or data that may differ from the start of the run (repeatable)',
    })
    .option('force', { type: 'boolean', default: false, describe: defaults.force })
    .option('quiet', { type: 'boolean', default: false, describe: 'Do not show progress' })
    .option('json', { type: 'boolean', default: false, describe: 'Print the result as JSON' })
    .check(({ resume, force, 'allow-change': allowed }) => {
      if (allowed.length > 0 && !resume) {
        throw new ConfigError('--allow-change applies only to a resumed run: add --resume');
      }
      if (resume && force)
        throw new ConfigError('--resume resumes and --force starts over: give one of them');
      return true;
    }) as Argv<RunArguments>;
}
