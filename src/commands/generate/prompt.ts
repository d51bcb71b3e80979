/** A user's question and pictures as the prompt of a policy. */
import { text as readAll } from 'node:stream/consumers';
import { ConfigError, DataError } from '../../errors.ts';
import type { EncodedPrompt } from '../../policy/batch.ts';
import type { Message } from '../../policy/chat.ts';
import type { Prompting } from '../../policy/policy.ts';
import type { Picture } from '../../types.ts';

/** Tokens of an answer where nobody says how many. */
const MAX_TOKENS = 512;

/** What is asked; a picture with the name of its file. */
export interface Question {
  readonly prompt: string;
  readonly system: string | undefined;
  readonly pictures: readonly { readonly file: string; readonly picture: Picture }[];
}

/** The user's words, from the command line or standard input; a line's end that a shell or editor adds is left out. */
export async function readPrompt(prompt: string): Promise<string> {
  const text = prompt === '-' ? (await readAll(process.stdin)).replace(/\r?\n$/, '') : prompt;
  if (text.trim() === '') {
    throw new ConfigError(`--prompt: ${prompt === '-' ? 'standard input was empty' : 'the text is empty'}`);
  }
  return text;
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

function messagesOf(images: number, prompt: string, system: string | undefined): Message[] {
  const pictures = Array.from({ length: images }, () => ({ type: 'image' as const }));
  return [
    ...(system === undefined ? [] : [{ role: 'system' as const, content: system }]),
    { role: 'user', content: [...pictures, { type: 'text', text: prompt }] },
  ];
}

/** @throws DataError naming a picture that cannot be shown, or when the prompt is too long */
export function encode(policy: Prompting, { prompt, system, pictures }: Question): EncodedPrompt {
  checkPlain(policy, 'prompt', prompt);
  if (system !== undefined) checkPlain(policy, 'system', system);
  for (const { file, picture } of pictures) {
    try {
      policy.processor.size(picture.width, picture.height);
    } catch (cause) {
      throw cause instanceof DataError ? new DataError(cause.message, { file, cause }) : cause;
    }
  }
  const text = policy.chat.render(messagesOf(pictures.length, prompt, system));
  return policy.encodePrompt(
    text,
    pictures.map(({ picture }) => picture),
  );
}

/**
 * Tokens that an answer may have: what the user asks for, else the checkpoint's number as far as the context reaches.
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
  return asked ?? Math.min(usual ?? MAX_TOKENS, room);
}
