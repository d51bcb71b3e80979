/** A pool of Workers that answer requests. Results do not depend on how many there are, nor on which one answers. */
import { parentPort, Worker } from 'node:worker_threads';
import { ConfigError, DataError, TimeseerError } from './errors.ts';
import type { WorkerProgram } from './paths.ts';

interface Message<Request> {
  readonly id: number;
  readonly request: Request;
}

/** Error classes do not survive the way between threads; their kind does. */
type Answer<Reply> = { readonly id: number } & (
  | { readonly kind: 'progress'; readonly done: number }
  | { readonly kind: 'reply'; readonly reply: Reply }
  | { readonly kind: 'failed'; readonly error: 'data' | 'config' | 'other'; readonly message: string }
);

interface Pending<Request, Reply> {
  readonly message: Message<Request>;
  readonly resolve: (reply: Reply) => void;
  readonly reject: (error: unknown) => void;
  readonly onProgress: ((done: number) => void) | undefined;
}

/** A Worker and what it has been sent and not answered. */
interface Member<Request, Reply> {
  readonly worker: Worker;
  readonly pending: Map<number, Pending<Request, Reply>>;
}

export interface WorkerPoolOptions<Request> {
  /** Most Workers; they start when there is work for them. */
  readonly size: number;
  /** What they run: it calls `answerRequests`. */
  readonly program: WorkerProgram;
  readonly workerData?: unknown;
  /** Requests a Worker holds at a time; when absent 2: one under way, one waiting, so that it never idles. */
  readonly depth?: number;
  /** The message of the error with which requests fail whose Worker has died, `request` being the first of them. */
  readonly failure: (problem: string, request: Request | undefined) => string;
}

const DEPTH = 2;

export interface AskOptions {
  readonly onProgress?: (done: number) => void;
  /**
   * Aborting rejects with the signal's reason. A Worker that has begun is ended, and what waited behind the request goes to another.
   */
  readonly signal?: AbortSignal;
}

export class WorkerPool<Request, Reply> {
  readonly #options: WorkerPoolOptions<Request>;
  readonly #members = new Set<Member<Request, Reply>>();
  #queue: Pending<Request, Reply>[] = [];
  #next = 0;
  #closed = false;
  #onIdle: (() => void) | undefined;

  constructor(options: WorkerPoolOptions<Request>) {
    this.#options = options;
  }

  /** Requests that keep all Workers busy. */
  get capacity(): number {
    return this.#options.size * this.#depth;
  }

