/**
 * Memory of the tfjs engine: counted storages in one WebAssembly memory, and strided views of them. Elements keep their dtype; int64 is
 * int32 inside.
 */
import { type DType, ELEMENT_BYTES } from '../engine.ts';
import { type Backend, OUT_OF_MEMORY, type Pack } from './backend.ts';
import type { Kernels } from './kernels/kernels.ts';
import { SharedBlocks } from './sharing.ts';

type NumberArray = Float32Array | Float64Array | Int32Array | Uint8Array | Uint16Array;

const ARRAYS = {
  float32: Float32Array,
  float64: Float64Array,
  bfloat16: Uint16Array,
  float16: Uint16Array,
  int64: Int32Array,
  uint8: Uint8Array,
  bool: Uint8Array,
} as const;

/** Bytes of an element as it lies in the heap. */
const widthOf = (dtype: DType): number => (dtype === 'int64' ? 4 : ELEMENT_BYTES[dtype]);

export const sizeOf = (shape: readonly number[]): number =>
  shape.reduce((product, size) => product * size, 1);

/** A block of memory that views, saved values and shared tensors hold. */
export class Storage {
  readonly pointer: number;
  readonly bytes: number;
  /** Holders. A storage that an operation made and nobody holds is freed when the operation ends. */
  holders = 0;
  freed = false;
  /** Number of writes in place. */
  version = 0;
  /** Weights prepared for products, by view; valid for one version. */
  packs: { version: number; byView: Map<string, Pack> } | null = null;
  /** Block in which Workers share the content, and the version that is here; null where it is this thread's own. */
  shared: { readonly block: number; seen: number } | null = null;

  constructor(pointer: number, bytes: number) {
    this.pointer = pointer;
    this.bytes = bytes;
  }
}

/** A view: elements of a storage from `offset` on, with strides in elements. */
export interface View {
  readonly storage: Storage;
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly strides: readonly number[];
  readonly offset: number;
}

export function denseStrides(shape: readonly number[]): number[] {
  const strides = new Array<number>(shape.length);
  let step = 1;
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    strides[axis] = step;
    step *= shape[axis]!;
  }
  return strides;
}

export function isDense({ shape, strides }: View): boolean {
  let step = 1;
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    if (shape[axis] === 1) continue;
    if (strides[axis] !== step) return false;
    step *= shape[axis]!;
  }
  return true;
}

const bits = new DataView(new ArrayBuffer(4));

/** Rounds to the 16 bits of a bfloat16, ties to even. */
function toBfloat16(value: number): number {
  bits.setFloat32(0, value);
  const word = bits.getUint32(0);
  if (Number.isNaN(value)) return 0x7fc0;
  return ((word + 0x7fff + ((word >>> 16) & 1)) >>> 16) & 0xffff;
}

function fromBfloat16(half: number): number {
  bits.setUint32(0, half << 16);
  return bits.getFloat32(0);
}

/** Rounds to the 16 bits of an IEEE half, ties to even. */
function toFloat16(value: number): number {
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const size = Math.abs(value);
  if (Number.isNaN(value)) return 0x7e00;
  if (size >= 65520) return sign | 0x7c00;
  const exponent = Math.max(-14, Math.floor(Math.log2(size || 2 ** -25)));
  const steps = size / 2 ** (exponent - 10);
  const whole = Math.floor(steps);
  const rest = steps - whole;
  const mantissa = whole + (rest > 0.5 || (rest === 0.5 && whole % 2 === 1) ? 1 : 0);
  return sign | (mantissa < 1024 ? mantissa : ((exponent + 15) << 10) + mantissa - 1024);
}

function fromFloat16(half: number): number {
  const exponent = (half >> 10) & 31;
  const mantissa = half & 1023;
  const sign = half & 0x8000 ? -1 : 1;
  if (exponent === 31) return mantissa === 0 ? sign * Infinity : Number.NaN;
  return sign * (exponent === 0 ? mantissa * 2 ** -24 : (1024 + mantissa) * 2 ** (exponent - 25));
}

