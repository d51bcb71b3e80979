/** Attention with grouped queries, additive masks and a prefix that a group of rows shares. */
import { EngineError } from '../../ground/errors.ts';
import type { AttentionInput, AttentionPrefix, AttentionStepInput, Tensor } from '../engine.ts';
import { inOnePass, rotary } from './network.ts';
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
  const prefixKeys = prefix === undefined ? 0 : checkPrefix(key, prefix); // S₀
  if (length * (prefixKeys + keys) >= FUSED_FROM && ops.has(SDPA)) {
    return fused(ops, prefix === undefined ? input : joined(ops, input, prefix), repeat);
  }
  if (inOnePass(ops, [query, key, value], [mask, prefix?.key, prefix?.value, prefix?.mask])) {
    return ops.one(
      'timeseer::attention',
      ...([query, key, value, mask ?? null, prefix?.key ?? null, prefix?.value ?? null] as const),
      prefix?.mask ?? null,
    );
  }
  const q = ops.one('reshape', query, [batch, heads, rows, width]); // [B, Hkv, R·T, D]
  const own = { batch, heads, repeat, length, keys, scale };
  const scores = masked(ops, q, key, mask, own); // [B, Hkv, R·T, S]
  if (prefix === undefined) {
    const weights = softmax(ops, scores);
    return ops.one('reshape', ops.one('matmul', weights, value), [batch, queryHeads, length, width]);
  }

  const prompts = prefix.key.shape[0]!; // P
  const group = batch / prompts; // G
  // Rows of one prompt stand together as queries, so its keys are read once for the whole group.
  const grouped = regroup(ops, q, [prompts, group, heads, rows, width]); // [P, Hkv, G·R·T, D]
  const shared = { batch: prompts, heads, repeat: group * rows, length: 1, keys: prefixKeys, scale };
  const before = masked(ops, grouped, prefix.key, prefix.mask, shared); // [P, Hkv, G·R·T, S₀]
  const beforeRows = regroup(ops, before, [prompts, heads, group, rows, prefixKeys]); // [P, G, Hkv·R·T, S₀]
  const all = ops.one('cat', [ops.one('reshape', beforeRows, [batch, heads, rows, prefixKeys]), scores], 3);
  const weights = softmax(ops, all); // [B, Hkv, R·T, S₀ + S]
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

/** The contract's `attentionStep`: in one operator where it applies, of rotation, writes and attention elsewhere. */
export function attentionStep(ops: Operators, input: AttentionStepInput): Tensor {
  const { qkv, cos, sin, cache, used, mask, prefix } = input;
  ops.check(
    'attentionStep',
    [qkv, cos, sin, cache.key, cache.value],
    [mask, prefix?.key, prefix?.value, prefix?.mask],
  );
  const [batch, heads, columns, width] = cache.key.shape as [number, number, number, number]; // [B, Hkv, C, D]
  const queryHeads = (qkv.shape[1] ?? 0) / width - 2 * heads;
  if (
    cache.key.shape.length !== 4 ||
    !sameShape(cache.key, cache.value) ||
    qkv.shape.length !== 2 ||
    qkv.shape[0] !== batch ||
    !Number.isInteger(queryHeads / heads) ||
    queryHeads < 1 ||
    !(Number.isInteger(used) && used >= 0 && used < columns)
  ) {
    throw new EngineError(
      `attentionStep: qkv ${shapeText(qkv)}, cache ${shapeText(cache.key)} and ${used} used columns do not fit: ` +
        'want [B, (Hq + 2·Hkv)·D] and [B, Hkv, C, D] with Hq a multiple of Hkv and used < C',
    );
  }
  for (const angle of [cos, sin]) {
    const [rows, tokens, size] = angle.shape;
    if (angle.shape.length !== 3 || (rows !== 1 && rows !== batch) || tokens !== 1 || size !== width) {
      throw ops.error(
        'attentionStep',
        [qkv, cos, sin, cache.key],
        new Error('want cos and sin [1 or B, 1, D]'),
      );
    }
  }
  checkMask(mask, [batch, 1, 1, used + 1]);
  const before = prefix === undefined ? 0 : checkPrefix(cache.key, prefix);
  const tiled = before + used + 1 >= FUSED_FROM && ops.has(SDPA);
  const optional = [cos, sin, cache.key, mask, prefix?.key, prefix?.value, prefix?.mask];
  if (!tiled && inOnePass(ops, [qkv], optional)) {
    const side = [mask ?? null, prefix?.key ?? null, prefix?.value ?? null, prefix?.mask ?? null] as const;
    return ops.one('timeseer::attention_step', qkv, cos, sin, cache.key, cache.value, used, ...side);
  }
  const rows = ops.one('reshape', qkv, [batch, 1, queryHeads + 2 * heads, width]); // [B, 1, Hq + 2·Hkv, D]
  const [queryKey, values] = ops.many('split_with_sizes', rows, [queryHeads + heads, heads], 2);
  const turned = ops.one('transpose.int', rotary(ops, queryKey!, cos, sin), 1, 2); // [B, Hq + Hkv, 1, D]
  const [query, key] = ops.many('split_with_sizes', turned, [queryHeads, heads], 1);
  const extended = (held: Tensor, column: Tensor): Tensor => {
    ops.inPlace('copy_', ops.one('narrow', held, 2, used, 1), column);
    return ops.one('narrow', held, 2, 0, used + 1); // [B, Hkv, S, D]
  };
  const mixed = attention(ops, {
    query: query!,
    key: extended(cache.key, key!),
    value: extended(cache.value, ops.one('transpose.int', values!, 1, 2)),
    ...(mask === undefined ? {} : { mask }),
    ...(prefix === undefined ? {} : { prefix }),
  });
  return ops.one('reshape', mixed, [batch, queryHeads * width]);
}

