/** Automatic differentiation, writing in place behind its back, and CUDA graphs, as the contract's methods of these names. */
import { EngineError } from '../../ground/errors.ts';
import type { Recording, Tensor } from '../engine.ts';
import { isThenable } from './arena.ts';
import { type Operators, sameShape, shapeText } from './operators.ts';

export function parameter(ops: Operators, tensor: Tensor): Tensor {
  const handle = ops.handle(tensor, 'parameter');
  try {
    return ops.arena.adopt(ops.native.parameter(handle));
  } catch (cause) {
    throw ops.error('parameter', [tensor], cause);
  }
}

export function noGrad<T>(ops: Operators, body: () => T): T {
  const before = ops.native.gradMode(false);
  try {
    const result = body();
    if (isThenable(result)) {
      result.then(undefined, () => {});
      throw new EngineError('noGrad: the body returned a Promise; noGrad is synchronous, await outside it');
    }
    return result;
  } finally {
    ops.native.gradMode(before);
  }
}

export function grad(
  ops: Operators,
  output: Tensor | readonly Tensor[],
  inputs: readonly Tensor[],
  outputGrad: Tensor | readonly Tensor[],
): Tensor[] {
  const handles = (tensors: Tensor | readonly Tensor[]): number[] =>
    (Array.isArray(tensors) ? tensors : [tensors]).map((tensor) => ops.handle(tensor, 'grad'));
  const [outputs, seeds] = [handles(output), handles(outputGrad)];
  try {
    return ops.native.grad(outputs, handles(inputs), seeds).map((handle) => ops.arena.adopt(handle));
  } catch (cause) {
    throw ops.error('grad', [output, outputGrad], cause);
  }
}

/** Calls an operator in place on the range of `tensor` that `source` covers. */
function onRange(
  ops: Operators,
  where: string,
  operator: string,
  tensor: Tensor,
  axis: number,
  start: number,
  source: Tensor,
): void {
  ops.check(where, [tensor, source]);
  noGrad(ops, () =>
    ops.arena.scope(() => {
      const target = ops.one('narrow', tensor, axis, start, source.shape.at(axis) ?? 1);
      if (!sameShape(target, source)) {
        throw new EngineError(`${where}: target ${shapeText(target)} and source ${shapeText(source)} differ`);
      }
      ops.inPlace(operator, target, source);
    }),
  );
}

/** Implements `Engine.write`. */
export function write(ops: Operators, tensor: Tensor, axis: number, start: number, source: Tensor): void {
  onRange(ops, 'write', 'copy_', tensor, axis, start, source);
}

/** Implements `Engine.indexCopyInto`. */
export function indexCopyInto(
  ops: Operators,
  tensor: Tensor,
  axis: number,
  index: Tensor,
  source: Tensor,
): void {
  ops.check('indexCopyInto', [tensor, index, source]);
  noGrad(ops, () =>
    ops.arena.scope(() => {
      const same = source.dtype === tensor.dtype ? source : ops.one('to.dtype', source, tensor.dtype);
      ops.inPlace('index_copy_', tensor, axis, index, same);
    }),
  );
}

/** Implements `Engine.addInto`. */
export function addInto(ops: Operators, tensor: Tensor, axis: number, start: number, source: Tensor): void {
  onRange(ops, 'addInto', 'add_.Tensor', tensor, axis, start, source);
}

/** Implements `Engine.record`: device work that is recorded once and replayed. Here `body` is simply called. */
export function record(ops: Operators, body: () => void): Recording | null {
  const { native, device } = ops;
  if (!native.canRecord(device)) return null;
  const thrown: unknown[] = [];
  const run = (): void => {
    try {
      body();
    } catch (error) {
      thrown.push(error);
      throw error;
    }
  };
  let id: number;
  try {
    id = native.record(device, run);
  } catch (cause) {
    throw thrown.length > 0 ? thrown[0] : ops.error('record', [], cause);
  }
  let disposed = false;
  return {
    replay() {
      if (disposed) throw new EngineError('replay: the recording was already disposed of');
      try {
        native.replay(id);
      } catch (cause) {
        throw ops.error('replay', [], cause);
      }
    },
    dispose() {
      if (!disposed) native.freeRecording(id);
      disposed = true;
    },
  };
}
