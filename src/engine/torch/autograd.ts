/** Automatic differentiation, as the contract's methods of these names. */
import { EngineError } from '../../errors.ts';
import type { Tensor } from '../engine.ts';
import { isThenable } from './arena.ts';
import type { Operators } from './operators.ts';

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
