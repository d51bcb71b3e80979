/** The neural-network operations of the contract, composed of the fewest operators: ATen's, and those of fused.cc and sinkhorn.cc. */
import {
  checkAdamW,
  checkAddNorm,
  checkAttention,
  checkAttentionStep,
  checkLogProbs,
  checkRmsNorm,
  checkRotary,
  checkSample,
  checkSinkhorn,
  checkSwiglu,
} from '../checks.ts';
import type {
  AdamWOptions,
  AdamWState,
  AttentionInput,
  AttentionPrefix,
  AttentionStepInput,
  LogProbOptions,
  SampleOptions,
  SinkhornInput,
  SinkhornResult,
  Tensor,
} from '../engine.ts';
import type { Operators } from './operators.ts';

export function rmsNorm(ops: Operators, x: Tensor, weight: Tensor, epsilon: number): Tensor {
  ops.check('rmsNorm', [x, weight]);
  checkRmsNorm(x, weight);
  return ops.one('timeseer::rms_norm', x, weight, epsilon); // [..., D]
}

export function addNorm(
  ops: Operators,
  x: Tensor,
  y: Tensor,
  weight: Tensor,
  epsilon: number,
): { sum: Tensor; normed: Tensor } {
  ops.check('addNorm', [x, y, weight]);
  checkAddNorm(x, y, weight);
  const [sum, normed] = ops.many('timeseer::add_rms_norm', x, y, weight, epsilon);
  return { sum: sum!, normed: normed! }; // [..., D] each
}

export function rotary(ops: Operators, x: Tensor, cos: Tensor, sin: Tensor): Tensor {
  ops.check('rotary', [x, cos, sin]);
  checkRotary(x, cos, sin);
  return ops.one('timeseer::rotary', x, cos, sin);
}

export function swiglu(ops: Operators, gateUp: Tensor): Tensor {
  ops.check('swiglu', [gateUp]);
  checkSwiglu(gateUp);
  return ops.one('timeseer::swiglu', gateUp);
}

/** log softmax((logits + mask) / temperature), float32 or wider: [N, V]. */
function distribution(ops: Operators, logits: Tensor, temperature: number, mask: Tensor | undefined): Tensor {
  let scores: Tensor =
    logits.dtype === 'bfloat16' || logits.dtype === 'float16'
      ? ops.one('to.dtype', logits, 'float32')
      : logits;
  if (mask !== undefined) scores = ops.one('add.Tensor', scores, mask);
  if (temperature !== 1) scores = ops.one('div.Scalar', scores, temperature);
  return ops.one('log_softmax.int', scores, -1);
}

export function logProbs(
  ops: Operators,
  hidden: Tensor,
  head: Tensor,
  targets: Tensor,
  options: LogProbOptions,
): { logProb: Tensor; entropy: Tensor | null } {
  ops.check('logProbs', [hidden, head, targets], [options.mask]);
  const temperature = options.temperature ?? 1;
  checkLogProbs(hidden, head, targets, options);
  const logits = ops.one('linear', hidden, head, null); // [N, V]
  if (options.entropy !== true && inOnePass(ops, [logits], [options.mask])) {
    const mask = options.mask ?? null;
    return {
      logProb: ops.one('timeseer::token_log_prob', logits, targets, mask, temperature),
      entropy: null,
    };
  }
  const all = distribution(ops, logits, temperature, options.mask); // [N, V]
  const picked = ops.one('gather', all, 1, ops.one('unsqueeze', targets, 1)); // [N, 1]
  const logProb = ops.one('squeeze.dim', picked, 1); // [N]
  if (options.entropy !== true) return { logProb, entropy: null };
  const terms = ops.one('mul.Tensor', ops.one('exp', all), all); // [N, V]; masked entries: 0 · −1e9 = −0
  return { logProb, entropy: ops.one('neg', ops.one('sum.dim_IntList', terms, [-1])) };
}

/** Returns true if single-pass operators accept these: on the CPU, one type of at least 32 bits, masks without a gradient. */
function inOnePass(
  ops: Operators,
  tensors: readonly Tensor[],
  optional: readonly (Tensor | undefined)[],
): boolean {
  const { dtype } = tensors[0]!;
  if (ops.device !== 'cpu' || (dtype !== 'float32' && dtype !== 'float64')) return false;
  return [...tensors, ...optional].every((tensor) => tensor === undefined || tensor.dtype === dtype);
}

