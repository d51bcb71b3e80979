/**
 * Jobs whose ranks are processes, of one machine or several. Every process runs the same command; that of rank 0 does its work, and the
 * others compute their share of its jobs (training stages, evaluations), each in one Worker:
 *
 *     rank 0:  job/J  →  the others;  verdict  →  the others, at the end
 *     others:  hello/R, beat/R (counts), note/J/I (their notes and results, in one order)  →  rank 0
 *
 * Keys lie in a c10d store that rank 0 serves at MASTER_ADDR:MASTER_PORT, as torchrun and SLURM scripts set them. Tensors do not pass through it
 * (`train/process-group.ts`).
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { hostname } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { deserialize, serialize } from 'node:v8';
import { Store } from '../engine/torch/distributed.ts';
import { loadNative } from '../engine/torch/native.ts';
import { ConfigError, TimeseerError } from '../ground/errors.ts';
import { checkWhole } from '../ground/json-record.ts';
import { codeDigest, packageVersion, type WorkerProgram, workerUrl } from '../ground/paths.ts';
import { say } from '../ground/terminal.ts';
import {
  countDelivered,
  errorOf,
  failureOf,
  GRACE_MS,
  type Meeting,
  markFailed,
  requestStop,
  startWorker,
  type WorkerGroupOptions,
  type WorkerMessage,
  workerGroupMemory,
} from '../train/worker-group.ts';

/** Ranks send a sign of life this often. */
const BEAT_MS = 1000;
/** Once one rank has lost another, a rank is taken for the lost one that has been silent for nearly so long. */
const LOST_MS = 4 * BEAT_MS;
/** Default longest silence of a rank, in seconds. */
const SILENCE_S = 60;
/** Longest wait for the others within a step, as in PyTorch: a slow rank is no dead one. */
const STEP_MS = 30 * 60 * 1000;
/** Readers of keys that may come at any time wait 23 days, about the longest that a timer can. */
const FOREVER_MS = 2_000_000_000;
/** Set for processes started by `--processes`, whose messages the first process prints. */
const CHILD = 'TIMESEER_CHILD';

/** Place of this process among those of its job. */
export interface Place {
  readonly rank: number;
  readonly size: number;
  readonly localRank: number;
  readonly localSize: number;
  readonly host: string;
  readonly port: number;
}

function whole(env: NodeJS.ProcessEnv, name: string, least: number, most: number): number {
  const text = env[name] ?? '';
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (value >= least && value <= most) return value;
  throw new ConfigError(`${name}: got '${text}', expected a whole number from ${least} to ${most}`);
}

/**
 * Reads the place that torchrun, or a script, gives this process in the environment; null for a process alone.
 * @throws ConfigError for missing or contradicting variables
 */
export function placeOf(env: NodeJS.ProcessEnv = process.env): Place | null {
  const given = (name: string): boolean => (env[name] ?? '') !== '';
  if (!given('WORLD_SIZE')) {
    if (!given('RANK')) return null;
    throw new ConfigError(
      `RANK is ${env['RANK']}, but WORLD_SIZE is not set: set it to the number of processes, or unset RANK`,
    );
  }
  const size = whole(env, 'WORLD_SIZE', 1, 65_536);
  if (size === 1) {
    if (given('RANK')) whole(env, 'RANK', 0, 0);
    return null;
  }
  const missing = ['RANK', 'MASTER_ADDR', 'MASTER_PORT'].filter((name) => !given(name));
  if (missing.length > 0) {
    throw new ConfigError(
      `WORLD_SIZE is ${size}, but ${missing.join(' and ')} ${missing.length === 1 ? 'is' : 'are'} not set: start with torchrun --no-python, set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, or unset WORLD_SIZE`,
    );
  }
  const rank = whole(env, 'RANK', 0, size - 1);
  const localSize = given('LOCAL_WORLD_SIZE') ? whole(env, 'LOCAL_WORLD_SIZE', 1, size) : 1;
  const most = given('LOCAL_WORLD_SIZE') ? localSize - 1 : rank;
  const localRank = given('LOCAL_RANK') ? whole(env, 'LOCAL_RANK', 0, most) : rank % localSize;
  // The agent of torchrun may hold the port itself, with a store of its own version.
  const taken = /^true$/i.test(env['TORCHELASTIC_USE_AGENT_STORE'] ?? '') ? 1 : 0;
  const port = whole(env, 'MASTER_PORT', 1, 65_535 - taken) + taken;
  return { rank, size, localRank, localSize, host: env['MASTER_ADDR']!, port };
}

