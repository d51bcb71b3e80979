/**
 * Sizes of a Qwen2.5-VL policy, read from the Hugging Face `config.json`: the flat layout of the published
 * checkpoints (text keys at the root, `rope_scaling`) or that of transformers 5 (`text_config`,
 * `rope_parameters`).
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { CheckpointError } from '../ground/errors.ts';
import { isObject } from '../ground/json-record.ts';
import { asObject, isCount, type Json, Keys, readJson } from './json-file.ts';
import type { WeightDType } from './layout.ts';

/** The vision tower (ViT with window attention, 2-D rotary positions and a merger). */
export interface VisionDims {
  readonly depth: number;
  readonly width: number;
  readonly heads: number;
  /** Inner width of the SwiGLU. */
  readonly inner: number;
  /** Edge of a square patch, pixels. */
  readonly patch: number;
  /** Frames that one patch spans; a still image repeats its frame. */
  readonly temporal: number;
  /** Patches per side that the merger joins into one token. */
  readonly merge: number;
  /** Edge of an attention window, pixels. */
  readonly window: number;
  /** Layers that attend over the whole image instead of a window. */
  readonly fullAttention: readonly number[];
  readonly theta: number;
  readonly tokensPerSecond: number;
}

/** Ids of the tokens that structure a prompt. */
export interface SpecialIds {
  readonly image: number;
  readonly video: number;
  readonly visionStart: number;
  readonly visionEnd: number;
  /** `<|im_end|>`: ends a response. */
  readonly end: number;
  /** `<|endoftext|>`: padding. */
  readonly pad: number;
}

export interface Dims {
  /** Rows of the embedding; may exceed the tokenizer's vocabulary. */
  readonly vocabulary: number;
  readonly width: number;
  readonly layers: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  /** Inner width of the SwiGLU. */
  readonly inner: number;
  readonly theta: number;
  /** Rotary frequencies given to the temporal, height and width position; sums to headDim / 2. */
  readonly sections: readonly [temporal: number, height: number, width: number];
  readonly epsilon: number;
  readonly maxPositions: number;
  /** The output head is the embedding. */
  readonly tied: boolean;
  readonly vision: VisionDims;
  readonly special: SpecialIds;
}

/** Norm epsilon of the vision tower: a constant of the architecture, not in config.json. */
export const VISION_EPSILON = 1e-6;
/** Name of the architecture in config.json. */
const MODEL_TYPE = 'qwen2_5_vl';
const ARCHITECTURE = 'Qwen2_5_VLForConditionalGeneration';
/** More layers than any published policy has by far: a damaged number must not become a table without end. */
const MOST_LAYERS = 1000;
/** Colour channels of a picture. */
export const CHANNELS = 3;

/** Defaults of every key are those of transformers' Qwen2_5_VLConfig: older releases left such keys out when saving. */
function parseVision(file: string, raw: Json, textWidth: number): VisionDims {
  const keys = new Keys(file, [raw], 'vision_config.');
  const nested = isObject(raw['rope_parameters']) ? raw['rope_parameters'] : {};
  const rope = new Keys(file, [nested], 'vision_config.rope_parameters.');
  const dims: VisionDims = {
    depth: keys.integer('depth', 32),
    width: keys.integer('hidden_size', 3584),
    heads: keys.integer('num_heads', 16),
    inner: keys.integer('intermediate_size', 3420),
    patch: keys.integer(keys.get('patch_size') === undefined ? 'spatial_patch_size' : 'patch_size', 14),
    temporal: keys.integer('temporal_patch_size', 2),
    merge: keys.integer('spatial_merge_size', 2),
    window: keys.integer('window_size', 112),
    fullAttention: keys.list(
      'fullatt_block_indexes',
      [7, 15, 23, 31],
      'a list of non-negative integers',
      isCount,
    ),
    theta: rope.number('rope_theta', 10000),
    tokensPerSecond: keys.number('tokens_per_second', 4),
  };
  keys.demand(dims.depth <= MOST_LAYERS, 'depth', `at most ${MOST_LAYERS}`);
  rope.demand((rope.get('rope_type') ?? 'axial') === 'axial', 'rope_type', "'axial'");
  keys.demand((keys.get('hidden_act') ?? 'silu') === 'silu', 'hidden_act', "'silu'");
  keys.demand(
    dims.width % (4 * dims.heads) === 0,
    'hidden_size',
    `a multiple of 4 · num_heads = ${4 * dims.heads}`,
  );
  keys.demand(
    keys.integer('out_hidden_size', 3584) === textWidth,
    'out_hidden_size',
    `the text hidden_size, ${textWidth}`,
  );
  keys.demand(
    dims.window >= dims.patch * dims.merge,
    'window_size',
    `at least one merged patch, ${dims.patch * dims.merge}`,
  );
  for (const key of ['in_channels', 'in_chans']) {
    keys.demand((keys.get(key) ?? CHANNELS) === CHANNELS, key, '3');
  }
  return dims;
}

