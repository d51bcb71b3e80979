/** The suite of the engine contract, run over every engine by the factory that opens one. */
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { DType, Engine, Tensor } from '../../src/engine/engine.ts';
import { Random } from '../../src/ground/random.ts';
import type { Nd } from '../helpers/reference.ts';
import * as ref from '../helpers/reference.ts';
import { attentionStepContract } from './attention-step.ts';
import { autogradContract, recordingContract } from './autograd.ts';
import { type Case, indices, TENSOR_CASES } from './cases.ts';
import { longAttentionContract } from './long-attention.ts';
import { NETWORK_CASES } from './network-cases.ts';
import { ownershipContract } from './ownership.ts';
import { samplingContract } from './sampling.ts';
import { sinkhornContract } from './sinkhorn.ts';
import { fromFileContract, tensorDataContract } from './tensor-data.ts';
import { updateContract } from './update.ts';

/** Largest |actual − expected| over 1 + |expected|; infinities of one sign count as equal. */
export function worst(actual: ArrayLike<number>, expected: ArrayLike<number>): number {
  if (actual.length !== expected.length) return Number.POSITIVE_INFINITY;
  let most = 0;
  for (let i = 0; i < expected.length; i++) {
    if (Object.is(actual[i], expected[i])) continue;
    const error = Math.abs(actual[i]! - expected[i]!) / (1 + Math.abs(expected[i]!));
    most = Number.isNaN(error) ? Number.POSITIVE_INFINITY : Math.max(most, error);
  }
  return most;
}

/** |actual − expected| over |expected|, Euclidean. */
function apart(actual: ArrayLike<number>, expected: Float64Array): number {
  const length = (x: Float64Array): number => Math.sqrt(x.reduce((sum, v) => sum + v * v, 0));
  return length(expected.map((v, i) => v - actual[i]!)) / (length(expected) || 1);
}

export function upload(engine: Engine, x: Nd, dtype: DType = 'float64'): Tensor {
  const wide = engine.tensor(x.data, x.shape);
  return dtype === 'float64' ? wide : engine.cast(wide, dtype);
}

export function checkValue(engine: Engine, test: Case, dtype: DType, tolerance: number): void {
  engine.scope(() => {
    const result = test.run(
      engine,
      test.inputs.map((x) => upload(engine, x, dtype)),
      (test.constants ?? []).map((x) => upload(engine, x, dtype)),
    );
    const expected = test.reference(test.inputs, test.constants ?? []);
    expect(result.shape).toEqual(expected.shape);
    expect(result.dtype).toBe(dtype === 'bfloat16' ? (test.widened ?? dtype) : dtype);
    expect(worst(engine.doubles(result), expected.data)).toBeLessThan(tolerance);
  });
}

export function checkGradients(
  engine: Engine,
  test: Case,
  dtype: DType,
  distance: (actual: ArrayLike<number>, expected: Float64Array) => number,
  tolerance: number,
): void {
  const constants = test.constants ?? [];
  engine.scope(() => {
    const inputs = test.inputs.map((x) => engine.parameter(upload(engine, x, dtype)));
    // A history outlives the handles of what it was computed from.
    const output = engine.scope(() =>
      test.run(
        engine,
        inputs,
        constants.map((x) => upload(engine, x, dtype)),
      ),
    );
    const cotangent = ref.normal(new Random(5, test.name), output.shape);
    const gradients = engine.grad(output, inputs, upload(engine, cotangent, output.dtype));
    expect(gradients).toHaveLength(inputs.length);
    gradients.forEach((gradient, n) => {
      const expected = ref.centralDifferences(test.inputs[n]!, (moved) => {
        const result = test.reference(test.inputs.toSpliced(n, 1, moved), constants);
        return result.data.reduce((total, value, i) => total + value * cotangent.data[i]!, 0);
      });
      expect([gradient.shape, gradient.dtype]).toEqual([test.inputs[n]!.shape, dtype]);
      expect(distance(engine.doubles(gradient), expected), `input ${n}`).toBeLessThan(tolerance);
    });
  });
}

/** Float dtypes in which an engine computes layers. Arithmetic is of float32 and float64 in each. */
export interface Traits {
  /** The most exact; tests that need more digits than float32 has compare within its tolerance where it is float32. */
  readonly exact: 'float64' | 'float32';
  readonly bfloat16: boolean;
}

export const TORCH: Traits = { exact: 'float64', bfloat16: true };
export const TFJS: Traits = { exact: 'float32', bfloat16: false };

