/**
 * Adapters in the files of Hugging Face's PEFT: `adapter_config.json` and `adapter_model.safetensors`, as `PeftModel` and
 * vLLM read them beside a Qwen2.5-VL checkpoint. Checked against PEFT 0.21 with transformers 5.23.
 */
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { ADAPTER_TARGETS } from '../adapter-targets.ts';
import type { Engine } from '../engine/engine.ts';
import { CheckpointError } from '../errors.ts';
import { writeFileAtomic } from '../files.ts';
import { checkFiles, writeManifestedDirectory } from '../manifest.ts';
import { type Adapter, type AdapterOptions, adapterLayout } from './adapter.ts';
import type { Dims } from './dims.ts';
import { readJson } from './json-file.ts';
import { isObject, type Json } from './keys.ts';
import { publishedName } from './layout.ts';
import { elements, openSafetensors, type StoredTensor, writeSafetensors } from './safetensors.ts';
import { listed } from './shards.ts';
import { loadTensor, tensorBytes } from './transfer.ts';

const CONFIG = 'adapter_config.json';
const WEIGHTS = 'adapter_model.safetensors';

/** PEFT's wrapper around the model. */
const PREFIX = 'base_model.model.';

/** `model.layers.0.self_attn.q_proj.lora_A.weight` as PEFT names it, by the modules of transformers. */
const storedName = (name: string): string => `${PREFIX}${name.replace(/^model\./, 'model.language_model.')}`;

/** What is saved of an adapter: a policy that has one. */
export interface SavedAdapter {
  readonly engine: Engine;
  readonly dims: Dims;
  readonly adapter: Adapter | null;
}

/** The vision tower has projections of the same names, which are not adapted: hence a pattern, not a list of names. */
const targetPattern = (options: AdapterOptions): string =>
  `(?!.*visual).*\\.(?:${ADAPTER_TARGETS.filter((target) => options.targets.includes(target)).join('|')})`;

/**
 * Writes the adapter of a policy into a directory of the caller's. `base`: name or path of the checkpoint it belongs to.
 * @throws CheckpointError when the policy has no adapter.
 */
export function writeAdapter(
  { engine, dims, adapter }: SavedAdapter,
  directory: string,
  base?: string,
): void {
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
    use_rslora: false,
  };
  const parts = adapterLayout(dims, options).parameters.flatMap((parameter) => parameter.parts);
  writeSafetensors(
    join(directory, WEIGHTS),
    parts.map(({ name, shape, offset }) => ({
      name: storedName(name),
      shape,
      dtype: 'F32',
      bytes: () => tensorBytes(engine, flat, offset, elements(shape)),
    })),
  );
  writeFileAtomic(join(directory, CONFIG), `${JSON.stringify(config, null, 2)}\n`);
}

/** As `writeAdapter`, into a directory that appears whole or not at all; an older one of that name is replaced. */
export function saveAdapter(policy: SavedAdapter, directory: string, base?: string): void {
  writeManifestedDirectory(directory, (temporary) => writeAdapter(policy, temporary, base));
}

/** Options of PEFT that do not change what an adapter computes, and those that are read. */
const IGNORED: ReadonlySet<string> = new Set([
  'auto_mapping',
  'base_model_name_or_path',
  'corda_config',
  'ensure_weight_tying',
  'eva_config',
  'exclude_modules',
  'inference_mode',
  'lora_alpha',
  'lora_dropout',
  'lora_ga_config',
  'megatron_core',
  'peft_type',
  'peft_version',
  'qalora_group_size',
  'r',
  'revision',
  'runtime_config',
  'target_modules',
  'task_type',
]);

/** Values that leave plain low-rank pairs; those of any other option are null, false or empty. */
const PLAIN: Readonly<Record<string, readonly unknown[]>> = {
  bias: ['none'],
  // Others take what the adapter starts with out of the base's weights.
  init_lora_weights: [true, false, 'gaussian', 'orthogonal', 'eva'],
};

function isPlain(key: string, value: unknown): boolean {
  if (IGNORED.has(key) || value === null || value === false) return true;
  if (PLAIN[key]?.includes(value)) return true;
  return typeof value === 'object' && Object.keys(value as object).length === 0;
}