/** A token id inside the vocabulary; of a list, the first. */
function tokenId(keys: Keys, key: string, vocabulary: number, fallback: number): number {
  const value = keys.get(key) ?? fallback;
  const id: unknown = Array.isArray(value) ? value[0] : value;
  return isCount(id) && id < vocabulary ? id : keys.fail(key, `a token id below vocab_size = ${vocabulary}`);
}

/** Refuses what is no Qwen2.5-VL at all, or not its plain weights. */
function checkKind(file: string, config: Json): void {
  const [architecture] = Array.isArray(config['architectures']) ? config['architectures'] : [];
  const kind = config['model_type'] ?? architecture;
  if (kind !== MODEL_TYPE && kind !== ARCHITECTURE) {
    const is = kind === undefined ? "'model_type' is missing" : `'model_type' is ${JSON.stringify(kind)}`;
    throw new CheckpointError(
      `${file}: ${is}; that architecture cannot be loaded, only Qwen2.5-VL can ('${MODEL_TYPE}': 3B, 7B, 72B and what was trained from them)`,
    );
  }
  const quantised = config['quantization_config'];
  if (quantised !== undefined && quantised !== null) {
    const method = String(Object(quantised).quant_method ?? 'unknown method');
    throw new CheckpointError(
      `${file}: 'quantization_config' (${method}): quantised weights cannot be loaded; use the original checkpoint`,
    );
  }
}

/** Refuses rotary positions and attention spans that the published policies do not use. */
function checkAttention(keys: Keys, rope: Keys, layers: number): void {
  const type = rope.get('rope_type') ?? rope.get('type') ?? 'default';
  rope.demand(
    type === 'mrope' || type === 'default',
    rope.get('rope_type') === undefined ? 'type' : 'rope_type',
    "'mrope' or 'default' (stretching to longer contexts, as yarn does, is not supported: remove it)",
  );
  // As in transformers, the layers from max_window_layers on have the sliding window.
  const sliding =
    keys.get('use_sliding_window') === true &&
    !(keys.has('sliding_window') && keys.get('sliding_window') === undefined) &&
    keys.count('max_window_layers', 80) < layers;
  keys.demand(!sliding, 'use_sliding_window', 'false, or max_window_layers all layers');
  const types: unknown = keys.get('layer_types') ?? [];
  keys.demand(
    Array.isArray(types) && types.every((item) => item === 'full_attention'),
    'layer_types',
    "'full_attention' for every layer",
  );
}

/**
 * Parses the sizes in a `config.json`; absent keys take the values of transformers. `file`: name for
 * messages.
 * @throws CheckpointError naming another architecture, or the first key that is wrong, inconsistent or not
 * used by the published policies
 */
export function parseDims(value: unknown, file = 'config.json'): Dims {
  const config = asObject(value, file);
  checkKind(file, config);
  const nested = isObject(config['text_config']);
  const text: Json = isObject(config['text_config']) ? config['text_config'] : {};
  const root = new Keys(file, [config]);
  const keys = new Keys(file, [text, config], nested ? 'text_config.' : '');
  const visionRaw = config['vision_config'];
  if (!isObject(visionRaw)) return root.fail('vision_config', 'an object');
  const ropeKey = keys.get('rope_scaling') === undefined ? 'rope_parameters' : 'rope_scaling';
  const ropeRaw = keys.get(ropeKey) ?? {};
  keys.demand(isObject(ropeRaw), ropeKey, 'an object');
  const rope = new Keys(file, [isObject(ropeRaw) ? ropeRaw : {}], `${ropeKey}.`);
  const width = keys.integer('hidden_size', 8192);
  const heads = keys.integer('num_attention_heads', 64);
  const layers = keys.integer('num_hidden_layers', 80);
  keys.demand(layers <= MOST_LAYERS, 'num_hidden_layers', `at most ${MOST_LAYERS}`);
  const vocabulary = keys.integer('vocab_size', 152064);
  const headDim = keys.integer('head_dim', width / heads);
  const sections = rope.list('mrope_section', [16, 24, 24], 'a list of 3 non-negative integers', isCount);
  const dims: Dims = {
    vocabulary,
    width,
    layers,
    heads,
    kvHeads: keys.has('num_key_value_heads') ? keys.integer('num_key_value_heads', heads) : 8,
    headDim,
    inner: keys.integer('intermediate_size', 29568),
    theta: rope.number('rope_theta', keys.number('rope_theta', 1e6)),
    sections: [sections[0]!, sections[1]!, sections[2]!],
    epsilon: keys.number('rms_norm_eps', 1e-5),
    maxPositions: keys.integer('max_position_embeddings', 32768),
    tied: config['tie_word_embeddings'] === true || text['tie_word_embeddings'] === true,
    vision: parseVision(file, visionRaw, width),
    special: {
      image: tokenId(root, 'image_token_id', vocabulary, 151655),
      video: tokenId(root, 'video_token_id', vocabulary, 151656),
      visionStart: tokenId(root, 'vision_start_token_id', vocabulary, 151652),
      visionEnd: tokenId(root, 'vision_end_token_id', vocabulary, 151653),
      end: tokenId(keys, 'eos_token_id', vocabulary, 151645),
      pad: tokenId(
        keys,
        keys.get('pad_token_id') === undefined ? 'bos_token_id' : 'pad_token_id',
        vocabulary,
        151643,
      ),
    },
  };
  checkAttention(keys, rope, layers);
  keys.demand((keys.get('hidden_act') ?? 'silu') === 'silu', 'hidden_act', "'silu'");
  keys.demand(
    headDim % 2 === 0 && headDim * heads === width,
    'num_attention_heads',
    `a divisor of hidden_size = ${width} that leaves an even head`,
  );
  keys.demand(
    heads % dims.kvHeads === 0,
    'num_key_value_heads',
    `a divisor of num_attention_heads = ${heads}`,
  );
  rope.demand(
    sections.length === 3 && sections.reduce((a, b) => a + b) === headDim / 2,
    'mrope_section',
    `three numbers that sum to half a head, ${headDim / 2}`,
  );
  return dims;
}

