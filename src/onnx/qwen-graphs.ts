/**
 * Decoder graphs: token embeddings, and layers with a key/value cache. Attention and rotation are
 * onnxruntime's own operators; in those of ONNX they take a dozen nodes and copy the cache at every step.
 */
import { CHANNELS, type Dims, VISION_EPSILON } from '../policy/model-config.ts';
import { GraphBuilder, valueMessage } from './graph.ts';

const EMBEDDING = 'model.embed_tokens.weight';
/** Sizes of heads that onnxruntime's attention takes are multiples of this; others are padded with zeros around it. */
const HEAD_UNIT = 8;

/** `input_ids` [B, T] → `inputs_embeds` [B, T, D]. */
export function embeddingGraph({ vocabulary, width }: Dims): GraphBuilder {
  const g = new GraphBuilder('embed_tokens');
  const ids = g.input('input_ids', 'int64', ['batch_size', 'sequence_length']);
  const rows = g.op('Gather', [g.weight(EMBEDDING, [vocabulary, width], true), ids]);
  g.output('inputs_embeds', 'float32', ['batch_size', 'sequence_length', width], rows);
  return g;
}

/** Rotary inputs for queries and keys: one table row per token, and its index. */
interface Rotary {
  /** [B·T, d/2]. */
  readonly cos: string;
  readonly sin: string;
  /** [B, T]. */
  readonly rows: string;
}

/** Rotary tables of the tokens, each frequency by the position of its section (M-RoPE). */
function rotaryOf(g: GraphBuilder, { headDim, theta, sections }: Dims, positions: string): Rotary {
  const half = headDim / 2;
  const frequencies = g.floats(
    Float32Array.from({ length: half }, (_, j) => theta ** ((-2 * j) / headDim)),
    [1, 1, 1, half],
  );
  const angles = g.op('Mul', [g.op('Unsqueeze', [g.cast(positions, 'float32'), g.ints(3)]), frequencies]); // [3, B, T, d/2]
  let start = 0;
  const parts = sections.flatMap((size, axis) => {
    const from = start;
    start += size;
    return size === 0 ? [] : [g.slice(g.slice(angles, 0, axis, axis + 1), 3, from, start)];
  });
  const halves = parts.length === 1 ? parts[0]! : g.op('Concat', parts, { axis: 3 }); // [1, B, T, d/2]
  const flat = g.reshape(halves, -1, half);
  const tokens = g.op('Slice', [g.op('Shape', [positions]), g.ints(1), g.ints(3), g.ints(0)]); // B, T
  const rows = g.op('Reshape', [g.range(g.size(flat, 0)), tokens]);
  return { cos: g.op('Cos', [flat]), sin: g.op('Sin', [flat]), rows };
}

/** Attention inputs that describe the tokens present. */
interface Seen {
  /** 0 where the attention mask has a token, else `MASKED`: [B, 1, T, S]. */
  readonly bias: string;
  /** S − 1 for each row: int32 [B]. */
  readonly last: string;
  /** S: int32 [1]. */
  readonly total: string;
}

/** Rows are padded in front, so that all end at the same column. */
function seenTokens(g: GraphBuilder, attention: string, batch: string, length: string): Seen {
  const total = g.size(attention, 1); // [1]
  const there = g.op('Where', [g.op('Greater', [attention, g.int(0)]), g.float(0), g.float(MASKED)]); // [B, S]
  const shape = g.op('Concat', [batch, g.ints(1), length, total], { axis: 0 });
  return {
    bias: g.op('Expand', [g.op('Unsqueeze', [there, g.ints(1, 2)]), shape]),
    last: g.cast(g.op('Expand', [g.op('Sub', [total, g.ints(1)]), batch]), 'int32'),
    total: g.cast(total, 'int32'),
  };
}

/**
 * `inputs_embeds` [B, T, D], `attention_mask` [B, S], `position_ids` [3, B, T] and the cache so far → `logits` [B, T, V] and the cache;
 * S counts the tokens of the cache and these. A token sees those before it and itself, where the attention mask has them. A cache of more
 * columns than S − T is one of which the first S − T are filled; the cache that comes back then has as many columns, and may lie where the given
 * one lies: nothing is copied, unless heads are padded.
 */
