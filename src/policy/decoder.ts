/**
 * The language decoder of Qwen2.5-VL: pre-norm blocks of grouped-query attention with M-RoPE and SwiGLU. Source:
 * `Qwen2_5_VLTextModel` of transformers. One function serves prefill, decoding and training.
 */
import type { DType, Engine, Tensor } from '../engine/engine.ts';
import { EngineError } from '../ground/errors.ts';
import { runSegment, type Tape, taped } from './gradient-checkpointing.ts';
import type { KvCache, LayerCache, Prefix } from './kv-cache.ts';
import type { DecoderLayer, Weights } from './layout.ts';
import { moduleTensors, project } from './lora.ts';
import type { Dims } from './model-config.ts';

/** Positions of the N real tokens among the B · T places of a padded batch. */
export interface Packing {
  readonly take: Tensor; // [N] places that hold a token
  readonly spread: Tensor; // [B·T] which token a place holds; 0 at padding, where nothing reads it
}

export interface DecoderInput {
  readonly x: Tensor; // [B·T, D] embeddings, or [N, D] when packed
  readonly batch: number;
  readonly length: number;
  readonly cos: Tensor; // [B or 1, T, d]
  readonly sin: Tensor;
  /** Additive over this call's keys and those of the KV cache, broadcast to [B, 1, T, S]. */
  readonly mask?: Tensor | undefined;
  readonly prefix?: Prefix | undefined;
  /** Extended in place; only without gradient. */
  readonly kvCache?: KvCache | undefined;
  /** Flat indices [K] of the wanted hidden states; all when absent. */
  readonly rows?: Tensor | undefined;
  /** Everything but attention then runs on the N tokens alone. */
  readonly packing?: Packing | undefined;
  /** Recomputes layer by layer; not with a KV cache. */
  readonly tape?: Tape | undefined;
  /**
   * False if no later call attends to this one: a tape then keeps one tensor per layer, and a decoding step
   * extends the KV cache in one operation.
   */
  readonly useCache?: boolean | undefined;
}

interface DecoderOutput {
  /** After the final norm: [K or B·T, D]. */
  readonly hidden: Tensor;
  /** Keys and values of this call's tokens, or the whole KV cache so far; none when no cache was wanted. */
  readonly layers: readonly LayerCache[];
}

/** Causal attention: projections [B·T or N, (Hq + 2·Hkv)·d] → [B·T, Hq·d], with keys and values. */
function mix(
  engine: Engine,
  dims: Dims,
  projected: Tensor,
  input: DecoderInput,
  before: LayerCache | undefined,
  index: number,
): { mixed: Tensor; cache: LayerCache } {
  const { batch, length, kvCache, packing, cos, sin, mask } = input;
  const { heads, kvHeads, headDim } = dims;
  const prefix = before && { ...before, mask: input.prefix?.mask };
  if (kvCache !== undefined && length === 1 && input.useCache === false) {
    const cache = kvCache.layers[index]!; // [B, Hkv, S, d]
    const step = { qkv: projected, cos, sin, cache, used: kvCache.used, at: kvCache.at, mask, prefix };
    return { mixed: engine.attentionStep(step), cache };
  }
  const qkv = engine.reshape(
    packing === undefined ? projected : engine.indexSelect(projected, packing.spread),
    [batch, length, heads + 2 * kvHeads, headDim],
  ); // [B, T, Hq + 2·Hkv, d]
  const [queryKey, values] = engine.split(qkv, [heads + kvHeads, kvHeads], 2) as [Tensor, Tensor];
  const [queries, keys] = engine.split(engine.rotary(queryKey, cos, sin), [heads, kvHeads], 2) as [
    Tensor,
    Tensor,
  ]; // [B, T, Hq, d]
  let key = engine.permute(keys, [0, 2, 1, 3]); // [B, Hkv, T, d]
  let value = engine.permute(values, [0, 2, 1, 3]); // [B, Hkv, T, d]
  if (kvCache !== undefined) {
    if (kvCache.at !== undefined)
      throw new EngineError('decode: a column of the device is for decoding steps alone');
    const cached = kvCache.layers[index]!; // [B, Hkv, S, d]
    const extended = (cache: Tensor, entries: Tensor): Tensor => {
      engine.write(cache, 2, kvCache.used, entries);
      return engine.narrow(cache, 2, 0, kvCache.used + length);
    };
    key = extended(cached.key, key); // [B, Hkv, S, d]
    value = extended(cached.value, value);
  }
  const query = engine.permute(queries, [0, 2, 1, 3]); // [B, Hq, T, d]
  const out = engine.permute(engine.attention({ query, key, value, mask, prefix }), [0, 2, 1, 3]); // [B, T, Hq, d]
  return { mixed: engine.reshape(out, [batch * length, heads * headDim]), cache: { key, value } };
}

/** Residual stream [·, D], and what is still to be added to it: the norm that follows computes the sum with it. */
interface Stream {
  readonly x: Tensor;
  readonly more?: Tensor | undefined;
}

