/**
 * Requests to a server: POST over kept connections, and limits on concurrency, requests and tokens per minute. Node's own `http` takes
 * half the processor time of `fetch` (measured: .31 and .70 s per 1000 requests of text, .87 and 1.40 with a picture of 100 kB), which
 * matters with 64 requests at once on a core; it follows no redirect, and its timeout is free.
 */

import { Agent, request as requestHttp } from 'node:http';
import { request as requestHttps, Agent as SecureAgent } from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';

/** Bytes of an answer, after which a server is no longer listened to. */
const LONGEST_ANSWER = 16 * 2 ** 20;

export interface Posted {
  readonly status: number;
  readonly headers: { readonly get: (name: string) => string | null };
  readonly text: string;
}

/** Error of a request without an answer within its time limit. */
export class Timeout extends Error {}

/** Opens a server whose connections are kept, one for each concurrent request; idle ones close after some seconds. */
export function openConnections(address: URL, headers: Readonly<Record<string, string>>) {
  const secure = address.protocol === 'https:';
  // Node 24.5 and later ask a proxy of the environment, where that is switched on as for fetch.
  const proxy = process.env['NODE_USE_ENV_PROXY'] === '1' ? { proxyEnv: process.env } : {};
  const kept = { keepAlive: true, ...proxy };
  const agent = secure ? new SecureAgent(kept) : new Agent(kept);
  const request = secure ? requestHttps : requestHttp;

  /**
   * Sends `body`, and gives the whole answer.
   * @param timeout seconds until the end of the answer
   * @throws Timeout; the signal's reason; what the connection broke with
   */
  return (body: Uint8Array, timeout: number, signal: AbortSignal): Promise<Posted> =>
    new Promise((resolve, reject) => {
      signal.throwIfAborted();
      const sent = request(address, {
        method: 'POST',
        agent,
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
          if (length > LONGEST_ANSWER) fail(new Error(`it sends more than ${LONGEST_ANSWER} bytes`));
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
