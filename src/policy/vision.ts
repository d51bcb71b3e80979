/**
 * The vision tower of Qwen2.5-VL: patches → patch embedding → blocks with window or full attention → 2 × 2 merger.
 * Source: `Qwen2_5_VisionTransformerPretrainedModel` of transformers. Which patches attend to which and in what order they
 * stand is planned on the host: attention is independent of the order inside a window, so windows of equal length stand
 * together and each length is one batched product; the merger's output is put back in reading order.
 */
import type { Engine, Tensor } from '../engine/engine.ts';
import type { EncodedPrompt } from './batch.ts';
import { runSegment, type Tape, taped } from './gradient-checkpointing.ts';
import type { Grid, ProcessedImage } from './image-processor.ts';
import type { VisionBlock, Weights } from './layout.ts';
import { moduleTensors, project } from './lora.ts';
import { CHANNELS, type Dims, VISION_EPSILON, type VisionDims } from './model-config.ts';
import type { Policy } from './policy.ts';

/** `count` spans of `length` patches each, from patch `start` on. */
export interface AttentionSpans {
  readonly start: number;
  readonly count: number;
  readonly length: number;
}

interface VisionPlan {
  /** Number of patches, L. */
  readonly patches: number;
  /** [L / merge²]: merged token (reading order, images one after another) that stands at each place. */
  readonly order: Int32Array;
  /** Inverse of `order`; null when it is the identity. */
  readonly inverse: Int32Array | null;
  /** Attention windows in the order above. */
  readonly windows: readonly AttentionSpans[];
  /** Whole images, after gathering patches by `gather` when that is not null. */
  readonly images: readonly AttentionSpans[];
  /** [L]: place of each patch when images stand together, and back; null when they do already. */
  readonly gather: Int32Array | null;
  readonly scatter: Int32Array | null;
  /** Rotary tables in the order above: [L, D]. */
  readonly cos: Float32Array;
  readonly sin: Float32Array;
}

/** Groups consecutive equal lengths. */
function spansOf(lengths: readonly number[]): AttentionSpans[] {
  const out: { start: number; count: number; length: number }[] = [];
  let start = 0;
  for (const length of lengths) {
    const last = out.at(-1);
    if (last?.length === length) last.count++;
    else out.push({ start, count: 1, length });
    start += length;
  }
  return out;
}

function invert(order: Int32Array): Int32Array {
  const inverse = new Int32Array(order.length);
  for (let i = 0; i < order.length; i++) inverse[order[i]!] = i;
  return inverse;
}

const isIdentity = (order: Int32Array): boolean => order.every((value, i) => value === i);

/** The windows of one image as lists of merged tokens (row, column), in reading order. */
function windowsOf(grid: Grid, merge: number, side: number): [row: number, column: number][][] {
  const rows = grid.rows / merge;
  const columns = grid.columns / merge;
  const out: [number, number][][] = [];
  for (let top = 0; top < rows; top += side) {
    for (let left = 0; left < columns; left += side) {
      const window: [number, number][] = [];
      for (let row = top; row < Math.min(top + side, rows); row++) {
        for (let column = left; column < Math.min(left + side, columns); column++) window.push([row, column]);
      }
      out.push(window);
    }
  }
  return out;
}

