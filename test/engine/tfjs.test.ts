import * as core from '@tensorflow/tfjs-core';
import { expect, it } from 'vitest';
import { backend, copyingBackend } from '../../src/engine/tfjs/backend.ts';
import { openTfjs, TfjsEngine } from '../../src/engine/tfjs/tfjs.ts';
import { EngineError } from '../../src/ground/errors.ts';
import { checkGradients, checkValue, engineContract, TFJS, worst } from './contract.ts';
import { NETWORK_CASES } from './network-cases.ts';

engineContract('tfjs', openTfjs, TFJS);

it('memory ends with an error, and no block reaches beyond it or into another', async () => {
  const { allocate, free, memory } = await backend();
  const engine = await openTfjs();
  for (const size of [2 ** 28, 5e6]) {
    const blocks: number[] = [];
    for (let block = allocate(size); block !== 0; block = allocate(size)) {
      blocks.push(block);
      expect(block + size).toBeLessThanOrEqual(memory.buffer.byteLength);
    }
    blocks
      .sort((a, b) => a - b)
      .slice(1)
      .forEach((block, i) => {
        expect(block - blocks[i]!).toBeGreaterThanOrEqual(size);
      });
    expect(blocks.length * size).toBeGreaterThan(3e9);
    expect(() => engine.zeros([2 ** 26])).toThrow(EngineError);
    expect(() => engine.zeros([2 ** 26])).toThrow(
      /^zeros.*cannot allocate 268435456 bytes beside \d+: not enough memory \(WebAssembly holds 4 GB .*memory\.tokens/,
    );
    for (const block of blocks) free(block);
  }
  engine.scope(() => expect(engine.item(engine.sum(engine.add(engine.zeros([4]), 1)))).toBe(4));
});

/** Native TensorFlow, whose tensors are out of reach, is stood for by the public interface of tfjs. */
it('a backend that copies operands and products has the same layers, gradients and memory', async () => {
  await backend();
  const engine = new TfjsEngine(copyingBackend(core as never, 'tfjs-core', core.version_core));
  const some = /^(linear with a bias|attention of groups|logProbs with temperature)/;
  for (const test of NETWORK_CASES.filter(({ name }) => some.test(name))) {
    checkValue(engine, test, 'float32', 2e-5);
    checkGradients(engine, test, 'float32', worst, 5e-5);
  }
  engine.trackMemory();
  engine.scope(() => {
    const tensors = Array.from({ length: 20 }, (_, i) => engine.zeros([2 ** i]));
    expect(engine.memory()!.now).toBe(4 * (2 ** 20 - 1));
    engine.dispose(...tensors.slice(10));
    tensors.slice(0, 10).forEach((tensor, i) => {
      expect(engine.floats(tensor)).toEqual(new Float32Array(2 ** i));
    });
  });
  expect(engine.memory()).toEqual({ now: 0, peak: 4 * (2 ** 20 - 1) });
});

it('layers of other floats than float32 are refused by name', async () => {
  const engine = await openTfjs();
  for (const dtype of ['bfloat16', 'float16', 'float64'] as const) {
    engine.scope(() => {
      const x = engine.zeros([2, 4], dtype);
      for (const body of [() => engine.swiglu(x), () => engine.linear(x, x), () => engine.gelu(x)]) {
        expect(body).toThrow(EngineError);
        expect(body).toThrow(new RegExp(`the tfjs engine computes in float32, not ${dtype}; cast it first`));
      }
      if (dtype !== 'float64')
        expect(() => engine.add(x, 1)).toThrow(/^add.Scalar\(.*not (b?float16|bfloat16)/);
    });
  }
});

it('two copies of the engine in one process multiply by their own matrices', async () => {
  const built = '../../dist/src/engine/tfjs/tfjs.js';
  const copy = ((await import(built)) as { openTfjs: typeof openTfjs }).openTfjs;
  const [one, other] = [await openTfjs(), await copy()];
  const ones = (engine: TfjsEngine, rows: number, columns: number) =>
    engine.tensor(new Float32Array(rows * columns).fill(1), [rows, columns]);
  // Weights of the first stay packed while the second multiplies by smaller ones.
  const weights = Array.from({ length: 60 }, (_, k) => ones(one, k + 8, 64));
  const products = weights.map((weight) => one.linear(ones(one, 3, 64), weight));
  for (let k = 0; k < 60; k++) {
    other.scope(() => {
      expect(other.floats(other.linear(ones(other, 2, 7), ones(other, 5, 7)))).toEqual(
        new Float32Array(10).fill(7),
      );
    });
  }
  for (const product of products) expect(one.floats(product)[0]).toBe(64);
});
