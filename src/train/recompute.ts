/** Whether the layers of a training pass are kept or computed again for their gradients. */
import type { Dims } from '../policy/dims.ts';
import { layoutOf } from '../policy/layout.ts';

export interface MemoryOptions {
  /** Tokens that go through the policy at once. */
  readonly tokens: number;
  readonly recompute: 'auto' | 'always' | 'never';
}

/** What decides how much memory training takes. */
export interface TrainedSizes {
  readonly dims: Dims;
  /** Bytes of a weight and of an activation: 4 or 2. */
  readonly width: number;
  /** Parameters that are trained. */
  readonly trained: number;
  /** Memory of the device, bytes; null where it is not known. */
  readonly memory: number | null;
}

/** Share of the memory that a plan may fill: kernels, caches and fragments take the rest. */
const USABLE = 0.8;
/** Where the memory is not known: a policy from this size on is large. */
const LARGE = 100e6;

/**
 * Bytes that autograd keeps of a decoder layer for a token: the stream and its norm twice, query, keys and values before
 * and after their rotation, what attention gives, gate and up, their product.
 */
function layerBytes({ width, heads, kvHeads, headDim, inner }: Dims, bytes: number): number {
  const projected = (heads + 2 * kvHeads) * headDim;
  return bytes * (4 * width + 2 * projected + 2 * heads * headDim + 3 * inner);
}

/** Bytes that a training step needs when every activation is kept. */
export function keptBytes({ dims, width, trained }: TrainedSizes, tokens: number): number {
  const weights = width * layoutOf(dims).size;
  // Gradient as autograd gives it, its float32 buffer, two moments, master copy.
  const optimizer = trained * (width + 4 + 8 + (width === 2 ? 4 : 0));
  return weights + optimizer + tokens * dims.layers * layerBytes(dims, width);
}

/**
 * `auto` computes layers again when weights, optimiser and the activations of `tokens` tokens would fill more than 80 % of
 * the memory; where that is not known, when the policy has more than 100 million parameters. It costs about a third more
 * computation and gives the same gradients.
 */
export function recomputes({ tokens, recompute }: MemoryOptions, sizes: TrainedSizes): boolean {
  if (recompute !== 'auto') return recompute === 'always';
  if (sizes.memory === null) return layoutOf(sizes.dims).size > LARGE;
  return keptBytes(sizes, tokens) > USABLE * sizes.memory;
}