function plan(vision: VisionDims, grids: readonly Grid[]): VisionPlan {
  const { merge } = vision;
  const unit = merge * merge;
  const side = Math.floor(vision.window / merge / vision.patch);
  const all: { image: number; tokens: [number, number][]; base: number; columns: number }[] = [];
  let base = 0;
  for (const [image, grid] of grids.entries()) {
    for (const tokens of windowsOf(grid, merge, side)) {
      all.push({ image, tokens, base, columns: grid.columns / merge });
    }
    base += (grid.rows * grid.columns) / unit;
  }
  all.sort((a, b) => b.tokens.length - a.tokens.length); // stable: equal lengths keep image order
  const patches = base * unit;
  const order = new Int32Array(base);
  const imageOf = new Int32Array(base);
  const width = vision.width / vision.heads; // D
  const quarter = width / 4;
  const cos = new Float32Array(patches * width);
  const sin = new Float32Array(patches * width);
  let place = 0;
  for (const { image, tokens, base: first, columns } of all) {
    for (const [row, column] of tokens) {
      order[place] = first + row * columns + column;
      imageOf[place] = image;
      for (let sub = 0; sub < unit; sub++) {
        const at = (place * unit + sub) * width;
        const y = row * merge + Math.floor(sub / merge);
        const x = column * merge + (sub % merge);
        for (let j = 0; j < quarter; j++) {
          const frequency = vision.theta ** (-j / quarter);
          // [height angles, width angles], twice: the halves that rotate against each other.
          for (const [k, angle] of [y * frequency, x * frequency].entries()) {
            const c = Math.cos(angle);
            const s = Math.sin(angle);
            cos[at + k * quarter + j] = c;
            sin[at + k * quarter + j] = s;
            cos[at + (k + 2) * quarter + j] = c;
            sin[at + (k + 2) * quarter + j] = s;
          }
        }
      }
      place++;
    }
  }
  // Places sorted by image, stable: where each image's patches stand.
  const places = Int32Array.from({ length: base }, (_, i) => i).sort(
    (a, b) => imageOf[a]! - imageOf[b]! || a - b,
  );
  const together = isIdentity(places);
  const gather = Int32Array.from(
    { length: patches },
    (_, i) => places[Math.floor(i / unit)]! * unit + (i % unit),
  );
  return {
    patches,
    order,
    inverse: isIdentity(order) ? null : invert(order),
    windows: spansOf(all.map(({ tokens }) => tokens.length * unit)),
    images: spansOf(grids.map((grid) => grid.rows * grid.columns)),
    gather: together ? null : gather,
    scatter: together ? null : invert(gather),
    cos,
    sin,
  };
}

const cache = new WeakMap<VisionDims, Map<string, VisionPlan>>();
const CACHE_LIMIT = 64;

/** The plan of a batch of images; plans are remembered, since figures share few sizes. */
export function planVision(vision: VisionDims, grids: readonly Grid[]): VisionPlan {
  const key = grids.map((grid) => `${grid.rows}x${grid.columns}`).join();
  const known = cache.get(vision) ?? new Map<string, VisionPlan>();
  cache.set(vision, known);
  let visionPlan = known.get(key);
  if (visionPlan === undefined) {
    if (known.size >= CACHE_LIMIT) known.clear();
    visionPlan = plan(vision, grids);
    known.set(key, visionPlan);
  }
  return visionPlan;
}

/** Floats of patches that are kept between calls: V8 answers megabytes of fresh arrays at every step by marking its whole heap. */
const KEPT = 1 << 21;
let kept = new Float32Array(0);

function scratch(size: number): Float32Array {
  if (size > KEPT) return new Float32Array(size);
  if (kept.length < size) kept = new Float32Array(size);
  return kept.subarray(0, size);
}

/** Patches of all images in the plan's order: [L, 3 · patch²]; overwritten by the next call. */
function arrangePatches(
  vision: VisionDims,
  images: readonly ProcessedImage[],
  plan: VisionPlan,
): Float32Array {
  const width = CHANNELS * vision.patch * vision.patch;
  const block = vision.merge * vision.merge * width; // patches of one merged token stand together
  const only = images.length === 1 ? images[0] : undefined;
  if (only !== undefined && plan.inverse === null) return only.patches;
  const out = scratch(plan.patches * width);
  const starts: { patches: Float32Array; from: number }[] = [];
  for (const { patches } of images) {
    for (let from = 0; from < patches.length; from += block) starts.push({ patches, from });
  }
  for (let place = 0; place < plan.order.length; place++) {
    const { patches, from } = starts[plan.order[place]!]!;
    out.set(patches.subarray(from, from + block), place * block);
  }
  return out;
}

