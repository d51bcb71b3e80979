/**
 * PyTorch's own communication between processes, without Python: the TCP store of a job and the collectives of Gloo and NCCL
 * over its processes, as c10d in libtorch has them.
 */
import { EngineError } from '../../ground/errors.ts';
import type { Tensor } from '../engine.ts';
import { type Collective, loadNative, type NativeDistributed, type StoreOperation } from './native.ts';
import { TorchTensor } from './operators.ts';

/** Time to wait for the server or for a peer; 30 minutes, as in PyTorch. */
const TIMEOUT_MS = 30 * 60 * 1000;
/** Time for the addon to report its own time-out before a server counts as stopped. */
const GRACE_MS = 250;

function requireDistributed(): NativeDistributed {
  const { distributed, describe } = loadNative();
  if (distributed !== null) return distributed;
  throw new EngineError(`libtorch ${describe().version} was built without c10d and Gloo`, {
    fix: 'set LIBTORCH or TIMESEER_PYTHON to a build that has them (all of PyTorch for Linux do) and run `npm run setup`',
  });
}

interface Address {
  /** Name or address of the machine of rank 0 (MASTER_ADDR). */
  readonly host: string;
  /** Port of the store there (MASTER_PORT). */
  readonly port: number;
}

/** Name of a store in errors of the process that serves it. */
const SERVER = 'store server';

/** Puts a failure of c10d or Gloo in words: what was tried, with whom, and what to check. */
function failure(what: string, { host, port }: Address, timeoutMs: number, cause: unknown): EngineError {
  const { message } = cause as Error;
  const within = `within ${timeoutMs / 1000} s`;
  // The first that matches; $1 is the first group of the pattern.
  const known: readonly (readonly [pattern: RegExp, problem: string, fix?: string])[] = [
    [
      /already in use|EADDRINUSE/,
      `another process listens on port ${port} of ${host}`,
      'set MASTER_PORT to a free port, or end the process that holds it',
    ],
    [/timed out: not set/, `not set in the store at ${host}:${port} ${within}`],
    [
      /timed out: (ranks? .*) did not join/,
      `$1 did not join at ${host}:${port} ${within}`,
      'check their logs, and that all ranks have the same store, prefix and size',
    ],
    [
      /timed out: no answer|client socket|to connect|Connection refused|getaddrinfo/i,
      `no answer from the store at ${host}:${port} ${within}`,
      what === SERVER
        ? 'this process is rank 0, which serves the store: set MASTER_ADDR to a name or address of its machine'
        : 'check that the process of rank 0 runs, that MASTER_ADDR and MASTER_PORT are the same on all ranks, and that no firewall is between them',
    ],
    [
      /Ranks? ([\d, ]*\d)[, ]* failed to pass monitoredBarrier/,
      `no answer from rank $1 ${within}`,
      'check its log',
    ],
    [
      /check rank 0 logs/,
      `rank 0 did not let this rank pass ${within}`,
      "rank 0's error names who is missing",
    ],
    [
      /timed out/i,
      `a peer has not answered ${within}`,
      'check the logs of the other ranks: one has stopped, or calls other operations',
    ],
    [
      /closed by peer|reset by peer|broken pipe/i,
      'a peer has ended',
      'check the logs of the other ranks: the first that failed says why',
    ],
  ];
  for (const [pattern, problem, fix] of known) {
    const found = pattern.exec(message);
    if (found !== null) {
      const options = fix === undefined ? { cause } : { fix, cause };
      return new EngineError(`${what}: ${problem.replace('$1', found[1] ?? '')}`, options);
    }
  }
  return new EngineError(`${what}: ${message.trim().split('\n')[0]} (store at ${host}:${port})`, { cause });
}

export interface StoreOptions extends Address {
  /** True in the one process that holds the data, on `host`; its port 0 chooses a free one. Default: false. */
  readonly server?: boolean;
  /** Clients, the server's own included, that the server waits for. Default: it waits for none. */
  readonly world?: number;
  /** Longest wait for the server, and for a key. Default: 30 minutes. */
  readonly timeoutMs?: number;
}

/**
 * Client of a job's key-value store, and its server in one process. All is asynchronous: a server that has stopped blocks
 * neither the event loop nor the end of the process. A pending operation keeps the process alive, an idle store does not.
 */
export class Store implements Address {
  readonly host: string;
  readonly port: number;
  readonly timeoutMs: number;
  readonly #native: NativeDistributed;
  readonly #id: number;
  #closed = false;

