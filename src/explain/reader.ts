/** Who answers about a window of a series: a policy, in the way its card says it was taught. */

import { createHash } from 'node:crypto';
import { VALUE_CHANNEL } from '../../datasets/example.ts';
import type { LocalPolicy } from '../answer/answerer.ts';
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
export interface WindowAnswer {
  readonly text: string;
  /** Mean natural logarithm of the probability of its tokens; null where that is not known. */
  readonly logProbability: number | null;
  /** Distance of the window from the training data; null without a reference. */
  readonly distance: number | null;
  /** The same for windows that were shown the same. */
  readonly input: string;
  /** As `cellsOf`; null of a reader of one scale. */
  readonly cells: readonly number[] | null;
}

export interface Reader {
  /** Where it is from, as the page shows it. */
  readonly name: string;
  /** Points of every series that it was taught on, and is to be asked about; null: any, up to UNTAUGHT_LENGTH. */
  readonly length: number | null;
  /** Windows worth handing over at a time. */
  readonly batch: number;
  /** What it is and runs on, for the record. */
  readonly record: Readonly<Record<string, string | number>>;
  /** How far its answers can be trusted, one sentence each. */
  readonly caveats: readonly string[];
  /** What its training data look like to it; null where that is not known. */
  readonly reference: PolicyReference | null;
  /** Whether series are shown to it at several scales, and its answers merged by how sure it is of them; see `confidence.ts`. */
  readonly scales: boolean;
  /** How sure it has to be taken to be; null where that is not known, and of a reader of one scale. */
  readonly confidence: ConfidenceModel | null;
  /** What it is shown of a window [W]. */
  picture(window: Float64Array): Picture | Promise<Picture>;
  /** The greedy answer to each window [W]. */
  answer(windows: readonly Float64Array[]): Promise<readonly WindowAnswer[]>;
  /** `samples` answers to each window, drawn at a temperature. */
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

/** What is asked about a window: it has no task, whatever the policy was taught on. */
function asked({ numbers, classes }: PolicyCard, values: Float64Array): PromptRequest {
  const { length } = values;
  const channels = [VALUE_CHANNEL];
  return numbers === null
    ? { length, channels, classes }
    : {
        length,
        channels,
        classes,
        numbers: numericText([values], { digits: numbers.digits, points: numbers.points }),
      };
}

/** What takes the tokens of answers apart, each decoded once. */
function answerTokens(tokenizer: Tokenizer): (ids: Int32Array, logProbs: Float32Array) => AnswerToken[] {
  const texts = new Map<number, string>();
  return (ids, logProbs) =>
    Array.from(ids, (id, i) => {
      const text = texts.get(id) ?? tokenizer.decode([id]);
      texts.set(id, text);
      return { text, logProb: logProbs[i]! };
    });
}

/** Reads windows with a policy. */
export function policyReader(policy: LocalPolicy, card: PolicyCard, options: PolicyReaderOptions): Reader {
  const { name, reference, confidence, picture } = options;
  // A figure with lines for single samples shows them at the scale that it was taught; one of a season shows seasons.
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
      const encoded = prompts.map((one) => one.encoded);
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
      const encoded = (await promptsOf(windows)).map((one) => one.encoded);
      const responses = await policy.generate(encoded, { temperature, samples, maxTokens, seed: 0 });
      return windows.map((_, p) => responses.filter((one) => one.prompt === p).map(({ text }) => text));
    },
  };
}