/** Elements as they are stored, from numbers. */
function encode(into: NumberArray, values: ArrayLike<number>, dtype: DType): void {
  const count = into.length;
  if (dtype === 'float32' || dtype === 'float64') into.set(values);
  else if (dtype === 'bfloat16') for (let i = 0; i < count; i++) into[i] = toBfloat16(values[i]!);
  else if (dtype === 'float16') for (let i = 0; i < count; i++) into[i] = toFloat16(values[i]!);
  else if (dtype === 'bool') for (let i = 0; i < count; i++) into[i] = values[i] === 0 ? 0 : 1;
  else {
    for (let i = 0; i < count; i++) {
      const whole = Math.trunc(values[i]!);
      into[i] = whole;
      if (into[i] !== whole) throw new Error(`${whole} does not fit ${dtype === 'int64' ? 'int32' : dtype}`);
    }
  }
}

/** A rectangle of elements: sizes with the strides of both sides, axes merged where both sides allow it. */
function rectangle(dst: View, src: View): { sizes: number[]; to: number[]; from: number[] } {
  const [sizes, to, from]: [number[], number[], number[]] = [[], [], []];
  for (const [axis, size] of dst.shape.entries()) {
    if (size === 1) continue;
    const [d, s] = [dst.strides[axis]!, src.strides[axis]!];
    const last = sizes.length - 1;
    if (last >= 0 && to[last] === d * size && from[last] === s * size) {
      sizes[last]! *= size;
      to[last] = d;
      from[last] = s;
    } else {
      sizes.push(size);
      to.push(d);
      from.push(s);
    }
  }
  return { sizes, to, from };
}

export class Heap {
  readonly backend: Backend;
  readonly kernels: Kernels;
  /** Storages made by the operation in progress. */
  #fresh: Storage[] = [];
  #blocks: SharedBlocks | null = null;
  /** Storages of this engine by the block that they share. */
  readonly #attached = new Map<number, Storage>();
  /** Bytes held, and the largest since tracking began. */
  now = 0;
  peak = 0;

  constructor(backend: Backend) {
    this.backend = backend;
    this.kernels = backend.kernels;
  }

  // ---- storage -------------------------------------------------------------------------------------

