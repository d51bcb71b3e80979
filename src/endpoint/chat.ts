/**
 * Chat completions of any server that speaks OpenAI's protocol (vLLM, Ollama, commercial ones), with pictures: concurrent, rate-limited,
 * retried, counted and priced, and optionally cached on disk.
 *
 * Protocol: POST URL/chat/completions with model, messages, temperature, max_tokens, seed, n = 1. The key of the API comes from the
 * environment, goes to the address that was given and nowhere else (redirects are refused), and is removed from every
 * response.
 */
import { hash, randomUUID } from 'node:crypto';
import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { broken, isBusy, Passing, retry, retryAfter } from '../ground/download.ts';
import { ConfigError, EndpointError } from '../ground/errors.ts';
import { makeDirectory, notWritten, OWNER } from '../ground/files.ts';
import { sum } from '../ground/numbers.ts';
import type { TokenUsage } from '../ground/types.ts';
import {
  checkedKey,
  excerpt,
  issueOf,
  Limits,
  openConnections,
  type Posted,
  parsed,
  type Rates,
  serverAddress,
  Timeout,
} from './requests.ts';

const LONGEST_TIMEOUT = 3600;
/** Estimated tokens of a picture until the server reports its count. */
const PICTURE_TOKENS = 1000;
const DEFAULT_KEY = 'OPENAI_API_KEY';

export type ChatPart =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'image_url'; readonly image_url: { readonly url: string } };

/** A message as the protocol has it. */
export interface ChatMessage {
  readonly role: 'system' | 'user' | 'assistant' | 'tool';
  readonly content: string | readonly ChatPart[];
  /** Calls of an assistant's turn, and the call that a tool's turn answers. */
  readonly tool_calls?: readonly {
    readonly id: string;
    readonly type: 'function';
    readonly function: ChatCall;
  }[];
  readonly tool_call_id?: string;
}

/** Function that the model may call, its parameters as a JSON schema. */
export interface ChatTool {
  readonly name: string;
  readonly description: string;
  readonly parameters: Readonly<Record<string, unknown>>;
}

/** Call of a function; the arguments are what the model wrote, as a rule JSON. */
export interface ChatCall {
  readonly name: string;
  readonly arguments: string;
}

/** Parts whose address holds nothing that JSON would escape. */
const plainPictures = new WeakSet<ChatPart>();
/** Stands for such an address while the rest becomes JSON; no prompt can hold it. */
const PLACE = randomUUID();

export function pngPart(png: Uint8Array): ChatPart {
  const base64 = Buffer.from(png.buffer, png.byteOffset, png.byteLength).toString('base64');
  const part: ChatPart = { type: 'image_url', image_url: { url: `data:image/png;base64,${base64}` } };
  plainPictures.add(part);
  return part;
}

/**
 * A request as JSON, UTF-8. Pictures go around the JSON writer: looking for what to escape in 100 kB of them takes half of the processor time
 * of a request (1.41 against 0.79 s per 1000).
 */
function jsonBytes(messages: readonly ChatMessage[], rest: object): Buffer {
  const pictures: string[] = [];
  const put = (part: ChatPart): ChatPart => {
    if (part.type !== 'image_url' || !plainPictures.has(part)) return part;
    pictures.push(part.image_url.url);
    return { type: 'image_url', image_url: { url: PLACE } };
  };
  const plain = messages.map(({ content, ...message }) => ({
    ...message,
    content: typeof content === 'string' ? content : content.map(put),
  }));
  const pieces = JSON.stringify({ messages: plain, ...rest }).split(PLACE);
  return Buffer.concat(
    pieces.flatMap((piece, i) => [Buffer.from(piece), Buffer.from(pictures[i] ?? '', 'latin1')]),
  );
}

export interface ChatRequest {
  readonly messages: readonly ChatMessage[];
  /** ≥ 0; default: the server's own. */
  readonly temperature?: number;
  /** Most tokens of the response; default: the server's own. */
  readonly maxTokens?: number;
  /** Sent as it is; not all servers heed it. */
  readonly seed?: number;
  /** True: the last message is the beginning of the response, which is continued (vLLM, SGLang). Default: false. */
  readonly continues?: boolean;
  /** Functions that the response may call. */
  readonly tools?: readonly ChatTool[];
  /** Other model at the same server, such as an adapter; default: that of the endpoint. */
  readonly model?: string;
  /** Asks for several responses as tokens with log-probabilities, as vLLM sends them. Such an answer is not cached. */
  readonly tokens?: { readonly samples: number; readonly topP: number };
}

