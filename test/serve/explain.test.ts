import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type AnomalyReport, REPORT } from '../../src/explain/schema.ts';
import { Random } from '../../src/ground/random.ts';
import { inside } from '../helpers/command-line.ts';
import { errorOf, openService, type TestService, until } from '../helpers/service.ts';

/** 400 minutes of a wave, with a spike at 250, and a second column that stays calm. */
const draw = new Random(5, 'service');
const values = Array.from(
  { length: 400 },
  (_, i) => 10 * Math.sin(i / 9) + draw.normal() + (i === 250 ? 90 : 0),
);
const calm = values.map(() => 3 + 0.1 * draw.normal());
const times = values.map((_, i) => new Date(Date.UTC(2025, 4, 6) + 60_000 * i).toISOString());
const table = `time,requests,errors\n${values.map((value, i) => `${times[i]},${value},${calm[i]}`).join('\n')}\n`;

let service: TestService;
let directory = '';
/** What the command prints about the table. */
let printed = '';
beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'service-'));
  const file = join(directory, 'shop.csv');
  writeFileSync(file, table);
  const options = ['--format', 'json', '--severity', '3', '--column', 'requests'];
  printed = (await inside('detect', file, ...options)).out;
  service = await openService();
});
afterAll(async () => {
  await service.close();
  rmSync(directory, { recursive: true, force: true });
});

const explain = (
  body: string | Uint8Array<ArrayBuffer>,
  { query = '', type = 'text/csv', ...headers }: Record<string, string> = {},
): Promise<Response> =>
  fetch(`${service.url}/v1/explain${query}`, {
    method: 'POST',
    body,
    headers: { 'Content-Type': type, ...headers },
  });
const explainJson = (body: unknown, headers: Record<string, string> = {}): Promise<Response> =>
  explain(JSON.stringify(body), { type: 'application/json', ...headers });
const reportOf = async (response: Response): Promise<AnomalyReport> => {
  expect(response.status).toBe(200);
  return REPORT.parse(await response.json());
};

/** Sends bytes and gathers what comes back until the connection is closed. */
async function raw(text: string): Promise<string> {
  const socket = connect(service.port, '127.0.0.1');
  let answer = '';
  socket.on('data', (chunk) => (answer += chunk.toString()));
  socket.on('error', () => {});
  socket.write(text);
  await once(socket, 'close');
  return answer;
}