/** Rank and alpha. @throws CheckpointError naming the option that cannot be honoured. */
function parseConfig(file: string): { readonly rank: number; readonly alpha: number } {
  const value = readJson(file);
  if (!isObject(value)) throw new CheckpointError(`${file}: no object; copy the adapter again`);
  const config: Json = value;
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
  const { r: rank, lora_alpha: alpha, target_modules: targets } = config;
  if (typeof rank !== 'number' || !Number.isInteger(rank) || rank < 1) {
    throw new CheckpointError(`${file}: 'r' must be a positive integer, got ${JSON.stringify(rank)}`);
  }
  if (typeof alpha !== 'number' || !(alpha > 0)) {
    throw new CheckpointError(
      `${file}: 'lora_alpha' must be a positive number, got ${JSON.stringify(alpha)}`,
    );
  }
  const known: readonly unknown[] = ADAPTER_TARGETS;
  const unknown = (Array.isArray(targets) ? targets : []).find(
    (target) => !known.includes(String(target).split('.').at(-1)),
  );
  if (unknown !== undefined) {
    throw new CheckpointError(
      `${file}: 'target_modules' names ${JSON.stringify(unknown)}; only ${ADAPTER_TARGETS.join(', ')} of the decoder can be adapted`,
    );
  }
  return { rank, alpha };
}

/**
 * Reads an adapter that PEFT or `saveAdapter` wrote. Its targets are those that it has tensors of.
 * @throws CheckpointError for another kind of adapter (its option is named), for tensors that are missing, unknown, of
 * another shape or not finite, for an adapter of the vision tower, and for one that is not what was saved there.
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
  const { rank, alpha } = parseConfig(join(directory, CONFIG));
  const stored = new Map<string, StoredTensor>();
  const unknown: string[] = [];
  for (const [name, tensor] of openSafetensors(file)) {
    const published = publishedName(name.startsWith(PREFIX) ? name.slice(PREFIX.length) : name);
    const known = /^model\.layers\.\d+\.\w+\.\w+\.lora_[AB]\.weight$/.test(published);
    if (known && !stored.has(published)) stored.set(published, tensor);
    else unknown.push(name);
  }
  const targets = ADAPTER_TARGETS.filter((target) =>
    [...stored.keys()].some((name) => name.includes(`.${target}.lora_`)),
  );
  if (targets.length === 0) {
    throw new CheckpointError(
      `${file}: no low-rank pair of the decoder's ${ADAPTER_TARGETS.join(', ')} (${listed(unknown) || 'it is empty'})`,
    );
  }
  const options: AdapterOptions = { rank, alpha, targets };
  const layout = adapterLayout(dims, options);
  const parts = layout.parameters.flatMap((parameter) => parameter.parts);
  const wanted = new Map(parts.map((part) => [part.name, part]));
  const missing = parts.filter(({ name }) => !stored.has(name)).map(({ name }) => storedName(name));
  const misshaped: string[] = [];
  for (const [name, tensor] of stored) {
    const part = wanted.get(name);
    if (part === undefined) unknown.push(tensor.name);
    else if (part.shape.join() !== tensor.shape.join()) {
      misshaped.push(`${tensor.name} is [${tensor.shape.join(', ')}] instead of [${part.shape.join(', ')}]`);
    }
  }
  const problems = [
    ...(missing.length > 0 ? [`${missing.length} missing: ${listed(missing)}`] : []),
    ...(unknown.length > 0 ? [`${unknown.length} that cannot be placed: ${listed(unknown)}`] : []),
    ...(misshaped.length > 0 ? [`${misshaped.length} of another shape: ${listed(misshaped)}`] : []),
  ];
  if (problems.length > 0) {
    throw new CheckpointError(
      `${file}: these tensors are no adapter of rank ${rank} for this policy's decoder; ${problems.join('; ')}. ` +
        (unknown.some((name) => /\bvisual\b/.test(name))
          ? 'Only the decoder can be adapted: merge an adapter of the vision tower into its base with PEFT and load the result'
          : 'Take the adapter of this checkpoint'),
    );
  }
  const flat = engine.scope(() => {
    const all = engine.zeros([layout.size]); // [T]
    for (const { name, offset } of parts) loadTensor(engine, stored.get(name)!, all, offset);
    return all;
  });
  return { options, flat };
}
