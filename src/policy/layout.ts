/**
 * Place of every parameter in the flat buffer [P], and its Hugging Face name. Query, key and value
 * projections are adjacent rows of `qkv`, gate and up of `gateUp`, so that each is a single product.
 */
import type { Engine, Tensor } from '../engine/engine.ts';
import { CheckpointError } from '../ground/errors.ts';
import type { LayerAdapter, MergerAdapter } from './lora.ts';
import { CHANNELS, type Dims } from './model-config.ts';
import { elements } from './safetensors.ts';

/** Data types of a policy's weights. */
export type WeightDType = 'float32' | 'bfloat16';

/** A tensor of the checkpoint: a contiguous range of the flat buffer. */
export interface Part {
  /** Name in published checkpoints, as `save_pretrained` of transformers writes it. */
  readonly name: string;
  /** Start in the flat buffer. */
  readonly offset: number;
  readonly shape: readonly number[];
}

/** Initialisation of a parameter: normal with std `gain / √fanIn`, or a constant. */
export type Start = { readonly fanIn: number; readonly gain: number } | { readonly value: number };

/** Parameter as the forward pass sees it: a view of the flat buffer, made of one or several parts. */
export interface Parameter {
  readonly name: string;
  readonly offset: number;
  readonly shape: readonly number[];
  readonly size: number;
  /** True if weight decay applies: to matrices, not to norms and biases. */
  readonly decay: boolean;
  readonly start: Start;
  readonly parts: readonly Part[];
}

export interface Layout {
  /** Parameters in the order of the flat buffer, without gaps. */
  readonly parameters: readonly Parameter[];
  /** Number of floats, P. */
  readonly size: number;
}

/** Lays parameters one after another. */
export class LayoutBuilder {
  readonly parameters: Parameter[] = [];
  size = 0;

  /** Adds a parameter whose parts are stacked along the first axis. */
  add(name: string, parts: readonly Omit<Part, 'offset'>[], start: Start, view?: readonly number[]): void {
    const offset = this.size;
    const placed = parts.map((part) => {
      const at = this.size;
      this.size += elements(part.shape);
      return { ...part, offset: at };
    });
    const rows = parts.reduce((sum, part) => sum + part.shape[0]!, 0);
    const shape = view ?? [rows, ...parts[0]!.shape.slice(1)];
    const decay = shape.length > 1;
    this.parameters.push({ name, offset, shape, size: this.size - offset, decay, start, parts: placed });
  }

  /** A norm's weight [width]. */
  norm(name: string, module: string, width: number): void {
    this.add(name, [{ name: `${module}.weight`, shape: [width] }], { value: 1 });
  }

  /** The projections of one product, `outputs` by module, with biases where `bias` says so. */
  linear(
    name: string,
    outputs: Readonly<Record<string, number>>,
    inputs: number,
    options: { readonly bias?: boolean; readonly gain?: number } = {},
  ): void {
    const { bias = false, gain = 1 } = options;
    const parts = (of: 'weight' | 'bias') =>
      Object.entries(outputs).map(([module, size]) => ({
        name: `${module}.${of}`,
        shape: of === 'weight' ? [size, inputs] : [size],
      }));
    this.add(bias ? `${name}.weight` : name, parts('weight'), { fanIn: inputs, gain });
    if (bias) this.add(`${name}.bias`, parts('bias'), { value: 0 });
  }
}

/**
 * Flat layout of a policy. Initial weights: N(0, 1/√fanIn), outputs into the residual stream scaled by a
 * further 1/√(2·layers), norms one, biases zero.
 */