describe('POST /v1/explain', () => {
  test('answers with the report that `timeseer detect --format json` prints', async () => {
    const response = await explain(table, { query: '?name=shop.csv&severity=3&column=requests' });
    expect(response.headers.get('content-type')).toBe('application/json');
    expect(await response.text()).toBe(printed);
    expect(JSON.parse(printed).findings).toMatchObject([{ column: 'requests', start: 250, end: 251 }]);
  });

  test('takes lists of numbers with their times, and finds in them what it finds in the table', async () => {
    const fromTable = await reportOf(await explain(table));
    const body = {
      columns: { requests: values, errors: calm },
      time: times,
      options: { name: 'recording.csv' },
    };
    const fromLists = await reportOf(await explainJson(body));
    // Rows are counted from the first value, not from the header.
    const { rows, ...finding } = fromLists.findings[0]!;
    expect(rows).toEqual({ first: 251, last: 251 });
    expect(fromTable.findings[0]).toMatchObject({ ...finding, rows: { first: 252, last: 252 } });
    expect({ ...fromLists, findings: [] }).toEqual({ ...fromTable, findings: [] });
  });

  test('reads numbers of a list as they are, whatever their notation would mean in a table', async () => {
    // As a table, `1.234` beside `12.345` may be thousands, and trailing empty rows are cut.
    const list = [
      1.234,
      12.345,
      null,
      123.456,
      ...Array.from({ length: 40 }, (_, i) => i + 0.125),
      null,
      null,
    ];
    const { columns, samples } = await reportOf(await explainJson({ values: list }));
    expect(samples).toBe(list.length);
    expect(columns).toMatchObject([{ name: 'value', least: 0.125, largest: 123.456, missing: 3 }]);
  });

  test('reads counters as rates and numbers with the separator that it is told', async () => {
    const counter = Array.from({ length: 60 }, (_, i) => `${times[i]},${i * 7}`).join('\n');
    const rated = await reportOf(
      await explain(`time,octets\n${counter}\n`, { query: '?rate=octets&rate=auto' }),
    );
    expect(rated.notes.map(({ kind }) => kind)).toContain('rate');
    const lists = { values: Array.from({ length: 60 }, (_, i) => i * 7), options: { rate: 'value' } };
    expect((await reportOf(await explainJson(lists))).columns).toMatchObject([{ least: 7, largest: 7 }]);
    const thousands = `time;load\n${times
      .slice(0, 60)
      .map((time, i) => `${time};1.${100 + i}`)
      .join('\n')}\n`;
    const read = await reportOf(await explain(thousands, { query: '?decimal=,' }));
    expect(read.columns).toMatchObject([{ least: 1100, largest: 1159 }]);
  });

  test('names its parameters in errors, and not options of a command', async () => {
    const rows = Array.from(
      { length: 9 },
      (_, i) => `2025-03-01T00:0${i}Z,a,${i}\n2025-03-01T00:0${i}Z,b,${i}`,
    );
    const response = await explain(`time,host,v\n${rows.join('\n')}\n`);
    expect(response.status).toBe(400);
    expect(await response.text()).toContain("choose one with key host select a, or all with select '*'");
  });

  test('reads any encoding and decimal commas, and says so', async () => {
    const european = `﻿Zeit;Last\n${values.map((value, i) => `${times[i]};${value.toFixed(2).replace('.', ',')}`).join('\n')}\n`;
    const report = await reportOf(await explain(Buffer.from(european, 'utf16le')));
    expect(report.findings[0]).toMatchObject({ column: 'Last', start: 250 });
    expect(report.notes.map(({ kind }) => kind)).toEqual(
      expect.arrayContaining(['encoding', 'decimal-comma']),
    );
  });

  test.each([
    ['text/html', 'text/html; charset=utf-8', /^<!doctype html>[\s\S]*Written by timeseer/i],
    ['text/csv', 'text/csv; charset=utf-8', /^id,rank,column/],
    ['text/markdown;q=0.9, application/xml', 'text/markdown; charset=utf-8', /^# Anomalies in recording/],
    ['text/*', 'text/html; charset=utf-8', /^<!doctype html>/i],
    ['application/xml, */*;q=0.1', 'application/json', /^\{\n {2}"schema"/],
  ])('answers to Accept: %s with %s', async (accept, type, begin) => {
    const response = await explain(table, { Accept: accept });
    expect(response.headers.get('content-type')).toBe(type);
    expect(await response.text()).toMatch(begin);
  });

  test('takes the form from an option, and leaves out what was over before a moment', async () => {
    const annotations = await explain(table, { query: '?format=grafana-annotations&column=requests' });
    expect(await annotations.json()).toMatchObject([{ time: Date.parse(times[250]!) }]);
    const late = await reportOf(await explain(table, { query: '?since=1h&column=requests' }));
    expect(late.findings).toEqual([]);
  });

  test.each<[string, () => Promise<Response>, object]>([
    [
      'an unknown option',
      () => explain(table, { query: '?severty=3' }),
      { param: 'severty', message: /Did you mean severity/ },
    ],
    [
      'an option given twice',
      () => explain(table, { query: '?tz=UTC&tz=UTC' }),
      { param: 'tz', message: /given twice/ },
    ],
    ['a number that is none', () => explain(table, { query: '?severity=much' }), { param: 'severity' }],
    ['an empty number', () => explain(table, { query: '?severity=' }), { param: 'severity' }],
    [
      'a number out of range',
      () => explain(table, { query: '?severity=0.5' }),
      { message: /severity.*1 to 100/ },
    ],
    [
      'a direction that is none',
      () => explain(table, { query: '?direction=up' }),
      { message: /above, below, both/ },
    ],
    [
      'a column that is not there',
      () => explain(table, { query: '?column=latency' }),
      { message: /latency/ },
    ],
    [
      'an option of the prototype',
      () => explain(table, { query: '?constructor=1&__proto__=2' }),
      { param: 'constructor' },
    ],
    ['a table without numbers', () => explain('a,b\nx,y\nz,w\n'), { message: /recording\.csv/ }],
    ['an empty body', () => explain(''), { message: /body is empty/ }],
    ['an archive', () => explain(Buffer.from('1f8b0800', 'hex')), { message: /gzip/ }],
    [
      'broken JSON',
      () => explain('{"values": [1, 2', { type: 'application/json' }),
      { code: 'invalid_json' },
    ],
    [
      'NaN in JSON',
      () => explain('{"values": [1, NaN]}', { type: 'application/json' }),
      { code: 'invalid_json' },
    ],
    [
      'JSON that is not UTF-8',
      () => explain(Buffer.from('{"a":"\xff"}', 'latin1'), { type: 'application/json' }),
      { code: 'invalid_json' },
    ],
    [
      'a million brackets',
      () => explain('['.repeat(1e6), { type: 'application/json' }),
      { code: 'invalid_json' },
    ],
    [
      'nested lists',
      () => explain(`{"values":${'['.repeat(1e5)}${']'.repeat(1e5)}}`, { type: 'application/json' }),
      { param: 'values[0]' },
    ],
    [
      'an infinite number',
      () => explain('{"values": [1, 1e999]}', { type: 'application/json' }),
      { param: 'values[1]', message: /Infinity/ },
    ],
    ['a text among numbers', () => explainJson({ columns: { a: [1, '2'] } }), { param: 'columns.a[1]' }],
    ['neither values nor columns', () => explainJson({ value: [1] }), { param: 'value' }],
    ['values and columns', () => explainJson({ values: [1], columns: {} }), { message: /either/ }],
    [
      'columns of unequal length',
      () => explainJson({ columns: { a: [1, 2], b: [1] } }),
      { param: 'columns.b' },
    ],
    ['a column named like a number', () => explainJson({ columns: { 7: [1, 2] } }), { param: 'columns.7' }],
    ['too few times', () => explainJson({ values: [1, 2, 3], time: [1, 2] }), { param: 'time' }],
    [
      'a time that is none',
      () => explainJson({ values, time: times.with(7, 'noon-ish') }),
      { param: 'time[7]' },
    ],
    [
      'an option of tables',
      () => explainJson({ values, options: { column: 'a' } }),
      { param: 'options.column' },
    ],
    [
      'a number as text in JSON',
      () => explainJson({ values, options: { severity: '3' } }),
      { param: 'options.severity' },
    ],
    [
      'options of JSON in the address',
      () => explainJson({ values }, { query: '?severity=3' }),
      { param: 'severity' },
    ],
    [
      'keys of the prototype',
      () => explain('{"__proto__":{"values":[1,2]}}', { type: 'application/json' }),
      { param: '__proto__' },
    ],
  ])('refuses %s, naming it', async (_, send, expected) => {
    const error = await errorOf(await send());
    expect(error).toMatchObject({ status: 400, type: 'invalid_request_error' });
    for (const [key, value] of Object.entries(expected)) {
      if (value instanceof RegExp) expect(error[key]).toMatch(value);
      else expect(error[key]).toBe(value);
    }
  });

  test('reads no file, whatever a request names', async () => {
    const file = join(directory, 'secret.csv');
    writeFileSync(file, `secret\n${values.join('\n')}\n`);
    for (const send of [
      explain(file),
      explain(table, { query: `?name=${encodeURIComponent(file)}` }),
      explain(table, { query: `?time=${encodeURIComponent(file)}` }),
      explainJson({ values, options: { name: file } }),
      explainJson({ values: file }),
    ]) {
      expect(await (await send).text()).not.toContain('"secret"');
    }
    expect(
      await raw(`GET /v1/..%2f..${file} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`),
    ).toMatch(/^HTTP\/1\.1 404 /);
  });

  test('takes only tables and JSON, as they are', async () => {
    const expected = { status: 415, type: 'invalid_request_error' };
    expect(await errorOf(await explain(table, { type: 'text/plain' }))).toMatchObject(expected);
    expect(await errorOf(await explain(table, { type: 'application/x-www-form-urlencoded' }))).toMatchObject(
      expected,
    );
    const gzip = await explain(table, { 'Content-Encoding': 'gzip' });
    expect(await errorOf(gzip)).toMatchObject({ ...expected, param: 'Content-Encoding' });
    expect(await errorOf(await explain(table, { Accept: 'image/png' }))).toMatchObject({
      status: 406,
      param: 'Accept',
    });
  });

  test('escapes names that come with a request in the page', async () => {
    const body = {
      columns: { '<script>alert(1)</script>': values },
      options: { name: '<img src=x onerror=alert(2)>' },
    };
    const page = await (await explainJson(body, { Accept: 'text/html' })).text();
    expect(page).not.toContain('<script>alert(1)');
    expect(page).not.toContain('<img src=x');
    expect(page).toContain('&lt;img src=x');
  });
});

describe('the service', () => {
  test('answers others while it explains, and again after requests that were aborted', async () => {
    const many = JSON.stringify({
      values: Array.from({ length: 150_000 }, (_, i) => Math.sin(i / 50) + (i % 7)),
    });
    const stop = new AbortController();
    const send = (signal: AbortSignal): Promise<Response> =>
      fetch(`${service.url}/v1/explain`, {
        ...{ method: 'POST', body: many, signal },
        headers: { 'Content-Type': 'application/json' },
      });
    const running = [1, 2, 3].map(() => send(stop.signal).catch((error: Error) => error.name));
    const health = async (): Promise<number> =>
      ((await (await fetch(`${service.url}/readyz`)).json()) as { requests: { explain: number } }).requests
        .explain;
    await until(async () => (await health()) === 3);
    stop.abort();
    expect(await Promise.all(running)).toEqual(['AbortError', 'AbortError', 'AbortError']);
    await until(async () => (await health()) === 0);
    expect((await reportOf(await explain(table))).findings).not.toEqual([]);
    expect(service.log.join('')).toContain('POST /v1/explain 499');
    expect(service.log.join('')).not.toMatch(/error/);
  });

  test('tells what there is, and how it is asked', async () => {
    const health = await fetch(`${service.url}/readyz`);
    expect(await health.json()).toEqual({
      ...{ status: 'ready', model: null, requests: { explain: 0, chat: 0 } },
    });
    expect(health.headers.get('access-control-allow-origin')).toBeNull();
    expect(await (await fetch(`${service.url}/v1/models`)).json()).toEqual({ object: 'list', data: [] });
    expect(await errorOf(await fetch(`${service.url}/v2`))).toMatchObject({ status: 404, code: 'not_found' });
    const wrong = await fetch(`${service.url}/v1/explain`);
    expect(wrong.headers.get('allow')).toBe('POST');
    expect(await errorOf(wrong)).toMatchObject({ status: 405, code: 'method_not_allowed' });
    const chat = await fetch(`${service.url}/v1/chat/completions`, {
      ...{ method: 'POST', body: '{}', headers: { 'Content-Type': 'application/json' } },
    });
    expect(await errorOf(chat)).toMatchObject({ status: 404, code: 'model_not_found' });
  });

  test.each([
    ['evil.example', 403],
    [`evil.example:80`, 403],
    ['127.0.0.1.evil.example', 403],
    ['localhost.evil.example', 403],
    ['localhost@evil.example', 400],
    ['localhost', 200],
    ['LOCALHOST:1', 200],
    ['127.0.0.9:80', 200],
    ['[::1]:80', 200],
  ])('on this machine alone, answers to the name %s with %i', async (host, status) => {
    const answer = await raw(`GET /readyz HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
    expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
    if (status !== 200) expect(answer).toContain('{"error":{"message":');
  });

  test('refuses bodies and headers that are too large, before they have come in', async () => {
    const head = 'POST /v1/explain HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\n';
    const stated = await raw(`${head}Content-Length: 9000000\r\n\r\nv\n1\n`);
    expect(stated).toMatch(/^HTTP\/1\.1 413 [\s\S]*"code":"body_too_large"/);
    const part = `10000\r\n${'1\n'.repeat(0x8000)}\r\n`;
    const chunked = await raw(`${head}Transfer-Encoding: chunked\r\n\r\n${part.repeat(140)}`);
    expect(chunked).toMatch(/^HTTP\/1\.1 413 /);
    expect(await raw(`GET /readyz HTTP/1.1\r\nHost: localhost\r\nX: ${'a'.repeat(40_000)}\r\n\r\n`)).toMatch(
      /^HTTP\/1\.1 431 /,
    );
  });
});

describe('limits', () => {
  const long = JSON.stringify({
    values: Array.from({ length: 400_000 }, (_, i) => Math.sin(i / 50) + (i % 7)),
  });
  const post = (url: string, body = table, headers: Record<string, string> = {}): Promise<Response> =>
    fetch(`${url}/v1/explain`, {
      ...{ method: 'POST', body },
      headers: { 'Content-Type': body === table ? 'text/csv' : 'application/json', ...headers },
    });

  test('refuses what it has no place for, and says when to come again; a request that takes too long is ended', async () => {
    const full = await openService({ limits: { queue: 1, seconds: 1 } });
    try {
      const first = post(full.url, long);
      await until(async () => (await (await fetch(`${full.url}/readyz`)).text()).includes('"explain":1'));
      const refused = await post(full.url);
      expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
      expect(await errorOf(refused)).toMatchObject({
        status: 429,
        type: 'rate_limit_error',
        code: 'queue_full',
      });
      expect(await errorOf(await first)).toMatchObject({
        status: 504,
        type: 'server_error',
        code: 'timeout',
      });
    } finally {
      await full.close();
    }
  });

  test('asks for the key, which it never logs', async () => {
    const apiKey = 'tell-nobody-7';
    const closed = await openService({ apiKey });
    try {
      for (const [authorization, message] of [
        [undefined, /no API key/],
        ['Bearer tell-nobody-8', /wrong/],
        ['Bearer tell-nobody', /wrong/],
        [`Basic ${apiKey}`, /no API key/],
        [`Bearer ${apiKey} x`, /no API key/],
      ] as const) {
        const headers = authorization === undefined ? {} : { Authorization: authorization };
        const refused = await post(closed.url, table, headers);
        expect(refused.headers.get('www-authenticate')).toBe('Bearer');
        const error = await errorOf(refused);
        expect(error).toMatchObject({ status: 401, type: 'authentication_error', code: 'invalid_api_key' });
        expect(error['message']).toMatch(message);
      }
      expect((await fetch(`${closed.url}/v1/models`)).status).toBe(401);
      expect((await fetch(`${closed.url}/readyz`)).status).toBe(200);
      expect((await post(closed.url, table, { Authorization: `Bearer ${apiKey}` })).status).toBe(200);
      expect(closed.log.join('')).toContain('POST /v1/explain 401');
      expect(closed.log.join('')).not.toContain('tell-nobody');
    } finally {
      await closed.close();
    }
  });

  test('answers what it has taken on before it ends, and takes nothing new', async () => {
    const ending = await openService();
    const socket = connect(ending.port, '127.0.0.1');
    let answers = '';
    socket.on('data', (chunk) => (answers += chunk.toString()));
    // The second request may reach a connection that has ended.
    socket.on('error', () => {});
    const ended = new Promise((done) => socket.once('close', done));
    const body = `POST /v1/explain HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\nContent-Length: ${Buffer.byteLength(table)}\r\n\r\n${table}`;
    socket.write(body);
    await until(async () => (await (await fetch(`${ending.url}/readyz`)).text()).includes('"explain":1'));
    const closed = ending.close();
    socket.write('GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n');
    await closed;
    // The service may have closed before this side has read what it sent.
    await ended;
    expect(answers).toMatch(/^HTTP\/1\.1 200 [\s\S]*"timeseer\.anomalies"/);
    expect(answers.match(/HTTP\/1\.1 (\d+)/g)!.slice(1)).toEqual(
      answers.includes('503') ? ['HTTP/1.1 503'] : [],
    );
    await expect(post(ending.url)).rejects.toThrow(/fetch failed/);
  });

  test('says which address it cannot listen to', async () => {
    const one = await openService();
    await expect(openService({ port: one.port })).rejects.toThrow(
      `--host 127.0.0.1 --port ${one.port}: another program listens there`,
    );
    await one.close();
  });
});
