/** One rank of the supervised update on examples that are ready: forward, backward, reduction, AdamW, nothing else. */
import { parentPort, workerData } from 'node:worker_threads';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { forward } from '../../src/policy/forward.ts';
import { Learner } from '../../src/train/learner.ts';
import { supervisedLoss } from '../../src/train/loss.ts';
import { sequenceBatch } from '../../src/train/micro-batch.ts';
import { failureOf, loadShared, type WorkerContext, WorkerGroup } from '../../src/train/worker-group.ts';
import type { BenchAnswer } from './team.ts';
import { examples, quickstart } from './workload.ts';

export interface GradientJob {
  readonly device: string;
  readonly policy: string;
  readonly first: number;
  readonly batches: number;
  readonly batch: number;
  readonly learningRate: number;
}

/** Loss per token of every batch of a round. */
export type GradientAnswer = readonly number[];

const { memory, rank, size, job } = workerData as WorkerContext<GradientJob>;
const workers = new WorkerGroup(memory, rank, size);
const port = parentPort!;
const post = (message: BenchAnswer<GradientAnswer>): void => port.postMessage(message);

async function start(): Promise<() => number[]> {
  const { betas, weightDecay, clip } = quickstart().sft;
  const policy = loadShared(openTorch({ device: job.device, threads: 1 }), workers, job.policy);
  const learner = new Learner(policy, workers, { betas, weightDecay, clip });
  const all = await examples(policy, job.policy, job.first, job.batches * job.batch);
  const [from, to] = workers.shard(job.batch);
  const { engine, dims } = policy;
  return () =>
    Array.from({ length: job.batches }, (_, b) => {
      const own = all.slice(b * job.batch + from, b * job.batch + to);
      const { input, targets } = sequenceBatch(
        own.map(({ prompt }) => prompt),
        own.map(({ response }) => response),
        dims.special.pad,
      );
      let loss = 0;
      engine.scope(() => {
        const { hidden } = forward(policy, input); // [K, D]
        learner.backward(hidden, targets, {}, (logProb) => {
          const sum = supervisedLoss(engine, logProb); // []
          loss += engine.item(sum);
          return sum;
        });
      });
      const [lossSum, tokens] = workers.allReduce([loss, targets.length]) as [number, number];
      learner.update(tokens, job.learningRate);
      return lossSum / tokens;
    });
}

let round: (() => number[]) | undefined;
port.on('message', async (question: string) => {
  try {
    round ??= await start();
    post({ kind: 'answer', answer: question === 'round' ? round() : [] });
  } catch (error) {
    post({ kind: 'error', error: failureOf(error) });
  }
});
