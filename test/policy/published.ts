/** config.json of the published checkpoints, in the flat layout that they came with. */

interface Size {
  readonly width: number;
  readonly layers: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly inner: number;
  readonly tied: boolean;
  readonly vocabulary: number;
  readonly windowLayers: number;
  readonly visionInner: number;
}

const flat = (size: Size) => ({
  architectures: ['Qwen2_5_VLForConditionalGeneration'],
  attention_dropout: 0.0,
  bos_token_id: 151643,
  eos_token_id: 151645,
  vision_start_token_id: 151652,
  vision_end_token_id: 151653,
  vision_token_id: 151654,
  image_token_id: 151655,
  video_token_id: 151656,
  hidden_act: 'silu',
  hidden_size: size.width,
  initializer_range: 0.02,
  intermediate_size: size.inner,
  max_position_embeddings: 128000,
  max_window_layers: size.windowLayers,
  model_type: 'qwen2_5_vl',
  num_attention_heads: size.heads,
  num_hidden_layers: size.layers,
  num_key_value_heads: size.kvHeads,
  rms_norm_eps: 1e-6,
  rope_theta: 1000000.0,
  sliding_window: 32768,
  tie_word_embeddings: size.tied,
  torch_dtype: 'bfloat16',
  transformers_version: '4.41.2',
  use_cache: true,
  use_sliding_window: false,
  vision_config: {
    depth: 32,
    hidden_act: 'silu',
    hidden_size: 1280,
    intermediate_size: size.visionInner,
    num_heads: 16,
    in_chans: 3,
    out_hidden_size: size.width,
    patch_size: 14,
    spatial_merge_size: 2,
    spatial_patch_size: 14,
    window_size: 112,
    fullatt_block_indexes: [7, 15, 23, 31],
    tokens_per_second: 2,
    temporal_patch_size: 2,
  },
  rope_scaling: { type: 'mrope', mrope_section: [16, 24, 24] },
  vocab_size: size.vocabulary,
});

export const QWEN_3B = flat({
  width: 2048,
  layers: 36,
  heads: 16,
  kvHeads: 2,
  inner: 11008,
  tied: true,
  vocabulary: 151936,
  windowLayers: 70,
  visionInner: 3420,
});

export const QWEN_7B = flat({
  width: 3584,
  layers: 28,
  heads: 28,
  kvHeads: 4,
  inner: 18944,
  tied: false,
  vocabulary: 152064,
  windowLayers: 28,
  visionInner: 3420,
});

export const QWEN_72B = flat({
  width: 8192,
  layers: 80,
  heads: 64,
  kvHeads: 8,
  inner: 29568,
  tied: false,
  vocabulary: 152064,
  windowLayers: 80,
  visionInner: 3456,
});
