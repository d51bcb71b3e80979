/** A Worker program for the tests of teams: sums, failures, and a small shared regression. */
import { parentPort, workerData } from 'node:worker_threads';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { DataError } from '../../src/errors.ts';
import { Random } from '../../src/random.ts';
import { ShardedAdamW } from '../../src/train/optimizer.ts';
import { failureOf, Ranks, type TeamMessage, type TeamSeat } from '../../src/train/worker-group.ts';

export interface TeamJob {
  readonly kind: 'sums' | 'fail' | 'refuse' | 'train' | 'poison';
  readonly turns: number;
}

export interface TeamReport {
  readonly total?: number;
  readonly parameters?: number[];
  readonly loss?: number;
  readonly skipped?: number;
}

const WIDTH = 5;
const BATCH = 6;

function sums(ranks: Ranks, turns: number): TeamReport {
  let total = 0;
  for (let turn = 0; turn < turns; turn++) total += ranks.sum([(ranks.rank + 1) * turn])[0]!;
  return { total };
}

function train(ranks: Ranks, turns: number, poison: boolean): TeamReport {
  const engine = openTorch({ threads: 1 });
  const own = engine.zeros([WIDTH]);
  const ticket = ranks.broadcast([ranks.rank === 0 ? engine.share(own) : 0])[0]!;
  const flat = engine.attach(ticket);
  const weight = engine.parameter(engine.reshape(flat, [1, WIDTH]));
  const ranges = [
    { offset: 0, size: 3, decay: true },
    { offset: 3, size: WIDTH - 3, decay: false },
  ];
  const optimizer = new ShardedAdamW(engine, ranks, flat, ranges, {
    betas: [0.9, 0.95],
    epsilon: 1e-8,
    weightDecay: 0.001,
    clip: 5,
  });
  let loss = 0;
  let skipped = 0;
  for (let step = 0; step < turns; step++) {
    const [start, end] = ranks.share(BATCH);
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
      if (poison && ranks.rank === 0) squared = engine.mul(squared, Number.NaN);
      const [gradient] = engine.grad(squared, [weight]); // [1, 5]
      ranges.forEach(({ offset, size }, i) => {
        optimizer.accumulate(i, engine.narrow(gradient!, 1, offset, size));
      });
      return engine.item(squared);
    });
    loss = ranks.sum([value])[0]! / BATCH;
    if (optimizer.step(BATCH, 0.05).skipped) skipped++;
  }
  return { parameters: [...engine.floats(flat)], loss, skipped };
}

const { memory, rank, size, job } = workerData as TeamSeat<TeamJob>;
const ranks = new Ranks(memory, rank, size);
const post = (message: TeamMessage<number, TeamReport>): void => parentPort!.postMessage(message);
try {
  if (job.kind === 'fail' && rank === 1) throw new Error('rank 1 broke');
  if (job.kind === 'refuse' && rank === 0) throw new DataError('rank 0 refuses');
  if (job.kind === 'fail' || job.kind === 'refuse') ranks.barrier();
  const result =
    job.kind === 'sums' || job.kind === 'fail'
      ? sums(ranks, job.turns)
      : train(ranks, job.turns, job.kind === 'poison');
  post({ kind: 'result', result });
} catch (error) {
  post({ kind: 'error', error: failureOf(error) });
}
