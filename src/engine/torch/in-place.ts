/** Writing into parts of tensors, unseen by autograd. */
import { EngineError } from '../../errors.ts';
import type { Tensor } from '../engine.ts';
import { noGrad } from './autograd.ts';
import { type Operators, sameShape, shapeText } from './operators.ts';

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

/** As `Engine.write`. */
export function write(ops: Operators, tensor: Tensor, axis: number, start: number, source: Tensor): void {
  onRange(ops, 'write', 'copy_', tensor, axis, start, source);
}

/** As `Engine.indexCopyInto`. */
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

/** As `Engine.addInto`. */
export function addInto(ops: Operators, tensor: Tensor, axis: number, start: number, source: Tensor): void {
  onRange(ops, 'addInto', 'add_.Tensor', tensor, axis, start, source);
}
