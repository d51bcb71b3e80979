/** A policy in training: one flat parameter buffer that all ranks share, and the optimiser over it. */
import type { Tensor } from '../engine/engine.ts';
import type { Policy } from '../policy/policy.ts';
import { decayMask } from '../policy/weights.ts';
import type { HeadGradients } from './head.ts';
import { type OptimizerOptions, ShardedAdamW, type StepReport } from './optimizer.ts';
import type { Ranks } from './ranks.ts';

export class Learner {
  readonly policy: Policy;
  readonly optimizer: ShardedAdamW;
  readonly #ranks: Ranks;
  readonly #headIndex: number;

  /**
   * `policy` must be over storage that all ranks share. Collective: all ranks construct it together.
   */
  constructor(policy: Policy, ranks: Ranks, options: OptimizerOptions) {
    this.policy = policy;
    this.#ranks = ranks;
    this.optimizer = new ShardedAdamW(policy.engine, ranks, policy.flat, decayMask(policy.layout), options);
    const head = policy.dims.tied ? 'embed' : 'head';
    this.#headIndex = policy.layout.parameters.findIndex(({ name }) => name === head);
  }

  /**
   * Backward pass of the backbone from the head's gradients, added to this rank's gradient buffer. `hidden` [K, D]
   * is the recorded output that `head.hidden` belongs to.
   */
  backward(hidden: Tensor, head: HeadGradients): void {
    const { engine } = this.policy;
    engine.scope(() => {
      const gradients = engine.grad(hidden, this.policy.parameters, head.hidden);
      gradients[this.#headIndex] = engine.add(gradients[this.#headIndex]!, head.head);
      this.optimizer.accumulate(gradients);
    });
  }

  /** One update from the gradients of all ranks, divided by the batch's token count. Collective. */
  update(tokens: number, learningRate: number): StepReport {
    return this.optimizer.step(tokens, learningRate);
  }

  get ranks(): Ranks {
    return this.#ranks;
  }
}
