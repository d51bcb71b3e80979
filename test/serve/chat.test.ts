import { crc32, deflateSync } from 'node:zlib';
import OpenAI, { APIError, APIUserAbortError, type ClientOptions } from 'openai';
import type {
  ChatCompletionChunk,
  ChatCompletionCreateParamsNonStreaming,
} from 'openai/resources/chat/completions';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { encodePng } from '../../src/plot/png.ts';
import { generate } from '../../src/policy/generate.ts';
import { readGenerationConfig } from '../../src/policy/model-config.ts';
import {
  errorOf,
  openService,
  type TestService,
  TINY_MODEL,
  TINY_POLICY,
  until,
} from '../helpers/service.ts';
import { policy } from '../policy/generate-policy.ts';
import { GOLDEN, picture } from '../policy/golden.ts';

const API_KEY = 'a-key-of-the-tests';
let service: TestService;
let client: OpenAI;
beforeAll(async () => {
  service = await openService({ policy: TINY_POLICY, apiKey: API_KEY });
  client = openClient(service);
});
afterAll(() => service.close());

const openClient = ({ url }: TestService, changes: ClientOptions = {}): OpenAI =>
  new OpenAI({ baseURL: `${url}/v1`, apiKey: API_KEY, maxRetries: 0, ...changes });

type Body = ChatCompletionCreateParamsNonStreaming;
const ASK = 'What do you see?';
const ask = (changes: Partial<Body> = {}): Body => ({
  ...{ model: TINY_MODEL, messages: [{ role: 'user', content: ASK }], max_tokens: 16, seed: 7 },
  ...changes,
});
const png = (width: number, height: number): string =>
  `data:image/png;base64,${Buffer.from(encodePng(picture(width, height))).toString('base64')}`;
const showing = (...urls: string[]): Body['messages'] => [
  {
    role: 'user',
    content: [
      ...urls.map((url) => ({ type: 'image_url' as const, image_url: { url } })),
      { type: 'text', text: ASK },
    ],
  },
];

/** What the policy says to the messages by itself, and the tokens of the prompt. */
async function own(
  changes: {
    pictures?: [number, number][];
    seed?: number;
    temperature?: number;
    maxTokens?: number;
    samples?: number;
  } = {},
): Promise<{ texts: string[]; tokens: number; prompt: number }> {
  const { pictures = [], seed = 7, temperature, maxTokens = 16, samples = 1 } = changes;
  const images = pictures.map(() => ({ type: 'image' as const }));
  const text = policy.chat.render([{ role: 'user', content: [...images, { type: 'text', text: ASK }] }]);
  const prompt = policy.encodePrompt(
    text,
    pictures.map(([width, height]) => picture(width, height)),
  );
  const config = readGenerationConfig(GOLDEN);
  const { topK, stops, suppress, topP, repetitionPenalty } = config;
  const answers = await generate(policy, [prompt], {
    ...{ samples, maxTokens, seed, topP, repetitionPenalty, stops, suppress, free: true },
    temperature: temperature ?? config.temperature,
    ...(topK === null ? {} : { topK }),
  });
  const tokens = answers.reduce((sum, { ids }) => sum + ids.length, 0);
  return { texts: answers.map((answer) => answer.text), tokens, prompt: prompt.ids.length };
}

/** The error that a call is refused with. */
async function refused(call: Promise<unknown>): Promise<APIError> {
  const error: unknown = await call.then(
    () => null,
    (cause: unknown) => cause,
  );
  expect(error).toBeInstanceOf(APIError);
  return error as APIError;
}

const underWay = async (): Promise<number> => {
  const health = (await (await fetch(`${service.url}/readyz`)).json()) as { requests: { chat: number } };
  return health.requests.chat;
};

