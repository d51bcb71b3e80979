/**
 * A low-rank adapter (Hu et al. 2021, "LoRA") beside projections of the decoder and of the vision tower:
 * y = x·Wᵀ + scale·x·Aᵀ·Bᵀ with A [rank, I] and B [O, rank]. A starts uniform in ±1/√I and B at zero, as PEFT's do. Its
 * weights are float32 in a flat buffer of their own, whatever the base's are, and are cast where they are used. No dropout.
 *
 * Files: those of Hugging Face's PEFT (`adapter_config.json`, `adapter_model.safetensors`), as `PeftModel` and vLLM read them beside a
 * Qwen2.5-VL checkpoint. Checked against PEFT 0.21 with transformers 5.23.
 */
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Engine, Tensor } from '../engine/engine.ts';
import { CheckpointError, ConfigError } from '../ground/errors.ts';
import { writeJson } from '../ground/files.ts';
import { checkFiles, writeManifestedDirectory } from '../ground/manifest.ts';
import { getOrMake } from '../ground/maps.ts';
import { Random } from '../ground/random.ts';
import { Keys, readObject } from './json-file.ts';
import {
  type Layout,
  LayoutBuilder,
  layoutOf,
  type Part,
  publishedName,
  type Trainable,
  viewsOf,
  type Weights,
} from './layout.ts';
import { ADAPTER_TARGETS, type AdapterTarget, DECODER_TARGETS, VISION_TARGETS } from './lora-targets.ts';
import type { Dims } from './model-config.ts';
import type { Policy } from './policy.ts';
import { listed, openSafetensors, type StoredTensor, writeSafetensors } from './safetensors.ts';
import { compareParts, flatTensors, loadFlat } from './weights.ts';

export interface AdapterOptions {
  /** Rank of each low-rank pair, ≥ 1. */
  readonly rank: number;
  /** The side path is scaled by alpha / rank; > 0. */
  readonly alpha: number;
  /** Scaled by alpha / √rank instead (Kalajdzievski 2023, "rsLoRA"); false when absent. */
  readonly rslora?: boolean;
  /** Adapted projections: at least one, without repetition. */
  readonly targets: readonly AdapterTarget[];
}

export interface Adapter {
  readonly options: AdapterOptions;
  /** float32 [T], as `adapterLayout` places it. */
  readonly flat: Tensor;
}

/** The pairs beside one product, whose output may be several projections under each other. */
interface SidePath {
  /** A of the targeted parts, stacked: [n · rank, I]. */
  readonly down: Tensor;
  /** B [O, rank] of each part of the output; null where that part is no target. */
  readonly up: readonly { readonly weight: Tensor | null; readonly size: number }[];
  readonly rank: number;
  readonly scale: number;
}

/** Side paths of one layer of the decoder or block of the vision tower, by the product that they stand beside. */
export interface LayerAdapter {
  readonly qkv?: SidePath;
  readonly o?: SidePath;
  readonly gateUp?: SidePath;
  readonly down?: SidePath;
}

/** Side paths of the vision tower's merger. */
export interface MergerAdapter {
  readonly first?: SidePath;
  readonly second?: SidePath;
}

type Paths = { readonly [product in Product]?: SidePath };

/** Targets in a decoder layer or vision block; the last two are in the merger. */
type Product = 'qkv' | 'o' | 'gateUp' | 'down' | 'first' | 'second';

/** A product that pairs can stand beside. */
interface Site {
  /** `layers.0`, `vision.0`, `merger`. */
  readonly owner: string;
  readonly product: Product;
  readonly inputs: number;
  /** The projections that are its output, under each other, by their modules' names in published checkpoints. */
  readonly parts: readonly {
    readonly target: AdapterTarget;
    readonly module: string;
    readonly size: number;
  }[];
}

/** Every product of the decoder's layers, the vision tower's blocks and its merger, in the order of the flat buffer. */
function sitesOf(dims: Dims): Site[] {
  return layoutOf(dims).parameters.flatMap(({ name, shape, parts }) => {
    const [, owner, product] = /^(layers\.\d+|vision\.\d+|merger)\.(\w+)(?:\.weight)?$/.exec(name) ?? [];
    if (owner === undefined || shape.length !== 2) return [];
    const projections = parts.map((part) => {
      const module = part.name.replace(/\.weight$/, '');
      return { target: targetOf(module)!, module, size: part.shape[0]! };
    });
    return [{ owner, product: product as Product, inputs: shape[1]!, parts: projections }];
  });
}

