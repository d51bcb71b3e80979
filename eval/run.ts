/** Evaluation: a policy answers held-out series, and each answer is parsed and scored. */
import type { EncodedPrompt } from '../src/policy/batch.ts';
import { generate } from '../src/policy/generate.ts';
import type { Policy } from '../src/policy/policy.ts';
import { PromptEncoder } from '../src/train/prompt.ts';
import type { EvalRecord, LabeledSeries, ParsedAnswer, Picture, Score } from '../src/types.ts';

/** What evaluation needs to know of a task. */
export interface EvalTask {
  picture(series: LabeledSeries): Picture | Promise<Picture>;
  /** Must not depend on the labels. */
  instruction(series: LabeledSeries): string;
  parse(response: string, series: LabeledSeries): ParsedAnswer;
  score(response: string, series: LabeledSeries): Score;
}

export interface EvalOptions {
  /** 0: greedy. */
  readonly temperature: number;
  /** Responses per series; 1 when greedy. */
  readonly samples: number;
  readonly maxTokens: number;
  readonly seed: number;
  /** Series answered together; 64 when absent. */
  readonly batch?: number;
  readonly signal?: AbortSignal;
}

/**
 * Records of all responses, the samples of a series together, in the order given. `numbers` are the series' places
 * in the whole held-out set: they key the random streams, so that a share of the set is answered as the whole is.
 */
export async function evaluate(
  policy: Policy,
  task: EvalTask,
  series: readonly LabeledSeries[],
  numbers: readonly number[],
  options: EvalOptions,
  onDone: (series: number) => void = () => {},
): Promise<EvalRecord[]> {
  const encoder = new PromptEncoder(policy);
  const batch = options.batch ?? 64;
  const records: EvalRecord[] = [];
  for (let first = 0; first < series.length; first += batch) {
    const chunk = series.slice(first, first + batch);
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
        length: one.values.length,
        goldIntervals: one.intervals,
        goldClass: one.class,
        response: text,
        answer: task.parse(text, one),
        score: task.score(text, one),
      });
    }
    onDone(first + chunk.length);
  }
  return records;
}
