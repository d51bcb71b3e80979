/** The torch engine: the contract over libtorch, through the addon's generic operator call. */
import type {
  AdamWOptions,
  AdamWState,
  AttentionInput,
  AttentionStepInput,
  DType,
  Engine,
  EngineInfo,
  HostArray,
  LogProbOptions,
  MemoryUse,
  Recording,
  SampleOptions,
  SinkhornInput,
  SinkhornResult,
  Tensor,
} from '../engine.ts';
import { Arena, type TorchTensor } from './arena.ts';
import { attention, attentionStep } from './attention.ts';
import * as autograd from './autograd.ts';
import {
  checkDevice,
  checkDeviceName,
  describeEngine,
  loadNative,
  type Native,
  synchronize,
} from './native.ts';
import * as network from './network.ts';
import { Operators } from './operators.ts';
import * as data from './tensor-data.ts';

export interface TorchOptions {
  /** 'cpu' (default), 'cuda' or 'cuda:N'. */
  readonly device?: string;
  /** Intra-op threads of the calling thread; the default is OMP_NUM_THREADS, or all cores. */
  readonly threads?: number;
}

/** Opens the engine in this thread. Throws EngineError when libtorch or the device is not there. */
export function openTorch(options: TorchOptions = {}): TorchEngine {
  const device = options.device ?? 'cpu';
  checkDeviceName(device);
  const native = loadNative();
  checkDevice(native, device);
  return new TorchEngine(native, device, native.threads(options.threads ?? 0));
}

export class TorchEngine implements Engine {
  readonly info: EngineInfo;
  readonly #arena: Arena;
  readonly #ops: Operators;

  constructor(native: Native, device: string, threads: number) {
    this.#arena = new Arena(native);
    this.#ops = new Operators(native, this.#arena, device);
    this.info = describeEngine(native, device, threads);
  }

  // ---- ownership and transfer ------------------------------------------------------------------------

