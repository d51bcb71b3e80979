/** Trains with an advantage estimator of your own; a recipe takes it as `rl.advantage: ./own-estimator.ts#best`. */
import { defineAdvantage, rl } from 'timeseer';

/** Rewards the best responses of a group alone. */
export const best = defineAdvantage({
  name: 'best',
  advantages: (groups) =>
    groups.map(({ rewards }) => rewards.map((reward) => (reward === Math.max(...rewards) ? 1 : 0))),
});

const { steps } = await rl({
  examples: 'nano5',
  advantage: best,
  ...{ steps: 1, prompts: 2, group: 2, maxTokens: 8 },
  onCompletions: ([first]) => console.log(`advantage ${first!.advantage} for reward ${first!.reward}`),
});
console.log(`${steps} step with ${best.name}`);
