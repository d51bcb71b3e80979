/** A policy in training: what of it is trained, in one flat buffer that all ranks share, and the optimiser over it. */
import type { LogProbOptions, Tensor } from '../engine/engine.ts';
import { TimeseerError } from '../ground/errors.ts';
import { Tape } from '../policy/gradient-checkpointing.ts';
import type { Policy } from '../policy/policy.ts';
import { headGradients, type TokenLoss } from './loss.ts';
import { type OptimizerOptions, ShardedAdamW, type StepReport } from './optimizer.ts';
import type { WorkerGroup } from './worker-group.ts';

/** Where a stage begins or resumes. */
export interface StageStart {
  /** Steps done. */
  readonly step: number;
  /** Updates left out just before, because loss or gradient was not finite. */
  readonly skippedInARow: number;
}

export const BEGINNING: StageStart = { step: 0, skippedInARow: 0 };

/** @throws TimeseerError after `limit` updates in a row without a finite gradient, the last of them in step `step` */
export function checkSkipped(stage: 'sft' | 'rl', skippedInARow: number, limit: number, step: number): void {
  if (skippedInARow < limit) return;
  throw new TimeseerError(
    `${stage}: ${limit} updates in a row without a finite gradient, up to step ${step}; nothing was learnt from them and ` +
      `checkpoints before them are good: begin a new run with a lower ${stage}.learningRate`,
  );
}

export class Learner {
  readonly policy: Policy;
  readonly workers: WorkerGroup;
  readonly optimizer: ShardedAdamW;
  /** Number of the head among the trained parameters; −1 where it is not trained. */
  readonly #headIndex: number;
  readonly #indices: ReadonlyMap<Tensor, number>;
  readonly #recompute: boolean;

  /**
   * `policy` must be over storage that all ranks share. With `recompute` the forward pass keeps the input of each layer
   * alone, and the backward pass runs the layers again. Collective: all ranks construct it together.
   */
  constructor(policy: Policy, workers: WorkerGroup, options: OptimizerOptions, recompute = false) {
    this.policy = policy;
    this.workers = workers;
    const { flat, parameters } = policy.trainable;
    this.optimizer = new ShardedAdamW(policy.engine, workers, flat, parameters, options);
    const head = policy.dims.tied ? 'embed' : 'head';
    this.#indices = new Map(policy.trainable.leaves.map((leaf, index) => [leaf, index]));
    this.#recompute = recompute;
    this.#headIndex = parameters.findIndex(({ name }) => name === head);
  }

  /** What the forward pass of one micro-batch is recorded on: nothing but autograd's own unless layers are computed again. */
  tape(): Tape | undefined {
    return this.#recompute ? new Tape(this.policy.engine, this.policy.trainable.leaves) : undefined;
  }

  /**
   * Adds the gradient of Σ loss over K tokens to this rank's gradient buffer: of the head chunk by chunk, then of
   * everything before it. `states` [K, D], recorded on `tape` where there is one, are those that predict `targets` [K].
   */
  backward(states: Tensor, targets: Int32Array, options: LogProbOptions, loss: TokenLoss, tape?: Tape): void {
    const { engine, weights, trainable } = this.policy;
    const index = this.#headIndex;
    const addToHead = index < 0 ? null : (part: Tensor) => this.optimizer.accumulate(index, part);
    engine.scope(() => {
      const given = headGradients(engine, states, weights.head, targets, options, loss, addToHead); // [K, D]
      if (tape !== undefined) {
        tape.backward([[states, given]], (leaf, gradient) => {
          this.optimizer.accumulate(this.#indices.get(leaf)!, gradient);
        });
        return;
      }
      engine.grad(states, trainable.leaves, given).forEach((gradient, i) => {
        this.optimizer.accumulate(i, gradient);
        engine.dispose(gradient);
      });
    });
  }

  /** Drops the gradients of this rank since the last update. */
  zeroGrad(): void {
    this.optimizer.zeroGrad();
  }

  /** One update from the gradients of all ranks, divided by the batch's token count. Collective. */
  update(tokens: number, learningRate: number): StepReport {
    return this.optimizer.step(tokens, learningRate);
  }
}
