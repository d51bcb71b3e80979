/** Supervised fine-tuning on expert traces, then TimerPO, with callbacks. */
import { openExamples, rl, sft } from 'timeseer';

const examples = [...(await openExamples('nano5', { split: 'train', count: 16 }))];
const losses: number[] = [];
const first = await sft({
  examples,
  ...{ samples: 16, batch: 8, warmup: 1 },
  onStep: ({ loss }) => losses.push(loss),
});
const second = await rl({
  policy: first.policy,
  examples,
  ...{ advantage: 'timerpo', steps: 2, prompts: 2, group: 2, maxTokens: 8, kl: 0.001 },
  onStep: ({ step, reward, kl }) => console.log(`step ${step}: reward ${reward}, KL ${kl}`),
});
console.log(`${losses.length} supervised steps, ${second.steps} of reinforcement`);