/** The embedded default: 0.75 M parameters of the same architecture, small enough to train on two CPU cores. */
export function nanoDims(vocabulary: number, special: SpecialIds): Dims {
  return {
    vocabulary,
    width: 128,
    layers: 3,
    heads: 4,
    kvHeads: 2,
    headDim: 32,
    inner: 256,
    theta: 1000,
    // A plot is one row of visual tokens: the width needs the frequencies that tell 20 columns apart. With the 4, 6, 6 of
    // the published proportions it gets the six lowest, and no localisation is learnt (point F1 .29 against .75).
    sections: [1, 1, 14],
    epsilon: 1e-6,
    maxPositions: 4096,
    tied: true,
    vision: {
      depth: 2,
      width: 64,
      heads: 2,
      inner: 128,
      patch: 14,
      temporal: 2,
      merge: 2,
      window: 112,
      fullAttention: [1],
      theta: 10000,
      tokensPerSecond: 4,
    },
    special,
  };
}

/** Sizes of the recipe `small` and of the policies that ship: 2.4 M parameters, a few megabytes. */
function smallDims(vocabulary: number, special: SpecialIds): Dims {
  const nano = nanoDims(vocabulary, special);
  return {
    ...nano,
    width: 192,
    layers: 4,
    heads: 6,
    inner: 384,
    vision: { ...nano.vision, depth: 3, width: 128, heads: 4, inner: 256, fullAttention: [2] },
  };
}

/** The sizes that a policy with random weights can begin with, by name. */
const BUILT_IN_DIMS: Readonly<Record<string, typeof nanoDims>> = {
  nano: nanoDims,
  'small-random': smallDims,
};

export const isBuiltIn = (name: string): boolean => Object.hasOwn(BUILT_IN_DIMS, name);

/** Those of a name; of one that is none of them, nano's. */
export const builtInDims = (name: string): typeof nanoDims =>
  isBuiltIn(name) ? BUILT_IN_DIMS[name]! : nanoDims;

/** The `config.json` of these sizes, in the nested layout; `parseDims` reads it back unchanged. */
export function configJson(dims: Dims, dtype: WeightDType = 'float32'): Json {
  const { vision, special } = dims;
  return {
    architectures: [ARCHITECTURE],
    model_type: MODEL_TYPE,
    dtype,
    image_token_id: special.image,
    video_token_id: special.video,
    vision_start_token_id: special.visionStart,
    vision_end_token_id: special.visionEnd,
    tie_word_embeddings: dims.tied,
    text_config: {
      model_type: 'qwen2_5_vl_text',
      vocab_size: dims.vocabulary,
      hidden_size: dims.width,
      intermediate_size: dims.inner,
      num_hidden_layers: dims.layers,
      num_attention_heads: dims.heads,
      num_key_value_heads: dims.kvHeads,
      hidden_act: 'silu',
      rms_norm_eps: dims.epsilon,
      max_position_embeddings: dims.maxPositions,
      use_sliding_window: false,
      tie_word_embeddings: dims.tied,
      bos_token_id: special.pad,
      eos_token_id: special.end,
      rope_parameters: { rope_type: 'default', rope_theta: dims.theta, mrope_section: [...dims.sections] },
    },
    vision_config: {
      model_type: 'qwen2_5_vl_vision',
      depth: vision.depth,
      hidden_size: vision.width,
      intermediate_size: vision.inner,
      num_heads: vision.heads,
      out_hidden_size: dims.width,
      patch_size: vision.patch,
      temporal_patch_size: vision.temporal,
      spatial_merge_size: vision.merge,
      window_size: vision.window,
      fullatt_block_indexes: [...vision.fullAttention],
      tokens_per_second: vision.tokensPerSecond,
      in_channels: CHANNELS,
      hidden_act: 'silu',
      rope_parameters: { rope_type: 'axial', rope_theta: vision.theta },
    },
  };
}

