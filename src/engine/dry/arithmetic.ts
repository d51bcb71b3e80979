/**
 * ATen's elementwise operators and sums without elements. Keeping follows libtorch's derivative formulas: a product of two
 * keeps both factors (each where the other one's gradient is wanted), a sum nothing.
 */
import type { Backward, Given, Kernels } from './kernels.ts';
import { broadcast, type DryTensor, likeStrides, promoted } from './tensor.ts';
import { expand, reshape } from './views.ts';

/** The result of an elementwise operation on two tensors, whatever is kept of them. */
export function pair(kernels: Kernels, a: DryTensor, b: DryTensor): DryTensor {
  const dtype = promoted(a, b);
  const shape = broadcast(a.shape, b.shape);
  const copies = kernels.cpu ? [a, b].filter((t) => t.dtype !== dtype && t.shape.length > 0) : [];
  const held = copies.map((t) => kernels.empty(t.shape, dtype));
  const model = a.size >= b.size ? a : b;
  const out = kernels.empty(shape, dtype, likeStrides(shape, model));
  for (const copy of held) copy.release();
  return out;
}

/** a + b, a − b: nothing is kept, and the gradient passes on as it is, or negated. */
export function add(kernels: Kernels, a: DryTensor, b: DryTensor, negated = false): DryTensor {
  return kernels.record([a, b], pair(kernels, a, b), [], (gradient, wanted) => [
    wanted[0] ? gradient.view() : null,
    wanted[1] ? (negated ? kernels.like(gradient) : gradient.view()) : null,
  ]);
}

export function mul(kernels: Kernels, a: DryTensor, b: DryTensor): DryTensor {
  const saved = [kernels.tracks(b) ? a.view() : null, kernels.tracks(a) ? b.view() : null];
  const [left, right] = saved as [Given, Given];
  const out = kernels.record([a, b], pair(kernels, a, b), saved, (gradient, wanted) => [
    wanted[0] ? pair(kernels, gradient, right!) : null,
    wanted[1] ? pair(kernels, gradient, left!) : null,
  ]);
  for (const one of saved) one?.release();
  return out;
}

/** As `mul`; the gradient of the divisor goes through one more tensor. */
export function div(kernels: Kernels, a: DryTensor, b: DryTensor): DryTensor {
  return kernels.record(
    [a, b],
    pair(kernels, a, b),
    [kernels.tracks(b) ? a : null, b],
    (gradient, wanted) => {
      const first = wanted[0] ? pair(kernels, gradient, b) : null;
      if (!wanted[1]) return [first, null];
      const square = pair(kernels, gradient, a);
      const second = pair(kernels, square, b);
      square.release();
      return [first, second];
    },
  );
}

export function minimum(kernels: Kernels, a: DryTensor, b: DryTensor): DryTensor {
  return kernels.record([a, b], pair(kernels, a, b), [a, b], (gradient, wanted) =>
    wanted.map((one) => (one ? kernels.like(gradient) : null)),
  );
}

/** Elementwise; `keeps`: its argument, its result or nothing. */
export function unary(
  kernels: Kernels,
  tensor: DryTensor,
  keeps: 'input' | 'output' | 'nothing',
  backward?: Backward,
): DryTensor {
  const out = kernels.like(tensor);
  const saved = keeps === 'input' ? [tensor] : keeps === 'output' ? [out] : [];
  return kernels.record([tensor], out, saved, backward ?? ((gradient) => [kernels.like(gradient)]));
}

/** Sums over `axes`, of all when absent; the gradient is the sum's, expanded. */
export function sum(kernels: Kernels, tensor: DryTensor, axes?: readonly number[], keep = false): DryTensor {
  const rank = tensor.shape.length;
  const over = new Set(
    (axes ?? tensor.shape.map((_, i) => i)).map((axis) => (axis < 0 ? axis + rank : axis)),
  );
  const kept = tensor.shape.map((size, i) => (over.has(i) ? 1 : size));
  const shape = keep ? kept : tensor.shape.filter((_, i) => !over.has(i));
  return kernels.record([tensor], kernels.empty(shape, tensor.dtype), [], (gradient) => {
    const open = reshape(kernels, gradient, kept);
    const wide = expand(kernels, open, tensor.shape);
    open.release();
    return [wide];
  });
}
