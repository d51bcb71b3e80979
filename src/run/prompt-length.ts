/** Prompt lengths in tokens, with a picture and with numbers, and the check that they fit the context. */
import type { ExampleSource } from '../../datasets/source.ts';
import { DataError } from '../ground/errors.ts';
import type { Place } from '../ground/json-record.ts';
import { Chat } from '../policy/chat.ts';
import { nanoDims } from '../policy/model-config.ts';
import { Prompting } from '../policy/policy.ts';
import { BPE_CONFIG, Tokenizer } from '../policy/tokenizer.ts';
import type { Recipe } from '../recipe/recipe.ts';
import type { NumbersFormat, PolicyCard } from '../tasks/card.ts';
import { PromptEncoder } from '../train/task.ts';
import { exampleTask } from './policy-task.ts';
import { nanoTokenizer } from './run-policy.ts';

/** Means over some examples. */
export interface PromptTokens {
  /** Tokens of a whole prompt with a picture, and how many of them are visual. */
  readonly picture: { readonly tokens: number; readonly visual: number };
  /** Tokens of a whole prompt with numbers. */
  readonly numbers: { readonly tokens: number };
  readonly format: NumbersFormat;
  /** Context of the policy in tokens. */
  readonly context: number;
  /** Examples that were counted. */
  readonly examples: number;
}

/** Number of examples counted: prompts of one task hardly differ in length. */
const COUNTED = 16;

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
  const policy = Prompting.read(directory);
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
    // Encoded as a text, because a prompt beyond the context would be refused.
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

/** Tokenizer, chat template and context of a policy. */
export interface PromptReader {
  /** Maximum tokens of a prompt. */
  readonly context: number;
  readonly chat: Pick<Chat, 'render'>;
  /** Counts the tokens of a rendered chat; slow, so called for long prompts only. */
  readonly tokens: (text: string) => number;
}

/** Returns the reader of a policy directory, or of the nano policy (null) that a recipe would make. */
export function promptReader(directory: string | null, recipe: Recipe, card: PolicyCard): PromptReader {
  if (directory !== null) {
    const { dims, chat, tokenizer } = Prompting.read(directory);
    return { context: dims.maxPositions, chat, tokens: (text) => tokenizer.encode(text).length };
  }
  const nowhere = { image: 0, video: 0, visionStart: 0, visionEnd: 0, end: 0, pad: 0 };
  let made: Tokenizer | undefined;
  return {
    context: nanoDims(0, nowhere).maxPositions,
    chat: new Chat(),
    tokens: (text) => {
      made ??= new Tokenizer(nanoTokenizer(recipe, card), BPE_CONFIG);
      return made.encode(text).length;
    },
  };
}

/** Finds the longest prompt, one by one. */
export class PromptRoom {
  readonly #reader: PromptReader;
  readonly #points: number;
  #longest: { readonly id: string; readonly at: Place; readonly tokens: number } | null = null;

  /** @param points maximum values per channel */
  constructor(reader: PromptReader, points: number) {
    this.#reader = reader;
    this.#points = points;
  }

  add(id: string, at: Place, instruction: string): void {
    const { chat, context } = this.#reader;
    const text = chat.render([{ role: 'user', content: [{ type: 'text', text: instruction }] }]);
    // A token holds at least one byte, so most prompts need no counting.
    if (Buffer.byteLength(text.normalize('NFC')) <= context) return;
    const tokens = this.#reader.tokens(text);
    if (tokens > (this.#longest?.tokens ?? 0)) this.#longest = { id, at, tokens };
  }

  /** @throws DataError naming the example whose prompt is longest where that is more than the context */
  check(): void {
    if (this.#longest === null || this.#longest.tokens <= this.#reader.context) return;
    const { id, at, tokens } = this.#longest;
    throw new DataError(
      `${id}: its prompt with numbers has ${tokens} tokens, and the policy's context ends at ${this.#reader.context}; ` +
        `lower numbers.points (now ${this.#points}) or numbers.digits, or set input=picture`,
      at,
    );
  }
}
