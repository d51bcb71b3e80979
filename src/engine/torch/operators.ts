/**
 * ATen operators by name. Schemas are looked up once; errors name operator, shapes and device; arenas free
 * the tensors of their scopes.
 */
import { EngineError } from '../../ground/errors.ts';
import { Arena, OwnedTensor } from '../arena.ts';
import { checkOwned, operationError } from '../checks.ts';
import type { DType, Tensor } from '../engine.ts';
import type { Native, NativeValue } from './native.ts';

export type Value =
  | Exclude<NativeValue, readonly (number | boolean | null)[]>
  | Tensor
  | readonly (number | Tensor)[];

export class Operators {
  readonly native: Native;
  readonly arena: TorchArena;
  readonly device: string;
  readonly #ids = new Map<string, number>();

  constructor(native: Native, arena: TorchArena, device: string) {
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
    try {
      checkOwned(tensor, TorchTensor, this.arena, 'torch');
    } catch (cause) {
      throw this.error(where, [tensor], cause);
    }
    return (tensor as TorchTensor).handle;
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
    return operationError(name.replace('timeseer::', ''), values, this.device, cause);
  }
}

export class TorchTensor extends OwnedTensor {
  readonly handle: number;
  readonly #native: Native;
  #shape: readonly number[] | undefined;
  #dtype: DType | undefined;

  constructor(owner: TorchArena, native: Native, handle: number) {
    super(owner);
    this.#native = native;
    this.handle = handle;
  }

  /** Handle of a tensor that has not been freed. @throws EngineError */
  liveHandle(what: string): number {
    this.checkLive(what);
    return this.handle;
  }

  get shape(): readonly number[] {
    this.checkLive('shape');
    this.#shape ??= this.#native.shape(this.handle);
    return this.#shape;
  }

  get dtype(): DType {
    this.checkLive('dtype');
    this.#dtype ??= this.#native.dtype(this.handle);
    return this.#dtype;
  }
}

export class TorchArena extends Arena<TorchTensor> {
  readonly #native: Native;

  constructor(native: Native) {
    super((tensors) => native.free(tensors.map(({ handle }) => handle)));
    this.#native = native;
  }

  adopt(handle: number): TorchTensor {
    return this.own(new TorchTensor(this, this.#native, handle));
  }
}
