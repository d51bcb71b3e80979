/** A policy that answers, whatever computes it. */
import type { EncodedPrompt } from './batch.ts';
import { type GenerateOptions, generate, type Sampled } from './generate.ts';
import type { Policy, Prompting } from './policy.ts';
import { pictureFeatures } from './vision.ts';

/** What is asked of an answerer: hidden states are for training alone. */
export type AnswerOptions = Omit<GenerateOptions, 'hidden'>;

export interface Answerer {
  /** What encodes prompts for it. */
  readonly prompting: Prompting;
  /** Number of weights. */
  readonly parameters: number;
  /** Of the weights. */
  readonly dtype: string;
  /** What computes, and where. */
  readonly info: {
    readonly name: string;
    readonly version: string;
    readonly device: string;
    readonly threads: number;
  };
  /** As `generate`. */
  generate(prompts: readonly EncodedPrompt[], options: AnswerOptions): Promise<Sampled[]>;
  /** As `pictureFeatures`. */
  pictureFeatures(prompts: readonly EncodedPrompt[]): Promise<Float32Array[]>;
  dispose(): Promise<void>;
}

/** A policy on an engine, which it owns from then on. */
export function engineAnswerer(policy: Policy): Answerer {
  return {
    ...{ prompting: policy, parameters: policy.layout.size, dtype: policy.dtype, info: policy.engine.info },
    generate: (prompts, options) => generate(policy, prompts, options),
    pictureFeatures: async (prompts) => pictureFeatures(policy, prompts),
    dispose: async () => policy.dispose(),
  };
}
