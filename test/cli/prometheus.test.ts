/** Series of a Prometheus server, as `detect` and `explain` read them. */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { readRange, seriesName } from '../../src/endpoint/prometheus.ts';
import { REPORT } from '../../src/explain/schema.ts';
import { Random } from '../../src/ground/random.ts';
import { inside } from '../helpers/command-line.ts';
import { type Answering, sends, WebServer } from '../helpers/web-server.ts';

const server = new WebServer();
const other = new WebServer();
let directory = '';
const place = (name: string): string => join(directory, name);

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'prometheus-'));
  await server.start();
  await other.start();
});
beforeEach(() => {
  server.calls.length = 0;
  server.next.length = 0;
  other.calls.length = 0;
  server.usual = hosts(['a', 'b']);
});
afterEach(() => {
  vi.unstubAllEnvs();
  process.exitCode = undefined;
});
afterAll(async () => {
  await server.stop();
  await other.stop();
  rmSync(directory, { recursive: true, force: true });
});

/** Seconds since 1970 at which host `a` is loaded, for twenty minutes: three hours before the last full hour. */
const LOADED = Math.floor(Date.now() / 3_600_000) * 3600 - 3 * 3600;

const noise = (at: number, host: string): number => new Random(7, host, at).normal();
const load = (at: number, host: string): string =>
  String((host === 'a' && at >= LOADED && at < LOADED + 1200 ? 9 : 1) + 0.1 * noise(at, host));

type Value = (at: number, host: string) => string | null;

/** Answers a range query with a series of each host, as Prometheus does. */
function hosts(names: readonly string[], value: Value = load, more: object = {}): Answering {
  return (response, call) => {
    const form = new URLSearchParams(call.body);
    const [start, end, step] = ['start', 'end', 'step'].map((name) => Number(form.get(name)));
    const count = Math.floor((end! - start!) / step! + 1e-9) + 1;
    if (count > 11_000) {
      const error = 'exceeded maximum resolution of 11,000 points per timeseries';
      return sends({ status: 'error', errorType: 'bad_data', error }, 400)(response, call);
    }
    const result = names.map((host) => ({
      metric: { __name__: 'node_load1', job: 'node', instance: `${host}:9100` },
      values: Array.from({ length: count }, (_, i): [number, string | null] => [
        start! + i * step!,
        value(start! + i * step!, host),
      ]).filter(([, text]) => text !== null),
    }));
    sends({ status: 'success', data: { resultType: 'matrix', result }, ...more })(response, call);
  };
}

const asked = (...more: string[]): string[] => ['--prometheus', server.url, '--query', 'node_load1', ...more];
const forms = (): Record<string, string>[] =>
  server.calls.map(({ body }) => Object.fromEntries(new URLSearchParams(body)));

