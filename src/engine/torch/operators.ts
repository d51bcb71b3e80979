/**
 * ATen operators by name. Schemas are looked up once; errors name operator, shapes and device; arenas free
 * the tensors of their scopes.
 */
import { EngineError } from '../../ground/errors.ts';
import type { DType, Tensor } from '../engine.ts';
import type { Native, NativeValue } from './native.ts';

export type Value =
  | Exclude<NativeValue, readonly (number | boolean | null)[]>
  | Tensor
  | readonly (number | Tensor)[];

export class Operators {
  readonly native: Native;
  readonly arena: Arena;
  readonly device: string;
  readonly #ids = new Map<string, number>();

  constructor(native: Native, arena: Arena, device: string) {
    this.native = native;
    this.arena = arena;
    this.device = device;
  }

  /** Returns true if this libtorch has the operator: `name` or `name.overload`. */
  has(name: string): boolean {
    return this.#id(name) >= 0;
  }

  /** Returns true if this libtorch has the operator with an argument of this name. */
  takes(name: string, argument: string): boolean {
    return this.has(name) && this.native.takes(this.#id(name), argument);
  }

  #id(name: string): number {
    let id = this.#ids.get(name);
    if (id === undefined) {
      const [operator, overload = ''] = name.split('.') as [string, string?];
      id = this.native.op(operator.includes('::') ? operator : `aten::${operator}`, overload);
      this.#ids.set(name, id);
    }
    return id;
  }

  /** Handle of a tensor that this engine owns and has not freed. */
  handle(tensor: Tensor, where: string): number {
    if (!(tensor instanceof TorchTensor)) {
      throw this.error(where, [tensor], new Error('this is no tensor of the torch engine'));
    }
    if (tensor.owner !== this.arena) {
      throw this.error(where, [tensor], new Error('the tensor belongs to another engine'));
    }
    if (tensor.freed) {
      throw this.error(where, [tensor], new Error('the tensor was already freed by dispose or a scope'));
    }
    return tensor.handle;
  }

  /** Throws unless every one is a live tensor of this engine; the optional ones may be undefined. */
  check(where: string, tensors: readonly Tensor[], optional: readonly (Tensor | undefined)[] = []): void {
    for (const tensor of tensors) this.handle(tensor, where);
    for (const tensor of optional) if (tensor !== undefined) this.handle(tensor, where);
  }

  /** Calls an operator for its only tensor result. */
  one(name: string, ...values: readonly Value[]): TorchTensor {
    const result = this.#call(name, values);
    if (typeof result !== 'number') throw new EngineError(`${name}: expected one tensor as its result`);
    return this.arena.adopt(result);
  }

  /** Calls an operator whose result is a number. */
  number(name: string, ...values: readonly Value[]): number {
    const result = this.#call(name, values);
    if (typeof result !== 'number') throw new EngineError(`${name}: expected a number as its result`);
    return result;
  }

  /** Calls an operator whose result is a boolean. */
  flag(name: string, ...values: readonly Value[]): boolean {
    const result = this.#call(name, values);
    if (typeof result !== 'boolean') throw new EngineError(`${name}: expected a boolean as its result`);
    return result;
  }

  /** Calls an operator for its several tensor results. */
  many(name: string, ...values: readonly Value[]): TorchTensor[] {
    const result = this.#call(name, values);
    if (!Array.isArray(result)) throw new EngineError(`${name}: expected several tensors as its result`);
    return result.map((handle: number) => this.arena.adopt(handle));
  }

  /** Calls an in-place operator; the handle of its result, an alias of an argument, is freed. */
  inPlace(name: string, ...values: readonly Value[]): void {
    const result = this.#call(name, values);
    if (typeof result === 'number') this.native.free(result);
  }

  #call(name: string, values: readonly Value[]): number | boolean | readonly number[] | undefined {
    const id = this.#id(name);
    if (id < 0) throw new EngineError(`${name}: this libtorch has no such operator`);
    const native: NativeValue[] = new Array(values.length);
    for (let i = 0; i < values.length; i++) {
      const value = values[i];
      if (value instanceof TorchTensor) native[i] = this.handle(value, name);
      else if (Array.isArray(value)) {
        native[i] = value.map((entry: number | Tensor) =>
          typeof entry === 'number' ? entry : this.handle(entry, name),
        );
      } else if (typeof value === 'object' && value !== null) this.handle(value as Tensor, name);
      else native[i] = value as NativeValue;
    }
    try {
      return this.native.call(id, ...native);
    } catch (cause) {
      throw this.error(name, values, cause);
    }
  }

  /** Runs `body`; what it throws becomes an EngineError that names the operation and its arguments. */
  attempt<T>(name: string, values: readonly unknown[], body: () => T): T {
    try {
      return body();
    } catch (cause) {
      throw this.error(name, values, cause);
    }
  }

  error(name: string, values: readonly unknown[], cause: unknown): EngineError {
    const shapes = values.map(describe).join(', ');
    const plain = name.replace('timeseer::', '');
    return new EngineError(`${plain}(${shapes}) on ${this.device}: ${(cause as Error).message.trim()}`, {
      cause,
    });
  }
}

function describe(value: unknown): string {
  if (value instanceof TorchTensor) return value.freed ? 'freed' : `${value.dtype}[${value.shape.join(',')}]`;
  if (Array.isArray(value)) return `[${value.map(describe).join(', ')}]`;
  if (typeof value === 'object' && value !== null) return value.constructor?.name ?? 'object';
  return typeof value === 'symbol' || typeof value === 'function' ? typeof value : String(value);
}

/** A shape as errors write it: '[2,3]'. */
export const shapeText = (tensor: Tensor): string => `[${tensor.shape.join(',')}]`;

export function sameShape(a: Tensor, b: Tensor): boolean {
  const shape = b.shape;
  return a.shape.length === shape.length && a.shape.every((size, axis) => size === shape[axis]);
}

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
function collect(value: unknown, tensors: Set<unknown>, seen: Set<object>): void {
  if (value instanceof TorchTensor) {
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
    const created: TorchTensor[] = [];
    this.#scopes.push(created);
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
