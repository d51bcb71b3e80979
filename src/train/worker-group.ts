/**
 * Data parallelism inside one process: R Workers, one per core, run the same program on their share of a batch and
 * meet at barriers. Sums are taken in rank order, so a run repeats bit for bit with the same number of ranks.
 */
import { SHARE_ENV, Worker } from 'node:worker_threads';
import type { Engine } from '../engine/engine.ts';
import { TimeseerError } from '../errors.ts';
import { systemError } from '../files.ts';
import { type LoadOptions, Policy } from '../policy/policy.ts';
import type { WorkerProgram } from '../worker-url.ts';

/** Number of float64 values that one rank contributes to one exchange. */
const SLOT = 64;
const BARRIER_COUNT = 0;
const BARRIER_TURN = 1;
const STOP = 2;
const FAILED = 3;
const POSTED = 4;
const HEARD = 5;
const HEADER_BYTES = 64;

/** The other ranks are gone: one of them failed, or the team was ended. */
export class TeamEnded extends TimeseerError {}

/** Memory that a team shares: a barrier, two flags, and two banks of exchange slots. */
export function teamMemory(size: number): SharedArrayBuffer {
  return new SharedArrayBuffer(HEADER_BYTES + 2 * size * SLOT * 8);
}

/** Asks every rank to stop after the step in flight. */
export function requestStop(memory: SharedArrayBuffer): void {
  Atomics.store(new Int32Array(memory, 0, HEADER_BYTES / 4), STOP, 1);
}

/** Releases ranks that wait for one that will never come. */
export function markFailed(memory: SharedArrayBuffer): void {
  const header = new Int32Array(memory, 0, HEADER_BYTES / 4);
  Atomics.store(header, FAILED, 1);
  Atomics.notify(header, BARRIER_TURN);
}

/** Says that a message of a rank has been dealt with. */
export function markHeard(memory: SharedArrayBuffer): void {
  const header = new Int32Array(memory, 0, HEADER_BYTES / 4);
  Atomics.add(header, HEARD, 1);
  Atomics.notify(header, HEARD);
}

export class Ranks {
  readonly rank: number;
  readonly size: number;
  readonly #header: Int32Array;
  readonly #slots: Float64Array; // [2, R, SLOT]
  #bank = 0;

  constructor(memory: SharedArrayBuffer, rank: number, size: number) {
    this.rank = rank;
    this.size = size;
    this.#header = new Int32Array(memory, 0, HEADER_BYTES / 4);
    this.#slots = new Float64Array(memory, HEADER_BYTES, 2 * size * SLOT);
  }

  /** A team of one, for work that is not shared. */
  static alone(): Ranks {
    return new Ranks(teamMemory(1), 0, 1);
  }

  /** Waits until every rank is here. Throws TeamEnded when one of them failed. */
  barrier(): void {
    if (this.size === 1) return;
    const header = this.#header;
    const turn = Atomics.load(header, BARRIER_TURN);
    if (Atomics.add(header, BARRIER_COUNT, 1) === this.size - 1) {
      Atomics.store(header, BARRIER_COUNT, 0);
      Atomics.add(header, BARRIER_TURN, 1);
      Atomics.notify(header, BARRIER_TURN);
      return;
    }
    while (Atomics.load(header, BARRIER_TURN) === turn) {
      if (Atomics.load(header, FAILED) === 1) throw new TeamEnded('another rank failed; this one stops too');
      Atomics.wait(header, BARRIER_TURN, turn, 500);
    }
  }

  /**
   * Every rank's values, in rank order: K values each → [R, K]. Two banks take turns, so one barrier is enough: a
   * rank that writes bank b again has passed a barrier that the others reached after reading it.
   */
  gather(values: readonly number[]): Float64Array[] {
    if (values.length > SLOT) throw new RangeError(`gather: at most ${SLOT} values, got ${values.length}`);
    const base = this.#bank * this.size * SLOT;
    this.#bank = 1 - this.#bank;
    this.#slots.set(values, base + this.rank * SLOT);
    this.barrier();
    return Array.from({ length: this.size }, (_, r) =>
      this.#slots.slice(base + r * SLOT, base + r * SLOT + values.length),
    );
  }

  /** Element-wise sum over ranks, in rank order. */
  sum(values: readonly number[]): number[] {
    const all = this.gather(values);
    return values.map((_, i) => all.reduce((total, of) => total + of[i]!, 0));
  }

  /** Rank 0's values, on every rank. */
  broadcast(values: readonly number[]): number[] {
    return [...this.gather(values)[0]!];
  }

