/**
 * The vision tower as a graph: `pixel_values` [patches, 3 · frames · patch²] and `image_grid_thw` [images, 3] → `image_features`
 * [patches / merge², width of the decoder], of any number of images of any sizes. Where a patch stands, and with which others it attends,
 * is computed in the graph from its number: patches come image by image, in merged tokens of merge × merge, row by row. Patches that share
 * the number of a window (or of a frame, in layers of full attention) attend to each other, which a mask says; nothing is reordered.
 */
import { CHANNELS, type Dims, VISION_EPSILON } from '../policy/model-config.ts';
import { GraphBuilder } from './graph.ts';

/** Added to the score of a pair that does not attend: no probability is left of it in float32, and no NaN comes of it. */
export const MASKED = -1e9;

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
