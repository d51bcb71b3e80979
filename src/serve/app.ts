/** The routes of the service: who may ask, how much, and what is answered. */
import { createHash, randomInt, randomUUID, timingSafeEqual } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { type Context, Hono, type MiddlewareHandler } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import { HTTPException } from 'hono/http-exception';
import { ConfigError, DataError } from '../ground/errors.ts';
import { say } from '../ground/terminal.ts';
import type { WorkerPool } from '../ground/worker-pool.ts';
import { chatCompletion, chatStream, type PolicyThread } from './chat-answer.ts';
import type { ChatRequest } from './chat-request.ts';
import type { ExplainRequest } from './explain-request.ts';
import type { ExplainAnswer } from './explain-worker.ts';
import { answerOf, clientGone, invalid, type Outcome, type Refusal, Refused, refused } from './request.ts';

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
}

interface Variables {
  /** Settles when a streamed answer has ended. */
  streaming: Promise<void> | undefined;
}
type Env = { Variables: Variables };

/** Seconds that a refused client should wait before it retries. */
const RETRY_SECONDS = 5;

function answerRefusal(c: Context, { status, error, headers = {} }: Refusal): Response {
  return c.json({ error }, status as 400, headers); // the types do not know 499
}

const serverError = (message: string, status: 500 | 503 | 504, code: string): Refused =>
  refused(status, 'server_error', message, null, code);

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

/** Counts running requests and refuses those beyond the limit before their bodies are read. */
class Places {
  taken = 0;
  readonly #most: number;

  constructor(most: number) {
    this.#most = most;
  }

  get middleware(): MiddlewareHandler<Env> {
    return async (c, next) => {
      if (this.taken >= this.#most) {
        const message = `${this.taken} requests run or wait, which is the limit; try again later`;
        const headers = { 'Retry-After': String(RETRY_SECONDS) };
        throw refused(429, 'rate_limit_error', message, null, 'queue_full', headers);
      }
      this.taken++;
      try {
        await next();
      } finally {
        const left = (): void => void this.taken--;
        const streaming = c.get('streaming');
        if (streaming === undefined) left();
        else void streaming.finally(left);
      }
    };
  }
}

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

/** Reads the body. @throws Refused where the client disconnects before it has sent it */
async function bytesOf(c: Context): Promise<Uint8Array> {
  try {
    return new Uint8Array(await c.req.arrayBuffer());
  } catch {
    throw clientGone();
  }
}

/** Runs `body` with a signal that aborts when the client disconnects, or when `seconds` have passed since `began` (performance.now). */
async function within<T>(
  c: Context,
  { began, seconds }: { readonly began: number; readonly seconds: number },
  body: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController();
  const gone = c.req.raw.signal;
  const leave = (): void => controller.abort(clientGone());
  const left = began + 1000 * seconds - performance.now();
  const timer = setTimeout(() => controller.abort(timedOut(seconds)), left);
  gone.addEventListener('abort', leave);
  if (gone.aborted) leave();
  try {
    return await body(controller.signal);
  } finally {
    clearTimeout(timer);
    gone.removeEventListener('abort', leave);
  }
}

