/** Webhooks of `detect --state` and `--follow`: each finding opens and closes once, whatever fails in between. */
import type { ChildProcess } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Alert } from '../../src/explain/schema.ts';
import { WEBHOOK_FORMATS, Webhook } from '../../src/run/webhook.ts';
import { inside } from '../helpers/command-line.ts';
import { followInto, levelRows as rows } from '../helpers/receiver.ts';
import { until } from '../helpers/service.ts';
import { type Answering, sends, WebServer } from '../helpers/web-server.ts';

const server = new WebServer();
let directory = '';
const place = (name: string): string => join(directory, name);

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'webhook-'));
  await server.start();
});
beforeEach(() => {
  server.calls.length = 0;
  server.next.length = 0;
  server.usual = sends('ok');
});
afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
  process.exitCode = undefined;
});
afterAll(async () => {
  await server.stop();
  rmSync(directory, { recursive: true, force: true });
});

interface Told {
  readonly id: string;
  readonly event: string;
  readonly reason?: string;
  readonly finding: { readonly id: string; readonly column: string };
}
const told = (): Told[] => server.calls.map(({ body }) => JSON.parse(body));
const events = (): string[] => told().map(({ event }) => event);

describe('a growing file', () => {
  const write = (name: string, lines: readonly string[]): string => {
    writeFileSync(place(name), `time,load\n${lines.join('')}`);
    return place(name);
  };
  const run = (name: string, ...more: string[]) =>
    inside(
      ...['detect', place(`${name}.csv`), '--state', place(`${name}.state`)],
      ...['--webhook', server.url, ...more],
    );

  test('a finding opens once and closes once, however often the job runs', async () => {
    write('twice.csv', rows(440, 430, 450));
    await run('twice');
    await run('twice');
    expect(events()).toEqual(['open']);
    write('twice.csv', rows(500, 430, 450));
    await run('twice');
    await run('twice');
    expect(told()).toMatchObject([
      {
        schema: 'timeseer.webhook',
        version: 1,
        event: 'open',
        source: 'twice.csv',
        finding: { ongoing: true },
      },
      { event: 'closed', reason: 'over', finding: { column: 'load', ongoing: false } },
    ]);
    expect(told()[1]!.finding.id).toBe(told()[0]!.finding.id);
  });

  test('an event that is not taken waits in the state for the next run, and keeps its id', async () => {
    write('down.csv', rows(440, 430, 450));
    server.usual = sends('try later', 503, { 'retry-after': '0' });
    const { code, err } = await run('down', '--fail-on', 'low');
    expect([code, err]).toEqual([
      1,
      expect.stringMatching(/status 503 \(try later\).*\n.*1 event waits in the state for the next run/),
    ]);
    expect(new Set(told().map(({ id }) => id)).size).toBe(1);
    const [{ id }] = told() as [Told];
    server.calls.length = 0;
    server.usual = sends('ok');
    await run('down');
    expect(told()).toMatchObject([{ id, event: 'open' }]);
    expect(JSON.parse(readFileSync(place('down.state'), 'utf8')).alerts).toMatchObject({
      queue: [],
      lost: 0,
    });
  });

  test('a run without the webhook keeps what waits', async () => {
    write('kept.csv', rows(440, 430, 450));
    server.usual = sends('', 503, { 'retry-after': '0' });
    await run('kept');
    const waiting = () => JSON.parse(readFileSync(place('kept.state'), 'utf8')).alerts.queue;
    const before = waiting();
    await inside('detect', place('kept.csv'), '--state', place('kept.state'));
    expect([before.length, waiting()]).toEqual([1, before]);
  });

  test('an event that the receiver refuses for good is given up, told, and does not hold up the next', async () => {
    write('refused.csv', rows(500, 430, 450));
    server.next.push(sends('invalid_payload', 400));
    const { err } = await run('refused');
    expect(err).toMatch(/status 400 \(invalid_payload\); the event is given up: load .* \(1 lost so far\)/);
    expect(events()).toEqual(['open', 'closed']);
  });

  test('nothing is known about a series that is missing, so its alert stays open', async () => {
    const lines = rows(440, 430, 450);
    write('gone.csv', lines);
    await run('gone');
    writeFileSync(place('gone.csv'), `time,other\n${rows(500, 600, 600).join('')}`);
    expect((await run('gone')).code).toBe(0);
    expect(events()).toEqual(['open']);
  });

  test.each<[string[], RegExp]>([
    [['--webhook', 'http://h'], /--webhook: needs --state/],
    [['--webhook', 'hook', '--state', 's'], /--webhook: not a URL/],
    [['--webhook', 'env:NO_SUCH_HOOK', '--state', 's'], /the environment has no such variable/],
    [['--webhook', 'http://me:secret@h', '--state', 's'], /--webhook: holds a password/],
  ])('%j is wrong usage', async (args, message) => {
    write('usage.csv', rows(100, 0, 0));
    const { code, err } = await inside('detect', place('usage.csv'), ...args);
    expect([code, err]).toEqual([2, expect.stringMatching(message)]);
    expect(err).not.toContain('secret');
    expect(existsSync('s')).toBe(false);
  });

  test('address and token come from the environment; a redirect gets neither, nor do messages', async () => {
    const token = 'a-token-that-nobody-sees';
    vi.stubEnv('HOOK', `${server.url}/secret/path`);
    vi.stubEnv('TIMESEER_WEBHOOK_TOKEN', token);
    write('secret.csv', rows(440, 430, 450));
    server.usual = sends(`moved ${token}`, 302, { location: '/elsewhere', 'retry-after': '0' });
    const args = ['detect', place('secret.csv'), '--state', place('secret.state'), '--webhook', 'env:HOOK'];
    const { err } = await inside(...args);
    expect(err).toMatch(/status 302 \(moved \[token\]\)/);
    expect(err).not.toMatch(/secret\/path|a-token/);
    expect(new Set(server.calls.map(({ path }) => path))).toEqual(new Set(['/secret/path']));
    expect(server.calls[0]!.headers.authorization).toBe(`Bearer ${token}`);
    expect(readFileSync(place('secret.state'), 'utf8')).not.toMatch(/secret\/path|a-token/);
  });
});

