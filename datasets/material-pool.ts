/** Materials on several cores: each Worker reads its examples itself, so that only their numbers and the results travel. */
import { setImmediate } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { ConfigError, DataError, TimeseerError } from '../src/errors.ts';
import { workerUrl } from '../src/paths.ts';
import { type Composed, type Learned, MaterialComposer } from './material-composer.ts';
import type { MaterialReply, MaterialRequest, MaterialWork } from './material-worker.ts';
import type { Split } from './split.ts';

export interface MaterialJob {
  readonly split: Split;
  readonly index: number;
}

/** Requests a Worker holds at a time: one under way, one waiting, so that it never idles. */
const DEPTH = 2;
/** Results, per Worker, that may wait for a slower one before them. */
const AHEAD = 8;

type Unnumbered = MaterialRequest extends infer R ? (R extends unknown ? Omit<R, 'id'> : never) : never;

interface Pending {
  readonly request: MaterialRequest;
  readonly resolve: (reply: MaterialReply) => void;
  readonly reject: (error: unknown) => void;
  readonly onProgress: ((read: number) => void) | undefined;
}

interface Member {
  readonly worker: Worker;
  readonly pending: Map<number, Pending>;
}

/** Composes in Workers, or, with none of them, in this thread. Results do not depend on how many there are. */
export class MaterialTeam {
  readonly #work: MaterialWork;
  readonly #size: number;
  readonly #signal: AbortSignal;
  readonly #own: MaterialComposer | null;
  readonly #members = new Set<Member>();
  #queue: Pending[] = [];
  #next = 0;
  #closed = false;
  readonly #onAbort = (): void => this.#fail(this.#signal.reason);

  /** The signal ends all work at once. @throws DataError as `ExampleSet`, without Workers */
  constructor(work: MaterialWork, workers: number, signal: AbortSignal) {
    this.#work = work;
    this.#size = workers;
    this.#signal = signal;
    this.#own = workers === 0 ? new MaterialComposer(work.directory, work.parts) : null;
    signal.addEventListener('abort', this.#onAbort);
  }

  /** As `MaterialComposer.learn`. @throws also the signal's reason; TimeseerError where a Worker fails */
  async learn(onProgress: (read: number) => void): Promise<Learned> {
    this.#signal.throwIfAborted();
    if (this.#own !== null) return this.#own.learn(onProgress);
    const reply = await this.#ask({ kind: 'learn' }, onProgress);
    if (reply.kind !== 'learned') throw new TypeError(`asked to learn, got ${reply.kind}`);
    return reply.learned;
  }

  /**
   * As `MaterialComposer.compose` for every job, in their order. Takes jobs only as results are consumed, a few ahead.
   * @throws also the signal's reason; TimeseerError where a Worker fails
   */
  async *compose(jobs: Iterable<MaterialJob>): AsyncGenerator<Composed, void> {
    const ahead: Promise<MaterialReply>[] = [];
    const first = async (): Promise<Composed> => {
      const reply = await ahead.shift()!;
      if (reply.kind !== 'composed') throw new TypeError(`asked for materials, got ${reply.kind}`);
      return reply.composed;
    };
    for (const { split, index } of jobs) {
      this.#signal.throwIfAborted();
      if (this.#own !== null) {
        yield await this.#own.compose(split, index);
        await setImmediate();
        continue;
      }
      const reply = this.#ask({ kind: 'compose', split, index });
      // Awaited later, in order; until then its failure is not an unhandled one.
      reply.catch(() => undefined);
      ahead.push(reply);
      if (ahead.length >= this.#size * AHEAD) yield await first();
    }
    while (ahead.length > 0) yield await first();
  }

  /** Ends all Workers, whatever they do. */
  async close(): Promise<void> {
    this.#signal.removeEventListener('abort', this.#onAbort);
    this.#closed = true;
    await Promise.all([...this.#members].map(({ worker }) => worker.terminate()));
    this.#members.clear();
  }

  #ask(request: Unnumbered, onProgress?: (read: number) => void): Promise<MaterialReply> {
    if (this.#signal.aborted) return Promise.reject(this.#signal.reason);
    return new Promise((resolve, reject) => {
      this.#queue.push({ request: { ...request, id: this.#next++ }, resolve, reject, onProgress });
      this.#dispatch();
    });
  }

  /** Hands waiting requests to the Workers with the least to do. */
  #dispatch(): void {
    while (this.#queue.length > 0) {
      let member: Member | undefined;
      for (const each of this.#members) {
        if (member === undefined || each.pending.size < member.pending.size) member = each;
      }
      const busy = member === undefined || member.pending.size > 0;
      if (busy && this.#members.size < this.#size) member = this.#start();
      if (member === undefined || member.pending.size >= DEPTH) return;
      const job = this.#queue.shift()!;
      member.pending.set(job.request.id, job);
      member.worker.postMessage(job.request);
    }
  }

  #start(): Member {
    const { url, execArgv } = workerUrl('./material-worker.ts', import.meta.url);
    const member: Member = {
      worker: new Worker(url, { execArgv, workerData: this.#work }),
      pending: new Map(),
    };
    this.#members.add(member);
    member.worker.on('message', (reply: MaterialReply) => {
      const job = member.pending.get(reply.id);
      if (reply.kind === 'progress') {
        job?.onProgress?.(reply.read);
        return;
      }
      member.pending.delete(reply.id);
      if (reply.kind === 'failed') job?.reject(errorOf(reply.error, reply.message));
      else job?.resolve(reply);
      this.#dispatch();
    });
    const failed = (cause: unknown): void => {
      if (this.#closed) return;
      const problem = cause instanceof Error ? cause.message : `exit code ${String(cause)}`;
      const [job] = member.pending.values();
      const at = job?.request.kind === 'compose' ? ` at ${job.request.split} ${job.request.index + 1}` : '';
      this.#fail(new TimeseerError(`a Worker failed${at} (${problem}); nothing was written`, { cause }));
    };
    member.worker.on('error', failed);
    member.worker.on('exit', failed);
    return member;
  }

  /** All that is asked for fails for this reason. */
  #fail(reason: unknown): void {
    for (const { pending } of this.#members) {
      for (const { reject } of pending.values()) reject(reason);
      pending.clear();
    }
    for (const { reject } of this.#queue) reject(reason);
    this.#queue = [];
  }
}

function errorOf(kind: 'data' | 'config' | 'other', message: string): TimeseerError {
  if (kind === 'data') return new DataError(message);
  return kind === 'config' ? new ConfigError(message) : new TimeseerError(message);
}
