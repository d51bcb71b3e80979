/**
 * AdamW, and for matrices that a range names Muon, over a flat parameter buffer [T], sharded over ranks: each rank reduces, clips and updates its
 * own slices in chunks, or matrix by matrix, so that nothing but the buffers (gradient, two moments, master copy) grows with T. Sums
 * are taken in rank order. Ranks that share no memory hold moments and master copy of their own slices alone (ZeRO 1; the gradients' sum too:
 * ZeRO 2; the parameters too: ZeRO 3), gather their gradients (`GradientExchange`), and send their parameters to the others.
 * bfloat16 parameters are the rounding of a float32 master copy, which is updated: without one, updates below
 * half a unit in the last place (0.2 % of a weight) would be lost.
 */
import type { Engine, Tensor } from '../engine/engine.ts';
import { EngineError } from '../ground/errors.ts';
import { getOrMake } from '../ground/maps.ts';
import { tensorBytes } from '../policy/weights.ts';
import {
  type ExchangeOptions,
  GradientExchange,
  type Range,
  type Slice,
  slicesOf,
} from './gradient-exchange.ts';
import { MOMENTUM, type OPTIMIZERS, orthogonalised, rateOf } from './muon.ts';
import type { WorkerGroup } from './worker-group.ts';

export type { Range } from './gradient-exchange.ts';

/** Options of the optimiser; keys of both training stages of a recipe. */
export interface OptimizerOptions {
  /** Decides whether the learner's ranges name matrices, which Muon updates. Default: adamw. */
  readonly optimizer?: keyof typeof OPTIMIZERS;
  /** AdamW: decay rates of the first and second moment, each in [0, 1). */
  readonly betas: readonly [number, number];
  /** Decoupled weight decay, on matrices only. */
  readonly weightDecay: number;
  /** Largest global gradient norm; 0: gradients are not clipped. */
  readonly clip: number;
}

/** Added to the root of the second moment. */
const EPSILON = 1e-8;

/** Weights of ZeRO 3 while gradients are computed: the own slices [H], or null where the master copy stands for them. */
export interface OwnShares {
  readonly own: Tensor | null;
}

export interface StepReport {
  /** Global gradient norm before clipping; not finite when the step was skipped. */
  readonly gradNorm: number;
  readonly skipped: boolean;
}

/** Optimiser state per parameter, each [T] float32; a master copy only for bfloat16 parameters. */
export type Buffers = Readonly<Record<string, Tensor>>;

/** Elements whose squares are summed at once in such a chunk. */
const ROW = 1 << 12;

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
      const joins = before?.end === at && !alone && !before.alone;
      if (joins && stop - before.start <= largest) {
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
  readonly slice: Slice;
  readonly start: number;
  readonly length: number;
  /** First element in the held state. */
  readonly at: number;
}

/** Elements that AdamW updates at once. */
interface Update extends Chunk {
  readonly decay: Tensor | number;
}

/** Matrices of one shape that Muon updates at once. */
interface Batch {
  readonly rows: number;
  readonly columns: number;
  readonly decay: number;
  readonly chunks: readonly Chunk[];
}

export interface ShardOptions extends ExchangeOptions {
  /** Maximum elements per operation. Default: `CHUNK`. */
  readonly chunk?: number;
}

export class ShardedOptimizer {
  /** Gradients of this rank, which are added to it. */
  readonly gradients: GradientExchange;
  readonly #engine: Engine;
  readonly #workers: WorkerGroup;
  readonly #options: OptimizerOptions;
  readonly #chunk: number;
  /** Slices by rank, then by bucket. */
  readonly #slices: readonly (readonly Slice[])[];
  readonly #chunks: readonly Chunk[]; // of this rank's slices
  /** Elements of them that AdamW updates. */
  readonly #updates: readonly Update[];
  /** Matrices of them that Muon updates. */
  readonly #batches: readonly Batch[];
  readonly #parameters: Tensor; // [T], shared by all ranks where they share memory
  /** Gradients of all ranks, R × [T], where they share memory: rank 0's becomes the sum. */
  readonly #shared: readonly Tensor[] | null;
  readonly #first: Tensor; // [H], shared: H = T, or the own slices where nothing is shared
  readonly #second: Tensor; // [H]
  readonly #master: Tensor | null; // [H]
  /** State of all ranks of one bucket [n], on rank 0 while a checkpoint is written. */
  #gathered: Tensor | null = null;
  #step = 0;

