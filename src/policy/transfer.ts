/** Tensors between files and engine, a slice at a time: no tensor is held beside the one that it is copied into. */
import type { DType, Engine, Tensor } from '../engine/engine.ts';
import { CheckpointError } from '../errors.ts';
import { elements, STORED_BYTES, type StoredDType, type StoredTensor } from './safetensors.ts';

/** Elements that move between file, host and device at once: 32 MiB of float32. */
const SLICE = 2 ** 23;

const ENGINE_DTYPES: Readonly<Record<StoredDType, DType>> = {
  F64: 'float64',
  F32: 'float32',
  F16: 'float16',
  BF16: 'bfloat16',
};

/** Ranges of at most SLICE elements that cover `size`. */
export function* slices(size: number): Generator<{ readonly start: number; readonly length: number }> {
  for (let start = 0; start < size; start += SLICE) yield { start, length: Math.min(SLICE, size - start) };
}

/** Part of a stored tensor as a vector. */
function part(engine: Engine, { file, offset, dtype }: StoredTensor, start: number, length: number): Tensor {
  return engine.fromFile(file, offset + start * STORED_BYTES[dtype], [length], ENGINE_DTYPES[dtype]);
}

/**
 * Copies a stored tensor into `flat`, from its element `at` on, whatever the dtypes; no more than a slice of it is held
 * beside `flat`.
 * @throws CheckpointError when it holds NaN or Infinity, or something that `flat`'s dtype cannot hold.
 */
export function loadTensor(engine: Engine, stored: StoredTensor, flat: Tensor, at: number): void {
  for (const { start, length } of slices(elements(stored.shape))) {
    engine.scope(() => {
      engine.write(flat, 0, at + start, part(engine, stored, start, length));
      if (!engine.allFinite(engine.narrow(flat, 0, at + start, length))) {
        throw new CheckpointError(
          `${stored.file}: tensor ${stored.name} holds NaN or Infinity (as ${flat.dtype}); use an earlier checkpoint`,
        );
      }
    });
  }
}

/** The bytes of `size` elements of `flat` from `offset` on, a slice at a time. */
export function* tensorBytes(
  engine: Engine,
  flat: Tensor,
  offset: number,
  size: number,
): Generator<Uint8Array> {
  for (const { start, length } of slices(size)) {
    yield engine.scope(() => engine.bytes(engine.narrow(flat, 0, offset + start, length)));
  }
}

/** Whether two stored tensors hold the same bytes. */
export function sameTensor(engine: Engine, a: StoredTensor, b: StoredTensor): boolean {
  if (a.dtype !== b.dtype || a.shape.join() !== b.shape.join()) return false;
  for (const { start, length } of slices(elements(a.shape))) {
    const [x, y] = engine.scope(() =>
      [a, b].map((stored) => engine.bytes(part(engine, stored, start, length))),
    );
    if (Buffer.compare(x!, y!) !== 0) return false;
  }
  return true;
}
