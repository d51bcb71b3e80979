/**
 * The torch addon without libtorch: the same operators over tensors that have everything but elements. What the torch
 * engine computes with it is what it would compute, call by call; what every call would allocate is booked in a ledger.
 */
import type { DType, HostArray } from '../engine.ts';
import type { Native, NativeValue } from '../torch/native.ts';
import { backward } from './backward.ts';
import { Kernels } from './kernels.ts';
import { Ledger } from './ledger.ts';
import { type Operator, operators } from './operators.ts';
import type { DryTensor } from './tensor.ts';

export interface DryOptions {
  readonly device: 'cpu' | 'cuda';
  /** Of libtorch: some operators came with 2. */
  readonly version: string;
}

/** CUDA's caching allocator gives multiples of this, bytes. */
const CUDA_GRANULE = 512;

export class DryNative implements Native {
  readonly ledger: Ledger;
  readonly #kernels: Kernels;
  readonly #options: DryOptions;
  readonly #table: ReadonlyMap<string, Operator>;
  readonly #operators: { readonly run: Operator; readonly kind: number }[] = [];
  readonly #grouped: boolean;
  /** By handle; undefined where it is free. */
  readonly #tensors: (DryTensor | undefined)[] = [undefined];
  readonly #free: number[] = [];
  readonly #get = (handle: NativeValue): DryTensor => {
    const tensor = this.#tensors[handle as number];
    if (tensor === undefined) throw new Error('the tensor was freed');
    return tensor;
  };
  readonly #shared = new Map<number, DryTensor>();
  readonly #gradient: number;
  readonly #given: number;
  #recordings = 0;
  #tickets = 1;
  /** What every integer that is read back is: a token that is sampled, say. */
  integer = 0;
  /** Called before a backward pass that is given the gradients of its outputs. */
  onBackward: () => void = () => {};

  constructor(options: DryOptions) {
    this.ledger = new Ledger(options.device === 'cpu' ? 1 : CUDA_GRANULE);
    const [major = 0, minor = 0] = options.version.split('.').map(Number.parseFloat);
    const modern = major >= 2;
    this.#grouped = major > 2 || (modern && minor >= 5);
    this.#kernels = new Kernels(this.ledger, options.device === 'cpu', modern);
    this.#options = options;
    this.#table = operators(modern);
    this.#gradient = this.ledger.kind('gradient');
    this.#given = this.ledger.kind('tensor');
  }

  #add(tensor: DryTensor): number {
    const handle = this.#free.pop() ?? this.#tensors.length;
    this.#tensors[handle] = tensor;
    return handle;
  }

  op(name: string, overload: string): number {
    const full = overload === '' ? name : `${name}.${overload}`;
    const run = this.#table.get(full.replace(/^aten::/, ''));
    if (run === undefined) return -1;
    return this.#operators.push({ run, kind: this.ledger.kind(full.replace(/^\w+::/, '')) }) - 1;
  }

  /** Tiled attention takes query heads that share a key head since 2.5. */
  takes(_operator: number, argument: string): boolean {
    return argument === 'enable_gqa' && this.#grouped;
  }

  call(id: number, ...values: NativeValue[]): number | boolean | readonly number[] | undefined {
    const { run, kind } = this.#operators[id]!;
    this.#kernels.kind = kind;
    const result = run(this.#kernels, values, this.#get);
    if (typeof result === 'number' || typeof result === 'boolean') return result;
    return Array.isArray(result) ? result.map((one) => this.#add(one)) : this.#add(result as DryTensor);
  }

  fromHost(data: HostArray, dtype: DType, shape: readonly number[]): number {
    const wanted = shape.reduce((product, size) => product * size, 1);
    if (wanted !== data.length)
      throw new Error(`data has ${data.length} elements, the shape wants ${wanted}`);
    this.#kernels.kind = this.#given;
    return this.#add(this.#kernels.empty(shape, dtype));
  }

  toHost(handle: number, into: HostArray): void {
    if (this.#get(handle).dtype === 'int64') into.fill(this.integer);
  }

  shape(handle: number): number[] {
    return [...this.#get(handle).shape];
  }

  dtype(handle: number): DType {
    return this.#get(handle).dtype;
  }

  free(handles: number | readonly number[]): void {
    for (const handle of typeof handles === 'number' ? [handles] : handles) {
      this.#get(handle).release();
      this.#tensors[handle] = undefined;
      this.#free.push(handle);
    }
  }

  live(): number {
    return this.#tensors.length - 1 - this.#free.length;
  }

  grad(outputs: readonly number[], inputs: readonly number[], seeds: readonly number[]): number[] {
    this.#kernels.kind = this.#gradient;
    if (seeds.length > 0) this.onBackward();
    const wanted = inputs.map(this.#get);
    const found = backward(this.#kernels, outputs.map(this.#get), wanted, seeds.map(this.#get));
    return found.map((gradient, i) => this.#add(gradient ?? this.#kernels.like(wanted[i]!)));
  }

  parameter(handle: number): number {
    return this.#add(this.#kernels.leaf(this.#get(handle)));
  }

  gradMode(enabled: boolean): boolean {
    const before = this.#kernels.recording;
    this.#kernels.recording = enabled;
    return before;
  }

  share(handle: number): number {
    const ticket = this.#tickets++;
    this.#shared.set(ticket, this.#get(handle).view());
    return ticket;
  }

  attach(ticket: number): number {
    const tensor = this.#shared.get(ticket);
    if (tensor === undefined) throw new Error('no tensor is shared under this ticket');
    return this.#add(tensor.view());
  }

  unshare(ticket: number): void {
    this.#shared.get(ticket)?.release();
    this.#shared.delete(ticket);
  }

  threads(): number {
    return 1;
  }

  describe(): { version: string; config: string; parallel: string; cudaDevices: number } {
    return { version: this.#options.version, config: '', parallel: '', cudaDevices: 1 };
  }

  blasKernel(): { kernel: string; file: string } {
    return { kernel: '', file: '' };
  }

  readFile(_file: string, _offset: number, bytes: number): number {
    return this.#add(this.#kernels.empty([bytes], 'uint8'));
  }

  trackMemory(): void {
    this.ledger.again();
  }

  memory(): readonly [now: number, peak: number] {
    return [this.ledger.now, this.ledger.peak];
  }

  describeDevice(): { name: string; memoryTotal: number } {
    return { name: '', memoryTotal: 0 };
  }

  synchronize(): void {}

  canRecord(): boolean {
    return this.#options.device === 'cuda' && this.#kernels.modern;
  }

  record(_device: string, body: () => void): number {
    body();
    body();
    return this.#recordings++;
  }

  replay(): void {}

  freeRecording(): void {}
}
