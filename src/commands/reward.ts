/** `timeseer reward check`: checks rewards on responses of known quality. */

import { REWARDS } from '../../rewards/registry.ts';
import { choiceHelp } from '../ground/choice.ts';
import { ReadingNote } from '../ground/progress.ts';
import { columns, print, printJson } from '../ground/terminal.ts';
import { command, commandGroup, flag, type Given, number, text } from './options.ts';

type RewardCheckArguments = Given<typeof OPTIONS> & { readonly rewards: readonly string[] };

const shown = (value: number | null): string => (value === null ? '–' : value.toFixed(3));

const FAULTS = {
  error: 'fails',
  gold: 'above gold',
  tie: 'ties with gold',
  random: 'random',
  never: 'never applies',
};
const share = (count: number, total: number): string => (count === 0 ? '' : `${count} of ${total}`);

/** Runs the command; exit code 1 if the reward has a fault. @throws the errors of `checkReward` */
async function runCheck({ rewards, data, count, length, seed, json }: RewardCheckArguments): Promise<void> {
  const [{ checkReward }, { changedRecipe, defaultRecipe, rewardOverride }] = await Promise.all([
    import('../run/reward-check.ts'),
    import('../recipe/config.ts'),
  ]);
  const { reward } = changedRecipe(defaultRecipe(), [rewardOverride(rewards)]);
  const address = { name: data, split: 'train', seed, length, count } as const;
  const note = new ReadingNote({ label: 'answers', verb: 'scoring', silent: json });
  note.start();
  const result = await checkReward(reward!, address, undefined, (name, done, total) => {
    note.detail = `at ${name}, case ${done + 1} of ${total}`;
  }).finally(() => note.stop());
  if (result.violations.length > 0) process.exitCode = 1;
  if (json) {
    printJson(result);
    return;
  }
  const table = columns([
    ['answer', '', 'mean', 'least', 'most', 'no reward', 'failed', 'ms'],
    ...result.cases.map(({ name, kind, responses, missing, failed, mean, least, most, milliseconds }) => [
      ...[kind === name ? '' : kind, name, shown(mean), shown(least), shown(most)],
      ...[share(missing, responses), share(failed, responses), milliseconds.toFixed(2)],
    ]),
  ]);
  const faults = result.violations.map(({ kind, case: name, example, examples, message }) => {
    const more = examples === 1 ? '' : ` and ${examples - 1} more`;
    return `${FAULTS[kind]}: ${name}, ${example}${more}: ${message}`;
  });
  const { length: unchecked } = result.unchecked;
  if (unchecked > 0) faults.push(`${unchecked} more kinds of answers were not checked after that`);
  print(`${table}\n`);
  print(faults.length === 0 ? `no fault on ${result.examples} examples of ${data}` : faults.join('\n'));
}

const OPTIONS = {
  data: text('Generator or directory of a prepared data set (training split)', { default: 'nano5' }),
  count: number('Number of examples', { default: 16 }),
  length: number('Points per generated series', { default: 1000 }),
  seed: number('Seed for the examples', { default: 42 }),
  json: flag('Print the result as JSON'),
};

const check = command({
  command: 'check <rewards..>',
  describe:
    'Score gold answers, answers with one error, and malformed text; exit code 1 if a reward has a fault',
  positionals: {
    rewards: {
      type: 'string',
      array: true,
      demandOption: true,
      describe: `FILE.ts or FILE.ts#NAME made with defineReward, or a name; several are combined as in training. ${choiceHelp(REWARDS)}`,
    },
  },
  options: OPTIONS,
  examples: [
    ['$0 reward check ./brief.ts', 'A table of scores, with the faults of the reward'],
    ['$0 reward check task ./brief.ts --data data/ctu', 'Equal weights: the reward of the task and your own'],
  ],
  epilogue:
    'Faults: the reward throws, times out, returns anything but a finite number or null, scores one response differently each time, ' +
    'never applies, or scores a worse answer at least as high as the gold answer. A reward for one aspect, such as brevity or the format, ties ' +
    'by design: check it together with task, as in training.',
  handler: runCheck,
});

export const rewardCommand = commandGroup(
  'reward',
  [check],
  [['$0 reward check ./brief.ts', 'A table of scores, with the faults of the reward']],
);
