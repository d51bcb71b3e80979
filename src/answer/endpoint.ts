/** Policies behind endpoints that speak OpenAI's protocol: asked one response at a time, many at once. */
import {
  type ChatCall,
  ChatError,
  type ChatMessage,
  type ChatPart,
  type ChatTool,
  type EndpointOptions,
  openEndpoint,
  pngPart,
} from '../endpoint/chat.ts';
import { isObject } from '../ground/json-record.ts';
import { getOrMake } from '../ground/maps.ts';
import type { Picture } from '../ground/types.ts';
import { encodePngAside } from '../plot/png.ts';
import type { Answerer, Prompt, PromptTool } from './answerer.ts';
import { answerEach, responseSeed } from './each.ts';

/** Pictures as parts of messages, by picture: the samples of an example share one. */
const encoded = new WeakMap<Picture, Promise<ChatPart>>();

function picturePart(picture: Picture): Promise<ChatPart> {
  return getOrMake(encoded, picture, () => encodePngAside(picture).then(pngPart));
}

const STARTED_AGAIN =
  'the server does not continue the last message but starts a response of its own; serve the model with vLLM or SGLang, which do';

/** A turn of the user: pictures, then words. */
export async function userTurn(pictures: readonly Picture[], text: string): Promise<ChatMessage> {
  return {
    role: 'user',
    content: [...(await Promise.all(pictures.map(picturePart))), { type: 'text', text }],
  };
}

/** Messages of a prompt, each shot as a turn with its response; those in `called` called a function. */
async function messagesOf(
  { system, shots, pictures, text, tools = [] }: Prompt,
  called: ReadonlySet<string>,
): Promise<ChatMessage[]> {
  const turns: ChatMessage[] = system === undefined ? [] : [{ role: 'system', content: system }];
  for (const [i, { picture, instruction, response }] of shots.entries()) {
    const user = await userTurn(picture === null ? [] : [picture], instruction);
    turns.push(
      user,
      ...(called.has(response)
        ? responseTurns(response, `call_${i + 1}`, tools)
        : [{ role: 'assistant', content: response } as const]),
    );
  }
  return [...turns, await userTurn(pictures, text)];
}

// ---- tools as functions --------------------------------------------------------------------------------------------

const CALL = /<tool>(\w+) ?([^<]*)<\/tool>/g;

function functionOf({ name, summary, parameters }: PromptTool): ChatTool {
  const [names, type] = parameters === null ? [['words'], 'string'] : [parameters, 'integer'];
  const properties = Object.fromEntries(names.map((parameter) => [parameter, { type }]));
  const required = parameters ?? [];
  return { name, description: summary, parameters: { type: 'object', properties, required } };
}

const NONE: ReadonlySet<string> = new Set();

/** Writes a call of a function as text. Arguments that do not fit become words, which the tool refuses. */
function callText({ name, arguments: written }: ChatCall, tools: readonly PromptTool[]): string {
  const names = tools.find((tool) => tool.name === name)?.parameters ?? ['words'];
  let words = [written];
  try {
    const given: unknown = JSON.parse(written);
    if (isObject(given))
      words = [...names, ...Object.keys(given).filter((key) => !names.includes(key))]
        .map((key) => given[key] ?? '')
        .map((word) => (typeof word === 'object' ? JSON.stringify(word) : String(word)));
  } catch {
    // Not JSON, or nested too deeply to be written again.
  }
  const plain = [name, ...words].join(' ').replace(/[<>\s]+/g, ' ');
  return `<tool>${plain.trim()}</tool>`;
}

/**
 * A response that called a function as the turn of an assistant, where the call is one that the tools take. Its result is the turn of the
 * user that follows, since templates drop pictures from the turns of tools.
 */
function responseTurns(response: string, id: string, tools: readonly PromptTool[]): ChatMessage[] {
  const [call, ...more] = [...response.matchAll(CALL)];
  const tool = tools.find(({ name }) => name === call?.[1]);
  const words = (call?.[2] ?? '').trim();
  const numbers = words === '' ? [] : words.split(/\s+/).map(Number);
  const { parameters = null } = tool ?? {};
  const fits =
    parameters === null || (numbers.length === parameters.length && numbers.every(Number.isInteger));
  if (tool === undefined || more.length > 0 || !fits) return [{ role: 'assistant', content: response }];
  const given =
    parameters === null ? { words } : Object.fromEntries(parameters.map((name, i) => [name, numbers[i]]));
  const made = { name: tool.name, arguments: JSON.stringify(given) };
  return [
    {
      ...{ role: 'assistant', content: response.replace(call![0], '').trim() },
      tool_calls: [{ id, type: 'function', function: made }],
    },
    { role: 'tool', content: 'see the next message', tool_call_id: id },
  ];
}

/** @throws ConfigError for an address, key or option that no request can be made with */
export function endpointAnswerer(given: string, options: EndpointOptions): Answerer {
  const endpoint = openEndpoint(options);
  /** False once the server has refused functions: calls are tags in the text from then on. */
  let takesTools = true;
  /** Responses that called functions. */
  const called = new Set<string>();
  return {
    ...{ given, name: options.model, local: null, reads: 'prompt', continues: true },
    identity: { endpoint: endpoint.address, model: options.model },
    answer: (requests, options, report) =>
      answerEach(
        {
          given,
          // Some more than the client sends at once: their pictures are drawn while the others are waited for.
          concurrency: Math.ceil(1.25 * endpoint.concurrency) + 1,
          async respond(request, sample, signal) {
            const { temperature, maxTokens } = options;
            const prompt = await request.prompt();
            const offered = prompt.tools ?? [];
            const opening = request.openings?.[sample] ?? '';
            const continues = opening !== '';
            const seed = responseSeed(options.seed, request.key, sample);
            const ask = async (tools: readonly PromptTool[]) => {
              const question = await messagesOf(prompt, takesTools ? called : NONE);
              const messages: ChatMessage[] = continues
                ? [...question, { role: 'assistant', content: opening }]
                : question;
              const functions = tools.length === 0 ? {} : { tools: tools.map(functionOf) };
              return endpoint.chat(
                { messages, temperature, maxTokens, seed, continues, ...functions },
                signal,
              );
            };
            const answer = await ask(takesTools ? offered : []).catch((error: unknown) => {
              // Status 400 of vLLM and Ollama, 404 of OpenRouter, 422 of strict servers, 500 of llama.cpp.
              const isRefusal =
                error instanceof ChatError &&
                [400, 404, 422, 500, 501].includes(error.status ?? 0) &&
                /tool/i.test(error.message);
              if (!isRefusal || offered.length === 0) throw error;
              takesTools = false;
              return ask([]);
            });
            const { usage, seconds, cost } = answer;
            const text = [answer.text, ...answer.calls.map((call) => callText(call, offered))].join('');
            if (answer.calls.length > 0) called.add(text);
            if (continues && text.includes('<think>')) throw new ChatError(STARTED_AGAIN);
            return {
              ...{ text: opening + text, seconds },
              ...(usage === null ? {} : { usage }),
              ...(cost === null ? {} : { cost }),
            };
          },
          failure: (error) => (error instanceof ChatError && !error.everyRequest ? error.problem : null),
        },
        requests,
        options,
        report,
      ),
    dispose: async () => {},
  };
}
