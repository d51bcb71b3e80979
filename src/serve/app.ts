/** The routes of the service: who may ask, how much, and what is answered. */
import { createHash, randomInt, randomUUID, timingSafeEqual } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import type { HttpBindings } from '@hono/node-server';
import { type Context, Hono, type MiddlewareHandler } from 'hono';
import { HTTPException } from 'hono/http-exception';
import { streamSSE } from 'hono/streaming';
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { ConfigError, DataError } from '../ground/errors.ts';
import { say } from '../ground/terminal.ts';
import type { WorkerPool } from '../ground/worker-pool.ts';
import { chatCompletion, chatStream, type PolicyThread } from './chat-answer.ts';
import type { ChatRequest } from './chat-request.ts';
import type { ExplainRequest } from './explain-request.ts';
import type { ExplainAnswer } from './explain-worker.ts';
import {
  answerOf,
  clientGone,
  invalid,
  type Outcome,
  type Refusal,
  Refused,
  refused,
  wantsEvents,
} from './request.ts';

export interface AppLimits {
  readonly bodyBytes: number;
  /** Maximum number of requests of a kind that run or wait; more are refused. */
  readonly queue: number;
  /** Timeout of a request, from its arrival to the end of its answer. */
  readonly seconds: number;
}

/** Policy of the service. */
export interface ServedPolicy {
  readonly model: string;
  readonly created: number; // seconds since 1970
  readonly requests: WorkerPool<Uint8Array, Outcome<ChatRequest>>;
  readonly thread: PolicyThread;
}

export interface Service {
  readonly explain: WorkerPool<ExplainRequest, Outcome<ExplainAnswer>>;
  readonly policy: ServedPolicy | null;
  readonly limits: AppLimits;
  /** Key that clients must send; null: none is needed. */
  readonly apiKey: string | null;
  /** True: requests must name this machine as the host. */
  readonly local: boolean;
  /** Returns true once the service is about to end and refuses new requests. */
  readonly closing: () => boolean;
  /** Abort while the service ends: bodies that have not come, then answers that are not ready, are given up. */
  readonly bodiesEnd: AbortSignal;
  readonly answersEnd: AbortSignal;
  /** True: a line of JSON for each request. */
  readonly jsonLog: boolean;
}

type Env = { Bindings: HttpBindings };

/** Seconds that a refused client should wait before it retries. */
const RETRY_SECONDS = 5;

function answerRefusal(c: Context, { status, error, headers = {} }: Refusal): Response {
  return c.json({ error }, status as 400, headers); // the types do not know 499
}

const serverError = (message: string, status: 500 | 503 | 504, code: string): Refused =>
  refused(status, 'server_error', message, null, code);

const shuttingDown = (): Refused => serverError('the service is shutting down; retry later', 503, 'closing');

const timedOut = (seconds: number): Refused =>
  serverError(`the answer took more than ${seconds} s; ask for less`, 504, 'timeout');

/** Returns true where a `Host` header names this machine. */
export function isLocalName(host: string): boolean {
  const name = host.replace(/:\d+$/, '').toLowerCase();
  return name === 'localhost' || name === '[::1]' || /^127(?:\.\d{1,3}){3}$/.test(name);
}

/** Refuses other host names: a page of another site whose name points here would have the same origin to a browser. */
const onlyLocalNames: MiddlewareHandler<Env> = async (c, next) => {
  if (isLocalName(c.req.header('host') ?? '')) return next();
  const message = 'Host: the service listens to this machine alone; address it as localhost or 127.0.0.1';
  throw refused(403, 'permission_error', message, 'Host', 'host_not_allowed');
};

const digest = (text: string): Buffer => createHash('sha256').update(text).digest();