export function layoutOf(dims: Dims): Layout {
  const { width, vision } = dims;
  const query = dims.heads * dims.headDim;
  const keyed = dims.kvHeads * dims.headDim;
  const out = new LayoutBuilder();

  const embedding = [{ name: 'model.embed_tokens.weight', shape: [dims.vocabulary, width] }];
  out.add('embed', embedding, { fanIn: width, gain: 1 });
  const residual = { gain: 1 / Math.sqrt(2 * dims.layers) };
  for (let i = 0; i < dims.layers; i++) {
    const from = `model.layers.${i}`;
    const to = `layers.${i}`;
    const attention = `${from}.self_attn`;
    out.norm(`${to}.norm1`, `${from}.input_layernorm`, width);
    const qkv = {
      [`${attention}.q_proj`]: query,
      [`${attention}.k_proj`]: keyed,
      [`${attention}.v_proj`]: keyed,
    };
    out.linear(`${to}.qkv`, qkv, width, { bias: true });
    out.linear(`${to}.o`, { [`${attention}.o_proj`]: width }, query, residual);
    out.norm(`${to}.norm2`, `${from}.post_attention_layernorm`, width);
    const gateUp = { [`${from}.mlp.gate_proj`]: dims.inner, [`${from}.mlp.up_proj`]: dims.inner };
    out.linear(`${to}.gateUp`, gateUp, width);
    out.linear(`${to}.down`, { [`${from}.mlp.down_proj`]: width }, dims.inner, residual);
  }
  out.norm('norm', 'model.norm', width);
  if (!dims.tied) out.linear('head', { lm_head: dims.vocabulary }, width);

  const edge = vision.patch;
  out.add(
    'vision.patch',
    [
      {
        name: 'visual.patch_embed.proj.weight',
        shape: [vision.width, CHANNELS, vision.temporal, edge, edge],
      },
    ],
    // A still image meets the sum over the temporal axis, whose std is then 1/√(3·patch²).
    { fanIn: CHANNELS * vision.temporal * edge * edge, gain: 1 },
    [vision.width, CHANNELS, vision.temporal, edge * edge],
  );
  const biased = { bias: true };
  const visionResidual = { bias: true, gain: 1 / Math.sqrt(2 * vision.depth) };
  for (let i = 0; i < vision.depth; i++) {
    const from = `visual.blocks.${i}`;
    const to = `vision.${i}`;
    out.norm(`${to}.norm1`, `${from}.norm1`, vision.width);
    out.linear(`${to}.qkv`, { [`${from}.attn.qkv`]: 3 * vision.width }, vision.width, biased);
    out.linear(`${to}.o`, { [`${from}.attn.proj`]: vision.width }, vision.width, visionResidual);
    out.norm(`${to}.norm2`, `${from}.norm2`, vision.width);
    const gateUp = { [`${from}.mlp.gate_proj`]: vision.inner, [`${from}.mlp.up_proj`]: vision.inner };
    out.linear(`${to}.gateUp`, gateUp, vision.width, biased);
    out.linear(`${to}.down`, { [`${from}.mlp.down_proj`]: vision.width }, vision.inner, visionResidual);
  }
  const merged = vision.width * vision.merge * vision.merge;
  out.norm('merger.norm', 'visual.merger.ln_q', vision.width);
  out.linear('merger.first', { 'visual.merger.mlp.0': merged }, merged, biased);
  out.linear('merger.second', { 'visual.merger.mlp.2': width }, merged, biased);
  return { parameters: out.parameters, size: out.size };
}

/** Parameters as an optimiser sees them. */
export interface Trainable {
  /** The numbers that are updated: [T]. Of the policy's dtype, or float32 for an adapter. */
  readonly flat: Tensor;
  /** Parameters in the order of `flat`, without gaps; offsets count from its start. */
  readonly parameters: readonly Parameter[];
  /** Leaves over the storage of `flat`, one per parameter. */
  readonly leaves: readonly Tensor[];
}

/**
 * Views of `flat` [P], one per parameter in table order. Those that `tuned` selects are leaves, whose
 * flattened gradients are the gradient of `flat`.
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

/** W stands for D, and every projection has a bias. */
export interface VisionBlock extends DecoderLayer {
  readonly oBias: Tensor;
  readonly gateUpBias: Tensor;
  readonly downBias: Tensor;
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

/** Arranges tensors given in the layout's order by their role: `layers.0.qkv.bias` is `layers[0].qkvBias`. */
export function arrange(layout: Layout, dims: Dims, tensors: readonly Tensor[]): Weights {
  const byName = new Map(layout.parameters.map(({ name }, i) => [name, tensors[i]!]));
  const get = (name: string): Tensor => {
    const tensor = byName.get(name);
    if (tensor === undefined) throw new CheckpointError(`parameter ${name} is not in the layout`);
    return tensor;
  };
  const biased = <W extends string>(owner: string, ...products: readonly W[]) =>
    Object.fromEntries(
      products.flatMap((product) => [
        [product, get(`${owner}.${product}.weight`)],
        [`${product}Bias`, get(`${owner}.${product}.bias`)],
      ]),
    ) as Readonly<Record<W | `${W}Bias`, Tensor>>;
  const norms = (owner: string) => ({ norm1: get(`${owner}.norm1`), norm2: get(`${owner}.norm2`) });
  return {
    embed: get('embed'),
    layers: Array.from({ length: dims.layers }, (_, i) => ({
      ...norms(`layers.${i}`),
      ...biased(`layers.${i}`, 'qkv'),
      o: get(`layers.${i}.o`),
      gateUp: get(`layers.${i}.gateUp`),
      down: get(`layers.${i}.down`),
    })),
    norm: get('norm'),
    head: get(dims.tied ? 'embed' : 'head'),
    patch: get('vision.patch'),
    blocks: Array.from({ length: dims.vision.depth }, (_, i) => ({
      ...norms(`vision.${i}`),
      ...biased(`vision.${i}`, 'qkv', 'o', 'gateUp', 'down'),
    })),
    merger: { norm: get('merger.norm'), ...biased('merger', 'first', 'second') },
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
