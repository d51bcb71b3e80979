/** Tensors that are given the storage of others. */
import { afterAll, expect, test } from 'vitest';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { EngineError } from '../../src/ground/errors.ts';
import { DEVICE } from '../helpers/device.ts';

const engine = openTorch({ device: DEVICE, threads: 1 });
const born = engine.live();
afterAll(() => expect(engine.live()).toBe(born));

test('a leaf has the values and the gradient of the storage that it was given', () => {
  engine.scope(() => {
    const leaf = engine.parameter(engine.tensor(Float32Array.of(1, 2, 3, 4, 5, 6), [2, 3]));
    const buffer = engine.tensor(Float32Array.of(9, 7, 5, 3, 1, -1, -3), [7]);
    engine.rebind(leaf, engine.reshape(engine.narrow(buffer, 0, 1, 6), [2, 3]));
    expect([...engine.floats(leaf)]).toEqual([7, 5, 3, 1, -1, -3]);
    const [gradient] = engine.grad(engine.sum(engine.mul(leaf, leaf)), [leaf]);
    expect([...engine.floats(gradient!)]).toEqual([14, 10, 6, 2, -2, -6]);
    engine.write(buffer, 0, 1, engine.tensor(Float32Array.of(70), [1]));
    expect(engine.floats(leaf)[0]).toBe(70);
  });
});

test('a tensor without storage keeps its shape and cannot be read, and its memory is free', () => {
  engine.scope(() => {
    const size = 1 << 20;
    engine.trackMemory();
    const before = engine.memory()!.now;
    const flat = engine.zeros([size], 'bfloat16');
    const part = engine.narrow(flat, 0, 3, 4);
    engine.rebind(flat, null);
    expect(engine.memory()!.now - before).toBeGreaterThan(size); // a view still has it
    engine.rebind(part, null);
    expect(engine.memory()!.now - before).toBeLessThan(size / 100);
    expect([flat.shape, part.shape]).toEqual([[size], [4]]);
    expect(() => engine.floats(part)).toThrow(EngineError);
    const weight = engine.parameter(engine.zeros([3, 2]));
    engine.rebind(weight, null);
    const x = engine.zeros([5, 2]);
    expect(() => engine.linear(x, weight)).toThrow(EngineError);
    // On CUDA an index out of range is not an error but the end of the device for this process.
    if (!DEVICE.startsWith('cuda')) {
      expect(() => engine.indexSelect(weight, engine.tensor(Int32Array.of(1), [1]))).toThrow(EngineError);
    }
    const norm = engine.zeros([2]);
    engine.rebind(norm, null);
    expect(() => engine.rmsNorm(x, norm, 1e-6)).toThrow(EngineError);
  });
});

test('another shape or dtype is refused, and the tensor stays what it was', () => {
  engine.scope(() => {
    const tensor = engine.tensor(Float32Array.of(1, 2), [2]);
    expect(() => engine.rebind(tensor, engine.zeros([3]))).toThrow(EngineError);
    expect(() => engine.rebind(tensor, engine.zeros([2], 'bfloat16'))).toThrow(
      'rebind: expected float32 [2], got bfloat16 [2]',
    );
    expect([...engine.floats(tensor)]).toEqual([1, 2]);
  });
});
