/** Arrays of numbers with the same bytes are equal: `toEqual` alone compares pictures and weights number by number, for seconds. */
import { expect } from 'vitest';

type Numbers = ArrayBufferView & { readonly byteLength: number };

const isNumbers = (value: unknown): value is Numbers =>
  ArrayBuffer.isView(value) && !(value instanceof DataView);
const bytes = ({ buffer, byteOffset, byteLength }: Numbers): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength);

expect.addEqualityTesters([
  function sameBytes(a: unknown, b: unknown): boolean | undefined {
    if (!isNumbers(a) || !isNumbers(b)) return undefined;
    if (a.constructor !== b.constructor || a.byteLength !== b.byteLength) return undefined;
    // What differs is left to the usual comparison, which knows when different bytes are equal and what to print.
    return Buffer.compare(bytes(a), bytes(b)) === 0 ? true : undefined;
  },
]);