/** Returns the adapter target for a module; undefined for a module that cannot have a pair. */
function targetOf(module: string): AdapterTarget | undefined {
  const decoder = /^model\.layers\.\d+\.(?:self_attn|mlp)\.(\w+)$/.exec(module)?.[1];
  const block = /^visual\.blocks\.\d+\.(?:attn|mlp)\.(\w+)$/.exec(module)?.[1];
  const merger = /^visual\.merger\.mlp\.(\d+)$/.exec(module)?.[1];
  const target = decoder ?? (block === undefined ? `visual.merger.${merger}` : `visual.${block}`);
  return ADAPTER_TARGETS.find((known) => known === target);
}

/** Scale of the adapter's output. */
const scaleOf = ({ rank, alpha, rslora }: AdapterOptions): number =>
  alpha / (rslora === true ? Math.sqrt(rank) : rank);

/** @throws ConfigError naming the option that is wrong. */
function checkAdapterOptions({ rank, alpha, targets }: AdapterOptions): void {
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

/**
 * Layout of the adapter's flat buffer: per product the A's, then each B, named by projection and
 * `.lora_A.weight` or `.lora_B.weight`. @throws ConfigError as `checkAdapterOptions`
 */
export function adapterLayout(dims: Dims, options: AdapterOptions): Layout {
  checkAdapterOptions(options);
  const { rank } = options;
  const out = new LayoutBuilder();
  for (const { owner, product, inputs, parts } of sitesOf(dims)) {
    const chosen = parts.filter(({ target }) => options.targets.includes(target));
    if (chosen.length === 0) continue;
    out.add(
      `${owner}.${product}.down`,
      chosen.map(({ module }) => ({ name: `${module}.lora_A.weight`, shape: [rank, inputs] })),
      // Uniform, with the standard deviation that this says.
      { fanIn: inputs, gain: 1 / Math.sqrt(3) },
    );
    for (const { target, module, size } of chosen) {
      out.add(`${owner}.${target}.up`, [{ name: `${module}.lora_B.weight`, shape: [size, rank] }], {
        value: 0,
      });
    }
  }
  return { parameters: out.parameters, size: out.size };
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

/** The adapter's matrices, by what they stand beside (`layers.0`, `vision.0`, `merger`) and as an optimiser sees them. */
interface OpenAdapter {
  readonly paths: ReadonlyMap<string, Paths>;
  /** Matrices in the order of the layout; leaves if the adapter is tuned. */
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
  const { rank } = options;
  const paths = new Map<string, Partial<Record<Product, SidePath>>>();
  for (const { owner, product, parts } of sitesOf(dims)) {
    const down = byName.get(`${owner}.${product}.down`);
    if (down === undefined) continue;
    const up = parts.map(({ target, size }) => ({
      weight: byName.get(`${owner}.${target}.up`) ?? null,
      size,
    }));
    const beside = getOrMake(paths, owner, (): Partial<Record<Product, SidePath>> => ({}));
    beside[product] = { down, up, rank, scale: scaleOf(options) };
  }
  return { paths, tensors, trainable: { flat, parameters: layout.parameters, leaves: tensors } };
}

/** Returns the same weights with adapters beside them. */
export function withAdapter(weights: Weights, { paths }: OpenAdapter): Weights {
  const beside = <T extends object>(owner: string, held: T): T => {
    const adapter = paths.get(owner);
    return adapter === undefined ? held : { ...held, adapter };
  };
  return {
    ...weights,
    layers: weights.layers.map((layer, i) => beside(`layers.${i}`, layer)),
    blocks: weights.blocks.map((block, i) => beside(`vision.${i}`, block)),
    merger: beside('merger', weights.merger),
  };
}

/** The weights of a layer, a block or the merger, with those of its adapter. */
export function moduleTensors<T extends { readonly adapter?: Paths }>({ adapter, ...weights }: T): Tensor[] {
  return [
    ...Object.values<Tensor>(weights as Readonly<Record<string, Tensor>>),
    ...Object.values<SidePath>({ ...adapter }).flatMap(({ down, up }) => [
      down,
      ...up.flatMap(({ weight }) => (weight === null ? [] : [weight])),
    ]),
  ];
}

/** x · weightᵀ (+ bias), and what an adapter adds: x [N, I] → [N, O]. */
export function project(
  engine: Engine,
  x: Tensor,
  weight: Tensor,
  adapter: SidePath | undefined,
  bias?: Tensor,
): Tensor {
  const plain = engine.linear(x, weight, bias);
  return adapter === undefined ? plain : engine.add(plain, sidePath(engine, x, adapter));
}

/** Adapter's contribution to a product: x [N, I] → [N, O], zeros where a part of the output is no target. */
function sidePath(engine: Engine, x: Tensor, { down, up, rank, scale }: SidePath): Tensor {
  const { dtype } = x;
  const cast = (weight: Tensor): Tensor => (weight.dtype === dtype ? weight : engine.cast(weight, dtype));
  const low = engine.mul(engine.linear(x, cast(down)), scale); // [N, n · rank]
  const targeted = up.filter(({ weight }) => weight !== null).length;
  const parts = engine.split(
    low,
    Array.from({ length: targeted }, () => rank),
    1,
  ); // n times [N, rank]
  let used = 0;
  const outputs = up.map(({ weight, size }) =>
    weight === null ? engine.zeros([x.shape[0]!, size], dtype) : engine.linear(parts[used++]!, cast(weight)),
  );
  return outputs.length === 1 ? outputs[0]! : engine.concat(outputs, 1); // [N, O]
}

/**
 * Merges the adapter into the base in place, W += scale·B·A in float32, and zeroes every B: the outputs are
 * unchanged, and the policy saves as a plain checkpoint. @throws CheckpointError without an adapter
 */
export function mergeAdapter({ engine, dims, layout, flat, adapter }: Policy): void {
  if (adapter === null) throw new CheckpointError('this policy has no adapter to merge');
  const scale = scaleOf(adapter.options);
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
        const after = engine.add(before, engine.mul(engine.matmul(b!, a!), scale));
        engine.write(flat, 0, place.offset, engine.reshape(after, [-1]));
        engine.write(adapter.flat, 0, up.offset, engine.zeros([up.shape[0]! * up.shape[1]!]));
      });
    }
  });
}

