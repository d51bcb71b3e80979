/** The part of a policy that training changes: all of it, the decoder alone, or a low-rank adapter beside it. */
import type { Tensor } from '../engine/engine.ts';
import type { Parameter } from './layout.ts';

/**
 * What training may change. `all`; `decoder`: embedding, decoder and head, while the vision tower stays as it is;
 * `adapter`: the low-rank adapter alone; `none`: nothing, for answering and for reference policies.
 */
export type Tuning = 'all' | 'decoder' | 'adapter' | 'none';

/** What an optimiser needs of a policy. */
export interface Trainable {
  /** The numbers that are updated: [T]. Of the policy's dtype, or float32 for an adapter. */
  readonly flat: Tensor;
  /** In the order of `flat`, without gaps; offsets count from its start. */
  readonly parameters: readonly Parameter[];
  /** One leaf per parameter over the storage of `flat`. */
  readonly leaves: readonly Tensor[];
}
