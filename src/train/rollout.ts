/** Rollouts: what the policy answers, kept with everything that a step needs of it. */
import type { EncodedPrompt } from '../policy/batch.ts';
import { type GenerateSchedule, generate, type Sampled } from '../policy/generate.ts';
import type { Policy } from '../policy/policy.ts';
import type { Example, Score } from '../types.ts';
import type { Task } from './task.ts';

export interface RolloutOptions {
  /** Responses per prompt, G. */
  readonly group: number;
  readonly temperature: number;
  readonly topP: number;
  readonly maxTokens: number;
  readonly seed: number;
  /** Keep hidden states for the transport. */
  readonly hidden: boolean;
  /** Most responses sampled side by side; 256 when absent. */
  readonly rows?: number;
  /** How the sampling is cut up; the device's usual way when absent. */
  readonly schedule?: Partial<GenerateSchedule>;
}

/** One prompt and its G scored responses. */
export interface RolloutGroup {
  readonly example: Example;
  readonly prompt: EncodedPrompt;
  readonly responses: readonly Sampled[]; // [G]
  /** Null: a response without a reward, to which no part of it applies. */
  readonly scores: readonly (Score | null)[]; // [G]
}

/**
 * Samples and scores G responses to each prompt. The examples' `numbers` key the random streams, so that a response depends
 * on its example and not on the rank or batch it was sampled in.
 */
export async function rollout(
  policy: Policy,
  examples: readonly Example[],
  prompts: readonly EncodedPrompt[],
  numbers: readonly number[],
  score: Task['score'],
  options: RolloutOptions,
): Promise<RolloutGroup[]> {
  const { group, temperature, topP, maxTokens, seed, hidden, rows, schedule } = options;
  const asked = {
    samples: group,
    temperature,
    topP,
    maxTokens,
    seed,
    stream: 'rollout',
    examples: numbers,
    hidden,
    ...(rows === undefined ? {} : { maxRows: rows }),
  };
  const sampled = await generate(policy, prompts, asked, schedule);
  const groups = prompts.map((prompt, p) => {
    const responses = sampled.filter((one) => one.prompt === p).sort((a, b) => a.sample - b.sample);
    const example = examples[p]!;
    return { example, prompt, responses, scores: responses.map(({ text }) => score(text, example)) };
  });
  // All are asked for before the first is waited for.
  return Promise.all(groups.map(async (group) => ({ ...group, scores: await Promise.all(group.scores) })));
}
