/** Contents of tensors: from and to the host, from files, and shared between threads, as the contract's methods of these names. */
import { EngineError } from '../../ground/errors.ts';
import { type DType, ELEMENT_BYTES, type HostArray, type Tensor } from '../engine.ts';
import type { Operators } from './operators.ts';

/** Implements `Engine.tensor`. */
export function fromHost(ops: Operators, data: HostArray, shape: readonly number[]): Tensor {
  const dtype: DType =
    data instanceof Float32Array
      ? 'float32'
      : data instanceof Float64Array
        ? 'float64'
        : data instanceof Int32Array
          ? 'int64'
          : 'bool';
  try {
    return ops.arena.adopt(ops.native.fromHost(data, dtype, shape, ops.device));
  } catch (cause) {
    throw ops.error('tensor', [shape], cause);
  }
}

/** The values of a tensor in an array that `make` gives, which decides what they are converted to. */
export function read<A extends HostArray>(ops: Operators, tensor: Tensor, make: (length: number) => A): A {
  const handle = ops.handle(tensor, 'read');
  try {
    const into = make(tensor.shape.reduce((product, size) => product * size, 1));
    ops.native.toHost(handle, into);
    return into;
  } catch (cause) {
    throw ops.error('read', [tensor], cause);
  }
}

/** Implements `Engine.bytes`; intermediate tensors belong to the caller's scope. */
export function bytes(ops: Operators, tensor: Tensor): Uint8Array {
  const dense = ops.one('contiguous', ops.one('detach', tensor));
  const raw = ops.one('view.dtype', ops.one('reshape', dense, [-1]), 'uint8');
  return read(ops, raw, (length) => new Uint8Array(length));
}

export function ints(ops: Operators, tensor: Tensor): Int32Array {
  ops.check('ints', [tensor]);
  if (tensor.dtype !== 'int64' && tensor.dtype !== 'bool') {
    throw new EngineError(`ints: expected an int64 or bool tensor, got ${tensor.dtype}`);
  }
  return read(ops, tensor, (length) => new Int32Array(length));
}

export function item(ops: Operators, tensor: Tensor): number {
  const values = read(ops, tensor, (length) => new Float64Array(length));
  if (values.length !== 1) {
    throw new EngineError(`item: expected one element, got shape [${tensor.shape.join(',')}]`);
  }
  return values[0]!;
}

/** Implements `Engine.allFinite`; intermediate tensors belong to the caller's scope. */
export function allFinite(ops: Operators, tensor: Tensor): boolean {
  ops.check('allFinite', [tensor]);
  if (tensor.shape.includes(0)) return true;
  const values =
    tensor.dtype === 'float16' ? ops.one('to.dtype', tensor, 'float32') : ops.one('detach', tensor);
  // A finite sum has no NaN or infinity in it; one that overflows proves nothing. Then the extremes tell, without a copy.
  if (Number.isFinite(item(ops, ops.one('sum', values)))) return true;
  const ends = ops.one('stack', ops.many('aminmax', values), 0); // [2], NaN if there is one
  return item(ops, ops.one('all', ops.one('isfinite', ends))) === 1;
}

/** Implements `Engine.fromFile`; intermediate tensors belong to the caller's scope. */
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

export function share(ops: Operators, tensor: Tensor): number {
  const handle = ops.handle(tensor, 'share');
  try {
    return ops.native.share(handle);
  } catch (cause) {
    throw ops.error('share', [tensor], cause);
  }
}

export function attach(ops: Operators, ticket: number): Tensor {
  try {
    return ops.arena.adopt(ops.native.attach(ticket));
  } catch (cause) {
    throw ops.error('attach', [ticket], cause);
  }
}

export function unshare(ops: Operators, ticket: number): void {
  try {
    ops.native.unshare(ticket);
  } catch (cause) {
    throw ops.error('unshare', [ticket], cause);
  }
}
