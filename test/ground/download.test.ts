import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { downloadUrl, type UrlOptions } from '../../src/ground/download.ts';
import { EndpointError } from '../../src/ground/errors.ts';
import { temporary } from '../helpers/temporary.ts';

const root = temporary('download');
let made = 0;

const CONTENT = Buffer.from(Array.from({ length: 300_000 }, (_, i) => (i * 31 + (i >> 9) * 7) & 255));
const DIGEST = createHash('sha256').update(CONTENT).digest('hex');

/** What the server does with a request, given its number from 0. */
type Answer = (number: number, request: IncomingMessage, response: ServerResponse) => void;

let server: Server;
let url = '';
let target = '';
let seen: IncomingMessage['headers'][] = [];
let answer: Answer;

/** The content as most servers send it: ranges, and an ETag that `if-range` is compared with. */
function serve(request: IncomingMessage, response: ServerResponse, tag = '"one"', content = CONTENT): void {
  const from = /^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1];
  const start = from !== undefined && request.headers['if-range'] === tag ? Number(from) : null;
  if (start !== null && start >= content.length) {
    response.writeHead(416, { 'content-range': `bytes */${content.length}` }).end();
    return;
  }
  const part = content.subarray(start ?? 0);
  const range =
    start === null ? {} : { 'content-range': `bytes ${start}-${content.length - 1}/${content.length}` };
  response.writeHead(start === null ? 200 : 206, { etag: tag, 'content-length': part.length, ...range });
  response.end(part);
}

/** Promises all, sends some of it, and breaks the connection. */
function breakAfter(bytes: number, response: ServerResponse): void {
  response.writeHead(200, { etag: '"one"', 'content-length': CONTENT.length });
  response.write(CONTENT.subarray(0, bytes), () => setTimeout(() => response.destroy(), 20));
}

