/** Projections of a decoder layer that a low-rank adapter can stand beside, by their published names. */
export const ADAPTER_TARGETS = [
  'q_proj',
  'k_proj',
  'v_proj',
  'o_proj',
  'gate_proj',
  'up_proj',
  'down_proj',
] as const;

export type AdapterTarget = (typeof ADAPTER_TARGETS)[number];
