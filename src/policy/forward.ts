/**
 * Forward pass: tokens and images to hidden states and a cache. In training a group of responses attends to
 * its prompt's cache with gradient, which equals the forward pass of each full sequence.
 */
import type { Engine, Tensor } from '../engine/engine.ts';
import { EngineError } from '../ground/errors.ts';
import type { Batch } from './batch.ts';
import { decode, type Packing } from './decoder.ts';
import { runSegment, type Tape, taped } from './gradient-checkpointing.ts';
import type { Prefix } from './kv-cache.ts';
import type { Weights } from './layout.ts';
import type { Dims } from './model-config.ts';
import { rotaryTables } from './rope.ts';
import { encodeImages } from './vision.ts';

/** Parts of a policy that a forward pass uses. */
export interface Network {
  readonly engine: Engine;
  readonly dims: Dims;
  readonly weights: Weights;
  /** True if texts behind one prompt may share rows in training. Default: on a CPU. */
  readonly branching?: boolean;
}

export interface ForwardInput extends Batch {
  /** Prompts that groups of rows share. */
  readonly prefix?: Prefix | undefined;
  /** Flat indices b · T + t of the hidden states wanted, none of them padding; all when absent. */
  readonly rows?: Int32Array | undefined;
  /**
   * Gradient checkpointing, layer by layer; gradients come from `tape.backward` instead of `engine.grad`. The
   * prefix is constant unless the same tape made it.
   */
  readonly tape?: Tape | undefined;
  /** False when the result will be no other call's prefix: then its cache is empty, and nothing is kept for it. */
  readonly useCache?: boolean | undefined;
}

interface ForwardOutput {
  /** States after the final norm: [K or B·T, D]. */
  readonly hidden: Tensor;
  /** Keys and values of this call, ready to be the `prefix` of another: [B, Hkv, T, d] per layer. */
  readonly cache: Prefix;
}

const HIDE = Number.NEGATIVE_INFINITY;

/** [1, 1, T, T]: position t sees 0 … t. */
function causalMask(engine: Engine, length: number): Tensor {
  const mask = new Float32Array(length * length);
  for (let t = 0; t < length; t++) mask.fill(HIDE, t * length + t + 1, (t + 1) * length);
  return engine.tensor(mask, [1, 1, length, length]);
}

/** [B, 1, T, T]: a position sees itself and those that it continues; padding sees the first alone, so that attention to it costs little. */
function branchMask(engine: Engine, parents: Int32Array, { length, lengths }: ForwardInput): Tensor {
  const mask = new Float32Array(parents.length * length).fill(HIDE);
  parents.forEach((parent, i) => {
    const t = i % length;
    const from = (i - t + parent) * length;
    if (parent >= 0) mask.copyWithin(i * length, from, from + parent + 1);
    mask[i * length + (t < lengths[(i - t) / length]! ? t : 0)] = 0;
  });
  return engine.tensor(mask, [lengths.length, 1, length, length]);
}

/** [P, 1, 1, S]: hides the keys behind each prompt's length; undefined when none is shorter. */
export function paddingMask(engine: Engine, lengths: Int32Array, length: number): Tensor | undefined {
  if (lengths.every((n) => n === length)) return undefined;
  const mask = new Float32Array(lengths.length * length);
  for (let p = 0; p < lengths.length; p++) mask.fill(HIDE, p * length + lengths[p]!, (p + 1) * length);
  return engine.tensor(mask, [lengths.length, 1, 1, length]);
}

/** Rotary tables as tensors: [1, T, d] when all rows stand at the same positions, else [B, T, d]. */
function rotary(network: Network, input: ForwardInput): { cos: Tensor; sin: Tensor } {
  const { engine, dims } = network;
  const { batch, length, positions } = input;
  const count = batch * length;
  let equal = true;
  for (let axis = 0; equal && axis < 3; axis++) {
    for (let i = length; i < count; i++) {
      if (positions[axis * count + i] !== positions[axis * count + (i % length)]) {
        equal = false;
        break;
      }
    }
  }
  const rows = equal ? 1 : batch;
  let used = positions;
  if (equal && batch > 1) {
    used = new Int32Array(3 * length);
    for (let axis = 0; axis < 3; axis++)
      used.set(positions.subarray(axis * count, axis * count + length), axis * length);
  }
  const { cos, sin } = rotaryTables(dims, used);
  return {
    cos: engine.tensor(cos, [rows, length, dims.headDim]),
    sin: engine.tensor(sin, [rows, length, dims.headDim]),
  };
}