  get #depth(): number {
    return this.#options.depth ?? DEPTH;
  }

  /**
   * Rejects with the typed error of the Worker, or with a TimeseerError when the Worker dies (the pool goes on with a new one), or
   * the pool is closed.
   */
  ask(request: Request, { onProgress, signal }: AskOptions = {}): Promise<Reply> {
    if (this.#closed) return Promise.reject(new TimeseerError('the pool is closed; make a new one'));
    if (signal?.aborted) return Promise.reject(signal.reason);
    const id = this.#next++;
    const reply = new Promise<Reply>((resolve, reject) => {
      this.#queue.push({ message: { id, request }, resolve, reject, onProgress });
      this.#dispatch();
    });
    if (signal === undefined) return reply;
    const abort = (): void => this.#cancel(id, signal.reason);
    signal.addEventListener('abort', abort);
    return reply.finally(() => signal.removeEventListener('abort', abort));
  }

  /** Takes back a request that has no reply yet. */
  #cancel(id: number, reason: unknown): void {
    const waiting = this.#queue.findIndex(({ message }) => message.id === id);
    if (waiting >= 0) this.#queue.splice(waiting, 1)[0]!.reject(reason);
    const member = [...this.#members].find(({ pending }) => pending.has(id));
    if (member !== undefined) {
      this.#members.delete(member);
      member.pending.get(id)!.reject(reason);
      member.pending.delete(id);
      this.#queue.unshift(...member.pending.values());
      member.pending.clear();
      void member.worker.terminate();
    }
    this.#dispatch();
  }

  /**
   * Replies to all requests, in their order. Takes requests only as replies are consumed, never more than `ahead` of them. Throws the
   * error of the first that fails and takes no more.
   */
  async *askAll(
    requests: Iterable<Request> | AsyncIterable<Request>,
    ahead = this.capacity,
  ): AsyncGenerator<Reply, void> {
    const waiting: Promise<Reply>[] = [];
    try {
      for await (const request of requests) {
        const reply = this.ask(request);
        // Awaited later, in order; until then its failure is not an unhandled one.
        reply.catch(() => undefined);
        waiting.push(reply);
        if (waiting.length >= ahead) yield await waiting.shift()!;
      }
      while (waiting.length > 0) yield await waiting.shift()!;
    } finally {
      await Promise.allSettled(waiting);
    }
  }

  /** Everything that was asked for fails for this reason. */
  fail(reason: unknown): void {
    for (const { pending } of this.#members) {
      for (const { reject } of pending.values()) reject(reason);
      pending.clear();
    }
    for (const { reject } of this.#queue) reject(reason);
    this.#queue = [];
    this.#onIdle?.();
  }

  /** Waits for what was asked for, then ends all Workers. Later requests are rejected. */
  async close(): Promise<void> {
    this.#closed = true;
    if (this.#busy()) await new Promise<void>((resolve) => (this.#onIdle = resolve));
    await Promise.all([...this.#members].map(({ worker }) => worker.terminate()));
    this.#members.clear();
  }

  #busy(): boolean {
    return this.#queue.length > 0 || [...this.#members].some(({ pending }) => pending.size > 0);
  }

  /** Hands waiting requests to the Workers with the least to do. */
  #dispatch(): void {
    while (this.#queue.length > 0) {
      let member: Member<Request, Reply> | undefined;
      for (const each of this.#members) {
        if (member === undefined || each.pending.size < member.pending.size) member = each;
      }
      const busy = member === undefined || member.pending.size > 0;
      if (busy && this.#members.size < this.#options.size) member = this.#start();
      if (member === undefined || member.pending.size >= this.#depth) return;
      const job = this.#queue.shift()!;
      // An idle Worker does not keep the process alive; a busy one does.
      if (member.pending.size === 0) member.worker.ref();
      member.pending.set(job.message.id, job);
      try {
        member.worker.postMessage(job.message);
      } catch (cause) {
        const error = new DataError(`cannot be sent to a Worker: ${String(cause)}`, { cause });
        this.#settle(member, job.message.id)?.reject(error);
      }
    }
    if (!this.#busy()) this.#onIdle?.();
  }

  #start(): Member<Request, Reply> {
    const { program, workerData, failure } = this.#options;
    const worker = new Worker(program.url, { execArgv: program.execArgv, workerData });
    const member: Member<Request, Reply> = { worker, pending: new Map() };
    this.#members.add(member);
    worker.on('message', (answer: Answer<Reply>) => {
      if (answer.kind === 'progress') {
        member.pending.get(answer.id)?.onProgress?.(answer.done);
        return;
      }
      const job = this.#settle(member, answer.id);
      if (answer.kind === 'reply') job?.resolve(answer.reply);
      else job?.reject(errorOf(answer.error, answer.message));
      this.#dispatch();
    });
    const died = (cause: unknown): void => {
      this.#members.delete(member);
      const problem = cause instanceof Error ? cause.message : `exit code ${String(cause)}`;
      const jobs = [...member.pending.values()];
      const message = failure(problem, jobs[0]?.message.request);
      for (const { reject } of jobs) reject(new TimeseerError(message, { cause }));
      member.pending.clear();
      this.#dispatch();
    };
    worker.on('error', died);
    worker.on('exit', died);
    return member;
  }

  #settle(member: Member<Request, Reply>, id: number): Pending<Request, Reply> | undefined {
    const job = member.pending.get(id);
    member.pending.delete(id);
    if (member.pending.size === 0) member.worker.unref();
    return job;
  }
}

function errorOf(kind: 'data' | 'config' | 'other', message: string): TimeseerError {
  if (kind === 'data') return new DataError(message);
  return kind === 'config' ? new ConfigError(message) : new TimeseerError(message);
}

/**
 * The Worker's side: answers requests one after the other. Typed errors travel to who asked; any other is a fault of the program and
 * ends the Worker. Does nothing in the main thread.
 * @param answer also names the buffers of the reply that need not be copied
 */
export function answerRequests<Request, Reply>(
  answer: (
    request: Request,
    onProgress: (done: number) => void,
  ) => Promise<{ readonly reply: Reply; readonly transfer?: readonly ArrayBuffer[] }>,
): void {
  const port = parentPort;
  if (port === null) return;
  const post = (message: Answer<Reply>, transfer: readonly ArrayBuffer[] = []): void =>
    port.postMessage(message, transfer);
  const respond = async ({ id, request }: Message<Request>): Promise<void> => {
    try {
      const { reply, transfer } = await answer(request, (done) => post({ id, kind: 'progress', done }));
      post({ id, kind: 'reply', reply }, transfer);
    } catch (error) {
      if (!(error instanceof TimeseerError)) throw error;
      const kind = error instanceof DataError ? 'data' : error instanceof ConfigError ? 'config' : 'other';
      post({ id, kind: 'failed', error: kind, message: error.message });
    }
  };
  let turn = Promise.resolve();
  port.on('message', (message: Message<Request>) => {
    turn = turn.then(() => respond(message));
  });
}
