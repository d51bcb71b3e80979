/** Renders on several cores: each Worker holds its own compiled figures. Pixels do not depend on which one drew. */
import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import { ConfigError, DataError, TimeseerError } from '../errors.ts';
import { type WorkerProgram, workerUrl } from '../paths.ts';
import type { Picture } from '../types.ts';
import type { FigureValues } from './data.ts';
import type { Figure } from './figure.ts';
import type { RenderReply, RenderRequest } from './render-worker.ts';

export interface RenderJob {
  readonly figure: Figure;
  readonly values: FigureValues;
  readonly times?: Float64Array;
}

interface Pending {
  readonly request: RenderRequest;
  readonly resolve: (picture: Picture) => void;
  readonly reject: (error: Error) => void;
}

/** A Worker and what it has been sent and not answered. */
interface Member {
  readonly worker: Worker;
  readonly pending: Map<number, Pending>;
}

/** Requests a Worker holds at a time: one being drawn, one waiting, so that it never idles. */
const DEPTH = 2;

export class RenderPool {
  readonly #size: number;
  readonly #program: WorkerProgram;
  readonly #members = new Set<Member>();
  readonly #queue: Pending[] = [];
  #nextId = 0;
  #closed = false;
  #onIdle: (() => void) | undefined;

  /**
   * Workers start when there is work for them; at most `workers`, by default one per core. `program` is what they
   * run: something that answers RenderRequest with RenderReply.
   */
  constructor(
    workers: number = availableParallelism(),
    program: WorkerProgram = workerUrl('./render-worker.ts', import.meta.url),
  ) {
    if (!Number.isInteger(workers) || workers < 1 || workers > 256) {
      throw new ConfigError(`render pool: expected 1 … 256 workers, got ${workers}`);
    }
    this.#size = workers;
    this.#program = program;
  }

  /** Most pictures that `renderAll` has under way. */
  get capacity(): number {
    return this.#size * DEPTH;
  }

  /**
   * As `render` of raster.ts, in a Worker; the values are copied. Rejects with the same typed errors; with a
   * TimeseerError when the Worker itself fails (the pool goes on with a new one) or the pool is closed.
   */
  render(figure: Figure, values: FigureValues, times?: Float64Array): Promise<Picture> {
    if (this.#closed) return Promise.reject(new TimeseerError('the render pool is closed; make a new one'));
    return new Promise((resolve, reject) => {
      this.#queue.push({ request: { id: this.#nextId++, figure, values, times }, resolve, reject });
      this.#dispatch();
    });
  }

  /**
   * Pictures of all jobs, in their order. Takes jobs from the source only as pictures are consumed, never more than
   * `capacity` ahead. Throws the error of the first job that fails and takes no more.
   */
  async *renderAll(jobs: Iterable<RenderJob> | AsyncIterable<RenderJob>): AsyncGenerator<Picture, void> {
    const ahead: Promise<Picture>[] = [];
    try {
      for await (const { figure, values, times } of jobs) {
        const picture = this.render(figure, values, times);
        // Awaited later, in order; until then its failure is not an unhandled one.
        picture.catch(() => undefined);
        ahead.push(picture);
        if (ahead.length >= this.capacity) yield await ahead.shift()!;
      }
      while (ahead.length > 0) yield await ahead.shift()!;
    } finally {
      await Promise.allSettled(ahead);
    }
  }

  /** Draws what was asked for, then ends all Workers. Later calls of `render` reject. */
  async close(): Promise<void> {
    this.#closed = true;
    if (this.#busy()) await new Promise<void>((resolve) => (this.#onIdle = resolve));
    await Promise.all([...this.#members].map(({ worker }) => worker.terminate()));
    this.#members.clear();
  }

  #busy(): boolean {
    return this.#queue.length > 0 || [...this.#members].some(({ pending }) => pending.size > 0);
  }

  /** Hands queued requests to the Workers with the least to do. */
  #dispatch(): void {
    while (this.#queue.length > 0) {
      let member: Member | undefined;
      for (const each of this.#members) {
        if (member === undefined || each.pending.size < member.pending.size) member = each;
      }
      if ((member === undefined || member.pending.size > 0) && this.#members.size < this.#size) {
        member = this.#start();
      }
      if (member === undefined || member.pending.size >= DEPTH) return;
      const job = this.#queue.shift()!;
      // An idle Worker does not keep the process alive; a busy one does.
      if (member.pending.size === 0) member.worker.ref();
      member.pending.set(job.request.id, job);
      try {
        member.worker.postMessage(job.request);
      } catch (cause) {
        this.#settle(member, job.request.id)?.reject(
          new DataError(`values or figure cannot be sent to a Worker: ${String(cause)}`, { cause }),
        );
      }
    }
    if (!this.#busy()) this.#onIdle?.();
  }

  #start(): Member {
    const { url, execArgv } = this.#program;
    const member: Member = { worker: new Worker(url, { execArgv }), pending: new Map() };
    this.#members.add(member);
    member.worker.on('message', (reply: RenderReply) => {
      const job = this.#settle(member, reply.id);
      if ('picture' in reply) job?.resolve(reply.picture);
      else job?.reject(errorOf(reply.kind, reply.message));
      this.#dispatch();
    });
    const fail = (cause: unknown) => {
      this.#members.delete(member);
      const problem = cause instanceof Error ? cause.message : `exit code ${String(cause)}`;
      for (const { reject } of member.pending.values()) {
        reject(
          new TimeseerError(`a render Worker failed (${problem}); its pictures were not drawn`, { cause }),
        );
      }
      member.pending.clear();
      this.#dispatch();
    };
    member.worker.on('error', fail);
    member.worker.on('exit', fail);
    return member;
  }

  #settle(member: Member, id: number): Pending | undefined {
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
