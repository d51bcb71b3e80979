/** Text as it is sampled, token by token. */
import { byteOf } from './bpe.ts';
import type { Tokenizer } from './tokenizer.ts';

/**
 * Decodes ids one at a time to what `Tokenizer.decode` makes of all of them together, special tokens left out. A
 * character whose bytes are spread over several tokens comes with the last of them.
 */
export class TextStream {
  readonly #tokenizer: Tokenizer;
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true });

  constructor(tokenizer: Tokenizer) {
    this.#tokenizer = tokenizer;
  }

  /** The text that is complete with this token; perhaps none. */
  push(id: number): string {
    if (this.#tokenizer.isSpecial(id)) return '';
    const added = this.#tokenizer.added(id);
    if (added !== undefined) return this.end() + added;
    const bytes = Array.from(this.#tokenizer.token(id) ?? '', byteOf);
    return this.#decoder.decode(Uint8Array.from(bytes), { stream: true });
  }

  /** What is left: U+FFFD for bytes that never became a character. */
  end(): string {
    return this.#decoder.decode();
  }
}
