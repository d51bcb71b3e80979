/** ATen's products of matrices without elements: they keep each factor where the other one's gradient is wanted. */
import type { Given, Kernels } from './kernels.ts';
import { broadcast, count, type DryTensor } from './tensor.ts';
import { expand, reshape } from './views.ts';

/** New, but held as a view of itself. */
function derived(kernels: Kernels, like: DryTensor): DryTensor {
  const out = kernels.empty(like.shape, like.dtype);
  out.derived = true;
  return out;
}

/** A processor arranges matrices of 16 bits anew for its products. */
function arranged(kernels: Kernels, weight: DryTensor): void {
  if (kernels.cpu && weight.dtype === 'bfloat16') kernels.like(weight).release();
}

/** x [..., I] · weightᵀ [O, I] + bias. The weight's gradient is that of its transpose, transposed. */
export function linear(kernels: Kernels, x: DryTensor, weight: DryTensor, bias: Given): DryTensor {
  const out = kernels.empty([...x.shape.slice(0, -1), weight.shape[0]!], x.dtype);
  arranged(kernels, weight);
  const saved = [kernels.tracks(weight) ? x : null, kernels.tracks(x) ? weight : null];
  return kernels.record([x, weight, bias], out, saved, (_, wanted) => {
    const gradients = [
      wanted[0] ? kernels.empty(x.shape, x.dtype) : null,
      wanted[1] ? derived(kernels, weight) : null,
      wanted[2] ? kernels.empty(bias!.shape, bias!.dtype) : null,
    ];
    arranged(kernels, weight);
    return gradients;
  });
}

/** Products of matrices, batch by batch: [N, R, K] · [N, K, C]; with `scale` its gradients are scaled by one more pass. */
export function products(kernels: Kernels, a: DryTensor, b: DryTensor, scale = 1): DryTensor {
  const [n, rows] = a.shape as [number, number];
  const out = kernels.empty([n, rows, b.shape[2]!], a.dtype);
  const saved = [kernels.tracks(b) ? a : null, kernels.tracks(a) ? b : null];
  const back = (like: DryTensor): DryTensor => {
    const plain = kernels.empty(like.shape, like.dtype);
    if (scale === 1) return plain;
    const scaled = kernels.like(plain);
    plain.release();
    return scaled;
  };
  return kernels.record([a, b], out, saved, (_, wanted) => [
    wanted[0] ? back(a) : null,
    wanted[1] ? back(b) : null,
  ]);
}

/** As ATen's: batches of matrices are flattened, by copying where their strides ask for it. */
export function matmul(kernels: Kernels, a: DryTensor, b: DryTensor): DryTensor {
  if (a.shape.length <= 2 && b.shape.length <= 2) {
    if (a.shape.length !== 2 || b.shape.length !== 2) throw new Error('matmul of vectors');
    const out = kernels.empty([a.shape[0]!, b.shape[1]!], a.dtype);
    const saved = [kernels.tracks(b) ? a : null, kernels.tracks(a) ? b : null];
    return kernels.record([a, b], out, saved, (_, wanted) =>
      [a, b].map((one, i) => (wanted[i] ? kernels.empty(one.shape, one.dtype) : null)),
    );
  }
  const batch = broadcast(a.shape.slice(0, -2), b.shape.slice(0, -2));
  const flat = (x: DryTensor): DryTensor => {
    const inner = x.shape.slice(-2);
    const wide = expand(kernels, x, [...batch, ...inner]);
    const out = reshape(kernels, wide, [count(batch), ...inner]);
    wide.release();
    return out;
  };
  const [left, right] = [flat(a), flat(b)];
  const out = products(kernels, left, right);
  left.release();
  right.release();
  const shaped = reshape(kernels, out, [...batch, a.shape.at(-2)!, b.shape.at(-1)!]);
  out.release();
  return shaped;
}