  #allocate(bytes: number): Storage {
    const pointer = bytes < 2 ** 32 ? this.backend.allocate(Math.max(16, bytes)) : 0;
    if (pointer === 0) {
      throw new Error(`cannot allocate ${bytes} bytes beside ${this.now}: ${OUT_OF_MEMORY}`);
    }
    const storage = new Storage(pointer, bytes);
    this.now += bytes;
    this.peak = Math.max(this.peak, this.now);
    this.#fresh.push(storage);
    return storage;
  }

  #release(storage: Storage): void {
    storage.freed = true;
    if (storage.shared !== null) {
      this.#blocks!.held.delete(storage.shared.block);
      this.#blocks!.let(storage.shared.block);
      this.#attached.delete(storage.shared.block);
    }
    this.dropPacks(storage);
    this.backend.free(storage.pointer);
    this.now -= storage.bytes;
  }

  dropPacks(storage: Storage): void {
    for (const pack of storage.packs?.byView.values() ?? []) pack.free();
    storage.packs = null;
  }

  hold(storage: Storage): void {
    storage.holders++;
  }

  let(storage: Storage): void {
    if (--storage.holders === 0) this.#release(storage);
  }

  /** Runs an operation; what it allocated and nobody holds by its end is freed. */
  frame<T>(body: () => T): T {
    const outer = this.#fresh;
    this.#fresh = [];
    try {
      return body();
    } finally {
      for (const storage of this.#fresh) if (storage.holders === 0 && !storage.freed) this.#release(storage);
      this.#fresh = outer;
    }
  }

  // ---- sharing with other Workers ------------------------------------------------------------------

  get #sharing(): SharedBlocks {
    this.#blocks ??= new SharedBlocks();
    return this.#blocks;
  }

  #content(storage: Storage): Uint8Array {
    return new Uint8Array(this.backend.memory.buffer, storage.pointer, storage.bytes);
  }

  /** Publishes a view; returns its ticket. */
  share(view: View): number {
    const { storage } = view;
    if (storage.shared === null) {
      const block = this.#sharing.create(storage.bytes);
      this.#sharing.content(block, 0, storage.bytes).set(this.#content(storage));
      storage.shared = { block, seen: this.#sharing.changed(block) };
      this.#attached.set(block, storage);
    }
    const { dtype, shape, strides, offset } = view;
    return this.#sharing.publish({ block: storage.shared.block, dtype, shape, strides, offset });
  }

  /** A view of what a ticket publishes. */
  attach(ticket: number): View {
    const { block, ...rest } = this.#sharing.find(ticket);
    let storage = this.#attached.get(block);
    if (storage === undefined) {
      this.#sharing.hold(block);
      this.#sharing.held.add(block);
      storage = this.#allocate(this.#sharing.bytes(block));
      storage.shared = { block, seen: -1 };
      this.#attached.set(block, storage);
      this.pull(storage);
    }
    return { storage, ...rest };
  }

  unshare(ticket: number): void {
    this.#sharing.withdraw(ticket);
  }

  /** Brings a storage up to what other Workers wrote. */
  pull(storage: Storage): void {
    const { shared } = storage;
    if (shared === null) return;
    const version = this.#sharing.version(shared.block);
    if (version === shared.seen) return;
    this.#content(storage).set(this.#sharing.content(shared.block, 0, storage.bytes));
    shared.seen = version;
    storage.version++;
  }

  /** Notes that elements of a view were written in place, and passes them on to other Workers. */
  wrote(view: View): void {
    const { storage } = view;
    storage.version++;
    const { shared } = storage;
    if (shared === null) return;
    const last = view.shape.reduce((sum, size, axis) => sum + (size - 1) * view.strides[axis]!, 0);
    const width = widthOf(view.dtype);
    const [from, to] = [view.offset * width, (view.offset + last + 1) * width];
    if (to > from)
      this.#sharing.content(shared.block, from, to - from).set(this.#content(storage).subarray(from, to));
    const version = this.#sharing.changed(shared.block);
    if (version === shared.seen + 1) shared.seen = version;
  }

  // ---- views ---------------------------------------------------------------------------------------

  /** Uninitialised elements. */
  make(shape: readonly number[], dtype: DType = 'float32'): View {
    const storage = this.#allocate(sizeOf(shape) * widthOf(dtype));
    return { storage, dtype, shape, strides: denseStrides(shape), offset: 0 };
  }

  zeros(shape: readonly number[], dtype: DType = 'float32'): View {
    const view = this.make(shape, dtype);
    new Uint8Array(this.backend.memory.buffer, view.storage.pointer, view.storage.bytes).fill(0);
    return view;
  }

  from(values: ArrayLike<number>, shape: readonly number[], dtype: DType): View {
    const view = this.make(shape, dtype);
    encode(this.raw(view), values, dtype);
    return view;
  }

  /** Byte address of the first element. */
  address(view: View): number {
    return view.storage.pointer + view.offset * widthOf(view.dtype);
  }

  /** The stored elements of a dense view, in place; valid until the next allocation. */
  raw(view: View): NumberArray {
    return new ARRAYS[view.dtype](this.backend.memory.buffer, this.address(view), sizeOf(view.shape));
  }

  /** The numbers of a view, row-major; valid until the next allocation. */
  numbers(view: View): Float32Array | Float64Array | Int32Array | Uint8Array {
    const raw = this.raw(this.dense(view));
    if (view.dtype === 'bfloat16') return Float32Array.from(raw, fromBfloat16);
    if (view.dtype === 'float16') return Float32Array.from(raw, fromFloat16);
    return raw as Float32Array;
  }

  /** The view itself where it is dense, else a copy. */
  dense(view: View): View {
    if (isDense(view)) return view;
    return this.copy(view);
  }

  /** A dense copy. */
  copy(view: View): View {
    const out = this.make(view.shape, view.dtype);
    this.move(out, view);
    return out;
  }

  cast(view: View, dtype: DType): View {
    return view.dtype === dtype ? view : this.from(this.numbers(view), view.shape, dtype);
  }

  /** Copies elements between views of one shape and dtype. */
  move(dst: View, src: View): void {
    if (sizeOf(dst.shape) === 0) return;
    const { sizes, to, from } = rectangle(dst, src);
    if (widthOf(dst.dtype) === 4) this.#move4(this.address(dst), this.address(src), sizes, to, from);
    else {
      const array = (view: View): NumberArray =>
        new ARRAYS[view.dtype](this.backend.memory.buffer, view.storage.pointer);
      const [target, source] = [array(dst), array(src)];
      const walk = (axis: number, d: number, s: number): void => {
        if (axis === sizes.length) target[d] = source[s]!;
        else for (let i = 0; i < sizes[axis]!; i++) walk(axis + 1, d + i * to[axis]!, s + i * from[axis]!);
      };
      walk(0, dst.offset, src.offset);
    }
  }

  #move4(dst: number, src: number, sizes: number[], to: number[], from: number[]): void {
    if (sizes.length > 4) {
      const [size, d, s] = [sizes[0]!, to[0]!, from[0]!];
      for (let i = 0; i < size; i++) {
        this.#move4(dst + 4 * i * d, src + 4 * i * s, sizes.slice(1), to.slice(1), from.slice(1));
      }
      return;
    }
    const four = (list: readonly number[], fill: number): number[] => [
      ...new Array<number>(4 - list.length).fill(fill),
      ...list,
    ];
    const n = four(sizes, 1);
    const d = four(to, 1);
    const s = four(from, 1);
    // The axis along which the source lies together stands next to the last: then blocks are transposed.
    const near = s.findLastIndex((step, axis) => step === 1 && n[axis]! > 1);
    if (near >= 0 && near < 2 && s[3] !== 1) {
      for (const list of [n, d, s]) [list[near], list[2]] = [list[2]!, list[near]!];
    }
    this.kernels.copy4(...n, dst, ...d, src, ...s);
  }

  // ---- products ------------------------------------------------------------------------------------

  /** a [M, K] · b [K, N], both dense, into dense memory at `out`. */
  multiply(out: number, a: number, b: number, m: number, k: number, n: number): void {
    if (m * n === 0) return;
    if (k === 0) {
      new Float32Array(this.backend.memory.buffer, out, m * n).fill(0);
      return;
    }
    const pack = this.backend.pack(b, k, n);
    pack.times(out, a, m);
    pack.free();
  }

  /** Prepares a matrix [K, N] that will multiply others until its storage is written to. */
  packed(view: View): Pack {
    const { storage, shape, strides, offset } = view;
    if (storage.packs !== null && storage.packs.version !== storage.version) this.dropPacks(storage);
    storage.packs ??= { version: storage.version, byView: new Map() };
    const key = `${offset} ${shape.join()} ${strides.join()}`;
    let pack = storage.packs.byView.get(key);
    if (pack === undefined) {
      const [k, n] = shape as [number, number];
      if (isDense(view)) pack = this.backend.pack(this.address(view), k, n);
      else {
        const copy = this.copy(view);
        this.hold(copy.storage);
        const made = this.backend.pack(this.address(copy), k, n);
        pack = {
          times: made.times,
          free: () => {
            made.free();
            this.let(copy.storage);
          },
        };
      }
      storage.packs.byView.set(key, pack);
    }
    return pack;
  }
}
