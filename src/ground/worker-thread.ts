/**
 * Worker with the one protocol for requests to threads: a request gets any number of parts, then one reply or
 * error, and can be aborted; foreign code sends a heartbeat. `answerRequests` is the Worker's side. Used by
 * pools (`worker-pool.ts`), hosts of users' modules (`module-host.ts`) and guarded programs.
 */
import { performance } from 'node:perf_hooks';
import {
  MessageChannel,
  type MessagePort,
  parentPort,
  receiveMessageOnPort,
  Worker,
} from 'node:worker_threads';
import * as errors from './errors.ts';
import { DataError, TimeseerError } from './errors.ts';
import type { WorkerProgram } from './paths.ts';

type ToThread<Request> =
  | { readonly id: number; readonly request: Request }
  | { readonly id: number; readonly abort: true };

type FromThread<Reply, Part, Info> =
  | { readonly kind: 'ready'; readonly info: Info }
  | { readonly kind: 'refused'; readonly error: SentError }
  | { readonly kind: 'part'; readonly id: number; readonly part: Part }
  | { readonly kind: 'reply'; readonly id: number; readonly reply: Reply }
  | { readonly kind: 'failed'; readonly id: number; readonly error: SentError };

/** First message to the Worker: its end of the channel, and the counters below. */
interface Greeting {
  readonly port: MessagePort;
  readonly shared: Int32Array;
}

/** Places in the shared counters: time of the last heartbeat in tenths of a second, modulo 2³¹; number of messages sent; 1 and the exit code of foreign code that ended the thread, else 0. */
const [BEAT, SENT, EXIT] = [0, 1, 2];
const BEAT_MS = 100;

const tenths = (): number => Math.floor(Date.now() / 100) % 2 ** 31;

/** An error on its way between threads: classes do not survive it, their names do. */
interface SentError {
  readonly name: string;
  readonly message: string;
}

function sentError(error: unknown): SentError {
  if (error instanceof Error) return { name: error.name, message: error.message };
  return { name: 'Error', message: `threw ${JSON.stringify(error) ?? String(error)}` };
}

function receivedError({ name, message }: SentError): Error {
  const Type = Object.hasOwn(errors, name) ? (errors as Readonly<Record<string, unknown>>)[name] : undefined;
  if (typeof Type === 'function' && (Type === TimeseerError || Type.prototype instanceof TimeseerError)) {
    return new (Type as new (message: string) => TimeseerError)(message);
  }
  return Object.assign(new Error(message), { name });
}

interface ThreadOptions {
  /** Program of the Worker: it calls `answerRequests`. */
  readonly program: WorkerProgram;
  readonly workerData?: unknown;
  /** Most MiB of its heap; Node's own limit when absent. */
  readonly heap?: number;
  /** MiB of its stack; Node's own limit, 4, when absent. */
  readonly stack?: number;
  /** True: what it prints goes to stderr, so that it cannot stand in the output of a command. */
  readonly quiet?: boolean;
  /**
   * Makes the error with which open requests fail when the Worker ends unasked: by an error, or with an exit code. Default: that error,
   * or one that tells the exit code.
   */
  readonly died?: (cause: Error | number) => Error;
}

const deathOf = (cause: Error | number): Error =>
  typeof cause === 'number' ? new Error(`its thread ended (exit code ${cause})`) : cause;

export interface CallOptions<Part> {
  readonly onPart?: ((part: Part) => void) | undefined;
  /** Aborting rejects at once with the signal's reason, and aborts the signal of the request in the Worker. */
  readonly signal?: AbortSignal | undefined;
  /** Buffers of the request that need not be copied. */
  readonly transfer?: readonly ArrayBuffer[] | undefined;
}

/** Limits of a synchronous call. */
export interface Limits {
  readonly seconds: number;
  /** MiB by which the process may grow meanwhile. */
  readonly memory: number;
}

/** The thread was ended: a synchronous call exceeded its limits. */
export class Stopped extends Error {}

/** Limits of the start of a thread that is called synchronously. */
const START: Limits = { seconds: 60, memory: 4096 };
/** Milliseconds between two looks at the memory during a synchronous call. */
const LOOK_MS = 20;

interface OpenCall<Reply, Part> {
  readonly onPart: ((part: Part) => void) | undefined;
  readonly resolve: (reply: Reply) => void;
  readonly reject: (error: unknown) => void;
}

