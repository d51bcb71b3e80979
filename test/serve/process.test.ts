/** The service as a process of its own: what it logs, measures, survives, and how it ends. */
import { type ChildProcess, spawn } from 'node:child_process';
import { connect, type Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { CLI } from '../helpers/program.ts';
import { until } from '../helpers/service.ts';

interface Answer {
  readonly model: string;
  readonly usage: { readonly completion_tokens: number };
  readonly choices: readonly { readonly finish_reason: string }[];
}

interface Running {
  readonly child: ChildProcess;
  readonly url: string;
  readonly port: number;
  /** Lines on standard error. */
  readonly log: () => string[];
  readonly ended: Promise<number | null>;
}

const running: ChildProcess[] = [];
const sockets: Socket[] = [];
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
  for (const child of running.splice(0)) child.kill('SIGKILL');
});

async function serve(...args: string[]): Promise<Running> {
  const child = spawn(process.execPath, [CLI, 'serve', '--port', '0', '--json', ...args], { stdio: 'pipe' });
  running.push(child);
  let [out, err] = ['', ''];
  child.stdout.on('data', (text) => {
    out += text;
  });
  child.stderr.on('data', (text) => {
    err += text;
  });
  const ended = new Promise<number | null>((resolve) => child.on('close', resolve));
  await Promise.race([until(() => out.includes('\n')), ended]);
  const { url, port } = JSON.parse(out);
  return { child, url, port, ended, log: () => err.split('\n').filter((line) => line !== '') };
}

const table = `v\n${Array.from({ length: 60 }, (_, i) => (i === 40 ? 50 : i % 5)).join('\n')}\n`;
const explain = ({ url }: Running, body = table): Promise<Response> =>
  fetch(`${url}/v1/explain`, { method: 'POST', body, headers: { 'Content-Type': 'text/csv' } });

/** A request whose body comes drop by drop, and what is answered. */
function dripping({ port }: Running, head = ''): { socket: Socket; answer: () => string } {
  const socket = connect(port, '127.0.0.1');
  sockets.push(socket);
  let answer = '';
  socket.on('error', () => {});
  socket.on('data', (chunk) => {
    answer += chunk;
  });
  socket.write(
    `POST /v1/explain HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\n${head}Content-Length: 1000\r\n\r\nv\n1`,
  );
  return { socket, answer: () => answer };
}

const chat = ({ url }: Running, changes: object): Promise<Response> =>
  fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({
      model: 'small',
      messages: [{ role: 'user', content: 'hi' }],
      max_tokens: 4,
      ...changes,
    }),
  });

