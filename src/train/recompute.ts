/** Whether the layers of a training pass are kept or computed again for their gradients. */

export type Recompute = 'auto' | 'always' | 'never';

/** What `auto` decides by. */
export interface KeptMemory {
  /** Peak of the stage when every activation is kept, bytes: from its plan. */
  readonly kept: number;
  /** Memory of the device, bytes; null where it is not known. */
  readonly memory: number | null;
  /** Size of the policy. */
  readonly parameters: number;
}

/** Share of the memory that kept activations may fill: what a longer example, kernels and fragments need is left. */
const COMFORTABLE = 0.8;
/** Where the memory is not known: a policy from this size on is large. */
const LARGE = 100e6;

/**
 * `auto` computes layers again when keeping everything would fill more than 80 % of the memory; where that is not known,
 * when the policy has more than 100 million parameters. It costs about a third more computation and gives the same
 * gradients.
 */
export function recomputes(recompute: Recompute, { kept, memory, parameters }: KeptMemory): boolean {
  if (recompute !== 'auto') return recompute === 'always';
  return memory === null ? parameters > LARGE : kept > COMFORTABLE * memory;
}