describe("OpenAI's client", () => {
  test('lists the policy, and nothing of where it lies', async () => {
    const list = await client.models.list();
    expect(list.data).toMatchObject([{ id: TINY_MODEL, object: 'model', owned_by: 'timeseer' }]);
    expect(await client.models.retrieve(TINY_MODEL)).toEqual(list.data[0]);
    expect(await refused(client.models.retrieve('gpt-4'))).toMatchObject({
      status: 404,
      code: 'model_not_found',
    });
  });

  test('gets what the policy answers to a text, with the numbers of its tokens', async () => {
    const wanted = await own({ temperature: 1, seed: 2 ** 50 + 1 });
    const answer = await client.chat.completions.create(ask({ temperature: 1, seed: 2 ** 50 + 1 }));
    expect(answer).toMatchObject({ object: 'chat.completion', model: TINY_MODEL });
    expect(answer.choices).toMatchObject([
      { index: 0, message: { role: 'assistant', content: wanted.texts[0] }, finish_reason: 'length' },
    ]);
    expect(answer.usage).toEqual({
      prompt_tokens: wanted.prompt,
      completion_tokens: 16,
      total_tokens: wanted.prompt + 16,
    });
    expect(Math.abs(answer.created - Date.now() / 1000)).toBeLessThan(100);
  });

  test('shows pictures, in their order', async () => {
    const sizes: [number, number][] = [
      [140, 84],
      [84, 56],
    ];
    const wanted = await own({ pictures: sizes, temperature: 0 });
    const urls = sizes.map(([width, height]) => png(width, height));
    const answer = await client.chat.completions.create(ask({ temperature: 0, messages: showing(...urls) }));
    expect(answer.choices[0]!.message.content).toBe(wanted.texts[0]);
    expect(answer.usage!.prompt_tokens).toBe(wanted.prompt);
    const swapped = await client.chat.completions.create(
      ask({ temperature: 0, messages: showing(...urls.toReversed()) }),
    );
    expect(swapped.choices[0]!.message.content).not.toBe(wanted.texts[0]);
  });

  test('gets several answers, and goes on with one of them', async () => {
    const wanted = await own({ temperature: 1, samples: 3 });
    const answer = await client.chat.completions.create(
      ask({ temperature: 1, n: 3, stop: null, logprobs: false }),
    );
    expect(answer.choices.map(({ message }) => message.content)).toEqual(wanted.texts);
    expect(new Set(wanted.texts).size).toBe(3);
    expect(answer.usage!.completion_tokens).toBe(wanted.tokens);
    const messages = [
      { role: 'developer' as const, content: 'Be brief.' },
      ...ask().messages,
      { ...answer.choices[1]!.message, content: 'A line.' },
      { role: 'user' as const, content: [{ type: 'text' as const, text: 'And now?' }] },
    ];
    const next = await client.chat.completions.create(ask({ messages }));
    expect(next.usage!.prompt_tokens).toBeGreaterThan(answer.usage!.prompt_tokens + 10);
  });

  test('draws anew without a seed, and the same with one', async () => {
    const answers: (string | null)[] = [];
    for (const seed of [3, 3, ...Array.from({ length: 6 }, () => null)])
      answers.push(
        (await client.chat.completions.create(ask({ temperature: 1, seed }))).choices[0]!.message.content,
      );
    expect(answers[0]).toBe(answers[1]);
    // Two of them may be alike by chance.
    expect(new Set(answers.slice(2)).size).toBeGreaterThan(1);
  });

  test('ends an answer before a stop text', async () => {
    const [text] = (await own({ temperature: 1, maxTokens: 48 })).texts;
    const stop = text!.slice(9, 11);
    const answer = await client.chat.completions.create(
      ask({ temperature: 1, max_tokens: null, max_completion_tokens: 48, stop: ['not in it', stop] }),
    );
    expect(answer.choices[0]).toMatchObject({
      finish_reason: 'stop',
      message: { content: text!.slice(0, text!.indexOf(stop)) },
    });
    expect(answer.usage!.completion_tokens).toBeLessThan(48);
  });

  test('streams the answer in pieces, then how it ended, then the numbers of tokens', async () => {
    const wanted = await own({ temperature: 1, maxTokens: 120 });
    const stream = await client.chat.completions.create({
      ...ask({ temperature: 1, max_tokens: 120 }),
      ...{ stream: true, stream_options: { include_usage: true } },
    });
    const chunks: ChatCompletionChunk[] = [];
    for await (const chunk of stream) chunks.push(chunk);
    expect(new Set(chunks.map(({ id }) => id)).size).toBe(1);
    expect(chunks[0]!.choices[0]!.delta.role).toBe('assistant');
    const pieces = chunks.map(({ choices }) => choices[0]?.delta.content ?? '');
    expect(pieces.join('')).toBe(wanted.texts[0]);
    expect(pieces.filter((piece) => piece !== '').length).toBeGreaterThan(8);
    expect(chunks.at(-2)!.choices[0]!.finish_reason).toBe('length');
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: 120 } });
    expect(chunks.slice(0, -1).every(({ usage }) => usage === null)).toBe(true);
  });

  test('streams several answers side by side', async () => {
    const wanted = await own({ temperature: 1, samples: 2 });
    const stream = await client.chat.completions.create({ ...ask({ temperature: 1, n: 2 }), stream: true });
    const texts = ['', ''];
    for await (const { choices, usage } of stream) {
      expect(usage).toBeUndefined();
      for (const { index, delta } of choices) texts[index] += delta.content ?? '';
    }
    expect(texts).toEqual(wanted.texts);
  });

  test('answers many at a time, each its own', async () => {
    const seeds = Array.from({ length: 12 }, (_, i) => i);
    const answers = await Promise.all(
      seeds.map((seed) =>
        client.chat.completions.create(ask({ temperature: seed % 3 === 0 ? 0.5 : 1, seed })),
      ),
    );
    for (const seed of seeds) {
      const wanted = await own({ seed, temperature: seed % 3 === 0 ? 0.5 : 1 });
      expect(answers[seed]!.choices[0]!.message.content).toBe(wanted.texts[0]);
    }
  });

  test('that goes away ends its decoding, streamed or not', async () => {
    const long = ask({ temperature: 1, max_tokens: 440, n: 8 });
    const stream = await client.chat.completions.create({ ...long, stream: true });
    for await (const chunk of stream) if ((chunk.choices[0]?.delta.content ?? '') !== '') break;
    await until(async () => (await underWay()) === 0);
    const stop = new AbortController();
    const whole = client.chat.completions.create(long, { signal: stop.signal });
    await until(async () => (await underWay()) === 1);
    stop.abort();
    await expect(whole).rejects.toBeInstanceOf(APIUserAbortError);
    await until(async () => (await underWay()) === 0);
    // The next does not wait behind what nobody reads, and nothing of it is an error.
    expect((await client.chat.completions.create(ask())).choices).toHaveLength(1);
    expect(service.log.join('')).toContain('POST /v1/chat/completions 499');
    expect(service.log.join('')).not.toMatch(/error/);
  });

  test('is refused with a wrong key', async () => {
    const error = await refused(openClient(service, { apiKey: 'another' }).chat.completions.create(ask()));
    expect(error).toBeInstanceOf(OpenAI.AuthenticationError);
    expect(error).toMatchObject({ status: 401, code: 'invalid_api_key' });
  });
});