export function decoderGraph(dims: Dims): GraphBuilder {
  const { width, layers, heads, kvHeads, headDim, inner, epsilon, vocabulary } = dims;
  const padding = Math.ceil(headDim / HEAD_UNIT) * HEAD_UNIT - headDim;
  const padded = headDim + padding;
  const g = new GraphBuilder('decoder_model_merged');
  const embeds = g.input('inputs_embeds', 'float32', ['batch_size', 'sequence_length', width]);
  const attention = g.input('attention_mask', 'int64', ['batch_size', 'total_sequence_length']);
  const positions = g.input('position_ids', 'int64', [3, 'batch_size', 'sequence_length']);
  const past = Array.from({ length: layers }, (_, i) =>
    (['key', 'value'] as const).map((part) =>
      g.input(`past_key_values.${i}.${part}`, 'float32', [
        'batch_size',
        kvHeads,
        'past_sequence_length',
        headDim,
      ]),
    ),
  );
  const batch = g.size(embeds, 0);
  const length = g.size(embeds, 1);
  const rotary = rotaryOf(g, dims, positions);
  const { bias, last, total } = seenTokens(g, attention, batch, length);
  const shape = (...parts: (number | string)[]): string =>
    g.op(
      'Concat',
      parts.map((part) => (typeof part === 'number' ? g.ints(part) : part)),
      { axis: 0 },
    );
  // Made of an input, so that onnxruntime infers no shape of what is padded: where that of a cache is known, it takes the cache that comes
  // back, which is longer, for one of the same size, and writes it into the same memory.
  const behind = (): string => {
    const nothing = g.op('Mul', [batch, g.ints(0)]);
    return g.op('Add', [g.ints(0, 0, 0, 0, 0, 0, 0, padding), nothing]);
  };
  const pads = padding === 0 ? '' : behind();
  /** [B, T, n·d] with zeros behind each head: [B, T, n·p]. */
  const widened = (value: string, count: number): string => {
    if (padding === 0) return value;
    const split = g.op('Reshape', [value, shape(batch, length, count, headDim)]);
    const wide = g.op('Pad', [split, pads]);
    return g.op('Reshape', [wide, shape(batch, length, count * padded)]);
  };
  let x = g.reshape(embeds, -1, width); // [B·T, D]
  for (let i = 0; i < layers; i++) {
    const from = `model.layers.${i}`;
    const normed = g.rmsNorm(x, `${from}.input_layernorm`, width, epsilon);
    const project = (name: string, count: number): string => {
      const flat = g.linear(normed, `${from}.self_attn.${name}_proj`, count * headDim, width, true);
      return g.op('Reshape', [flat, shape(batch, length, count * headDim)]); // [B, T, n·d]
    };
    const turned = (name: string, count: number): string => {
      const output = `${from}.${name}`;
      g.contributed(
        'RotaryEmbedding',
        [project(name, count), rotary.rows, rotary.cos, rotary.sin],
        [output],
        {},
      );
      return widened(output, count);
    };
    const mixed = `${from}.attention`;
    const parts = ['key', 'value'] as const;
    const present = parts.map((part) => `present.${i}.${part}`);
    const computed = padding === 0 ? present : present.map((name) => `${name}/padded`);
    g.contributed(
      'GroupQueryAttention',
      [
        turned('q', heads),
        turned('k', kvHeads),
        widened(project('v', kvHeads), kvHeads),
        ...past[i]!.map((name) => (padding === 0 ? name : g.op('Pad', [name, pads]))),
        last,
        total,
        '',
        '',
        '',
        bias,
      ],
      [mixed, ...computed],
      { num_heads: heads, kv_num_heads: kvHeads, scale: { float: 1 / Math.sqrt(headDim) } },
    ); // [B, T, Hq·p]
    if (padding > 0) {
      for (const [part, name] of present.entries()) g.rename(name, g.slice(computed[part]!, 3, 0, headDim));
    }
    const narrowed = padding === 0 ? mixed : g.slice(g.reshape(mixed, -1, heads, padded), 2, 0, headDim);
    const joined = g.reshape(narrowed, -1, heads * headDim);
    const attended = g.op('Add', [
      x,
      g.linear(joined, `${from}.self_attn.o_proj`, width, heads * headDim, false),
    ]);
    const second = g.rmsNorm(attended, `${from}.post_attention_layernorm`, width, epsilon);
    const gate = g.silu(g.linear(second, `${from}.mlp.gate_proj`, inner, width, false));
    const up = g.linear(second, `${from}.mlp.up_proj`, inner, width, false);
    x = g.op('Add', [
      attended,
      g.linear(g.op('Mul', [gate, up]), `${from}.mlp.down_proj`, width, inner, false),
    ]);
  }
  const hidden = g.rmsNorm(x, 'model.norm', width, epsilon);
  const head = dims.tied ? EMBEDDING : 'lm_head.weight';
  const logits = g.op('Gemm', [hidden, g.weight(head, [vocabulary, width], true)], { transB: 1 }); // [B·T, V]
  const wide = g.op('Reshape', [logits, shape(batch, length, vocabulary)]);
  g.output('logits', 'float32', ['batch_size', 'sequence_length', vocabulary], wide);
  for (let i = 0; i < layers; i++) {
    for (const part of ['key', 'value']) {
      g.outputs.push(
        valueMessage(`present.${i}.${part}`, 'float32', [
          'batch_size',
          kvHeads,
          'present_sequence_length',
          headDim,
        ]),
      );
    }
  }
  return g;
}

