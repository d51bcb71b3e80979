/** Files as tensors: what is read, from where, and what is wrong with a file. */
import { mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { DType, Engine } from '../../src/engine/engine.ts';
import { EngineError } from '../../src/errors.ts';

/** Bytes of [1.5, −2, 0.25] and of int64 [1, −2] in each dtype, little-endian. */
const STORED: readonly (readonly [dtype: DType, bytes: readonly number[], values: readonly number[]])[] = [
  ['float32', [0, 0, 0xc0, 0x3f, 0, 0, 0, 0xc0, 0, 0, 0x80, 0x3e], [1.5, -2, 0.25]],
  ['float16', [0, 0x3e, 0, 0xc0, 0, 0x34], [1.5, -2, 0.25]],
  ['bfloat16', [0xc0, 0x3f, 0, 0xc0, 0x80, 0x3e], [1.5, -2, 0.25]],
  ['int64', [1, 0, 0, 0, 0, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], [1, -2]],
  ['uint8', [7, 255, 0], [7, 255, 0]],
];

export function mappedContract(get: () => Engine): void {
  describe('mapped files', () => {
    let directory: string;
    beforeAll(() => {
      directory = mkdtempSync(join(tmpdir(), 'timeseer-mapped-'));
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

    it.each(STORED)(
      '%s parts at aligned and unaligned places, within and beyond the first page',
      (dtype, bytes, values) => {
        const engine = get();
        for (const offset of [0, 8, 3, 4096, 4091, 8193]) {
          const content = new Uint8Array(offset + bytes.length + 5).fill(0x55);
          content.set(bytes, offset);
          engine.scope(() => {
            const part = engine.mapped(
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
      },
    );
    it('write takes a part into any dtype, and the part lives without its file', () => {
      const engine = get();
      engine.scope(() => {
        const path = file('gone', Uint8Array.from(STORED[2]![1]));
        const part = engine.mapped(path, 0, [3], 'bfloat16');
        rmSync(path);
        const into = engine.zeros([2, 3]);
        engine.write(into, 0, 1, engine.reshape(part, [1, 3]));
        expect([...engine.floats(into)]).toEqual([0, 0, 0, 1.5, -2, 0.25]);
      });
    });
    it('writing into a part leaves the file as it is', () => {
      const engine = get();
      const path = file('kept', new Uint8Array(16).fill(1));
      engine.scope(() => {
        const part = engine.mapped(path, 4, [4], 'uint8');
        engine.write(part, 0, 0, engine.zeros([4], 'uint8'));
        expect([...engine.bytes(part)]).toEqual([0, 0, 0, 0]);
        expect([...engine.bytes(engine.mapped(path, 4, [4], 'uint8'))]).toEqual([1, 1, 1, 1]);
      });
      expect([...readFileSync(path)]).toEqual(new Array(16).fill(1));
    });
    it('scalars and empty parts', () => {
      const engine = get();
      const path = file('small', Uint8Array.from(STORED[0]![1]));
      engine.scope(() => {
        expect(engine.item(engine.mapped(path, 4, [], 'float32'))).toBe(-2);
        expect(engine.mapped(path, 12, [0, 3], 'float32').shape).toEqual([0, 3]);
      });
    });
    it('a file that is gone, too short, or no file is named', () => {
      const engine = get();
      const path = file('short', new Uint8Array(20));
      const missing = join(directory, 'missing.safetensors');
      const message = (name: string, offset: number, shape: readonly number[]): string =>
        complaint(() => engine.mapped(name, offset, shape, 'float32'));
      expect(message(missing, 0, [1])).toMatch(/missing\.safetensors: cannot be mapped .*No such file/);
      expect(message(directory, 0, [1])).toMatch(/^.*: cannot be mapped .*not a regular file/);
      expect(message(path, 8, [4])).toBe(
        `${path}: cannot be mapped as float32 [4] from byte 8: the file holds 20 bytes, 16 from 8 on are wanted`,
      );
      expect(message(path, 24, [0])).toMatch(/holds 20 bytes/);
      expect(message(path, 0, [2 ** 40])).toMatch(/holds 20 bytes/);
      expect(message(path, -4, [1])).toMatch(/no such shape, dtype or place/);
      expect(message(path, 0.5, [1])).toMatch(/cannot be mapped .*integer/);
      expect(message(path, 0, [-1])).toMatch(/no such shape, dtype or place/);
      expect(message(path, 0, [2 ** 30, 2 ** 30])).toMatch(/no such shape, dtype or place/);
      expect(complaint(() => engine.mapped(path, 0, [1], 'float8' as DType))).toMatch(/no such shape, dtype/);
      truncateSync(path, 15);
      expect(message(path, 0, [4])).toMatch(/holds 15 bytes, 16 from 0 on/);
    });
  });
}