describe('detect --prometheus', () => {
  test('judges every series of a query, named by its labels, with the filters and exit codes of a file', async () => {
    const { code, out, err } = await inside(
      'detect',
      ...asked('--since', '6h', '--json', '--fail-on', 'high'),
    );
    expect([code, err]).toEqual([1, expect.stringMatching(/^detect +100 % +2\/2.*\n$/)]);
    const report = REPORT.parse(JSON.parse(out));
    expect(report.file).toBe('node_load1');
    expect(report.columns.map(({ name }) => name)).toEqual([
      'node_load1{instance="a:9100",job="node"}',
      'node_load1{instance="b:9100",job="node"}',
    ]);
    expect(report.findings).toHaveLength(1);
    const [finding] = report.findings;
    expect(finding).toMatchObject({ column: report.columns[0]!.name, direction: 'above', rows: null });
    expect(finding!.from!.ms / 1000).toBe(LOADED);
    const [call] = server.calls;
    expect([call!.method, call!.path]).toEqual(['POST', '/api/v1/query_range']);
    const [form] = forms();
    expect(Number(form!['end']) - Number(form!['start'])).toBe(6 * 3600);
    expect(Number(form!['start']) % 60).toBe(0);
    expect(
      (await inside('detect', ...asked('--since', '6h', '--direction', 'below', '--fail-on', 'low'))).code,
    ).toBe(0);
    expect(
      (await inside('detect', ...asked('--since', '1h', '--history', '6h', '--fail-on', 'low'))).code,
    ).toBe(0);
    expect(forms().at(-1)).toEqual({ ...form, end: expect.anything(), start: expect.anything() });
  });

  test('a later run with the same state reports a known finding as reported, or not again', async () => {
    server.usual = hosts(['a'], (at, host) =>
      at >= LOADED ? String(9 + 0.1 * noise(at, host)) : load(at, host),
    );
    const run = asked('--since', '6h', '--json', '--state', place('state.json'));
    const [first, second] = [await inside('detect', ...run), await inside('detect', ...run)];
    const [fresh, again] = [first, second].map(({ out }) => JSON.parse(out).findings);
    expect(fresh).toHaveLength(1);
    expect(fresh[0].reported).toBe(false);
    expect(again.every(({ reported }: { reported: boolean }) => reported)).toBe(true);
  });

  test('splits what is longer than a request may be, and joins the parts without a seam', async () => {
    const { code, out } = await inside('detect', ...asked('--history', '20d', '--json'));
    expect(code).toBe(0);
    const parts = forms().map(({ start, end }) => [Number(start), Number(end)]);
    expect(parts.length).toBe(Math.ceil((20 * 1440 + 1) / 11_000));
    for (const [i, [start]] of parts.slice(1).entries()) expect(start).toBe(parts[i]![1]! + 60);
    expect(JSON.parse(out)).toMatchObject({ samples: 20 * 1440 + 1, notes: [] });
  });

  test('values that are no numbers are missing, and missing steps are gaps, told by their times', async () => {
    const value: Value = (at, host) => {
      if (at >= LOADED + 1800 && at < LOADED + 2400) return null;
      if (at === LOADED - 60) return 'NaN';
      return at === LOADED - 120 ? (host === 'a' ? '+Inf' : '-Inf') : load(at, host);
    };
    server.usual = hosts(['a', 'b'], value, { warnings: ['store\u001b[2J gateway "x" is down'] });
    const { out, code } = await inside('detect', ...asked('--since', '6h', '--json', '--fail-on-quality'));
    expect(code).toBe(1);
    const report = REPORT.parse(JSON.parse(out));
    const notes = Object.fromEntries(report.notes.map((note) => [note.kind, note]));
    expect(Object.keys(notes).sort()).toEqual(['gaps', 'infinite', 'missing', 'partial']);
    expect(notes['partial']).toMatchObject({
      quality: true,
      text: 'Prometheus warns: store [2J gateway "x" is down.',
    });
    expect(notes['infinite']!.text).toBe('2 values are infinite and count as missing.');
    const at = new Date(1000 * (LOADED - 120)).toISOString().slice(0, 16).replace('T', ' ');
    expect(notes['missing']).toMatchObject({ count: 4, rows: null, from: { ms: 1000 * (LOADED - 120) } });
    expect(notes['missing']!.text).toContain(`4 values missing, the first at ${at} UTC`);
    expect(notes['gaps']).toMatchObject({ count: 10, rows: null, from: { ms: 1000 * (LOADED + 1740) } });
  });

  test('--tz shows times in a zone, --column chooses series, explain writes a page', async () => {
    const name = 'node_load1{instance="b:9100",job="node"}';
    const out = place('page');
    const { code } = await inside(
      ...['explain', ...asked('--since', '6h', '--tz', 'Asia/Tokyo', '--column', name)],
      ...['--policy', 'none', '--out', out],
    );
    expect(code).toBe(0);
    const report = REPORT.parse(JSON.parse(readFileSync(`${out}.json`, 'utf8')));
    expect([report.columns.map((column) => column.name), report.zone]).toEqual([[name], 'Asia/Tokyo']);
    expect(readFileSync(`${out}.html`, 'utf8')).toContain('node_load1');
  });

  const failure = (errorType: string, error: string, status: number): Answering =>
    sends({ status: 'error', errorType, error }, status);

  test.each<[string, Answering, number, RegExp]>([
    [
      'a query that cannot be parsed',
      failure('bad_data', 'parse error: x', 400),
      2,
      /--query: .*bad_data: parse error: x/,
    ],
    [
      'a query that fails',
      failure('execution', 'many-to-many', 422),
      2,
      /--query: .*execution: many-to-many/,
    ],
    ['a wrong token', sends('no\u001b[1m', 401), 3, /status 401 \(no \[1m\); give a valid token/],
    ['another path', sends('<html>', 404), 3, /status 404 \(a web page\); check the address/],
    ['a web page', sends('<html>hello'), 3, /no result of a range query \(a web page\)/],
    [
      'an instant result',
      sends({ status: 'success', data: { resultType: 'vector', result: [] } }),
      3,
      /no series over time/,
    ],
    [
      'nothing',
      sends({ status: 'success', data: { resultType: 'matrix', result: [] } }),
      3,
      /gives no sample in this range/,
    ],
    [
      'too many series',
      (r, c) =>
        hosts(
          Array.from({ length: 1001 }, (_, i) => `h${i}`),
          () => '1',
        )(r, c),
      3,
      /gives 1001 series of 61 samples, more than the 1000/,
    ],
    ['missing values alone', hosts(['a'], () => 'NaN'), 3, /holds no number/],
    [
      'a single sample',
      hosts(['a'], (at) => ((at / 60) % 61 === 0 ? '1' : null)), // one of any 61 minutes in a row
      3,
      /a recording needs at least 2/,
    ],
  ])('%s is told', async (_, answer, code, message) => {
    server.usual = answer;
    const result = await inside('detect', ...asked('--since', '1h'));
    expect(result).toMatchObject({ code, out: '', err: expect.stringMatching(message) });
    expect(result.err).not.toContain('\u001b');
  });

  test('is asked again while it is busy', async () => {
    server.next.push(failure('timeout', 'busy', 503), (response) => void response.destroy());
    const query = { url: server.url, query: 'x', from: 0, to: 60_000, step: 60_000, token: null, pause: 1 };
    const told: string[] = [];
    const range = await readRange(query, new AbortController().signal, (line) => told.push(line));
    expect([range.columns.length, told.length]).toEqual([2, 2]);
    expect(told[0]).toContain('status 503 (timeout: busy)');
  });

  test('a redirect is refused: the token goes to the server that was named and nowhere else, nor into a message', async () => {
    const token = 'secret-token-of-the-test';
    vi.stubEnv('PROMETHEUS_TOKEN', token);
    server.next.push(sends(`go, ${token}`, 307, { location: `${other.url}/api/v1/query_range` }));
    const { code, err } = await inside('detect', ...asked('--since', '1h'));
    expect(code).toBe(3);
    expect(err).toMatch(/redirects elsewhere \(status 307\)/);
    expect(other.calls).toEqual([]);
    expect(server.calls[0]!.headers.authorization).toBe(`Bearer ${token}`);
    server.next.push(sends(`no right for ${token}`, 403));
    const refused = await inside('detect', ...asked('--since', '1h'));
    expect(refused.err).toMatch(/status 403 \(no right for \[token\]\)/);
  });

  test('a token file counts before the environment', async () => {
    vi.stubEnv('PROMETHEUS_TOKEN', 'from-the-environment');
    writeFileSync(place('token'), 'from-the-file\n');
    await inside('detect', ...asked('--since', '1h', '--token-file', place('token')));
    expect(server.calls[0]!.headers.authorization).toBe('Bearer from-the-file');
    writeFileSync(place('token'), 'two words');
    const wrong = await inside('detect', ...asked('--token-file', place('token')));
    expect(wrong).toMatchObject({ code: 2, err: expect.not.stringContaining('two words') });
  });

  test.skipIf(spawnSync('openssl', ['version']).status !== 0)(
    'a server with a certificate of its own is trusted with --ca-file, and not without',
    async () => {
      const [key, cert] = [place('key.pem'), place('cert.pem')];
      spawnSync('openssl', [
        ...['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', key, '-out', cert],
        ...['-days', '9', '-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost'],
      ]);
      const secure = createServer(
        { key: readFileSync(key), cert: readFileSync(cert) },
        (request, response) => {
          let body = '';
          request.on('data', (text) => {
            body += text;
          });
          request.on('end', () => hosts(['a'])(response, { method: 'POST', path: '', headers: {}, body }));
        },
      );
      await new Promise<void>((done) => secure.listen(0, '127.0.0.1', done));
      const url = `https://localhost:${(secure.address() as AddressInfo).port}`;
      const run = (...more: string[]) =>
        inside('detect', '--prometheus', url, '--query', 'x', '--since', '1h', ...more);
      try {
        expect(await run()).toMatchObject({
          code: 3,
          err: expect.stringMatching(/certificate is not trusted/),
        });
        expect((await run('--ca-file', cert)).code).toBe(0);
        writeFileSync(place('none.pem'), 'no certificate');
        const none = await run('--ca-file', place('none.pem'));
        expect(none).toMatchObject({
          code: 2,
          err: expect.stringMatching(/holds no certificate in PEM form/),
        });
      } finally {
        secure.closeAllConnections();
        await new Promise((done) => secure.close(done));
      }
    },
  );

  test.each<[string[], RegExp]>([
    [['m.csv', '--query', 'x'], /--query: needs --prometheus/],
    [['--prometheus', 'http://h'], /needs --query/],
    [['m.csv', '--prometheus', 'http://h', '--query', 'x'], /leave the file m.csv out/],
    [['--prometheus', 'http://h', '--query', 'x', '--key', 'host'], /--key: says how a file is read/],
    [['--prometheus', 'ftp://h', '--query', 'x'], /--prometheus: ftp:\/\/h begins with ftp:/],
    [['--prometheus', 'http://me:pass@h', '--query', 'x'], /--prometheus: holds a password/],
    [['--prometheus', 'http://h', '--query', 'x', '--step', 'often'], /--step often: expected a duration/],
    [
      ['--prometheus', 'http://h', '--query', 'x', '--since', 'yesterday'],
      /--since yesterday: neither a time/,
    ],
    [
      ['--prometheus', 'http://h', '--query', 'x', '--history', '9999w', '--step', '1s'],
      /--history: \d+ samples of a series are more than/,
    ],
    [['--prometheus', 'http://h', '--query', 'x', '--follow'], /--follow reads standard input/],
    [[], /file: missing/],
  ])('%j is wrong usage', async (args, message) => {
    const { code, err } = await inside('detect', ...args);
    expect([code, err]).toEqual([2, expect.stringMatching(message)]);
    expect(existsSync(place('m.csv'))).toBe(false);
  });
});

test('a series is named as Prometheus writes it', () => {
  expect(seriesName({ __name__: 'up', b: 'x"y\\', a: '1' }, 'q')).toBe('up{a="1",b="x\\"y\\\\"}');
  expect([seriesName({}, 'sum(up)'), seriesName({ __name__: 'up' }, 'q')]).toEqual(['sum(up)', 'up']);
  expect(seriesName({ host: 'a' }, 'sum by (host) (up)')).toBe('{host="a"}');
});
