/** Evaluation: the examples that a run is judged on are put to an answerer, and each answer is parsed and scored. */

import { isExampleSet } from '../datasets/example-manifest.ts';
import { ExampleSet } from '../datasets/example-set.ts';
import {
  type DataFacts,
  type ExampleAddress,
  type ExampleSource,
  heldOutExamples,
  isGenerator,
  openExamples,
  trainingExamples,
  validationExamples,
} from '../datasets/source.ts';
import type { Answerer, AnswerOptions, Prompt } from '../src/answer/answerer.ts';
import { baselineRecord } from '../src/answer/baselines.ts';
import { inspector } from '../src/answer/inspect.ts';
import { checkReasoning } from '../src/claims/reasoning.ts';
import type {
  EvalRecord,
  Example,
  ParsedAnswer,
  Picture,
  ReasoningCheck,
  Score,
} from '../src/ground/types.ts';
import type { Recipe } from '../src/recipe/recipe.ts';
import type { InspectCard, NumbersFormat } from '../src/tasks/card.ts';
import { taskKind } from '../src/tasks/kinds.ts';
import type { Reading } from '../src/tasks/response.ts';
import type { Episodes, Shot } from '../src/train/task.ts';

/** The parts of a task that evaluation uses. */
export interface EvalTask {
  /** Draws the picture; null where the policy reads numbers in the instruction instead. */
  picture(example: Example): Picture | null | Promise<Picture | null>;
  /** Must not depend on the labels. */
  instruction(example: Example): string;
  parse(response: string, example: Example): ParsedAnswer;
  /** Returns an example with the number of points that the policy sees, which its reasoning is about. Default: as it is. */
  asSeen?(example: Example): Example;
  score(response: string, example: Example): Score;
  /** Classes that answers may name; those of the kind of answer where absent or none. */
  readonly classes?: readonly string[];
  /** Environment in which answerers look closer over several turns; absent: one turn. */
  readonly episodes?: Episodes;
  /** Checks the reasoning of a response against the example as the policy sees it, and its expert trace; null without a reasoning. */
  reasoned?(response: string, example: Example): ReasoningCheck | null;
}

/** Solved examples that stand before the question about an example, by its place in the held-out set. */
export type ShotsOf = (number: number) => readonly { readonly example: Example; readonly response: string }[];

/** Solved training examples before every question. */
export interface ShotOptions {
  /** Number of shots, k. */
  readonly count: number;
  readonly seed: number;
}

/** Form of the questions, the same for every example. */
export interface EvalForm {
  /** Numbers instead of pictures, or pictures (null). */
  readonly numbers: NumbersFormat | null;
  readonly shots: ShotOptions | null;
  /** True where reasoning is requested before the answer. */
  readonly reasoning: boolean;
  /** True where advice is requested after the answer; false when absent. */
  readonly extension?: boolean;
  /** Inspection over several turns; absent: one look, and as it was trained for a policy that inspects. */
  readonly inspect?: InspectCard;
  readonly reading: Reading;
  /** Longest response in tokens. */
  readonly maxTokens: number;
  /** Seed of sampling. */
  readonly seed: number;
}

/** One response that is wanted. */
export interface ResponseRequest {
  /** Place of the example in the source. */
  readonly number: number;
  /** Index among several responses to the example, 0-based. */
  readonly sample: number;
  /** 0: greedy. */
  readonly temperature: number;
  /** Beginning of the response, which is continued. Default: none. */
  readonly opening?: string;
}

/** An example by its place, the samples wanted of it, and the openings of those that have one. */
export type WantedExample = readonly [
  number: number,
  samples: readonly number[],
  openings?: Readonly<Record<number, string>>,
];

/** Joins the requests about each example, in the order of their first ones. */
export function byExample(requests: readonly Omit<ResponseRequest, 'temperature'>[]): WantedExample[] {
  const wanted = new Map<number, { samples: number[]; openings: Record<number, string> }>();
  for (const { number, sample, opening } of requests) {
    const { samples, openings } = wanted.get(number) ?? { samples: [], openings: {} };
    wanted.set(number, { samples, openings });
    samples.push(sample);
    if (opening !== undefined) openings[sample] = opening;
  }
  return [...wanted].map(([number, { samples, openings }]) =>
    Object.keys(openings).length === 0 ? [number, samples] : [number, samples, openings],
  );
}

