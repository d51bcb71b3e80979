/** Policies behind endpoints that speak OpenAI's protocol: asked one response at a time, many at once. */
import { setMaxListeners } from 'node:events';

import { type ResponseFacts, recordOf } from '../../eval/harness.ts';
import type { EvalData, EvalPolicy, EvalPrompt, ResponseRequest } from '../../eval/policy.ts';
import {
  type ChatEndpoint,
  ChatError,
  type ChatMessage,
  type ChatPart,
  type EndpointOptions,
  openEndpoint,
  pngPart,
} from '../endpoint/chat.ts';
import { ConfigError, EndpointError } from '../errors.ts';
import { encodePngAside } from '../plot/png.ts';
import { Random } from '../random.ts';
import type { Shot } from '../train/task.ts';
import type { Picture } from '../types.ts';
import { foreignCard } from './task.ts';

/** So many failures in a row are no chance: the server is gone. */
const GIVE_UP = 16;
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
async function messagesOf({ shots, ...question }: EvalPrompt): Promise<ChatMessage[]> {
  const turns: ChatMessage[] = [];
  for (const shot of shots) turns.push(await userTurn(shot), { role: 'assistant', content: shot.response });
  return [...turns, await userTurn(question)];
}

/** Asks for all responses, as many at once as the endpoint takes. */
async function askAll(
  endpoint: ChatEndpoint,
  data: EvalData,
  requests: readonly ResponseRequest[],
  report: Parameters<EvalPolicy['answer']>[2],
  signal: AbortSignal,
): Promise<void> {
  const { form, task, source } = data;
  const failed = new AbortController();
  const stop = AbortSignal.any([signal, failed.signal]);
  setMaxListeners(0, stop); // every request that waits listens
  let [next, failures] = [0, 0];
  const ask = async (request: ResponseRequest): Promise<void> => {
    const { number, sample, temperature } = request;
    const messages = await messagesOf(await data.prompt(number));
    const seed = new Random(form.seed, 'endpoint', number, sample).integer(0, 2 ** 31 - 1);
    const facts = { sample, temperature };
    const tell = (text: string, more: ResponseFacts): void =>
      report(recordOf(task, source.at(number), text, { ...facts, ...more }), request);
    try {
      const answer = await endpoint.chat({ messages, temperature, maxTokens: form.maxTokens, seed }, stop);
      failures = 0;
      const { text, usage, seconds, cost } = answer;
      tell(text, { ...(usage === null ? {} : { usage }), seconds, ...(cost === null ? {} : { cost }) });
    } catch (error) {
      if (!(error instanceof ChatError) || error.everyRequest) throw error;
      tell('', { failure: error.message });
      if (++failures < Math.max(GIVE_UP, 2 * endpoint.concurrency)) return;
      throw new EndpointError(`${failures} requests in a row have failed, the last one: ${error.problem}`, {
        advice: 'see to the endpoint',
      });
    }
  };
  const work = async (): Promise<void> => {
    while (next < requests.length) {
      stop.throwIfAborted();
      await ask(requests[next++]!);
    }
  };
  // Some more than are asked at once: their pictures are drawn while the others are waited for.
  const workers = Math.min(requests.length, endpoint.concurrency + Math.ceil(endpoint.concurrency / 4) + 1);
  const all = Array.from({ length: workers }, async () => {
    try {
      await work();
    } catch (error) {
      failed.abort(error);
      throw error;
    }
  });
  const ends = await Promise.allSettled(all);
  signal.throwIfAborted();
  // Of one that failed the others have its error as their reason to stop.
  for (const end of ends) if (end.status === 'rejected') throw end.reason;
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
    answer: (data, requests, report, signal) => askAll(endpoint, data, requests, report, signal),
  };
}
