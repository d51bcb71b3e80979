/** Values in and out of safetensors files, where the code moves bytes only. */
import { readFileSync } from 'node:fs';
import {
  elements,
  STORED_BYTES,
  type StoredTensor,
  type WrittenTensor,
} from '../../src/policy/safetensors.ts';

/** Value of a half-precision bit pattern. */
function half(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  return exponent === 0 ? sign * fraction * 2 ** -24 : sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

/** The values of a stored tensor as float32, row-major. */
export function readTensor({ file, offset, shape, dtype }: StoredTensor): Float32Array {
  const { buffer } = new Uint8Array(
    readFileSync(file).subarray(offset, offset + elements(shape) * STORED_BYTES[dtype]),
  );
  if (dtype === 'F32') return new Float32Array(buffer);
  if (dtype === 'F64') return Float32Array.from(new Float64Array(buffer));
  const words = new Uint16Array(buffer);
  if (dtype === 'F16') return Float32Array.from(words, half);
  return new Float32Array(Uint32Array.from(words, (word) => (word << 16) >>> 0).buffer);
}

/** A float32 tensor to be written. */
export function float32Tensor(name: string, shape: readonly number[], values: Float32Array): WrittenTensor {
  const bytes = (): Uint8Array[] => [new Uint8Array(values.buffer, values.byteOffset, values.byteLength)];
  return { name, shape, dtype: 'F32', bytes };
}
