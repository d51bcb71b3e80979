/** From a picture and an instruction to an encoded prompt. */
import type { EncodedPrompt } from '../policy/batch.ts';
import type { Policy } from '../policy/policy.ts';
import type { Picture } from '../types.ts';

const CACHE_LIMIT = 256;

/** Encodes prompts of one policy; few instructions recur over and over, so their chat text is kept. */
export class PromptEncoder {
  readonly #policy: Policy;
  readonly #texts = new Map<string, string>();

  constructor(policy: Policy) {
    this.#policy = policy;
  }

  /** One user turn: the picture, then the instruction. */
  encode(picture: Picture, instruction: string): EncodedPrompt {
    let text = this.#texts.get(instruction);
    if (text === undefined) {
      text = this.#policy.chat.render([
        { role: 'user', content: [{ type: 'image' }, { type: 'text', text: instruction }] },
      ]);
      if (this.#texts.size >= CACHE_LIMIT) this.#texts.clear();
      this.#texts.set(instruction, text);
    }
    return this.#policy.encodePrompt(text, [picture]);
  }
}