/** A data set with the task that its questions and scores come from. */
export interface EvalData {
  readonly address: ExampleAddress;
  readonly source: ExampleSource;
  readonly task: EvalTask;
  readonly shotsOf?: ShotsOf | undefined;
}

/** Sampling of one pass over a data set. */
type EvalSampling = Pick<AnswerOptions, 'temperature' | 'maxTokens' | 'seed' | 'signal'>;

/** Facts about a response beside its text. */
type ResponseFacts = Pick<EvalRecord, 'sample' | 'temperature' | 'usage' | 'seconds' | 'cost' | 'failure'>;

/** A response beside the gold answer, parsed and scored. */
export function recordOf(
  task: Pick<EvalTask, 'parse' | 'asSeen' | 'score' | 'classes' | 'reasoned'>,
  example: Example,
  response: string,
  facts: ResponseFacts = {},
): EvalRecord {
  const answer = task.parse(response, example);
  const frame = (task.asSeen?.(example) ?? example).channels[0]!.length;
  const reasoning =
    task.reasoned === undefined
      ? checkReasoning(answer, example, { classes: task.classes ?? [] })
      : task.reasoned(response, example);
  return {
    seriesId: example.id,
    task: example.task,
    length: example.channels[0]!.length,
    gold: example.gold,
    response,
    ...(frame === example.channels[0]!.length ? {} : { frame }),
    answer,
    score: task.score(response, example),
    ...facts,
    ...(reasoning === null ? {} : { reasoning }),
  };
}

/** Makes the prompt of an example, with its shots. */
async function promptOf({ source, task, shotsOf }: EvalData, number: number): Promise<Prompt> {
  const shots: Shot[] = [];
  for (const { example, response } of shotsOf?.(number) ?? []) {
    shots.push({ picture: await task.picture(example), instruction: task.instruction(example), response });
  }
  const example = source.at(number);
  const picture = await task.picture(example);
  return { shots, pictures: picture === null ? [] : [picture], text: task.instruction(example) };
}

/**
 * Asks for responses and reports the record of each as it comes, in any order. Examples are asked about by their place in the whole set,
 * which keys the random streams: a share of the set is answered as the whole is.
 * @throws as `Answerer.answer`
 */
export async function evaluate(
  answerer: Pick<Answerer, 'answer'> & Partial<Pick<Answerer, 'reads'>>,
  data: EvalData,
  wanted: readonly WantedExample[],
  sampling: EvalSampling,
  report: (record: EvalRecord, request: ResponseRequest) => void,
): Promise<void> {
  const { source, address, task } = data;
  const { temperature } = sampling;
  const inspecting =
    task.episodes === undefined || answerer.reads === 'values'
      ? answerer
      : inspector(answerer, (number) => task.episodes!.open(source.at(number)), task.episodes.history);
  const requests = wanted.map(([number, samples, openings]) => ({
    ...{ key: number, samples },
    ...(openings === undefined ? {} : { openings }),
    prompt: () => promptOf(data, number),
    series: () => source.at(number),
  }));
  const options = { ...sampling, data: { address, facts: source.facts } };
  await inspecting.answer(requests, options, ({ key, sample, text, answer, sampled: _, ...facts }) => {
    const example = source.at(key);
    const at = { sample, temperature };
    const record =
      answer === undefined
        ? recordOf(task, example, text, { ...facts, ...at })
        : { ...baselineRecord(example, answer), ...facts, ...at };
    report(record, { number: key, ...at });
  });
}

/** The examples that a run is judged on, in the order in which they are evaluated, and what is known of their data set. */
interface HeldOut {
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

/** Returns true where the last policy of a run answers the AnomLLM tasks too: it learned from generated anomalies. */
export function hasTransfer({ data, eval: evaluation }: Recipe): boolean {
  return isGenerator(data.name) && evaluation.transfer > 0;
}

/** Series of the AnomLLM generator, evenly of its eight tasks, which no policy of a run was trained for. */
export function transferExamples(seed: number, count: number): ExampleAddress {
  return { name: 'anomllm', split: 'test', seed, length: 1000, count };
}
