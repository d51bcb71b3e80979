/** The tfjs engine: the contract over TensorFlow.js, which npm alone brings. It computes in float32. */
import { cpus, totalmem } from 'node:os';
import { EngineError } from '../../ground/errors.ts';
import { checkSynchronous } from '../arena.ts';
import { checkAddNorm, fileProblem, partOfFile, shapeText } from '../checks.ts';
import {
  type DType,
  ELEMENT_BYTES,
  type Engine,
  type EngineInfo,
  type HostArray,
  type MemoryUse,
  type Recording,
  type Tensor,
} from '../engine.ts';
import * as arithmetic from './arithmetic.ts';
import { attention, attentionStep } from './attention.ts';
import { type Backend, backend, LARGEST_HEAP } from './backend.ts';
import { sizeOf } from './heap.ts';
import * as network from './network.ts';
import { DEVICE, Operations } from './operations.ts';
import * as shape from './shape.ts';
import { openSharing } from './sharing.ts';
import type { TfjsTensor } from './tape.ts';

/** Loads the backend of this thread. Workers that it starts later can share tensors. @throws EngineError where there is none that starts */
export async function prepareTfjs(): Promise<Backend> {
  openSharing();
  return backend();
}

/** Opens the engine in this thread. @throws EngineError where TensorFlow.js is missing or does not start */
export async function openTfjs(): Promise<TfjsEngine> {
  return new TfjsEngine(await prepareTfjs());
}

export class TfjsEngine implements Engine {
  readonly info: EngineInfo;
  readonly #ops: Operations;
  #tracking = false;

  constructor(backend: Backend) {
    this.#ops = new Operations(backend);
    this.info = {
      name: 'tfjs',
      version: backend.version,
      device: DEVICE,
      threads: 1,
      blas: backend.name,
      deviceName: cpus()[0]?.model.trim() || DEVICE,
      memoryTotal: Math.min(totalmem(), LARGEST_HEAP),
    };
  }

  // ---- ownership and transfer ------------------------------------------------------------------------

