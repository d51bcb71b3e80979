/** One rank of a TimerPO step by the stage's own loop, again and again on the same weights. */
import { parentPort, workerData } from 'node:worker_threads';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { Learner } from '../../src/train/learner.ts';
import type { RlMetrics } from '../../src/train/metrics.ts';
import { rl } from '../../src/train/rl.ts';
import { failureOf, loadShared, type WorkerContext, WorkerGroup } from '../../src/train/worker-group.ts';
import type { BenchAnswer } from './team.ts';
import { type StepJob, stepOptions, stepTask } from './timerpo-work.ts';
import { quickstart } from './workload.ts';

/** What one side made of the step; a peer's loss is its share of it. */
export type StepAnswer = Pick<RlMetrics, 'loss' | 'kl' | 'entropy'> & {
  readonly gradNorm: number;
  readonly similarity: number;
  readonly advantage: number;
  readonly ms: RlMetrics['ms'];
};

const { memory, rank, size, job } = workerData as WorkerContext<StepJob>;
const workers = new WorkerGroup(memory, rank, size);
const port = parentPort!;
const post = (message: BenchAnswer<StepAnswer | null>): void => port.postMessage(message);

function start(): () => Promise<StepAnswer | null> {
  const engine = openTorch({ device: job.device, threads: 1 });
  const options = stepOptions(job);
  const { rl: recipe, seed } = quickstart();
  const learner = new Learner(loadShared(engine, workers, job.policy), workers, recipe);
  const reference = loadShared(engine, workers, job.reference, { tuning: 'none' });
  const task = stepTask(job.policy);
  return async () => {
    let last: StepAnswer | null = null;
    await rl(learner, reference, task, options, seed, {
      onStep: (metrics) => {
        last = { ...metrics, gradNorm: metrics.gradNorm!, similarity: metrics.similarity! };
      },
      onCompletions: () => {},
      save: () => {},
    });
    return last;
  };
}

let step: (() => Promise<StepAnswer | null>) | undefined;
port.on('message', async (question: string) => {
  try {
    step ??= start();
    post({ kind: 'answer', answer: question === 'step' ? await step() : null });
  } catch (error) {
    post({ kind: 'error', error: failureOf(error) });
  }
});
