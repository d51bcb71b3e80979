import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import {
  ChatError,
  type ChatRequest,
  type EndpointOptions,
  openEndpoint,
  pngPart,
} from '../../src/endpoint/chat.ts';
import { ConfigError } from '../../src/ground/errors.ts';
import { body, ChatServer, completion, json, says } from '../helpers/chat-server.ts';

const KEY = 'sk-test-4f9c2ab7e1';
const ASKED: ChatRequest = { messages: [{ role: 'user', content: 'flat?' }], temperature: 0, maxTokens: 5 };
const SHOWN: ChatRequest = {
  ...ASKED,
  messages: [
    { role: 'user', content: [pngPart(new Uint8Array([137, 80, 78])), { type: 'text', text: 'flat?' }] },
  ],
};

let server: ChatServer;
let directory: string;

beforeEach(async () => {
  vi.stubEnv('OPENAI_API_KEY', KEY);
  directory = mkdtempSync(join(tmpdir(), 'chat-'));
  server = new ChatServer();
  await server.start();
});

afterEach(async () => {
  vi.unstubAllEnvs();
  rmSync(directory, { recursive: true });
  await server.stop();
});

const open = (more: Partial<EndpointOptions> = {}) =>
  openEndpoint({ url: server.url, model: 'm', pause: 0.001, attempts: 3, ...more });