/** Added to the score of a pair that does not attend: no probability is left of it in float32, and no NaN comes of it. */
const MASKED = -1e9;

interface Places {
  /** [P, D / head]. */
  readonly cos: string;
  readonly sin: string;
  /** Additive mask [P, P] of each layer. */
  readonly masks: readonly string[];
}

function places(g: GraphBuilder, { vision }: Dims, patches: string, grid: string): Places {
  const { merge, patch, window } = vision;
  const width = vision.width / vision.heads;
  const quarter = width / 4;
  const unit = g.int(merge * merge);
  const side = g.int(Math.floor(window / merge / patch));
  const edge = g.int(merge);
  const column = (i: number): string => g.op('Squeeze', [g.slice(grid, 1, i, i + 1), g.ints(1)]); // [I]
  const [times, heights, widths] = [column(0), column(1), column(2)];
  const frames = g.op('Mul', [heights, widths]); // patches of a frame, [I]
  const counts = g.op('Mul', [times, frames]);
  const ends = g.op('CumSum', [counts, g.int(0)]); // [I]
  const starts = g.op('Sub', [ends, counts]);
  const number = g.range(g.size(patches, 0)); // [P]
  const past = g.op('GreaterOrEqual', [
    g.op('Unsqueeze', [number, g.ints(1)]),
    g.op('Unsqueeze', [ends, g.ints(0)]),
  ]);
  const image = g.op('ReduceSum', [g.cast(past, 'int64'), g.ints(1)], { keepdims: 0 }); // [P]
  const ofImage = (values: string): string => g.op('Gather', [values, image]); // [P]
  const local = g.op('Sub', [number, ofImage(starts)]);
  const area = ofImage(frames);
  const inFrame = g.op('Mod', [local, area]);
  const frameStart = g.op('Sub', [number, inFrame]); // the same for all patches of a frame
  const block = g.op('Div', [inFrame, unit]);
  const sub = g.op('Mod', [inFrame, unit]);
  const columns = g.op('Div', [ofImage(widths), edge]); // merged tokens of a row
  const row = g.op('Div', [block, columns]);
  const col = g.op('Mod', [block, columns]);
  const y = g.op('Add', [g.op('Mul', [row, edge]), g.op('Div', [sub, edge])]); // [P]
  const x = g.op('Add', [g.op('Mul', [col, edge]), g.op('Mod', [sub, edge])]);
  const frequencies = g.floats(
    Float32Array.from({ length: quarter }, (_, j) => vision.theta ** (-j / quarter)),
    [1, quarter],
  );
  const angles = (at: string): string =>
    g.op('Mul', [g.op('Unsqueeze', [g.cast(at, 'float32'), g.ints(1)]), frequencies]); // [P, quarter]
  const both = g.op('Concat', [angles(y), angles(x)], { axis: 1 });
  const all = g.op('Concat', [both, both], { axis: 1 }); // [P, D / head]
  const mask = (of: string): string => {
    const same = g.op('Equal', [g.op('Unsqueeze', [of, g.ints(1)]), g.op('Unsqueeze', [of, g.ints(0)])]);
    return g.op('Where', [same, g.float(0), g.float(MASKED)]); // [P, P]
  };
  const windowMask = (): string => {
    const across = g.op('Div', [g.op('Sub', [g.op('Add', [columns, side]), g.int(1)]), side]);
    const place = g.op('Add', [g.op('Mul', [g.op('Div', [row, side]), across]), g.op('Div', [col, side])]);
    // Fewer windows than patches, so that numbers of different frames differ.
    return mask(g.op('Add', [frameStart, place]));
  };
  const kinds = Array.from({ length: vision.depth }, (_, i) => vision.fullAttention.includes(i));
  const frame = kinds.includes(true) ? mask(frameStart) : '';
  const inWindow = kinds.includes(false) ? windowMask() : '';
  return {
    cos: g.op('Cos', [all]),
    sin: g.op('Sin', [all]),
    masks: kinds.map((full) => (full ? frame : inWindow)),
  };
}