  tensor(values: HostArray, sizes: readonly number[]): Tensor {
    return this.#ops.run('tensor', [sizes], () => {
      const dtype = dtypeOf(values);
      checkSizes(sizes);
      if (values.length !== sizeOf(sizes)) {
        throw new Error(`data has ${values.length} elements, the shape wants ${sizeOf(sizes)}`);
      }
      return this.#ops.adopt(this.#ops.heap.from(values, [...sizes], dtype));
    });
  }

  zeros(sizes: readonly number[], dtype: DType = 'float32'): Tensor {
    return this.#ops.run('zeros', [sizes, dtype], () => {
      checkSizes(sizes);
      checkDType(dtype);
      return this.#ops.adopt(this.#ops.heap.zeros([...sizes], dtype));
    });
  }

  fromFile(file: string, offset: number, sizes: readonly number[], dtype: DType): Tensor {
    const bytes = partOfFile(file, offset, sizes, dtype);
    return this.#ops.run('fromFile', [], () => {
      const width = ELEMENT_BYTES[dtype];
      const { heap } = this.#ops;
      if (dtype === 'int64') {
        const words = new BigInt64Array(bytes.buffer);
        try {
          return this.#ops.adopt(heap.from(Array.from(words, Number), sizes, dtype));
        } catch (cause) {
          throw fileProblem(file, offset, sizes, dtype, (cause as Error).message, cause);
        }
      }
      const view = heap.make([...sizes], dtype);
      new Uint8Array(heap.backend.memory.buffer, heap.address(view), sizeOf(sizes) * width).set(bytes);
      return this.#ops.adopt(view);
    });
  }

  bytes(tensor: Tensor): Uint8Array {
    const { view } = this.#ops.of(tensor, 'bytes');
    return this.#ops.run('bytes', [tensor], () => {
      const raw = this.#ops.heap.raw(this.#ops.heap.dense(view));
      const stored = view.dtype === 'int64' ? BigInt64Array.from(raw as Int32Array, BigInt) : raw;
      return new Uint8Array(stored.buffer, stored.byteOffset, stored.byteLength).slice();
    });
  }

  readonly floats: Engine['floats'] = (tensor) => this.#read(tensor, (values) => Float32Array.from(values));
  readonly doubles: Engine['doubles'] = (tensor) => this.#read(tensor, (values) => Float64Array.from(values));

  ints(tensor: Tensor): Int32Array {
    const { dtype } = this.#ops.of(tensor, 'ints');
    if (dtype !== 'int64' && dtype !== 'bool') {
      throw new EngineError(`ints: expected an int64 or bool tensor, got ${dtype}`);
    }
    return this.#read(tensor, (values) => Int32Array.from(values));
  }

  #read<A>(tensor: Tensor, copy: (values: Float32Array) => A): A {
    const { view } = this.#ops.of(tensor, 'read');
    return this.#ops.run('read', [tensor], () => copy(this.#ops.heap.numbers(view) as Float32Array));
  }

  item(tensor: Tensor): number {
    const values = this.doubles(tensor);
    if (values.length !== 1)
      throw new EngineError(`item: expected one element, got shape ${shapeText(tensor)}`);
    return values[0]!;
  }

  readonly scope: Engine['scope'] = (body) => this.#ops.arena.scope(body);
  readonly unscoped: Engine['unscoped'] = (body) => this.#ops.arena.unscoped(body);

  dispose(...tensors: readonly Tensor[]): void {
    this.#ops.arena.dispose(tensors.map((tensor) => this.#ops.of(tensor, 'dispose')));
  }

  readonly live: Engine['live'] = () => this.#ops.arena.live;

  cast(tensor: Tensor, dtype: DType): Tensor {
    const x = this.#ops.of(tensor, 'to.dtype');
    return this.#ops.run('to.dtype', [tensor, dtype], () => {
      checkDType(dtype);
      const { heap } = this.#ops;
      const from = x.view.dtype;
      const out = heap.cast(x.view, dtype);
      return this.#ops.emit('cast', [x], [out], [], ([g]) => [heap.cast(g!, from)])[0]!;
    });
  }

  readonly allFinite: Engine['allFinite'] = (tensor) => arithmetic.allFinite(this.#ops, tensor);

  trackMemory(): void {
    this.#tracking = true;
    this.#ops.heap.peak = this.#ops.heap.now;
  }

  memory(): MemoryUse | null {
    const { now, peak } = this.#ops.heap;
    return this.#tracking ? { now, peak } : null;
  }

  readonly synchronize: Engine['synchronize'] = () => {};

  share(tensor: Tensor): number {
    const { view } = this.#ops.of(tensor, 'share');
    return this.#ops.run('share', [tensor], () => this.#ops.heap.share(view));
  }

  readonly attach: Engine['attach'] = (ticket) =>
    this.#ops.run('attach', [ticket], () => this.#ops.adopt(this.#ops.heap.attach(ticket)));
  readonly unshare: Engine['unshare'] = (ticket) =>
    this.#ops.run('unshare', [ticket], () => this.#ops.heap.unshare(ticket));

  // ---- autograd --------------------------------------------------------------------------------------

  parameter(tensor: Tensor): Tensor {
    const x = this.#ops.of(tensor, 'parameter');
    return this.#ops.run('parameter', [tensor], () => {
      if (x.dtype === 'int64' || x.dtype === 'bool' || x.dtype === 'uint8') {
        throw new Error('only float tensors have gradients');
      }
      return this.#ops.adopt(x.view, this.#ops.tape.leaf());
    });
  }

  readonly detach: Engine['detach'] = (tensor) => this.#ops.adopt(this.#ops.of(tensor, 'detach').view);

  noGrad<T>(body: () => T): T {
    const { tape } = this.#ops;
    const before = tape.recording;
    tape.recording = false;
    try {
      const result = body();
      checkSynchronous('noGrad', 'noGrad is synchronous', result);
      return result;
    } finally {
      tape.recording = before;
    }
  }

  grad(
    output: Tensor | readonly Tensor[],
    inputs: readonly Tensor[],
    outputGrad: Tensor | readonly Tensor[] = [],
  ): Tensor[] {
    const all = (tensors: Tensor | readonly Tensor[]): TfjsTensor[] =>
      [tensors].flat().map((tensor) => this.#ops.of(tensor, 'grad'));
    const [outputs, seeds, wanted] = [all(output), all(outputGrad), all(inputs)];
    return this.#ops.run('grad', [output, outputGrad], () => {
      const { heap } = this.#ops;
      if (seeds.length > 0 && seeds.length !== outputs.length) {
        throw new Error(`${outputs.length} outputs need as many gradients, got ${seeds.length}`);
      }
      const views = outputs.map(({ view: { shape, dtype }, edge }, i) => {
        const seed = seeds[i]?.view;
        if (seed === undefined && edge !== null && sizeOf(shape) !== 1) {
          throw new Error('an output of several values needs a gradient of its shape');
        }
        if (seed !== undefined && seed.shape.join() !== shape.join()) {
          throw new Error(`an output [${shape}] needs a gradient of its shape, got [${seed.shape}]`);
        }
        return seed === undefined
          ? heap.from(new Float32Array(sizeOf(shape)).fill(1), shape, dtype)
          : heap.cast(seed, dtype);
      });
      return this.#ops.tape.grad(outputs, views, wanted).map((view) => {
        const tensor = this.#ops.adopt(view);
        heap.let(view.storage);
        return tensor;
      });
    });
  }

  // ---- shape -----------------------------------------------------------------------------------------

  readonly reshape: Engine['reshape'] = (tensor, sizes) => shape.reshape(this.#ops, tensor, sizes);
  readonly permute: Engine['permute'] = (tensor, order) => shape.permute(this.#ops, tensor, order);
  readonly concat: Engine['concat'] = (tensors, axis) => shape.concat(this.#ops, tensors, axis);
  readonly narrow: Engine['narrow'] = (tensor, axis, start, length) =>
    shape.narrow(this.#ops, tensor, axis, start, length);
  readonly split: Engine['split'] = (tensor, sizes, axis) => shape.split(this.#ops, tensor, sizes, axis);
  readonly indexSelect: Engine['indexSelect'] = (tensor, index) =>
    shape.indexSelect(this.#ops, tensor, index);
  readonly indexCopy: Engine['indexCopy'] = (tensor, index, source) =>
    shape.indexCopy(this.#ops, tensor, index, source);
  readonly write: Engine['write'] = (tensor, axis, start, source) =>
    shape.onRange(this.#ops, 'write', tensor, axis, start, source);
  readonly addInto: Engine['addInto'] = (tensor, axis, start, source) =>
    shape.onRange(this.#ops, 'addInto', tensor, axis, start, source);
  readonly indexCopyInto: Engine['indexCopyInto'] = (tensor, axis, index, source) =>
    shape.indexCopyInto(this.#ops, tensor, axis, index, source);

  // ---- arithmetic ------------------------------------------------------------------------------------

  readonly add: Engine['add'] = (a, b) => arithmetic.binary(this.#ops, 'add', a, b);
  readonly sub: Engine['sub'] = (a, b) => arithmetic.binary(this.#ops, 'sub', a, b);
  readonly mul: Engine['mul'] = (a, b) => arithmetic.binary(this.#ops, 'mul', a, b);
  readonly div: Engine['div'] = (a, b) => arithmetic.binary(this.#ops, 'div', a, b);
  readonly minimum: Engine['minimum'] = (a, b) => arithmetic.minimum(this.#ops, a, b);
  readonly clamp: Engine['clamp'] = (a, lo, hi) => arithmetic.clamp(this.#ops, a, lo, hi);
  readonly exp: Engine['exp'] = (a) => arithmetic.exp(this.#ops, a);
  readonly sum: Engine['sum'] = (a, axis) => arithmetic.sum(this.#ops, a, axis);
  readonly norm: Engine['norm'] = (a) => arithmetic.norm(this.#ops, a);
  readonly matmul: Engine['matmul'] = (a, b) => arithmetic.matmul(this.#ops, a, b);
  readonly logSoftmax: Engine['logSoftmax'] = (a) => arithmetic.logSoftmax(this.#ops, a);
  readonly logSumExp: Engine['logSumExp'] = (a, axis) => arithmetic.logSumExp(this.#ops, a, axis);

  // ---- neural network --------------------------------------------------------------------------------

  readonly linear: Engine['linear'] = (x, weight, bias) => network.linear(this.#ops, x, weight, bias);
  readonly rmsNorm: Engine['rmsNorm'] = (x, weight, epsilon) =>
    network.rmsNorm(this.#ops, x, weight, epsilon);
  readonly addNorm: Engine['addNorm'] = (x, y, weight, epsilon) => {
    checkAddNorm(x, y, weight);
    const sum = this.add(x, y);
    return { sum, normed: this.rmsNorm(sum, weight, epsilon) };
  };
  readonly rotary: Engine['rotary'] = (x, cos, sin) => network.rotary(this.#ops, x, cos, sin);
  readonly attention: Engine['attention'] = (input) => attention(this.#ops, input);
  readonly attentionStep: Engine['attentionStep'] = (input) => attentionStep(this.#ops, input);
  readonly swiglu: Engine['swiglu'] = (gateUp) => network.swiglu(this.#ops, gateUp);
  readonly gelu: Engine['gelu'] = (x) => network.gelu(this.#ops, x);
  readonly logProbs: Engine['logProbs'] = (hidden, head, targets, options = {}) =>
    network.logProbs(this.#ops, hidden, head, targets, options);
  readonly sample: Engine['sample'] = (logits, options) => network.sample(this.#ops, logits, options);
  readonly sinkhorn: Engine['sinkhorn'] = (input) => network.sinkhorn(this.#ops, input);
  readonly adamW: Engine['adamW'] = (state, options) => network.adamW(this.#ops, state, options);

  record(): Recording | null {
    return null;
  }
}

function dtypeOf(values: HostArray): DType {
  if (values instanceof Float32Array) return 'float32';
  if (values instanceof Float64Array) return 'float64';
  if (values instanceof Int32Array) return 'int64';
  if (values instanceof Uint8Array) return 'bool';
  throw new Error('data must be a typed array: Float32Array, Float64Array, Int32Array or Uint8Array');
}

function checkDType(dtype: DType): void {
  if (ELEMENT_BYTES[dtype] === undefined) throw new Error(`unknown dtype '${dtype}'`);
}

function checkSizes(sizes: readonly number[]): void {
  if (!Array.isArray(sizes)) throw new Error('a shape is an array of sizes');
  if (!sizes.every(Number.isInteger)) throw new Error('each size must be an integer');
  if (sizes.some((size) => size < 0)) throw new Error('a size is negative');
  if (!Number.isSafeInteger(sizeOf(sizes))) throw new Error(`no memory holds ${sizeOf(sizes)} elements`);
}
