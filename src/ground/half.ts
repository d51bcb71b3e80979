/** Numbers of 16 bits (IEEE 754 binary16), which JavaScript has no array of. */

const bits = new DataView(new ArrayBuffer(4));

/** A float32 rounded to the nearest float16, ties to even; beyond its range to the largest. */
export function halfOf(value: number): number {
  bits.setFloat32(0, value);
  const word = bits.getUint32(0);
  const sign = (word >>> 16) & 0x8000;
  const magnitude = word & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;
  // 65520 and more would round to infinity.
  if (magnitude >= 0x477ff000) return sign | 0x7bff;
  if (magnitude >= 0x38800000) {
    const rounded = magnitude - 0x38000000 + 0xfff + ((magnitude >>> 13) & 1);
    return sign | (rounded >>> 13);
  }
  // Below the least normal number: multiples of 2⁻²⁴.
  const scaled = Math.abs(value) * 2 ** 24;
  const floor = Math.floor(scaled);
  const rest = scaled - floor;
  const even = rest > 0.5 || (rest === 0.5 && floor % 2 === 1) ? floor + 1 : floor;
  return sign | even;
}

/** The number of a float16. */
export function fromHalf(half: number): number {
  const sign = (half & 0x8000) === 0 ? 1 : -1;
  const exponent = (half >>> 10) & 31;
  const fraction = half & 0x3ff;
  if (exponent === 31) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  return exponent === 0 ? sign * fraction * 2 ** -24 : sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}
