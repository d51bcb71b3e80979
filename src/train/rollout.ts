/** Rollouts: what the policy answers, kept with everything that a step needs of it. */

import type { Example, Score } from '../ground/types.ts';
import type { EncodedPrompt } from '../policy/batch.ts';
import { type GenerateSchedule, generate, type Sampled } from '../policy/generate.ts';
import type { Policy } from '../policy/policy.ts';
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

/** One prompt and its G responses. */
export interface SampledGroup {
  readonly example: Example;
  readonly prompt: EncodedPrompt;
  readonly responses: readonly Sampled[]; // [G]
}

/** The same with their scores. */
export interface RolloutGroup extends SampledGroup {
  /** Null: a response without a reward, to which no part of it applies. */
  readonly scores: readonly (Score | null)[]; // [G]
}

/** Responses whose scores may still be under way. */
export interface Rollout {
  readonly groups: readonly SampledGroup[];
  /** The groups with their scores. @throws as the reward does */
  readonly scored: () => Promise<RolloutGroup[]>;
}

/**
 * Samples G responses to each prompt and begins to score them: all at the end, or each as it comes where the reward is `hosted`. The
 * examples' `numbers` key the random streams, so that a response depends on its example and not on the rank or batch it was sampled in.
 */
export async function startRollout(
  policy: Policy,
  examples: readonly Example[],
  prompts: readonly EncodedPrompt[],
  numbers: readonly number[],
  { score, hosted = false }: Pick<Task, 'score' | 'hosted'>,
  options: RolloutOptions,
): Promise<Rollout> {
  const { group, temperature, topP, maxTokens, seed, hidden, rows, schedule } = options;
  const begun = prompts.map(() => new Map<number, ReturnType<Task['score']>>());
  const begin = ({ prompt, sample, text }: Sampled): void => {
    if (begun[prompt]!.has(sample)) return;
    const found = score(text, examples[prompt]!);
    // Waited for later; until then a failure is not an unhandled one.
    if (found instanceof Promise) found.catch(() => undefined);
    begun[prompt]!.set(sample, found);
  };
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
    ...(hosted ? { onResponse: begin } : {}),
  };
  const sampled = await generate(policy, prompts, asked, schedule);
  const groups = prompts.map((prompt, p) => {
    const responses = sampled.filter((one) => one.prompt === p).sort((a, b) => a.sample - b.sample);
    responses.forEach(begin);
    return { example: examples[p]!, prompt, responses };
  });
  const scored = (): Promise<RolloutGroup[]> =>
    Promise.all(
      groups.map(async (one, p) => ({
        ...one,
        scores: await Promise.all(one.responses.map(({ sample }) => begun[p]!.get(sample)!)),
      })),
    );
  return { groups, scored };
}

/** The same, waiting for the scores. */
export async function rollout(
  policy: Policy,
  examples: readonly Example[],
  prompts: readonly EncodedPrompt[],
  numbers: readonly number[],
  score: Task['score'],
  options: RolloutOptions,
): Promise<RolloutGroup[]> {
  return (await startRollout(policy, examples, prompts, numbers, { score }, options)).scored();
}