/** Converts an error to a refusal; a fault of the service is logged on standard error and not shown to the client. */
export function refusalOf(error: unknown): Refusal {
  if (error instanceof Refused) return error.refusal;
  if (error instanceof DataError || error instanceof ConfigError) return invalid(error.message).refusal;
  say(`error: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
  return serverError('the service failed; its log says why', 500, 'internal_error').refusal;
}

const modelObject = ({ model, created }: ServedPolicy): object => ({
  ...{ id: model, object: 'model', created, owned_by: 'timeseer' },
});

export function createApp(service: Service): Hono<Env> {
  const { limits, policy } = service;
  const app = new Hono<Env>();
  const places = { explain: new Places(limits.queue), chat: new Places(limits.queue) };
  const size = bodyLimit({
    maxSize: limits.bodyBytes,
    onError: () => {
      const message = `the body is larger than the limit of ${limits.bodyBytes} bytes`;
      const headers = { Connection: 'close' };
      throw refused(413, 'invalid_request_error', message, null, 'body_too_large', headers);
    },
  });

  app.use(async (c, next) => {
    const began = performance.now();
    c.header('X-Request-Id', randomUUID());
    c.header('X-Content-Type-Options', 'nosniff');
    c.header('Cache-Control', 'no-store');
    await next();
    const seconds = ((performance.now() - began) / 1000).toFixed(2);
    say(`${c.req.method} ${c.req.path.slice(0, 200)} ${c.res.status} ${seconds} s`);
  });
  app.onError((error, c) =>
    answerRefusal(c, error instanceof HTTPException ? invalid(error.message).refusal : refusalOf(error)),
  );
  if (service.local) app.use(onlyLocalNames);
  app.use(async (c, next) => {
    if (service.closing()) {
      c.header('Connection', 'close');
      throw serverError('the service is shutting down; retry later', 503, 'closing');
    }
    await next();
  });

  app.get('/health', (c) =>
    c.json({
      status: 'ok',
      model: policy?.model ?? null,
      requests: { explain: places.explain.taken, chat: places.chat.taken },
    }),
  );

  if (service.apiKey !== null) app.use('/v1/*', onlyWithKey(service.apiKey));

  app.get('/v1/models', (c) =>
    c.json({ object: 'list', data: policy === null ? [] : [modelObject(policy)] }),
  );
  app.get('/v1/models/:model', (c) => {
    const asked = c.req.param('model');
    if (policy !== null && asked === policy.model) return c.json(modelObject(policy));
    throw invalid(`the model '${asked.slice(0, 100)}' is not served here`, 'model', 'model_not_found', 404);
  });

  app.post('/v1/explain', places.explain.middleware, size, async (c) => {
    const json = mediaType(c, ['text/csv', 'application/json']) === 'application/json';
    const accept = c.req.header('accept');
    const query = [...new URL(c.req.url).searchParams];
    return within(c, { began: performance.now(), seconds: limits.seconds }, async (signal) => {
      const body = await bytesOf(c);
      const outcome = await service.explain.ask({ body, json, query, accept }, { signal });
      const { type, text } = answerOf(outcome);
      return c.body(text, 200, { 'Content-Type': type });
    });
  });

  app.post('/v1/chat/completions', places.chat.middleware, size, async (c) => {
    mediaType(c, ['application/json']);
    if (policy === null) {
      throw invalid('no policy is served; start the service with --policy', 'model', 'model_not_found', 404);
    }
    const time = { began: performance.now(), seconds: limits.seconds };
    const { completion, stream, usage } = await within(c, time, async (signal) =>
      answerOf(await policy.requests.ask(await bytesOf(c), { signal })),
    );
    const job = { ...completion, seed: completion.seed ?? randomInt(2 ** 48 - 1) };
    const head = {
      id: `chatcmpl-${randomUUID().replaceAll('-', '')}`,
      created: Math.floor(Date.now() / 1000),
      model: policy.model,
    };
    if (!stream) {
      return c.json(await within(c, time, (signal) => chatCompletion(policy.thread, job, head, signal)));
    }
    const streamed = chatStream(
      policy.thread,
      job,
      { ...head, usage },
      (body) => within(c, time, body),
      refusalOf,
    );
    c.set('streaming', streamed.ended);
    return c.body(streamed.body, 200, { 'Content-Type': 'text/event-stream; charset=utf-8' });
  });

  const methods = {
    '/health': 'GET',
    '/v1/models': 'GET',
    '/v1/models/:model': 'GET',
    '/v1/explain': 'POST',
    '/v1/chat/completions': 'POST',
  };
  for (const [path, method] of Object.entries(methods)) {
    app.all(path, (c) => {
      c.header('Allow', method);
      throw invalid(`${c.req.method} is not supported here; use ${method}`, null, 'method_not_allowed', 405);
    });
  }
  app.notFound((c) => {
    const paths = Object.keys(methods).join(', ');
    return answerRefusal(c, invalid(`no such path; available: ${paths}`, null, 'not_found', 404).refusal);
  });
  return app;
}