export function engineContract(name: string, open: () => Engine | Promise<Engine>, traits: Traits): void {
  const cases = [...TENSOR_CASES, ...NETWORK_CASES];
  const { exact } = traits;
  describe(`engine ${name}`, () => {
    let engine: Engine;
    beforeAll(async () => {
      engine = await open();
    });
    afterEach(() => expect(engine.live()).toBe(0));

    describe('values equal the float64 reference', () => {
      it.each(exact === 'float64' ? cases : TENSOR_CASES)('$name, float64', (test) =>
        checkValue(engine, test, 'float64', 1e-12),
      );
      it.each(cases)('$name, float32', (test) => checkValue(engine, test, 'float32', 2e-5));
    });

    describe('gradients equal central differences of the reference', () => {
      it.each(exact === 'float64' ? cases : TENSOR_CASES)('$name', (test) =>
        checkGradients(engine, test, 'float64', worst, 1e-7),
      );
      // Sums of products that float32 has rounded; the decoder is a chain of a dozen.
      it.each(exact === 'float64' ? [] : cases)('$name, float32', (test) =>
        checkGradients(engine, test, 'float32', worst, test.name.includes('decoder') ? 2e-4 : 5e-5),
      );
    });

    describe.runIf(traits.bfloat16)('bfloat16', () => {
      const rounded = (test: Case): Case => {
        const each = (list: readonly Nd[]): Nd[] =>
          engine.scope(() => list.map((x) => ref.of(x.shape, engine.doubles(upload(engine, x, 'bfloat16')))));
        return { ...test, inputs: each(test.inputs), constants: each(test.constants ?? []) };
      };
      it.each(cases)('$name has the dtype and two decimal digits', (test) =>
        checkValue(engine, rounded(test), 'bfloat16', 0.04),
      );
      // One rounding is 2⁻⁹ at most; the decoder is a chain of a dozen.
      it.each(NETWORK_CASES)('$name has gradients of two decimal digits', (test) =>
        checkGradients(engine, rounded(test), 'bfloat16', apart, test.name.includes('decoder') ? 0.03 : 0.01),
      );
      it('rmsNorm takes its statistics in float32', () => {
        engine.scope(() => {
          const x = ref.nd([1, 4096], (i) => (i === 0 ? 16 : 0.25)); // a bfloat16 sum would stop growing
          const out = engine.rmsNorm(
            upload(engine, x, 'bfloat16'),
            upload(
              engine,
              ref.nd([4096], () => 1),
              'bfloat16',
            ),
            0,
          );
          const expected = ref.rmsNorm(
            x,
            ref.nd([4096], () => 1),
            0,
          );
          expect(out.dtype).toBe('bfloat16');
          expect(worst(engine.doubles(out), expected.data)).toBeLessThan(0.004);
        });
      });
      it('attention takes a float32 mask', () => {
        engine.scope(() => {
          const q = ref.normal(new Random(1, 'q'), [1, 2, 3, 4]);
          const mask = ref.nd([1, 1, 3, 3], (_, [, , t, s]) => (s! > t! ? -Infinity : 0));
          const [wide, narrow] = (['float64', 'bfloat16'] as const).map((dtype) => {
            const query = upload(engine, q, dtype);
            return engine.attention({
              query,
              key: query,
              value: query,
              mask: upload(engine, mask, 'float32'),
            });
          }) as [Tensor, Tensor];
          const expected = ref.attention({ query: q, key: q, value: q, mask }).data;
          expect([wide.dtype, narrow.dtype]).toEqual(['float64', 'bfloat16']);
          expect(worst(engine.doubles(wide), expected)).toBeLessThan(1e-12);
          expect(worst(engine.doubles(narrow), expected)).toBeLessThan(0.03);
        });
      });
      it('logProbs are float32', () => {
        engine.scope(() => {
          const [h, w] = [ref.normal(new Random(1, 'h'), [3, 8]), ref.normal(new Random(1, 'w'), [5, 8])];
          const { logProb } = engine.logProbs(
            upload(engine, h, 'bfloat16'),
            upload(engine, w, 'bfloat16'),
            indices(engine, [4, 0, 2]),
          );
          expect(logProb.dtype).toBe('float32');
          expect(worst(engine.doubles(logProb), ref.logProb(h, w, [4, 0, 2], {}).data)).toBeLessThan(0.03);
        });
      });
    });

    tensorDataContract(() => engine);
    fromFileContract(() => engine);
    ownershipContract(() => engine);
    autogradContract(() => engine, traits);
    recordingContract(() => engine);
    longAttentionContract(() => engine, traits);
    attentionStepContract(() => engine, traits);
    samplingContract(() => engine);
    updateContract(() => engine, traits);
    sinkhornContract(() => engine);
  });
}
