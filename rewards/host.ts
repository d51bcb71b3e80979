/**
 * A thread of its own for rewards of the user: they take their time while the policy samples, and one that never returns can be ended.
 * `reward-worker.ts` is its program.
 */
import { Worker } from 'node:worker_threads';
import { ConfigError, RewardError, TimeseerError } from '../src/ground/errors.ts';
import { workerUrl } from '../src/ground/paths.ts';
import type { Example, ParsedAnswer, Score } from '../src/ground/types.ts';
import type { ModuleAddress } from '../src/ground/user-module.ts';

/** A response to score, with what it says. */
export interface ScoringRequest {
  readonly text: string;
  readonly answer: ParsedAnswer;
  readonly example: Example;
}

export interface HostData {
  readonly modules: readonly ModuleAddress[];
  /** When the thread was last known to run: tenths of seconds since 1970, modulo 2³¹. */
  readonly beat: SharedArrayBuffer;
}

export interface HostRequest {
  readonly id: number;
  readonly examples: readonly Example[];
  /** Of each response, which example it responds to. */
  readonly responses: readonly {
    readonly example: number;
    readonly text: string;
    readonly answer: ParsedAnswer;
  }[];
}

/** What is told of a reward once its module is loaded. */
export interface HostedReward {
  readonly name: string;
  /** Seconds that a call of it may take. */
  readonly timeLimit: number;
}

export type HostMessage =
  | { readonly kind: 'ready'; readonly rewards: readonly HostedReward[] }
  | { readonly kind: 'refused'; readonly message: string }
  | { readonly kind: 'scores'; readonly id: number; readonly scores: readonly (readonly (Score | null)[])[] }
  | { readonly kind: 'failed'; readonly id: number; readonly message: string };

const CHECK_MS = 500;
/** Seconds on top of the longest time limit after which a thread that does not come back is ended. */
const SLACK = 2;
/** Seconds that modules may take to load. */
const LOADING = 60;

export const tenths = (): number => Math.floor(Date.now() / 100) % 2 ** 31;

interface Waiting {
  readonly request: ScoringRequest;
  readonly resolve: (scores: (Score | null)[]) => void;
  readonly reject: (error: unknown) => void;
}

export class RewardHost {
  readonly #worker: Worker;
  readonly #modules: readonly ModuleAddress[];
  readonly #beat = new Int32Array(new SharedArrayBuffer(4));
  readonly #ready: Promise<readonly HostedReward[]>;
  readonly #pending = new Map<number, readonly Waiting[]>();
  #rewards: readonly HostedReward[] = [];
  #gathered: Waiting[] = [];
  #next = 0;
  #ended: Error | null = null;
  #watch: NodeJS.Timeout | undefined;

  private constructor(modules: readonly ModuleAddress[]) {
    this.#modules = modules;
    const { url, execArgv } = workerUrl('./reward-worker', import.meta.url);
    const workerData: HostData = { modules, beat: this.#beat.buffer as SharedArrayBuffer };
    // What the user's code prints must not stand in the output of a command.
    this.#worker = new Worker(url, { execArgv, workerData, stdout: true });
    this.#worker.stdout.pipe(process.stderr);
    this.#stamp();
    this.#ready = new Promise((resolve, reject) => {
      this.#worker.on('message', (message: HostMessage) => {
        if (message.kind === 'ready') resolve(message.rewards);
        else if (message.kind === 'refused') reject(new ConfigError(message.message));
        else this.#settle(message);
      });
      const died = (problem: unknown): void => {
        const why = problem instanceof Error ? problem.message : `exit code ${String(problem)}`;
        this.#end(
          new RewardError(
            `${this.#names()}: its thread ended by itself (${why}); a reward must not end the process`,
          ),
        );
        reject(this.#ended);
      };
      this.#worker.on('error', died);
      this.#worker.on('exit', died);
    });
    this.#watch = setInterval(() => this.#check(), CHECK_MS);
  }

  /** Starts the thread and loads the modules there. @throws ConfigError for one that cannot be loaded, or is no reward */
  static async open(modules: readonly ModuleAddress[]): Promise<RewardHost> {
    const host = new RewardHost(modules);
    try {
      host.#rewards = await host.#ready;
    } catch (error) {
      await host.close();
      throw error;
    }
    host.#idle();
    return host;
  }

  /** What the modules declare, in their order. */
  get rewards(): readonly HostedReward[] {
    return this.#rewards;
  }

  /**
   * The scores of a response by each reward, in the order of the modules; null where one does not apply. Requests of one turn of the
   * event loop are sent together.
   * @throws RewardError as `scoresBy`, and for a function that blocks its thread beyond its time limit
   */
  score(request: ScoringRequest): Promise<(Score | null)[]> {
    if (this.#ended !== null) return Promise.reject(this.#ended);
    return new Promise((resolve, reject) => {
      if (this.#gathered.push({ request, resolve, reject }) === 1) queueMicrotask(() => this.#send());
    });
  }

  async close(): Promise<void> {
    this.#end(new TimeseerError('the rewards are closed'));
    await this.#worker.terminate();
  }

  #names(): string {
    return this.#modules.map(({ file }) => file).join(', ');
  }

  #stamp(): void {
    Atomics.store(this.#beat, 0, tenths());
  }

  /** Nothing waits: the thread keeps nobody alive, and nobody watches it. */
  #idle(): void {
    this.#worker.unref();
    clearInterval(this.#watch);
    this.#watch = undefined;
  }

  #send(): void {
    const waiting = this.#gathered;
    this.#gathered = [];
    if (this.#ended !== null) {
      for (const { reject } of waiting) reject(this.#ended);
      return;
    }
    const places = new Map<Example, number>();
    const responses = waiting.map(({ request: { example, text, answer } }) => {
      const place = places.get(example) ?? places.size;
      places.set(example, place);
      return { example: place, text, answer };
    });
    const id = this.#next++;
    this.#pending.set(id, waiting);
    this.#worker.ref();
    this.#stamp();
    this.#watch ??= setInterval(() => this.#check(), CHECK_MS);
    this.#worker.postMessage({ id, examples: [...places.keys()], responses } satisfies HostRequest);
  }

  #settle(message: Extract<HostMessage, { id: number }>): void {
    const waiting = this.#pending.get(message.id) ?? [];
    this.#pending.delete(message.id);
    if (this.#pending.size === 0) this.#idle();
    if (message.kind === 'scores')
      for (const [i, { resolve }] of waiting.entries()) resolve(message.scores.map((of) => of[i]!));
    else for (const { reject } of waiting) reject(new RewardError(message.message));
  }

  /** Ends the thread where it has not come back for longer than it may. */
  #check(): void {
    const loading = this.#rewards.length === 0;
    const limit = loading ? LOADING : Math.max(...this.#rewards.map(({ timeLimit }) => timeLimit)) + SLACK;
    if (tenths() - Atomics.load(this.#beat, 0) <= 10 * limit) return;
    const what = loading ? 'does not load' : 'blocks its thread';
    this.#end(
      new RewardError(
        `${this.#names()}: ${what} for more than ${limit} s; return, or await what takes long, and raise timeLimit where it must`,
      ),
    );
    void this.#worker.terminate();
  }

  #end(error: Error): void {
    if (this.#ended !== null) return;
    this.#ended = error;
    this.#idle();
    for (const waiting of this.#pending.values()) for (const { reject } of waiting) reject(error);
    for (const { reject } of this.#gathered) reject(error);
    this.#pending.clear();
    this.#gathered = [];
  }
}
