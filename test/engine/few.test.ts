/** Products of few rows with a large matrix, which take a way of their own on a processor. */
import { describe, expect, it } from 'vitest';
import type { Tensor } from '../../src/engine/engine.ts';
import { openTorch } from '../../src/engine/torch/torch.ts';
import { Random } from '../../src/ground/random.ts';

const engine = openTorch({ threads: 2 });
const OUTER = 1031;
const INNER = 517; // no multiple of any vector length; 1031 · 517 elements are large

const random = new Random(3, 'few');
const uniform = (count: number): Float32Array =>
  Float32Array.from({ length: count }, () => random.between(-1, 1));
const weight = uniform(OUTER * INNER);
const bias = uniform(OUTER);
const inputs = uniform(12 * INNER);

/** Product in float64: [rows · OUTER]. */
function expected(rows: number, withBias: boolean): Float64Array {
  const out = new Float64Array(rows * OUTER);
  for (let m = 0; m < rows; m++) {
    for (let n = 0; n < OUTER; n++) {
      let sum = withBias ? bias[n]! : 0;
      for (let k = 0; k < INNER; k++) sum += inputs[m * INNER + k]! * weight[n * INNER + k]!;
      out[m * OUTER + n] = sum;
    }
  }
  return out;
}

function worst(a: Float32Array, b: ArrayLike<number>): number {
  expect(a.length).toBe(b.length);
  return a.reduce((most, value, i) => Math.max(most, Math.abs(value - b[i]!)), 0);
}

function linear(rows: number, withBias: boolean, dtype: 'float32' | 'bfloat16' = 'float32'): Float32Array {
  return engine.scope(() => {
    const held = (values: Float32Array, shape: number[]): Tensor =>
      engine.cast(engine.tensor(values, shape), dtype);
    const x = held(inputs.slice(0, rows * INNER), [rows, INNER]);
    const w = held(weight, [OUTER, INNER]);
    return engine.floats(engine.linear(x, w, withBias ? held(bias, [OUTER]) : undefined));
  });
}

describe('linear of few rows with a large matrix', () => {
  it.each([1, 2, 3, 4, 5, 6, 7, 8, 9, 12])('is the product, %i rows', (rows) => {
    for (const withBias of [false, true]) {
      expect(worst(linear(rows, withBias), expected(rows, withBias))).toBeLessThan(1e-4);
    }
  });

  it('gives a row the same bits whatever rows are beside it', () => {
    const alone = linear(1, true);
    for (const rows of [2, 5, 8]) expect(linear(rows, true).slice(0, OUTER)).toEqual(alone);
  });

  it('sums in float32 and rounds once with 16 bits', () => {
    const rounded = (values: Float32Array): Float32Array =>
      engine.scope(() => engine.floats(engine.cast(engine.tensor(values, [values.length]), 'bfloat16')));
    const [x, w] = [rounded(inputs.slice(0, INNER)), rounded(weight)];
    const exact = Float32Array.from({ length: OUTER }, (_, n) => {
      let sum = 0;
      for (let k = 0; k < INNER; k++) sum += x[k]! * w[n * INNER + k]!;
      return sum;
    });
    // Half a unit in the last place of eight bits, of numbers below 32.
    expect(worst(linear(1, false, 'bfloat16'), exact)).toBeLessThan(0.0626);
  });

  it('keeps leading axes and passes gradients on', () => {
    engine.scope(() => {
      const w = engine.tensor(weight, [OUTER, INNER]);
      const x = engine.parameter(engine.tensor(inputs.slice(0, 2 * INNER), [1, 2, INNER]));
      const y = engine.linear(x, w);
      expect(y.shape).toEqual([1, 2, OUTER]);
      const [gradient] = engine.grad(engine.sum(y), [x]);
      const columns = engine.floats(engine.sum(w, 0));
      expect(worst(engine.floats(gradient!).slice(INNER), columns)).toBeLessThan(1e-3);
      engine.noGrad(() => {
        expect(worst(engine.floats(engine.linear(x, w)), engine.floats(y))).toBeLessThan(1e-4);
      });
    });
  });

  it('complains about shapes that do not fit', () => {
    engine.scope(() => {
      const w = engine.tensor(weight, [OUTER, INNER]);
      const x = engine.tensor(inputs.slice(0, INNER - 1), [1, INNER - 1]);
      expect(() => engine.linear(x, w)).toThrow(/linear\(float32\[1,516\], float32\[1031,517\]/);
      const short = engine.tensor(bias.slice(1), [OUTER - 1]);
      const fits = engine.tensor(inputs.slice(0, INNER), [1, INNER]);
      expect(() => engine.linear(fits, w, short)).toThrow(/linear/);
    });
  });
});
