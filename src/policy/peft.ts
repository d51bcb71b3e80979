/**
 * Adapters in the files of Hugging Face's PEFT: `adapter_config.json` and `adapter_model.safetensors`, as `PeftModel` and
 * vLLM read them beside a Qwen2.5-VL checkpoint. Checked against PEFT 0.21 with transformers 5.23.
 */
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Engine } from '../engine/engine.ts';
import { CheckpointError } from '../ground/errors.ts';
import { writeFileAtomic } from '../ground/files.ts';
import { checkFiles, writeManifestedDirectory } from '../ground/manifest.ts';
import { Keys, readObject } from './json-file.ts';
import { publishedName } from './layout.ts';
import { type Adapter, type AdapterOptions, adapterLayout, targetOf } from './lora.ts';
import { ADAPTER_TARGETS, type AdapterTarget, DECODER_TARGETS, VISION_TARGETS } from './lora-targets.ts';
import type { Dims } from './model-config.ts';
import type { Policy } from './policy.ts';
import { listed, openSafetensors, type StoredTensor, writeSafetensors } from './safetensors.ts';
import { compareParts, flatTensors, loadFlat } from './weights.ts';

const CONFIG = 'adapter_config.json';
const WEIGHTS = 'adapter_model.safetensors';

/** PEFT's wrapper around the model. */
const PREFIX = 'base_model.model.';

/** `model.layers.0.self_attn.q_proj.lora_A.weight` as PEFT names it, by the modules of transformers. */
const storedName = (name: string): string =>
  `${PREFIX}${name.replace(/^model\./, 'model.language_model.').replace(/^visual\./, 'model.visual.')}`;

type Adapted = Pick<Policy, 'engine' | 'dims' | 'adapter'>;

/**
 * The modules of `targets` by their whole names, as an expression: decoder and vision tower have projections of the same
 * names, so a list of those would not tell them apart.
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
 * Writes the adapter of a policy into a directory of the caller's. `base`: name or path of the checkpoint it belongs to.
 * @throws CheckpointError when the policy has no adapter.
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
  writeFileAtomic(join(directory, CONFIG), `${JSON.stringify(config, null, 2)}\n`);
}

/** Runs `writeAdapter` atomically: the directory appears whole or not at all and replaces an older one. */
export function saveAdapter(policy: Adapted, directory: string, base?: string): void {
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
  'use_rslora',
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
 * Reads an adapter that PEFT or `saveAdapter` wrote. Its targets are those that it has tensors of.
 * @throws CheckpointError for another kind of adapter (its option is named), for tensors that are missing, unknown, of
 * another shape or not finite, and for an adapter that is not what was saved there.
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
  const found = new Set([...stored.keys()].map(targetOfMatrix));
  const targets = ADAPTER_TARGETS.filter((target) => found.has(target));
  if (targets.length === 0) {
    throw new CheckpointError(
      `${file}: no low-rank pair of ${ADAPTER_TARGETS.join(', ')} (${listed(unknown) || 'it is empty'})`,
    );
  }
  const options: AdapterOptions = { ...config, targets };
  const layout = adapterLayout(dims, options);
  const parts = layout.parameters.flatMap((parameter) => parameter.parts);
  const mismatch = compareParts(parts, stored, unknown, storedName);
  if (mismatch === null) return { options, flat: loadFlat(engine, layout, stored, 'float32') };
  throw new CheckpointError(
    `${file}: these tensors are no adapter of rank ${config.rank} for this policy; ${mismatch.problems}. ` +
      (mismatch.unknown.some((name) => /\.(lm_head|embed_tokens|patch_embed\.proj)\./.test(name))
        ? 'Head, embedding and patches cannot be adapted: merge the adapter into its base with PEFT and load the result'
        : 'Take the adapter of this checkpoint'),
  );
}