/** Attention inside each span: queries and keys [1, L, 2·H, D], values [1, L, H, D] → [L, H·D]. */
function attend(
  engine: Engine,
  queryKey: Tensor,
  value: Tensor,
  runs: readonly AttentionSpans[],
  heads: number,
  width: number,
): Tensor {
  const outputs = runs.map(({ start, count, length }) => {
    const cut = (x: Tensor, h: number): Tensor => {
      const run = runs.length === 1 ? x : engine.narrow(x, 1, start, count * length);
      return engine.permute(engine.reshape(run, [count, length, h, width]), [0, 2, 1, 3]); // [n, h, l, D]
    };
    const both = cut(queryKey, 2 * heads);
    const [query, key] = engine.split(both, [heads, heads], 1) as [Tensor, Tensor]; // [n, H, l, D]
    const out = engine.attention({ query, key, value: cut(value, heads) }); // [n, H, l, D]
    return engine.reshape(engine.permute(out, [0, 2, 1, 3]), [count * length, heads * width]);
  });
  return outputs.length === 1 ? outputs[0]! : engine.concat(outputs, 0); // [L, H·D]
}

interface Context {
  readonly engine: Engine;
  readonly vision: VisionDims;
  readonly plan: VisionPlan;
  readonly cos: Tensor; // [1, L, D]
  readonly sin: Tensor;
  readonly gather: Tensor | null;
  readonly scatter: Tensor | null;
}

function block(context: Context, weights: VisionBlock, x: Tensor, full: boolean): Tensor {
  const { engine, vision, plan, gather, scatter } = context;
  const { adapter } = weights;
  const { heads } = vision;
  const width = vision.width / heads;
  const normed = engine.rmsNorm(x, weights.norm1, VISION_EPSILON); // [L, W]
  const qkv = engine.reshape(project(engine, normed, weights.qkv, adapter?.qkv, weights.qkvBias), [
    1,
    plan.patches,
    3 * heads,
    width,
  ]);
  const [plain, values] = engine.split(qkv, [2 * heads, heads], 2) as [Tensor, Tensor];
  let queryKey = engine.rotary(plain, context.cos, context.sin); // [1, L, 2·H, D]
  let value = values; // [1, L, H, D]
  if (full && gather !== null) {
    const place = (t: Tensor, h: number): Tensor =>
      engine.reshape(engine.indexSelect(engine.reshape(t, [plan.patches, h * width]), gather), [
        1,
        plan.patches,
        h,
        width,
      ]);
    queryKey = place(queryKey, 2 * heads);
    value = place(value, heads);
  }
  let mixed = attend(engine, queryKey, value, full ? plan.images : plan.windows, heads, width); // [L, W]
  if (full && scatter !== null) mixed = engine.indexSelect(mixed, scatter);
  const attended = engine.add(x, project(engine, mixed, weights.o, adapter?.o, weights.oBias)); // [L, W]
  const inner = engine.swiglu(
    project(
      engine,
      engine.rmsNorm(attended, weights.norm2, VISION_EPSILON),
      weights.gateUp,
      adapter?.gateUp,
      weights.gateUpBias,
    ),
  ); // [L, F]
  return engine.add(attended, project(engine, inner, weights.down, adapter?.down, weights.downBias));
}

/** Patch embedding of still images: patches [L, 3·p²], each frame alike, weight [W, 3, frames, p²] → [L, W] */
function patchProduct(engine: Engine, vision: VisionDims, weight: Tensor, patches: Tensor): Tensor {
  const pixels = CHANNELS * vision.patch * vision.patch;
  if (weight.dtype === 'float32' || weight.dtype === 'float64') {
    // Equal frames: the convolution over time is a product with the weights summed over time.
    const kernel = engine.reshape(engine.sum(weight, 2), [vision.width, pixels]); // [W, 3·p²]
    return engine.linear(patches, kernel); // [L, W]
  }
  // A sum of 16-bit weights would be rounded; the product over both frames accumulates in float32, as the reference's.
  const count = patches.shape[0]!;
  const frame = engine.reshape(patches, [count, CHANNELS, 1, vision.patch * vision.patch]);
  const frames = engine.concat(
    Array.from({ length: vision.temporal }, () => frame),
    2,
  ); // [L, 3, frames, p²]
  return engine.linear(
    engine.reshape(frames, [count, vision.temporal * pixels]),
    engine.reshape(weight, [vision.width, vision.temporal * pixels]),
  ); // [L, W]
}

