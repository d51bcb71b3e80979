/** Ownership of tensors, for every engine: scopes that free what leaves no trace in their result, and the number of live handles. */
import { EngineError } from '../ground/errors.ts';
import type { DType, Tensor } from './engine.ts';

/** A handle that an arena frees. */
export abstract class OwnedTensor implements Tensor {
  /** The arena of the engine that made it. */
  readonly owner: object;
  freed = false;

  constructor(owner: object) {
    this.owner = owner;
  }

  abstract readonly shape: readonly number[];
  abstract readonly dtype: DType;

  protected checkLive(what: string): void {
    if (this.freed) throw new EngineError(`${what}: the tensor was already freed by dispose or a scope`);
  }
}

/** A Promise, or anything that can be awaited. */
export function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function';
}

/** Throws an EngineError where `body` returned a Promise. */
export function checkSynchronous(where: string, rule: string, result: unknown): void {
  if (!isThenable(result)) return;
  result.then(undefined, () => {}); // its failure would come from what has ended by now
  throw new EngineError(`${where}: the body returned a Promise; ${rule}, await outside it`);
}

/** Every tensor found in arrays, plain objects, Maps and Sets below `value`. */
function collect(value: unknown, tensors: Set<unknown>, seen: Set<object>): void {
  if (value instanceof OwnedTensor) {
    tensors.add(value);
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
  for (const child of children) collect(child, tensors, seen);
}

export class Arena<T extends OwnedTensor> {
  readonly #free: (tensors: readonly T[]) => void;
  readonly #scopes: T[][] = [];
  /** Tensors adopted and not yet freed. */
  live = 0;

  /** `free` gives back what tensors hold; it gets each once. */
  constructor(free: (tensors: readonly T[]) => void) {
    this.#free = free;
  }

  own(tensor: T): T {
    this.live++;
    this.#scopes.at(-1)?.push(tensor);
    return tensor;
  }

  dispose(tensors: readonly T[]): void {
    const held: T[] = [];
    for (const tensor of tensors) {
      if (tensor.freed) continue;
      tensor.freed = true;
      held.push(tensor);
    }
    this.live -= held.length;
    if (held.length > 0) this.#free(held);
  }

  /** Runs `body` outside every scope: what it makes lives until it is disposed of. */
  unscoped<R>(body: () => R): R {
    const scopes = this.#scopes.splice(0);
    try {
      return body();
    } finally {
      this.#scopes.splice(0, this.#scopes.length, ...scopes);
    }
  }

  scope<R>(body: () => R): R {
    const created: T[] = [];
    this.#scopes.push(created);
    const depth = this.#scopes.length;
    try {
      const result = body();
      checkSynchronous('scope', 'a scope is synchronous', result);
      const kept = new Set<unknown>();
      if (result instanceof OwnedTensor) kept.add(result);
      else collect(result, kept, new Set());
      const parent = this.#scopes[depth - 2];
      const garbage: T[] = [];
      for (const tensor of created) {
        if (!kept.has(tensor)) garbage.push(tensor);
        else if (!tensor.freed) parent?.push(tensor);
      }
      this.dispose(garbage);
      return result;
    } catch (error) {
      this.dispose(created);
      throw error;
    } finally {
      this.#scopes.length = depth - 1;
    }
  }
}