/** Over the last axis, in float32 where the scores are narrower. */
function softmax(ops: Operators, scores: Tensor): Tensor {
  const { dtype } = scores;
  if (dtype !== 'bfloat16' && dtype !== 'float16') return ops.one('softmax.int', scores, -1);
  return ops.one('to.dtype', ops.one('softmax.int', scores, -1, 'float32'), dtype);
}

/** Throws unless the prefix fits the keys; its length S₀. */
function checkPrefix(key: Tensor, prefix: AttentionPrefix): number {
  const [batch, heads, , width] = key.shape as [number, number, number, number];
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
  return prefixKeys;
}

/** Attention without a shared prefix: each row has its prompt's keys and values before its own, and one mask over both. */
function joined(ops: Operators, input: AttentionInput, prefix: AttentionPrefix): AttentionInput {
  const { query, key, value } = input;
  const [batch, heads, keys] = key.shape as [number, number, number, number];
  const [prompts, , prefixKeys, width] = prefix.key.shape as [number, number, number, number];
  const length = query.shape[2]!;
  const group = batch / prompts;
  /** x [P, …] as a view [P, G, …]. */
  const spreadOut = (x: Tensor): Tensor =>
    ops.one('expand', ops.one('unsqueeze', x, 1), [prompts, group, ...x.shape.slice(1)]);
  const join = (before: Tensor, own: Tensor): Tensor => {
    const grouped = ops.one('reshape', own, [prompts, group, heads, keys, width]);
    const all = ops.one('cat', [spreadOut(before), grouped], 3); // [P, G, Hkv, S₀ + S, D]
    return ops.one('reshape', all, [batch, heads, prefixKeys + keys, width]);
  };
  const both = { query, key: join(prefix.key, key), value: join(prefix.value, value) };
  if (input.mask === undefined && prefix.mask === undefined) return both;
  const rows = (input.mask?.shape[0] ?? 1) === 1 && (prefix.mask?.shape[0] ?? 1) === 1 ? 1 : batch;
  /** One half of the mask: [B or 1, 1, T, n]. */
  const part = (mask: Tensor | undefined, size: number): Tensor => {
    if (mask === undefined) return ops.one('zeros', [rows, 1, length, size], query.dtype, null, ops.device);
    const narrow = mask.dtype === query.dtype ? mask : ops.one('to.dtype', mask, query.dtype);
    const fits = mask.shape[0] === 1 || mask.shape[0] === rows;
    const own = fits ? narrow : ops.one('reshape', spreadOut(narrow), [rows, ...mask.shape.slice(1)]);
    return ops.one('expand', own, [rows, 1, length, size]);
  };
  return { ...both, mask: ops.one('cat', [part(prefix.mask, prefixKeys), part(input.mask, keys)], 3) };
}

const SDPA = 'scaled_dot_product_attention';
/** Value of `_fused_sdp_choice` for the path that materialises all scores. */
const COMPOSED = 0;

/**
 * libtorch 2: tiled, so the scores are never held whole. Query heads that share a key head are given as such where a tiled
 * kernel takes them so (2.15 on one core: 0.75 to 0.95 of the time), and keys repeated elsewhere.
 */
function fused(ops: Operators, { query, key, value, mask }: AttentionInput, repeat: number): Tensor {
  const [batch, heads, keys, width] = key.shape as [number, number, number, number];
  const hidden =
    mask === undefined || mask.dtype === query.dtype
      ? (mask ?? null)
      : ops.one('to.dtype', mask, query.dtype);
  const grouped = [query, key, value, hidden, 0, false, null, true] as const;
  if (
    repeat > 1 &&
    ops.takes(SDPA, 'enable_gqa') &&
    ops.takes('_fused_sdp_choice', 'enable_gqa') &&
    ops.number('_fused_sdp_choice', ...grouped) !== COMPOSED
  ) {
    return ops.one(SDPA, ...grouped);
  }
  const each = (x: Tensor): Tensor => {
    if (repeat === 1) return x;
    const wide = ops.one('expand', ops.one('unsqueeze', x, 2), [batch, heads, repeat, keys, width]);
    return ops.one('reshape', wide, [batch, heads * repeat, keys, width]); // [B, Hq, S, D]
  };
  return ops.one(SDPA, query, each(key), each(value), hidden);
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
