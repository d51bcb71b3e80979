/** A pool of Workers that answer requests. Results depend neither on their number nor on which one answers. */
import { TimeseerError } from './errors.ts';
import type { WorkerProgram } from './paths.ts';
import { WorkerThread } from './worker-thread.ts';

interface Job<Request, Reply> {
  readonly request: Request;
  readonly resolve: (reply: Reply) => void;
  readonly reject: (error: unknown) => void;
  readonly onProgress: ((done: number) => void) | undefined;
}

/** A Worker with the requests that it was sent and has not answered. */
interface Member<Request, Reply> {
  readonly thread: WorkerThread<Request, Reply>;
  readonly jobs: Set<Job<Request, Reply>>;
}

interface WorkerPoolOptions<Request> {
  /** Maximum number of Workers; they start when there is work for them. */
  readonly size: number;
  /** Program of the Workers: it calls `answerRequests`. */
  readonly program: WorkerProgram;
  readonly workerData?: unknown;
  /** Requests that a Worker holds at a time. Default: 2, one under way and one waiting, so that it never idles. */
  readonly depth?: number;
  /** Message of the error with which the requests of a dead Worker fail, `request` being the first of them. */
  readonly failure: (problem: string, request: Request | undefined) => string;
}

const DEPTH = 2;

interface AskOptions {
  /** Receives the numbers that the answer sends as parts. */
  readonly onProgress?: (done: number) => void;
  /**
   * Aborting rejects with the signal's reason and ends a Worker that has begun; its waiting requests go to
   * another.
   */
  readonly signal?: AbortSignal;
}

export class WorkerPool<Request, Reply> {
  readonly #options: WorkerPoolOptions<Request>;
  readonly #members = new Set<Member<Request, Reply>>();
  #queue: Job<Request, Reply>[] = [];
  #closed = false;
  #onIdle: (() => void) | undefined;

  constructor(options: WorkerPoolOptions<Request>) {
    this.#options = options;
  }

  /** Number of requests that keep all Workers busy. */
  get capacity(): number {
    return this.#options.size * this.#depth;
  }

  get #depth(): number {
    return this.#options.depth ?? DEPTH;
  }

  /**
   * Rejects with the Worker's typed error, or with a TimeseerError when the Worker dies (the pool starts a
   * new one) or the pool is closed.
   */
  ask(request: Request, { onProgress, signal }: AskOptions = {}): Promise<Reply> {
    if (this.#closed) return Promise.reject(new TimeseerError('the pool is closed; make a new one'));
    if (signal?.aborted) return Promise.reject(signal.reason);
    let abort = (): void => {};
    const reply = new Promise<Reply>((resolve, reject) => {
      const job = { request, resolve, reject, onProgress };
      abort = () => this.#cancel(job, signal!.reason);
      this.#queue.push(job);
      this.#dispatch();
    });
    if (signal === undefined) return reply;
    signal.addEventListener('abort', abort);
    return reply.finally(() => signal.removeEventListener('abort', abort));
  }

  /** Takes back a request that has no reply yet. */
  #cancel(job: Job<Request, Reply>, reason: unknown): void {
    const waiting = this.#queue.indexOf(job);
    if (waiting >= 0) this.#queue.splice(waiting, 1);
    const member = [...this.#members].find(({ jobs }) => jobs.delete(job));
    if (member !== undefined) {
      this.#queue.unshift(...member.jobs);
      member.jobs.clear();
      this.#drop(member);
    }
    job.reject(reason);
    this.#dispatch();
  }

  #drop(member: Member<Request, Reply>): void {
    this.#members.delete(member);
    void member.thread.end(new TimeseerError('the Worker was ended'));
  }

  /**
   * Yields the replies to all requests in order, at most `ahead` requests at a time; throws the first error.
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

  /** Fails all open requests for this reason. */
  fail(reason: unknown): void {
    for (const { jobs } of this.#members) {
      for (const { reject } of jobs) reject(reason);
      jobs.clear();
    }
    for (const { reject } of this.#queue) reject(reason);
    this.#queue = [];
    this.#onIdle?.();
  }

  /** Waits for all open requests, then ends all Workers. Later requests are rejected. */
  async close(): Promise<void> {
    this.#closed = true;
    if (this.#busy()) await new Promise<void>((resolve) => (this.#onIdle = resolve));
    const closed = new TimeseerError('the pool is closed');
    await Promise.all([...this.#members].map(({ thread }) => thread.end(closed)));
    this.#members.clear();
  }

  #busy(): boolean {
    return this.#queue.length > 0 || [...this.#members].some(({ jobs }) => jobs.size > 0);
  }

  /** Hands waiting requests to the Workers with the least to do. */
  #dispatch(): void {
    while (this.#queue.length > 0) {
      let member: Member<Request, Reply> | undefined;
      for (const each of this.#members) {
        if (member === undefined || each.jobs.size < member.jobs.size) member = each;
      }
      const busy = member === undefined || member.jobs.size > 0;
      if (busy && this.#members.size < this.#options.size) member = this.#start();
      if (member === undefined || member.jobs.size >= this.#depth) return;
      this.#send(member, this.#queue.shift()!);
    }
    if (!this.#busy()) this.#onIdle?.();
  }

  #send({ thread, jobs }: Member<Request, Reply>, job: Job<Request, Reply>): void {
    jobs.add(job);
    // A job that was taken back or failed by then is no longer among them.
    const settle = (finish: () => void): void => {
      if (jobs.delete(job)) finish();
      this.#dispatch();
    };
    thread.call(job.request, { onPart: job.onProgress }).then(
      (reply) => settle(() => job.resolve(reply)),
      (error: unknown) => settle(() => job.reject(error)),
    );
  }

  #start(): Member<Request, Reply> {
    const { program, workerData, failure } = this.#options;
    const jobs = new Set<Job<Request, Reply>>();
    const died = (cause: Error | number): Error => {
      this.#members.delete(member);
      const problem = cause instanceof Error ? cause.message : `exit code ${cause}`;
      const [first] = jobs;
      return new TimeseerError(failure(problem, first?.request), { cause });
    };
    const member = { thread: new WorkerThread<Request, Reply>({ program, workerData, died }), jobs };
    this.#members.add(member);
    return member;
  }
}

/** Computes results for all items, in their order, `ahead` of them at a time. Rejects with the first error. */
export async function mapAhead<Item, Result>(
  items: readonly Item[],
  ahead: number,
  compute: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results = new Array<Result>(items.length);
  let next = 0;
  const work = async (): Promise<void> => {
    while (next < items.length) {
      const place = next++;
      results[place] = await compute(items[place]!);
    }
  };
  await Promise.all(Array.from({ length: Math.min(items.length, ahead) }, work));
  return results;
}
