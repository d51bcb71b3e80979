/** Wrong shapes, dtypes and sizes are EngineErrors that name the operator, what it was given, and the device. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { EngineError } from '../../src/ground/errors.ts';
import { ENGINES, misuse } from './complaint.ts';

describe.each(ENGINES)('%s', (_, opened) => {
  const { engine, complaint, floats, whole } = misuse(opened);

  describe('wrong shapes and dtypes', () => {
    it.each<[string, () => unknown, RegExp]>([
      [
        'add',
        () => engine.add(floats([2, 3]), floats([4, 5])),
        /^add\.Tensor\(float32\[2,3\], float32\[4,5\]\) on cpu: .*size/,
      ],
      [
        'matmul',
        () => engine.matmul(floats([2, 3]), floats([4, 5])),
        /^matmul\(float32\[2,3\], float32\[4,5\]\) on cpu: /,
      ],
      [
        'matmul of dtypes',
        () => engine.matmul(floats([2, 2]), engine.zeros([2, 2], 'float64')),
        /^matmul\(float32\[2,2\], float64\[2,2\]\) on cpu: /,
      ],
      [
        'reshape',
        () => engine.reshape(floats([2, 3]), [4, 2]),
        /^reshape\(float32\[2,3\], \[4, 2\]\) on cpu: /,
      ],
      ['reshape to a negative size', () => engine.reshape(floats([2, 3]), [-2, -3]), /^reshape/],
      ['reshape to a fraction', () => engine.reshape(floats([2, 3]), [1.5, 4]), /integer/],
      [
        'permute',
        () => engine.permute(floats([2, 3]), [0, 0]),
        /^permute\(float32\[2,3\], \[0, 0\]\) on cpu: /,
      ],
      ['permute with too few axes', () => engine.permute(floats([2, 3]), [0]), /^permute/],
      [
        'concat',
        () => engine.concat([floats([2, 3]), floats([3, 2])], 0),
        /^cat\(\[float32\[2,3\], float32\[3,2\]\], 0\) on cpu: /,
      ],
      ['concat of nothing', () => engine.concat([], 0), /^cat\(\[\], 0\)/],
      ['narrow', () => engine.narrow(floats([2, 3]), 1, 2, 2), /^narrow\(float32\[2,3\], 1, 2, 2\) on cpu: /],
      ['narrow by a negative length', () => engine.narrow(floats([2, 3]), 1, 0, -1), /^narrow/],
      ['narrow along a missing axis', () => engine.narrow(floats([2, 3]), 2, 0, 1), /^narrow/],
      [
        'rows beyond the end',
        () => engine.indexSelect(floats([2, 3]), whole(0, 2)),
        /^index_select\(float32\[2,3\], 0, int64\[2\]\) on cpu: /,
      ],
      ['rows before the start', () => engine.indexSelect(floats([2, 3]), whole(-1)), /^index_select/],
      ['rows by floats', () => engine.indexSelect(floats([2, 3]), floats([2])), /^index_select/],
      [
        'indexCopy beyond the end',
        () => engine.indexCopy(floats([2, 3]), whole(5), floats([1, 3])),
        /^index_copy/,
      ],
      [
        'indexCopy of another shape',
        () => engine.indexCopy(floats([2, 3]), whole(1), floats([2, 3])),
        /^index_copy/,
      ],
      [
        'write of another shape',
        () => engine.write(floats([2, 3]), 0, 0, floats([1, 2])),
        /^write: target \[1,3\] and source \[1,2\] differ/,
      ],
      ['write beyond the end', () => engine.write(floats([2, 3]), 0, 1, floats([2, 3])), /^narrow/],
      ['sum over a missing axis', () => engine.sum(floats([2, 3]), 2), /^sum/],
      [
        'linear',
        () => engine.linear(floats([2, 3]), floats([4, 5])),
        /^linear\(float32\[2,3\], float32\[4,5\], null\) on cpu: /,
      ],
      [
        'rmsNorm',
        () => engine.rmsNorm(floats([2, 3]), floats([2]), 1e-6),
        /^rmsNorm: x \[2,3\] needs a weight \[3\], got \[2\]/,
      ],
      [
        'addNorm of two shapes',
        () => engine.addNorm(floats([2, 3]), floats([3, 2]), floats([3]), 1e-6),
        /^addNorm: x \[2,3\] and y \[3,2\] must have one shape/,
      ],
      [
        'rotary of an odd width',
        () => engine.rotary(floats([1, 2, 1, 3]), floats([1, 2, 3]), floats([1, 2, 3])),
        /^rotary: x \[1,2,1,3\]/,
      ],
      [
        'rotary of another length',
        () => engine.rotary(floats([1, 2, 1, 4]), floats([1, 2, 4]), floats([1, 3, 4])),
        /sin \[1,3,4\]/,
      ],
      [
        'attention heads',
        () =>
          engine.attention({
            query: floats([1, 3, 2, 4]),
            key: floats([1, 2, 5, 4]),
            value: floats([1, 2, 5, 4]),
          }),
        /^attention: query \[1,3,2,4\], key \[1,2,5,4\]/,
      ],
      [
        'attention values',
        () =>
          engine.attention({
            query: floats([2, 1, 2, 4]),
            key: floats([2, 1, 5, 4]),
            value: floats([1, 1, 5, 4]),
          }),
        /value \[1,1,5,4\]/,
      ],
      [
        'attention mask',
        () =>
          engine.attention({
            query: floats([2, 1, 2, 4]),
            key: floats([2, 1, 5, 4]),
            value: floats([2, 1, 5, 4]),
            mask: floats([2, 4]),
          }),
        /^attention: mask \[2,4\]/,
      ],
      [
        'attention prefix',
        () =>
          engine.attention({
            query: floats([3, 1, 2, 4]),
            key: floats([3, 1, 5, 4]),
            value: floats([3, 1, 5, 4]),
            prefix: { key: floats([2, 1, 6, 4]), value: floats([2, 1, 6, 4]) },
          }),
        /prefix key \[2,1,6,4\]/,
      ],
      ['swiglu of an odd width', () => engine.swiglu(floats([2, 3])), /^swiglu: the last axis of \[2,3\]/],
      ['swiglu of a scalar', () => engine.swiglu(floats([])), /^swiglu/],
      [
        'logProbs targets',
        () => engine.logProbs(floats([2, 3]), floats([4, 3]), whole(0, 4)),
        /^(token_log_prob|gather)/,
      ],
      [
        'logProbs shapes',
        () => engine.logProbs(floats([2, 3]), floats([4, 3]), whole(0)),
        /^logProbs: hidden \[2,3\], head \[4,3\] and targets \[1\]/,
      ],
      [
        'logProbs temperature',
        () => engine.logProbs(floats([1, 3]), floats([4, 3]), whole(0), { temperature: 0 }),
        /^logProbs: temperature/,
      ],
      [
        'logProbs mask',
        () => engine.logProbs(floats([1, 3]), floats([4, 3]), whole(0), { mask: floats([1]) }),
        /mask must be \[4\]/,
      ],
      [
        'sample uniforms',
        () => engine.sample(floats([2, 3]), { temperature: 1, topP: 1, uniforms: floats([1]) }),
        /^sample: logits \[2,3\] and uniforms \[1\]/,
      ],
      [
        'sample of an empty vocabulary',
        () => engine.sample(floats([1, 0]), { temperature: 1, topP: 1, uniforms: floats([1]) }),
        /^sample: logits \[1,0\]/,
      ],
      [
        'sample topP',
        () => engine.sample(floats([1, 3]), { temperature: 1, topP: 0, uniforms: floats([1]) }),
        /^sample: .*topP/,
      ],
      [
        'sample temperature',
        () => engine.sample(floats([1, 3]), { temperature: Number.NaN, topP: 1, uniforms: floats([1]) }),
        /^sample: temperature/,
      ],
      [
        'sinkhorn masses',
        () =>
          engine.sinkhorn({
            ...{ cost: engine.zeros([2, 3, 4], 'float64'), rows: engine.zeros([2, 4], 'float64') },
            ...{ columns: engine.zeros([2, 4], 'float64'), epsilon: 0.08, iterations: 5 },
          }),
        /^sinkhorn: cost \[2,3,4\], rows \[2,4\] and columns \[2,4\] do not fit/,
      ],
      [
        'adamW shapes',
        () =>
          engine.adamW(
            {
              parameters: floats([3]),
              gradients: floats([1]),
              firstMoment: floats([3]),
              secondMoment: floats([3]),
              decay: floats([3]),
            },
            { learningRate: 1, beta1: 0.9, beta2: 0.9, epsilon: 1, step: 1 },
          ),
        /^adamW: all tensors must have one shape, got \[3\], \[1\]/,
      ],
      [
        'adamW step',
        () =>
          engine.adamW(
            {
              parameters: floats([3]),
              gradients: floats([3]),
              firstMoment: floats([3]),
              secondMoment: floats([3]),
              decay: floats([3]),
            },
            { learningRate: 1, beta1: 0.9, beta2: 0.9, epsilon: 1, step: 0 },
          ),
        /^adamW: step/,
      ],
      ['item of several', () => engine.item(floats([2])), /^item: .*\[2\]/],
      ['ints of floats', () => engine.ints(floats([2])), /^ints: .*float32/],
      [
        'ints that do not fit',
        () => engine.ints(engine.mul(whole(2147483647), 2)),
        /4294967294 does not fit/,
      ],
      [
        'cast to an unknown dtype',
        () => engine.cast(floats([2]), 'float8' as 'float32'),
        /unknown dtype 'float8'/,
      ],
      ['parameter of integers', () => engine.parameter(whole(1)), /^parameter\(int64\[1\]\) on cpu: /],
    ])('%s', (_, body, message) => {
      expect(complaint(body)).toMatch(message);
    });
  });

  describe('sizes', () => {
    it.each<[string, () => unknown, RegExp]>([
      [
        'more data than the shape',
        () => engine.tensor(new Float32Array(7), [2, 3]),
        /^tensor\(\[2, 3\]\) on cpu: data has 7 elements, the shape wants 6/,
      ],
      ['two negative sizes', () => engine.tensor(new Float32Array(6), [-2, -3]), /negative/],
      ['a product beyond 2^64', () => engine.tensor(new Float32Array(0), [2 ** 33, 2 ** 33]), /elements/],
      ['a fraction', () => engine.tensor(new Float32Array(3), [1.5, 2]), /integer/],
      ['NaN', () => engine.tensor(new Float32Array(0), [Number.NaN]), /integer/],
      ['no shape', () => engine.tensor(new Float32Array(0), undefined as unknown as number[]), /^tensor/],
      ['no data', () => engine.tensor(undefined as unknown as Float32Array, [0]), /typed array/],
      [
        'a BigInt64Array',
        () => engine.tensor(new BigInt64Array(2) as unknown as Float32Array, [2]),
        /Float32Array/,
      ],
      ['negative zeros', () => engine.zeros([-1]), /^zeros\(\[-1\]/],
      [
        'more memory than there is',
        () => engine.zeros([2 ** 20, 2 ** 30]),
        /^zeros\(\[1048576, 1073741824\], float32.* on cpu: .*(memory|allocate)/,
      ],
      ['a storage beyond 2^63 bytes', () => engine.zeros([2 ** 40, 2 ** 40]), /^zeros/],
      [
        'a product that grows beyond memory',
        () => engine.add(engine.zeros([2 ** 22, 1]), engine.zeros([2 ** 22])),
        /^add.Tensor\(float32\[4194304,1\], float32\[4194304\]\) on cpu: /,
      ],
    ])('%s', (_, body, message) => {
      expect(complaint(body)).toMatch(message);
    });
    it('a detached buffer has no elements', () => {
      const data = new Float32Array(4);
      structuredClone(data.buffer, { transfer: [data.buffer] });
      expect(complaint(() => engine.tensor(data, [4]))).toMatch(/data has 0 elements/);
    });
    it('any list of sizes gives a tensor or an EngineError', () => {
      fc.assert(
        fc.property(
          fc.array(fc.oneof(fc.integer({ min: -3, max: 4 }), fc.double()), { maxLength: 4 }),
          (shape) => {
            const data = new Float32Array(6);
            try {
              engine.scope(() => engine.floats(engine.reshape(engine.tensor(data, [2, 3]), shape)));
            } catch (error) {
              expect(error).toBeInstanceOf(EngineError);
            }
            expect(engine.live()).toBe(0);
          },
        ),
        { numRuns: 300 },
      );
    });
  });
});