/** Fields by which vLLM and SGLang continue the last message instead of opening a new one. */
const CONTINUING = { add_generation_prompt: false, continue_final_message: true };

/** Response as tokens, the stop token included: ids and log-probabilities [T]. */
interface TokenChoice {
  readonly ids: readonly number[];
  readonly logProbs: readonly number[];
  /** False when it was cut off. */
  readonly finished: boolean;
}

/** Sampled responses, with what the server says of the prompt. */
export interface TokenAnswer {
  /** Name of the model that answered; null where the server does not say. */
  readonly model: string | null;
  /** Tokens of the prompt; null where the server does not send them. */
  readonly prompt: readonly number[] | null;
  readonly choices: readonly TokenChoice[];
}

interface ChatAnswer {
  readonly text: string;
  readonly calls: readonly ChatCall[];
  /** Tokens of prompt and response; null where the server does not say. */
  readonly usage: TokenUsage | null;
  /** Seconds from sending the request that was answered to the end of the answer. */
  readonly seconds: number;
  /** Finish reason from the server (`stop`, `length`, …); null where it gives none. */
  readonly finish: string | null;
  /** Cost in the currency of the prices; null without prices or usage; 0 for a cached answer. */
  readonly cost: number | null;
  /** True where the answer was on disk and the server was not asked. */
  readonly cached: boolean;
  /** Null unless the request asked for tokens. */
  readonly tokens: TokenAnswer | null;
}

/** Price of a million tokens, in any currency. */
interface Prices {
  readonly prompt: number;
  readonly completion: number;
}

export interface EndpointOptions extends Rates {
  /** Address of the API, as `http://localhost:8000/v1`, with or without `/chat/completions`. */
  readonly url: string;
  readonly model: string;
  /** Environment variable that holds the key; default OPENAI_API_KEY, which may be unset. */
  readonly keyVariable?: string | undefined;
  /** Requests at once; default 8. */
  readonly concurrency?: number | undefined;
  /** Seconds until a request counts as failed, in (0, 3600]; default 300. */
  readonly timeout?: number | undefined;
  /** Maximum attempts per request; default 6. */
  readonly attempts?: number | undefined;
  /** Seconds of back-off after the first failure; doubles with each that follows, with random jitter; default 1. */
  readonly pause?: number | undefined;
  readonly prices?: Prices | undefined;
  /** Directory that keeps answers to repeatable requests: those at temperature 0 and those with a seed. */
  readonly cache?: string | undefined;
  /** Called for each failure that is retried. */
  readonly onRetry?: ((message: string) => void) | undefined;
}

export interface ChatTotals {
  readonly answers: number;
  /** Answers that were on disk. */
  readonly cached: number;
  /** Answers without a count of tokens. */
  readonly uncounted: number;
  readonly failures: number;
  /** Requests that were sent again. */
  readonly retries: number;
  /** Tokens of the answers that have a count, those on disk left out. */
  readonly usage: TokenUsage;
  /** Total cost; null without prices. Too low where answers are `uncounted`. */
  readonly cost: number | null;
}

/** Error of a request without an answer; `problem` says what failed, and after how many tries. */
export class ChatError extends EndpointError {
  /** True if every other request would fail as well: wrong address or key, empty account, a model without vision. */
  readonly everyRequest: boolean;
  /** HTTP status of the last response; null where there was none. */
  readonly status: number | null;
  readonly tries: number;

  constructor(
    problem: string,
    given: { advice?: string; cause?: unknown; everyRequest?: boolean; status?: number; tries?: number } = {},
  ) {
    super(problem, given);
    this.everyRequest = given.everyRequest ?? false;
    this.status = given.status ?? null;
    this.tries = given.tries ?? 1;
  }
}

export interface ChatEndpoint {
  /** Request URL without its query. */
  readonly address: string;
  readonly model: string;
  readonly concurrency: number;
  /**
   * Asks for one response; any number of calls may wait at once.
   * @throws ChatError; WriteError of the cache; the signal's reason
   */
  readonly chat: (request: ChatRequest, signal?: AbortSignal) => Promise<ChatAnswer>;
  /**
   * Posts JSON beside `/chat/completions`, such as `load_lora_adapter`; returns status and text, whatever they are.
   * @throws ChatError of a server that cannot be reached or stays busy; the signal's reason
   */
  readonly command: (name: string, value: object, signal?: AbortSignal) => Promise<Posted>;
  readonly totals: () => ChatTotals;
}