export class WorkerThread<Request, Reply, Part = number, Info = undefined> {
  /** Resolves with what the program prepared. */
  readonly ready: Promise<Info>;
  readonly #options: ThreadOptions;
  readonly #worker: Worker;
  readonly #port: MessagePort;
  readonly #shared = new Int32Array(new SharedArrayBuffer(12));
  readonly #calls = new Map<number, OpenCall<Reply, Part>>();
  #prepare!: { readonly resolve: (info: Info) => void; readonly reject: (error: unknown) => void };
  #prepared = false;
  #next = 0;
  /** Time of the last abort that was sent, in tenths of a second; null where there was none. */
  #abortedAt: number | null = null;
  #ended: Error | null = null;
  /** True where no request was open when the Worker ended: nobody was told why. */
  #endedIdle = false;
  #untold: Error | null = null;

  constructor(options: ThreadOptions) {
    this.#options = options;
    const { program, workerData, heap, stack, quiet = false } = options;
    this.ready = new Promise((resolve, reject) => {
      this.#prepare = { resolve, reject };
    });
    this.ready.catch(() => undefined);
    this.#beatNow();
    this.#worker = new Worker(program.url, {
      ...{ execArgv: program.execArgv, workerData, stdout: quiet },
      resourceLimits: {
        ...(heap === undefined ? {} : { maxOldGenerationSizeMb: heap }),
        ...(stack === undefined ? {} : { stackSizeMb: stack }),
      },
    });
    if (quiet) this.#worker.stdout.pipe(process.stderr);
    this.#worker.on('error', (cause) =>
      this.#died(cause instanceof Error ? cause : new Error(String(cause))),
    );
    this.#worker.on('exit', (code) => this.#died(code));
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    port1.on('message', (message: FromThread<Reply, Part, Info>) => this.#receive(message));
    // The Worker alone decides whether the process stays alive: it does while a request is open.
    port1.unref();
    this.#worker.postMessage({ port: port2, shared: this.#shared } satisfies Greeting, [port2]);
  }

  get ended(): boolean {
    return this.#ended !== null;
  }

  /** Number of open requests. */
  get pending(): number {
    return this.#calls.size;
  }

  /** Seconds since the thread was last known to run, or was given something to do. Foreign code alone has a heartbeat. */
  get silence(): number {
    return (tenths() - Atomics.load(this.#shared, BEAT)) / 10;
  }

  /** True from an abort until a heartbeat that follows it: the thread may be blocked. */
  get unheard(): boolean {
    return !this.ended && this.#abortedAt !== null && Atomics.load(this.#shared, BEAT) <= this.#abortedAt;
  }

  /** Returns the error that ended the Worker between two requests, once; null where there was none. */
  takeUntold(): Error | null {
    const error = this.#untold;
    this.#untold = null;
    return error;
  }

  /** @throws (rejects with) the error of the answer, that of `died`, that of `end`, or the signal's reason */
  call(request: Request, { onPart, signal, transfer = [] }: CallOptions<Part> = {}): Promise<Reply> {
    if (this.#ended !== null) return Promise.reject(this.#ended);
    if (signal?.aborted) return Promise.reject(signal.reason);
    const id = this.#next++;
    const reply = new Promise<Reply>((resolve, reject) => this.#open(id, { onPart, resolve, reject }));
    this.#post(id, request, transfer);
    if (signal === undefined) return reply;
    const abort = (): void => {
      const call = this.#close(id);
      if (call === undefined) return;
      this.#abortedAt = tenths();
      this.#port.postMessage({ id, abort: true } satisfies ToThread<Request>);
      call.reject(signal.reason);
    };
    signal.addEventListener('abort', abort, { once: true });
    return reply.finally(() => signal.removeEventListener('abort', abort));
  }

  /**
   * Blocks this thread until the reply arrives. @throws Stopped beyond the limits, after ending the thread;
   * the error of the answer
   */
  callSync(request: Request, limits: Limits): Reply {
    if (this.#ended !== null) throw this.#ended;
    if (!this.#prepared) this.#waitUntil(() => this.#prepared, START);
    const id = this.#next++;
    let outcome: (() => Reply) | null = null;
    const settle = (result: () => Reply): void => {
      outcome = result;
    };
    this.#open(id, {
      onPart: undefined,
      resolve: (reply) => settle(() => reply),
      reject: (error) =>
        settle(() => {
          throw error;
        }),
    });
    this.#post(id, request, []);
    this.#waitUntil(() => outcome !== null, limits);
    return outcome!();
  }

  /** Ends the Worker; open requests fail with the error. */
  async end(error: Error): Promise<void> {
    if (this.#ended === null) {
      this.#ended = error;
      this.#endedIdle = this.#prepared && this.#calls.size === 0;
      this.#prepare.reject(error);
      const open = [...this.#calls.values()];
      this.#calls.clear();
      this.#port.close();
      for (const { reject } of open) reject(error);
    }
    await this.#worker.terminate();
  }

  #beatNow(): void {
    Atomics.store(this.#shared, BEAT, tenths());
  }

  #open(id: number, call: OpenCall<Reply, Part>): void {
    if (this.#calls.size === 0) {
      this.#worker.ref();
      if (!this.unheard) this.#beatNow();
    }
    this.#calls.set(id, call);
  }

  /** Takes a request off the list of open ones; undefined where it is there no more. An idle thread keeps nobody alive. */
  #close(id: number): OpenCall<Reply, Part> | undefined {
    const call = this.#calls.get(id);
    this.#calls.delete(id);
    if (this.#calls.size === 0 && this.#prepared) this.#worker.unref();
    return call;
  }

  #post(id: number, request: Request, transfer: readonly ArrayBuffer[]): void {
    try {
      this.#port.postMessage({ id, request } satisfies ToThread<Request>, transfer);
    } catch (cause) {
      this.#close(id)?.reject(new DataError(`cannot be sent to a Worker: ${String(cause)}`, { cause }));
    }
  }

  #receive(message: FromThread<Reply, Part, Info>): void {
    if (message.kind === 'ready') {
      this.#prepared = true;
      if (this.#calls.size === 0) this.#worker.unref();
      this.#prepare.resolve(message.info);
    } else if (message.kind === 'refused') void this.end(receivedError(message.error));
    else if (message.kind === 'part') this.#calls.get(message.id)?.onPart?.(message.part);
    else if (message.kind === 'reply') this.#close(message.id)?.resolve(message.reply);
    else this.#close(message.id)?.reject(receivedError(message.error));
  }

  /** Receives what has arrived and was not looked at. */
  #drain(): void {
    for (
      let next = receiveMessageOnPort(this.#port);
      next !== undefined;
      next = receiveMessageOnPort(this.#port)
    ) {
      this.#receive(next.message as FromThread<Reply, Part, Info>);
    }
  }

  #died(cause: Error | number): void {
    const { died = deathOf } = this.#options;
    // What it sent before its end counts.
    if (this.#ended === null) this.#drain();
    // An exception may arrive after `end`; its exit code says nothing then.
    const error = this.#ended === null || cause instanceof Error ? died(cause) : null;
    if (this.#ended === null) void this.end(error!);
    if (this.#endedIdle) this.#untold ??= error;
  }

  #waitUntil(done: () => boolean, { seconds, memory }: Limits): void {
    let before: number | null = null; // bytes
    for (const end = performance.now() + 1000 * seconds; ; ) {
      const sent = Atomics.load(this.#shared, SENT);
      this.#drain();
      if (this.#ended !== null) throw this.#ended;
      if (done()) return;
      const exit = Atomics.load(this.#shared, EXIT);
      if (exit > 0) this.#died(exit - 1); // its event comes only after this wait
      if (this.#ended !== null) throw this.#ended;
      if (Atomics.wait(this.#shared, SENT, sent, LOOK_MS) !== 'timed-out') continue;
      const now = process.memoryUsage.rss();
      before ??= now;
      const greedy = now - before > memory * 2 ** 20;
      if (!greedy && performance.now() < end) continue;
      const reason = greedy ? `it took more than ${memory} MiB of memory` : `it took more than ${seconds} s`;
      const stopped = new Stopped(reason);
      void this.end(stopped);
      throw stopped;
    }
  }
}

/** A request in the Worker. */
export interface CallContext<Part> {
  /** Aborted when no reply is awaited any more; with a `Stalled` where nothing is under way that could bring one. */
  readonly signal: AbortSignal;
  /** Sends a part of the answer. */
  part(part: Part, transfer?: readonly ArrayBuffer[]): void;
  /** Shows that the thread is not blocked; for long work between two turns of the event loop. */
  beat(): void;
}

/** A reply, with those of its buffers that need not be copied. */
export interface Answer<Reply> {
  readonly reply: Reply;
  readonly transfer?: readonly ArrayBuffer[];
}

interface AnswerOptions<Info> {
  /** Called once, before the first request. Where it throws, the thread is of no use, and who asks hears why. */
  readonly prepare?: () => Promise<Info> | Info;
  /** Requests are answered side by side; one after the other when absent. */
  readonly concurrent?: boolean;
  /**
   * True for foreign code: every error is sent to the caller, a heartbeat shows that the thread is not
   * blocked, and a request that waits for nothing fails. False: an untyped error is a bug and ends the
   * thread.
   */
  readonly foreign?: boolean;
}

/** Nothing is under way that could settle a promise that is waited for. */
class Stalled extends Error {
  constructor() {
    super('waits for something that never comes; settle every promise');
    this.name = 'Stalled';
  }
}

/** Milliseconds for which an idle event loop is watched before a request counts as stalled: unreferenced timers may come. */
const STALL_MS = 1000;

/** The Worker's side: answers requests. Does nothing in the main thread. */
export function answerRequests<Request, Reply, Part = number, Info = undefined>(
  answer: AnswerFunction<Request, Reply, Part>,
  options: AnswerOptions<Info> = {},
): void {
  parentPort?.once('message', (greeting: Greeting) => {
    void new Answering(answer, options, greeting).start();
  });
}

type AnswerFunction<Request, Reply, Part> = (
  request: Request,
  call: CallContext<Part>,
) => Promise<Answer<Reply>> | Answer<Reply>;

class Answering<Request, Reply, Part, Info> {
  readonly #answer: AnswerFunction<Request, Reply, Part>;
  readonly #options: AnswerOptions<Info>;
  readonly #port: MessagePort;
  readonly #shared: Int32Array;
  readonly #running = new Map<number, AbortController>();
  #preparing = true;
  #turn: Promise<void> = Promise.resolve();
  /** Number of requests that are settled. */
  #settled = 0;

  constructor(
    answer: AnswerFunction<Request, Reply, Part>,
    options: AnswerOptions<Info>,
    { port, shared }: Greeting,
  ) {
    this.#answer = answer;
    this.#options = options;
    this.#port = port;
    this.#shared = shared;
  }

  async start(): Promise<void> {
    const { prepare, foreign = false } = this.#options;
    if (foreign) {
      setInterval(() => this.#beat(), BEAT_MS).unref();
      this.#watchStalls();
      process.once('exit', (code) => {
        Atomics.store(this.#shared, EXIT, 1 + Number(code));
        this.#announce();
      });
    }
    try {
      const info = (await prepare?.()) as Info;
      this.#preparing = false;
      this.#port.on('message', (message: ToThread<Request>) => this.#receive(message));
      this.#rest();
      this.#post({ kind: 'ready', info });
    } catch (error) {
      this.#preparing = false;
      if (!foreign && !(error instanceof TimeseerError)) throw error;
      this.#post({ kind: 'refused', error: sentError(error) });
    }
  }

  #beat(): void {
    Atomics.store(this.#shared, BEAT, tenths());
  }

  #post(message: FromThread<Reply, Part, Info>, transfer: readonly ArrayBuffer[] = []): void {
    this.#port.postMessage(message, transfer);
    this.#announce();
  }

  #announce(): void {
    Atomics.add(this.#shared, SENT, 1);
    Atomics.notify(this.#shared, SENT);
  }

  /** While foreign code answers, its own work alone keeps the thread alive: so it shows where there is none. */
  #rest(): void {
    if (this.#options.foreign === true && this.#running.size > 0) this.#port.unref();
    else this.#port.ref();
  }

  #receive(message: ToThread<Request>): void {
    const { id } = message;
    if ('abort' in message) {
      this.#running.get(id)?.abort(new DOMException('no answer is awaited any more', 'AbortError'));
      return;
    }
    const { concurrent = false, foreign = false } = this.#options;
    const controller = new AbortController();
    this.#running.set(id, controller);
    this.#rest();
    const respond = (): Promise<void> => this.#respond(id, message.request, controller.signal);
    if (concurrent) void respond();
    else this.#turn = this.#turn.then(respond);
    if (foreign) this.#beat();
  }

  async #respond(id: number, request: Request, signal: AbortSignal): Promise<void> {
    const part = (value: Part, transfer?: readonly ArrayBuffer[]): void => {
      if (this.#running.has(id)) this.#post({ kind: 'part', id, part: value }, transfer);
    };
    try {
      const { reply, transfer } = await this.#answer(request, { signal, part, beat: () => this.#beat() });
      this.#settle(id, () => this.#post({ kind: 'reply', id, reply }, transfer));
    } catch (error) {
      if (this.#options.foreign !== true && !(error instanceof TimeseerError)) throw error;
      this.#settle(id, () => this.#post({ kind: 'failed', id, error: sentError(error) }));
    }
  }

  /** Sends the outcome of a request once. */
  #settle(id: number, send: () => void): void {
    if (!this.#running.has(id)) return;
    send();
    this.#running.delete(id);
    this.#settled++;
    this.#rest();
  }

  /** Aborts what waits though nothing is under way, and fails it where that does not help. */
  #watchStalls(): void {
    let seen = -1;
    process.on('beforeExit', () => {
      if (this.#preparing) {
        this.#preparing = false;
        this.#post({ kind: 'refused', error: sentError(new Stalled()) });
        return;
      }
      const last = seen === this.#settled;
      seen = this.#settled;
      for (const [id, { signal }] of last ? this.#running : []) {
        if (signal.aborted) {
          this.#settle(id, () => this.#post({ kind: 'failed', id, error: sentError(new Stalled()) }));
        }
      }
      if (last) for (const controller of this.#running.values()) controller.abort(new Stalled());
      setTimeout(() => {}, this.#running.size > 0 ? STALL_MS : 0);
    });
  }
}
