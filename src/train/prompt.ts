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

  /** One user turn: the picture, then the instruction; the instruction alone where there is no picture. */
  encode(picture: Picture | null, instruction: string): EncodedPrompt {
    const { chat } = this.#policy;
    const words = { type: 'text', text: instruction } as const;
    // An instruction without a picture holds the numbers of one series, and does not recur.
    if (picture === null) {
      return this.#policy.encodePrompt(chat.render([{ role: 'user', content: [words] }]), []);
    }
    let text = this.#texts.get(instruction);
    if (text === undefined) {
      text = chat.render([{ role: 'user', content: [{ type: 'image' }, words] }]);
      if (this.#texts.size >= CACHE_LIMIT) this.#texts.clear();
      this.#texts.set(instruction, text);
    }
    return this.#policy.encodePrompt(text, [picture]);
  }
}
