/** The description of the service agrees with the service; answers in events come as they are made. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { type AnomalyReport, REPORT } from '../../src/explain/schema.ts';
import { METHODS } from '../../src/serve/app.ts';
import { OPTIONS } from '../../src/serve/explain-request.ts';
import { openApi } from '../../src/serve/openapi.ts';
import { errorOf, openService, type TestService, until } from '../helpers/service.ts';

let service: TestService;
beforeAll(async () => {
  service = await openService();
});
afterAll(() => service.close());

/** Parts of OpenAPI 3.1 that the description uses; no other field may be there. */
const CONTENT = z.record(
  z.string().regex(/^[a-z]+\/[a-z-]+(?:; charset=utf-8)?$/),
  z.strictObject({ schema: z.record(z.string(), z.unknown()), example: z.unknown().optional() }),
);
const OPERATION = z.strictObject({
  summary: z.string().min(5),
  description: z.string().optional(),
  security: z.array(z.record(z.string(), z.array(z.string()))).optional(),
  parameters: z
    .array(
      z
        .strictObject({
          ...{ name: z.string(), in: z.enum(['query', 'path']), required: z.literal(true).optional() },
          schema: z.record(z.string(), z.unknown()),
        })
        .refine((one) => (one.in === 'path') === (one.required === true)),
    )
    .optional(),
  requestBody: z.strictObject({ required: z.boolean(), content: CONTENT }).optional(),
  responses: z.record(
    z.string().regex(/^(?:\d{3}|default)$/),
    z.strictObject({ description: z.string(), content: CONTENT }),
  ),
});
const DOCUMENT = z.strictObject({
  openapi: z.literal('3.1.0'),
  info: z.strictObject({ title: z.string(), version: z.string() }),
  security: z.array(z.record(z.string(), z.array(z.string()))),
  paths: z.record(
    z.string().startsWith('/'),
    z.record(z.enum(['get', 'post']), OPERATION).or(z.partialRecord(z.enum(['get', 'post']), OPERATION)),
  ),
  components: z.strictObject({
    securitySchemes: z.strictObject({
      key: z.strictObject({ type: z.literal('http'), scheme: z.literal('bearer') }),
    }),
    schemas: z.record(z.string(), z.record(z.string(), z.unknown())),
  }),
});
const described = DOCUMENT.parse(JSON.parse(JSON.stringify(openApi())));

/** All values of a key, at any depth. */
const valuesOf = (value: unknown, key: string): unknown[] =>
  typeof value !== 'object' || value === null
    ? []
    : Object.entries(value).flatMap(([name, item]) => [
        ...(name === key ? [item] : []),
        ...valuesOf(item, key),
      ]);

const explain = (body: string, type: string, query = '', accept?: string): Promise<Response> =>
  fetch(`${service.url}/v1/explain${query}`, {
    ...{ method: 'POST', body },
    headers: { 'Content-Type': type, ...(accept === undefined ? {} : { Accept: accept }) },
  });

