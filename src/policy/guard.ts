/**
 * Runs the foreign code of a checkpoint, its chat template and its tokenizer's regular expressions, where it can be stopped:
 * in a Worker, while the caller waits for the answer up to limits of time and memory. One Worker serves a thread. Code that is known to come to an end is run by its owner, without this detour.
 */
import { performance } from 'node:perf_hooks';
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from 'node:worker_threads';
import { workerUrl } from '../ground/paths.ts';
import type { Message } from './chat.ts';
import type { Json } from './json-file.ts';

/** A chat template, or a tokenizer with its tokenizer_config.json. */
export type Program =
  | { readonly kind: 'template'; readonly source: string }
  | { readonly kind: 'tokenizer'; readonly json: Json; readonly config: Json };

/** Request to the guard's Worker. */
export type Task =
  | { readonly render: readonly Message[]; readonly generation: boolean }
  | { readonly encode: string }
  | { readonly decode: readonly number[]; readonly skipSpecial: boolean };

export interface Request {
  /** Drop the programs that are held. */
  readonly fresh: boolean;
  readonly id: number;
  /** Null when it was sent before. */
  readonly program: Program | null;
  readonly task: Task;
}

export type Reply = { readonly value: unknown } | { readonly error: string };

export interface GuardData {
  readonly port: MessagePort;
  /** One counter: raised when the Worker is ready and after each reply. */
  readonly signal: Int32Array;
}

export interface Limits {
  /** Time limit of one call, in seconds. */
  readonly seconds: number;
  /** MiB by which the process may grow meanwhile. */
  readonly memory: number;
}

/** A program that takes milliseconds may wait for a busy machine. */
export const LIMITS: Limits = { seconds: 20, memory: 1024 };
/** Longest start of a Worker, seconds. */
const START = 60;
/** Programs that a Worker holds. */
const HELD = 8;
/** Interval between memory checks, in milliseconds. */
const LOOK = 20;
/**
 * MiB of the Worker's heap. A Worker that needs more takes the whole process with it when it is a single array that grows:
 * so the limit lies far above that of a call, which is kept by looking.
 */
const HEAP = 4096;

/** The program was stopped: it did not come to an end within its limits. */
export class Stopped extends Error {}

class Guard {
  readonly #worker: Worker;
  readonly #port: MessagePort;
  readonly #signal = new Int32Array(new SharedArrayBuffer(4));
  readonly #held = new Set<number>();
  alive = true;

  constructor() {
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    const { url, execArgv } = workerUrl('./guard-worker', import.meta.url);
    this.#worker = new Worker(url, {
      execArgv,
      workerData: { port: port2, signal: this.#signal } satisfies GuardData,
      transferList: [port2],
      resourceLimits: { maxOldGenerationSizeMb: HEAP },
    });
    this.#worker.on('error', () => this.stop());
    this.#worker.unref();
    port1.unref();
    this.#wait(0, { seconds: START, memory: HEAP });
  }

  stop(): void {
    this.alive = false;
    this.#port.close();
    void this.#worker.terminate();
  }

  #wait(before: number, { seconds, memory }: Limits): void {
    let looked: number | null = null; // bytes
    for (const end = performance.now() + 1000 * seconds; ; ) {
      if (Atomics.wait(this.#signal, 0, before, LOOK) !== 'timed-out') return;
      const now = process.memoryUsage.rss();
      looked ??= now;
      const greedy = now - looked > memory * 2 ** 20;
      if (!greedy && performance.now() < end) continue;
      this.stop();
      throw new Stopped(
        greedy ? `it took more than ${memory} MiB of memory` : `it took more than ${seconds} s`,
      );
    }
  }

  call(id: number, program: Program, task: Task, limits: Limits): unknown {
    const fresh = this.#held.size >= HELD && !this.#held.has(id);
    if (fresh) this.#held.clear();
    const request: Request = { fresh, id, program: this.#held.has(id) ? null : program, task };
    this.#held.add(id);
    const before = Atomics.load(this.#signal, 0);
    this.#port.postMessage(request);
    this.#wait(before, limits);
    const reply = receiveMessageOnPort(this.#port)?.message as Reply;
    if ('error' in reply) throw new Error(reply.error);
    return reply.value;
  }
}

let guard: Guard | null = null;
let programs = 0;

/** A program that is run under guard. */
export class Guarded {
  readonly #id = ++programs;
  readonly #program: Program;
  readonly #limits: Limits;

  constructor(program: Program, limits: Limits = LIMITS) {
    this.#program = program;
    this.#limits = limits;
  }

  /**
   * What the program makes of a task; blocks the thread meanwhile.
   * @throws Stopped when it exceeds its limits; Error with what the program itself complains of
   */
  run(task: Task): unknown {
    if (guard?.alive !== true) guard = new Guard();
    return guard.call(this.#id, this.#program, task, this.#limits);
  }
}
