/**
 * The sizes of a Qwen2.5-VL policy, read from and written to the Hugging Face `config.json`. Both layouts in
 * the wild are read: the flat one of the published checkpoints (text keys at the root, `rope_scaling`) and the
 * nested one of transformers 5 (`text_config`, `vision_config`, `rope_parameters`).
 */
import { CheckpointError } from '../errors.ts';

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
/** Colour channels of a picture. */
export const CHANNELS = 3;

type Json = Readonly<Record<string, unknown>>;

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Reads keys of config.json from the first of several objects that has them; every complaint names the key. */
class Keys {
  readonly #file: string;
  readonly #path: string;
  readonly #sources: readonly Json[];

  constructor(file: string, path: string, sources: readonly Json[]) {
    this.#file = file;
    this.#path = path;
    this.#sources = sources;
  }

  get(key: string): unknown {
    for (const source of this.#sources) {
      if (source[key] !== undefined && source[key] !== null) return source[key];
    }
    return undefined;
  }

  fail(key: string, expected: string): never {
    const got = this.get(key);
    const shown = got === undefined ? 'it is missing' : `got ${JSON.stringify(got)}`;
    throw new CheckpointError(
      `${this.#file}: '${this.#path}${key}' must be ${expected}, ${shown}; use the config.json of a Qwen2.5-VL checkpoint`,
    );
  }

  number(key: string, fallback?: number): number {
    const value = this.get(key) ?? fallback;
    if (typeof value !== 'number' || !Number.isFinite(value) || value <= 0)
      this.fail(key, 'a positive number');
    return value;
  }

  integer(key: string, fallback?: number): number {
    const value = this.number(key, fallback);
    if (!Number.isInteger(value)) this.fail(key, 'a positive integer');
    return value;
  }

  /** A token id inside the vocabulary; of a list, the first. */
  id(key: string, vocabulary: number, fallback?: number): number {
    const found = this.get(key) ?? fallback;
    const value: unknown = Array.isArray(found) ? found[0] : found;
    if (typeof value !== 'number' || !Number.isInteger(value) || value < 0 || value >= vocabulary) {
      this.fail(key, `a token id below vocab_size = ${vocabulary}`);
    }
    return value;
  }

  integers(key: string, length?: number): number[] {
    const value = this.get(key);
    const ok =
      Array.isArray(value) &&
      (length === undefined || value.length === length) &&
      value.every((item) => Number.isInteger(item) && Number(item) >= 0);
    if (!ok) this.fail(key, `a list of ${length ?? ''} non-negative integers`.replace('  ', ' '));
    return (value as number[]).slice();
  }

  demand(ok: boolean, key: string, expected: string): void {
    if (!ok) this.fail(key, expected);
  }
}

function parseVision(file: string, raw: Json, textWidth: number): VisionDims {
  const keys = new Keys(file, 'vision_config.', [raw]);
  const dims: VisionDims = {
    depth: keys.integer('depth'),
    width: keys.integer('hidden_size'),
    heads: keys.integer('num_heads'),
    inner: keys.integer('intermediate_size'),
    patch: keys.integer('patch_size', 14),
    temporal: keys.integer('temporal_patch_size', 2),
    merge: keys.integer('spatial_merge_size', 2),
    window: keys.integer('window_size', 112),
    fullAttention: keys.integers('fullatt_block_indexes'),
    theta: new Keys(file, 'vision_config.rope_parameters.', [
      isObject(raw['rope_parameters']) ? raw['rope_parameters'] : {},
    ]).number('rope_theta', 10000),
    tokensPerSecond: keys.number('tokens_per_second', 4),
  };
  keys.demand((keys.get('hidden_act') ?? 'silu') === 'silu', 'hidden_act', "'silu'");
  keys.demand(
    dims.width % (4 * dims.heads) === 0,
    'hidden_size',
    `a multiple of 4 · num_heads = ${4 * dims.heads}`,
  );
  keys.demand(
    keys.integer('out_hidden_size', textWidth) === textWidth,
    'out_hidden_size',
    `the text hidden_size, ${textWidth}`,
  );
  keys.demand(
    dims.window >= dims.patch * dims.merge,
    'window_size',
    `at least one merged patch, ${dims.patch * dims.merge}`,
  );
  const channels = keys.get('in_channels') ?? keys.get('in_chans') ?? CHANNELS;
  keys.demand(channels === CHANNELS, 'in_channels', '3');
  return dims;
}