export function sample(
  ops: Operators,
  logits: Tensor,
  options: SampleOptions,
): { ids: Tensor; logProbs: Tensor } {
  const { temperature, topP, topK, mask, uniforms } = options;
  ops.check('sample', [logits, uniforms], [mask]);
  checkSample(logits, options);
  const vocabulary = logits.shape[1]!;
  const whole = temperature === 0 || (topP === 1 && (topK === undefined || topK >= vocabulary));
  const onHost = temperature > 0 && logits.dtype === 'float32' && inOnePass(ops, [logits, uniforms], [mask]);
  if (whole && (onHost || (ops.device !== 'cpu' && ops.flag('timeseer::takes_draw', logits)))) {
    const [ids, logProbs] = ops.many('timeseer::draw_tokens', logits, mask ?? null, temperature, uniforms);
    return { ids: ids!, logProbs: logProbs! };
  }
  const all = distribution(ops, logits, temperature === 0 ? 1 : temperature, mask); // [B, V]
  const ids =
    temperature === 0
      ? ops.one('argmax', all, 1, true) // [B, 1]
      : invert(ops, kept(ops, ops.one('exp', all), topP, topK), ops.one('unsqueeze', uniforms, 1));
  const logProbs = ops.one('gather', all, 1, ids); // [B, 1]
  return { ids: ops.one('squeeze.dim', ids, 1), logProbs: ops.one('squeeze.dim', logProbs, 1) };
}

/** Probabilities [B, V] with those outside of top-k, then of the nucleus, set to 0. Ties of the last kept token stay. */
function kept(ops: Operators, probabilities: Tensor, topP: number, topK: number | undefined): Tensor {
  let mass: Tensor = probabilities;
  if (topK !== undefined && topK < mass.shape[1]!) {
    const [largest] = ops.many('topk', mass, topK); // [B, K], descending
    const least = ops.one('narrow', largest!, 1, topK - 1, 1); // [B, 1]
    mass = ops.one('mul.Tensor', mass, ops.one('ge.Tensor', mass, least));
  }
  if (topP === 1) return mass;
  const total = ops.one('sum.dim_IntList', mass, [-1], true); // [B, 1]
  const [sorted, order] = ops.many('sort', mass, -1, true); // [B, V] each
  const before = ops.one('sub.Tensor', ops.one('cumsum', sorted!, -1, 'float64'), sorted!); // mass before each
  const within = ops.one('lt.Tensor', before, ops.one('mul.Scalar', total, topP));
  const inOrder = ops.one('mul.Tensor', sorted!, within);
  return ops.one('scatter.src', ops.one('zeros_like', mass), 1, order!, inOrder);
}

/**
 * Inverts the cumulative distribution in float64: first token whose cumulative mass exceeds draw · total.
 * Draws stay below the total, so a token without mass is never drawn.
 */
function invert(ops: Operators, weights: Tensor, draws: Tensor): Tensor {
  const cumulative = ops.one('cumsum', weights, -1, 'float64'); // [B, V]
  const total = ops.one('narrow', cumulative, 1, cumulative.shape[1]! - 1, 1); // [B, 1]
  const below = ops.one('clamp', ops.one('to.dtype', draws, 'float64'), 0, 1 - 2 ** -32);
  const drawn = ops.one('searchsorted.Tensor', cumulative, ops.one('mul.Tensor', below, total), false, true);
  return ops.one('clamp', drawn, null, cumulative.shape[1]! - 1); // [B, 1]; NaN logits find V
}

export function sinkhorn(ops: Operators, input: SinkhornInput): SinkhornResult {
  const { cost, rows, columns, epsilon, iterations } = input;
  ops.check('sinkhorn', [cost, rows, columns]);
  checkSinkhorn(input);
  if (ops.device === 'cpu') {
    const [distance, rowSums, u, v] = ops.many(
      'timeseer::sinkhorn',
      ...([cost, rows, columns, epsilon, iterations] as const),
    );
    return { distance: distance!, rowSums: rowSums!, u: u!, v: v! };
  }
  return sinkhornByProducts(ops, input);
}

/** Sinkhorn as batched products over the kernels of all problems: few calls, as a GPU prefers. */
function sinkhornByProducts(
  ops: Operators,
  { cost, rows, columns, epsilon, iterations }: SinkhornInput,
): SinkhornResult {
  const kernel = ops.one('exp', ops.one('mul.Scalar', cost, -1 / epsilon)); // [B, T, S]
  const turned = ops.one('transpose.int', kernel, 1, 2); // [B, S, T]
  const r = ops.one('unsqueeze', rows, 2); // [B, T, 1]
  const c = ops.one('unsqueeze', columns, 2); // [B, S, 1]
  let u = r;
  // A padded column must not take part in the first scaling of the rows.
  let v = ops.one('to.dtype', ops.one('gt.Scalar', c, 0), 'float64'); // [B, S, 1]
  for (let i = 0; i < iterations; i++) {
    u = ops.one('div.Tensor', r, ops.one('matmul', kernel, v));
    v = ops.one('div.Tensor', c, ops.one('matmul', turned, u));
  }
  const scaled = ops.one('mul.Tensor', kernel, u);
  const plan = ops.one('mul.Tensor', scaled, ops.one('transpose.int', v, 1, 2)); // [B, T, S]
  return {
    distance: ops.one('sum.dim_IntList', ops.one('mul.Tensor', plan, cost), [1, 2]), // [B]
    rowSums: ops.one('sum.dim_IntList', plan, [2]), // [B, T]
    u: ops.one('squeeze.dim', u, 2),
    v: ops.one('squeeze.dim', v, 2),
  };
}

