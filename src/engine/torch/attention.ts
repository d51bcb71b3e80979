/** Attention with grouped queries, additive masks and a prefix that a group of rows shares. */
import { EngineError } from '../../errors.ts';
import type { AttentionInput, Tensor } from '../engine.ts';
import { type Operators, sameShape, shapeText } from './operators.ts';

/**
 * Scores per head from which libtorch's fused attention is taken, where it exists. Measured with 2.15 on one core:
 * at 120 × 120 it takes 1.1 times as long as the plain products, at 512 × 512 half as long (0.8 with gradients).
 */
const FUSED_FROM = 256 * 256;

export function attention(ops: Operators, input: AttentionInput): Tensor {
  const { query, key, value, mask, prefix } = input;
  ops.check('attention', [query, key, value], [mask, prefix?.key, prefix?.value, prefix?.mask]);
  const [batch, queryHeads, length, width] = query.shape as [number, number, number, number]; // [B, Hq, T, D]
  const [keyBatch, heads, keys] = key.shape as [number, number, number, number]; // [B, Hkv, S, D]
  if (
    query.shape.length !== 4 ||
    key.shape.length !== 4 ||
    keyBatch !== batch ||
    key.shape[3] !== width ||
    queryHeads % heads !== 0 ||
    !sameShape(key, value)
  ) {
    throw new EngineError(
      `attention: query ${shapeText(query)}, key ${shapeText(key)} and value ${shapeText(value)} do not fit: ` +
        'want [B, Hq, T, D] and twice [B, Hkv, S, D] with Hq a multiple of Hkv',
    );
  }
  checkMask(mask, [batch, 1, length, keys]);
  const repeat = queryHeads / heads; // R query heads read one key head
  const rows = repeat * length;
  const scale = 1 / Math.sqrt(width);
  if (prefix === undefined && length * keys >= FUSED_FROM && ops.has('scaled_dot_product_attention')) {
    return fused(ops, input, repeat);
  }
  const q = ops.one('reshape', query, [batch, heads, rows, width]); // [B, Hkv, R·T, D]
  const own = { batch, heads, repeat, length, keys, scale };
  const scores = masked(ops, q, key, mask, own); // [B, Hkv, R·T, S]
  if (prefix === undefined) {
    const weights = ops.one('softmax.int', scores, -1);
    return ops.one('reshape', ops.one('matmul', weights, value), [batch, queryHeads, length, width]);
  }

  const [prompts, , prefixKeys] = prefix.key.shape as [number, number, number, number]; // [P, Hkv, S₀, D]
  if (
    prefix.key.shape.length !== 4 ||
    batch % prompts !== 0 ||
    prefix.key.shape[1] !== heads ||
    prefix.key.shape[3] !== width ||
    !sameShape(prefix.key, prefix.value)
  ) {
    throw new EngineError(
      `attention: key ${shapeText(key)}, prefix key ${shapeText(prefix.key)} and prefix value ` +
        `${shapeText(prefix.value)} do not fit: want twice [P, Hkv, S₀, D] with B a multiple of P`,
    );
  }
  checkMask(prefix.mask, [prompts, 1, 1, prefixKeys]);
  const group = batch / prompts; // G
  // Rows of one prompt stand together as queries, so its keys are read once for the whole group.
  const grouped = regroup(ops, q, [prompts, group, heads, rows, width]); // [P, Hkv, G·R·T, D]
  const shared = { batch: prompts, heads, repeat: group * rows, length: 1, keys: prefixKeys, scale };
  const before = masked(ops, grouped, prefix.key, prefix.mask, shared); // [P, Hkv, G·R·T, S₀]
  const beforeRows = regroup(ops, before, [prompts, heads, group, rows, prefixKeys]); // [P, G, Hkv·R·T, S₀]
  const all = ops.one('cat', [ops.one('reshape', beforeRows, [batch, heads, rows, prefixKeys]), scores], 3);
  const weights = ops.one('softmax.int', all, -1); // [B, Hkv, R·T, S₀ + S]
  const [onPrefix, onOwn] = ops.many('split_with_sizes', weights, [prefixKeys, keys], 3);
  const onPrefixGrouped = regroup(ops, onPrefix!, [prompts, group, heads, rows, prefixKeys]);
  const fromPrefix = ops.one('matmul', onPrefixGrouped, prefix.value); // [P, Hkv, G·R·T, D]
  const fromPrefixRows = ops.one('reshape', regroup(ops, fromPrefix, [prompts, heads, group, rows, width]), [
    batch,
    heads,
    rows,
    width,
  ]);
  const fromOwn = ops.one('matmul', onOwn!, value); // [B, Hkv, R·T, D]
  return ops.one('reshape', ops.one('add.Tensor', fromOwn, fromPrefixRows), [
    batch,
    queryHeads,
    length,
    width,
  ]);
}