const USAGE = z.object({
  prompt_tokens: z.number().int().nonnegative(),
  completion_tokens: z.number().int().nonnegative(),
});

/** Some servers send the arguments as an object, or none for a function without parameters. */
const CALL = z.object({
  name: z.string(),
  arguments: z
    .union([
      z.string(),
      z.record(z.string(), z.union([z.string(), z.number()])).transform((given) => JSON.stringify(given)),
    ])
    .nullish()
    .transform((given) => given ?? '{}'),
});

const COMPLETION = z.object({
  choices: z
    .array(
      z.object({
        message: z.object({
          content: z.string().nullish(),
          refusal: z.string().nullish(),
          tool_calls: z.array(z.object({ function: CALL })).nullish(),
        }),
        finish_reason: z.string().nullish(),
      }),
    )
    .min(1),
  usage: USAGE.nullish().catch(null),
});

const FAILURE = z.object({
  error: z.union([
    z.string().transform((message) => ({ message, code: undefined })),
    z.object({ message: z.string(), code: z.unknown().optional() }),
  ]),
});

const CACHED = z.object({
  text: z.string(),
  calls: z.array(CALL).default([]),
  usage: z.object({ prompt: z.number(), completion: z.number() }).nullable(),
  seconds: z.number(),
  finish: z.string().nullable(),
});

const TOKENS = z.object({
  model: z.string().nullish(),
  prompt_token_ids: z.array(z.int().nonnegative()).nullish(),
  choices: z.array(
    z.object({
      index: z.int().nonnegative(),
      token_ids: z.array(z.int().nonnegative()),
      logprobs: z.object({ content: z.array(z.object({ logprob: z.number() })) }),
      finish_reason: z.string().nullish(),
    }),
  ),
});

/** Fields by which vLLM (from 0.10.2) sends tokens. */
const SENDS_TOKENS = { logprobs: true, top_logprobs: 0, return_token_ids: true };

/** Tokens of an answer, by the index of the response. @throws ChatError for a server that does not send them */
function tokensOf(text: string, samples: number): TokenAnswer {
  const answer = TOKENS.safeParse(parsed(text));
  const whole = answer.data?.choices.every(
    ({ token_ids: ids, logprobs }) => ids.length > 0 && ids.length === logprobs.content.length,
  );
  if (!answer.success || whole !== true || answer.data.choices.length !== samples) {
    const where = answer.success
      ? `${answer.data.choices.length} responses instead of ${samples}, or not one log-probability for each token`
      : issueOf(answer.error);
    throw new ChatError(`sends no tokens with log-probabilities (${where})`, {
      advice: 'take an inference server that knows return_token_ids, such as vLLM from 0.10.2',
      everyRequest: true,
    });
  }
  const { model = null, prompt_token_ids: prompt = null, choices } = answer.data;
  return {
    ...{ model, prompt },
    choices: choices
      .sort((a, b) => a.index - b.index)
      .map(({ token_ids: ids, logprobs, finish_reason: finish }) => ({
        ...{ ids, finished: finish !== 'length' },
        logProbs: logprobs.content.map(({ logprob }) => logprob),
      })),
  };
}

function checked({
  url,
  concurrency = 8,
  timeout = 300,
  attempts = 6,
  pause = 1,
  ...options
}: EndpointOptions) {
  const fail = (message: string): never => {
    throw new ConfigError(message);
  };
  const address = serverAddress(url, 'the endpoint', 'http://localhost:8000/v1');
  const path = address.pathname.replace(/\/+$/, '');
  address.pathname = path.endsWith('/chat/completions') ? path : `${path}/chat/completions`;
  const whole = (name: string, value: number | undefined): void => {
    if (value !== undefined && !(Number.isInteger(value) && value >= 1))
      fail(`endpoint: ${name} ${value}; expected a whole number from 1`);
  };
  whole('concurrency', concurrency);
  whole('attempts', attempts);
  whole('requests per minute', options.requestsPerMinute);
  whole('tokens per minute', options.tokensPerMinute);
  if (!(timeout > 0 && timeout <= LONGEST_TIMEOUT))
    fail(`endpoint: a timeout of ${timeout} s; expected above 0 and at most ${LONGEST_TIMEOUT}`);
  if (!(pause >= 0)) fail(`endpoint: a pause of ${pause} s; expected at least 0`);
  const { prompt = 0, completion = 0 } = options.prices ?? {};
  if (!(prompt >= 0 && completion >= 0 && Number.isFinite(prompt + completion)))
    fail(`endpoint: prices of ${prompt} and ${completion}; expected numbers from 0`);
  if (options.model.trim() === '') fail('endpoint: no model is named');
  return { ...options, address, concurrency, timeout, attempts, pause };
}

