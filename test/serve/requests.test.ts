/** Whatever a request holds, it is read, or refused with an error that is meant for who sent it. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ConfigError, DataError } from '../../src/ground/errors.ts';
import { encodePng } from '../../src/plot/png.ts';
import { parseGenerationConfig } from '../../src/policy/model-config.ts';
import { Prompting } from '../../src/policy/policy.ts';
import { type ChatLimits, readChatRequest } from '../../src/serve/chat-request.ts';
import { type ExplainRequest, readExplainRequest } from '../../src/serve/explain-request.ts';
import { Refused } from '../../src/serve/request.ts';
import { GOLDEN, picture } from '../policy/golden.ts';

const encode = (value: unknown): Uint8Array => Buffer.from(JSON.stringify(value));

/** Null, or the error of a request that is refused. */
async function refusal(read: () => unknown): Promise<Error | null> {
  try {
    await read();
    return null;
  } catch (error) {
    const meant = error instanceof Refused || error instanceof DataError || error instanceof ConfigError;
    if (!meant) throw error;
    return error;
  }
}

describe('a request to explain', () => {
  const numbers = fc.array(fc.option(fc.double({ noNaN: true, noDefaultInfinity: true }), { freq: 9 }), {
    maxLength: 40,
  });
  const times = fc.array(
    fc.oneof(
      fc.double(),
      fc.date({ noInvalidDate: true }).map((one) => one.toISOString()),
      fc.string(),
    ),
  );
  const names = [
    'column',
    'time',
    'tz',
    'since',
    'severity',
    'direction',
    'format',
    'name',
    '__proto__',
    'x',
  ];
  const options = fc.dictionary(fc.constantFrom(...names), fc.oneof(fc.jsonValue(), fc.string()));

  it('in JSON is read or refused', async () => {
    let read = 0;
    const odd = fc.record(
      {
        values: fc.jsonValue(),
        columns: fc.oneof(fc.dictionary(fc.string(), numbers), fc.jsonValue()),
        time: fc.oneof(times, fc.jsonValue()),
        options: fc.oneof(options, fc.jsonValue()),
      },
      { requiredKeys: [] },
    );
    const body = fc.oneof(
      fc.tuple(numbers, odd).map(([values, changes]) => ({ values, ...changes })),
      fc
        .tuple(numbers, fc.oneof(options, fc.constant({})))
        .map(([values, chosen]) => ({ values, options: chosen })),
    );
    await fc.assert(
      fc.asyncProperty(body, async (fields) => {
        const request: ExplainRequest = { body: encode(fields), json: true, query: [], accept: undefined };
        if ((await refusal(() => readExplainRequest(request))) === null) read++;
      }),
      { numRuns: 400 },
    );
    expect(read).toBeGreaterThan(5);
  });

  it('in JSON keeps every number and its place', async () => {
    await fc.assert(
      fc.asyncProperty(numbers, async (values) => {
        fc.pre(values.length > 1 && values.some((value) => value !== null));
        const request: ExplainRequest = {
          body: encode({ values }),
          json: true,
          query: [],
          accept: undefined,
        };
        const { recording } = readExplainRequest(request);
        expect([...recording.columns[0]!.values]).toEqual(values.map((value) => 0 + (value ?? Number.NaN)));
        expect([...recording.rows]).toEqual(values.map((_, i) => i + 1));
      }),
    );
  });

  it('of any bytes and parameters is read or refused', async () => {
    const cell = fc.oneof(
      fc.double().map(String),
      fc.string({ maxLength: 8 }),
      fc.constantFrom('', '1,5', '2024-01-02', '"'),
    );
    const table = fc
      .array(fc.array(cell, { minLength: 1, maxLength: 3 }), { maxLength: 12 })
      .map((rows) => Buffer.from(rows.map((row) => row.join(',')).join('\n')));
    const query = fc.array(
      fc.tuple(fc.constantFrom(...names), fc.oneof(fc.string(), fc.constantFrom('2', 'UTC', '1h'))),
      {
        maxLength: 3,
      },
    );
    const accept = fc.option(fc.string(), { nil: undefined });
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(table, fc.uint8Array({ maxLength: 200 })),
        query,
        accept,
        async (body, pairs, header) => {
          await refusal(() => readExplainRequest({ body, json: false, query: pairs, accept: header }));
        },
      ),
      { numRuns: 400 },
    );
  });
});

describe('a request to chat', () => {
  const prompting = Prompting.read(GOLDEN);
  const config = parseGenerationConfig({});
  const limits: ChatLimits = { promptTokens: 300, pixels: 1e6, samples: 4 };
  const url = `data:image/png;base64,${Buffer.from(encodePng(picture(56, 28))).toString('base64')}`;
  const text = fc.oneof(fc.string(), fc.constantFrom('<|im_end|>', '<|image_pad|>', '\ud800'));
  const part = fc.oneof(
    fc.record({ type: fc.constant('text'), text }),
    fc.record({
      type: fc.constant('image_url'),
      image_url: fc.record({ url: fc.oneof(fc.constant(url), fc.webUrl()) }),
    }),
    fc.jsonValue(),
  );
  const message = fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({
        role: fc.constantFrom('user', 'system', 'assistant', 'x'),
        content: fc.oneof(text, fc.array(part)),
      }),
    },
    fc.jsonValue(),
  );

  it('is read or refused', async () => {
    let read = 0;
    const field = fc.constantFrom(
      ...['temperature', 'top_p', 'n', 'stop', 'seed', 'stream', 'stream_options', 'max_tokens'],
      ...['tools', 'logit_bias', '__proto__', 'messages', 'response_format'],
    );
    const odd = fc.oneof(fc.constant({}), fc.dictionary(field, fc.jsonValue(), { maxKeys: 2 }));
    const body = fc
      .tuple(fc.array(message, { minLength: 1, maxLength: 2 }), odd)
      .map(([messages, changes]) => ({ messages, ...changes }));
    await fc.assert(
      fc.asyncProperty(body, async (fields) => {
        const bytes = encode({ model: 'm', ...fields });
        if ((await refusal(() => readChatRequest(bytes, 'm', prompting, config, limits))) === null) read++;
      }),
      { numRuns: 400 },
    );
    expect(read).toBeGreaterThan(5);
  });
});
