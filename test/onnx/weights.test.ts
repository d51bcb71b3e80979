import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { fromHalf, halfOf } from '../../src/ground/half.ts';
import { asFloat16, asFloat32, asInt8, pieces } from '../../src/onnx/weights.ts';
import { openSafetensors, writeSafetensors } from '../../src/policy/safetensors.ts';
import { temporary } from '../helpers/temporary.ts';

const root = temporary('onnx-weights');

function stored(values: readonly number[], shape: readonly number[], dtype: 'F32' | 'BF16' | 'F16' | 'F64') {
  const bytes =
    dtype === 'F64'
      ? new Uint8Array(Float64Array.from(values).buffer)
      : dtype === 'F32'
        ? new Uint8Array(Float32Array.from(values).buffer)
        : dtype === 'F16'
          ? new Uint8Array(Uint16Array.from(values, halfOf).buffer)
          : new Uint8Array(
              Uint16Array.from(values, (value) => new Uint32Array(Float32Array.of(value).buffer)[0]! >>> 16)
                .buffer,
            );
  const file = join(root, `${dtype}.safetensors`);
  writeSafetensors(file, [
    // Something before it, so that its offset is not 0.
    { name: 'other', shape: [3], dtype: 'F32', bytes: () => [new Uint8Array(12)] },
    { name: 'w', shape, dtype, bytes: () => [bytes] },
  ]);
  return openSafetensors(file).get('w')!;
}
const all = (chunks: Iterable<Uint8Array>): Buffer => Buffer.concat([...chunks]);

describe('float16', () => {
  // numpy 2.3: np.float32(x).astype(np.float16).view(np.uint16)
  test.each([
    [0, 0x0000],
    [-0, 0x8000],
    [1, 0x3c00],
    [-2.5, 0xc100],
    [0.1, 0x2e66],
    [65504, 0x7bff],
    [1e-7, 0x0002],
    [5.9604645e-8, 0x0001],
    [2.9802322e-8, 0x0000],
    [2.98024e-8, 0x0001],
    [6.103515625e-5, 0x0400],
    [6.1e-5, 0x03ff],
    [2049, 0x6800],
    [2051, 0x6802],
    [1.0009765625, 0x3c01],
  ])('%d is %i', (value, half) => expect(halfOf(value)).toBe(half));

  test('of a number beyond its range is its largest', () => {
    expect([65520, 1e30, -1e30].map(halfOf)).toEqual([0x7bff, 0x7bff, 0xfbff]);
  });

  test('comes back the same, and no other is nearer', () => {
    fc.assert(
      fc.property(fc.float({ min: -65000, max: 65000, noNaN: true }), (value) => {
        const half = halfOf(value);
        expect(halfOf(fromHalf(half))).toBe(half);
        const error = Math.abs(fromHalf(half) - value);
        for (const other of [half - 1, half + 1]) {
          if (other < 0 || (other & 0x7c00) === 0x7c00 || (other & 0x8000) !== (half & 0x8000)) continue;
          expect(Math.abs(fromHalf(other) - value)).toBeGreaterThanOrEqual(error);
        }
      }),
    );
  });
});

describe('a stored tensor', () => {
  const values = [0.5, -2, 3.25, 0, 0, 0, -1, 0.125];

  test.each(['F32', 'F64', 'BF16', 'F16'] as const)('of %s is read as the numbers that it holds', (dtype) => {
    const tensor = stored(values, [4, 2], dtype);
    const bytes = all(asFloat32(tensor, [4, 2]).bytes());
    expect([
      ...new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length)),
    ]).toEqual(values);
  });

  test('becomes float16', () => {
    const bytes = all(asFloat16(stored(values, [8], 'F32'), [8]).bytes());
    expect(bytes).toHaveLength(16);
    expect(fromHalf(bytes.readUInt16LE(4))).toBe(3.25);
  });

  test('becomes whole numbers and a scale for each row, within half a scale of itself', () => {
    const random = Array.from({ length: 6 * 5 }, (_, i) => Math.sin(i * i) * 10 ** (i % 3));
    const tensor = stored(random, [6, 5], 'F32');
    const { values: whole, scales } = asInt8(tensor, [6, 5]);
    const numbers = new Int8Array(all(whole.bytes()));
    const bytes = all(scales.bytes());
    const scale = new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
    expect({ numbers: numbers.length, scales: scales.shape }).toEqual({ numbers: 30, scales: [6, 1] });
    for (const [i, value] of random.entries()) {
      const s = scale[Math.floor(i / 5)]!;
      expect(Math.abs(numbers[i]! * s - value)).toBeLessThanOrEqual(s / 2 + 1e-6);
    }
    for (let row = 0; row < 6; row++) {
      expect(Math.max(...numbers.subarray(5 * row, 5 * row + 5).map(Math.abs))).toBe(127);
    }
  });

  test('with a row of zeros has zeros there', () => {
    const { values: whole, scales } = asInt8(stored(values, [4, 2], 'F32'), [4, 2]);
    expect([...new Int8Array(all(whole.bytes()))]).toEqual([32, -127, 127, 0, 0, 0, -127, 16]);
    expect(all(scales.bytes())).toHaveLength(16);
  });

  test('that holds what is no number is refused by its name', () => {
    expect(() => [...pieces(stored([1, Number.NaN], [2], 'F32'))]).toThrow(/tensor w holds NaN/);
  });
});