export function adamW(ops: Operators, state: AdamWState, options: AdamWOptions): void {
  const { parameters, gradients, firstMoment, secondMoment, decay } = state;
  const { learningRate, beta1, beta2, epsilon, step, scale = 1 } = options;
  const all = [
    parameters,
    gradients,
    firstMoment,
    secondMoment,
    ...(typeof decay === 'number' ? [] : [decay]),
  ];
  ops.check('adamW', all);
  checkAdamW(state, options);
  const decays = typeof decay === 'number' ? null : decay;
  const factors = [
    typeof decay === 'number' ? decay : 0,
    scale,
    learningRate,
    beta1,
    beta2,
    epsilon,
  ] as const;
  if (
    ops.device === 'cpu' &&
    ops.flag('timeseer::adam_w', parameters, gradients, firstMoment, secondMoment, decays, ...factors, step)
  ) {
    return;
  }
  const scaled = scale === 1 ? gradients : ops.one('mul.Scalar', gradients, scale);
  if (typeof decay !== 'number') ops.inPlace('addcmul_', parameters, parameters, decay, -learningRate);
  else if (decay !== 0) ops.inPlace('mul_.Scalar', parameters, 1 - learningRate * decay);
  ops.inPlace('lerp_.Scalar', firstMoment, scaled, 1 - beta1);
  ops.inPlace('mul_.Scalar', secondMoment, beta2);
  // The factor first: the square of a gradient that float32 holds may be none that it holds.
  ops.inPlace('addcmul_', secondMoment, scaled, ops.one('mul.Scalar', scaled, 1 - beta2));
  const denominator = ops.one('sqrt', secondMoment); // [P]
  ops.inPlace('div_.Scalar', denominator, Math.sqrt(1 - beta2 ** step));
  ops.inPlace('add_.Scalar', denominator, epsilon);
  ops.inPlace('addcdiv_', parameters, firstMoment, denominator, -learningRate / (1 - beta1 ** step));
}

/**
 * Scores per head from which libtorch's fused attention is used on the CPU. With 2.15 on one core it takes 1.1 times as
 * long as plain products at 120 × 120, half as long at 512 × 512 (0.8 with gradients). Elsewhere it is used at any size
 * without a prefix: composed, attention is a dozen launches.
 */
const FUSED_FROM = 256 * 256;

