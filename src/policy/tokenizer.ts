/** Text to token ids and back, with a checkpoint's own tokenizer. */
import { Tokenizer as HuggingFaceTokenizer } from '@huggingface/tokenizers';
import { CheckpointError } from '../errors.ts';
import { Guarded, type Limits, Stopped } from './guard.ts';
import { PIECES, readTokenizer } from './tokenizer-files.ts';

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

/**
 * Where the nano policy's text splits: tags, roles, single digits, symbols of the scan, brackets and commas. `o` and `x` are
 * symbols only inside a scan: after `; scan ` or another symbol, with nothing but symbols up to the scan's end.
 */
export const NANO_PIECES =
  '(?:system|user|assistant)\\n|</?[a-z]+>|[0-9]|[.()#\\[\\]]|, ?|(?<=; scan |[.()#ox])[ox](?=[.()#ox]*(?:</think>|; ))';

/** Expressions that come to an end on any text. */
const KNOWN: readonly unknown[] = [PIECES, NANO_PIECES];

/** Whether a part of a `tokenizer.json` brings an expression that is not known, or replaces text by any other. */
function isForeign(part: unknown): boolean {
  if (typeof part !== 'object' || part === null) return false;
  const { type, Regex: expression } = part as { readonly type?: unknown; readonly Regex?: unknown };
  if (type === 'Replace' || (expression !== undefined && !KNOWN.includes(expression))) return true;
  return Object.values(part).some(isForeign);
}

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
  readonly #file: string;
  /** Set when the checkpoint brings expressions of its own, which may never come to an end. */
  readonly #guarded: Guarded | null;

  /** @throws CheckpointError when the tokenizer is not usable or lacks a token of Qwen2.5-VL. */
  constructor(json: unknown, config: unknown = {}, file = 'tokenizer.json', limits?: Limits) {
    this.#file = file;
    this.json = json as Readonly<Record<string, unknown>>;
    this.config = config as Readonly<Record<string, unknown>>;
    try {
      this.#inner = new HuggingFaceTokenizer(this.json, this.config);
    } catch (cause) {
      throw new CheckpointError(`${file}: not a usable tokenizer (${(cause as Error).message})`, { cause });
    }
    const { normalizer, pre_tokenizer, post_processor, decoder } = this.json;
    const program = { kind: 'tokenizer', json: this.json, config: this.config } as const;
    this.#guarded = [normalizer, pre_tokenizer, post_processor, decoder].some(isForeign)
      ? new Guarded(program, limits)
      : null;
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

  /** @throws CheckpointError when the tokenizer's own expressions do not come to an end */
  #run<T>(guarded: Guarded, task: Parameters<Guarded['run']>[0]): T {
    try {
      return guarded.run(task) as T;
    } catch (cause) {
      const { message } = cause as Error;
      throw new CheckpointError(
        cause instanceof Stopped
          ? `${this.#file}: the tokenizer was stopped: with this text ${message}; use that of a Qwen2.5-VL checkpoint`
          : `${this.#file}: not a usable tokenizer (${message})`,
        { cause },
      );
    }
  }

  /**
   * Ids of a text; special tokens written in it count as such. Nothing is added around it.
   * @throws CheckpointError when the tokenizer's own expressions do not come to an end
   */
  encode(text: string): Int32Array {
    const known = this.#cache.get(text);
    if (known !== undefined) return known.slice();
    const ids =
      this.#guarded === null
        ? Int32Array.from(this.#inner.encode(text, { add_special_tokens: false }).ids)
        : this.#run<Int32Array>(this.#guarded, { encode: text });
    if (text.length > CACHED_LENGTH) return ids;
    if (this.#cache.size >= CACHE_LIMIT) this.#cache.clear();
    this.#cache.set(text, ids);
    return ids.slice();
  }

  /** Text of ids, unknown ids left out; bytes that are not UTF-8 become U+FFFD. */
  decode(ids: Iterable<number>, options: { readonly skipSpecial?: boolean } = {}): string {
    const known = Array.from(ids).filter((id) => id >= 0 && this.#inner.id_to_token(id) !== undefined);
    if (known.length === 0) return '';
    const skipSpecial = options.skipSpecial ?? true;
    if (this.#guarded !== null) return this.#run<string>(this.#guarded, { decode: known, skipSpecial });
    return this.#inner.decode(known, {
      skip_special_tokens: skipSpecial,
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