async function failure(endpoint = open(), request = ASKED): Promise<ChatError> {
  const error = await endpoint.chat(request).then(
    () => null,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(ChatError);
  expect(inspect(error, { depth: 9 })).not.toContain(KEY);
  return error as ChatError;
}

describe('a request', () => {
  test('has the form of the protocol, with the picture as a data URI and the key in its header', async () => {
    const answer = await open().chat({ ...SHOWN, seed: 7 });
    expect(answer).toMatchObject({
      text: 'yes',
      finish: 'stop',
      usage: { prompt: 70, completion: 3 },
      cost: null,
    });
    expect(answer.seconds).toBeGreaterThan(0);
    const [call] = server.calls;
    expect(call!.path).toBe('/v1/chat/completions');
    expect(call!.headers.authorization).toBe(`Bearer ${KEY}`);
    expect(call!.body).toEqual({
      ...{ model: 'm', temperature: 0, max_tokens: 5, seed: 7, n: 1, stream: false },
      messages: [
        {
          role: 'user',
          content: [
            { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBO' } },
            { type: 'text', text: 'flat?' },
          ],
        },
      ],
    });
  });

  test('holds several pictures at their places, whatever stands beside them', async () => {
    const [a, b] = [pngPart(new Uint8Array([1, 2, 3, 4])), pngPart(new Uint8Array([5]).subarray(0, 1))];
    const text = { type: 'text', text: '"quoted"\n€ 🙂' } as const;
    const foreign = { type: 'image_url', image_url: { url: 'https://host/a"b' } } as const;
    const messages = [
      { role: 'user', content: [a, text, b] },
      { role: 'assistant', content: '' },
      { role: 'user', content: [foreign, a] },
    ] as const;
    await open().chat({ messages });
    expect(server.calls[0]!.body.messages).toEqual(messages);
  });

  test('carries the key of the variable that is named, and none where OPENAI_API_KEY is unset', async () => {
    vi.stubEnv('OTHER_KEY', 'other');
    await open({ keyVariable: 'OTHER_KEY' }).chat(ASKED);
    vi.stubEnv('OPENAI_API_KEY', '');
    await open().chat(ASKED);
    expect(server.calls.map(({ headers }) => headers.authorization)).toEqual(['Bearer other', undefined]);
  });

  test('names the limit of tokens as the server wants it', async () => {
    server.next.push(
      json({ error: { message: "'max_tokens' is not supported; use 'max_completion_tokens'" } }, 400),
    );
    const endpoint = open();
    await endpoint.chat(ASKED);
    await endpoint.chat(ASKED);
    expect(server.calls.map(({ body }) => body.max_completion_tokens)).toEqual([undefined, 5, 5]);
  });

  test('is counted and priced, also where the server does not count', async () => {
    server.next.push(json({ ...completion('no'), usage: undefined }));
    const endpoint = open({ prices: { prompt: 10, completion: 1000 } });
    expect(await endpoint.chat(ASKED)).toMatchObject({ usage: null, cost: null });
    expect((await endpoint.chat(ASKED)).cost).toBeCloseTo(0.0037, 12);
    const totals = { answers: 2, cached: 0, uncounted: 1, failures: 0, retries: 0 };
    expect(endpoint.totals()).toEqual({ ...totals, usage: { prompt: 70, completion: 3 }, cost: 0.0037 });
  });

  test('waits while as many others run as may', async () => {
    let [arrived, most] = [0, 0];
    let held: (() => void)[] = [];
    // Requests are held until a third is there, and a moment longer, in which a fourth would come.
    server.usual = (response, call) => {
      held.push(() => says('yes')(response, call));
      most = Math.max(most, held.length);
      if (++arrived < 10 && held.length !== 3) return;
      setTimeout(() => {
        for (const answer of held) answer();
        held = [];
      }, 10);
    };
    const endpoint = open({ concurrency: 3 });
    await Promise.all(Array.from({ length: 10 }, () => endpoint.chat(ASKED)));
    expect(most).toBe(3);
  });
});

describe('a failure that may pass', () => {
  test('is tried again: busy, broken, half an answer, no JSON, no choices, an error instead of an answer', async () => {
    const replies = [
      json({ error: { message: 'too many' } }, 429, { 'retry-after': '0' }),
      body('oops', 500),
      json({ error: 'starting' }, 503),
      body('{"choices": [{"mess'),
      json(completion('x', { choices: [] })),
      json({ error: { message: 'upstream' } }),
      (response: import('node:http').ServerResponse) => {
        response.writeHead(200, { 'content-length': '500' }).write('{"choices"');
        setImmediate(() => response.destroy());
      },
    ];
    for (const reply of replies) {
      server.next.push(reply);
      const endpoint = open({ attempts: 2 });
      expect((await endpoint.chat(ASKED)).text).toBe('yes');
      expect(endpoint.totals().retries).toBe(1);
    }
    expect(server.calls).toHaveLength(2 * replies.length);
  });

  test('is reported with the number of tries when it stays', async () => {
    server.usual = body('oops', 500);
    const error = await failure();
    expect(error.message).toBe(
      `${server.url}/chat/completions: m answers with status 500: oops (tried 3 times)`,
    );
    expect(error).toMatchObject({ tries: 3, status: 500, everyRequest: false });
    expect(server.calls).toHaveLength(3);
  });

  test('is not waited for where the server asks for hours', async () => {
    server.next.push(json({ error: 'busy' }, 429, { 'retry-after': '7200' }));
    expect(await failure()).toMatchObject({ status: 429, tries: 1 });
  });

  test('is silence beyond the limit', async () => {
    server.usual = () => {};
    const error = await failure(open({ timeout: 0.02, attempts: 2 }));
    expect(error.message).toContain('has not answered within 0.02 s (tried 2 times)');
  });

  test('is an answer that stops half-way and stays open', async () => {
    server.next.push((response) => void response.writeHead(200).write('{"choices"'));
    expect((await open({ timeout: 0.05 }).chat(ASKED)).text).toBe('yes');
  });
});

describe('a failure for good', () => {
  test.each([
    [401, { error: { message: `bad key ${KEY}` } }, 'status 401: bad key [key]; put a valid key', true],
    [404, '<html>not here</html>', 'status 404: a web page; check the address', true],
    [
      400,
      { error: { message: 'maximum context length is 512' } },
      'status 400: maximum context length is 512',
      false,
    ],
    [429, { error: { message: 'quota', code: 'insufficient_quota' } }, 'the account is used up', true],
  ])(
    'status %i is reported at once, in the words of the server',
    async (status, answer, words, everyRequest) => {
      server.usual = typeof answer === 'string' ? body(answer, status) : json(answer, status);
      const error = await failure();
      expect(error.message).toContain(words);
      expect(error).toMatchObject({ tries: 1, everyRequest, status });
    },
  );

  test('is a model that takes no pictures', async () => {
    server.usual = json({ error: { message: 'image_url is only supported by vision models' } }, 400);
    const error = await failure(open(), SHOWN);
    expect(error.message).toMatch(
      /refuses pictures .* choose a model that takes pictures, or show the series as numbers/,
    );
    expect(error.everyRequest).toBe(true);
    expect((await failure(open(), ASKED)).message).not.toContain('refuses pictures');
  });

  test('is a server that is not there', async () => {
    await server.stop();
    const error = await failure();
    expect(error.message).toMatch(
      /cannot be reached .*; check the network.* or start the server or correct its address/,
    );
    expect(error).toMatchObject({ tries: 1, everyRequest: true });
    await server.start(); // for the end of the test
  });

  test('is a redirect, which is not followed with the key', async () => {
    const other = new ChatServer();
    await other.start();
    server.usual = json({}, 307, { location: `${other.url}/chat/completions` });
    expect((await failure()).message).toContain('redirects elsewhere (status 307)');
    expect(other.calls).toHaveLength(0);
    await other.stop();
  });

  test('is a web page, a refusal, or an answer without text', async () => {
    server.next.push(body('<!doctype html><title>Welcome</title>'));
    expect((await failure()).message).toContain('sends a web page instead of an answer; check the address');
    const message = { role: 'assistant', content: null, refusal: 'I cannot help' };
    server.next.push(json(completion(null, { choices: [{ message, finish_reason: 'stop' }] })));
    expect((await failure()).message).toMatch(/gives no text: I cannot help$/);
    server.next.push(json(completion(null)));
    expect((await failure()).message).toMatch(/gives no text: it ended with "stop"$/);
    expect(server.calls).toHaveLength(3);
  });

  test('is an answer without end', async () => {
    server.usual = (response) => {
      const write = (): void => {
        while (!response.destroyed && response.write(Buffer.alloc(1 << 20, 32)));
        if (!response.destroyed) response.once('drain', write);
      };
      write();
    };
    expect((await failure(open({ attempts: 1 }))).message).toContain('more than 16777216 bytes');
  });
});

describe('the key', () => {
  test('is blotted out of answers', async () => {
    server.next.push((response, { headers }) =>
      says(`you sent ${headers.authorization}`)(response, server.calls[0]!),
    );
    expect((await open().chat(ASKED)).text).toBe('you sent Bearer [key]');
  });

  test('is not shown where it cannot be one', () => {
    vi.stubEnv('OPENAI_API_KEY', `${KEY}\nX-Other: 1`);
    expect(() => open()).toThrow(/^OPENAI_API_KEY in the environment holds what no key does/);
  });
});

describe('options', () => {
  test.each<[Partial<EndpointOptions>, string]>([
    [{ url: 'localhost' }, 'not a URL'],
    [{ url: 'ftp://host/v1' }, 'expected http: or https:'],
    [{ url: 'http://me:word@host/v1' }, 'holds a password'],
    [{ concurrency: 0 }, 'concurrency 0; expected a whole number from 1'],
    [{ timeout: 3601 }, 'a timeout of 3601 s'],
    [{ prices: { prompt: Number.NaN, completion: 1 } }, 'prices of NaN and 1'],
    [{ model: ' ' }, 'no model is named'],
    [{ keyVariable: 'NOT_THERE' }, 'NOT_THERE is not set'],
  ])('%o are refused', (options, words) => {
    expect(() => open(options)).toThrow(ConfigError);
    expect(() => open(options)).toThrow(words);
  });

  test('the address may name the whole path', () => {
    expect(open({ url: 'http://host/v1/chat/completions/' }).address).toBe('http://host/v1/chat/completions');
  });
});

describe('an abort', () => {
  test('ends requests that are sent, that wait for their turn, and that wait to be tried again', async () => {
    const stop = new AbortController();
    server.next.push(body('', 500));
    server.usual = () => setTimeout(() => stop.abort(new Error('enough')), 10);
    const endpoint = open({ concurrency: 2, pause: 100 });
    const asked = [1, 2, 3].map(() => endpoint.chat(ASKED, stop.signal));
    const settled = await Promise.allSettled(asked);
    expect(settled.map((each) => (each as PromiseRejectedResult).reason.message)).toEqual(
      Array(3).fill('enough'),
    );
    expect(endpoint.totals().failures).toBe(0);
  });
});

describe('answers on disk', () => {
  test('are given for the same request to the same model, and cost nothing', async () => {
    const options = { cache: directory, prices: { prompt: 1, completion: 1 } };
    const first = await open(options).chat(ASKED);
    expect(await open(options).chat(ASKED)).toEqual({ ...first, cost: 0, cached: true });
    server.usual = says('other');
    for (const [more, request] of [
      [{ model: 'n' }, ASKED],
      [{}, { ...ASKED, maxTokens: 6 }],
      [{}, SHOWN],
    ] as const)
      expect((await open({ ...options, ...more }).chat(request)).text).toBe('other');
    expect(server.calls).toHaveLength(4);
  });

  test('are not kept of samples without a seed', async () => {
    const endpoint = open({ cache: directory });
    const sampled = { ...ASKED, temperature: 1 };
    await endpoint.chat(sampled);
    await endpoint.chat(sampled);
    await endpoint.chat({ ...sampled, seed: 1 });
    await endpoint.chat({ ...sampled, seed: 1 });
    expect(endpoint.totals()).toMatchObject({ answers: 4, cached: 1 });
  });

  test('that are damaged are asked for again', async () => {
    const endpoint = open({ cache: directory });
    await endpoint.chat(ASKED);
    const [name] = readdirSync(directory, { recursive: true, encoding: 'utf8' }).filter((each) =>
      each.endsWith('.json'),
    );
    const path = join(directory, name!);
    for (const damage of [
      '',
      'x',
      `${'0'.repeat(64)}\n{"text":"forged","usage":null,"seconds":1,"finish":null}`,
    ]) {
      writeFileSync(path, damage);
      expect(await endpoint.chat(ASKED)).toMatchObject({ text: 'yes', cached: false });
    }
    expect((await endpoint.chat(ASKED)).cached).toBe(true);
  });
});
