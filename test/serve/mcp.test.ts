/** `timeseer mcp` as assistants start it: a process that speaks over its standard streams. */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Random } from '../../src/ground/random.ts';
import { evalRecord, writeResponse } from '../helpers/eval-records.ts';
import { decodePng } from '../helpers/png.ts';
import { CLI } from '../helpers/program.ts';

let directory = '';
let client: Client;
const place = (name: string): string => join(directory, name);

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'mcp-'));
  const draw = new Random(4, 'mcp');
  const rows = Array.from({ length: 400 }, (_, i) => {
    const at = new Date(Date.UTC(2025, 2, 1) + i * 900_000).toISOString().slice(0, 16);
    return `${at},${((i >= 300 && i < 312 ? 90 : 50) + draw.normal()).toFixed(2)},${draw.normal().toFixed(3)}`;
  });
  writeFileSync(place('load.csv'), `time,load,other\n${rows.join('\n')}\n`);
  for (const [name, found] of [
    ['a', 100],
    ['b', 300],
  ] as const) {
    const gold = { intervals: [[100, 150] as const], class: null };
    const records = Array.from({ length: 6 }, (_, i) =>
      evalRecord(`t/${i}`, gold, writeResponse([[found, found + 50]], 'trend')),
    );
    writeFileSync(place(`${name}.jsonl`), records.map((one) => `${JSON.stringify(one)}\n`).join(''));
  }
  client = new Client({ name: 'test', version: '1' });
  const transport = {
    command: process.execPath,
    args: [CLI, 'mcp'],
    cwd: directory,
    stderr: 'ignore' as const,
  };
  await client.connect(new StdioClientTransport(transport));
});
afterAll(async () => {
  await client.close();
  rmSync(directory, { recursive: true, force: true });
});

interface Content {
  readonly type: string;
  readonly text: string;
  readonly data: string;
}
async function call(name: string, given: Record<string, unknown>) {
  const { content, isError = false } = await client.callTool({ name, arguments: given });
  return { isError, content: (content as Content[])[0]! };
}

describe("the protocol's client", () => {
  test('lists the tools with what they take', async () => {
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(['detect', 'what_moved', 'explain', 'plot', 'compare']);
    for (const { description, inputSchema } of tools) {
      expect(description).toMatch(/^[A-Z].{20,}/);
      expect(Object.keys(inputSchema.properties!).length).toBeGreaterThan(2);
    }
  });

  test('gets the findings of a file', async () => {
    const { isError, content } = await call('detect', { file: 'load.csv', column: ['load'] });
    expect(isError).toBe(false);
    const { headline, findings } = JSON.parse(content.text);
    expect(findings).toMatchObject([{ column: 'load', kind: 'level', from: '2025-03-04T03:00:00' }]);
    expect(headline).toMatch(/1 finding/);
    expect(
      JSON.parse((await call('detect', { file: 'load.csv', since: '2h' })).content.text).findings,
    ).toEqual([]);
  });

  test('is told what moved in a window', async () => {
    const { content } = await call('what_moved', {
      file: 'load.csv',
      window: '2025-03-04T03:00..2025-03-04T06:00',
    });
    const { findings } = JSON.parse(content.text);
    expect(findings).toMatchObject([{ column: 'load', kind: 'level', from: '2025-03-04T03:00:00' }]);
    const wrong = await call('what_moved', { file: 'load.csv', window: '2h' });
    expect([wrong.isError, wrong.content.text]).toEqual([true, expect.stringMatching(/expected FROM/)]);
  });

  test('gets a page, and a picture', async () => {
    const { content } = await call('explain', { file: 'load.csv', out: 'load' });
    const { files } = JSON.parse(content.text);
    expect([files.html, existsSync(place('load.html')), existsSync(place('load.json'))]).toEqual([
      'load.html',
      true,
      true,
    ]);
    const plot = await call('plot', { file: 'load.csv', column: ['load'] });
    expect(plot.content.type).toBe('image');
    expect(decodePng(Buffer.from(plot.content.data, 'base64')).width).toBeGreaterThan(300);
  });

  test('compares answers', async () => {
    const { isError, content } = await call('compare', { a: 'a.jsonl', b: 'b.jsonl' });
    expect([isError, content.text]).toEqual([false, expect.stringMatching(/"differing":6/)]);
    expect(JSON.parse(content.text)).toMatchObject({ series: 6, names: ['a.jsonl', 'b.jsonl'] });
  });

  test.each<[string, Record<string, unknown>, RegExp]>([
    ['detect', { file: 'none.csv' }, /none\.csv: cannot be read \(no such file/],
    ['detect', {}, /give either file/],
    ['detect', { query: 'up' }, /start the server with --prometheus/],
    ['detect', { file: 'load.csv', severity: 'high' }, /severity/],
    ['plot', { file: 'load.csv' }, /there are 2; choose one: load, other/],
    ['explain', { file: 'load.csv', out: 'load.csv/x' }, /load\.csv/],
    ['compare', { a: 'none', b: 'none.jsonl' }, /none: no such file/],
    ['compare', { a: 'load.csv', b: 'a.jsonl' }, /load\.csv/],
    ['paint', {}, /paint/],
  ])('is told what is wrong with %s %j', async (name, given, message) => {
    const { isError, content } = await call(name, given).catch((error: Error) => ({
      ...{ isError: true, content: { text: error.message } },
    }));
    expect([isError, content.text]).toEqual([true, expect.stringMatching(message)]);
  });
});

test('what is no message is answered with an error of the protocol, and the next one is heard', () => {
  const ping = JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'ping' });
  const input = `garbage\n{"jsonrpc":"2.0"}\n[]\n\u0000\ud800\n{"id":1}\n${ping}\n`;
  const { stdout, status } = spawnSync(process.execPath, [CLI, 'mcp'], { input, encoding: 'utf8' });
  const answers = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(answers.map(({ error, id }) => error?.code ?? id)).toEqual([
    -32700, -32600, -32600, -32700, -32600, 7,
  ]);
  expect(status).toBe(0);
});

test('calls that came before the end of input are answered, and a line without end is not kept', () => {
  const start = JSON.stringify({
    ...{ jsonrpc: '2.0', id: 1, method: 'initialize' },
    params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 't', version: '1' } },
  });
  const detect = JSON.stringify({
    ...{ jsonrpc: '2.0', id: 2, method: 'tools/call' },
    params: { name: 'detect', arguments: { file: place('load.csv') } },
  });
  const run = (input: string) =>
    spawnSync(process.execPath, [CLI, 'mcp'], { input, encoding: 'utf8', maxBuffer: 1e8 });
  const { stdout } = run(`${start}\n${detect}\n`);
  expect(
    stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line).id),
  ).toEqual([1, 2]);
  const long = run('x'.repeat(2e7));
  expect([long.status, JSON.parse(long.stdout.trim().split('\n')[0]!).error.code]).toEqual([0, -32600]);
});
