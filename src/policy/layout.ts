/**
 * Where every parameter lives in the one flat buffer [P], and what Hugging Face calls it. Query, key and value
 * projections are adjacent rows of one `qkv`, gate and up of one `gateUp`, so that each is a single product.
 */
import type { Engine, Tensor } from '../engine/engine.ts';
import { CheckpointError } from '../errors.ts';
import type { LayerAdapter, MergerAdapter } from './lora.ts';
import { CHANNELS, type Dims } from './model-config.ts';

/** What a policy's weights are held in. */
export type WeightDType = 'float32' | 'bfloat16';

/** A tensor of the checkpoint: a contiguous range of the flat buffer. */
export interface Part {
  /** Name in published checkpoints, as `save_pretrained` of transformers writes it. */
  readonly name: string;
  /** Start in the flat buffer. */
  readonly offset: number;
  readonly shape: readonly number[];
}

/** How a parameter starts: normal with std `gain / √fanIn`, or a constant. */
export type Start = { readonly fanIn: number; readonly gain: number } | { readonly value: number };

/** One parameter as the forward pass sees it: a view of the flat buffer, made of one or several parts. */
export interface Parameter {
  readonly name: string;
  readonly offset: number;
  readonly shape: readonly number[];
  readonly size: number;
  /** Whether weight decay applies: to matrices, not to norms and biases. */
  readonly decay: boolean;
  readonly start: Start;
  readonly parts: readonly Part[];
}

export interface Layout {
  /** In the order of the flat buffer, without gaps. */
  readonly parameters: readonly Parameter[];
  /** Number of floats, P. */
  readonly size: number;
}

const product = (shape: readonly number[]): number => shape.reduce((a, b) => a * b, 1);

class Builder {
  readonly parameters: Parameter[] = [];
  size = 0;

  /** Adds a parameter whose parts are stacked along the first axis. */
  add(
    name: string,
    parts: readonly (readonly [name: string, shape: readonly number[]])[],
    start: Start,
    view?: readonly number[],
  ): void {
    const offset = this.size;
    const placed: Part[] = [];
    for (const [part, shape] of parts) {
      placed.push({ name: part, offset: this.size, shape });
      this.size += product(shape);
    }
    const first = parts[0]![1];
    const rows = parts.reduce((sum, [, shape]) => sum + shape[0]!, 0);
    const shape = view ?? [rows, ...first.slice(1)];
    this.parameters.push({
      name,
      offset,
      shape,
      size: this.size - offset,
      decay: shape.length > 1,
      start,
      parts: placed,
    });
  }
}

/**
 * The flat layout of a policy. Initial weights follow the nano recipe: N(0, 1/√fanIn), outputs into the residual
 * stream scaled by a further 1/√(2·layers), norms one, biases zero.
 */
