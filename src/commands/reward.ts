/** `timeseer reward check`: what rewards make of responses whose worth is known. */

import type { CommandModule } from 'yargs';
import { REWARDS } from '../../rewards/registry.ts';
import { choiceHelp } from '../ground/choice.ts';
import { ConfigError } from '../ground/errors.ts';
import { columns, print, printJson } from '../ground/terminal.ts';

export interface RewardCheckArguments {
  readonly rewards: readonly string[];
  readonly data: string;
  readonly count: number;
  readonly length: number;
  readonly seed: number;
  readonly json: boolean;
}

const shown = (value: number | null): string => (value === null ? '–' : value.toFixed(3));

/** Runs the command; exit code 1 where the reward does what none should. @throws as `checkReward` */
async function runCheck({ rewards, data, count, length, seed, json }: RewardCheckArguments): Promise<void> {
  const [{ checkReward }, { changedRecipe, defaultRecipe }] = await Promise.all([
    import('../run/reward-check.ts'),
    import('../recipe/config.ts'),
  ]);
  const { reward } = changedRecipe(defaultRecipe(), [`reward=${JSON.stringify(rewards)}`]);
  const found = await checkReward(reward!, { name: data, split: 'train', seed, length, count });
  if (found.violations.length > 0) process.exitCode = 1;
  if (json) {
    printJson(found);
    return;
  }
  const table = columns([
    ['answer', '', 'mean', 'least', 'most', 'no reward', 'ms'],
    ...found.cases.map(({ name, kind, responses, missing, mean, least, most, milliseconds }) => [
      ...[kind === name ? '' : kind, name, shown(mean), shown(least), shown(most)],
      ...[missing === 0 ? '' : `${missing} of ${responses}`, milliseconds.toFixed(2)],
    ]),
  ]);
  const faults = found.violations.map(
    ({ kind, case: name, example, message }) =>
      `${{ error: 'fails', gold: 'above gold', random: 'random' }[kind]}: ${name}${example === null ? '' : `, ${example}`}: ${message}`,
  );
  print(`${table}\n`);
  print(faults.length === 0 ? `no fault on ${found.examples} examples of ${data}` : faults.join('\n'));
}

const check: CommandModule<object, RewardCheckArguments> = {
  command: 'check <rewards..>',
  describe:
    'Score gold answers, answers with one thing wrong, and garbage; exit code 1 where a reward is at fault',
  builder: (yargs) =>
    yargs
      .positional('rewards', {
        type: 'string',
        array: true,
        demandOption: true,
        describe: `FILE.ts or FILE.ts#NAME made with defineReward, or a name; several are combined as in training. ${choiceHelp(REWARDS)}`,
      })
      .option('data', {
        type: 'string',
        default: 'nano5',
        requiresArg: true,
        describe: 'Generator, or directory of a prepared data set; its training split',
      })
      .option('count', { type: 'number', default: 16, requiresArg: true, describe: 'Examples' })
      .option('length', {
        type: 'number',
        default: 1000,
        requiresArg: true,
        describe: 'Points of a generator',
      })
      .option('seed', {
        type: 'number',
        default: 42,
        requiresArg: true,
        describe: 'Of generated or drawn examples',
      })
      .option('json', { type: 'boolean', default: false, describe: 'Print all as JSON' })
      .example('$0 reward check ./brief.ts', 'A table of scores, and what is wrong with the reward')
      .example(
        '$0 reward check task ./brief.ts --data data/ctu',
        'The reward of the task and this one, half each',
      )
      .epilogue(
        'At fault is a reward that throws, has no answer in time, returns anything but one finite number or null, scores the same ' +
          'response differently, or gives another answer more than the gold one. A reward that is meant to stand beside the one of the task, ' +
          'such as brevity, may do the last alone: check both together.',
      ) as never,
  handler: runCheck,
};

const nothing: CommandModule = {
  command: '$0',
  describe: false,
  handler: () => {
    throw new ConfigError('reward: no action given: check; see timeseer reward --help');
  },
};

export const rewardCommand: CommandModule = {
  command: 'reward <command>',
  describe: 'Check a reward: what it makes of right, wrong and senseless answers',
  builder: (yargs) =>
    yargs
      .command(check)
      .command(nothing)
      .example('$0 reward check ./brief.ts', 'A table of scores, and what is wrong with the reward'),
  handler: () => {},
};