describe('annotations of Grafana', () => {
  interface Annotation {
    readonly id: number;
    readonly time: number;
    readonly timeEnd: number;
    readonly tags: readonly string[];
    readonly text: string;
  }
  const token = 'glsa_token';
  let kept: Annotation[] = [];
  /** Answers as the annotations API of Grafana is documented to. */
  const grafana: Answering = (response, { method, path, headers, body }) => {
    const address = new URL(path, 'http://grafana');
    const answer = (value: unknown, status = 200) =>
      sends(value, status)(response, { method, path, headers, body });
    if (headers.authorization !== `Bearer ${token}`) return answer({ message: 'Unauthorized' }, 401);
    const place = /^\/graph\/api\/annotations(?:\/(\d+))?$/.exec(address.pathname);
    if (place === null) return answer({ message: 'Not found' }, 404);
    if (method === 'GET') {
      const tags = address.searchParams.getAll('tags');
      const found = kept.filter((one) => tags.every((tag) => one.tags.includes(tag)));
      return answer(found.slice(0, Number(address.searchParams.get('limit') ?? 100)));
    }
    const given = JSON.parse(body) as Annotation;
    if (given.tags.some((tag) => tag.length > 100)) return answer({ message: 'too long' }, 500);
    if (method === 'PATCH') {
      kept = kept.map((one) => (one.id === Number(place[1]) ? { ...one, ...given } : one));
      return answer({ message: 'Annotation patched' });
    }
    kept.push({ ...given, id: kept.length + 7 });
    return answer({ message: 'Annotation added', id: kept.at(-1)!.id });
  };
  beforeEach(() => {
    kept = [];
    server.usual = grafana;
    vi.stubEnv('TIMESEER_WEBHOOK_TOKEN', token);
  });
  const run = (name: string) =>
    inside(
      ...['detect', place(name), '--state', place(`${name}.state`)],
      ...['--webhook', `${server.url}/graph/`, '--webhook-format', 'grafana'],
    );
  const write = (name: string, n: number): void =>
    writeFileSync(place(name), `time,load\n${rows(n, 430, 450).join('')}`);
  const at = (i: number): number => Date.UTC(2025, 2, 1) + i * 900_000;

  test('a finding is a moment while it is open; the same annotation becomes a region when it closes', async () => {
    write('one.csv', 440);
    await run('one.csv');
    expect(kept).toMatchObject([
      { id: 7, time: at(430), timeEnd: at(430), text: expect.stringMatching(/^load .* \(one\.csv\)$/) },
    ]);
    expect(kept[0]!.tags).toEqual([
      ...['timeseer', expect.stringMatching(/^finding:[0-9a-f]{12}$/), 'source:one.csv'],
      ...['critical', 'level', 'load'],
    ]);
    write('one.csv', 500);
    await run('one.csv');
    await run('one.csv');
    expect(kept).toMatchObject([{ id: 7, time: at(430), timeEnd: at(450) }]);
    expect(server.calls.map(({ method, path }) => [method, path.split('?')[0]])).toEqual([
      ['GET', '/graph/api/annotations'],
      ['POST', '/graph/api/annotations'],
      ['GET', '/graph/api/annotations'],
      ['PATCH', '/graph/api/annotations/7'],
    ]);
  });

  test('findings of one column and time in two files have an annotation each', async () => {
    for (const name of ['host-1.csv', 'host-2.csv']) write(name, 440);
    await run('host-1.csv');
    await run('host-2.csv');
    expect(kept.map(({ tags }) => tags[2])).toEqual(['source:host-1.csv', 'source:host-2.csv']);
  });

  test('one that was over when it was found, or that somebody removed, is posted as a region', async () => {
    write('over.csv', 500);
    await run('over.csv');
    expect(kept).toMatchObject([{ time: at(430), timeEnd: at(450) }]);
    write('gone.csv', 440);
    await run('gone.csv');
    kept = [];
    write('gone.csv', 500);
    await run('gone.csv');
    expect(kept).toMatchObject([{ time: at(430), timeEnd: at(450) }]);
  });

  test('an answer that a kill or a proxy cut off leaves one annotation', async () => {
    write('cut.csv', 440);
    server.next.push(grafana, (response, call) => {
      grafana({ writeHead: () => ({ end: () => {} }) } as never, call);
      sends('bad gateway', 502, { 'retry-after': '0' })(response, call);
    });
    await run('cut.csv');
    expect(kept).toHaveLength(1);
  });

  test('another token keeps the event', async () => {
    write('kept.csv', 440);
    server.usual = sends({ message: 'Unauthorized' }, 401, { 'retry-after': '0' });
    expect((await run('kept.csv')).err).toMatch(
      /status 401.*; check the token in TIMESEER_WEBHOOK_TOKEN; 1 event waits/,
    );
    expect(JSON.parse(readFileSync(place('kept.csv.state'), 'utf8')).alerts.queue).toHaveLength(1);
    expect(server.calls.every(({ method }) => method === 'GET')).toBe(true);
  });

  test('a page instead of the API keeps the event', async () => {
    const said = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
    server.usual = sends('<html>', 200);
    // A page cannot say when to come again: the pauses of the command are seconds.
    const hook = new Webhook(
      { url: `${server.url}/graph/`, format: 'grafana', source: 's', token, pause: 1 },
      undefined,
    );
    hook.add('open', FINDING);
    await hook.deliver(() => {});
    expect(said.mock.calls.join('')).toMatch(
      /sends a web page \(status 200\), no annotations; check the address of --webhook.*1 event waits/s,
    );
    expect(hook.alerts.queue).toHaveLength(1);
    expect(server.calls.map(({ method }) => method)).toEqual(['GET', 'GET', 'GET']);
  });

  test('its text is escaped, since Grafana shows HTML, and its tags fit', () => {
    const sent = WEBHOOK_FORMATS['grafana']!({
      ...closed({ column: 'x'.repeat(300) }),
      source: `<b>${'y'.repeat(300)}`,
    });
    const { text, tags, time, timeEnd } = sent as Annotation;
    expect([text.includes('<'), Math.max(...tags.map((tag) => tag.length))]).toEqual([false, 100]);
    expect([time, timeEnd]).toEqual([60_000, 180_000]);
  });
});

