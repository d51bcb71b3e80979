/** Policies behind endpoints that speak OpenAI's protocol: asked one response at a time, many at once. */
import {
  ChatError,
  type ChatMessage,
  type ChatPart,
  type EndpointOptions,
  openEndpoint,
  pngPart,
} from '../endpoint/chat.ts';
import type { Picture } from '../ground/types.ts';
import { encodePngAside } from '../plot/png.ts';
import type { Answerer, Prompt } from './answerer.ts';
import { answerEach, responseSeed } from './each.ts';

/** Pictures as parts of messages, by picture: the samples of an example share one. */
const encoded = new WeakMap<Picture, Promise<ChatPart>>();

function picturePart(picture: Picture): Promise<ChatPart> {
  const part = encoded.get(picture) ?? encodePngAside(picture).then(pngPart);
  encoded.set(picture, part);
  return part;
}

const STARTED_AGAIN =
  'the server does not continue the last message but starts a response of its own; serve the model with vLLM or SGLang, which do';

/** A turn of the user: pictures, then words. */
async function userTurn(pictures: readonly Picture[], text: string): Promise<ChatMessage> {
  return {
    role: 'user',
    content: [...(await Promise.all(pictures.map(picturePart))), { type: 'text', text }],
  };
}

/** Messages of a prompt, each shot as a turn with its response. */
async function messagesOf({ system, shots, pictures, text }: Prompt): Promise<ChatMessage[]> {
  const turns: ChatMessage[] = system === undefined ? [] : [{ role: 'system', content: system }];
  for (const { picture, instruction, response } of shots) {
    const user = await userTurn(picture === null ? [] : [picture], instruction);
    turns.push(user, { role: 'assistant', content: response });
  }
  return [...turns, await userTurn(pictures, text)];
}

/** @throws ConfigError for an address, key or option that no request can be made with */
export function endpointAnswerer(given: string, options: EndpointOptions): Answerer {
  const endpoint = openEndpoint(options);
  return {
    ...{ given, name: options.model, local: null, reads: 'prompt', continues: true },
    identity: { endpoint: endpoint.address, model: options.model },
    answer: (requests, options, report) =>
      answerEach(
        {
          // Some more than the client sends at once: their pictures are drawn while the others are waited for.
          concurrency: Math.ceil(1.25 * endpoint.concurrency) + 1,
          async respond(request, sample, signal) {
            const { temperature, maxTokens } = options;
            const question = await messagesOf(await request.prompt());
            const opening = request.openings?.[sample] ?? '';
            const continues = opening !== '';
            const messages: ChatMessage[] = continues
              ? [...question, { role: 'assistant', content: opening }]
              : question;
            const seed = responseSeed(options.seed, request.key, sample);
            const { text, usage, seconds, cost } = await endpoint.chat(
              { messages, temperature, maxTokens, seed, continues },
              signal,
            );
            if (continues && text.includes('<think>')) throw new ChatError(STARTED_AGAIN);
            return {
              ...{ text: opening + text, seconds },
              ...(usage === null ? {} : { usage }),
              ...(cost === null ? {} : { cost }),
            };
          },
          failure: (error) => (error instanceof ChatError && !error.everyRequest ? error.message : null),
        },
        requests,
        options,
        report,
      ),
    dispose: async () => {},
  };
}
