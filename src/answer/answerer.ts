/**
 * Contract of everything that answers questions: weights on this machine (torch, ONNX), an endpoint, a classical baseline, a module
 * of the user. `openPolicy` (open.ts) opens each of them from one reference syntax (reference.ts). Evaluation, explanations, calibration,
 * `ask`, the service and the library know nothing else of them.
 *
 *   reference.ts   text → reference            local.ts       torch and ONNX policies, engines
 *   open.ts        reference → Answerer        endpoint.ts    OpenAI-compatible endpoints
 *   prompt.ts      prompt → tokens, sampling   define.ts      modules of the user
 *                                              baselines.ts   classical baselines
 */
import type { DataFacts, ExampleAddress } from '../../datasets/source.ts';
import type { Gold, Json, Picture, TokenUsage } from '../ground/types.ts';
import { isModuleSpecifier } from '../ground/user-module.ts';
import type { EncodedPrompt } from '../policy/batch.ts';
import type { Group } from '../policy/decoding-batch.ts';
import type { DecodeOptions, GenerateOptions, Sampled } from '../policy/generate.ts';
import type { Prompting } from '../policy/policy.ts';
import type { Shot } from '../train/task.ts';
import type { Question } from './define.ts';

/** Engines that compute policies on this machine. */
export const ENGINES = ['torch', 'tfjs', 'onnx'] as const;
export type EngineName = (typeof ENGINES)[number];

export const ENGINE_HELP =
  'Engine: torch, tfjs (TensorFlow.js), onnx (onnxruntime on the CPU; also opens exports), or auto: torch; onnx for policies that ship, and where libtorch is missing or the directory holds only ONNX graphs. Default: TIMESEER_ENGINE, else auto';

/** Words and pictures put to a policy. */
export interface Prompt {
  readonly system?: string;
  /** Solved examples before the question, each as a turn of its own. */
  readonly shots: readonly Shot[];
  /** Pictures before the text, in order. */
  readonly pictures: readonly Picture[];
  readonly text: string;
  /** Tools that the response may call, as its text says; endpoints offer them as functions too. */
  readonly tools?: readonly PromptTool[];
}

/** Tool of a prompt, called as `<tool>name words</tool>`. */
export interface PromptTool {
  readonly name: string;
  readonly summary: string;
  /** Names of its words, each a whole number; null where it takes any words. */
  readonly parameters: readonly string[] | null;
}

/** One question and the samples of its answer that are wanted. */
export interface AnswerRequest {
  /** Key of the random streams: equal seeds and keys draw equal samples. */
  readonly key: number;
  /** Samples, 0-based; greedy answers are sample 0. */
  readonly samples: readonly number[];
  /** Beginning of the response, by sample, that is continued; absent: responses start from nothing. */
  readonly openings?: Readonly<Record<number, string>>;
  /** Makes the prompt when its turn comes. Not called by answerers that read values. */
  prompt(): Prompt | Promise<Prompt>;
  /** Series that the question is about; null where there are only words and pictures. */
  series(): Question | null;
}

/** Sampling and limits, the same for all questions of a call. */
export interface AnswerOptions {
  /** 0: greedy. */
  readonly temperature: number;
  /** Longest response in tokens. */
  readonly maxTokens: number;
  readonly seed: number;
  /** Data set of the questions, which baselines learn from; null for a question outside any. */
  readonly data: { readonly address: ExampleAddress; readonly facts: DataFacts } | null;
  /** Ends the call soon after it is aborted, with its reason; responses reported by then count. */
  readonly signal?: AbortSignal;
  /** Receives text as it is sampled, from policies that stream. */
  readonly onText?: (text: string, at: { readonly key: number; readonly sample: number }) => void;
}

/** One response, or the reason why there is none. */
export interface Response {
  readonly key: number;
  readonly sample: number;
  /** Response, its opening included; empty where there is none, or an answer without text. */
  readonly text: string;
  /** Answer of an answerer that reads values and writes no text, or the reason why it has none. */
  readonly answer?: Gold | string;
  /** Tokens with their log-probabilities, from policies on this machine. */
  readonly sampled?: Sampled;
  readonly usage?: TokenUsage;
  readonly seconds?: number;
  readonly cost?: number;
  /** Reason why there is no response. */
  readonly failure?: string;
}

/** Anything that answers questions. */
export interface Answerer {
  /** Reference that it was opened from. */
  readonly given: string;
  /** Name in tables, and of its directory among results. */
  readonly name: string;
  /** Everything that its answers depend on beside the questions; a resumed evaluation must find the same. */
  readonly identity: Readonly<Record<string, Json>>;
  /** `prompt`: words and pictures, sampled; `values`: the series itself, answered once without text. */
  readonly reads: 'prompt' | 'values';
  /** True where it continues the openings of requests. Default: false. */
  readonly continues?: boolean;
  /** Policy on this machine; null for all others. */
  readonly local: LocalSource | null;
  /**
   * Answers all requests and reports each response as soon as it is complete, in any order; a response with `failure` where there is none.
   * @throws EndpointError and others when no further request can be answered; the reason of the signal
   */
  answer(
    requests: readonly AnswerRequest[],
    options: AnswerOptions,
    report: (response: Response) => void,
  ): Promise<void>;
  /** Frees weights, threads and connections. */
  dispose(): Promise<void>;
}

/** Directory of a policy and what loads it. */
export interface LocalSource {
  readonly directory: string;
  /** Directory of a low-rank adapter of it. */
  readonly adapter: string | undefined;
  readonly engine: EngineName;
  /** Loads the weights, once. @throws CheckpointError for damaged ones; EngineError without an engine */
  load(): Promise<LocalPolicy>;
}

/** Advice for an answerer that gives no response: a module, an endpoint, or a baseline that cannot read a series. */
export const remedyFor = (given: string): string =>
  isModuleSpecifier(given)
    ? `correct ${given}`
    : given.startsWith('baseline:')
      ? 'name another baseline'
      : 'check the endpoint';

/** Policy loaded on this machine, whichever engine computes it. */
export interface LocalPolicy {
  /** Tokenizer, chat template and image processor. */
  readonly prompting: Prompting;
  /** Number of weights. */
  readonly parameters: number;
  /** Type of the weights. */
  readonly dtype: string;
  readonly info: {
    readonly name: string;
    readonly version: string;
    readonly device: string;
    readonly threads: number;
  };
  /** Samples the rows of groups until all have ended; rows may be stopped meanwhile. See `decodeGroups`. */
  decode(groups: readonly Group[], options: DecodeOptions): Promise<void>;
  /** Samples responses: prompts × samples, in that order. See `generate` of src/policy/generate.ts. */
  generate(prompts: readonly EncodedPrompt[], options: LocalGenerateOptions): Promise<Sampled[]>;
  /** Mean visual features of each prompt's pictures. */
  pictureFeatures(prompts: readonly EncodedPrompt[]): Promise<Float32Array[]>;
  dispose(): Promise<void>;
}

/** Options of `generate` without hidden states, which only training uses. */
type LocalGenerateOptions = Omit<GenerateOptions, 'hidden'>;
