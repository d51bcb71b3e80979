/** ATen's view operators without elements: the same storage under another shape, and the gradient's way back through it. */
import type { Backward, Kernels } from './kernels.ts';
import { count, type DryTensor, type Shape, sameShape, viewStrides } from './tensor.ts';

export function viewed(
  kernels: Kernels,
  tensor: DryTensor,
  shape: Shape,
  strides: Shape,
  backward: Backward,
): DryTensor {
  const view = tensor.view(shape, strides);
  view.derived = true;
  return kernels.record([tensor], view, [], backward);
}

/** A shape whose size of −1 is what the others leave. */
function completed(wanted: Shape, size: number): Shape {
  const known = -count(wanted);
  return wanted.map((one) => (one === -1 ? size / known : one));
}

export function reshape(kernels: Kernels, tensor: DryTensor, wanted: Shape): DryTensor {
  const shape = wanted.includes(-1) ? completed(wanted, tensor.size) : wanted;
  if (count(shape) !== tensor.size) {
    throw new Error(`shape [${shape.join()}] is invalid for input of size ${tensor.size}`);
  }
  const back: Backward = (gradient) => [reshape(kernels, gradient, tensor.shape)];
  const strides = viewStrides(tensor, shape);
  if (strides !== null) return viewed(kernels, tensor, shape, strides, back);
  return kernels.record([tensor], kernels.empty(shape, tensor.dtype), [], back);
}

export function permute(kernels: Kernels, tensor: DryTensor, order: readonly number[]): DryTensor {
  const back = order.map((_, axis) => order.indexOf(axis));
  return viewed(
    kernels,
    tensor,
    order.map((axis) => tensor.shape[axis]!),
    order.map((axis) => tensor.strides[axis]!),
    (gradient) => [permute(kernels, gradient, back)],
  );
}

export function transpose(kernels: Kernels, tensor: DryTensor, a: number, b: number): DryTensor {
  const order = tensor.shape.map((_, axis) => (axis === a ? b : axis === b ? a : axis));
  return permute(kernels, tensor, order);
}

/** The gradient of a cut is zeros of the whole with the cut's gradient in its place. */
export function narrow(kernels: Kernels, tensor: DryTensor, axis: number, length: number): DryTensor {
  const at = axis < 0 ? axis + tensor.shape.length : axis;
  const shape = tensor.shape.map((size, i) => (i === at ? length : size));
  if (length > tensor.shape[at]! || length < 0) {
    throw new Error(`length ${length} exceeds dimension size ${tensor.shape[at]}`);
  }
  return viewed(kernels, tensor, shape, tensor.strides, () => [kernels.empty(tensor.shape, tensor.dtype)]);
}

export function split(
  kernels: Kernels,
  tensor: DryTensor,
  sizes: readonly number[],
  axis: number,
): DryTensor[] {
  const parts = sizes.map((size) =>
    tensor.view(
      tensor.shape.map((whole, i) => (i === axis ? size : whole)),
      tensor.strides,
    ),
  );
  kernels.recordAll([tensor], parts, [], (given) => {
    const whole = given.map((gradient, i) => gradient ?? kernels.empty(parts[i]!.shape, tensor.dtype));
    const joined = kernels.empty(tensor.shape, tensor.dtype);
    whole.forEach((part, i) => {
      if (given[i] === null) part.release();
    });
    return [joined];
  });
  return parts;
}

/** Sums a gradient over the axes that were broadcast. */
export function summed(kernels: Kernels, tensor: DryTensor, shape: Shape): DryTensor {
  if (sameShape(tensor.shape, shape)) return tensor.view();
  return kernels.empty(shape, tensor.dtype);
}

export function expand(kernels: Kernels, tensor: DryTensor, shape: Shape): DryTensor {
  const lead = shape.length - tensor.shape.length;
  const strides = shape.map((size, i) =>
    i < lead || (tensor.shape[i - lead] === 1 && size !== 1) ? 0 : tensor.strides[i - lead]!,
  );
  return viewed(kernels, tensor, shape, strides, (gradient) => [summed(kernels, gradient, tensor.shape)]);
}

export function unsqueeze(kernels: Kernels, tensor: DryTensor, axis: number): DryTensor {
  const shape = [...tensor.shape.slice(0, axis), 1, ...tensor.shape.slice(axis)];
  const step = axis < tensor.shape.length ? tensor.shape[axis]! * tensor.strides[axis]! : 1;
  const strides = [...tensor.strides.slice(0, axis), step, ...tensor.strides.slice(axis)];
  return viewed(kernels, tensor, shape, strides, (gradient) => [reshape(kernels, gradient, tensor.shape)]);
}

export function squeeze(kernels: Kernels, tensor: DryTensor, axis: number): DryTensor {
  const without = (values: Shape): number[] => values.filter((_, i) => i !== axis);
  return viewed(kernels, tensor, without(tensor.shape), without(tensor.strides), (gradient) => [
    unsqueeze(kernels, gradient, axis),
  ]);
}
