/** The torch engine: the contract over libtorch, through the addon's generic operator call. */
import { cpus, totalmem } from 'node:os';
import { EngineError } from '../../errors.ts';
import type {
  AdamWOptions,
  AdamWState,
  AttentionInput,
  DType,
  Engine,
  EngineInfo,
  HostArray,
  LogProbOptions,
  MemoryUse,
  Recording,
  SampleOptions,
  Tensor,
} from '../engine.ts';
import { Arena, isThenable, type TorchTensor } from './arena.ts';
import { attention } from './attention.ts';
import { mapped } from './mapped.ts';
import { loadedBlas, loadNative, type Native } from './native.ts';
import * as network from './network.ts';
import { Operators, sameShape, shapeText } from './operators.ts';
import { record } from './recording.ts';

export interface TorchOptions {
  /** 'cpu' (default), 'cuda' or 'cuda:N'. */
  readonly device?: string;
  /** Intra-op threads of the calling thread; the default is OMP_NUM_THREADS, or all cores. */
  readonly threads?: number;
}

/** Opens the engine in this thread. Throws EngineError when libtorch or the device is not there. */
export function openTorch(options: TorchOptions = {}): TorchEngine {
  const device = options.device ?? 'cpu';
  if (!/^(cpu|cuda(:\d+)?)$/.test(device)) {
    throw new EngineError(`unknown device '${device}': use 'cpu', 'cuda' or 'cuda:N'`);
  }
  const native = loadNative();
  if (device !== 'cpu') {
    const { cudaDevices, version } = native.describe();
    if (Number(device.split(':')[1] ?? 0) >= cudaDevices) {
      throw new EngineError(
        `device '${device}' asked for, but this libtorch (${version}) sees ${cudaDevices || 'no'} CUDA devices; ` +
          'use --device cpu, or set LIBTORCH to a CUDA build and run `npm run setup`',
      );
    }
  }
  return new TorchEngine(native, device, native.threads(options.threads ?? 0));
}

export class TorchEngine implements Engine {
  readonly info: EngineInfo;
  readonly #native: Native;
  readonly #arena: Arena;
  readonly #ops: Operators;

  constructor(native: Native, device: string, threads: number) {
    this.#native = native;
    this.#arena = new Arena(native);
    this.#ops = new Operators(native, this.#arena, device);
    const { name, memoryTotal } =
      device === 'cpu'
        ? { name: cpus()[0]?.model.trim() ?? '', memoryTotal: totalmem() }
        : native.describeDevice(device);
    this.info = {
      name: 'torch',
      version: native.describe().version,
      device,
      threads,
      blas: loadedBlas(native, device),
      deviceName: name === '' ? device : name,
      memoryTotal,
    };
  }

  // ---- ownership and transfer ------------------------------------------------------------------------

  tensor(data: HostArray, shape: readonly number[]): Tensor {
    const dtype: DType =
      data instanceof Float32Array
        ? 'float32'
        : data instanceof Float64Array
          ? 'float64'
          : data instanceof Int32Array
            ? 'int64'
            : 'bool';
    try {
      return this.#arena.adopt(this.#native.fromHost(data, dtype, shape, this.info.device));
    } catch (cause) {
      throw this.#ops.error('tensor', [shape], cause);
    }
  }

  zeros(shape: readonly number[], dtype: DType = 'float32'): Tensor {
    return this.#ops.one('zeros', shape, dtype, null, this.info.device);
  }

