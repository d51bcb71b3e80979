/** Rollouts: sampled responses with log-probabilities and hidden states, and their scores. */

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
  /** True keeps hidden states, for the transport. */
  readonly hidden: boolean;
  /** Maximum responses decoded in one batch. Default: 256. */
  readonly rows?: number;
  /** Batching of the decoder. Default: that of the device. */
  readonly schedule?: Partial<GenerateSchedule>;
}

/** Prompt with its G responses. */
export interface SampledGroup {
  readonly example: Example;
  readonly prompt: EncodedPrompt;
  readonly responses: readonly Sampled[]; // [G]
}

/** Sampled group with the scores of its responses. */
export interface RolloutGroup extends SampledGroup {
  /** Null for a response to which no reward part applies. */
  readonly scores: readonly (Score | null)[]; // [G]
}

/** Responses whose scores may still be pending. */
interface Rollout {
  readonly groups: readonly SampledGroup[];
  /** Waits for the scores. @throws RewardError and other errors of the reward */
  readonly scored: () => Promise<RolloutGroup[]>;
}

/**
 * Samples G responses to each prompt and starts to score them: at the end, or on arrival if the reward is
 * `hosted`. `indices` of the examples key the random streams, so a response depends on neither rank nor
 * batch.
 */
export async function startRollout(
  policy: Policy,
  examples: readonly Example[],
  prompts: readonly EncodedPrompt[],
  indices: readonly number[],
  { score, hosted = false }: Pick<Task, 'score' | 'hosted'>,
  options: RolloutOptions,
): Promise<Rollout> {
  const { group: size, temperature, topP, maxTokens, seed, hidden, rows, schedule } = options;
  const pending = prompts.map(() => new Map<number, ReturnType<Task['score']>>());
  const startScore = ({ prompt, sample, text }: Sampled): void => {
    if (pending[prompt]!.has(sample)) return;
    const result = score(text, examples[prompt]!);
    // `scored` awaits it later; until then a rejection must not count as unhandled.
    if (result instanceof Promise) result.catch(() => undefined);
    pending[prompt]!.set(sample, result);
  };
  const generateOptions = {
    samples: size,
    temperature,
    topP,
    maxTokens,
    seed,
    stream: 'rollout',
    examples: indices,
    hidden,
    ...(rows === undefined ? {} : { maxRows: rows }),
    ...(hosted ? { onResponse: startScore } : {}),
  };
  const sampled = await generate(policy, prompts, generateOptions, schedule);
  const groups = prompts.map((prompt, p) => {
    const responses = sampled.filter((response) => response.prompt === p).sort((a, b) => a.sample - b.sample);
    responses.forEach(startScore);
    return { example: examples[p]!, prompt, responses };
  });
  const scored = (): Promise<RolloutGroup[]> =>
    Promise.all(
      groups.map(async (group, p) => ({
        ...group,
        scores: await Promise.all(group.responses.map(({ sample }) => pending[p]!.get(sample)!)),
      })),
    );
  return { groups, scored };
}

/** Samples G responses to each prompt and waits for their scores. */
export async function rollout(
  policy: Policy,
  examples: readonly Example[],
  prompts: readonly EncodedPrompt[],
  indices: readonly number[],
  score: Task['score'],
  options: RolloutOptions,
): Promise<RolloutGroup[]> {
  return (await startRollout(policy, examples, prompts, indices, { score }, options)).scored();
}
