/** Tensors whose storage engines of several threads share, as the contract's methods of these names. */
import type { Tensor } from '../engine.ts';
import type { Operators } from './operators.ts';

export function share(ops: Operators, tensor: Tensor): number {
  const handle = ops.handle(tensor, 'share');
  try {
    return ops.native.share(handle);
  } catch (cause) {
    throw ops.error('share', [tensor], cause);
  }
}

export function attach(ops: Operators, ticket: number): Tensor {
  try {
    return ops.arena.adopt(ops.native.attach(ticket));
  } catch (cause) {
    throw ops.error('attach', [ticket], cause);
  }
}

export function unshare(ops: Operators, ticket: number): void {
  try {
    ops.native.unshare(ticket);
  } catch (cause) {
    throw ops.error('unshare', [ticket], cause);
  }
}
