/** A real Prometheus, where one is installed (Debian: `prometheus`): it scrapes the service, and `detect` reads it. */
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Random } from '../../src/ground/random.ts';
import { inside } from '../helpers/command-line.ts';
import { CLI } from '../helpers/program.ts';
import { until } from '../helpers/service.ts';

const isInstalled = ['prometheus', 'promtool'].every((name) => spawnSync(name, ['--version']).status === 0);
const HOUR = 3600;
const now = Math.floor(Date.now() / 60_000) * 60;
/** Seconds since 1970 at which host `a` is loaded for half an hour, in history that is written beforehand. */
const LOADED = now - 10 * HOUR;

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as { port: number };
  await new Promise((done) => server.close(done));
  return port;
}

describe.skipIf(!isInstalled)('a Prometheus server', () => {
  const children: ChildProcess[] = [];
  let directory = '';
  let url = '';

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), 'prometheus-server-'));
    const draw = new Random(11, 'history');
    const samples = ['a', 'b'].flatMap((host) =>
      Array.from({ length: 9 * 24 * 60 }, (_, i) => {
        const at = now - 2 * HOUR - i * 60;
        const value = (host === 'a' && at >= LOADED && at < LOADED + 1800 ? 9 : 1) + 0.1 * draw.normal();
        return `load{host="${host}"} ${value.toFixed(4)} ${at}\n`;
      }).reverse(),
    );
    writeFileSync(join(directory, 'history.txt'), `# TYPE load gauge\n${samples.join('')}# EOF\n`);
    const data = join(directory, 'data');
    const create = ['tsdb', 'create-blocks-from', 'openmetrics', join(directory, 'history.txt'), data];
    execFileSync('promtool', create, { stdio: 'ignore' });
    const serve = spawn(process.execPath, [CLI, 'serve', '--port', '0', '--json'], {
      stdio: ['ignore', 'pipe', 'ignore'],
      env: { ...process.env, TIMESEER_API_KEY: 'key-of-the-scrapes' },
    });
    children.push(serve);
    let out = '';
    serve.stdout.on('data', (text) => {
      out += text;
    });
    await until(() => out.includes('\n'));
    const target = JSON.parse(out).url.replace('http://', '');
    const scrape = `{job_name: timeseer, scrape_interval: 200ms, authorization: {credentials: key-of-the-scrapes}, static_configs: [{targets: ['${target}']}]}`;
    writeFileSync(join(directory, 'prometheus.yml'), `scrape_configs: [${scrape}]\n`);
    const address = `127.0.0.1:${await freePort()}`;
    url = `http://${address}`;
    children.push(
      spawn(
        'prometheus',
        [
          ...[`--config.file=${join(directory, 'prometheus.yml')}`, `--storage.tsdb.path=${data}`],
          ...[`--web.listen-address=${address}`, '--log.level=error', '--storage.tsdb.retention.time=30d'],
        ],
        { stdio: 'ignore' },
      ),
    );
    await until(async () => (await fetch(`${url}/-/ready`).catch(() => null))?.status === 200);
  });
  afterAll(async () => {
    for (const child of children) {
      const ended = new Promise((resolve) => child.once('close', resolve));
      if (child.exitCode === null && child.kill('SIGKILL')) await ended;
    }
    rmSync(directory, { recursive: true, force: true });
  });

  const detect = (query: string, ...more: string[]) =>
    inside('detect', '--prometheus', url, '--query', query, '--json', ...more);

  test('is read over more samples than one request gives, and the finding is where it was written', async () => {
    const { code, out, err } = await detect('load', '--history', '9d', '--fail-on', 'high');
    expect(err).toMatch(/2\/2/);
    const report = JSON.parse(out);
    expect(code).toBe(1);
    expect(report.samples).toBeGreaterThan(12_000);
    // The server repeats the last value of a series for five minutes, which looks stuck.
    const found = report.findings.filter(({ kind }: { kind: string }) => kind !== 'flat');
    expect(found).toMatchObject([{ column: 'load{host="a"}', from: { ms: 1000 * LOADED } }]);
  });

  test("scrapes the service's metrics, which detect reads", async () => {
    const live = ['--history', '20s', '--step', '1s'];
    await until(async () => (await detect('timeseer_requests_total{route="/metrics"}', ...live)).code === 0);
    const { out } = await detect('timeseer_requests_total', '--rate', 'auto', ...live);
    expect(JSON.parse(out).columns[0].name).toMatch(
      /^timeseer_requests_total\{instance="127\.0\.0\.1:\d+",job="timeseer",route="\/metrics",status="200"\}$/,
    );
  });

  test('says in its own words what is wrong with a query', async () => {
    const { code, err } = await detect('load{');
    expect([code, err]).toEqual([2, expect.stringMatching(/--query: .*bad_data: .*parse error/)]);
    expect((await detect('no_such_metric')).err).toMatch(/gives no sample in this range/);
  });
});
