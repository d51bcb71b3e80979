/**
 * A low-rank adapter (Hu et al. 2021, "LoRA") beside the decoder's projections: y = x·Wᵀ + (alpha / rank)·x·Aᵀ·Bᵀ with
 * A [rank, I] and B [O, rank]. A starts uniform in ±1/√I and B at zero, as PEFT's do. Its weights are float32 in a flat
 * buffer of their own, whatever the base's are, and are cast where they are used. No dropout.
 */
import { ADAPTER_TARGETS, type AdapterTarget } from '../adapter-targets.ts';
import type { Engine, Tensor } from '../engine/engine.ts';
import { CheckpointError, ConfigError } from '../errors.ts';
import { Random } from '../random.ts';
import type { Dims } from './dims.ts';
import type { Layout, Parameter, Part } from './layout.ts';
import type { Trainable } from './trainable.ts';
import { viewsOf, type Weights } from './weights.ts';

export interface AdapterOptions {
  /** Of each pair, ≥ 1. */
  readonly rank: number;
  /** The side path is scaled by alpha / rank; > 0. */
  readonly alpha: number;
  /** At least one, each at most once. */
  readonly targets: readonly AdapterTarget[];
}

export interface Adapter {
  readonly options: AdapterOptions;
  /** float32 [T], as `adapterLayout` places it. */
  readonly flat: Tensor;
}

/** The pairs beside one product, whose output may be several projections under each other. */
export interface SidePath {
  /** A of the targeted parts, stacked: [n · rank, I]. */
  readonly down: Tensor;
  /** B [O, rank] of each part of the output; null where that part is no target. */
  readonly up: readonly { readonly weight: Tensor | null; readonly size: number }[];
  readonly rank: number;
  readonly scale: number;
}

/** Side paths of one layer, by the product that they stand beside. */
export interface LayerAdapter {
  readonly qkv?: SidePath;
  readonly o?: SidePath;
  readonly gateUp?: SidePath;
  readonly down?: SidePath;
}

type Product = keyof LayerAdapter;

interface Projection {
  readonly product: Product;
  readonly module: 'self_attn' | 'mlp';
  readonly inputs: number;
  readonly parts: readonly { readonly target: AdapterTarget; readonly size: number }[];
}

function projections(dims: Dims): readonly Projection[] {
  const { width, inner } = dims;
  const query = dims.heads * dims.headDim;
  const keyed = dims.kvHeads * dims.headDim;
  return [
    {
      product: 'qkv',
      module: 'self_attn',
      inputs: width,
      parts: [
        { target: 'q_proj', size: query },
        { target: 'k_proj', size: keyed },
        { target: 'v_proj', size: keyed },
      ],
    },
    { product: 'o', module: 'self_attn', inputs: query, parts: [{ target: 'o_proj', size: width }] },
    {
      product: 'gateUp',
      module: 'mlp',
      inputs: width,
      parts: [
        { target: 'gate_proj', size: inner },
        { target: 'up_proj', size: inner },
      ],
    },
    { product: 'down', module: 'mlp', inputs: inner, parts: [{ target: 'down_proj', size: width }] },
  ];
}

/** @throws ConfigError naming the option that is wrong. */
export function checkAdapterOptions({ rank, alpha, targets }: AdapterOptions): void {
  if (!(Number.isInteger(rank) && rank >= 1)) {
    throw new ConfigError(`adapter rank must be a positive integer, got ${rank}`);
  }
  if (!(Number.isFinite(alpha) && alpha > 0)) {
    throw new ConfigError(`adapter alpha must be a positive number, got ${alpha}`);
  }
  const unknown = targets.find((target) => !ADAPTER_TARGETS.includes(target));
  if (unknown !== undefined || targets.length === 0 || new Set(targets).size < targets.length) {
    throw new ConfigError(
      `adapter targets must be different ones of ${ADAPTER_TARGETS.join(', ')}, got ${targets.join(', ') || 'none'}`,
    );
  }
}

/** Name of a targeted projection's matrix in published checkpoints, without `.weight`. */
const projectionName = (layer: number, { module }: Projection, target: AdapterTarget): string =>
  `model.layers.${layer}.${module}.${target}`;

