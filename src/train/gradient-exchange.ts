/**
 * Gradients of one rank and, where ranks share no memory, their exchange. The flat buffer [T] is cut into buckets of whole parameters, and every
 * bucket is divided over the ranks: evenly, so that all of them send and receive at the same time, but for matrices that Muon updates, which stay
 * whole. A rank receives its slice of a bucket from all ranks and adds these in rank order. Buckets are sent as soon as their gradients are final,
 * while the backward pass goes on (Li et al. 2020, "PyTorch Distributed", section 3.2), on every rank in the same order: the reverse of that in
 * the buffer, the vision tower last.
 *
 *   ZeRO 1: micro-batches are added up in a buffer [T]; buckets are sent in the last micro-batch.
 *   ZeRO 2: buckets are sent in every pass and freed; the sum of the own slices [H] stays (Rajbhandari et al. 2020). A micro-batch has two passes
 *   through the decoder in reinforcement: responses, then the prompts whose cache they read.
 *   ZeRO 3: as 2; parameter-shards.ts shares out the parameters too.
 */
import type { Engine, Tensor } from '../engine/engine.ts';
import { getOrMake } from '../ground/maps.ts';
import { shardOf, type WorkerGroup } from './worker-group.ts';

/** A range of the flat buffer that is one parameter. */
export interface Range {
  readonly offset: number;
  readonly size: number;
  /** True if weight decay applies. */
  readonly decay: boolean;
  /** True if its gradient comes after those of all others: parameters of the vision tower. */
  readonly late?: boolean;
  /** Matrices of which it consists, where each is updated as a whole: by Muon. */
  readonly matrices?: readonly Matrix[] | undefined;
}

/** Matrix in the flat buffer, row by row. */
export interface Matrix {
  readonly offset: number;
  readonly rows: number;
  readonly columns: number;
}

/** Elements start … end of the buffer, whole parameters. */
export interface Bucket {
  readonly start: number;
  readonly end: number;
  /** Parameters by their place among the ranges. */
  readonly indices: readonly number[];
  /** Matrices of its parameters. */
  readonly matrices: readonly Matrix[];
}

/** Elements start … end of the buffer that a rank updates; the first is element `at` of its state. */
export interface Slice {
  readonly start: number;
  readonly end: number;
  readonly at: number;
}

/** Elements from which a bucket is full: 32 MiB in float32. */
export const BUCKET = 1 << 23;
/** Rows of pieces under way, each of at most one bucket's elements over all ranks. */
const UNDER_WAY = 2;

/** Cuts the buffer into buckets of at least `full` elements, in the order in which they are sent; a smaller buffer is one bucket. */
export function bucketsOf(ranges: readonly Range[], full: number = BUCKET): Bucket[] {
  const total = ranges.reduce((sum, { size }) => sum + size, 0);
  const out: { start: number; end: number; indices: number[]; late: boolean }[] = [];
  for (let index = ranges.length - 1; index >= 0; index--) {
    const { offset, size, late = false } = ranges[index]!;
    const open = out.at(-1);
    if (open !== undefined && (total < full || (open.late === late && open.end - open.start < full))) {
      open.start = offset;
      open.indices.push(index);
    } else {
      out.push({ start: offset, end: offset + size, indices: [index], late });
    }
  }
  return [...out.filter(({ late }) => !late), ...out.filter(({ late }) => late)].map((bucket) => ({
    ...bucket,
    matrices: bucket.indices.flatMap((index) => ranges[index]!.matrices ?? []),
  }));
}

/** Elements from … to of the buffer. */
type Share = readonly [from: number, to: number];

/**
 * Divides every bucket among ranks, [rank][bucket]: evenly, but for ends inside a matrix, which move to its nearer end. Then shares are unlike,
 * and ranks with less so far get the larger ones.
 */
function sharesOf(buckets: readonly Bucket[], size: number): readonly (readonly Share[])[] {
  const shares = Array.from({ length: size }, (): Share[] => []);
  const held = shares.map(() => 0);
  for (const { start, end, matrices } of buckets) {
    const uncut = (at: number): number => {
      const cut = matrices.find(({ offset, rows, columns }) => offset < at && at < offset + rows * columns);
      if (cut === undefined) return at;
      const behind = cut.offset + cut.rows * cut.columns;
      return at - cut.offset < behind - at ? cut.offset : behind;
    };
    const pieces = shares.map((_, place): Share => {
      const [from, to] = shardOf(end - start, place, size);
      return [uncut(start + from), uncut(start + to)];
    });
    const ranks = [...held.keys()];
    if (matrices.length > 0) {
      pieces.sort((a, b) => b[1] - b[0] - (a[1] - a[0]));
      ranks.sort((a, b) => held[a]! - held[b]!);
    }
    for (const [place, rank] of ranks.entries()) {
      const [from, to] = pieces[place]!;
      shares[rank]!.push([from, to]);
      held[rank]! += to - from;
    }
  }
  return shares;
}