/** The stream with all added, and its norm. */
function normalised(engine: Engine, { x, more }: Stream, weight: Tensor, epsilon: number) {
  if (more === undefined) return { sum: x, normed: engine.rmsNorm(x, weight, epsilon) };
  return engine.addNorm(x, more, weight, epsilon);
}

function layer(
  engine: Engine,
  dims: Dims,
  weights: DecoderLayer,
  input: DecoderInput,
  given: Stream,
  before: LayerCache | undefined,
  index: number,
): { stream: { x: Tensor; more: Tensor }; cache: LayerCache } {
  const { packing } = input;
  const { sum: x, normed: first } = normalised(engine, given, weights.norm1, dims.epsilon); // [B·T or N, D]
  const projected = project(engine, first, weights.qkv, weights.adapter?.qkv, weights.qkvBias); // [B·T or N, (Hq + 2·Hkv)·d]
  const { mixed, cache } = mix(engine, dims, projected, input, before, index);
  let flat = mixed; // [B·T, Hq·d]
  let stream = x;
  if (input.rows !== undefined && index === dims.layers - 1) {
    // Nothing reads the other positions after the last attention.
    flat = engine.indexSelect(flat, input.rows); // [K, Hq·d]
    const lastRows = packing === undefined ? input.rows : engine.indexSelect(packing.spread, input.rows);
    stream = engine.indexSelect(x, lastRows); // [K, D]
  } else if (packing !== undefined) {
    flat = engine.indexSelect(flat, packing.take); // [N, Hq·d]
  }
  const { adapter } = weights;
  const more = project(engine, flat, weights.o, adapter?.o); // [·, D]
  const { sum, normed } = engine.addNorm(stream, more, weights.norm2, dims.epsilon); // [·, D] each
  const inner = engine.swiglu(project(engine, normed, weights.gateUp, adapter?.gateUp)); // [·, F]
  return { stream: { x: sum, more: project(engine, inner, weights.down, adapter?.down) }, cache };
}

/** Runs all layers and the final norm. @throws EngineError when the prefix is not of this decoder */
export function decode(engine: Engine, weights: Weights, dims: Dims, input: DecoderInput): DecoderOutput {
  const { prefix, tape, packing } = input;
  if (prefix !== undefined && prefix.layers.length !== dims.layers) {
    throw new EngineError(
      `decode: a prefix of ${prefix.layers.length} layers for a decoder of ${dims.layers}; was it made with useCache: false?`,
    );
  }
  return taped(engine, tape, () => {
    const tables = inType(engine, input, input.x.dtype);
    const layers: LayerCache[] = [];
    let x = input.x; // [B·T, D]
    let more: Tensor | undefined; // waits for the next norm; a tape keeps one tensor between layers
    for (const [i, parameters] of weights.layers.entries()) {
      const before = tables.prefix?.layers[i];
      let added: Tensor | undefined;
      const [next, key, value] = runSegment(tape, {
        inputs: before === undefined ? [x] : [x, before.key, before.value],
        parameters: tape === undefined ? [] : moduleTensors(parameters),
        constants: [tables.cos, tables.sin, tables.mask, tables.prefix?.mask, input.rows, packing],
        views: input.useCache === false ? [] : [1, 2],
        body: ([stream, k, v]) => {
          const cached = k === undefined || v === undefined ? undefined : { key: k, value: v };
          const done = engine.scope(() => {
            const { stream: out, cache } = layer(
              engine,
              dims,
              parameters,
              tables,
              { x: stream!, more },
              cached,
              i,
            );
            return tape === undefined ? { ...out, cache } : { x: engine.add(out.x, out.more), cache };
          });
          added = 'more' in done ? done.more : undefined;
          return input.useCache === false ? [done.x] : [done.x, done.cache.key, done.cache.value];
        },
      });
      if (tape === undefined && x !== input.x) engine.dispose(x, more!); // a gradient keeps what it needs of them
      x = next!;
      more = added;
      if (key !== undefined && value !== undefined) layers.push({ key, value });
    }
    const [hidden] = runSegment(tape, {
      inputs: [x],
      parameters: [weights.norm],
      body: ([stream]) => [normalised(engine, { x: stream!, more }, weights.norm, dims.epsilon).normed],
    });
    return { hidden: hidden!, layers };
  });
}

/** Rotary tables and masks in the type of the residual stream, as the reference rounds them. */
function inType(engine: Engine, input: DecoderInput, dtype: DType): DecoderInput {
  const cast = (tensor: Tensor): Tensor => (tensor.dtype === dtype ? tensor : engine.cast(tensor, dtype));
  const { mask, prefix } = input;
  return {
    ...input,
    cos: cast(input.cos),
    sin: cast(input.sin),
    mask: mask && cast(mask),
    prefix: prefix?.mask === undefined ? prefix : { ...prefix, mask: cast(prefix.mask) },
  };
}
