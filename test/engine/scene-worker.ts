/** Worker of a scene: computes once and ends, ends by process.exit with live tensors, or never stops. */
import { workerData } from 'node:worker_threads';
import type { Engine } from '../../src/engine/engine.ts';
import { openTorch } from '../../src/engine/torch/torch.ts';

const { scene, gate } = workerData as { scene: string; gate: Int32Array };
const engine: Engine = openTorch({ threads: 1 });
const weight = engine.parameter(engine.zeros([16, 16]));
const big = engine.zeros([400, 400]);

const work: Record<string, () => void> = {
  loop: () => engine.scope(() => engine.narrow(engine.exp(weight), 0, 1, 2)),
  product: () => engine.scope(() => engine.matmul(big, big)),
  train: () =>
    engine.scope(() => {
      const loss = engine.sum(engine.exp(engine.matmul(weight, weight)));
      engine.grad(loss, [weight]);
    }),
};

work['train']!();
Atomics.add(gate, 0, 1);
if (scene === 'leave') process.exit(0);
for (const step = work[scene]; step !== undefined; ) step();
