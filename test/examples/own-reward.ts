/** Reinforces with a reward of your own: a plain function beside the reward of the task. */
import { rl } from 'timeseer';

const brief = ({ text }: { readonly text: string }): number => Math.max(0, 1 - text.length / 400);

const { policy, steps } = await rl({
  policy: 'nano', // random weights; give the directory of a trained policy
  examples: 'nano5',
  reward: [
    { use: 'task', weight: 1 },
    { use: brief, weight: 0.2 },
  ],
  advantage: 'grpo',
  ...{ steps: 2, prompts: 2, group: 2, maxTokens: 8 },
  onStep: ({ step, reward, parts }) => console.log(`step ${step}: reward ${reward.toFixed(3)}`, parts),
});
console.log(`${steps} steps; the policy is in ${policy}`);
