/**
 * AdamW over a flat parameter buffer [T], sharded over ranks: each rank reduces, clips and updates its own
 * range in chunks, so that nothing but the buffers (gradient, two moments, master copy) grows with T. Sums
 * are taken in rank order. Ranks that share no memory hold moments and master copy of their own range alone (ZeRO 1), gather its
 * gradients, and send its parameters to the others.
 * bfloat16 parameters are the rounding of a float32 master copy, which is updated: without one, updates below
 * half a unit in the last place (0.2 % of a weight) would be lost.
 */
import type { Engine, Tensor } from '../engine/engine.ts';
import { EngineError } from '../ground/errors.ts';
import { shardOf, type WorkerGroup } from './worker-group.ts';

/** Options of AdamW; keys of both training stages of a recipe. */
export interface OptimizerOptions {
  /** Decay rates of the first and second moment, each in [0, 1). */
  readonly betas: readonly [number, number];
  /** Decoupled weight decay, on matrices only. */
  readonly weightDecay: number;
  /** Largest global gradient norm; 0: gradients are not clipped. */
  readonly clip: number;
}

/** Added to the root of the second moment. */
const EPSILON = 1e-8;

export interface StepReport {
  /** Global gradient norm before clipping; not finite when the step was skipped. */
  readonly gradNorm: number;
  readonly skipped: boolean;
}

/** Optimiser state per parameter, each [T] float32; a master copy only for bfloat16 parameters. */
export type Buffers = Readonly<Record<string, Tensor>>;

/** Elements whose squares are summed at once in such a chunk. */
const ROW = 1 << 12;

/** A range of the flat buffer that is one parameter. */
export interface Range {
  readonly offset: number;
  readonly size: number;
  /** True if weight decay applies. */
  readonly decay: boolean;
}

/** Elements that one update handles at once: 128 MiB in float32. */
export const CHUNK = 1 << 25;
/** Parameters from this size on have chunks of their own, in which one number is the decay. */
export const LARGE = 1 << 20;

/** Elements start … end of the buffer, which belong to `ranges`. */
export interface Span {
  readonly start: number;
  readonly end: number;
  readonly ranges: readonly Range[];
}

/** The part of `ranges` inside [start, end), cut into chunks: runs of small ranges together, large ones alone. */
export function chunksOf(
  ranges: readonly Range[],
  start: number,
  end: number,
  largest: number = CHUNK,
  large: number = LARGE,
): Span[] {
  const out: { start: number; end: number; ranges: Range[]; alone: boolean }[] = [];
  for (const range of ranges) {
    const alone = range.size >= Math.min(large, largest);
    const last = Math.min(end, range.offset + range.size);
    for (let at = Math.max(start, range.offset); at < last; at += largest) {
      const stop = Math.min(last, at + largest);
      const before = out.at(-1);
      if (before !== undefined && !alone && !before.alone && stop - before.start <= largest) {
        before.end = stop;
        before.ranges.push(range);
      } else {
        out.push({ start: at, end: stop, ranges: [range], alone });
      }
    }
  }
  return out;
}

interface Chunk {
  readonly start: number;
  readonly length: number;
  readonly decay: Tensor | number;
}

export class ShardedAdamW {
  readonly #engine: Engine;
  readonly #workers: WorkerGroup;
  readonly #options: OptimizerOptions;
  readonly #ranges: readonly Range[];
  readonly #chunk: number;
  readonly #chunks: readonly Chunk[]; // of this rank's range
  readonly #parameters: Tensor; // [T], shared by all ranks where they share memory
  readonly #gradients: Tensor[]; // R × [T]; each rank's own, and after the reduction its range of rank 0's; alone where nothing is shared
  readonly #own: Tensor; // [T], this rank's gradient
  readonly #first: Tensor; // [H], shared: H = T, or the own range where nothing is shared
  readonly #second: Tensor; // [H]
  readonly #master: Tensor | null; // [H]
  /** Place of the first element of these in the flat buffer. */
  readonly #base: number;
  /** State of all ranks on one, [T] each, while a checkpoint is written or read. */
  #whole: Buffers | null = null;
  /** 1 where `#own` holds this step's gradient of a parameter; 0 where its content is stale. */
  readonly #filled: Uint8Array;
  #step = 0;

