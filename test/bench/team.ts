/** Workers that stay open between rounds, so that ours and a peer's rounds can take turns. */
import { SHARE_ENV, Worker } from 'node:worker_threads';
import { workerUrl } from '../../src/ground/paths.ts';
import { type WorkerContext, type WorkerFailure, workerGroupMemory } from '../../src/train/worker-group.ts';

/** What a Worker of a bench team posts: an answer to each message it gets. */
export type BenchAnswer<Answer> =
  | { readonly kind: 'answer'; readonly answer: Answer }
  | { readonly kind: 'error'; readonly error: WorkerFailure };

/** Contender of a comparison: answers once per rank to each question. */
export interface Contender<Answer> {
  readonly name: string;
  readonly processes: number;
  ask(question: string): Promise<Answer[]>;
  close(): Promise<void>;
}

/** Opens `size` Workers over one program and waits until they have answered 'ready'. */
export async function openTeam<Job, Answer>(
  name: string,
  program: string,
  size: number,
  job: Job,
): Promise<Contender<Answer>> {
  const memory = workerGroupMemory(size);
  const { url, execArgv } = workerUrl(program, import.meta.url);
  const workers = Array.from({ length: size }, (_, rank) => {
    const context: WorkerContext<Job> = { memory, rank, size, job };
    return new Worker(url, { workerData: context, execArgv, env: SHARE_ENV });
  });
  const ask = (question: string): Promise<Answer[]> =>
    Promise.all(
      workers.map(
        (worker) =>
          new Promise<Answer>((resolve, reject) => {
            const settle = (message: BenchAnswer<Answer>): void => {
              worker.off('error', reject);
              if (message.kind === 'answer') resolve(message.answer);
              else reject(new Error(`${message.error.name}: ${message.error.stack}`));
            };
            worker.once('message', settle);
            worker.once('error', reject);
            worker.postMessage(question);
          }),
      ),
    );
  const close = async (): Promise<void> => {
    await Promise.all(workers.map((worker) => worker.terminate()));
  };
  const team = { name, processes: size, ask, close };
  try {
    await ask('ready');
  } catch (error) {
    await close();
    throw error;
  }
  return team;
}