/**
 * Where each matrix lives in the adapter's flat buffer: per product the A's under each other, then each B. Parts are named
 * by the projection and `.lora_A.weight` or `.lora_B.weight`.
 * @throws ConfigError as `checkAdapterOptions`.
 */
export function adapterLayout(dims: Dims, options: AdapterOptions): Layout {
  checkAdapterOptions(options);
  const { rank } = options;
  const parameters: Parameter[] = [];
  let size = 0;
  const add = (name: string, start: Parameter['start'], parts: readonly Omit<Part, 'offset'>[]): void => {
    const offset = size;
    const placed = parts.map((part) => {
      const at = size;
      size += part.shape[0]! * part.shape[1]!;
      return { ...part, offset: at };
    });
    const columns = parts[0]!.shape[1]!;
    const shape = [(size - offset) / columns, columns];
    parameters.push({ name, offset, shape, size: size - offset, decay: true, start, parts: placed });
  };
  for (let layer = 0; layer < dims.layers; layer++) {
    for (const projection of projections(dims)) {
      const { product, inputs } = projection;
      const chosen = projection.parts.filter(({ target }) => options.targets.includes(target));
      if (chosen.length === 0) continue;
      add(
        `layers.${layer}.${product}.down`,
        // Uniform, with the standard deviation that this says.
        { fanIn: inputs, gain: 1 / Math.sqrt(3) },
        chosen.map(({ target }) => ({
          name: `${projectionName(layer, projection, target)}.lora_A.weight`,
          shape: [rank, inputs],
        })),
      );
      for (const { target, size: outputs } of chosen) {
        add(`layers.${layer}.${target}.up`, { value: 0 }, [
          {
            name: `${projectionName(layer, projection, target)}.lora_B.weight`,
            shape: [outputs, rank],
          },
        ]);
      }
    }
  }
  return { parameters, size };
}

/** A fresh adapter, which changes nothing yet. Equal seeds give equal ones; a matrix does not depend on the other targets. */
export function createAdapter(engine: Engine, dims: Dims, options: AdapterOptions, seed: number): Adapter {
  const layout = adapterLayout(dims, options);
  const flat = engine.scope(() => {
    const all = engine.zeros([layout.size]); // [T]
    for (const { start, parts } of layout.parameters) {
      if ('value' in start) continue;
      const bound = 1 / Math.sqrt(start.fanIn);
      for (const { name, offset, shape } of parts) {
        const random = new Random(seed, `adapter/${name}`);
        const values = Float32Array.from({ length: shape[0]! * shape[1]! }, () =>
          random.between(-bound, bound),
        );
        engine.scope(() => engine.write(all, 0, offset, engine.tensor(values, [values.length])));
      }
    }
    return all;
  });
  return { options, flat };
}

/** The adapter's matrices, beside the layers and as an optimiser sees them. */
export interface OpenAdapter {
  readonly layers: readonly LayerAdapter[];
  /** In the order of the layout: leaves when it is tuned. */
  readonly tensors: readonly Tensor[];
  readonly trainable: Trainable;
}

/** @throws CheckpointError when the adapter was made for other sizes. */
export function openAdapter(engine: Engine, dims: Dims, adapter: Adapter, tuned: boolean): OpenAdapter {
  const { flat, options } = adapter;
  const layout = adapterLayout(dims, options);
  if (flat.shape.join() !== `${layout.size}` || flat.dtype !== 'float32') {
    throw new CheckpointError(
      `adapter weights are ${flat.dtype} [${flat.shape.join(', ')}]; rank ${options.rank} on ${options.targets.join(', ')} of this policy takes float32 [${layout.size}]`,
    );
  }
  const tensors = viewsOf(engine, layout, flat, () => tuned);
  const byName = new Map(layout.parameters.map(({ name }, i) => [name, tensors[i]!]));
  const { rank, alpha } = options;
  const layers = Array.from({ length: dims.layers }, (_, layer) => {
    const paths: Partial<Record<Product, SidePath>> = {};
    for (const { product, parts } of projections(dims)) {
      const down = byName.get(`layers.${layer}.${product}.down`);
      if (down === undefined) continue;
      const up = parts.map(({ target, size }) => ({
        weight: byName.get(`layers.${layer}.${target}.up`) ?? null,
        size,
      }));
      paths[product] = { down, up, rank, scale: alpha / rank };
    }
    return paths;
  });
  return { layers, tensors, trainable: { flat, parameters: layout.parameters, leaves: tensors } };
}