/** The dtype that a config.json gives to the weights, where it says. */
export function statedDType(config: Json): unknown {
  const text = isObject(config['text_config']) ? config['text_config'] : {};
  return config['dtype'] ?? config['torch_dtype'] ?? text['dtype'] ?? text['torch_dtype'] ?? undefined;
}

/**
 * Default dtype in memory: bfloat16 on an accelerator if the weights are `stated` to have 16 bits, else
 * float32.
 */
export function usualDType(device: string, stated: unknown): WeightDType {
  return device !== 'cpu' && /16$/.test(String(stated)) ? 'bfloat16' : 'float32';
}

/** Sets `dtype` in a config.json wherever one is stated, under old and new names; all else stays. */
export function withDType(config: Json, dtype: WeightDType): Json {
  const updated: Record<string, unknown> = { ...config };
  for (const key of ['dtype', 'torch_dtype']) if (key in updated) updated[key] = dtype;
  if (!('dtype' in updated) && !('torch_dtype' in updated)) updated['dtype'] = dtype;
  for (const section of ['text_config', 'vision_config']) {
    const inner = updated[section];
    if (!isObject(inner)) continue;
    const stated = ['dtype', 'torch_dtype'].filter((key) => key in inner);
    updated[section] = { ...inner, ...Object.fromEntries(stated.map((key) => [key, dtype])) };
  }
  return updated;
}

export const GENERATION_CONFIG_FILE = 'generation_config.json';

export interface GenerationConfig {
  /** Tokens that end a response, in the file's order, without repeats; empty when the file names none. */
  readonly stops: readonly number[];
  /** ≥ 0; 0 is greedy, as when `do_sample` is false or absent. */
  readonly temperature: number;
  /** Nucleus mass in (0, 1]; 1 keeps all. */
  readonly topP: number;
  /** ≥ 1, or null: all tokens. */
  readonly topK: number | null;
  /** > 0; 1 does nothing. Divides positive logits of tokens that the prompt or response holds, multiplies negative ones. */
  readonly repetitionPenalty: number;
  /** Tokens that must not be sampled, stop tokens among them or not; empty when the file names none. */
  readonly suppress: readonly number[];
  /** Longest response in tokens, or null when the file does not say. */
  readonly maxTokens: number | null;
}

/**
 * Parses the sampling options of a `generation_config.json`; null counts as absent, unknown keys are ignored.
 * Without `top_k` nothing is restricted, as in vLLM (transformers: 50). @throws CheckpointError naming the
 * key
 */
export function parseGenerationConfig(value: unknown, file = GENERATION_CONFIG_FILE): GenerationConfig {
  const keys = new Keys(file, [asObject(value, file)]);
  const ends = [keys.get('eos_token_id') ?? []].flat();
  keys.demand(ends.every(isCount), 'eos_token_id', 'a token id or a list of token ids');
  const temperature = keys.number('temperature', 1, 'a number of at least 0', (x) => x >= 0);
  return {
    stops: [...new Set(ends as number[])],
    temperature: keys.flag('do_sample', false) ? temperature : 0,
    topP: keys.number('top_p', 1, 'a number above 0 and at most 1', (x) => x > 0 && x <= 1),
    topK: keys.count('top_k', 0) || null,
    suppress: keys.list('suppress_tokens', [], 'a list of token ids', isCount),
    repetitionPenalty: keys.number('repetition_penalty', 1, 'a number above 0', (x) => x > 0),
    maxTokens: keys.get('max_new_tokens') === undefined ? null : keys.integer('max_new_tokens', 1),
  };
}

/**
 * Reads the `generation_config.json` of a directory; greedy without stops of its own if there is none.
 * @throws CheckpointError when the file is damaged or a value makes no sense
 */
export function readGenerationConfig(directory: string): GenerationConfig {
  const file = join(directory, GENERATION_CONFIG_FILE);
  return parseGenerationConfig(existsSync(file) ? readJson(file) : {}, file);
}
