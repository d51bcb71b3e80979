/** Reader of windows of a series: a policy, prompted as in its training according to its card. */

import { createHash } from 'node:crypto';
import { VALUE_CHANNEL } from '../../datasets/example.ts';
import type { LocalPolicy } from '../answer/answerer.ts';
import { getOrMake } from '../ground/maps.ts';
import type { Picture } from '../ground/types.ts';
import { figure } from '../plot/figure.ts';
import type { EncodedPrompt } from '../policy/batch.ts';
import type { Tokenizer } from '../policy/tokenizer.ts';
import type { PolicyCard } from '../tasks/card.ts';
import type { PromptRequest } from '../tasks/kind.ts';
import { numericText } from '../tasks/numeric-text.ts';
import { customPrompt, instruction } from '../tasks/prompt.ts';
import { distanceFrom, type PolicyReference } from '../tasks/reference.ts';
import { PromptEncoder } from '../train/task.ts';
import type { ConfidenceModel } from './confidence.ts';
import { type AnswerToken, cellsOf } from './confidence.ts';

/** Windows answered together and longest response, by style: a big policy has long prompts and long traces. */
const EFFORT = {
  nano: { batch: 64, maxTokens: 128 },
  full: { batch: 4, maxTokens: 1024 },
} as const;

/** Greedy answer about a window. */
interface WindowAnswer {
  readonly text: string;
  /** Mean log-probability of its tokens (natural logarithm); null if unknown. */
  readonly logProbability: number | null;
  /** Distance of the window from the training data; null without a reference. */
  readonly distance: number | null;
  /** Key of the prompt: equal for windows that look the same. */
  readonly input: string;
  /** Result of `cellsOf`; null for a reader of one scale. */
  readonly cells: readonly number[] | null;
}

export interface Reader {
  /** Name of the policy in the page. */
  readonly name: string;
  /** Points of every series that it was trained on; null: any number, up to LONGEST_UNTRAINED. */
  readonly length: number | null;
  /** Windows per batch. */
  readonly batch: number;
  /** Parameters, stage, figure, engine and device. */
  readonly record: Readonly<Record<string, string | number>>;
  /** Caveats for all of its answers, one sentence each. */
  readonly caveats: readonly string[];
  /** Statistics of its training data; null if unknown. */
  readonly reference: PolicyReference | null;
  /** True if it sees series at several scales and its answers are merged by confidence; see `confidence.ts`. */
  readonly scales: boolean;
  /** Calibrated confidence; null if unknown, and for a reader of one scale. */
  readonly confidence: ConfidenceModel | null;
  /** Draws a window [W] as the policy sees it. */
  picture(window: Float64Array): Picture | Promise<Picture>;
  /** Returns the greedy answer about each window [W]. */
  answer(windows: readonly Float64Array[]): Promise<readonly WindowAnswer[]>;
  /** Samples answers about each window. */
  sample(
    windows: readonly Float64Array[],
    draw: { readonly samples: number; readonly temperature: number },
  ): Promise<readonly (readonly string[])[]>;
}

interface PolicyReaderOptions {
  readonly name: string;
  readonly reference: PolicyReference | null;
  readonly confidence: ConfidenceModel | null;
  /** Draws a series as the policy's figure has it. */
  readonly picture: (values: Float64Array) => Picture | Promise<Picture>;
}

/** Prompt request for a window, which belongs to no task of the training. */
function asked({ numbers, classes }: PolicyCard, values: Float64Array): PromptRequest {
  const request = { length: values.length, channels: [VALUE_CHANNEL], classes };
  if (numbers === null) return request;
  const { digits, points } = numbers;
  return { ...request, numbers: numericText([values], { digits, points }) };
}

/** Returns a function that decodes the tokens of answers one by one; each token is decoded once. */
function answerTokens(tokenizer: Tokenizer): (ids: Int32Array, logProbs: Float32Array) => AnswerToken[] {
  const texts = new Map<number, string>();
  return (ids, logProbs) =>
    Array.from(ids, (id, i) => ({
      text: getOrMake(texts, id, () => tokenizer.decode([id])),
      logProb: logProbs[i]!,
    }));
}

/** Makes a reader from a policy. */
export function policyReader(policy: LocalPolicy, card: PolicyCard, options: PolicyReaderOptions): Reader {
  const { name, reference, confidence, picture } = options;
  // Only a figure with overlay lines for single samples shows spikes at several scales.
  const scales = figure(card.figure).overlay !== null && card.length !== null;
  const tokensOf = answerTokens(policy.prompting.tokenizer);
  const encoder = new PromptEncoder(policy.prompting);
  const words = customPrompt(card.kind);
  const { batch, maxTokens } = EFFORT[card.style];
  const { info } = policy;
  const promptsOf = async (
    windows: readonly Float64Array[],
  ): Promise<{ encoded: EncodedPrompt; input: string }[]> => {
    const prompts = [];
    for (const values of windows) {
      const seen = card.numbers === null ? await picture(values) : null;
      const question = instruction(card.style, words, asked(card, values));
      const input = createHash('sha256').update(question);
      if (seen !== null) input.update(seen.data);
      prompts.push({ encoded: encoder.encode(seen, question), input: input.digest('base64') });
    }
    return prompts;
  };
  return {
    ...{ name, reference, picture, batch, scales },
    confidence: scales ? confidence : null,
    length: card.length,
    record: {
      parameters: policy.parameters,
      stage: card.stage,
      figure: card.figure,
      engine: `${info.name} ${info.version}`,
      device: info.device,
      threads: info.threads,
    },
    caveats:
      card.style === 'nano'
        ? [
            `The policy is small (${(policy.parameters / 1e6).toPrecision(2)} million parameters): on data unlike its training data, its answers are hints.`,
            ...card.limitations,
          ]
        : [],
    async answer(windows) {
      const prompts = await promptsOf(windows);
      const encoded = prompts.map((prompt) => prompt.encoded);
      const responses = await policy.generate(encoded, { temperature: 0, maxTokens, seed: 0 });
      const features = reference === null ? null : await policy.pictureFeatures(encoded);
      return responses.map(({ text, ids, logProbs }, i) => ({
        text,
        logProbability: logProbs.reduce((sum, value) => sum + value, 0) / logProbs.length,
        distance: features === null ? null : distanceFrom(reference!, features[i]!),
        input: prompts[i]!.input,
        cells: scales ? cellsOf(tokensOf(ids, logProbs)) : null,
      }));
    },
    async sample(windows, { samples, temperature }) {
      const encoded = (await promptsOf(windows)).map((prompt) => prompt.encoded);
      const responses = await policy.generate(encoded, { temperature, samples, maxTokens, seed: 0 });
      return windows.map((_, p) =>
        responses.filter((response) => response.prompt === p).map(({ text }) => text),
      );
    },
  };
}