  tensor(values: HostArray, shape: readonly number[]): Tensor {
    return data.fromHost(this.#ops, values, shape);
  }

  zeros(shape: readonly number[], dtype: DType = 'float32'): Tensor {
    return this.#ops.one('zeros', shape, dtype, null, this.info.device);
  }

  fromFile(file: string, offset: number, shape: readonly number[], dtype: DType): Tensor {
    return this.#arena.scope(() => data.fromFile(this.#ops, file, offset, shape, dtype));
  }

  bytes(tensor: Tensor): Uint8Array {
    return this.#arena.scope(() => data.bytes(this.#ops, tensor));
  }

  floats(tensor: Tensor): Float32Array {
    return data.read(this.#ops, tensor, (length) => new Float32Array(length));
  }

  doubles(tensor: Tensor): Float64Array {
    return data.read(this.#ops, tensor, (length) => new Float64Array(length));
  }

  ints(tensor: Tensor): Int32Array {
    return data.ints(this.#ops, tensor);
  }

  item(tensor: Tensor): number {
    return data.item(this.#ops, tensor);
  }

  scope<T>(body: () => T): T {
    return this.#arena.scope(body);
  }

  dispose(...tensors: readonly Tensor[]): void {
    for (const tensor of tensors) this.#ops.handle(tensor, 'dispose');
    this.#arena.dispose(tensors as readonly TorchTensor[]);
  }

  live(): number {
    return this.#arena.live;
  }

  cast(tensor: Tensor, dtype: DType): Tensor {
    return this.#ops.one('to.dtype', tensor, dtype);
  }

  allFinite(tensor: Tensor): boolean {
    return this.#arena.scope(() => data.allFinite(this.#ops, tensor));
  }

  trackMemory(): void {
    this.#ops.native.trackMemory(this.info.device);
  }

  memory(): MemoryUse | null {
    const use = this.#ops.native.memory(this.info.device);
    return use === null ? null : { now: use[0], peak: use[1] };
  }

  synchronize(): void {
    synchronize(this.#ops);
  }

  share(tensor: Tensor): number {
    return data.share(this.#ops, tensor);
  }

  attach(ticket: number): Tensor {
    return data.attach(this.#ops, ticket);
  }

  unshare(ticket: number): void {
    data.unshare(this.#ops, ticket);
  }

  // ---- autograd --------------------------------------------------------------------------------------

  parameter(tensor: Tensor): Tensor {
    return autograd.parameter(this.#ops, tensor);
  }

  detach(tensor: Tensor): Tensor {
    return this.#ops.one('detach', tensor);
  }

  noGrad<T>(body: () => T): T {
    return autograd.noGrad(this.#ops, body);
  }

  grad(
    output: Tensor | readonly Tensor[],
    inputs: readonly Tensor[],
    outputGrad: Tensor | readonly Tensor[] = [],
  ): Tensor[] {
    return autograd.grad(this.#ops, output, inputs, outputGrad);
  }

  // ---- shape -----------------------------------------------------------------------------------------

  reshape(tensor: Tensor, shape: readonly number[]): Tensor {
    return this.#ops.one('reshape', tensor, shape);
  }

  permute(tensor: Tensor, order: readonly number[]): Tensor {
    return this.#ops.one('permute', tensor, order);
  }

  concat(tensors: readonly Tensor[], axis: number): Tensor {
    return this.#ops.one('cat', tensors, axis);
  }

  narrow(tensor: Tensor, axis: number, start: number, length: number): Tensor {
    return this.#ops.one('narrow', tensor, axis, start, length);
  }

  split(tensor: Tensor, sizes: readonly number[], axis: number): Tensor[] {
    return this.#ops.many('split_with_sizes', tensor, sizes, axis);
  }

  indexSelect(tensor: Tensor, index: Tensor): Tensor {
    return this.#ops.one('index_select', tensor, 0, index);
  }

  indexCopy(tensor: Tensor, index: Tensor, source: Tensor): Tensor {
    return this.#ops.one('index_copy', tensor, 0, index, source);
  }

  write(tensor: Tensor, axis: number, start: number, source: Tensor): void {
    autograd.write(this.#ops, tensor, axis, start, source);
  }

  indexCopyInto(tensor: Tensor, axis: number, index: Tensor, source: Tensor): void {
    autograd.indexCopyInto(this.#ops, tensor, axis, index, source);
  }

  addInto(tensor: Tensor, axis: number, start: number, source: Tensor): void {
    autograd.addInto(this.#ops, tensor, axis, start, source);
  }

  // ---- arithmetic ------------------------------------------------------------------------------------

  #binary(name: string, a: Tensor, b: Tensor | number): Tensor {
    return this.#ops.one(typeof b === 'number' ? `${name}.Scalar` : `${name}.Tensor`, a, b);
  }

  add(a: Tensor, b: Tensor | number): Tensor {
    return this.#binary('add', a, b);
  }

  sub(a: Tensor, b: Tensor | number): Tensor {
    return this.#binary('sub', a, b);
  }

  mul(a: Tensor, b: Tensor | number): Tensor {
    return this.#binary('mul', a, b);
  }

  div(a: Tensor, b: Tensor | number): Tensor {
    return this.#binary('div', a, b);
  }

  minimum(a: Tensor, b: Tensor): Tensor {
    return this.#ops.one('minimum', a, b);
  }

  clamp(a: Tensor, lo: number, hi: number): Tensor {
    return this.#ops.one('clamp', a, lo, hi);
  }

  exp(a: Tensor): Tensor {
    return this.#ops.one('exp', a);
  }

  sum(a: Tensor, axis?: number): Tensor {
    return axis === undefined ? this.#ops.one('sum', a) : this.#ops.one('sum.dim_IntList', a, [axis]);
  }

  norm(a: Tensor): Tensor {
    return this.#ops.one('linalg_vector_norm', a, 2, [-1]);
  }

  matmul(a: Tensor, b: Tensor): Tensor {
    return this.#ops.one('matmul', a, b);
  }

  logSoftmax(a: Tensor): Tensor {
    return this.#ops.one('log_softmax.int', a, -1);
  }

  logSumExp(a: Tensor, axis: number): Tensor {
    return this.#ops.one('logsumexp', a, [axis]);
  }

  // ---- neural network --------------------------------------------------------------------------------

  linear(x: Tensor, weight: Tensor, bias?: Tensor): Tensor {
    return this.#ops.one('timeseer::linear', x, weight, bias ?? null);
  }

  rmsNorm(x: Tensor, weight: Tensor, epsilon: number): Tensor {
    return this.#arena.scope(() => network.rmsNorm(this.#ops, x, weight, epsilon));
  }

  rotary(x: Tensor, cos: Tensor, sin: Tensor): Tensor {
    return this.#arena.scope(() => network.rotary(this.#ops, x, cos, sin));
  }

  attention(input: AttentionInput): Tensor {
    return this.#arena.scope(() => attention(this.#ops, input));
  }

  attentionStep(input: AttentionStepInput): Tensor {
    return this.noGrad(() => this.#arena.scope(() => attentionStep(this.#ops, input)));
  }

  swiglu(gateUp: Tensor): Tensor {
    return this.#arena.scope(() => network.swiglu(this.#ops, gateUp));
  }

  gelu(x: Tensor): Tensor {
    return this.#ops.one('gelu', x);
  }

  logProbs(
    hidden: Tensor,
    head: Tensor,
    targets: Tensor,
    options: LogProbOptions = {},
  ): { logProb: Tensor; entropy: Tensor | null } {
    return this.#arena.scope(() => network.logProbs(this.#ops, hidden, head, targets, options));
  }

  sample(logits: Tensor, options: SampleOptions): { ids: Tensor; logProbs: Tensor } {
    return this.noGrad(() => this.#arena.scope(() => network.sample(this.#ops, logits, options)));
  }

  record(body: () => void): Recording | null {
    return autograd.record(this.#ops, () => this.noGrad(() => this.#arena.scope(body)));
  }

  sinkhorn(input: SinkhornInput): SinkhornResult {
    return this.noGrad(() => this.#arena.scope(() => network.sinkhorn(this.#ops, input)));
  }

  adamW(state: AdamWState, options: AdamWOptions): void {
    this.noGrad(() => this.#arena.scope(() => network.adamW(this.#ops, state, options)));
  }
}
