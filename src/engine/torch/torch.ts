/** The torch engine: the contract over libtorch, through the addon's generic operator call. */
import { EngineError } from '../../ground/errors.ts';
import { checkSynchronous } from '../arena.ts';
import { checkRange, fileProblem, partSize, sameShape, shapeText } from '../checks.ts';
import type {
  DType,
  Engine,
  EngineInfo,
  HostArray,
  MemoryUse,
  Recording,
  SampleOptions,
  Tensor,
} from '../engine.ts';
import {
  checkDevice,
  checkDeviceName,
  describeEngine,
  deviceCount,
  loadNative,
  type Native,
} from './native.ts';
import * as network from './network.ts';
import { Operators, TorchArena, type TorchTensor } from './operators.ts';

interface TorchOptions {
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

/** Number of devices of the kind of `device` that this libtorch sees: of GPUs for 'cuda' and 'cuda:1'. */
export function devicesLike(device: string): number {
  return deviceCount(loadNative(), device);
}

export class TorchEngine implements Engine {
  readonly info: EngineInfo;
  readonly #arena: TorchArena;
  readonly #ops: Operators;

  constructor(native: Native, device: string, threads: number) {
    this.#arena = new TorchArena(native);
    this.#ops = new Operators(native, this.#arena, device);
    this.info = describeEngine(native, device, threads);
  }

  // ---- ownership and transfer ------------------------------------------------------------------------

  tensor(values: HostArray, shape: readonly number[]): Tensor {
    const { native, device } = this.#ops;
    return this.#adopt('tensor', [shape], () => native.fromHost(values, dtypeOf(values), shape, device));
  }

  /** Takes in the tensor whose handle `body` returns. */
  #adopt(name: string, values: readonly unknown[], body: () => number): Tensor {
    return this.#ops.attempt(name, values, () => this.#arena.adopt(body()));
  }

  readonly zeros: Engine['zeros'] = (shape, dtype = 'float32') =>
    this.#ops.one('zeros', shape, dtype, null, this.info.device);

