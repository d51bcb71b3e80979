/** Handles as tensors, and the scopes that free them. */
import { EngineError } from '../../ground/errors.ts';
import type { DType, Tensor } from '../engine.ts';
import type { Native } from './native.ts';

export class TorchTensor implements Tensor {
  readonly handle: number;
  /** The arena of the engine that made it. */
  readonly owner: Arena;
  readonly #native: Native;
  #shape: readonly number[] | undefined;
  #dtype: DType | undefined;
  freed = false;

  constructor(owner: Arena, native: Native, handle: number) {
    this.owner = owner;
    this.#native = native;
    this.handle = handle;
  }

  #checkLive(what: string): void {
    if (this.freed) throw new EngineError(`${what}: the tensor was already freed by dispose or a scope`);
  }

  get shape(): readonly number[] {
    this.#checkLive('shape');
    this.#shape ??= this.#native.shape(this.handle);
    return this.#shape;
  }

  get dtype(): DType {
    this.#checkLive('dtype');
    this.#dtype ??= this.#native.dtype(this.handle);
    return this.#dtype;
  }
}

/** A Promise, or anything that can be awaited. */
export function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function';
}

/** Every tensor found in arrays, plain objects, Maps and Sets below `value`. */
function collect(value: unknown, found: Set<unknown>, seen: Set<object>): void {
  if (value instanceof TorchTensor) {
    found.add(value);
    return;
  }
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value) || seen.has(value)) return;
  seen.add(value);
  const children =
    value instanceof Map
      ? [...value.keys(), ...value.values()]
      : Array.isArray(value) || value instanceof Set
        ? value
        : Object.values(value);
  for (const child of children) collect(child, found, seen);
}

export class Arena {
  readonly #native: Native;
  readonly #scopes: TorchTensor[][] = [];
  /** Tensors adopted and not yet freed. */
  live = 0;

  constructor(native: Native) {
    this.#native = native;
  }

  adopt(handle: number): TorchTensor {
    const tensor = new TorchTensor(this, this.#native, handle);
    this.live++;
    this.#scopes.at(-1)?.push(tensor);
    return tensor;
  }

  dispose(tensors: readonly TorchTensor[]): void {
    const handles: number[] = [];
    for (const tensor of tensors) {
      if (tensor.freed) continue;
      tensor.freed = true;
      handles.push(tensor.handle);
    }
    this.live -= handles.length;
    if (handles.length > 0) this.#native.free(handles);
  }

  scope<T>(body: () => T): T {
    const own: TorchTensor[] = [];
    this.#scopes.push(own);
    const depth = this.#scopes.length;
    try {
      const result = body();
      if (isThenable(result)) {
        result.then(undefined, () => {}); // its failure would come from tensors that are freed below
        throw new EngineError('scope: the body returned a Promise; a scope is synchronous, await outside it');
      }
      const kept = new Set<unknown>();
      if (result instanceof TorchTensor) kept.add(result);
      else collect(result, kept, new Set());
      const parent = this.#scopes[depth - 2];
      const garbage: TorchTensor[] = [];
      for (const tensor of own) {
        if (!kept.has(tensor)) garbage.push(tensor);
        else if (!tensor.freed) parent?.push(tensor);
      }
      this.dispose(garbage);
      return result;
    } catch (error) {
      this.dispose(own);
      throw error;
    } finally {
      this.#scopes.length = depth - 1;
    }
  }
}