describe('POST /v1/chat/completions', () => {
  const bomb = Buffer.from(encodePng(picture(28, 28)));
  bomb.writeUInt32BE(50_000, 16);
  bomb.writeUInt32BE(50_000, 20);
  /** A PNG of this size, of one colour: some bytes for any size. */
  const blank = (width: number, height: number): string => {
    const chunks = Buffer.from(encodePng({ width, height, data: new Uint8Array(3 * width * height) }));
    return `data:image/png;base64,${chunks.toString('base64')}`;
  };
  const user = (content: unknown): Body['messages'] => [{ role: 'user', content } as never];

  test.each<[string, object, Record<string, unknown>]>([
    ['another model', { model: 'gpt-4' }, { status: 404, code: 'model_not_found', param: 'model' }],
    ['no model', { model: undefined }, { param: 'model' }],
    ['no messages', { messages: undefined }, { param: 'messages' }],
    ['an empty list of messages', { messages: [] }, { param: 'messages' }],
    ['a message that is none', { messages: ['hi'] }, { param: 'messages[0]' }],
    ['an unknown role', { messages: [{ role: 'tool', content: 'x' }] }, { param: 'messages[0].role' }],
    ['no content', { messages: [{ role: 'user' }] }, { param: 'messages[0].content' }],
    ['content that is none', { messages: user(7) }, { param: 'messages[0].content' }],
    ['an unknown part', { messages: user([{ type: 'input_audio' }]) }, { param: 'messages[0].content[0]' }],
    [
      'a name of a message',
      { messages: [{ role: 'user', content: 'x', name: 'Ann' }] },
      { param: 'messages[0].name', code: 'unsupported_parameter' },
    ],
    [
      'a picture of the system',
      { messages: [{ role: 'system', content: [{ type: 'image_url', image_url: { url: png(28, 28) } }] }] },
      { param: 'messages[0].content[0]' },
    ],
    [
      'tokens of the prompt inside a text',
      { messages: user('x<|im_end|>') },
      { param: 'messages[0].content' },
    ],
    [
      'tools',
      { tools: [{ type: 'function', function: { name: 'f' } }] },
      { param: 'tools', code: 'unsupported_parameter' },
    ],
    ['log-probabilities', { logprobs: true }, { param: 'logprobs', code: 'unsupported_parameter' }],
    ['a penalty', { frequency_penalty: 0.5 }, { param: 'frequency_penalty', code: 'unsupported_parameter' }],
    [
      'JSON mode',
      { response_format: { type: 'json_object' } },
      { param: 'response_format', code: 'unsupported_parameter' },
    ],
    ['what no one knows', { best_off: 2 }, { param: 'best_off', code: 'unsupported_parameter' }],
    ['what objects inherit', { constructor: 1 }, { param: 'constructor', code: 'unsupported_parameter' }],
    ['a negative temperature', { temperature: -1 }, { param: 'temperature' }],
    ['a temperature as text', { temperature: '1' }, { param: 'temperature' }],
    ['a high temperature', { temperature: 2.1 }, { param: 'temperature' }],
    ['no probability', { top_p: 0 }, { param: 'top_p' }],
    ['half an answer', { n: 1.5 }, { param: 'n' }],
    ['more answers than are decoded together', { n: 9 }, { param: 'n', message: /from 1 to 8/ }],
    ['no tokens', { max_tokens: 0 }, { param: 'max_tokens' }],
    ['two limits of tokens', { max_completion_tokens: 3 }, { param: 'max_tokens' }],
    [
      'more tokens than fit',
      { max_tokens: 511 },
      { param: 'max_tokens', code: 'context_length_exceeded', message: /max_tokens 511: there is room for/ },
    ],
    [
      'a prompt over the limit',
      { messages: user('a b '.repeat(100)) },
      { param: 'messages', code: 'context_length_exceeded', message: /at most 300/ },
    ],
    [
      'a prompt over the context',
      { messages: user('a b '.repeat(700)) },
      { param: 'messages', code: 'context_length_exceeded' },
    ],
    [
      'empty messages without number',
      { messages: Array.from({ length: 50_000 }, () => ({ role: 'user', content: '' })) },
      {
        param: 'messages',
        code: 'context_length_exceeded',
        message: /50000, and a prompt may have 300 tokens/,
      },
    ],
    [
      'a very long text',
      { messages: user('a'.repeat(1e6)) },
      { param: 'messages', code: 'context_length_exceeded', message: /4800 characters/ },
    ],
    ['an empty stop text', { stop: '' }, { param: 'stop' }],
    ['five stop texts', { stop: ['a', 'b', 'c', 'd', 'e'] }, { param: 'stop' }],
    ['a broken seed', { seed: 0.5 }, { param: 'seed' }],
    ['a stream that is no flag', { stream: 'yes' }, { param: 'stream' }],
    ['options of a stream without one', { stream_options: {} }, { param: 'stream_options' }],
    [
      'an unknown option of a stream',
      { stream: true, stream_options: { other: 1 } },
      { param: 'stream_options.other' },
    ],
    [
      'a remote picture',
      { messages: showing('https://example.org/a.png') },
      { param: 'messages[0].content[0].image_url.url', code: 'invalid_image_url' },
    ],
    ['a picture from a file', { messages: showing('file:///etc/hostname') }, { code: 'invalid_image_url' }],
    ['a path for a picture', { messages: showing('/etc/hostname') }, { code: 'invalid_image_url' }],
    [
      'a data URI of no picture',
      { messages: showing('data:text/html;base64,PGI+') },
      { code: 'invalid_image_url' },
    ],
    ['broken base64', { messages: showing('data:image/png;base64,%%') }, { code: 'invalid_base64_image' }],
    [
      'bytes that are no picture',
      { messages: showing('data:image/png;base64,aGVsbG8=') },
      { code: 'invalid_image', message: /no PNG, JPEG or WebP/ },
    ],
    [
      'a PNG without its size',
      {
        messages: showing(
          `data:image/png;base64,${Buffer.from('89504e470d0a1a0a0000000049454e44ae426082', 'hex').toString('base64')}`,
        ),
      },
      { code: 'invalid_image' },
    ],
    [
      'a picture cut short',
      { messages: showing(png(84, 56).slice(0, -200)) },
      { code: 'invalid_image', message: /truncated/ },
    ],
    [
      'a picture said to be of 2.5 billion pixels',
      { messages: showing(`data:image/png;base64,${bomb.toString('base64')}`) },
      { code: 'invalid_image' },
    ],
    [
      'a picture beyond the limit',
      { messages: showing(blank(1200, 900)) },
      { code: 'image_too_large', message: /1000000/ },
    ],
    [
      'pictures beyond the limit together',
      { messages: showing(blank(800, 700), blank(800, 700)) },
      { code: 'image_too_large', param: 'messages[0].content[1].image_url.url' },
    ],
    [
      'a picture that is all length',
      { messages: showing(blank(9000, 4)) },
      { code: 'invalid_image', message: /aspect ratio/ },
    ],
    [
      'pictures of more tokens than the limit',
      { messages: showing(...Array.from({ length: 60 }, () => png(84, 84))) },
      { code: 'context_length_exceeded' },
    ],
    [
      'a picture of low detail',
      { messages: user([{ type: 'image_url', image_url: { url: png(28, 28), detail: 'low' } }]) },
      { param: 'messages[0].content[0].image_url.detail' },
    ],
  ])('refuses %s, naming it', async (_, changes, expected) => {
    const error = await refused(client.chat.completions.create(ask(changes)));
    expect(error.type).toBe('invalid_request_error');
    for (const [key, value] of Object.entries<unknown>({ status: 400, ...expected })) {
      const given: unknown = error[key as keyof APIError];
      if (value instanceof RegExp) expect(given).toMatch(value);
      else expect(given).toBe(value);
    }
  });

  test('does not inflate more of a PNG than its size needs', async () => {
    // 200 MB of zeros behind the rows of a picture of 28 × 28.
    const chunk = (type: string, data: Buffer): Buffer => {
      const body = Buffer.concat([Buffer.from(type), data]);
      const frame = Buffer.alloc(8);
      frame.writeUInt32BE(data.length, 0);
      frame.writeUInt32BE(crc32(body), 4);
      return Buffer.concat([frame.subarray(0, 4), body, frame.subarray(4)]);
    };
    const whole = Buffer.from(encodePng(picture(28, 28)));
    const swollen = Buffer.concat([
      whole.subarray(0, 33),
      chunk('IDAT', deflateSync(Buffer.alloc(2e8))),
      chunk('IEND', Buffer.alloc(0)),
    ]);
    const before = process.memoryUsage.rss();
    const url = `data:image/png;base64,${swollen.toString('base64')}`;
    const answer = await client.chat.completions.create(ask({ messages: showing(url), max_tokens: 1 }));
    expect(answer.usage!.completion_tokens).toBe(1);
    expect(process.memoryUsage.rss() - before).toBeLessThan(150e6);
  });

  test('refuses what is not JSON, or said to be something else', async () => {
    const post = (body: string, type = 'application/json'): Promise<Response> =>
      fetch(`${service.url}/v1/chat/completions`, {
        ...{ method: 'POST', body },
        headers: { 'Content-Type': type, Authorization: `Bearer ${API_KEY}` },
      });
    expect(await errorOf(await post('{'))).toMatchObject({ status: 400, code: 'invalid_json' });
    expect(await errorOf(await post('[]'))).toMatchObject({ status: 400 });
    expect(await errorOf(await post('['.repeat(2e6)))).toMatchObject({ status: 400, code: 'invalid_json' });
    expect(await errorOf(await post('{}', 'text/plain'))).toMatchObject({
      status: 415,
      param: 'Content-Type',
    });
    const prototype = `{"__proto__": {"n": 3}, ${JSON.stringify(ask()).slice(1)}`;
    expect(await errorOf(await post(prototype))).toMatchObject({ status: 400, param: '__proto__' });
  });
});

