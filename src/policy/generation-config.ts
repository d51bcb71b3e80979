/** Sampling defaults of a checkpoint, from its `generation_config.json`. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { asObject, isCount, Keys, readJson } from './json-file.ts';

export const GENERATION_CONFIG_FILE = 'generation_config.json';

export interface GenerationConfig {
  /** Tokens that end a response, in the file's order, without repeats; empty when the file names none. */
  readonly stops: readonly number[];
  /** ≥ 0; 0 is greedy, as when `do_sample` is false or absent. */
  readonly temperature: number;
  /** In (0, 1]; 1 keeps all. */
  readonly topP: number;
  /** ≥ 1, or null: all tokens. */
  readonly topK: number | null;
  /** > 0; 1 does nothing. Divides positive logits of tokens that the prompt or response holds, multiplies negative ones. */
  readonly repetitionPenalty: number;
  /** Tokens that must not be sampled, stop tokens among them or not; empty when the file names none. */
  readonly suppress: readonly number[];
  /** Longest response in tokens, or null when the file does not say. */
  readonly maxTokens: number | null;
}

/**
 * The sampling that a parsed `generation_config.json` asks for. Keys that are not listed above are left alone; null
 * counts as absent. An absent `top_k` restricts nothing, as in vLLM (transformers takes 50 when it samples).
 * @throws CheckpointError naming the key, what it must be and what it is
 */
export function parseGenerationConfig(value: unknown, file = GENERATION_CONFIG_FILE): GenerationConfig {
  const keys = new Keys(file, [asObject(value, file)]);
  const ends = [keys.get('eos_token_id') ?? []].flat();
  keys.demand(ends.every(isCount), 'eos_token_id', 'a token id or a list of token ids');
  const temperature = keys.number('temperature', 1, 'a number of at least 0', (x) => x >= 0);
  return {
    stops: [...new Set(ends as number[])],
    temperature: keys.flag('do_sample', false) ? temperature : 0,
    topP: keys.number('top_p', 1, 'a number above 0 and at most 1', (x) => x > 0 && x <= 1),
    topK: keys.count('top_k', 0) || null,
    suppress: keys.list('suppress_tokens', [], 'a list of token ids', isCount),
    repetitionPenalty: keys.number('repetition_penalty', 1, 'a number above 0', (x) => x > 0),
    maxTokens: keys.get('max_new_tokens') === undefined ? null : keys.integer('max_new_tokens', 1),
  };
}

/**
 * The `generation_config.json` of a checkpoint directory; greedy, with no stops of its own, where there is none.
 * @throws CheckpointError when the file is damaged or one of its values makes no sense
 */
export function readGenerationConfig(directory: string): GenerationConfig {
  const file = join(directory, GENERATION_CONFIG_FILE);
  return parseGenerationConfig(existsSync(file) ? readJson(file) : {}, file);
}
