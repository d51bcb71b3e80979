/** Body of POST /v1/chat/completions: checked, and encoded for the policy. */
import { z } from 'zod';
import { roomFor } from '../answer/prompt.ts';
import { DataError } from '../ground/errors.ts';
import { isObject } from '../ground/json-record.ts';
import type { Picture } from '../ground/types.ts';
import { decodeImage, imageSize } from '../plot/image-file.ts';
import type { EncodedPrompt } from '../policy/batch.ts';
import type { Message } from '../policy/chat.ts';
import type { GenerationConfig } from '../policy/model-config.ts';
import type { Prompting } from '../policy/policy.ts';
import { type Fields, invalid, parseBody, type Refused, shown, wrong } from './request.ts';

export interface ChatLimits {
  /** Maximum tokens of a prompt, those of its pictures included. */
  readonly promptTokens: number;
  /** Maximum pixels of all pictures of a prompt together, before resizing. */
  readonly pixels: number;
  /** Maximum number of answers to one prompt. */
  readonly samples: number;
}

/** Generation that one request asks for. */
export interface Completion {
  readonly prompt: EncodedPrompt;
  readonly samples: number;
  readonly temperature: number;
  readonly topP: number;
  readonly maxTokens: number;
  /** Null: any seed. */
  readonly seed: number | null;
  /** Stop texts: the answer ends before them. */
  readonly stop: readonly string[];
}

export interface ChatRequest {
  readonly completion: Completion;
  readonly stream: boolean;
  /** True: the stream ends with the token counts. */
  readonly usage: boolean;
}

const MOST_STOPS = 4;
const LONGEST_STOP = 1000;
/** Characters of messages per token of the longest prompt; more are refused without being encoded. */
const CHARACTERS_PER_TOKEN = 16;

/** Unsupported parameters with the values that change nothing, which are accepted as null is. */
const NEUTRAL: Readonly<Record<string, (value: unknown) => boolean>> = {
  frequency_penalty: (value) => value === 0,
  presence_penalty: (value) => value === 0,
  logprobs: (value) => value === false,
  logit_bias: (value) => isObject(value) && Object.keys(value).length === 0,
  response_format: (value) => isObject(value) && value['type'] === 'text',
  modalities: (value) => Array.isArray(value) && value.length === 1 && value[0] === 'text',
  tools: (value) => Array.isArray(value) && value.length === 0,
  store: (value) => value === false,
  user: (value) => typeof value === 'string',
};
const COUNT = z.int().min(1).nullish();
/** Fields of a body; null as good as absent. Messages are checked part by part. */
export const CHAT = z.object({
  model: z.string(),
  messages: z
    .array(
      z.object({
        role: z.enum(['system', 'developer', 'user', 'assistant']),
        content: z.union([z.string(), z.array(z.looseObject({ type: z.enum(['text', 'image_url']) }))]),
      }),
    )
    .min(1),
  temperature: z.number().min(0).max(2).nullish(),
  top_p: z.number().gt(0).max(1).nullish(),
  ...{ max_tokens: COUNT, max_completion_tokens: COUNT, n: COUNT },
  stop: z.union([z.string(), z.array(z.string()).max(MOST_STOPS)]).nullish(),
  seed: z.int().nullish(),
  stream: z.boolean().nullish(),
  stream_options: z.object({ include_usage: z.boolean().nullish() }).nullish(),
});
const KNOWN = Object.keys(CHAT.shape);

/** @throws Refused naming the first field that is not supported */
function checkFields(fields: Fields, known: readonly string[], at: string): void {
  for (const [name, value] of Object.entries(fields)) {
    if (known.includes(name) || value === null) continue;
    const empty = at !== '' && Array.isArray(value) && value.length === 0;
    const neutral = at === '' && Object.hasOwn(NEUTRAL, name) && NEUTRAL[name]!(value);
    if (empty || neutral) continue;
    const param = `${at}${name.slice(0, 100)}`;
    throw wrong(param, 'is not supported; leave it out', 'unsupported_parameter');
  }
}

function numberOf(
  fields: Fields,
  name: string,
  schema: z.ZodType<number | null | undefined>,
  expected: string,
): number | undefined {
  const value = fields[name];
  const { success, data } = schema.safeParse(value);
  if (success) return data ?? undefined;
  throw wrong(name, `expected ${expected}, got ${shown(value)}`);
}

function countOf(fields: Fields, name: string, most: number): number | undefined {
  const end = most === Number.MAX_SAFE_INTEGER ? 'of at least 1' : `from 1 to ${most}`;
  return numberOf(fields, name, z.int().min(1).max(most).nullish(), `a whole number ${end}`);
}

function flagOf(fields: Fields, name: string, param = name): boolean {
  const value = fields[name] ?? false;
  if (typeof value === 'boolean') return value;
  throw wrong(param, `expected true or false, got ${shown(value)}`);
}

