/** Text to token ids and back, with a checkpoint's own tokenizer; training of the nano policy's (`trainBpe`). */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Tokenizer as HuggingFaceTokenizer } from '@huggingface/tokenizers';
import { CheckpointError } from '../ground/errors.ts';
import { isObject } from '../ground/json-record.ts';
import { type Limits, Stopped } from '../ground/worker-thread.ts';
import { Guarded } from './guard.ts';
import { type Json, readObject, readText } from './json-file.ts';

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
type SpecialToken = (typeof SPECIAL_TOKENS)[number];

const CACHE_LIMIT = 4096;
/** Longer texts are not kept: they hardly come again, and thousands of them would fill the memory. */
const CACHED_LENGTH = 20_000;

/**
 * Pattern at which the nano policy's text splits: tags, roles, single digits, symbols of the scan, brackets and commas. `o` and `x` are
 * symbols only inside a scan: after `; scan ` or another symbol, with nothing but symbols up to the scan's end.
 */
const NANO_PATTERN =
  '(?:system|user|assistant)\\n|</?[a-z]+>|[0-9]|[.()#\\[\\]]|, ?|(?<=; scan |[.()#ox])[ox](?=[.()#ox]*(?:</think>|; ))';

/** Pre-tokenisation pattern of Qwen's tokenizers. */
const QWEN_PATTERN =
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

/** Expressions that come to an end on any text. */
const KNOWN: readonly unknown[] = [QWEN_PATTERN, NANO_PATTERN];

/** Returns true if a component of `tokenizer.json` has an unknown expression, or replaces text by something unknown. */
function isForeign(part: unknown): boolean {
  if (typeof part !== 'object' || part === null) return false;
  const { type, Regex: expression } = part as { readonly type?: unknown; readonly Regex?: unknown };
  if (type === 'Replace' || (expression !== undefined && !KNOWN.includes(expression))) return true;
  return Object.values(part).some(isForeign);
}

export class Tokenizer {
  /** The parsed `tokenizer.json` and `tokenizer_config.json`, as they are saved again. */
  readonly json: Json;
  readonly config: Json;
  /** Largest id plus one. */
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
    this.json = json as Json;
    this.config = config as Json;
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
      const position = text.indexOf(token);
      if (position >= 0 && (position < at || (position === at && token.length > first!.length))) {
        first = token;
        at = position;
      }
    }
    return first;
  }

  /** The token as spelled in the vocabulary (byte-level alphabet); undefined for an unused id. */
  token(id: number): string | undefined {
    return this.#inner.id_to_token(id);
  }
}

/**
 * A checkpoint's tokenizer from the files it has: `tokenizer.json`, or the `vocab.json` and `merges.txt` of older ones;
 * added tokens also from `tokenizer_config.json` and `added_tokens.json`, where fine-tunes leave theirs.
 */
interface TokenizerFiles {
  /** `tokenizer.json`, with every added token. */
  readonly json: Json;
  /** `tokenizer_config.json`; empty where there is none. */
  readonly config: Json;
  /** The file that the vocabulary is from. */
  readonly file: string;
}

interface Added {
  readonly id: number;
  readonly content: string;
}

const isAdded = (value: unknown): value is Json & Added =>
  isObject(value) && typeof value['content'] === 'string' && Number.isSafeInteger(value['id']);

/** A byte-level BPE as a `tokenizer.json`, which splits text by an expression before it merges. */
function bpeJson(parts: {
  readonly pattern: string;
  readonly vocab: Json;
  readonly merges: readonly (readonly string[])[];
  readonly added?: readonly Json[];
  readonly normalizer?: Json;
  /** True if a piece that is itself a token is not merged further, as in Llama 3's tokenizer. */
  readonly ignoreMerges?: boolean;
}): Json {
  const bytes = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: false, use_regex: false };
  const split = { type: 'Split', pattern: { Regex: parts.pattern }, behavior: 'Isolated', invert: false };
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: parts.added ?? [],
    normalizer: parts.normalizer ?? null,
    pre_tokenizer: { type: 'Sequence', pretokenizers: [split, bytes] },
    post_processor: null,
    decoder: bytes,
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: parts.ignoreMerges ?? false,
      vocab: parts.vocab,
      merges: parts.merges,
    },
  };
}

/** Returns an added token of a `tokenizer.json`, with the defaults of transformers. */
export const addedToken = ({ id, content, ...rest }: Json & Added): Json => ({
  id,
  content,
  single_word: false,
  lstrip: false,
  rstrip: false,
  normalized: false,
  special: true,
  ...rest,
});

/** The tokenizer that Qwen's vocabulary and merges stand for. */
function fromMerges(vocabFile: string, mergesFile: string): Json {
  const merges = readText(mergesFile)
    .split('\n')
    .map((line) => line.replace(/\r$/, ''))
    .filter((line) => line !== '' && !line.startsWith('#version'))
    .map((line, i) => {
      const pair = line.split(' ');
      if (pair.length === 2) return pair;
      throw new CheckpointError(
        `${mergesFile}: merge ${i + 1} is not two tokens, but ${JSON.stringify(line)}; copy it again`,
      );
    });
  return bpeJson({
    normalizer: { type: 'NFC' },
    pattern: QWEN_PATTERN,
    vocab: readObject(vocabFile),
    merges,
  });
}

