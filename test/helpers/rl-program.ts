/** A Worker program for tests of the reinforcement stage on several ranks: the tiny policy, taught a little and then reinforced. */
import { parentPort, workerData } from 'node:worker_threads';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { Policy } from '../../src/policy/policy.ts';
import { Learner } from '../../src/train/learner.ts';
import type { RlMetrics } from '../../src/train/metrics.ts';
import { type RlOptions, rl } from '../../src/train/rl.ts';
import {
  failureOf,
  type WorkerContext,
  WorkerGroup,
  type WorkerMessage,
} from '../../src/train/worker-group.ts';
import { DEVICE } from './device.ts';
import { mixedScore, OPTIMIZER, teach, tinyLearner, tinyPolicy, tinyTask } from './tiny-policy.ts';

export interface RlJob {
  readonly options: RlOptions;
}

export interface RlReport {
  readonly parameters: number[];
  readonly lines: readonly RlMetrics[];
}

const { memory, rank, size, job } = workerData as WorkerContext<RlJob>;
const workers = new WorkerGroup(memory, rank, size);
const post = (message: WorkerMessage<number, RlReport>): void => parentPort!.postMessage(message);
try {
  const engine = openTorch({ device: DEVICE, threads: 1 });
  const taught = tinyPolicy(engine);
  if (rank === 0) await teach(tinyLearner(taught), { samples: 60, learningRate: 5e-3 });
  const ticket = workers.broadcast([rank === 0 ? engine.share(taught.flat) : 0])[0]!;
  const policy = rank === 0 ? taught : new Policy(engine, taught.parts, engine.attach(ticket));
  workers.barrier();
  if (rank === 0) engine.unshare(ticket);
  const learner = new Learner(policy, workers, { ...OPTIMIZER, clip: 1e9 });
  const task = tinyTask({
    score: mixedScore([0]),
    // Two tasks in one batch.
    example: (index) => ({ ...tinyTask().example(index), task: index % 2 === 0 ? 'even' : 'odd' }),
  });
  const lines: RlMetrics[] = [];
  const hooks = {
    onStep: (line: RlMetrics) => void lines.push(line),
    onCompletions: () => {},
    save: () => {},
  };
  await rl(learner, tinyPolicy(engine), task, job.options, 21, hooks);
  post({ kind: 'result', result: { parameters: [...engine.floats(policy.flat)], lines } });
} catch (error) {
  post({ kind: 'error', error: failureOf(error) });
}