describe('a stream', () => {
  const children: ChildProcess[] = [];
  afterEach(() => {
    for (const child of children.splice(0)) child.kill('SIGKILL');
  });
  const start = (state: string) => {
    const run = followInto(place(state), server.url);
    children.push(run.child);
    return run;
  };
  const lines = rows(600, 430, 460);

  test('a receiver that is down holds up nothing; after a kill the events are sent once, in order', async () => {
    server.usual = sends('down', 500, { 'retry-after': '1' });
    const first = start('killed.state');
    first.child.stdin.write(`time,load\n${lines.join('')}`);
    await until(() => first.got.out.includes('"event":"closed"') && server.calls.length >= 2);
    await until(() => JSON.parse(readFileSync(place('killed.state'), 'utf8')).alerts.queue.length === 2);
    first.child.kill('SIGKILL');
    await first.ended;
    const ids = new Set(told().map(({ id }) => id));
    expect([ids.size, new Set(events())]).toEqual([1, new Set(['open'])]);
    server.calls.length = 0;
    server.usual = sends('ok');
    const second = start('killed.state');
    await until(() => server.calls.length >= 2);
    second.child.stdin.end(`time,load\n${lines.join('')}`);
    expect(await second.ended).toBe(0);
    expect(events()).toEqual(['open', 'closed']);
    expect(told()[0]!.id).toBe([...ids][0]);
    expect(told()[1]!.finding.id).toBe(told()[0]!.finding.id);
    expect(JSON.parse(readFileSync(place('killed.state'), 'utf8')).alerts).toEqual({
      open: [],
      queue: [],
      lost: 0,
    });
  });

  test('an event whose answer a kill cut off comes again with the same id', async () => {
    server.next.push((_, { body }) => expect(body).toContain('open')); // taken, and never answered
    const first = start('cut.state');
    first.child.stdin.write(`time,load\n${lines.slice(0, 450).join('')}`);
    await until(() => server.calls.length === 1);
    first.child.kill('SIGKILL');
    await first.ended;
    const second = start('cut.state');
    second.child.stdin.end(`time,load\n${lines.join('')}`);
    await second.ended;
    expect(events()).toEqual(['open', 'open', 'closed']);
    expect(told()[1]!.id).toBe(told()[0]!.id);
  });
});