  /**
   * `parameters` [T], float32 or bfloat16, share storage on every rank that shares memory; `ranges` cover them in order. Collective.
   */
  constructor(
    engine: Engine,
    workers: WorkerGroup,
    parameters: Tensor,
    ranges: readonly Range[],
    options: OptimizerOptions,
    { chunk = CHUNK, ...exchange }: ShardOptions = {},
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
    this.#chunk = chunk;
    this.gradients = new GradientExchange(engine, workers, ranges, exchange);
    this.#slices = Array.from({ length: workers.size }, (_, rank) =>
      slicesOf(this.gradients.buckets, rank, workers.size, workers.sharesMemory),
    );
    this.#shared = workers.sharesMemory ? this.#everyGradient(this.gradients.own!) : null;
    const shared = (make: () => Tensor): Tensor =>
      workers.share(
        engine,
        () => ({ flat: make() }),
        (ticket) => ({ flat: engine.attach(ticket) }),
      ).flat;
    const { slices } = this.gradients;
    const held = workers.sharesMemory ? size : this.gradients.held;
    this.#first = shared(() => engine.zeros([held]));
    this.#second = shared(() => engine.zeros([held]));
    const exact = (): Tensor => {
      const master = engine.zeros([held]);
      const pieces = workers.sharesMemory ? [{ start: 0, end: size, at: 0 }] : slices;
      for (const { start, end, at } of pieces)
        engine.scope(() => engine.write(master, 0, at, engine.narrow(parameters, 0, start, end - start)));
      return master;
    };
    this.#master = parameters.dtype === 'bfloat16' ? shared(exact) : null;
    const ascending = [...slices].sort((a, b) => a.start - b.start);
    const chunkOf = (slice: Slice, start: number, length: number): Chunk => {
      return { slice, start, length, at: slice.at + start - slice.start };
    };
    const pieces = (of: readonly Range[]) =>
      ascending.flatMap((slice) =>
        chunksOf(of, slice.start, slice.end, chunk).map((span) => ({
          ...chunkOf(slice, span.start, span.end - span.start),
          span,
        })),
      );
    this.#chunks = pieces(ranges);
    const rest = ranges.filter(({ matrices }) => matrices === undefined);
    this.#updates = pieces(rest).map(({ span, ...piece }) => ({ ...piece, decay: this.#decayOf(span) }));
    const batches = new Map<string, Batch & { readonly chunks: Chunk[] }>();
    for (const slice of ascending) {
      for (const { matrices = [], decay: decays } of ranges) {
        const decay = decays ? options.weightDecay : 0;
        for (const { offset, rows, columns } of matrices) {
          if (offset < slice.start || offset >= slice.end) continue;
          const key = `${rows} ${columns} ${decay}`;
          const batch = getOrMake(batches, key, () => ({ rows, columns, decay, chunks: [] }));
          batch.chunks.push(chunkOf(slice, offset, rows * columns));
        }
      }
    }
    this.#batches = [...batches.values()].flatMap((batch) => {
      const most = Math.max(1, Math.floor(LARGE / (batch.rows * batch.columns)));
      return Array.from({ length: Math.ceil(batch.chunks.length / most) }, (_, i) => {
        return { ...batch, chunks: batch.chunks.slice(i * most, (i + 1) * most) };
      });
    });
  }

  /** Attaches to the gradients of all ranks. Collective. */
  #everyGradient(own: Tensor): Tensor[] {
    const engine = this.#engine;
    const ticket = engine.share(own);
    const gradients = this.#workers.allGather([ticket]).map(([of]) => engine.attach(of!));
    this.#workers.barrier(); // every rank holds the storage
    engine.unshare(ticket);
    return gradients;
  }

  /** Slices of a bucket in pieces: rows of at most one chunk together, with a piece of each rank. `at`: among the rank's `buffers`. */
  *#rows(
    bucket: number,
  ): Generator<readonly { readonly start: number; readonly at: number; readonly length: number }[]> {
    const slices = this.#slices.map((of) => of[bucket]!);
    const most = Math.ceil(this.#chunk / slices.length);
    const longest = Math.max(...slices.map(({ start, end }) => end - start));
    for (let from = 0; from < longest; from += most) {
      yield slices.map(({ start, end, at }) => ({
        start: start + from,
        at: at + from,
        length: Math.max(0, Math.min(most, end - start - from)),
      }));
    }
  }

  /** Sends every rank the updated parameters of the others. Collective. */
  #exchangeParameters(): void {
    const engine = this.#engine;
    for (const bucket of this.gradients.buckets.keys()) {
      for (const row of this.#rows(bucket)) {
        engine.scope(() => {
          const endings = row.map(({ start, length }, owner) =>
            length === 0
              ? null
              : this.#workers.broadcastTensor(engine.narrow(this.#parameters, 0, start, length), owner),
          );
          for (const end of endings) end?.();
        });
      }
    }
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

  /**
   * Sums gradients over ranks, divides by `count`, clips to the global norm and updates every shard. A
   * non-finite gradient skips the update on every rank. `released`, for ZeRO 3: the buffer of all
   * parameters is not there, and the own slices are updated instead. Collective.
   */
  step(count: number, learningRate: number, released: OwnShares | null = null): StepReport {
    const { clip } = this.#options;
    this.gradients.finish();
    const { sharesMemory } = this.#workers;
    const [sum] = this.#workers.allReduce([this.#reduce()]);
    const gradNorm = Math.sqrt(sum!) / count;
    const skipped = !Number.isFinite(gradNorm);
    if (!skipped) {
      const scale = (clip > 0 ? Math.min(1, clip / (gradNorm + 1e-6)) : 1) / count;
      this.#step++;
      for (const chunk of this.#updates) this.#update(chunk, scale, learningRate, released);
      for (const batch of this.#batches) this.#updateMatrices(batch, scale, learningRate, released);
      if (!sharesMemory && released === null) this.#exchangeParameters();
    }
    if (sharesMemory) this.#workers.barrier(); // all shards are updated, all gradients read
    this.gradients.drop();
    return { gradNorm, skipped };
  }

  /** Returns the squared norm of the sum over ranks of the own slices; where memory is shared adds it up in rank order, in rank 0's buffer. */
  #reduce(): number {
    const engine = this.#engine;
    return engine.scope(() => {
      const norms = this.#chunks.flatMap((chunk) => {
        const { start, length } = chunk;
        const [total, ...others] = this.#shared ?? [];
        for (const part of others) engine.addInto(total!, 0, start, engine.narrow(part, 0, start, length));
        return this.#norms(this.#summed(chunk));
      });
      if (norms.length === 0) return 0;
      return engine.floats(engine.concat(norms, 0)).reduce((sum, norm) => sum + norm ** 2, 0);
    });
  }

  /** Gradient of a chunk after the sum over ranks, a view [n]. */
  #summed({ slice, start, length }: Chunk): Tensor {
    return this.#shared === null
      ? this.gradients.summed(slice, start, length)
      : this.#engine.narrow(this.#shared[0]!, 0, start, length);
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

  /** Own weights of a chunk in the precision in which they are updated: master copy, share of ZeRO 3, or parameters [n]. */
  #exact({ start, length, at }: Chunk, released: OwnShares | null): Tensor {
    const slices = this.#master ?? released?.own ?? null;
    return slices === null
      ? this.#engine.narrow(this.#parameters, 0, start, length)
      : this.#engine.narrow(slices, 0, at, length);
  }

  #updateMatrices(
    { rows, columns, decay, chunks }: Batch,
    scale: number,
    learningRate: number,
    released: OwnShares | null,
  ): void {
    const engine = this.#engine;
    const size = rows * columns;
    engine.noGrad(() =>
      engine.scope(() => {
        const ahead = chunks.map((chunk) => {
          const gradient = engine.mul(this.#summed(chunk), scale * (1 - MOMENTUM)); // [n]
          const momentum = engine.narrow(this.#first, 0, chunk.at, size);
          engine.write(momentum, 0, 0, engine.add(engine.mul(momentum, MOMENTUM), gradient));
          return engine.reshape(engine.add(engine.mul(momentum, MOMENTUM), gradient), [1, rows, columns]); // Nesterov
        });
        const updates = engine.cast(engine.concat(ahead, 0), this.#parameters.dtype); // [K, R, C]
        const direction = engine.cast(orthogonalised(engine, updates), 'float32'); // [K, R, C]
        const step = engine.mul(direction, -learningRate * rateOf({ rows, columns })); // [K, R, C]
        chunks.forEach((chunk, k) => {
          const exact = this.#exact(chunk, released);
          const change = engine.reshape(engine.narrow(step, 0, k, 1), [size]); // [n]
          engine.write(exact, 0, 0, engine.add(engine.mul(exact, 1 - learningRate * decay), change));
          if (this.#master !== null && released === null)
            engine.write(this.#parameters, 0, chunk.start, exact);
        });
      }),
    );
  }

  #update(chunk: Update, scale: number, learningRate: number, released: OwnShares | null): void {
    const engine = this.#engine;
    const { betas } = this.#options;
    const { start, length, at, decay } = chunk;
    engine.noGrad(() =>
      engine.scope(() => {
        const held = (flat: Tensor): Tensor => engine.narrow(flat, 0, at, length);
        const exact = this.#exact(chunk, released);
        engine.adamW(
          {
            parameters: exact,
            gradients: this.#summed(chunk),
            firstMoment: held(this.#first),
            secondMoment: held(this.#second),
            decay,
          },
          { learningRate, beta1: betas[0], beta2: betas[1], epsilon: EPSILON, step: this.#step, scale },
        );
        if (this.#master !== null && released === null) engine.write(this.#parameters, 0, start, exact); // rounds to nearest
      }),
    );
  }

  /** State by name: of all ranks where they share memory, [T] each; else of the own slices, [H]. */
  get buffers(): Buffers {
    return {
      first_moment: this.#first,
      second_moment: this.#second,
      ...(this.#master === null ? {} : { master: this.#master }),
    };
  }

  /** Pieces of a parameter's state that are among `buffers`: elements of the flat buffer from `start` on, and their place there. */
  piecesOf({
    offset,
    size,
  }: Pick<Range, 'offset' | 'size'>): { start: number; at: number; length: number }[] {
    if (this.#workers.sharesMemory) return [{ start: offset, at: offset, length: size }];
    return this.gradients.slices.flatMap((slice) => {
      const start = Math.max(offset, slice.start);
      const length = Math.min(offset + size, slice.end) - start;
      return length > 0 ? [{ start, at: slice.at + start - slice.start, length }] : [];
    });
  }

  /**
   * Bytes of a parameter's state of all ranks, on rank 0. Where nothing is shared they are gathered: rank 0 reads all, in the order of `buffers`
   * and of the parameters, while the others run `sendState`.
   */
  *stateBytes(name: string, { offset, size }: Pick<Range, 'offset' | 'size'>): Generator<Uint8Array> {
    const whole = this.#workers.sharesMemory;
    const bucket = this.gradients.buckets.findIndex(({ start, end }) => start <= offset && offset < end);
    if (!whole && offset === this.gradients.buckets[bucket]!.start) this.#gatherState(name, bucket);
    const [state, at] = whole
      ? [this.buffers[name]!, offset]
      : [this.#gathered!, offset - this.gradients.buckets[bucket]!.start];
    yield* tensorBytes(this.#engine, state, at, size);
    if (!whole && offset + size === this.gradients.buckets[bucket]!.end) this.#dropGathered();
  }

  /** Sends rank 0 the own state, as it reads it by `stateBytes`. */
  sendState(): void {
    if (this.#workers.sharesMemory) return;
    const order = [...this.gradients.buckets.keys()].sort(
      (a, b) => this.gradients.buckets[a]!.start - this.gradients.buckets[b]!.start,
    );
    for (const name of Object.keys(this.buffers)) {
      for (const bucket of order) this.#gatherState(name, bucket);
    }
    this.#dropGathered();
  }

  /** Gives rank 0 the state of all ranks of a bucket. Collective. */
  #gatherState(name: string, bucket: number): void {
    const engine = this.#engine;
    const { rank, size } = this.#workers;
    const { start: first, end } = this.gradients.buckets[bucket]!;
    this.#dropGathered();
    if (rank === 0) this.#gathered = engine.unscoped(() => engine.zeros([end - first]));
    for (const row of this.#rows(bucket)) {
      engine.scope(() => {
        const longest = Math.max(...row.map(({ length }) => length));
        const piece = engine.zeros([longest]); // shorter slices are padded
        const own = row[rank]!;
        if (own.length > 0)
          engine.write(piece, 0, 0, engine.narrow(this.buffers[name]!, 0, own.at, own.length));
        const parts = rank === 0 ? Array.from({ length: size }, () => engine.zeros([longest])) : []; // [R][n]
        this.#workers.gatherTensor(piece, parts, 0)();
        parts.forEach((part, r) => {
          const { start, length } = row[r]!;
          if (length > 0) engine.write(this.#gathered!, 0, start - first, engine.narrow(part, 0, 0, length));
        });
      });
    }
  }

  #dropGathered(): void {
    if (this.#gathered !== null) this.#engine.dispose(this.#gathered);
    this.#gathered = null;
  }

  /** Continues after `steps` updates, the buffers filled by rank 0, or where nothing is shared by each rank. Collective. */
  restore(steps: number): void {
    this.#step = steps;
    this.#workers.barrier();
  }

  /** Frees the buffers. */
  dispose(): void {
    const decays = this.#updates.flatMap(({ decay }) => (typeof decay === 'number' ? [] : [decay]));
    this.#dropGathered();
    this.gradients.dispose();
    this.#engine.dispose(...(this.#shared ?? []), ...Object.values(this.buffers), ...decays);
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
