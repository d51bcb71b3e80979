/** Transfers between host and device, and what each dtype keeps; files as tensors. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { DType, Engine } from '../../src/engine/engine.ts';
import { EngineError } from '../../src/ground/errors.ts';
import { indices } from './cases.ts';

export function tensorDataContract(get: () => Engine): void {
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

// Files as tensors: what is read, from where, and what is wrong with a file.

/** Bytes of [1.5, −2, 0.25] and of int64 [1, −2] in each dtype, little-endian. */
const STORED: readonly (readonly [dtype: DType, bytes: readonly number[], values: readonly number[]])[] = [
  ['float32', [0, 0, 0xc0, 0x3f, 0, 0, 0, 0xc0, 0, 0, 0x80, 0x3e], [1.5, -2, 0.25]],
  ['float16', [0, 0x3e, 0, 0xc0, 0, 0x34], [1.5, -2, 0.25]],
  ['bfloat16', [0xc0, 0x3f, 0, 0xc0, 0x80, 0x3e], [1.5, -2, 0.25]],
  ['int64', [1, 0, 0, 0, 0, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], [1, -2]],
  ['uint8', [7, 255, 0], [7, 255, 0]],
];

export function fromFileContract(get: () => Engine): void {
  describe('parts of files', () => {
    let directory: string;
    beforeAll(() => {
      directory = mkdtempSync(join(tmpdir(), 'timeseer-parts-'));
    });
    afterAll(() => rmSync(directory, { recursive: true, force: true }));
    const file = (name: string, content: Uint8Array): string => {
      const path = join(directory, name);
      writeFileSync(path, content);
      return path;
    };
    const complaint = (body: () => unknown): string => {
      const engine = get();
      const live = engine.live();
      try {
        engine.scope(body);
      } catch (error) {
        expect(error).toBeInstanceOf(EngineError);
        expect(engine.live()).toBe(live);
        return (error as Error).message;
      }
      throw new Error('no error');
    };

    it.each(STORED)('%s parts at aligned and unaligned places', (dtype, bytes, values) => {
      const engine = get();
      for (const offset of [0, 8, 3, 4096, 4091, 8193]) {
        const content = new Uint8Array(offset + bytes.length + 5).fill(0x55);
        content.set(bytes, offset);
        engine.scope(() => {
          const part = engine.fromFile(
            file(`${dtype}-${offset}`, content),
            offset,
            [values.length, 1],
            dtype,
          );
          expect([part.dtype, part.shape]).toEqual([dtype, [values.length, 1]]);
          expect([...engine.doubles(part)], `offset ${offset}`).toEqual(values);
          expect([...engine.bytes(part)]).toEqual([...bytes]);
        });
      }
    });
    it('write takes a part into any dtype, and the part lives without its file', () => {
      const engine = get();
      engine.scope(() => {
        const path = file('gone', Uint8Array.from(STORED[2]![1]));
        const part = engine.fromFile(path, 0, [3], 'bfloat16');
        rmSync(path);
        const into = engine.zeros([2, 3]);
        engine.write(into, 0, 1, engine.reshape(part, [1, 3]));
        expect([...engine.floats(into)]).toEqual([0, 0, 0, 1.5, -2, 0.25]);
      });
    });
    it('a part lives when its file is cut or replaced', () => {
      const engine = get();
      const path = file('cut', new Uint8Array(1 << 16).fill(1));
      engine.scope(() => {
        const parts = [0, 1 << 15].map((offset) => engine.fromFile(path, offset, [1 << 15], 'uint8'));
        truncateSync(path, 10);
        for (const part of parts) expect(engine.bytes(part)).toEqual(new Uint8Array(1 << 15).fill(1));
        engine.write(parts[0]!, 0, 0, engine.zeros([10], 'uint8'));
      });
      expect([...readFileSync(path)]).toEqual(new Array(10).fill(1));
    });
    it('scalars and empty parts', () => {
      const engine = get();
      const path = file('small', Uint8Array.from(STORED[0]![1]));
      engine.scope(() => {
        expect(engine.item(engine.fromFile(path, 4, [], 'float32'))).toBe(-2);
        expect(engine.fromFile(path, 12, [0, 3], 'float32').shape).toEqual([0, 3]);
      });
    });
    it('a file that is gone, too short, or no file is named', () => {
      const engine = get();
      const path = file('short', new Uint8Array(20));
      const missing = join(directory, 'missing.safetensors');
      const message = (name: string, offset: number, shape: readonly number[]): string =>
        complaint(() => engine.fromFile(name, offset, shape, 'float32'));
      expect(message(missing, 0, [1])).toMatch(/missing\.safetensors: cannot be read .*No such file/);
      expect(message(directory, 0, [1])).toMatch(/^.*: cannot be read .*not a regular file/);
      const pipe = join(directory, 'pipe');
      execFileSync('mkfifo', [pipe]);
      expect(message(pipe, 0, [1])).toMatch(/pipe: cannot be read .*not a regular file/);
      expect(message('/dev/zero', 0, [1])).toMatch(/zero: cannot be read .*not a regular file/);
      expect(message(path, 8, [4])).toBe(
        `${path}: cannot be read as float32 [4] from byte 8: the file holds 20 bytes, 16 from 8 on are wanted`,
      );
      expect(message(path, 24, [0])).toMatch(/holds 20 bytes/);
      expect(message(path, 0, [2 ** 40])).toMatch(/holds 20 bytes/);
      expect(message(path, -4, [1])).toMatch(/no such shape, dtype or place/);
      expect(message(path, 0.5, [1])).toMatch(/cannot be read .*integer/);
      expect(message(path, 0, [-1])).toMatch(/no such shape, dtype or place/);
      expect(message(path, 0, [2 ** 30, 2 ** 30])).toMatch(/no such shape, dtype or place/);
      expect(complaint(() => engine.fromFile(path, 0, [1], 'float8' as DType))).toMatch(
        /no such shape, dtype/,
      );
      truncateSync(path, 15);
      expect(message(path, 0, [4])).toMatch(/holds 15 bytes, 16 from 0 on/);
    });
  });
}