/** Resumes what torchrun or SLURM has started again. `begun`: the run is there. */
export function resumedByRestart<Given extends { readonly resume: boolean; readonly force: boolean }>(
  given: Given,
  begun: boolean,
): Given {
  const { env } = process;
  const restarts = Number(env['TORCHELASTIC_RESTART_COUNT'] ?? env['SLURM_RESTART_COUNT'] ?? 0);
  return restarts > 0 && begun ? { ...given, policy: undefined, resume: true, force: false } : given;
}

/** Longest silence of a rank, in milliseconds. @throws ConfigError */
function silence(): number {
  const { env } = process;
  const name = 'TIMESEER_RANK_TIMEOUT';
  return 1000 * ((env[name] ?? '') === '' ? SILENCE_S : whole(env, name, 5, 86_400));
}

/** Facts in which all ranks must agree, and where this one is. */
interface Hello {
  readonly host: string;
  readonly pid: number;
  readonly same: Readonly<Record<string, string>>;
}

function hello({ size }: Place): Hello {
  const given = process.argv.slice(2);
  const at = given.findIndex((word) => /^--processes(=|$)/.test(word));
  const words = at < 0 ? given : given.toSpliced(at, given[at]!.includes('=') ? 1 : 2);
  return {
    host: hostname(),
    pid: process.pid,
    same: {
      WORLD_SIZE: `${size}`,
      'the command': words.join(' '),
      timeseer: `${packageVersion()}, code ${codeDigest()}`,
      libtorch: loadNative().describe().version,
      directory: process.cwd(),
    },
  };
}

/** Ends the process although a thread waits for a rank that is gone, or for a module of the user. */
const leave = (code: number): void => loadNative().endProcess(code);

/** Waits as long as others have to end by themselves; keeps no process alive. */
const briefly = (): Promise<void> => delay(GRACE_MS, undefined, { ref: false });

const placeText = (rank: number, { host, pid }: Hello): string => `rank ${rank} (${host}, process ${pid})`;

/** Message of a rank on its way to rank 0. */
interface Letter {
  readonly rank: number;
  readonly message: WorkerMessage<unknown, unknown>;
}

/** Returns true for the error of a rank that has lost another one, whose own error says more. */
const isLoss = ({ message }: Error): boolean =>
  /a peer has (?:ended|not answered)|group was closed/.test(message);

/** The job ended with an error, which rank 0 has told. */
class WorldEnded extends TimeseerError {}

export class World {
  readonly #place: Place;
  readonly #store: Store;
  readonly #opened: Store[] = [];
  readonly #timeout: number;
  readonly #children: ChildProcess[] = [];
  #others: readonly Hello[] = [];
  /** Signs of life by rank: their count, and when it last grew. */
  readonly #beats = new Map<number, { count: number; at: number }>();
  #jobs = 0;
  #watch: NodeJS.Timeout | undefined;
  /** Seconds for which this process itself stood still, longer than the others wait; 0: never. */
  #stood = 0;
  #failed: Error | null = null;
  #onFailure: (error: Error) => void = () => {};

  private constructor(place: Place, store: Store, timeout: number) {
    this.#place = place;
    this.#store = store;
    this.#timeout = timeout;
  }

  get size(): number {
    return this.#place.size;
  }

  get localSize(): number {
    return this.#place.localSize;
  }

  /** Joins the others at the address of a place. @throws EngineError when nobody is there in time; TimeseerError for ranks that differ */
  static async join(place: Place): Promise<World> {
    const timeout = silence();
    const store = await Store.open({ ...place, server: place.rank === 0, timeoutMs: timeout });
    return World.#entered(new World(place, store, timeout));
  }

  /** Starts `size` − 1 processes with the command of this one, which becomes rank 0. */
  static async start(size: number): Promise<World> {
    const timeout = silence();
    const at = { rank: 0, size, localRank: 0, localSize: size, host: '127.0.0.1' };
    const store = await Store.open({ ...at, port: 0, server: true, timeoutMs: timeout });
    const world = new World({ ...at, port: store.port }, store, timeout);
    for (let rank = 1; rank < size; rank++) world.#spawn(rank);
    return World.#entered(world);
  }

  static async #entered(world: World): Promise<World> {
    process.on('exit', leave);
    try {
      if (world.#place.rank === 0) await world.#assemble();
      else await world.#introduce();
    } catch (error) {
      await world.end(error as Error);
      throw error;
    }
    return world;
  }