/** Tokens of `tokenizer_config.json` and `added_tokens.json`, by the file that names them. */
function otherAdded(directory: string, config: Json): (Added & { readonly file: string })[] {
  const out: (Added & { readonly file: string })[] = [];
  const addedTokens = config['added_tokens_decoder'];
  if (isObject(addedTokens)) {
    const file = join(directory, 'tokenizer_config.json');
    for (const [id, value] of Object.entries(addedTokens)) {
      const token = isObject(value) ? { ...value, id: Number(id) } : null;
      if (!isAdded(token)) {
        throw new CheckpointError(
          `${file}: added_tokens_decoder['${id}'] is not a token with its id; use the file of a Qwen2.5-VL checkpoint`,
        );
      }
      out.push({ ...token, file });
    }
  }
  const file = join(directory, 'added_tokens.json');
  if (existsSync(file)) {
    for (const [content, id] of Object.entries(readObject(file))) {
      const token = { id, content, special: /^<\|.*\|>$/s.test(content) };
      if (!isAdded(token)) {
        throw new CheckpointError(`${file}: '${content}' must have a token id, got ${JSON.stringify(id)}`);
      }
      out.push({ ...token, file });
    }
  }
  return out;
}

/** Puts in the tokens that are missing. @throws CheckpointError when two files disagree on an id. */
function withAdded(json: Json, others: readonly (Added & { readonly file: string })[], source: string): Json {
  const listed: readonly unknown[] = Array.isArray(json['added_tokens']) ? json['added_tokens'] : [];
  const known = listed.filter(isAdded);
  const contents = new Map(known.map(({ id, content }) => [id, content]));
  const ids = new Map(known.map(({ id, content }) => [content, id]));
  const missing: Json[] = [];
  for (const { file, ...token } of others) {
    const { id, content } = token;
    const [name, place] = [contents.get(id) ?? content, ids.get(content) ?? id];
    if (name !== content || place !== id) {
      throw new CheckpointError(
        `${file}: token ${id} is '${content}', but ${source} has ${name === content ? `'${content}' at ${place}` : `'${name}' there`}; ` +
          'take all files of one checkpoint',
      );
    }
    if (contents.has(id)) continue;
    contents.set(id, content);
    ids.set(content, id);
    missing.push(addedToken(token));
  }
  if (missing.length === 0) return json;
  const all = [...listed, ...missing] as readonly { readonly id?: number }[];
  return { ...json, added_tokens: all.toSorted((a, b) => (a.id ?? 0) - (b.id ?? 0)) };
}

/**
 * Reads the tokenizer of a checkpoint directory.
 * @throws CheckpointError when there is none, or its files are damaged or disagree
 */
export function readTokenizer(directory: string): TokenizerFiles {
  const at = (name: string): string => join(directory, name);
  const config = existsSync(at('tokenizer_config.json')) ? readObject(at('tokenizer_config.json')) : {};
  const older = !existsSync(at('tokenizer.json')) && existsSync(at('vocab.json'));
  const file = at(older ? 'vocab.json' : 'tokenizer.json');
  if (older && !existsSync(at('merges.txt'))) {
    throw new CheckpointError(
      `${at('merges.txt')}: no such file; vocab.json needs it where there is no tokenizer.json`,
    );
  }
  const json = older ? fromMerges(file, at('merges.txt')) : readObject(file);
  return { json: withAdded(json, otherAdded(directory, config), file), config, file };
}