describe('GET /openapi.json', () => {
  test('is a document of OpenAPI 3.1 whose references resolve and whose schemas compile', async () => {
    expect(await (await fetch(`${service.url}/openapi.json`)).json()).toEqual(described);
    for (const reference of valuesOf(described, '$ref')) {
      expect(reference).toMatch(/^#\/components\/schemas\/\w+$/);
      expect(described.components.schemas).toHaveProperty(String(reference).split('/').at(-1)!);
    }
    expect(valuesOf(described, '$schema').filter((schema) => typeof schema === 'string')).toEqual([
      'https://json-schema.org/draft/2020-12/schema', // of the report, as `detect --schema` prints it
    ]);
    const schemas = valuesOf(described, 'schema').filter(
      (schema) => !Object.hasOwn(schema as object, '$ref'),
    );
    for (const schema of [...schemas, ...Object.values(described.components.schemas)])
      expect(() => z.fromJSONSchema(schema as never)).not.toThrow();
  });

  test('has every route with its method, and no other', () => {
    const routes = Object.entries(described.paths).map(([path, methods]) => [
      path.replaceAll(/\{(\w+)\}/g, ':$1'),
      Object.keys(methods).join().toUpperCase(),
    ]);
    expect(Object.fromEntries(routes)).toEqual(METHODS);
  });

  test('has every option, which the service takes as described', async () => {
    const { parameters } = described.paths['/v1/explain']!.post!;
    expect(parameters!.map(({ name }) => name).sort()).toEqual(Object.keys(OPTIONS).sort());
    const table = `time,load\n${Array.from({ length: 40 }, (_, i) => `${new Date(60_000 * i + 1e12).toISOString()},${i % 7}\n`).join('')}`;
    for (const { name, schema } of parameters!) {
      const { enum: words } = schema as { enum?: string[] };
      for (const word of words ?? [])
        expect([
          name,
          word,
          (await explain(table, 'text/csv', `?${new URLSearchParams({ [name]: word })}`)).status,
        ]).toEqual([name, word, 200]);
      const wrong = await errorOf(await explain(table, 'text/csv', `?${name}=`));
      expect(wrong).toMatchObject({ status: 400, param: name });
    }
  });

  test('has examples that are taken, and describes the report', async () => {
    const { content } = described.paths['/v1/explain']!.post!.requestBody!;
    const report = z.fromJSONSchema(described.components.schemas['Report'] as never);
    const { example } = content['application/json']!;
    const answer = await explain(JSON.stringify(example), 'application/json');
    expect(answer.status).toBe(200);
    expect(report.safeParse(await answer.json()).success).toBe(true);
    const refused = await (await explain('{"value": 1}', 'application/json')).json();
    expect(z.fromJSONSchema(described.components.schemas['Error'] as never).safeParse(refused).success).toBe(
      true,
    );
  });

  test.each([
    [{ values: [1, null, 2], time: ['2025-03-01', '2025-03-02', '2025-03-03'] }, true],
    [{ columns: { a: [1] }, options: { severity: 3, direction: 'above' } }, true],
    [{ values: ['1'] }, false],
    [{ values: [1], more: 1 }, false],
    [{ values: [1], options: { column: 'a' } }, false],
    [{ values: [1], options: { severity: 'high' } }, false],
  ])('its body of JSON fits %j: %s, as the service has it', async (body, fits) => {
    const { schema } = described.paths['/v1/explain']!.post!.requestBody!.content['application/json']!;
    expect(z.fromJSONSchema(schema as never).safeParse(body).success).toBe(fits);
    const { message = '' } = (await errorOf(await explain(JSON.stringify(body), 'application/json')).catch(
      () => ({}),
    )) as { message?: string };
    expect(/expected|no (?:field|option) is called/.test(message)).toBe(!fits);
  });
});

describe('an explanation in events', () => {
  interface Event {
    readonly event: string;
    readonly data: Record<string, unknown>;
  }
  const parse = (text: string): Event[] =>
    text
      .trimEnd()
      .split('\n\n')
      .map((block) => {
        const [, event, data] = /^event: (\w+)\ndata: (.*)$/.exec(block)!;
        return { event: event!, data: JSON.parse(data!) };
      });
  const columns = (length: number) => ({
    a: Array.from({ length }, (_, i) => (i % 5) + (i === 150 ? 60 : 0)),
    b: Array.from({ length }, (_, i) => (i % 7) + (i === 160 ? 90 : 0)),
  });
  const ask = (body: object, more: object = {}) =>
    fetch(`${service.url}/v1/explain`, {
      ...{ method: 'POST', body: JSON.stringify(body), ...more },
      headers: { 'Content-Type': 'application/json', Accept: 'text/event-stream' },
    });

  test('tells the progress, each finding and the report', async () => {
    const body = { columns: columns(400) };
    const answer = await ask(body);
    expect(answer.headers.get('content-type')).toMatch(/^text\/event-stream/);
    const events = parse(await answer.text());
    const shares = events.filter(({ event }) => event === 'progress').map(({ data }) => data['share']);
    expect(shares).toEqual([0.5, 1]);
    const report = REPORT.parse(events.at(-1)!.data) as AnomalyReport;
    expect(events.at(-1)!.event).toBe('report');
    expect(report.findings.length).toBeGreaterThan(1);
    expect(events.flatMap(({ event, data }) => (event === 'finding' ? [data] : []))).toEqual(report.findings);
    const whole = await (await explain(JSON.stringify(body), 'application/json')).json();
    expect(report).toEqual(whole);
  });

  test.each<[string, object, number, RegExp]>([
    ['a wrong option', { values: [1, 2], options: { severity: 'x' } }, 400, /severity/],
    ['another form', { values: [1, 2], options: { format: 'csv' } }, 400, /format/],
    ['too many values', { values: Array.from({ length: 2_000_001 }, () => 1) }, 413, /more than/],
  ])('%s is refused as usual', async (_, body, status, message) => {
    const answer = await ask(body);
    expect(await errorOf(answer)).toMatchObject({ status, message: expect.stringMatching(message) });
  });

  test('what fails after the first event is an event, and frees its place', async () => {
    const short = await openService({ limits: { seconds: 1 } });
    try {
      const answer = await fetch(`${short.url}/v1/explain`, {
        ...{ method: 'POST', body: JSON.stringify({ columns: columns(300_000) }) },
        headers: { 'Content-Type': 'application/json', Accept: 'text/event-stream' },
      });
      if (answer.status === 200) {
        const last = parse(await answer.text()).at(-1)!;
        expect(last).toMatchObject({ event: 'error', data: { code: 'timeout' } });
      } else expect(answer.status).toBe(504); // the Worker had not begun
      const ready = async () =>
        ((await (await fetch(`${short.url}/readyz`)).json()) as { requests: object }).requests;
      expect(await ready()).toEqual({ explain: 0, chat: 0 });
    } finally {
      await short.close();
    }
  });

  test('a client that vanishes ends the work', async () => {
    const stop = new AbortController();
    const answer = await ask({ columns: columns(300_000) }, { signal: stop.signal });
    expect(answer.status).toBe(200);
    const running = async () =>
      ((await (await fetch(`${service.url}/readyz`)).json()) as { requests: { explain: number } }).requests
        .explain;
    expect(await running()).toBe(1);
    stop.abort();
    await answer.text().catch(() => {});
    await until(async () => (await running()) === 0);
    expect(service.log.join('')).not.toMatch(/^error/m);
  });
});