/** Slices of a rank, one of each bucket; `whole`: the rank holds the buffer of all ranks. */
export function slicesOf(buckets: readonly Bucket[], rank: number, size: number, whole: boolean): Slice[] {
  let held = 0;
  return sharesOf(buckets, size)[rank]!.map(([start, end]) => {
    const slice = { start, end, at: whole ? start : held };
    held += end - start;
    return slice;
  });
}

interface Piece {
  /** First element in the buffer. */
  readonly start: number;
  /** One of each rank, where the piece is this rank's. */
  readonly parts: readonly Tensor[];
  readonly arrived: () => void;
}

interface Sending {
  readonly bucket: number;
  readonly pieces: readonly Piece[];
  /** True where the bucket's sum of the step begins. */
  readonly first: boolean;
  /** Freed afterwards. */
  readonly spent: Tensor | null;
}

export interface ExchangeOptions {
  /** Stage of ZeRO. Default: 1. */
  readonly zero?: 1 | 2 | 3 | undefined;
  /** Elements from which a bucket is full. Default: `BUCKET`. */
  readonly bucket?: number | undefined;
}

export class GradientExchange {
  readonly buckets: readonly Bucket[];
  /** Slices of this rank, by bucket. */
  readonly slices: readonly Slice[];
  readonly #shares: readonly (readonly Share[])[];
  /** Elements of the slices: H. */
  readonly held: number;
  readonly #engine: Engine;
  readonly #workers: WorkerGroup;
  readonly #ranges: readonly Range[];
  /** Elements that one operation handles at most. */
  readonly #most: number;
  readonly #bucketOf: Int32Array;
  /** This rank's gradient [T], and after the exchange the sum over ranks in its slices; null for ZeRO 2 and 3. */
  readonly own: Tensor | null;
  /** Sum over ranks of the slices, [H], from the first that arrives to `drop`; null for ZeRO 1. */
  #sum: Tensor | null = null;
  /** Gradients of the buckets of this micro-batch, each [n], for ZeRO 2 and 3. */
  readonly #staged = new Map<number, Tensor>();
  /** 1 where the gradient of a parameter has begun; 0 where the content of its place is stale. */
  readonly #filled: Uint8Array;
  /** 1 where the gradient of a parameter is final in this pass. */
  readonly #final: Uint8Array;
  /** 1 where the gradient of a parameter is final in this micro-batch, in later passes too. */
  readonly #settled: Uint8Array;
  /** 1 where a bucket was sent in this step. */
  readonly #begun: Uint8Array;
  /** Buckets before the late ones, which are sent in every pass. */
  readonly #early: number;
  /** Micro-batches of the step: of this rank, for ZeRO 2 of the rank with most; null where they were not announced. */
  #rounds: number | null = null;
  #round = 0;
  /** Passes of a micro-batch through the decoder; of ZeRO 1, which waits for the last, 1. */
  #passes = 1;
  #pass = 0;
  /** First bucket that was not sent in this pass. */
  #next = 0;
  readonly #sendings: Sending[] = [];
  #finished = false;

  /** `ranges` cover the buffer in order. ZeRO 2 is for ranks that share no memory; others read each other's gradients in place. */
  constructor(
    engine: Engine,
    workers: WorkerGroup,
    ranges: readonly Range[],
    { zero = 1, bucket = BUCKET }: ExchangeOptions = {},
  ) {
    this.#engine = engine;
    this.#workers = workers;
    this.#ranges = ranges;
    this.#most = bucket;
    this.buckets = bucketsOf(ranges, bucket);
    this.#shares = sharesOf(this.buckets, workers.size);
    this.slices = slicesOf(this.buckets, workers.rank, workers.size, workers.sharesMemory);
    this.held = this.slices.reduce((sum, { start, end }) => sum + end - start, 0);
    this.#bucketOf = new Int32Array(ranges.length);
    this.buckets.forEach(({ indices }, at) => {
      for (const index of indices) this.#bucketOf[index] = at;
    });
    const total = ranges.reduce((sum, { size }) => sum + size, 0);
    const sharded = zero > 1 && !workers.sharesMemory && workers.size > 1;
    this.own = sharded ? null : engine.zeros([total]);
    this.#filled = new Uint8Array(ranges.length);
    this.#final = new Uint8Array(ranges.length);
    this.#settled = new Uint8Array(ranges.length);
    this.#begun = new Uint8Array(this.buckets.length);
    this.#early = this.buckets.filter(({ indices: [index] }) => ranges[index!]!.late !== true).length;
  }

