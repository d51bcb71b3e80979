/**
 * AdamW over the flat parameter buffer, sharded over ranks: each rank reduces, clips and updates its own range of
 * [P], so the optimiser's work is split and every sum is taken in rank order.
 */
import type { Engine, Tensor } from '../engine/engine.ts';
import { EngineError } from '../errors.ts';
import type { Ranks } from './ranks.ts';

export interface OptimizerOptions {
  readonly betas: readonly [number, number];
  readonly epsilon: number;
  readonly weightDecay: number;
  /** Largest global gradient norm; 0 leaves gradients as they are. */
  readonly clip: number;
}

export interface StepReport {
  /** Global gradient norm before clipping; not finite when the step was skipped. */
  readonly gradNorm: number;
  readonly skipped: boolean;
}

export class ShardedAdamW {
  readonly #engine: Engine;
  readonly #ranks: Ranks;
  readonly #options: OptimizerOptions;
  readonly #start: number;
  readonly #length: number;
  readonly #parameters: Tensor; // [P], shared by all ranks
  readonly #own: Tensor; // [P], this rank's gradient
  readonly #gradients: Tensor[]; // R × [P]
  readonly #first: Tensor; // [P], shared
  readonly #second: Tensor; // [P], shared
  readonly #decay: Tensor; // [P / R]
  readonly #tickets: number[] = [];
  #step = 0;
  /** Whether the own buffer holds gradients of this step; what it holds otherwise is stale. */
  #filled = false;

  /**
   * `parameters` [P] must be the same storage on every rank. Collective: all ranks construct it together.
   * `decayMask` [P] is 1 where weight decay applies.
   */
  constructor(
    engine: Engine,
    ranks: Ranks,
    parameters: Tensor,
    decayMask: Float32Array,
    options: OptimizerOptions,
  ) {
    const size = parameters.shape[0]!;
    if (decayMask.length !== size) {
      throw new EngineError(`optimizer: ${size} parameters but a decay mask of ${decayMask.length}`);
    }
    this.#engine = engine;
    this.#ranks = ranks;
    this.#options = options;
    this.#parameters = parameters;
    const [start, end] = ranks.share(size);
    this.#start = start;
    this.#length = end - start;
    this.#own = engine.zeros([size]);
    const mine = this.#publish(this.#own);
    this.#gradients = ranks.gather([mine]).map(([ticket]) => engine.attach(ticket!));
    const leads =
      ranks.rank === 0 ? [this.#publish(engine.zeros([size])), this.#publish(engine.zeros([size]))] : [0, 0];
    const [first, second] = ranks.broadcast(leads);
    this.#first = engine.attach(first!);
    this.#second = engine.attach(second!);
    const decay = decayMask.slice(start, end).map((value) => value * options.weightDecay);
    this.#decay = engine.tensor(decay, [this.#length]);
    ranks.barrier();
    for (const ticket of this.#tickets) engine.unshare(ticket);
  }

  #publish(tensor: Tensor): number {
    const ticket = this.#engine.share(tensor);
    this.#tickets.push(ticket);
    return ticket;
  }

  /** Updates made so far. */
  get steps(): number {
    return this.#step;
  }

  /** Adds this rank's gradients, one per parameter in flat order, to its buffer. */
  accumulate(gradients: readonly Tensor[]): void {
    const engine = this.#engine;
    engine.noGrad(() =>
      engine.scope(() => {
        const flat = engine.concat(
          gradients.map((gradient) => engine.reshape(gradient, [-1])),
          0,
        ); // [P]
        engine.write(this.#own, 0, 0, this.#filled ? engine.add(this.#own, flat) : flat);
      }),
    );
    this.#filled = true;
  }

  /**
   * Σ over ranks / `count`, clipped to the global norm, then one update of every shard. A gradient that is not
   * finite skips the update on every rank. Collective.
   */
  step(count: number, learningRate: number): StepReport {
    const engine = this.#engine;
    const { betas, epsilon, clip } = this.#options;
    if (!this.#filled) engine.scope(() => engine.write(this.#own, 0, 0, engine.zeros([this.#own.shape[0]!])));
    this.#ranks.barrier(); // every rank's gradient is complete
    const report = engine.noGrad(() =>
      engine.scope(() => {
        let total = this.#shard(this.#gradients[0]!);
        for (const other of this.#gradients.slice(1)) total = engine.add(total, this.#shard(other));
        const squared = this.#length === 0 ? 0 : engine.item(engine.norm(total)) ** 2;
        const [sum] = this.#ranks.sum([squared]);
        const gradNorm = Math.sqrt(sum!) / count;
        if (!Number.isFinite(gradNorm)) return { gradNorm, skipped: true };
        const scale = (clip > 0 ? Math.min(1, clip / (gradNorm + 1e-6)) : 1) / count;
        this.#step++;
        engine.adamW(
          {
            parameters: this.#shard(this.#parameters),
            gradients: engine.mul(total, scale),
            firstMoment: this.#shard(this.#first),
            secondMoment: this.#shard(this.#second),
            decay: this.#decay,
          },
          { learningRate, beta1: betas[0], beta2: betas[1], epsilon, step: this.#step },
        );
        return { gradNorm, skipped: false };
      }),
    );
    this.#ranks.barrier(); // all shards are updated, all gradients read
    this.#filled = false;
    return report;
  }

  #shard(flat: Tensor): Tensor {
    return this.#engine.narrow(flat, 0, this.#start, this.#length); // [P / R]
  }

  /** Moments of all ranks, for a checkpoint: call between barriers. */
  state(): { readonly step: number; readonly first: Float32Array; readonly second: Float32Array } {
    return {
      step: this.#step,
      first: this.#engine.floats(this.#first),
      second: this.#engine.floats(this.#second),
    };
  }

  /** Continues from a checkpoint. Collective. */
  restore(state: {
    readonly step: number;
    readonly first: Float32Array;
    readonly second: Float32Array;
  }): void {
    const size = this.#own.shape[0]!;
    this.#step = state.step;
    if (this.#ranks.rank === 0) {
      this.#engine.scope(() => {
        this.#engine.write(this.#first, 0, 0, this.#engine.tensor(state.first, [size]));
        this.#engine.write(this.#second, 0, 0, this.#engine.tensor(state.second, [size]));
      });
    }
    this.#ranks.barrier();
  }
}

/** Learning rate at update `step` (from 0) of `total`: linear warm-up, then cosine from 1 to `floor` times the peak. */
export function cosineSchedule(
  step: number,
  options: { readonly peak: number; readonly warmup: number; readonly total: number; readonly floor: number },
): number {
  const { peak, warmup, total, floor } = options;
  if (step < warmup) return (peak * (step + 1)) / warmup;
  const progress = Math.min(1, (step - warmup) / Math.max(1, total - warmup));
  return peak * (floor + (1 - floor) * 0.5 * (1 + Math.cos(Math.PI * progress)));
}
