/**
 * Data parallelism: R ranks run the same program on their share of a batch and meet at barriers. Here they are Workers of one process, which
 * share memory; in `process-group.ts` each is a process. Sums are taken in rank order, so runs with the same number of ranks repeat bit
 * for bit.
 */
import { setTimeout } from 'node:timers/promises';
import { SHARE_ENV, Worker } from 'node:worker_threads';
import type { Engine, Tensor } from '../engine/engine.ts';
import { TimeseerError } from '../ground/errors.ts';
import { systemError } from '../ground/files.ts';
import type { WorkerProgram } from '../ground/paths.ts';
import { type LoadOptions, Policy } from '../policy/policy.ts';

/** Number of float64 values that one rank contributes to one exchange. */
const SLOT = 128;
const BARRIER_COUNT = 0;
const BARRIER_TURN = 1;
const STOP = 2;
const FAILED = 3;
const POSTED = 4;
const DELIVERED = 5;
const HEADER_BYTES = 64;
/** A rank that waits looks this often whether another one failed. */
const WAIT_MS = 500;

/** The other ranks are gone: one of them failed, or the group was ended. */
export class WorkerGroupEnded extends TimeseerError {}

/** Memory that a group shares: a barrier, flags and counters, and two banks of exchange slots. */
export function workerGroupMemory(size: number): SharedArrayBuffer {
  return new SharedArrayBuffer(HEADER_BYTES + 2 * size * SLOT * 8);
}

const headerOf = (memory: SharedArrayBuffer): Int32Array => new Int32Array(memory, 0, HEADER_BYTES / 4);

/** Asks every rank to stop after the step in flight. */
export function requestStop(memory: SharedArrayBuffer): void {
  Atomics.store(headerOf(memory), STOP, 1);
}

/** Releases ranks that wait for one that will never come. */
export function markFailed(memory: SharedArrayBuffer): void {
  const header = headerOf(memory);
  Atomics.store(header, FAILED, 1);
  Atomics.notify(header, BARRIER_TURN);
}

/** The half-open part of 0 … n that belongs to a rank; parts differ by at most one. */
export function shardOf(n: number, rank: number, size: number): readonly [start: number, end: number] {
  return [Math.floor((rank * n) / size), Math.floor(((rank + 1) * n) / size)];
}

/** Collective operations of one rank; all ranks call them in the same order. */
export class WorkerGroup {
  readonly rank: number;
  readonly size: number;
  /** True where tensors can be shared by all ranks, instead of one for each. */
  readonly sharesMemory: boolean = true;
  readonly #header: Int32Array;
  readonly #slots: Float64Array; // [2, R, SLOT]
  #bank = 0;

  constructor(memory: SharedArrayBuffer, rank: number, size: number) {
    this.rank = rank;
    this.size = size;
    this.#header = headerOf(memory);
    this.#slots = new Float64Array(memory, HEADER_BYTES, 2 * size * SLOT);
  }

  /** A group of one, for work that is not shared. */
  static single(): WorkerGroup {
    return new WorkerGroup(workerGroupMemory(1), 0, 1);
  }

