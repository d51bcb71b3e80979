/** Prompts in a policy's own tokens: the words of users checked, messages rendered, room for the response found. */
import { join } from 'node:path';
import { CheckpointError, ConfigError, DataError } from '../ground/errors.ts';
import type { Picture } from '../ground/types.ts';
import type { EncodedPrompt } from '../policy/batch.ts';
import type { Message } from '../policy/chat.ts';
import { GENERATION_CONFIG_FILE, type GenerationConfig } from '../policy/model-config.ts';
import type { Prompting } from '../policy/policy.ts';
import { PromptEncoder } from '../train/task.ts';
import type { Prompt } from './answerer.ts';

/** Tokens of a response where neither user nor checkpoint say how many. */
const DEFAULT_MAX_TOKENS = 512;

export class PromptReader {
  readonly #policy: Prompting;
  readonly #encoder: PromptEncoder;

  constructor(policy: Prompting) {
    this.#policy = policy;
    this.#encoder = new PromptEncoder(policy);
  }

  /** Tokens of a prompt: its system message, shots, pictures and text, in that order. */
  encode({ system, shots, pictures, text }: Prompt): EncodedPrompt {
    if (system === undefined && pictures.length < 2) {
      return this.#encoder.encode(pictures[0] ?? null, text, shots);
    }
    const turn = (count: number, words: string): Message => ({
      role: 'user',
      content: [
        ...Array.from({ length: count }, () => ({ type: 'image' as const })),
        { type: 'text', text: words },
      ],
    });
    const messages: Message[] = [
      ...(system === undefined ? [] : [{ role: 'system' as const, content: system }]),
      ...shots.flatMap((shot): Message[] => [
        turn(shot.picture === null ? 0 : 1, shot.instruction),
        { role: 'assistant', content: shot.response },
      ]),
      turn(pictures.length, text),
    ];
    const all = [...shots.flatMap(({ picture }) => picture ?? []), ...pictures];
    return this.#policy.encodePrompt(this.#policy.chat.render(messages), all);
  }
}

/** Words of a user, and pictures with the names of their files. */
export interface UserPrompt {
  readonly prompt: string;
  readonly system: string | undefined;
  readonly pictures: readonly { readonly file: string; readonly picture: Picture }[];
}

/** @throws ConfigError when a text holds a special token, which the tokenizer would take for the prompt's structure */
function checkPlain(policy: Prompting, option: string, text: string): void {
  const token = policy.tokenizer.specialIn(text);
  if (token === null) return;
  throw new ConfigError(
    `--${option}: holds ${token}, which is not text to this policy but a part of its prompts' structure; ` +
      'write it another way, with a space inside, say',
  );
}

/**
 * Checks the words and pictures of a user against a policy.
 * @throws ConfigError for a special token in a text; DataError naming a picture that cannot be shown
 */
export function promptOf(policy: Prompting, { prompt, system, pictures }: UserPrompt): Prompt {
  checkPlain(policy, 'prompt', prompt);
  if (system !== undefined) checkPlain(policy, 'system', system);
  for (const { file, picture } of pictures) {
    try {
      policy.processor.size(picture.width, picture.height);
    } catch (cause) {
      throw cause instanceof DataError ? new DataError(cause.message, { file, cause }) : cause;
    }
  }
  return {
    ...(system === undefined ? {} : { system }),
    shots: [],
    pictures: pictures.map(({ picture }) => picture),
    text: prompt,
  };
}

/** Tokens of what a user asks. @throws as `promptOf`; DataError when the prompt is too long */
export const encodeUserPrompt = (policy: Prompting, prompt: UserPrompt): EncodedPrompt =>
  new PromptReader(policy).encode(promptOf(policy, prompt));

/** @throws CheckpointError for an end token or a suppressed one that the policy cannot say */
export function checkIds({ stops, suppress }: GenerationConfig, vocabulary: number, directory: string): void {
  for (const [key, ids] of [
    ['eos_token_id', stops],
    ['suppress_tokens', suppress],
  ] as const) {
    const beyond = ids.find((id) => id >= vocabulary);
    if (beyond === undefined) continue;
    throw new CheckpointError(
      `${join(directory, GENERATION_CONFIG_FILE)}: '${key}' ${beyond} is beyond config.json's vocab_size, ${vocabulary}; ` +
        'take both files from one checkpoint',
    );
  }
}

/**
 * Returns the tokens that a response may have: as many as the user asks for, else the checkpoint's number as far as the context reaches.
 * @throws DataError when there is no room behind the prompt; ConfigError when the user asks for more than there is
 */
export function roomFor(
  policy: Prompting,
  length: number,
  asked: number | undefined,
  usual: number | null,
): number {
  const { maxPositions } = policy.dims;
  const room = maxPositions - length;
  const context = `the prompt has ${length} tokens, and the checkpoint's context ends at ${maxPositions}`;
  if (room < 1) throw new DataError(`there is no room for an answer: ${context}`);
  if (asked !== undefined && asked > room)
    throw new ConfigError(`--max-tokens ${asked}: there is room for ${room}: ${context}`);
  return asked ?? Math.min(usual ?? DEFAULT_MAX_TOKENS, room);
}
