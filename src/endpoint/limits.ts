/** Limits on concurrent requests, requests per minute and tokens per minute. */
import { setTimeout as sleep } from 'node:timers/promises';

const MINUTE = 60_000;

export interface Rates {
  /** Requests that may begin within any 60 s; default: any number. */
  readonly requestsPerMinute?: number | undefined;
  /** Tokens of prompts and responses within any 60 s; default: any number. */
  readonly tokensPerMinute?: number | undefined;
}

/** A request that was let through. */
export interface Admitted {
  /** When, ms. */
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

  /** No request is sent for so many seconds: the server asked for it. */
  pause(seconds: number): void {
    this.#pausedUntil = Math.max(this.#pausedUntil, performance.now() + seconds * 1000);
  }
}
