/**
 * A thread of its own for a policy or detector of the user: a function that never comes back blocks that thread alone, which is ended.
 * `policy-worker.ts` is its program.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import type {
  Detection,
  DetectorDefinition,
  PolicyDefinition,
  PolicyOutcome,
  PolicyRequest,
  Question,
} from '../../eval/define.ts';
import { ConfigError } from '../ground/errors.ts';
import { workerUrl } from '../ground/paths.ts';
import type { ModuleAddress } from '../ground/user-module.ts';

type Common = Pick<PolicyDefinition, 'name' | 'concurrency' | 'timeLimit'>;
type Asked = Omit<Parameters<DetectorDefinition['detect']>[1], 'signal'>;

export type PolicyCall =
  | { readonly kind: 'answer'; readonly id: number; readonly request: Omit<PolicyRequest, 'signal'> }
  | { readonly kind: 'detect'; readonly id: number; readonly series: Question; readonly asked: Asked }
  | { readonly kind: 'abort'; readonly id: number };

export type PolicyReply =
  | { readonly kind: 'ready'; readonly common: Common; readonly detects: boolean }
  | { readonly kind: 'refused'; readonly message: string }
  | { readonly kind: 'outcome'; readonly id: number; readonly outcome: unknown }
  | { readonly kind: 'threw'; readonly id: number; readonly name: string; readonly message: string }
  /** An abort has arrived: the thread is not blocked. */
  | { readonly kind: 'aborted'; readonly id: number };

/** Seconds that a module may take to load. */
const LOADING = 60;
/** Seconds in which a thread that is not blocked has heard of an abort. */
const GRACE = 2;

interface Waiting {
  readonly resolve: (outcome: unknown) => void;
  readonly reject: (error: Error) => void;
}

const named = (name: string, message: string): Error => Object.assign(new Error(message), { name });

/** One start of the thread, until it ends. */
class PolicyThread {
  readonly ready: Promise<Extract<PolicyReply, { kind: 'ready' }>>;
  ended = false;
  readonly #worker: Worker;
  readonly #waiting = new Map<number, Waiting>();
  /** Of calls whose abort the thread has not heard of yet. */
  readonly #aborted = new Map<number, NodeJS.Timeout>();

  constructor(module: ModuleAddress) {
    const { url, execArgv } = workerUrl('./policy-worker', import.meta.url);
    // What the user's code prints must not stand in the output of a command.
    this.#worker = new Worker(url, { execArgv, workerData: module, stdout: true });
    this.#worker.stdout.pipe(process.stderr);
    this.ready = new Promise((resolve, reject) => {
      const fail = (message: string): void => {
        void this.end(named('Error', message));
        reject(new ConfigError(message));
      };
      const late = setTimeout(
        () => fail(`${module.file}: does not load within ${LOADING} s`),
        LOADING * 1000,
      );
      const died = (problem: unknown): void => {
        clearTimeout(late);
        const why = problem instanceof Error ? problem.message : `exit code ${String(problem)}`;
        fail(`${module.file}: its thread ended by itself (${why}); it must not end the process`);
      };
      this.#worker.on('error', died);
      this.#worker.on('exit', died);
      this.#worker.on('message', (reply: PolicyReply) => {
        if (reply.kind === 'ready' || reply.kind === 'refused') clearTimeout(late);
        if (reply.kind === 'ready') {
          this.#worker.unref();
          resolve(reply);
        } else if (reply.kind === 'refused') fail(reply.message);
        else this.#settle(reply);
      });
    });
    this.ready.catch(() => {}); // whoever waits for it hears of it
  }

  call(call: Exclude<PolicyCall, { kind: 'abort' }>, file: string, signal: AbortSignal): Promise<unknown> {
    const { id } = call;
    return new Promise((resolve, reject) => {
      signal.throwIfAborted();
      this.#worker.ref();
      this.#waiting.set(id, { resolve, reject });
      signal.addEventListener(
        'abort',
        () => {
          if (!this.#waiting.delete(id)) return;
          reject(signal.reason);
          this.#worker.postMessage({ kind: 'abort', id } satisfies PolicyCall);
          const blocked = () =>
            this.end(named('TimeoutError', `another call blocked the thread of ${file}, which was ended`));
          this.#aborted.set(id, setTimeout(blocked, GRACE * 1000).unref());
          this.#rest();
        },
        { once: true },
      );
      this.#worker.postMessage(call);
    });
  }

  /** Waits until the thread has heard of every abort, or has been ended for it. */
  async heard(): Promise<void> {
    while (!this.ended && this.#aborted.size > 0) await sleep(20);
  }

  /** Ends the thread; all that wait for it hear why. */
  async end(error: Error): Promise<void> {
    if (this.ended) return;
    this.ended = true;
    for (const timer of this.#aborted.values()) clearTimeout(timer);
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
    await this.#worker.terminate();
  }

  #settle(reply: Extract<PolicyReply, { id: number }>): void {
    const { id } = reply;
    clearTimeout(this.#aborted.get(id));
    this.#aborted.delete(id);
    if (reply.kind === 'aborted') return;
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    this.#rest();
    if (reply.kind === 'outcome') waiting?.resolve(reply.outcome);
    else waiting?.reject(named(reply.name, reply.message));
  }

  /** A thread that nobody waits for keeps the process not alive. */
  #rest(): void {
    if (this.#waiting.size === 0) this.#worker.unref();
  }
}

export interface HostedPolicy {
  /** As the module declares it; its function runs in the thread. */
  readonly definition: PolicyDefinition | DetectorDefinition;
  /** Waits until the thread can be called, which is started anew where it has ended. @throws ConfigError as `hostPolicy` */
  ready(): Promise<void>;
  close(): Promise<void>;
}

/**
 * Loads a policy or a detector in a thread of its own. A call whose signal is aborted is given up; where the function does not let its
 * thread hear of that, the thread is ended, and what else waits for it fails.
 * @throws ConfigError for a module that cannot be loaded within a minute, or exports neither
 */
export async function hostPolicy(module: ModuleAddress): Promise<HostedPolicy> {
  let thread = new PolicyThread(module);
  let next = 0;
  const { common, detects } = await thread.ready;
  const ready = async (): Promise<void> => {
    await thread.heard();
    if (thread.ended) thread = new PolicyThread(module);
    await thread.ready;
  };
  const definition: PolicyDefinition | DetectorDefinition = detects
    ? {
        ...common,
        detect: (series, { signal, ...asked }) =>
          thread.call(
            { kind: 'detect', id: next++, series, asked },
            module.file,
            signal,
          ) as Promise<Detection | null>,
      }
    : {
        ...common,
        answer: ({ signal, ...request }) =>
          thread.call({ kind: 'answer', id: next++, request }, module.file, signal) as Promise<PolicyOutcome>,
      };
  return { definition, ready, close: () => thread.end(new Error(`${module.file} is closed`)) };
}