beforeEach(async () => {
  seen = [];
  answer = (_, request, response) => serve(request, response);
  server = createServer((request, response) => {
    seen.push(request.headers);
    answer(seen.length - 1, request, response);
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/set.zip`;
  target = join(root, `d${made++}`, 'set.zip');
});
afterEach(async () => {
  server.closeAllConnections();
  await new Promise((done) => server.close(done));
});

const options = (more: Partial<UrlOptions> = {}): UrlOptions => ({
  signal: new AbortController().signal,
  attempts: 3,
  pause: 1,
  silence: 5_000,
  ...more,
});

describe('a download', () => {
  it('stands under its name, with its hash, once it is whole; the next time nothing is asked', async () => {
    const shown: (readonly [number, number | null])[] = [];
    const found = await downloadUrl(
      url,
      target,
      options({ sha256: DIGEST, onProgress: (bytes, total) => shown.push([bytes, total]) }),
    );
    expect(found).toEqual({ bytes: CONTENT.length, sha256: DIGEST });
    expect(readFileSync(target).equals(CONTENT)).toBe(true);
    expect(shown[0]).toEqual([0, CONTENT.length]);
    expect(shown.at(-1)).toEqual([CONTENT.length, CONTENT.length]);
    expect(existsSync(`${target}.part`) || existsSync(`${target}.part.json`)).toBe(false);
    expect(await downloadUrl(url, target, options())).toEqual(found);
    expect(seen.length).toBe(1);
  });

  it('goes on after a broken connection where it stopped', async () => {
    answer = (number, request, response) =>
      number === 0 ? breakAfter(120_000, response) : serve(request, response);
    expect((await downloadUrl(url, target, options())).sha256).toBe(DIGEST);
    const from = Number(/\d+/.exec(seen[1]!.range!)![0]);
    expect(from).toBeGreaterThan(0);
    expect(from).toBeLessThanOrEqual(120_000);
    expect(seen[1]!['if-range']).toBe('"one"');
  });

  it('goes on in the next process, and begins anew when the server has other content', async () => {
    answer = (_, __, response) => breakAfter(90_000, response);
    await expect(downloadUrl(url, target, options({ attempts: 1 }))).rejects.toThrow(/broke.*to resume/);
    const part = readFileSync(`${target}.part`);
    expect(part.length).toBeGreaterThan(0);
    expect(part.equals(CONTENT.subarray(0, part.length))).toBe(true);
    const other = Buffer.from(CONTENT.map((byte) => byte ^ 1));
    answer = (_, request, response) => serve(request, response, '"two"', other);
    await downloadUrl(url, target, options());
    expect(readFileSync(target).equals(other)).toBe(true);
  });

  it('a server that always breaks at the same byte, and does not go on from there, is given up', async () => {
    answer = (_, __, response) => {
      response.writeHead(200, { 'content-length': CONTENT.length });
      response.write(CONTENT.subarray(0, 40_000), () => setTimeout(() => response.destroy(), 5));
    };
    await expect(downloadUrl(url, target, options())).rejects.toThrow(/broke/);
    expect(seen.length).toBe(3);
  });

  it('more bytes than such a file may have are refused, whether announced, endless or packed', async () => {
    const bounded = options({ maximum: 100_000 });
    await expect(downloadUrl(url, target, bounded)).rejects.toThrow(/more than 100000 bytes/);
    answer = (_, __, response) => {
      response.writeHead(200);
      const more = (): void => {
        if (!response.destroyed) response.write(CONTENT, () => setImmediate(more));
      };
      more();
    };
    await expect(downloadUrl(url, target, bounded)).rejects.toThrow(/more than 100000 bytes/);
    const packed = gzipSync(Buffer.alloc(50_000_000));
    answer = (_, __, response) => void response.writeHead(200, { 'content-encoding': 'gzip' }).end(packed);
    await expect(downloadUrl(url, target, bounded)).rejects.toThrow(/more than 100000 bytes/);
    expect(readFileSync(`${target}.part`).length).toBe(0);
    expect(seen.length).toBe(3);
  });

  it('a part that nobody vouches for is fetched again', async () => {
    answer = (number, request, response) =>
      number === 0 ? breakAfter(50_000, response) : serve(request, response);
    await expect(downloadUrl(url, target, options({ attempts: 1 }))).rejects.toThrow(EndpointError);
    writeFileSync(`${target}.part.json`, 'no note');
    expect((await downloadUrl(url, target, options())).sha256).toBe(DIGEST);
    expect(seen[1]!.range).toBeUndefined();
  });

  it('a part that is whole already is only given its name', async () => {
    answer = (number, request, response) =>
      number === 0 ? breakAfter(50_000, response) : serve(request, response);
    await expect(downloadUrl(url, target, options({ attempts: 1 }))).rejects.toThrow(EndpointError);
    writeFileSync(`${target}.part`, CONTENT);
    expect((await downloadUrl(url, target, options())).sha256).toBe(DIGEST);
    expect(seen[1]!.range).toBe(`bytes=${CONTENT.length}-`);
  });

  it('other content than the known hash is thrown away', async () => {
    await expect(downloadUrl(url, target, options({ sha256: 'a'.repeat(64) }))).rejects.toThrow(
      /was discarded: its hash is sha256:[0-9a-f]{64}, expected sha256:a{64}/,
    );
    expect(existsSync(target)).toBe(false);
    expect(readFileSync(`${target}.part`).length).toBe(0);
  });

  it('a server that fails is asked again, one that refuses is not', async () => {
    answer = (number, request, response) =>
      number < 2 ? response.writeHead(503).end() : serve(request, response);
    expect((await downloadUrl(url, target, options())).bytes).toBe(CONTENT.length);
    expect(seen.length).toBe(3);
    seen = [];
    answer = (_, __, response) => response.writeHead(404).end();
    await expect(downloadUrl(url, `${target}2`, options())).rejects.toThrow(/status 404.*--from/);
    expect(seen.length).toBe(1);
  });

  it('a server that is not there is named, with what helps', async () => {
    const nowhere = url.replace(/:\d+/, ':9');
    await expect(downloadUrl(nowhere, target, options())).rejects.toThrow(/cannot be reached.*--from/);
  });

  it('a server that falls silent is left', async () => {
    answer = (_, __, response) => {
      response.writeHead(200, { 'content-length': CONTENT.length });
      response.write(CONTENT.subarray(0, 1000));
    };
    await expect(downloadUrl(url, target, options({ attempts: 1, silence: 100 }))).rejects.toThrow(
      /nothing came/,
    );
  });

  it('stops on request, and keeps what came', async () => {
    const stop = new AbortController();
    answer = (_, __, response) => {
      response.writeHead(200, { etag: '"one"', 'content-length': CONTENT.length });
      response.write(CONTENT.subarray(0, 40_000));
    };
    const onProgress = (bytes: number): void => {
      if (bytes >= 40_000) stop.abort(new Error('enough'));
    };
    await expect(downloadUrl(url, target, options({ signal: stop.signal, onProgress }))).rejects.toThrow(
      'enough',
    );
    expect(readFileSync(`${target}.part`).length).toBe(40_000);
  });
});