  /**
   * `parameters` [T], float32 or bfloat16, share storage on every rank; `ranges` cover them in order.
   * `chunk`: maximum elements per operation. Collective.
   */
  constructor(
    engine: Engine,
    workers: WorkerGroup,
    parameters: Tensor,
    ranges: readonly Range[],
    options: OptimizerOptions,
    chunk: number = CHUNK,
  ) {
    const size = parameters.shape[0]!;
    let covered = 0;
    for (const range of ranges) covered = range.offset === covered ? covered + range.size : Number.NaN;
    if (covered !== size) {
      throw new EngineError(`optimizer: the ranges do not cover ${size} parameters in order, without gaps`);
    }
    this.#engine = engine;
    this.#workers = workers;
    this.#options = options;
    this.#parameters = parameters;
    this.#ranges = ranges;
    this.#chunk = chunk;
    this.#filled = new Uint8Array(ranges.length);
    this.#own = engine.zeros([size]);
    this.#gradients = this.#everyGradient();
    const shared = (make: () => Tensor): Tensor =>
      workers.share(
        engine,
        () => ({ flat: make() }),
        (ticket) => ({ flat: engine.attach(ticket) }),
      ).flat;
    const [start, end] = workers.shard(size);
    this.#base = workers.sharesMemory ? 0 : start;
    const held = workers.sharesMemory ? size : end - start;
    this.#first = shared(() => engine.zeros([held]));
    this.#second = shared(() => engine.zeros([held]));
    const exact = (): Tensor =>
      engine.scope(() => engine.cast(engine.narrow(parameters, 0, this.#base, held), 'float32'));
    this.#master = parameters.dtype === 'bfloat16' ? shared(exact) : null;
    this.#chunks = chunksOf(ranges, start, end, chunk).map((span) => ({
      start: span.start,
      length: span.end - span.start,
      decay: this.#decayOf(span),
    }));
  }

