import { createHash } from 'node:crypto';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Address, Benchmark } from '../../datasets/benchmarks/benchmark.ts';
import { emg } from '../../datasets/benchmarks/emg.ts';
import { fetchTask, parseSums } from '../../datasets/fetch.ts';
import { temporary } from '../helpers/temporary.ts';

const root = temporary('fetch');
let made = 0;

const hashOf = (text: string): string => createHash('sha256').update(text).digest('hex');

let server: Server;
let base = '';
/** What the server has, by path. */
let files: Record<string, string> = {};
let asked: string[] = [];
let said = '';
let folder = '';

beforeEach(async () => {
  files = { '/db/1.0/a.txt': 'first\n', '/db/1.0/sub/b c.txt': 'second\n' };
  asked = [];
  said = '';
  folder = join(root, `f${made++}`, 'set');
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => {
    said += String(text);
    return true;
  });
  server = createServer((request, response) => {
    const path = decodeURIComponent(request.url ?? '');
    asked.push(path);
    const content = files[path];
    if (content === undefined) response.writeHead(404).end();
    else response.end(content);
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}/db/1.0`;
});
afterEach(async () => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
  server.closeAllConnections();
  await new Promise((done) => server.close(done));
});

const specOf = (more: Partial<Address> = {}): Benchmark => ({
  ...emg,
  source: {
    ...emg.source,
    addresses: ['a.txt', 'sub/b%20c.txt'].map((name) => ({
      url: `${base}/${name}`,
      sha256: null,
      unpack: false,
      ...more,
    })),
  },
});

const bring = (spec: Benchmark, silent = false): Promise<void> =>
  fetchTask(spec, folder, {
    signal: new AbortController().signal,
    silent,
    retries: { attempts: 2, pause: 1 },
  });

const witnesses = (): string[] =>
  JSON.parse(readFileSync(join(folder, '.source.json'), 'utf8')).map(
    ({ comparedWith }: { comparedWith: string }) => comparedWith,
  );

describe('downloads that nobody vouches for', () => {
  it('are told and recorded at first, and compared with the record later', async () => {
    await bring(specOf());
    expect(witnesses()).toEqual(['nothing', 'nothing']);
    expect(said).toContain(`a.txt: SHA-256 ${hashOf('first\n')}`);
    expect(JSON.parse(readFileSync(`${folder}.sha256.json`, 'utf8'))).toEqual({
      [`${base}/a.txt`]: hashOf('first\n'),
      [`${base}/sub/b%20c.txt`]: hashOf('second\n'),
    });
    rmSync(folder, { recursive: true });
    said = '';
    await bring(specOf());
    expect(witnesses()).toEqual(['recorded', 'recorded']);
    expect(said).not.toContain('SHA-256');
  });

  it('are refused, with both hashes, where they are not what they were', async () => {
    await bring(specOf());
    rmSync(folder, { recursive: true });
    files['/db/1.0/a.txt'] = 'another\n';
    const problem = await bring(specOf()).catch((error: Error) => error.message);
    expect(problem).toContain(`has the SHA-256 ${hashOf('another\n')}`);
    expect(problem).toContain(`at an earlier download it was ${hashOf('first\n')}`);
    expect(problem).toContain(`remove ${folder}.sha256.json`);
    expect(existsSync(folder)).toBe(false);
    rmSync(`${folder}.sha256.json`);
    await bring(specOf());
    expect(readFileSync(join(folder, 'a.txt'), 'utf8')).toBe('another\n');
  });

  it('say nothing when only JSON is asked for, and a record that is none is named', async () => {
    await bring(specOf(), true);
    expect(said).toBe('');
    rmSync(folder, { recursive: true });
    writeFileSync(`${folder}.sha256.json`, '{"x": 1}');
    await expect(bring(specOf())).rejects.toThrow(/sha256\.json: "x": .*; remove this record of downloads/);
  });
});

describe('downloads whose owners list their SHA-256', () => {
  const list = (first: string): string => `${hashOf(first)} a.txt\n${hashOf('second\n')} *./sub/b c.txt\nx\n`;

  it('are compared with the list, which is asked for once', async () => {
    files['/db/1.0/SHA256SUMS.txt'] = list('first\n');
    await bring(specOf({ sums: `${base}/SHA256SUMS.txt` }));
    expect(witnesses()).toEqual(['published', 'published']);
    expect(asked.filter((path) => path.endsWith('SUMS.txt'))).toHaveLength(1);
    expect(existsSync(`${folder}.sha256.json`)).toBe(false);
  });

  it('are refused where they differ from it, and fetched again the next time', async () => {
    files['/db/1.0/SHA256SUMS.txt'] = list('other\n');
    const spec = specOf({ sums: `${base}/SHA256SUMS.txt` });
    const problem = await bring(spec).catch((error: Error) => error.message);
    expect(problem).toContain(`SHA-256 ${hashOf('first\n')}`);
    expect(problem).toContain(`its owners list ${hashOf('other\n')} in ${base}/SHA256SUMS.txt`);
    files['/db/1.0/a.txt'] = 'other\n';
    await bring(spec);
    expect(readFileSync(join(folder, 'a.txt'), 'utf8')).toBe('other\n');
  });

  it('are taken without it where the list is out of reach or leaves them out, which is said', async () => {
    await bring(specOf({ sums: `${base}/SHA256SUMS.txt` }));
    expect(witnesses()).toEqual(['nothing', 'nothing']);
    expect(said).toMatch(/not compared with the list of its owners: .*SHA256SUMS\.txt: .*status 404/);
    rmSync(folder, { recursive: true });
    rmSync(`${folder}.sha256.json`);
    files['/db/1.0/SHA256SUMS.txt'] = `${hashOf('first\n')}  a.txt\n`;
    await bring(specOf({ sums: `${base}/SHA256SUMS.txt` }));
    expect(witnesses()).toEqual(['published', 'nothing']);
    expect(said).toMatch(/does not list sub\/b c\.txt/);
  });

  it('lists of sha256sum are read in all forms', () => {
    const [a, b] = ['a'.repeat(64), 'B'.repeat(64)];
    expect([...parseSums(`${a}  x/y.dat\r\n${b} *z w.hea\n# ${a} no\nshort q\n${a} one.txt\n`)]).toEqual([
      ['x/y.dat', a],
      ['z w.hea', b.toLowerCase()],
      ['one.txt', a],
    ]);
  });
});

describe('downloads without a network', () => {
  it('name the address, the folder option and the proxy that Node passes over', async () => {
    vi.stubEnv('HTTPS_PROXY', 'http://proxy.example:3128');
    vi.stubEnv('NODE_USE_ENV_PROXY', '');
    const spec = specOf();
    const { url } = spec.source.addresses[0]!;
    const nowhere = url.replace(/:\d+/, ':9');
    const addresses = [{ ...spec.source.addresses[0]!, url: nowhere }];
    const problem = await bring({ ...spec, source: { ...spec.source, addresses } }).catch(
      (error: Error) => error.message,
    );
    expect(problem).toContain(`${nowhere}: the server cannot be reached`);
    expect(problem).toMatch(/NODE_USE_ENV_PROXY=1 for Node to use HTTPS_PROXY.*--from/);
    expect(said).toMatch(/cannot be reached .*; again in 1 s/);
  });
});