const CONFIG = 'adapter_config.json';
const WEIGHTS = 'adapter_model.safetensors';

/** PEFT's wrapper around the model. */
const PREFIX = 'base_model.model.';

/** `model.layers.0.self_attn.q_proj.lora_A.weight` as PEFT names it, by the modules of transformers. */
const storedName = (name: string): string =>
  `${PREFIX}${name.replace(/^model\./, 'model.language_model.').replace(/^visual\./, 'model.visual.')}`;

type Adapted = Pick<Policy, 'engine' | 'dims' | 'adapter'>;

/**
 * Pattern of the whole names of the target modules: decoder and vision tower have projections of the same
 * short names.
 */
function targetPattern({ targets }: AdapterOptions): string {
  const among = (names: readonly AdapterTarget[]): string[] => names.filter((name) => targets.includes(name));
  const decoder = among(DECODER_TARGETS);
  const modules = among(VISION_TARGETS).map((name) => name.slice('visual.'.length));
  const merger = modules.flatMap((name) =>
    name.startsWith('merger.') ? [name.slice('merger.'.length)] : [],
  );
  const blocks = modules.filter((name) => !name.startsWith('merger.'));
  const patterns = [
    ...(decoder.length > 0 ? [`(?!.*visual).*\\.(?:${decoder.join('|')})`] : []),
    ...(blocks.length > 0 ? [`.*visual\\.blocks\\..*\\.(?:${blocks.join('|')})`] : []),
    ...(merger.length > 0 ? [`.*visual\\.merger\\.mlp\\.(?:${merger.join('|')})`] : []),
  ];
  return patterns.join('|');
}

/**
 * Writes the adapter into a directory. `base`: name or path of its checkpoint. @throws CheckpointError
 * without an adapter
 */
export function writeAdapter({ engine, dims, adapter }: Adapted, directory: string, base?: string): void {
  if (adapter === null) throw new CheckpointError(`${directory}: not written, this policy has no adapter`);
  const { options, flat } = adapter;
  mkdirSync(directory, { recursive: true });
  const config = {
    peft_type: 'LORA',
    task_type: 'CAUSAL_LM',
    base_model_name_or_path: base ?? null,
    r: options.rank,
    lora_alpha: options.alpha,
    lora_dropout: 0,
    target_modules: targetPattern(options),
    bias: 'none',
    fan_in_fan_out: false,
    inference_mode: true,
    init_lora_weights: true,
    layers_to_transform: null,
    modules_to_save: null,
    rank_pattern: {},
    alpha_pattern: {},
    use_dora: false,
    use_rslora: options.rslora === true,
  };
  const tensors = flatTensors(engine, adapterLayout(dims, options), flat, storedName);
  writeSafetensors(join(directory, WEIGHTS), tensors);
  writeJson(join(directory, CONFIG), config);
}