describe('a policy that cannot be served', () => {
  test('is named with what is wrong with it', async () => {
    const wrong = { ...TINY_POLICY, policy: `${GOLDEN}/nothing` };
    await expect(openService({ policy: wrong })).rejects.toThrow(/nothing: no such directory/);
    const device = { ...TINY_POLICY, device: 'cuda:7' };
    await expect(openService({ policy: device })).rejects.toThrow(/cuda/);
  });
});

test('what takes too long is ended, with an error in the stream where it has begun', async () => {
  const long = (temperature: number): Body => ask({ temperature, max_tokens: 440, n: 8 });
  // A quarter of what one answer takes on this machine: the quicker of two, as other work may slow one of them.
  let seconds = Number.POSITIVE_INFINITY;
  for (let round = 0; round < 2; round++) {
    const began = performance.now();
    await client.chat.completions.create(long(1));
    seconds = Math.min(seconds, (performance.now() - began) / 4000);
  }
  const slow = await openService({ policy: TINY_POLICY, apiKey: API_KEY, limits: { seconds } });
  try {
    const impatient = openClient(slow);
    const stream = await impatient.chat.completions.create({ ...long(0.9), stream: true });
    // Sampled differently, they are decoded one after the other: the last is still waiting when its time is over.
    const behind = Promise.allSettled([1, 1.1, 1.2].map((t) => impatient.chat.completions.create(long(t))));
    const read = async (): Promise<void> => {
      for await (const _ of stream);
    };
    expect(await refused(read())).toMatchObject({ code: 'timeout', type: 'server_error' });
    expect((await behind).at(-1)).toMatchObject({
      status: 'rejected',
      reason: { status: 504, code: 'timeout' },
    });
  } finally {
    await slow.close();
  }
});