/** Padding below this share of a batch is not worth leaving out. */
const WORTH_PACKING = 0.03;

/** Places of the tokens of a padded batch; undefined when there is too little padding to leave out. */
function packed(input: ForwardInput): { readonly take: Int32Array; readonly spread: Int32Array } | undefined {
  const { batch, length, lengths } = input;
  const count = lengths.reduce((sum, n) => sum + n, 0);
  if (count > (1 - WORTH_PACKING) * batch * length) return undefined;
  const take = new Int32Array(count);
  const spread = new Int32Array(batch * length);
  let n = 0;
  for (let b = 0; b < batch; b++) {
    for (let t = 0; t < lengths[b]!; t++, n++) {
      take[n] = b * length + t;
      spread[b * length + t] = n;
    }
  }
  return { take, spread };
}

/** Embeddings of tokens [N] with the visual tokens in their places: [N, D]. */
function embed(network: Network, tokens: Int32Array, { images, tape }: ForwardInput): Tensor {
  const { engine, dims, weights } = network;
  const ids = engine.tensor(tokens, [tokens.length]);
  if (images.length === 0) {
    const body = (): Tensor[] => [engine.indexSelect(weights.embed, ids)]; // [N, D]
    return runSegment(tape, { inputs: [], parameters: [weights.embed], constants: ids, body })[0]!;
  }
  const places: number[] = [];
  for (let i = 0; i < tokens.length; i++) if (tokens[i] === dims.special.image) places.push(i);
  const features = encodeImages(engine, weights, dims.vision, images, tape); // [M, D]
  if (features.shape[0] !== places.length) {
    throw new EngineError(
      `forward: ${images.length} images give ${features.shape[0]} visual tokens, but the tokens have ${places.length} image places; ` +
        'padding must not use the image token',
    );
  }
  const index = engine.tensor(Int32Array.from(places), [places.length]);
  return runSegment(tape, {
    inputs: [features],
    parameters: [weights.embed],
    constants: [ids, index],
    body: ([visual]) => [engine.indexCopy(engine.indexSelect(weights.embed, ids), index, visual!)], // [N, D]
  })[0]!;
}

/** Runs the policy; without gradient inside `engine.noGrad`. @throws EngineError when shapes disagree */
export function forward(network: Network, input: ForwardInput): ForwardOutput {
  const { engine, dims, weights } = network;
  const { batch, length, tokens, positions, rows, prefix, tape } = input;
  if (tokens.length !== batch * length || positions.length !== 3 * tokens.length) {
    throw new EngineError(
      `forward: batch ${batch} × length ${length} needs as many tokens and three times the positions, ` +
        `got ${tokens.length} and ${positions.length}`,
    );
  }
  return taped(engine, tape, () => {
    const { parents } = input;
    const causal = length > 1 ? causalMask(engine, length) : undefined;
    const mask = parents === undefined ? causal : branchMask(engine, parents, input);
    const places = packed(input);
    const packing: Packing | undefined = places && {
      take: engine.tensor(places.take, [places.take.length]),
      spread: engine.tensor(places.spread, [places.spread.length]),
    };
    const used = places === undefined ? tokens : places.take.map((place) => tokens[place]!);
    const done = decode(engine, weights, dims, {
      x: embed(network, used, input),
      batch,
      length,
      ...rotary(network, input),
      mask,
      prefix,
      rows: rows && engine.tensor(rows, [rows.length]),
      packing,
      tape,
      useCache: input.useCache,
    });
    const cache: Prefix = { layers: done.layers, mask: paddingMask(engine, input.lengths, length) };
    if (packing === undefined || rows !== undefined) return { hidden: done.hidden, cache };
    // Without a choice of rows the shape is the padded one; padding holds the first token's state.
    const [spread] = runSegment(tape, {
      inputs: [done.hidden],
      constants: packing,
      body: ([states]) => [engine.indexSelect(states!, packing.spread)],
    });
    return { hidden: spread!, cache };
  });
}