  private constructor(native: NativeDistributed, id: number, { host, port }: Address, timeoutMs: number) {
    this.#native = native;
    this.#id = id;
    this.host = host;
    this.port = port;
    this.timeoutMs = timeoutMs;
  }

  /** Connects to the store; resolves when the server answers, and in the server when `world` clients have come. */
  static async open(options: StoreOptions): Promise<Store> {
    const { host, port, server = false, world = 0, timeoutMs = TIMEOUT_MS } = options;
    const native = requireDistributed();
    const what = server ? SERVER : 'store';
    const deadline = performance.now() + timeoutMs;
    const id = native.storeOpen(host, port, server, timeoutMs);
    try {
      const bound = (await new Store(native, id, options, timeoutMs).#call(what, 'port', [])) as number;
      const store = new Store(native, id, { host, port: bound }, timeoutMs);
      if (world > 0) {
        let joined = await store.add('timeseer/joined', 1);
        while (server && joined < world) {
          if (performance.now() > deadline) {
            throw new EngineError(
              `${what}: ${joined} of ${world} ranks came to ${host}:${bound} within ${timeoutMs / 1000} s`,
              {
                fix: 'check the logs of the others, and that MASTER_ADDR and MASTER_PORT are the same on all',
              },
            );
          }
          await new Promise((done) => setTimeout(done, 10));
          joined = await store.add('timeseer/joined', 0);
        }
      }
      return store;
    } catch (error) {
      native.storeClose(id);
      throw error;
    }
  }

  async #call(
    what: string,
    operation: StoreOperation,
    keys: readonly string[],
    { value, timeoutMs = this.timeoutMs }: { value?: Uint8Array | number; timeoutMs?: number } = {},
  ): Promise<Buffer | number | boolean | undefined> {
    let timer: NodeJS.Timeout | undefined;
    // A server that has stopped holds the store's thread for good: then nobody else ends the wait.
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error('timed out: no answer')), timeoutMs + GRACE_MS);
    });
    try {
      return await Promise.race([this.#native.storeCall(this.#id, operation, keys, value, timeoutMs), late]);
    } catch (cause) {
      throw failure(what, this, timeoutMs, cause);
    } finally {
      clearTimeout(timer);
    }
  }

  async set(key: string, value: Uint8Array | string): Promise<void> {
    const bytes = typeof value === 'string' ? new TextEncoder().encode(value) : value;
    await this.#call(`store.set '${key}'`, 'set', [key], { value: bytes });
  }

  /** Bytes under a key, which it waits for. */
  async get(key: string, timeoutMs = this.timeoutMs): Promise<Buffer> {
    return (await this.#call(`store.get '${key}'`, 'get', [key], { timeoutMs })) as Buffer;
  }

  /** Adds to the counter under a key, 0 at first; returns the sum. `get` reads it as decimal digits. */
  async add(key: string, amount: number): Promise<number> {
    return (await this.#call(`store.add '${key}'`, 'add', [key], { value: amount })) as number;
  }

  /** Returns true if all keys are set. */
  async check(keys: readonly string[]): Promise<boolean> {
    return (await this.#call(`store.check '${keys}'`, 'check', keys)) as boolean;
  }

  /** Waits until all keys are set. */
  async wait(keys: readonly string[], timeoutMs = this.timeoutMs): Promise<void> {
    await this.#call(`store.wait '${keys}'`, 'wait', keys, { timeoutMs });
  }

  /** Returns true if the key was set. */
  async deleteKey(key: string): Promise<boolean> {
    return (await this.#call(`store.deleteKey '${key}'`, 'delete', [key])) as boolean;
  }

  /** Ends the connection, and in the server the store; pending operations reject. */
  close(): void {
    if (!this.#closed) this.#native.storeClose(this.#id);
    this.#closed = true;
  }
}

/** Handle of a tensor of any torch engine of this thread. @throws EngineError */
function handleOf(tensor: Tensor, what: string): number {
  if (tensor instanceof TorchTensor) return tensor.liveHandle(what);
  throw new EngineError(`${what}: the tensor belongs to another engine`);
}

/** Operation under way. Its tensors may be disposed of, but not read or written before `wait` has returned. */
export interface Work {
  /** Blocks until it is done; with NCCL it returns at once, and later work on the device waits. @throws EngineError when a peer has died or stopped; then the group is closed */
  wait(): void;
}

export interface ProcessGroupOptions extends Address {
  /** Common to the ranks of one group, and new for each group: a restarted job needs another one. */
  readonly prefix: string;
  readonly rank: number;
  readonly size: number;
  /** Longest wait for the others, at the start and in each operation. Default: 30 minutes. */
  readonly timeoutMs?: number;
}

/**
 * Process group of Gloo, and of NCCL for tensors of GPUs after `useNccl`; for a thread that may block: `open`, `barrier` and `Work.wait` do. All ranks call the same operations in
 * the same order, on contiguous tensors of one shape and dtype. Sums take float32, float64, int64 and uint8, the others all.
 */
export class ProcessGroup {
  readonly rank: number;
  readonly size: number;
  readonly #native: NativeDistributed;
  readonly #options: ProcessGroupOptions;
  readonly #timeoutMs: number;
  readonly #id: number;
  /** First failure; it closed the group. */
  #broken: EngineError | undefined;

  private constructor(native: NativeDistributed, options: ProcessGroupOptions, id: number) {
    this.rank = options.rank;
    this.size = options.size;
    this.#native = native;
    this.#options = options;
    this.#timeoutMs = options.timeoutMs ?? TIMEOUT_MS;
    this.#id = id;
  }

  /** Meets the other ranks at a store; blocks until all have come. Uses GLOO_SOCKET_IFNAME, else the interface that leads to `host`. */
  static open(options: ProcessGroupOptions): ProcessGroup {
    const { host, port, prefix, rank, size, timeoutMs = TIMEOUT_MS } = options;
    if (!(Number.isInteger(rank) && Number.isInteger(size) && rank >= 0 && rank < size)) {
      throw new EngineError(`process group: rank ${rank} of ${size}: expected an integer of 0 to size − 1`);
    }
    const native = requireDistributed();
    try {
      const id = native.groupOpen(host, port, prefix, rank, size, timeoutMs);
      return new ProcessGroup(native, options, id);
    } catch (cause) {
      throw failure(`process group, rank ${rank} of ${size}`, options, timeoutMs, cause);
    }
  }

  /** Calls the addon; the failure of what `closes` closes the group. */
  #attempt<T>(what: string, timeoutMs: number, closes: boolean, body: () => T): T {
    const place = `${what}, rank ${this.rank} of ${this.size}`;
    if (this.#broken !== undefined) {
      throw new EngineError(`${place}: the group was closed by a failure: ${this.#broken.message}`);
    }
    try {
      return body();
    } catch (cause) {
      const error = failure(place, this.#options, timeoutMs, cause);
      if (closes) this.#broken = error;
      throw error;
    }
  }

  /**
   * Moves tensors of a GPU by NCCL from now on, which needs a GPU for each rank; Gloo moves them through the memory of the
   * processor. All ranks call it. Returns false where this libtorch has no NCCL.
   */
  useNccl(): boolean {
    return this.#attempt('useNccl', this.#timeoutMs, false, () => this.#native.groupUseNccl(this.#id));
  }

  #start(what: Collective, tensor: Tensor, root = 0, into: readonly Tensor[] = []): Work {
    const work = this.#attempt(what, this.#timeoutMs, false, () =>
      this.#native.groupStart(
        this.#id,
        what,
        handleOf(tensor, what),
        root,
        into.map((part) => handleOf(part, what)),
      ),
    );
    let done = false;
    return {
      wait: () => {
        if (done) return;
        this.#attempt(what, this.#timeoutMs, true, () => this.#native.groupWait(work));
        done = true;
      },
    };
  }

  /** Sums over the ranks, in place. */
  allReduce(tensor: Tensor): Work {
    return this.#start('allReduce', tensor);
  }

  /** Sums over the ranks into the root's tensor; those of the others hold partial sums afterwards. */
  reduce(tensor: Tensor, root: number): Work {
    return this.#start('reduce', tensor, root);
  }

  /** Copies the root's tensor into those of the others. */
  broadcast(tensor: Tensor, root: number): Work {
    return this.#start('broadcast', tensor, root);
  }

  /** Copies the ranks' tensors into `into` of the root, in the order of ranks; the others give none. */
  gather(tensor: Tensor, root: number, into: readonly Tensor[] = []): Work {
    return this.#start('gather', tensor, root, into);
  }

  /** Copies the ranks' tensors into `into` of every rank, in the order of ranks. */
  allGather(tensor: Tensor, into: readonly Tensor[]): Work {
    return this.#start('allGather', tensor, 0, into);
  }

  /** Blocks until all ranks have come here; rank 0's error names those that have not. */
  barrier(timeoutMs = this.#timeoutMs): void {
    this.#attempt('barrier', timeoutMs, true, () => this.#native.groupBarrier(this.#id, timeoutMs));
  }

  close(): void {
    this.#native.groupClose(this.#id);
  }
}
