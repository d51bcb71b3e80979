/** Policy in training: its trainable parameters in one flat buffer that all ranks share, and the optimiser over them. */
import type { LogProbOptions, Tensor } from '../engine/engine.ts';
import { TimeseerError } from '../ground/errors.ts';
import { Tape } from '../policy/gradient-checkpointing.ts';
import type { Policy } from '../policy/policy.ts';
import { headGradients, type TokenLoss } from './loss.ts';
import { matricesOf } from './muon.ts';
import { type OptimizerOptions, ShardedOptimizer, type ShardOptions, type StepReport } from './optimizer.ts';
import { ParameterShards } from './parameter-shards.ts';
import type { Validation } from './validation.ts';
import type { WorkerGroup } from './worker-group.ts';

/** Position at which a stage begins or resumes. */
export interface StageStart {
  /** Completed steps. */
  readonly step: number;
  /** Consecutive updates skipped just before, because loss or gradient was not finite. */
  readonly skippedInARow: number;
}

export const BEGINNING: StageStart = { step: 0, skippedInARow: 0 };

/** Hooks that a training loop calls. */
export interface StageHooks<Metrics> {
  /** Called on rank 0 after every step. */
  readonly onStep: (metrics: Metrics) => void;
  /** Called on rank 0 while the other ranks wait: writes a checkpoint. */
  readonly save: (at: StageStart) => void;
  /** Evaluation during training. */
  readonly validation?: Validation | undefined;
}

/** @throws TimeseerError after `limit` updates in a row without a finite gradient, the last of them in step `step` */
export function checkSkipped(stage: 'sft' | 'rl', skippedInARow: number, limit: number, step: number): void {
  if (skippedInARow < limit) return;
  throw new TimeseerError(
    `${stage}: ${limit} updates in a row without a finite gradient, up to step ${step}; they were skipped, and ` +
      `checkpoints before them are good: begin a new run with a lower ${stage}.learningRate`,
  );
}

export class Learner {
  readonly policy: Policy;
  readonly workers: WorkerGroup;
  readonly optimizer: ShardedOptimizer;
  /** Index of the head among the trained parameters; −1 where it is not trained. */
  readonly #headIndex: number;
  readonly #indices: ReadonlyMap<Tensor, number>;
  readonly #recompute: boolean;
  /** Parameters in shares while gradients are computed; null without ZeRO 3. */
  readonly #shards: ParameterShards | null;

  /**
   * `policy` uses storage shared by all ranks that share memory. `recompute`: gradient checkpointing, which keeps only the
   * input of each layer. Collective.
   */
  constructor(
    policy: Policy,
    workers: WorkerGroup,
    options: OptimizerOptions,
    recompute = false,
    shards: ShardOptions = {},
  ) {
    this.policy = policy;
    this.workers = workers;
    const { flat, parameters } = policy.trainable;
    const ranges = parameters.map(({ name, offset, size, decay, parts }) => {
      const matrices = options.optimizer === 'muon' ? matricesOf({ name, parts }) : undefined;
      return { offset, size, decay, late: /^(vision|merger|visual)\./.test(name), matrices };
    });
    this.optimizer = new ShardedOptimizer(policy.engine, workers, flat, ranges, options, shards);
    const head = policy.dims.tied ? 'embed' : 'head';
    this.#indices = new Map(policy.trainable.leaves.map((leaf, index) => [leaf, index]));
    this.#recompute = recompute;
    const apart = !workers.sharesMemory && workers.size > 1 && policy.adapter === null;
    this.#shards =
      shards.zero === 3 && recompute && apart ? new ParameterShards(policy, workers, this.optimizer) : null;
    this.#headIndex = parameters.findIndex(({ name }) => name === head);
  }

  /** Returns the tape for the forward pass of one micro-batch; undefined without gradient checkpointing. */
  tape(): Tape | undefined {
    return this.#recompute
      ? new Tape(this.policy.engine, this.policy.trainable.leaves, this.#shards)
      : undefined;
  }

  /**
   * Adds the gradient of Σ loss over K tokens to this rank's buffer: that of the head in chunks, then the
   * rest. `states` [K, D], recorded on `tape` if given, predict `targets` [K].
   */
  backward(states: Tensor, targets: Int32Array, options: LogProbOptions, loss: TokenLoss, tape?: Tape): void {
    const { engine, weights, trainable, dims } = this.policy;
    const { gradients } = this.optimizer;
    const index = this.#headIndex;
    const addToHead = index < 0 ? null : (part: Tensor) => gradients.add(index, part);
    engine.scope(() => {
      const gradientOfStates = headGradients(engine, states, weights.head, targets, options, loss, addToHead); // [K, D]
      if (tape !== undefined) {
        if (index >= 0 && !dims.tied) gradients.finalise(index);
        tape.backward([[states, gradientOfStates]], (leaf, gradient, last) => {
          gradients.add(this.#indices.get(leaf)!, gradient, last);
        });
        return;
      }
      engine.grad(states, trainable.leaves, gradientOfStates).forEach((gradient, i) => {
        gradients.add(i, gradient);
        engine.dispose(gradient);
      });
    });
    gradients.endRound();
  }

  /**
   * Runs the micro-batches of an update on this rank, each with one call of `backward` and so many passes through the decoder. Their gradients go
   * to the other ranks while they are computed where layers are computed again, else behind each. Collective.
   */
  accumulate(microBatches: readonly (() => void)[], passes = 1): void {
    const { gradients } = this.optimizer;
    const rounds = gradients.begin(microBatches.length, this.#recompute ? passes : 1);
    this.#shards?.release(rounds, passes);
    for (const run of microBatches) run();
    if (this.#shards !== null)
      for (let i = microBatches.length; i < rounds; i++) this.#shards.accompany(passes);
    gradients.finish();
  }

  /** Drops the gradients since the last update. Collective. */
  discard(): void {
    this.optimizer.gradients.drop();
    this.restore();
  }

  /** Elements of the weights that are in shares during an update. */
  get shared(): number {
    return this.#shards?.elements ?? 0;
  }

  /** Collects the weights that were in shares. Collective. */
  protected restore(): void {
    this.#shards?.restore();
  }

  /** Makes one update from the gradients of all ranks, divided by `denominator`. Collective. */
  update(denominator: number, learningRate: number): StepReport {
    const report = this.optimizer.step(denominator, learningRate, this.#shards?.released ?? null);
    this.restore();
    return report;
  }

  /** Has rank 0 write a checkpoint, to which the others send their state: `write` reads all of it once, in order. Collective. */
  save(write: () => void): void {
    this.workers.onRankZero(write, () => this.optimizer.sendState());
  }
}