/** The key in a variable; null where there is none. @throws ConfigError, without the key */
function keyIn(variable: string | undefined): string | null {
  const name = variable ?? DEFAULT_KEY;
  const key = process.env[name]?.trim();
  if (key === undefined || key === '') {
    if (variable === undefined) return null;
    throw new ConfigError(`${name} is not set in the environment; put the key of the endpoint there`);
  }
  return checkedKey(key, `${name} in the environment`);
}

const partsOf = ({ messages }: ChatRequest): ChatPart[] =>
  messages.flatMap(({ content }) =>
    typeof content === 'string' ? { type: 'text' as const, text: content } : content,
  );

const estimatedTokens = (request: ChatRequest): number =>
  (request.maxTokens ?? 0) +
  sum(
    partsOf(request).map((part) => (part.type === 'text' ? Math.ceil(part.text.length / 4) : PICTURE_TOKENS)),
  );

/** Message of a failed answer: that of the protocol, else the beginning of the text. */
export function saidBy(text: string): string {
  const failure = FAILURE.safeParse(parsed(text));
  return excerpt(failure.success ? failure.data.error.message : text);
}

function refused(response: Posted, text: string, pictures: boolean): ChatError | Passing {
  const { status } = response;
  const failure = FAILURE.safeParse(parsed(text));
  const message = saidBy(text);
  const because = message === '' ? '' : `: ${message}`;
  const problem = `answers with status ${status}${because}`;
  /** An error that every other request would have as well. */
  const fatal = (advice: string, what = problem): ChatError =>
    new ChatError(what, { advice, status, everyRequest: true });
  const isClientError = status >= 400 && status < 500;
  if (pictures && isClientError && /\bimages?\b|image_url|vision|multi-?modal/i.test(message)) {
    const what = `refuses pictures (status ${status}${because})`;
    return fatal('choose a model that takes pictures, or show the series as numbers', what);
  }
  if (failure.data?.error.code === 'insufficient_quota') return fatal('the account is used up');
  if (isBusy(response)) return new Passing(new ChatError(problem, { status }), retryAfter(response));
  if (status >= 300 && status < 400) {
    const advice = 'name the address that answers itself: the key goes nowhere else';
    return fatal(advice, `redirects elsewhere (status ${status})`);
  }
  const advice: Readonly<Record<number, string>> = {
    401: 'put a valid key into the environment variable of the endpoint',
    402: 'the account is used up',
    403: 'the key gives no right to this model',
    404: 'check the address (it usually ends in /v1) and the name of the model',
    405: 'check the address (it usually ends in /v1)',
  };
  return advice[status] === undefined ? new ChatError(problem, { status }) : fatal(advice[status]);
}

/** The response in the text of a successful answer. @throws ChatError; Passing where another answer may be better */
function completion(text: string): Pick<ChatAnswer, 'text' | 'calls' | 'usage' | 'finish'> {
  const value = parsed(text);
  if (value === undefined && /^\s*</.test(text)) {
    const advice = 'check the address (it usually ends in /v1)';
    throw new ChatError('sends a web page instead of an answer', { advice, everyRequest: true });
  }
  if (value === undefined)
    throw new Passing(new ChatError(`sends what is not JSON: ${excerpt(text) || 'nothing'}`));
  const failure = FAILURE.safeParse(value);
  if (failure.success) {
    throw new Passing(new ChatError(`reports an error: ${excerpt(failure.data.error.message)}`));
  }
  const answer = COMPLETION.safeParse(value);
  if (!answer.success)
    throw new Passing(new ChatError(`sends no chat completion (${issueOf(answer.error)})`));
  const { choices, usage } = answer.data;
  const { message, finish_reason: finish = null } = choices[0]!;
  const calls = message.tool_calls?.map((call) => call.function) ?? [];
  const content = message.content ?? (calls.length > 0 ? '' : null);
  if (content === null || (content === '' && finish === 'content_filter')) {
    const why = message.refusal ?? (finish === null ? null : `it ended with "${finish}"`);
    throw new ChatError(`gives no text${why === null ? '' : `: ${excerpt(why)}`}`);
  }
  return {
    text: content,
    calls,
    usage: usage == null ? null : { prompt: usage.prompt_tokens, completion: usage.completion_tokens },
    finish,
  };
}