/**
 * Visual tokens of images, in reading order, one image after another: [Σ rows · columns / merge², D]. With a tape each
 * block is a segment of its own.
 */
export function encodeImages(
  engine: Engine,
  weights: Weights,
  vision: VisionDims,
  images: readonly ProcessedImage[],
  tape?: Tape,
): Tensor {
  return taped(engine, tape, () => {
    const plan = planVision(vision, images);
    const width = vision.width / vision.heads;
    const pixels = CHANNELS * vision.patch * vision.patch;
    const index = (places: Int32Array | null): Tensor | null =>
      places === null ? null : engine.tensor(places, [places.length]);
    const context: Context = {
      engine,
      vision,
      plan,
      // In float32 whatever the weights are: the reference rotates so.
      cos: engine.tensor(plan.cos, [1, plan.patches, width]),
      sin: engine.tensor(plan.sin, [1, plan.patches, width]),
      gather: index(plan.gather),
      scatter: index(plan.scatter),
    };
    const { cos, sin, gather, scatter } = context;
    const given = engine.tensor(arrangePatches(vision, images, plan), [plan.patches, pixels]); // [L, 3·p²]
    const { dtype } = weights.patch;
    const patches = dtype === given.dtype ? given : engine.cast(given, dtype);
    let [x] = runSegment(tape, {
      inputs: [patches],
      parameters: [weights.patch],
      body: ([values]) => [patchProduct(engine, vision, weights.patch, values!)], // [L, W]
    });
    for (const [i, parameters] of weights.blocks.entries()) {
      const before = x!;
      [x] = runSegment(tape, {
        inputs: [before],
        parameters: moduleTensors(parameters),
        constants: [cos, sin, gather, scatter],
        body: ([stream]) => [
          engine.scope(() => block(context, parameters, stream!, vision.fullAttention.includes(i))),
        ],
      });
      if (tape === undefined) engine.dispose(before); // a gradient keeps what it needs of it
    }
    const { merger } = weights;
    const inverse = index(plan.inverse);
    const unit = vision.merge * vision.merge;
    const [tokens] = runSegment(tape, {
      inputs: [x!],
      parameters: moduleTensors(merger),
      constants: inverse,
      body: ([stream]) => {
        const normed = engine.rmsNorm(stream!, merger.norm, VISION_EPSILON);
        const joined = engine.reshape(normed, [plan.patches / unit, unit * vision.width]); // [L/4, 4·W]
        const hidden = engine.gelu(
          project(engine, joined, merger.first, merger.adapter?.first, merger.firstBias),
        );
        const merged = project(engine, hidden, merger.second, merger.adapter?.second, merger.secondBias); // [L/4, D]
        return [inverse === null ? merged : engine.indexSelect(merged, inverse)];
      },
    });
    return tokens!;
  });
}

/** The mean of the visual tokens of each prompt, behind the merger: [P][D]. Every prompt has at least one picture. */
export function pictureFeatures(
  { engine, dims, weights }: Policy,
  prompts: readonly EncodedPrompt[],
): Float32Array[] {
  if (prompts.length === 0) return [];
  const images = prompts.flatMap((prompt) => prompt.images);
  const tokens = engine.scope(() =>
    engine.noGrad(() => engine.floats(encodeImages(engine, weights, dims.vision, images))),
  ); // [Σ rows · columns / merge², D]
  return meanOfPictures(dims, prompts, tokens);
}

/** Computes `pictureFeatures` from the visual tokens of all prompts [Σ rows · columns / merge², D]. */
export function meanOfPictures(
  { width, vision }: Dims,
  prompts: readonly EncodedPrompt[],
  tokens: Float32Array,
): Float32Array[] {
  let at = 0;
  return prompts.map((prompt) => {
    const count = prompt.images.reduce(
      (sum, { rows, columns }) => sum + (rows * columns) / vision.merge ** 2,
      0,
    );
    const mean = new Float32Array(width);
    for (let t = 0; t < count; t++, at++) {
      for (let d = 0; d < width; d++) mean[d]! += tokens[at * width + d]! / count;
    }
    return mean;
  });
}
