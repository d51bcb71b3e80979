/** What a training step takes beyond the buffers that outlive it, as the engine counts it. */
import { expect, test } from 'vitest';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { forward } from '../../src/policy/forward.ts';
import { Policy } from '../../src/policy/policy.ts';
import { trainBpe } from '../../src/policy/tokenizer.ts';
import type { Range } from '../../src/train/gradient-exchange.ts';
import type { Learner } from '../../src/train/learner.ts';
import { supervisedLoss } from '../../src/train/loss.ts';
import { sequenceBatch } from '../../src/train/micro-batch.ts';
import { CHUNK, ShardedOptimizer } from '../../src/train/optimizer.ts';
import { PromptEncoder } from '../../src/train/task.ts';
import { WorkerGroup } from '../../src/train/worker-group.ts';
import { DEVICE } from '../helpers/device.ts';
import { OPTIMIZER, TRACES, tinyDims, tinyLearner, tinyTask } from '../helpers/tiny-policy.ts';

const engine = openTorch({ device: DEVICE, threads: 1 });

/** Bytes above those that are in use before and after. */
function above(body: () => void): number {
  engine.trackMemory();
  const before = engine.memory()!.now;
  body();
  const { peak, now } = engine.memory()!;
  expect(now).toBe(before);
  return peak - before;
}

test('an update takes a few chunks, however many parameters there are', () => {
  const take = (count: number, chunk: number, dtype: 'float32' | 'bfloat16'): number =>
    engine.scope(() => {
      const size = 100_000;
      const ranges = Array.from(
        { length: count },
        (_, i): Range => ({ offset: i * size, size, decay: true }),
      );
      const flat = engine.zeros([count * size], dtype);
      const optimizer = new ShardedOptimizer(engine, WorkerGroup.single(), flat, ranges, OPTIMIZER, {
        ...{ chunk, bucket: chunk },
      });
      const gradient = engine.zeros([size]);
      return above(() => {
        for (let i = 0; i < count - 1; i++) optimizer.gradients.add(i, gradient);
        optimizer.step(1, 0.1);
      });
    });
  const chunk = 1 << 14;
  for (const dtype of ['float32', 'bfloat16'] as const) {
    expect(take(5, chunk, dtype)).toBeLessThan(4 * 4 * chunk);
    expect(Math.abs(take(20, chunk, dtype) - take(5, chunk, dtype))).toBeLessThan(1024);
  }
  // One pass needs no copy of anything: all that is made are zeros for the one parameter without a gradient.
  // Without an operator of one pass there are copies.
  if (DEVICE === 'cpu') expect(take(20, CHUNK, 'float32')).toBeLessThan(4 * 110_000);
});

test('a step that computes layers again takes the gradient of a layer, not of the policy', async () => {
  const learner = (recompute: boolean): Learner => {
    const policy = Policy.create(engine, {
      tokenizer: trainBpe(TRACES, { vocabulary: 330 }),
      seed: 2,
      dims: (vocabulary, special) => ({
        ...tinyDims(vocabulary, special),
        width: 256,
        layers: 8,
        heads: 4,
        kvHeads: 2,
        headDim: 64,
        inner: 512,
        sections: [4, 4, 24],
      }),
    });
    return tinyLearner(policy, 1, recompute);
  };
  const task = tinyTask();
  const series = task.example(1);
  const picture = await task.picture(series);
  const take = (recompute: boolean): { readonly bytes: number; readonly weights: number } => {
    const one = learner(recompute);
    const { policy } = one;
    const prompt = new PromptEncoder(policy).encode(picture, task.instruction(series));
    const response = policy.encodeResponse(task.trace(series));
    const { input, targets } = sequenceBatch([prompt], [response], policy.dims.special.pad);
    const bytes = above(() =>
      engine.scope(() => {
        const tape = one.tape();
        const { hidden } = forward(policy, tape === undefined ? input : { ...input, tape });
        one.backward(hidden, targets, {}, (logProb) => supervisedLoss(engine, logProb), tape);
      }),
    );
    return { bytes, weights: 4 * policy.layout.size };
  };
  const [kept, again] = [take(false), take(true)];
  expect(kept.bytes).toBeGreaterThan(kept.weights);
  expect(again.bytes).toBeLessThan(0.4 * again.weights);
});