  /** Bytes held throughout: of ZeRO 2 and 3 none, because the sum is there in an update alone. */
  get bytes(): number {
    return 4 * (this.own?.shape[0] ?? 0);
  }

  /** The sum over ranks of a slice's gradient from element `start` of the buffer on, as a view [n]. */
  summed({ start, at }: Slice, from: number, length: number): Tensor {
    const engine = this.#engine;
    return this.own === null
      ? engine.narrow(this.#sum!, 0, at + from - start, length)
      : engine.narrow(this.own, 0, from, length);
  }

  /**
   * Announces the micro-batches of the next step on this rank and the passes of each, so that the exchange begins before `finish`. ZeRO 2
   * and 3 require it, and then it is collective. @returns the micro-batches that this rank takes part in
   */
  begin(rounds: number, passes = 1): number {
    const { sharesMemory } = this.#workers;
    if (sharesMemory || this.own !== null) {
      if (!sharesMemory) this.#rounds = rounds;
      return rounds;
    }
    this.#rounds = Math.max(1, ...this.#workers.allGather([rounds]).map(([count]) => count!));
    this.#passes = passes;
    return this.#rounds;
  }

  /**
   * Adds this rank's gradient of a parameter, of any float dtype and its shape. `last`: undefined for a part of a pass's gradient; else the pass is
   * complete, and true says that it was the last of the micro-batch.
   */
  add(index: number, gradient: Tensor, last?: boolean): void {
    const engine = this.#engine;
    const { offset, late = false } = this.#ranges[index]!;
    const early = this.#pass < this.#passes - 1;
    if (this.#sends && early && !late && this.#final[index] === 1) this.endPass(); // it is the next pass
    const [into, at] = this.own === null ? this.#stagedAt(index) : [this.own, offset];
    engine.noGrad(() =>
      engine.scope(() => {
        const flat = engine.reshape(gradient, [-1]);
        if (this.#filled[index] === 1) engine.addInto(into, 0, at, flat);
        else engine.write(into, 0, at, flat);
      }),
    );
    this.#filled[index] = 1;
    if (last === true) this.finalise(index);
    else if (last === false && this.#pass < this.#passes - 1 && !late) this.#finalInPass(index);
  }

  #stagedAt(index: number): [bucket: Tensor, at: number] {
    const at = this.#bucketOf[index]!;
    const { start, end } = this.buckets[at]!;
    const bucket = getOrMake(this.#staged, at, () =>
      this.#engine.unscoped(() => this.#engine.zeros([end - start])),
    );
    return [bucket, this.#ranges[index]!.offset - start];
  }

  /** Ends the gradient of a parameter in this micro-batch. */
  finalise(index: number): void {
    this.#settled[index] = 1;
    this.#finalInPass(index);
  }

  /** Says that parameters get no further gradient from this pass, for a rank without a micro-batch of its own. */
  pass(indices: Iterable<number>): void {
    for (const index of indices) {
      if (this.#pass === this.#passes - 1) this.finalise(index);
      else this.#finalInPass(index);
    }
  }

  #finalInPass(index: number): void {
    this.#final[index] = 1;
    if (this.#sends) this.#sendFinal();
  }

  /** True in a pass whose gradients are sent. */
  get #sends(): boolean {
    const { size, sharesMemory } = this.#workers;
    if (size === 1 || sharesMemory || this.#rounds === null) return false;
    return this.own === null || this.#round === this.#rounds - 1;
  }

  #sendFinal(): void {
    for (;;) {
      if (this.#next === (this.#pass < this.#passes - 1 ? this.#early : this.buckets.length)) return;
      if (!this.buckets[this.#next]!.indices.every((index) => this.#final[index] === 1)) return;
      this.#send(this.#next++);
    }
  }

  /** Ends a micro-batch: what no gradient came for has none. */
  endRound(): void {
    while (this.#sends && this.#pass < this.#passes - 1) this.endPass();
    this.endPass();
    this.#settled.fill(0);
    this.#final.fill(0);
    this.#pass = 0;
    this.#round++;
  }

  /** Ends a pass of the micro-batch. */
  endPass(): void {
    this.#final.fill(1);
    if (this.#sends) {
      this.#sendFinal();
      if (this.own === null) {
        for (const { indices } of this.buckets.slice(0, this.#next))
          for (const index of indices) this.#filled[index] = 0;
        this.#next = 0;
      }
    }
    this.#final.set(this.#settled);
    this.#pass++;
  }

  /** Starts the exchange of a bucket. */
  #send(index: number): void {
    const engine = this.#engine;
    const { rank, size } = this.#workers;
    const { start, end, indices } = this.buckets[index]!;
    if (this.own !== null) this.#clear(this.own, indices);
    const staged =
      this.own === null
        ? (this.#staged.get(index) ?? engine.unscoped(() => engine.zeros([end - start])))
        : null;
    this.#staged.delete(index);
    const shares = this.#shares.map((of) => of[index]!);
    const longest = Math.max(...shares.map(([from, to]) => to - from));
    const row = Math.ceil(this.#most / size);
    for (let at = 0; at < longest; at += row) {
      const pieces: Piece[] = [];
      engine.scope(() => {
        for (const [owner, [from, to]] of shares.entries()) {
          const length = Math.min(row, to - from - at);
          if (length <= 0) continue;
          const first = from + at;
          const part = engine.narrow(this.own ?? staged!, 0, staged === null ? first : first - start, length);
          const parts =
            owner === rank
              ? engine.unscoped(() => Array.from({ length: size }, () => engine.zeros([length]))) // [R][n]
              : [];
          pieces.push({ start: first, parts, arrived: this.#workers.gatherTensor(part, parts, owner) });
        }
      });
      const last = at + row >= longest;
      this.#sendings.push({
        bucket: index,
        pieces,
        first: this.#begun[index] === 0,
        spent: last ? staged : null,
      });
      while (this.#sendings.length > UNDER_WAY) this.#receive();
    }
    this.#begun[index] = 1;
  }

  /** Waits for the oldest row that is under way, and adds it up. */
  #receive(): void {
    const engine = this.#engine;
    const { bucket, pieces, first, spent } = this.#sendings.shift()!;
    for (const { start, parts, arrived } of pieces) {
      arrived();
      if (parts.length === 0) continue; // a piece of another rank
      if (this.own === null) this.#sum ??= engine.unscoped(() => engine.zeros([this.held]));
      const [into, at] =
        this.own !== null
          ? [this.own, start]
          : [this.#sum!, this.slices[bucket]!.at + start - this.slices[bucket]!.start];
      parts.forEach((part, r) => {
        if (r === 0 && (this.own !== null || first)) engine.write(into, 0, at, part);
        else engine.addInto(into, 0, at, part);
      });
      engine.dispose(...parts);
    }
    if (spent !== null) engine.dispose(spent);
  }

  /** Zeros the places of parameters without a gradient in this step. */
  #clear(own: Tensor, indices: Iterable<number>): void {
    const engine = this.#engine;
    for (const index of indices) {
      if (this.#filled[index] === 1) continue;
      const { offset, size } = this.#ranges[index]!;
      for (let at = 0; at < size; at += this.#most) {
        engine.scope(() =>
          engine.write(own, 0, offset + at, engine.zeros([Math.min(this.#most, size - at)])),
        );
      }
    }
  }

  /** Ends the step's gradients: then `summed` is that of all ranks, or where memory is shared `own` this rank's. Collective. */
  finish(): void {
    if (this.#finished) return;
    this.#finished = true;
    const { size, sharesMemory } = this.#workers;
    if (sharesMemory || size === 1) {
      if (this.own !== null) this.#clear(this.own, this.#ranges.keys());
      if (sharesMemory) this.#workers.barrier(); // every rank's gradient is complete
      return;
    }
    if (this.own !== null) {
      this.#rounds = this.#round + 1; // what is not sent yet is sent now
      if (this.#next < this.buckets.length) this.endRound();
    } else {
      if (this.#rounds === null)
        throw new Error('ZeRO 2 and 3: the micro-batches of a step were not announced');
      while (this.#round < this.#rounds) this.endRound(); // others have more micro-batches
    }
    while (this.#sendings.length > 0) this.#receive();
  }

  /** Drops the gradients of a step. */
  drop(): void {
    // Of a step that failed; the others fail too.
    for (const { pieces, spent } of this.#sendings.splice(0)) {
      this.#engine.dispose(...pieces.flatMap(({ parts }) => parts), ...(spent === null ? [] : [spent]));
    }
    this.#engine.dispose(...this.#staged.values(), ...(this.#sum === null ? [] : [this.#sum]));
    this.#staged.clear();
    this.#sum = null;
    this.#filled.fill(0);
    this.#final.fill(0);
    this.#settled.fill(0);
    this.#begun.fill(0);
    this.#rounds = null;
    this.#round = 0;
    this.#pass = 0;
    this.#next = 0;
    this.#finished = false;
  }

  dispose(): void {
    this.drop();
    if (this.own !== null) this.#engine.dispose(this.own);
  }
}
