/** Operators by name, as the torch engine calls them. One that is missing here is missing as it would be in libtorch. */
import type { DType } from '../engine.ts';
import { ELEMENT_BYTES } from '../engine.ts';
import type { NativeValue } from '../torch/native.ts';
import { add, div, minimum, mul, sum, unary } from './arithmetic.ts';
import { cast, cat, clone, contiguous, gather, placeRows, rows } from './copies.ts';
import { attention, attentionStep, rmsNorm, rotary, swiglu, tiledAttention, tokenLogProb } from './fused.ts';
import type { Kernels } from './kernels.ts';
import { linear, matmul, products } from './products.ts';
import { type DryTensor, dense, type Shape } from './tensor.ts';
import { expand, narrow, permute, reshape, split, squeeze, transpose, unsqueeze } from './views.ts';

type Get = (handle: NativeValue) => DryTensor;
export type Operator = (
  kernels: Kernels,
  values: readonly NativeValue[],
  get: Get,
) => DryTensor | readonly DryTensor[] | number | boolean;

const list = (value: NativeValue): readonly number[] => value as readonly number[];

/** An elementwise operation in place: nothing new but what a processor converts. */
const inPlace: Operator = (kernels, values, get) => {
  const target = get(values[0]);
  const other = values[1];
  if (typeof other === 'number' && kernels.cpu) {
    const source = get(other);
    if (source.dtype !== target.dtype && source.shape.length > 0)
      kernels.like(source, target.dtype).release();
  }
  return target.view();
};

const inPlaceScalar: Operator = (_, values, get) => get(values[0]).view();

/** Prefix sums in a wider dtype: a processor converts first. */
const cumsum: Operator = (kernels, [x, , dtype], get) => {
  const input = get(x);
  const to = (dtype ?? input.dtype) as DType;
  const wide = kernels.cpu && to !== input.dtype ? kernels.like(input, to) : null;
  const out = kernels.like(input, to);
  wide?.release();
  return out;
};

const compared: Operator = (kernels, [a, b], get) => {
  const wide = add(kernels, get(a), get(b));
  const out = kernels.like(wide, 'bool');
  wide.release();
  return out;
};

const baddbmm: Operator = (kernels, [, left, right, , scale], get) =>
  products(kernels, get(left), get(right), scale as number);

/** In a wider type than the scores': a processor widens first. */
const softmax: Operator = (kernels, [x, , dtype], get) => {
  const scores = get(x);
  if (typeof dtype !== 'string' || dtype === scores.dtype) return unary(kernels, scores, 'output');
  const wide = kernels.cpu ? cast(kernels, scores, dtype as DType) : null;
  if (wide !== null) {
    const out = unary(kernels, wide, 'output');
    wide.release();
    return out;
  }
  const out = kernels.like(scores, dtype as DType);
  return kernels.record([scores], out, [out], () => [kernels.like(scores)]);
};

/** View of the bytes, or of the elements that they make. */
const viewDtype: Operator = (_, [x, dtype], get) => {
  const input = get(x);
  const to = dtype as DType;
  const shape = [...input.shape];
  const last = shape.length - 1;
  shape[last] = (shape[last]! * ELEMENT_BYTES[input.dtype]) / ELEMENT_BYTES[to];
  return input.view(shape, dense(shape));
};

const affine: Operator = (kernels, [x, weight, bias], get) =>
  linear(kernels, get(x), get(weight), typeof bias === 'number' ? get(bias) : null);

