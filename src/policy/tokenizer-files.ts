/**
 * A checkpoint's tokenizer from the files it has: `tokenizer.json`, or the `vocab.json` and `merges.txt` of older ones;
 * added tokens also from `tokenizer_config.json` and `added_tokens.json`, where fine-tunes leave theirs.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { CheckpointError } from '../errors.ts';
import { readJson, readText } from './json-file.ts';

type Json = Readonly<Record<string, unknown>>;

export interface TokenizerFiles {
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

/** Where Qwen's tokenizers split text before merging. */
export const PIECES =
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function readObject(file: string): Json {
  const json = readJson(file);
  if (isObject(json)) return json;
  throw new CheckpointError(`${file}: must hold a JSON object; the file may be damaged, copy it again`);
}

const isAdded = (value: unknown): value is Json & Added =>
  isObject(value) && typeof value['content'] === 'string' && Number.isSafeInteger(value['id']);

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
  const bytes = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: false, use_regex: false };
  const split = { type: 'Split', pattern: { Regex: PIECES }, behavior: 'Isolated', invert: false };
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: [],
    normalizer: { type: 'NFC' },
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
      ignore_merges: false,
      vocab: readObject(vocabFile),
      merges,
    },
  };
}

/** Tokens of `tokenizer_config.json` and `added_tokens.json`, by the file that names them. */
function otherAdded(directory: string, config: Json): (Added & { readonly file: string })[] {
  const out: (Added & { readonly file: string })[] = [];
  const held = config['added_tokens_decoder'];
  if (isObject(held)) {
    const file = join(directory, 'tokenizer_config.json');
    for (const [id, value] of Object.entries(held)) {
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
    missing.push({
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: false,
      special: true,
      ...token,
    });
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
