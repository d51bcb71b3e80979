/** A thousand training steps of a small network leave no tensor behind and no memory. */
import { describe, expect, it } from 'vitest';
import type { AdamWState, Tensor } from '../../src/engine/engine.ts';
import { loadNative } from '../../src/engine/torch/native.ts';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { EngineError } from '../../src/ground/errors.ts';
import { Random } from '../../src/ground/random.ts';

const [WIDTH, VOCABULARY, ROWS, LENGTH] = [32, 90, 3, 11];
const engine = openTorch({ threads: 1 });
const random = new Random(6, 'memory');
const normal = (...shape: number[]): Tensor => {
  const count = shape.reduce((product, n) => product * n, 1);
  return engine.tensor(
    Float32Array.from({ length: count }, () => random.normal(0, 0.2)),
    shape,
  );
};

/** Computes forward, backward and update; returns the loss. Lengths differ from step to step, as real batches do. */
function train(state: AdamWState, table: Tensor, weight: Tensor, step: number): number {
  return engine.scope(() => {
    const length = LENGTH + (step % 7);
    const tokens = Int32Array.from({ length: ROWS * length }, (_, i) => (i * 7 + step) % VOCABULARY);
    const index = engine.tensor(tokens, [ROWS * length]);
    const x = engine.indexSelect(table, index); // [B·T, W]
    const heads = engine.permute(
      engine.reshape(engine.linear(x, weight), [ROWS, length, 4, 8]),
      [0, 2, 1, 3],
    );
    const prefix = engine.narrow(engine.narrow(heads, 0, 0, 1), 2, 0, 5);
    const seen = engine.attention({
      query: heads,
      key: heads,
      value: heads,
      prefix: { key: prefix, value: prefix },
    });
    const hidden = engine.reshape(engine.permute(seen, [0, 2, 1, 3]), [ROWS * length, WIDTH]);
    const { logProb, entropy } = engine.logProbs(hidden, table, index, { entropy: true });
    const loss = engine.mul(engine.sum(engine.add(logProb, entropy!)), -1 / tokens.length);
    const gradients = engine.grad(loss, [table, weight]);
    const flat = engine.concat(
      gradients.map((gradient) => engine.reshape(gradient, [-1])),
      0,
    );
    engine.adamW(
      { ...state, gradients: flat },
      { learningRate: 0.01, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, step },
    );
    engine.sample(engine.linear(engine.detach(hidden), engine.detach(table)), {
      temperature: 1,
      topP: 0.9,
      uniforms: engine.tensor(new Float32Array(tokens.length).fill(0.5), [tokens.length]),
    });
    return engine.item(loss);
  });
}

describe('a thousand steps of forward, backward, update and sampling', () => {
  it('keep the number of live tensors and the resident memory', () => {
    const count = VOCABULARY * WIDTH + WIDTH * WIDTH;
    const state = {
      parameters: normal(count),
      gradients: engine.zeros([count]),
      firstMoment: engine.zeros([count]),
      secondMoment: engine.zeros([count]),
      decay: engine.zeros([count]),
    };
    const [table, weight] = engine.scope(() => [
      engine.parameter(
        engine.reshape(engine.narrow(state.parameters, 0, 0, VOCABULARY * WIDTH), [VOCABULARY, WIDTH]),
      ),
      engine.parameter(
        engine.reshape(engine.narrow(state.parameters, 0, VOCABULARY * WIDTH, WIDTH * WIDTH), [WIDTH, WIDTH]),
      ),
    ]) as [Tensor, Tensor];
    const live = engine.live();
    const native = loadNative().live();
    let first = 0;
    let last = 0;
    let before = 0;
    for (let step = 1; step <= 1000; step++) {
      last = train(state, table, weight, step);
      if (step === 1) first = last;
      if (step === 200) before = process.memoryUsage().rss;
      if (step % 100 === 0) expect([engine.live(), loadNative().live()]).toEqual([live, native]);
    }
    const growth = process.memoryUsage().rss - before;
    expect(last).toBeLessThan(first - 0.5);
    // One step holds about 1 MB of tensors: a leak of one in a hundred of them would show as 8 MB; the rest is JavaScript's heap.
    expect(growth / 2 ** 20).toBeLessThan(40);
    engine.dispose(...Object.values(state), table, weight);
  });
  it('failing operations leak nothing either', () => {
    const native = loadNative().live();
    const x = engine.scope(() => engine.parameter(normal(4, 6)));
    let before = 0;
    for (let i = 0; i < 400; i++) {
      if (i === 100) before = process.memoryUsage().rss;
      expect(() =>
        engine.scope(() => {
          const large = engine.matmul(x, engine.zeros([6, 40_000])); // 0.6 MB, freed with the scope
          return engine.matmul(large, large);
        }),
      ).toThrow(EngineError);
    }
    expect((process.memoryUsage().rss - before) / 2 ** 20).toBeLessThan(40);
    engine.dispose(x);
    expect(loadNative().live()).toBe(native);
  });
});