test('of too many events that wait the oldest are given up, and told', () => {
  const said = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  const hook = new Webhook(
    { url: 'http://127.0.0.1:9', format: 'generic', source: 's', token: null },
    undefined,
  );
  for (let i = 0; i < 1001; i++) hook.add('open', { ...FINDING, id: `f${i}` });
  hook.add('open', { ...FINDING, id: 'f7' });
  const { open, queue, lost } = hook.alerts;
  expect([open.length, queue.length, queue[0]!.finding.id, lost]).toEqual([1001, 1000, 'f1', 1]);
  expect(said).toHaveBeenCalledTimes(1);
});

const stamp = (ms: number) => ({ iso: new Date(ms).toISOString(), shown: 'then', ms });
const FINDING: Alert['finding'] = {
  ...{ id: 'f', column: 'up{instance="a:9100",job="x\\"y"}', kind: 'level', direction: 'below' },
  ...{
    level: 'high',
    severity: 5,
    from: stamp(60_000),
    to: stamp(120_000),
    durationSeconds: 120,
    duration: '2 min',
  },
  observed: { least: 0, mean: 0, largest: 0, peak: 0 },
  expected: { value: 1, low: 1, high: 1 },
  ...{ statement: 'it fell <!channel> & *rose* <http://x|y>', ongoing: false, rows: null },
};
const closed = (more: Partial<Alert['finding']> = {}): Alert => ({
  ...{ id: 'e', event: 'closed', source: '<q>', reason: 'over' },
  finding: { ...FINDING, ...more },
  opened: FINDING,
});

test('Slack is sent text that mentions nobody, links nowhere and fits its limits', () => {
  const text = JSON.stringify(
    WEBHOOK_FORMATS['slack']!(closed({ statement: `<!channel>${'x'.repeat(9000)}` })),
  );
  const { text: plain, blocks } = JSON.parse(text);
  expect(plain).toMatch(
    /^closed \(over\): up\{instance="a:9100",job="x\\"y"\}, &lt;q&gt;: &lt;!channel&gt;x+$/,
  );
  expect(blocks[0].text).toEqual({ type: 'mrkdwn', text: expect.not.stringMatching(/[<>]/) });
  expect(blocks[1].text).toMatchObject({ type: 'plain_text' });
  expect(Math.max(...blocks.map((block: { text: { text: string } }) => block.text.text.length))).toBeLessThan(
    3000,
  );
});

test('an alert of Alertmanager closes under the labels by which it opened', () => {
  const [opening] = WEBHOOK_FORMATS['alertmanager']!({ ...closed(), event: 'open' }) as [
    Record<string, string>,
  ];
  const later = closed({ level: 'critical', kind: 'spike' });
  const [closing] = WEBHOOK_FORMATS['alertmanager']!(later) as [Record<string, string>];
  expect(closing['labels']).toEqual(opening['labels']);
  expect(opening['labels']).toEqual({
    ...{ alertname: 'TimeseerFinding', finding: 'f', column: FINDING.column, source: '<q>' },
    ...{ severity: 'high', kind: 'level', instance: 'a:9100', job: 'x"y' },
  });
  expect(closing).toMatchObject({ startsAt: '1970-01-01T00:01:00.000Z', endsAt: '1970-01-01T00:03:00.000Z' });
  expect(Date.parse(opening['endsAt']!)).toBeGreaterThan(Date.now());
});