  /** Attaches to the gradients of all ranks; where nothing is shared, to the own one. Collective. */
  #everyGradient(): Tensor[] {
    const engine = this.#engine;
    if (!this.#workers.sharesMemory) return [this.#own];
    const ticket = engine.share(this.#own);
    const gradients = this.#workers.allGather([ticket]).map(([of]) => engine.attach(of!));
    this.#workers.barrier(); // every rank holds the storage
    engine.unshare(ticket);
    return gradients;
  }

  /**
   * Has every rank's range exchanged in pieces of at most one chunk: `begin` starts one, and what it returns ends it. Pieces of all ranks are
   * under way at the same time. Collective.
   */
  #exchange(begin: (owner: number, start: number, length: number) => () => void): void {
    const { size } = this.#workers;
    const total = this.#parameters.shape[0]!;
    for (let at = 0; at < Math.ceil(total / size); at += this.#chunk) {
      this.#engine.scope(() => {
        const endings: (() => void)[] = [];
        for (let owner = 0; owner < size; owner++) {
          const [from, to] = shardOf(total, owner, size);
          const length = Math.min(this.#chunk, to - from - at);
          if (length > 0) endings.push(begin(owner, from + at, length));
        }
        for (const end of endings) end();
      });
    }
  }

  /** Sends every rank the others' gradients of its range, and adds them in rank order. Collective. */
  #exchangeGradients(): void {
    const engine = this.#engine;
    const { rank, size } = this.#workers;
    this.#exchange((owner, start, length) => {
      const own = engine.narrow(this.#own, 0, start, length);
      const parts = owner === rank ? Array.from({ length: size }, () => engine.zeros([length])) : []; // [R][n]
      const arrived = this.#workers.gatherTensor(own, parts, owner);
      return () => {
        arrived();
        parts.forEach((part, r) => {
          if (r === 0) engine.write(this.#own, 0, start, part);
          else engine.addInto(this.#own, 0, start, part);
        });
      };
    });
  }

  /** Sends every rank the updated parameters of the others. Collective. */
  #exchangeParameters(): void {
    this.#exchange((owner, start, length) =>
      this.#workers.broadcastTensor(this.#engine.narrow(this.#parameters, 0, start, length), owner),
    );
  }

  /** Returns one factor if it is the same for the whole chunk, else one per element. */
  #decayOf(chunk: Span): Tensor | number {
    const { weightDecay } = this.#options;
    const decays = (range: Range): boolean => range.decay && weightDecay > 0;
    const [lead] = chunk.ranges;
    if (chunk.ranges.every((range) => decays(range) === decays(lead!)))
      return decays(lead!) ? weightDecay : 0;
    const factors = new Float32Array(chunk.end - chunk.start);
    for (const range of chunk.ranges.filter(decays)) {
      const from = Math.max(chunk.start, range.offset) - chunk.start;
      factors.fill(weightDecay, from, Math.min(chunk.end, range.offset + range.size) - chunk.start);
    }
    return this.#engine.tensor(factors, [factors.length]);
  }

  /** Updates made so far. */
  get steps(): number {
    return this.#step;
  }

  /** Adds this rank's gradient of parameter `index`, of any float dtype and its shape, to its buffer. */
  accumulate(index: number, gradient: Tensor): void {
    const engine = this.#engine;
    const { offset } = this.#ranges[index]!;
    engine.noGrad(() =>
      engine.scope(() => {
        const flat = engine.reshape(gradient, [-1]);
        if (this.#filled[index] === 1) engine.addInto(this.#own, 0, offset, flat);
        else engine.write(this.#own, 0, offset, flat);
      }),
    );
    this.#filled[index] = 1;
  }

  /** Drops what was accumulated since the last update. */
  zeroGrad(): void {
    this.#filled.fill(0);
  }

  /**
   * Sums gradients over ranks, divides by `count`, clips to the global norm and updates every shard. A
   * non-finite gradient skips the update on every rank. Collective.
   */
  step(count: number, learningRate: number): StepReport {
    const { clip } = this.#options;
    this.#clearUnfilled();
    const { sharesMemory } = this.#workers;
    if (sharesMemory)
      this.#workers.barrier(); // every rank's gradient is complete
    else this.#exchangeGradients();
    const [sum] = this.#workers.allReduce([this.#reduce()]);
    const gradNorm = Math.sqrt(sum!) / count;
    const skipped = !Number.isFinite(gradNorm);
    if (!skipped) {
      const scale = (clip > 0 ? Math.min(1, clip / (gradNorm + 1e-6)) : 1) / count;
      this.#step++;
      for (const chunk of this.#chunks) this.#update(chunk, scale, learningRate);
      if (!sharesMemory) this.#exchangeParameters();
    }
    if (sharesMemory) this.#workers.barrier(); // all shards are updated, all gradients read
    this.zeroGrad();
    return { gradNorm, skipped };
  }

  /** Zeros where no gradient arrived in this step. */
  #clearUnfilled(): void {
    const engine = this.#engine;
    this.#ranges.forEach(({ offset, size }, index) => {
      if (this.#filled[index] === 1) return;
      for (let at = 0; at < size; at += this.#chunk) {
        engine.scope(() =>
          engine.write(this.#own, 0, offset + at, engine.zeros([Math.min(this.#chunk, size - at)])),
        );
      }
    });
  }

  /** Sums the ranks' gradients of the own range, in rank order, into rank 0's buffer; returns the sum's squared norm. */
  #reduce(): number {
    const engine = this.#engine;
    const [total, ...others] = this.#gradients as [Tensor, ...Tensor[]];
    return engine.scope(() => {
      const norms = this.#chunks.flatMap(({ start, length }) => {
        for (const part of others) engine.addInto(total, 0, start, engine.narrow(part, 0, start, length));
        return this.#norms(engine.narrow(total, 0, start, length));
      });
      if (norms.length === 0) return 0;
      return engine.floats(engine.concat(norms, 0)).reduce((sum, norm) => sum + norm ** 2, 0);
    });
  }

  /** Norms whose squares add up to that of [n], each [1]. A long float32 sum loses digits: it is taken row by row. */
  #norms(values: Tensor): Tensor[] {
    const engine = this.#engine;
    const [length] = values.shape as [number];
    const norm = (part: Tensor): Tensor => engine.reshape(engine.norm(part), [-1]);
    if (length < LARGE) return [norm(values)];
    const whole = length - (length % ROW);
    const rows = norm(engine.reshape(engine.narrow(values, 0, 0, whole), [-1, ROW])); // [whole / ROW]
    return [norm(rows), norm(engine.narrow(values, 0, whole, length - whole))];
  }

  #update({ start, length, decay }: Chunk, scale: number, learningRate: number): void {
    const engine = this.#engine;
    const { betas } = this.#options;
    engine.noGrad(() =>
      engine.scope(() => {
        const part = (flat: Tensor): Tensor => engine.narrow(flat, 0, start, length);
        const held = (flat: Tensor): Tensor => engine.narrow(flat, 0, start - this.#base, length);
        const exact = this.#master === null ? part(this.#parameters) : held(this.#master);
        engine.adamW(
          {
            parameters: exact,
            gradients: part(this.#gradients[0]!),
            firstMoment: held(this.#first),
            secondMoment: held(this.#second),
            decay,
          },
          { learningRate, beta1: betas[0], beta2: betas[1], epsilon: EPSILON, step: this.#step, scale },
        );
        if (this.#master !== null) engine.write(this.#parameters, 0, start, exact); // rounds to nearest
      }),
    );
  }

  /** State for a checkpoint, of all ranks: [T] each. Rank 0 reads and writes it between `gatherState` and `restore` or `dropState`. */
  get buffers(): Buffers {
    return this.#whole ?? this.#held;
  }

  get #held(): Buffers {
    return {
      first_moment: this.#first,
      second_moment: this.#second,
      ...(this.#master === null ? {} : { master: this.#master }),
    };
  }

  /** Gives rank 0 the state of all ranks, where nothing is shared. Collective. */
  gatherState(): void {
    const engine = this.#engine;
    const { rank, size, sharesMemory } = this.#workers;
    if (sharesMemory) return;
    const total = this.#parameters.shape[0]!;
    const longest = Math.ceil(total / size);
    if (rank === 0) this.emptyState();
    for (const [name, held] of Object.entries(this.#held)) {
      for (let at = 0; at < longest; at += this.#chunk) {
        engine.scope(() => {
          const length = Math.min(this.#chunk, longest - at);
          const piece = engine.zeros([length]); // ranges differ by one element: padded
          const own = Math.max(0, Math.min(length, held.shape[0]! - at));
          if (own > 0) engine.write(piece, 0, 0, engine.narrow(held, 0, at, own));
          const parts = rank === 0 ? Array.from({ length: size }, () => engine.zeros([length])) : []; // [R][n]
          this.#workers.gatherTensor(piece, parts, 0)();
          parts.forEach((part, r) => {
            const [start, end] = shardOf(total, r, size);
            const filled = Math.min(length, end - start - at);
            if (filled > 0)
              engine.write(this.buffers[name]!, 0, start + at, engine.narrow(part, 0, 0, filled));
          });
        });
      }
    }
  }

  /** Makes room for the state of all ranks on this one, where nothing is shared. */
  emptyState(): void {
    if (this.#workers.sharesMemory) return;
    this.dropState();
    const names = Object.keys(this.#held);
    const make = (): Tensor => this.#engine.zeros([this.#parameters.shape[0]!]);
    this.#whole = Object.fromEntries(names.map((name) => [name, make()]));
  }

  /** Frees what `gatherState` and `emptyState` made. */
  dropState(): void {
    if (this.#whole !== null) this.#engine.dispose(...Object.values(this.#whole));
    this.#whole = null;
  }

  /** Continues after `steps` updates, the buffers filled by rank 0, or by each rank where nothing is shared. Collective. */
  restore(steps: number): void {
    const engine = this.#engine;
    this.#step = steps;
    for (const [name, whole] of Object.entries(this.#whole ?? {})) {
      const held = this.#held[name]!;
      engine.scope(() => engine.write(held, 0, 0, engine.narrow(whole, 0, this.#base, held.shape[0]!)));
    }
    this.dropState();
    this.#workers.barrier();
  }

  /** Frees the buffers. */
  dispose(): void {
    const decays = this.#chunks.flatMap(({ decay }) => (typeof decay === 'number' ? [] : [decay]));
    this.dropState();
    this.#engine.dispose(
      ...new Set([this.#own, ...this.#gradients]),
      ...Object.values(this.#held),
      ...decays,
    );
  }
}

export interface LearningRateOptions {
  /** Peak learning rate. */
  readonly learningRate: number;
  /** Steps of linear warm-up. */
  readonly warmup: number;
  /** End of the cosine, as a share of the peak. */
  readonly minLearningRate: number;
}

/** Learning rate at update `step` (from 0) of `total`: linear warm-up, then cosine from the peak to its floor. */
export function cosineSchedule(step: number, total: number, options: LearningRateOptions): number {
  const { learningRate: peak, warmup, minLearningRate: floor } = options;
  if (step < warmup) return (peak * (step + 1)) / warmup;
  const progress = Math.min(1, (step - warmup) / Math.max(1, total - warmup));
  return peak * (floor + (1 - floor) * 0.5 * (1 + Math.cos(Math.PI * progress)));
}
