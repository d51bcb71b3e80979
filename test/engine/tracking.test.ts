/** Memory of tensors as the engine counts it: on the CPU exact to the rounding of the system's blocks. */
import { describe, expect, it } from 'vitest';
import type { MemoryUse, Tensor } from '../../src/engine/engine.ts';
import { openTorch } from '../../src/engine/torch/torch.ts';

const engine = openTorch({ threads: 1 });
/** Most bytes that the system adds to a block. */
const ROUNDING = 8192;
const before = engine.zeros([250_000]); // 1 MB that is not counted
const use = (): MemoryUse => engine.memory()!;
const near = (bytes: number, blocks: number) => (actual: number) => {
  expect(actual).toBeGreaterThanOrEqual(bytes);
  expect(actual).toBeLessThanOrEqual(bytes + blocks * ROUNDING);
};

describe('memory', () => {
  it('is null before it is tracked', () => {
    expect(engine.memory()).toBeNull();
  });
  it('counts what is held and the most that was held, views and reshapes for nothing', () => {
    engine.trackMemory();
    const start = use().now;
    engine.scope(() => {
      const a = engine.zeros([1000, 100]); // 400 kB
      near(400_000, 1)(use().now - start);
      engine.narrow(engine.reshape(a, [100, 1000]), 0, 3, 5);
      near(400_000, 1)(use().now - start);
      engine.scope(() => void engine.cast(a, 'float64')); // 800 kB for a moment
      near(400_000, 1)(use().now - start);
      near(1_200_000, 2)(use().peak - start);
      engine.cast(a, 'bfloat16'); // 200 kB
      near(600_000, 2)(use().now - start);
      near(1_200_000, 2)(use().peak - start);
    });
    expect(use().now).toBe(start);
  });
  it('tracking anew takes what is in use now as the peak', () => {
    const start = use().now;
    const kept = engine.zeros([50_000]);
    engine.dispose(engine.zeros([500_000]));
    engine.trackMemory();
    near(200_000, 1)(use().now - start);
    expect(use().peak).toBe(use().now);
    engine.dispose(kept);
    expect(use().now).toBe(start);
    expect(use().peak).toBeGreaterThan(start);
  });
  it('what was there before is not counted when it is freed either', () => {
    const start = use().now;
    engine.dispose(before);
    expect(use().now).toBe(start);
  });
  it('holds what autograd keeps until the gradient is taken', () => {
    const start = use().now;
    engine.scope(() => {
      const x = engine.parameter(engine.zeros([100_000])); // 400 kB
      const sum: Tensor = engine.scope(() => engine.sum(engine.exp(engine.exp(x)))); // keeps both results
      near(1_200_000, 4)(use().now - start);
      const [gradient] = engine.grad(sum, [x]);
      near(800_000, 4)(use().now - start);
      engine.dispose(gradient!);
      near(400_000, 3)(use().now - start);
    });
    expect(use().now).toBe(start);
  });
});
