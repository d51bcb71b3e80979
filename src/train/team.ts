/** The main thread's side of data parallelism: starts the Workers, passes their messages on, ends them together. */
import { SHARE_ENV, Worker } from 'node:worker_threads';
import { TimeseerError } from '../errors.ts';
import { systemError } from '../files.ts';
import type { WorkerProgram } from '../worker-url.ts';
import { markFailed, markHeard, requestStop, teamMemory } from './ranks.ts';

/** What every Worker of a team finds in its workerData. */
export interface TeamSeat<Job> {
  readonly memory: SharedArrayBuffer;
  readonly rank: number;
  readonly size: number;
  readonly job: Job;
}

/** What a rank posts: progress for whoever listens, and at the end its result. */
export type TeamMessage<Note, Result> =
  | { readonly kind: 'note'; readonly note: Note }
  | { readonly kind: 'result'; readonly result: Result }
  | { readonly kind: 'error'; readonly error: RankFailure };

/** An error on its way between threads; `expected` tells a typed error of ours from a fault. */
export interface RankFailure {
  readonly name: string;
  readonly message: string;
  readonly stack: string;
  readonly expected: boolean;
}

export function failureOf(error: unknown): RankFailure {
  const known = systemError(error) ?? error;
  const { name, message, stack } = known instanceof Error ? known : new Error(String(known));
  return { name, message, stack: stack ?? '', expected: known instanceof TimeseerError };
}

/** A rank failed with a typed error; the message is the rank's own. */
export class RankError extends TimeseerError {
  /** Name of the error type that the rank threw. */
  readonly kind: string;
  constructor({ name, message, stack }: RankFailure) {
    super(message);
    this.kind = name;
    this.stack = stack;
  }
}

function rebuilt(failure: RankFailure): Error {
  if (failure.expected) return new RankError(failure);
  const error = new Error(failure.message);
  error.name = failure.name;
  error.stack = failure.stack;
  return error;
}

export interface TeamOptions<Job, Note> {
  readonly size: number;
  readonly program: WorkerProgram;
  readonly job: Job;
  readonly onNote: (note: Note, rank: number) => void;
  /** Aborting it asks the ranks to stop after the step in flight. */
  readonly signal?: AbortSignal;
}

/**
 * Runs a job on `size` Workers and returns their results in rank order. When one fails the others are ended and
 * its error is thrown; so is an error of `onNote`.
 */
export async function runTeam<Job, Note, Result>(options: TeamOptions<Job, Note>): Promise<Result[]> {
  const { size, program, job, onNote, signal } = options;
  const memory = teamMemory(size);
  const workers: Worker[] = [];
  const stop = (): void => requestStop(memory);
  if (signal?.aborted === true) stop();
  signal?.addEventListener('abort', stop);
  try {
    const runs = Array.from({ length: size }, (_, rank) => {
      const seat: TeamSeat<Job> = { memory, rank, size, job };
      const worker = new Worker(program.url, {
        workerData: seat,
        execArgv: program.execArgv,
        env: SHARE_ENV,
      });
      workers.push(worker);
      return new Promise<Result>((resolve, reject) => {
        let result: { readonly value: Result } | undefined;
        worker.on('message', (message: TeamMessage<Note, Result>) => {
          if (message.kind === 'note') {
            try {
              onNote(message.note, rank);
              markHeard(memory);
            } catch (error) {
              reject(error); // what the listener cannot keep (a full disk) ends the team
            }
          } else if (message.kind === 'result') result = { value: message.result };
          else reject(rebuilt(message.error));
        });
        worker.on('error', reject);
        worker.on('exit', (code) => {
          if (result !== undefined) resolve(result.value);
          else reject(new TimeseerError(`worker ${rank} ended with code ${code} and no result`));
        });
      });
    });
    return await Promise.all(runs);
  } catch (error) {
    markFailed(memory);
    throw error;
  } finally {
    signal?.removeEventListener('abort', stop);
    await Promise.all(workers.map((worker) => worker.terminate()));
  }
}