/** Runs `writeAdapter` atomically: the directory appears whole or not at all and replaces an older one. */
export function saveAdapter(policy: Adapted, directory: string, base?: string): void {
  writeManifestedDirectory(directory, (temporary) => writeAdapter(policy, temporary, base));
}

/** Options of PEFT that do not change what an adapter computes, and those that are read. */
const IGNORED =
  'auto_mapping base_model_name_or_path corda_config ensure_weight_tying eva_config ' +
  'exclude_modules inference_mode lora_alpha lora_dropout lora_ga_config megatron_core ' +
  'peft_type peft_version qalora_group_size r revision runtime_config target_modules task_type ' +
  'use_rslora';

/** Values that leave plain low-rank pairs; those of any other option are null, false or empty. */
const PLAIN: Readonly<Record<string, readonly unknown[]>> = {
  bias: ['none'],
  // Others take what the adapter starts with out of the base's weights.
  init_lora_weights: [true, false, 'gaussian', 'orthogonal', 'eva'],
};

function isPlain(key: string, value: unknown): boolean {
  if (IGNORED.split(' ').includes(key) || value === null || value === false) return true;
  if (PLAIN[key]?.includes(value)) return true;
  return typeof value === 'object' && Object.keys(value as object).length === 0;
}

/** All but the targets. @throws CheckpointError naming the option that cannot be honoured. */
function parseConfig(file: string): Omit<AdapterOptions, 'targets'> {
  const config = readObject(file);
  if (config['peft_type'] !== 'LORA') {
    throw new CheckpointError(
      `${file}: 'peft_type' is ${JSON.stringify(config['peft_type'])}; only LORA adapters are read`,
    );
  }
  for (const [key, given] of Object.entries(config)) {
    if (!isPlain(key, given)) {
      throw new CheckpointError(
        `${file}: '${key}' is ${JSON.stringify(given)}; only plain low-rank pairs of one rank are read, ` +
          'merge this adapter into its base with PEFT and load the result',
      );
    }
  }
  const keys = new Keys(file, [config]);
  const rank = keys.integer('r', 0);
  const alpha = keys.number('lora_alpha', 0);
  const rslora = keys.flag('use_rslora', false);
  return { rank, alpha, rslora };
}

const targetOfMatrix = (name: string): AdapterTarget | undefined =>
  targetOf(/^(.+)\.lora_[AB]\.weight$/.exec(name)?.[1] ?? '');

/**
 * Reads an adapter written by PEFT or `saveAdapter`; its targets are those with tensors.
 * @throws CheckpointError for another kind of adapter, for tensors that are missing, unknown, of another
 * shape or not finite, and for an adapter that differs from what was saved
 */
export function loadAdapter(engine: Engine, dims: Dims, directory: string): Adapter {
  const file = join(directory, WEIGHTS);
  const absent = [CONFIG, WEIGHTS].find((name) => !existsSync(join(directory, name)));
  if (absent !== undefined) {
    throw new CheckpointError(
      `${join(directory, absent)}: no such file; an adapter is a directory with ${CONFIG} and ${WEIGHTS}, as PEFT saves it`,
    );
  }
  checkFiles(directory);
  const config = parseConfig(join(directory, CONFIG));
  const stored = new Map<string, StoredTensor>();
  const unknown: string[] = [];
  for (const [name, tensor] of openSafetensors(file)) {
    const published = publishedName(name.startsWith(PREFIX) ? name.slice(PREFIX.length) : name);
    if (targetOfMatrix(published) !== undefined && !stored.has(published)) stored.set(published, tensor);
    else unknown.push(name);
  }
  const adapted = new Set([...stored.keys()].map(targetOfMatrix));
  const targets = ADAPTER_TARGETS.filter((target) => adapted.has(target));
  if (targets.length === 0) {
    throw new CheckpointError(
      `${file}: no low-rank pair of ${ADAPTER_TARGETS.join(', ')} (${listed(unknown) || 'it is empty'})`,
    );
  }
  const options: AdapterOptions = { ...config, targets };
  const layout = adapterLayout(dims, options);
  const mismatch = compareParts(layout, stored, unknown, storedName);
  if (mismatch === null) return { options, flat: loadFlat(engine, layout, stored, 'float32') };
  throw new CheckpointError(
    `${file}: these tensors are no adapter of rank ${config.rank} for this policy; ${mismatch.problems}. ` +
      (mismatch.unknown.some((name) => /\.(lm_head|embed_tokens|patch_embed\.proj)\./.test(name))
        ? 'Head, embedding and patches cannot be adapted: merge the adapter into its base with PEFT and load the result'
        : 'Take the adapter of this checkpoint'),
  );
}