export function visionGraph(dims: Dims): GraphBuilder {
  const { vision } = dims;
  const { width, heads, inner, merge } = vision;
  const head = width / heads;
  const pixels = CHANNELS * vision.temporal * vision.patch * vision.patch;
  const g = new GraphBuilder('vision_encoder');
  const patches = g.input('pixel_values', 'float32', ['num_patches', pixels]);
  const grid = g.input('image_grid_thw', 'int64', ['num_images', 3]);
  const { cos, sin, masks } = places(g, dims, patches, grid);
  let x = g.op('Gemm', [patches, g.weight('visual.patch_embed.proj.weight', [width, pixels], true)], {
    transB: 1,
  }); // [P, W]
  for (let i = 0; i < vision.depth; i++) {
    const from = `visual.blocks.${i}`;
    const normed = g.rmsNorm(x, `${from}.norm1`, width, VISION_EPSILON);
    const qkv = g.reshape(g.linear(normed, `${from}.attn.qkv`, 3 * width, width, true), -1, 3, heads, head); // [P, 3, H, d]
    const parts = g.transpose(qkv, 1, 2, 0, 3); // [3, H, P, d]
    const [query, key, value] = [0, 1, 2].map((k) =>
      g.op('Squeeze', [g.slice(parts, 0, k, k + 1), g.ints(0)]),
    ) as [string, string, string];
    const q = g.rotary(query, cos, sin, head);
    const k = g.rotary(key, cos, sin, head);
    const scores = g.op('Mul', [g.op('MatMul', [q, g.transpose(k, 0, 2, 1)]), g.float(1 / Math.sqrt(head))]); // [H, P, P]
    const seen = g.op('Softmax', [g.op('Add', [scores, masks[i]!])], {
      axis: -1,
    });
    const mixed = g.reshape(g.transpose(g.op('MatMul', [seen, value]), 1, 0, 2), -1, width); // [P, W]
    const attended = g.op('Add', [x, g.linear(mixed, `${from}.attn.proj`, width, width, true)]);
    const second = g.rmsNorm(attended, `${from}.norm2`, width, VISION_EPSILON);
    const gate = g.silu(g.linear(second, `${from}.mlp.gate_proj`, inner, width, true));
    const up = g.linear(second, `${from}.mlp.up_proj`, inner, width, true);
    x = g.op('Add', [
      attended,
      g.linear(g.op('Mul', [gate, up]), `${from}.mlp.down_proj`, width, inner, true),
    ]);
  }
  const merged = merge * merge * width;
  const joined = g.reshape(g.rmsNorm(x, 'visual.merger.ln_q', width, VISION_EPSILON), -1, merged); // [P / merge², merge² · W]
  const hidden = g.gelu(g.linear(joined, 'visual.merger.mlp.0', merged, merged, true));
  const features = g.linear(hidden, 'visual.merger.mlp.2', dims.width, merged, true);
  g.output('image_features', 'float32', ['num_image_tokens', dims.width], features);
  return g;
}