export function attention(ops: Operators, input: AttentionInput): Tensor {
  const { query, key, value, mask, prefix } = input;
  ops.check('attention', [query, key, value], [mask, prefix?.key, prefix?.value, prefix?.mask]);
  const [batch, queryHeads, length, width] = query.shape as [number, number, number, number]; // [B, Hq, T, D]
  const [, heads, keys] = key.shape as [number, number, number, number]; // [B, Hkv, S, D]
  const prefixKeys = checkAttention(input); // S₀
  const repeat = queryHeads / heads; // R query heads read one key head
  const rows = repeat * length;
  const scale = 1 / Math.sqrt(width);
  // Fused, a prefix is copied to each of its rows, which pays later.
  const least = ops.device === 'cpu' || prefix !== undefined ? FUSED_FROM : 1;
  if (length * (prefixKeys + keys) >= least && ops.has(SDPA)) {
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
  const sizes = { batch, heads, repeat, length, keys, scale };
  const scores = masked(ops, q, key, mask, sizes); // [B, Hkv, R·T, S]
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
  const { qkv, cos, sin, cache, used, at, mask, prefix } = input;
  ops.check(
    'attentionStep',
    [qkv, cos, sin, cache.key, cache.value, ...(at === undefined ? [] : [at])],
    [mask, prefix?.key, prefix?.value, prefix?.mask],
  );
  const before = checkAttentionStep(input, ops.device);
  const [batch, heads, columns, width] = cache.key.shape as [number, number, number, number]; // [B, Hkv, C, D]
  const queryHeads = qkv.shape[1]! / width - 2 * heads;
  if (stepsInOne(ops, input, before, queryHeads)) {
    const [c, s] = [cos, sin].map((angle) =>
      angle.dtype === qkv.dtype ? angle : ops.one('to.dtype', angle, qkv.dtype),
    );
    const side = [mask ?? null, prefix?.key ?? null, prefix?.value ?? null, prefix?.mask ?? null] as const;
    return ops.one(
      'timeseer::attention_step',
      qkv,
      c!,
      s!,
      cache.key,
      cache.value,
      used,
      at ?? null,
      ...side,
    );
  }
  const rows = ops.one('reshape', qkv, [batch, 1, queryHeads + 2 * heads, width]); // [B, 1, Hq + 2·Hkv, D]
  const [queryKey, values] = ops.many('split_with_sizes', rows, [queryHeads + heads, heads], 2);
  const turned = ops.one('transpose.int', rotary(ops, queryKey!, cos, sin), 1, 2); // [B, Hq + Hkv, 1, D]
  const [query, key] = ops.many('split_with_sizes', turned, [queryHeads, heads], 1);
  const seen = at === undefined ? used + 1 : columns; // S
  const extended = (buffer: Tensor, column: Tensor): Tensor => {
    if (at !== undefined) ops.inPlace('index_copy_', buffer, 2, at, column);
    else ops.inPlace('copy_', ops.one('narrow', buffer, 2, used, 1), column);
    return ops.one('narrow', buffer, 2, 0, seen); // [B, Hkv, S, D]
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

/** Returns true if one operator takes the step: on the CPU one for few keys in float32 or float64, on CUDA a kernel of its own. */
function stepsInOne(
  ops: Operators,
  { qkv, cos, sin, cache, used, mask, prefix }: AttentionStepInput,
  before: number,
  queryHeads: number,
): boolean {
  if (qkv.dtype !== cache.key.dtype || qkv.dtype !== cache.value.dtype) return false;
  if (ops.device !== 'cpu') return ops.flag('timeseer::takes_step', cache.key, cache.value, queryHeads);
  if (before + used + 1 >= FUSED_FROM && ops.has(SDPA)) return false;
  return inOnePass(ops, [qkv], [cos, sin, cache.key, mask, prefix?.key, prefix?.value, prefix?.mask]);
}

/** Over the last axis, in float32 where the scores are narrower. */
function softmax(ops: Operators, scores: Tensor): Tensor {
  const { dtype } = scores;
  if (dtype !== 'bfloat16' && dtype !== 'float16') return ops.one('softmax.int', scores, -1);
  return ops.one('to.dtype', ops.one('softmax.int', scores, -1, 'float32'), dtype);
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
  const join = (before: Tensor, suffix: Tensor): Tensor => {
    const grouped = ops.one('reshape', suffix, [prompts, group, heads, keys, width]);
    const all = ops.one('cat', [spreadOut(before), grouped], 3); // [P, G, Hkv, S₀ + S, D]
    return ops.one('reshape', all, [batch, heads, prefixKeys + keys, width]);
  };
  const both = { query, key: join(prefix.key, key), value: join(prefix.value, value) };
  if (input.mask === undefined && prefix.mask === undefined) return both;
  const rows = (input.mask?.shape[0] ?? 1) === 1 && (prefix.mask?.shape[0] ?? 1) === 1 ? 1 : batch;
  /** Half of the mask: [B or 1, 1, T, n]. */
  const part = (mask: Tensor | undefined, size: number): Tensor => {
    if (mask === undefined) return ops.one('zeros', [rows, 1, length, size], query.dtype, null, ops.device);
    const narrow = mask.dtype === query.dtype ? mask : ops.one('to.dtype', mask, query.dtype);
    const fits = mask.shape[0] === 1 || mask.shape[0] === rows;
    const rowMask = fits ? narrow : ops.one('reshape', spreadOut(narrow), [rows, ...mask.shape.slice(1)]);
    return ops.one('expand', rowMask, [rows, 1, length, size]);
  };
  return { ...both, mask: ops.one('cat', [part(prefix.mask, prefixKeys), part(input.mask, keys)], 3) };
}

const SDPA = 'scaled_dot_product_attention';
/** Value of `_fused_sdp_choice` for the path that materialises all scores. */
const COMPOSED = 0;

/**
 * Fused attention of libtorch 2, tiled. Query heads share key heads where a tiled kernel supports it (2.15 on
 * one core: 0.75 to 0.95 of the time); elsewhere keys are repeated.
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
  const maskRows = mask.shape[0]!;
  let tiled: Tensor = mask; // [B or 1, 1, R·T or 1, S]
  if (repeat > 1 && mask.shape[2] !== 1) {
    const wide = ops.one('expand', mask, [maskRows, repeat, length, keys]);
    tiled = ops.one('reshape', wide, [maskRows, 1, repeat * length, keys]);
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
