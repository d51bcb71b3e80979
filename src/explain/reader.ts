/** Who answers about a window of a series: a policy, in the way its card says it was taught. */

import { VALUE_CHANNEL } from '../../datasets/example.ts';
import { generate } from '../policy/generate.ts';
import type { Policy } from '../policy/policy.ts';
import type { PolicyCard } from '../tasks/card.ts';
import type { PromptRequest } from '../tasks/kind.ts';
import { numericText } from '../tasks/numeric-text.ts';
import { customPrompt, instruction } from '../tasks/prompt.ts';
import { PromptEncoder } from '../train/task.ts';
import type { Picture } from '../types.ts';

/** Longest window that a policy without a trained length is shown: two samples per pixel of its figure. */
export const UNTAUGHT_LENGTH = 2000;

/** Windows answered together and longest response, by style: a big policy has long prompts and long traces. */
const EFFORT = {
  nano: { batch: 64, maxTokens: 128 },
  full: { batch: 4, maxTokens: 1024 },
} as const;

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
  /** What it is shown of a window [W]. */
  picture(window: Float64Array): Picture | Promise<Picture>;
  /** One response to each window [W]. */
  answer(windows: readonly Float64Array[]): Promise<readonly string[]>;
}

export interface PolicyReaderOptions {
  readonly name: string;
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

/** Reads windows with a policy, greedily. */
export function policyReader(policy: Policy, card: PolicyCard, options: PolicyReaderOptions): Reader {
  const encoder = new PromptEncoder(policy);
  const words = customPrompt(card.kind);
  const { batch, maxTokens } = EFFORT[card.style];
  const { info } = policy.engine;
  return {
    name: options.name,
    length: card.length,
    batch,
    record: {
      parameters: policy.layout.size,
      stage: card.stage,
      figure: card.figure,
      engine: `${info.name} ${info.version}`,
      device: info.device,
      threads: info.threads,
    },
    caveats:
      card.style === 'nano'
        ? [
            `The policy is small (${(policy.layout.size / 1e6).toPrecision(2)} million parameters): on data unlike those that it was taught its answer is a hint, to be held against the classical evidence.`,
            ...card.limitations,
          ]
        : [],
    picture: options.picture,
    async answer(windows) {
      const prompts = [];
      for (const values of windows) {
        const picture = card.numbers === null ? await options.picture(values) : null;
        prompts.push(encoder.encode(picture, instruction(card.style, words, asked(card, values))));
      }
      const responses = await generate(policy, prompts, { temperature: 0, maxTokens, seed: 0 });
      return responses.map(({ text }) => text);
    },
  };
}
