/** Messages to prompt text through the checkpoint's own Jinja chat template. */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Template } from '@huggingface/jinja';
import { CheckpointError } from '../ground/errors.ts';
import { type Limits, Stopped } from '../ground/worker-thread.ts';
import { Guarded } from './guard.ts';
import { readJson, readText } from './json-file.ts';

export type Content =
  | string
  | readonly ({ readonly type: 'text'; readonly text: string } | { readonly type: 'image' })[];
export interface Message {
  readonly role: 'system' | 'user' | 'assistant';
  readonly content: Content;
}

/** Qwen2.5-VL's template for text and images, without the system message it adds by default. */
export const DEFAULT_TEMPLATE =
  "{% for message in messages %}<|im_start|>{{ message['role'] }}\n" +
  "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for content in message['content'] %}" +
  "{% if content['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>" +
  "{% elif 'text' in content %}{{ content['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n" +
  '{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}';

export const IMAGE_PLACEHOLDER = '<|image_pad|>';

/** Characters that a template may add to messages: its system message and more. */
const MOST_ADDED = 1e6;

/** SHA-256 of templates whose loops end with the messages: the default, and that of the published checkpoints. */
const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');
const KNOWN: ReadonlySet<string> = new Set([
  sha256(DEFAULT_TEMPLATE),
  'a0bc6f6fc7a29a80017a433e8f03a1cc1236e838a944a2d034295a60c4f2fddb',
]);

export class Chat {
  /** The template's source, as it is saved again. */
  readonly source: string;
  readonly #render: (messages: readonly Message[]) => string;
  readonly #file: string;

  /**
   * Unknown templates are programs of the checkpoint, rendered within `limits`. @throws CheckpointError for
   * invalid Jinja
   */
  constructor(source: string = DEFAULT_TEMPLATE, file = 'chat_template.jinja', limits?: Limits) {
    this.source = source;
    this.#file = file;
    try {
      const template = new Template(source);
      const guarded = new Guarded({ kind: 'template', source }, limits);
      this.#render = KNOWN.has(sha256(source.trimEnd()))
        ? (messages) => template.render({ messages, add_generation_prompt: true })
        : (messages) => guarded.run({ render: messages }) as string;
    } catch (cause) {
      throw new CheckpointError(`${file}: the chat template does not parse (${(cause as Error).message})`, {
        cause,
      });
    }
  }

  /** The template of a checkpoint: its own file, the older json file or key, or else the default. */
  static load(directory: string): Chat {
    const jinja = join(directory, 'chat_template.jinja');
    if (existsSync(jinja)) return new Chat(readText(jinja), jinja);
    for (const name of ['chat_template.json', 'tokenizer_config.json']) {
      const file = join(directory, name);
      const template = existsSync(file)
        ? (readJson(file) as { chat_template?: unknown }).chat_template
        : undefined;
      if (typeof template === 'string') return new Chat(template, file);
    }
    return new Chat();
  }

  /**
   * Renders a prompt up to the assistant's turn, one placeholder per image.
   * @throws CheckpointError when the template refuses the messages, does not end, or does not place their
   * images
   */
  render(messages: readonly Message[]): string {
    const fail = (problem: string, cause?: unknown): CheckpointError =>
      new CheckpointError(
        `${this.#file}: the chat template ${problem}; use that of a Qwen2.5-VL checkpoint`,
        { cause },
      );
    let text: string;
    try {
      text = this.#render(messages);
    } catch (cause) {
      if (cause instanceof Stopped) throw fail(`was stopped: ${cause.message}`, cause);
      throw fail(`does not take these messages (${(cause as Error).message})`, cause);
    }
    const given = messages.reduce((sum, message) => sum + JSON.stringify(message).length, 0);
    if (text.length > MOST_ADDED + 4 * given) {
      throw fail(`makes ${text.length} characters of messages of ${given}`);
    }
    if (text.trim() === '') throw fail('makes an empty prompt of these messages');
    const parts = messages.flatMap(({ content }) => (typeof content === 'string' ? [] : content));
    const images = parts.filter(({ type }) => type === 'image').length;
    if (images > 0 && !text.includes(IMAGE_PLACEHOLDER)) {
      throw fail(`has no place (${IMAGE_PLACEHOLDER}) for images`);
    }
    return text;
  }
}

/**
 * Repeats each image placeholder once per visual token. @throws CheckpointError unless there is one per image
 */
export function expandImages(text: string, visualTokens: readonly number[]): string {
  const between = text.split(IMAGE_PLACEHOLDER);
  if (between.length !== visualTokens.length + 1) {
    throw new CheckpointError(
      `the prompt has ${between.length - 1} image placeholders (${IMAGE_PLACEHOLDER}) for ${visualTokens.length} images; ` +
        'give one placeholder per image, and do not write the placeholder in the text',
    );
  }
  return between
    .map((part, i) => part + (i < visualTokens.length ? IMAGE_PLACEHOLDER.repeat(visualTokens[i]!) : ''))
    .join('');
}
