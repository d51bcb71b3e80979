/** Projections that a low-rank adapter can stand beside: of every layer of the decoder, by their published names. */
export const DECODER_TARGETS = [
  'q_proj',
  'k_proj',
  'v_proj',
  'o_proj',
  'gate_proj',
  'up_proj',
  'down_proj',
] as const;

/** Projections of every block of the vision tower, and of its merger. */
export const VISION_TARGETS = [
  'visual.qkv',
  'visual.proj',
  'visual.gate_proj',
  'visual.up_proj',
  'visual.down_proj',
  'visual.merger.0',
  'visual.merger.2',
] as const;

/** Every projection but the head: PEFT's `all-linear`. */
export const ADAPTER_TARGETS = [...DECODER_TARGETS, ...VISION_TARGETS] as const;

export type AdapterTarget = (typeof ADAPTER_TARGETS)[number];
