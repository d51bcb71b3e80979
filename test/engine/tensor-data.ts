/** Transfers between host and device, and what each dtype keeps. */
import { describe, expect, it } from 'vitest';
import type { Engine } from '../../src/engine/engine.ts';
import { indices } from './cases.ts';

export function transferContract(get: () => Engine): void {
  describe('transfer and dtypes', () => {
    it('typed arrays become their dtype and come back unchanged', () => {
      const engine = get();
      engine.scope(() => {
        const single = engine.tensor(new Float32Array([1.5, -0, 3e38, Number.NaN, -Infinity, 7]), [2, 3]);
        expect([single.dtype, single.shape]).toEqual(['float32', [2, 3]]);
        expect([...engine.floats(single)]).toEqual([1.5, -0, Math.fround(3e38), Number.NaN, -Infinity, 7]);
        const double = engine.tensor(new Float64Array([Math.PI, 1e300]), [2]);
        expect([double.dtype, ...engine.doubles(double)]).toEqual(['float64', Math.PI, 1e300]);
        const whole = engine.tensor(new Int32Array([-2147483648, 5, 2147483647]), [3, 1]);
        expect([whole.dtype, ...engine.ints(whole)]).toEqual(['int64', -2147483648, 5, 2147483647]);
        const mask = engine.tensor(new Uint8Array([0, 1, 255, 0]), [4]);
        expect([mask.dtype, ...engine.ints(mask)]).toEqual(['bool', 0, 1, 1, 0]);
        expect([...engine.floats(mask)]).toEqual([0, 1, 1, 0]);
      });
    });
    it('zeros have the dtype asked for, and empty tensors are tensors', () => {
      const engine = get();
      engine.scope(() => {
        for (const dtype of ['float32', 'float64', 'bfloat16', 'int64', 'bool'] as const) {
          const zeros = engine.zeros([2, 3], dtype);
          expect([zeros.dtype, ...engine.doubles(zeros)]).toEqual([dtype, 0, 0, 0, 0, 0, 0]);
        }
        const empty = engine.tensor(new Float32Array(0), [3, 0]);
        expect(engine.floats(engine.concat([empty, engine.zeros([3, 2])], 1))).toHaveLength(6);
        expect(engine.item(engine.tensor(new Float32Array([4.5]), []))).toBe(4.5);
      });
    });
    it('casts round, truncate and compare with zero', () => {
      const engine = get();
      engine.scope(() => {
        const x = engine.tensor(new Float64Array([0, -1.75, 1.00390625, 300.5]), [4]);
        expect([...engine.ints(engine.cast(x, 'int64'))]).toEqual([0, -1, 1, 300]);
        expect([...engine.ints(engine.cast(x, 'bool'))]).toEqual([0, 1, 1, 1]);
        expect([...engine.doubles(engine.cast(x, 'bfloat16'))]).toEqual([0, -1.75, 1, 300]);
        expect([...engine.doubles(engine.cast(x, 'float32'))]).toEqual([0, -1.75, 1.00390625, 300.5]);
      });
    });
    it('int64 stays int64 under whole numbers, rows, concat and sums', () => {
      const engine = get();
      engine.scope(() => {
        const x = engine.tensor(new Int32Array([1, 2, 3, 4, 5, 6]), [3, 2]);
        const moved = engine.add(engine.mul(x, 3), -1);
        expect(moved.dtype).toBe('int64');
        const joined = engine.concat([moved, engine.indexSelect(x, indices(engine, [2, 0]))], 0);
        expect([...engine.ints(joined)]).toEqual([2, 5, 8, 11, 14, 17, 5, 6, 1, 2]);
        expect([...engine.ints(engine.sum(joined, 0))]).toEqual([30, 41]);
        expect(engine.mul(x, 0.5).dtype).toBe('float32');
        expect([...engine.floats(engine.div(x, 2))]).toEqual([0.5, 1, 1.5, 2, 2.5, 3]);
      });
    });
    it('views of typed arrays upload their own part, also over shared memory', () => {
      const engine = get();
      engine.scope(() => {
        const whole = new Float32Array([9, 1, 2, 3, 9]);
        expect([...engine.floats(engine.tensor(whole.subarray(1, 4), [3]))]).toEqual([1, 2, 3]);
        const shared = new Float64Array(new SharedArrayBuffer(40), 16, 3);
        shared.set([4, 5, 6]);
        expect([...engine.floats(engine.tensor(shared, [3, 1]))]).toEqual([4, 5, 6]);
      });
    });
    it('an upload is a copy', () => {
      const engine = get();
      engine.scope(() => {
        const source = new Float32Array([1, 2]);
        const x = engine.tensor(source, [2]);
        source[0] = 7;
        expect([...engine.floats(x)]).toEqual([1, 2]);
      });
    });
    it('write replaces a range in place, along any axis', () => {
      const engine = get();
      engine.scope(() => {
        const cache = engine.tensor(
          Float32Array.from({ length: 12 }, (_, i) => i),
          [2, 3, 2],
        );
        engine.write(cache, 1, 1, engine.tensor(new Float32Array([-1, -2, -3, -4]), [2, 1, 2]));
        expect([...engine.floats(cache)]).toEqual([0, 1, -1, -2, 4, 5, 6, 7, -3, -4, 10, 11]);
        engine.write(cache, -1, 0, engine.zeros([2, 3, 1]));
        expect([...engine.floats(cache)]).toEqual([0, 1, 0, -2, 0, 5, 0, 7, 0, -4, 0, 11]);
      });
    });
    it('write rounds to the dtype of its target', () => {
      const engine = get();
      engine.scope(() => {
        const master = engine.tensor(new Float32Array([1.00390625, -3.15, 1e-3]), [3]);
        const weights = engine.zeros([4], 'bfloat16');
        engine.write(weights, 0, 1, master);
        expect([...engine.doubles(weights)]).toEqual([0, 1, -3.15625, 0.00099945068359375]);
        const wide = engine.zeros([4], 'float64');
        engine.write(wide, 0, 0, weights);
        expect([...engine.doubles(wide)]).toEqual([...engine.doubles(weights)]);
      });
    });
    it('indexCopyInto replaces places along any axis, given on the device', () => {
      const engine = get();
      engine.scope(() => {
        const cache = engine.tensor(
          Float32Array.from({ length: 12 }, (_, i) => i),
          [2, 3, 2],
        );
        engine.indexCopyInto(
          cache,
          1,
          indices(engine, [2, 0]),
          engine.tensor(new Float32Array([-1, -2, -3, -4, -5, -6, -7, -8]), [2, 2, 2]),
        );
        expect([...engine.floats(cache)]).toEqual([-3, -4, 2, 3, -1, -2, -7, -8, 8, 9, -5, -6]);
        engine.indexCopyInto(cache, -1, indices(engine, [1]), engine.zeros([2, 3, 1], 'float64'));
        expect([...engine.floats(cache)]).toEqual([-3, 0, 2, 0, -1, 0, -7, 0, 8, 0, -5, 0]);
      });
    });
    it.each(['bfloat16', 'float16', 'float32', 'float64'] as const)(
      'addInto adds %s to float32 in place, at a range of any axis',
      (dtype) => {
        const engine = get();
        engine.scope(() => {
          const sum = engine.tensor(new Float32Array([1000, 2, 3, 4, 5, 6]), [2, 3]);
          const source = engine.cast(engine.tensor(new Float32Array([0.0078125, -0.5]), [2, 1]), dtype);
          engine.addInto(sum, 1, 0, source);
          engine.addInto(sum, -1, 2, source);
          // 1000 + 1/128 has no place in bfloat16: the addition is float32's.
          expect([...engine.floats(sum)]).toEqual([1000.0078125, 2, 3.0078125, 3.5, 5, 5.5]);
          expect(sum.dtype).toBe('float32');
        });
      },
    );
    it('addInto and indexCopyInto leave no history', () => {
      const engine = get();
      engine.scope(() => {
        const leaf = engine.parameter(engine.tensor(new Float32Array([3]), [1]));
        const sum = engine.zeros([2]);
        engine.addInto(sum, 0, 1, engine.mul(leaf, 2));
        engine.indexCopyInto(sum, 0, indices(engine, [0]), engine.mul(leaf, 5));
        expect([...engine.floats(sum)]).toEqual([15, 6]);
        expect([...engine.floats(engine.grad(engine.sum(sum), [leaf])[0]!)]).toEqual([0]);
      });
    });
    it('bytes are the stored elements, of views and parameters too', () => {
      const engine = get();
      engine.scope(() => {
        const x = engine.tensor(new Float32Array([1, -2, 0.5, 3]), [2, 2]);
        const view = engine.parameter(engine.permute(x, [1, 0]));
        expect([...new Float32Array(engine.bytes(view).buffer)]).toEqual([1, 0.5, -2, 3]);
        expect([...engine.bytes(engine.cast(x, 'bfloat16'))]).toEqual([
          0x80, 0x3f, 0, 0xc0, 0, 0x3f, 0x40, 0x40,
        ]);
        expect([...new Float64Array(engine.bytes(engine.cast(x, 'float64')).buffer)]).toEqual([
          1, -2, 0.5, 3,
        ]);
        expect([...engine.bytes(engine.tensor(new Uint8Array([0, 7, 1]), [3]))]).toEqual([0, 1, 1]);
        expect(engine.bytes(engine.zeros([3, 0]))).toHaveLength(0);
        expect(engine.bytes(engine.zeros([], 'float16'))).toHaveLength(2);
      });
    });
    it.each(['float32', 'float64', 'bfloat16', 'float16'] as const)(
      'allFinite sees one bad element of %s',
      (dtype) => {
        const engine = get();
        engine.scope(() => {
          const of = (...values: number[]) =>
            engine.cast(engine.tensor(new Float64Array(values), [values.length]), dtype);
          expect(engine.allFinite(of(1, -2, 0, 6e4))).toBe(true);
          for (const bad of [Number.NaN, Infinity, -Infinity])
            for (let place = 0; place < 3; place++)
              expect(engine.allFinite(of(...[5, -7, 0].with(place, bad))), `${bad} at ${place}`).toBe(false);
          expect(engine.allFinite(of(-Infinity, Infinity))).toBe(false);
          expect(engine.allFinite(of(Infinity, Number.NaN))).toBe(false);
          expect(engine.allFinite(of())).toBe(true);
        });
      },
    );
    it('allFinite of numbers whose difference overflows, of many elements, and of a parameter', () => {
      const engine = get();
      engine.scope(() => {
        expect(engine.allFinite(engine.tensor(new Float32Array([3e38, -3e38]), [2, 1]))).toBe(true);
        const many = new Float32Array(100_000);
        expect(engine.allFinite(engine.parameter(engine.tensor(many, [100, 1000])))).toBe(true);
        many[76_543] = Number.NaN;
        expect(engine.allFinite(engine.parameter(engine.tensor(many, [100, 1000])))).toBe(false);
      });
    });
  });
}
