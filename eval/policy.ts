/**
 * What is evaluated: anything that answers questions about series. Directories of weights, endpoints, classical baselines and users'
 * modules are all of this one shape; the harness asks for responses, keeps every record as it comes, and knows nothing else of them.
 */

import type { DataFacts, ExampleAddress, ExampleSource } from '../datasets/source.ts';
import type { EvalRecord, Json } from '../src/ground/types.ts';
import type { NumbersFormat, PolicyCard } from '../src/tasks/card.ts';
import type { Reading } from '../src/tasks/response.ts';
import type { Shot } from '../src/train/task.ts';
import type { EvalTask } from './harness.ts';

/** One response that is wanted. */
export interface ResponseRequest {
  /** Place of the example in the source. */
  readonly number: number;
  /** Which of several responses to the example, 0-based. */
  readonly sample: number;
  /** 0: greedy. */
  readonly temperature: number;
}

/** What is asked about one example. */
export interface EvalPrompt extends Omit<Shot, 'response'> {
  /** Solved training examples before the question. */
  readonly shots: readonly Shot[];
}

/** Solved training examples before every question. */
export interface ShotOptions {
  /** For one question, k. */
  readonly count: number;
  readonly seed: number;
}

/** How questions are put, whatever the example. */
export interface EvalForm {
  /** Numbers instead of pictures, or pictures (null). */
  readonly numbers: NumbersFormat | null;
  readonly shots: ShotOptions | null;
  /** Whether reasoning is asked for before the answer. */
  readonly reasoning: boolean;
  /** Whether advice is asked for after the answer; it is not when absent. */
  readonly extension?: boolean;
  /** How answers are read. */
  readonly reading: Reading;
  /** Longest response, in tokens. */
  readonly maxTokens: number;
  /** Of sampling. */
  readonly seed: number;
}

/** A data set, as one policy is asked about it. */
export interface EvalData {
  readonly form: EvalForm;
  /** Where a Worker finds the examples. */
  readonly address: ExampleAddress;
  readonly source: ExampleSource;
  /** Parses and scores: `recordOf` of the harness makes records with it. */
  readonly task: EvalTask;
  /** What is asked about example number `number`; drawn anew at every call. */
  prompt(number: number): Promise<EvalPrompt>;
}

export interface EvalPolicy {
  /** What it is called in tables, and its directory among results. */
  readonly name: string;
  /** What its answers depend on, beside the questions: a resumed evaluation must find the same. */
  readonly identity: Readonly<Record<string, Json>>;
  /** Whether it is asked in words and samples; a baseline reads the values and answers once, whatever is asked. */
  readonly asked: boolean;
  /** How it is asked about a data set. @throws ConfigError where it cannot answer such questions */
  card(facts: DataFacts): PolicyCard;
  /**
   * Answers all requests, reporting each record as soon as it is there, in any order; a record with `failure` where there is no
   * response. Stops soon once `signal` is aborted, with its reason; what was reported by then counts.
   * @throws EndpointError and others when no further request can be answered
   */
  answer(
    data: EvalData,
    requests: readonly ResponseRequest[],
    report: (record: EvalRecord, request: ResponseRequest) => void,
    signal: AbortSignal,
  ): Promise<void>;
}
