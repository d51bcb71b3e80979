/** Workers for matrix profiles: started when first needed, lent from call to call, ended when nobody has asked for a while. */
import { Worker } from 'node:worker_threads';
import { workerUrl } from '../worker-url.ts';
import type { SharedProfile } from './profile-chunks.ts';

/** Milliseconds after which an idle Worker ends. Idle ones do not keep the process alive. */
const PATIENCE = 20_000;

interface Idle {
  readonly worker: Worker;
  readonly expiry: NodeJS.Timeout;
}

const idle: Idle[] = [];

export interface Helper {
  /** Resolves when the Worker has no more chunks, or is gone: true if it did what it took. */
  readonly ended: Promise<boolean>;
  /** It is not waited for any more: the process may end without it. */
  release(): void;
}

/** Lets a Worker take chunks of `shared` as thread `rank`. */
export function lendHelper(shared: SharedProfile, rank: number): Helper {
  const worker = takeIdle(() => true) ?? startWorker();
  worker.ref();
  const ended = new Promise<boolean>((resolve) => {
    const settle = (done: boolean): void => {
      worker.off('message', finished);
      worker.off('exit', gone);
      if (done) keep(worker);
      resolve(done);
    };
    const finished = (): void => settle(true);
    const gone = (): void => settle(false);
    worker.once('message', finished);
    worker.once('exit', gone);
  });
  worker.postMessage({ shared, rank });
  return { ended, release: () => worker.unref() };
}

function startWorker(): Worker {
  const { url, execArgv } = workerUrl('./profile-worker.ts', import.meta.url);
  const worker = new Worker(url, { execArgv });
  // Its exit follows and is what counts; without a listener the error would end the process.
  worker.on('error', () => {});
  worker.once('exit', () => takeIdle((entry) => entry.worker === worker));
  return worker;
}

/** Takes an idle Worker off the list; undefined where there is none. */
function takeIdle(is: (entry: Idle) => boolean): Worker | undefined {
  const at = idle.findIndex(is);
  if (at < 0) return undefined;
  const [{ worker, expiry }] = idle.splice(at, 1) as [Idle];
  clearTimeout(expiry);
  return worker;
}

function keep(worker: Worker): void {
  worker.unref();
  const expiry = setTimeout(() => void worker.terminate(), PATIENCE);
  expiry.unref();
  idle.push({ worker, expiry });
}