function stopsOf({ stop }: Fields): string[] {
  if (stop === undefined || stop === null) return [];
  const list: unknown[] = Array.isArray(stop) ? stop : [stop];
  const ok = list.every((text) => typeof text === 'string' && text !== '' && text.length <= LONGEST_STOP);
  if (ok && list.length <= MOST_STOPS) return list as string[];
  throw wrong(
    'stop',
    `expected a text or up to ${MOST_STOPS} of them, each of 1 to ${LONGEST_STOP} characters`,
  );
}

const DATA_URI = /^data:image\/[\w.+-]+;base64,/i;
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;

/** Decodes the data URI of a picture. @throws Refused for any other address: nothing is fetched, and no file is read */
function pictureBytes(part: Fields, param: string): Buffer {
  const { image_url: image } = part;
  if (!isObject(image) || typeof image['url'] !== 'string') {
    throw wrong(`${param}.image_url`, `expected an object with a url, got ${shown(image)}`);
  }
  checkFields(image, ['url', 'detail'], `${param}.image_url.`);
  if (!['auto', 'high', undefined, null].includes(image['detail'] as string | null | undefined)) {
    throw wrong(
      `${param}.image_url.detail`,
      'pictures are always shown in the detail that the checkpoint asks for; leave it out',
      'unsupported_value',
    );
  }
  const at = `${param}.image_url.url`;
  const head = DATA_URI.exec(image['url'].slice(0, 100));
  if (head === null) {
    throw wrong(
      at,
      'pictures are not fetched from anywhere; send the picture itself, as data:image/png;base64,…',
      'invalid_image_url',
    );
  }
  const base64 = image['url'].slice(head[0].length);
  if (base64 === '' || !BASE64.test(base64)) throw wrong(at, 'is not base64', 'invalid_base64_image');
  return Buffer.from(base64, 'base64');
}

/** Picture of a prompt, and the parameter that holds it. */
interface Shown {
  readonly bytes: Buffer;
  readonly param: string;
}

/** Reads messages for the chat template, and their pictures in order. */
function messagesOf({ messages }: Fields): { messages: Message[]; pictures: Shown[] } {
  if (!Array.isArray(messages) || messages.length === 0) {
    throw wrong('messages', `expected a list of at least one message, got ${shown(messages)}`);
  }
  const pictures: Shown[] = [];
  const read = messages.map((message: unknown, i): Message => {
    const at = `messages[${i}]`;
    if (!isObject(message)) throw wrong(at, `expected an object, got ${shown(message)}`);
    checkFields(message, ['role', 'content'], `${at}.`);
    const { content } = message;
    const role = message['role'] === 'developer' ? 'system' : message['role'];
    if (role !== 'system' && role !== 'user' && role !== 'assistant') {
      throw wrong(`${at}.role`, `expected system, user or assistant, got ${shown(role)}`);
    }
    if (typeof content === 'string') return { role, content };
    if (!Array.isArray(content) || content.length === 0) {
      throw wrong(`${at}.content`, `expected a text or a list of parts, got ${shown(content)}`);
    }
    const parts = content.map((part: unknown, j) => {
      const param = `${at}.content[${j}]`;
      if (!isObject(part)) throw wrong(param, `expected an object, got ${shown(part)}`);
      const { type, text } = part;
      if (type === 'text' && typeof text === 'string') {
        checkFields(part, ['type', 'text'], `${param}.`);
        return { type: 'text' as const, text };
      }
      if (type === 'image_url' && role === 'user') {
        checkFields(part, ['type', 'image_url'], `${param}.`);
        pictures.push({ bytes: pictureBytes(part, param), param: `${param}.image_url.url` });
        return { type: 'image' as const };
      }
      const expected = role === 'user' ? "'text' or 'image_url'" : "'text' (only users show pictures)";
      throw wrong(param, `expected a part of type ${expected}, got ${shown(type)}`);
    });
    return { role, content: parts };
  });
  return { messages: read, pictures };
}

/** @throws Refused for a text with a special token, which the tokenizer would take for the prompt's structure, and for too much text */
function checkTexts(messages: readonly Message[], prompting: Prompting, most: number): void {
  // Each message takes a token at least; empty ones have no characters to count.
  if (messages.length > most)
    throw wrong(
      'messages',
      `${messages.length}, and a prompt may have ${most} tokens`,
      'context_length_exceeded',
    );
  let characters = 0;
  for (const [i, { content }] of messages.entries()) {
    const texts =
      typeof content === 'string' ? [content] : content.map((part) => ('text' in part ? part.text : ''));
    for (const text of texts) {
      characters += text.length;
      if (characters > most * CHARACTERS_PER_TOKEN) {
        throw wrong(
          'messages',
          `more than ${most * CHARACTERS_PER_TOKEN} characters; a prompt may have ${most} tokens`,
          'context_length_exceeded',
        );
      }
      const token = prompting.tokenizer.specialIn(text);
      if (token === null) continue;
      const param = `messages[${i}].content`;
      throw wrong(
        param,
        `holds ${token}, which is not text to this policy but a part of its prompts' structure; write it another way`,
      );
    }
  }
}

