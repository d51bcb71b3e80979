/** The `config.json` that a policy is saved with. */
import { ARCHITECTURE, CHANNELS, type Dims, MODEL_TYPE } from './dims.ts';
import { isObject, type Json } from './keys.ts';
import type { WeightDType } from './weights.ts';

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
 * What the weights of a checkpoint are held in unless the caller says: bfloat16 on an accelerator when they are `stated`
 * (config.json, or else the first tensor) to be of 16 bits, float32 otherwise.
 */
export function usualDType(device: string, stated: unknown): WeightDType {
  return device !== 'cpu' && /16$/.test(String(stated)) ? 'bfloat16' : 'float32';
}

/**
 * The config.json of a policy whose weights are now of `dtype`: `dtype` under the names, old and new, at the root and in
 * the sections, that state one; all else, known here or not, as it was.
 */
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
