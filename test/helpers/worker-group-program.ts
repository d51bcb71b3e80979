/** A Worker program for the tests of teams: sums, failures, and a small shared regression. */
import { parentPort, workerData } from 'node:worker_threads';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { DataError } from '../../src/ground/errors.ts';
import { Random } from '../../src/ground/random.ts';
import { ShardedOptimizer } from '../../src/train/optimizer.ts';
import {
  failureOf,
  type WorkerContext,
  WorkerGroup,
  type WorkerMessage,
} from '../../src/train/worker-group.ts';

export interface GroupJob {
  readonly kind: 'sums' | 'gather' | 'fail' | 'refuse' | 'train' | 'poison';
  readonly turns: number;
}

export interface GroupReport {
  readonly total?: number;
  readonly gathered?: number[];
  readonly parameters?: number[];
  readonly loss?: number;
  readonly skipped?: number;
}

const WIDTH = 5;
const BATCH = 6;

function sums(workers: WorkerGroup, turns: number): GroupReport {
  let total = 0;
  for (let turn = 0; turn < turns; turn++) total += workers.allReduce([(workers.rank + 1) * turn])[0]!;
  return { total };
}

function train(workers: WorkerGroup, turns: number, poison: boolean): GroupReport {
  const engine = openTorch({ threads: 1 });
  const own = engine.zeros([WIDTH]);
  const ticket = workers.broadcast([workers.rank === 0 ? engine.share(own) : 0])[0]!;
  const flat = engine.attach(ticket);
  const weight = engine.parameter(engine.reshape(flat, [1, WIDTH]));
  const ranges = [
    { offset: 0, size: 3, decay: true },
    { offset: 3, size: WIDTH - 3, decay: false },
  ];
  const optimizer = new ShardedOptimizer(engine, workers, flat, ranges, {
    betas: [0.9, 0.95],
    weightDecay: 0.001,
    clip: 5,
  });
  let loss = 0;
  let skipped = 0;
  for (let step = 0; step < turns; step++) {
    const [start, end] = workers.shard(BATCH);
    const x: number[] = [];
    const y: number[] = [];
    for (let i = start; i < end; i++) {
      const random = new Random(1, 'regression', step, i);
      const row = Array.from({ length: WIDTH }, () => random.normal());
      x.push(...row);
      y.push(row.reduce((sum, value, j) => sum + value * (j - 1.5) * 0.2, 0));
    }
    const value = engine.scope(() => {
      const inputs = engine.tensor(Float32Array.from(x), [end - start, WIDTH]);
      const targets = engine.tensor(Float32Array.from(y), [end - start, 1]);
      const error = engine.sub(engine.linear(inputs, weight), targets);
      let squared = engine.sum(engine.mul(error, error));
      if (poison && workers.rank === 0) squared = engine.mul(squared, Number.NaN);
      const [gradient] = engine.grad(squared, [weight]); // [1, 5]
      ranges.forEach(({ offset, size }, i) => {
        optimizer.gradients.add(i, engine.narrow(gradient!, 1, offset, size));
      });
      return engine.item(squared);
    });
    loss = workers.allReduce([value])[0]! / BATCH;
    if (optimizer.step(BATCH, 0.05).skipped) skipped++;
  }
  return { parameters: [...engine.floats(flat)], loss, skipped };
}

const { memory, rank, size, job } = workerData as WorkerContext<GroupJob>;
const workers = new WorkerGroup(memory, rank, size);
const post = (message: WorkerMessage<number, GroupReport>): void => parentPort!.postMessage(message);
try {
  if (job.kind === 'fail' && rank === 1) throw new Error('rank 1 broke');
  if (job.kind === 'refuse' && rank === 0) throw new DataError('rank 0 refuses');
  if (job.kind === 'fail' || job.kind === 'refuse') workers.barrier();
  const result =
    job.kind === 'gather'
      ? { gathered: [...workers.gather(Array.from({ length: 70 * rank + 1 }, (_, i) => 1000 * rank + i))] }
      : job.kind === 'sums' || job.kind === 'fail'
        ? sums(workers, job.turns)
        : train(workers, job.turns, job.kind === 'poison');
  post({ kind: 'result', result });
} catch (error) {
  post({ kind: 'error', error: failureOf(error) });
}