const TABLE: Readonly<Record<string, Operator>> = {
  zeros: (kernels, [shape, dtype]) => kernels.empty(list(shape), dtype as DType),
  zeros_like: (kernels, [x], get) => kernels.like(get(x)),
  clone: (kernels, [x], get) => clone(kernels, get(x)),
  contiguous: (kernels, [x], get) => contiguous(kernels, get(x)),
  detach: (_, [x], get) => get(x).view(),
  'to.dtype': (kernels, [x, dtype], get) => cast(kernels, get(x), dtype as DType),
  'view.dtype': viewDtype,

  reshape: (kernels, [x, shape], get) => reshape(kernels, get(x), list(shape)),
  permute: (kernels, [x, order], get) => permute(kernels, get(x), list(order)),
  'transpose.int': (kernels, [x, a, b], get) => transpose(kernels, get(x), a as number, b as number),
  narrow: (kernels, [x, axis, , length], get) => narrow(kernels, get(x), axis as number, length as number),
  split_with_sizes: (kernels, [x, sizes, axis], get) => split(kernels, get(x), list(sizes), axis as number),
  expand: (kernels, [x, shape], get) => expand(kernels, get(x), list(shape)),
  unsqueeze: (kernels, [x, axis], get) => unsqueeze(kernels, get(x), axis as number),
  'squeeze.dim': (kernels, [x, axis], get) => squeeze(kernels, get(x), axis as number),

  cat: (kernels, [parts, axis], get) => cat(kernels, list(parts).map(get), axis as number),
  index_select: (kernels, [x, , index], get) => rows(kernels, get(x), get(index)),
  index_copy: (kernels, [x, , index, source], get) => placeRows(kernels, get(x), get(index), get(source)),
  gather: (kernels, [x, , index], get) => gather(kernels, get(x), get(index)),
  'scatter.src': (kernels, [x], get) => kernels.like(get(x)),
  copy_: inPlaceScalar,
  index_copy_: inPlaceScalar,

  'add.Tensor': (kernels, [a, b], get) => add(kernels, get(a), get(b)),
  'sub.Tensor': (kernels, [a, b], get) => add(kernels, get(a), get(b), true),
  'mul.Tensor': (kernels, [a, b], get) => mul(kernels, get(a), get(b)),
  'div.Tensor': (kernels, [a, b], get) => div(kernels, get(a), get(b)),
  'add.Scalar': (kernels, [x], get) => unary(kernels, get(x), 'nothing', (gradient) => [gradient.view()]),
  'sub.Scalar': (kernels, [x], get) => unary(kernels, get(x), 'nothing', (gradient) => [gradient.view()]),
  'mul.Scalar': (kernels, [x], get) => unary(kernels, get(x), 'nothing'),
  'div.Scalar': (kernels, [x], get) => unary(kernels, get(x), 'nothing'),
  minimum: (kernels, [a, b], get) => minimum(kernels, get(a), get(b)),
  clamp: (kernels, [x], get) => unary(kernels, get(x), 'input'),
  exp: (kernels, [x], get) => unary(kernels, get(x), 'output'),
  sqrt: (kernels, [x], get) => unary(kernels, get(x), 'output'),
  neg: (kernels, [x], get) => unary(kernels, get(x), 'nothing'),
  gelu: (kernels, [x], get) =>
    unary(kernels, get(x), 'input', (gradient) => {
      const whole = contiguous(kernels, gradient);
      const out = kernels.like(whole);
      whole.release();
      return [out];
    }),
  stack: (kernels, [parts], get) => kernels.empty([list(parts).length], get(list(parts)[0]!).dtype),
  aminmax: (kernels, [x], get) => [kernels.empty([], get(x).dtype), kernels.empty([], get(x).dtype)],
  isfinite: (kernels, [x], get) => kernels.like(get(x), 'bool'),
  'ge.Tensor': compared,
  'lt.Tensor': compared,

  sum: (kernels, [x], get) => sum(kernels, get(x)),
  'sum.dim_IntList': (kernels, [x, axes, keep], get) => sum(kernels, get(x), list(axes), keep === true),
  all: (kernels) => kernels.empty([], 'bool'),
  linalg_vector_norm: (kernels, [x], get) => sum(kernels, get(x), [-1]),
  logsumexp: (kernels, [x, axes], get) => {
    const shifted = kernels.like(get(x));
    const out = sum(kernels, get(x), list(axes));
    shifted.release();
    return out;
  },
  argmax: (kernels, [x], get) => kernels.empty([get(x).shape[0]!, 1], 'int64'),
  cumsum,
  sort: (kernels, [x], get) => [kernels.like(get(x)), kernels.like(get(x), 'int64')],
  topk: (kernels, [x, k], get) => {
    const shape: Shape = [...get(x).shape.slice(0, -1), k as number];
    return [kernels.empty(shape, get(x).dtype), kernels.empty(shape, 'int64')];
  },
  'searchsorted.Tensor': (kernels, [, values], get) => kernels.empty(get(values).shape, 'int64'),

  linear: affine,
  matmul: (kernels, [a, b], get) => matmul(kernels, get(a), get(b)),
  baddbmm,
  'softmax.int': softmax,
  'log_softmax.int': (kernels, [x], get) => unary(kernels, get(x), 'output'),

  'timeseer::adam_w': () => true,
  'timeseer::attention': (kernels, values, get) => {
    const [query, key, value, mask, prefixKey, prefixValue, prefixMask] = values;
    const given = (...handles: NativeValue[]): DryTensor[] =>
      handles.filter((handle) => typeof handle === 'number').map(get);
    const prefix = given(prefixKey, prefixValue);
    return attention(kernels, [get(query), get(key), get(value)], prefix, given(mask, prefixMask));
  },
  'timeseer::attention_step': (kernels, [qkv, , , keys], get) => attentionStep(kernels, get(qkv), get(keys)),
  'timeseer::draw_tokens': (kernels, [logits], get) => {
    const rows = get(logits).shape.slice(0, 1);
    return [kernels.empty(rows, 'int64'), kernels.empty(rows, 'float32')];
  },
  'timeseer::linear': affine,
  'timeseer::rms_norm': (kernels, [x, weight], get) => rmsNorm(kernels, get(x), get(weight)),
  'timeseer::rotary': (kernels, [x, cos, sin], get) => rotary(kernels, get(x), get(cos), get(sin)),
  'timeseer::swiglu': (kernels, [x], get) => swiglu(kernels, get(x)),
  'timeseer::token_log_prob': (kernels, [logits, targets, mask], get) =>
    tokenLogProb(kernels, get(logits), get(targets), typeof mask === 'number' ? get(mask) : null),

  'add_.Tensor': inPlace,
  'add_.Scalar': inPlaceScalar,
  'mul_.Scalar': inPlaceScalar,
  'div_.Scalar': inPlaceScalar,
  'lerp_.Scalar': inPlace,
  addcmul_: inPlace,
  addcdiv_: inPlace,
};

/** Operators that libtorch 1 does not have. */
const MODERN: Readonly<Record<string, Operator>> = {
  // Which kernel: a tiled one takes grouped heads on a processor; on a GPU not all of them do beside a mask.
  _fused_sdp_choice: ({ cpu }) => (cpu ? 1 : 0),
  scaled_dot_product_attention: (kernels, [query, key, value, mask], get) =>
    tiledAttention(kernels, get(query), get(key), get(value), typeof mask === 'number' ? get(mask) : null),
};

export function operators(modern: boolean): ReadonlyMap<string, Operator> {
  return new Map([...Object.entries(TABLE), ...(modern ? Object.entries(MODERN) : [])]);
}
