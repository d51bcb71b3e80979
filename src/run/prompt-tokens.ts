/** How long prompts are in tokens: with a picture, and with the same series as numbers. */
import { join } from 'node:path';
import type { ExampleSource } from '../../datasets/source.ts';
import { DryEngine } from '../engine/dry/dry.ts';
import { readJson } from '../policy/json-file.ts';
import { layoutOf } from '../policy/layout.ts';
import { parseDims } from '../policy/model-config.ts';
import { Policy } from '../policy/policy.ts';
import type { NumbersFormat, PolicyCard } from '../tasks/card.ts';
import { PromptEncoder } from '../train/task.ts';
import { exampleTask } from './task.ts';

/** Means over some examples. */
export interface PromptTokens {
  /** Tokens of a whole prompt with a picture, and how many of them are visual. */
  readonly picture: { readonly tokens: number; readonly visual: number };
  /** Tokens of a whole prompt with numbers. */
  readonly numbers: { readonly tokens: number };
  /** How the numbers were written. */
  readonly format: NumbersFormat;
  /** Most tokens of the policy's context. */
  readonly context: number;
  /** Examples that were counted. */
  readonly examples: number;
}

/** Examples that are enough: prompts of one task hardly differ in length. */
const COUNTED = 16;

/** Tokenizer, chat template and image processor of a policy directory, whose weights are not read. */
export function withoutWeights(directory: string): Policy {
  const file = join(directory, 'config.json');
  const layout = layoutOf(parseDims(readJson(file), file));
  const engine = new DryEngine({ device: 'cpu', version: '2.6.0' });
  return Policy.attach(engine, directory, engine.share(engine.zeros([layout.size], 'bfloat16')), {
    tuning: 'none',
  });
}

/**
 * Counts the tokens of the prompts of a policy over the first examples of a source, in both modes.
 * @throws CheckpointError for a directory that is no policy
 */
export async function promptTokens(
  directory: string,
  card: PolicyCard,
  source: ExampleSource,
  format: NumbersFormat,
): Promise<PromptTokens> {
  const policy = withoutWeights(directory);
  const { dims, tokenizer, chat } = policy;
  const encoder = new PromptEncoder(policy);
  const parts = { facts: source.facts };
  const seen = exampleTask({ ...card, numbers: null }, parts);
  const read = exampleTask({ ...card, numbers: format }, parts);
  const examples = Math.min(COUNTED, source.count);
  let tokens = 0;
  let visual = 0;
  let numbers = 0;
  for (let i = 0; i < examples; i++) {
    const example = source.at(i);
    const prompt = encoder.encode(await seen.picture(example), seen.instruction(example));
    tokens += prompt.ids.length;
    for (const id of prompt.ids) if (id === dims.special.image) visual++;
    // Not as a prompt: the context may be too short for it, and that is worth knowing.
    const content = [{ type: 'text', text: read.instruction(example) }] as const;
    numbers += tokenizer.encode(chat.render([{ role: 'user', content }])).length;
  }
  const mean = (sum: number): number => Number((sum / examples).toFixed(1));
  return {
    picture: { tokens: mean(tokens), visual: mean(visual) },
    numbers: { tokens: mean(numbers) },
    format,
    context: dims.maxPositions,
    examples,
  };
}
