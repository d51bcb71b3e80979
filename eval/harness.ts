/** Evaluation: which examples a run is judged on; a policy answers them, and each answer is parsed and scored. */

import { isExampleSet } from '../datasets/example-manifest.ts';
import { ExampleSet } from '../datasets/example-set.ts';
import {
  type DataFacts,
  type ExampleAddress,
  heldOutExamples,
  isGenerator,
  openExamples,
  trainingExamples,
  validationExamples,
} from '../datasets/source.ts';
import { checkReasoning } from '../src/claims/reasoning.ts';
import type { EvalRecord, Example, ParsedAnswer, Picture, Score } from '../src/ground/types.ts';
import type { Answerer } from '../src/policy/answerer.ts';
import type { EncodedPrompt } from '../src/policy/batch.ts';
import type { Sampled } from '../src/policy/generate.ts';
import type { Recipe } from '../src/recipe/recipe.ts';
import { taskKind } from '../src/tasks/kinds.ts';
import { PromptEncoder, type Shot } from '../src/train/task.ts';

/** What evaluation needs to know of a task. */
export interface EvalTask {
  /** Null where the policy reads numbers in the instruction instead. */
  picture(example: Example): Picture | null | Promise<Picture | null>;
  /** Must not depend on the labels. */
  instruction(example: Example): string;
  parse(response: string, example: Example): ParsedAnswer;
  score(response: string, example: Example): Score;
  /** Classes that answers may name; those of the kind of answer where absent or none. */
  readonly classes?: readonly string[];
}

/** Solved examples that stand before the question about an example, by its place in the held-out set. */
export type ShotsOf = (number: number) => readonly { readonly example: Example; readonly response: string }[];

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
  readonly shots?: ShotsOf;
  /** Of each example the samples that are wanted; all when absent. */
  readonly wanted?: readonly (readonly number[])[];
  /** Called with the responses to some prompts as they come. */
  readonly onResponses?: (prompts: readonly EncodedPrompt[], responses: readonly Sampled[]) => void;
  /** Called with every record as its response is complete, in no order, and the example's number. */
  readonly onRecord?: (record: EvalRecord, number: number) => void;
}

/** What is known of a response beside its text. */
export type ResponseFacts = Pick<
  EvalRecord,
  'sample' | 'temperature' | 'usage' | 'seconds' | 'cost' | 'failure'
>;

/** A response beside the gold answer, parsed and scored. */
export function recordOf(
  task: Pick<EvalTask, 'parse' | 'score' | 'classes'>,
  example: Example,
  response: string,
  facts: ResponseFacts = {},
): EvalRecord {
  const answer = task.parse(response, example);
  const reasoning = checkReasoning(answer, example, { classes: task.classes ?? [] });
  return {
    seriesId: example.id,
    task: example.task,
    length: example.channels[0]!.length,
    gold: example.gold,
    response,
    answer,
    score: task.score(response, example),
    ...facts,
    ...(reasoning === null ? {} : { reasoning }),
  };
}

/** The prompts of examples, with their shots, as a policy on this machine is asked. */
async function encodePrompts(
  encoder: PromptEncoder,
  task: EvalTask,
  examples: readonly Example[],
  numbers: readonly number[],
  shotsOf: ShotsOf | undefined,
): Promise<EncodedPrompt[]> {
  const prompts: EncodedPrompt[] = [];
  for (const [i, example] of examples.entries()) {
    const shots: Shot[] = [];
    for (const { example: one, response } of shotsOf?.(numbers[i]!) ?? []) {
      shots.push({ picture: await task.picture(one), instruction: task.instruction(one), response });
    }
    prompts.push(encoder.encode(await task.picture(example), task.instruction(example), shots));
  }
  return prompts;
}

/**
 * Records of all responses, the samples of an example together, in the order given. `numbers` are the examples' places
 * in the whole held-out set: they key the random streams, so that a share of the set is answered as the whole is.
 */
export async function evaluate(
  policy: Answerer,
  task: EvalTask,
  examples: readonly Example[],
  numbers: readonly number[],
  options: EvalOptions,
  onDone: (examples: number) => void = () => {},
): Promise<EvalRecord[]> {
  const encoder = new PromptEncoder(policy.prompting);
  const { batch = 64, temperature, wanted, onRecord } = options;
  const samples = temperature === 0 ? 1 : options.samples;
  const records: EvalRecord[] = [];
  for (let first = 0; first < examples.length; first += batch) {
    const chunk = examples.slice(first, first + batch);
    const chunkNumbers = numbers.slice(first, first + batch);
    const prompts = await encodePrompts(encoder, task, chunk, chunkNumbers, options.shots);
    const skip = wanted?.slice(first, first + batch).map((some) => {
      return new Set(Array.from({ length: samples }, (_, k) => k).filter((k) => !some.includes(k)));
    });
    const record = ({ prompt, sample, text, ids }: Sampled): EvalRecord =>
      recordOf(task, chunk[prompt]!, text, {
        sample,
        temperature,
        usage: { prompt: prompts[prompt]!.ids.length, completion: ids.length },
      });
    const responses = await policy.generate(prompts, {
      ...{ samples, temperature, maxTokens: options.maxTokens, seed: options.seed },
      stream: 'evaluation',
      examples: chunkNumbers,
      ...(skip === undefined ? {} : { skip }),
      ...(options.signal === undefined ? {} : { signal: options.signal }),
      ...(onRecord === undefined
        ? {}
        : { onResponse: (one) => onRecord(record(one), chunkNumbers[one.prompt]!) }),
    });
    options.onResponses?.(prompts, responses);
    records.push(...responses.map(record));
    onDone(first + chunk.length);
  }
  return records;
}

/** The examples that a run is judged on, in the order in which they are evaluated, and what is known of their data set. */
export interface HeldOut {
  readonly facts: DataFacts;
  /** The prepared data set behind them, or null. */
  readonly set: ExampleSet | null;
  readonly series: readonly Example[];
}

/** The held-out examples that a recipe names. @throws ConfigError, DataError as `openExamples` */
export function openHeldOut({ data, eval: evaluation, seed }: Recipe): HeldOut {
  const source = openExamples(heldOutExamples(data, seed, evaluation.series));
  return { facts: source.facts, set: source.set, series: [...source] };
}

/** Examples of the validation split, which shares none with test or training; none for a directory without splits. */
export function validationOf({ data, eval: { validation }, seed }: Recipe): Example[] {
  const address = validation === 0 ? null : validationExamples(data, seed, validation);
  return address === null ? [] : [...openExamples(address)];
}

/**
 * Examples of the training split, where anything classical learns from them; null for other kinds, and for a data set without one.
 * @throws DataError for a prepared data set that is not whole
 */
export function trainingOf({ data, seed }: Pick<Recipe, 'data' | 'seed'>): Iterable<Example> | null {
  // Only prepared data sets hold classes.
  if (!isExampleSet(data.name)) return null;
  const set = new ExampleSet(data.name);
  if (!taskKind(set.manifest.kind).learnsClasses || set.count('train') === 0) return null;
  return openExamples(trainingExamples(data, seed));
}

/** Whether the last policy of a run answers the AnomLLM tasks too: one that learned from generated anomalies. */
export function hasTransfer({ data, eval: evaluation }: Recipe): boolean {
  return isGenerator(data.name) && evaluation.transfer > 0;
}

/** Series of the AnomLLM generator, evenly of its eight tasks, which no policy of a run was trained for. */
export function transferExamples(seed: number, count: number): ExampleAddress {
  return { name: 'anomllm', split: 'test', seed, length: 1000, count };
}