/** Refuses requests without the key. Digests are compared in constant time. */
function onlyWithKey(key: string): MiddlewareHandler<Env> {
  const wanted = digest(key);
  return async (c, next) => {
    const [, given] = /^Bearer +(\S+) *$/i.exec(c.req.header('authorization') ?? '') ?? [];
    if (given !== undefined && timingSafeEqual(digest(given), wanted)) return next();
    const problem = given === undefined ? 'no API key was given' : 'the API key is wrong';
    const message = `${problem}; send it as Authorization: Bearer KEY`;
    const headers = { 'WWW-Authenticate': 'Bearer' };
    throw refused(401, 'authentication_error', message, null, 'invalid_api_key', headers);
  };
}

/** Share of the places that is kept for clients that have few. */
const KEPT_FREE = 1 / 4;

/** Counts running requests and refuses those beyond the limit. No client takes the last places. */
class Places {
  taken = 0;
  readonly #most: number;
  readonly #byClient = new Map<string, number>();

  constructor(most: number) {
    this.#most = most;
  }

  /** @throws Refused (429) where no place is free for this client */
  check(client: string): void {
    const free = Math.floor(KEPT_FREE * this.#most);
    const few = (this.#byClient.get(client) ?? 0) < Math.max(1, free);
    if (this.taken < (few ? this.#most : this.#most - free)) return;
    const message = `${this.taken} requests run or wait, which is the limit; try again later`;
    const headers = { 'Retry-After': String(RETRY_SECONDS) };
    throw refused(429, 'rate_limit_error', message, null, 'queue_full', headers);
  }

  /** Takes a place; returns a function that frees it. @throws Refused (429) */
  take(client: string): () => void {
    this.check(client);
    const count = (change: number): void => {
      this.taken += change;
      const now = (this.#byClient.get(client) ?? 0) + change;
      if (now > 0) this.#byClient.set(client, now);
      else this.#byClient.delete(client);
    };
    count(1);
    return () => count(-1);
  }
}

/** ms after which a body that is slow may be given up for another. */
const PATIENCE = 1000;

/** Bodies on their way. They take no place; where too many come at once, the slowest is given up for the next. */
class Arrivals {
  readonly #under = new Set<{ readonly began: number; bytes: number; readonly slow: AbortController }>();
  readonly #limits: AppLimits;
  readonly #end: AbortSignal;

  constructor(limits: AppLimits, end: AbortSignal) {
    this.#limits = limits;
    this.#end = end;
  }

  #makeRoom(): void {
    if (this.#under.size < this.#limits.queue) return;
    const now = performance.now();
    const [slowest] = [...this.#under]
      .filter(({ began, slow }) => now - began > PATIENCE && !slow.signal.aborted)
      .sort((a, b) => a.bytes / (now - a.began) - b.bytes / (now - b.began));
    if (slowest !== undefined) {
      slowest.slow.abort();
      return;
    }
    const headers = { 'Retry-After': String(RETRY_SECONDS), Connection: 'close' };
    throw refused(429, 'rate_limit_error', 'too many bodies are being received', null, 'queue_full', headers);
  }

  /** Reads the body of a request. @throws Refused where it is too large, too slow, or its client disconnects */
  async read(c: Context<Env>): Promise<Uint8Array> {
    const { bodyBytes } = this.#limits;
    const headers = { Connection: 'close' };
    const tooLarge = (): Refused => {
      const message = `the body is larger than the limit of ${bodyBytes} bytes`;
      return refused(413, 'invalid_request_error', message, null, 'body_too_large', headers);
    };
    if (Number(c.req.header('content-length') ?? 0) > bodyBytes) throw tooLarge();
    this.#makeRoom();
    const reader = c.req.raw.body?.getReader();
    if (reader === undefined) return new Uint8Array();
    const body = { began: performance.now(), bytes: 0, slow: new AbortController() };
    const given = AbortSignal.any([body.slow.signal, this.#end]);
    let leave = (): void => {};
    const ended = new Promise<never>((_, reject) => {
      const slow = 'the body comes more slowly than those of others, who wait; send it again';
      leave = () =>
        reject(
          this.#end.aborted
            ? shuttingDown()
            : refused(408, 'invalid_request_error', slow, null, 'slow_body', headers),
        );
      given.addEventListener('abort', leave);
      if (given.aborted) leave();
    });
    ended.catch(() => undefined);
    this.#under.add(body);
    const chunks: Uint8Array[] = [];
    try {
      for (;;) {
        const { done, value } = await Promise.race([reader.read(), ended]);
        if (done) return new Uint8Array(Buffer.concat(chunks));
        body.bytes += value.byteLength;
        if (body.bytes > bodyBytes) throw tooLarge();
        chunks.push(value);
      }
    } catch (error) {
      if (!(error instanceof Refused)) throw clientGone();
      void reader.cancel().catch(() => undefined);
      throw error;
    } finally {
      given.removeEventListener('abort', leave);
      this.#under.delete(body);
    }
  }
}

/** Metrics of one service in Prometheus' text format. */
function openMetrics(places: Readonly<Record<string, Places>>) {
  const register = new Registry();
  const registers = [register];
  collectDefaultMetrics({ register });
  new Gauge({
    ...{ name: 'timeseer_requests_running', help: 'Requests that run or wait', registers },
    labelNames: ['kind'],
    collect() {
      for (const [kind, { taken }] of Object.entries(places)) this.set({ kind }, taken);
    },
  });
  const requests = new Counter({
    ...{ name: 'timeseer_requests_total', help: 'Requests by route and status', registers },
    labelNames: ['route', 'status'],
  });
  const seconds = new Histogram({
    ...{ name: 'timeseer_request_seconds', help: 'Seconds until the answer begins', registers },
    ...{ labelNames: ['route'], buckets: [0.01, 0.1, 0.3, 1, 3, 10, 30, 100, 300] },
  });
  return { register, requests, seconds };
}

/** Id that a client sends with its request, where it is one. */
const REQUEST_ID = /^[\w.:-]{1,100}$/;

/**
 * Returns the media type of the body. Insisting on it protects against other sites: browsers may not send these types to them unasked.
 * @throws Refused (415)
 */
function mediaType(c: Context, types: readonly string[]): string {
  const given = (c.req.header('content-type') ?? '').split(';')[0]!.trim().toLowerCase();
  const encoding = c.req.header('content-encoding') ?? 'identity';
  if (encoding.toLowerCase() !== 'identity') {
    throw invalid('Content-Encoding: send the body as it is, not compressed', 'Content-Encoding', null, 415);
  }
  if (types.includes(given)) return given;
  const expected = types.join(' or ');
  throw invalid(
    `Content-Type: expected ${expected}, got ${given === '' ? 'none' : given.slice(0, 100)}`,
    'Content-Type',
    null,
    415,
  );
}

/**
 * Runs `body` with a signal that aborts when the client disconnects, when `seconds` have passed since `began` (performance.now), or at the
 * `end` of the service.
 */
async function within<T>(
  c: Context<Env>,
  { began, seconds, end }: { readonly began: number; readonly seconds: number; readonly end: AbortSignal },
  body: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController();
  const gone = c.req.raw.signal;
  const leave = (): void => controller.abort(clientGone());
  const left = began + 1000 * seconds - performance.now();
  const timer = setTimeout(() => controller.abort(timedOut(seconds)), left);
  const close = (): void => controller.abort(shuttingDown());
  gone.addEventListener('abort', leave);
  end.addEventListener('abort', close);
  if (gone.aborted) leave();
  if (end.aborted) close();
  try {
    return await body(controller.signal);
  } finally {
    clearTimeout(timer);
    gone.removeEventListener('abort', leave);
    end.removeEventListener('abort', close);
  }
}

/** Converts an error to a refusal, in which options of the command are parameters; a fault of the service is logged on standard error and not shown to the client. */
export function refusalOf(error: unknown): Refusal {
  if (error instanceof Refused) return error.refusal;
  if (error instanceof DataError || error instanceof ConfigError)
    return invalid(error.message.replaceAll(/(?<=^|[ (])--(?=[a-z])/g, '')).refusal;
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  // On one line, so that what a client sent cannot look like a line of the log.
  say(`error: ${text.replaceAll(/\s*[\r\n]+\s*/g, ' | ')}`);
  return serverError('the service failed; its log says why', 500, 'internal_error').refusal;
}

/** Streams events about an answer under way, then the answer, which is events; what is refused before the first is answered as usual. */
async function explainStream(
  c: Context<Env>,
  answer: (gone: AbortSignal, onProgress: (share: number) => void) => Promise<ExplainAnswer>,
): Promise<Response> {
  const gone = new AbortController();
  let progress = (_: number): void => {};
  const begun = new Promise<number>((resolve) => {
    progress = resolve;
  });
  const answered = answer(gone.signal, (share) => progress(share));
  await Promise.race([begun, answered]);
  return streamSSE(c, async (stream) => {
    const send = (event: string, data: object) => stream.writeSSE({ event, data: JSON.stringify(data) });
    stream.onAbort(() => gone.abort(clientGone()));
    progress = (share) => void send('progress', { share });
    try {
      await stream.write((await answered).text);
    } catch (error) {
      if (!gone.signal.aborted) await send('error', refusalOf(error).error);
    }
  });
}

const modelObject = ({ model, created }: ServedPolicy): object => ({
  ...{ id: model, object: 'model', created, owned_by: 'timeseer' },
});

/** Paths, and the method of each. */
export const METHODS: Readonly<Record<string, string>> = {
  '/openapi.json': 'GET',
  '/healthz': 'GET',
  '/readyz': 'GET',
  '/metrics': 'GET',
  '/v1/models': 'GET',
  '/v1/models/:model': 'GET',
  '/v1/explain': 'POST',
  '/v1/chat/completions': 'POST',
};

export function createApp(service: Service): Hono<Env> {
  const { limits, policy } = service;
  const app = new Hono<Env>();
  const places = { explain: new Places(limits.queue), chat: new Places(limits.queue) };
  const arrivals = new Arrivals(limits, service.bodiesEnd);
  const metrics = openMetrics(places);
  const clientOf = (c: Context<Env>): string => c.env.incoming?.socket.remoteAddress ?? '';

  app.use(async (c, next) => {
    const began = performance.now();
    const given = c.req.header('x-request-id') ?? '';
    const id = REQUEST_ID.test(given) ? given : randomUUID();
    c.header('X-Request-Id', id);
    c.header('X-Content-Type-Options', 'nosniff');
    c.header('Cache-Control', 'no-store');
    await next();
    const seconds = (performance.now() - began) / 1000;
    const { method } = c.req;
    const { status } = c.res;
    // Escapes of the address are kept, so that a line of the log stays one.
    const { pathname } = new URL(c.req.url);
    const route = Object.hasOwn(METHODS, pathname) ? pathname : 'other';
    metrics.requests.inc({ route, status });
    metrics.seconds.observe({ route }, seconds);
    const path = pathname.slice(0, 200);
    if (!service.jsonLog) return say(`${method} ${path} ${status} ${seconds.toFixed(2)} s ${id}`);
    const time = new Date().toISOString();
    const rounded = Number(seconds.toFixed(4));
    say(JSON.stringify({ time, id, method, path, status, seconds: rounded, client: clientOf(c) }));
  });
  app.onError((error, c) =>
    answerRefusal(c, error instanceof HTTPException ? invalid(error.message).refusal : refusalOf(error)),
  );
  if (service.local) app.use(onlyLocalNames);
  app.get('/healthz', (c) => c.json({ status: 'ok' }));
  app.use(async (c, next) => {
    if (service.closing()) {
      c.header('Connection', 'close');
      throw shuttingDown();
    }
    await next();
  });

  app.get('/readyz', (c) =>
    c.json({
      ...{ status: 'ready', model: policy?.model ?? null },
      requests: { explain: places.explain.taken, chat: places.chat.taken },
    }),
  );
  app.get('/openapi.json', async (c) => c.json((await import('./openapi.ts')).openApi()));

  if (service.apiKey !== null)
    for (const path of ['/v1/*', '/metrics']) app.use(path, onlyWithKey(service.apiKey));

  app.get('/metrics', async (c) =>
    c.body(await metrics.register.metrics(), 200, { 'Content-Type': metrics.register.contentType }),
  );

  app.get('/v1/models', (c) =>
    c.json({ object: 'list', data: policy === null ? [] : [modelObject(policy)] }),
  );
  app.get('/v1/models/:model', (c) => {
    const asked = c.req.param('model');
    if (policy !== null && asked === policy.model) return c.json(modelObject(policy));
    throw invalid(`the model '${asked.slice(0, 100)}' is not served here`, 'model', 'model_not_found', 404);
  });

  app.post('/v1/explain', async (c) => {
    const client = clientOf(c);
    places.explain.check(client);
    const json = mediaType(c, ['text/csv', 'application/json']) === 'application/json';
    const accept = c.req.header('accept');
    const query = [...new URL(c.req.url).searchParams];
    const time = { began: performance.now(), seconds: limits.seconds, end: service.answersEnd };
    const body = await arrivals.read(c);
    const leave = places.explain.take(client);
    const answer = (
      gone: AbortSignal = new AbortController().signal,
      onProgress = (_: number): void => {},
    ): Promise<ExplainAnswer> =>
      within(c, time, async (end) => {
        const signal = AbortSignal.any([end, gone]);
        return answerOf(await service.explain.ask({ body, json, query, accept }, { signal, onProgress }));
      }).finally(leave);
    if (wantsEvents(accept)) return explainStream(c, answer);
    const { type, text } = await answer();
    return c.body(text, 200, { 'Content-Type': type });
  });

  app.post('/v1/chat/completions', async (c) => {
    const client = clientOf(c);
    places.chat.check(client);
    mediaType(c, ['application/json']);
    if (policy === null) {
      throw invalid('no policy is served; start the service with --policy', 'model', 'model_not_found', 404);
    }
    const time = { began: performance.now(), seconds: limits.seconds, end: service.answersEnd };
    const body = await arrivals.read(c);
    const leave = places.chat.take(client);
    let streaming = false;
    try {
      const { completion, stream, usage } = await within(c, time, async (signal) =>
        answerOf(await policy.requests.ask(body, { signal })),
      );
      const job = { ...completion, client, seed: completion.seed ?? randomInt(2 ** 48 - 1) };
      const head = {
        id: `chatcmpl-${randomUUID().replaceAll('-', '')}`,
        created: Math.floor(Date.now() / 1000),
        model: policy.model,
      };
      if (!stream) {
        return c.json(await within(c, time, (signal) => chatCompletion(policy.thread, job, head, signal)));
      }
      streaming = true;
      return streamSSE(c, (events) =>
        chatStream(
          events,
          policy.thread,
          job,
          { ...head, usage },
          (run) => within(c, time, run),
          refusalOf,
        ).finally(leave),
      );
    } finally {
      if (!streaming) leave();
    }
  });

  for (const [path, method] of Object.entries(METHODS)) {
    app.all(path, (c) => {
      c.header('Allow', method);
      throw invalid(`${c.req.method} is not supported here; use ${method}`, null, 'method_not_allowed', 405);
    });
  }
  app.notFound((c) => {
    const paths = Object.keys(METHODS).join(', ');
    return answerRefusal(c, invalid(`no such path; available: ${paths}`, null, 'not_found', 404).refusal);
  });
  return app;
}
