/**
 * Runs foreign code of a checkpoint (chat template, regular expressions of its tokenizer) in a Worker, within
 * limits of time and memory, while the caller waits. One Worker per thread. Code known to terminate is run
 * directly.
 */
import { workerUrl } from '../ground/paths.ts';
import { type Limits, WorkerThread } from '../ground/worker-thread.ts';
import type { Message } from './chat.ts';
import type { Json } from './json-file.ts';

/** A chat template, or a tokenizer with its tokenizer_config.json. */
export type Program =
  | { readonly kind: 'template'; readonly source: string }
  | { readonly kind: 'tokenizer'; readonly json: Json; readonly config: Json };

/** Request to the guard's Worker. */
export type Task =
  | { readonly render: readonly Message[] }
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

/** A program that takes milliseconds may wait for a busy machine. */
export const LIMITS: Limits = { seconds: 20, memory: 1024 };
/** Programs that a Worker holds. */
const HELD = 8;
/**
 * Heap of the Worker, MiB. A single array that exceeds it ends the whole process, so it lies far above the
 * limit of a call, which is enforced by polling.
 */
const HEAP = 4096;

class Guard {
  readonly #thread = new WorkerThread<Request, unknown>({
    program: workerUrl('./guard-worker', import.meta.url),
    heap: HEAP,
  });
  readonly #held = new Set<number>();

  get alive(): boolean {
    return !this.#thread.ended;
  }

  call(id: number, program: Program, task: Task, limits: Limits): unknown {
    const fresh = this.#held.size >= HELD && !this.#held.has(id);
    if (fresh) this.#held.clear();
    const request: Request = { fresh, id, program: this.#held.has(id) ? null : program, task };
    this.#held.add(id);
    return this.#thread.callSync(request, limits);
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
   * Runs the program on a task; blocks the thread. @throws Stopped beyond its limits; Error of the program
   * itself
   */
  run(task: Task): unknown {
    if (guard?.alive !== true) guard = new Guard();
    return guard.call(this.#id, this.#program, task, this.#limits);
  }
}
