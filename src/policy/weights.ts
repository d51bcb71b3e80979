/** Weights in and out of one flat tensor: random start, Hugging Face checkpoints, saving. */
import type { Engine, Tensor } from '../engine/engine.ts';
import { CheckpointError } from '../errors.ts';
import { Random } from '../random.ts';
import type { LayerAdapter, MergerAdapter } from './adapter.ts';
import type { Dims } from './dims.ts';
import { type Layout, type Parameter, type Part, publishedName } from './layout.ts';
import { elements, type StoredDType, type StoredTensor } from './safetensors.ts';
import { listed, writeCheckpoint } from './shards.ts';
import { loadTensor, sameTensor, slices, tensorBytes } from './transfer.ts';

/** What a policy's weights are held in. */
export type WeightDType = 'float32' | 'bfloat16';

const HEAD = 'lm_head.weight';
const EMBEDDING = 'model.embed_tokens.weight';

/** Random initial weights [P]; equal seeds give equal weights on every engine: a parameter has its own stream. */
export function randomWeights(
  engine: Engine,
  layout: Layout,
  seed: number,
  dtype: WeightDType = 'float32',
): Tensor {
  return engine.scope(() => {
    const flat = engine.zeros([layout.size], dtype); // [P]
    for (const { name, offset, size, start } of layout.parameters) {
      const random = new Random(seed, `weights/${name}`);
      for (const slice of slices(size)) {
        const values = new Float32Array(slice.length);
        if ('value' in start) values.fill(start.value);
        else {
          const std = start.gain / Math.sqrt(start.fanIn);
          for (let i = 0; i < values.length; i++) values[i] = random.normal(0, std);
        }
        engine.scope(() =>
          engine.write(flat, 0, offset + slice.start, engine.tensor(values, [slice.length])),
        );
      }
    }
    return flat;
  });
}

/**
 * The stored tensors under their published names. Of a tied policy, a head that was stored all the same is left out, and
 * one that was stored instead of the embedding stands for it.
 */
function byPublishedName(
  engine: Engine,
  layout: Layout,
  checkpoint: ReadonlyMap<string, StoredTensor>,
): Map<string, StoredTensor> {
  const stored = new Map<string, StoredTensor>();
  for (const [name, tensor] of checkpoint) {
    const published = publishedName(name);
    const twin = stored.get(published);
    if (twin !== undefined) {
      throw new CheckpointError(
        `${tensor.file}: tensors ${twin.name} and ${name} are the same weights by two names; keep one of them`,
      );
    }
    stored.set(published, tensor);
  }
  const head = stored.get(HEAD);
  const tied = layout.parameters.every(({ parts }) => parts.every(({ name }) => name !== HEAD));
  if (tied && head !== undefined) {
    const embedding = stored.get(EMBEDDING);
    if (embedding !== undefined && !sameTensor(engine, embedding, head)) {
      throw new CheckpointError(
        `${head.file}: tensor ${head.name} differs from the embedding, which config.json says it is; ` +
          "set 'tie_word_embeddings' to false in config.json if the checkpoint was trained so",
      );
    }
    stored.set(EMBEDDING, embedding ?? head);
    stored.delete(HEAD);
  }
  return stored;
}

/** Every tensor that does not fit the layout, in one error. */
function compare(directory: string, parts: readonly Part[], stored: ReadonlyMap<string, StoredTensor>): void {
  const wanted = new Set(parts.map(({ name }) => name));
  const missing = parts.filter(({ name }) => !stored.has(name)).map(({ name }) => name);
  const unknown = [...stored].filter(([name]) => !wanted.has(name)).map(([, tensor]) => tensor.name);
  const misshaped = parts.flatMap(({ name, shape }) => {
    const tensor = stored.get(name);
    return tensor === undefined || tensor.shape.join() === shape.join()
      ? []
      : [`${tensor.name} is [${tensor.shape.join(', ')}] instead of [${shape.join(', ')}]`];
  });
  const problems = [
    ...(missing.length > 0 ? [`${missing.length} missing: ${listed(missing)}`] : []),
    ...(unknown.length > 0 ? [`${unknown.length} not part of this policy: ${listed(unknown)}`] : []),
    ...(misshaped.length > 0 ? [`${misshaped.length} of another shape: ${listed(misshaped)}`] : []),
  ];
  if (problems.length === 0) return;
  const hint = missing.includes(HEAD)
    ? "; a policy whose head is its embedding has 'tie_word_embeddings': true"
    : '';
  throw new CheckpointError(
    `${directory}: tensors and config.json differ; ${problems.join('; ')}. Take both from one checkpoint${hint}`,
  );
}

/**
 * Weights [P] of a checkpoint's tensors, either naming scheme. Tensors of different dtypes in one checkpoint are all
 * converted to `dtype`, as transformers does.
 * @throws CheckpointError listing the tensors that are missing, unknown or of another shape, or naming one that holds
 * NaN or Infinity.
 */
export function loadWeights(
  engine: Engine,
  layout: Layout,
  directory: string,
  checkpoint: ReadonlyMap<string, StoredTensor>,
  dtype: WeightDType = 'float32',
): Tensor {
  const stored = byPublishedName(engine, layout, checkpoint);
  const parts = layout.parameters.flatMap((parameter) => parameter.parts);
  compare(directory, parts, stored);
  const order = parts
    .map(({ name, offset }) => ({ tensor: stored.get(name)!, at: offset }))
    .sort(
      (a, b) =>
        (a.tensor.file < b.tensor.file ? -1 : a.tensor.file > b.tensor.file ? 1 : 0) ||
        a.tensor.offset - b.tensor.offset,
    );
  return engine.scope(() => {
    const flat = engine.zeros([layout.size], dtype); // [P]
    for (const { tensor, at } of order) loadTensor(engine, tensor, flat, at);
    return flat;
  });
}

/** Writes the weights with the published names and in their own dtype, in shards of at most `shardBytes`. */
export function saveWeights(
  engine: Engine,
  layout: Layout,
  flat: Tensor,
  directory: string,
  shardBytes?: number,
): void {
  const dtype: StoredDType = flat.dtype === 'bfloat16' ? 'BF16' : 'F32';
  const parts = layout.parameters.flatMap((parameter) => parameter.parts);
  const tensors = parts.map(({ name, shape, offset }) => ({
    name,
    shape,
    dtype,
    bytes: () => tensorBytes(engine, flat, offset, elements(shape)),
  }));
  writeCheckpoint(directory, tensors, shardBytes);
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
