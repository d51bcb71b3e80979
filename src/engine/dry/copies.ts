/** ATen's operators that copy elements from place to place, without elements: what they allocate, and their gradients. */
import type { DType } from '../engine.ts';
import type { Backward, Kernels } from './kernels.ts';
import { type DryTensor, likeStrides } from './tensor.ts';
import { viewed } from './views.ts';

export function contiguous(kernels: Kernels, tensor: DryTensor): DryTensor {
  const back: Backward = (gradient) => [gradient.view()];
  if (tensor.contiguous) return viewed(kernels, tensor, tensor.shape, tensor.strides, back);
  return kernels.record([tensor], kernels.empty(tensor.shape, tensor.dtype), [], back);
}

export function clone(kernels: Kernels, tensor: DryTensor): DryTensor {
  const strides = likeStrides(tensor.shape, tensor);
  return kernels.record([tensor], kernels.empty(tensor.shape, tensor.dtype, strides), [], (gradient) => [
    gradient.view(),
  ]);
}

export function cast(kernels: Kernels, tensor: DryTensor, dtype: DType): DryTensor {
  if (tensor.dtype === dtype) {
    return viewed(kernels, tensor, tensor.shape, tensor.strides, (gradient) => [gradient.view()]);
  }
  const out = kernels.empty(tensor.shape, dtype, likeStrides(tensor.shape, tensor));
  return kernels.record([tensor], out, [], (gradient) => [cast(kernels, gradient, tensor.dtype)]);
}

export function cat(kernels: Kernels, tensors: readonly DryTensor[], axis: number): DryTensor {
  const at = axis < 0 ? axis + tensors[0]!.shape.length : axis;
  const shape = [...tensors[0]!.shape];
  shape[at] = tensors.reduce((sum, tensor) => sum + tensor.shape[at]!, 0);
  return kernels.record(tensors, kernels.empty(shape, tensors[0]!.dtype), [], (gradient, wanted) =>
    tensors.map((tensor, i) => {
      if (!wanted[i]) return null;
      const part = gradient.view(tensor.shape, gradient.strides);
      part.derived = true;
      return part;
    }),
  );
}

/** The gradient is as large as the whole, whatever was taken from it. */
export function rows(kernels: Kernels, tensor: DryTensor, index: DryTensor): DryTensor {
  const out = kernels.empty([index.size, ...tensor.shape.slice(1)], tensor.dtype);
  return kernels.record([tensor], out, [index], () => {
    const whole = kernels.empty(tensor.shape, tensor.dtype);
    // Rows of 16 bits are added up in float32.
    if (kernels.cpu && kernels.modern && tensor.dtype === 'bfloat16')
      kernels.like(tensor, 'float32').release();
    return [whole];
  });
}

export function placeRows(
  kernels: Kernels,
  tensor: DryTensor,
  index: DryTensor,
  source: DryTensor,
): DryTensor {
  return kernels.record([tensor, source], kernels.empty(tensor.shape, tensor.dtype), [index], (_, wanted) => [
    wanted[0] ? kernels.empty(tensor.shape, tensor.dtype) : null,
    wanted[1] ? kernels.empty(source.shape, source.dtype) : null,
  ]);
}

export function gather(kernels: Kernels, tensor: DryTensor, index: DryTensor): DryTensor {
  return kernels.record([tensor], kernels.empty(index.shape, tensor.dtype), [index], () => [
    kernels.empty(tensor.shape, tensor.dtype),
  ]);
}