/** A client of one model at one server. Nothing is sent before the first request. @throws ConfigError */
export function openEndpoint(options: EndpointOptions): ChatEndpoint {
  const { address, model, concurrency, timeout, attempts, pause, prices, cache, onRetry, ...rates } =
    checked(options);
  const key = keyIn(options.keyVariable);
  const shown = `${address.origin}${address.pathname}`;
  const limits = new Limits(concurrency, rates);
  const post = openConnections(address, {
    'content-type': 'application/json',
    accept: 'application/json',
    ...(key === null ? {} : { authorization: `Bearer ${key}` }),
  });
  // Short ones, as "EMPTY" of servers that want any key, are words that an answer may hold.
  const withoutKey = (text: string): string =>
    key === null || key.length < 12 ? text : text.replaceAll(key, '[key]');
  const remedy = 'start the server or correct its address';
  const server = { address: shown, remedy, again: 'check the endpoint' };
  const totals = { answers: 0, cached: 0, uncounted: 0, failures: 0, retries: 0, prompt: 0, completion: 0 };
  let reached = false;
  /** OpenAI's newer models know the limit by another name. */
  let limit: 'max_tokens' | 'max_completion_tokens' = 'max_tokens';

  const body = (request: ChatRequest): Buffer => {
    const { messages, temperature, maxTokens, seed, continues = false, tools, tokens } = request;
    return jsonBytes(messages, {
      ...{ model: request.model ?? model, temperature, [limit]: maxTokens, seed, stream: false },
      ...(tokens === undefined ? { n: 1 } : { n: tokens.samples, top_p: tokens.topP, ...SENDS_TOKENS }),
      ...(continues ? CONTINUING : {}),
      tools: tools?.map((tool) => ({ type: 'function', function: tool })),
    });
  };

  /** @throws Passing where another try may be better; the signal's reason */
  async function posted(...[bytes, signal, other]: [Buffer, AbortSignal, object?]): Promise<Posted> {
    const response = await post(bytes, timeout, signal, other).catch((error: unknown) => {
      signal.throwIfAborted();
      if (error instanceof Timeout)
        throw new Passing(new ChatError(`${shown} has not answered within ${timeout} s`));
      throw broken(server, model, error, reached);
    });
    reached = true;
    return { ...response, text: withoutKey(response.text) };
  }

  /** One request, sent once. @throws ChatError; Passing; the signal's reason */
  async function send(
    request: ChatRequest,
    signal: AbortSignal,
  ): Promise<Omit<ChatAnswer, 'cost' | 'cached'>> {
    const admitted = await limits.admit(estimatedTokens(request), signal);
    const named = limit;
    const sent = body(request);
    const began = performance.now();
    const response = await posted(sent, signal);
    const { text } = response;
    if (response.status < 200 || response.status >= 300) {
      if (response.status === 400 && named === 'max_tokens' && text.includes('max_completion_tokens')) {
        limit = 'max_completion_tokens';
        return send(request, signal);
      }
      throw refused(
        response,
        text,
        partsOf(request).some(({ type }) => type === 'image_url'),
      );
    }
    const answer = completion(text);
    if (answer.usage !== null) admitted.tokens = answer.usage.prompt + answer.usage.completion;
    const tokens = request.tokens === undefined ? null : tokensOf(text, request.tokens.samples);
    return { ...answer, tokens, seconds: (performance.now() - began) / 1000 };
  }

  /** Repeats a request until it is answered. @throws ChatError saying what failed, and how often; the signal's reason */
  async function repeated<T>(signal: AbortSignal, once: () => Promise<T>): Promise<T> {
    let tries = 0;
    return retry(signal, { attempts, pause: pause * 1000, spread: 0.5, onRetry }, () => {
      if (tries++ > 0) totals.retries++;
      return once().catch((error: unknown) => {
        if (error instanceof Passing && error.wait !== undefined) limits.pause(error.wait);
        throw error;
      });
    }).catch((error: unknown) => {
      signal.throwIfAborted();
      if (!(error instanceof EndpointError)) throw error;
      const { problem, advice } = error;
      const lead = error instanceof ChatError && !problem.startsWith(shown) ? `${shown}: ${model} ` : '';
      throw new ChatError(`${lead}${withoutKey(problem)}${tries > 1 ? ` (tried ${tries} times)` : ''}`, {
        ...(advice === undefined ? {} : { advice }),
        cause: error.cause,
        everyRequest: error instanceof ChatError ? error.everyRequest : !reached,
        ...(error instanceof ChatError && error.status !== null ? { status: error.status } : {}),
        tries,
      });
    });
  }

  async function ask(request: ChatRequest, signal: AbortSignal): Promise<ChatAnswer> {
    const { messages, temperature, maxTokens, seed, continues = false, tools } = request;
    const repeatable = temperature === 0 || seed !== undefined;
    const entry =
      cache === undefined || !repeatable || request.tokens !== undefined
        ? null
        : hash(
            'sha256',
            JSON.stringify([
              ...[address.href, model, messages, temperature, maxTokens, seed],
              ...(continues ? ['continues'] : []),
              ...(tools === undefined ? [] : [tools]),
            ]),
          );
    const cached = entry === null ? null : CACHED.safeParse(await readCached(cache!, entry));
    if (cached?.success) {
      totals.cached++;
      return { ...cached.data, tokens: null, cost: prices === undefined ? null : 0, cached: true };
    }
    const answer = await repeated(signal, () => send(request, signal));
    const { usage } = answer;
    const cost = prices === undefined || usage === null ? null : costOf(usage, prices);
    if (usage === null) totals.uncounted++;
    totals.prompt += usage?.prompt ?? 0;
    totals.completion += usage?.completion ?? 0;
    if (entry !== null) await writeCached(cache!, entry, answer);
    return { ...answer, cost, cached: false };
  }

  return {
    address: shown,
    model,
    concurrency,
    async chat(request, signal = new AbortController().signal) {
      try {
        const answer = await limits.run(signal, () => ask(request, signal));
        totals.answers++;
        return answer;
      } catch (error) {
        if (error instanceof ChatError) totals.failures++;
        throw error;
      }
    },
    async command(name, value, signal = new AbortController().signal) {
      const path = `${address.pathname.replace(/\/chat\/completions$/, '')}/${name}${address.search}`;
      return repeated(signal, async () => {
        const sent = Buffer.from(JSON.stringify(value));
        const response = await posted(sent, signal, { method: 'POST', path });
        if (!isBusy(response)) return response;
        const problem = `answers ${name} with status ${response.status}: ${saidBy(response.text)}`;
        throw new Passing(new ChatError(problem, { status: response.status }), retryAfter(response));
      });
    },
    totals() {
      const { prompt, completion, ...counts } = totals;
      const usage = { prompt, completion };
      return { ...counts, usage, cost: prices === undefined ? null : costOf(usage, prices) };
    },
  };
}

