/**
 * Host of users' modules: rewards, policies, detectors, tasks. Modules run in a thread of their own, so that
 * code which blocks, exits or prints does not harm the process: a blocked thread is ended, pending calls fail
 * with the reason, and the next call starts a new thread; a thread that ended between two calls fails the next one, or `close`. The adapter of a kind defines its modules;
 * `module-worker.ts` is the thread's program.
 */
import { dirname, relative } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { ConfigError, TimeseerError } from './errors.ts';
import { workerUrl } from './paths.ts';
import { thrownText } from './user-code.ts';
import type { ModuleAddress } from './user-module.ts';
import { type Answer, type CallContext, type CallOptions, Stopped, WorkerThread } from './worker-thread.ts';

/** A module's export, with its file. */
export interface LoadedModule {
  readonly value: unknown;
  readonly file: string;
}

/**
 * Interface to modules of one kind: the export `adapter` of the file in `ModuleHostOptions.adapter`. Runs in
 * the thread.
 */
export interface ModuleAdapter<Info, Request, Reply, Part = never> {
  /** A module's export, in words: `a reward made with defineReward`. */
  readonly wanted: string;
  /** @throws ConfigError for an export of another kind */
  open(modules: readonly LoadedModule[]): {
    /** Facts about the modules for the other side. */
    readonly info: Info;
    readonly answer: (request: Request, call: CallContext<Part>) => Promise<Answer<Reply>> | Answer<Reply>;
  };
}

interface ModuleHostOptions<Info> {
  readonly modules: readonly ModuleAddress[];
  /** `import.meta.url` of the file that exports `adapter`. */
  readonly adapter: string;
  /** Seconds that a call may block its thread. */
  readonly timeLimit: (info: Info) => number;
  /** Makes the error of calls whose thread was ended or ended by itself. */
  readonly failure: (message: string) => Error;
  /** Seconds that the modules may take to load. Default: 60. */
  readonly loading?: number;
}

/** Data of the thread. */
export interface ModuleWork {
  readonly modules: readonly ModuleAddress[];
  /** Path of the adapter's file from this directory, without its ending: the thread may run built code. */
  readonly adapter: string;
}

/** Seconds that modules may take to load. */
const LOADING = 60;
/** Seconds on top of the time limit, and in which a thread that is not blocked has heard of an abort. */
const SLACK = 2;
const CHECK_MS = 250;
/** MiB of the thread's heap. A single array that grows beyond it still ends the process, so it lies far above what modules need. */
const HEAP = 4096;

const stemFromHere = (url: string): string =>
  relative(dirname(fileURLToPath(import.meta.url)), fileURLToPath(url)).replace(/\.[jt]s$/u, '');

export class ModuleHost<Info, Request, Reply, Part = never> {
  readonly #options: ModuleHostOptions<Info>;
  #thread: WorkerThread<Request, Reply, Part, Info>;
  #info!: Info;
  #closed = false;
  /** Error of an earlier thread that ended between two calls. */
  #untold: Error | null = null;

  private constructor(options: ModuleHostOptions<Info>) {
    this.#options = options;
    this.#thread = this.#start();
  }

  /** Loads the modules in their thread. @throws ConfigError for one that cannot be loaded, or is of another kind */
  static async open<Info, Request, Reply, Part = never>(
    options: ModuleHostOptions<Info>,
  ): Promise<ModuleHost<Info, Request, Reply, Part>> {
    const host = new ModuleHost<Info, Request, Reply, Part>(options);
    await host.ready();
    return host;
  }

  /** Result of the adapter's `open`. */
  get info(): Info {
    return this.#info;
  }

