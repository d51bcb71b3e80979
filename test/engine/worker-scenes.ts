/**
 * Scenes that could end a process badly, one per run: `node --import tsx worker-scenes.ts SCENE`. Prints `done` as its
 * last words; the main thread of `short-lived` never loads the engine itself.
 */
import { SHARE_ENV, Worker } from 'node:worker_threads';
import { workerUrl } from '../../src/ground/paths.ts';

function start(scene: string, gate: Int32Array): Worker {
  const program = workerUrl('./scene-worker.ts', import.meta.url);
  return new Worker(program.url, {
    execArgv: program.execArgv,
    env: SHARE_ENV,
    workerData: { scene, gate },
  });
}

const gate = (): Int32Array => new Int32Array(new SharedArrayBuffer(4));
const exited = (worker: Worker): Promise<number> =>
  new Promise((done, failed) => {
    worker.on('error', failed);
    worker.on('exit', done);
  });
const until = async (flag: Int32Array, count: number): Promise<void> => {
  while (Atomics.load(flag, 0) < count) await new Promise((done) => setTimeout(done, 2));
};

const scenes: Record<string, () => Promise<void>> = {
  async 'short-lived'() {
    for (let round = 0; round < 3; round++) {
      const flag = gate();
      await Promise.all(['once', 'once', 'leave'].map((scene) => exited(start(scene, flag))));
      if (flag[0] !== 3) throw new Error(`${flag[0]} of 3 Workers computed`);
    }
  },
  async terminate() {
    for (let round = 0; round < 3; round++) {
      const flag = gate();
      const workers = ['loop', 'product', 'train'].map((scene) => start(scene, flag));
      await until(flag, 3);
      await Promise.all(workers.map((worker) => worker.terminate()));
    }
  },
  async 'main-exits'() {
    const flag = gate();
    for (const scene of ['loop', 'product', 'train']) start(scene, flag);
    await until(flag, 3);
    const { openTorch } = await import('../../src/engine/torch/torch.ts');
    openTorch({ threads: 1 }).zeros([4]); // a live tensor at exit
    console.log('done');
    process.exit(0);
  },
};

await scenes[process.argv[2]!]!();
console.log('done');
