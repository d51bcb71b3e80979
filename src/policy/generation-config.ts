/** How a checkpoint wants to be sampled: its `generation_config.json`. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { CheckpointError } from '../errors.ts';
import { readJson } from './json-file.ts';

export const GENERATION_CONFIG_FILE = 'generation_config.json';

export interface GenerationConfig {
  /** Tokens that end a response, in the file's order, without repeats; empty when the file names none. */
  readonly stops: readonly number[];
  /** Padding token, or null. */
  readonly pad: number | null;
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

type Json = Readonly<Record<string, unknown>>;

const isWhole = (value: unknown): value is number => Number.isSafeInteger(value);

/**
 * The sampling that a parsed `generation_config.json` asks for. Keys that are not listed above are left alone; null
 * counts as absent. An absent `top_k` restricts nothing, as in vLLM (transformers takes 50 when it samples).
 * @throws CheckpointError naming the key, what it must be and what it is
 */
export function parseGenerationConfig(value: unknown, file = GENERATION_CONFIG_FILE): GenerationConfig {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new CheckpointError(`${file}: must hold a JSON object; the file may be damaged, copy it again`);
  }
  const json = value as Json;
  const read = <T>(key: string, expected: string, ok: (found: unknown) => found is T, fallback: T): T => {
    const found = json[key];
    if (found === undefined || found === null) return fallback;
    if (ok(found)) return found;
    throw new CheckpointError(
      `${file}: '${key}' must be ${expected}, got ${JSON.stringify(found)}; correct it, or remove the key`,
    );
  };
  const number = (key: string, expected: string, ok: (x: number) => boolean, fallback: number): number =>
    read(
      key,
      expected,
      (found): found is number => typeof found === 'number' && Number.isFinite(found) && ok(found),
      fallback,
    );
  const isId = (found: unknown): found is number => isWhole(found) && found >= 0;
  const isList = (found: unknown): found is readonly number[] => Array.isArray(found) && found.every(isId);
  const isIds = (found: unknown): found is number | readonly number[] => isId(found) || isList(found);
  const ends = read<number | readonly number[]>(
    'eos_token_id',
    'a token id or a list of token ids',
    isIds,
    [],
  );
  const sampled = read(
    'do_sample',
    'true or false',
    (found): found is boolean => typeof found === 'boolean',
    false,
  );
  const temperature = number('temperature', 'a number of at least 0', (x) => x >= 0, 1);
  const topK = number('top_k', 'a whole number of at least 0', (x) => isWhole(x) && x >= 0, 0);
  return {
    stops: [...new Set(typeof ends === 'number' ? [ends] : ends)],
    pad: read<number | null>('pad_token_id', 'a token id', isId, null),
    temperature: sampled ? temperature : 0,
    topP: number('top_p', 'a number above 0 and at most 1', (x) => x > 0 && x <= 1, 1),
    topK: topK === 0 ? null : topK,
    suppress: read<readonly number[]>('suppress_tokens', 'a list of token ids', isList, []),
    repetitionPenalty: number('repetition_penalty', 'a number above 0', (x) => x > 0, 1),
    maxTokens: read<number | null>(
      'max_new_tokens',
      'a whole number of at least 1',
      (found): found is number => isWhole(found) && found >= 1,
      null,
    ),
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