  /**
   * Waits until the thread can be called: it has received every abort, or was ended and restarted. @throws
   * ConfigError as `open`
   */
  async ready(): Promise<void> {
    while (this.#thread.unheard) await sleep(20);
    if (this.#thread.ended && !this.#closed) {
      this.#untold ??= this.#thread.takeUntold();
      this.#thread = this.#start();
    }
    this.#info = await this.#thread.ready;
  }

  /** @throws (rejects with) the error of the module's code, `failure` where its thread has ended, now or since the last call, or the signal's reason */
  async call(request: Request, options: CallOptions<Part> = {}): Promise<Reply> {
    this.#report();
    if (this.#thread.ended) await this.ready();
    return this.#thread.call(request, options);
  }

  /** Blocks this thread for at most the time limit. @throws the error of the module's code, or `failure` */
  callSync(request: Request): Reply {
    this.#report();
    const seconds = this.#options.timeLimit(this.#info);
    try {
      return this.#thread.callSync(request, { seconds, memory: HEAP });
    } catch (cause) {
      if (!(cause instanceof Stopped)) throw cause;
      throw this.#options.failure(`${this.#names}: a call did not return, and was ended: ${cause.message}`);
    }
  }

  /** @throws (rejects with) TimeseerError for an exception outside of a call that no call has thrown */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#thread.end(this.#options.failure(`${this.#names} is closed`));
    try {
      this.#report();
    } catch (cause) {
      throw cause instanceof TimeseerError ? cause : new ConfigError((cause as Error).message, { cause });
    }
  }

  /** @throws `failure` of a thread that ended between two calls, once */
  #report(): void {
    const error = this.#untold ?? this.#thread.takeUntold();
    this.#untold = null;
    if (error !== null) throw error;
  }

  get #names(): string {
    return [...new Set(this.#options.modules.map(({ file }) => file))].join(', ');
  }

  #start(): WorkerThread<Request, Reply, Part, Info> {
    const { modules, adapter, failure, timeLimit, loading = LOADING } = this.#options;
    let limit: number | null = null; // until it has loaded
    const error = (message: string): Error => (limit === null ? new ConfigError(message) : failure(message));
    const thread = new WorkerThread<Request, Reply, Part, Info>({
      program: workerUrl('./module-worker', import.meta.url),
      workerData: { modules, adapter: stemFromHere(adapter) } satisfies ModuleWork,
      heap: HEAP,
      quiet: true,
      died: (cause) => error(this.#deathText(cause)),
    });
    const began = performance.now();
    const watch = setInterval(() => {
      if (thread.ended) clearInterval(watch);
      else if (limit === null) {
        const seconds = (performance.now() - began) / 1000;
        if (seconds > loading) void thread.end(error(`${this.#names}: does not load within ${loading} s`));
      } else if (thread.pending > 0 || thread.unheard) {
        const most = thread.unheard ? SLACK : limit;
        if (thread.silence > (thread.unheard ? 0 : limit) + SLACK) {
          const message = `${this.#names}: a call blocked its thread for more than ${most} s, and the thread was ended; return, or await what takes long, and raise timeLimit where it must`;
          void thread.end(error(message));
        }
      }
    }, CHECK_MS).unref();
    thread.ready.then(
      (info) => {
        limit = timeLimit(info);
      },
      () => clearInterval(watch),
    );
    return thread;
  }

  #deathText(cause: Error | number): string {
    if (typeof cause === 'number') {
      return `${this.#names}: ended its thread with process.exit(${cause}); a module must not end the process`;
    }
    if ((cause as NodeJS.ErrnoException).code === 'ERR_WORKER_OUT_OF_MEMORY') {
      return `${this.#names}: needed more than ${HEAP} MiB of memory, and its thread was ended`;
    }
    const { file } =
      this.#options.modules.find((module) => cause.stack?.includes(module.file)) ?? this.#options.modules[0]!;
    return `${file}: ${thrownText(file, cause)} outside of a call, which ended its thread`;
  }
}

/** Closes all of several hosts. @throws the first error of those that failed since their last call */
export async function closeAll(
  hosts: readonly ({ close(): Promise<void> } | null | undefined)[],
): Promise<void> {
  const closed = await Promise.allSettled(hosts.map((host) => host?.close()));
  for (const outcome of closed) if (outcome.status === 'rejected') throw outcome.reason;
}
