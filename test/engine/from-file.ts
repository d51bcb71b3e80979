/** Files as tensors: what is read, from where, and what is wrong with a file. */
import { execFileSync } from 'node:child_process';
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