/** The same weights with side paths beside the decoder's layers. */
export function withAdapter(weights: Weights, layers: readonly LayerAdapter[]): Weights {
  return { ...weights, layers: weights.layers.map((layer, i) => ({ ...layer, adapter: layers[i]! })) };
}

/** All matrices of a layer's adapter. */
export function adapterTensors(adapter: LayerAdapter): Tensor[] {
  return Object.values<SidePath>({ ...adapter }).flatMap(({ down, up }) => [
    down,
    ...up.flatMap(({ weight }) => (weight === null ? [] : [weight])),
  ]);
}

/** What the adapter adds to a product: x [N, I] → [N, O], zeros where a part of the output is no target. */
export function sidePath(engine: Engine, x: Tensor, { down, up, rank, scale }: SidePath): Tensor {
  const { dtype } = x;
  const cast = (weight: Tensor): Tensor => (weight.dtype === dtype ? weight : engine.cast(weight, dtype));
  const low = engine.mul(engine.linear(x, cast(down)), scale); // [N, n · rank]
  const targeted = up.filter(({ weight }) => weight !== null).length;
  const pieces = engine.split(
    low,
    Array.from({ length: targeted }, () => rank),
    1,
  ); // n times [N, rank]
  let used = 0;
  const outputs = up.map(({ weight, size }) =>
    weight === null ? engine.zeros([x.shape[0]!, size], dtype) : engine.linear(pieces[used++]!, cast(weight)),
  );
  return outputs.length === 1 ? outputs[0]! : engine.concat(outputs, 1); // [N, O]
}

/** What a merge needs of a policy. */
export interface Adapted {
  readonly engine: Engine;
  readonly dims: Dims;
  readonly layout: Layout;
  /** The base's weights [P]. */
  readonly flat: Tensor;
  readonly adapter: Adapter | null;
}

/**
 * Adds the adapter to the base's weights in place, W += (alpha / rank)·B·A in float32, and sets every B to zero: the policy
 * computes what it did before, and saves as a plain checkpoint.
 * @throws CheckpointError when the policy has no adapter.
 */
export function mergeAdapter({ engine, dims, layout, flat, adapter }: Adapted): void {
  if (adapter === null) throw new CheckpointError('this policy has no adapter to merge');
  const { rank, alpha } = adapter.options;
  const places = new Map(layout.parameters.flatMap(({ parts }) => parts.map((part) => [part.name, part])));
  const matrices = new Map(
    adapterLayout(dims, adapter.options).parameters.flatMap(({ parts }) =>
      parts.map((part) => [part.name, part]),
    ),
  );
  const read = (from: Tensor, { offset, shape }: Part): Tensor =>
    engine.reshape(engine.narrow(from, 0, offset, shape[0]! * shape[1]!), shape);
  engine.noGrad(() => {
    for (const [name, up] of matrices) {
      const projection = /^(.+)\.lora_B\.weight$/.exec(name)?.[1];
      if (projection === undefined) continue;
      engine.scope(() => {
        const [b, a] = [up, matrices.get(`${projection}.lora_A.weight`)!].map((part) =>
          read(adapter.flat, part),
        );
        const place = places.get(`${projection}.weight`)!;
        const before = engine.cast(read(flat, place), 'float32'); // [O, I]
        const after = engine.add(before, engine.mul(engine.matmul(b!, a!), alpha / rank));
        engine.write(flat, 0, place.offset, engine.reshape(after, [-1]));
        engine.write(adapter.flat, 0, up.offset, engine.zeros([up.shape[0]! * up.shape[1]!]));
      });
    }
  });
}
