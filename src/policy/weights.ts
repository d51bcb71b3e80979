/** Weights in and out of one flat float32 tensor: random start, Hugging Face checkpoints, saving. */
import type { Engine, Tensor } from '../engine/engine.ts';
import { CheckpointError } from '../errors.ts';
import { Random } from '../random.ts';
import type { Dims } from './dims.ts';
import { type Layout, type Parameter, publishedName } from './layout.ts';
import { openCheckpoint, writeSafetensors } from './safetensors.ts';

const product = (shape: readonly number[]): number => shape.reduce((a, b) => a * b, 1);

function allFinite(values: Float32Array): boolean {
  for (let i = 0; i < values.length; i++) if (!Number.isFinite(values[i]!)) return false;
  return true;
}

/** Random values of one parameter, the same on every engine: its own stream, keyed by its name. */
function startValues(parameter: Parameter, seed: number): Float32Array {
  const values = new Float32Array(parameter.size);
  if ('value' in parameter.start) return values.fill(parameter.start.value);
  const std = parameter.start.gain / Math.sqrt(parameter.start.fanIn);
  const random = new Random(seed, `weights/${parameter.name}`);
  for (let i = 0; i < values.length; i++) values[i] = random.normal(0, std);
  return values;
}

/** A fresh flat tensor [P] filled piece by piece. */
function fill(
  engine: Engine,
  layout: Layout,
  pieces: Iterable<readonly [offset: number, values: Float32Array]>,
): Tensor {
  return engine.scope(() => {
    const flat = engine.zeros([layout.size]); // [P]
    for (const [offset, values] of pieces) {
      engine.scope(() => engine.write(flat, 0, offset, engine.tensor(values, [values.length])));
    }
    return flat;
  });
}

/** Random initial weights [P]; equal seeds give equal weights. */
export function randomWeights(engine: Engine, layout: Layout, seed: number): Tensor {
  function* pieces(): Generator<readonly [number, Float32Array]> {
    for (const parameter of layout.parameters) yield [parameter.offset, startValues(parameter, seed)];
  }
  return fill(engine, layout, pieces());
}

/**
 * Weights [P] of a checkpoint directory, either naming scheme, F32, F16 or BF16, one file or shards.
 * @throws CheckpointError naming file and tensor: missing, unexpected, of another shape, truncated, not finite.
 */
export function loadWeights(engine: Engine, layout: Layout, directory: string): Tensor {
  const stored = new Map(
    [...openCheckpoint(directory)].map(([name, tensor]) => [publishedName(name), tensor]),
  );
  const parts = layout.parameters.flatMap((parameter) => parameter.parts);
  const wanted = new Set(parts.map((part) => part.name));
  for (const part of parts) {
    const tensor = stored.get(part.name);
    if (tensor === undefined) {
      throw new CheckpointError(
        `${directory}: tensor ${part.name} is missing; config.json asks for it, so weights and config differ`,
      );
    }
    if (tensor.shape.join() !== part.shape.join()) {
      throw new CheckpointError(
        `${tensor.file}: tensor ${part.name} is [${tensor.shape.join(', ')}], config.json says [${part.shape.join(', ')}]; weights and config differ`,
      );
    }
  }
  for (const [name, tensor] of stored) {
    // A tied head is sometimes stored all the same: a copy of the embedding.
    if (!wanted.has(name) && name !== 'lm_head.weight') {
      throw new CheckpointError(
        `${tensor.file}: tensor ${name} is not part of this policy; weights and config.json differ`,
      );
    }
  }
  function* pieces(): Generator<readonly [number, Float32Array]> {
    for (const part of parts) {
      const tensor = stored.get(part.name)!;
      const values = tensor.read();
      if (!allFinite(values)) {
        throw new CheckpointError(
          `${tensor.file}: tensor ${part.name} holds NaN or Infinity; use an earlier checkpoint`,
        );
      }
      yield [part.offset, values];
    }
  }
  return fill(engine, layout, pieces());
}

/** Writes `model.safetensors` with the published names. */
export function saveWeights(engine: Engine, layout: Layout, flat: Tensor, file: string): void {
  const parts = layout.parameters.flatMap((parameter) => parameter.parts);
  writeSafetensors(
    file,
    parts.map((part) => ({
      name: part.name,
      shape: part.shape,
      values: () =>
        engine.scope(() => engine.floats(engine.narrow(flat, 0, part.offset, product(part.shape)))),
    })),
  );
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

/** Weight-decay factor per element [P]: 1 for matrices, 0 for norms and biases. */
export function decayMask(layout: Layout): Float32Array {
  const mask = new Float32Array(layout.size);
  for (const { offset, size, decay } of layout.parameters) mask.fill(decay ? 1 : 0, offset, offset + size);
  return mask;
}

export interface DecoderLayer {
  readonly norm1: Tensor; // [D]
  readonly qkv: Tensor; // [(Hq + 2·Hkv)·d, D]
  readonly qkvBias: Tensor;
  readonly o: Tensor; // [D, Hq·d]
  readonly norm2: Tensor;
  readonly gateUp: Tensor; // [2·F, D]
  readonly down: Tensor; // [D, F]
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
