/** Text to token ids and back, with a checkpoint's own tokenizer. */
import { Tokenizer as HuggingFaceTokenizer } from '@huggingface/tokenizers';
import { CheckpointError } from '../errors.ts';
import { readTokenizer } from './tokenizer-files.ts';

/** The tokens of Qwen2.5-VL that structure a prompt. */
export const SPECIAL_TOKENS = [
  '<|endoftext|>',
  '<|im_start|>',
  '<|im_end|>',
  '<|vision_start|>',
  '<|vision_end|>',
  '<|image_pad|>',
  '<|video_pad|>',
] as const;
export type SpecialToken = (typeof SPECIAL_TOKENS)[number];

const CACHE_LIMIT = 4096;
/** Longer texts are not kept: they hardly come again, and thousands of them would fill the memory. */
const CACHED_LENGTH = 20_000;

export class Tokenizer {
  /** The parsed `tokenizer.json` and `tokenizer_config.json`, as they are saved again. */
  readonly json: Readonly<Record<string, unknown>>;
  readonly config: Readonly<Record<string, unknown>>;
  /** One more than the largest id. */
  readonly size: number;
  readonly #inner: HuggingFaceTokenizer;
  readonly #special: ReadonlySet<number>;
  readonly #added: ReadonlyMap<number, string>;
  readonly #cache = new Map<string, Int32Array>();

  /** @throws CheckpointError when the tokenizer is not usable or lacks a token of Qwen2.5-VL. */
  constructor(json: unknown, config: unknown = {}, file = 'tokenizer.json') {
    this.json = json as Readonly<Record<string, unknown>>;
    this.config = config as Readonly<Record<string, unknown>>;
    try {
      this.#inner = new HuggingFaceTokenizer(this.json, this.config);
    } catch (cause) {
      throw new CheckpointError(`${file}: not a usable tokenizer (${(cause as Error).message})`, { cause });
    }
    let size = 0;
    for (const id of this.#inner.get_vocab(true).values()) size = Math.max(size, id + 1);
    this.size = size;
    for (const token of SPECIAL_TOKENS) {
      if (this.#inner.token_to_id(token) === undefined) {
        throw new CheckpointError(
          `${file}: token ${token} is missing; use the tokenizer of a Qwen2.5-VL checkpoint`,
        );
      }
    }
    const added = [...this.#inner.get_added_tokens_decoder()];
    this.#special = new Set(added.filter(([, token]) => token.special).map(([id]) => id));
    this.#added = new Map(added.map(([id, { content }]) => [id, content]));
  }

  /** The tokenizer of a checkpoint directory. @throws CheckpointError as the constructor and `readTokenizer` do */
  static load(directory: string): Tokenizer {
    const { json, config, file } = readTokenizer(directory);
    return new Tokenizer(json, config, file);
  }

  /** Ids of a text; special tokens written in it count as such. Nothing is added around it. */
  encode(text: string): Int32Array {
    const known = this.#cache.get(text);
    if (known !== undefined) return known.slice();
    const ids = Int32Array.from(this.#inner.encode(text, { add_special_tokens: false }).ids);
    if (text.length > CACHED_LENGTH) return ids;
    if (this.#cache.size >= CACHE_LIMIT) this.#cache.clear();
    this.#cache.set(text, ids);
    return ids.slice();
  }

  /** Text of ids, unknown ids left out; bytes that are not UTF-8 become U+FFFD. */
  decode(ids: Iterable<number>, options: { readonly skipSpecial?: boolean } = {}): string {
    const known = Array.from(ids).filter((id) => id >= 0 && this.#inner.id_to_token(id) !== undefined);
    if (known.length === 0) return '';
    return this.#inner.decode(known, {
      skip_special_tokens: options.skipSpecial ?? true,
      clean_up_tokenization_spaces: false,
    });
  }

  /** Id of a special token. */
  special(token: SpecialToken): number {
    return this.#inner.token_to_id(token)!;
  }

  isSpecial(id: number): boolean {
    return this.#special.has(id);
  }

  /** Text of a token that was added to the vocabulary as it is, special ones among them; undefined for others. */
  added(id: number): string | undefined {
    return this.#added.get(id);
  }

  /**
   * The first special token that is written out in a text, or null. `encode` would take it as one: text from outside
   * must be free of them to be what it says.
   */
  specialIn(text: string): string | null {
    let first: string | null = null;
    let at = text.length;
    for (const id of this.#special) {
      const token = this.#added.get(id)!;
      const found = text.indexOf(token);
      if (found >= 0 && (found < at || (found === at && token.length > first!.length))) {
        first = token;
        at = found;
      }
    }
    return first;
  }

  /** The token as spelled in the vocabulary (byte-level alphabet); undefined for an unused id. */
  token(id: number): string | undefined {
    return this.#inner.id_to_token(id);
  }
}
