/** Parts of files as tensors. */
import { EngineError } from '../../errors.ts';
import { type DType, ELEMENT_BYTES, type Tensor } from '../engine.ts';
import type { Operators } from './operators.ts';

/** As `Engine.fromFile`; what it makes on the way is left to the caller's scope. */
export function fromFile(
  ops: Operators,
  file: string,
  offset: number,
  shape: readonly number[],
  dtype: DType,
): Tensor {
  const failed = (problem: string, cause?: unknown): EngineError => {
    const what = `${dtype} [${shape.join(',')}] from byte ${offset}`;
    return new EngineError(`${file}: cannot be read as ${what}: ${problem}`, { cause });
  };
  const width = ELEMENT_BYTES[dtype] ?? Number.NaN;
  const bytes = shape.reduce((product, size) => product * size, width);
  if (!(Number.isSafeInteger(bytes) && shape.every((size) => size >= 0) && offset >= 0)) {
    throw failed('no such shape, dtype or place');
  }
  let part: Tensor;
  try {
    part = ops.arena.adopt(ops.native.readFile(file, offset, bytes)); // uint8 [bytes]
  } catch (cause) {
    throw failed((cause as Error).message.trim(), cause);
  }
  return ops.one('reshape', ops.one('view.dtype', part, dtype), shape);
}
