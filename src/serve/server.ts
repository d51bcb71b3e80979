/** The running service: Workers, socket, shutdown. */
import { once, setMaxListeners } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { basename, resolve } from 'node:path';
import { getRequestListener, RequestError } from '@hono/node-server';
import { openLocal } from '../answer/open.ts';
import { ConfigError, reasonOf, TimeseerError } from '../ground/errors.ts';
import { cores } from '../ground/machine.ts';
import { workerUrl } from '../ground/paths.ts';
import { WorkerPool } from '../ground/worker-pool.ts';
import { WorkerThread } from '../ground/worker-thread.ts';
import { type AppLimits, createApp, isLocalName, refusalOf, type ServedPolicy, type Service } from './app.ts';
import type { ChatLimits } from './chat-request.ts';
import type { ChatWorkerData, PolicySettings } from './chat-worker.ts';
import { invalid } from './request.ts';

export interface ServeOptions {
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
  /** Key that clients must send; null: none is needed. */
  readonly apiKey: string | null;
  readonly policy: PolicySettings | null;
  readonly limits: AppLimits & Omit<ChatLimits, 'samples'>;
  /** True: the log is lines of JSON. Default: text. */
  readonly jsonLog?: boolean | undefined;
}

export interface RunningService {
  readonly url: string;
  readonly port: number;
  /** Name of the policy's model; null without a policy. */
  readonly model: string | null;
  /** Rejects when the service cannot go on. */
  readonly failed: Promise<never>;
  /** Takes no more requests, answers those that it has, and ends within the timeout of a request. */
  close(): Promise<void>;
}

/** Timeouts for receiving a whole request and its header. */
const SECONDS_TO_SEND = 60;
const SECONDS_TO_SEND_HEADER = 20;
const HEADER_BYTES = 16_384;
/** Milliseconds between checks for idle connections while the service ends. */
const LOOK = 20;
/** Most seconds that unfinished bodies have while the service ends, and shares of the timeout for bodies and for answers. */
const [SECONDS_TO_END, OF_BODIES, OF_ANSWERS] = [5, 0.5, 0.9];

const dead = (worker: string) => (problem: string) => `${worker} ended (${problem})`;

/** Starts the Workers of a policy; `failed` rejects when the one that holds it dies. */
async function startPolicy(
  settings: PolicySettings,
  limits: ChatLimits,
): Promise<{ readonly served: ServedPolicy; readonly failed: Promise<never> }> {
  const { directory } = await openLocal(settings.policy, settings);
  const model = basename(resolve(settings.policy));
  const program = workerUrl('./chat-worker.ts', import.meta.url);
  let fail!: (error: Error) => void;
  const failed = new Promise<never>((_, reject) => {
    fail = reject;
  });
  failed.catch(() => undefined);
  const thread: ServedPolicy['thread'] = new WorkerThread({
    program,
    workerData: { role: 'policy', settings } satisfies ChatWorkerData,
    died: (cause) => {
      const problem = cause instanceof Error ? cause.message : `exit code ${cause}`;
      const error = new TimeseerError(dead("the policy's Worker")(problem), { cause });
      fail(error);
      return error;
    },
  });
  await thread.ready;
  const requests: ServedPolicy['requests'] = new WorkerPool({
    ...{ size: 1, depth: 1, program, failure: dead('the Worker that prepares prompts') },
    workerData: { role: 'prompts', directory, model, limits } satisfies ChatWorkerData,
  });
  // An empty body is refused: by then the Worker has read what it needs, so that the first client does not wait for it.
  await requests.ask(new Uint8Array());
  return { served: { model, thread, requests, created: Math.floor(Date.now() / 1000) }, failed };
}

/** Returns true for a host that is this machine itself. */
export const isLocalHost = (host: string): boolean => isLocalName(host.includes(':') ? `[${host}]` : host);

/**
 * Starts the service; it runs until it is closed.
 * @throws ConfigError for an address that cannot be listened to; CheckpointError for a policy that cannot be loaded
 */
export async function startService(options: ServeOptions): Promise<RunningService> {
  const { host, port, apiKey, limits } = options;
  const explain: Service['explain'] = new WorkerPool({
    ...{ size: cores(), depth: 1, failure: dead('the Worker that detects') },
    program: workerUrl('./explain-worker.ts', import.meta.url),
  });
  const started =
    options.policy === null
      ? null
      : await startPolicy(options.policy, { ...limits, samples: options.policy.maxRows });
  const policy = started?.served ?? null;
  let closing = false;
  const [bodies, answers] = [new AbortController(), new AbortController()];
  // Every request that is under way listens.
  setMaxListeners(0, bodies.signal, answers.signal);
  const app = createApp({
    ...{ explain, policy, limits, apiKey, local: isLocalHost(host), closing: () => closing },
    ...{ bodiesEnd: bodies.signal, answersEnd: answers.signal, jsonLog: options.jsonLog ?? false },
  });
  const endWorkers = async (): Promise<void> => {
    const closed = new TimeseerError('the service has ended');
    await Promise.all([explain.close(), policy?.requests.close(), policy?.thread.end(closed)]);
  };
  const errorHandler = (cause: unknown): Response => {
    const unreadable = cause instanceof RequestError;
    const { status, error } = refusalOf(
      unreadable ? invalid(`the address of the request: ${cause.message}`) : cause,
    );
    return Response.json({ error }, { status });
  };
  const server = createServer(
    {
      maxHeaderSize: HEADER_BYTES,
      requestTimeout: 1000 * SECONDS_TO_SEND,
      headersTimeout: 1000 * SECONDS_TO_SEND_HEADER,
      connectionsCheckingInterval: 2000,
    },
    getRequestListener(app.fetch, { errorHandler }),
  );
  let answering = 0;
  server.on('request', (_, response) => {
    answering++;
    response.once('close', () => answering--);
  });
  try {
    server.listen(port, host);
    await once(server, 'listening');
  } catch (cause) {
    await endWorkers();
    const taken = (cause as NodeJS.ErrnoException).code === 'EADDRINUSE';
    throw new ConfigError(
      `--host ${host} --port ${port}: ${taken ? 'another program listens there; choose another --port' : `cannot be listened to (${reasonOf(cause)})`}`,
      { cause },
    );
  }
  const bound = server.address() as AddressInfo;
  const name = host.includes(':') ? `[${host}]` : host;
  return {
    ...{ url: `http://${name}:${bound.port}`, port: bound.port, model: policy?.model ?? null },
    failed: started?.failed ?? new Promise<never>(() => {}),
    close: async () => {
      closing = true;
      const closed = new Promise((done) => server.close(done));
      const ms = 1000 * limits.seconds;
      const timers = [
        setTimeout(() => bodies.abort(), Math.min(1000 * SECONDS_TO_END, OF_BODIES * ms)),
        setTimeout(() => answers.abort(), OF_ANSWERS * ms),
        setTimeout(() => server.closeAllConnections(), ms),
        // Connections that wait for a next request end at once, those with one under way when it is answered, and those that have not sent
        // a whole header with the last answer.
        setInterval(() => {
          if (answering === 0) server.closeAllConnections();
          else server.closeIdleConnections();
        }, LOOK),
      ];
      await closed;
      timers.forEach(clearTimeout);
      await endWorkers();
    },
  };
}