export function layoutOf(dims: Dims): Layout {
  const { width, vision } = dims;
  const query = dims.heads * dims.headDim;
  const keyed = dims.kvHeads * dims.headDim;
  const residual = 1 / Math.sqrt(2 * dims.layers);
  const visionResidual = 1 / Math.sqrt(2 * vision.depth);
  const one: Start = { value: 1 };
  const zero: Start = { value: 0 };
  const matrix = (fanIn: number, gain = 1): Start => ({ fanIn, gain });
  const out = new Builder();

  out.add('embed', [['model.embed_tokens.weight', [dims.vocabulary, width]]], matrix(width));
  for (let i = 0; i < dims.layers; i++) {
    const from = `model.layers.${i}`;
    const to = `layers.${i}`;
    out.add(`${to}.norm1`, [[`${from}.input_layernorm.weight`, [width]]], one);
    out.add(
      `${to}.qkv.weight`,
      [
        [`${from}.self_attn.q_proj.weight`, [query, width]],
        [`${from}.self_attn.k_proj.weight`, [keyed, width]],
        [`${from}.self_attn.v_proj.weight`, [keyed, width]],
      ],
      matrix(width),
    );
    out.add(
      `${to}.qkv.bias`,
      [
        [`${from}.self_attn.q_proj.bias`, [query]],
        [`${from}.self_attn.k_proj.bias`, [keyed]],
        [`${from}.self_attn.v_proj.bias`, [keyed]],
      ],
      zero,
    );
    out.add(`${to}.o`, [[`${from}.self_attn.o_proj.weight`, [width, query]]], matrix(query, residual));
    out.add(`${to}.norm2`, [[`${from}.post_attention_layernorm.weight`, [width]]], one);
    out.add(
      `${to}.gateUp`,
      [
        [`${from}.mlp.gate_proj.weight`, [dims.inner, width]],
        [`${from}.mlp.up_proj.weight`, [dims.inner, width]],
      ],
      matrix(width),
    );
    out.add(
      `${to}.down`,
      [[`${from}.mlp.down_proj.weight`, [width, dims.inner]]],
      matrix(dims.inner, residual),
    );
  }
  out.add('norm', [['model.norm.weight', [width]]], one);
  if (!dims.tied) out.add('head', [['lm_head.weight', [dims.vocabulary, width]]], matrix(width));

  const patch = vision.patch * vision.patch;
  const merged = vision.width * vision.merge * vision.merge;
  out.add(
    'vision.patch',
    [
      [
        'visual.patch_embed.proj.weight',
        [vision.width, CHANNELS, vision.temporal, vision.patch, vision.patch],
      ],
    ],
    // A still image meets the sum over the temporal axis, whose std is then 1/√(3·patch²).
    matrix(CHANNELS * vision.temporal * patch),
    [vision.width, CHANNELS, vision.temporal, patch],
  );
  for (let i = 0; i < vision.depth; i++) {
    const from = `visual.blocks.${i}`;
    const to = `vision.${i}`;
    out.add(`${to}.norm1`, [[`${from}.norm1.weight`, [vision.width]]], one);
    out.add(
      `${to}.qkv.weight`,
      [[`${from}.attn.qkv.weight`, [3 * vision.width, vision.width]]],
      matrix(vision.width),
    );
    out.add(`${to}.qkv.bias`, [[`${from}.attn.qkv.bias`, [3 * vision.width]]], zero);
    out.add(
      `${to}.o.weight`,
      [[`${from}.attn.proj.weight`, [vision.width, vision.width]]],
      matrix(vision.width, visionResidual),
    );
    out.add(`${to}.o.bias`, [[`${from}.attn.proj.bias`, [vision.width]]], zero);
    out.add(`${to}.norm2`, [[`${from}.norm2.weight`, [vision.width]]], one);
    out.add(
      `${to}.gateUp.weight`,
      [
        [`${from}.mlp.gate_proj.weight`, [vision.inner, vision.width]],
        [`${from}.mlp.up_proj.weight`, [vision.inner, vision.width]],
      ],
      matrix(vision.width),
    );
    out.add(
      `${to}.gateUp.bias`,
      [
        [`${from}.mlp.gate_proj.bias`, [vision.inner]],
        [`${from}.mlp.up_proj.bias`, [vision.inner]],
      ],
      zero,
    );
    out.add(
      `${to}.down.weight`,
      [[`${from}.mlp.down_proj.weight`, [vision.width, vision.inner]]],
      matrix(vision.inner, visionResidual),
    );
    out.add(`${to}.down.bias`, [[`${from}.mlp.down_proj.bias`, [vision.width]]], zero);
  }
  out.add('merger.norm', [['visual.merger.ln_q.weight', [vision.width]]], one);
  out.add('merger.first.weight', [['visual.merger.mlp.0.weight', [merged, merged]]], matrix(merged));
  out.add('merger.first.bias', [['visual.merger.mlp.0.bias', [merged]]], zero);
  out.add('merger.second.weight', [['visual.merger.mlp.2.weight', [width, merged]]], matrix(merged));
  out.add('merger.second.bias', [['visual.merger.mlp.2.bias', [width]]], zero);
  return { parameters: out.parameters, size: out.size };
}

/** What an optimiser needs of a policy. */
export interface Trainable {
  /** The numbers that are updated: [T]. Of the policy's dtype, or float32 for an adapter. */
  readonly flat: Tensor;
  /** In the order of `flat`, without gaps; offsets count from its start. */
  readonly parameters: readonly Parameter[];
  /** One leaf per parameter over the storage of `flat`. */
  readonly leaves: readonly Tensor[];
}

/**
 * One view per parameter of `flat` [P], in table order. Those that `tuned` chooses are leaves: their gradients,
 * flattened and concatenated, are the gradient of their part of `flat`.
 */
