/** Whether prompts with numbers fit the context of the policy that a run begins with. */

import { DryEngine } from '../engine/dry/dry.ts';
import { DataError } from '../errors.ts';
import type { Place } from '../json-record.ts';
import { Chat } from '../policy/chat.ts';
import { nanoDims } from '../policy/model-config.ts';
import { Policy, type Prompting } from '../policy/policy.ts';
import type { Recipe } from '../recipe.ts';
import type { PolicyCard } from '../tasks/card.ts';
import { nanoTokenizer } from './initial-policy.ts';
import { withoutWeights } from './prompt-tokens.ts';

/** What reads prompts. */
export interface PromptReader {
  /** Most tokens of a prompt. */
  readonly context: number;
  readonly chat: Pick<Chat, 'render'>;
  /** Tokens of a text in the chat's form. Costs more than the rest: asked for long prompts alone. */
  readonly tokens: (text: string) => number;
}

/** The reader of a policy directory, or of the nano policy (null) that a recipe would make. */
export function promptReader(directory: string | null, recipe: Recipe, card: PolicyCard): PromptReader {
  if (directory !== null) {
    const { dims, chat, tokenizer } = withoutWeights(directory);
    return { context: dims.maxPositions, chat, tokens: (text) => tokenizer.encode(text).length };
  }
  const nowhere = { image: 0, video: 0, visionStart: 0, visionEnd: 0, end: 0, pad: 0 };
  let made: Prompting | undefined;
  return {
    context: nanoDims(0, nowhere).maxPositions,
    chat: new Chat(),
    tokens: (text) => {
      made ??= Policy.create(new DryEngine({ device: 'cpu', version: '2.6.0' }), {
        tokenizer: nanoTokenizer(recipe, card),
        seed: recipe.seed,
      });
      return made.tokenizer.encode(text).length;
    },
  };
}

/** Looks at prompts one by one, and remembers the longest. */
export class PromptRoom {
  readonly #reader: PromptReader;
  readonly #points: number;
  #longest: { readonly id: string; readonly at: Place; readonly tokens: number } | null = null;

  /** `points`: most values per channel. */
  constructor(reader: PromptReader, points: number) {
    this.#reader = reader;
    this.#points = points;
  }

  add(id: string, at: Place, instruction: string): void {
    const { chat, context } = this.#reader;
    const text = chat.render([{ role: 'user', content: [{ type: 'text', text: instruction }] }]);
    // A token holds at least one byte of the composed text, so that most prompts need no counting.
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