  #spawn(rank: number): void {
    const { size, host, port } = this.#place;
    const child = spawn(process.execPath, [...process.execArgv, ...process.argv.slice(1)], {
      stdio: ['ignore', 2, 2],
      env: {
        ...process.env,
        ...{ RANK: `${rank}`, WORLD_SIZE: `${size}`, LOCAL_RANK: `${rank}`, LOCAL_WORLD_SIZE: `${size}` },
        ...{ MASTER_ADDR: host, MASTER_PORT: `${port}`, TORCHELASTIC_USE_AGENT_STORE: '', [CHILD]: '1' },
      },
    });
    child.on('exit', (code, signal) => {
      if (code !== 0)
        this.#fail(
          new TimeseerError(`rank ${rank} (process ${child.pid}) ended with ${signal ?? `code ${code}`}`),
        );
    });
    this.#children.push(child);
  }

  /** Waits for all ranks, compares what must be equal, and watches them from then on. */
  async #assemble(): Promise<void> {
    const { size } = this.#place;
    const own = hello(this.#place);
    const others: Hello[] = [own];
    this.#others = others;
    for (let rank = 1; rank < size; rank++) {
      const waited = this.#store.get(`hello/${rank}`).catch((cause: Error) => {
        throw new TimeseerError(
          `rank ${rank} of ${size} did not come within ${this.#timeout / 1000} s: is it started, with MASTER_ADDR and MASTER_PORT of rank 0? (${cause.message})`,
          { cause },
        );
      });
      const other = deserialize(await this.#orFailed(waited)) as Hello;
      others.push(other);
      for (const [name, value] of Object.entries(own.same)) {
        if (other.same[name] === value) continue;
        throw new TimeseerError(
          `${placeText(rank, other)} differs from rank 0 in ${name}: ${other.same[name]}; rank 0: ${value}`,
        );
      }
    }
    let ticked = performance.now();
    this.#watch = setInterval(() => {
      const now = performance.now();
      if (now - ticked > this.#timeout) this.#stood = (now - ticked) / 1000;
      ticked = now;
      void this.#listen();
    }, BEAT_MS).unref();
  }

  async #introduce(): Promise<void> {
    const { rank } = this.#place;
    if ((await this.#store.add(`claim/${rank}`, 1)) > 1) {
      throw new TimeseerError(
        `rank ${rank} at ${this.#address} is another process already: the job was started twice, or two jobs have this MASTER_PORT; set another one for the second`,
      );
    }
    await this.#store.set(`hello/${rank}`, serialize(hello(this.#place)));
    let asked = performance.now();
    let answered = true;
    this.#watch = setInterval(() => {
      if (performance.now() - asked > this.#timeout)
        this.#fail(
          new TimeseerError(`rank 0 (${this.#address}) has not answered for ${this.#timeout / 1000} s`),
        );
      if (!answered) return;
      answered = false;
      this.#store.add(`beat/${rank}`, 1).then(
        () => {
          [asked, answered] = [performance.now(), true];
        },
        () => this.#fail(this.#gone()),
      );
    }, BEAT_MS).unref();
  }

  get #address(): string {
    return `${this.#place.host}:${this.#place.port}`;
  }

  #gone(): TimeseerError {
    return new TimeseerError(`rank 0 (${this.#address}) is gone`);
  }

  /** Reads the signs of life of the other ranks. */
  async #listen(): Promise<void> {
    const now = performance.now();
    for (let rank = 1; rank < this.size; rank++) {
      const count = await this.#store.add(`beat/${rank}`, 0).catch(() => -1);
      const known = this.#beats.get(rank);
      if (known === undefined || known.count !== count) this.#beats.set(rank, { count, at: now });
      else if (now - known.at > this.#timeout) {
        this.#fail(
          new TimeseerError(
            `${this.#nameOf(rank)} has not been heard of for ${this.#timeout / 1000} s: it is stopped, or its machine is gone`,
          ),
        );
      }
    }
  }

  #nameOf(rank: number): string {
    return placeText(rank, this.#others[rank]!);
  }

  /** Rejects when the job fails before `work` is done. */
  #orFailed<T>(work: Promise<T>): Promise<T> {
    if (this.#failed !== null) return Promise.reject(this.#failed);
    return new Promise<T>((resolve, reject) => {
      this.#onFailure = reject;
      work.then(resolve, reject);
    });
  }

  #fail(cause: Error): void {
    if (this.#failed !== null) return;
    const stood = `rank 0 (process ${process.pid}) stood still for ${this.#stood.toFixed(0)} s, and the others gave it up`;
    const error = this.#stood > 0 ? new TimeseerError(`${stood} (${cause.message})`, { cause }) : cause;
    this.#failed = error;
    this.#onFailure(error);
  }

  /** Finds out which rank is lost, of which another one noticed by an error of its own. */
  async #named(error: Error): Promise<Error> {
    if (this.#failed !== null) return this.#failed;
    await Promise.race([delay(LOST_MS), this.#orFailed(new Promise<never>(() => {}))]).catch(() => {});
    if (this.#failed !== null && this.#failed !== error) return this.#failed;
    const now = performance.now();
    const lost = [...this.#beats]
      .filter(([, { at }]) => now - at > LOST_MS - BEAT_MS)
      .map(([rank]) => this.#nameOf(rank));
    return lost.length === 0
      ? error
      : new TimeseerError(`${lost.join(' and ')} ended or lost its connection (${error.message})`, {
          cause: error,
        });
  }

  #meeting(job: number): Meeting {
    const { host, port, localRank, localSize } = this.#place;
    return { ...{ host, port, localRank, localSize }, prefix: `job/${job}`, timeoutMs: STEP_MS };
  }

  async #reader(): Promise<Store> {
    const store = await Store.open({ ...this.#place, server: false, timeoutMs: this.#timeout });
    this.#opened.push(store);
    return store;
  }

  /** Runs a job on all ranks; results in rank order. Rank 0. `remote`: the job as the others get it. */
  async run<Job, Note, Result>(
    options: WorkerGroupOptions<Job, Note> & { readonly remote: Job },
  ): Promise<Result[]> {
    const { program, job, remote, onNote, signal } = options;
    const { size } = this;
    const number = this.#jobs++;
    const memory = workerGroupMemory(size);
    const stop = (): void => requestStop(memory);
    if (signal?.aborted === true) stop();
    signal?.addEventListener('abort', stop);
    const results = new Array<Result>(size);
    const take = (note: Note, rank: number): void => {
      onNote(note, rank);
      countDelivered(memory);
    };
    const others = async (): Promise<void> => {
      const reader = await this.#reader();
      for (let [letter, left] = [0, size - 1]; left > 0; letter++) {
        const key = `note/${number}/${letter}`;
        const { rank, message } = deserialize(await reader.get(key, FOREVER_MS)) as Letter;
        void this.#store.deleteKey(key).catch(() => {});
        if (message.kind === 'note') take(message.note as Note, rank);
        else if (message.kind === 'error') {
          const error = errorOf(message.error);
          if (!isLoss(error)) throw error;
        } else {
          results[rank] = message.result as Result;
          left--;
        }
      }
      reader.close();
    };
    const context = { memory, rank: 0, size, job, meeting: this.#meeting(number) };
    const { worker, result } = startWorker<Job, Note, Result>(program, context, (note) => take(note, 0));
    try {
      await this.#store.set(`job/${number}`, serialize(remote));
      const own = result.then((value) => {
        results[0] = value;
      });
      const letters = others().catch((error: Error) => {
        this.#fail(error);
        throw error;
      });
      await this.#orFailed(Promise.all([own, letters]));
      return results;
    } catch (error) {
      this.#fail(isLoss(error as Error) ? await this.#named(error as Error) : (error as Error));
      const failed = this.#failed!;
      markFailed(memory);
      stop();
      await this.#tell(`failed: ${failed.message}`);
      await Promise.race([result.catch(() => {}), briefly()]);
      void worker.terminate();
      throw failed;
    } finally {
      signal?.removeEventListener('abort', stop);
    }
  }

  async #tell(verdict: string): Promise<void> {
    await Promise.race([this.#store.set('verdict', Buffer.from(verdict)).catch(() => {}), briefly()]);
  }

  /** Computes this rank's share of the jobs of rank 0 until it ends. @throws TimeseerError when the job fails */
  async follow(): Promise<void> {
    const { rank, size } = this.#place;
    const program: WorkerProgram = workerUrl('./stage-worker', import.meta.url);
    const [jobs, verdicts] = [await this.#reader(), await this.#reader()];
    const ended = verdicts.get('verdict', FOREVER_MS).then(
      (verdict) => {
        const text = verdict.toString();
        if (text !== 'end') this.#fail(new WorldEnded(`ended by rank 0: ${text.replace(/^failed: /, '')}`));
        return null;
      },
      () => {
        this.#fail(this.#gone());
        return null;
      },
    );
    for (let number = 0; ; number++) {
      const next = jobs.get(`job/${number}`, FOREVER_MS).catch(() => ended);
      const job = await this.#orFailed(Promise.race([next, ended]));
      if (this.#failed !== null) throw this.#failed;
      if (job === null) return;
      const memory = workerGroupMemory(size);
      let sent: Promise<unknown> = Promise.resolve();
      const send = (message: Letter['message']): void => {
        sent = sent.then(async () => {
          const letter = (await this.#store.add(`letters/${number}`, 1)) - 1;
          await this.#store.set(`note/${number}/${letter}`, serialize({ rank, message } satisfies Letter));
        });
        sent.catch(() => this.#fail(this.#gone()));
      };
      const context = {
        memory,
        rank,
        size,
        job: deserialize(job) as unknown,
        meeting: this.#meeting(number),
      };
      const { worker, result } = startWorker(program, context, (note) => send({ kind: 'note', note }));
      try {
        send({ kind: 'result', result: await this.#orFailed(result) });
      } catch (error) {
        markFailed(memory);
        void worker.terminate();
        if (this.#failed === null) send({ kind: 'error', error: failureOf(error) });
        await Promise.race([sent.catch(() => {}), briefly()]);
        // Rank 0 tells what happened, in words that name a rank.
        await this.#orFailed(Promise.race([ended, delay(LOST_MS + GRACE_MS)]));
        throw this.#failed ?? error;
      }
      await sent;
    }
  }

  /** Lets the other ranks go. */
  async end(error: Error | null): Promise<void> {
    clearInterval(this.#watch);
    if (this.#place.rank === 0) {
      this.#failed ??= new WorldEnded('ended');
      await this.#tell(error === null ? 'end' : `failed: ${error.message}`);
      const left = this.#children.map(
        (child) =>
          child.exitCode ?? child.signalCode ?? new Promise((resolve) => child.once('exit', resolve)),
      );
      await Promise.race([Promise.all(left), briefly()]);
      for (const child of this.#children) child.kill('SIGKILL');
      // Time for the others to read it: the store goes with this process.
      if (this.#children.length === 0) await delay(BEAT_MS / 2);
    }
    for (const store of [...this.#opened, this.#store]) store.close();
    process.off('exit', leave);
    process.on('exit', leave); // behind the listeners of the command
    setTimeout(() => process.exit(), GRACE_MS).unref();
  }
}

let world: Promise<World> | null = null;

/** Number of processes to be started when they are first needed. */
let wanted = 1;

/** Returns the world of a job that is about to start. */
export async function worldForJob(): Promise<World | null> {
  if (world === null && wanted > 1) world = World.start(wanted);
  return world;
}

/** Number of ranks that a job will have: processes, else `workers` of this process. */
export async function ranksOf(workers: number): Promise<number> {
  return wanted > 1 ? wanted : ((await world)?.size ?? workers);
}

/** Number of them on this machine. */
export async function localRanksOf(workers: number): Promise<number> {
  return wanted > 1 ? wanted : ((await world)?.localSize ?? workers);
}

/**
 * Does the work of a command in one process or several: `processes` of this machine, or those of torchrun. `work` is done by rank 0 alone.
 * @throws ConfigError; TimeseerError that names a rank which failed
 */
export async function inWorld(
  { processes, quiet }: { readonly processes: number; readonly quiet: boolean },
  work: () => Promise<void>,
): Promise<void> {
  checkWhole('processes', processes, 1, 4096);
  const place = placeOf();
  if (place !== null && processes > 1 && process.env[CHILD] === undefined) {
    throw new ConfigError(
      `--processes ${processes} starts processes on this machine, and WORLD_SIZE=${place.size} says that they are started already: leave one out`,
    );
  }
  if (place === null) wanted = processes;
  else if (place.rank > 0) {
    const joined = await World.join(place);
    // A stop is asked of rank 0, which lets all finish their step.
    for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, () => {});
    try {
      await joined.follow();
      await joined.end(null);
    } catch (error) {
      await joined.end(null);
      if (process.env[CHILD] === undefined || !(error instanceof WorldEnded)) throw error;
    }
    return;
  } else {
    if (!quiet) say(`rank 0 of ${place.size}: waits for the others at ${place.host}:${place.port}`);
    world = World.join(place);
    await world;
  }
  try {
    await work();
    await (await world)?.end(null);
  } catch (error) {
    await (await world?.catch(() => null))?.end(error as Error);
    throw error;
  }
}
