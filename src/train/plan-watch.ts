/** Who a plan looks on at: a learner and a reference that say which part of a step begins, in a group of workers that are not there. */
import type { Ledger } from '../engine/dry/ledger.ts';
import type { LogProbOptions, Tensor } from '../engine/engine.ts';
import type { Tape } from '../policy/gradient-checkpointing.ts';
import type { Policy } from '../policy/policy.ts';
import { Learner } from './learner.ts';
import type { TokenLoss } from './loss.ts';
import type { Scorer } from './micro-batch.ts';
import type { OptimizerOptions, StepReport } from './optimizer.ts';
import { WorkerGroup, workerGroupMemory } from './worker-group.ts';

/** Parts of a step, in their order. */
export type Phase =
  | 'load'
  | 'rollout'
  | 'transport'
  | 'reference'
  | 'forward'
  | 'logits'
  | 'backward'
  | 'optimizer step';

/** The rank with the largest share of a group that is not there. */
export class OneOfMany extends WorkerGroup {
  constructor(size: number) {
    super(workerGroupMemory(size), 0, size);
  }

  override barrier(): void {}

  override allGather(values: readonly number[]): Float64Array[] {
    return Array.from({ length: this.size }, () => Float64Array.from(values));
  }

  override shard(n: number): readonly [start: number, end: number] {
    return [0, Math.ceil(n / this.size)];
  }
}

/** A learner that says which part of a step begins. */
export class WatchedLearner extends Learner {
  readonly #ledger: Ledger;
  /** What is held from beginning to end, bytes. */
  readonly held: number;
  /** Largest that was kept for a backward pass, bytes. */
  activations = 0;

  constructor(
    policy: Policy,
    workers: WorkerGroup,
    options: OptimizerOptions,
    recompute: boolean,
    ledger: Ledger,
  ) {
    super(policy, workers, options, recompute);
    this.#ledger = ledger;
    this.held = ledger.now;
  }

  override tape(): Tape | undefined {
    this.#ledger.phase('forward' satisfies Phase);
    return super.tape();
  }

  override backward(
    states: Tensor,
    targets: Int32Array,
    options: LogProbOptions,
    loss: TokenLoss,
    tape?: Tape,
  ): void {
    this.activations = Math.max(this.activations, this.#ledger.now - this.held);
    this.#ledger.phase('logits' satisfies Phase); // until the gradient goes on from the states
    super.backward(states, targets, options, loss, tape);
  }

  override zeroGrad(): void {
    super.zeroGrad();
    this.#ledger.phase('rollout' satisfies Phase);
  }

  override update(tokens: number, learningRate: number): StepReport {
    this.#ledger.phase('optimizer step' satisfies Phase);
    return super.update(tokens, learningRate);
  }
}

/** Says when the reference is read. */
export function watched(scorer: Scorer, ledger: Ledger): Scorer {
  return {
    engine: scorer.engine,
    dims: scorer.dims,
    forbidden: scorer.forbidden,
    get weights() {
      ledger.phase('reference' satisfies Phase);
      return scorer.weights;
    },
  };
}