describe('timeseer serve', () => {
  /** A service that ends while bodies have not come: it waits seconds for them, in which the other tests run. */
  let ending: Promise<{ status: number; text: string; code: number | null; slow: string; log: string }>;
  const kept: (() => void)[] = [];
  beforeAll(async () => {
    const service = await serve('--timeout', '20');
    const idle = connect(service.port, '127.0.0.1');
    sockets.push(idle.on('error', () => {}));
    idle.write('GET /readyz HTTP/1.1\r\nHost: loc');
    const slow = dripping(service);
    const values = Array.from({ length: 60_000 }, (_, i) => Math.sin(i / 50) + (i % 7));
    const taken = explain(service, `v\n${values.join('\n')}\n`);
    await until(async () => (await (await fetch(`${service.url}/readyz`)).text()).includes('"explain":1'));
    service.child.kill('SIGTERM');
    for (const socket of sockets.splice(0)) kept.push(() => socket.destroy());
    for (const child of running.splice(0)) kept.push(() => child.kill('SIGKILL'));
    ending = taken.then(async (answer) => ({
      ...{ status: answer.status, text: await answer.text(), code: await service.ended },
      ...{ slow: slow.answer(), log: service.log().join('\n') },
    }));
    ending.catch(() => {}); // The test that awaits it fails.
  });
  afterAll(() => {
    for (const end of kept) end();
  });

  test('answers chat with the policy that ships', async () => {
    const service = await serve('--policy', 'small');
    const answer = await chat(service, { temperature: 0 });
    expect(answer.status).toBe(200);
    const { model, usage, choices } = (await answer.json()) as Answer;
    expect(model).toBe('small');
    expect(usage.completion_tokens).toBeGreaterThanOrEqual(1);
    expect(choices[0]?.finish_reason).toBe(usage.completion_tokens === 4 ? 'length' : 'stop');
  });

  test('no address or header forges a line of the log, as text or JSON', async () => {
    const service = await serve();
    await fetch(`${service.url}/a%0aGET%20/admin%20200%0d%0ab%E2%80%A8c`, {
      headers: { 'X-Request-Id': 'a%0ab' },
    });
    await fetch(`${service.url}/readyz`, { headers: { 'X-Request-Id': 'trace-7' } });
    await until(() => service.log().length >= 2);
    const id = '[\\w.:-]{1,100}';
    expect(service.log()).toEqual([
      expect.stringMatching(
        new RegExp(`^GET /a%0aGET%20/admin%20200%0d%0ab%E2%80%A8c 404 \\d\\.\\d\\d s ${id}$`),
      ),
      expect.stringMatching(/^GET \/readyz 200 \d\.\d\d s trace-7$/),
    ]);
    const json = await serve('--log', 'json');
    const answer = await fetch(`${json.url}/a%0ab"`, { headers: { 'X-Request-Id': 'x'.repeat(101) } });
    await until(() => json.log().length >= 1);
    const line = JSON.parse(json.log()[0]!);
    expect(line).toMatchObject({ method: 'GET', path: '/a%0ab%22', status: 404, client: '127.0.0.1' });
    expect(line.id).toBe(answer.headers.get('x-request-id'));
    expect(line.id).toMatch(/^[0-9a-f-]{36}$/);
  });

  test('is measured by Prometheus and looked at by probes', async () => {
    const service = await serve();
    await explain(service);
    await fetch(`${service.url}/no/such`);
    for (const [path, status] of [
      ['healthz', 'ok'],
      ['readyz', 'ready'],
    ])
      expect(await (await fetch(`${service.url}/${path}`)).json()).toMatchObject({ status });
    const metrics = await fetch(`${service.url}/metrics`);
    expect(metrics.headers.get('content-type')).toMatch(/^text\/plain; version=0\.0\.4/);
    const text = await metrics.text();
    expect(text).toContain('timeseer_requests_total{route="/v1/explain",status="200"} 1\n');
    expect(text).toContain('timeseer_requests_total{route="other",status="404"} 1\n');
    expect(text).toContain('timeseer_requests_running{kind="explain"} 0\n');
    expect(text).toMatch(/^process_resident_memory_bytes \d+$/m);
  });

  test('bodies that drip take no place from those that come', async () => {
    const service = await serve('--max-queue', '2');
    const slow = [dripping(service), dripping(service), dripping(service)];
    await until(() => slow.some(({ answer }) => answer().startsWith('HTTP/1.1 429')));
    // Two are received; one that has been slow for a while is given up for the next.
    await until(async () => (await explain(service)).status === 200);
    await until(() => slow.some(({ answer }) => answer().startsWith('HTTP/1.1 408')));
    const given = slow.find(({ answer }) => answer().startsWith('HTTP/1.1 408'))!;
    expect(given.answer()).toMatch(/"code":"slow_body"/);
  });

  test('ends within its timeout whatever has not come, and answers what it took on', async () => {
    const { status, text, code, slow, log } = await ending;
    expect([status, text.includes('timeseer.anomalies')]).toEqual([200, true]);
    expect(code).toBe(130);
    expect(slow).toMatch(/^HTTP\/1\.1 503 [\s\S]*"code":"closing"/);
    expect(log).not.toMatch(/error/i);
  });

  test('what takes longer than it may while the service ends is told so', async () => {
    const service = await serve('--timeout', '2');
    const values = Array.from({ length: 900_000 }, (_, i) => Math.sin(i / 50) + (i % 7));
    const taken = explain(service, `v\n${values.join('\n')}\n`);
    await until(async () => (await (await fetch(`${service.url}/readyz`)).text()).includes('"explain":1'));
    service.child.kill('SIGTERM');
    expect([503, 504]).toContain((await taken).status);
    expect(await service.ended).toBe(130);
  });
});