/**
 * The sizes in a parsed `config.json`.
 * @param config the parsed file; @param file its name, for messages.
 * @throws CheckpointError naming the first key that is missing, of the wrong type or inconsistent.
 */
export function parseDims(config: unknown, file = 'config.json'): Dims {
  if (!isObject(config))
    throw new CheckpointError(`${file}: must hold a JSON object; the file may be truncated`);
  const text = isObject(config['text_config']) ? config['text_config'] : {};
  const nested = isObject(config['text_config']);
  const root = new Keys(file, '', [config]);
  root.demand((root.get('model_type') ?? 'qwen2_5_vl') === 'qwen2_5_vl', 'model_type', "'qwen2_5_vl'");
  const keys = new Keys(file, nested ? 'text_config.' : '', [text, config]);
  const visionRaw = config['vision_config'];
  if (!isObject(visionRaw)) return root.fail('vision_config', 'an object');
  const ropeKey = keys.get('rope_parameters') === undefined ? 'rope_scaling' : 'rope_parameters';
  const ropeRaw = keys.get(ropeKey);
  const ropeSource: Json = isObject(ropeRaw) ? ropeRaw : {};
  const rope = new Keys(file, `${ropeKey}.`, [ropeSource]);
  const width = keys.integer('hidden_size');
  const heads = keys.integer('num_attention_heads');
  const vocabulary = keys.integer('vocab_size');
  const headDim = keys.integer('head_dim', width / heads);
  const sections = rope.integers('mrope_section', 3);
  const dims: Dims = {
    vocabulary,
    width,
    layers: keys.integer('num_hidden_layers'),
    heads,
    kvHeads: keys.integer('num_key_value_heads', heads),
    headDim,
    inner: keys.integer('intermediate_size'),
    theta:
      ropeSource['rope_theta'] === undefined ? keys.number('rope_theta', 1e6) : rope.number('rope_theta'),
    sections: [sections[0]!, sections[1]!, sections[2]!],
    epsilon: keys.number('rms_norm_eps', 1e-6),
    maxPositions: keys.integer('max_position_embeddings', 32768),
    tied: config['tie_word_embeddings'] === true || text['tie_word_embeddings'] === true,
    vision: parseVision(file, visionRaw, width),
    special: {
      image: root.id('image_token_id', vocabulary),
      video: root.id('video_token_id', vocabulary),
      visionStart: root.id('vision_start_token_id', vocabulary),
      visionEnd: root.id('vision_end_token_id', vocabulary),
      end: keys.id('eos_token_id', vocabulary),
      pad: keys.id(keys.get('pad_token_id') == null ? 'bos_token_id' : 'pad_token_id', vocabulary),
    },
  };
  const type = ropeSource['rope_type'] ?? ropeSource['type'] ?? 'default';
  rope.demand(type === 'mrope' || type === 'default', 'rope_type', "'mrope' or 'default'");
  keys.demand((keys.get('hidden_act') ?? 'silu') === 'silu', 'hidden_act', "'silu'");
  keys.demand((keys.get('use_sliding_window') ?? false) === false, 'use_sliding_window', 'false');
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
    sections.reduce((a, b) => a + b, 0) === headDim / 2,
    'mrope_section',
    `three numbers that sum to half a head, ${headDim / 2}`,
  );
  return dims;
}

/** The `config.json` of these sizes, in the nested layout; `parseDims` reads it back unchanged. */
export function configJson(dims: Dims): Json {
  const { vision, special } = dims;
  return {
    architectures: ['Qwen2_5_VLForConditionalGeneration'],
    model_type: 'qwen2_5_vl',
    dtype: 'float32',
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
