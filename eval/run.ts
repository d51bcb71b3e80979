/** Evaluation: a policy answers held-out examples, and each answer is parsed and scored. */
import type { EncodedPrompt } from '../src/policy/batch.ts';
import { generate } from '../src/policy/generate.ts';
import type { Policy } from '../src/policy/policy.ts';
import { PromptEncoder } from '../src/train/prompt.ts';
import type { EvalRecord, Example, ParsedAnswer, Picture, Score } from '../src/types.ts';

/** What evaluation needs to know of a task. */
export interface EvalTask {
  /** Null where the policy reads numbers in the instruction instead. */
  picture(example: Example): Picture | null | Promise<Picture | null>;
  /** Must not depend on the labels. */
  instruction(example: Example): string;
  parse(response: string, example: Example): ParsedAnswer;
  score(response: string, example: Example): Score;
}

export interface EvalOptions {
  /** 0: greedy. */
  readonly temperature: number;
  /** Responses per example; 1 when greedy. */
  readonly samples: number;
  readonly maxTokens: number;
  readonly seed: number;
  /** Examples answered together; 64 when absent. */
  readonly batch?: number;
  readonly signal?: AbortSignal;
}

/**
 * Records of all responses, the samples of an example together, in the order given. `numbers` are the examples' places
 * in the whole held-out set: they key the random streams, so that a share of the set is answered as the whole is.
 */
export async function evaluate(
  policy: Policy,
  task: EvalTask,
  examples: readonly Example[],
  numbers: readonly number[],
  options: EvalOptions,
  onDone: (examples: number) => void = () => {},
): Promise<EvalRecord[]> {
  const encoder = new PromptEncoder(policy);
  const batch = options.batch ?? 64;
  const records: EvalRecord[] = [];
  for (let first = 0; first < examples.length; first += batch) {
    const chunk = examples.slice(first, first + batch);
    const prompts: EncodedPrompt[] = [];
    for (const one of chunk) prompts.push(encoder.encode(await task.picture(one), task.instruction(one)));
    const responses = await generate(policy, prompts, {
      samples: options.temperature === 0 ? 1 : options.samples,
      temperature: options.temperature,
      maxTokens: options.maxTokens,
      seed: options.seed,
      stream: 'evaluation',
      examples: numbers.slice(first, first + batch),
      ...(options.signal === undefined ? {} : { signal: options.signal }),
    });
    for (const { prompt, text } of responses) {
      const one = chunk[prompt]!;
      records.push({
        seriesId: one.id,
        task: one.task,
        length: one.channels[0]!.length,
        gold: one.gold,
        response: text,
        answer: task.parse(text, one),
        score: task.score(text, one),
      });
    }
    onDone(first + chunk.length);
  }
  return records;
}
