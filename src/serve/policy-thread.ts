/** The policy's Worker, seen from the main thread. */
import { Worker } from 'node:worker_threads';
import { CheckpointError, TimeseerError } from '../ground/errors.ts';
import { workerUrl } from '../ground/paths.ts';
import type { CompletionEvent, CompletionJob } from './completions.ts';
import type { FromPolicy, PolicyWorkerData, ToPolicy } from './policy-worker.ts';

type Listener = (event: CompletionEvent) => void;

export class PolicyThread {
  readonly #worker: Worker;
  readonly #listeners = new Map<number, Listener>();
  #next = 0;
  #closing = false;
  /** Rejects when the Worker ends unasked. */
  readonly failed: Promise<never>;

  private constructor(worker: Worker) {
    this.#worker = worker;
    this.failed = new Promise((_, reject) => {
      const end = (cause: unknown): void => {
        if (this.#closing) return;
        const problem = cause instanceof Error ? cause.message : `exit code ${String(cause)}`;
        for (const [id, tell] of this.#listeners) tell({ id, kind: 'failed', message: problem });
        this.#listeners.clear();
        reject(new TimeseerError(`the policy's Worker ended (${problem})`, { cause }));
      };
      worker.on('error', end);
      worker.on('exit', end);
    });
    this.failed.catch(() => undefined);
    worker.on('message', (message: FromPolicy) => {
      if (message.kind === 'event') this.#listeners.get(message.event.id)?.(message.event);
    });
  }

  /** Loads the policy. @throws CheckpointError with what is wrong with it, or with the engine */
  static async start(data: PolicyWorkerData): Promise<PolicyThread> {
    const { url, execArgv } = workerUrl('./policy-worker.ts', import.meta.url);
    const thread = new PolicyThread(new Worker(url, { execArgv, workerData: data }));
    const ready = new Promise<void>((resolve, reject) => {
      thread.#worker.once('message', (message: FromPolicy) => {
        if (message.kind === 'unusable') reject(new CheckpointError(message.message));
        else resolve();
      });
    });
    try {
      await Promise.race([ready, thread.failed]);
      return thread;
    } catch (error) {
      await thread.terminate();
      throw error;
    }
  }

  /** Begins a completion; `tell` is told what comes of it, until the function that is returned is called. */
  complete(job: Omit<CompletionJob, 'id'>, tell: Listener): () => void {
    const id = this.#next++;
    const { images } = job.prompt;
    this.#listeners.set(id, tell);
    this.#post(
      { job: { ...job, id } },
      images.map(({ patches }) => patches.buffer as ArrayBuffer),
    );
    return () => {
      if (this.#listeners.delete(id)) this.#post({ stop: id });
    };
  }

  #post(message: ToPolicy, transfer: ArrayBuffer[] = []): void {
    this.#worker.postMessage(message, transfer);
  }

  /** Ends the Worker at once. */
  async terminate(): Promise<void> {
    this.#closing = true;
    await this.#worker.terminate();
  }
}
