/** Rollouts with their scores, for tests. */

import type { Example } from '../../src/ground/types.ts';
import type { EncodedPrompt } from '../../src/policy/batch.ts';
import type { Policy } from '../../src/policy/policy.ts';
import { type RolloutGroup, type RolloutOptions, startRollout } from '../../src/train/rollout.ts';
import type { Task } from '../../src/train/task.ts';

/** Samples G responses to each prompt, or G episodes from it, and waits for their scores. */
export async function rollout(
  policy: Policy,
  examples: readonly Example[],
  prompts: readonly EncodedPrompt[],
  indices: readonly number[],
  score: Task['score'],
  options: RolloutOptions,
  episodes?: Task['episodes'],
): Promise<RolloutGroup[]> {
  const task = episodes === undefined ? { score } : { score, episodes };
  return (await startRollout(policy, examples, prompts, indices, task, options)).scored();
}
