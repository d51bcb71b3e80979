/**
 * Requests to a server: POST over kept connections, and limits on concurrency, requests and tokens per minute. Node's own `http` takes
 * half the processor time of `fetch` (measured: .31 and .70 s per 1000 requests of text, .87 and 1.40 with a picture of 100 kB), which
 * matters with 64 requests at once on a core; it follows no redirect, and its timeout is free.
 */

import { X509Certificate } from 'node:crypto';
import { Agent, request as requestHttp } from 'node:http';
import { request as requestHttps, Agent as SecureAgent } from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';
import { rootCertificates } from 'node:tls';
import type { z } from 'zod';
import { ConfigError } from '../ground/errors.ts';
import { readUtf8 } from '../ground/files.ts';

/** Bytes of an answer, after which a server is no longer listened to. */
const LONGEST_ANSWER = 16 * 2 ** 20;

export interface Posted {
  readonly status: number;
  readonly headers: { readonly get: (name: string) => string | null };
  readonly text: string;
}

/** Error of a request without an answer within its time limit. */
export class Timeout extends Error {}

interface ConnectionOptions {
  /** Certificates (PEM) of authorities that are trusted beside the usual ones. */
  readonly ca?: string | undefined;
  /** Largest answer in bytes; default: 16 MiB. */
  readonly longest?: number | undefined;
}

/** Opens a server whose connections are kept, one for each concurrent request; idle ones close after some seconds. */
export function openConnections(
  address: URL,
  headers: Readonly<Record<string, string>>,
  { ca, longest = LONGEST_ANSWER }: ConnectionOptions = {},
) {
  const secure = address.protocol === 'https:';
  // Node 24.5 and later ask a proxy of the environment, where that is switched on as for fetch.
  const proxy = process.env['NODE_USE_ENV_PROXY'] === '1' ? { proxyEnv: process.env } : {};
  const kept = { keepAlive: true, ...proxy };
  const trusted = ca === undefined ? {} : { ca: [...rootCertificates, ca] };
  const agent = secure ? new SecureAgent({ ...kept, ...trusted }) : new Agent(kept);
  const request = secure ? requestHttps : requestHttp;

  /**
   * Sends `body`, and gives the whole answer.
   * @param timeout seconds until the end of the answer
   * @param other method and path, where they are not POST and that of the address
   * @throws Timeout; the signal's reason; what the connection broke with
   */
  return (
    body: Uint8Array,
    timeout: number,
    signal: AbortSignal,
    other: { readonly method: 'GET' | 'PATCH' | 'POST'; readonly path: string } | object = {},
  ): Promise<Posted> =>
    new Promise((resolve, reject) => {
      signal.throwIfAborted();
      const sent = request(address, {
        ...{ method: 'POST', agent, ...other },
        headers: { ...headers, 'content-length': body.byteLength },
      });
      const end = (): void => {
        clearTimeout(timer);
        signal.removeEventListener('abort', onAbort);
      };
      const fail = (error: unknown): void => {
        end();
        reject(error);
        sent.destroy();
      };
      const onAbort = (): void => fail(signal.reason);
      const timer = setTimeout(() => fail(new Timeout()), timeout * 1000);
      signal.addEventListener('abort', onAbort, { once: true });
      sent.on('error', fail);
      sent.on('response', (response) => {
        const chunks: Buffer[] = [];
        let length = 0;
        response.on('error', fail);
        response.on('data', (chunk: Buffer) => {
          chunks.push(chunk);
          length += chunk.length;
          if (length > longest) fail(new Error(`it sends more than ${longest} bytes`));
        });
        response.on('end', () => {
          end();
          const header = (name: string): string | null => {
            const value = response.headers[name];
            return value === undefined ? null : String(value);
          };
          resolve({
            status: response.statusCode ?? 0,
            headers: { get: header },
            text: Buffer.concat(chunks).toString('utf8'),
          });
        });
      });
      sent.end(body);
    });
}

/** Parses the address of a server. @param option its name in messages. @throws ConfigError */
export function serverAddress(text: string, option: string, example: string): URL {
  const expected = `expected http: or https:, such as ${example}`;
  if (!URL.canParse(text)) throw new ConfigError(`${option}: not a URL; ${expected}`);
  const address = new URL(text);
  if (!/^https?:$/.test(address.protocol)) {
    const problem = text.includes('://') ? `begins with ${address.protocol}` : 'does not begin with http://';
    throw new ConfigError(`${option}: ${text} ${problem}; ${expected}`);
  }
  if (address.username !== '' || address.password !== '')
    throw new ConfigError(
      `${option}: holds a password; put a token into a file or an environment variable instead`,
    );
  address.hash = '';
  return address;
}

/** Trims and checks a key. @throws ConfigError, without the key */
export function checkedKey(text: string, where: string): string {
  const key = text.trim();
  if (/^[\x21-\x7e]+$/.test(key)) return key;
  throw new ConfigError(`${where} holds what no key does: a blank, a line end or a special letter`);
}

