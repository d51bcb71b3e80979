import { describe, expect, it } from 'vitest';
import { CheckpointError, DataError } from '../../src/ground/errors.ts';
import { nanoDims } from '../../src/policy/model-config.ts';
import { ropeIndex, rotaryTables } from '../../src/policy/rope.ts';

const dims = nanoDims(400, { image: 1, video: 2, visionStart: 3, visionEnd: 4, end: 5, pad: 6 });

describe('positions', () => {
  it('continues from the largest position plus one, not from the length', () => {
    const ids = Int32Array.of(9, 3, 1, 1, 1, 1, 1, 1, 4, 9);
    const { positions, next } = ropeIndex(ids, [{ rows: 4, columns: 6 }], dims);
    expect([...positions.subarray(0, 10)]).toEqual([0, 1, 2, 2, 2, 2, 2, 2, 5, 6]);
    expect([...positions.subarray(10, 20)]).toEqual([0, 1, 2, 2, 2, 3, 3, 3, 5, 6]);
    expect([...positions.subarray(20, 30)]).toEqual([0, 1, 2, 3, 4, 2, 3, 4, 5, 6]);
    expect(next).toBe(7);
  });

  it('says when image tokens and images do not match', () => {
    expect(() => ropeIndex(Int32Array.of(9, 1, 1, 9), [{ rows: 4, columns: 6 }], dims)).toThrow(
      /6 visual tokens .* 2 image tokens/,
    );
    expect(() => ropeIndex(Int32Array.of(9, 9), [{ rows: 2, columns: 2 }], dims)).toThrow(CheckpointError);
    expect(() => ropeIndex(Int32Array.of(9, 1), [], dims)).toThrow(CheckpointError);
  });

  it('ends where the context of the checkpoint ends, and names both lengths', () => {
    const short = { ...dims, maxPositions: 9 };
    const ids = Int32Array.of(9, 3, 1, 1, 1, 1, 1, 1, 4, 9);
    expect(() => ropeIndex(ids, [{ rows: 4, columns: 6 }], short)).toThrow(DataError);
    expect(() => ropeIndex(ids, [{ rows: 4, columns: 6 }], short)).toThrow(
      /10 tokens, 6 of them of images, .* ends at 9 \(max_position_embeddings\)/,
    );
    expect(ropeIndex(ids.subarray(0, 9), [{ rows: 4, columns: 6 }], short).next).toBe(6);
  });

  it('turns each section of a head by its own position', () => {
    const { cos, sin } = rotaryTables(dims, Int32Array.of(3, 300, 7)); // one token: temporal 3, height 300, width 7
    for (let j = 0; j < 16; j++) {
      const angle = (j < 1 ? 3 : j < 2 ? 300 : 7) * 1000 ** (-j / 16);
      for (const at of [j, j + 16]) {
        expect(cos[at]).toBeCloseTo(Math.cos(angle), 5);
        expect(sin[at]).toBeCloseTo(Math.sin(angle), 5);
      }
    }
  });
});
