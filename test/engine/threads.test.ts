/** Operations that are split over threads give what one thread gives. */
import { afterAll, describe, expect, it } from 'vitest';
import type { DType, Tensor } from '../../src/engine/engine.ts';
import { loadNative } from '../../src/engine/torch/native.ts';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { Random } from '../../src/ground/random.ts';

const engine = openTorch({ threads: 1 });
const random = new Random(4, 'threads');
afterAll(() => loadNative().threads(1));

/** Result and gradients, as stored. */
function outcome(
  run: (inputs: readonly Tensor[]) => Tensor,
  given: readonly Float32Array[],
  shapes: readonly number[][],
  dtype: DType,
  threads: number,
): Uint8Array[] {
  expect(loadNative().threads(threads)).toBe(threads);
  return engine.scope(() => {
    const inputs = given.map((data, i) =>
      engine.parameter(engine.cast(engine.tensor(data, shapes[i]!), dtype)),
    );
    const output = run(inputs);
    const seed = engine.cast(
      engine.tensor(
        Float32Array.from({ length: output.shape.reduce((a, b) => a * b, 1) }, (_, i) => Math.sin(i)),
        output.shape,
      ),
      dtype,
    );
    return [output, ...engine.grad(output, inputs, seed)].map((x) => engine.bytes(x));
  });
}

const draw = (shapes: readonly number[][]): Float32Array[] =>
  shapes.map((shape) =>
    Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => random.normal()),
  );

/** Stored elements as numbers. */
function values(bytes: Uint8Array, dtype: 'float32' | 'bfloat16'): Float32Array {
  if (dtype === 'float32') return new Float32Array(bytes.buffer);
  const high = Uint32Array.from(new Uint16Array(bytes.buffer), (half) => half << 16);
  return new Float32Array(high.buffer);
}

/** 1031 rows of 257: no number of threads divides them. */
const cases: readonly (readonly [
  name: string,
  shapes: number[][],
  run: (inputs: readonly Tensor[]) => Tensor,
])[] = [
  ['rmsNorm', [[1031, 257], [257]], ([x, w]) => engine.rmsNorm(x!, w!, 1e-6)],
  ['swiglu', [[1031, 258]], ([x]) => engine.swiglu(x!)],
  [
    'rotary',
    [[3, 211, 5, 64]],
    ([x]) => {
      const angle = Float32Array.from({ length: 211 * 64 }, (_, i) => i * 0.37);
      const [cos, sin] = [angle.map(Math.cos), angle.map(Math.sin)].map((data) =>
        engine.tensor(data, [1, 211, 64]),
      );
      return engine.rotary(x!, engine.cast(cos!, x!.dtype), engine.cast(sin!, x!.dtype));
    },
  ],
];

describe.each(['float32', 'bfloat16'] as const)('large inputs in %s over several threads', (dtype) => {
  it.each(cases)('%s', (name, shapes, run) => {
    const given = draw(shapes);
    const [one, three, again] = [1, 3, 3].map((threads) => outcome(run, given, shapes, dtype, threads)) as [
      Uint8Array[],
      Uint8Array[],
      Uint8Array[],
    ];
    expect(three.map((x, i) => Buffer.compare(x, again[i]!))).toEqual(three.map(() => 0));
    one.forEach((bytes, i) => {
      // The sigmoid's vectors end elsewhere; the weight's gradient is a sum over rows, taken in another order.
      if (name === 'swiglu' || (name === 'rmsNorm' && i === 2)) {
        const [a, b] = [values(bytes, dtype), values(three[i]!, dtype)];
        const most = Math.max(...a.slice(0, 5000).map(Math.abs));
        const worst = a.reduce((far, v, k) => Math.max(far, Math.abs(v - b[k]!)), 0);
        expect(worst / most).toBeLessThan(dtype === 'float32' ? 2e-6 : 0.01);
      } else expect(Buffer.compare(bytes, three[i]!)).toBe(0);
    });
  });
});
