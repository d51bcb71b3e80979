/** Tokens that a small policy lacks: names of classes that it would spell letter by letter get one each. */
import { join } from 'node:path';
import { writeJson } from '../ground/files.ts';
import { isObject } from '../ground/json-record.ts';
import { asFloat32, pieces } from '../onnx/weights.ts';
import { type Json, readJson } from '../policy/json-file.ts';
import { openCheckpoint, writeCheckpoint } from '../policy/safetensors.ts';
import { addedToken, readTokenizer, Tokenizer } from '../policy/tokenizer.ts';

/** Names spelled with fewer tokens stay as they are: words that the policy knows. */
const LEAST = 3;
/** Names with a word, of characters that every tokenizer library gives back as they were added. Numbers and signs occur in other text. */
const PLAIN = /^(?=.*[A-Za-z]{3})[ -~]+$/;

const EMBEDDINGS = /(?:^|\.)(?:embed_tokens|lm_head)\.weight$/;

/**
 * Adds tokens to the checkpoint in `directory`, in place: one for each of `names` that its tokenizer spells with three or more, unless it is
 * part of a token that is there, such as `class` of `<class>`: an added token is cut out of every text. Its row in the embedding, and in a
 * head that is not the embedding, is the mean of the rows that spelled the name. Weights become float32.
 * @returns the names that got a token
 * @throws CheckpointError where the files are damaged or disagree
 */
export function addTokens(directory: string, names: readonly string[]): readonly string[] {
  const { json, config, file } = readTokenizer(directory);
  const tokenizer = new Tokenizer(json, config, file);
  const known = Array.from({ length: tokenizer.size }, (_, id) =>
    tokenizer.decode([id], { skipSpecial: false }),
  );
  const spelled = [...new Set(names)]
    .map((name) => ({ name, ids: tokenizer.encode(name) }))
    .filter(({ name, ids }) => ids.length >= LEAST && PLAIN.test(name) && name.trim() === name)
    .filter(({ name }) => tokenizer.specialIn(name) === null && !known.some((text) => text.includes(name)));
  if (spelled.length === 0) return [];

  const tokens = spelled.map(({ name }, i) =>
    addedToken({ id: tokenizer.size + i, content: name, special: false }),
  );
  const added = [...((json['added_tokens'] ?? []) as readonly Json[]), ...tokens];
  writeJson(join(directory, 'tokenizer.json'), { ...json, added_tokens: added });

  const model = readJson(join(directory, 'config.json')) as Json;
  const rows = tokenizer.size + spelled.length;
  const text = model['text_config'];
  const sized = isObject(text)
    ? { ...model, text_config: { ...text, vocab_size: rows } }
    : { ...model, vocab_size: rows };
  writeJson(join(directory, 'config.json'), sized);

  const tensors = [...openCheckpoint(directory)].map(([name, stored]) => {
    if (!EMBEDDINGS.test(name)) {
      return {
        name,
        shape: stored.shape,
        dtype: 'F32',
        bytes: asFloat32(stored, stored.shape).bytes,
      } as const;
    }
    const width = stored.shape[1]!;
    const values = new Float32Array(rows * width); // [V + n, D]
    let at = 0;
    for (const piece of pieces(stored, width)) {
      const kept = piece.subarray(0, Math.max(0, tokenizer.size * width - at));
      values.set(kept, at);
      at += kept.length;
    }
    for (const [i, { ids }] of spelled.entries()) {
      const row = values.subarray((tokenizer.size + i) * width, (tokenizer.size + i + 1) * width);
      for (const id of ids) {
        for (let d = 0; d < width; d++) row[d]! += values[id * width + d]! / ids.length;
      }
    }
    return {
      name,
      shape: [rows, width],
      dtype: 'F32',
      bytes: () => [new Uint8Array(values.buffer)],
    } as const;
  });
  writeCheckpoint(directory, tensors);
  return spelled.map(({ name }) => name);
}