  /** Waits until every rank is here. @throws WorkerGroupEnded when one of them failed */
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
    while (Atomics.load(header, BARRIER_TURN) === turn) this.#wait(BARRIER_TURN, turn);
  }

  /** Waits for a word of the header to change, for a while. @throws WorkerGroupEnded */
  #wait(word: number, value: number): void {
    if (Atomics.load(this.#header, FAILED) === 1) {
      throw new WorkerGroupEnded('another rank failed; this one stops too');
    }
    Atomics.wait(this.#header, word, value, WAIT_MS);
  }

  /**
   * Gathers K values of every rank in rank order: [R, K]. Two banks alternate, so one barrier is enough: a
   * rank that reuses a bank has passed a barrier that the others reached after reading it.
   */
  allGather(values: readonly number[]): Float64Array[] {
    if (values.length > SLOT) throw new RangeError(`allGather: at most ${SLOT} values, got ${values.length}`);
    const base = this.#bank * this.size * SLOT;
    this.#bank = 1 - this.#bank;
    this.#slots.set(values, base + this.rank * SLOT);
    this.barrier();
    return Array.from({ length: this.size }, (_, r) =>
      this.#slots.slice(base + r * SLOT, base + r * SLOT + values.length),
    );
  }

  /** Every rank's values, of which ranks may have different numbers, one after another in rank order. Collective. */
  gather(values: ArrayLike<number>): Float64Array {
    const all = Array.from(values);
    const counts = this.allGather([all.length]).map(([count]) => count!);
    const rounds = Math.ceil(Math.max(...counts) / SLOT);
    const parts = counts.map((count) => new Float64Array(count));
    for (let round = 0; round < rounds; round++) {
      const at = round * SLOT;
      const sent = all.slice(at, at + SLOT);
      this.allGather([...sent, ...new Array<number>(SLOT - sent.length).fill(0)]).forEach((of, r) => {
        const part = parts[r]!;
        if (at < part.length) part.set(of.subarray(0, Math.min(SLOT, part.length - at)), at);
      });
    }
    return Float64Array.from(parts.flatMap((part) => [...part]));
  }

  /** Element-wise sum over ranks, in rank order. */
  allReduce(values: readonly number[]): number[] {
    const all = this.allGather(values);
    return values.map((_, i) => all.reduce((total, of) => total + of[i]!, 0));
  }

  /** Rank 0's values, on every rank. */
  broadcast(values: readonly number[]): number[] {
    return [...this.allGather(values)[0]!];
  }

  /**
   * Gives every rank the value that rank 0 makes; the others attach to the storage of its `flat`. Collective.
   */
  share<T extends { readonly flat: Tensor }>(
    engine: Engine,
    make: () => T,
    attach: (ticket: number) => T,
  ): T {
    const made = this.rank === 0 ? make() : null;
    const [ticket] = this.broadcast([made === null ? 0 : engine.share(made.flat)]) as [number];
    const shared = made ?? attach(ticket);
    this.barrier(); // every rank holds the storage
    if (made !== null) engine.unshare(ticket);
    return shared;
  }

  /** Rank 0 works while the others do `meanwhile`, and wait. Collective. */
  onRankZero(work: () => void, meanwhile: () => void = () => {}): void {
    this.barrier();
    if (this.rank === 0) work();
    else meanwhile();
    this.barrier();
  }

  /** Begins to fill `parts` [R][n] of rank `root` by the `part` [n] of each rank, in rank order; what it returns waits. Collective. */
  gatherTensor(_part: Tensor, _parts: readonly Tensor[], _root: number): () => void {
    throw new Error('ranks that share memory read each other');
  }

  /** Begins to overwrite `tensor` [n] by that of rank `root`; what it returns waits. Collective. */
  broadcastTensor(_tensor: Tensor, _root: number): () => void {
    throw new Error('ranks that share memory read each other');
  }

  /** Leaves the others. */
  close(): void {}

  /** Counts a message that this rank posts and the process of rank 0 deals with. */
  countPosted(): void {
    Atomics.add(this.#header, POSTED, 1);
  }

  /** Messages that the Workers of this process have posted. */
  get posted(): number {
    return Atomics.load(this.#header, POSTED);
  }

  /** Waits until as many messages as were posted have been dealt with. @throws WorkerGroupEnded when a rank failed */
  awaitDelivered(posted = this.posted): void {
    for (;;) {
      const delivered = Atomics.load(this.#header, DELIVERED);
      if (delivered >= posted) return;
      this.#wait(DELIVERED, delivered);
    }
  }

  /** Returns true once a stop was requested, as this rank sees it now. */
  stopFlag(): boolean {
    return Atomics.load(this.#header, STOP) === 1;
  }

  /** Returns true once a stop was requested, with the same answer on every rank. Collective. */
  stopRequested(): boolean {
    return this.broadcast([this.stopFlag() ? 1 : 0])[0] === 1;
  }

  /** The half-open part of 0 … n that belongs to this rank; parts differ by at most one. */
  shard(n: number): readonly [start: number, end: number] {
    return shardOf(n, this.rank, this.size);
  }
}

/** Loads a policy whose weights all ranks share. Collective. */
export function loadShared(
  engine: Engine,
  workers: WorkerGroup,
  directory: string,
  options: LoadOptions = {},
): Policy {
  return workers.share(
    engine,
    () => Policy.load(engine, directory, options),
    (ticket) => Policy.attach(engine, directory, ticket, options),
  );
}

/** Data of a Worker of the group (workerData). */
export interface WorkerContext<Job> {
  readonly memory: SharedArrayBuffer;
  readonly rank: number;
  readonly size: number;
  readonly job: Job;
  /** Meeting place of the ranks, if each is a process. */
  readonly meeting?: Meeting;
}

/** Address at which the ranks of a job, each a process, meet. */
export interface Meeting {
  readonly host: string;
  readonly port: number;
  /** Name of the job, before the keys of the store. */
  readonly prefix: string;
  /** Longest wait for another rank. */
  readonly timeoutMs: number;
  /** This rank among those of its machine. */
  readonly localRank: number;
  /** Ranks on this machine. */
  readonly localSize: number;
}

/** Message of a rank: progress, and at the end its result. */
export type WorkerMessage<Note, Result> =
  | { readonly kind: 'note'; readonly note: Note }
  | { readonly kind: 'result'; readonly result: Result }
  | { readonly kind: 'error'; readonly error: WorkerFailure };

/** An error on its way between threads; `expected` tells a typed error of ours from a fault. */
export interface WorkerFailure {
  readonly name: string;
  readonly message: string;
  readonly stack: string;
  readonly expected: boolean;
}

export function failureOf(error: unknown): WorkerFailure {
  const known = systemError(error) ?? error;
  const { name, message, stack } = known instanceof Error ? known : new Error(String(known));
  return { name, message, stack: stack ?? '', expected: known instanceof TimeseerError };
}

/** A rank failed with a typed error; the message is the rank's own. */
export class WorkerError extends TimeseerError {
  constructor({ message, stack }: WorkerFailure) {
    super(message);
    this.stack = stack;
  }
}

/** Makes the error again that a rank sent. */
export function errorOf(failure: WorkerFailure): Error {
  if (failure.expected) return new WorkerError(failure);
  const { name, message, stack } = failure;
  return Object.assign(new Error(message), { name, stack });
}

export interface WorkerGroupOptions<Job, Note> {
  readonly size: number;
  readonly program: WorkerProgram;
  readonly job: Job;
  readonly onNote: (note: Note, rank: number) => void;
  /** Aborting it asks the ranks to stop after the step in flight. */
  readonly signal?: AbortSignal | undefined;
}

/** Counts a message that was posted and has been dealt with. */
export function countDelivered(memory: SharedArrayBuffer): void {
  const header = headerOf(memory);
  Atomics.add(header, DELIVERED, 1);
  Atomics.notify(header, DELIVERED);
}

/** Starts the Worker of one rank. Its result comes when it has ended; what `onNote` throws fails it. */
export function startWorker<Job, Note, Result>(
  program: WorkerProgram,
  context: WorkerContext<Job>,
  onNote: (note: Note) => void,
): { readonly worker: Worker; readonly result: Promise<Result> } {
  const worker = new Worker(program.url, {
    workerData: context,
    execArgv: program.execArgv,
    env: SHARE_ENV,
    stdout: true,
  });
  // Text printed by a module of the user must not stand in the output of a command.
  worker.stdout.on('data', (text: Buffer) => process.stderr.write(text));
  const result = new Promise<Result>((resolve, reject) => {
    let ended: { readonly value: Result } | undefined;
    worker.on('message', (message: WorkerMessage<Note, Result>) => {
      if (message.kind === 'note') {
        try {
          onNote(message.note);
        } catch (error) {
          reject(error); // what the listener cannot keep (a full disk) ends the group
        }
      } else if (message.kind === 'result') ended = { value: message.result };
      else reject(errorOf(message.error));
    });
    worker.on('error', reject);
    worker.on('exit', (code) => {
      if (ended !== undefined) resolve(ended.value);
      else reject(new TimeseerError(`worker ${context.rank} ended with code ${code} and no result`));
    });
  });
  return { worker, result };
}

/** Time that the other Workers have to end by themselves once one has failed. */
export const GRACE_MS = 5000;

/**
 * Runs a job on `size` Workers; results in rank order. If a Worker or `onNote` fails, the others are ended
 * and its error is thrown.
 */
export async function runWorkers<Job, Note, Result>(
  options: WorkerGroupOptions<Job, Note>,
): Promise<Result[]> {
  const { size, program, job, onNote, signal } = options;
  const memory = workerGroupMemory(size);
  const started: { readonly worker: Worker; readonly result: Promise<Result> }[] = [];
  const stop = (): void => requestStop(memory);
  if (signal?.aborted === true) stop();
  signal?.addEventListener('abort', stop);
  try {
    for (let rank = 0; rank < size; rank++) {
      started.push(
        startWorker<Job, Note, Result>(program, { memory, rank, size, job }, (note) => {
          onNote(note, rank);
          countDelivered(memory);
        }),
      );
    }
    return await Promise.all(started.map(({ result }) => result));
  } catch (error) {
    markFailed(memory);
    stop();
    // A Worker that is ended within a call of onnxruntime aborts the process.
    const ended = Promise.allSettled(started.map(({ result }) => result));
    await Promise.race([ended, setTimeout(GRACE_MS, null, { ref: false })]);
    throw error;
  } finally {
    signal?.removeEventListener('abort', stop);
    await Promise.all(started.map(({ worker }) => worker.terminate()));
  }
}