export function viewsOf(
  engine: Engine,
  layout: Layout,
  flat: Tensor,
  tuned: (parameter: Parameter) => boolean = () => true,
): Tensor[] {
  return engine.scope(() =>
    layout.parameters.map((parameter) => {
      const { offset, size, shape } = parameter;
      const view = engine.reshape(engine.narrow(flat, 0, offset, size), shape);
      return tuned(parameter) ? engine.parameter(view) : view;
    }),
  );
}

export interface DecoderLayer {
  readonly norm1: Tensor; // [D]
  readonly qkv: Tensor; // [(Hq + 2·Hkv)·d, D]
  readonly qkvBias: Tensor;
  readonly o: Tensor; // [D, Hq·d]
  readonly norm2: Tensor;
  readonly gateUp: Tensor; // [2·F, D]
  readonly down: Tensor; // [D, F]
  readonly adapter?: LayerAdapter;
}

export interface VisionBlock {
  readonly norm1: Tensor; // [W]
  readonly qkv: Tensor; // [3·W, W]
  readonly qkvBias: Tensor;
  readonly o: Tensor; // [W, W]
  readonly oBias: Tensor;
  readonly norm2: Tensor;
  readonly gateUp: Tensor; // [2·F, W]
  readonly gateUpBias: Tensor;
  readonly down: Tensor; // [W, F]
  readonly downBias: Tensor;
  readonly adapter?: LayerAdapter;
}

/** The parameters by their role. */
export interface Weights {
  readonly embed: Tensor; // [V, D]
  readonly layers: readonly DecoderLayer[];
  readonly norm: Tensor; // [D]
  readonly head: Tensor; // [V, D], the embedding when tied
  readonly patch: Tensor; // [W, 3, frames, patch²]
  readonly blocks: readonly VisionBlock[];
  readonly merger: {
    readonly norm: Tensor; // [W]
    readonly first: Tensor; // [4·W, 4·W]
    readonly firstBias: Tensor;
    readonly second: Tensor; // [D, 4·W]
    readonly secondBias: Tensor;
    readonly adapter?: MergerAdapter;
  };
}

/** Arranges tensors given in table order by their role. */
export function arrange(layout: Layout, dims: Dims, tensors: readonly Tensor[]): Weights {
  const byName = new Map(layout.parameters.map(({ name }, i) => [name, tensors[i]!]));
  const get = (name: string): Tensor => {
    const tensor = byName.get(name);
    if (tensor === undefined) throw new CheckpointError(`parameter ${name} is not in the layout`);
    return tensor;
  };
  return {
    embed: get('embed'),
    layers: Array.from({ length: dims.layers }, (_, i) => ({
      norm1: get(`layers.${i}.norm1`),
      qkv: get(`layers.${i}.qkv.weight`),
      qkvBias: get(`layers.${i}.qkv.bias`),
      o: get(`layers.${i}.o`),
      norm2: get(`layers.${i}.norm2`),
      gateUp: get(`layers.${i}.gateUp`),
      down: get(`layers.${i}.down`),
    })),
    norm: get('norm'),
    head: get(dims.tied ? 'embed' : 'head'),
    patch: get('vision.patch'),
    blocks: Array.from({ length: dims.vision.depth }, (_, i) => ({
      norm1: get(`vision.${i}.norm1`),
      qkv: get(`vision.${i}.qkv.weight`),
      qkvBias: get(`vision.${i}.qkv.bias`),
      o: get(`vision.${i}.o.weight`),
      oBias: get(`vision.${i}.o.bias`),
      norm2: get(`vision.${i}.norm2`),
      gateUp: get(`vision.${i}.gateUp.weight`),
      gateUpBias: get(`vision.${i}.gateUp.bias`),
      down: get(`vision.${i}.down.weight`),
      downBias: get(`vision.${i}.down.bias`),
    })),
    merger: {
      norm: get('merger.norm'),
      first: get('merger.first.weight'),
      firstBias: get('merger.first.bias'),
      second: get('merger.second.weight'),
      secondBias: get('merger.second.bias'),
    },
  };
}

/** The published name of a tensor that may carry transformers' module names (`model.language_model.…`, `model.visual.…`). */
export function publishedName(name: string): string {
  if (name.startsWith('model.language_model.')) return `model.${name.slice('model.language_model.'.length)}`;
  if (name.startsWith('model.visual.')) return name.slice('model.'.length);
  if (name.startsWith('language_model.model.')) return name.slice('language_model.'.length);
  if (name === 'language_model.lm_head.weight') return 'lm_head.weight';
  return name;
}