  /** Counts a message that this rank posts and the team's owner will mark as heard. */
  posting(): void {
    Atomics.add(this.#header, POSTED, 1);
  }

  /** Waits until every message that was posted has been dealt with. Throws TeamEnded when a rank failed. */
  awaitHeard(): void {
    const header = this.#header;
    for (;;) {
      const heard = Atomics.load(header, HEARD);
      if (heard >= Atomics.load(header, POSTED)) return;
      if (Atomics.load(header, FAILED) === 1) throw new TeamEnded('another rank failed; this one stops too');
      Atomics.wait(header, HEARD, heard, 500);
    }
  }

  /** Whether a stop was requested, as this rank sees it now. */
  stopFlag(): boolean {
    return Atomics.load(this.#header, STOP) === 1;
  }

  /** Whether a stop was requested: the same answer on every rank. Collective. */
  stopRequested(): boolean {
    return this.broadcast([this.stopFlag() ? 1 : 0])[0] === 1;
  }

  /** The half-open part of 0 … n that belongs to this rank; parts differ by at most one. */
  share(n: number): readonly [start: number, end: number] {
    return [Math.floor((this.rank * n) / this.size), Math.floor(((this.rank + 1) * n) / this.size)];
  }
}

/** What every Worker of a team finds in its workerData. */
export interface TeamSeat<Job> {
  readonly memory: SharedArrayBuffer;
  readonly rank: number;
  readonly size: number;
  readonly job: Job;
}

/** What a rank posts: progress for whoever listens, and at the end its result. */
export type TeamMessage<Note, Result> =
  | { readonly kind: 'note'; readonly note: Note }
  | { readonly kind: 'result'; readonly result: Result }
  | { readonly kind: 'error'; readonly error: RankFailure };

/** An error on its way between threads; `expected` tells a typed error of ours from a fault. */
export interface RankFailure {
  readonly name: string;
  readonly message: string;
  readonly stack: string;
  readonly expected: boolean;
}

export function failureOf(error: unknown): RankFailure {
  const known = systemError(error) ?? error;
  const { name, message, stack } = known instanceof Error ? known : new Error(String(known));
  return { name, message, stack: stack ?? '', expected: known instanceof TimeseerError };
}

/** A rank failed with a typed error; the message is the rank's own. */
export class RankError extends TimeseerError {
  /** Name of the error type that the rank threw. */
  readonly kind: string;
  constructor({ name, message, stack }: RankFailure) {
    super(message);
    this.kind = name;
    this.stack = stack;
  }
}

function rebuilt(failure: RankFailure): Error {
  if (failure.expected) return new RankError(failure);
  const error = new Error(failure.message);
  error.name = failure.name;
  error.stack = failure.stack;
  return error;
}

export interface TeamOptions<Job, Note> {
  readonly size: number;
  readonly program: WorkerProgram;
  readonly job: Job;
  readonly onNote: (note: Note, rank: number) => void;
  /** Aborting it asks the ranks to stop after the step in flight. */
  readonly signal?: AbortSignal;
}

/**
 * Runs a job on `size` Workers and returns their results in rank order. When one fails the others are ended and
 * its error is thrown; so is an error of `onNote`.
 */
export async function runTeam<Job, Note, Result>(options: TeamOptions<Job, Note>): Promise<Result[]> {
  const { size, program, job, onNote, signal } = options;
  const memory = teamMemory(size);
  const workers: Worker[] = [];
  const stop = (): void => requestStop(memory);
  if (signal?.aborted === true) stop();
  signal?.addEventListener('abort', stop);
  try {
    const runs = Array.from({ length: size }, (_, rank) => {
      const seat: TeamSeat<Job> = { memory, rank, size, job };
      const worker = new Worker(program.url, {
        workerData: seat,
        execArgv: program.execArgv,
        env: SHARE_ENV,
      });
      workers.push(worker);
      return new Promise<Result>((resolve, reject) => {
        let result: { readonly value: Result } | undefined;
        worker.on('message', (message: TeamMessage<Note, Result>) => {
          if (message.kind === 'note') {
            try {
              onNote(message.note, rank);
              markHeard(memory);
            } catch (error) {
              reject(error); // what the listener cannot keep (a full disk) ends the team
            }
          } else if (message.kind === 'result') result = { value: message.result };
          else reject(rebuilt(message.error));
        });
        worker.on('error', reject);
        worker.on('exit', (code) => {
          if (result !== undefined) resolve(result.value);
          else reject(new TimeseerError(`worker ${rank} ended with code ${code} and no result`));
        });
      });
    });
    return await Promise.all(runs);
  } catch (error) {
    markFailed(memory);
    throw error;
  } finally {
    signal?.removeEventListener('abort', stop);
    await Promise.all(workers.map((worker) => worker.terminate()));
  }
}

/** Rank 0 loads the directory, the others attach to its weights. Collective. */
export function loadShared(
  engine: Engine,
  ranks: Ranks,
  directory: string,
  options: LoadOptions = {},
): Policy {
  const own = ranks.rank === 0 ? Policy.load(engine, directory, options) : null;
  const published = own === null ? 0 : engine.share(own.flat);
  const [ticket] = ranks.broadcast([published]) as [number];
  const policy = own ?? Policy.attach(engine, directory, ticket, options);
  ranks.barrier(); // every rank holds the storage
  if (own !== null) engine.unshare(ticket);
  return policy;
}