/** GPT-2's printable alphabet: byte → character. */
function byteAlphabet(): string[] {
  const printable = (b: number): boolean => (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
  let next = 256;
  return Array.from({ length: 256 }, (_, b) => String.fromCharCode(printable(b) ? b : next++));
}

const BYTES: ReadonlyMap<string, number> = new Map(
  byteAlphabet().map((character, byte) => [character, byte]),
);

/** The byte that a character of a byte-level vocabulary stands for; 0 for any other. */
function byteOf(character: string): number {
  return BYTES.get(character) ?? 0;
}

/**
 * Decodes ids one at a time to what `Tokenizer.decode` makes of all of them together, special tokens left out. A
 * character whose bytes are spread over several tokens comes with the last of them.
 */
export class TextStreamer {
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

  /** Flushes the remainder: U+FFFD for bytes that never became a character. */
  end(): string {
    return this.#decoder.decode();
  }
}

/** Roles that the chat template writes after `<|im_start|>`. */
const ROLES = ['system\n', 'user\n', 'assistant\n'];

/** Splits as the `Split` pre-tokenizer with behaviour `isolated`: matches and what lies between them. */
function preTokenize(text: string, pattern: RegExp): string[] {
  const out: string[] = [];
  let end = 0;
  for (const match of text.matchAll(pattern)) {
    if (match.index > end) out.push(text.slice(end, match.index));
    out.push(match[0]);
    end = match.index + match[0].length;
  }
  if (end < text.length) out.push(text.slice(end));
  return out;
}

interface Word {
  symbols: string[];
  readonly count: number;
}

/** The most frequent adjacent pair, ties by spelling; undefined when none occurs twice. */
function bestPair(words: readonly Word[]): readonly [string, string] | undefined {
  const counts = new Map<string, number>();
  for (const { symbols, count } of words) {
    for (let i = 0; i + 1 < symbols.length; i++) {
      const pair = `${symbols[i]} ${symbols[i + 1]}`;
      counts.set(pair, (counts.get(pair) ?? 0) + count);
    }
  }
  let best: string | undefined;
  let most = 1;
  for (const [pair, count] of counts) {
    if (count > most || (count === most && best !== undefined && pair < best)) {
      best = pair;
      most = count;
    }
  }
  if (best === undefined) return undefined;
  const [left, right] = best.split(' ');
  return [left!, right!];
}

/** Replaces each occurrence of the pair by one symbol. */
function mergePair([left, right]: readonly [string, string], symbols: readonly string[]): string[] {
  const out: string[] = [];
  for (let i = 0; i < symbols.length; i++) {
    if (symbols[i] === left && symbols[i + 1] === right) {
      out.push(left + right);
      i++;
    } else {
      out.push(symbols[i]!);
    }
  }
  return out;
}

/** Share of the room above the bytes that whole pieces may take; merges get the rest. */
const WHOLE_SHARE = 0.7;

/**
 * Trains a small byte-level BPE on `corpus`: a `tokenizer.json` object of at most `vocabulary` tokens (at least 300), special ones
 * included. Tags, digits and scan symbols stand alone; every other run of text, spaces included, is one piece. The pieces that save the
 * most become whole tokens (`ignore_merges`, as Llama 3's tokenizer has it), so that a phrase of the trace is one token. Merges learned
 * from the same corpus and the 256 bytes cover other text. Independent of the corpus' order. Special tokens in the corpus, as in rendered prompts, only separate its text.
 */
export function trainBpe(
  corpus: Iterable<string>,
  { vocabulary: most = 400 }: { readonly vocabulary?: number } = {},
): Record<string, unknown> {
  const room = most - 256 - SPECIAL_TOKENS.length;
  const pattern = new RegExp(NANO_PATTERN, 'gu');
  const special = /<\|[a-z_]+\|>/u;
  const alphabet = byteAlphabet();
  const spell = (text: string): string =>
    Array.from(Buffer.from(text, 'utf8'), (byte) => alphabet[byte]!).join('');
  const counts = new Map<string, number>();
  for (const text of corpus) {
    for (const word of text.split(special).flatMap((part) => preTokenize(part, pattern))) {
      const spelling = spell(word);
      counts.set(spelling, (counts.get(spelling) ?? 0) + 1);
    }
  }
  const ranked = [...counts]
    .filter(([word, count]) => word.length > 1 && count > 1)
    .map(([word, count]) => ({ word, count, saved: count * (word.length - 1) }))
    .sort((a, b) => b.saved - a.saved || (a.word < b.word ? -1 : 1));
  const spelled = ROLES.map((role) => spell(role));
  const chosen = ranked.slice(0, Math.floor(room * WHOLE_SHARE)).map(({ word }) => word);
  const whole = [...spelled, ...chosen.filter((word) => !spelled.includes(word))];
  const vocabulary = new Map<string, number>();
  // Bytes in the order of the alphabet's code points, as the reference trainer sorts them.
  for (const token of [...alphabet].sort()) vocabulary.set(token, vocabulary.size);
  for (const token of whole) vocabulary.set(token, vocabulary.size);
  let words: Word[] = [...counts]
    .filter(([word]) => word.length > 1)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([word, count]) => ({ symbols: [...word], count }));
  const merges: [string, string][] = [];
  while (vocabulary.size < 256 + room) {
    const pair = bestPair(words);
    if (pair === undefined) break;
    merges.push([pair[0], pair[1]]);
    const merged = pair[0] + pair[1];
    if (!vocabulary.has(merged)) vocabulary.set(merged, vocabulary.size);
    words = words.map(({ symbols, count }) => ({ symbols: mergePair(pair, symbols), count }));
  }
  const first = vocabulary.size;
  return bpeJson({
    added: SPECIAL_TOKENS.map((content, i) => addedToken({ id: first + i, content })),
    pattern: NANO_PATTERN,
    ignoreMerges: true,
    vocab: Object.fromEntries(vocabulary),
    merges,
  });
}

/** The `tokenizer_config.json` that goes with it. */
export const BPE_CONFIG = {
  tokenizer_class: 'PreTrainedTokenizerFast',
  eos_token: '<|im_end|>',
  pad_token: '<|endoftext|>',
  clean_up_tokenization_spaces: false,
} as const;