/** Decodes pictures, all of them together within `limits.pixels`. */
async function decodeAll(
  pictures: readonly Shown[],
  prompting: Prompting,
  limits: ChatLimits,
): Promise<Picture[]> {
  const decoded: Picture[] = [];
  let [pixels, tokens] = [0, 0];
  for (const { bytes, param } of pictures) {
    const fail = (cause: unknown): Refused => wrong(param, (cause as DataError).message, 'invalid_image');
    try {
      const { width, height } = imageSize(bytes);
      pixels += width * height;
      if (pixels > limits.pixels) {
        throw wrong(
          param,
          `${pixels} pixels with the pictures before are more than ${limits.pixels}; send it smaller`,
          'image_too_large',
        );
      }
      tokens += prompting.processor.tokens(width, height);
      if (tokens > limits.promptTokens) throw tooLong(tokens, limits.promptTokens, 'in pictures alone');
      decoded.push(await decodeImage(bytes));
    } catch (cause) {
      throw cause instanceof DataError ? fail(cause) : cause;
    }
  }
  return decoded;
}

const tooLong = (tokens: number, most: number, where = 'in all'): Refused =>
  wrong(
    'messages',
    `the prompt has ${tokens} tokens ${where}; at most ${most} are taken`,
    'context_length_exceeded',
  );

/** Encodes the prompt for the policy. */
async function promptOf(fields: Fields, prompting: Prompting, limits: ChatLimits): Promise<EncodedPrompt> {
  const { messages, pictures } = messagesOf(fields);
  checkTexts(messages, prompting, limits.promptTokens);
  const decoded = await decodeAll(pictures, prompting, limits);
  let text: string;
  try {
    text = prompting.chat.render(messages);
  } catch {
    // The error of the template names a file of this machine, which clients must not see.
    throw invalid("messages: the checkpoint's chat template does not take them", 'messages');
  }
  let prompt: EncodedPrompt;
  try {
    prompt = prompting.encodePrompt(text, decoded);
  } catch (cause) {
    if (!(cause instanceof DataError)) throw cause;
    throw wrong('messages', cause.message, 'context_length_exceeded');
  }
  if (prompt.ids.length > limits.promptTokens) throw tooLong(prompt.ids.length, limits.promptTokens);
  return prompt;
}

/** Checks the name of the model. @throws Refused (404) for another than `model` */
function checkModel(asked: unknown, model: string): void {
  if (typeof asked !== 'string') throw wrong('model', `expected a text, got ${shown(asked)}`);
  if (asked !== model) {
    throw invalid(
      `the model '${asked.slice(0, 100)}' is not served here; use '${model}'`,
      'model',
      'model_not_found',
      404,
    );
  }
}

/**
 * Checks and encodes a request; sampling defaults come from the checkpoint's `generation_config.json`.
 * @throws Refused (400, 404) naming the parameter
 */
export async function readChatRequest(
  body: Uint8Array,
  model: string,
  prompting: Prompting,
  config: GenerationConfig,
  limits: ChatLimits,
): Promise<ChatRequest> {
  const fields = parseBody(body);
  checkModel(fields['model'], model);
  checkFields(fields, KNOWN, '');
  const temperature = numberOf(fields, 'temperature', CHAT.shape.temperature, 'a number from 0 to 2');
  const topP = numberOf(fields, 'top_p', CHAT.shape.top_p, 'a number above 0 and at most 1');
  const samples = countOf(fields, 'n', limits.samples) ?? 1;
  const seed = numberOf(fields, 'seed', CHAT.shape.seed, 'a whole number') ?? null;
  const most = ['max_completion_tokens', 'max_tokens'].map((name) =>
    countOf(fields, name, Number.MAX_SAFE_INTEGER),
  );
  if (most[0] !== undefined && most[1] !== undefined) {
    throw wrong('max_tokens', 'give it or max_completion_tokens, not both');
  }
  const stop = stopsOf(fields);
  const stream = flagOf(fields, 'stream');
  const options = fields['stream_options'] ?? {};
  if (!isObject(options) || (fields['stream_options'] != null && !stream)) {
    throw wrong('stream_options', 'expected an object, and only with stream');
  }
  checkFields(options, ['include_usage'], 'stream_options.');
  const usage = flagOf(options, 'include_usage', 'stream_options.include_usage');
  const prompt = await promptOf(fields, prompting, limits);
  const asked = most[0] ?? most[1];
  let maxTokens: number;
  try {
    maxTokens = roomFor(prompting, prompt.ids.length, asked, config.maxTokens);
  } catch (cause) {
    const param = asked === undefined ? 'messages' : 'max_tokens';
    const problem = (cause as Error).message.replace('--max-tokens', 'max_tokens');
    throw invalid(problem, param, 'context_length_exceeded');
  }
  return {
    completion: {
      ...{ prompt, samples, maxTokens, seed, stop },
      temperature: temperature ?? config.temperature,
      topP: topP ?? config.topP,
    },
    ...{ stream, usage },
  };
}
