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

  /** Calls back around every backward pass that is given the gradients of its outputs. */
  onBackward(callback: (begins: boolean) => void): void {
    this.#native.onBackward = callback;
  }
}