/** Reads a bearer token from a file, else from an environment variable; null where neither is set. @throws ConfigError; DataError */
export function bearerToken(file: string | undefined, variable: string): string | null {
  if (file !== undefined) return checkedKey(readUtf8(file), file);
  const given = process.env[variable]?.trim() ?? '';
  return given === '' ? null : checkedKey(given, `${variable} in the environment`);
}

/** Reads the certificates of authorities to trust. @throws ConfigError for a file that holds none; DataError */
export function readAuthorities(file: string | undefined): string | undefined {
  if (file === undefined) return undefined;
  const pem = readUtf8(file);
  try {
    new X509Certificate(pem);
  } catch (cause) {
    throw new ConfigError(`--ca-file ${file}: holds no certificate in PEM form`, { cause });
  }
  return pem;
}

/** Parses JSON; returns undefined for any other text. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Returns the first problem of an answer with its path. */
export function issueOf({ issues }: z.ZodError): string {
  const { path, message } = issues[0]!;
  return `${path.join('.') || 'all of it'}: ${message}`;
}

/** A server's text for a message: its beginning, without what moves a cursor, and of a web page nothing. */
export function excerpt(text: string): string {
  if (/^\s*<[!a-z]/i.test(text)) return 'a web page';
  const plain = text.replaceAll(/[\p{C}\s]+/gu, ' ').trim();
  return plain.length > 200 ? `${plain.slice(0, 197)}...` : plain;
}

const MINUTE = 60_000;

export interface Rates {
  /** Requests that may begin within any 60 s; default: any number. */
  readonly requestsPerMinute?: number | undefined;
  /** Tokens of prompts and responses within any 60 s; default: any number. */
  readonly tokensPerMinute?: number | undefined;
}

/** A request that was let through. */
interface Admitted {
  /** Time of admission, ms. */
  readonly at: number;
  /** Estimated, until the server says how many it were. */
  tokens: number;
}

/**
 * Delay in ms until a request of `tokens` keeps to the rates; 0: none. A request that is larger than the limit waits
 * until the minute before it is empty.
 * @param recent those of the last minute, oldest first
 */
export function waitFor(
  recent: readonly Admitted[],
  now: number,
  tokens: number,
  { requestsPerMinute = Number.POSITIVE_INFINITY, tokensPerMinute = Number.POSITIVE_INFINITY }: Rates,
): number {
  let kept = recent.length;
  let sum = recent.reduce((total, each) => total + each.tokens, 0);
  let until = now;
  for (const each of recent) {
    if (kept < requestsPerMinute && sum + tokens <= tokensPerMinute) break;
    kept--;
    sum -= each.tokens;
    until = each.at + MINUTE;
  }
  return Math.max(0, until - now);
}

/** Lets work through: a number of pieces at once, and requests of each at the given rates, in the order in which they came. */
export class Limits {
  readonly #rates: Rates;
  readonly #concurrency: number;
  #running = 0;
  readonly #queue: (() => void)[] = [];
  #recent: Admitted[] = [];
  #pausedUntil = 0;
  #turn: Promise<void> = Promise.resolve();

  constructor(concurrency: number, rates: Rates) {
    this.#concurrency = concurrency;
    this.#rates = rates;
  }

  /** Runs `work` once fewer than `concurrency` others run. @throws the signal's reason, what `work` throws */
  async run<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    if (this.#running < this.#concurrency) this.#running++;
    else await new Promise<void>((free) => this.#queue.push(free));
    try {
      signal.throwIfAborted();
      return await work();
    } finally {
      const next = this.#queue.shift();
      if (next === undefined) this.#running--;
      else next();
    }
  }

  /** Waits until a request may be sent. @throws the signal's reason */
  async admit(tokens: number, signal: AbortSignal): Promise<Admitted> {
    const before = this.#turn;
    let done = (): void => {};
    this.#turn = new Promise((resolve) => {
      done = resolve;
    });
    try {
      await before;
      for (;;) {
        signal.throwIfAborted();
        const now = performance.now();
        this.#recent = this.#recent.filter(({ at }) => at > now - MINUTE);
        const wait = Math.max(this.#pausedUntil - now, waitFor(this.#recent, now, tokens, this.#rates));
        if (wait <= 0) break;
        await sleep(wait, undefined, { signal }).catch(() => signal.throwIfAborted());
      }
      const admitted: Admitted = { at: performance.now(), tokens };
      const { requestsPerMinute, tokensPerMinute } = this.#rates;
      if (requestsPerMinute !== undefined || tokensPerMinute !== undefined) this.#recent.push(admitted);
      return admitted;
    } finally {
      done();
    }
  }

  /** Sends no request for so many seconds, as the server asked. */
  pause(seconds: number): void {
    this.#pausedUntil = Math.max(this.#pausedUntil, performance.now() + seconds * 1000);
  }
}