const costOf = (usage: TokenUsage, prices: Prices): number =>
  (usage.prompt * prices.prompt + usage.completion * prices.completion) / 1e6;

/** `ab/abcd….json`: a directory does not hold all of 100 000 answers. */
const fileOf = (directory: string, key: string): string => join(directory, key.slice(0, 2), `${key}.json`);

/** Returns the value cached under `key`; undefined where there is none, or the file is damaged. */
async function readCached(directory: string, key: string): Promise<unknown> {
  try {
    const text = await readFile(fileOf(directory, key), 'utf8');
    const end = text.indexOf('\n');
    const body = text.slice(end + 1);
    return text.slice(0, end) === hash('sha256', `${key}${body}`) ? JSON.parse(body) : undefined;
  } catch {
    return undefined; // unreadable is as good as missing: the server is asked again
  }
}

let written = 0;

/**
 * Keeps `value`. It is not synced to the disk: a file that a power failure cut short has another hash, and counts as missing.
 * @throws WriteError
 */
async function writeCached(directory: string, key: string, value: unknown): Promise<void> {
  const path = fileOf(directory, key);
  const temporary = `${path}.${OWNER}.${written++}.tmp`;
  const body = JSON.stringify(value);
  try {
    makeDirectory(dirname(path));
    await writeFile(temporary, `${hash('sha256', `${key}${body}`)}\n${body}`);
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => undefined); // the failure itself is what is reported
    throw notWritten(path, error);
  }
}