  fromFile(file: string, offset: number, shape: readonly number[], dtype: DType): Tensor {
    const bytes = partSize(file, offset, shape, dtype);
    return this.#arena.scope(() => {
      let part: Tensor;
      try {
        part = this.#arena.adopt(this.#ops.native.readFile(file, offset, bytes)); // uint8 [bytes]
      } catch (cause) {
        throw fileProblem(file, offset, shape, dtype, (cause as Error).message.trim(), cause);
      }
      return this.reshape(this.#ops.one('view.dtype', part, dtype), shape);
    });
  }

  bytes(tensor: Tensor): Uint8Array {
    return this.#arena.scope(() => {
      const dense = this.#ops.one('contiguous', this.detach(tensor));
      const raw = this.#ops.one('view.dtype', this.reshape(dense, [-1]), 'uint8');
      return this.#read(raw, (length) => new Uint8Array(length));
    });
  }

  readonly floats: Engine['floats'] = (tensor) => this.#read(tensor, (length) => new Float32Array(length));
  readonly doubles: Engine['doubles'] = (tensor) => this.#read(tensor, (length) => new Float64Array(length));

  ints(tensor: Tensor): Int32Array {
    this.#ops.check('ints', [tensor]);
    if (tensor.dtype !== 'int64' && tensor.dtype !== 'bool') {
      throw new EngineError(`ints: expected an int64 or bool tensor, got ${tensor.dtype}`);
    }
    return this.#read(tensor, (length) => new Int32Array(length));
  }

  /** Copies the values into an array that `make` gives, which decides what they are converted to. */
  #read<A extends HostArray>(tensor: Tensor, make: (length: number) => A): A {
    const handle = this.#ops.handle(tensor, 'read');
    return this.#ops.attempt('read', [tensor], () => {
      const into = make(tensor.shape.reduce((product, size) => product * size, 1));
      this.#ops.native.toHost(handle, into);
      return into;
    });
  }

  item(tensor: Tensor): number {
    const values = this.doubles(tensor);
    if (values.length !== 1)
      throw new EngineError(`item: expected one element, got shape ${shapeText(tensor)}`);
    return values[0]!;
  }

  readonly scope: Engine['scope'] = (body) => this.#arena.scope(body);
  readonly unscoped: Engine['unscoped'] = (body) => this.#arena.unscoped(body);

  dispose(...tensors: readonly Tensor[]): void {
    for (const tensor of tensors) this.#ops.handle(tensor, 'dispose');
    this.#arena.dispose(tensors as readonly TorchTensor[]);
  }

  readonly live: Engine['live'] = () => this.#arena.live;
  readonly cast: Engine['cast'] = (tensor, dtype) => this.#ops.one('to.dtype', tensor, dtype);

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

  readonly trackMemory: Engine['trackMemory'] = () => this.#ops.native.trackMemory(this.info.device);

  memory(): MemoryUse | null {
    const use = this.#ops.native.memory(this.info.device);
    return use === null ? null : { now: use[0], peak: use[1] };
  }

  readonly synchronize: Engine['synchronize'] = () =>
    this.#ops.attempt('synchronize', [], () => this.#ops.native.synchronize(this.#ops.device));

  share(tensor: Tensor): number {
    const handle = this.#ops.handle(tensor, 'share');
    return this.#ops.attempt('share', [tensor], () => this.#ops.native.share(handle));
  }

  readonly attach: Engine['attach'] = (ticket) =>
    this.#adopt('attach', [ticket], () => this.#ops.native.attach(ticket));
  readonly unshare: Engine['unshare'] = (ticket) =>
    this.#ops.attempt('unshare', [ticket], () => this.#ops.native.unshare(ticket));

  rebind(tensor: Tensor, source: Tensor | null): void {
    const { dtype, shape } = tensor; // which it keeps while it has no storage
    this.#inScope(() => {
      if (source !== null && !(sameShape(tensor, source) && source.dtype === dtype)) {
        throw new EngineError(
          `rebind: expected ${dtype} [${shape.join(', ')}], got ${source.dtype} ${shapeText(source)}`,
        );
      }
      this.#ops.inPlace('set_data', tensor, source ?? this.zeros([0], dtype));
    });
  }

  // ---- autograd --------------------------------------------------------------------------------------

  parameter(tensor: Tensor): Tensor {
    const handle = this.#ops.handle(tensor, 'parameter');
    return this.#adopt('parameter', [tensor], () => this.#ops.native.parameter(handle));
  }

  readonly detach: Engine['detach'] = (tensor) => this.#ops.one('detach', tensor);

  noGrad<T>(body: () => T): T {
    const { native } = this.#ops;
    const before = native.gradMode(false);
    try {
      const result = body();
      checkSynchronous('noGrad', 'noGrad is synchronous', result);
      return result;
    } finally {
      native.gradMode(before);
    }
  }

  grad(
    output: Tensor | readonly Tensor[],
    inputs: readonly Tensor[],
    outputGrad: Tensor | readonly Tensor[] = [],
  ): Tensor[] {
    const { native } = this.#ops;
    const handles = (tensors: Tensor | readonly Tensor[]): number[] =>
      [tensors].flat().map((tensor) => this.#ops.handle(tensor, 'grad'));
    const [outputs, seeds] = [handles(output), handles(outputGrad)];
    return this.#ops.attempt('grad', [output, outputGrad], () =>
      native.grad(outputs, handles(inputs), seeds).map((handle) => this.#arena.adopt(handle)),
    );
  }

  // ---- shape -----------------------------------------------------------------------------------------

  readonly reshape: Engine['reshape'] = (tensor, shape) => this.#ops.one('reshape', tensor, shape);
  readonly permute: Engine['permute'] = (tensor, order) => this.#ops.one('permute', tensor, order);
  readonly concat: Engine['concat'] = (tensors, axis) => this.#ops.one('cat', tensors, axis);
  readonly narrow: Engine['narrow'] = (tensor, axis, start, length) =>
    this.#ops.one('narrow', tensor, axis, start, length);
  readonly split: Engine['split'] = (tensor, sizes, axis) =>
    this.#ops.many('split_with_sizes', tensor, sizes, axis);
  readonly indexSelect: Engine['indexSelect'] = (tensor, index) =>
    this.#ops.one('index_select', tensor, 0, index);
  readonly indexCopy: Engine['indexCopy'] = (tensor, index, source) =>
    this.#ops.one('index_copy', tensor, 0, index, source);
  readonly write: Engine['write'] = (tensor, axis, start, source) =>
    this.#onRange('write', 'copy_', tensor, axis, start, source);
  readonly addInto: Engine['addInto'] = (tensor, axis, start, source) =>
    this.#onRange('addInto', 'add_.Tensor', tensor, axis, start, source);

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
    this.#inScope(() => {
      const target = this.narrow(tensor, axis, start, source.shape.at(axis) ?? 1);
      checkRange(where, target, source);
      this.#ops.inPlace(operator, target, source);
    });
  }

  /** Runs `body` without a gradient, in a scope. */
  #inScope<T>(body: () => T): T {
    return this.noGrad(() => this.#arena.scope(body));
  }

  indexCopyInto(tensor: Tensor, axis: number, index: Tensor, source: Tensor): void {
    this.#ops.check('indexCopyInto', [tensor, index, source]);
    this.#inScope(() => {
      const same = source.dtype === tensor.dtype ? source : this.cast(source, tensor.dtype);
      this.#ops.inPlace('index_copy_', tensor, axis, index, same);
    });
  }

  // ---- arithmetic ------------------------------------------------------------------------------------

  #binary(name: string, a: Tensor, b: Tensor | number): Tensor {
    return this.#ops.one(typeof b === 'number' ? `${name}.Scalar` : `${name}.Tensor`, a, b);
  }

  readonly add: Engine['add'] = (a, b) => this.#binary('add', a, b);
  readonly sub: Engine['sub'] = (a, b) => this.#binary('sub', a, b);
  readonly mul: Engine['mul'] = (a, b) => this.#binary('mul', a, b);
  readonly div: Engine['div'] = (a, b) => this.#binary('div', a, b);
  readonly minimum: Engine['minimum'] = (a, b) => this.#ops.one('minimum', a, b);
  readonly clamp: Engine['clamp'] = (a, lo, hi) => this.#ops.one('clamp', a, lo, hi);
  readonly exp: Engine['exp'] = (a) => this.#ops.one('exp', a);
  readonly sum: Engine['sum'] = (a, axis) =>
    axis === undefined ? this.#ops.one('sum', a) : this.#ops.one('sum.dim_IntList', a, [axis]);
  readonly norm: Engine['norm'] = (a) => this.#ops.one('linalg_vector_norm', a, 2, [-1]);
  readonly matmul: Engine['matmul'] = (a, b) => this.#ops.one('matmul', a, b);
  readonly logSoftmax: Engine['logSoftmax'] = (a) => this.#ops.one('log_softmax.int', a, -1);
  readonly logSumExp: Engine['logSumExp'] = (a, axis) => this.#ops.one('logsumexp', a, [axis]);

  // ---- neural network --------------------------------------------------------------------------------

  readonly linear: Engine['linear'] = (x, weight, bias) =>
    this.#ops.one('timeseer::linear', x, weight, bias ?? null);
  readonly rmsNorm: Engine['rmsNorm'] = (x, weight, epsilon) =>
    this.#arena.scope(() => network.rmsNorm(this.#ops, x, weight, epsilon));
  readonly addNorm: Engine['addNorm'] = (x, y, weight, epsilon) =>
    this.#arena.scope(() => network.addNorm(this.#ops, x, y, weight, epsilon));
  readonly rotary: Engine['rotary'] = (x, cos, sin) =>
    this.#arena.scope(() => network.rotary(this.#ops, x, cos, sin));
  readonly attention: Engine['attention'] = (input) =>
    this.#arena.scope(() => network.attention(this.#ops, input));
  readonly attentionStep: Engine['attentionStep'] = (input) =>
    this.#inScope(() => network.attentionStep(this.#ops, input));
  readonly swiglu: Engine['swiglu'] = (gateUp) => this.#arena.scope(() => network.swiglu(this.#ops, gateUp));
  readonly gelu: Engine['gelu'] = (x) => this.#ops.one('gelu', x);
  readonly logProbs: Engine['logProbs'] = (hidden, head, targets, options = {}) =>
    this.#arena.scope(() => network.logProbs(this.#ops, hidden, head, targets, options));

  sample(logits: Tensor, options: SampleOptions): { ids: Tensor; logProbs: Tensor } {
    return this.#inScope(() => network.sample(this.#ops, logits, options));
  }

  record(body: () => void): Recording | null {
    const { native, device } = this.#ops;
    if (!native.canRecord(device)) return null;
    const thrown: unknown[] = [];
    const run = (): void => {
      try {
        this.#inScope(body);
      } catch (error) {
        thrown.push(error);
        throw error;
      }
    };
    let id: number;
    try {
      id = native.record(device, run);
    } catch (cause) {
      throw thrown.length > 0 ? thrown[0] : this.#ops.error('record', [], cause);
    }
    let disposed = false;
    return {
      replay: () => {
        if (disposed) throw new EngineError('replay: the recording was already disposed of');
        this.#ops.attempt('replay', [], () => native.replay(id));
      },
      dispose() {
        if (!disposed) native.freeRecording(id);
        disposed = true;
      },
    };
  }

  readonly sinkhorn: Engine['sinkhorn'] = (input) => this.#inScope(() => network.sinkhorn(this.#ops, input));
  readonly adamW: Engine['adamW'] = (state, options) =>
    this.#inScope(() => network.adamW(this.#ops, state, options));
}

function dtypeOf(values: HostArray): DType {
  if (values instanceof Float32Array) return 'float32';
  if (values instanceof Float64Array) return 'float64';
  return values instanceof Int32Array ? 'int64' : 'bool';
}