/** libtorch 2: tiled, so the scores are never held whole. */
function fused(ops: Operators, { query, key, value, mask }: AttentionInput, repeat: number): Tensor {
  const [batch, heads, keys, width] = key.shape as [number, number, number, number];
  const each = (x: Tensor): Tensor => {
    if (repeat === 1) return x;
    const wide = ops.one('expand', ops.one('unsqueeze', x, 2), [batch, heads, repeat, keys, width]);
    return ops.one('reshape', wide, [batch, heads * repeat, keys, width]); // [B, Hq, S, D]
  };
  const hidden =
    mask === undefined || mask.dtype === query.dtype ? mask : ops.one('to.dtype', mask, query.dtype);
  return ops.one('scaled_dot_product_attention', query, each(key), each(value), hidden ?? null);
}

function checkMask(mask: Tensor | undefined, full: readonly number[]): void {
  const fits =
    mask === undefined ||
    (mask.shape.length === 4 && mask.shape.every((size, axis) => size === 1 || size === full[axis]));
  if (!fits) {
    throw new EngineError(`attention: mask ${shapeText(mask)} must be broadcast to [${full.join(',')}]`);
  }
}

interface ScoreShape {
  readonly batch: number; // B
  readonly heads: number; // Hkv
  readonly repeat: number; // R, over which the mask repeats
  readonly length: number; // T
  readonly keys: number; // S
  readonly scale: number;
}

/** q·kᵀ · scale + mask in one product: q [B, Hkv, R·T, D], k [B, Hkv, S, D], mask to [B, 1, T, S] → [B, Hkv, R·T, S] */
function masked(ops: Operators, q: Tensor, k: Tensor, mask: Tensor | undefined, shape: ScoreShape): Tensor {
  const { batch, heads, repeat, length, keys, scale } = shape;
  const rows = repeat * length;
  const width = q.shape[3]!;
  const left = ops.one('reshape', q, [batch * heads, rows, width]);
  const right = ops.one('transpose.int', ops.one('reshape', k, [batch * heads, keys, width]), 1, 2);
  const bias =
    mask === undefined
      ? ops.one('zeros', [1], q.dtype, null, ops.device)
      : spread(ops, mask.dtype === q.dtype ? mask : ops.one('to.dtype', mask, q.dtype), shape);
  // Not β = 0 without a mask: for tiny products libtorch 1.13 multiplies uninitialised memory by it.
  const scores = ops.one('baddbmm', bias, left, right, 1, scale);
  return ops.one('reshape', scores, [batch, heads, rows, keys]);
}

/** A mask broadcast to [B, 1, T, S], repeated to [B·Hkv, R·T, S]. */
function spread(ops: Operators, mask: Tensor, shape: ScoreShape): Tensor {
  const { batch, heads, repeat, length, keys } = shape;
  const own = mask.shape[0]!;
  let tiled: Tensor = mask; // [B or 1, 1, R·T or 1, S]
  if (repeat > 1 && mask.shape[2] !== 1) {
    const wide = ops.one('expand', mask, [own, repeat, length, keys]);
    tiled = ops.one('reshape', wide, [own, 1, repeat * length, keys]);
  }
  const full = ops.one('expand', tiled, [batch, heads, repeat * length, keys]);
  return ops.one('reshape', full, [batch * heads, repeat * length, keys]);
}

/** Swaps axes 1 and 2 of x viewed as [P, a, b, n, D] and merges the new axes 2 and 3: [P, b, a·n, D]. */
function regroup(
  ops: Operators,
  x: Tensor,
  shape: readonly [number, number, number, number, number],
): Tensor {
  const [p, a, b, n, d] = shape;
  const swapped = ops.one('transpose.int', ops.one('reshape', x, shape), 1, 2); // [P, b, a, n, D]
  return ops.one('reshape', swapped, [p, b, a * n, d]);
}