  #read<A extends HostArray>(tensor: Tensor, make: (length: number) => A): A {
    const handle = this.#ops.handle(tensor, 'read');
    try {
      const into = make(tensor.shape.reduce((product, size) => product * size, 1));
      this.#native.toHost(handle, into);
      return into;
    } catch (cause) {
      throw this.#ops.error('read', [tensor], cause);
    }
  }

  mapped(file: string, offset: number, shape: readonly number[], dtype: DType): Tensor {
    return this.#arena.scope(() => mapped(this.#ops, file, offset, shape, dtype));
  }

  bytes(tensor: Tensor): Uint8Array {
    return this.#arena.scope(() => {
      const dense = this.#ops.one('contiguous', this.#ops.one('detach', tensor));
      const raw = this.#ops.one('view.dtype', this.#ops.one('reshape', dense, [-1]), 'uint8');
      return this.#read(raw, (length) => new Uint8Array(length));
    });
  }

  floats(tensor: Tensor): Float32Array {
    return this.#read(tensor, (length) => new Float32Array(length));
  }

  doubles(tensor: Tensor): Float64Array {
    return this.#read(tensor, (length) => new Float64Array(length));
  }

  ints(tensor: Tensor): Int32Array {
    this.#ops.check('ints', [tensor]);
    if (tensor.dtype !== 'int64' && tensor.dtype !== 'bool') {
      throw new EngineError(`ints: expected an int64 or bool tensor, got ${tensor.dtype}`);
    }
    return this.#read(tensor, (length) => new Int32Array(length));
  }

  item(tensor: Tensor): number {
    const values = this.doubles(tensor);
    if (values.length !== 1) {
      throw new EngineError(`item: expected one element, got shape [${tensor.shape.join(',')}]`);
    }
    return values[0]!;
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
    this.#ops.check('allFinite', [tensor]);
    if (tensor.shape.includes(0)) return true;
    return this.#arena.scope(() => {
      const values = tensor.dtype === 'float16' ? this.cast(tensor, 'float32') : this.detach(tensor);
      // A finite sum has no NaN or infinity in it; one that overflows proves nothing. Then the extremes tell, without a copy.
      if (Number.isFinite(this.item(this.sum(values)))) return true;
      const ends = this.#ops.one('stack', this.#ops.many('aminmax', values), 0); // [2], NaN if there is one
      return this.item(this.#ops.one('all', this.#ops.one('isfinite', ends))) === 1;
    });
  }

  trackMemory(): void {
    this.#native.trackMemory(this.info.device);
  }

  memory(): MemoryUse | null {
    const use = this.#native.memory(this.info.device);
    return use === null ? null : { now: use[0], peak: use[1] };
  }

  synchronize(): void {
    try {
      this.#native.synchronize(this.info.device);
    } catch (cause) {
      throw this.#ops.error('synchronize', [], cause);
    }
  }

  share(tensor: Tensor): number {
    const handle = this.#ops.handle(tensor, 'share');
    try {
      return this.#native.share(handle);
    } catch (cause) {
      throw this.#ops.error('share', [tensor], cause);
    }
  }

  attach(ticket: number): Tensor {
    try {
      return this.#arena.adopt(this.#native.attach(ticket));
    } catch (cause) {
      throw this.#ops.error('attach', [ticket], cause);
    }
  }

  unshare(ticket: number): void {
    try {
      this.#native.unshare(ticket);
    } catch (cause) {
      throw this.#ops.error('unshare', [ticket], cause);
    }
  }

  // ---- autograd --------------------------------------------------------------------------------------

  parameter(tensor: Tensor): Tensor {
    const handle = this.#ops.handle(tensor, 'parameter');
    try {
      return this.#arena.adopt(this.#native.parameter(handle));
    } catch (cause) {
      throw this.#ops.error('parameter', [tensor], cause);
    }
  }

  detach(tensor: Tensor): Tensor {
    return this.#ops.one('detach', tensor);
  }

  noGrad<T>(body: () => T): T {
    const before = this.#native.gradMode(false);
    try {
      const result = body();
      if (isThenable(result)) {
        result.then(undefined, () => {});
        throw new EngineError('noGrad: the body returned a Promise; noGrad is synchronous, await outside it');
      }
      return result;
    } finally {
      this.#native.gradMode(before);
    }
  }

  grad(
    output: Tensor | readonly Tensor[],
    inputs: readonly Tensor[],
    outputGrad: Tensor | readonly Tensor[] = [],
  ): Tensor[] {
    const handles = (tensors: Tensor | readonly Tensor[]): number[] =>
      (Array.isArray(tensors) ? tensors : [tensors]).map((tensor) => this.#ops.handle(tensor, 'grad'));
    const [outputs, seeds] = [handles(output), handles(outputGrad)];
    try {
      return this.#native.grad(outputs, handles(inputs), seeds).map((handle) => this.#arena.adopt(handle));
    } catch (cause) {
      throw this.#ops.error('grad', [output, outputGrad], cause);
    }
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

  rows(tensor: Tensor, index: Tensor): Tensor {
    return this.#ops.one('index_select', tensor, 0, index);
  }

  placeRows(tensor: Tensor, index: Tensor, source: Tensor): Tensor {
    return this.#ops.one('index_copy', tensor, 0, index, source);
  }

  /** Calls an operator in place on the range of `tensor` that `source` covers. */
  #onRange(
    where: string,
    operator: string,
    tensor: Tensor,
    axis: number,
    start: number,
    source: Tensor,
  ): void {
    this.#ops.check(where, [tensor, source]);
    this.noGrad(() =>
      this.#arena.scope(() => {
        const target = this.#ops.one('narrow', tensor, axis, start, source.shape.at(axis) ?? 1);
        if (!sameShape(target, source)) {
          throw new EngineError(
            `${where}: target ${shapeText(target)} and source ${shapeText(source)} differ`,
          );
        }
        this.#ops.inPlace(operator, target, source);
      }),
    );
  }

  write(tensor: Tensor, axis: number, start: number, source: Tensor): void {
    this.#onRange('write', 'copy_', tensor, axis, start, source);
  }

  writeAt(tensor: Tensor, axis: number, index: Tensor, source: Tensor): void {
    this.#ops.check('writeAt', [tensor, index, source]);
    this.noGrad(() =>
      this.#arena.scope(() => {
        const same = source.dtype === tensor.dtype ? source : this.cast(source, tensor.dtype);
        this.#ops.inPlace('index_copy_', tensor, axis, index, same);
      }),
    );
  }

  addInto(tensor: Tensor, axis: number, start: number, source: Tensor): void {
    this.#onRange('addInto', 'add_.Tensor', tensor, axis, start, source);
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
    return record(this.#ops, () => this.noGrad(() => this.#arena.scope(body)));
  }

  adamW(state: AdamWState, options: AdamWOptions): void {
    this.noGrad(() => this.#arena.scope(() => network.adamW(this.#ops, state, options)));
  }
}
