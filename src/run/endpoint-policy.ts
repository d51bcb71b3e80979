/** Policies behind endpoints that speak OpenAI's protocol: asked one response at a time, many at once. */

import type { EvalPolicy, EvalPrompt } from '../../eval/policy.ts';
import {
  ChatError,
  type ChatMessage,
  type ChatPart,
  type EndpointOptions,
  openEndpoint,
  pngPart,
} from '../endpoint/chat.ts';
import { ConfigError } from '../ground/errors.ts';
import type { Picture } from '../ground/types.ts';
import { encodePngAside } from '../plot/png.ts';
import type { Shot } from '../train/task.ts';
import { answerOneByOne, asked } from './one-by-one.ts';
import { foreignCard } from './task.ts';

/** Where models without an address are asked. */
const OPENAI = 'https://api.openai.com/v1';

const PREFIX = 'openai:';
export const isEndpoint = (given: string): boolean => given.startsWith(PREFIX);

/**
 * `openai:MODEL@URL`; without an address that of OPENAI_BASE_URL, else OpenAI's own.
 * @throws ConfigError where no model is named
 */
export function parseEndpoint(given: string): { readonly model: string; readonly url: string } {
  const text = given.slice(PREFIX.length);
  const at = text.search(/@https?:\/\//);
  const model = (at < 0 ? text : text.slice(0, at)).trim();
  if (model === '' || /^https?:/.test(model)) {
    throw new ConfigError(
      `--policy ${given}: names no model; expected ${PREFIX}MODEL@URL, such as ${PREFIX}qwen2.5vl:7b@http://localhost:11434/v1`,
    );
  }
  return { model, url: at < 0 ? (process.env['OPENAI_BASE_URL'] ?? OPENAI) : text.slice(at + 1) };
}

/** Pictures as parts of messages; the samples of an example have one in common. */
const encoded = new WeakMap<Picture, Promise<ChatPart>>();

function picturePart(picture: Picture): Promise<ChatPart> {
  const part = encoded.get(picture) ?? encodePngAside(picture).then(pngPart);
  encoded.set(picture, part);
  return part;
}

/** A turn of the user: the picture, then the instruction. */
async function userTurn({ picture, instruction }: Omit<Shot, 'response'>): Promise<ChatMessage> {
  const text: ChatPart = { type: 'text', text: instruction };
  return { role: 'user', content: picture === null ? [text] : [await picturePart(picture), text] };
}

/** A prompt as the messages of a chat, each shot as a turn with its response. */
async function messagesOf({ shots, picture, instruction }: EvalPrompt): Promise<ChatMessage[]> {
  const turns: ChatMessage[] = [];
  for (const shot of shots) turns.push(await userTurn(shot), { role: 'assistant', content: shot.response });
  return [...turns, await userTurn({ picture, instruction })];
}

/** @throws ConfigError for an address, key or option that no request can be made with */
export function endpointPolicy(given: string, options: Omit<EndpointOptions, 'url' | 'model'>): EvalPolicy {
  const { model, url } = parseEndpoint(given);
  const endpoint = openEndpoint({ ...options, url, model });
  return {
    name: model,
    identity: { endpoint: endpoint.address, model },
    asked: true,
    card: (facts) => foreignCard(facts, null),
    answer: (data, ...rest) =>
      answerOneByOne(
        {
          // Some more than the client sends at once: their pictures are drawn while the others are waited for.
          concurrency: Math.ceil(1.25 * endpoint.concurrency) + 1,
          record: asked(data, async ({ temperature, maxTokens, seed, ...prompt }, signal) => {
            const request = { messages: await messagesOf(prompt), temperature, maxTokens, seed };
            const { text, usage, seconds, cost } = await endpoint.chat(request, signal);
            return {
              text,
              seconds,
              ...(usage === null ? {} : { usage }),
              ...(cost === null ? {} : { cost }),
            };
          }),
          failure: (error) => (error instanceof ChatError && !error.everyRequest ? error.message : null),
        },
        data,
        ...rest,
      ),
  };
}
