/** The language decoder as graphs: embeddings of tokens, and the layers with a cache of keys and values that grows by concatenation. */
import type { Dims } from '../policy/model-config.ts';
import { GraphBuilder } from './graph.ts';
import { MASKED } from './vision-graph.ts';

const EMBEDDING = 'model.embed_tokens.weight';

/** `input_ids` [B, T] → `inputs_embeds` [B, T, D]. */
export function embeddingGraph({ vocabulary, width }: Dims): GraphBuilder {
  const g = new GraphBuilder('embed_tokens');
  const ids = g.input('input_ids', 'int64', ['batch_size', 'sequence_length']);
  const rows = g.op('Gather', [g.weight(EMBEDDING, [vocabulary, width], true), ids]);
  g.output('inputs_embeds', 'float32', ['batch_size', 'sequence_length', width], rows);
  return g;
}

/** Rotary tables of the tokens, each frequency by the position of its section (M-RoPE): [B, 1, T, d]. */
function rotaryTables(
  g: GraphBuilder,
  { headDim, theta, sections }: Dims,
  positions: string,
): { cos: string; sin: string } {
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
  const own = parts.length === 1 ? parts[0]! : g.op('Concat', parts, { axis: 3 }); // [1, B, T, d/2]
  const all = g.transpose(g.op('Concat', [own, own], { axis: 3 }), 1, 0, 2, 3); // [B, 1, T, d]
  return { cos: g.op('Cos', [all]), sin: g.op('Sin', [all]) };
}

/** Additive mask [B, 1, 1, T, S]: a token sees those before it and itself, where the attention mask [B, S] has them. */
function causalMask(g: GraphBuilder, embeds: string, attention: string): string {
  const total = g.size(attention, 1);
  const length = g.size(embeds, 1);
  const keys = g.range(total); // [S]
  const queries = g.op('Add', [g.range(length), g.op('Sub', [total, length])]); // [T]
  const before = g.op('LessOrEqual', [
    g.op('Unsqueeze', [keys, g.ints(0)]),
    g.op('Unsqueeze', [queries, g.ints(1)]),
  ]); // [T, S]
  const there = g.op('Unsqueeze', [g.op('Greater', [attention, g.int(0)]), g.ints(1, 2, 3)]); // [B, 1, 1, 1, S]
  return g.op('Where', [g.op('And', [before, there]), g.float(0), g.float(MASKED)]);
}

/**
 * `inputs_embeds` [B, T, D], `attention_mask` [B, S], `position_ids` [3, B, T] and the cache so far → `logits` [B, T, V] and the cache;
 * S counts the tokens of the cache and these.
 */
export function decoderGraph(dims: Dims): GraphBuilder {
  const { width, layers, heads, kvHeads, headDim, inner, epsilon, vocabulary } = dims;
  const group = heads / kvHeads;
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
  const { cos, sin } = rotaryTables(g, dims, positions);
  const mask = causalMask(g, embeds, attention);
  const shape = (...parts: (number | string)[]): string =>
    g.op(
      'Concat',
      parts.map((part) => (typeof part === 'number' ? g.ints(part) : part)),
      { axis: 0 },
    );
  const perHead = (x: string, count: number): string =>
    g.transpose(g.op('Reshape', [x, shape(batch, length, count, headDim)]), 0, 2, 1, 3); // [B, n, T, d]
  const present: [key: string, value: string][] = [];
  let x = g.reshape(embeds, -1, width); // [B·T, D]
  for (let i = 0; i < layers; i++) {
    const from = `model.layers.${i}`;
    const normed = g.rmsNorm(x, `${from}.input_layernorm`, width, epsilon);
    const project = (name: string, count: number): string =>
      perHead(g.linear(normed, `${from}.self_attn.${name}_proj`, count * headDim, width, true), count);
    const query = g.rotary(project('q', heads), cos, sin, headDim); // [B, Hq, T, d]
    const rotated = g.rotary(project('k', kvHeads), cos, sin, headDim); // [B, Hkv, T, d]
    const key = g.op('Concat', [past[i]![0]!, rotated], { axis: 2 }); // [B, Hkv, S, d]
    const value = g.op('Concat', [past[i]![1]!, project('v', kvHeads)], { axis: 2 });
    present.push([key, value]);
    // The queries of a group stand together: keys are not repeated.
    const grouped = g.op('Reshape', [query, shape(batch, kvHeads, -1, headDim)]); // [B, Hkv, G·T, d]
    const scores = g.op('Mul', [
      g.op('MatMul', [grouped, g.transpose(key, 0, 1, 3, 2)]),
      g.float(1 / Math.sqrt(headDim)),
    ]);
    const apart = g.op('Reshape', [scores, shape(batch, kvHeads, group, length, -1)]); // [B, Hkv, G, T, S]
    const seen = g.op('Softmax', [g.op('Add', [apart, mask])], { axis: -1 });
    const flat = g.op('Reshape', [seen, g.op('Shape', [scores])]); // [B, Hkv, G·T, S]
    const mixed = g.op('Reshape', [g.op('MatMul', [flat, value]), shape(batch, heads, length, headDim)]);
    const joined = g.reshape(g.transpose(mixed, 0, 2, 1, 3), -1, heads * headDim); // [B·T, Hq·d]
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
  for (const [i, parts] of present.entries()) {
    for (const [k, part] of (['key', 'value'] as const).entries()) {
      g.output(
        `present.${i}.${part}`,
        'float32',
        ['batch_size', kvHeads, 'total_sequence_length', headDim],
        parts[k]!,
      );
    }
  }
  return g;
}
