/**
 * A dry engine: the torch engine that computes nothing and allocates nothing, and knows what it would have allocated. Run
 * a training step on it and its ledger says how much memory the step takes, and when.
 */
import { TorchEngine } from '../torch/torch.ts';
import type { Ledger } from './ledger.ts';
import { DryNative, type DryOptions } from './native.ts';

export type { DryOptions };

export class DryEngine extends TorchEngine {
  readonly ledger: Ledger;
  readonly #native: DryNative;

  constructor(options: DryOptions) {
    const native = new DryNative(options);
    super(native, options.device, 1);
    this.#native = native;
    this.ledger = native.ledger;
  }

  /** What every integer that is read back is from now on: a token that is sampled, say. */
  set integer(value: number) {
    this.#native.integer = value;
  }

  /** Calls back before every backward pass that is given the gradients of its outputs. */
  set onBackward(callback: () => void) {
    this.#native.onBackward = callback;
  }
}
